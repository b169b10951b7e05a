//! Pods that name the nodes on which they may run, such as those of a DaemonSet.

use plimsoll_api::Str;
use plimsoll_framework::{Candidates, Neighbour, NominatedPods, PodInfo, Row, View};

use super::domain_counts::CountPlan;
use super::node_ranking::RankingPlugins;
use super::uncached_filters::{AskedOn, UncachedFilters};
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
        if self.is_judged_by_counts(profile, pod, view, nominated)
            || uncached.is_some_and(|uncached| uncached.limit_nodes() || uncached.may_err())
        {
            return Pinned::OnlyFromScratch;
        }
        let node_set = self.node_set.as_ref().expect("it was built when changes were followed");
        let cluster = node_set.with(view);
        let row_of = |name: &Str| {
            let index = cluster.name_order.find(name)?;
            Some(cluster.name_order.row(index))
        };
        let rows: Vec<Row> = names.iter().filter_map(row_of).collect();
        let uncached = uncached.into_iter().flat_map(UncachedFilters::prepared);
        let mut all = UncachedFilters::all_of(pod, filters.iter().chain(uncached).cloned());
        let mut passes = |row: Row| all.rejection(row, AskedOn { cluster, moved: None }).is_none();
        // The nominated node of a pod comes first.
        if let Some(own) = nominated.node_of(&pod.key) {
            return match row_of(own).filter(|row| rows.contains(row) && passes(*row)) {
                Some(row) => Pinned::To(Cycle { n_judged: 1, ..Cycle::found(row, vec![row]) }),
                None => Pinned::OnlyFromScratch,
            };
        }
        let mut feasible = rows.iter().copied().filter(|&row| passes(row));
        match (feasible.next(), feasible.next()) {
            (Some(row), None) => {
                Pinned::To(Cycle { n_judged: rows.len(), ..Cycle::found(row, vec![row]) })
            }
            // Several nodes must be scored, and if there is none, the reasons are needed.
            _ => Pinned::OnlyFromScratch,
        }
    }

    /// Whether a filter judges the pod by counts, or would with a nominated pod, or needs a decision from scratch.
    fn is_judged_by_counts(
        &self,
        profile: &Profile,
        pod: &PodInfo,
        view: View<'_>,
        nominated: &NominatedPods,
    ) -> bool {
        let uncached = &self.profiles[profile].uncached;
        let neighbours = self.neighbours_with_terms();
        let plan = CountPlan::of_filters(profile, uncached, pod, &view, &neighbours);
        let Some(plan) = plan.filter(|plan| !plan.judges_nodes()) else { return true };
        let node_set = self.node_set.as_ref().filter(|_| !nominated.is_empty());
        let mut ahead = node_set
            .into_iter()
            .flat_map(|node_set| node_set.nominations.signatures_ahead(pod.priority));
        ahead.any(|signature| {
            plan.is_moved_by(Neighbour::from(&**self.neighbours.example(signature)))
        })
    }
}
