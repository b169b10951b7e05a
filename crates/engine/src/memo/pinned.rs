//! Pods that name the nodes on which they may run, such as those of a DaemonSet.

use plimsoll_framework::{Candidates, NominatedPods, PodInfo, Row, View};

use super::domain_counts::CountPlan;
use super::node_ranking::RankingPlugins;
use super::uncached_filters::UncachedFilters;
use super::{Memo, MemoAnswer, node_ranking};
use crate::profile::Profile;

impl Memo {
    /// Decides such a pod by judging the nodes that it names. They are few, and each node has its own
    /// signature of such pods, so that rankings would never be used again. `None` for other pods. `uncached`
    /// are the [uncached filters](super::uncached_filters) that apply to the pod.
    pub(super) fn decide_pinned(
        &self,
        profile: &Profile,
        pod: &PodInfo,
        uncached: Option<&UncachedFilters<'_>>,
        view: View<'_>,
        nominated: &NominatedPods,
    ) -> Option<MemoAnswer> {
        let (_, filters) = node_ranking::filters(profile, pod, RankingPlugins::All, &view);
        let mut narrowed = filters.iter().filter_map(|filter| match filter.candidates() {
            Candidates::Only(names) => Some(names),
            Candidates::All => None,
        });
        let first = narrowed.next()?;
        let names =
            narrowed.fold(first, |names, other| names.intersection(&other).cloned().collect());
        if !nominated.is_empty() || self.is_counted_by(profile, pod, view) {
            return Some(MemoAnswer::Unclear);
        }
        let name_order =
            &self.node_set.as_ref().expect("it was built when changes were followed").name_order;
        let rows = names.iter().filter_map(|name| {
            let index = name_order.find(|row| view.nodes.name_of(row).cmp(name))?;
            Some(name_order.row(index))
        });
        let rows: Vec<Row> = rows.collect();
        if uncached.is_some_and(|uncached| uncached.limit_nodes() || uncached.may_err()) {
            return Some(MemoAnswer::Unclear);
        }
        let all = || filters.iter().chain(uncached.into_iter().flat_map(UncachedFilters::prepared));
        let passes = |row: &Row| all().all(|one| one.judge_one(pod, view.nodes, *row).passes());
        let mut feasible = rows.iter().copied().filter(passes);
        Some(match (feasible.next(), feasible.next()) {
            (Some(row), None) => MemoAnswer::Only { row, n_judged: rows.len() },
            // Several nodes must be scored, and if there is none, the reasons are needed.
            _ => MemoAnswer::Unclear,
        })
    }

    /// Whether a plugin judges the pod by counts or needs a decision from scratch.
    fn is_counted_by(&self, profile: &Profile, pod: &PodInfo, view: View<'_>) -> bool {
        let plan = CountPlan::new(profile, &[], pod, &view, &self.neighbours_with_terms());
        plan.is_none_or(|plan| plan.keys().next().is_some())
    }
}
