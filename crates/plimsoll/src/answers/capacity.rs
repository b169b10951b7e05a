//! How many more pods fit.

use anyhow::{Result, ensure};
use plimsoll_advisor::{Limits, Remedy, Subject};
use plimsoll_api::Pod;
use plimsoll_sim::{InitialCluster, PlacedCopy, Simulation};
use serde_json::Value;

use super::Deciders;
use crate::alternatives::alternatives;
use crate::report::{CapacityAnswer, Shape};

/// Answers for these pods, which take turns; each has its manifest. `limit` is about all copies, and `n_remedies` about the
/// changes that would let one more in.
pub(crate) fn of_pods(
    deciders: Deciders<'_>,
    cluster: &InitialCluster,
    given: &[(Pod, Value)],
    (limit, n_remedies): (usize, usize),
) -> Result<CapacityAnswer> {
    for (pod, _) in given {
        ensure!(
            deciders.is_for(&pod.scheduler_name),
            "pod {} belongs to scheduler {}, and no profile has that name",
            pod.key,
            pod.scheduler_name,
        );
    }
    let mut simulation = Simulation::new(deciders.scheduler()?, cluster.clone());
    let now = simulation.now();
    let pods: Vec<Pod> = given.iter().map(|(pod, _)| pod.clone()).collect();
    let scheduler = simulation.scheduler_mut();
    let (capacities, copies) = plimsoll_sim::capacity(scheduler, now, &pods, limit)?;
    let mut shapes = Vec::new();
    for (capacity, (pod, manifest)) in capacities.into_iter().zip(given) {
        let mut remedies = Vec::new();
        if capacity.stopped_by.is_some() && 0 < n_remedies {
            let full = filled(cluster, &copies, pod.clone());
            remedies = one_more(deciders, full, (pod, manifest), n_remedies)?;
        }
        shapes.push(Shape { capacity, remedies });
    }
    Ok(CapacityAnswer { shapes })
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
fn one_more(
    deciders: Deciders<'_>,
    full: InitialCluster,
    (pod, manifest): (&Pod, &Value),
    n: usize,
) -> Result<Vec<Remedy>> {
    let mut simulation = Simulation::new(deciders.scheduler()?, full);
    let now = simulation.now();
    let made_from = (deciders.registry, deciders.gates);
    let alternatives = alternatives(deciders.configuration, made_from, &pod.scheduler_name)?;
    let limits = Limits { remedies: n, nearest: 0, ..Limits::default() };
    let subject =
        Subject { pod: &pod.key, manifest, alternatives: &alternatives, limits, pending: None };
    Ok(plimsoll_advisor::why(simulation.scheduler_mut(), now, &subject)?.remedies)
}
