//! Pods that name the nodes on which they may be, as those of a DaemonSet do.

use plimsoll_framework::{Candidates, NominatedPods, PodInfo, Row, View};

use super::domain_counts::CountPlan;
use super::node_ranking::RankingPlugins;
use super::{Memo, MemoAnswer, node_ranking};
use crate::profile::Profile;

impl Memo {
    /// Decides a pod by a look at the nodes that it names: they are few, and there are as many signatures of
    /// such pods as nodes, so that rankings would be of no use again. `None` for other pods.
    pub(super) fn decide_pinned(
        &self,
        profile: &Profile,
        pod: &PodInfo,
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
        let passes = |row: &Row| {
            filters.iter().all(|filter| filter.judge_one(pod, view.nodes, *row).passes())
        };
        let mut feasible = rows.iter().copied().filter(passes);
        Some(match (feasible.next(), feasible.next()) {
            (Some(row), None) => MemoAnswer::Only { row, n_judged: rows.len() },
            // Several have to be scored, and of none the reasons are wanted.
            _ => MemoAnswer::Unclear,
        })
    }

    /// Whether some plugin judges the pod by counts, or from scratch.
    fn is_counted_by(&self, profile: &Profile, pod: &PodInfo, view: View<'_>) -> bool {
        let plan = CountPlan::new(profile, &[], pod, &view, &self.neighbours_with_terms());
        plan.is_none_or(|plan| plan.keys().next().is_some())
    }
}
