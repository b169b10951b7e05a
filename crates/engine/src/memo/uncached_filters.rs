//! Pods to which an *uncached filter* applies: one whose verdicts depend on more than the signature and the
//! counts. These are pods with volumes.
//!
//! For all other plugins such a pod is like a pod without volumes, so they share a
//! [node ranking](super::node_ranking) or a [scan](super::scan). The uncached filters are then asked about the
//! best nodes, until one passes. This is exact, because the scores depend only on which groups of the ranking
//! have a feasible node, which one node proves. All nodes are asked about where their number matters, or where
//! a filter may be unable to judge a node, since that would be an error, whichever node is the best.

use plimsoll_framework::{
    Candidates, Code, Columns, CycleState, NominatedPods, PodChange, PodInfo, Point, Prepared,
    Rejection, Row, Verdict, View,
};
use rand::Rng;

use super::choose::Chooser;
use super::choose_passing::PassingChoice;
use super::diagnosis_cache::NominatedNodeVerdict;
use super::name_index_set::NameIndex;
use super::node_diagnosis::NominatedNodeRejection;
use super::node_ranking::ClusterView;
use super::nominations::OnScratch;
use super::profile_memo::ProfileMemo;
use super::signatures::SignatureId;
use super::{Memo, MemoAnswer, Want};
use crate::metrics::MeteredPoint;
use crate::profile::Profile;

/// An uncached filter, prepared for one pod.
pub(super) struct UncachedFilter {
    pub(super) plugin: &'static str,
    /// Its place among the filters of the profile.
    pub(super) place: usize,
    pub(super) prepared: Prepared,
}

/// The uncached filters that apply to one pod, in the order of the profile.
pub(super) struct UncachedFilters<'p> {
    pub(super) pod: &'p PodInfo,
    pub(super) all: Vec<UncachedFilter>,
    /// The only nodes worth judging.
    candidates: Candidates,
    scratch: Columns,
}

/// A node could not be judged: the pod must be decided from scratch.
pub(super) struct CannotJudge;

impl UncachedFilters<'_> {
    /// Whether a node passes; [`rejection`](Self::rejection) says why not.
    pub(super) fn pass(&mut self, index: NameIndex, cluster: ClusterView<'_>) -> bool {
        let row = cluster.name_order.row(index);
        let is_candidate = match &self.candidates {
            Candidates::All => true,
            Candidates::Only(names) => names.contains(cluster.view.nodes.name_of(row)),
        };
        is_candidate && self.rejection(index, cluster).is_none()
    }

    /// The first filter that rejects a node, and why. As in runtime/framework.go,
    /// RunFilterPluginsWithNominatedPods: the node is first judged with the nominated pods ahead of the pod.
    pub(super) fn rejection(
        &mut self,
        index: NameIndex,
        cluster: ClusterView<'_>,
    ) -> Option<(usize, Rejection)> {
        let row = cluster.name_order.row(index);
        let ClusterView { view, nominations, .. } = cluster;
        if nominations.has_ahead(index, self.pod.priority) {
            let ahead = nominations.ahead(index, self.pod.priority, Some(self.pod));
            if let Some(why) = self.rejection_with(&ahead, row, view.nodes) {
                return Some(why);
            }
        }
        first_rejection(self.prepared(), self.pod, view.nodes, row)
    }

    /// The same with other pods on the node.
    fn rejection_with(
        &mut self,
        ahead: &[PodInfo],
        row: Row,
        nodes: &Columns,
    ) -> Option<(usize, Rejection)> {
        if ahead.is_empty() {
            return None;
        }
        let mut filters: Vec<Prepared> = self.prepared().cloned().collect();
        let on_scratch = OnScratch { scratch: &mut self.scratch, nodes, row };
        let (scratch, only) = on_scratch.with_each(ahead, |pod, scratch, only| {
            for filter in &mut filters {
                filter.update(PodChange::Added(pod), scratch, only);
            }
        });
        first_rejection(filters.iter(), self.pod, scratch, only)
    }

    /// Looks for nodes that cannot be judged: among all nodes if there may be any, otherwise only among those
    /// with nominated pods, which a filter has not seen when it was prepared.
    pub(super) fn find_errors(&mut self, cluster: ClusterView<'_>) -> Result<(), CannotJudge> {
        let may_err = self.may_err();
        let nominated = cluster.nominations.nodes();
        let all = may_err.then(|| cluster.name_order.rows().map(|(index, _)| index));
        for index in all.into_iter().flatten().chain(nominated) {
            // A filter that rejects the node hides the errors of those after it, as in a decision from scratch.
            let why = self.rejection(index, cluster);
            if why.is_some_and(|(_, why)| why.code == Code::Error) {
                return Err(CannotJudge);
            }
        }
        Ok(())
    }

    /// Whether one of them rejects a node with the nominated pods ahead of the pod.
    pub(super) fn reject_with_nominated(
        &mut self,
        index: NameIndex,
        cluster: ClusterView<'_>,
    ) -> bool {
        let ahead = cluster.nominations.ahead(index, self.pod.priority, Some(self.pod));
        let row = cluster.name_order.row(index);
        self.rejection_with(&ahead, row, cluster.view.nodes).is_some()
    }

    /// The prepared filters.
    pub(super) fn prepared(&self) -> impl Iterator<Item = &Prepared> {
        self.all.iter().map(|one| &one.prepared)
    }

    /// Whether one of them may be unable to judge a node.
    pub(super) fn may_err(&self) -> bool {
        self.prepared().any(Prepared::may_err)
    }

    /// Whether they limit the nodes to judge.
    pub(super) fn limit_nodes(&self) -> bool {
        self.candidates != Candidates::All
    }
}

fn first_rejection<'f>(
    filters: impl Iterator<Item = &'f Prepared>,
    pod: &PodInfo,
    nodes: &Columns,
    row: Row,
) -> Option<(usize, Rejection)> {
    let verdicts = filters.map(|one| one.judge_one(pod, nodes, row)).enumerate();
    verdicts.into_iter().find_map(|(at, verdict)| match verdict {
        Verdict::Pass => None,
        Verdict::Fail(why) => Some((at, why)),
    })
}

impl Memo {
    /// Decides a pod to which uncached filters apply.
    pub(super) fn decide_uncached(
        &mut self,
        profile: &Profile,
        signature: SignatureId,
        pod: &PodInfo,
        (view, nominated): (View<'_>, &NominatedPods),
        want: Want,
        rng: &mut impl Rng,
    ) -> MemoAnswer {
        let Some(of_profile) = self.profiles.get(&profile.scheduler_name) else {
            return MemoAnswer::Unclear;
        };
        let Some(mut uncached) = of_profile.prepare_uncached_filters(profile, pod, &view) else {
            return self.rejected_by_uncached(profile, pod, view);
        };
        let caches = match self.caches(profile, signature) {
            Some(caches) => Some(caches),
            None => match self.decide_pinned(profile, pod, Some(&uncached), view, nominated) {
                Some(answer) => return answer,
                None => self.learn(profile, signature, pod, view),
            },
        };
        let Some(mut caches) = caches else { return MemoAnswer::Unclear };
        let scans = nominated.is_empty() && !uncached.limit_nodes();
        if scans && self.prefers_scan(profile, &caches) {
            let choice =
                self.scan(profile, (signature, caches), pod, Some(&mut uncached), view, want);
            if let Some(best) = choice {
                return MemoAnswer::found(best, want, rng);
            }
            match self
                .caches(profile, signature)
                .or_else(|| self.learn(profile, signature, pod, view))
            {
                Some(still) => caches = still,
                None => return MemoAnswer::Unclear,
            }
        }
        let ranking = self.ranking_of(profile, signature, pod, caches, view);
        let with = (ranking, caches.domain_counts);
        let Some(ranking) = self.behind_nominated(profile, pod, with, view, nominated) else {
            return MemoAnswer::Unclear;
        };
        let with = (ranking, caches.domain_counts);
        if !self.bring_up(profile, with.0, with.1, view) {
            return MemoAnswer::Unclear;
        }
        self.decided_by = Some(with);
        self.choose_uncached(profile, with, &mut uncached, (view, nominated), want).map_or(
            MemoAnswer::Unclear,
            |choice| match choice {
                UncachedChoice::Best(best) => MemoAnswer::found(best, want, rng),
                UncachedChoice::Other(answer) => answer,
            },
        )
    }

    /// Chooses by a ranking and counts that are up to date. `None` if the pod must be decided from scratch.
    fn choose_uncached(
        &mut self,
        profile: &Profile,
        with: (usize, usize),
        uncached: &mut UncachedFilters<'_>,
        (view, nominated): (View<'_>, &NominatedPods),
        want: Want,
    ) -> Option<UncachedChoice> {
        let pod = uncached.pod;
        let own = match self.judge_nominated_node(pod, with, view, nominated) {
            NominatedNodeVerdict::None => None,
            NominatedNodeVerdict::Unclear => return None,
            NominatedNodeVerdict::Rejects(own) => Some(own),
            NominatedNodeVerdict::Takes(row) => {
                let cluster = self.node_set.as_ref()?.with(view);
                let index = cluster.name_order.index(row);
                if uncached.limit_nodes() {
                    return None;
                }
                match uncached.rejection(index, cluster) {
                    None => {
                        let only = MemoAnswer::Only { row, n_judged: 1 };
                        return Some(UncachedChoice::Other(only));
                    }
                    Some((_, why)) if why.code == Code::Error => return None,
                    Some((at, why)) => {
                        let plugin = uncached.all[at].plugin;
                        Some(NominatedNodeRejection { index, plugin, why })
                    }
                }
            }
        };
        let cluster = self.node_set.as_ref()?.with(view);
        // If all filters run on each node, none hides the error of another.
        if profile.run_all_filters && uncached.may_err() {
            return None;
        }
        uncached.find_errors(cluster).ok()?;
        let chooser = Chooser {
            ranking: &self.rankings[with.0].as_ref()?.0,
            domain_counts: &self.domain_counts[with.1].as_ref()?.0,
            sparse: &self.sparse_counts[&with],
            cluster,
        };
        let feasible = chooser.feasible_now();
        let choice = chooser.choose_passing(feasible, want, |index| uncached.pass(index, cluster));
        self.phases.over(MeteredPoint::Filter);
        Some(match choice {
            PassingChoice::Unclear => return None,
            PassingChoice::Best { rows, is_scored } => {
                self.phases.is_scored = is_scored;
                if uncached.limit_nodes() {
                    return self.only_of_limited(uncached, &rows, is_scored, own.is_some(), view);
                }
                UncachedChoice::Best(rows)
            }
            PassingChoice::Nothing if uncached.limit_nodes() => return None,
            PassingChoice::Nothing => {
                let failure = self.uncached_failure(profile, with, uncached, own.as_ref(), view)?;
                UncachedChoice::Other(MemoAnswer::Failed(Box::new(failure)))
            }
        })
    }

    /// The choice if filters limit the nodes to judge and one of these is feasible.
    fn only_of_limited(
        &self,
        uncached: &UncachedFilters<'_>,
        rows: &[Row],
        is_scored: bool,
        was_nominated: bool,
        view: View<'_>,
    ) -> Option<UncachedChoice> {
        let (Candidates::Only(names), [row], false, false) =
            (&uncached.candidates, rows, is_scored, was_nominated)
        else {
            return None;
        };
        let name_order = &self.node_set.as_ref()?.name_order;
        let is_known =
            |name: &&_| name_order.find(|row| view.nodes.name_of(row).cmp(name)).is_some();
        let n_judged = names.iter().filter(is_known).count();
        Some(UncachedChoice::Other(MemoAnswer::Only { row: *row, n_judged }))
    }
}

/// What a ranking, counts and uncached filters choose.
enum UncachedChoice {
    /// The best nodes, sorted by name.
    Best(Vec<Row>),
    /// Anything else.
    Other(MemoAnswer),
}

impl ProfileMemo {
    /// The uncached filters that apply to a pod, in the order of the profile; `None` if one of them rejects
    /// the pod for all nodes.
    fn prepare_uncached_filters<'p>(
        &self,
        profile: &Profile,
        pod: &'p PodInfo,
        view: &View<'_>,
    ) -> Option<UncachedFilters<'p>> {
        let mut shared = CycleState::new();
        let mut all = Vec::new();
        let mut candidates = Candidates::All;
        for (index, _) in profile.indices(Point::PreFilter) {
            if !self.uncached.contains(&index) {
                continue;
            }
            let plugin = profile.get(index);
            let Some(filter) = &plugin.points.filter else { continue };
            let prepared = filter.prepare(pod, &mut shared, view);
            if prepared.rejection().is_some() {
                return None;
            }
            if let Candidates::Only(names) = prepared.candidates() {
                candidates = Candidates::Only(match candidates {
                    Candidates::All => names,
                    Candidates::Only(before) => before.intersection(&names).cloned().collect(),
                });
            }
            if !prepared.skips() {
                let place = profile.indices(Point::Filter).position(|(other, _)| other == index);
                let place = place.expect("an uncached filter is at Filter");
                all.push(UncachedFilter { plugin: plugin.name, place, prepared });
            }
        }
        all.sort_by_key(|one| one.place);
        Some(UncachedFilters { pod, all, candidates, scratch: Columns::default() })
    }

    /// Whether an uncached filter applies to a pod.
    pub(super) fn has_uncached_filter(&self, profile: &Profile, pod: &PodInfo) -> bool {
        self.uncached.iter().any(|&index| {
            let filter = &profile.get(index).points.filter;
            filter.as_ref().is_some_and(|filter| filter.applies(pod))
        })
    }
}
