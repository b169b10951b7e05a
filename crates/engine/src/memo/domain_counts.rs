//! The counts by topology domain for pods of one signature.

mod recount;

use std::ops::Range;
use std::sync::Arc;

use hashbrown::HashMap;
use plimsoll_framework::domains::MOST_TERMS;
use plimsoll_framework::parts::NodeReads;
use plimsoll_framework::{
    ByDomain, Columns, CountHistogram, CountedNodes, Counting, DomainCounter, DomainFilter,
    DomainScore, DomainTerm, Neighbour, NodeCount, PodInfo, Point, Prepared, Rejection, Row,
    TermCount, TermTotals, TopologyKey, Verdict, View,
};
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;

use super::by_label::PlainPods;
use super::change_log::ChangeLog;
use super::diagnosis_cache::OnlyFromScratch;
use super::node_ranking::ClusterView;
use super::node_set::NodePlaces;
use super::topology::{Domain, NO_DOMAIN};
use crate::profile::{PluginIndex, Profile};

/// How many changes of fine counts the change log keeps.
const MOST_COUNT_CHANGES: usize = 1 << 16;

/// The approximate size of a term without its counts: here, in the plugin, and in the pod, in bytes.
const BYTES_PER_TERM: usize = 512;
/// The approximate size of a map entry, in bytes.
const BYTES_PER_ENTRY: usize = 48;

/// Up to this many domains the counts are in an array, even if most are 0. An array is faster than a map, and
/// takes no more memory than a few pods.
const MOST_DENSE: usize = 1 << 14;

/// The counts of one term.
struct CountedTerm {
    topology: usize,
    nodes: CountedNodes,
    counts: CountTable,
    /// For a fine term, how many domains have each count other than 0; `None` if no plugin compares domains.
    spread: Option<CountHistogram>,
    total: i64,
    /// The domains with a node on which pods count; `None` if no plugin compares domains.
    in_play: Option<DomainsInPlay>,
    /// Whether the [first node](DomainFilter::first_of) of the term matters.
    follows_first: bool,
    /// If so, the domain with a count other than 0 whose only node is the first by name.
    first: Option<Domain>,
}

/// The counts by domain. Domains beyond the end of an array have none.
enum CountTable {
    /// By domain.
    Coarse(Vec<i64>),
    /// By domain of a fine topology, with the number of counts other than 0.
    Dense(Vec<i64>, usize),
    /// Only counts other than 0, for topologies with too many domains for an array.
    Sparse(HashMap<Domain, i64, FxBuildHasher>),
}

impl CountTable {
    /// The domains of a fine topology with counts other than 0, in no particular order.
    fn counted_domains(&self) -> impl Iterator<Item = Domain> {
        let (dense, sparse) = match self {
            CountTable::Coarse(_) => (None, None),
            CountTable::Dense(counts, _) => (Some(counts), None),
            CountTable::Sparse(counts) => (None, Some(counts)),
        };
        let dense = (0..).zip(dense.into_iter().flatten()).filter(|(_, count)| **count != 0);
        dense
            .map(|(domain, _)| domain)
            .chain(sparse.into_iter().flat_map(|all| all.keys().copied()))
    }
}

/// The domains with a node on which pods count.
#[derive(Default)]
struct DomainsInPlay {
    /// By domain: one of these nodes.
    witnesses: Vec<Option<Row>>,
    /// How many there are.
    len: usize,
}

impl DomainsInPlay {
    fn has(&self, domain: usize) -> bool {
        self.witnesses.get(domain).is_some_and(Option::is_some)
    }

    fn add(&mut self, domain: Domain, row: Row) {
        let at = domain as usize;
        if self.witnesses.len() <= at {
            self.witnesses.resize(at + 1, None);
        }
        self.len += usize::from(self.witnesses[at].replace(row).is_none());
    }

    /// The domain for which this node stands, which has no witness then.
    fn remove(&mut self, row: Row, domain: Domain) -> bool {
        let is_witness = self.witnesses.get(domain as usize) == Some(&Some(row));
        if is_witness {
            self.witnesses[domain as usize] = None;
            self.len -= 1;
        }
        is_witness
    }
}

/// A filter with the range of its terms.
pub(crate) type RangedFilter = (Arc<dyn DomainFilter>, Range<usize>);
/// A score with its weight and the range of its terms.
pub(crate) type RangedScore = (i64, Box<dyn DomainScore>, Range<usize>);

/// The counts for pods of one signature.
pub(crate) struct DomainCounts {
    /// Which pods without affinity terms may count.
    pub(crate) plain_pods: PlainPods,
    pub(crate) filters: Vec<RangedFilter>,
    pub(crate) scores: Vec<RangedScore>,
    /// The names of their plugins, in the same order.
    pub(crate) filter_names: Vec<&'static str>,
    pub(crate) score_names: Vec<&'static str>,
    terms: Vec<CountedTerm>,
    /// Whether the [first node](DomainFilter::first_of) of a filter matters.
    has_first: bool,
    /// The term and domain of each change of a fine count.
    pub(crate) changed: ChangeLog<(u32, Domain)>,
    /// The approximate size in bytes of everything else.
    bytes: usize,
}

/// What plugins count for a pod, before any pod is counted.
#[derive(Default)]
pub(crate) struct CountPlan {
    filters: Vec<RangedFilter>,
    scores: Vec<RangedScore>,
    filter_names: Vec<&'static str>,
    score_names: Vec<&'static str>,
}

impl CountPlan {
    /// What the plugins of `profile` count for `pod`, given one pod of each signature on nodes. [Uncached
    /// filters](super::uncached_filters) count nothing. `None` if another plugin needs a decision from
    /// scratch, or if there are too many terms.
    pub(crate) fn new(
        profile: &Profile,
        uncached: &[PluginIndex],
        pod: &PodInfo,
        view: &View<'_>,
        neighbours: &[Neighbour<'_>],
    ) -> Option<Self> {
        let mut plan = CountPlan::of_filters(profile, uncached, pod, view, neighbours)?;
        for (plugin, weight) in profile.at(Point::Score) {
            let score = plugin.points.score.as_ref().filter(|one| one.matters_in(pod, view));
            let Some(score) = score else { continue };
            if score.is_by_row() || score.is_on_demand() {
                continue;
            }
            match score.by_domain(pod, view, neighbours) {
                ByDomain::Unsupported => return None,
                ByDomain::Skips => {}
                ByDomain::Counts(ranker) if MOST_TERMS < ranker.terms().len() => return None,
                ByDomain::Counts(ranker) => {
                    let range = plan.next_range(ranker.terms().len());
                    plan.scores.push((weight, ranker, range));
                    plan.score_names.push(plugin.name);
                }
            }
        }
        (plan.n_terms() <= MOST_TERMS).then_some(plan)
    }

    /// The same for filters alone.
    pub(crate) fn of_filters(
        profile: &Profile,
        uncached: &[PluginIndex],
        pod: &PodInfo,
        view: &View<'_>,
        neighbours: &[Neighbour<'_>],
    ) -> Option<Self> {
        let mut plan = CountPlan::default();
        for (index, _) in profile.indices(Point::Filter) {
            let plugin = profile.get(index);
            let Some(filter) = plugin.points.filter.as_ref().filter(|one| one.applies(pod)) else {
                continue;
            };
            if plugin.points.filter_is_local || uncached.contains(&index) {
                continue;
            }
            match filter.by_domain(pod, view, neighbours) {
                ByDomain::Unsupported => return None,
                ByDomain::Skips => {}
                ByDomain::Counts(judge) if MOST_TERMS < judge.terms().len() => return None,
                ByDomain::Counts(judge) => {
                    let range = plan.next_range(judge.terms().len());
                    plan.filters.push((Arc::from(judge), range));
                    plan.filter_names.push(plugin.name);
                }
            }
        }
        Some(plan)
    }

    /// Whether filters may reject some nodes by counts, and not others.
    pub(crate) fn judges_nodes(&self) -> bool {
        judge_nodes(&self.filters)
    }

    /// Whether a filter could answer differently in a dry run with a pod like `other`.
    pub(crate) fn is_moved_by(&self, other: Neighbour<'_>) -> bool {
        let counts = |(judge, _): &RangedFilter| judge.count_in_dry_run(other);
        self.filters.iter().any(|one| counts(one).is_none_or(|counting| !counting.is_empty()))
    }

    fn n_terms(&self) -> usize {
        let last_filter = self.filters.last().map(|(_, range)| range.end);
        let last_score = self.scores.last().map(|(_, _, range)| range.end);
        last_score.or(last_filter).unwrap_or(0)
    }

    fn next_range(&self, n_terms: usize) -> Range<usize> {
        self.n_terms()..self.n_terms() + n_terms
    }

    /// Whether nothing is counted, so that all nodes pass and are equal.
    pub(crate) fn is_blank(&self) -> bool {
        let passes = |(judge, _): &RangedFilter| judge.verdict(&[], &[]).passes();
        self.terms().next().is_none()
            && self.plain_pods(|_| 0) == PlainPods::None
            && self.filters.iter().all(passes)
    }

    fn terms(&self) -> impl Iterator<Item = (&DomainTerm, bool)> {
        let judged = self.filters.iter().flat_map(|(judge, _)| {
            judge.terms().iter().map(|term| (term, judge.compares_domains()))
        });
        let ranked = self.scores.iter().flat_map(|(_, ranker, _)| ranker.terms());
        judged.chain(ranked.map(|term| (term, false)))
    }

    /// Which pods without affinity terms may count. `n_pods` tells how many signatures of pods have a label.
    pub(super) fn plain_pods(&self, n_pods: impl Fn(u64) -> usize + Copy) -> PlainPods {
        fn of(counter: &(impl DomainCounter + ?Sized), n_pods: impl Fn(u64) -> usize) -> PlainPods {
            if !counter.counts_plain_pods() {
                return PlainPods::None;
            }
            let selectors = counter.plain_pod_selectors();
            selectors.map_or(PlainPods::All, |all| PlainPods::selected_by(all, n_pods))
        }
        let judged = self.filters.iter().map(|(judge, _)| of(&**judge, n_pods));
        let ranked = self.scores.iter().map(|(_, ranker, _)| of(&**ranker, n_pods));
        judged.chain(ranked).fold(PlainPods::None, PlainPods::or)
    }

    /// The topology keys of all terms.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &TopologyKey> {
        self.terms().map(|(term, _)| &term.key)
    }

    /// The terms for which domains must be told apart, not only their counts. If there are too many domains, the pod
    /// is decided from scratch.
    pub(crate) fn told_apart(&self) -> impl Iterator<Item = usize> {
        let judged = self.filters.iter().flat_map(|(judge, range)| {
            let first = judge.first_of();
            range.clone().filter(move |&at| first.is_some_and(|first| range.start + first != at))
        });
        let ranked = self.scores.iter().flat_map(|(_, ranker, range)| {
            let terms = ranker.by_group().map_or(&[][..], |by_group| by_group.terms());
            terms.iter().map(|term| range.start + term)
        });
        judged.chain(ranked)
    }

    /// What a pod on a node adds to the terms; `None` if the terms were made without knowing pods like it.
    pub(crate) fn count(&self, other: Neighbour<'_>) -> Option<Counting> {
        count(&self.filters, &self.scores, other)
    }

    /// The counts without any pod. `numbers` are the topologies of [`CountPlan::keys`], and `plain_pods` the
    /// [pods that may count](Self::plain_pods).
    pub(crate) fn domain_counts(
        self,
        pod: &PodInfo,
        numbers: &[usize],
        plain_pods: PlainPods,
        cluster: ClusterView<'_>,
    ) -> DomainCounts {
        let term = |((term, is_compared), &topology): ((_, bool), &usize)| {
            let term: &DomainTerm = term;
            CountedTerm::new(topology, term.nodes.clone(), is_compared, cluster)
        };
        let mut terms: Vec<CountedTerm> = self.terms().zip(numbers).map(term).collect();
        let firsts = || {
            self.filters.iter().filter_map(|(judge, range)| Some(range.start + judge.first_of()?))
        };
        firsts().for_each(|at| terms[at].follows_first = true);
        DomainCounts {
            has_first: firsts().next().is_some(),
            bytes: pod.bytes() + terms.iter().map(CountedTerm::bytes).sum::<usize>(),
            plain_pods,
            terms,
            filters: self.filters,
            scores: self.scores,
            filter_names: self.filter_names,
            score_names: self.score_names,
            changed: ChangeLog::new(MOST_COUNT_CHANGES),
        }
    }
}

fn judge_nodes(filters: &[RangedFilter]) -> bool {
    let passes =
        |(judge, range): &RangedFilter| range.is_empty() && judge.verdict(&[], &[]).passes();
    !filters.iter().all(passes)
}

fn count(
    filters: &[RangedFilter],
    scores: &[RangedScore],
    other: Neighbour<'_>,
) -> Option<Counting> {
    let mut counting = Counting::new();
    let mut add = |counts: Counting, range: &Range<usize>| {
        let first = u32::try_from(range.start).expect("a pod has few terms");
        counting.extend(counts.into_iter().map(|(term, by)| (first + term, by)));
    };
    for (judge, range) in filters {
        add(judge.count(other)?, range);
    }
    for (_, ranker, range) in scores {
        add(ranker.count(other)?, range);
    }
    Some(counting)
}

/// The place for the count of a domain.
fn slot(counts: &mut Vec<i64>, domain: Domain) -> &mut i64 {
    if counts.len() <= domain as usize {
        counts.resize(domain as usize + 1, 0);
    }
    &mut counts[domain as usize]
}

impl CountedTerm {
    fn new(
        topology: usize,
        nodes: CountedNodes,
        is_compared: bool,
        cluster: ClusterView<'_>,
    ) -> Self {
        let on = &cluster.topologies[topology];
        let counts = match on.is_fine() {
            false => CountTable::Coarse(vec![0; on.n_numbers()]),
            true if on.n_numbers() <= MOST_DENSE => CountTable::Dense(vec![0; on.n_numbers()], 0),
            true => CountTable::Sparse(HashMap::default()),
        };
        let spread = (is_compared && on.is_fine()).then(CountHistogram::default);
        let in_play = is_compared.then(DomainsInPlay::default);
        let (total, follows_first, first) = (0, false, None);
        let mut term =
            CountedTerm { topology, nodes, counts, spread, total, in_play, follows_first, first };
        for (_, row) in cluster.name_order.rows().filter(|_| is_compared) {
            term.node_came(row, cluster);
        }
        term
    }

    /// A node has come to its domain, or its pods count now.
    fn node_came(&mut self, row: Row, cluster: ClusterView<'_>) {
        let Some(in_play) = &mut self.in_play else { return };
        let domain = cluster.topologies[self.topology].domain(row);
        if domain != NO_DOMAIN
            && !in_play.has(domain as usize)
            && self.nodes.has(cluster.view.nodes, row)
        {
            in_play.add(domain, row);
        }
    }

    /// A node has left `domain`, or its pods may not count any more.
    fn node_gone(&mut self, row: Row, domain: Domain, cluster: ClusterView<'_>) {
        let Some(in_play) = &mut self.in_play else { return };
        if domain == NO_DOMAIN || !in_play.remove(row, domain) {
            return;
        }
        let on = &cluster.topologies[self.topology];
        let counts =
            |row: &Row| on.domain(*row) == domain && self.nodes.has(cluster.view.nodes, *row);
        let other = match on.is_fine() {
            true => on.members(domain).iter().copied().find(counts),
            false => cluster.name_order.rows().map(|(_, row)| row).find(counts),
        };
        if let Some(other) = other {
            in_play.add(domain, other);
        }
    }

    /// Its approximate initial size in bytes.
    fn bytes(&self) -> usize {
        let counts = match &self.counts {
            CountTable::Coarse(counts) | CountTable::Dense(counts, _) => {
                counts.len() * size_of::<i64>()
            }
            CountTable::Sparse(_) => 0,
        };
        let in_play = self.in_play.as_ref().map_or(0, |in_play| in_play.witnesses.len());
        BYTES_PER_TERM + counts + in_play * size_of::<Option<Row>>()
    }

    /// Whether every domain with a count takes additional memory.
    fn is_sparse(&self) -> bool {
        matches!(self.counts, CountTable::Sparse(_))
    }

    fn add(&mut self, domain: Domain, by: i64, places: NodePlaces<'_>) {
        self.total += by;
        let (before, after) = match &mut self.counts {
            CountTable::Coarse(counts) => {
                *slot(counts, domain) += by;
                return;
            }
            CountTable::Dense(counts, n_counted) => {
                let count = slot(counts, domain);
                let before = *count;
                *count += by;
                *n_counted += usize::from(before == 0 && *count != 0);
                *n_counted -= usize::from(before != 0 && *count == 0);
                (before, *count)
            }
            CountTable::Sparse(counts) => {
                let count = counts.entry(domain).or_insert(0);
                let before = *count;
                *count += by;
                let after = *count;
                if after == 0 {
                    counts.remove(&domain);
                }
                (before, after)
            }
        };
        self.find_first(domain, after, places);
        let Some(spread) = &mut self.spread else { return };
        if before != 0 {
            spread.remove(before);
        }
        if after != 0 {
            spread.insert(after);
        }
    }

    /// Finds the first domain with a count again, after the count of one became `count`.
    fn find_first(&mut self, domain: Domain, count: i64, places: NodePlaces<'_>) {
        if !self.follows_first {
            return;
        }
        let index = |domain: &Domain| places.index_in(self.topology, *domain);
        self.first = match self.first {
            first if count != 0 => first.into_iter().chain([domain]).min_by_key(index),
            Some(first) if first == domain => self.counts.counted_domains().min_by_key(index),
            unchanged => unchanged,
        };
    }

    /// Whether there are too many domains to look at each.
    fn is_fine(&self) -> bool {
        !matches!(self.counts, CountTable::Coarse(_))
    }

    fn totals(&self) -> TermTotals {
        let Some(in_play) = &self.in_play else {
            return TermTotals { total: self.total, ..TermTotals::default() };
        };
        let least = match &self.counts {
            CountTable::Coarse(counts) => {
                let in_play = (0..in_play.witnesses.len()).filter(|&domain| in_play.has(domain));
                in_play.map(|domain| counts.get(domain).copied().unwrap_or(0)).min().unwrap_or(0)
            }
            CountTable::Dense(_, n_counted) => self.least_of_fine(*n_counted, in_play.len),
            CountTable::Sparse(counts) => self.least_of_fine(counts.len(), in_play.len),
        };
        TermTotals { domains: in_play.len, least, total: self.total, first_present: false }
    }

    /// The smallest count of the domains other than this one, which has this count; `None` if there is none.
    fn least_without(&self, domain: Domain, count: i64) -> Option<i64> {
        let in_play = self.in_play.as_ref()?;
        let is_in_play = in_play.has(domain as usize);
        let n_others = in_play.len - usize::from(is_in_play);
        if n_others == 0 {
            return None;
        }
        let n_counted = match &self.counts {
            CountTable::Coarse(counts) => {
                let others = (0..in_play.witnesses.len()).filter(|&at| at != domain as usize);
                let others = others.filter(|&at| in_play.has(at));
                return others.map(|at| counts.get(at).copied().unwrap_or(0)).min();
            }
            CountTable::Dense(_, n_counted) => *n_counted,
            CountTable::Sparse(counts) => counts.len(),
        };
        let spread = self.spread.as_ref()?;
        if count == 0 {
            let lowest = spread.least().unwrap_or(0);
            return Some(if n_counted < n_others { lowest.min(0) } else { lowest });
        }
        let lowest = spread.least_without(count).unwrap_or(0);
        Some(if n_counted - 1 < n_others { lowest.min(0) } else { lowest })
    }

    /// The smallest count, where all but `n_counted` domains have 0.
    fn least_of_fine(&self, n_counted: usize, n_in_play: usize) -> i64 {
        let lowest = self.spread.as_ref().and_then(CountHistogram::least).unwrap_or(0);
        if n_counted < n_in_play { lowest.min(0) } else { lowest }
    }
}

impl DomainCounts {
    /// What a pod on a node adds to the terms; `None` if the terms were made without knowing pods like it.
    pub(crate) fn counting(&self, other: Neighbour<'_>) -> Option<Counting> {
        count(&self.filters, &self.scores, other)
    }

    /// Whether a filter could answer differently in a dry run with a pod like `other`. `Err` if it cannot be known
    /// how.
    pub(crate) fn are_moved_by(&self, other: Neighbour<'_>) -> Result<bool, OnlyFromScratch> {
        let mut are_moved = false;
        for (judge, _) in &self.filters {
            are_moved |= !judge.count_in_dry_run(other).ok_or(OnlyFromScratch)?.is_empty();
        }
        if are_moved && !self.follow_dry_runs() { Err(OnlyFromScratch) } else { Ok(are_moved) }
    }

    /// Whether dry runs can begin with the counts.
    pub(crate) fn follow_dry_runs(&self) -> bool {
        !self.has_first && self.filters.iter().all(|(judge, _)| judge.follows_dry_runs())
    }

    /// Whether a plugin is one of the filters.
    pub(crate) fn is_of(&self, plugin: &str) -> bool {
        self.filter_names.contains(&plugin)
    }

    /// Whether filters can reject some nodes and not others.
    pub(crate) fn judge_nodes(&self) -> bool {
        judge_nodes(&self.filters)
    }

    /// The filters for dry runs on the node in `row`.
    pub(crate) fn prepared_on(
        &self,
        row: Row,
        cluster: ClusterView<'_>,
    ) -> impl Iterator<Item = Prepared> {
        let totals = self.totals(cluster);
        self.filters.iter().map(move |(judge, range)| {
            if judge.skips(&totals[range.clone()]) {
                return Prepared::skipped();
            }
            let on_node = |at: usize| {
                let term = &self.terms[at];
                let domain = cluster.topologies[term.topology].domain(row);
                let totals = totals[at];
                if domain == NO_DOMAIN {
                    return NodeCount { totals, ..NodeCount::default() };
                }
                let here = TermCount {
                    present: true,
                    count: self.count_in(at, domain),
                    with_first: self.first_domain(at, cluster) == Some(domain),
                };
                NodeCount { here, totals, least_elsewhere: term.least_without(domain, here.count) }
            };
            Prepared::by_counts(judge.clone(), range.clone().map(on_node).collect())
        })
    }

    /// The plugin of the first filter that rejects a node, and why.
    pub(crate) fn rejection(
        &self,
        row: Row,
        cluster: ClusterView<'_>,
    ) -> Option<(&'static str, Rejection)> {
        let term_count = |(at, term): (usize, &CountedTerm)| {
            let domain = cluster.topologies[term.topology].domain(row);
            if domain == NO_DOMAIN {
                return TermCount::default();
            }
            let with_first = self.first_domain(at, cluster) == Some(domain);
            TermCount { present: true, count: self.count_in(at, domain), with_first }
        };
        let term_counts: Vec<TermCount> = self.terms.iter().enumerate().map(term_count).collect();
        let totals = self.totals(cluster);
        self.first_rejection(&term_counts, &totals)
    }

    /// The plugin of the first filter that rejects nodes with these counts for the terms of the filters, and why.
    pub(super) fn first_rejection(
        &self,
        term_counts: &[TermCount],
        totals: &[TermTotals],
    ) -> Option<(&'static str, Rejection)> {
        let verdict = |(judge, range): &RangedFilter| {
            judge.verdict(&term_counts[range.clone()], &totals[range.clone()])
        };
        let mut verdicts = self.filters.iter().map(verdict).zip(&self.filter_names);
        verdicts.find_map(|(verdict, plugin)| match verdict {
            Verdict::Pass => None,
            Verdict::Fail(why) => Some((*plugin, why)),
        })
    }

    /// Adds `times` pods on the node in `row`, or removes them if it is negative. `node` is the node as it is to be
    /// seen, which differs from that in the cluster if it has just changed.
    pub(super) fn add(
        &mut self,
        counting: &Counting,
        times: i64,
        row: Row,
        node: (&Columns, Row),
        places: NodePlaces<'_>,
    ) {
        for &(number, by) in counting {
            let term = &mut self.terms[number as usize];
            let domain = places.topologies[term.topology].domain(row);
            if by == 0 || domain == NO_DOMAIN || !term.nodes.has(node.0, node.1) {
                continue;
            }
            term.add(domain, by * times, places);
            if term.is_fine() {
                // A count that returns to 0 takes less memory, but the map keeps its capacity.
                self.bytes += if term.is_sparse() && 0 < times { BYTES_PER_ENTRY } else { 0 };
                self.changed.push((number, domain));
            }
        }
    }

    /// A node has come to its domains, or its pods may count now.
    pub(crate) fn node_came(&mut self, row: Row, cluster: ClusterView<'_>) {
        self.terms.iter_mut().for_each(|term| term.node_came(row, cluster));
    }

    /// A node has left these domains, which are by topology, or its pods may not count any more.
    pub(crate) fn node_gone(&mut self, row: Row, domains: &[Domain], cluster: ClusterView<'_>) {
        for term in &mut self.terms {
            term.node_gone(row, domains[term.topology], cluster);
        }
    }

    /// The parts of a node that decide whether its pods count.
    pub(crate) fn reads(&self) -> NodeReads {
        self.terms.iter().fold(NodeReads::empty(), |reads, term| reads | term.nodes.reads())
    }

    pub(crate) fn n_terms(&self) -> usize {
        self.terms.len()
    }

    /// Its approximate size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes + self.changed.len() * size_of::<(u32, Domain)>()
    }

    /// The topology of a term.
    pub(crate) fn topology(&self, term: usize) -> usize {
        self.terms[term].topology
    }

    /// The terms with fine topologies.
    pub(crate) fn fine_terms(&self) -> impl Iterator<Item = usize> {
        self.terms.iter().enumerate().filter(|(_, term)| term.is_fine()).map(|(at, _)| at)
    }

    /// The count of a term in a domain.
    pub(crate) fn count_in(&self, term: usize, domain: Domain) -> i64 {
        match &self.terms[term].counts {
            CountTable::Coarse(counts) | CountTable::Dense(counts, _) => {
                counts.get(domain as usize).copied().unwrap_or(0)
            }
            CountTable::Sparse(counts) => counts.get(&domain).copied().unwrap_or(0),
        }
    }

    /// The domains of a fine term with counts other than 0, in no particular order.
    pub(crate) fn counted_domains(&self, term: usize) -> impl Iterator<Item = Domain> {
        self.terms[term].counts.counted_domains()
    }

    /// The totals of each term of the filters.
    pub(crate) fn totals(&self, cluster: ClusterView<'_>) -> SmallVec<[TermTotals; 4]> {
        let judged = self.filters.last().map_or(0, |(_, range)| range.end);
        let mut totals: SmallVec<[TermTotals; 4]> =
            self.terms[..judged].iter().map(CountedTerm::totals).collect();
        if self.has_first {
            for (at, totals) in totals.iter_mut().enumerate() {
                totals.first_present = self.first_domain(at, cluster).is_some();
            }
        }
        totals
    }

    /// The domain of a filter's [first node](DomainFilter::first_of) for one of its terms.
    pub(crate) fn first_domain(&self, term: usize, cluster: ClusterView<'_>) -> Option<Domain> {
        if !self.has_first {
            return None;
        }
        let (judge, range) = self.filters.iter().find(|(_, range)| range.contains(&term))?;
        let of = &self.terms[range.start + judge.first_of()?];
        let row = *cluster.topologies[of.topology].members(of.first?).first()?;
        let domain = cluster.topologies[self.terms[term].topology].domain(row);
        (domain != NO_DOMAIN).then_some(domain)
    }
}
