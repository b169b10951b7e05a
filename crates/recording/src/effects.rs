//! The effects of a scheduler as a recording has them: enough to compare decisions and to name one that differs.

use std::fmt;
use std::hash::Hasher;

use plimsoll_api::pod_group::GroupCondition;
use plimsoll_api::{PodKey, Str};
use plimsoll_engine::{Call, Effect, ExtenderQuestion, GroupConditionWrite, Write};
use plimsoll_framework::WriteVerb;
use twox_hash::XxHash64;

/// The reason of the event about a pod that was bound, and of one that was not scheduled.
const SCHEDULED: &str = "Scheduled";
const FAILED: &str = "FailedScheduling";

/// An effect: the pod for which it is done, and what is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedEffect {
    /// The pod.
    pub pod: PodKey,
    /// What is done.
    pub what: What,
}

/// What an effect does, without its details.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// The pod is bound to this node.
    Bind(Str),
    /// An object is written, such as `patch PersistentVolumeClaim default/data`.
    Write(String),
    /// This pod is evicted.
    Evict(PodKey),
    /// `status.nominatedNodeName` is set or cleared.
    Nominate(Option<Str>),
    /// The condition `PodScheduled=False` is set, with this reason and message.
    Condition(Str, String),
    /// The event that the pod was bound: the end of an attempt.
    Scheduled,
    /// The event that the pod was not scheduled, with its note: the end of an attempt.
    Failed(String),
    /// Another event, with its reason and note.
    Event(Str, String),
    /// An extender is asked: its number, and the question.
    Ask(u32, Str),
}

impl RecordedEffect {
    /// The recorded form of an effect.
    pub fn of(effect: &Effect) -> Self {
        let what = match &effect.write {
            Write::Bind(binding) => What::Bind(binding.node.clone()),
            Write::Object(write) => {
                What::Write(format!("{} {} {}", write.verb.as_str(), write.kind, write.key))
            }
            Write::Evict(eviction) => What::Evict(eviction.victim.key.clone()),
            Write::Nominate(node) => What::Nominate(node.clone()),
            Write::Condition(condition) => {
                What::Condition(condition.reason.into(), condition.message.clone())
            }
            Write::GroupCondition(GroupConditionWrite { group, condition, .. }) => {
                let status = if condition.is_true { "True" } else { "False" };
                let GroupCondition { reason, message, .. } = condition;
                What::Write(format!("condition of PodGroup {group}: {status} {reason} {message}"))
            }
            Write::Record(event) if event.reason == SCHEDULED => What::Scheduled,
            Write::Record(event) if event.reason == FAILED => What::Failed(event.note.clone()),
            Write::Record(event) => What::Event(event.reason.into(), event.note.clone()),
            Write::Extender(Call { extender, question }) => {
                let number = u32::try_from(extender.0).unwrap_or(u32::MAX);
                What::Ask(number, Str::const_new(name(question)))
            }
        };
        RecordedEffect { pod: effect.pod.key.clone(), what }
    }

    /// Whether an attempt ends with it, and if so, whether the pod was bound.
    pub fn ends_attempt(&self) -> Option<bool> {
        match self.what {
            What::Scheduled => Some(true),
            What::Failed(_) => Some(false),
            _ => None,
        }
    }
}

fn name(question: &ExtenderQuestion) -> &'static str {
    match question {
        ExtenderQuestion::Filter(_) => "filter",
        ExtenderQuestion::Prioritize(_) => "prioritize",
        ExtenderQuestion::Preempt(_) => "preempt",
        ExtenderQuestion::Bind(_) => "bind",
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::Bind(node) => write!(f, "bound to {node}"),
            What::Write(what) => f.write_str(what),
            What::Evict(victim) => write!(f, "evicts {victim}"),
            What::Nominate(Some(node)) => write!(f, "nominated for {node}"),
            What::Nominate(None) => f.write_str("nominated for no node"),
            What::Condition(reason, message) => write!(f, "{reason}: {message}"),
            What::Scheduled => f.write_str("event Scheduled"),
            What::Failed(note) => write!(f, "event FailedScheduling: {note}"),
            What::Event(reason, note) => write!(f, "event {reason}: {note}"),
            What::Ask(extender, question) => write!(f, "extender {extender} is asked: {question}"),
        }
    }
}

/// A hash of all effects of a scheduler up to now, with all their details. It is XXH64 with seed 0 over the bytes that
/// `docs/recording.md` lists.
#[derive(Clone, Debug, Default)]
pub struct EffectDigest(XxHash64);

impl EffectDigest {
    /// The hash.
    pub fn value(&self) -> u64 {
        self.0.finish()
    }

    /// Adds an effect.
    pub fn add(&mut self, effect: &Effect) {
        self.number(effect.id.0);
        self.key(&effect.pod.key);
        self.text(&effect.pod.uid);
        match &effect.write {
            Write::Bind(binding) => {
                self.tag(0);
                self.text(&binding.node);
            }
            Write::Object(write) => {
                self.tag(1);
                self.text(write.kind.as_str());
                self.key(&write.key);
                self.text(write.verb.as_str());
                match &write.verb {
                    WriteVerb::Create(value) | WriteVerb::Update(value) => {
                        self.text(value.as_str());
                    }
                    WriteVerb::Patch { subresource, merge } => {
                        self.text(subresource.as_deref().unwrap_or_default());
                        self.text(merge.as_str());
                    }
                    WriteVerb::Delete { uid } => self.text(uid),
                }
            }
            Write::Evict(eviction) => {
                self.tag(2);
                self.key(&eviction.victim.key);
                self.text(&eviction.victim.uid);
                self.text(&eviction.message);
                self.text(&eviction.note);
            }
            Write::Nominate(node) => {
                self.tag(3);
                self.text(node.as_deref().unwrap_or_default());
            }
            Write::Condition(condition) => {
                self.tag(4);
                self.text(condition.reason);
                self.text(&condition.message);
            }
            Write::Record(event) => {
                self.tag(5);
                for text in [event.kind, event.reason, event.action, &event.note] {
                    self.text(text);
                }
            }
            Write::GroupCondition(write) => {
                self.tag(7);
                self.key(&write.group);
                self.text(write.kind);
                self.tag(u8::from(write.condition.is_true));
                self.text(&write.condition.reason);
                self.text(&write.condition.message);
            }
            Write::Extender(call) => self.call(call),
        }
    }

    fn call(&mut self, Call { extender, question }: &Call) {
        self.tag(6);
        self.number(extender.0 as u64);
        self.text(name(question));
        match question {
            ExtenderQuestion::Filter(nodes) | ExtenderQuestion::Prioritize(nodes) => {
                nodes.iter().for_each(|node| self.text(node));
            }
            ExtenderQuestion::Preempt(candidates) => {
                for candidate in candidates.iter() {
                    self.text(&candidate.node);
                    candidate.victims.iter().for_each(|victim| self.text(&victim.uid));
                    self.0.write(&candidate.broken_budgets.to_le_bytes());
                }
            }
            ExtenderQuestion::Bind(node) => self.text(node),
        }
    }

    fn tag(&mut self, tag: u8) {
        self.0.write(&[tag]);
    }

    fn number(&mut self, number: u64) {
        self.0.write(&number.to_le_bytes());
    }

    fn key(&mut self, key: &PodKey) {
        self.text(&key.namespace);
        self.text(&key.name);
    }

    /// The length comes first, so that no two lists of texts have the same bytes.
    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.write(text.as_bytes());
    }
}
