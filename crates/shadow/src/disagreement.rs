//! Disagreements, each with its reasons and what reproduces it.

use std::fmt::Write;

use plimsoll_api::{PodKey, Str};
use serde::Serialize;

use crate::comparison::{Comparison, Points, Verdict};
use crate::groups::OF_GROUP;

/// At most this many nodes are named of those that are equally good.
const NAMED: usize = 5;
/// At most this many plugins are named in a sentence.
const PLUGINS: usize = 3;

/// What kind of disagreement it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum DisagreementKind {
    /// The pod is on a node with a lower score than another one.
    Worse,
    /// The pod is on a node that a plugin rejects, and would be on another one.
    Infeasible,
    /// The pod is on a node, and would be on none, or would wait with its group.
    Unschedulable,
    /// The other scheduler says that the pod fits nowhere, and it would be on a node.
    Pending,
    /// The choice could not be judged.
    Unjudged,
}

/// A disagreement between the other scheduler and a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Disagreement {
    /// Its number, from 1 on.
    pub number: u64,
    /// The pod, as `namespace/name`.
    pub pod: String,
    /// The PodGroup of the pod, as `namespace/name`, if it was decided with that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// When it was seen, in RFC 3339.
    pub at: String,
    /// What kind it is.
    pub kind: DisagreementKind,
    /// The configuration that disagrees.
    pub configuration: String,
    /// The node that the other scheduler chose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub theirs: Option<Str>,
    /// The nodes that are equally good and best, the first few by name; empty if there is none.
    pub ours: Vec<Str>,
    /// By how much the total of our node is higher.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub margin: Option<i64>,
    /// Which plugins make the difference.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<Points>,
    /// The plugin that rejects their node, or `PodGroup` if the rules of the group do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin: Option<Str>,
    /// Its reasons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// Why, in a sentence.
    pub why: String,
    /// The `resourceVersion` of the pod when it was compared.
    pub resource_version: Str,
    /// What reproduces our decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reproduction: Option<Reproduction>,
    /// The pod again, for files and commands.
    #[serde(skip)]
    pub key: PodKey,
}

/// What reproduces a decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reproduction {
    /// A file with the state on which it was made.
    pub file: String,
    /// The command that makes it.
    pub command: String,
}

/// Keeps the state on which there was a disagreement.
pub trait Archive {
    /// Keeps the manifests of the cluster, in which the pod is pending; `None` if it keeps no more.
    fn keep(
        &mut self,
        disagreement: &Disagreement,
        manifests: &mut dyn Iterator<Item = &str>,
    ) -> Option<Reproduction>;
}

/// Keeps nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoArchive;

impl Archive for NoArchive {
    fn keep(
        &mut self,
        _: &Disagreement,
        _: &mut dyn Iterator<Item = &str>,
    ) -> Option<Reproduction> {
        None
    }
}

impl Disagreement {
    /// A disagreement about the node of a pod; `None` if there is none.
    pub(crate) fn of(comparison: &Comparison, node: &Str) -> Option<Self> {
        let Comparison { verdict, best, message, .. } = comparison;
        let ours: Vec<Str> = best.iter().take(NAMED).cloned().collect();
        let blank = Disagreement { theirs: Some(node.clone()), ours, ..Disagreement::blank() };
        Some(match verdict {
            Verdict::Same | Verdict::Tie { .. } => return None,
            Verdict::Worse { ours, margin, points } => Disagreement {
                kind: DisagreementKind::Worse,
                margin: Some(*margin),
                points: points.clone(),
                why: worse(node, ours, *margin, points),
                ..blank
            },
            Verdict::Infeasible { plugin, reasons, ours } => {
                let reason = reasons.join(", ");
                let (kind, then) = if let Some(ours) = ours {
                    (DisagreementKind::Infeasible, format!("it would be on {ours}"))
                } else {
                    let why = message.as_deref().unwrap_or("no node fits");
                    (DisagreementKind::Unschedulable, format!("it would stay pending: {why}"))
                };
                Disagreement {
                    kind,
                    plugin: Some(plugin.clone()),
                    reasons: reasons.clone(),
                    why: format!("{plugin} rejects {node} ({reason}); {then}"),
                    ..blank
                }
            }
            Verdict::GroupUnfit { why } => Disagreement {
                kind: DisagreementKind::Unschedulable,
                plugin: Some(Str::const_new(OF_GROUP)),
                reasons: vec![why.clone()],
                why: match message.as_ref().filter(|message| *message != why) {
                    None => format!("its group would stay pending: {why}"),
                    Some(own) => format!("its group would stay pending: {why}; the pod: {own}"),
                },
                ..blank
            },
            Verdict::Unjudged { why } => {
                Disagreement { kind: DisagreementKind::Unjudged, why: why.clone(), ..blank }
            }
        })
    }

    /// A disagreement about a pod that the other scheduler leaves pending.
    pub(crate) fn pending(best: &[Str]) -> Self {
        let node = best.first().map(Str::as_str).unwrap_or_default();
        Disagreement {
            kind: DisagreementKind::Pending,
            ours: best.iter().take(NAMED).cloned().collect(),
            why: format!("the other scheduler says that it fits nowhere; it would be on {node}"),
            ..Disagreement::blank()
        }
    }

    fn blank() -> Self {
        Disagreement {
            number: 0,
            pod: String::new(),
            group: None,
            at: String::new(),
            kind: DisagreementKind::Unjudged,
            configuration: String::new(),
            theirs: None,
            ours: Vec::new(),
            margin: None,
            points: Vec::new(),
            plugin: None,
            reasons: Vec::new(),
            why: String::new(),
            resource_version: Str::default(),
            reproduction: None,
            key: PodKey::default(),
        }
    }
}

/// `n2 has 12 points less than n1: NodeResourcesFit 10, ImageLocality 2`.
fn worse(theirs: &str, ours: &str, margin: i64, points: &[Points]) -> String {
    let mut text = format!("{theirs} has {margin} points less than {ours}");
    let against = points.iter().filter(|one| 0 < one.points).take(PLUGINS);
    for (index, Points { plugin, points }) in against.enumerate() {
        let sign = if index == 0 { ": " } else { ", " };
        let _ = write!(text, "{sign}{plugin} {points}");
    }
    text
}
