//! Pods and groups in the way of a group.

use std::collections::BTreeMap;

use plimsoll_api::{ObjectKey, PodKey, Str};
use plimsoll_framework::GroupForest;
use plimsoll_framework::pod_groups::{PodGroupState, group_of};

use super::search::GroupSearch;
use super::ways::count;
use crate::change::{Change, Reference};
use crate::cluster::{ClusterChange, Edit, names, stays_on_its_node};
use crate::remedy::size;

/// At most so many pods, or groups that go as a whole, are evicted for a group.
const MOST_VICTIMS: usize = 32;
/// At most so many domains are considered.
const MOST_DOMAINS: usize = 8;

/// Pods that go together.
#[derive(Clone, Debug)]
pub(super) struct Unit {
    /// The group, if all its pods go.
    group: Option<ObjectKey>,
    priority: i32,
    pods: Vec<PodKey>,
    /// It is terminating: it goes by itself.
    goes: bool,
}

/// Without these pods.
pub(super) fn without(pods: &[PodKey]) -> ClusterChange {
    ClusterChange {
        text: String::new(),
        size: 0,
        edits: pods.iter().cloned().map(Edit::Gone).collect(),
        changes: pods.iter().map(|pod| Change::Delete { delete: Reference::pod(pod) }).collect(),
    }
}

/// What could go: pods that are terminating, and for each domain of the topology, or for the cluster, pods that run, the least
/// important ones first.
pub(super) fn units(search: &GroupSearch<'_>, key: Option<&Str>) -> Vec<Vec<Unit>> {
    let view = search.scheduler.view();
    let forest = GroupForest::of(view.stores, search.scheduler.group_gates());
    let own = &search.plan.as_it_is.objects;
    let is_own = |group: &ObjectKey| own.iter().any(|object| object.group.key() == group);
    let mut terminating: BTreeMap<&PodKey, Unit> = BTreeMap::new();
    let mut domains: BTreeMap<Str, BTreeMap<(i32, Str, PodKey), Unit>> = BTreeMap::new();
    for row in view.nodes.rows() {
        let node = view.nodes.node(row);
        let domain = match key {
            None => Str::default(),
            Some(key) => match node.labels.get(key) {
                Some(value) => value.clone(),
                None => continue,
            },
        };
        for pod in view.nodes.pods_on(row).iter() {
            if group_of(pod).is_some_and(|group| is_own(&group)) {
                continue;
            }
            let (priority, pods) = (pod.priority, vec![pod.key.clone()]);
            let single = Unit { group: None, priority, pods, goes: pod.is_terminating() };
            if single.goes {
                terminating.insert(&pod.key, single);
                continue;
            }
            if stays_on_its_node(pod) {
                continue;
            }
            let unit = match forest.evicted_with(pod) {
                None => single,
                Some(group) => {
                    let leaves = forest.leaves(&group);
                    let states = leaves.iter().filter_map(|leaf| view.stores.groups.get(leaf));
                    let pods = states.flat_map(PodGroupState::placed);
                    let pods: Vec<PodKey> = pods.map(|(pod, _)| pod.clone()).collect();
                    let priority = forest.priority_of(pod);
                    Unit { group: Some(group.key().clone()), priority, pods, goes: false }
                }
            };
            let name = unit.group.clone().unwrap_or_else(|| pod.key.clone());
            let place = if unit.group.is_some() { Str::default() } else { node.name.clone() };
            domains.entry(domain.clone()).or_default().insert((unit.priority, place, name), unit);
        }
    }
    let terminating: Vec<_> = terminating.into_values().collect();
    let domains = domains.into_values().take(MOST_DOMAINS);
    let running = domains.map(|units| units.into_values().collect());
    let all = std::iter::once(terminating).chain(running).map(|mut units: Vec<Unit>| {
        units.truncate(MOST_VICTIMS);
        units
    });
    all.filter(|units| !units.is_empty()).collect()
}

/// These are gone.
pub(super) fn change(gone: &[Unit], priority: i32) -> ClusterChange {
    let pods: Vec<PodKey> = gone.iter().flat_map(|unit| unit.pods.clone()).collect();
    if gone.iter().all(|unit| unit.goes) {
        let are = if pods.len() == 1 { "which is" } else { "which are" };
        let is = if pods.len() == 1 { "is" } else { "are" };
        let text = format!("wait until {}, {are} terminating, {is} gone", names(&pods));
        return ClusterChange { text, size: size::WAIT * count(pods.len()), ..without(&pods) };
    }
    let single = gone.iter().filter(|unit| unit.group.is_none());
    let single: Vec<PodKey> = single.flat_map(|unit| unit.pods.clone()).collect();
    let groups: Vec<ObjectKey> = gone.iter().filter_map(|unit| unit.group.clone()).collect();
    let mut parts = Vec::new();
    if !single.is_empty() {
        parts.push(names(&single));
    }
    if !groups.is_empty() {
        let group = if groups.len() == 1 { "the group" } else { "the groups" };
        parts.push(format!("{group} {}", names(&groups)));
    }
    let important = gone.iter().filter(|unit| priority <= unit.priority).count();
    ClusterChange {
        text: format!("evict {}", parts.join(" and ")),
        size: size::EVICTION
            + size::ONE_EVICTION * count(pods.len())
            + size::IMPORTANT_EVICTION * count(important),
        ..without(&pods)
    }
}
