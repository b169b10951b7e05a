//! The scale of 10: the priorities of a configuration, and how predicates and priorities rate the nodes for one pod.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result};
use plimsoll_api::{PodKey, Str};
use plimsoll_config::{Configuration, Form, Priority, ResolvedProfile};
use plimsoll_engine::{Decision, NodeVerdict, Outcome, Profile, ProfileSpec, Scheduler};
use plimsoll_framework::{FeatureGates, PodInfo, Point, Registry, Row};
use plimsoll_legacy::config::POLICY;
use plimsoll_legacy::priorities::predicates::{self, Predicate};
use plimsoll_legacy::priorities::{
    Entry, Mapped, OldRelease, Priorities, Ranking, Subject, defaults, of_plugins, of_policy,
};

/// How predicates and priorities rate the nodes for one pod.
#[derive(Debug)]
pub(crate) struct OldScale {
    /// The predicates that each node fails, by the name of the node, in the order of evaluation. An old release would
    /// have reported only the first.
    pub(crate) failed: BTreeMap<Str, Vec<Failed>>,
    /// The feasible nodes with their points, by name.
    pub(crate) nodes: Vec<Ranked>,
    /// The nodes with the highest total, by name.
    pub(crate) best: Vec<Str>,
    /// The score plugins that no priority is like.
    pub(crate) without: Vec<String>,
    /// The node that today's scores choose, if they choose one.
    pub(crate) today: Option<Str>,
}

/// A predicate that a node fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failed {
    /// Its index in the order of evaluation.
    pub(crate) place: usize,
    /// The predicate.
    pub(crate) predicate: String,
    /// Its reasons, in today's words.
    pub(crate) reasons: Vec<String>,
}

/// A node and its points.
#[derive(Debug)]
pub(crate) struct Ranked {
    pub(crate) name: Str,
    pub(crate) scores: Vec<Score>,
    pub(crate) total: i64,
}

/// The points that one priority gives one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Score {
    pub(crate) priority: String,
    pub(crate) weight: i64,
    /// The result of the map step.
    pub(crate) raw: i64,
    /// The result of the reduce step.
    pub(crate) points: i64,
}

/// The priorities that rank the nodes of a profile.
#[derive(Debug)]
pub(crate) struct OldRanking {
    pub(crate) priorities: Arc<Priorities>,
    /// The score plugins that no priority is like.
    pub(crate) without: Vec<String>,
}

impl OldRanking {
    /// The priorities of a profile as in `release`: those of the Policy, or those that its score plugins replaced, or
    /// the default ones if no configuration was given.
    pub(crate) fn of(
        configuration: &Configuration,
        is_given: bool,
        profile: &ResolvedProfile,
        release: OldRelease,
    ) -> Result<Self> {
        let Mapped { priorities, without } = match configuration.origin.form {
            POLICY => {
                let entries = configuration.origin.priorities.iter().map(
                    |Priority { name, weight, argument }| Entry {
                        name,
                        weight: *weight,
                        argument: argument.as_ref(),
                    },
                );
                let priorities = of_policy(entries, &profile.args, release)?;
                Mapped { priorities, without: Vec::new() }
            }
            Form::V1 if !is_given => {
                Mapped { priorities: defaults(&profile.args, release)?, without: Vec::new() }
            }
            _ => {
                let plugins = profile.points[&Point::Score].iter();
                let plugins = plugins.map(|plugin| (plugin.name, plugin.weight));
                of_plugins(plugins, &profile.args, release)?
            }
        };
        Ok(OldRanking { priorities: Arc::new(Priorities(priorities)), without })
    }
}

/// The profiles, each with nodes ranked by the entry of `rankings` at the same index.
pub(crate) fn ranked(profiles: Vec<Profile>, rankings: &[OldRanking]) -> Vec<Profile> {
    let pairs = profiles.into_iter().zip(rankings);
    pairs.map(|(profile, ranking)| profile.ranked_by(ranking.priorities.clone())).collect()
}

/// The profile that decides a pod.
pub(crate) struct Decider<'a> {
    /// Its plugins.
    pub(crate) profile: &'a ResolvedProfile,
    /// The registry and gates that these were made from.
    pub(crate) made_from: (&'a Registry, &'a FeatureGates),
    /// The ranking of its nodes.
    pub(crate) ranking: &'a OldRanking,
    /// The same profile with today's scores.
    pub(crate) today: &'a Profile,
}

impl OldScale {
    /// Rates the nodes for the pod of `decision`.
    pub(crate) fn of(
        scheduler: &Scheduler,
        decider: &Decider<'_>,
        decision: &Decision,
    ) -> Result<Self> {
        let Decider { profile, made_from, ranking, today } = *decider;
        let pod = scheduler.pending().find(|info| info.pod.key == decision.pod);
        let pod = &pod.context("the pod no longer waits for a node")?.pod;
        let failed = failed(scheduler, &profile.to_spec(), made_from, &pod.key)?;
        let today =
            scheduler.explain_under(today, &pod.key).and_then(|today| match today.outcome {
                Outcome::Scheduled { node, .. } => Some(node),
                Outcome::Unschedulable { .. } | Outcome::Error { .. } => None,
            });
        let rows = feasible(scheduler, decision);
        let subject = subject(scheduler, pod, &rows);
        let without = ranking.without.clone();
        let ranking = ranking.priorities.rank(&subject);
        let name_of = |row: Row| subject.view.nodes.name_of(row).clone();
        let mut best: Vec<Str> = ranking.best().into_iter().map(name_of).collect();
        best.sort();
        let nodes = rows.iter().enumerate().map(|(at, &row)| Ranked {
            name: name_of(row),
            scores: scores(&ranking, at),
            total: ranking.totals[at],
        });
        Ok(OldScale { failed, nodes: nodes.collect(), best, without, today })
    }

    /// Whether the node that today's scores choose is one of the best; `None` if they choose none.
    pub(crate) fn agrees(&self) -> Option<bool> {
        self.today.as_ref().map(|node| self.best.contains(node))
    }

    /// The total of a feasible node.
    pub(crate) fn total_of(&self, node: &Str) -> Option<i64> {
        self.nodes.iter().find(|ranked| ranked.name == *node).map(|ranked| ranked.total)
    }
}

fn subject<'a>(scheduler: &'a Scheduler, pod: &'a PodInfo, feasible: &'a [Row]) -> Subject<'a> {
    Subject { pod, view: scheduler.view(), feasible }
}

/// The points of the node at index `at`, by priority.
fn scores(ranking: &Ranking, at: usize) -> Vec<Score> {
    let scores = ranking.standings.iter().map(|standing| Score {
        priority: standing.name.clone(),
        weight: standing.weight,
        raw: standing.raw[at].0,
        points: standing.points[at].0,
    });
    scores.collect()
}

/// The nodes that the pod fits, by name.
fn feasible(scheduler: &Scheduler, decision: &Decision) -> Vec<Row> {
    let nodes = scheduler.view().nodes;
    let rows: BTreeMap<&Str, Row> = nodes.rows().map(|row| (nodes.name_of(row), row)).collect();
    let fits =
        |verdict: &NodeVerdict| matches!(verdict, NodeVerdict::Only | NodeVerdict::Scored { .. });
    let names = decision.nodes.iter().filter(|node| fits(&node.verdict)).map(|node| &node.name);
    names.filter_map(|name| rows.get(name).copied()).collect()
}

/// The predicates that each node fails. Every filter runs by itself: predicates had a fixed order that profiles need
/// not keep, and GeneralPredicates reported the reasons of all its filters.
fn failed(
    scheduler: &Scheduler,
    spec: &ProfileSpec,
    (registry, gates): (&Registry, &FeatureGates),
    pod: &PodKey,
) -> Result<BTreeMap<Str, Vec<Failed>>> {
    let mut filters: Vec<&str> = Vec::new();
    for (name, _) in [Point::PreFilter, Point::Filter].iter().flat_map(|at| &spec.points[at]) {
        if !filters.contains(&name.as_str()) {
            filters.push(name);
        }
    }
    let mut failed: BTreeMap<Str, Vec<Failed>> = BTreeMap::new();
    let predicates = predicates::of_filters(&filters).into_iter().enumerate();
    for (place, Predicate { name, filters }) in predicates {
        for filter in filters {
            let profile = Profile::new(&alone(spec, &filter), registry, gates)?;
            let Some(decision) = scheduler.explain_under(&profile, pod) else { continue };
            for (node, reasons) in rejected(&decision) {
                let of_node = failed.entry(node).or_default();
                match of_node.last_mut().filter(|last| last.place == place) {
                    Some(last) => last.reasons.extend(reasons),
                    None => of_node.push(Failed { place, predicate: name.clone(), reasons }),
                }
            }
        }
    }
    Ok(failed)
}

/// A profile with only one filter, which looks at all nodes and scores none.
fn alone(spec: &ProfileSpec, filter: &str) -> ProfileSpec {
    let points = spec.points.iter().filter_map(|(&point, plugins)| match point {
        Point::QueueSort | Point::Bind => Some((point, plugins.clone())),
        Point::PreFilter | Point::Filter => {
            let own = plugins.iter().filter(|(name, _)| name == filter).cloned();
            Some((point, own.collect()))
        }
        _ => None,
    });
    let points = points.collect();
    ProfileSpec { percentage_of_nodes_to_score: None, points, ..spec.clone() }
}

/// The rejected nodes, and why. If the pod was rejected for all nodes, each node has that reason.
fn rejected(decision: &Decision) -> Vec<(Str, Vec<String>)> {
    let for_all = match &decision.outcome {
        Outcome::Unschedulable { pre_filter: Some((_, why)), .. } => {
            why.reasons.iter().map(ToString::to_string).collect()
        }
        _ => Vec::new(),
    };
    let reasons = |verdict: &NodeVerdict| match verdict {
        NodeVerdict::Rejected { reasons, .. } => {
            Some(reasons.iter().map(ToString::to_string).collect())
        }
        NodeVerdict::NotJudged => Some(for_all.clone()),
        NodeVerdict::Only | NodeVerdict::Scored { .. } => None,
    };
    let nodes = decision.nodes.iter();
    nodes.filter_map(|node| Some((node.name.clone(), reasons(&node.verdict)?))).collect()
}
