//! How many more pods and groups of pods fit.

use std::borrow::Cow;
use std::collections::BTreeSet;

use anyhow::{Result, bail, ensure};
use plimsoll_advisor::{
    GroupRemedy, GroupSubject, Limits, Manifests, Reference, Remedy, Subject, lower_request,
    requested_resources,
};
use plimsoll_api::{AnyObject, ObjectKey, Pod, ResourceClaim};
use plimsoll_engine::Scheduler;
use plimsoll_framework::Time;
use plimsoll_sim::{Copies, InitialCluster, PlacedCopy, PodShape, Simulation};

use super::shapes::{Given, GivenGroup};
use super::{Deciders, decided_by};
use crate::alternatives::alternatives;
use crate::canary::{Canaries, CanaryChoice};
use crate::input::{DescribedPod, read_pod};
use crate::report::{CapacityAnswer, Remedies, Shape, SmallerRequest};

/// Requests are lowered in steps of this part.
const STEPS: i64 = 20;
/// With more copies than this it takes too long to count them again for each step.
const MOST_COPIES: usize = 20_000;

/// So many more changes are looked for as may be those that evict copies, which are left out.
const OVER_COPIES: usize = 8;

/// Lets rules choose the profiles of what is asked about, and returns what they chose.
pub(crate) fn choose_profiles(
    canaries: Option<&Canaries>,
    given: &mut [Given],
) -> Vec<Option<CanaryChoice>> {
    given.iter_mut().map(|given| choose_profile(canaries?, given)).collect()
}

/// The same for one pod or group. The pods of a group have one profile.
pub(crate) fn choose_profile(canaries: &Canaries, given: &mut Given) -> Option<CanaryChoice> {
    let choose = |(pod, manifest): &mut DescribedPod| {
        let choice = canaries.assign_to(pod)?;
        if let Cow::Owned(decided) = decided_by(manifest, Some(&choice.profile)) {
            *manifest = decided;
        }
        Some(choice)
    };
    match given {
        Given::Pod(pod) => choose(pod),
        Given::Group(group) => group.pods.iter_mut().filter_map(choose).last(),
    }
}

/// Answers for these pods and groups, which take turns. `limit` is about the pods of all copies, and `n_remedies` about the
/// changes that would let one more in.
pub(crate) fn of_given(
    deciders: Deciders<'_>,
    cluster: &InitialCluster,
    given: &[Given],
    (limit, n_remedies): (usize, usize),
) -> Result<CapacityAnswer> {
    for pod in given.iter().flat_map(Given::pods) {
        ensure!(
            deciders.is_for(&pod.scheduler_name),
            "pod {} belongs to scheduler {}, and no profile has that name",
            pod.key,
            pod.scheduler_name,
        );
    }
    let shapes: Vec<_> = given.iter().map(|one| one.shape(cluster)).collect();
    for (shape, given) in shapes.iter().zip(given) {
        if let (plimsoll_sim::Shape::Pod(shape), Given::Pod((pod, _))) = (shape, given)
            && let Some(template) = shape.unknown_templates().next()
        {
            bail!(
                "pod {} claims devices by ResourceClaimTemplate {template} (spec.resourceClaims), which is not there or may not be \
                 read: add it to the cluster, or ask somebody who may read it",
                pod.key,
            );
        }
    }
    let mut simulation = Simulation::new(deciders.scheduler()?, cluster.clone());
    let now = simulation.now();
    let scheduler = simulation.scheduler_mut();
    let (capacities, copies) = plimsoll_sim::capacity(scheduler, now, &shapes, limit)?;
    let (n_given, mut shapes) = (given.len(), Vec::new());
    for (capacity, given) in capacities.into_iter().zip(given) {
        let mut shape = Shape::new(given.copied(), capacity);
        let is_stopped = shape.capacity.stopped_by.is_some();
        if is_stopped && 0 < n_remedies {
            let full = filled(cluster, &copies);
            shape.remedies = match given {
                Given::Pod(pod) => {
                    Remedies::Pod(one_more(deciders, (full, &copies), pod, n_remedies)?)
                }
                Given::Group(group) => {
                    Remedies::Group(one_more_group(deciders, (full, &copies), group, n_remedies)?)
                }
            };
        }
        if let (Given::Pod(pod), true) = (given, is_stopped && n_given == 1) {
            let fits = shape.capacity.fits;
            shape.smaller_requests = smaller_requests(scheduler, now, (pod, cluster), fits)?;
        }
        shapes.push(shape);
    }
    Ok(CapacityAnswer { shapes })
}

/// For each resource that the pod requests, the largest request with which a tenth more copies fit than the `fits` that fit now.
fn smaller_requests(
    scheduler: &mut Scheduler,
    now: Time,
    ((pod, manifest), cluster): (&DescribedPod, &InitialCluster),
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
                Some((_, smaller)) => {
                    let shape = PodShape::of(as_claimed(smaller, pod), cluster);
                    n_copies(scheduler, now, shape, wanted)?
                }
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
fn n_copies(scheduler: &mut Scheduler, now: Time, shape: PodShape, wanted: usize) -> Result<usize> {
    let shapes = [plimsoll_sim::Shape::Pod(Box::new(shape))];
    let (capacities, _) = plimsoll_sim::capacity(scheduler, now, &shapes, wanted)?;
    Ok(capacities.first().map_or(0, |capacity| capacity.fits))
}

/// A pod with the claims that were made for another one like it.
fn as_claimed(pod: Pod, like: &Pod) -> Pod {
    Pod { devices: like.devices.clone(), ..pod }
}

/// The cluster with the copies on their nodes.
fn filled(cluster: &InitialCluster, copies: &Copies) -> InitialCluster {
    let mut full = cluster.clone();
    let pods = copies.pods.iter();
    let placed =
        |(copy, node): &PlacedCopy| Pod { node_name: Some(node.clone()), ..Pod::clone(copy) };
    full.pods.extend(pods.map(placed));
    full.objects.extend(copies.groups.iter().cloned().map(AnyObject::new));
    let claimed: BTreeSet<&ObjectKey> = copies.claims.iter().map(|claim| &claim.key).collect();
    let is_old =
        |one: &AnyObject| one.get::<ResourceClaim>().is_some_and(|old| claimed.contains(&old.key));
    full.objects.retain(|one| !is_old(one));
    full.objects.extend(copies.claims.iter().cloned().map(AnyObject::new));
    full
}

/// What would let one more pod into a full cluster.
fn one_more(
    deciders: Deciders<'_>,
    (mut full, copies): (InitialCluster, &Copies),
    (pod, manifest): &DescribedPod,
    n: usize,
) -> Result<Vec<Remedy>> {
    full.pods.retain(|known| known.key != pod.key);
    full.pods.push(Pod { node_name: None, ..pod.clone() });
    if !pod.resource_claims.is_empty() {
        // Its claims are made.
        full = full.settled();
    }
    let mut simulation = Simulation::new(deciders.scheduler()?, full);
    let now = simulation.now();
    let made_from = (deciders.registry, deciders.gates);
    let alternatives = alternatives(deciders.configuration, made_from, &pod.scheduler_name)?;
    let remedies = n.saturating_add(OVER_COPIES);
    let limits = Limits { remedies, nearest: 0, ..Limits::default() };
    let subject = Subject {
        pod: &pod.key,
        manifest,
        manifests: Manifests::none(),
        alternatives: &alternatives,
        limits,
        pending: None,
    };
    let why = plimsoll_advisor::why(simulation.scheduler_mut(), now, &subject)?;
    let mut remedies = why.remedies;
    let is_evicted = evicts(copies);
    remedies.retain(|remedy| !is_evicted(&remedy.text));
    remedies.truncate(n);
    Ok(remedies)
}

/// Whether a change evicts copies: one more in place of another is none.
fn evicts(copies: &Copies) -> impl Fn(&str) -> bool {
    let copies: Vec<String> = copies.pods.iter().map(|(copy, _)| copy.key.to_string()).collect();
    move |change| copies.iter().any(|copy| change.contains(copy))
}

/// What would let one more group into a cluster that is full of copies. Nothing is known of a group without a manifest.
fn one_more_group(
    deciders: Deciders<'_>,
    (mut full, copies): (InitialCluster, &Copies),
    given: &GivenGroup,
    n: usize,
) -> Result<Vec<GroupRemedy>> {
    let Some(more) = given.as_new_in(&full)? else { return Ok(Vec::new()) };
    full.objects.push(AnyObject::new(more.group.clone()));
    full.pods.extend(more.pods.iter().map(|(pod, _)| pod.clone()));
    let mut simulation = Simulation::new(deciders.scheduler()?, full);
    let now = simulation.now();
    let find = |object: &Reference| more.manifest_of(object);
    let subject = GroupSubject {
        group: &more.group.key,
        manifests: Manifests::by(&find),
        remedies: n.saturating_add(OVER_COPIES),
        pending: None,
    };
    let why = plimsoll_advisor::why_group(simulation.scheduler_mut(), now, &subject)?;
    let mut remedies = why.remedies;
    let is_evicted = evicts(copies);
    remedies.retain(|remedy| !is_evicted(&remedy.text));
    remedies.truncate(n);
    Ok(remedies)
}
