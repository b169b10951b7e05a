//! Decides pods with extenders: ask, wait, and go on.

use std::time::Duration;

use plimsoll_framework::{PodInfo, QueuedPod, Time, WriteError};

use super::consultation::CycleBasis;
use super::group::{GroupBasis, GroupConsultation, GroupTurn};
use super::narrow::{PodExtenders, Questions};
use super::{Call, Extender, Extenders, Interest, Subject};
use crate::cycle::{Cycle, CycleInputs, CycleResult, SchedulingCycle, StoppedCycle};
use crate::effect::{Effect, Write};
use crate::names::PodId;
use crate::pick::TieBreaker;
use crate::queue::Attempt;
use crate::sample::Sample;
use crate::scheduler::Scheduler;
use crate::unit::{Member, Snapshot};

impl Scheduler {
    /// The same scheduler with extenders, in the order in which they are called. As in scheduler.go,
    /// buildExtenders, ignorable ones should come last.
    pub fn with_extenders(mut self, extenders: Vec<Extender>) -> Self {
        self.extenders = Extenders::new(extenders);
        self
    }

    /// Queues a pod that must be decided with extenders. Changes that happen meanwhile are taken into
    /// account when its turn comes.
    pub(crate) fn line_up(&mut self, attempt: &Attempt, interest: Interest) {
        let &Attempt { id, ref pod, .. } = attempt;
        let Some(info) = self.queue.get(id) else { return };
        let sort =
            self.profiles.sort_key(&QueuedPod { pod, ..info.in_queue() }, &self.cache.view());
        self.queue.rest(id);
        self.extenders.line_up(id, sort, interest);
    }

    /// Handles answers and failures of extenders.
    pub(crate) fn hear_extenders(&mut self, now: Time, effects: &mut Vec<Effect>) {
        if self.extenders.is_empty() {
            return;
        }
        let mut replies = std::mem::take(&mut self.extenders.replies);
        replies.extend(self.extenders.overdue(now));
        for (id, reply) in replies {
            // An answer for which no consultation waits is about a binding.
            if let Some(reply) = self.extenders.heard(id, reply) {
                let answer = reply.map(|_| ()).map_err(|error| WriteError::other(error.0));
                self.answered(now, id, answer, effects);
            }
        }
    }

    /// Decides the next pod or group for which extenders have answered, or starts the next one whose extenders
    /// are free. Returns whether there was one.
    pub(crate) fn take_turn(&mut self, now: Time, effects: &mut Vec<Effect>) -> bool {
        if !self.extenders.has_work() {
            return false;
        }
        let answered = self.extenders.next_answered();
        let Some(subject) = answered.or_else(|| self.begin_turn()) else { return false };
        match subject {
            Subject::Pod(pod) => self.converse(now, pod, effects),
            Subject::Group(turn) => self.converse_about_group(now, turn, effects),
        }
        true
    }

    /// Starts the next pod or group whose extenders are free.
    fn begin_turn(&mut self) -> Option<Subject> {
        let began = self.counts.start();
        let subject = self.extenders.begin(self.next_start, began)?;
        match subject {
            Subject::Pod(pod) => {
                self.queue.hear(pod, began);
            }
            Subject::Group(turn) => {
                let members = self.extenders.group(turn).map(GroupConsultation::members);
                for member in members.unwrap_or_default() {
                    self.queue.hear(*member, began);
                }
            }
        }
        Some(subject)
    }

    /// Decides a pod with the answers so far.
    fn converse(&mut self, now: Time, id: PodId, effects: &mut Vec<Effect>) {
        let Some(attempt) = self.queue.attempt(id) else {
            self.extenders.leave(id);
            return;
        };
        if self.skips(&attempt, effects) {
            self.extenders.leave(id);
            return;
        }
        let revisions = [self.cache.revision(), self.nominated.revision()];
        let basis = CycleBasis { pod: attempt.pod.clone(), revisions };
        match self.run_cycle(&attempt, &basis) {
            Ok(mut cycle) => {
                self.count(id, cycle.n_judged);
                let profile = self.profile_of(&attempt.pod).index;
                self.counts.decided(profile, &mut cycle.meter);
                if let Some((_, consultation)) = self.extenders.consultation(id) {
                    self.counts.searched(consultation.began);
                }
                self.extenders.leave(id);
                self.conclude(now, &attempt, cycle, effects);
            }
            Err(StoppedCycle { cycle, questions }) => {
                self.count(id, cycle.n_judged());
                if let Some(consultation) = self.extenders.consultation_mut(id) {
                    consultation.keep(basis, cycle);
                }
                self.ask(now, &attempt, questions, effects);
            }
        }
    }

    /// Runs the cycle of a pod as far as the answers allow.
    fn run_cycle(
        &mut self,
        attempt: &Attempt,
        basis: &CycleBasis,
    ) -> Result<Cycle, StoppedCycle<Questions>> {
        let pod = &attempt.pod;
        let stopped = self
            .extenders
            .consultation_mut(attempt.id)
            .and_then(|consultation| consultation.take_stopped(basis));
        let cycle = match stopped {
            Some(stopped) => *stopped,
            None => SchedulingCycle::new(self.counts.meter()),
        };
        let Some((interest, consultation)) = self.extenders.consultation(attempt.id) else {
            let result = CycleResult::Error("extenders were not asked".to_owned());
            return Ok(Cycle { result, ..Cycle::new() });
        };
        let sample = Sample { start: consultation.start, ..self.sample(self.profile_of(pod)) };
        let profile = self.profiles.get(&pod.scheduler_name).expect("it was just found");
        let inputs = CycleInputs {
            member: Member { profile, pod },
            on: Snapshot::of(self.cache.view(), &self.nominated),
            sample: &sample,
            extenders: &PodExtenders { all: self.extenders.all(), interest, consultation },
        };
        let chance = &mut TieBreaker { tie_break: self.options.tie_break, rng: &mut self.rng };
        cycle.go_on(&inputs, chance)
    }

    /// Moves the start of the next search that does not judge all nodes behind the first search for
    /// this pod.
    fn count(&mut self, pod: PodId, n_judged: usize) {
        let Some(consultation) =
            self.extenders.consultation_mut(pod).filter(|consultation| !consultation.counted)
        else {
            return;
        };
        consultation.counted = true;
        let n_nodes = self.cache.view().nodes.len().max(1);
        self.next_start = (self.next_start + n_judged) % n_nodes;
    }

    fn ask(
        &mut self,
        now: Time,
        attempt: &Attempt,
        questions: Questions,
        effects: &mut Vec<Effect>,
    ) {
        let &Attempt { id: pod_id, ref pod, .. } = attempt;
        let mut patience = Duration::ZERO;
        for (stage, question) in questions {
            let extender = stage.extender();
            let call = Call { extender, question: question.clone() };
            let id = self.write(pod, Write::Extender(call), effects);
            self.extenders.asked(pod_id, stage, question, id);
            patience = patience.max(self.extenders.get(extender).timeout);
        }
        // The IO layer has its own timeout. This is for lost answers.
        if let Some(consultation) = self.extenders.consultation_mut(pod_id) {
            consultation.deadline = Some(now + patience + self.options.write_timeout);
        }
    }

    /// Runs the cycle of a group with the answers so far.
    fn converse_about_group(&mut self, now: Time, turn: GroupTurn, effects: &mut Vec<Effect>) {
        let Some(mut group) = self.extenders.take_group(turn) else { return };
        let members: Vec<Attempt> =
            group.members().iter().filter_map(|id| self.queue.attempt(*id)).collect();
        group.begin_run(&self.group_basis(&members));
        let (begun, start) = (group.begun.clone(), group.start);
        let next_start = std::mem::replace(&mut self.next_start, start);
        let counts = self.counts.of_groups();
        self.consulting = Some(group);
        self.cycle_goes_on(now, begun, members.clone(), effects);
        let n_nodes = self.cache.view().nodes.len().max(1);
        match self.consulting.take().filter(|group| group.is_stopped()) {
            None => {
                let judged = self.next_start + n_nodes - start % n_nodes;
                self.next_start = (next_start + judged) % n_nodes;
            }
            Some(mut group) => {
                self.next_start = next_start;
                // It counts once, when it is over.
                self.counts.reset_groups(counts);
                let asked = group.stop(self.group_basis(&members));
                if let Some((member, questions)) = asked {
                    let about = members.iter().find(|attempt| attempt.id == member);
                    let about = about.expect("a member was decided").pod.clone();
                    self.ask_about_group(now, turn, (&about, questions), &mut group, effects);
                }
                self.extenders.put_group(turn, group);
            }
        }
    }

    /// What the cycle of a group is made from now.
    fn group_basis(&self, members: &[Attempt]) -> GroupBasis {
        let profile = members.first().map_or(0, |one| self.profile_of(&one.pod).fingerprint());
        GroupBasis {
            members: members.iter().map(|one| (one.id, one.pod.seen().clone())).collect(),
            revisions: [self.cache.revision(), self.nominated.revision()],
            profile,
        }
    }

    fn ask_about_group(
        &mut self,
        now: Time,
        turn: GroupTurn,
        (member, questions): (&PodInfo, Questions),
        group: &mut GroupConsultation,
        effects: &mut Vec<Effect>,
    ) {
        let mut patience = Duration::ZERO;
        for (stage, question) in questions {
            let extender = stage.extender();
            let call = Call { extender, question: question.clone() };
            let id = self.write(member, Write::Extender(call), effects);
            if let Some(consultation) = group.open_mut() {
                consultation.ask(stage, question, id);
            }
            self.extenders.group_awaits(turn, id);
            patience = patience.max(self.extenders.get(extender).timeout);
        }
        group.deadline = Some(now + patience + self.options.write_timeout);
    }
}
