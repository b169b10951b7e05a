//! Extenders: external programs that take part in decisions.
//!
//! The engine does no IO, so a question goes out as [`Write::Extender`](crate::Write::Extender), and
//! the pod waits in flight while others are decided. When [`Event::Extended`](crate::Event::Extended)
//! brings the answer, its cycle goes on where it stopped. If the cluster has changed meanwhile, a new cycle
//! begins, which uses the answers as far as its questions are the same.
//!
//! As in kube-scheduler, pods that share an extender are decided one after another, so that none takes
//! resources that were just assigned to another. Other pods do not wait. A group is decided as a whole.

mod call;
mod consult;
mod consultation;
mod extender_queue;
mod group;
mod narrow;
mod rank;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use plimsoll_api::Str;
use plimsoll_framework::{GroupRef, PodInfo, SortKey, Time};

pub use self::call::{
    Call, ExtenderCandidate, ExtenderError, ExtenderId, ExtenderQuestion, ExtenderReply, Filtered,
    KeptCandidate, Victim,
};
use self::consultation::{Consultation, ExtenderStage};
use self::extender_queue::ExtenderQueue;
use self::group::GroupTurn;
pub(crate) use self::group::{GroupConsultation, MemberScope};
use crate::effect::EffectId;
use crate::metrics::Lap;
use crate::names::PodId;
use crate::queue::Attempt;

/// The rejector name of extenders. As in framework/interface.go, ExtenderName.
pub(crate) const REJECTOR: &str = "Extender";

/// What an extender does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ExtenderVerb {
    /// It rejects nodes.
    Filter,
    /// It ranks nodes.
    Prioritize,
    /// It takes part in preemption.
    Preempt,
    /// It binds.
    Bind,
}

/// An extender, with the properties that decisions depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extender {
    /// Its URL, which names it.
    pub name: Str,
    /// What it does.
    pub verbs: BTreeSet<ExtenderVerb>,
    /// The factor for its scores.
    pub weight: i64,
    /// Whether its failures are ignored.
    pub ignorable: bool,
    /// It is asked only about pods that request one of these resources; about all pods if this is
    /// empty.
    pub managed_resources: BTreeSet<Str>,
    /// The timeout of a call.
    pub timeout: Duration,
}

impl Extender {
    /// Whether it does this.
    pub fn does(&self, verb: ExtenderVerb) -> bool {
        self.verbs.contains(&verb)
    }

    /// Whether it is responsible for a pod. As in extender.go, IsInterested: the requests of containers
    /// count, and so do their limits.
    pub fn is_interested(&self, pod: &PodInfo) -> bool {
        let managed = &self.managed_resources;
        managed.is_empty() || pod.asks.fit.scalar.keys().any(|name| managed.contains(name))
    }
}

/// The extenders that are interested in a pod, in the order in which they are called.
pub(crate) type Interest = Vec<ExtenderId>;

/// What is decided with extenders as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Subject {
    /// A pod by itself.
    Pod(PodId),
    /// A group of pods.
    Group(GroupTurn),
}

/// All extenders, with the pods that wait for them.
#[derive(Debug, Default)]
pub(crate) struct Extenders {
    all: Vec<Extender>,
    /// The pods that are being decided with extenders.
    consultations: BTreeMap<PodId, (Interest, Consultation)>,
    /// The groups that are being decided with extenders, or wait for their turn.
    groups: BTreeMap<GroupTurn, Box<GroupConsultation>>,
    /// How many groups there were so far.
    n_groups: u64,
    /// Who has open questions.
    awaited: BTreeMap<EffectId, Subject>,
    /// Those whose questions are all answered.
    answered: VecDeque<Subject>,
    /// Those who wait for their turn.
    extender_queue: ExtenderQueue,
    /// The answers since the last step.
    pub(crate) replies: Vec<(EffectId, Result<ExtenderReply, ExtenderError>)>,
}

impl Extenders {
    pub(crate) fn new(all: Vec<Extender>) -> Self {
        Extenders { all, ..Extenders::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(crate) fn all(&self) -> &[Extender] {
        &self.all
    }

    pub(crate) fn get(&self, id: ExtenderId) -> &Extender {
        &self.all[id.0]
    }

    /// The extenders that have to be asked before a pod is decided; `None` if there are none.
    pub(crate) fn to_ask(&self, pod: &PodInfo) -> Option<Interest> {
        if self.all.is_empty() || pod.unreadable.is_some() {
            return None;
        }
        let interest = self.interest(pod);
        let asks =
            |id: &ExtenderId| self.get(*id).verbs.iter().any(|verb| *verb != ExtenderVerb::Bind);
        interest.iter().any(asks).then_some(interest)
    }

    /// The extender that binds a pod.
    pub(crate) fn binder(&self, pod: &PodInfo) -> Option<ExtenderId> {
        let binds = |one: &Extender| one.does(ExtenderVerb::Bind) && one.is_interested(pod);
        self.all.iter().position(binds).map(ExtenderId)
    }

    /// Whether some extender filters or prioritizes, so that the search must not stop at the first
    /// feasible node. As in schedule_one.go, findNodesThatPassFilters: for whichever pods it is
    /// responsible.
    pub(crate) fn judge_nodes(&self) -> bool {
        self.all
            .iter()
            .any(|one| one.does(ExtenderVerb::Filter) || one.does(ExtenderVerb::Prioritize))
    }

    fn interest(&self, pod: &PodInfo) -> Interest {
        let ids = (0..self.all.len()).map(ExtenderId);
        ids.filter(|id| self.get(*id).is_interested(pod)).collect()
    }

    /// Queues a pod.
    pub(crate) fn line_up(&mut self, pod: PodId, sort: SortKey, interest: Interest) {
        self.extender_queue.push(Subject::Pod(pod), sort, interest);
    }

    /// Queues a group.
    pub(crate) fn line_group_up(&mut self, group: GroupConsultation, sort: SortKey) {
        self.n_groups += 1;
        let turn = GroupTurn(self.n_groups);
        self.extender_queue.push(Subject::Group(turn), sort, group.interest.clone());
        self.groups.insert(turn, Box::new(group));
    }

    /// Adds members to a group that is in its cycle. Returns whether it is.
    pub(crate) fn joins_group(&mut self, root: &GroupRef, members: &[Attempt]) -> bool {
        let interest = members.iter().filter_map(|member| self.to_ask(&member.pod)).flatten();
        let interest: BTreeSet<ExtenderId> = interest.collect();
        let group = self.groups.values_mut().find(|group| group.begun.root == *root);
        let Some(group) = group else { return false };
        for member in members {
            if !group.members.contains(&member.id) {
                group.members.push(member.id);
            }
        }
        group.interest.extend(interest);
        group.interest.sort_unstable();
        group.interest.dedup();
        true
    }

    /// Whether there is an answer to handle, or the turn of some pod has come.
    pub(crate) fn has_work(&self) -> bool {
        !self.replies.is_empty() || !self.answered.is_empty() || self.has_turn()
    }

    /// The next pod or group whose questions are all answered.
    fn next_answered(&mut self) -> Option<Subject> {
        self.answered.pop_front()
    }

    /// Whether a pod or a group waits for its turn.
    pub(crate) fn has_line(&self) -> bool {
        !self.extender_queue.is_empty()
    }

    fn has_turn(&self) -> bool {
        !self.extender_queue.is_empty() && self.extender_queue.first(self.busy()).is_some()
    }

    /// Starts a consultation about the next pod or group: the first one whose extenders are neither busy nor needed by
    /// one ahead of it.
    fn begin(&mut self, start: usize, began: Lap) -> Option<Subject> {
        if self.extender_queue.is_empty() {
            return None;
        }
        let subject = self.extender_queue.first(self.busy())?;
        let interest = self.extender_queue.remove(subject).expect("it was just found there");
        match subject {
            Subject::Pod(pod) => {
                self.consultations.insert(pod, (interest, Consultation::new(start, began)));
            }
            Subject::Group(turn) => {
                if let Some(group) = self.groups.get_mut(&turn) {
                    (group.has_turn, group.start, group.began) = (true, start, began);
                }
            }
        }
        Some(subject)
    }

    fn busy(&self) -> BTreeSet<ExtenderId> {
        let of_pods = self.consultations.values().map(|(interest, _)| interest);
        let of_groups = self.groups.values().filter(|group| group.has_turn);
        of_pods.chain(of_groups.map(|group| &group.interest)).flatten().copied().collect()
    }

    /// A group that goes on. It must be [put back](Self::put_group) if it has further questions.
    pub(crate) fn take_group(&mut self, turn: GroupTurn) -> Option<Box<GroupConsultation>> {
        self.groups.remove(&turn)
    }

    /// Puts a group back that has further questions.
    pub(crate) fn put_group(&mut self, turn: GroupTurn, group: Box<GroupConsultation>) {
        self.groups.insert(turn, group);
    }

    /// A group that is decided with extenders, or waits for its turn.
    pub(crate) fn group(&self, turn: GroupTurn) -> Option<&GroupConsultation> {
        self.groups.get(&turn).map(Box::as_ref)
    }

    /// Removes a pod that no longer needs answers.
    pub(crate) fn leave(&mut self, pod: PodId) {
        if self.all.is_empty() {
            return;
        }
        if let Some((_, consultation)) = self.consultations.remove(&pod) {
            self.answered.retain(|answered| *answered != Subject::Pod(pod));
            for (id, _) in consultation.open() {
                self.awaited.remove(&id);
            }
        }
        self.extender_queue.remove(Subject::Pod(pod));
        for (turn, group) in &mut self.groups {
            // It goes on at once if the pod was what it was about.
            if let Some(unheard) = group.leave(pod) {
                for id in unheard {
                    self.awaited.remove(&id);
                }
                self.answered.push_back(Subject::Group(*turn));
            }
        }
    }

    /// The consultation about a pod.
    pub(crate) fn consultation(&self, pod: PodId) -> Option<(&Interest, &Consultation)> {
        self.consultations.get(&pod).map(|(interest, consultation)| (interest, consultation))
    }

    /// The same, mutably.
    pub(crate) fn consultation_mut(&mut self, pod: PodId) -> Option<&mut Consultation> {
        self.consultations.get_mut(&pod).map(|(_, consultation)| consultation)
    }

    /// Records that a question about a pod was sent as the write `id`.
    fn asked(
        &mut self,
        pod: PodId,
        stage: ExtenderStage,
        question: ExtenderQuestion,
        id: EffectId,
    ) {
        if let Some(consultation) = self.consultation_mut(pod) {
            consultation.ask(stage, question, id);
            self.awaited.insert(id, Subject::Pod(pod));
        }
    }

    /// Records that the group `turn` waits for the answer to the write `id`.
    fn group_awaits(&mut self, turn: GroupTurn, id: EffectId) {
        self.awaited.insert(id, Subject::Group(turn));
    }

    /// Handles an answer. Returns it if no consultation waits for it.
    fn heard(
        &mut self,
        id: EffectId,
        answer: Result<ExtenderReply, ExtenderError>,
    ) -> Option<Result<ExtenderReply, ExtenderError>> {
        let Some(subject) = self.awaited.remove(&id) else { return Some(answer) };
        let is_answered = match subject {
            Subject::Pod(pod) => {
                let consultation = self.consultation_mut(pod);
                consultation.is_some_and(|consultation| consultation.answered(id, answer))
            }
            Subject::Group(turn) => {
                let group = self.groups.get_mut(&turn);
                group.is_some_and(|group| group.answered(id, answer))
            }
        };
        if is_answered {
            self.answered.push_back(subject);
        }
        None
    }

    /// The questions whose deadline has passed, with the errors that count as their answers.
    pub(crate) fn overdue(
        &self,
        now: Time,
    ) -> Vec<(EffectId, Result<ExtenderReply, ExtenderError>)> {
        let is_due = |deadline: Option<Time>| deadline.is_some_and(|deadline| deadline <= now);
        let of_pods = self.consultations.values().map(|(_, consultation)| consultation);
        let of_pods = of_pods.filter(|consultation| is_due(consultation.deadline));
        let of_groups = self.groups.values().filter(|group| is_due(group.deadline));
        let of_groups = of_groups.filter_map(|group| group.open());
        of_pods
            .chain(of_groups)
            .flat_map(Consultation::open)
            .map(|(id, one)| (id, Err(self.silent(one))))
            .collect()
    }

    /// The error if neither an answer of an extender nor an error of the IO layer arrives.
    pub(crate) fn silent(&self, extender: ExtenderId) -> ExtenderError {
        let name = &self.get(extender).name;
        ExtenderError(format!("timed out waiting for the answer of extender {name:?}"))
    }

    /// When the next questions count as failed.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let of_pods = self.consultations.values().filter_map(|(_, one)| one.deadline);
        of_pods.chain(self.groups.values().filter_map(|group| group.deadline)).min()
    }

    /// Whether nobody waits for an extender, or for their turn.
    pub(crate) fn is_idle(&self) -> bool {
        self.consultations.is_empty()
            && self.groups.is_empty()
            && self.extender_queue.is_empty()
            && self.replies.is_empty()
    }
}
