//! Answers of extenders, in JSON. As in types.go of k8s.io/kube-scheduler/extender/v1.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_api::Str;
use plimsoll_engine::extenders::{Filtered, KeptCandidate};
use plimsoll_engine::{ExtenderQuestion, ExtenderReply};
use plimsoll_framework::Rejection;

use super::fault::CallFault;
use super::fields::{first, go_object};

/// Nodes with their reasons. If a node occurs twice, the last entry counts.
type Reasons = BTreeMap<String, Option<String>>;

go_object! {
    /// ExtenderFilterResult.
    struct FilterResult {
        nodes: Option<NodeList> = "Nodes",
        node_names: Option<Vec<String>> = "NodeNames",
        failed: Reasons = "FailedNodes",
        unresolvable: Reasons = "FailedAndUnresolvableNodes",
        error: String = "Error",
    }
    /// A NodeList, reduced to the names of the nodes.
    struct NodeList { items: Vec<Node> = "items" }
    struct Node { metadata: NodeMetadata = "metadata" }
    struct NodeMetadata { name: String = "name" }
    /// HostPriority.
    struct HostPriority { host: String = "Host", score: i64 = "Score" }
    /// ExtenderPreemptionResult.
    struct PreemptionResult {
        victims: BTreeMap<String, Option<MetaVictims>> = "NodeNameToMetaVictims",
    }
    struct MetaVictims {
        pods: Vec<Option<MetaPod>> = "Pods",
        broken_budgets: i64 = "NumPDBViolations",
    }
    struct MetaPod { uid: String = "UID" }
    /// ExtenderBindingResult.
    struct BindingResult { error: String = "Error" }
}

/// The properties of the extender that matter for the answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct AskedExtender<'a> {
    /// Its URL, as it is configured.
    pub(super) url_prefix: &'a str,
    /// Whether it may answer with names of nodes.
    pub(super) node_cache_capable: bool,
}

/// Reads the answer to a question.
///
/// The error is what the extender says is wrong, or what is wrong with its answer.
pub(super) fn read(
    extender: AskedExtender<'_>,
    question: &ExtenderQuestion,
    text: &[u8],
) -> Result<ExtenderReply, CallFault> {
    match question {
        ExtenderQuestion::Filter(nodes) => {
            filtered(extender, nodes, decode(text)?).map(ExtenderReply::Filtered)
        }
        ExtenderQuestion::Prioritize(_) => {
            let ranks: Option<Vec<HostPriority>> = decode(text)?;
            let ranks = ranks.unwrap_or_default().into_iter();
            Ok(ExtenderReply::Prioritized(ranks.map(|one| (one.host.into(), one.score)).collect()))
        }
        ExtenderQuestion::Preempt(_) => {
            let result: Option<PreemptionResult> = decode(text)?;
            let kept = result.unwrap_or_default().victims.into_iter().map(|(node, victims)| {
                let victims = victims.unwrap_or_default();
                KeptCandidate {
                    node: node.into(),
                    victims: victims.pods.into_iter().flatten().map(|pod| pod.uid.into()).collect(),
                    broken_budgets: victims.broken_budgets,
                }
            });
            Ok(ExtenderReply::Preempting(kept.collect()))
        }
        ExtenderQuestion::Bind(_) => {
            let result: Option<BindingResult> = decode(text)?;
            no_error(result.unwrap_or_default().error)?;
            Ok(ExtenderReply::Bound)
        }
    }
}

fn decode<'de, T: serde::Deserialize<'de>>(text: &'de [u8]) -> Result<T, CallFault> {
    if text.iter().all(u8::is_ascii_whitespace) {
        return Err(CallFault::Empty);
    }
    first(text).map_err(|error| CallFault::Unreadable(error.to_string()))
}

fn no_error(error: String) -> Result<(), CallFault> {
    if error.is_empty() { Ok(()) } else { Err(CallFault::Told(error)) }
}

/// As in extender.go, Filter.
fn filtered(
    extender: AskedExtender<'_>,
    nodes: &[Str],
    result: Option<FilterResult>,
) -> Result<Filtered, CallFault> {
    let result = result.unwrap_or_default();
    no_error(result.error)?;
    let names = match (result.node_names, result.nodes) {
        (Some(names), _) if extender.node_cache_capable => names,
        (_, Some(nodes)) => nodes.items.into_iter().map(|node| node.metadata.name).collect(),
        (_, None) => Vec::new(),
    };
    let known: BTreeSet<&str> = nodes.iter().map(Str::as_str).collect();
    if let Some(stranger) = names.iter().find(|name| !known.contains(name.as_str())) {
        let extender = extender.url_prefix.to_owned();
        return Err(CallFault::Stranger { extender, node: stranger.clone() });
    }
    let mut rejected: BTreeMap<String, Rejection> = BTreeMap::new();
    for (node, why) in result.failed {
        rejected.insert(node, Rejection::unschedulable(why.unwrap_or_default()));
    }
    // As in schedule_one.go, findNodesThatPassExtenders: these take precedence over the others.
    for (node, why) in result.unresolvable {
        rejected.insert(node, Rejection::unresolvable(why.unwrap_or_default()));
    }
    Ok(Filtered {
        passed: names.into_iter().map(Str::from).collect(),
        rejected: rejected.into_iter().map(|(node, why)| (node.into(), why)).collect(),
    })
}
