//! The laws for plugins that judge by counts: see [`laws`](crate::laws).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use plimsoll_api::Str;
use plimsoll_framework::points::{FilterPoint, ScorePoint};
use plimsoll_framework::{
    ByDomain, CycleState, DomainCounter, DomainScore, Neighbour, PodInfo, Points, Row, Scored,
    TermCount, TermTotals, TopologyKey,
};

use crate::check::Verdicts;
use crate::cluster::Cluster;
use crate::laws::Kept;
use crate::scenario::Scenario;

/// Checks that verdicts and scores by counts are those of the rule.
pub(crate) fn counts_agree(plugin: &Points, scenario: &Scenario) -> Kept {
    let cluster = Cluster::of(scenario);
    for pod in &scenario.pending {
        if let Some(filter) = &plugin.filter
            && filter.applies(pod)
        {
            the_filter_agrees(filter, pod, &cluster)?;
        }
        if let Some(score) = &plugin.score
            && score.applies(pod)
            && !score.is_by_row()
        {
            the_score_agrees(plugin, score, pod, &cluster)?;
        }
    }
    Ok(())
}

/// Whether the verdicts of a filter on `pod` may change when `other` comes or leaves. Always `true` for a filter that
/// does not judge by counts.
pub(crate) fn may_be_moved(
    filter: &FilterPoint,
    pod: &PodInfo,
    other: &PodInfo,
    cluster: &Cluster,
) -> bool {
    if !filter.applies(pod) {
        return true;
    }
    match filter.by_domain(pod, &cluster.view(), &neighbours(cluster)) {
        ByDomain::Unsupported | ByDomain::Skips => true,
        ByDomain::Counts(judge) => judge.is_moved_by(Neighbour::from(&**other)),
    }
}

/// The pods on nodes that have affinity terms of their own.
fn neighbours(cluster: &Cluster) -> Vec<Neighbour<'_>> {
    let rows = cluster.nodes.rows();
    let pods = rows.flat_map(|row| cluster.nodes.pods_on(row).with_affinity());
    pods.map(|pod| Neighbour::from(&**pod)).collect()
}

fn the_filter_agrees(filter: &FilterPoint, pod: &PodInfo, cluster: &Cluster) -> Kept {
    let rows: Vec<Row> = cluster.nodes.rows().collect();
    let prepared = filter.prepare(pod, &mut CycleState::default(), &cluster.view());
    let verdicts = Verdicts::of(&prepared, pod, cluster, &rows);
    let passes = |row| verdicts.on(row).is_some_and(|verdict| verdict.passes());
    let mut apart = String::new();
    let mut compare = |row: Row, counted: bool| {
        if counted != passes(row) {
            let (node, word) =
                (cluster.nodes.name_of(row), if counted { "passes" } else { "fails" });
            writeln!(apart, "by counts {node} {word} for {}", pod.key)
                .expect("a string takes any text");
        }
    };
    match filter.by_domain(pod, &cluster.view(), &neighbours(cluster)) {
        ByDomain::Unsupported => return Ok(()),
        ByDomain::Skips => rows.iter().for_each(|&row| compare(row, true)),
        ByDomain::Counts(judge) => {
            let counted = CountsFromScratch::of(judge.as_ref(), cluster)?;
            let totals = counted.totals(judge.compares_domains());
            for &row in &rows {
                compare(row, judge.verdict(&counted.term_counts(row), &totals).passes());
            }
        }
    }
    if apart.is_empty() {
        Ok(())
    } else {
        Err(format!("counts agree with the filter, but\n{apart}"))
    }
}

fn the_score_agrees(plugin: &Points, score: &ScorePoint, pod: &PodInfo, cluster: &Cluster) -> Kept {
    let rows: Vec<Row> = cluster.nodes.rows().collect();
    let (mut shared, mut feasible) = (CycleState::default(), rows.clone());
    if let Some(filter) = &plugin.filter {
        let prepared = filter.prepare(pod, &mut shared, &cluster.view());
        let verdicts = Verdicts::of(&prepared, pod, cluster, &rows);
        feasible.retain(|&row| verdicts.on(row).is_some_and(|verdict| verdict.passes()));
    }
    let counted = match score.by_domain(pod, &cluster.view(), &neighbours(cluster)) {
        ByDomain::Unsupported => return Ok(()),
        ByDomain::Skips => Vec::new(),
        ByDomain::Counts(ranker) => ranked(ranker.as_ref(), cluster, &feasible)?,
    };
    // A plugin that gives no scores gives 0 to every node.
    let scores = score.score(pod, &mut shared, &cluster.view(), &feasible).unwrap_or_default();
    let of = |scores: &[Scored], row: Row| {
        scores.iter().find(|one| one.row == row).map_or(0, |one| one.score)
    };
    let mut apart = String::new();
    for &row in &feasible {
        let (found, expected) = (of(&counted, row), of(&scores, row));
        if found != expected {
            let (node, key) = (cluster.nodes.name_of(row), &pod.key);
            writeln!(apart, "by counts {node} has {found} for {key}, expected {expected}")
                .expect("a string takes any text");
        }
    }
    if apart.is_empty() {
        Ok(())
    } else {
        Err(format!("counts agree with the score, but\n{apart}"))
    }
}

/// The normalised scores of `feasible` by counts.
fn ranked(
    ranker: &dyn DomainScore,
    cluster: &Cluster,
    feasible: &[Row],
) -> Result<Vec<Scored>, String> {
    let counted = CountsFromScratch::of(ranker, cluster)?;
    let is_ranked = |row: &&Row| ranker.is_ranked(&counted.term_counts(**row));
    let domains = |term| {
        let all: BTreeSet<Option<&Str>> = feasible
            .iter()
            .filter(is_ranked)
            .map(|&row| counted.told_apart_by(term, row))
            .collect();
        all.len()
    };
    let domains: Vec<usize> = match ranker.reads_domains() {
        true => (0..counted.terms.len()).map(domains).collect(),
        false => Vec::new(),
    };
    let raw = |&row: &Row| Scored { row, score: ranker.raw(&counted.term_counts(row), &domains) };
    let mut scores: Vec<Scored> = feasible.iter().map(raw).collect();
    ranker.normalize(&mut scores);
    Ok(scores)
}

/// The counts of all terms, computed from every pod.
struct CountsFromScratch<'a> {
    cluster: &'a Cluster,
    terms: Vec<TermFromScratch<'a>>,
}

struct TermFromScratch<'a> {
    key: TopologyKey,
    /// The domains with a node on which pods count.
    in_play: BTreeSet<&'a Str>,
    counts: BTreeMap<&'a Str, i64>,
}

impl<'a> CountsFromScratch<'a> {
    fn of(counts: &dyn DomainCounter, cluster: &'a Cluster) -> Result<Self, String> {
        let terms = counts.terms().iter().map(|term| TermFromScratch {
            key: term.key.clone(),
            in_play: BTreeSet::new(),
            counts: BTreeMap::new(),
        });
        let mut counted = CountsFromScratch { cluster, terms: terms.collect() };
        for row in cluster.nodes.rows() {
            for (number, term) in counts.terms().iter().enumerate() {
                if let Some(domain) = counted.domain(number, row)
                    && term.nodes.has(&cluster.nodes, row)
                {
                    counted.terms[number].in_play.insert(domain);
                }
            }
            for other in cluster.nodes.pods_on(row).iter() {
                counted.count(counts, other, row)?;
            }
        }
        Ok(counted)
    }

    fn count(&mut self, counts: &dyn DomainCounter, other: &PodInfo, row: Row) -> Kept {
        let Some(counting) = counts.count(Neighbour::from(&**other)) else {
            return Err(format!("the terms do not cover {}, but it is a neighbour\n", other.key));
        };
        let is_plain = other.affinity.is_empty();
        if is_plain && !counts.counts_plain_pods() && !counting.is_empty() {
            return Err(format!("plain pods do not count, but {} does\n", other.key));
        }
        for (number, by) in counting {
            let number = number as usize;
            let is_counted = counts.terms()[number].nodes.has(&self.cluster.nodes, row);
            if let Some(domain) = self.domain(number, row).filter(|_| is_counted) {
                *self.terms[number].counts.entry(domain).or_default() += by;
            }
        }
        Ok(())
    }

    /// The domain of a node.
    fn domain(&self, term: usize, row: Row) -> Option<&'a Str> {
        let node = self.cluster.nodes.node(row);
        match &self.terms[term].key {
            TopologyKey::Label(key) => node.labels.get(key),
            TopologyKey::NodeWith(key) => node.labels.contains_key(key).then_some(&node.name),
        }
    }

    /// What identifies a domain when domains are counted. The nodes without the label form one domain.
    fn told_apart_by(&self, term: usize, row: Row) -> Option<&'a Str> {
        match &self.terms[term].key {
            TopologyKey::Label(_) => self.domain(term, row),
            TopologyKey::NodeWith(_) => Some(&self.cluster.nodes.node(row).name),
        }
    }

    fn term_counts(&self, row: Row) -> Vec<TermCount> {
        let term_count =
            |(number, term): (usize, &TermFromScratch<'_>)| match self.domain(number, row) {
                None => TermCount::default(),
                Some(domain) => {
                    let count = term.counts.get(domain).copied().unwrap_or(0);
                    TermCount { present: true, count }
                }
            };
        self.terms.iter().enumerate().map(term_count).collect()
    }

    fn totals(&self, compares_domains: bool) -> Vec<TermTotals> {
        let totals = |term: &TermFromScratch<'_>| {
            let count = |domain: &&Str| term.counts.get(*domain).copied().unwrap_or(0);
            let (domains, least) = match compares_domains {
                true => (term.in_play.len(), term.in_play.iter().map(count).min().unwrap_or(0)),
                false => (0, 0),
            };
            TermTotals { domains, least, total: term.counts.values().sum() }
        };
        self.terms.iter().map(totals).collect()
    }
}
