//! Pods and groups in the way of a group.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plimsoll_api::{ObjectKey, PodKey, ResourceClaim, Str};
use plimsoll_framework::pod_groups::group_of;
use plimsoll_framework::{GroupForest, GroupRef, PodInfo, View};

use super::search::GroupSearch;
use super::ways::count;
use crate::change::{Change, Reference};
use crate::cluster::{ClusterChange, Edit, names, stays_on_its_node};
use crate::device_users::{self, ClaimsByUser};
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
    uids: Vec<Str>,
    /// The claims that they use, if the devices could matter.
    claims: Vec<Arc<ResourceClaim>>,
    /// It is terminating: it goes by itself.
    goes: bool,
}

impl Unit {
    /// These pods, without their group.
    fn of<'p>(pods: impl Iterator<Item = &'p PodInfo>, priority: i32, held: &ClaimsByUser) -> Self {
        let (group, goes) = (None, false);
        let mut unit = Unit { group, priority, pods: vec![], uids: vec![], claims: vec![], goes };
        for pod in pods {
            unit.pods.push(pod.key.clone());
            unit.uids.push(pod.uid.clone());
            unit.claims.extend_from_slice(held.by(pod));
        }
        unit
    }
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
/// important ones first. For a group that claims devices also those alone that use some.
pub(super) fn units(search: &GroupSearch<'_>, key: Option<&Str>) -> Vec<Vec<Unit>> {
    let view = search.scheduler.view();
    let forest = GroupForest::of(view.stores, search.scheduler.group_gates());
    let of_groups = pods_of_groups(view, forest);
    let own = &search.plan.as_it_is.objects;
    let is_own = |group: &ObjectKey| own.iter().any(|object| object.group.key() == group);
    let held = if claims_devices(search) {
        ClaimsByUser::of(view.stores)
    } else {
        ClaimsByUser::default()
    };
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
            let single = || Unit::of(std::iter::once(pod), pod.priority, &held);
            if pod.is_terminating() {
                terminating.insert(&pod.key, Unit { goes: true, ..single() });
                continue;
            }
            if stays_on_its_node(pod) {
                continue;
            }
            let units = domains.entry(domain.clone()).or_default();
            match forest.evicted_with(pod) {
                None => {
                    let place = (pod.priority, node.name.clone(), pod.key.clone());
                    units.insert(place, single());
                }
                Some(group) => {
                    let priority = forest.priority_of(pod);
                    let place = (priority, Str::default(), group.key().clone());
                    units.entry(place).or_insert_with(|| {
                        let pods = of_groups.get(&group).into_iter().flatten().copied();
                        let key = Some(group.key().clone());
                        Unit { group: key, ..Unit::of(pods, priority, &held) }
                    });
                }
            }
        }
    }
    let terminating: Vec<_> = terminating.into_values().collect();
    let domains = domains.into_values().take(MOST_DOMAINS);
    let running: Vec<Vec<Unit>> = domains.map(|units| units.into_values().collect()).collect();
    let users = running.iter().filter_map(|units| {
        let holds_devices = |unit: &&Unit| !unit.claims.is_empty();
        let holders: Vec<Unit> = units.iter().filter(holds_devices).cloned().collect();
        (holders.len() < units.len()).then_some(holders)
    });
    let users: Vec<Vec<Unit>> = users.collect();
    let all = std::iter::once(terminating).chain(running).chain(users).map(|mut units| {
        units.truncate(MOST_VICTIMS);
        units
    });
    all.filter(|units| !units.is_empty()).collect()
}

/// Whether a pod of the group claims devices, so that it matters who has them.
fn claims_devices(search: &GroupSearch<'_>) -> bool {
    search.plan.as_it_is.members.iter().any(|member| !member.pod.resource_claims.is_empty())
}

/// The pods on nodes of each group that goes as a whole, by name.
fn pods_of_groups<'v>(
    view: View<'v>,
    forest: GroupForest<'_>,
) -> BTreeMap<GroupRef, Vec<&'v PodInfo>> {
    let mut all: BTreeMap<GroupRef, Vec<&PodInfo>> = BTreeMap::new();
    for pod in view.nodes.rows().flat_map(|row| view.nodes.pods_on(row).iter()) {
        if let Some(group) = forest.evicted_with(pod) {
            all.entry(group).or_default().push(pod);
        }
    }
    for pods in all.values_mut() {
        pods.sort_by(|a, b| a.key.cmp(&b.key));
    }
    all
}

/// These are gone, and the claims that only they use end.
pub(super) fn change(gone: &[Unit], priority: i32) -> ClusterChange {
    let pods: Vec<PodKey> = gone.iter().flat_map(|unit| unit.pods.clone()).collect();
    let uids: BTreeSet<&Str> = gone.iter().flat_map(|unit| &unit.uids).collect();
    let claims = gone.iter().flat_map(|unit| &unit.claims);
    let claims = device_users::free_without(claims, &uids);
    let mut change = without(&pods);
    for (edit, said) in claims.iter().map(|claim| device_users::end(claim)) {
        change.edits.push(edit);
        change.changes.push(said);
    }
    if gone.iter().all(|unit| unit.goes) {
        let are = if pods.len() == 1 { "which is" } else { "which are" };
        let is = if pods.len() == 1 { "is" } else { "are" };
        let text = format!("wait until {}, {are} terminating, {is} gone", names(&pods));
        return ClusterChange { text, size: size::WAIT * count(pods.len()), ..change };
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
    let mut text = format!("evict {}", parts.join(" and "));
    if !claims.is_empty() {
        text = format!("{text}, {}", device_users::then_free(pods.len()));
    }
    ClusterChange {
        text,
        size: size::EVICTION
            + size::ONE_EVICTION * count(pods.len())
            + size::IMPORTANT_EVICTION * count(important),
        ..change
    }
}
