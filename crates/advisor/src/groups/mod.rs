//! Why a group of pods waits, and what is the least that would have to change so that it is scheduled.

mod evictions;
mod needs;
mod plan;
mod search;
mod survey;
mod ways;

use plimsoll_api::pod_group::GroupPolicy;
use plimsoll_api::{ObjectKey, PodKey};
use plimsoll_engine::{
    GroupDecision, GroupResult, MemberResult, PendingPod, Scheduler, TransactionError,
};
use plimsoll_framework::{GroupForest, GroupRef, Time};
use serde::Serialize;
use thiserror::Error;

use self::plan::GroupPlan;
use self::search::GroupSearch;
use crate::change::{Change, Reference};
use crate::draft::{Manifests, Missed};
use crate::remedy::RemedyKind;
use crate::waiting::{Waiting, rfc_3339};

/// What is asked about a group.
#[derive(Clone, Copy, Debug)]
pub struct GroupSubject<'a> {
    /// The group.
    pub group: &'a ObjectKey,
    /// The manifests of the group, of its pods and of other objects.
    pub manifests: Manifests<'a>,
    /// How many remedies are returned.
    pub remedies: usize,
    /// What another scheduler knows of its pending pods, of whose cluster this one has a copy; `None` to take it from this
    /// one. Those of other groups are left out.
    pub pending: Option<&'a [PendingPod]>,
}

/// The answer about a group.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WhyGroup {
    /// The group, as `namespace/name`.
    pub group: String,
    /// `CompositePodGroup` for a group of groups; `None` for a group of pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<&'static str>,
    /// `running` if all its pods have nodes; else `scheduled`, `preempting`, `unschedulable`, `error` or `waiting`, as a
    /// decision about it says.
    pub state: &'static str,
    /// Why it is not scheduled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How many pods must be placed together; left out for a group that is no gang.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_count: Option<u32>,
    /// How many of the groups of a group of groups must be placed together; left out for one that is no gang.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_group_count: Option<u32>,
    /// How many of its pods are on nodes.
    pub running: usize,
    /// How many are not.
    pub pending: usize,
    /// How many of these would be placed now.
    pub placed: usize,
    /// What would let it be scheduled, the smallest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remedies: Vec<GroupRemedy>,
    /// What it waits for, if a pod of it is pending.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<GroupWaiting>,
    /// How long it took from its first pod until its last one had a node, in seconds, if all have nodes and say when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduled_after_seconds: Option<i64>,
    /// Objects of which no change was tried, because their manifests are not known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown_manifests: Vec<Reference>,
}

/// Changes that together let a group be scheduled. That is proven: they were made, and the group was decided again.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupRemedy {
    /// What it changes.
    pub kind: RemedyKind,
    /// The changes in words, such as `set minCount to 6 instead of 8`.
    pub text: String,
    /// The changes. All of them are needed.
    pub changes: Vec<Change>,
    /// The domain to which the group then goes, if it must be in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<String>,
    /// How many of its pending pods are then placed.
    pub placed: usize,
    /// Of how many.
    pub pods: usize,
    /// How small it is: see [`size`](crate::size).
    #[serde(skip)]
    pub size: u32,
}

/// What a group waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupWaiting {
    /// Since when its first pending pod is there, as in RFC 3339, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// How often it was tried.
    #[serde(skip_serializing_if = "is_zero")]
    pub attempts: u32,
    /// Where its first pending pod waits, and what may wake it.
    pub first: Waiting,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Why there is no answer about a group.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WhyGroupError {
    /// The scheduler knows neither the group nor a pod of it.
    #[error("no pod of group {0} is known")]
    Unknown(ObjectKey),
    /// The manifest of a pod is not known, or wrong.
    #[error("pod {0}: its manifest is not known, or cannot be read")]
    Manifest(PodKey),
    /// There is a PodGroup or CompositePodGroup, but its manifest is not known.
    #[error("{0}: its manifest is not known")]
    Object(Reference),
    /// The group cannot be decided.
    #[error(transparent)]
    Transaction(#[from] TransactionError),
}

/// Why a group waits, and what would change that. The scheduler is afterwards as it was.
pub fn why_group(
    scheduler: &mut Scheduler,
    now: Time,
    subject: &GroupSubject<'_>,
) -> Result<WhyGroup, WhyGroupError> {
    let key = subject.group;
    let stores = scheduler.view().stores;
    let forest = GroupForest::of(stores, scheduler.group_gates());
    let unknown = || WhyGroupError::Unknown(key.clone());
    let object = forest.pod_group(key).cloned();
    let composite = forest.composite(key).cloned();
    let asked = match (stores.groups.get(key), &composite) {
        (None, Some(_)) => GroupRef::Composite(key.clone()),
        (_, _) => GroupRef::Pods(key.clone()),
    };
    let leaves = forest.leaves(&asked);
    let states: Vec<_> = leaves.iter().filter_map(|leaf| stores.groups.get(leaf)).collect();
    if states.is_empty() {
        return Err(unknown());
    }
    let placed = states.iter().flat_map(|state| state.placed());
    let placed: Vec<PodKey> = placed.map(|(pod, _)| pod.clone()).collect();
    let pending: Vec<PodKey> = states.iter().flat_map(|state| plan::pending(state)).collect();
    let waiting = match subject.pending {
        Some(known) => {
            let is_own = |known: &&PendingPod| pending.contains(&known.info.pod.key);
            let own: Vec<PendingPod> = known.iter().filter(is_own).cloned().collect();
            waiting(scheduler, &own, true)
        }
        None => waiting(scheduler, &states_of(scheduler, &pending), false),
    };
    let is_composite = matches!(asked, GroupRef::Composite(_));
    let policy = match is_composite {
        true => composite.map(|composite| composite.policy),
        false => object.map(|object| object.policy),
    };
    let count = policy.and_then(GroupPolicy::min_count);
    let mut answer = WhyGroup {
        group: key.to_string(),
        kind: is_composite.then_some(asked.kind()),
        state: "running",
        message: None,
        min_count: count.filter(|_| !is_composite),
        min_group_count: count.filter(|_| is_composite),
        running: placed.len(),
        pending: pending.len(),
        placed: 0,
        remedies: Vec::new(),
        waiting,
        scheduled_after_seconds: None,
        unknown_manifests: Vec::new(),
    };
    if pending.is_empty() {
        answer.scheduled_after_seconds = scheduled_after(scheduler, &placed);
        return Ok(answer);
    }
    let missed = Missed::default();
    let subject = GroupSubject { manifests: subject.manifests.noting(&missed), ..*subject };
    let mut plan = GroupPlan::new(scheduler, &subject, asked)?;
    // Otherwise it would be proposed to create it.
    if policy.is_some() && plan.object().is_none() {
        return Err(WhyGroupError::Object(plan::reference(&plan.asked)));
    }
    plan.is_gang = !matches!(policy, Some(GroupPolicy::Basic));
    let decision = plan.decide(&plan.as_it_is, scheduler, now)?;
    answer.state = decision.result.as_str();
    answer.message.clone_from(&decision.message);
    answer.placed = n_placed(&decision);
    if !plan.is_enough(&decision) {
        answer.remedies = GroupSearch::new(scheduler, now, &plan, &subject).run();
        answer.unknown_manifests = missed.take().into_iter().collect();
    }
    Ok(answer)
}

/// What would be decided about the group of a pod now: its result and its text. `None` if a plain decision about the pod is
/// all there is.
pub(crate) fn of_member(
    scheduler: &mut Scheduler,
    now: Time,
    group: &ObjectKey,
) -> Option<GroupDecision> {
    let state = scheduler.view().stores.groups.get(group)?;
    let pending = plan::pending(state);
    let known = pending.iter().filter_map(|pod| scheduler.queued_pod(pod));
    let pods: Vec<_> = known.map(|info| info.pod.seen().clone()).collect();
    let own = pending.iter().cloned().collect();
    let decided =
        scheduler.transaction(now, |transaction| transaction.decide_group(now, group, pods));
    let group = GroupRef::Pods(group.clone());
    decided.ok().map(|decision| plan::about(decision, &group, &own))
}

/// What the scheduler knows of these pods.
fn states_of(scheduler: &Scheduler, pending: &[PodKey]) -> Vec<PendingPod> {
    pending.iter().filter_map(|pod| scheduler.pending_state(pod)).collect()
}

/// What a group with these pending pods waits for. `is_timed` says whether their times are those of a clock.
fn waiting(scheduler: &Scheduler, states: &[PendingPod], is_timed: bool) -> Option<GroupWaiting> {
    let first = states.iter().min_by_key(|known| known.info.arrival())?;
    let since = states.iter().filter_map(|known| known.info.pod.created).min();
    Some(GroupWaiting {
        since: since.map(rfc_3339),
        attempts: states.iter().map(|known| known.info.attempts).max().unwrap_or(0),
        first: Waiting::of(scheduler, first, is_timed, &[]),
    })
}

/// From when the first pod was made until the last one was seen by its node.
fn scheduled_after(scheduler: &Scheduler, placed: &[PodKey]) -> Option<i64> {
    let mut times = Vec::new();
    for pod in scheduler.pods().filter(|pod| placed.contains(&pod.key)) {
        times.push((pod.created?, pod.started?));
    }
    let first = times.iter().map(|(created, _)| created).min()?;
    let last = times.iter().map(|(_, started)| started).max()?;
    Some(last.as_second() - first.as_second())
}

fn n_placed(decision: &GroupDecision) -> usize {
    let is_placed = |result: &MemberResult| matches!(result, MemberResult::Scheduled { .. });
    match decision.result {
        GroupResult::Scheduled => {
            decision.pods.iter().filter(|member| is_placed(&member.result)).count()
        }
        _ => 0,
    }
}
