//! Two [deciders](crate::decide): from what is remembered, and by a scan.

use plimsoll_framework::{Code, Row};
use rand::Rng;

use super::Memo;
use super::choose::{Chooser, GroupChoice};
use super::counts_cache::CountsId;
use super::node_diagnosis::NominatedNodeRejection;
use super::pinned::Pinned;
use super::profile_memo::SignatureCaches;
use super::rankings::RankingId;
use super::sampled::Visited;
use super::scan::Scan;
use super::signatures::SignatureId;
use super::uncached_filters::UncachedFilters;
use crate::cycle::Cycle;
use crate::decide::{Decider, DeciderKind, DecisionContext};
use crate::metrics::MeteredPoint;
use crate::nominated_node::NominatedNode;
use crate::pick::{self, TieBreaker};
use crate::profile::Profile;
use crate::sample::{Sample, SampleOrder};
use crate::unit::{Member, Snapshot};

/// Which of the best nodes are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// The first one by name.
    First,
    /// A random one; all are equally likely.
    Any,
    /// All, one of which is chosen.
    All,
}

/// What is known of a member before it is decided.
pub(crate) enum Recognised {
    /// Its decision: an equal pod has failed and nothing has changed since, or the pod names the node on
    /// which it may run.
    Decided(Box<Cycle>),
    /// Its decision can be made from these caches, and from [uncached filters](super::uncached_filters) and a score on
    /// demand if any apply to it.
    Cached(SignatureId, SignatureCaches, Option<Box<UncachedFilters>>),
}

/// What a member is decided by.
#[derive(Clone, Copy)]
pub(super) struct RankedBy {
    /// The ranking and the domain counts, which are up to date.
    pub(super) with: (RankingId, CountsId),
    /// Whether a nominated pod for which there must be room moves a filter by counts.
    pub(super) is_moved: bool,
}

/// Decides from node rankings, domain counts and diagnoses.
pub(crate) struct Remembered;

/// Decides by one [pass over all nodes](super::scan).
pub(crate) struct Scanned;

impl Decider for Remembered {
    fn kind(&self) -> DeciderKind {
        DeciderKind::Remembered
    }

    fn decide(&self, member: Member<'_>, context: &mut DecisionContext<'_>) -> Option<Cycle> {
        if let Some(rows) = context.on.within {
            return within(rows, member, context);
        }
        match context.recognised.take()? {
            Recognised::Decided(cycle) => Some(*cycle),
            Recognised::Cached(signature, caches, uncached) => {
                let (want, on) = (context.want(), context.on);
                let sample = context.samples.sample(member.profile);
                let want = (want, order(&sample, on));
                let memo = context.memo.as_deref_mut()?;
                let with = memo.bring_up_for(member, (signature, caches), on)?;
                let chance = &mut context.chance;
                match uncached {
                    None if !with.is_moved => memo.by_ranking(member, with.with, on, want, chance),
                    uncached => {
                        let none = || Box::new(UncachedFilters::none(member.pod));
                        let mut uncached = uncached.unwrap_or_else(none);
                        memo.with_verdicts(member.profile, &mut uncached, |memo, uncached| {
                            memo.choose_uncached(member, with, uncached, on, want, chance)
                        })
                    }
                }
            }
        }
    }
}

impl Decider for Scanned {
    fn kind(&self) -> DeciderKind {
        DeciderKind::Scanned
    }

    /// Nominated pods are left to the other deciders, and so is a pod for which there is no node.
    fn decide(&self, member: Member<'_>, context: &mut DecisionContext<'_>) -> Option<Cycle> {
        let Member { profile, pod } = member;
        let on = context.on;
        let sample = context.samples.sample(profile);
        let want = (context.want(), order(&sample, on));
        let memo = context.memo.as_deref_mut()?;
        if !on.nominated.is_empty() || !memo.can_scan(profile) {
            return None;
        }
        let Recognised::Cached(signature, caches, uncached) = context.recognised.as_mut()? else {
            return None;
        };
        let limits = |one: &UncachedFilters| one.limit_nodes() || one.score_on_demand();
        if uncached.as_deref().is_some_and(limits) {
            return None;
        }
        let with = (*signature, *caches);
        let scan = match uncached.as_deref_mut() {
            None => memo.scan(profile, with, pod, None, on.view, want),
            Some(uncached) => memo.with_verdicts(profile, uncached, |memo, uncached| {
                memo.scan(profile, with, pod, Some(uncached), on.view, want)
            }),
        };
        if scan.is_none() {
            // Making the base ranking may have dropped the other ranking.
            let still = memo.caches(profile, *signature);
            match still.or_else(|| memo.learn(profile, *signature, pod, on.view)) {
                Some(still) => *caches = still,
                None => context.recognised = None,
            }
        }
        let Scan { best, n_judged, n_feasible, margin } = scan?;
        let cycle = found(best, n_judged, want.0, &mut context.chance);
        Some(Cycle { n_feasible, margin, ..cycle })
    }
}

/// Decides a member on some of the nodes. Those without a feasible one are left to the decision from scratch, which says why,
/// and so are members that are nominated or that uncached filters judge.
fn within(rows: &[Row], member: Member<'_>, context: &mut DecisionContext<'_>) -> Option<Cycle> {
    let Recognised::Cached(signature, caches, None) = context.recognised.take()? else {
        return None;
    };
    let (want, on) = (context.want(), context.on);
    let sample = context.samples.sample(member.profile);
    let leaves_some_out = sample.order(rows.len()).is_some_and(|order| order.limit < rows.len());
    if leaves_some_out || on.nominated.node_of(&member.pod.key).is_some() {
        return None;
    }
    let memo = context.memo.as_deref_mut()?;
    let RankedBy { with, is_moved } = memo.bring_up_for(member, (signature, caches), on)?;
    if is_moved {
        return None;
    }
    memo.choose_within(rows, with, on, want, &mut context.chance)
}

/// Chooses one of the best of the nodes that were judged. There is at least one.
pub(super) fn found(
    best: Vec<Row>,
    n_judged: usize,
    want: Want,
    chance: &mut TieBreaker<'_, impl Rng>,
) -> Cycle {
    let row = pick::pick(&best, chance.tie_break, chance.rng);
    let best = if want == Want::All { best } else { Vec::new() };
    Cycle { n_judged, ..Cycle::found(row, best) }
}

/// The order of a sample; `None` if it has room for all nodes, so that it is none.
fn order<'s>(sample: &'s Sample, on: Snapshot<'_>) -> Option<SampleOrder<'s>> {
    let n_nodes = on.view.nodes.len();
    sample.order(n_nodes).filter(|order| order.limit < n_nodes)
}

impl Memo {
    /// What is known of a member. [`Memo::follow`] must have been called after the last change. `None` if
    /// the member must be decided from scratch.
    pub(crate) fn recognise(&mut self, member: Member<'_>, on: Snapshot<'_>) -> Option<Recognised> {
        let Member { profile, pod } = member;
        if on.nominated.node_of(&pod.key).is_none()
            && let Some(failure) = self.failed_alike(profile, pod)
        {
            return Some(Recognised::Decided(Box::new(failure)));
        }
        // A ranking may read anything, so its results cannot be remembered.
        if profile.ranking().is_some() {
            return None;
        }
        self.n_decisions += 1;
        if self.is_overfull {
            return None;
        }
        let node_set = self.node_set.as_ref();
        let is_full = node_set.is_some_and(|one| one.is_full(self.budgets.topologies))
            || self.budgets.neighbours < self.neighbour_bytes();
        let of_profile = self.profiles.get_mut(profile)?;
        if of_profile.is_full(self.budgets.signature_tables) || is_full {
            self.forget();
            return None;
        }
        self.keep_within_bounds();
        let of_profile = self.profiles.get_mut(profile).expect("it was just found");
        let signature = of_profile.signature(profile, pod, &on.view)?;
        self.phases.over(MeteredPoint::PreFilter);
        let uncached = if of_profile.has_uncached(profile, pod, &on.view) {
            let prepared = of_profile.prepare_uncached_filters(profile, pod, &on.view);
            let Some(uncached) = prepared else {
                let cycle = self.rejected_by_uncached(member, on.view)?;
                return Some(Recognised::Decided(Box::new(cycle)));
            };
            Some(Box::new(uncached))
        } else {
            None
        };
        let caches = match self.caches(profile, signature) {
            Some(caches) => Some(caches),
            None => {
                match self.decide_pinned(profile, pod, uncached.as_deref(), on.view, on.nominated) {
                    Pinned::To(cycle) => return Some(Recognised::Decided(Box::new(cycle))),
                    Pinned::OnlyFromScratch => return None,
                    Pinned::Nowhere => self.learn(profile, signature, pod, on.view),
                }
            }
        };
        Some(Recognised::Cached(signature, caches?, uncached))
    }

    /// Whether to scan for a member before what is remembered is asked.
    pub(crate) fn scans_first(
        &mut self,
        member: Member<'_>,
        on: Snapshot<'_>,
        recognised: &Recognised,
    ) -> bool {
        match recognised {
            Recognised::Decided(_) => false,
            Recognised::Cached(_, _, Some(uncached)) if uncached.score_on_demand() => false,
            Recognised::Cached(_, caches, _) => {
                on.nominated.is_empty() && self.prefers_scan(member.profile, caches)
            }
        }
    }

    /// Whether the bounds of the scores of a profile are exact enough for scans.
    fn can_scan(&self, profile: &Profile) -> bool {
        self.profiles.get(profile).is_some_and(|of_profile| of_profile.can_scan)
    }

    /// The ranking and the domain counts of a member, which are brought up to date; `None` if it must be decided from
    /// scratch.
    pub(super) fn bring_up_for(
        &mut self,
        Member { profile, pod }: Member<'_>,
        (signature, caches): (SignatureId, SignatureCaches),
        Snapshot { view, nominated, .. }: Snapshot<'_>,
    ) -> Option<RankedBy> {
        let (ranking, domain_counts) =
            (self.ranking_of(profile, signature, pod, caches, view), caches.domain_counts);
        let (ranking, is_moved) =
            self.behind_nominated(profile, pod, (ranking, domain_counts), view, nominated)?;
        if !self.bring_up(profile, ranking, domain_counts, view) {
            return None;
        }
        self.decided_by = Some((ranking, domain_counts));
        Some(RankedBy { with: (ranking, domain_counts), is_moved })
    }

    /// Decides a member from a ranking and domain counts that are up to date; `None` if it must be decided from scratch.
    fn by_ranking(
        &mut self,
        member: Member<'_>,
        with: (RankingId, CountsId),
        on: Snapshot<'_>,
        want: (Want, Option<SampleOrder<'_>>),
        chance: &mut TieBreaker<'_, impl Rng>,
    ) -> Option<Cycle> {
        let own = match self.try_nominated_node(member.pod, with, on).ok()? {
            NominatedNode::None => None,
            NominatedNode::Passes(row) => {
                return Some(Cycle::found_only(row, 1));
            }
            NominatedNode::Rejected(own) if own.why.code == Code::Error => return None,
            NominatedNode::Rejected(own) => Some(own),
        };
        self.choose(member, with, own.as_ref(), on, want, chance)
    }

    /// Chooses among some of the nodes, from a ranking and domain counts that are up to date. `None` if the member must be
    /// decided from scratch.
    fn choose_within(
        &self,
        rows: &[Row],
        with: (RankingId, CountsId),
        on: Snapshot<'_>,
        want: Want,
        chance: &mut TieBreaker<'_, impl Rng>,
    ) -> Option<Cycle> {
        let node_set = self.node_set.as_ref().expect("it was built when changes were followed");
        let (caches, cluster) = ((&self.rankings, &self.counts), node_set.with(on.view));
        let chooser = Chooser::of(caches, with, cluster)?;
        let feasible = chooser.feasible_now();
        let all = SampleOrder { rows, start: 0, limit: rows.len() };
        let visited = Visited::new(&chooser, &feasible, all, |_| true);
        if visited.is_empty() {
            return None;
        }
        visited.choose(&chooser, &feasible, rows.len(), want, chance)
    }

    /// Chooses among the groups of nodes. `own` is the rejection by the nominated node of the pod.
    fn choose(
        &mut self,
        member: Member<'_>,
        with: (RankingId, CountsId),
        own: Option<&NominatedNodeRejection>,
        on: Snapshot<'_>,
        (want, order): (Want, Option<SampleOrder<'_>>),
        chance: &mut TieBreaker<'_, impl Rng>,
    ) -> Option<Cycle> {
        let node_set = self.node_set.as_ref().expect("it was built when changes were followed");
        let (caches, cluster) = ((&self.rankings, &self.counts), node_set.with(on.view));
        let chooser = Chooser::of(caches, with, cluster)?;
        let feasible = chooser.feasible_now();
        if let Some(order) = order.filter(|order| order.limit < feasible.len()) {
            let visited = Visited::new(&chooser, &feasible, order, |_| true);
            self.phases.over(MeteredPoint::Filter);
            self.phases.is_scored = visited.is_scored();
            let nominated = node_set.nominated_row(member.pod, on.nominated);
            let n_judged = visited.n_judged(nominated);
            return visited.choose(&chooser, &feasible, n_judged, want, chance);
        }
        let n_judged = on.view.nodes.len();
        self.phases.over(MeteredPoint::Filter);
        self.phases.is_scored = 1 < feasible.len();
        match chooser.choose(&feasible) {
            GroupChoice::Nothing => {
                let failure = self.failure(member, with, own, on.view)?;
                Some(Cycle::failed(failure, on.view.nodes.len()))
            }
            GroupChoice::Unclear => None,
            GroupChoice::Best(best) => {
                let margin = self.notes_margins.then(|| chooser.margin(&best)).flatten();
                let n_feasible = Some(feasible.len());
                let cycle = match want {
                    Want::First => Cycle::found(chooser.first(&best), Vec::new()),
                    Want::Any => Cycle::found(chooser.any(&best, chance.rng), Vec::new()),
                    Want::All => found(chooser.all(&best), n_judged, want, chance),
                };
                Some(Cycle { n_judged, n_feasible, margin, ..cycle })
            }
        }
    }
}
