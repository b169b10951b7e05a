//! What is written to a journal, as it is handed over to the thread that writes.

use std::collections::BTreeMap;
use std::ops::Range;

use plimsoll_api::{ObjectKey, PodKey, Str};
use plimsoll_engine::{
    AttemptContext, BestNode, BestNodes, BindingEnd, Decision, GroupDecision, GroupResult,
    MemberResult, NodeVerdict, Outcome,
};
use plimsoll_framework::Time;

/// The best nodes of a decision are kept, at most so many.
const MOST_SCORED: usize = 3;
/// The longest message that is kept, in characters.
const MESSAGE: usize = 4096;

/// Entries one after the other.
///
/// The texts of all attempts are one, and what most attempts do not have is apart. So the thread of the scheduler allocates next to
/// nothing for an attempt, and the thread that writes reads it from one end to the other: to follow references into what another
/// processor has written takes it much longer. For the same reason a text that an attempt has in common with the one before is not
/// repeated.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    texts: Texts,
    /// The chosen nodes. They are apart, since their numbers are looked up before all else.
    nodes: String,
    attempts: Vec<AttemptEntry>,
    pub(crate) endings: Vec<EndingEntry>,
    pub(crate) groups: Vec<GroupEntry>,
}

/// How a binding cycle has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EndingEntry {
    pub(crate) at: Time,
    /// The sequence of the attempt that began it.
    pub(crate) sequence: u64,
    /// The number of that attempt of the pod.
    pub(crate) number: u32,
    pub(crate) first_ready: Option<Time>,
    pub(crate) error: Option<Box<str>>,
}

/// An attempt to schedule a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupEntry {
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

/// An attempt to schedule a pod, but for its texts.
#[derive(Debug)]
pub(crate) struct AttemptEntry {
    pub(crate) at: Time,
    pub(crate) sequence: u64,
    pub(crate) number: u32,
    pub(crate) result: &'static str,
    pub(crate) queued: Time,
    pub(crate) first_ready: Option<Time>,
    pub(crate) judged: usize,
    pub(crate) feasible: Option<usize>,
    pub(crate) margin: Option<i64>,
    lengths: Lengths,
    pub(crate) details: Option<Box<Details>>,
}

/// How many bytes the texts of an attempt have, in their order.
#[derive(Clone, Copy, Debug)]
struct Lengths {
    namespace: Length,
    profile: Length,
    woken_by: Length,
    name: Length,
    uid: Length,
    /// 0 for none.
    node: Length,
}

/// A number of bytes, or [`AS_BEFORE`].
type Length = u32;

/// The text is that of the attempt before, and is not repeated.
const AS_BEFORE: Length = Length::MAX;

fn length(text: &str) -> Length {
    Length::try_from(text.len()).expect("names have a few hundred bytes at most")
}

/// A text that attempts often have in common with the one before.
#[derive(Clone, Copy)]
enum Shared {
    Namespace,
    Profile,
    WokenBy,
}

/// The texts of attempts, one after the other.
#[derive(Debug, Default)]
struct Texts {
    all: String,
    /// Where the last ones are that are [`Shared`].
    last: [Option<Range<usize>>; 3],
}

impl Texts {
    fn add(&mut self, text: &str) -> Length {
        self.all.push_str(text);
        length(text)
    }

    fn add_shared(&mut self, which: Shared, text: &str) -> Length {
        let last = &mut self.last[which as usize];
        if last.clone().is_some_and(|last| &self.all[last] == text) {
            return AS_BEFORE;
        }
        *last = Some(self.all.len()..self.all.len() + text.len());
        self.add(text)
    }

    fn clear(&mut self) {
        self.all.clear();
        self.last = Default::default();
    }
}

/// Texts that are read in the order in which they were added.
struct Reading<'a> {
    rest: &'a str,
    last: [&'a str; 3],
}

impl<'a> Reading<'a> {
    fn of(texts: &'a Texts) -> Self {
        Reading { rest: &texts.all, last: [""; 3] }
    }

    fn next(&mut self, length: Length) -> &'a str {
        let (text, rest) = self.rest.split_at(length as usize);
        self.rest = rest;
        text
    }

    fn next_shared(&mut self, which: Shared, length: Length) -> &'a str {
        if length != AS_BEFORE {
            self.last[which as usize] = self.next(length);
        }
        self.last[which as usize]
    }
}

/// What most attempts do not have.
#[derive(Debug, Default)]
pub(crate) struct Details {
    pub(crate) message: Option<String>,
    pub(crate) nominated: Option<Str>,
    pub(crate) victims: Vec<PodKey>,
    pub(crate) rejections: Vec<RejectionEntry>,
    pub(crate) best: Vec<ScoredNode>,
}

/// An attempt to schedule a pod, as it was handed over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt<'a> {
    pub(crate) entry: &'a AttemptEntry,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) uid: &'a str,
    pub(crate) profile: &'a str,
    pub(crate) woken_by: &'a str,
    /// Whether it has found a node.
    pub(crate) is_placed: bool,
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
pub(crate) struct ScoredNode {
    pub(crate) node: Str,
    pub(crate) total: i64,
    /// By plugin, the normalized score times its weight.
    pub(crate) by_plugin: BTreeMap<String, i64>,
}

impl Entries {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.attempts.len() + self.endings.len() + self.groups.len()
    }

    /// Moves others to the end.
    pub(crate) fn append(&mut self, others: &mut Self) {
        // The first of the others has all its texts.
        self.texts.all.push_str(&others.texts.all);
        self.texts.last = Default::default();
        others.texts.clear();
        self.nodes.push_str(&others.nodes);
        others.nodes.clear();
        self.attempts.append(&mut others.attempts);
        self.endings.append(&mut others.endings);
        self.groups.append(&mut others.groups);
    }

    /// Removes all, and keeps their room.
    pub(crate) fn clear(&mut self) {
        self.texts.clear();
        self.nodes.clear();
        self.attempts.clear();
        self.endings.clear();
        self.groups.clear();
    }

    /// Adds a decision, if it was an attempt.
    pub(crate) fn decided(&mut self, at: Time, decision: &Decision) {
        let Some(context) = &decision.context else { return };
        let (result, node) = match &decision.outcome {
            Outcome::Scheduled { node, .. } => ("scheduled", node.as_str()),
            Outcome::Unschedulable { .. } => ("unschedulable", ""),
            Outcome::Error { .. } => ("error", ""),
        };
        let (pod, texts) = (&context.pod, &mut self.texts);
        let lengths = Lengths {
            namespace: texts.add_shared(Shared::Namespace, &decision.pod.namespace),
            profile: texts.add_shared(Shared::Profile, &pod.scheduler_name),
            woken_by: texts.add_shared(Shared::WokenBy, &context.woken_by),
            name: texts.add(&decision.pod.name),
            uid: texts.add(&pod.uid),
            node: length(node),
        };
        self.nodes.push_str(node);
        let mut entry = AttemptEntry {
            at,
            sequence: context.sequence,
            number: decision.attempt,
            result,
            queued: context.queued,
            first_ready: context.first_ready,
            judged: context.judged,
            feasible: context.feasible,
            margin: context.margin,
            lengths,
            details: None,
        };
        let is_plain = !node.is_empty() && decision.nodes.is_empty() && context.best.is_none();
        if !is_plain {
            entry.add_details(decision, context);
        }
        self.attempts.push(entry);
    }

    /// Adds the decision about a group.
    pub(crate) fn decided_group(&mut self, at: Time, decision: &GroupDecision) {
        self.groups.push(GroupEntry::of(at, decision));
    }

    /// Adds the end of a binding cycle.
    pub(crate) fn binding_ended(&mut self, at: Time, end: &BindingEnd<'_>) {
        let BindingEnd { sequence, attempt: number, first_ready, error, .. } = *end;
        let error = error.map(|error| shortened(error).into());
        self.endings.push(EndingEntry { at, sequence, number, first_ready, error });
    }

    /// The chosen nodes of the attempts, in their order.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = Option<&str>> {
        let mut nodes = self.nodes.as_str();
        self.attempts.iter().map(move |entry| {
            let (node, rest) = nodes.split_at(entry.lengths.node as usize);
            nodes = rest;
            Some(node).filter(|node| !node.is_empty())
        })
    }

    /// The attempts in their order.
    pub(crate) fn attempts(&self) -> impl Iterator<Item = Attempt<'_>> {
        let mut texts = Reading::of(&self.texts);
        self.attempts.iter().map(move |entry| {
            let Lengths { namespace, profile, woken_by, name, uid, node } = entry.lengths;
            Attempt {
                entry,
                namespace: texts.next_shared(Shared::Namespace, namespace),
                profile: texts.next_shared(Shared::Profile, profile),
                woken_by: texts.next_shared(Shared::WokenBy, woken_by),
                name: texts.next(name),
                uid: texts.next(uid),
                is_placed: 0 < node,
            }
        })
    }
}

impl ScoredNode {
    fn of(best: &BestNode) -> Self {
        let scores = best.scores.iter().map(|(plugin, score)| (plugin.to_string(), *score));
        ScoredNode { node: best.name.clone(), total: best.total, by_plugin: scores.collect() }
    }
}

impl AttemptEntry {
    fn add_details(&mut self, decision: &Decision, context: &AttemptContext) {
        let mut details = Details::default();
        match &decision.outcome {
            Outcome::Scheduled { .. } => {}
            Outcome::Unschedulable { message, nomination, .. } => {
                details.message = Some(shortened(message));
                if let Some(nomination) = nomination {
                    details.nominated = Some(nomination.node.clone());
                    details.victims.clone_from(&nomination.victims);
                }
            }
            Outcome::Error { message } => details.message = Some(shortened(message)),
        }
        self.add_nodes(&mut details, decision, context);
        if details.rejections.is_empty() {
            details.add_rejections(decision, context);
        }
        self.details = Some(Box::new(details));
    }

    /// Counts the rejections by plugin and reason. Feasible nodes and scores are there if those of all nodes were computed.
    fn add_nodes(&mut self, details: &mut Details, decision: &Decision, context: &AttemptContext) {
        if decision.nodes.is_empty() {
            if let Some(BestNodes { nodes, .. }) = &context.best {
                details.best = nodes.iter().map(ScoredNode::of).collect();
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
        let is_chosen = |name: &Str| matches!(&decision.outcome, Outcome::Scheduled { node, .. } if node == name);
        if let Some(at) = scored.iter().position(|(_, name, _)| is_chosen(name)) {
            let chosen = scored.remove(at);
            self.margin = scored.first().map(|(total, ..)| chosen.0 - total);
            scored.insert(0, chosen);
        }
        let best = scored.into_iter().take(MOST_SCORED).map(|(total, name, scores)| ScoredNode {
            node: name.clone(),
            total,
            by_plugin: scores.iter().map(|(plugin, score)| (plugin.to_string(), *score)).collect(),
        });
        details.best = best.collect();
        self.feasible = Some(feasible);
        let rejections = rejected.into_iter().map(|((plugin, reason), nodes)| RejectionEntry {
            plugin: plugin.clone(),
            reason: Some(shortened(&reason)),
            nodes: Some(nodes),
        });
        details.rejections = rejections.collect();
    }
}

impl Details {
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
}

impl GroupEntry {
    fn of(at: Time, decision: &GroupDecision) -> Self {
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

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use plimsoll_api::Pod;

    use super::*;

    /// An attempt that has found a node.
    pub(crate) fn placed(pod: Pod, sequence: u64, woken_by: &str) -> Decision {
        let key = pod.key.clone();
        let context = AttemptContext {
            sequence,
            pod: Arc::new(pod),
            fingerprint: 0,
            woken_by: woken_by.into(),
            queued: Time::from_millis(0),
            first_ready: None,
            judged: 1,
            rejections: [].into(),
            rejectors: Vec::new(),
            feasible: None,
            margin: None,
            best: None,
        };
        let outcome = Outcome::Scheduled { node: "n1".into(), best: Vec::new() };
        Decision { context: Some(context), ..Decision::of_pod(key, 1, outcome) }
    }

    fn attempt(namespace: &str, profile: &str, woken_by: &str) -> Decision {
        let key = PodKey::new(namespace, "web");
        let mut pod = Pod { key, uid: "the uid".into(), ..Pod::default() };
        pod.scheduler_name = profile.into();
        placed(pod, 1, woken_by)
    }

    #[test]
    fn texts_that_attempts_have_in_common_are_read_as_they_were_written() {
        let attempts = [
            ("shop", "default-scheduler", "PodAdd"),
            ("shop", "default-scheduler", "NodeAdd"),
            ("shop", "", "NodeAdd"),
            ("web", "", ""),
            ("shop", "default-scheduler", ""),
        ];
        // However they fall into batches.
        for first in 0..=attempts.len() {
            let (mut all, mut batch) = (Entries::default(), Entries::default());
            for batch_of in [&attempts[..first], &attempts[first..]] {
                for (namespace, profile, woken_by) in batch_of {
                    batch.decided(Time::from_millis(0), &attempt(namespace, profile, woken_by));
                }
                all.append(&mut batch);
            }
            let read = all.attempts().map(|one| (one.namespace, one.profile, one.woken_by));
            assert_eq!(read.collect::<Vec<_>>(), attempts);
            assert!(all.attempts().all(|one| (one.name, one.uid) == ("web", "the uid")));
        }
    }
}
