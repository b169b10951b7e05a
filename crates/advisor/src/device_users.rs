//! Pods that are in the way because they hold devices: without them their claims end, and the devices are free.

use std::collections::BTreeMap;
use std::sync::Arc;

use json_patch::jsonptr::PointerBuf;
use json_patch::{PatchOperation, RemoveOperation};
use plimsoll_api::{Pod, PodKey, ResourceClaim};
use plimsoll_engine::Scheduler;
use plimsoll_framework::{PodInfo, Row, Time};

use crate::change::{Change, Reference};
use crate::cluster::{ClusterChange, Edit, names, stays_on_its_node};
use crate::remedy::size;

/// At most so many nodes are considered, those first that miss by least.
const MOST_NODES: usize = 4;
/// At most so many users of devices are considered on one node.
const MOST_USERS: usize = 8;

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
    let mut held: BTreeMap<&str, Vec<Arc<ResourceClaim>>> = BTreeMap::new();
    for claim in view.stores.of::<ResourceClaim>().iter() {
        if let ([only], Some(_)) = (claim.reserved_for.as_slice(), &claim.allocation) {
            held.entry(only.uid.as_str()).or_default().push(claim.clone());
        }
    }
    let may_go = |pod: &&PodInfo| !stays_on_its_node(pod) && !pod.is_terminating();
    let of_node = near.iter().map(|&row| {
        let pods = view.nodes.pods_on(row).iter().filter(may_go);
        let users = pods.filter_map(|pod| {
            let claims = held.get(pod.uid.as_str()).filter(|_| !pod.uid.is_empty())?.clone();
            Some(User { pod: pod.key.clone(), priority: pod.priority, claims })
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

/// The pod is gone. A claim that was made for it goes with it; another one loses its devices.
fn edits(user: &User) -> Vec<Edit> {
    let claims = user.claims.iter().map(|claim| match is_owned(claim) {
        true => Edit::Dropped(claim.key.clone()),
        false => Edit::object(ResourceClaim {
            allocation: None,
            reserved_for: Vec::new(),
            ..ResourceClaim::clone(claim)
        }),
    });
    [Edit::Gone(user.pod.clone())].into_iter().chain(claims).collect()
}

fn is_owned(claim: &ResourceClaim) -> bool {
    claim.controller.as_ref().is_some_and(|owner| owner.kind == "Pod")
}

fn change(node: &str, priority: i32, gone: &[User]) -> ClusterChange {
    let mut changes = Vec::new();
    for user in gone {
        changes.push(Change::Delete { delete: Reference::pod(&user.pod) });
        for claim in &user.claims {
            let of = Reference::of("ResourceClaim", &claim.key);
            changes.push(if is_owned(claim) {
                Change::Delete { delete: of }
            } else {
                let operations = ["/status/allocation", "/status/reservedFor"].map(remove);
                Change::Patch { patch: of, operations: operations.into() }
            });
        }
    }
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let important = gone.iter().filter(|user| priority <= user.priority).count();
    let pods: Vec<PodKey> = gone.iter().map(|user| user.pod.clone()).collect();
    let devices = if pods.len() == 1 { "whose devices are" } else { "so that their devices are" };
    ClusterChange {
        text: format!("evict {}, {devices} then free, from {node}", names(&pods)),
        size: size::EVICTION
            + size::ONE_EVICTION * count(gone.len())
            + size::IMPORTANT_EVICTION * count(important),
        edits: gone.iter().flat_map(edits).collect(),
        changes,
    }
}

fn remove(path: &str) -> PatchOperation {
    let path = PointerBuf::parse(path).expect("it begins with a slash and has no tilde");
    PatchOperation::Remove(RemoveOperation { path })
}
