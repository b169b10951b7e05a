//! Decides pods: which [decider](decider) is asked, and audits.
//!
//! This is the driver of the cycles without extenders. It alone knows that the units that it decides are pods
//! by themselves: it asks the deciders about one member, and returns its decision to be carried out. For a
//! pod with extenders, [`crate::extenders`] is the driver.

mod decider;

use plimsoll_api::PodKey;
use plimsoll_framework::{CycleState, PodInfo, Row};
use rand_pcg::Pcg64;

pub(crate) use self::decider::{Decider, DeciderKind, DecisionContext, FromScratch};
use crate::cycle::{Cycle, CycleResult};
use crate::filters::Filters;
use crate::memo::{Remembered, Scanned};
use crate::metrics::{self, CycleMeter, Lap, Phases, Sampled};
use crate::pick::TieBreaker;
use crate::profile::Profile;
use crate::sample::{Sample, Samples};
use crate::scheduler::{Detail, Scheduler};
use crate::unit::{Member, Snapshot};

/// Deciders, in the order in which they are asked. The last one accepts everything.
type Order = &'static [&'static dyn Decider];

const FROM_SCRATCH: Order = &[&FromScratch];
const REMEMBERED_FIRST: Order = &[&Remembered, &FromScratch];
const SCANNED_FIRST: Order = &[&Scanned, &Remembered, &FromScratch];

/// The state that a decision uses up, to make the same decision again.
struct Chances {
    rng: Pcg64,
    next_start: usize,
}

impl Scheduler {
    /// Decides a pod, without extenders. `lap` is the start.
    pub(crate) fn decide(&mut self, pod: &PodInfo, lap: Lap) -> Cycle {
        let before = self.chances();
        if let Some(memo) = &mut self.memo {
            memo.begin(self.counts.phases(lap), self.options.detail);
        }
        self.refresh_memo();
        let (kind, mut cycle) = self.decide_in_order(pod);
        if kind == DeciderKind::FromScratch {
            let profile = self.profile_of(pod).index;
            self.counts.decided(profile, &mut cycle.meter);
            self.note_diagnosis(pod, &cycle);
            return cycle;
        }
        self.measure_remembered(pod, &cycle);
        if self.profiles.share_filter_state {
            cycle.shared = self.shared_at_pre_filter(pod);
        }
        if !self.audit.is_due() {
            return cycle;
        }
        let after = self.reset_chances(before);
        let Some(expected) = self.decide_by(pod, &FromScratch) else { return cycle };
        if self.audit.compare(pod, kind, &cycle, &expected, &self.cache.view()) {
            self.reset_chances(after);
            // Recorders are shown the scores that the audit has computed. With more detail every decision has its own.
            if self.options.detail == Detail::Choice {
                (cycle.feasible, cycle.scores) = (expected.feasible, expected.scores);
            }
            cycle
        } else {
            self.forget_derived();
            expected
        }
    }

    /// Decides a pending pod by every decider, compares their decisions with the one from scratch, and
    /// changes nothing except [`Scheduler::audit`] and what is remembered. `false` if the pod is not
    /// pending, or is only decided from scratch, as with extenders.
    pub fn audit_pod(&mut self, pod: &PodKey) -> bool {
        let Some(info) = self.pending_pod(pod) else { return false };
        if self.extenders.to_ask(&info.pod).is_some() || self.memo.is_none() {
            return false;
        }
        let pod = info.pod.clone();
        if let Some(memo) = &mut self.memo {
            memo.begin(Phases::default(), self.options.detail);
        }
        self.refresh_memo();
        let Some(expected) = self.try_decider(&pod, &FromScratch) else { return false };
        let scanned = self.try_decider(&pod, &Scanned);
        let remembered = self.try_decider(&pod, &Remembered).or_else(|| {
            // A failure from scratch is remembered for the next equal pod, which is this one again.
            self.note_diagnosis(&pod, &expected);
            self.try_decider(&pod, &Remembered)
        });
        let view = self.cache.view();
        for (kind, cycle) in
            [(DeciderKind::Scanned, &scanned), (DeciderKind::Remembered, &remembered)]
        {
            if let Some(cycle) = cycle {
                self.audit.compare(&pod, kind, cycle, &expected, &view);
            }
        }
        scanned.is_some() || remembered.is_some()
    }

    /// Brings what is remembered up to date with the cluster, and derives it again where it has been dropped.
    pub(crate) fn refresh_memo(&mut self) {
        if let Some(memo) = &mut self.memo {
            let (view, changes) = self.cache.with_changes();
            memo.follow(view, changes, &mut self.nominated);
        }
    }

    /// Asks the deciders until one accepts the pod.
    pub(crate) fn decide_in_order(&mut self, pod: &PodInfo) -> (DeciderKind, Cycle) {
        let (member, mut context) = self.context(pod);
        context.recognise(member);
        let order = match (context.memo.as_deref_mut(), &context.recognised) {
            (Some(memo), Some(recognised)) => {
                match memo.scans_first(member, context.on, recognised) {
                    true => SCANNED_FIRST,
                    false => REMEMBERED_FIRST,
                }
            }
            _ => FROM_SCRATCH,
        };
        let decided = order
            .iter()
            .find_map(|decider| Some((decider.kind(), decider.decide(member, &mut context)?)));
        let (kind, cycle) = decided.expect("the last decider accepts everything");
        self.count_judged(cycle.n_judged);
        (kind, cycle)
    }

    /// Decides by one decider. The decision is not measured.
    fn decide_by(&mut self, pod: &PodInfo, decider: &dyn Decider) -> Option<Cycle> {
        let (member, mut context) = self.context(pod);
        context.counts = None;
        if decider.kind() != DeciderKind::FromScratch {
            context.recognise(member);
        }
        let cycle = decider.decide(member, &mut context)?;
        self.count_judged(cycle.n_judged);
        Some(cycle)
    }

    /// Decides a member of a unit on the nodes of a placement, from what is remembered where that is possible. The decision
    /// is not measured.
    pub(crate) fn decide_within(
        &mut self,
        pod: &PodInfo,
        within: &[Row],
        asks_post_filter: bool,
    ) -> Cycle {
        let before = self.chances();
        if let Some(memo) = &mut self.memo {
            memo.begin(Phases::default(), self.options.detail);
        }
        self.refresh_memo();
        let (member, mut context) = self.context_within(pod, Some(within), asks_post_filter);
        context.recognise(member);
        let remembered = Remembered.decide(member, &mut context);
        let Some(mut cycle) = remembered else {
            return self.decide_within_from_scratch(pod, Some(within), asks_post_filter);
        };
        self.count_judged(cycle.n_judged);
        if self.profiles.share_filter_state {
            cycle.shared = self.shared_at_pre_filter(pod);
        }
        if !self.audit.is_due() {
            return cycle;
        }
        let after = self.reset_chances(before);
        let expected = self.decide_within_from_scratch(pod, Some(within), asks_post_filter);
        let kind = DeciderKind::Remembered;
        if self.audit.compare(pod, kind, &cycle, &expected, &self.cache.view()) {
            self.reset_chances(after);
            cycle
        } else {
            self.forget_derived();
            expected
        }
    }

    /// The same from scratch; `within` is `None` for all nodes.
    pub(crate) fn decide_within_from_scratch(
        &mut self,
        pod: &PodInfo,
        within: Option<&[Row]>,
        asks_post_filter: bool,
    ) -> Cycle {
        let (member, mut context) = self.context_within(pod, within, asks_post_filter);
        let cycle = FromScratch.decide(member, &mut context);
        let cycle = cycle.expect("everything can be decided from scratch");
        self.count_judged(cycle.n_judged);
        cycle
    }

    fn context_within<'a>(
        &'a mut self,
        pod: &'a PodInfo,
        within: Option<&'a [Row]>,
        asks_post_filter: bool,
    ) -> (Member<'a>, DecisionContext<'a>) {
        let (member, mut context) = self.context(pod);
        context.counts = None;
        (context.on.within, context.on.asks_post_filter) = (within, asks_post_filter);
        (member, context)
    }

    /// Decides by one decider, so that the next decision is made as if it had not been asked.
    fn try_decider(&mut self, pod: &PodInfo, decider: &dyn Decider) -> Option<Cycle> {
        let before = self.chances();
        let cycle = self.decide_by(pod, decider);
        self.reset_chances(before);
        cycle
    }

    /// A pod as the only member of its unit, and what it is decided from.
    fn context<'a>(&'a mut self, pod: &'a PodInfo) -> (Member<'a>, DecisionContext<'a>) {
        let profile = self.profiles.get(&pod.scheduler_name);
        let profile = profile.expect("only pods of our profiles are queued");
        let samples = Samples {
            cache: &self.cache,
            extenders_judge: self.extenders.judge_nodes(),
            start: self.next_start,
        };
        let context = DecisionContext {
            on: Snapshot::of(self.cache.view(), &self.nominated),
            memo: self.memo.as_mut(),
            recognised: None,
            chance: TieBreaker { tie_break: self.options.tie_break, rng: &mut self.rng },
            detail: self.options.detail,
            samples,
            counts: Some(&self.counts),
        };
        (Member { profile, pod }, context)
    }

    /// Moves the start of the next search that does not judge all nodes.
    pub(crate) fn count_judged(&mut self, n_judged: usize) {
        let n_nodes = self.cache.view().nodes.len().max(1);
        self.next_start = (self.next_start + n_judged) % n_nodes;
    }

    fn chances(&self) -> Chances {
        Chances { rng: self.rng.clone(), next_start: self.next_start }
    }

    /// Goes back to `before`, and returns the present state.
    fn reset_chances(&mut self, before: Chances) -> Chances {
        let rng = std::mem::replace(&mut self.rng, before.rng);
        Chances { rng, next_start: std::mem::replace(&mut self.next_start, before.next_start) }
    }

    /// The next sample for a profile.
    pub(crate) fn sample(&self, profile: &Profile) -> Sample {
        let extenders_judge = self.extenders.judge_nodes();
        Samples { cache: &self.cache, extenders_judge, start: self.next_start }.sample(profile)
    }

    /// What plugins share at PreFilter: a decision from memory does not ask them.
    fn shared_at_pre_filter(&self, pod: &PodInfo) -> CycleState {
        let (profile, mut shared) = (self.profile_of(pod), CycleState::new());
        if profile.shares_filter_state {
            let (view, meter) = (self.cache.view(), &mut CycleMeter::default());
            // What it comes to is known already.
            let _ = Filters::prepare(profile, pod, &mut shared, &view, meter);
        }
        shared
    }

    /// Updates the metrics after a decision from memory.
    fn measure_remembered(&mut self, pod: &PodInfo, cycle: &Cycle) {
        let is_sampled = self.counts.remembered();
        let Some(memo) = self.memo.as_mut().filter(|memo| memo.phases.are_measured()) else {
            return;
        };
        let phases = &mut memo.phases;
        let profile = self.profiles.get(&pod.scheduler_name).expect("it was just found");
        let went = metrics::went(profile, cycle, phases.is_scored);
        if let Some(&(last, _)) = went.last() {
            phases.over(last);
        }
        self.counts.went_through(profile.index, &went, phases);
        if !is_sampled {
            return;
        }
        let view = self.cache.view();
        let row = match cycle.result {
            CycleResult::Found { row, .. } => Some(row),
            CycleResult::Unschedulable(_) | CycleResult::Error(_) => view.nodes.rows().next(),
        };
        let Some(row) = row else { return };
        let sampled = Sampled { profile, pod, view, row, went: &went };
        sampled.count(self.counts.evaluations(profile.index));
        let Some(plugin) = sampled.plugin(self.counts.n_sampled()) else { return };
        let mut meter = self.counts.sampling_meter();
        sampled.measure(plugin, &mut meter);
        memo.measure_counted(plugin.name, view, row, &went, &mut meter);
        self.counts.take_in(profile.index, &mut meter);
    }

    /// Remembers an attempt that was made from scratch, for equal pods.
    pub(crate) fn note_diagnosis(&mut self, pod: &PodInfo, cycle: &Cycle) {
        let is_repeatable = self.nominated.node_of(&pod.key).is_none()
            && !self.cache.view().nodes.is_empty()
            && pod.unreadable.is_none();
        let profile = self.profiles.get(&pod.scheduler_name).expect("it was just found");
        if let Some(memo) = self.memo.as_mut().filter(|_| is_repeatable) {
            memo.note_diagnosis(profile, pod, cycle);
        }
    }
}
