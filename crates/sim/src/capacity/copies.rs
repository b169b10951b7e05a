//! Makes copies, and places them within a transaction.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plimsoll_api::devices::ClaimConsumer;
use plimsoll_api::{KindRef, ObjectKey, Pod, PodGroup, PodKey, PodPhase, ResourceClaim, Str};
use plimsoll_engine::{
    Detail, GroupDecision, GroupResult, MemberResult, Transaction, TransactionError,
};
use plimsoll_framework::{Time, View};

use super::{GroupShape, PlacedCopy, PodShape};
use crate::claims::named;

/// A copy that was placed.
pub(super) struct Placed {
    pub(super) pods: Vec<PlacedCopy>,
    pub(super) group: Option<PodGroup>,
    /// The domain that was chosen for the group, if it must be in one.
    pub(super) placement: Option<Str>,
}

/// A copy of a pod that has no node yet. The numbers of its shape and of the copy make its name.
pub(super) fn copy_of_pod(pod: &Pod, number: (usize, usize)) -> Pod {
    let name = name_of_copy(&pod.key.name, number);
    Pod {
        uid: name.as_str().into(),
        key: ObjectKey::new(pod.key.namespace.clone(), name),
        created: None,
        deletion: None,
        started: None,
        phase: PodPhase::default(),
        preempted: false,
        node_name: None,
        nominated_node: None,
        ..pod.clone()
    }
}

/// A copy of a group that was never scheduled, with its pods.
pub(super) fn copy_of_group(shape: &GroupShape, number: (usize, usize)) -> GroupShape {
    let model = &shape.group;
    let name = Str::from(name_of_copy(&model.key.name, number));
    let group = PodGroup {
        uid: name.clone(),
        key: ObjectKey::new(model.key.namespace.clone(), name.clone()),
        condition: None,
        created: None,
        ..model.clone()
    };
    let pods = shape.pods.iter().map(|pod| {
        let mut copy = copy_of_pod(pod, number);
        copy.scheduling_group = Some(name.clone());
        copy
    });
    GroupShape { pods: pods.collect(), group }
}

fn name_of_copy(name: &str, (shape, copy): (usize, usize)) -> String {
    format!("{name}-copy{}-{}", shape + 1, copy + 1)
}

/// Places a copy of a pod where it goes, or returns why it goes nowhere. It uses the devices that it claims.
pub(super) fn place_pod(
    transaction: &mut Transaction<'_>,
    shape: &PodShape,
    number: (usize, usize),
) -> Result<Result<Placed, String>, TransactionError> {
    let (pod, claims) = shape.copy(number);
    let placed =
        |pod, node: &Str| Placed { pods: vec![(pod, node.clone())], group: None, placement: None };
    let pod = Arc::new(pod);
    if !claims_devices(&pod) {
        let outcome = transaction.decide_in_detail(pod.clone(), Detail::Choice)?.outcome;
        return match outcome.node() {
            Ok(node) => {
                transaction.place(pod.clone(), node)?;
                Ok(Ok(placed(pod, node)))
            }
            Err(why) => Ok(Err(why.into_owned())),
        };
    }
    transaction.transaction(|trial| {
        for claim in claims {
            trial.set_object(claim);
        }
        let outcome = trial.decide_and_reserve(pod.clone(), Detail::Choice)?.outcome;
        match outcome.node() {
            Ok(node) => {
                let placed = placed(pod.clone(), node);
                write_claims(trial, &pod);
                trial.commit();
                Ok(Ok(placed))
            }
            Err(why) => Ok(Err(why.into_owned())),
        }
    })
}

/// Whether a pod may use devices: it claims some, or asks for resources that devices may stand for.
fn claims_devices(pod: &Pod) -> bool {
    let extended = pod.container_devices.iter().any(|container| !container.extended.is_empty());
    extended || !pod.resource_claims.is_empty()
}

/// Writes the claims that a pod names as they are once it is bound: what was reserved for it is there, and others can share it.
fn write_claims(trial: &mut Transaction<'_>, pod: &Pod) {
    let keys: BTreeSet<ObjectKey> = named(pod).collect();
    for key in keys {
        let store = trial.view().stores.of::<ResourceClaim>();
        let Some(reserved) = store.get(&key) else { continue };
        let mut claim = ResourceClaim { holders: Vec::new(), ..ResourceClaim::clone(reserved) };
        if !claim.is_reserved_for(pod) {
            claim.reserved_for.push(ClaimConsumer::pod(&pod.key, &pod.uid));
        }
        // Otherwise what was reserved would still count in place of what is written.
        trial.remove_object(KindRef::of::<ResourceClaim>(), key);
        trial.set_object(claim);
    }
}

/// The claims of copies, with the devices that they use.
pub(super) fn claims_of(view: View<'_>, copies: &[PlacedCopy]) -> Vec<ResourceClaim> {
    let claiming = copies.iter().map(|(copy, _)| copy).filter(|copy| claims_devices(copy));
    let uids: BTreeSet<&Str> = claiming.map(|copy| &copy.uid).collect();
    if uids.is_empty() {
        return Vec::new();
    }
    let store = view.stores.of::<ResourceClaim>();
    let is_of_copy =
        |claim: &ResourceClaim| claim.reserved_for.iter().any(|one| uids.contains(&one.uid));
    let claims = store.iter().filter(|claim| is_of_copy(claim));
    claims
        .map(|claim| ResourceClaim { holders: Vec::new(), ..ResourceClaim::clone(claim) })
        .collect()
}

/// Places all pods of a group where they go, or returns why not all of them go anywhere.
pub(super) fn place_group(
    transaction: &mut Transaction<'_>,
    now: Time,
    copy: GroupShape,
) -> Result<Result<Placed, String>, TransactionError> {
    transaction.transaction(|trial| {
        let placed = try_group(trial, now, copy)?;
        if placed.is_ok() {
            trial.commit();
        }
        Ok(placed)
    })
}

fn try_group(
    trial: &mut Transaction<'_>,
    now: Time,
    copy: GroupShape,
) -> Result<Result<Placed, String>, TransactionError> {
    let GroupShape { group, pods } = copy;
    let pods: Vec<Arc<Pod>> = pods.into_iter().map(Arc::new).collect();
    trial.set_object(group.clone());
    let decision = trial.decide_group(now, &group.key, pods.iter().cloned())?;
    let mut nodes = match nodes_of(&decision, pods.len()) {
        Ok(nodes) => nodes,
        Err(message) => return Ok(Err(message)),
    };
    let mut placed = Vec::new();
    for pod in pods {
        let node = nodes.remove(&pod.key).expect("a node was chosen for each of them");
        trial.place(pod.clone(), &node)?;
        placed.push((pod, node));
    }
    Ok(Ok(Placed { pods: placed, group: Some(group), placement: decision.placement }))
}

/// The nodes of the `n` pods of a group, or why not all of them have one.
fn nodes_of(decision: &GroupDecision, n: usize) -> Result<BTreeMap<PodKey, Str>, String> {
    let (mut nodes, mut unfit) = (BTreeMap::new(), None);
    let of_group = decision.message.as_deref().unwrap_or_default();
    for member in &decision.pods {
        match &member.result {
            MemberResult::Scheduled { node, .. } => {
                nodes.insert(member.pod.clone(), node.clone());
            }
            // A pod that was not tried has the message of its group, perhaps without the end.
            MemberResult::Unschedulable { message, .. } | MemberResult::Error { message } => {
                let is_own = !of_group.starts_with(message.as_str());
                unfit = unfit.or(is_own.then_some(message.as_str()));
            }
            MemberResult::Skipped => {}
        }
    }
    if decision.result != GroupResult::Scheduled {
        return Err(match unfit {
            Some(unfit) => format!("{of_group}; one of its pods: {unfit}"),
            None => of_group.to_owned(),
        });
    }
    if nodes.len() == n {
        return Ok(nodes);
    }
    let unfit = unfit.unwrap_or(of_group);
    Err(format!("only {} of its {n} pods would have a node: {unfit}", nodes.len()))
}
