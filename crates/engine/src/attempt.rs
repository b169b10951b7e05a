//! One attempt to schedule a pod: the scheduling cycle, and the start of the binding cycle.

use std::sync::Arc;

use plimsoll_api::PodKey;
use plimsoll_framework::parts::StoreReads;
use plimsoll_framework::{
    Description, PodInfo, Point, Row, Time, WaitingPod, WriteCause, WriteError,
};

use crate::binding::{Backing, BindingCycle, BindingHandle, BindingProgress, Unbound};
use crate::cycle::{self, AttemptFailure, Cycle, CycleResult, FailureReason};
use crate::decision::{AttemptContext, Decision, Outcome};
use crate::effect::{Condition, Effect, EffectId, EventRecord, Write};
use crate::explain::{best_nodes, decision, described};
use crate::metrics::{self, Lap, MeteredPoint, Status};
use crate::names::PodId;
use crate::profile::Profile;
use crate::queue::{Attempt, AttemptVerdict, Audience, Surroundings};
use crate::recorder::BindingEnd;
use crate::scheduler::{Detail, Scheduler};
use crate::waiting::Verdicts;

impl Scheduler {
    /// Tries one pod.
    pub(crate) fn attempt(&mut self, now: Time, attempt: &Attempt, effects: &mut Vec<Effect>) {
        let pod = &attempt.pod;
        if self.skips(attempt, effects) {
            return;
        }
        if let Some(interest) = self.extenders.to_ask(pod) {
            self.line_up(attempt, interest);
            return;
        }
        let lap = self.counts.start();
        let cycle = self.decide(pod, lap);
        self.counts.searched(lap);
        self.conclude(now, attempt, cycle, effects);
    }

    /// Whether a pod need not be scheduled because it is being deleted.
    pub(crate) fn skips(&mut self, attempt: &Attempt, effects: &mut Vec<Effect>) -> bool {
        let pod = &attempt.pod;
        if pod.is_terminating() {
            let note = format!("skip schedule deleting pod: {}", pod.key);
            self.write(pod, Write::Record(EventRecord::failed(&note)), effects);
            self.queue.done(attempt.id);
        }
        pod.is_terminating()
    }

    /// Carries out the decision about a pod.
    pub(crate) fn conclude(
        &mut self,
        now: Time,
        attempt: &Attempt,
        cycle: Cycle,
        effects: &mut Vec<Effect>,
    ) {
        let pod = &attempt.pod;
        match cycle.result {
            CycleResult::Found { row, .. } => self.place(now, attempt, row, cycle, effects),
            CycleResult::Unschedulable(_) | CycleResult::Error(_) => {
                let described = self.describe(pod, &cycle);
                self.log(attempt, &cycle, described);
                let mut shared = cycle.shared;
                let failure = match cycle.result {
                    CycleResult::Unschedulable(failure) => *failure,
                    CycleResult::Error(message) => AttemptFailure::error(message),
                    CycleResult::Found { .. } => return,
                };
                self.count_preemption(pod, &failure);
                self.nominate(now, attempt, &failure, effects);
                if self.asks_post_filter(pod, &failure) {
                    let told = (cycle.rejected.as_slice(), &mut shared);
                    self.tell_after_post_filter(now, pod, &failure, told, effects);
                }
                let in_vain = failure.reason == FailureReason::Unschedulable
                    && failure.nomination.is_none()
                    && self.extenders.to_ask(pod).is_none();
                self.fail(now, attempt.id, pod, failure, effects);
                if in_vain {
                    let with = Surroundings { profiles: &self.profiles, cache: &self.cache };
                    self.queue.tried_in_vain(attempt.id, with);
                }
            }
        }
    }

    pub(crate) fn profile_of(&self, pod: &PodInfo) -> &Profile {
        self.profiles.get(&pod.scheduler_name).expect("only pods of our profiles are queued")
    }

    /// Assumes the pod on its node, and runs Reserve and Permit.
    pub(crate) fn place(
        &mut self,
        now: Time,
        attempt: &Attempt,
        row: Row,
        mut cycle: Cycle,
        effects: &mut Vec<Effect>,
    ) {
        let described = self.describe(&attempt.pod, &cycle);
        let node = self.cache.view().nodes.name_of(row).clone();
        let assumed = attempt.pod.placed_on(node);
        self.cache.assume(attempt.id, assumed.clone(), row);
        self.nominated.remove(&attempt.pod.key);
        let shared = std::mem::take(&mut cycle.shared);
        let name = &attempt.pod.scheduler_name;
        let profile = self.profiles.shared(name).expect("it was just used");
        let lap = self.counts.start();
        let placed = Attempt { pod: assumed, ..*attempt };
        let reserved = BindingCycle::reserve(placed, shared, &profile, &mut self.backing(now));
        self.permit(now, attempt, (reserved, lap), (&cycle, described), effects);
    }

    /// The same for a member of a group that is on its node already, with nothing reserved for it.
    pub(crate) fn place_staying(
        &mut self,
        now: Time,
        attempt: &Attempt,
        binding: Box<BindingCycle>,
        cycle: &Cycle,
        effects: &mut Vec<Effect>,
    ) {
        let described = self.describe(&attempt.pod, cycle);
        self.cache.stores_mut(StoreReads::GROUPS).groups.is_placed(&binding.pod);
        let lap = self.counts.start();
        self.permit(now, attempt, (Ok(binding), lap), (cycle, described), effects);
    }

    /// Runs Permit, if Reserve, which began at `lap`, has not failed.
    fn permit(
        &mut self,
        now: Time,
        attempt: &Attempt,
        (reserved, lap): (Result<Box<BindingCycle>, Unbound>, Lap),
        (cycle, described): (&Cycle, Description),
        effects: &mut Vec<Effect>,
    ) {
        let profile = self.profiles.shared(&attempt.pod.scheduler_name).expect("it was just used");
        let status = reserved.as_ref().err().map_or(Status::Success, Unbound::status);
        let lap = self.counts.stage(profile.index, MeteredPoint::Reserve, status, lap);
        let permitted = reserved.and_then(|mut binding| {
            let permitted = binding.permit(&profile, &mut self.backing(now));
            let status = match &permitted {
                Ok(pending) if pending.is_empty() => Status::Success,
                Ok(_) => Status::Wait,
                Err(why) => why.status(),
            };
            self.counts.stage(profile.index, MeteredPoint::Permit, status, lap);
            match permitted {
                Ok(pending) => Ok((binding, pending)),
                Err(why) => {
                    binding.unreserve(&mut self.backing(now));
                    Err(why)
                }
            }
        });
        match permitted {
            // No other pod has seen the pod on its node, so none is woken when it leaves. Otherwise two
            // pods that are always denied would wake each other forever.
            Err(why) => {
                self.send_writes(now, effects);
                self.unbound(now, attempt, why, Some(cycle), effects);
            }
            Ok((mut binding, pending)) => {
                binding.sequence = self.log(attempt, cycle, described);
                if pending.is_empty() {
                    self.expect_node(now, &mut binding, effects);
                }
                let activated = binding.take_activated();
                self.activate_all(now, &activated);
                if pending.is_empty() {
                    self.proceed(now, binding, effects);
                } else {
                    binding.permit_began = now;
                    if self.options.gates.says_expected_node {
                        self.unsaid.push(binding.id);
                    }
                    let (pod, node) = (binding.pod.clone(), binding.node().clone());
                    let waits = WaitingPod { pod, node, since: now, pending };
                    self.waiting.add(binding.id, waits);
                    self.drive(now, binding, effects, BindingCycle::send);
                }
            }
        }
    }

    /// Lets pods be tried without waiting any longer. As in schedule_one.go, schedulingCycle: after a successful cycle.
    fn activate_all(&mut self, now: Time, pods: &[PodKey]) {
        let with = Surroundings { profiles: &self.profiles, cache: &self.cache };
        for id in pods.iter().filter_map(|pod| self.names.find(pod)) {
            self.queue.activate(now, id, with);
        }
    }

    /// Writes the expected node of a pod if PreBind has work to do, so that it cannot be bound at once. As in
    /// schedule_one.go, bindingCycle.
    fn expect_node(&mut self, now: Time, binding: &mut BindingCycle, effects: &mut Vec<Effect>) {
        if !self.options.gates.says_expected_node || binding.says_node {
            return;
        }
        let waiting = self.waiting.pods();
        if binding.has_to_prepare(now, &self.cache, waiting) {
            self.say_node(binding, effects);
        }
    }

    /// Writes the expected nodes of the pods that have come to wait at Permit, and wait there still. Those of a gang whose last
    /// pod has just allowed them are bound at once, and the binding says where.
    fn expect_nodes_of_waiting(&mut self, effects: &mut Vec<Effect>) {
        for id in std::mem::take(&mut self.unsaid) {
            let waits = self.bindings.get(id).is_some_and(BindingCycle::waits_at_permit);
            if waits && let Some(mut binding) = self.bindings.take(id) {
                self.say_node(&mut binding, effects);
                self.bindings.put(binding);
            }
        }
    }

    fn say_node(&mut self, binding: &mut BindingCycle, effects: &mut Vec<Effect>) {
        let node = binding.node().clone();
        binding.says_node = true;
        self.expected.set(binding.id, node.clone());
        self.write_nomination(&binding.pod, Some(node), effects);
    }

    /// Advances binding cycles: answers, decisions of plugins, deadlines, and changes of the cluster.
    pub(crate) fn carry_on(&mut self, now: Time, effects: &mut Vec<Effect>) {
        self.carry_out_waiting_decisions(now, effects);
        let expired = self.waiting.expire(now);
        self.permit_over(now, expired, effects);
        // A plugin may give up a whole group with one of its pods. No pod is decided in between, which would find half of
        // the group on its nodes.
        self.carry_out_waiting_decisions(now, effects);
        self.cancel_preempted(now, effects);
        self.send_writes(now, effects);
        let mut answers = std::mem::take(&mut self.answers);
        for id in self.sent_writes.overdue(now) {
            let late = WriteError::new(WriteCause::TimedOut, "timed out waiting for a write");
            answers.push((id, Err(late)));
        }
        for (id, answer) in answers.drain(..) {
            if !self.evicted(now, id, &answer, effects) {
                self.answered(now, id, answer, effects);
            }
        }
        self.answers = answers;
        self.hear_extenders(now, effects);
        self.give_up_evictions(now, effects);
        self.end_refusals(now);
        self.retry_unhelped(now);
        for id in self.bindings.to_look_at(now) {
            if let Some(cycle) = self.bindings.take(id) {
                self.drive(now, cycle, effects, BindingCycle::look);
            }
        }
    }

    /// Carries out what an attempt has decided about pods that wait at Permit.
    pub(crate) fn settle_waiting(&mut self, now: Time, effects: &mut Vec<Effect>) {
        self.carry_out_waiting_decisions(now, effects);
        self.expect_nodes_of_waiting(effects);
    }

    /// Carries out what plugins have decided about waiting pods, and what they decide meanwhile.
    fn carry_out_waiting_decisions(&mut self, now: Time, effects: &mut Vec<Effect>) {
        while !self.waiting_decisions.is_empty() {
            let decisions = std::mem::take(&mut self.waiting_decisions);
            let verdicts = self.waiting.decide(decisions, &self.profiles);
            self.permit_over(now, verdicts, effects);
        }
    }

    fn permit_over(&mut self, now: Time, verdicts: Verdicts, effects: &mut Vec<Effect>) {
        for (id, verdict) in verdicts {
            let Some(mut cycle) = self.bindings.take(id) else { continue };
            let status = verdict.as_ref().err().map_or(Status::Success, Unbound::status);
            self.counts.permit_over(status, now.since(cycle.permit_began));
            match verdict {
                Ok(()) => {
                    self.expect_node(now, &mut cycle, effects);
                    self.proceed(now, cycle, effects);
                }
                Err(why) => {
                    self.queue.waited_in_vain(cycle.id);
                    self.give_up(now, *cycle, why, effects);
                }
            }
        }
    }

    /// Permit is over.
    fn proceed(&mut self, now: Time, cycle: Box<BindingCycle>, effects: &mut Vec<Effect>) {
        self.queue.permitted(cycle.id);
        self.drive(now, cycle, effects, BindingCycle::proceed);
    }

    pub(crate) fn answered(
        &mut self,
        now: Time,
        id: EffectId,
        answer: Result<(), WriteError>,
        effects: &mut Vec<Effect>,
    ) {
        let said = match self.sent_writes.is_empty() {
            true => None,
            false => self.sent_writes.take(id),
        };
        match (self.bindings.take_awaiting(id), said) {
            (Some(cycle), Some(said)) => self.drive(now, cycle, effects, |cycle, engine| {
                cycle.object_answered(id, &said, answer, engine)
            }),
            (Some(cycle), None) => {
                self.drive(now, cycle, effects, |cycle, engine| cycle.answered(answer, engine));
            }
            (None, Some(said)) => self.object_answered(now, &said, answer, effects),
            (None, None) => {}
        }
    }

    /// Runs a step of a binding cycle, and carries out its result.
    fn drive(
        &mut self,
        now: Time,
        mut cycle: Box<BindingCycle>,
        effects: &mut Vec<Effect>,
        act: impl FnOnce(&mut BindingCycle, &mut BindingHandle<'_>) -> BindingProgress,
    ) {
        let profile = cycle.profile.clone();
        let mut engine = BindingHandle {
            backing: Backing {
                now,
                cache: &mut self.cache,
                waiting: self.waiting.pods(),
                decisions: &mut self.waiting_decisions,
                said: &mut self.said_writes,
                metrics: &mut self.plugin_metrics,
                events: &mut self.said_events,
            },
            profile: &profile,
            extenders: &self.extenders,
            effects,
            next_effect: &mut self.next_effect,
            sent: &mut self.sent_writes,
            write_timeout: self.options.write_timeout,
            counts: &mut self.counts,
        };
        match act(&mut cycle, &mut engine) {
            BindingProgress::Waits => self.bindings.put(cycle),
            BindingProgress::Bound => {
                let key = &cycle.pod.key;
                engine.write(&cycle.pod, Write::Record(EventRecord::scheduled(key, cycle.node())));
                let bound = self.queue.done(cycle.id);
                if let Some(bound) = &bound {
                    self.counts.bound(now, profile.index, bound);
                }
                self.binding_ended(now, &cycle, bound.and_then(|bound| bound.first_ready), None);
            }
            BindingProgress::Failed(why) => self.binding_failed(now, *cycle, why, effects),
        }
    }

    /// Shows recorders how a binding cycle has ended.
    pub(crate) fn binding_ended(
        &mut self,
        now: Time,
        cycle: &BindingCycle,
        first_ready: Option<Time>,
        error: Option<&str>,
    ) {
        let Some(sequence) = cycle.sequence else { return };
        let (pod, attempt) = (&cycle.pod.key, cycle.attempt);
        let end = BindingEnd { pod, sequence, attempt, first_ready, error };
        for recorder in &mut self.recorders {
            recorder.binding_ended(now, &end);
        }
    }

    /// A binding cycle has failed at its extension point.
    pub(crate) fn binding_failed(
        &mut self,
        now: Time,
        cycle: BindingCycle,
        why: Unbound,
        effects: &mut Vec<Effect>,
    ) {
        if let Some((point, lap)) = cycle.stands_at() {
            self.counts.stage(cycle.profile.index, point, why.status(), lap);
        }
        self.give_up(now, cycle, why, effects);
    }

    /// The data behind the handles of plugins.
    pub(crate) fn backing(&mut self, now: Time) -> Backing<'_> {
        Backing {
            now,
            cache: &mut self.cache,
            waiting: self.waiting.pods(),
            decisions: &mut self.waiting_decisions,
            said: &mut self.said_writes,
            metrics: &mut self.plugin_metrics,
            events: &mut self.said_events,
        }
    }

    /// A binding cycle has failed: everything is undone, and others hear of the room that the pod leaves.
    fn give_up(
        &mut self,
        now: Time,
        mut cycle: BindingCycle,
        why: Unbound,
        effects: &mut Vec<Effect>,
    ) {
        let lap = self.counts.start();
        self.waiting.remove(cycle.id);
        cycle.unreserve(&mut self.backing(now));
        self.send_writes(now, effects);
        let (index, point) = (cycle.profile.index, MeteredPoint::Unreserve);
        self.counts.stage(index, point, Status::Success, lap);
        let queued = self.queue.get(cycle.id);
        let was_seen = queued.is_none_or(|info| info.pod.nominated_node.is_some());
        let first_ready = queued.and_then(|info| info.first_ready);
        self.binding_ended(now, &cycle, first_ready, Some(&why.message()));
        let BindingCycle { id, pod, attempt: number, says_node, .. } = cycle;
        let attempt = Attempt { id, pod, number };
        let left = self.unbound(now, &attempt, why, None, effects);
        if says_node && !was_seen {
            self.write(&attempt.pod, Write::Nominate(None), effects);
        }
        if let Some(pod) = left {
            self.freed(now, &pod, Audience::AllBut(id));
        }
    }

    /// Handles a pod that had a node but was not bound: removes it from its node and puts it back into
    /// the queue. Returns its state on the node. `cycle` is its scheduling cycle, if that ends with it.
    fn unbound(
        &mut self,
        now: Time,
        attempt: &Attempt,
        why: Unbound,
        cycle: Option<&Cycle>,
        effects: &mut Vec<Effect>,
    ) -> Option<PodInfo> {
        let &Attempt { id, ref pod, number } = attempt;
        let failure = match why {
            Unbound::Error(message) => AttemptFailure::error(message),
            Unbound::Rejected { plugin, why } => cycle::rejected_on_its_node(plugin, &why),
            Unbound::TooLate(why) => {
                AttemptFailure { message: why.to_string(), ..AttemptFailure::default() }
            }
        };
        if self.options.detail != Detail::None {
            let outcome = match failure.reason {
                FailureReason::SchedulerError => {
                    Outcome::Error { message: failure.message.clone() }
                }
                FailureReason::Unschedulable => Outcome::Unschedulable {
                    message: failure.message.clone(),
                    pre_filter: None,
                    nomination: None,
                },
            };
            let mut decision = Decision::of_pod(pod.key.clone(), number, outcome);
            let context = cycle.and_then(|cycle| self.attempt_context(attempt, cycle));
            if let Some(context) = context {
                let rejectors = failure.rejectors.iter().copied().collect();
                decision.context = Some(AttemptContext { rejectors, ..context });
                self.show(&decision);
            }
            self.decisions.push(decision);
        }
        let left = self.cache.forget(id);
        match self.queue.get(id).map(|info| info.pod.clone()) {
            Some(latest) => {
                self.withdraw(now, &latest, effects);
                self.fail(now, id, &latest, failure, effects);
            }
            None => self.fail(now, id, pod, failure, effects),
        }
        left
    }

    /// Handles a failed attempt: writes the condition and event, and puts the pod back into the queue.
    pub(crate) fn fail(
        &mut self,
        now: Time,
        id: PodId,
        pod: &PodInfo,
        failure: AttemptFailure,
        effects: &mut Vec<Effect>,
    ) {
        self.write(pod, Write::Record(EventRecord::failed(&failure.message)), effects);
        // As in schedule_one.go, handleSchedulingFailure: the binding may have taken effect although
        // its answer is an error, and a pod that was observed on a node is not tried again.
        let reason = failure.reason;
        if self.profiles.get(&pod.scheduler_name).is_none() {
            // Its profile was removed while it was being bound.
            self.queue.done(id);
            self.is_orphaned(now, id, pod);
            return;
        }
        if self.cache.knows(id) {
            let began = self.queue.done(id).map(|done| done.began);
            self.count_failure(pod, reason, began);
            return;
        }
        let condition = Condition { reason: failure.reason.as_str(), message: failure.message };
        self.write(pod, Write::Condition(condition), effects);
        let AttemptFailure { rejectors, pending, .. } = failure;
        let is_error = reason == FailureReason::SchedulerError;
        let verdict = AttemptVerdict { rejectors, pending, is_error };
        let with = Surroundings { profiles: &self.profiles, cache: &self.cache };
        let began = self.queue.failed(now, id, verdict, with);
        self.count_failure(pod, reason, began);
    }

    /// Counts an attempt that failed, and how long it took if the pod is still there.
    fn count_failure(&mut self, pod: &PodInfo, reason: FailureReason, began: Option<Lap>) {
        let outcome = match reason {
            FailureReason::Unschedulable => metrics::AttemptResult::Unschedulable,
            FailureReason::SchedulerError => metrics::AttemptResult::Error,
        };
        let profile = self.profile_of(pod).index;
        self.counts.ended(profile, outcome, began.unwrap_or_default());
    }

    /// As in default_preemption.go, PostFilter: it counts every call. It is not called if there is no
    /// node at all, or after an error.
    pub(crate) fn count_preemption(&mut self, pod: &PodInfo, failure: &AttemptFailure) {
        if self.asks_post_filter(pod, failure) {
            self.counts.preemption();
        }
    }

    /// Whether PostFilter plugins are asked after this failure.
    pub(crate) fn asks_post_filter(&self, pod: &PodInfo, failure: &AttemptFailure) -> bool {
        failure.reason == FailureReason::Unschedulable
            && !self.cache.view().nodes.is_empty()
            && self.profile_of(pod).at(Point::PostFilter).next().is_some()
            && self.profile_of(pod).asks_post_filter(pod)
    }

    pub(crate) fn write(
        &mut self,
        pod: &PodInfo,
        write: Write,
        effects: &mut Vec<Effect>,
    ) -> EffectId {
        let id = EffectId(self.next_effect);
        self.next_effect += 1;
        effects.push(Effect { id, pod: pod.seen().clone(), write });
        id
    }

    /// Keeps the decision about a pod, and returns its [sequence](AttemptContext::sequence). One about a member of a group is only
    /// shown to recorders.
    pub(crate) fn log(
        &mut self,
        attempt: &Attempt,
        cycle: &Cycle,
        described: Description,
    ) -> Option<u64> {
        if self.options.detail == Detail::None {
            return None;
        }
        let context = self.attempt_context(attempt, cycle);
        let sequence = context.as_ref().map(|context| context.sequence);
        let (key, view, detail) = (&attempt.pod.key, self.cache.view(), self.options.detail);
        let mut decision = decision(key, attempt.number, cycle, view, detail);
        decision.described = described;
        decision.context = context;
        self.show(&decision);
        if attempt.pod.scheduling_group.is_none() {
            self.decisions.push(decision);
        }
        sequence
    }

    /// Shows recorders the decision about a pod.
    fn show(&mut self, decision: &Decision) {
        let now = self.cache.view().stores.now;
        for recorder in &mut self.recorders {
            recorder.decided(now, decision);
        }
    }

    /// How an attempt came about, with the next sequence; `None` if its pod is gone.
    fn attempt_context(&mut self, attempt: &Attempt, cycle: &Cycle) -> Option<AttemptContext> {
        let info = self.queue.get(attempt.id)?;
        let (rejectors, rejections) = match &cycle.result {
            CycleResult::Unschedulable(failure) => {
                (failure.rejectors.iter().copied().collect(), failure.counted.clone())
            }
            CycleResult::Found { .. } | CycleResult::Error(_) => (Vec::new(), Arc::default()),
        };
        let best = best_nodes(cycle, self.cache.view());
        let feasible = match (&cycle.result, cycle.feasible.len()) {
            (CycleResult::Found { .. }, 0) => cycle.n_feasible,
            (CycleResult::Found { .. }, listed) => Some(listed),
            _ => None,
        };
        let margin = best.as_ref().and_then(|best| best.margin);
        let fingerprint = self.profile_of(&info.pod).fingerprint();
        self.last_attempt += 1;
        Some(AttemptContext {
            sequence: self.last_attempt,
            pod: attempt.pod.seen().clone(),
            fingerprint,
            woken_by: info.woken_by.name(self.options.release),
            queued: info.queued,
            first_ready: info.first_ready,
            judged: cycle.n_judged,
            rejectors,
            rejections,
            feasible,
            margin: margin.or(cycle.margin),
            best,
        })
    }

    /// What plugins add to the record of a decision.
    fn describe(&self, pod: &PodInfo, cycle: &Cycle) -> Description {
        if self.options.detail <= Detail::Choice {
            return Description::default();
        }
        described(self.profile_of(pod), pod, cycle, self.cache.view(), self.options.detail)
    }
}
