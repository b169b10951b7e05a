//! Pods that name the nodes on which they may run, such as those of a DaemonSet.

use plimsoll_framework::{Candidates, NominatedPods, PodInfo, Row, View};

use super::domain_counts::CountPlan;
use super::node_ranking::RankingPlugins;
use super::uncached_filters::UncachedFilters;
use super::{Memo, node_ranking};
use crate::cycle::Cycle;
use crate::profile::Profile;

/// The decision about a pod that may name its nodes.
pub(super) enum Pinned {
    /// It names none.
    Nowhere,
    /// One of the nodes that it names is feasible.
    To(Cycle),
    /// It must be decided from scratch.
    OnlyFromScratch,
}

impl Memo {
    /// Decides such a pod by judging the nodes that it names. They are few, and each node has its own
    /// signature of such pods, so that rankings would never be used again. `uncached` are the
    /// [uncached filters](super::uncached_filters) that apply to the pod.
    pub(super) fn decide_pinned(
        &self,
        profile: &Profile,
        pod: &PodInfo,
        uncached: Option<&UncachedFilters>,
        view: View<'_>,
        nominated: &NominatedPods,
    ) -> Pinned {
        let (_, filters) = node_ranking::filters(profile, pod, RankingPlugins::All, &view);
        let mut narrowed = filters.iter().filter_map(|filter| match filter.candidates() {
            Candidates::Only(names) => Some(names),
            Candidates::All => None,
        });
        let Some(first) = narrowed.next() else { return Pinned::Nowhere };
        let names =
            narrowed.fold(first, |names, other| names.intersection(&other).cloned().collect());
        if !nominated.is_empty() || self.is_counted_by(profile, pod, view) {
            return Pinned::OnlyFromScratch;
        }
        let name_order =
            &self.node_set.as_ref().expect("it was built when changes were followed").name_order;
        let rows = names.iter().filter_map(|name| {
            let index = name_order.find(name)?;
            Some(name_order.row(index))
        });
        let rows: Vec<Row> = rows.collect();
        if uncached.is_some_and(|uncached| uncached.limit_nodes() || uncached.may_err()) {
            return Pinned::OnlyFromScratch;
        }
        let all = || filters.iter().chain(uncached.into_iter().flat_map(UncachedFilters::prepared));
        let passes = |row: &Row| all().all(|one| one.judge_one(pod, view.nodes, *row).passes());
        let mut feasible = rows.iter().copied().filter(passes);
        match (feasible.next(), feasible.next()) {
            (Some(row), None) => {
                Pinned::To(Cycle { n_judged: rows.len(), ..Cycle::found(row, vec![row]) })
            }
            // Several nodes must be scored, and if there is none, the reasons are needed.
            _ => Pinned::OnlyFromScratch,
        }
    }

    /// Whether a plugin judges the pod by counts or needs a decision from scratch.
    fn is_counted_by(&self, profile: &Profile, pod: &PodInfo, view: View<'_>) -> bool {
        let plan = CountPlan::new(profile, &[], pod, &view, &self.neighbours_with_terms());
        plan.is_none_or(|plan| plan.keys().next().is_some())
    }
}
