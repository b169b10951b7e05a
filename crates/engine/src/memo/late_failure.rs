//! Why pods fit nowhere that some nodes reject by *late filters*: [uncached filters](super::uncached_filters),
//! and filters that judge by [counts](super::domain_counts).
//!
//! Most nodes are rejected by other filters, for which the reasons and the preemption candidates are
//! remembered. The late filters are asked about the other nodes only, and filters by counts only once for each
//! group of nodes. Dry runs begin with the counts of the node, so that no other pod is looked at.

use plimsoll_framework::points::PostFilterPoint;
use plimsoll_framework::{
    Code, CycleState, PodInfo, Point, PostFilterAnswer, Rejection, Row, View,
};

use super::choose::Chooser;
use super::counted_values::{CountedValues, ValueId};
use super::decide::RankedBy;
use super::diagnosis_cache::OnlyFromScratch;
use super::domain_counts::DomainCounts;
use super::name_index_set::NameIndex;
use super::node_diagnosis::{NodeDiagnosis, NominatedNodeRejection};
use super::node_ranking::{ClusterView, NodeRanking};
use super::preemption::{CandidateCache, CandidateSearch};
use super::uncached_filters::{AskedOn, Reason, UncachedFilters};
use super::{FastMap, Memo};
use crate::cycle::{AttemptFailure, Cycle, PostFilterRun};
use crate::diagnosis;
use crate::filters::{Filters, PreFilterStop};
use crate::metrics::CycleMeter;
use crate::profile::Profile;
use crate::unit::Member;

/// The reasons of the nodes that only late filters reject.
#[derive(Default)]
struct LateRejections {
    /// By name index, ascending.
    of: Vec<(NameIndex, ValueId)>,
    counted: CountedValues<Reason>,
}

impl Memo {
    /// Why a pod fits nowhere that an uncached filter rejects for all nodes. As in [`crate::cycle`], the
    /// filters are prepared until one of them rejects the pod.
    pub(super) fn rejected_by_uncached(
        &mut self,
        Member { profile, pod }: Member<'_>,
        view: View<'_>,
    ) -> Option<Cycle> {
        let (mut shared, mut meter) = (CycleState::new(), CycleMeter::default());
        let prepared = Filters::prepare(profile, pod, &mut shared, &view, &mut meter);
        let Err(PreFilterStop::Rejected(stopped)) = prepared else { return None };
        let (failure, filters) = *stopped;
        let code = failure.pre_filter.as_ref().map(|(_, why)| why.code);
        // If evictions could help, each node needs a dry run.
        let code = code.filter(|&code| code != Code::Unschedulable)?;
        let cluster = self.node_set.as_ref()?.with(view);
        let looked = filters.looked(profile);
        let failure = ask_post_filters((profile, pod), failure, |name, point| {
            let answer = point.without_nodes(pod, looked.contains(name));
            if let Some(answer) = answer.or_else(|| point.without_rejections(pod, &view)) {
                return Some(answer);
            }
            let by_node = point.by_node_on(&view)?;
            let nominated = nominated_node(pod, cluster);
            let nominated = nominated.map(|row| (row, code));
            by_node.without_dry_run(pod, nominated, &view).or_else(|| {
                let mut candidates = CandidateCache::default();
                let mut search =
                    CandidateSearch::new(by_node, pod, &[], &[], None, &mut candidates, cluster);
                by_node.choose(pod, &mut search)
            })
        });
        Some(Cycle::failed(failure?, view.nodes.len()))
    }

    /// Why a pod fits nowhere, after no node has passed a ranking, counts and `uncached` filters. `None` if
    /// this can only be found from scratch.
    pub(super) fn late_failure(
        &mut self,
        Member { profile, pod }: Member<'_>,
        RankedBy { with, is_moved }: RankedBy,
        uncached: &mut UncachedFilters,
        own: Option<&NominatedNodeRejection>,
        view: View<'_>,
    ) -> Option<AttemptFailure> {
        let node_set = self.node_set.as_ref()?;
        let cluster = node_set.with(view);
        let counts = self.counts.get(with.1)?;
        let entry = self.rankings.get_mut(with.0)?;
        if profile.run_all_filters
            || !entry.ranking.judges_all_nodes()
            || !are_late(profile, &entry.ranking, uncached, counts)
        {
            return None;
        }
        let (ranking, sparse, diagnosis) =
            entry.diagnose(with.1, pod.priority, node_set, cluster)?;
        let chooser = Chooser { ranking, domain_counts: counts, sparse, cluster };
        let on = AskedOn { cluster, moved: is_moved.then_some(counts) };
        let rejections = LateRejections::of(diagnosis, uncached, own, on, &chooser);
        let failure = rejections.and_then(|rejections| {
            rejections.failure(profile, (uncached, diagnosis), own, &chooser)
        });
        self.rankings.weigh_diagnosis(with.0, pod.priority);
        failure
    }
}

/// Whether the filters of a ranking come first, then the uncached ones, and then those by counts. The first one
/// that rejects a node gives the reason.
fn are_late(
    profile: &Profile,
    ranking: &NodeRanking,
    uncached: &UncachedFilters,
    counts: &DomainCounts,
) -> bool {
    let mut reached = 0;
    profile.at(Point::Filter).all(|(plugin, _)| {
        let is = |name: &'static str| name == plugin.name;
        let kind = if counts.filter_names.iter().any(|name| is(name)) {
            2
        } else if uncached.all.iter().any(|one| is(one.plugin)) {
            1
        } else if ranking.plugins().any(is) {
            0
        } else {
            return true;
        };
        let in_order = reached <= kind;
        reached = kind;
        in_order
    })
}

/// The row of the node in the status of a pod.
fn nominated_node(pod: &PodInfo, cluster: ClusterView<'_>) -> Option<Row> {
    let index = cluster.name_order.find(pod.nominated_node.as_ref()?)?;
    Some(cluster.name_order.row(index))
}

/// Adds the answers of the PostFilter plugins to a failure. `ask` returns `None` if the answer can only be
/// found from scratch.
fn ask_post_filters(
    (profile, pod): (&Profile, &PodInfo),
    failure: AttemptFailure,
    mut ask: impl FnMut(&'static str, &PostFilterPoint) -> Option<PostFilterAnswer>,
) -> Option<AttemptFailure> {
    if !profile.asks_post_filter(pod) {
        return Some(failure);
    }
    // Its duration is measured as a phase of the decision.
    let meter = &mut CycleMeter::default();
    let ask = |name: &'static str, point: &PostFilterPoint| ask(name, point).ok_or(OnlyFromScratch);
    PostFilterRun::new(failure).go_on(profile, meter, ask).ok()
}

impl LateRejections {
    /// Finds the reasons of the nodes that pass the ranking. `None` if one cannot be judged.
    fn of(
        diagnosis: &NodeDiagnosis,
        uncached: &mut UncachedFilters,
        own: Option<&NominatedNodeRejection>,
        on: AskedOn<'_>,
        chooser: &Chooser<'_>,
    ) -> Option<Self> {
        let mut rejections = LateRejections::default();
        let name_order = on.cluster.name_order;
        let asks = !uncached.all.is_empty() || on.moved.is_some();
        let mut known: FastMap<(u32, Option<usize>), Option<Reason>> = FastMap::default();
        for index in diagnosis.passing() {
            if own.is_some_and(|own| own.index == index) {
                continue;
            }
            let (group, _) = chooser.ranking.entry(index)?;
            let sparse_group = chooser.sparse.group_of(index);
            let mut by_counts = || {
                let find = || chooser.rejection_by_counts(group as usize, sparse_group);
                known.entry((group, sparse_group)).or_insert_with(find).clone()
            };
            let why = match asks {
                true => uncached.rejection_or(name_order.row(index), on, by_counts)?,
                false => by_counts()?,
            };
            if why.1.code == Code::Error {
                return None;
            }
            rejections.of.push((index, rejections.counted.add(why)));
        }
        // With nominated pods a node is judged twice. If only the second time another filter rejects it, a
        // late filter may have rejected it before.
        let rows = on.cluster.nominations.rows().filter(|_| asks);
        let is_own = |index: NameIndex| own.is_some_and(|own| own.index == index);
        for row in rows {
            let index = name_order.index(row);
            if !diagnosis.passes(index) && !is_own(index) && uncached.reject_with_nominated(row, on)
            {
                return None;
            }
        }
        Some(rejections)
    }

    /// Why a node is rejected that passes the ranking.
    fn why(&self, index: NameIndex) -> Option<&Rejection> {
        let at = self.of.binary_search_by_key(&index, |&(index, _)| index).ok()?;
        Some(&self.counted.value(self.of[at].1).1)
    }

    fn failure(
        &self,
        profile: &Profile,
        (uncached, diagnosis): (&UncachedFilters, &mut NodeDiagnosis),
        own: Option<&NominatedNodeRejection>,
        chooser: &Chooser<'_>,
    ) -> Option<AttemptFailure> {
        let (pod, cluster) = (&uncached.pod, chooser.cluster);
        let others = own.map(|own| (own.plugin, &own.why, 1)).into_iter();
        let late = self.counted.iter(None).map(|((plugin, why), n)| (*plugin, why, n));
        let all = diagnosis.counted(own).chain(others).chain(late);
        let failure = diagnosis::rejected_by_nodes(cluster.name_order.len(), all)?;
        let nominated = nominated_node(pod, cluster).map(|row| {
            let index = cluster.name_order.index(row);
            let code = match own.filter(|own| own.index == index) {
                Some(own) => own.why.code,
                None => self.why(index).map_or_else(|| diagnosis.code(index), |why| why.code),
            };
            (row, code)
        });
        ask_post_filters((profile, pod), failure, |name, point| {
            let mut filters = profile.at(Point::PreFilter).chain(profile.at(Point::Filter));
            let has_looked =
                filters.any(|(filter, _)| filter.name == name && filter.points.filter.is_some());
            let answer = point.without_nodes(pod, has_looked);
            if let Some(answer) = answer.or_else(|| point.without_rejections(pod, &cluster.view)) {
                return Some(answer);
            }
            let by_node = point.by_node_on(&cluster.view)?;
            if let Some(answer) = by_node.without_dry_run(pod, nominated, &cluster.view) {
                return Some(answer);
            }
            let counts = chooser.domain_counts;
            if counts.judge_nodes() && !counts.follow_dry_runs() {
                return None;
            }
            let places = self.places(diagnosis, own, cluster);
            let (mut only, mut filters) = (Vec::new(), Vec::new());
            // Without places there are no dry runs.
            if !places.is_empty() {
                only.extend(self.of.iter().map(|&(index, _)| cluster.name_order.row(index)));
                only.sort_unstable();
                filters.extend(chooser.ranking.prepared.iter().chain(uncached.prepared()).cloned());
            }
            let own = own.map(|own| cluster.name_order.row(own.index));
            let candidates = diagnosis.candidates(name, by_node);
            let mut search =
                CandidateSearch::new(by_node, pod, &filters, &places, own, candidates, cluster)
                    .with_late_filters(&only, counts);
            by_node.choose(pod, &mut search)
        })
    }

    /// The rows of the nodes on which evictions could help, ascending.
    fn places(
        &self,
        diagnosis: &mut NodeDiagnosis,
        own: Option<&NominatedNodeRejection>,
        cluster: ClusterView<'_>,
    ) -> Vec<Row> {
        let mut places = diagnosis.places(cluster).to_vec();
        let own_row = own.map(|own| cluster.name_order.row(own.index));
        places.retain(|&row| Some(row) != own_row);
        let could_help = |why: &Rejection| why.code == Code::Unschedulable;
        places.extend(own_row.filter(|_| own.is_some_and(|own| could_help(&own.why))));
        let late = self.of.iter().filter(|(_, why)| could_help(&self.counted.value(*why).1));
        places.extend(late.map(|&(index, _)| cluster.name_order.row(index)));
        places.sort_unstable();
        places
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_framework::{Columns, NominatedPods, Prepared, Stores};

    use super::super::by_label::PlainPods;
    use super::super::domain_counts::CountPlan;
    use super::super::name_order::NameOrder;
    use super::super::node_ranking::RankingPlugins;
    use super::super::node_set::NodeSet;
    use super::super::nominations::Nominations;
    use super::super::sparse_domain_counts::SparseDomainCounts;
    use super::super::uncached_filters::UncachedFilter;
    use super::*;
    use crate::cycle::CycleResult;
    use crate::scheduler::Scans;
    use crate::tests::lab;

    /// Whether late filters come last in a profile with Cpu, Zone, Invited, Broken, Only, Also and Refuse, of which
    /// these are asked lazily or judge by counts.
    fn come_last(uncached: &[&'static str], by_counts: &[&'static str]) -> bool {
        let (nodes, stores) = (Columns::default(), Stores::default());
        let node_set = NodeSet::new(NameOrder::of(&nodes), Nominations::default());
        let cluster = node_set.with(View { nodes: &nodes, stores: &stores });
        let profile = lab::profile("lab", None, |_| true);
        let pod = PodInfo::from(lab::pod("p", &[]));
        let plugins = RankingPlugins::All;
        let ranking = NodeRanking::new(&profile, &pod, plugins, Vec::new(), None, (0, 0), cluster);
        let mut counts = CountPlan::default().domain_counts(&pod, &[], PlainPods::None, cluster);
        counts.filter_names = by_counts.to_vec();
        let mut filters = UncachedFilters::none(&pod);
        let filter = |&plugin| UncachedFilter::new(plugin, 0, Prepared::skipped(), None);
        filters.all.extend(uncached.iter().map(filter));
        are_late(&profile, &ranking, &filters, &counts)
    }

    #[test]
    fn the_first_filter_that_rejects_is_known_if_late_filters_come_last() {
        assert!(come_last(&[], &[]));
        assert!(come_last(&["Refuse"], &[]));
        assert!(come_last(&[], &["Refuse"]));
        assert!(come_last(&["Only", "Also"], &["Refuse"]));
    }

    /// Nodes, and what is remembered of a pod that requests a CPU.
    struct Bench {
        nodes: Columns,
        stores: Stores,
        node_set: NodeSet,
        profile: Profile,
        ranking: NodeRanking,
        counts: DomainCounts,
        sparse: SparseDomainCounts,
    }

    impl Bench {
        /// Each node has a name, and labels and CPUs. `nominated` is the name of a node with its nominated pods.
        fn new(all: &[(&str, &[&str])], nominated: Option<(&str, PodInfo)>) -> Self {
            let (mut nodes, stores) = (Columns::default(), Stores::default());
            let rows: Vec<Row> =
                all.iter().map(|(name, what)| nodes.add(lab::node(name, what))).collect();
            let mut nominations = Nominations::default();
            if let Some((name, pod)) = nominated {
                let at = all.iter().position(|one| one.0 == name).expect("it is a node");
                nominations.set(rows[at], &[pod], |_| Some(0)).expect("there is a signature");
            }
            let node_set = NodeSet::new(NameOrder::of(&nodes), nominations);
            let cluster = node_set.with(View { nodes: &nodes, stores: &stores });
            let profile = lab::profile("lab", None, |_| true);
            let pod = PodInfo::from(lab::pod("p", &["cpu=1"]));
            let plugins = RankingPlugins::All;
            let ranking =
                NodeRanking::new(&profile, &pod, plugins, Vec::new(), None, (0, 0), cluster);
            let counts = CountPlan::default().domain_counts(&pod, &[], PlainPods::None, cluster);
            let sparse = SparseDomainCounts::new(&ranking, &counts, cluster);
            Bench { nodes, stores, node_set, profile, ranking, counts, sparse }
        }

        /// A filter of the profile as a late one of a pod with these labels.
        fn late(&self, name: &'static str, what: &[&str]) -> UncachedFilters {
            let pod = PodInfo::from(lab::pod("p", what));
            let mut all = self.profile.at(Point::Filter);
            let filter = all.find(|(plugin, _)| plugin.name == name).expect("it is a filter").0;
            let filter = filter.points.filter.as_ref().expect("it is a filter");
            let view = View { nodes: &self.nodes, stores: &self.stores };
            let prepared = filter.prepare(&pod, &mut CycleState::new(), &view);
            let mut late = UncachedFilters::none(&pod);
            late.all.push(UncachedFilter::new(name, 0, prepared, None));
            late
        }

        /// What a late filter says of the nodes that the ranking lets pass, as the number of nodes with each reason, and the
        /// names of the nodes on which evictions could help. `own` is the node that has rejected the pod before.
        fn rejections(&mut self, late: &mut UncachedFilters, own: Option<&str>) -> Option<String> {
            let Bench { nodes, stores, node_set, ranking, counts, sparse, .. } = self;
            let cluster = node_set.with(View { nodes, stores });
            let own = own.map(|name| NominatedNodeRejection {
                index: cluster.name_order.find(name).expect("it is a node"),
                plugin: "Own",
                why: Rejection::unschedulable("it was full"),
            });
            let mut diagnosis = NodeDiagnosis::new(ranking, (0, 0), cluster);
            let chooser = Chooser { ranking, domain_counts: counts, sparse, cluster };
            let on = AskedOn { cluster, moved: None };
            let all = LateRejections::of(&diagnosis, late, own.as_ref(), on, &chooser)?;
            let reasons = all.counted.iter(None).map(|((plugin, why), n)| {
                format!("{n} {plugin}: {}", why.reasons.first().expect("it has a reason"))
            });
            let mut reasons: Vec<String> = reasons.collect();
            reasons.sort_unstable();
            let places = all.places(&mut diagnosis, own.as_ref(), cluster);
            let places: Vec<&str> = places.iter().map(|&row| nodes.name_of(row).as_str()).collect();
            Some(format!("{}; {}", reasons.join(", "), places.join(" ")))
        }
    }

    /// Nodes in three zones, of which `full` has no room.
    const NODES: &[(&str, &[&str])] = &[
        ("full", &["cpu=0", "zone=x"]),
        ("x", &["cpu=4", "zone=x"]),
        ("y", &["cpu=4", "zone=y"]),
        ("bare", &["cpu=4"]),
    ];

    #[test]
    fn late_filters_give_the_reasons_of_the_nodes_that_pass_the_others() {
        let mut bench = Bench::new(NODES, None);
        let mut late = bench.late("Zone", &["zone=z"]);
        let found = bench.rejections(&mut late, None);
        // Evictions could help only where the first filter says so.
        assert_eq!(found.as_deref(), Some("3 Zone: wrong zone; full"));
        let mut late = bench.late("Invited", &["invited=yes"]);
        let found = bench.rejections(&mut late, None);
        assert_eq!(found.as_deref(), Some("3 Invited: not invited; full x y bare"));
    }

    #[test]
    fn the_nominated_node_keeps_the_reason_that_it_has_given() {
        let mut bench = Bench::new(NODES, None);
        let mut late = bench.late("Zone", &["zone=z"]);
        // It is counted elsewhere, and evictions could help there.
        let found = bench.rejections(&mut late, Some("y"));
        assert_eq!(found.as_deref(), Some("2 Zone: wrong zone; full y"));
        let found = bench.rejections(&mut late, Some("full"));
        assert_eq!(found.as_deref(), Some("3 Zone: wrong zone; full"));
    }

    #[test]
    fn a_node_that_a_late_filter_cannot_judge_is_left_to_a_decision_from_scratch() {
        let nodes: &[(&str, &[&str])] = &[("bare", &["cpu=4"]), ("full", &["cpu=0"])];
        let mut bench = Bench::new(nodes, None);
        let mut late = bench.late("Broken", &["broken=yes"]);
        assert_eq!(bench.rejections(&mut late, None), None);
        // Those that other filters reject are not asked about.
        let full: &[(&str, &[&str])] = &[("full", &["cpu=0"])];
        let mut bench = Bench::new(full, None);
        let mut late = bench.late("Broken", &["broken=yes"]);
        assert_eq!(bench.rejections(&mut late, None).as_deref(), Some("; full"));
    }

    #[test]
    fn a_node_that_passes_is_no_failure() {
        let mut bench = Bench::new(NODES, None);
        let mut late = bench.late("Zone", &["zone=y"]);
        assert_eq!(bench.rejections(&mut late, None), None);
    }

    /// With a nominated pod the node is judged twice, and the late filter may have rejected it the first time.
    #[test]
    fn a_node_with_a_nominated_pod_that_other_filters_reject_is_left_to_a_decision_from_scratch() {
        let other = || PodInfo::from(lab::pod("other", &["prio=9"]));
        let mut bench = Bench::new(NODES, Some(("full", other())));
        let mut late = bench.late("Zone", &["zone=z"]);
        assert_eq!(bench.rejections(&mut late, None), None);
        let mut bench = Bench::new(NODES, Some(("y", other())));
        let mut late = bench.late("Zone", &["zone=z"]);
        let found = bench.rejections(&mut late, None);
        assert_eq!(found.as_deref(), Some("3 Zone: wrong zone; full"));
    }

    /// The message of a pod of these labels, of which a filter may say before all others that it fits nowhere.
    fn refused(what: &[&str]) -> Option<String> {
        let mut nodes = Columns::default();
        nodes.add(lab::node("a", &["cpu=4"]));
        nodes.add(lab::node("b", &["cpu=4"]));
        let (stores, profile) = (Stores::default(), lab::profile("lab", None, |_| true));
        let view = View { nodes: &nodes, stores: &stores };
        let mut memo = Memo::new([&profile].into_iter(), Scans::default());
        memo.build_node_set(view, &NominatedPods::default());
        let pod = PodInfo::from(lab::pod("p", what));
        let cycle = memo.rejected_by_uncached(Member { profile: &profile, pod: &pod }, view)?;
        let CycleResult::Unschedulable(failure) = cycle.result else { panic!("no node is found") };
        assert_eq!(cycle.n_judged, 2);
        assert_eq!(failure.rejectors.iter().copied().collect::<Vec<_>>(), ["Refuse"]);
        Some(failure.message)
    }

    #[test]
    fn what_a_filter_says_of_all_nodes_is_known_without_looking_at_one() {
        let message = refused(&["refuse=always"]).expect("no node need be looked at");
        assert!(message.starts_with("0/2 nodes are available: refused for good."), "{message}");
        // Those who could evict pods are asked, and say that this does not help.
        let message = refused(&["refuse=always", "oust=yes"]).expect("no node need be looked at");
        assert!(message.ends_with("nobody to oust"), "{message}");
        // A plugin that does not look at nodes one by one looks at all of them.
        assert_eq!(refused(&["refuse=always", "help-a=judge"]), None);
        // Evictions could help on each node.
        assert_eq!(refused(&["refuse=now"]), None);
        for other in ["refuse=error", "refuse=no"] {
            assert_eq!(refused(&[other]), None, "{other}");
        }
    }

    #[test]
    fn a_late_filter_ahead_of_others_leaves_the_reasons_to_a_decision_from_scratch() {
        assert!(!come_last(&["Zone"], &[]));
        assert!(!come_last(&[], &["Zone"]));
        assert!(!come_last(&["Refuse"], &["Also"]));
    }
}
