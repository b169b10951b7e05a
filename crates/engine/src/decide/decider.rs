//! Deciders: interchangeable ways to make the same decision.

use rand_pcg::Pcg64;

use crate::cycle::{self, Cycle};
use crate::memo::{Memo, Recognised, Want};
use crate::metrics::{CycleMeter, SchedulerCounters};
use crate::pick::{TieBreak, TieBreaker};
use crate::sample::Samples;
use crate::scheduler::Detail;
use crate::unit::{Member, Snapshot};

/// Decides a member of a unit. All deciders that accept a member on the same snapshot make the same decision
/// with the same random numbers; those from memory may name only one of the best nodes, unless all are
/// wanted. A decider changes nothing but what it remembers.
pub(crate) trait Decider: Sync {
    /// Which one it is.
    fn kind(&self) -> DeciderKind;

    /// The decision; `None` if it does not accept this member on this snapshot.
    fn decide(&self, member: Member<'_>, context: &mut DecisionContext<'_>) -> Option<Cycle>;
}

/// The deciders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeciderKind {
    /// [`FromScratch`].
    FromScratch,
    /// [`Remembered`](crate::memo::Remembered).
    Remembered,
    /// [`Scanned`](crate::memo::Scanned).
    Scanned,
}

/// What deciders decide from.
pub(crate) struct DecisionContext<'a> {
    pub(crate) on: Snapshot<'a>,
    /// What is remembered, which is up to date; `None` if all is decided from scratch.
    pub(crate) memo: Option<&'a mut Memo>,
    /// What is known of the member from memory.
    pub(crate) recognised: Option<Recognised>,
    pub(crate) chance: TieBreaker<'a, Pcg64>,
    /// How much detail of the decision is wanted.
    pub(crate) detail: Detail,
    /// The nodes to judge if not all are.
    pub(crate) samples: Samples<'a>,
    /// Measures decisions from scratch.
    pub(crate) counts: Option<&'a SchedulerCounters>,
}

impl DecisionContext<'_> {
    /// Finds out what is known of a member. If nothing is, because all details are wanted or there is
    /// nothing to judge, only [`FromScratch`] accepts it.
    pub(crate) fn recognise(&mut self, member: Member<'_>) {
        let is_judged = self.detail != Detail::Nodes
            && !self.on.view.nodes.is_empty()
            && member.pod.unreadable.is_none();
        if let Some(memo) = self.memo.as_deref_mut().filter(|_| is_judged) {
            self.recognised = memo.recognise(member, self.on);
        }
    }

    /// Which of the best nodes are wanted.
    pub(crate) fn want(&self) -> Want {
        match (self.detail, self.chance.tie_break) {
            (Detail::None | Detail::Choice, TieBreak::First) => Want::First,
            (Detail::None | Detail::Choice, TieBreak::Random) => Want::Any,
            _ => Want::All,
        }
    }
}

/// Decides by a [scheduling cycle](crate::cycle), and accepts every member. It is the definition of what the
/// others decide.
pub(crate) struct FromScratch;

impl Decider for FromScratch {
    fn kind(&self) -> DeciderKind {
        DeciderKind::FromScratch
    }

    fn decide(&self, member: Member<'_>, context: &mut DecisionContext<'_>) -> Option<Cycle> {
        let sample = context.samples.sample(member.profile);
        let meter = context.counts.map_or_else(CycleMeter::default, SchedulerCounters::meter);
        Some(cycle::schedule(member, context.on, &sample, &mut context.chance, meter))
    }
}
