//! What is written to a journal.

use std::collections::BTreeMap;

use plimsoll_api::{ObjectKey, PodKey, Str};
use plimsoll_engine::{
    AttemptContext, BestNode, BestNodes, Decision, GroupDecision, GroupResult, MemberResult,
    NodeVerdict, Outcome,
};
use plimsoll_framework::Time;

/// The best nodes of a decision are kept, at most so many.
const MOST_SCORED: usize = 3;
/// The longest message that is kept, in characters.
const MESSAGE: usize = 4096;

/// Something that is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A pod was tried.
    Attempt(Box<AttemptEntry>),
    /// The binding of a pod was answered.
    Bound {
        /// When.
        at: Time,
        /// The pod.
        pod: PodKey,
        /// Its uid.
        uid: Str,
        /// The error, if it failed.
        error: Option<String>,
    },
    /// A group was tried as a whole.
    Group(Box<GroupEntry>),
}

/// An attempt to schedule a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupEntry {
    pub(crate) at: Time,
    pub(crate) group: ObjectKey,
    pub(crate) is_composite: bool,
    pub(crate) number: u32,
    pub(crate) result: GroupResult,
    pub(crate) message: Option<String>,
    pub(crate) placement: Option<Str>,
    pub(crate) pods: usize,
    pub(crate) scheduled: usize,
    pub(crate) victims: Vec<PodKey>,
}

/// An attempt to schedule a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptEntry {
    pub(crate) at: Time,
    pub(crate) pod: PodKey,
    pub(crate) uid: Str,
    pub(crate) number: u32,
    pub(crate) profile: Str,
    pub(crate) result: &'static str,
    pub(crate) node: Option<Str>,
    pub(crate) message: Option<String>,
    pub(crate) nominated: Option<Str>,
    pub(crate) victims: Vec<PodKey>,
    pub(crate) woken_by: Str,
    pub(crate) queued: Time,
    pub(crate) first_ready: Option<Time>,
    pub(crate) judged: usize,
    pub(crate) feasible: Option<usize>,
    pub(crate) margin: Option<i64>,
    pub(crate) rejections: Vec<RejectionEntry>,
    pub(crate) best: Vec<ScoredNode>,
}

/// A plugin that rejected nodes, and for which reason how many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RejectionEntry {
    pub(crate) plugin: Str,
    pub(crate) reason: Option<String>,
    pub(crate) nodes: Option<usize>,
}

/// A node with its scores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScoredNode {
    /// The node.
    pub node: Str,
    /// Its total.
    pub total: i64,
    /// By plugin, the normalized score times its weight.
    pub by_plugin: BTreeMap<String, i64>,
}

impl ScoredNode {
    fn of(best: &BestNode) -> Self {
        let scores = best.scores.iter().map(|(plugin, score)| (plugin.to_string(), *score));
        ScoredNode { node: best.name.clone(), total: best.total, by_plugin: scores.collect() }
    }
}

impl AttemptEntry {
    /// The entry of a decision; `None` if it was not an attempt. Rejections are counted by plugin and reason; feasible nodes
    /// and scores are there if those of all nodes were computed.
    pub fn of(at: Time, decision: &Decision) -> Option<Self> {
        let context = decision.context.as_ref()?;
        let mut entry = AttemptEntry {
            at,
            pod: decision.pod.clone(),
            uid: context.uid.clone(),
            number: decision.attempt,
            profile: context.profile.clone(),
            result: "error",
            node: None,
            message: None,
            nominated: None,
            victims: Vec::new(),
            woken_by: context.woken_by.as_str().into(),
            queued: context.queued,
            first_ready: context.first_ready,
            judged: context.judged,
            feasible: context.feasible,
            margin: context.margin,
            rejections: Vec::new(),
            best: Vec::new(),
        };
        match &decision.outcome {
            Outcome::Scheduled { node, .. } => {
                (entry.result, entry.node) = ("scheduled", Some(node.clone()));
            }
            Outcome::Unschedulable { message, nomination, .. } => {
                (entry.result, entry.message) = ("unschedulable", Some(shortened(message)));
                if let Some(nomination) = nomination {
                    entry.nominated = Some(nomination.node.clone());
                    entry.victims.clone_from(&nomination.victims);
                }
            }
            Outcome::Error { message } => entry.message = Some(shortened(message)),
        }
        entry.add_nodes(decision);
        if entry.rejections.is_empty() {
            entry.add_rejections(decision, context);
        }
        Some(entry)
    }

    /// Whether it has more than what is in its row of `attempts`.
    pub(crate) fn has_details(&self) -> bool {
        !(self.rejections.is_empty() && self.best.is_empty() && self.victims.is_empty())
    }

    /// Adds why nodes rejected the pod, or why all of them did at once, and the other plugins that had a part in it.
    fn add_rejections(&mut self, decision: &Decision, context: &AttemptContext) {
        let reasons = context.rejections.iter().map(|count| RejectionEntry {
            plugin: count.plugin.into(),
            reason: Some(shortened(&count.reason.to_string())),
            nodes: Some(count.nodes),
        });
        self.rejections = reasons.collect();
        if let Outcome::Unschedulable { pre_filter: Some((plugin, why)), .. } = &decision.outcome {
            self.rejections.push(RejectionEntry {
                plugin: plugin.clone(),
                reason: Some(shortened(&why.to_string())),
                nodes: None,
            });
        }
        for plugin in context.rejectors.iter().filter(|plugin| !plugin.is_empty()) {
            if self.rejections.iter().all(|known| known.plugin != *plugin) {
                let plugin = (*plugin).into();
                self.rejections.push(RejectionEntry { plugin, reason: None, nodes: None });
            }
        }
    }

    fn add_nodes(&mut self, decision: &Decision) {
        if decision.nodes.is_empty() {
            let best = decision.context.as_ref().and_then(|context| context.best.as_ref());
            if let Some(BestNodes { nodes, .. }) = best {
                self.best = nodes.iter().map(ScoredNode::of).collect();
            }
            return;
        }
        let (mut feasible, mut scored) = (0, Vec::new());
        let mut rejected: BTreeMap<(&Str, String), usize> = BTreeMap::new();
        for node in &decision.nodes {
            match &node.verdict {
                NodeVerdict::Rejected { plugin, reasons, .. } => {
                    for reason in reasons {
                        *rejected.entry((plugin, reason.to_string())).or_default() += 1;
                    }
                }
                NodeVerdict::NotJudged => {}
                NodeVerdict::Only => feasible += 1,
                NodeVerdict::Scored { scores, total } => {
                    feasible += 1;
                    scored.push((*total, &node.name, scores));
                }
            }
        }
        scored.sort_by(|a, b| (b.0, a.1).cmp(&(a.0, b.1)));
        // The chosen one comes first, whatever others are as good.
        if let Some(at) = scored.iter().position(|(_, name, _)| Some(*name) == self.node.as_ref()) {
            let chosen = scored.remove(at);
            self.margin = scored.first().map(|(total, ..)| chosen.0 - total);
            scored.insert(0, chosen);
        }
        let best = scored.into_iter().take(MOST_SCORED).map(|(total, name, scores)| ScoredNode {
            node: name.clone(),
            total,
            by_plugin: scores.iter().map(|(plugin, score)| (plugin.to_string(), *score)).collect(),
        });
        self.best = best.collect();
        self.feasible = Some(feasible);
        let rejections = rejected.into_iter().map(|((plugin, reason), nodes)| RejectionEntry {
            plugin: plugin.clone(),
            reason: Some(shortened(&reason)),
            nodes: Some(nodes),
        });
        self.rejections = rejections.collect();
    }
}

impl GroupEntry {
    /// The entry of a decision.
    pub fn of(at: Time, decision: &GroupDecision) -> Self {
        let is_scheduled = |result: &MemberResult| matches!(result, MemberResult::Scheduled { .. });
        let scheduled = decision.pods.iter().filter(|member| is_scheduled(&member.result)).count();
        GroupEntry {
            at,
            group: decision.group.clone(),
            is_composite: decision.is_composite,
            number: decision.attempt,
            result: decision.result,
            message: why_not(decision).map(shortened),
            placement: decision.placement.clone(),
            pods: decision.pods.len(),
            scheduled,
            victims: decision.victims.clone(),
        }
    }
}

/// Why a group is not scheduled: its condition says so, or that of the first group in it that is not.
fn why_not(decision: &GroupDecision) -> Option<&str> {
    if decision.result == GroupResult::Scheduled {
        return None;
    }
    let condition = decision.condition.iter().map(|condition| &*condition.message);
    let of_groups = decision.groups.iter().map(|group| group.message.as_str());
    let told = decision.message.as_deref().into_iter().chain(condition).chain(of_groups);
    told.into_iter().find(|message| !message.is_empty())
}

fn shortened(message: &str) -> String {
    message.chars().take(MESSAGE).collect()
}
