//! The laws for plugins that judge by counts: see [`laws`](crate::laws).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;

use plimsoll_api::Str;
use plimsoll_framework::points::{FilterPoint, ScorePoint};
use plimsoll_framework::{
    ByDomain, Columns, CycleState, DomainCounter, DomainScore, Neighbour, NodeCount,
    NormalizeByGroup, PodChange, PodInfo, Points, Prepared, Row, Scored, ScoredGroup, TermCount,
    TermTotals, TopologyKey, Update, Verdict,
};

use crate::check::{Verdicts, in_words};
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
        ByDomain::Counts(judge) => judge
            .count_in_dry_run(Neighbour::from(&**other))
            .is_none_or(|counting| !counting.is_empty()),
    }
}

/// The verdict on a node after a dry run that begins with counts. `nodes` has the node after the change. `None` if the
/// filter does not judge by counts, or does not [follow](DomainFilter::follows_dry_runs) dry runs.
pub(crate) fn in_dry_run(
    filter: &FilterPoint,
    pod: &PodInfo,
    cluster: &Cluster,
    (change, nodes, row): (PodChange<'_>, &Columns, Row),
) -> Result<Option<Verdict>, String> {
    if !filter.applies(pod) {
        return Ok(None);
    }
    let by_domain = filter.by_domain(pod, &cluster.view(), &neighbours(cluster));
    let ByDomain::Counts(judge) = by_domain else { return Ok(None) };
    if !judge.follows_dry_runs() {
        return Ok(None);
    }
    let counted = CountsFromScratch::of(judge.as_ref(), cluster)?;
    let (here, totals) = (counted.term_counts(row), counted.totals(judge.compares_domains()));
    if judge.skips(&totals) {
        return Ok(Some(Verdict::Pass));
    }
    let counts = (0..here.len()).map(|term| NodeCount {
        here: here[term],
        totals: totals[term],
        least_elsewhere: counted.least_elsewhere(term, row),
    });
    let mut prepared = Prepared::by_counts(Arc::from(judge), counts.collect());
    let update = prepared.update(change, nodes, row);
    Ok((update == Update::Exact).then(|| prepared.judge_one(pod, nodes, row)))
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
    let mut apart = String::new();
    let mut compare = |row: Row, counted: &Verdict| {
        if verdicts.on(row).as_ref() != Some(counted) {
            let (node, word) = (cluster.nodes.name_of(row), in_words(counted));
            writeln!(apart, "by counts {node} for {}: {word}", pod.key)
                .expect("a string takes any text");
        }
    };
    match filter.by_domain(pod, &cluster.view(), &neighbours(cluster)) {
        ByDomain::Unsupported => return Ok(()),
        ByDomain::Skips => rows.iter().for_each(|&row| compare(row, &Verdict::Pass)),
        ByDomain::Counts(judge) => {
            let counted = CountsFromScratch::of(judge.as_ref(), cluster)?;
            let counted = counted.with_first_of(judge.first_of());
            let totals = counted.totals(judge.compares_domains());
            for &row in &rows {
                compare(row, &judge.verdict(&counted.term_counts(row), &totals));
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
    let weight = |term| ranker.weight(domains(term));
    let weights: Vec<f64> = match ranker.reads_domains() {
        true => (0..counted.terms.len()).map(weight).collect(),
        false => Vec::new(),
    };
    let raw = |&row: &Row| Scored { row, score: ranker.raw(&counted.term_counts(row), &weights) };
    let mut scores: Vec<Scored> = feasible.iter().map(raw).collect();
    match ranker.by_group() {
        None => ranker.normalize(&mut scores),
        Some(by_group) => counted.normalize_by_group(by_group, &mut scores),
    }
    Ok(scores)
}

/// The counts of all terms, computed from every pod.
struct CountsFromScratch<'a> {
    cluster: &'a Cluster,
    terms: Vec<TermFromScratch<'a>>,
    /// The first node of a filter.
    first: Option<Row>,
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
        let mut counted = CountsFromScratch { cluster, terms: terms.collect(), first: None };
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
        let selectors = counts.plain_pod_selectors();
        let is_selected =
            selectors.is_none_or(|all| all.iter().any(|one| one.matches(&other.labels)));
        if is_plain && !is_selected && !counting.is_empty() {
            return Err(format!("no selector selects {}, but it counts\n", other.key));
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

    /// The lowest count of the domains other than that of a node.
    fn least_elsewhere(&self, term: usize, row: Row) -> Option<i64> {
        let (own, term) = (self.domain(term, row), &self.terms[term]);
        let others = term.in_play.iter().filter(|&&domain| Some(domain) != own);
        others.map(|domain| term.counts.get(domain).copied().unwrap_or(0)).min()
    }

    /// The same for a filter that asks for the first node of a term.
    fn with_first_of(self, term: Option<usize>) -> Self {
        let counted = term.and_then(|term| {
            let counts = self.terms[term].counts.iter();
            counts.filter(|(_, count)| **count != 0).map(|(name, _)| *name).min()
        });
        let first = counted.and_then(|name| self.cluster.row(name));
        CountsFromScratch { first, ..self }
    }

    /// Normalises scores by group: nodes with equal scores in the same domains.
    fn normalize_by_group(&self, by_group: &dyn NormalizeByGroup, scores: &mut [Scored]) {
        let mut groups: BTreeMap<(i64, Vec<Option<u32>>), Vec<usize>> = BTreeMap::new();
        for (at, one) in scores.iter().enumerate() {
            let number = |&term: &usize| {
                let domains = self.cluster.nodes.rows().filter_map(|row| self.domain(term, row));
                let names: BTreeSet<&Str> = domains.collect();
                let own = self.domain(term, one.row)?;
                (0..).zip(names).find(|&(_, name)| name == own).map(|(number, _)| number)
            };
            let domains = by_group.terms().iter().map(number).collect();
            groups.entry((one.score, domains)).or_default().push(at);
        }
        let group = |((score, domains), members): (&(i64, Vec<Option<u32>>), &Vec<usize>)| {
            let len = i64::try_from(members.len()).expect("there are few nodes");
            ScoredGroup { score: *score, len, domains: domains.iter().copied().collect() }
        };
        let mut normalised: Vec<ScoredGroup> = groups.iter().map(group).collect();
        by_group.normalize(&mut normalised);
        for (members, group) in groups.values().zip(normalised) {
            for &at in members {
                scores[at].score = group.score;
            }
        }
    }

    /// The domain of a node.
    fn domain(&self, term: usize, row: Row) -> Option<&'a Str> {
        self.terms[term].key.domain(self.cluster.nodes.node(row))
    }

    /// What identifies a domain when domains are counted. The nodes without the label form one domain.
    fn told_apart_by(&self, term: usize, row: Row) -> Option<&'a Str> {
        match self.terms[term].key.is_by_node() {
            true => Some(&self.cluster.nodes.node(row).name),
            false => self.domain(term, row),
        }
    }

    /// The domain of the first node.
    fn first_domain(&self, term: usize) -> Option<&'a Str> {
        self.domain(term, self.first?)
    }

    fn term_counts(&self, row: Row) -> Vec<TermCount> {
        let term_count =
            |(number, term): (usize, &TermFromScratch<'_>)| match self.domain(number, row) {
                None => TermCount::default(),
                Some(domain) => {
                    let count = term.counts.get(domain).copied().unwrap_or(0);
                    let with_first = self.first_domain(number) == Some(domain);
                    TermCount { present: true, count, with_first }
                }
            };
        self.terms.iter().enumerate().map(term_count).collect()
    }

    fn totals(&self, compares_domains: bool) -> Vec<TermTotals> {
        let totals = |(number, term): (usize, &TermFromScratch<'_>)| {
            let count = |domain: &&Str| term.counts.get(*domain).copied().unwrap_or(0);
            let (domains, least) = match compares_domains {
                true => (term.in_play.len(), term.in_play.iter().map(count).min().unwrap_or(0)),
                false => (0, 0),
            };
            let first_present = self.first_domain(number).is_some();
            TermTotals { domains, least, total: term.counts.values().sum(), first_present }
        };
        self.terms.iter().enumerate().map(totals).collect()
    }
}
