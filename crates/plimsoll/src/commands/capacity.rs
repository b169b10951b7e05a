//! `plimsoll capacity`: how many more pods and groups of pods fit.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};

use anyhow::Result;
use plimsoll_api::{ObjectKey, Pod, PodKey, PodPhase, Str};
use plimsoll_framework::Registry;
use plimsoll_sim::{InitialCluster, Simulation};
use serde_json::Value;

use super::Scene;
use super::explain_group::check_known;
use crate::answers::groups::check_on;
use crate::answers::rebalance::after_pending;
use crate::answers::shapes::{self, Given};
use crate::answers::{Deciders, capacity};
use crate::args::{Capacity, Format};
use crate::canary::Canaries;
use crate::input::{self, Described};
use crate::render::capacity as render;
use crate::render::style::Screen;
use crate::report::{CapacityAnswer, Shape};

/// Answers for the pods of files, for a group of the cluster, or for each sort of pod of the cluster.
pub(crate) fn run(args: &Capacity, registry: &Registry) -> Result<()> {
    let asked = input::read(&args.pod_file)?;
    let scene = Scene::read_beside(&args.cluster, &asked, registry)?;
    let Scene { setup, mut cluster, sources } = scene;
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
        all_shapes(deciders, &cluster, (canaries.as_ref(), &own_names), args.limit)?
    } else {
        let options = &deciders.options;
        let mut given = if let Some(group) = &args.group {
            check_on(options)?;
            check_known(&cluster, group)?;
            let manifests = input::Manifests::of(&sources, &registry.kinds());
            let find = |name: &str| manifests.find(name);
            let mut given =
                vec![Given::Group(shapes::of_cluster(group, options, &cluster, &find)?)];
            with_own_names(&mut given, &own_names);
            given
        } else {
            let described = Described::of(&asked)?;
            shapes::given(described, options, &cluster)?
        };
        let chosen = capacity::choose_profiles(canaries.as_ref(), &mut given);
        capacity::of_given(deciders, &cluster, &given, (args.limit, args.remedies))?.with(chosen)
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

/// Gives pods the scheduler names that they have of themselves, so that rules can choose again.
fn with_own_names(given: &mut [Given], own_names: &BTreeMap<PodKey, Str>) {
    for pod in given.iter_mut().flat_map(Given::pods_mut) {
        if let Some(name) = own_names.get(&pod.key) {
            pod.scheduler_name.clone_from(name);
        }
    }
}

/// Answers for one pod of each controller of the cluster and for each of its groups, each by itself. With rules that choose
/// profiles `own_names` has the names that pods have of themselves.
fn all_shapes(
    deciders: Deciders<'_>,
    cluster: &InitialCluster,
    (canaries, own_names): (Option<&Canaries>, &BTreeMap<PodKey, Str>),
    limit: usize,
) -> Result<CapacityAnswer> {
    let has_groups = deciders.options.gates.groups.generic_workload;
    let single = one_of_each_controller(cluster).into_iter().filter(|(_, pod)| {
        // A group is placed as a whole: single pods of it say nothing.
        !has_groups || pod.scheduling_group.is_none()
    });
    let mut given: Vec<Given> = single.map(|(_, pod)| Given::Pod((pod, Value::Null))).collect();
    let groups = shapes::all_of_cluster(&deciders.options, cluster);
    given.extend(groups.into_iter().map(Given::Group));
    with_own_names(&mut given, own_names);
    let chosen = capacity::choose_profiles(canaries, &mut given);
    let mut simulation = Simulation::new(deciders.scheduler()?, cluster.clone());
    let (now, mut shapes) = (simulation.now(), Vec::new());
    for (given, canary) in given.into_iter().zip(chosen) {
        if !given.pods().all(|pod| deciders.is_for(&pod.scheduler_name)) {
            continue;
        }
        let shape = match given.shape() {
            // It is shown by the name of its controller.
            plimsoll_sim::Shape::Pod(mut pod) => {
                if let Some(controller) = &pod.controller {
                    pod.key = ObjectKey::new(pod.key.namespace.clone(), controller.name.clone());
                }
                plimsoll_sim::Shape::Pod(pod)
            }
            group @ plimsoll_sim::Shape::Group(_) => group,
        };
        let (more, _) = plimsoll_sim::capacity(simulation.scheduler_mut(), now, &[shape], limit)?;
        let shape = |more| Shape { canary: canary.clone(), ..Shape::from(more) };
        shapes.extend(more.into_iter().map(shape));
    }
    Ok(CapacityAnswer { shapes })
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
