//! Pods that are in the way because they hold devices: without them their claims end, and the devices are free.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use json_patch::jsonptr::PointerBuf;
use json_patch::{PatchOperation, RemoveOperation};
use plimsoll_api::{ObjectKey, Pod, PodKey, ResourceClaim, Str};
use plimsoll_engine::Scheduler;
use plimsoll_framework::{PodInfo, Row, Stores, Time};

use crate::change::{Change, Reference};
use crate::cluster::{ClusterChange, Edit, names, stays_on_its_node};
use crate::remedy::size;

/// At most so many nodes are considered, those first that miss by least.
const MOST_NODES: usize = 4;
/// At most so many users of devices are considered on one node.
const MOST_USERS: usize = 8;

/// The claims with devices, by the uids of their users.
#[derive(Debug, Default)]
pub(crate) struct ClaimsByUser(BTreeMap<Str, Vec<Arc<ResourceClaim>>>);

impl ClaimsByUser {
    pub(crate) fn of(stores: &Stores) -> Self {
        let mut held: BTreeMap<Str, Vec<Arc<ResourceClaim>>> = BTreeMap::new();
        for claim in stores.of::<ResourceClaim>().iter().filter(|one| one.allocation.is_some()) {
            for user in &claim.reserved_for {
                held.entry(user.uid.clone()).or_default().push(claim.clone());
            }
        }
        ClaimsByUser(held)
    }

    /// Those that a pod uses.
    pub(crate) fn by(&self, pod: &Pod) -> &[Arc<ResourceClaim>] {
        let claims = self.0.get(&pod.uid).filter(|_| !pod.uid.is_empty());
        claims.map_or(&[], Vec::as_slice)
    }
}

/// Of these claims those whose devices are free without the pods of these uids, each once.
pub(crate) fn free_without<'a>(
    claims: impl Iterator<Item = &'a Arc<ResourceClaim>>,
    uids: &BTreeSet<&Str>,
) -> Vec<Arc<ResourceClaim>> {
    let is_free =
        |claim: &&Arc<ResourceClaim>| claim.reserved_for.iter().all(|one| uids.contains(&one.uid));
    let free: BTreeMap<&ObjectKey, &Arc<ResourceClaim>> =
        claims.filter(is_free).map(|claim| (&claim.key, claim)).collect();
    free.into_values().cloned().collect()
}

/// Ends a claim whose users are gone: one that was made for a pod goes with it, and another one loses its devices.
pub(crate) fn end(claim: &ResourceClaim) -> (Edit, Change) {
    let of = Reference::of("ResourceClaim", &claim.key);
    if is_owned(claim) {
        return (Edit::Dropped(claim.key.clone()), Change::Delete { delete: of });
    }
    let free = ResourceClaim { allocation: None, reserved_for: Vec::new(), ..claim.clone() };
    let operations = ["/status/allocation", "/status/reservedFor"].map(remove).into();
    (Edit::object(free), Change::Patch { patch: of, operations })
}

/// A pod with the claims that only it uses.
#[derive(Clone, Debug)]
struct User {
    pod: PodKey,
    priority: i32,
    claims: Vec<Arc<ResourceClaim>>,
}

/// The fewest and least important users of devices on each of the nearest nodes without which `pod` fits somewhere.
pub(crate) fn changes(
    scheduler: &mut Scheduler,
    now: Time,
    pod: &Arc<Pod>,
    near: &[Row],
) -> Vec<ClusterChange> {
    let mut all = Vec::new();
    for (row, mut users) in users_by_node(scheduler, near) {
        users.truncate(MOST_USERS);
        if !fits_without(scheduler, now, pod, &users) {
            continue;
        }
        // The most important ones come back first, as long as the pod fits.
        let mut gone = users.clone();
        for user in users.iter().rev() {
            let fewer: Vec<User> = gone.iter().filter(|one| one.pod != user.pod).cloned().collect();
            if fits_without(scheduler, now, pod, &fewer) {
                gone = fewer;
            }
        }
        if !gone.is_empty() {
            let node = scheduler.view().nodes.name_of(row).to_string();
            all.push(change(&node, pod.priority, &gone));
        }
    }
    all
}

/// The nodes with users of devices, each with its users, the least important first.
fn users_by_node(scheduler: &Scheduler, near: &[Row]) -> Vec<(Row, Vec<User>)> {
    let view = scheduler.view();
    let held = ClaimsByUser::of(view.stores);
    let may_go = |pod: &&PodInfo| !stays_on_its_node(pod) && !pod.is_terminating();
    let of_node = near.iter().map(|&row| {
        let pods = view.nodes.pods_on(row).iter().filter(may_go);
        let users = pods.filter_map(|pod| {
            let claims = free_without(held.by(pod).iter(), &BTreeSet::from([&pod.uid]));
            let user = User { pod: pod.key.clone(), priority: pod.priority, claims };
            (!user.claims.is_empty()).then_some(user)
        });
        let mut users: Vec<User> = users.collect();
        users.sort_by(|a, b| (a.priority, &a.pod).cmp(&(b.priority, &b.pod)));
        (row, users)
    });
    of_node.filter(|(_, users)| !users.is_empty()).take(MOST_NODES).collect()
}

/// Whether the pod fits on some node without these pods and their claims.
fn fits_without(scheduler: &mut Scheduler, now: Time, pod: &Arc<Pod>, gone: &[User]) -> bool {
    scheduler.transaction(now, |transaction| {
        for edit in gone.iter().flat_map(edits) {
            if edit.make(transaction).is_err() {
                return false;
            }
        }
        let judge = transaction.judge(pod.clone());
        judge.is_ok_and(|mut judge| judge.verdicts().feasible().next().is_some())
    })
}

/// The pod is gone, and its claims end.
fn edits(user: &User) -> Vec<Edit> {
    let claims = user.claims.iter().map(|claim| end(claim).0);
    [Edit::Gone(user.pod.clone())].into_iter().chain(claims).collect()
}

fn is_owned(claim: &ResourceClaim) -> bool {
    claim.controller.as_ref().is_some_and(|owner| owner.kind == "Pod")
}

fn change(node: &str, priority: i32, gone: &[User]) -> ClusterChange {
    let mut changes = Vec::new();
    for user in gone {
        changes.push(Change::Delete { delete: Reference::pod(&user.pod) });
        changes.extend(user.claims.iter().map(|claim| end(claim).1));
    }
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let important = gone.iter().filter(|user| priority <= user.priority).count();
    let pods: Vec<PodKey> = gone.iter().map(|user| user.pod.clone()).collect();
    let devices = then_free(pods.len());
    ClusterChange {
        text: format!("evict {}, {devices}, from {node}", names(&pods)),
        size: size::EVICTION
            + size::ONE_EVICTION * count(gone.len())
            + size::IMPORTANT_EVICTION * count(important),
        edits: gone.iter().flat_map(edits).collect(),
        changes,
    }
}

/// What happens to the devices of so many pods that are evicted, in words.
pub(crate) fn then_free(pods: usize) -> &'static str {
    match pods {
        1 => "whose devices are then free",
        _ => "so that their devices are then free",
    }
}

fn remove(path: &str) -> PatchOperation {
    let path = PointerBuf::parse(path).expect("it begins with a slash and has no tilde");
    PatchOperation::Remove(RemoveOperation { path })
}
