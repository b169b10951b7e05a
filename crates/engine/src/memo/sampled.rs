//! Decisions about a sample of the nodes, for profiles with `percentageOfNodesToScore`.
//!
//! As from scratch, nodes are visited one after the other until enough of them are feasible. Whether a node is
//! feasible is known from the ranking and the counts, so a visit is a look into an array. If no more nodes are
//! feasible than the sample holds, all of them are in it, and nothing needs to be visited.

use plimsoll_framework::{MAX_NODE_SCORE, NEVER, NominatedPods, PodInfo, Row, Scored};
use rand::{Rng, RngExt};
use smallvec::SmallVec;

use super::NodeSet;
use super::choose::{Chooser, FeasibleNodes};
use super::decide::{Want, found};
use super::name_index_set::NameIndex;
use super::scan::Scanner;
use super::uncached_filters::{UncachedFilters, WeightedOnDemand};
use crate::cycle::Cycle;
use crate::pick::{self, TieBreaker};
use crate::sample::SampleOrder;

/// In place of a candidate, for groups that are rejected.
const REJECTED: u32 = u32::MAX;

/// For each group of nodes, the candidate that it is.
pub(super) struct CandidateOfGroup {
    groups: Vec<u32>,
    sparse_groups: Vec<u32>,
}

/// The visited feasible nodes of one candidate.
#[derive(Clone, Copy)]
struct SampledGroup {
    candidate: u32,
    len: usize,
    /// The highest static score.
    top: i64,
    /// The first node by name that has it.
    first: NameIndex,
    /// The highest static score of the other nodes.
    next: Option<i64>,
}

/// The nodes that were visited.
pub(super) struct Visited<'a> {
    order: SampleOrder<'a>,
    candidate_of: CandidateOfGroup,
    groups: SmallVec<[SampledGroup; 8]>,
    /// The visited nodes of feasible groups that do not pass, ascending.
    rejected: Vec<NameIndex>,
    /// How many nodes were visited before the sample was full and one more feasible node was found.
    len: usize,
}

impl SampleOrder<'_> {
    /// All rows in the order of the visits.
    fn visits(&self) -> impl Iterator<Item = Row> {
        let start = self.start.checked_rem(self.rows.len()).unwrap_or(0);
        let (behind, ahead) = self.rows.split_at(start);
        ahead.iter().chain(behind).copied()
    }

    /// Whether the node in `row` is among the first `n_visited`.
    fn has_visited(&self, row: Row, n_visited: usize) -> bool {
        self.visits().take(n_visited).any(|other| other == row)
    }
}

impl CandidateOfGroup {
    pub(super) fn new(chooser: &Chooser<'_>, feasible: &FeasibleNodes) -> Self {
        let mut candidate_of = CandidateOfGroup {
            groups: vec![REJECTED; chooser.ranking.groups.len()],
            sparse_groups: vec![REJECTED; chooser.sparse.groups.len()],
        };
        for (candidate, one) in (0..).zip(&feasible.candidates) {
            match one.sparse_group {
                None => candidate_of.groups[one.group] = candidate,
                Some(group) => candidate_of.sparse_groups[group] = candidate,
            }
        }
        candidate_of
    }

    /// The candidate of a node, and its static score; `None` if the node is not feasible.
    pub(super) fn look(&self, chooser: &Chooser<'_>, index: NameIndex) -> Option<(u32, i64)> {
        let (group, static_score) = chooser.ranking.entry(index)?;
        let candidate = match chooser.sparse.group_of(index) {
            Some(group) => self.sparse_groups[group],
            None => self.groups[group as usize],
        };
        (candidate != REJECTED).then_some((candidate, static_score))
    }
}

impl<'a> Visited<'a> {
    /// Visits nodes until there are enough. `feasible` has more of them than that, of which some may not pass.
    pub(super) fn new(
        chooser: &Chooser<'_>,
        feasible: &FeasibleNodes,
        order: SampleOrder<'a>,
        mut passes: impl FnMut(Row) -> bool,
    ) -> Self {
        let candidate_of = CandidateOfGroup::new(chooser, feasible);
        let none = SampledGroup { candidate: 0, len: 0, top: i64::MIN, first: 0, next: None };
        let mut groups: SmallVec<[SampledGroup; 8]> = SmallVec::new();
        groups.resize(feasible.candidates.len(), none);
        let (mut n_feasible, mut n_visited, mut rejected) = (0, 0, Vec::new());
        for row in order.visits() {
            let index = chooser.cluster.name_order.index(row);
            let found = candidate_of.look(chooser, index);
            let is_rejected = found.is_some() && !passes(row);
            if is_rejected {
                rejected.push(index);
            }
            if let Some((candidate, static_score)) = found.filter(|_| !is_rejected) {
                if n_feasible == order.limit {
                    break;
                }
                n_feasible += 1;
                groups[candidate as usize].add(index, static_score);
            }
            n_visited += 1;
        }
        for (candidate, group) in (0..).zip(&mut groups) {
            group.candidate = candidate;
        }
        groups.retain(|group| 0 < group.len);
        rejected.sort_unstable();
        Visited { order, candidate_of, groups, rejected, len: n_visited }
    }

    /// How many nodes were judged, with the nominated node of the pod, which was judged first and rejected.
    pub(super) fn n_judged(&self, nominated: Option<Row>) -> usize {
        let is_other = |row: Row| !self.order.has_visited(row, self.len);
        self.len + usize::from(nominated.is_some_and(is_other))
    }

    /// Whether no node is feasible.
    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// How many nodes are feasible.
    fn n_feasible(&self) -> usize {
        self.groups.iter().map(|group| group.len).sum()
    }

    /// Whether the nodes are scored.
    pub(super) fn is_scored(&self) -> bool {
        1 < self.n_feasible()
    }

    /// Chooses among the best of the visited nodes, of which one is feasible; `n_judged` nodes were judged. `None` if
    /// the counts do not suffice.
    pub(super) fn choose(
        &self,
        chooser: &Chooser<'_>,
        feasible: &FeasibleNodes,
        n_judged: usize,
        want: Want,
        chance: &mut TieBreaker<'_, impl Rng>,
    ) -> Option<Cycle> {
        let sampled =
            feasible.with(self.groups.iter().map(|one| (one.candidate as usize, one.len)));
        let scores = if self.is_scored() {
            chooser.scores(&sampled)
        } else {
            Some([0].into_iter().collect())
        };
        let scores = scores?;
        let totals = || self.groups.iter().zip(&scores).map(|(group, score)| group.top + score);
        let highest = totals().max();
        let best = || self.groups.iter().zip(totals()).filter(|(_, total)| Some(*total) == highest);
        let name_order = chooser.cluster.name_order;
        let of_group = |(group, score): (&SampledGroup, &i64)| {
            let next = group.next.map(|next| next + score);
            [group.top + score].into_iter().chain(next)
        };
        let margin = pick::margin(self.groups.iter().zip(&scores).flat_map(of_group));
        let n_feasible = Some(self.n_feasible());
        let found_one = |index| {
            let cycle = Cycle::found(name_order.row(index), Vec::new());
            Some(Cycle { n_judged, n_feasible, margin, ..cycle })
        };
        if want == Want::First {
            let first = best().map(|(group, _)| group.first).min();
            return found_one(first.expect("more nodes are feasible than the sample holds"));
        }
        let mut top_of = vec![None; feasible.candidates.len()];
        best().for_each(|(group, _)| top_of[group.candidate as usize] = Some(group.top));
        let mut indices: Vec<NameIndex> = Vec::new();
        for row in self.order.visits().take(self.len) {
            let index = name_order.index(row);
            let is_best = self
                .candidate_of
                .look(chooser, index)
                .is_some_and(|(candidate, score)| top_of[candidate as usize] == Some(score));
            if is_best && self.rejected.binary_search(&index).is_err() {
                indices.push(index);
            }
        }
        if want == Want::Any && 1 < indices.len() {
            // The same node as from the sorted list.
            let at = chance.rng.random_range(0..indices.len());
            let (_, &mut index, _) = indices.select_nth_unstable(at);
            return found_one(index);
        }
        indices.sort_unstable();
        let best = indices.into_iter().map(|index| name_order.row(index)).collect();
        Some(Cycle { n_feasible, margin, ..found(best, n_judged, want, chance) })
    }

    /// The same with a score on demand: all visited nodes are scored.
    pub(super) fn choose_on_demand(
        &self,
        (chooser, feasible, score): (&Chooser<'_>, &FeasibleNodes, &WeightedOnDemand),
        n_judged: usize,
        want: Want,
        chance: &mut TieBreaker<'_, impl Rng>,
    ) -> Option<Cycle> {
        if !self.is_scored() {
            return self.choose(chooser, feasible, n_judged, want, chance);
        }
        let sampled =
            feasible.with(self.groups.iter().map(|one| (one.candidate as usize, one.len)));
        let mut of_candidate = vec![0; feasible.candidates.len()];
        for (group, total) in self.groups.iter().zip(chooser.scores(&sampled)?) {
            of_candidate[group.candidate as usize] = total;
        }
        let name_order = chooser.cluster.name_order;
        let (mut nodes, mut on_demand) = (Vec::new(), Vec::new());
        for row in self.order.visits().take(self.len) {
            let index = name_order.index(row);
            let Some((candidate, static_score)) = self.candidate_of.look(chooser, index) else {
                continue;
            };
            if self.rejected.binary_search(&index).is_err() {
                nodes.push((index, of_candidate[candidate as usize] + static_score));
                let raw = score.scores.raw(chooser.cluster.view.nodes, row);
                on_demand.push(Scored { row, score: raw });
            }
        }
        score.scores.normalize.apply(&mut on_demand);
        if on_demand.iter().any(|one| !(0..=MAX_NODE_SCORE).contains(&one.score)) {
            return None;
        }
        let totals = nodes.iter().zip(&on_demand);
        let totals: Vec<i64> =
            totals.map(|((_, total), one)| total + score.weight * one.score).collect();
        let highest = totals.iter().max();
        let best = nodes.iter().zip(&totals).filter(|(_, total)| Some(*total) == highest);
        let mut indices: Vec<NameIndex> = best.map(|((index, _), _)| *index).collect();
        indices.sort_unstable();
        let best = indices.into_iter().map(|index| name_order.row(index)).collect();
        let (n_feasible, margin) = (Some(totals.len()), pick::margin(totals.iter().copied()));
        Some(Cycle { n_feasible, margin, ..found(best, n_judged, want, chance) })
    }
}

impl SampledGroup {
    fn add(&mut self, index: NameIndex, static_score: i64) {
        if self.top < static_score {
            self.next = (0 < self.len).then_some(self.top);
            (self.top, self.first) = (static_score, index);
        } else {
            self.next = self.next.max(Some(static_score));
            if self.top == static_score {
                self.first = self.first.min(index);
            }
        }
        self.len += 1;
    }
}

impl Scanner {
    /// Excludes the nodes that are not in the sample, and those that one of the `uncached` filters rejects.
    /// Returns how many nodes were judged.
    pub(super) fn keep_sample(
        &mut self,
        order: SampleOrder<'_>,
        mut uncached: Option<&mut UncachedFilters>,
        chooser: &Chooser<'_>,
    ) -> usize {
        let candidate_of =
            chooser.tells_apart().then(|| CandidateOfGroup::new(chooser, &chooser.feasible_now()));
        let mut sample: Vec<(NameIndex, f32)> = Vec::with_capacity(order.limit);
        let mut n_visited = 0;
        for row in order.visits() {
            let index = chooser.cluster.name_order.index(row);
            let total = self.totals.of[index as usize];
            let is_left = NEVER < total
                && candidate_of.as_ref().is_none_or(|all| all.look(chooser, index).is_some());
            let mut passes =
                || uncached.as_deref_mut().is_none_or(|one| one.pass(row, chooser.asked()));
            if is_left && passes() {
                if sample.len() == order.limit {
                    break;
                }
                sample.push((index, total));
            }
            n_visited += 1;
        }
        self.totals.of.fill(NEVER);
        for (index, total) in sample {
            self.totals.of[index as usize] = total;
        }
        n_visited
    }
}

impl NodeSet {
    /// The row of the node to which a pod is nominated, if it is known.
    pub(super) fn nominated_row(&self, pod: &PodInfo, nominated: &NominatedPods) -> Option<Row> {
        let index = self.name_order.find(nominated.node_of(&pod.key)?)?;
        Some(self.name_order.row(index))
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_framework::prelude::*;
    use rand::SeedableRng;
    use rand_pcg::Pcg64;

    use super::super::by_label::PlainPods;
    use super::super::domain_counts::{CountPlan, DomainCounts};
    use super::super::name_order::NameOrder;
    use super::super::node_ranking::{NodeRanking, RankingPlugins};
    use super::super::nominations::Nominations;
    use super::super::sparse_domain_counts::SparseDomainCounts;
    use super::*;
    use crate::cycle::CycleResult;
    use crate::pick::TieBreak;
    use crate::profile::Profile;
    use crate::tests::lab;

    /// Scores a node by its label `points`, on demand.
    struct Points;

    impl Plugin for Points {
        const NAME: &'static str = "Points";
        type Args = NoArgs;
        fn new(_: NoArgs, _: &FeatureGates) -> Self {
            Points
        }
    }

    impl PreScore for Points {
        type Pod = ();
        type Node = Labels;
        type Cluster = ();
        type State = ();
        fn pre_score(&self, (): (), _: Feasible<'_, Labels>, (): ()) -> Option<()> {
            Some(())
        }
        fn score(&self, (): &(), _: Row, node: &Labels) -> i64 {
            node.get("points").map_or(0, |points| points.parse().expect("points are a number"))
        }
    }

    impl ScoreOnDemand for Points {
        fn state(&self, (): (), (): ()) -> Option<()> {
            Some(())
        }
        fn highest(&self, (): &()) -> i64 {
            MAX_NODE_SCORE
        }
    }

    /// Nodes, and what is remembered of a pod that requests a CPU and likes the zone `x`.
    struct Bench {
        nodes: Columns,
        stores: Stores,
        node_set: NodeSet,
        pod: PodInfo,
        ranking: NodeRanking,
        counts: DomainCounts,
        sparse: SparseDomainCounts,
        rows: Vec<Row>,
    }

    impl Bench {
        /// Each node has a name, and labels and CPUs. They are visited in this order.
        fn new(all: &[(&str, &[&str])]) -> Self {
            let (mut nodes, stores) = (Columns::default(), Stores::default());
            let rows = all.iter().map(|(name, what)| nodes.add(lab::node(name, what))).collect();
            let node_set = NodeSet::new(NameOrder::of(&nodes), Nominations::default());
            let cluster = node_set.with(View { nodes: &nodes, stores: &stores });
            let profile: Profile = lab::profile("lab", None, |_| true);
            let pod = PodInfo::from(lab::pod("p", &["cpu=1", "likes=x"]));
            let plugins = RankingPlugins::All;
            let ranking =
                NodeRanking::new(&profile, &pod, plugins, Vec::new(), None, (0, 0), cluster);
            let counts = CountPlan::default().domain_counts(&pod, &[], PlainPods::None, cluster);
            let sparse = SparseDomainCounts::new(&ranking, &counts, cluster);
            Bench { nodes, stores, node_set, pod, ranking, counts, sparse, rows }
        }

        fn chooser(&self) -> Chooser<'_> {
            let cluster = self.node_set.with(View { nodes: &self.nodes, stores: &self.stores });
            let Bench { ranking, counts, sparse, .. } = self;
            Chooser { ranking, domain_counts: counts, sparse, cluster }
        }

        fn order(&self, start: usize, limit: usize) -> SampleOrder<'_> {
            SampleOrder { rows: &self.rows, start, limit }
        }

        /// The visited nodes, of which those that are called `rejected` do not pass.
        fn visit(&self, order: SampleOrder<'_>, rejected: &[&str]) -> Sampled {
            let chooser = self.chooser();
            let feasible = chooser.feasible_now();
            let passes = |row: Row| !rejected.contains(&self.nodes.name_of(row).as_str());
            let visited = Visited::new(&chooser, &feasible, order, passes);
            let n_judged = visited.n_judged(None);
            let choose = |want| {
                let rng = &mut Pcg64::seed_from_u64(1);
                let mut chance = TieBreaker { tie_break: TieBreak::First, rng };
                let cycle = visited.choose(&chooser, &feasible, n_judged, want, &mut chance)?;
                assert_eq!(cycle.n_judged, n_judged);
                Some(self.names(&cycle))
            };
            let choices = [Want::First, Want::Any, Want::All];
            let [first, any, all] = choices.map(|want| choose(want).expect("nothing is counted"));
            assert!(all.contains(&any[0]), "{any:?} is one of {all:?}");
            Sampled { n_judged, first: first[0].clone(), best: all, is_scored: visited.is_scored() }
        }

        /// The chosen node and the best ones.
        fn names(&self, cycle: &Cycle) -> Vec<String> {
            let CycleResult::Found { row, best } = &cycle.result else { panic!("there is a node") };
            let all = if best.is_empty() { std::slice::from_ref(row) } else { best.as_slice() };
            assert!(all.contains(row));
            all.iter().map(|&row| self.nodes.name_of(row).to_string()).collect()
        }
    }

    /// What a choice of a sample says.
    #[derive(Debug, PartialEq)]
    struct Sampled {
        n_judged: usize,
        /// The first of the best nodes by name, and all of them.
        first: String,
        best: Vec<String>,
        is_scored: bool,
    }

    fn sampled(n_judged: usize, best: &[&str], is_scored: bool) -> Sampled {
        let best: Vec<String> = best.iter().map(|&name| name.to_owned()).collect();
        Sampled { n_judged, first: best[0].clone(), best, is_scored }
    }

    /// Six nodes of which `e` has the zone that the pod likes, and `c` has no room.
    fn bench() -> Bench {
        Bench::new(&[
            ("f", &["cpu=4"]),
            ("e", &["cpu=4", "zone=x"]),
            ("d", &["cpu=4"]),
            ("c", &["cpu=0"]),
            ("b", &["cpu=4"]),
            ("a", &["cpu=4"]),
        ])
    }

    #[test]
    fn nodes_are_visited_from_the_start_on_until_one_more_is_feasible_than_wanted() {
        let bench = bench();
        // The best are sorted by name, in whatever order they were visited.
        assert_eq!(bench.visit(bench.order(0, 3), &[]), sampled(4, &["e"], true));
        assert_eq!(bench.visit(bench.order(2, 2), &[]), sampled(3, &["b", "d"], true));
        // After the last one comes the first one.
        assert_eq!(bench.visit(bench.order(5, 2), &[]), sampled(2, &["a", "f"], true));
        assert_eq!(bench.visit(bench.order(11, 2), &[]), sampled(2, &["a", "f"], true));
        assert_eq!(bench.visit(bench.order(5, 3), &[]), sampled(3, &["e"], true));
        // Nodes that are rejected behind the last feasible one were judged, too.
        assert_eq!(bench.visit(bench.order(2, 1), &[]), sampled(2, &["d"], false));
    }

    #[test]
    fn nodes_that_do_not_pass_are_visited_and_never_chosen() {
        let bench = bench();
        assert_eq!(bench.visit(bench.order(0, 2), &["e"]), sampled(4, &["d", "f"], true));
        assert_eq!(bench.visit(bench.order(0, 1), &["f", "e", "d"]), sampled(5, &["b"], false));
        let chooser = bench.chooser();
        let visited = Visited::new(&chooser, &chooser.feasible_now(), bench.order(0, 1), |_| false);
        assert!(visited.is_empty() && visited.n_judged(None) == 6);
    }

    #[test]
    fn a_nominated_node_counts_as_judged_once() {
        let bench = bench();
        let chooser = bench.chooser();
        let feasible = chooser.feasible_now();
        let visited = Visited::new(&chooser, &feasible, bench.order(2, 2), |_| true);
        // Those are d, c and b.
        let judged = [None, Some(2), Some(3), Some(4), Some(5), Some(0)];
        let judged = judged.map(|at: Option<usize>| visited.n_judged(at.map(|at| bench.rows[at])));
        assert_eq!(judged, [3, 3, 3, 3, 4, 4]);
    }

    /// The best of the first `limit` nodes, with a score on demand of this weight.
    fn on_demand(bench: &Bench, limit: usize, weight: i64) -> Option<Vec<String>> {
        let entry = Entry::of::<Points>().pre_score().score_on_demand().done();
        let profile = lab::profile_of(entry, &["Sort", "Binder"]);
        let (plugin, _) = profile.at(Point::Score).next().expect("it scores");
        let chooser = bench.chooser();
        let score = plugin.points.score.as_ref().expect("it scores");
        let scores = score.scores_on_demand(&bench.pod, &chooser.cluster.view);
        let score = WeightedOnDemand { weight, scores: scores.expect("it scores on demand") };
        let feasible = chooser.feasible_now();
        let visited = Visited::new(&chooser, &feasible, bench.order(0, limit), |row| {
            bench.nodes.name_of(row) != "late"
        });
        let rng = &mut Pcg64::seed_from_u64(1);
        let mut chance = TieBreaker { tie_break: TieBreak::First, rng };
        let with = (&chooser, &feasible, &score);
        Some(bench.names(&visited.choose_on_demand(with, 0, Want::All, &mut chance)?))
    }

    #[test]
    fn a_score_on_demand_is_added_for_the_nodes_that_were_visited() {
        let bench = Bench::new(&[
            ("liked", &["cpu=4", "zone=x"]),
            ("late", &["cpu=4", "points=100"]),
            ("full", &["cpu=0", "points=100"]),
            ("good", &["cpu=4", "points=1"]),
            ("equal", &["cpu=4", "points=1"]),
            ("unseen", &["cpu=4", "points=100"]),
            ("wrong", &["cpu=4", "points=101"]),
        ]);
        let best = |limit, weight| on_demand(&bench, limit, weight).expect("scores are in range");
        assert_eq!(best(3, 0), ["liked"]);
        assert_eq!(best(3, 1), ["equal", "good", "liked"]);
        assert_eq!(best(3, 2), ["equal", "good"]);
        assert_eq!(best(4, 2), ["unseen"]);
        // One node is not scored.
        assert_eq!(best(1, 2), ["liked"]);
        // From scratch this is an error.
        assert_eq!(on_demand(&bench, 5, 2), None);
    }

    #[test]
    fn a_scan_keeps_the_totals_of_the_sample_only() {
        let bench = bench();
        let chooser = bench.chooser();
        let index = |at: usize| chooser.cluster.name_order.index(bench.rows[at]) as usize;
        let kept = |order: SampleOrder<'_>, uncached: Option<&mut UncachedFilters>| {
            let mut scanner = Scanner::default();
            scanner.totals.of = vec![NEVER; chooser.cluster.name_order.n_indices()];
            // The bounds leave out the node without room.
            for at in [0, 1, 2, 4, 5] {
                scanner.totals.of[index(at)] = 7.0;
            }
            let n_judged = scanner.keep_sample(order, uncached, &chooser);
            let left = (0..bench.rows.len()).filter(|&at| NEVER < scanner.totals.of[index(at)]);
            let left = left.map(|at| bench.nodes.name_of(bench.rows[at]).as_str());
            format!("{} of {n_judged}", left.collect::<String>())
        };
        assert_eq!(kept(bench.order(0, 2), None), "fe of 2");
        assert_eq!(kept(bench.order(2, 2), None), "db of 3");
        assert_eq!(kept(bench.order(4, 3), None), "fba of 3");
        assert_eq!(kept(bench.order(0, 9), None), "fedba of 6");
        let profile = lab::profile("lab", None, |_| true);
        let mut filters = profile.at(Point::Filter);
        let zone = filters.find(|(plugin, _)| plugin.name == "Zone").expect("it is a filter").0;
        let zone = zone.points.filter.as_ref().expect("it is a filter");
        let pod = PodInfo::from(lab::pod("q", &["zone=x"]));
        let zone = zone.prepare(&pod, &mut CycleState::new(), &chooser.cluster.view);
        let mut uncached = UncachedFilters::all_of(&pod, [zone].into_iter());
        assert_eq!(kept(bench.order(2, 1), Some(&mut uncached)), "e of 6");
    }
}
