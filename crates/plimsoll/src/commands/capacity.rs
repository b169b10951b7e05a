//! `plimsoll capacity`: how many more pods fit.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};

use anyhow::Result;
use plimsoll_api::{ObjectKey, Pod, PodKey, PodPhase, Str};
use plimsoll_framework::Registry;
use plimsoll_sim::{InitialCluster, Simulation};

use super::Scene;
use crate::answers::rebalance::after_pending;
use crate::answers::{Deciders, capacity};
use crate::args::{Capacity, Format};
use crate::canary::Canaries;
use crate::input;
use crate::render::capacity as render;
use crate::render::style::Screen;
use crate::report::{CapacityAnswer, Shape};

/// Answers for the pods of files, or for each sort of pod of the cluster.
pub(crate) fn run(args: &Capacity, registry: &Registry) -> Result<()> {
    let Scene { setup, mut cluster, .. } = Scene::read(&args.cluster, registry)?;
    let deciders = Deciders::of(&setup, registry);
    let canaries = Canaries::new(&args.canary, &setup)?;
    let mut own_names: BTreeMap<PodKey, Str> = BTreeMap::new();
    if let Some(canaries) = &canaries {
        let names = cluster.pods.iter().map(|pod| (pod.key.clone(), pod.scheduler_name.clone()));
        own_names.extend(names);
        canaries.assign(&mut cluster);
    }
    if args.after_pending {
        cluster = after_pending(deciders.scheduler()?, cluster, usize::MAX)?;
    }
    let answer = if args.all_shapes {
        let mut simulation = Simulation::new(deciders.scheduler()?, cluster.clone());
        let (now, mut shapes) = (simulation.now(), Vec::new());
        let has_groups = deciders.options.gates.groups.generic_workload;
        for (controller, mut pod) in one_of_each_controller(&cluster) {
            if let Some(name) = own_names.get(&pod.key) {
                pod.scheduler_name.clone_from(name);
            }
            let canary = canaries.as_ref().and_then(|canaries| canaries.assign_to(&mut pod));
            let pod = Pod { key: controller, ..pod };
            let scheduler = simulation.scheduler_mut();
            // A group is placed as a whole: single pods of it say nothing.
            let is_single = !has_groups || pod.scheduling_group.is_none();
            if is_single && deciders.is_for(&pod.scheduler_name) {
                let (more, _) = plimsoll_sim::capacity(scheduler, now, &[pod], args.limit)?;
                let shape = |more| Shape { canary: canary.clone(), ..Shape::from(more) };
                shapes.extend(more.into_iter().map(shape));
            }
        }
        CapacityAnswer { shapes }
    } else {
        let mut given = input::shapes(&input::read(&args.pod_file)?)?;
        let chosen = capacity::choose_profiles(canaries.as_ref(), &mut given);
        capacity::of_pods(deciders, &cluster, &given, (args.limit, args.remedies))?.with(chosen)
    };
    match args.output.format {
        Format::Json => {
            let mut out = BufWriter::new(io::stdout().lock());
            serde_json::to_writer(&mut out, &answer)?;
            writeln!(out)?;
            out.flush()?;
        }
        Format::Table => render::answer(&mut anstream::stdout(), &answer, Screen::stdout())?,
    }
    Ok(())
}

/// A pod of each controller, by the names of the controllers; the pods of the ReplicaSets of a Deployment are of one sort
/// only if they have the same name but for a hash.
fn one_of_each_controller(cluster: &InitialCluster) -> Vec<(ObjectKey, Pod)> {
    let mut shapes: BTreeMap<ObjectKey, &Pod> = BTreeMap::new();
    for pod in cluster.pods.iter().filter(|pod| pod.phase != PodPhase::Ended) {
        let Some(controller) = &pod.controller else { continue };
        if matches!(controller.kind.as_str(), "DaemonSet" | "Node") {
            continue;
        }
        let key = ObjectKey::new(pod.key.namespace.clone(), controller.name.clone());
        shapes.entry(key).or_insert(pod);
    }
    shapes.into_iter().map(|(controller, pod)| (controller, pod.clone())).collect()
}
