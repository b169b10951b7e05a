//! The counts by domain that plugins judge pods of one kind by.

use std::ops::Range;

use hashbrown::HashMap;
use plimsoll_framework::domains::MOST_TERMS;
use plimsoll_framework::parts::NodeReads;
use plimsoll_framework::{
    ByDomain, CountHistogram, CountedNodes, Counting, DomainFilter, DomainScore, DomainTerm,
    Neighbour, PodInfo, Point, Row, Standing, TermTotals, TopologyKey, View,
};
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;

use super::rank_set::Rank;
use super::ranks::{Domain, NO_DOMAIN, Topology};
use super::shape::Ground;
use super::trail::Trail;
use crate::profile::{PluginIndex, Profile};

/// So many changes of fine counts are kept for those who follow them.
const TRAIL: usize = 1 << 16;

/// About what a term takes beside its counts: here, in the plugin, and of the pod, in bytes.
const BYTES_PER_TERM: usize = 512;
/// About what an entry of a map takes, in bytes.
const BYTES_PER_ENTRY: usize = 48;

/// Up to so many domains have a count each, even where most are 0: a place in a list is found faster
/// than one in a map, and the list takes no more memory than a few pods.
const MOST_DENSE: usize = 1 << 14;

/// The counts of one term.
struct Term {
    topology: usize,
    nodes: CountedNodes,
    counts: Counts,
    /// How many domains have each count of a fine term that is not 0; none where nobody compares them.
    spread: Option<CountHistogram>,
    total: i64,
    /// How many domains have a node on which pods count.
    n_in_play: usize,
}

enum Counts {
    /// By domain, with whether it is in play.
    Coarse(Vec<(i64, bool)>),
    /// By domain of a fine topology, with how many are not 0.
    Dense(Vec<i64>, usize),
    /// Those that are not 0, where there are too many domains to have a count for each.
    Sparse(HashMap<Domain, i64, FxBuildHasher>),
}

/// A filter with the range of its terms.
pub(crate) type Judge = (Box<dyn DomainFilter>, Range<usize>);
/// A score with its weight and the range of its terms.
pub(crate) type Ranker = (i64, Box<dyn DomainScore>, Range<usize>);

/// The counts that decide about pods of one kind.
pub(crate) struct Tallies {
    /// Whether pods without terms of their own may count.
    pub(crate) counts_plain_pods: bool,
    pub(crate) judges: Vec<Judge>,
    pub(crate) rankers: Vec<Ranker>,
    /// Whose they are, in their order.
    pub(crate) judged_by: Vec<&'static str>,
    pub(crate) ranked_by: Vec<&'static str>,
    terms: Vec<Term>,
    /// Term and domain of each change of a fine count.
    pub(crate) changed: Trail<(u32, Domain)>,
    /// About how many bytes it all takes.
    bytes: usize,
}

/// What plugins count for a pod, before any pod is counted.
#[derive(Default)]
pub(crate) struct Plan {
    judges: Vec<Judge>,
    rankers: Vec<Ranker>,
    judged_by: Vec<&'static str>,
    ranked_by: Vec<&'static str>,
}

impl Plan {
    /// What the plugins of `profile` count for `pod`, given the kinds of pods on nodes; [late](super::late)
    /// filters count nothing. `None` if another plugin can only judge from scratch, or there are too many
    /// terms.
    pub(crate) fn new(
        profile: &Profile,
        late: &[PluginIndex],
        pod: &PodInfo,
        view: &View<'_>,
        neighbours: &[Neighbour<'_>],
    ) -> Option<Self> {
        let mut plan = Plan::default();
        let mut n_terms = 0;
        let mut range = |n: usize| {
            n_terms += n;
            n_terms - n..n_terms
        };
        for (index, _) in profile.indices(Point::Filter) {
            let plugin = profile.get(index);
            let Some(filter) = plugin.points.filter.as_ref().filter(|one| one.applies(pod)) else {
                continue;
            };
            if plugin.points.filter_is_local || late.contains(&index) {
                continue;
            }
            match filter.by_domain(pod, view, neighbours) {
                ByDomain::Unsupported => return None,
                ByDomain::Skips => {}
                ByDomain::Counts(judge) if MOST_TERMS < judge.terms().len() => return None,
                ByDomain::Counts(judge) => {
                    let range = range(judge.terms().len());
                    plan.judges.push((judge, range));
                    plan.judged_by.push(plugin.name);
                }
            }
        }
        for (plugin, weight) in profile.at(Point::Score) {
            let score = plugin.points.score.as_ref().filter(|one| one.applies_in(pod, view));
            let Some(score) = score else { continue };
            if score.is_by_row() {
                continue;
            }
            match score.by_domain(pod, view, neighbours) {
                ByDomain::Unsupported => return None,
                ByDomain::Skips => {}
                ByDomain::Counts(ranker) if MOST_TERMS < ranker.terms().len() => return None,
                ByDomain::Counts(ranker) => {
                    let range = range(ranker.terms().len());
                    plan.rankers.push((weight, ranker, range));
                    plan.ranked_by.push(plugin.name);
                }
            }
        }
        (n_terms <= MOST_TERMS).then_some(plan)
    }

    /// Whether nothing is counted, so that all nodes are alike and pass.
    pub(crate) fn is_blank(&self) -> bool {
        let passes = |(judge, _): &Judge| judge.verdict(&[], &[]).passes();
        self.terms().next().is_none() && !self.counts_plain_pods() && self.judges.iter().all(passes)
    }

    fn terms(&self) -> impl Iterator<Item = (&DomainTerm, bool)> {
        let judged = self.judges.iter().flat_map(|(judge, _)| {
            judge.terms().iter().map(|term| (term, judge.compares_domains()))
        });
        let ranked = self.rankers.iter().flat_map(|(_, ranker, _)| ranker.terms());
        judged.chain(ranked.map(|term| (term, false)))
    }

    /// Whether pods without terms of their own may count.
    pub(crate) fn counts_plain_pods(&self) -> bool {
        counts_plain_pods(&self.judges, &self.rankers)
    }

    /// The keys of all terms.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &TopologyKey> {
        self.terms().map(|(term, _)| &term.key)
    }

    /// What a pod on a node counts for. `None` if the plan knows nothing of pods like it.
    pub(crate) fn count(&self, other: Neighbour<'_>) -> Option<Counting> {
        count(&self.judges, &self.rankers, other)
    }

    /// The tallies without any pod. `numbers` are the topologies of [`Plan::keys`].
    pub(crate) fn tallies(self, pod: &PodInfo, numbers: &[usize], ground: Ground<'_>) -> Tallies {
        let term = |((term, is_compared), &topology): ((_, bool), &usize)| {
            let term: &DomainTerm = term;
            Term::new(topology, term.nodes.clone(), is_compared, ground)
        };
        let terms: Vec<Term> = self.terms().zip(numbers).map(term).collect();
        Tallies {
            bytes: pod.bytes() + terms.iter().map(Term::bytes).sum::<usize>(),
            counts_plain_pods: counts_plain_pods(&self.judges, &self.rankers),
            terms,
            judges: self.judges,
            rankers: self.rankers,
            judged_by: self.judged_by,
            ranked_by: self.ranked_by,
            changed: Trail::new(TRAIL),
        }
    }
}

fn counts_plain_pods(judges: &[Judge], rankers: &[Ranker]) -> bool {
    judges.iter().any(|(judge, _)| judge.counts_plain_pods())
        || rankers.iter().any(|(_, ranker, _)| ranker.counts_plain_pods())
}

fn count(judges: &[Judge], rankers: &[Ranker], other: Neighbour<'_>) -> Option<Counting> {
    let mut counting = Counting::new();
    let mut add = |counts: Counting, range: &Range<usize>| {
        let first = u32::try_from(range.start).expect("a pod has few terms");
        counting.extend(counts.into_iter().map(|(term, by)| (first + term, by)));
    };
    for (judge, range) in judges {
        add(judge.count(other)?, range);
    }
    for (_, ranker, range) in rankers {
        add(ranker.count(other)?, range);
    }
    Some(counting)
}

impl Term {
    fn new(topology: usize, nodes: CountedNodes, is_compared: bool, ground: Ground<'_>) -> Self {
        let on = &ground.topologies[topology];
        let counts = match on.is_fine() {
            false => Counts::Coarse(vec![(0, false); on.n_domains]),
            true if on.n_domains <= MOST_DENSE => Counts::Dense(vec![0; on.n_domains], 0),
            true => Counts::Sparse(HashMap::default()),
        };
        let spread = (is_compared && on.is_fine()).then(CountHistogram::default);
        let mut term = Term { topology, nodes, counts, spread, total: 0, n_in_play: 0 };
        if is_compared {
            term.find_domains_in_play(on, ground);
        }
        term
    }

    fn find_domains_in_play(&mut self, on: &Topology, ground: Ground<'_>) {
        let mut in_play = vec![false; on.n_domains];
        for (rank, row) in ground.ranks.rows() {
            let domain = on.domain(rank);
            if domain != NO_DOMAIN && !in_play[domain as usize] {
                in_play[domain as usize] = self.nodes.has(ground.view.nodes, row);
            }
        }
        self.n_in_play = in_play.iter().filter(|&&is| is).count();
        if let Counts::Coarse(counts) = &mut self.counts {
            for (count, is) in counts.iter_mut().zip(in_play) {
                count.1 = is;
            }
        }
    }

    /// About how many bytes it takes at first.
    fn bytes(&self) -> usize {
        let counts = match &self.counts {
            Counts::Coarse(counts) => counts.len() * size_of::<(i64, bool)>(),
            Counts::Dense(counts, _) => counts.len() * size_of::<i64>(),
            Counts::Sparse(_) => 0,
        };
        BYTES_PER_TERM + counts
    }

    /// Whether each domain that is counted in takes memory.
    fn is_sparse(&self) -> bool {
        matches!(self.counts, Counts::Sparse(_))
    }

    fn add(&mut self, domain: Domain, by: i64) {
        self.total += by;
        let (before, after) = match &mut self.counts {
            Counts::Coarse(counts) => {
                counts[domain as usize].0 += by;
                return;
            }
            Counts::Dense(counts, n_counted) => {
                let count = &mut counts[domain as usize];
                let before = *count;
                *count += by;
                *n_counted += usize::from(before == 0 && *count != 0);
                *n_counted -= usize::from(before != 0 && *count == 0);
                (before, *count)
            }
            Counts::Sparse(counts) => {
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
        let Some(spread) = &mut self.spread else { return };
        if before != 0 {
            spread.remove(before);
        }
        if after != 0 {
            spread.insert(after);
        }
    }

    /// Whether there are too many domains to look at each.
    fn is_fine(&self) -> bool {
        !matches!(self.counts, Counts::Coarse(_))
    }

    fn totals(&self) -> TermTotals {
        let least = match &self.counts {
            Counts::Coarse(counts) => {
                counts.iter().filter(|one| one.1).map(|one| one.0).min().unwrap_or(0)
            }
            Counts::Dense(_, n_counted) => self.least_of_fine(*n_counted),
            Counts::Sparse(counts) => self.least_of_fine(counts.len()),
        };
        TermTotals { domains: self.n_in_play, least, total: self.total }
    }

    /// The least count, where all but `n_counted` domains have none.
    fn least_of_fine(&self, n_counted: usize) -> i64 {
        let lowest = self.spread.as_ref().and_then(CountHistogram::least).unwrap_or(0);
        if n_counted < self.n_in_play { lowest.min(0) } else { lowest }
    }
}

impl Tallies {
    /// What a pod on a node counts for. `None` if the tallies know nothing of pods like it.
    pub(crate) fn counting(&self, other: Neighbour<'_>) -> Option<Counting> {
        count(&self.judges, &self.rankers, other)
    }

    /// Whether some filter may say something else with a pod like `other` put onto a node in thought.
    pub(crate) fn are_moved_by(&self, other: Neighbour<'_>) -> bool {
        self.judges.iter().any(|(judge, _)| judge.is_moved_by(other))
    }

    /// Whether filters tell nodes apart.
    pub(crate) fn judge_nodes(&self) -> bool {
        let passes = |(judge, range): &Judge| range.is_empty() && judge.verdict(&[], &[]).passes();
        !self.judges.iter().all(passes)
    }

    /// Whether the filters pass a node.
    pub(crate) fn pass(&self, rank: Rank, ground: Ground<'_>) -> bool {
        let standing = |(at, term): (usize, &Term)| {
            let domain = ground.topologies[term.topology].domain(rank);
            match domain {
                NO_DOMAIN => Standing::default(),
                _ => Standing { present: true, count: self.count_in(at, domain) },
            }
        };
        let standings: Vec<Standing> = self.terms.iter().enumerate().map(standing).collect();
        let totals = self.totals();
        self.judges.iter().all(|(judge, range)| {
            judge.verdict(&standings[range.clone()], &totals[range.clone()]).passes()
        })
    }

    /// Counts `times` pods on a node, or discounts them where it is negative.
    pub(crate) fn add(
        &mut self,
        counting: &Counting,
        times: i64,
        (rank, row): (Rank, Row),
        ground: Ground<'_>,
    ) {
        for &(number, by) in counting {
            let term = &mut self.terms[number as usize];
            let domain = ground.topologies[term.topology].domain(rank);
            if by == 0 || domain == NO_DOMAIN || !term.nodes.has(ground.view.nodes, row) {
                continue;
            }
            term.add(domain, by * times);
            if term.is_fine() {
                // A count that goes down to 0 takes less, but the map keeps its room.
                self.bytes += if term.is_sparse() && 0 < times { BYTES_PER_ENTRY } else { 0 };
                self.bytes += if self.changed.is_full() { 0 } else { size_of::<(u32, Domain)>() };
                self.changed.push((number, domain));
            }
        }
    }

    /// What of a node decides whether pods on it count.
    pub(crate) fn reads(&self) -> NodeReads {
        self.terms.iter().fold(NodeReads::empty(), |reads, term| reads | term.nodes.reads())
    }

    pub(crate) fn n_terms(&self) -> usize {
        self.terms.len()
    }

    /// About how many bytes it all takes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The topology of a term.
    pub(crate) fn topology(&self, term: usize) -> usize {
        self.terms[term].topology
    }

    /// The terms with fine topologies.
    pub(crate) fn fine_terms(&self) -> impl Iterator<Item = usize> {
        self.terms.iter().enumerate().filter(|(_, term)| term.is_fine()).map(|(at, _)| at)
    }

    /// The count in one domain of one term.
    pub(crate) fn count_in(&self, term: usize, domain: Domain) -> i64 {
        match &self.terms[term].counts {
            Counts::Coarse(counts) => counts[domain as usize].0,
            Counts::Dense(counts, _) => counts[domain as usize],
            Counts::Sparse(counts) => counts.get(&domain).copied().unwrap_or(0),
        }
    }

    /// The domains of a fine term whose counts are not 0, in no order.
    pub(crate) fn counted_domains(&self, term: usize) -> impl Iterator<Item = Domain> {
        let (dense, sparse) = match &self.terms[term].counts {
            Counts::Coarse(_) => (None, None),
            Counts::Dense(counts, _) => (Some(counts), None),
            Counts::Sparse(counts) => (None, Some(counts)),
        };
        let dense = (0..).zip(dense.into_iter().flatten()).filter(|(_, count)| **count != 0);
        dense
            .map(|(domain, _)| domain)
            .chain(sparse.into_iter().flat_map(|all| all.keys().copied()))
    }

    /// What each term comes to, for the filters; nothing where there are none.
    pub(crate) fn totals(&self) -> SmallVec<[TermTotals; 4]> {
        let judged = self.judges.last().map_or(0, |(_, range)| range.end);
        self.terms[..judged].iter().map(Term::totals).collect()
    }
}
