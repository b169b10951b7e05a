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
                Some(row) => Pinned::To(Cycle::found_only(row, 1)),
                None => Pinned::OnlyFromScratch,
            };
        }
        let mut feasible = rows.iter().copied().filter(|&row| passes(row));
        match (feasible.next(), feasible.next()) {
            (Some(row), None) => Pinned::To(Cycle::found_only(row, rows.len())),
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

#[cfg(test)]
mod tests {
    use plimsoll_framework::{Columns, CycleState, Point, Stores};

    use super::*;
    use crate::cycle::CycleResult;
    use crate::scheduler::Scans;
    use crate::tests::{counted_nodes, lab};

    /// Nodes, the pods that are nominated to them, and a profile.
    struct Bench {
        nodes: Columns,
        stores: Stores,
        nominated: NominatedPods,
        profile: Profile,
    }

    impl Bench {
        /// With nodes of these CPUs: `a`, `b` and so on.
        fn new(profile: Profile, cpus: &[&str]) -> Self {
            let mut nodes = Columns::default();
            for (name, cpu) in ["a", "b", "c", "d"].into_iter().zip(cpus) {
                nodes.add(lab::node(name, &[&format!("cpu={cpu}")]));
            }
            let (stores, nominated) = (Stores::default(), NominatedPods::default());
            Bench { nodes, stores, nominated, profile }
        }

        fn view(&self) -> View<'_> {
            View { nodes: &self.nodes, stores: &self.stores }
        }

        fn nominate(&mut self, name: &str, what: &[&str], node: &str) {
            self.nominated.set(PodInfo::from(lab::pod(name, what)), node.into());
        }

        /// The node of the pod `p`, and how many were judged for it.
        fn decide(&self, what: &[&str], uncached: Option<&UncachedFilters>) -> String {
            let (mut memo, view) =
                (Memo::new([&self.profile].into_iter(), Scans::default()), self.view());
            memo.build_node_set(view, &self.nominated);
            let pod = PodInfo::from(lab::pod("p", what));
            match memo.decide_pinned(&self.profile, &pod, uncached, view, &self.nominated) {
                Pinned::Nowhere => "names none".to_owned(),
                Pinned::OnlyFromScratch => "from scratch".to_owned(),
                Pinned::To(Cycle {
                    result: CycleResult::Found { row, best }, n_judged, ..
                }) => {
                    assert_eq!(best, [row]);
                    format!("{} of {n_judged}", self.nodes.name_of(row))
                }
                Pinned::To(_) => panic!("it has a node or is decided from scratch"),
            }
        }
    }

    /// With every plugin of the lab.
    fn bench(cpus: &[&str]) -> Bench {
        Bench::new(lab::profile("lab", None, |_| true), cpus)
    }

    #[test]
    fn the_only_feasible_node_of_those_that_a_pod_names_is_taken() {
        let bench = bench(&["1", "4", "1", "4"]);
        assert_eq!(bench.decide(&["cpu=2"], None), "names none");
        assert_eq!(bench.decide(&["cpu=2", "only=d"], None), "d of 1");
        assert_eq!(bench.decide(&["cpu=2", "only=a+b+c"], None), "b of 3");
        // A node that is not there is not judged.
        assert_eq!(bench.decide(&["cpu=2", "only=x+b+c"], None), "b of 2");
        // If two filters name nodes, only those count that both name.
        assert_eq!(bench.decide(&["cpu=2", "only=a+b+c", "also=a+b+d"], None), "b of 2");
    }

    #[test]
    fn where_no_node_or_several_are_feasible_the_pod_is_decided_from_scratch() {
        let bench = bench(&["1", "4", "1", "4"]);
        for only in ["only=a+c", "only=b+d", "only=a+b+c+d", "only=x"] {
            assert_eq!(bench.decide(&["cpu=2", only], None), "from scratch", "{only}");
        }
        assert_eq!(bench.decide(&["cpu=2", "only=b", "also=d"], None), "from scratch");
    }

    #[test]
    fn the_nominated_node_is_taken_before_others_that_are_named() {
        let mut bench = bench(&["1", "4", "4", "4"]);
        bench.nominate("p", &["cpu=2"], "c");
        assert_eq!(bench.decide(&["cpu=2", "only=b+c+d"], None), "c of 1");
        // Others are judged only after it was rejected, with its reason.
        assert_eq!(bench.decide(&["cpu=2", "only=b"], None), "from scratch");
        assert_eq!(bench.decide(&["cpu=5", "only=b+c"], None), "from scratch");
    }

    #[test]
    fn room_is_left_for_pods_that_are_nominated_to_a_named_node() {
        let mut bench = bench(&["4", "4"]);
        bench.nominate("other", &["cpu=3", "prio=5"], "a");
        assert_eq!(bench.decide(&["cpu=2", "prio=5", "only=a+b"], None), "b of 2");
        // Not for those of lower priority, so that both are feasible.
        assert_eq!(bench.decide(&["cpu=2", "prio=6", "only=a+b"], None), "from scratch");
        assert_eq!(bench.decide(&["cpu=2", "prio=6", "only=a"], None), "a of 1");
    }

    #[test]
    fn a_pod_that_counts_judge_is_decided_from_scratch() {
        let bench = Bench::new(counted_nodes::profile(), &["4", "4"]);
        assert_eq!(bench.decide(&[], None), "names none");
        assert_eq!(bench.decide(&["only=a"], None), "from scratch");
    }

    #[test]
    fn uncached_filters_judge_the_named_nodes_unless_they_may_err() {
        let bench = bench(&["4", "4"]);
        let pod = PodInfo::from(lab::pod("p", &["zone=x"]));
        let mut filters = bench.profile.at(Point::Filter);
        let zone = filters.find(|(plugin, _)| plugin.name == "Zone").expect("it is a filter").0;
        let zone = zone.points.filter.as_ref().expect("it is a filter");
        let zone = zone.prepare(&pod, &mut CycleState::new(), &bench.view());
        assert!(zone.may_err());
        let may_err = UncachedFilters::all_of(&pod, [zone].into_iter());
        assert_eq!(bench.decide(&["only=a"], Some(&may_err)), "from scratch");
        assert_eq!(bench.decide(&["only=a"], Some(&UncachedFilters::none(&pod))), "a of 1");
    }
}
