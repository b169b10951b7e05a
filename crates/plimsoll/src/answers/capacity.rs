//! How many more pods fit.

use std::borrow::Cow;

use anyhow::{Result, ensure};
use plimsoll_advisor::{Limits, Manifests, Remedy, Subject, lower_request, requested_resources};
use plimsoll_api::Pod;
use plimsoll_engine::Scheduler;
use plimsoll_framework::Time;
use plimsoll_sim::{InitialCluster, PlacedCopy, Simulation};
use serde_json::Value;

use super::{Deciders, decided_by};
use crate::alternatives::alternatives;
use crate::canary::{Canaries, CanaryChoice};
use crate::input::read_pod;
use crate::report::{CapacityAnswer, Shape, SmallerRequest};

/// Requests are lowered in steps of this part.
const STEPS: i64 = 20;
/// With more copies than this it takes too long to count them again for each step.
const MOST_COPIES: usize = 20_000;

/// Lets rules choose the profiles of pods that are asked about, and returns what they chose.
pub(crate) fn choose_profiles(
    canaries: Option<&Canaries>,
    given: &mut [(Pod, Value)],
) -> Vec<Option<CanaryChoice>> {
    let choose = |(pod, manifest): &mut (Pod, Value)| {
        let choice = canaries?.assign_to(pod)?;
        if let Cow::Owned(decided) = decided_by(manifest, Some(&choice.profile)) {
            *manifest = decided;
        }
        Some(choice)
    };
    given.iter_mut().map(choose).collect()
}

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
        ensure!(
            pod.scheduling_group.is_none() || !deciders.options.gates.groups.generic_workload,
            "pod {} belongs to a group (spec.schedulingGroup), which is placed as a whole: ask `plimsoll what-if --apply` \
             whether one more group fits, or leave the field out to count single pods",
            pod.key,
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
        let mut shape = Shape { remedies, ..Shape::from(capacity) };
        if shape.capacity.stopped_by.is_some() && given.len() == 1 {
            let fits = shape.capacity.fits;
            shape.smaller_requests = smaller_requests(scheduler, now, (pod, manifest), fits)?;
        }
        shapes.push(shape);
    }
    Ok(CapacityAnswer { shapes })
}

/// For each resource that the pod requests, the largest request with which a tenth more copies fit than the `fits` that fit now.
fn smaller_requests(
    scheduler: &mut Scheduler,
    now: Time,
    (pod, manifest): (&Pod, &Value),
    fits: usize,
) -> Result<Vec<SmallerRequest>> {
    let wanted = fits + fits.div_ceil(10).max(1);
    let mut found = Vec::new();
    if MOST_COPIES < wanted {
        return Ok(found);
    }
    for name in requested_resources(pod) {
        let asked = pod.requests.get(&name);
        let lowered = |steps: i64| {
            let mut lower = manifest.clone();
            let total = i128::from(asked) * i128::from(STEPS - steps) / i128::from(STEPS);
            let text = lower_request(&mut lower, &name, i64::try_from(total).ok()?)?;
            Some((text, read_pod(&lower).ok()?))
        };
        let (mut enough, mut too_little) = (STEPS, 0);
        while 1 < enough - too_little {
            let middle = too_little + (enough - too_little) / 2;
            let n = match lowered(middle) {
                Some((_, smaller)) => n_copies(scheduler, now, smaller, wanted)?,
                None => 0,
            };
            if wanted <= n {
                enough = middle;
            } else {
                too_little = middle;
            }
        }
        if let Some((text, _)) = lowered(enough).filter(|_| enough < STEPS) {
            found.push(SmallerRequest { text, pods: wanted - fits });
        }
    }
    Ok(found)
}

/// How many copies of a pod fit, up to `wanted`.
fn n_copies(scheduler: &mut Scheduler, now: Time, pod: Pod, wanted: usize) -> Result<usize> {
    let (capacities, _) = plimsoll_sim::capacity(scheduler, now, &[pod], wanted)?;
    Ok(capacities.first().map_or(0, |capacity| capacity.fits))
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
    let subject = Subject {
        pod: &pod.key,
        manifest,
        manifests: Manifests::none(),
        alternatives: &alternatives,
        limits,
        pending: None,
    };
    Ok(plimsoll_advisor::why(simulation.scheduler_mut(), now, &subject)?.remedies)
}
