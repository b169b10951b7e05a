//! Carries out nominations: victims are evicted, and the pod waits until the evictions are done.
//!
//! As with asynchronous preemption in kube-scheduler, the pod is held back meanwhile. Unlike there,
//! after a failed eviction it is retried only after its backoff, and the victim is [not
//! chosen](crate::refusals) for a while, since the next attempt would choose the same one.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_api::{PodKey, Str};
use plimsoll_framework::parts::StoreReads;
use plimsoll_framework::{
    GroupForest, GroupRules, Nomination, PodInfo, Time, WaitingDecision, WriteError,
};

use crate::binding::BindingCycle;
use crate::cycle::AttemptFailure;
use crate::effect::{Effect, EffectId, EventRecord, Eviction, Write};
use crate::metrics::Preemptor;
use crate::queue::{Attempt, Hold, Surroundings};
use crate::scheduler::Scheduler;

/// The evictions that one pod waits for, or the members of a group.
#[derive(Debug)]
pub(crate) struct Awaited {
    preemptor: Preemptor,
    /// The other members of the group that wait.
    others: Vec<PodKey>,
    /// Unanswered evictions, with their victims.
    writes: BTreeMap<EffectId, PodKey>,
    /// Whether one has failed: then the pod no longer waits.
    has_failed: bool,
    /// When they were started, and when they count as failed.
    began: Time,
    deadline: Time,
}

/// Who waits for evictions.
pub(crate) struct Waits<'a> {
    /// The pod, or the first member of the group.
    pub(crate) attempt: &'a Attempt,
    /// The other members.
    pub(crate) others: &'a [Attempt],
    /// The plugin that asked for it.
    pub(crate) plugin: &'static str,
    /// Whether it is for the pod alone.
    pub(crate) preemptor: Preemptor,
    /// How many of the evictions violate a PodDisruptionBudget.
    pub(crate) broken_budgets: i64,
}

/// The binding of a pod that was preempted before it was sent.
#[derive(Debug)]
pub(crate) struct CancelledBinding {
    victim: PodKey,
    uid: Str,
    /// The plugin that asked for the preemption.
    by: &'static str,
}

/// The evictions that pods wait for.
pub(crate) type Evictions = BTreeMap<PodKey, Awaited>;

impl Scheduler {
    /// Updates the nomination of the pod after a failed attempt.
    pub(crate) fn nominate(
        &mut self,
        now: Time,
        attempt: &Attempt,
        failure: &AttemptFailure,
        effects: &mut Vec<Effect>,
    ) {
        let pod = &attempt.pod;
        match &failure.nomination {
            Some(nomination) => {
                self.clear_way(now, attempt, nomination, failure.nominated_by, effects);
                self.nominated.set(pod.clone(), nomination.node.clone());
                self.write_nomination(pod, Some(nomination.node.clone()), effects);
            }
            None if failure.hopeless => self.withdraw(now, pod, effects),
            None => {}
        }
    }

    /// Withdraws a nomination. Pods that wait for the reserved resources are woken when the pod is
    /// observed without its nomination, as in kube-scheduler; at once if there will be no such event.
    pub(crate) fn withdraw(&mut self, now: Time, pod: &PodInfo, effects: &mut Vec<Effect>) {
        let kept = self.nominated.remove(&pod.key);
        if kept.is_some() || pod.nominated_node.is_some() {
            self.write_nomination(pod, None, effects);
        }
        let queued = self.names.find(&pod.key).and_then(|id| self.queue.get(id));
        let will_tell = queued.and_then(|queued| queued.pod.nominated_node.as_ref());
        let left = kept.filter(|node| will_tell != Some(node));
        self.leaves_nomination(now, left.map(|node| pod.placed_on(node)));
    }

    /// Writes which node a pod is nominated to, unless it says so already.
    pub(crate) fn write_nomination(
        &mut self,
        pod: &PodInfo,
        node: Option<Str>,
        effects: &mut Vec<Effect>,
    ) {
        if pod.nominated_node != node {
            self.write(pod, Write::Nominate(node), effects);
        }
    }

    /// Evicts the victims, and withdraws nominations of pods with lower priority to the node.
    pub(crate) fn clear_way(
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
            self.withdraw(now, other, effects);
        }
        let evict = |victim: &PodInfo| Eviction::new(victim, pod, &nomination.node);
        let (preemptor, broken_budgets) = (Preemptor::Pod, nomination.broken_budgets);
        let waits = Waits { attempt, others: &[], plugin, preemptor, broken_budgets };
        self.evict(now, waits, &nomination.victims, evict, effects);
    }

    /// Evicts pods that are on nodes, and rejects those that are not bound yet: they wait at Permit or in PreBind, and go back
    /// into the queue. Those that wait for the evictions are held back.
    pub(crate) fn evict(
        &mut self,
        now: Time,
        Waits { attempt, others, plugin, preemptor, broken_budgets }: Waits<'_>,
        victims: &[PodKey],
        eviction: impl Fn(&PodInfo) -> Eviction,
        effects: &mut Vec<Effect>,
    ) {
        let pod = &attempt.pod;
        self.count_victims(preemptor, victims);
        if !victims.is_empty() {
            self.counts.groups.breaks_budgets(preemptor, broken_budgets);
        }
        let mut writes = BTreeMap::new();
        for victim in victims {
            let Some(id) = self.names.find(victim) else { continue };
            let Some(of) = self.cache.pod(id) else { continue };
            let (of, key, eviction) = (of.clone(), victim.clone(), eviction(of));
            if self.waiting.has(id) {
                let (plugin, reason) = (plugin.into(), "preempted".into());
                self.waiting_decisions.push(WaitingDecision::Reject { pod: key, plugin, reason });
            } else if self.bindings.get(id).is_some_and(BindingCycle::is_in_pre_bind) {
                let uid = of.uid.clone();
                self.cancelled.push(CancelledBinding { victim: key, uid, by: plugin });
            } else {
                writes.insert(self.write(pod, Write::Evict(eviction), effects), key);
                continue;
            }
            let record = EventRecord::preempted_in_memory(&eviction);
            self.write(&of, Write::Record(record), effects);
        }
        if writes.is_empty() {
            return;
        }
        let deadline = now + self.options.write_timeout;
        let keys = others.iter().map(|other| other.pod.key.clone()).collect();
        let awaited =
            Awaited { preemptor, others: keys, writes, has_failed: false, began: now, deadline };
        self.evictions.insert(pod.key.clone(), awaited);
        if self.options.gates.preempts_async {
            let hold = if others.is_empty() { Hold::Pod } else { Hold::Group };
            for waiting in std::iter::once(attempt).chain(others) {
                self.queue.hold(waiting.id, plugin, hold);
            }
        }
    }

    /// Gives up pods that were preempted before their binding was sent.
    pub(crate) fn cancel_preempted(&mut self, now: Time, effects: &mut Vec<Effect>) {
        for CancelledBinding { victim, uid, by } in std::mem::take(&mut self.cancelled) {
            let Some(id) = self.names.find(&victim) else { continue };
            let is_it = |cycle: &BindingCycle| cycle.is_in_pre_bind() && cycle.pod.uid == uid;
            if self.bindings.get(id).is_some_and(is_it)
                && let Some(cycle) = self.bindings.take(id)
            {
                let why = cycle.preempted(by);
                self.binding_failed(now, *cycle, why, effects);
            }
        }
    }

    /// Counts the victims of a pod or of a group. As in framework/preemption/executor.go of 1.37: those of a group by
    /// themselves, and of the groups that lose pods each that is evicted as a whole once, others once for each pod.
    fn count_victims(&mut self, preemptor: Preemptor, victims: &[PodKey]) {
        let groups = self.options.gates.groups;
        match (preemptor, groups.rules) {
            (Preemptor::Group, GroupRules::V1_37) => self.counts.groups.victims(victims.len()),
            _ => self.counts.victims(victims.len()),
        }
        if !groups.generic_workload {
            return;
        }
        let forest = GroupForest::of(self.cache.view().stores, groups);
        let (mut whole, mut n_units) = (BTreeSet::new(), 0);
        for victim in victims {
            let Some(pod) = self.names.find(victim).and_then(|id| self.cache.pod(id)) else {
                continue;
            };
            match forest.evicted_with(pod) {
                Some(group) => n_units += usize::from(whole.insert(group)),
                None => n_units += usize::from(pod.scheduling_group.is_some()),
            }
        }
        self.counts.groups.disrupts(preemptor, n_units);
    }

    /// Handles the answer to an eviction. Returns whether the write was an eviction.
    pub(crate) fn evicted(
        &mut self,
        now: Time,
        id: EffectId,
        answer: &Result<(), WriteError>,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let owner = self.evictions.iter().find(|(_, awaited)| awaited.writes.contains_key(&id));
        let Some(pod) = owner.map(|(pod, _)| pod.clone()) else { return false };
        let awaited = self.evictions.get_mut(&pod).expect("it was just found");
        let victim = awaited.writes.remove(&id).expect("it was just found");
        let waits = !awaited.has_failed && (answer.is_err() || awaited.writes.is_empty());
        awaited.has_failed |= answer.is_err();
        let (began, others) = (awaited.began, awaited.others.clone());
        let preemptor = awaited.preemptor;
        if awaited.writes.is_empty() {
            self.evictions.remove(&pod);
        }
        match answer {
            Ok(()) => self.may_go(&victim),
            Err(_) => self.refused(now, victim, &pod),
        }
        if waits {
            self.counts.evictions_over(preemptor, answer.is_err(), now.since(began));
            self.evictions_over(now, (&pod, &others), answer.is_err(), effects);
        }
        true
    }

    /// As in preemption.go, prepareCandidate: without asynchronous preemption a pod whose victims could
    /// not be evicted loses its nomination.
    fn take_back(&mut self, now: Time, pod: &PodKey, effects: &mut Vec<Effect>) {
        let id = self.names.find(pod);
        let pod = id.and_then(|id| self.queue.get(id)).map(|info| info.pod.clone());
        if let Some(pod) = pod {
            self.withdraw(now, &pod, effects);
        }
    }

    /// Treats evictions without an answer as failed after their deadline.
    pub(crate) fn give_up_evictions(&mut self, now: Time, effects: &mut Vec<Effect>) {
        let due = self.evictions.iter().filter(|(_, awaited)| awaited.deadline <= now);
        let due: Vec<PodKey> = due.map(|(pod, _)| pod.clone()).collect();
        for pod in due {
            let Some(awaited) = self.evictions.remove(&pod) else { continue };
            for victim in awaited.writes.values() {
                self.refused(now, victim.clone(), &pod);
            }
            if !awaited.has_failed {
                self.counts.evictions_over(awaited.preemptor, true, now.since(awaited.began));
                self.evictions_over(now, (&pod, &awaited.others), true, effects);
            }
        }
    }

    /// Handles a failed eviction.
    fn refused(&mut self, now: Time, victim: PodKey, preemptor: &PodKey) {
        let is_known = self.names.find(&victim).is_some_and(|id| self.cache.knows(id));
        if !is_known {
            return;
        }
        let forgotten = self.refusals.add(now, victim.clone(), preemptor.clone());
        let refused = &mut self.cache.stores_mut(StoreReads::REFUSED_EVICTIONS).refused;
        refused.add(victim);
        if let Some(other) = forgotten {
            refused.remove(&other);
        }
    }

    /// Handles a pod that was deleted or evicted after its eviction may have failed.
    pub(crate) fn may_go(&mut self, victim: &PodKey) {
        if self.refusals.remove(victim).is_some() {
            self.cache.stores_mut(StoreReads::REFUSED_EVICTIONS).refused.remove(victim);
        }
    }

    /// Allows pods whose eviction failed to be chosen again after their time. The preemptors are
    /// retried, since nothing else might wake them.
    pub(crate) fn end_refusals(&mut self, now: Time) {
        for (victim, preemptor) in self.refusals.over(now) {
            self.cache.stores_mut(StoreReads::REFUSED_EVICTIONS).refused.remove(&victim);
            if let Some(id) = self.names.find(&preemptor) {
                let with = Surroundings { profiles: &self.profiles, cache: &self.cache };
                self.queue.retry(now, id, with);
            }
        }
    }

    /// Ends the wait for the evictions of a pod and of the other members of its group; `failed` says whether one has failed.
    fn evictions_over(
        &mut self,
        now: Time,
        (pod, others): (&PodKey, &[PodKey]),
        failed: bool,
        effects: &mut Vec<Effect>,
    ) {
        for pod in std::iter::once(pod).chain(others) {
            self.release(now, pod, failed);
            if failed && !self.options.gates.preempts_async {
                self.take_back(now, pod, effects);
            }
        }
    }

    /// A pod that waited for evictions is gone. The other members of its group wait no longer.
    pub(crate) fn preemptor_gone(&mut self, now: Time, pod: &PodKey) {
        let Some(awaited) = self.evictions.remove(pod) else { return };
        for other in &awaited.others {
            self.release(now, other, true);
        }
    }

    /// Ends the wait for the evictions of a pod; `failed` says whether one has failed.
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
