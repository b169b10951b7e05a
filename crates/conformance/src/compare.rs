//! Comparing a decision with the recorded one.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_api::Quantity;
use plimsoll_engine::{Decision, NodeDecision, NodeVerdict, Outcome};
use plimsoll_framework::Nomination;
use serde::Deserialize;
use serde_json::Value;

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
    /// The plugin that keeps the pod out of the queue.
    pub pre_enqueue: Option<ExpectedRejection>,
    /// What the claims of the pod get.
    #[serde(default)]
    pub allocations: Vec<Value>,
    /// The claims that are reserved for the pod besides.
    #[serde(default)]
    pub reserved: BTreeSet<String>,
    /// The claim that is deallocated.
    pub deallocated: Option<String>,
    /// The claims of which one is deallocated, by chance.
    #[serde(default)]
    pub deallocated_any_of: Vec<String>,
    /// The claim that is deleted.
    pub deleted: Option<String>,
    /// The messages of which one is given, by chance.
    #[serde(default)]
    pub messages: Vec<String>,
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
    /// The devices that would be allocated.
    #[serde(default)]
    pub devices: Vec<String>,
}

/// The differences between a decision and the recorded one.
pub fn differences(expected: &ExpectedDecision, ours: &Decision) -> Vec<String> {
    let mut found = Differences(Vec::new());
    found.compare("pod", &expected.pod, &ours.pod.to_string());
    // Such a pod has no record; here it is decided all the same.
    if expected.result == "gated" {
        found.compare("gated", &true, &ours.pre_enqueue.is_some());
        return found.0;
    }
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
        Outcome::Error { message } => {
            let ours = before_compile_error(message);
            let any = expected.messages.iter().chain([&expected.message]);
            let mut any = any.map(|one| before_compile_error(one));
            if !any.any(|one| one == ours) {
                found.compare("message", &expected.message, message);
            }
        }
    }
    if !expected.nodes.is_empty() {
        let devices = |name: &str| {
            let keys = ours.described.nodes.get(name);
            let lines = keys.and_then(|keys| keys.get("devices")?.as_array());
            let lines = lines.into_iter().flatten().filter_map(Value::as_str);
            lines.map(str::to_owned).collect()
        };
        found.nodes(&expected.nodes, &ours.nodes, devices);
    }
    found.devices(expected, ours);
    found.0
}

/// Of the text of a compiler only what is ours is compared.
fn before_compile_error(text: &str) -> &str {
    const COMPILER: &str = "CEL compile error: ";
    text.find(COMPILER).map_or(text, |at| &text[..at + COMPILER.len()])
}

/// A value of a record about devices with quantities by value, and without empty lists and defaults.
fn canonical(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().filter_map(|(key, value)| {
                let value = match (key.as_str(), value) {
                    ("consumedCapacity", Value::Object(amounts)) => {
                        let amount = |(name, amount): (&String, &Value)| {
                            let text = amount.as_str().unwrap_or_default();
                            let milli = Quantity::parse(text).map(|amount| amount.milli_value());
                            (name.clone(), milli.map_or_else(|_| text.into(), Value::from))
                        };
                        Value::Object(amounts.iter().map(amount).collect())
                    }
                    ("operator", Value::String(text)) if text == "Equal" => return None,
                    (_, value) => canonical(value),
                };
                let is_empty = value.is_null()
                    || value.as_array().is_some_and(Vec::is_empty) && key != "devices";
                (!is_empty).then(|| (key.clone(), value))
            });
            Value::Object(fields.collect())
        }
        Value::Array(values) => Value::Array(values.iter().map(canonical).collect()),
        value => value.clone(),
    }
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

    /// What is said about devices and claims.
    fn devices(&mut self, expected: &ExpectedDecision, ours: &Decision) {
        let key = |key: &str| ours.described.decision.get(key).unwrap_or(&Value::Null);
        let list = |key: &str| -> Vec<Value> {
            let value = ours.described.decision.get(key);
            value.and_then(Value::as_array).cloned().unwrap_or_default()
        };
        let [expected_allocations, allocations] = [&expected.allocations, &list("allocations")]
            .map(|all| all.iter().map(canonical).collect::<Vec<_>>());
        self.compare("allocations", &expected_allocations, &allocations);
        let reserved = list("reserved");
        let reserved = reserved.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        self.compare("reserved", &expected.reserved, &reserved);
        let deallocated = key("deallocated").as_str();
        match expected.deallocated_any_of.as_slice() {
            [] => self.compare("deallocated", &expected.deallocated.as_deref(), &deallocated),
            any if deallocated.is_some_and(|one| any.iter().any(|other| other == one)) => {}
            any => {
                self.0.push(format!("deallocated: expected one of {any:?}, found {deallocated:?}"));
            }
        }
        self.compare("deleted", &expected.deleted.as_deref(), &key("deleted").as_str());
        let pre_enqueue = ours.pre_enqueue.as_ref().map(|(plugin, why)| ExpectedRejection {
            plugin: plugin.to_string(),
            code: why.code.as_str().to_owned(),
            reasons: why.reasons.iter().map(ToString::to_string).collect(),
        });
        self.compare("preEnqueue", &expected.pre_enqueue, &pre_enqueue);
    }

    fn nodes(
        &mut self,
        expected: &[ExpectedNode],
        ours: &[NodeDecision],
        devices: impl Fn(&str) -> Vec<String>,
    ) {
        let ours: Vec<ExpectedNode> = ours.iter().map(as_expected).collect();
        let names = |nodes: &[ExpectedNode]| -> Vec<String> {
            nodes.iter().map(|node| node.name.clone()).collect()
        };
        self.compare("names of nodes", &names(expected), &names(&ours));
        for (expected, ours) in expected.iter().zip(&ours) {
            self.compare(&format!("filter of {}", ours.name), &expected.filter, &ours.filter);
            self.compare(&format!("scores of {}", ours.name), &expected.scores, &ours.scores);
            self.compare(&format!("total of {}", ours.name), &expected.total, &ours.total);
            let devices = devices(&ours.name);
            self.compare(&format!("devices of {}", ours.name), &expected.devices, &devices);
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
            devices: Vec::new(),
        },
        NodeVerdict::Only | NodeVerdict::NotJudged => ExpectedNode {
            name,
            filter: None,
            scores: BTreeMap::new(),
            total: None,
            devices: Vec::new(),
        },
        NodeVerdict::Scored { scores, total } => ExpectedNode {
            name,
            filter: None,
            scores: scores.iter().map(|(plugin, score)| (plugin.to_string(), *score)).collect(),
            total: Some(*total),
            devices: Vec::new(),
        },
    }
}
