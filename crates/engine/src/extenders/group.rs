//! Groups of pods that are decided with extenders.
//!
//! The [cycle of a group](crate::groups) tries one member after the other on the cluster with those before it. Where a member
//! needs an answer, everything is taken back, and the group waits while others are decided. With the answer the cycle runs
//! again. If nothing has changed meanwhile, what was decided about the members so far still holds, so that the run comes to the
//! same place at once. Otherwise it decides all of them anew, and uses the answers as far as its questions are the same, as that
//! of a [pod by itself](super::consultation).

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_api::Pod;
use plimsoll_framework::{Nomination, Row, Time};

use super::consultation::Consultation;
use super::narrow::{PodExtenders, Questions};
use super::{ExtenderError, ExtenderReply, Interest};
use crate::cycle::{Cycle, CycleInputs, CycleResult, SchedulingCycle, StoppedCycle};
use crate::effect::EffectId;
use crate::groups::BegunCycle;
use crate::metrics::{CycleMeter, Lap};
use crate::names::PodId;
use crate::pick::TieBreaker;
use crate::queue::Attempt;
use crate::scheduler::Scheduler;
use crate::unit::{Member, Snapshot};

/// What a cycle of a group says while it waits. Nobody is told, since the cycle runs again.
const AWAITED: &str = "the answer of an extender is awaited";

/// The number of a group that is decided with extenders, or waits for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GroupTurn(pub(super) u64);

/// One of the decisions about a member in a cycle: about which member, and how often it was decided before. It is decided
/// several times if the group has several placements, or others may be evicted for it.
type MemberDecision = (PodId, u32);

/// All questions and answers about the members of a group in one attempt.
#[derive(Debug)]
pub(crate) struct GroupConsultation {
    /// The extenders of all members.
    pub(super) interest: Interest,
    /// The members that are still pending.
    pub(super) members: Vec<PodId>,
    /// Its cycle.
    pub(crate) begun: BegunCycle,
    /// Whether its extenders answer about it now.
    pub(super) has_turn: bool,
    /// Where searches begin that do not judge all nodes: the same each time.
    pub(crate) start: usize,
    /// The start of the attempt, for metrics.
    pub(crate) began: Lap,
    /// When the open questions count as failed.
    pub(super) deadline: Option<Time>,
    answers: BTreeMap<MemberDecision, Consultation>,
    /// What the decisions were made from.
    basis: Option<GroupBasis>,
    /// The decisions so far, in their order.
    decided: Vec<Arc<Cycle>>,
    /// How many of them this run has come past.
    n_passed: usize,
    /// How often each member was decided in this run.
    times: BTreeMap<PodId, u32>,
    /// The decision that needs answers.
    stopped: Option<(MemberDecision, Box<SchedulingCycle>)>,
    /// What it needs; the questions that this run has come to.
    questions: Option<Questions>,
    /// The evictions for single members that this run has come to.
    clears: Vec<Clearing>,
}

/// An eviction for a single member of a group: the place of the member, and what a plugin has nominated.
pub(crate) type Clearing = (usize, Nomination, &'static str);

/// What the cycle of a group is made from.
#[derive(Clone, Debug)]
pub(crate) struct GroupBasis {
    pub(crate) members: Vec<(PodId, Arc<Pod>)>,
    /// The revisions of the cluster and of the nominated pods.
    pub(crate) revisions: [u64; 2],
    /// The fingerprint of the profile.
    pub(crate) profile: u64,
}

impl GroupBasis {
    fn is_still(&self, now: &GroupBasis) -> bool {
        let same = |(own, other): &(PodId, Arc<Pod>), (id, pod): &(PodId, Arc<Pod>)| {
            own == id && Arc::ptr_eq(other, pod)
        };
        self.revisions == now.revisions
            && self.profile == now.profile
            && self.members.len() == now.members.len()
            && self.members.iter().zip(&now.members).all(|(one, other)| same(one, other))
    }
}

/// On what a member is decided.
#[derive(Clone, Copy)]
pub(crate) struct MemberScope<'a> {
    /// The nodes of the placement; `None` for all.
    pub(crate) within: Option<&'a [Row]>,
    pub(crate) asks_post_filter: bool,
    /// Whether the decision is measured.
    pub(crate) is_measured: bool,
}

impl GroupConsultation {
    /// A group that waits for its turn.
    pub(crate) fn new(interest: Interest, members: Vec<PodId>, begun: BegunCycle) -> Self {
        GroupConsultation {
            interest,
            members,
            begun,
            has_turn: false,
            start: 0,
            began: Lap::default(),
            deadline: None,
            answers: BTreeMap::new(),
            basis: None,
            decided: Vec::new(),
            n_passed: 0,
            times: BTreeMap::new(),
            stopped: None,
            questions: None,
            clears: Vec::new(),
        }
    }

    /// The members that are still pending.
    pub(crate) fn members(&self) -> &[PodId] {
        &self.members
    }

    /// Begins a run of the cycle.
    pub(crate) fn begin_run(&mut self, now: &GroupBasis) {
        if !self.basis.take().is_some_and(|basis| basis.is_still(now)) {
            self.decided.clear();
            self.stopped = None;
        }
        self.n_passed = 0;
        self.times.clear();
        self.questions = None;
        self.clears.clear();
        self.deadline = None;
    }

    /// Whether the run cannot go on without answers.
    pub(crate) fn is_stopped(&self) -> bool {
        self.questions.is_some()
    }

    /// Ends a run that cannot go on: the questions, and the member that they are about. `basis` is as the run has left it.
    pub(super) fn stop(&mut self, basis: GroupBasis) -> Option<(PodId, Questions)> {
        self.basis = Some(basis);
        let ((member, _), _) = self.stopped.as_ref()?;
        Some((*member, self.questions.take()?))
    }

    /// The answers that the decision waits for which has stopped.
    pub(super) fn open_mut(&mut self) -> Option<&mut Consultation> {
        let (decision, _) = self.stopped.as_ref()?;
        self.answers.get_mut(decision)
    }

    /// The same.
    pub(super) fn open(&self) -> Option<&Consultation> {
        let (decision, _) = self.stopped.as_ref()?;
        self.answers.get(decision)
    }

    /// Records an answer, and returns whether all questions are answered now.
    pub(super) fn answered(
        &mut self,
        id: EffectId,
        answer: Result<ExtenderReply, ExtenderError>,
    ) -> bool {
        self.open_mut().is_some_and(|consultation| consultation.answered(id, answer))
    }

    /// Forgets a member, whose number may be that of another pod later. Returns the open questions if they are about it.
    pub(super) fn leave(&mut self, pod: PodId) -> Option<Vec<EffectId>> {
        self.members.retain(|member| *member != pod);
        let stopped = self.stopped.take_if(|((of, _), _)| *of == pod);
        let open = stopped.map(|(decision, _)| {
            self.basis = None;
            self.deadline = None;
            let consultation = self.answers.get(&decision);
            consultation.map_or_else(Vec::new, |own| own.open().map(|(id, _)| id).collect())
        });
        self.answers.retain(|(of, _), _| *of != pod);
        open.filter(|open| !open.is_empty())
    }

    /// Notes an eviction for a single member, which is carried out when the cycle is over.
    pub(crate) fn clears(&mut self, clearing: Clearing) {
        self.clears.push(clearing);
    }

    /// The evictions for single members.
    pub(crate) fn into_clearings(self) -> Vec<Clearing> {
        self.clears
    }

    /// What was decided at this place of the cycle by an earlier run.
    fn passed(&mut self, member: PodId) -> Option<Arc<Cycle>> {
        let decided = self.decided.get(self.n_passed)?.clone();
        self.n_passed += 1;
        *self.times.entry(member).or_default() += 1;
        Some(decided)
    }

    /// Notes a decision.
    fn decides(&mut self, cycle: Arc<Cycle>) {
        self.decided.push(cycle);
        self.n_passed += 1;
    }
}

impl Scheduler {
    /// Decides a member of the group that is in its cycle, which is decided with extenders: by `plainly` if none of them is
    /// interested in the member.
    pub(crate) fn decide_consulting(
        &mut self,
        attempt: &Attempt,
        scope: MemberScope<'_>,
        plainly: impl FnOnce(&mut Self) -> Cycle,
    ) -> Arc<Cycle> {
        let Some(consulting) = &mut self.consulting else { return Arc::new(plainly(self)) };
        if consulting.is_stopped() {
            return awaited();
        }
        if let Some(decided) = consulting.passed(attempt.id) {
            self.count_judged(decided.n_judged);
            return decided;
        }
        let times = consulting.times.entry(attempt.id).or_default();
        let decision = (attempt.id, *times);
        *times += 1;
        let cycle = match self.extenders.to_ask(&attempt.pod) {
            None => plainly(self),
            Some(interest) => match self.consult(attempt, (decision, &interest), scope) {
                Some(cycle) => cycle,
                None => return awaited(),
            },
        };
        let cycle = Arc::new(cycle);
        if let Some(consulting) = &mut self.consulting {
            consulting.decides(cycle.clone());
        }
        cycle
    }

    /// Runs the cycle of a member as far as the answers allow; `None` if it is not over.
    fn consult(
        &mut self,
        attempt: &Attempt,
        (decision, interest): (MemberDecision, &Interest),
        scope: MemberScope<'_>,
    ) -> Option<Cycle> {
        let pod = &attempt.pod;
        let sample = self.sample(self.profile_of(pod));
        let meter = match scope.is_measured {
            true => self.counts.meter(),
            false => CycleMeter::default(),
        };
        let consulting = self.consulting.as_mut().expect("it was just found");
        let stopped = consulting.stopped.take().filter(|(of, _)| *of == decision);
        let cycle = stopped.map_or_else(|| SchedulingCycle::new(meter), |(_, cycle)| *cycle);
        let consultation = &*consulting.answers.entry(decision).or_default();
        let profile = self.profiles.get(&pod.scheduler_name).expect("only pods of ours are queued");
        let mut on = Snapshot::of(self.cache.view(), &self.nominated);
        (on.within, on.asks_post_filter) = (scope.within, scope.asks_post_filter);
        let inputs = CycleInputs {
            member: Member { profile, pod },
            on,
            sample: &sample,
            extenders: &PodExtenders { all: self.extenders.all(), interest, consultation },
        };
        let chance = &mut TieBreaker { tie_break: self.options.tie_break, rng: &mut self.rng };
        match cycle.go_on(&inputs, chance) {
            Ok(mut cycle) => {
                let index = profile.index;
                if scope.is_measured {
                    self.counts.decided(index, &mut cycle.meter);
                }
                self.count_judged(cycle.n_judged);
                Some(cycle)
            }
            Err(StoppedCycle { cycle, questions }) => {
                consulting.stopped = Some((decision, cycle));
                consulting.questions = Some(questions);
                None
            }
        }
    }
}

/// What stands for a decision that is awaited.
fn awaited() -> Arc<Cycle> {
    Arc::new(Cycle { result: CycleResult::Error(AWAITED.to_owned()), ..Cycle::new() })
}
