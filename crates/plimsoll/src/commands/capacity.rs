//! `plimsoll capacity`: how many more pods fit.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};

use anyhow::{Result, ensure};
use plimsoll_advisor::{Limits, Remedy, Subject};
use plimsoll_api::{ObjectKey, Pod, PodPhase};
use plimsoll_engine::{Profile, Scheduler};
use plimsoll_framework::Registry;
use plimsoll_sim::{InitialCluster, PlacedCopy, Simulation};
use serde_json::Value;

use super::Scene;
use crate::alternatives::alternatives;
use crate::args::{Capacity, Format};
use crate::input;
use crate::options::Setup;
use crate::render::capacity as render;
use crate::render::style::Screen;
use crate::report::{CapacityAnswer, Shape};

/// Ties are broken by name.
const SEED: u64 = 0;

/// Answers for the pods of files, or for each sort of pod of the cluster.
pub(crate) fn run(args: &Capacity, registry: &Registry) -> Result<()> {
    let Scene { setup, mut cluster } = Scene::read(&args.cluster, registry)?;
    let profiles = |setup: &Setup| {
        Profile::all_of(&setup.configuration.profile_specs(), registry, &setup.gates)
    };
    if args.after_pending {
        let scheduler = Scheduler::new(profiles(&setup)?, setup.options(), SEED)?;
        cluster = at_the_end(scheduler, cluster);
    }
    let scheduler = Scheduler::new(profiles(&setup)?, setup.options(), SEED)?;
    let mut simulation = Simulation::new(scheduler, cluster.clone());
    let now = simulation.now();
    let mut shapes = Vec::new();
    if args.all_shapes {
        for pod in one_of_each_controller(&cluster) {
            let scheduler = simulation.scheduler_mut();
            if setup.is_for(&pod.scheduler_name) {
                let (more, _) = plimsoll_sim::capacity(scheduler, now, &[pod], args.limit)?;
                shapes.extend(
                    more.into_iter().map(|capacity| Shape { capacity, remedies: Vec::new() }),
                );
            }
        }
    } else {
        let sources = input::read(&args.pod_file)?;
        let given = input::shapes(&sources)?;
        for (pod, _) in &given {
            ensure!(
                setup.is_for(&pod.scheduler_name),
                "pod {} belongs to scheduler {}, and no profile has that name",
                pod.key,
                pod.scheduler_name,
            );
        }
        let pods: Vec<Pod> = given.iter().map(|(pod, _)| pod.clone()).collect();
        let scheduler = simulation.scheduler_mut();
        let (capacities, copies) = plimsoll_sim::capacity(scheduler, now, &pods, args.limit)?;
        for (capacity, (pod, manifest)) in capacities.into_iter().zip(given) {
            let is_stopped = capacity.stopped_by.is_some() && 0 < args.remedies;
            let remedies = if is_stopped {
                let scheduler = Scheduler::new(profiles(&setup)?, setup.options(), SEED)?;
                let full = filled(&cluster, &copies, pod.clone());
                let about = (&setup, registry, args.remedies);
                remedies(scheduler, full, (&pod, &manifest), about)?
            } else {
                Vec::new()
            };
            shapes.push(Shape { capacity, remedies });
        }
    }
    let answer = CapacityAnswer { shapes };
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

/// The cluster after its pending pods were placed.
fn at_the_end(scheduler: Scheduler, cluster: InitialCluster) -> InitialCluster {
    let mut simulation = Simulation::new(scheduler, cluster);
    simulation.bind_in_turn();
    while simulation.advance().is_some() {}
    InitialCluster::from(simulation.scheduler().snapshot(simulation.now()))
}

/// A pod of each controller, by the names of the controllers; the pods of the ReplicaSets of a Deployment are of one sort
/// only if they have the same name but for a hash.
fn one_of_each_controller(cluster: &InitialCluster) -> Vec<Pod> {
    let mut shapes: BTreeMap<ObjectKey, &Pod> = BTreeMap::new();
    for pod in cluster.pods.iter().filter(|pod| pod.phase != PodPhase::Ended) {
        let Some(controller) = &pod.controller else { continue };
        if matches!(controller.kind.as_str(), "DaemonSet" | "Node") {
            continue;
        }
        let key = ObjectKey::new(pod.key.namespace.clone(), controller.name.clone());
        shapes.entry(key).or_insert(pod);
    }
    let shapes = shapes.into_iter().map(|(controller, pod)| Pod { key: controller, ..pod.clone() });
    shapes.collect()
}

/// The cluster with the copies on their nodes, and one more pod.
fn filled(cluster: &InitialCluster, copies: &[PlacedCopy], pod: Pod) -> InitialCluster {
    let mut full = cluster.clone();
    full.pods.retain(|known| known.key != pod.key);
    full.pods.extend(
        copies.iter().map(|(copy, node)| Pod { node_name: Some(node.clone()), ..Pod::clone(copy) }),
    );
    full.pods.push(Pod { node_name: None, ..pod });
    full
}

/// What would let one more pod in.
fn remedies(
    scheduler: Scheduler,
    full: InitialCluster,
    (pod, manifest): (&Pod, &Value),
    (setup, registry, n): (&Setup, &Registry, usize),
) -> Result<Vec<Remedy>> {
    let mut simulation = Simulation::new(scheduler, full);
    let now = simulation.now();
    let made_from = (registry, &setup.gates);
    let alternatives = alternatives(&setup.configuration, made_from, &pod.scheduler_name)?;
    let limits = Limits { remedies: n, nearest: 0, ..Limits::default() };
    let subject =
        Subject { pod: &pod.key, manifest, alternatives: &alternatives, limits, pending: None };
    Ok(plimsoll_advisor::why(simulation.scheduler_mut(), now, &subject)?.remedies)
}
