//! Comparing a decision with the recorded one.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_engine::{Decision, NodeDecision, NodeVerdict, Outcome};
use plimsoll_framework::Nomination;
use serde::Deserialize;

/// The expected decisions of a case.
#[derive(Clone, Debug, Deserialize)]
pub struct Expected {
    /// The name of the case.
    pub name: String,
    /// One decision a pod, in order.
    pub decisions: Vec<ExpectedDecision>,
}

/// A recorded decision.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExpectedDecision {
    /// `namespace/name`.
    pub pod: String,
    /// `scheduled`, `unschedulable` or `error`.
    pub result: String,
    /// The complete message.
    #[serde(default)]
    pub message: String,
    /// The plugin that rejected the pod for all nodes.
    pub pre_filter: Option<ExpectedRejection>,
    /// Every node.
    #[serde(default)]
    pub nodes: Vec<ExpectedNode>,
    /// The best nodes.
    #[serde(default)]
    pub best: Vec<String>,
    /// The one with the smallest name.
    pub node: Option<String>,
    /// The node and victims that preemption would choose.
    pub nomination: Option<ExpectedNomination>,
    /// How many nodes are best, if they are not listed.
    pub best_count: Option<usize>,
}

/// A recorded nomination.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedNomination {
    /// The node.
    pub node: String,
    /// The victims, in any order.
    pub victims: BTreeSet<String>,
}

impl ExpectedNomination {
    fn of(nomination: &Nomination) -> Self {
        ExpectedNomination {
            node: nomination.node.to_string(),
            victims: nomination.victims.iter().map(ToString::to_string).collect(),
        }
    }
}

/// A recorded rejection.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedRejection {
    /// The plugin.
    pub plugin: String,
    /// The code.
    pub code: String,
    /// Its reasons, in any order.
    pub reasons: BTreeSet<String>,
}

/// A recorded node.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedNode {
    /// Its name.
    pub name: String,
    /// The rejection, if it was rejected.
    pub filter: Option<ExpectedRejection>,
    /// Weighted scores by plugin.
    #[serde(default)]
    pub scores: BTreeMap<String, i64>,
    /// Their sum.
    pub total: Option<i64>,
}

/// The differences between a decision and the recorded one.
pub fn differences(expected: &ExpectedDecision, ours: &Decision) -> Vec<String> {
    let mut found = Differences(Vec::new());
    found.compare("pod", &expected.pod, &ours.pod.to_string());
    let result = match &ours.outcome {
        Outcome::Scheduled { .. } => "scheduled",
        Outcome::Unschedulable { .. } => "unschedulable",
        Outcome::Error { .. } => "error",
    };
    found.compare("result", expected.result.as_str(), result);
    match &ours.outcome {
        Outcome::Scheduled { node, best } => {
            if expected.node.is_some() {
                found.compare("node", &expected.node.as_deref(), &Some(node.as_str()));
            }
            match expected.best_count {
                Some(count) => found.compare("number of best nodes", &count, &best.len()),
                None => found.compare("best", &expected.best, &texts(best)),
            }
        }
        Outcome::Unschedulable { message, pre_filter, nomination } => {
            found.compare("message", expected.message.as_str(), message.as_str());
            found.compare(
                "nomination",
                &expected.nomination,
                &nomination.as_ref().map(ExpectedNomination::of),
            );
            let ours = pre_filter.as_ref().map(|(plugin, why)| ExpectedRejection {
                plugin: plugin.to_string(),
                code: why.code.as_str().to_owned(),
                reasons: why.reasons.iter().map(ToString::to_string).collect(),
            });
            found.compare("preFilter", &expected.pre_filter, &ours);
        }
        Outcome::Error { message } => found.compare("message", &expected.message, message),
    }
    if !expected.nodes.is_empty() {
        found.nodes(&expected.nodes, &ours.nodes);
    }
    found.0
}

fn texts(names: &[impl ToString]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

struct Differences(Vec<String>);

impl Differences {
    fn compare<T: PartialEq + std::fmt::Debug + ?Sized>(
        &mut self,
        what: &str,
        expected: &T,
        ours: &T,
    ) {
        if expected != ours {
            self.0.push(format!("{what}: expected {expected:?}, found {ours:?}"));
        }
    }

    fn nodes(&mut self, expected: &[ExpectedNode], ours: &[NodeDecision]) {
        let ours: Vec<ExpectedNode> = ours.iter().map(as_expected).collect();
        let names = |nodes: &[ExpectedNode]| -> Vec<String> {
            nodes.iter().map(|node| node.name.clone()).collect()
        };
        self.compare("names of nodes", &names(expected), &names(&ours));
        for (expected, ours) in expected.iter().zip(&ours) {
            self.compare(&format!("filter of {}", ours.name), &expected.filter, &ours.filter);
            self.compare(&format!("scores of {}", ours.name), &expected.scores, &ours.scores);
            self.compare(&format!("total of {}", ours.name), &expected.total, &ours.total);
        }
    }
}

fn as_expected(node: &NodeDecision) -> ExpectedNode {
    let name = node.name.to_string();
    match &node.verdict {
        NodeVerdict::Rejected { plugin, code, reasons } => ExpectedNode {
            name,
            filter: Some(ExpectedRejection {
                plugin: plugin.to_string(),
                code: code.as_str().to_owned(),
                reasons: reasons.iter().map(ToString::to_string).collect(),
            }),
            scores: BTreeMap::new(),
            total: None,
        },
        NodeVerdict::Only | NodeVerdict::NotJudged => {
            ExpectedNode { name, filter: None, scores: BTreeMap::new(), total: None }
        }
        NodeVerdict::Scored { scores, total } => ExpectedNode {
            name,
            filter: None,
            scores: scores.iter().map(|(plugin, score)| (plugin.to_string(), *score)).collect(),
            total: Some(*total),
        },
    }
}
