//! Carrying nominations out: victims are evicted, and the pod waits until they have been told to go.
//!
//! As with asynchronous preemption in kube-scheduler, the pod is kept out of the queue meanwhile, and a
//! failed eviction puts it back at once.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_api::{PodKey, Str};
use plimsoll_framework::{Nomination, PodInfo, Time, WaitingDecision};

use crate::cycle::Failure;
use crate::effect::{Effect, EffectId, Eviction, Write};
use crate::event::WriteError;
use crate::queue::{Attempt, Surroundings};
use crate::scheduler::Scheduler;

/// The evictions that one pod waits for.
#[derive(Debug)]
pub(crate) struct Awaited {
    writes: BTreeSet<EffectId>,
    /// When they were begun, and when they count as failed.
    began: Time,
    deadline: Time,
}

/// The evictions that pods wait for.
pub(crate) type Evictions = BTreeMap<PodKey, Awaited>;

impl Scheduler {
    /// Takes note of what a failed attempt means for the node that was, or is, cleared for the pod.
    pub(crate) fn nominate(
        &mut self,
        now: Time,
        attempt: &Attempt,
        failure: &Failure,
        effects: &mut Vec<Effect>,
    ) {
        let pod = &attempt.pod;
        match &failure.nomination {
            Some(nomination) => {
                self.clear_way(now, attempt, nomination, failure.nominated_by, effects);
                self.nominated.set(pod.clone(), nomination.node.clone());
                self.write_nomination(pod, Some(nomination.node.clone()), effects);
            }
            None if failure.hopeless => self.withdraw(pod, effects),
            None => {}
        }
    }

    /// Takes a nomination back.
    pub(crate) fn withdraw(&mut self, pod: &PodInfo, effects: &mut Vec<Effect>) {
        let nominated = self.nominated.remove(&pod.key).is_some();
        if nominated || pod.nominated_node.is_some() {
            self.write_nomination(pod, None, effects);
        }
    }

    fn write_nomination(&mut self, pod: &PodInfo, node: Option<Str>, effects: &mut Vec<Effect>) {
        if pod.nominated_node != node {
            self.write(pod, Write::Nominate(node), effects);
        }
    }

    /// Evicts the victims, and takes back what other pods of lower priority were promised of the node.
    fn clear_way(
        &mut self,
        now: Time,
        attempt: &Attempt,
        nomination: &Nomination,
        plugin: &'static str,
        effects: &mut Vec<Effect>,
    ) {
        let pod = &attempt.pod;
        let lower = |other: &&PodInfo| other.priority < pod.priority && other.key != pod.key;
        let lower: Vec<PodInfo> =
            self.nominated.on(&nomination.node).filter(lower).cloned().collect();
        for other in &lower {
            self.withdraw(other, effects);
        }
        self.counts.victims(nomination.victims.len());
        let mut writes = BTreeSet::new();
        for victim in &nomination.victims {
            if self.waiting.pods().iter().any(|waiting| waiting.pod.key == *victim) {
                self.waiting_decisions.push(WaitingDecision::Reject {
                    pod: victim.clone(),
                    plugin: plugin.into(),
                    reason: "preempted".into(),
                });
            } else if let Some(victim) = self.names.find(victim).and_then(|id| self.cache.pod(id)) {
                let eviction = Eviction::new(victim, pod, &nomination.node);
                writes.insert(self.write(pod, Write::Evict(eviction), effects));
            }
        }
        if !writes.is_empty() {
            let deadline = now + self.options.write_timeout;
            self.evictions.insert(pod.key.clone(), Awaited { writes, began: now, deadline });
            self.queue.hold(attempt.id, plugin);
        }
    }

    /// An eviction was answered; whether it was one.
    pub(crate) fn evicted(
        &mut self,
        now: Time,
        id: EffectId,
        answer: &Result<(), WriteError>,
    ) -> bool {
        let owner = self.evictions.iter().find(|(_, awaited)| awaited.writes.contains(&id));
        let Some(pod) = owner.map(|(pod, _)| pod.clone()) else { return false };
        let awaited = self.evictions.get_mut(&pod).expect("it was just found");
        awaited.writes.remove(&id);
        if answer.is_err() || awaited.writes.is_empty() {
            self.counts.evictions_over(answer.is_err(), now.since(awaited.began));
            self.evictions.remove(&pod);
            self.release(now, &pod, answer.is_err());
        }
        true
    }

    /// Evictions that were never answered count as failed.
    pub(crate) fn give_up_evictions(&mut self, now: Time) {
        let due = self.evictions.iter().filter(|(_, awaited)| awaited.deadline <= now);
        let due: Vec<PodKey> = due.map(|(pod, _)| pod.clone()).collect();
        for pod in due {
            if let Some(awaited) = self.evictions.remove(&pod) {
                self.counts.evictions_over(true, now.since(awaited.began));
            }
            self.release(now, &pod, true);
        }
    }

    /// The evictions for a pod are over; whether one has failed.
    fn release(&mut self, now: Time, pod: &PodKey, failed: bool) {
        let Some(id) = self.names.find(pod) else { return };
        let with = Surroundings { profiles: &self.profiles, cache: &self.cache };
        self.queue.release(now, id, failed, with);
    }

    /// When the next evictions count as failed.
    pub(crate) fn next_eviction_deadline(&self) -> Option<Time> {
        self.evictions.values().map(|awaited| awaited.deadline).min()
    }
}
