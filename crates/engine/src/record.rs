//! The decision record: the JSON form of decisions for programs.

use std::collections::BTreeMap;

use plimsoll_api::pod_group::GroupCondition;
use plimsoll_api::{CompositePodGroup, Kind, Str};
use plimsoll_framework::{Code, Nomination, Reason};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::decision::{Decision, NodeDecision, NodeVerdict, Outcome};
use crate::groups::{
    GroupDecision, MemberDecision, MemberResult, PlacementDecision, SubgroupDecision,
};

/// A decision about a pod with its reasons. A key whose value would be empty is left out.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DecisionRecord<'a> {
    pod: String,
    /// `scheduled`, `unschedulable` or `error`.
    result: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    best: &'a [Str],
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pre_enqueue: Option<RejectionRecord<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pre_filter: Option<RejectionRecord<'a>>,
    /// The number of the attempt; left out for the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nomination: Option<NominationRecord<'a>>,
    /// What must be done about its claims before the pod is bound.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<BoundClaim<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    nodes: Vec<NodeRecord<'a>>,
    /// What plugins add.
    #[serde(flatten)]
    described: &'a Map<String, Value>,
}

#[derive(Debug, Serialize)]
struct RejectionRecord<'a> {
    plugin: &'a str,
    code: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reasons: Vec<String>,
}

#[derive(Debug, Serialize)]
struct NominationRecord<'a> {
    node: &'a str,
    /// Printed even if it is empty, which means that the pod fits without evictions.
    victims: Vec<String>,
}

/// What must be done about a claim of the pod.
#[derive(Debug, Serialize)]
pub struct BoundClaim<'a> {
    /// The claim.
    pub claim: String,
    /// The volume to which it is bound; left out if one is provisioned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct NodeRecord<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    filter: Option<RejectionRecord<'a>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    scores: BTreeMap<&'a str, i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<i64>,
    #[serde(flatten)]
    described: Option<&'a Map<String, Value>>,
}

/// A decision about a group of pods. A key whose value would be empty is left out.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupRecord<'a> {
    group: String,
    /// `CompositePodGroup`; left out for a PodGroup.
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    /// The number of the cycle; left out for the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
    /// `scheduled`, `preempting`, `unschedulable`, `error` or `waiting`.
    result: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    placement: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    placements: Vec<PlacementRecord<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pods: Vec<MemberRecord<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    victims: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    condition: Option<ConditionRecord<'a>>,
    /// The groups of a composite group, each before its own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    groups: Vec<SubgroupRecord<'a>>,
}

/// A group that is part of a composite one.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct SubgroupRecord<'a> {
    group: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    result: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    placement: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    placements: Vec<PlacementRecord<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    condition: Option<ConditionRecord<'a>>,
}

#[derive(Debug, Serialize)]
struct PlacementRecord<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<i64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    scores: BTreeMap<&'a str, i64>,
    /// What plugins say about it, by plugin.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    notes: BTreeMap<&'a str, &'a str>,
}

#[derive(Debug, Serialize)]
struct MemberRecord<'a> {
    pod: String,
    /// `scheduled`, `unschedulable`, `error` or `skipped`.
    result: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    best: &'a [Str],
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nominated: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    nodes: Vec<NodeRecord<'a>>,
}

#[derive(Debug, Serialize)]
struct ConditionRecord<'a> {
    status: &'static str,
    reason: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    message: &'a str,
}

impl<'a> GroupRecord<'a> {
    /// The record of a decision.
    pub fn of(decision: &'a GroupDecision) -> Self {
        GroupRecord {
            group: decision.group.to_string(),
            kind: kind(decision.is_composite),
            attempt: (1 < decision.attempt).then_some(decision.attempt),
            result: decision.result.as_str(),
            message: decision.message.as_deref(),
            placement: decision.placement.as_deref(),
            placements: decision.placements.iter().map(PlacementRecord::of).collect(),
            pods: decision.pods.iter().map(MemberRecord::of).collect(),
            victims: decision.victims.iter().map(ToString::to_string).collect(),
            condition: decision.condition.as_ref().map(ConditionRecord::of),
            groups: decision.groups.iter().map(SubgroupRecord::of).collect(),
        }
    }
}

/// What a record calls the kind of a group.
fn kind(is_composite: bool) -> Option<&'static str> {
    is_composite.then_some(CompositePodGroup::NAME)
}

impl<'a> SubgroupRecord<'a> {
    fn of(decision: &'a SubgroupDecision) -> Self {
        SubgroupRecord {
            group: decision.group.to_string(),
            kind: kind(decision.is_composite),
            result: decision.result.as_str(),
            message: &decision.message,
            placement: decision.placement.as_deref(),
            placements: decision.placements.iter().map(PlacementRecord::of).collect(),
            condition: decision.condition.as_ref().map(ConditionRecord::of),
        }
    }
}

impl<'a> PlacementRecord<'a> {
    fn of(placement: &'a PlacementDecision) -> Self {
        PlacementRecord {
            name: &placement.name,
            score: placement.score,
            scores: placement.scores.iter().copied().collect(),
            notes: placement.notes.iter().map(|(plugin, note)| (*plugin, note.as_str())).collect(),
        }
    }
}

impl<'a> ConditionRecord<'a> {
    fn of(condition: &'a GroupCondition) -> Self {
        ConditionRecord {
            status: if condition.is_true { "True" } else { "False" },
            reason: &condition.reason,
            message: &condition.message,
        }
    }
}

impl<'a> MemberRecord<'a> {
    fn of(member: &'a MemberDecision) -> Self {
        let record = MemberRecord {
            pod: member.pod.to_string(),
            result: "skipped",
            node: None,
            best: &[],
            message: None,
            nominated: None,
            nodes: member.nodes.iter().map(|node| NodeRecord::of(node, None)).collect(),
        };
        match &member.result {
            MemberResult::Scheduled { node, best } => {
                MemberRecord { result: "scheduled", node: Some(node), best, ..record }
            }
            MemberResult::Unschedulable { message, nominated } => MemberRecord {
                result: "unschedulable",
                message: Some(message),
                nominated: nominated.as_deref(),
                ..record
            },
            MemberResult::Error { message } => {
                MemberRecord { result: "error", message: Some(message), ..record }
            }
            MemberResult::Skipped => record,
        }
    }
}

impl<'a> DecisionRecord<'a> {
    /// The record of a decision.
    pub fn of(decision: &'a Decision) -> Self {
        let record = DecisionRecord {
            pod: decision.pod.to_string(),
            result: "error",
            node: None,
            best: &[],
            message: None,
            pre_enqueue: decision
                .pre_enqueue
                .as_ref()
                .map(|(plugin, why)| RejectionRecord::by(plugin, why.code, &why.reasons)),
            pre_filter: None,
            attempt: (1 < decision.attempt).then_some(decision.attempt),
            nomination: None,
            volumes: Vec::new(),
            nodes: decision
                .nodes
                .iter()
                .map(|node| NodeRecord::of(node, decision.described.nodes.get(&node.name)))
                .collect(),
            described: &decision.described.decision,
        };
        match &decision.outcome {
            Outcome::Scheduled { node, best } => {
                DecisionRecord { result: "scheduled", node: Some(node), best, ..record }
            }
            Outcome::Unschedulable { message, pre_filter, nomination } => DecisionRecord {
                result: "unschedulable",
                message: Some(message),
                pre_filter: pre_filter
                    .as_ref()
                    .map(|(plugin, why)| RejectionRecord::by(plugin, why.code, &why.reasons)),
                nomination: nomination.as_ref().map(NominationRecord::of),
                ..record
            },
            Outcome::Error { message } => DecisionRecord { message: Some(message), ..record },
        }
    }
}

impl<'a> RejectionRecord<'a> {
    fn by(plugin: &'a str, code: Code, reasons: &[Reason]) -> Self {
        // Whether or not evicting other pods might help. It does not help a plugin that waits for an external
        // change. An error means that the node cannot be judged.
        let code = match code {
            Code::Pending => Code::UnschedulableAndUnresolvable,
            code => code,
        };
        let reasons = reasons.iter().map(ToString::to_string).collect();
        RejectionRecord { plugin, code: code.as_str(), reasons }
    }
}

impl<'a> NominationRecord<'a> {
    fn of(nomination: &'a Nomination) -> Self {
        let mut victims: Vec<_> = nomination.victims.iter().map(ToString::to_string).collect();
        victims.sort_unstable();
        NominationRecord { node: &nomination.node, victims }
    }
}

impl<'a> NodeRecord<'a> {
    fn of(node: &'a NodeDecision, described: Option<&'a Map<String, Value>>) -> Self {
        let verdict = &node.verdict;
        let node = NodeRecord {
            name: &node.name,
            filter: None,
            scores: BTreeMap::new(),
            total: None,
            described,
        };
        match verdict {
            NodeVerdict::Rejected { plugin, code, reasons } => {
                NodeRecord { filter: Some(RejectionRecord::by(plugin, *code, reasons)), ..node }
            }
            NodeVerdict::Only | NodeVerdict::NotJudged => node,
            NodeVerdict::Scored { scores, total } => NodeRecord {
                scores: scores.iter().map(|(plugin, score)| (&**plugin, *score)).collect(),
                total: Some(*total),
                ..node
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use plimsoll_api::PodKey;
    use plimsoll_framework::Rejection;

    use super::*;

    fn check(attempt: u32, outcome: Outcome, nodes: Vec<NodeDecision>, expected: &Expect) {
        let pod = PodKey::new("default", "web-0");
        let decision = Decision { nodes, ..Decision::of_pod(pod, attempt, outcome) };
        let record = serde_json::to_string(&DecisionRecord::of(&decision));
        expected.assert_eq(&(record.expect("it has no keys but texts") + "\n"));
    }

    fn rejected(name: &str, code: Code, reasons: &[&'static str]) -> NodeDecision {
        let reasons = reasons.iter().map(|&reason| reason.into()).collect();
        let verdict = NodeVerdict::Rejected { plugin: "NodeResourcesFit".into(), code, reasons };
        NodeDecision { name: name.into(), verdict }
    }

    #[test]
    fn a_scheduled_pod_has_its_node_the_best_and_what_every_node_got() {
        let scores = vec![("TaintToleration".into(), 300), ("NodeResourcesFit".into(), 81)];
        let node = |name: &str, scores, total| NodeDecision {
            name: name.into(),
            verdict: NodeVerdict::Scored { scores, total },
        };
        check(
            1,
            Outcome::Scheduled { node: "n03".into(), best: vec!["n03".into(), "n07".into()] },
            vec![
                rejected("n01", Code::Unschedulable, &["Insufficient cpu", "Insufficient memory"]),
                node("n03", scores, 381),
                node("n04", Vec::new(), 0),
            ],
            &expect![[r#"
                {"pod":"default/web-0","result":"scheduled","node":"n03","best":["n03","n07"],"nodes":[{"name":"n01","filter":{"plugin":"NodeResourcesFit","code":"Unschedulable","reasons":["Insufficient cpu","Insufficient memory"]}},{"name":"n03","scores":{"NodeResourcesFit":81,"TaintToleration":300},"total":381},{"name":"n04","total":0}]}
            "#]],
        );
    }

    #[test]
    fn the_only_feasible_node_has_neither_scores_nor_a_total() {
        check(
            2,
            Outcome::Scheduled { node: "n03".into(), best: vec!["n03".into()] },
            vec![NodeDecision { name: "n03".into(), verdict: NodeVerdict::Only }],
            &expect![[r#"
                {"pod":"default/web-0","result":"scheduled","node":"n03","best":["n03"],"attempt":2,"nodes":[{"name":"n03"}]}
            "#]],
        );
    }

    #[test]
    fn a_pod_that_fits_nowhere_says_why_and_what_was_cleared_for_it() {
        let victims = vec![PodKey::new("b", "x"), PodKey::new("a", "y")];
        check(
            1,
            Outcome::Unschedulable {
                message: "0/1 nodes are available: 1 Too many pods.".into(),
                pre_filter: None,
                nomination: Some(Nomination {
                    node: "n01".into(),
                    victims,
                    broken_budgets: 0,
                    says: "".into(),
                }),
            },
            vec![rejected("n01", Code::Pending, &[])],
            &expect![[r#"
                {"pod":"default/web-0","result":"unschedulable","message":"0/1 nodes are available: 1 Too many pods.","nomination":{"node":"n01","victims":["a/y","b/x"]},"nodes":[{"name":"n01","filter":{"plugin":"NodeResourcesFit","code":"UnschedulableAndUnresolvable"}}]}
            "#]],
        );
        check(
            1,
            Outcome::Unschedulable {
                message: "0/1 nodes are available: 1 Too many pods.".into(),
                pre_filter: None,
                nomination: Some(Nomination {
                    node: "n01".into(),
                    victims: Vec::new(),
                    broken_budgets: 0,
                    says: "".into(),
                }),
            },
            Vec::new(),
            &expect![[r#"
                {"pod":"default/web-0","result":"unschedulable","message":"0/1 nodes are available: 1 Too many pods.","nomination":{"node":"n01","victims":[]}}
            "#]],
        );
        let why = Rejection::unresolvable("pod affinity terms conflict");
        check(
            1,
            Outcome::Unschedulable {
                message: "0/1 nodes are available: pod affinity terms conflict.".into(),
                pre_filter: Some(("NodeAffinity".into(), why)),
                nomination: None,
            },
            Vec::new(),
            &expect![[r#"
                {"pod":"default/web-0","result":"unschedulable","message":"0/1 nodes are available: pod affinity terms conflict.","preFilter":{"plugin":"NodeAffinity","code":"UnschedulableAndUnresolvable","reasons":["pod affinity terms conflict"]}}
            "#]],
        );
    }

    #[test]
    fn a_pod_that_could_not_be_judged_has_a_message_and_the_node_at_fault_says_why() {
        check(
            1,
            Outcome::Error { message: "running Filter plugin".into() },
            vec![rejected("n01", Code::Error, &["broken"])],
            &expect![[r#"
                {"pod":"default/web-0","result":"error","message":"running Filter plugin","nodes":[{"name":"n01","filter":{"plugin":"NodeResourcesFit","code":"Error","reasons":["broken"]}}]}
            "#]],
        );
    }
}
