//! Compares a decision with one of release 1.20, for the plugins that later releases dropped.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_engine::{Decision, NodeDecision, NodeVerdict};
use serde_json::Value;

use crate::case::Case;
use crate::compare::{ExpectedDecision, ExpectedNode};

/// The plugins whose scores are compared: those that no longer exist or score differently today.
const SCORES: &[&str] = &[
    "NodeLabel",
    "NodePreferAvoidPods",
    "NodeResourcesLeastAllocated",
    "NodeResourcesMostAllocated",
    "RequestedToCapacityRatio",
    "SelectorSpread",
    "ServiceAffinity",
];

/// The plugins whose rejections are compared.
const FILTERS: &[&str] = &[
    "AzureDiskLimits",
    "CinderLimits",
    "EBSLimits",
    "GCEPDLimits",
    "NodeLabel",
    "ServiceAffinity",
    "VolumeRestrictions",
];

/// The compared parts of the result for a node.
#[derive(Debug, PartialEq, Eq)]
struct Said<'a> {
    is_feasible: bool,
    /// Plugin and code of a rejection.
    rejection: Option<(&'a str, &'a str)>,
    scores: BTreeMap<&'a str, i64>,
}

/// The differences between a decision and that of release 1.20 for `case`.
///
/// The plugins that still exist decide as in 1.36. Therefore only the set of feasible nodes, and the
/// scores and rejections of plugins that later releases dropped are compared. With
/// `alwaysCheckAllPredicates` any of the plugins that reject a node may be recorded, so rejections are
/// not compared.
pub fn legacy_differences(
    case: &Case,
    expected: &ExpectedDecision,
    ours: &Decision,
) -> Vec<String> {
    let mut found = Vec::new();
    if expected.pod != ours.pod.to_string() {
        found.push(format!("pod: expected {}, found {}", expected.pod, ours.pod));
    }
    let names = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect::<BTreeSet<_>>();
    let expected_names = names(expected.nodes.iter().map(|node| node.name.as_str()).collect());
    let our_names = names(ours.nodes.iter().map(|node| node.name.as_ref()).collect());
    if expected_names != our_names {
        found.push(format!("names of nodes: expected {expected_names:?}, found {our_names:?}"));
        return found;
    }
    let runs_all = case.config.as_ref().is_some_and(runs_all_filters);
    for (expected, ours) in expected.nodes.iter().zip(&ours.nodes) {
        let (mut wanted, mut said) = (recorded(expected), said(ours));
        if runs_all {
            (wanted.rejection, said.rejection) = (None, None);
        }
        if wanted != said {
            found.push(format!("{}: expected {wanted:?}, found {said:?}", ours.name));
        }
    }
    found
}

fn runs_all_filters(config: &Value) -> bool {
    config["alwaysCheckAllPredicates"] == true
}

fn recorded(node: &ExpectedNode) -> Said<'_> {
    let rejection = node.filter.as_ref().map(|why| (why.plugin.as_str(), why.code.as_str()));
    let scores = node.scores.iter().map(|(plugin, score)| (plugin.as_str(), *score));
    Said {
        is_feasible: node.filter.is_none(),
        rejection: rejection.filter(|(plugin, _)| FILTERS.contains(plugin)),
        scores: scores.filter(|(plugin, _)| SCORES.contains(plugin)).collect(),
    }
}

fn said(node: &NodeDecision) -> Said<'_> {
    let mut said = Said { is_feasible: false, rejection: None, scores: BTreeMap::new() };
    match &node.verdict {
        NodeVerdict::Rejected { plugin, code, .. } => {
            let plugin: &str = plugin;
            said.rejection = FILTERS.contains(&plugin).then(|| (plugin, code.as_str()));
        }
        NodeVerdict::NotJudged => {}
        NodeVerdict::Only => said.is_feasible = true,
        NodeVerdict::Scored { scores, .. } => {
            said.is_feasible = true;
            let scores = scores.iter().map(|(plugin, score)| (&**plugin, *score));
            said.scores = scores.filter(|(plugin, _)| SCORES.contains(plugin)).collect();
        }
    }
    said
}
