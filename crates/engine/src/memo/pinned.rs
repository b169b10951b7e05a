//! Pods that name the nodes on which they may be, as those of a DaemonSet do.

use plimsoll_framework::{Candidates, NominatedPods, PodInfo, Row, View};

use super::shape::MadeBy;
use super::tallies::Plan;
use super::{Answer, Memo, shape};
use crate::profile::Profile;

impl Memo {
    /// Decides a pod by a look at the nodes that it names: they are few, and there are as many kinds of
    /// such pods as nodes, so that shapes would be of no use again. `None` for other pods.
    pub(super) fn decide_pinned(
        &self,
        profile: &Profile,
        pod: &PodInfo,
        view: View<'_>,
        nominated: &NominatedPods,
    ) -> Option<Answer> {
        let (_, filters) = shape::filters(profile, pod, MadeBy::All, &view);
        let mut narrowed = filters.iter().filter_map(|filter| match filter.candidates() {
            Candidates::Only(names) => Some(names),
            Candidates::All => None,
        });
        let first = narrowed.next()?;
        let names =
            narrowed.fold(first, |names, other| names.intersection(&other).cloned().collect());
        if !nominated.is_empty() || self.is_counted_by(profile, pod, view) {
            return Some(Answer::Unclear);
        }
        let ranks = &self.ground.as_ref().expect("it was laid when changes were followed").ranks;
        let rows = names.iter().filter_map(|name| {
            let rank = ranks.find(|row| view.nodes.name_of(row).cmp(name))?;
            Some(ranks.row(rank))
        });
        let rows: Vec<Row> = rows.collect();
        let passes = |row: &Row| {
            filters.iter().all(|filter| filter.judge_one(pod, view.nodes, *row).passes())
        };
        let mut feasible = rows.iter().copied().filter(passes);
        Some(match (feasible.next(), feasible.next()) {
            (Some(row), None) => Answer::Only { row, n_judged: rows.len() },
            // Several have to be scored, and of none the reasons are wanted.
            _ => Answer::Unclear,
        })
    }

    /// Whether some plugin judges the pod by counts, or from scratch.
    fn is_counted_by(&self, profile: &Profile, pod: &PodInfo, view: View<'_>) -> bool {
        let plan = Plan::new(profile, &[], pod, &view, &self.neighbours_with_terms());
        plan.is_none_or(|plan| plan.keys().next().is_some())
    }
}
