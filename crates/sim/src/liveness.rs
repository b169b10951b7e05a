//! The liveness law: no pod waits that a fresh attempt would place, and no group of pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plimsoll_api::{ObjectKey, Pod, PodKey};
use plimsoll_engine::{GroupResult, Outcome, QueuePlace, Scheduler};
use plimsoll_framework::pod_groups::group_of;
use plimsoll_framework::{GroupForest, GroupRef, GroupRules, PodInfo, Time};

/// The pods that wait for a change although a fresh attempt would place them now, with the node each
/// would get. Pods of groups are left out, which are tried together.
///
/// Called when the scheduler has nothing more to do at the present time. The cause is a queueing hint
/// or the queue, which did not wake the pod.
pub fn sleepers(scheduler: &Scheduler) -> Vec<(PodKey, String)> {
    let tries_together = scheduler.schedules_groups();
    let asleep = scheduler.pending().filter(|info| {
        let is_member = tries_together && info.pod.scheduling_group.is_some();
        info.place == QueuePlace::Unschedulable && !is_member
    });
    asleep
        .filter_map(|info| {
            let decision = scheduler.explain(&info.pod.key)?;
            match decision.outcome {
                Outcome::Scheduled { node, .. } => Some((decision.pod, node.to_string())),
                Outcome::Unschedulable { .. } | Outcome::Error { .. } => None,
            }
        })
        .collect()
}

/// The groups with pods that wait although a fresh attempt would place some of them now.
///
/// Called when the scheduler has nothing more to do at the present time, and will try none of these groups before something
/// changes.
pub(crate) fn sleeping_groups(scheduler: &mut Scheduler, now: Time) -> Vec<ObjectKey> {
    if !scheduler.schedules_groups() {
        return Vec::new();
    }
    let gates = scheduler.group_gates();
    let root_of = |scheduler: &Scheduler, group: &ObjectKey| {
        let forest = GroupForest::of(scheduler.view().stores, gates);
        forest.root(group).unwrap_or_else(|_| GroupRef::Pods(group.clone()))
    };
    let mut waiting = BTreeMap::<ObjectKey, Vec<Arc<Pod>>>::new();
    let (mut asleep, mut asked) = (Vec::new(), BTreeSet::new());
    for info in scheduler.pending() {
        let Some(group) = group_of(&info.pod) else { continue };
        match info.place {
            QueuePlace::InFlight => {}
            // It is tried again whatever happens. The simulation ends if that errs each time, as where a volume never comes.
            QueuePlace::ErrorBackoff { .. } => {
                asked.insert(root_of(scheduler, &group));
            }
            // By the rules of 1.37 the gate of one member holds all of them back, and this one will be gone.
            QueuePlace::Gated { .. }
                if info.pod.is_terminating() && gates.rules == GroupRules::V1_37 =>
            {
                asked.insert(root_of(scheduler, &group));
            }
            _ if info.pod.is_terminating() => {}
            _ => waiting.entry(group).or_default().push(info.pod.seen().clone()),
        }
    }
    for (group, pods) in waiting {
        // All pods of a tree are tried together.
        if !asked.insert(root_of(scheduler, &group)) || waits_for_victims(scheduler, &pods) {
            continue;
        }
        let decided = scheduler.transaction(now, |all| all.decide_group(now, &group, pods));
        if decided.is_ok_and(|decision| decision.result == GroupResult::Scheduled) {
            asleep.push(group);
        }
    }
    asleep
}

/// Whether a pod on the node to which one of these pods is nominated is going, and less important. By the rules of 1.36 the whole
/// group waits for that, also for a member without which it would be complete.
fn waits_for_victims(scheduler: &Scheduler, pods: &[Arc<Pod>]) -> bool {
    pods.iter().any(|pod| {
        let node = scheduler.nominated_node(&pod.key);
        let is_going = |other: &PodInfo| {
            other.node() == node && other.is_terminating() && other.priority < pod.priority
        };
        node.is_some() && scheduler.pods().any(is_going)
    })
}

/// The gangs of Coscheduling among `pending` that wait although fresh attempts would place enough of their pods now, one after
/// another. Each has its pods, and how many of them it needs.
///
/// Called as for groups.
pub(crate) fn sleeping_gangs(
    scheduler: &mut Scheduler,
    now: Time,
    pending: Vec<(ObjectKey, Vec<Pod>, usize)>,
) -> Vec<ObjectKey> {
    let mut fits = |pods: Vec<Pod>, least: usize| {
        scheduler.transaction(now, |all| {
            let mut is_placed = |pod: &Pod| match all.decide(pod.clone()).map(|one| one.outcome) {
                Ok(Outcome::Scheduled { node, .. }) => all.place(pod.clone(), &node).is_ok(),
                _ => false,
            };
            pods.iter().map(&mut is_placed).filter(|is_placed| *is_placed).take(least).count()
                == least
        })
    };
    let asleep =
        pending.into_iter().filter_map(|(gang, pods, least)| fits(pods, least).then_some(gang));
    asleep.collect()
}
