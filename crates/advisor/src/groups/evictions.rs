//! Pods and groups in the way of a group.

use std::collections::BTreeMap;

use plimsoll_api::{ObjectKey, PodKey, Str};
use plimsoll_framework::GroupForest;
use plimsoll_framework::pod_groups::{PodGroupState, group_of};

use super::search::{GroupSearch, count};
use crate::change::{Change, Reference};
use crate::cluster::{ClusterChange, Edit, names, stays_on_its_node};
use crate::remedy::size;

/// At most so many pods, or groups that go as a whole, are evicted for a group.
const MOST_VICTIMS: usize = 32;
/// At most so many domains are considered.
const MOST_DOMAINS: usize = 8;
const TOPOLOGY: &str = "/spec/schedulingConstraints/topology/0/key";

/// Pods that go together.
#[derive(Clone, Debug)]
struct Unit {
    /// The group, if all its pods go.
    group: Option<ObjectKey>,
    priority: i32,
    pods: Vec<PodKey>,
}

/// The fewest and least important pods without which the group fits: for each domain of its topology, or for the cluster.
pub(super) fn changes(search: &mut GroupSearch<'_>, priority: i32) -> Vec<ClusterChange> {
    let mut all: Vec<ClusterChange> = Vec::new();
    for mut units in units(search) {
        units.truncate(MOST_VICTIMS);
        let Some(gone) = least(search, &units) else { continue };
        let change = change(&gone, priority);
        if all.iter().all(|other| other.text != change.text) {
            all.push(change);
        }
    }
    all
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

/// The units that could go, the least important first: those of each domain, or all of them.
fn units(search: &GroupSearch<'_>) -> Vec<Vec<Unit>> {
    let view = search.scheduler.view();
    let object = search.plan.object.as_ref();
    let key = object.and_then(|object| object.pointer(TOPOLOGY)?.as_str());
    let forest = GroupForest::of(view.stores, search.scheduler.group_gates());
    let own_root = forest.root(&search.plan.group).ok();
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
            let group = group_of(pod);
            let is_own = group.is_some_and(|group| {
                group == search.plan.group
                    || (own_root.is_some() && forest.root(&group).ok() == own_root)
            });
            if is_own || stays_on_its_node(pod) || pod.is_terminating() {
                continue;
            }
            let unit = match forest.evicted_with(pod) {
                None => Unit { group: None, priority: pod.priority, pods: vec![pod.key.clone()] },
                Some(group) => {
                    let leaves = forest.leaves(&group);
                    let states = leaves.iter().filter_map(|leaf| view.stores.groups.get(leaf));
                    let pods = states.flat_map(PodGroupState::placed);
                    let pods: Vec<PodKey> = pods.map(|(pod, _)| pod.clone()).collect();
                    let priority = forest.priority_of(pod);
                    Unit { group: Some(group.key().clone()), priority, pods }
                }
            };
            let name = unit.group.clone().unwrap_or_else(|| pod.key.clone());
            let place = if unit.group.is_some() { Str::default() } else { node.name.clone() };
            domains.entry(domain.clone()).or_default().insert((unit.priority, place, name), unit);
        }
    }
    let domains = domains.into_values().take(MOST_DOMAINS);
    domains.map(|units| units.into_values().collect()).collect()
}

/// The fewest of these units, the least important ones, without which the group fits.
fn least(search: &mut GroupSearch<'_>, units: &[Unit]) -> Option<Vec<Unit>> {
    let mut n = 1;
    let mut gone = loop {
        let some: Vec<Unit> = units.iter().take(n).cloned().collect();
        if fits_without(search, &some) {
            break some;
        }
        if units.len() <= n {
            return None;
        }
        n *= 2;
    };
    // The most important ones come back first, as long as the group fits.
    for at in (0..gone.len()).rev() {
        let mut fewer = gone.clone();
        fewer.remove(at);
        if !fewer.is_empty() && fits_without(search, &fewer) {
            gone = fewer;
        }
    }
    Some(gone)
}

fn fits_without(search: &mut GroupSearch<'_>, units: &[Unit]) -> bool {
    let pods: Vec<PodKey> = units.iter().flat_map(|unit| unit.pods.clone()).collect();
    search.fits_with(without(&pods))
}

fn change(gone: &[Unit], priority: i32) -> ClusterChange {
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
    let pods: Vec<PodKey> = gone.iter().flat_map(|unit| unit.pods.clone()).collect();
    ClusterChange {
        text: format!("evict {}", parts.join(" and ")),
        size: size::EVICTION
            + size::ONE_EVICTION * count(pods.len())
            + size::IMPORTANT_EVICTION * count(important),
        ..without(&pods)
    }
}
