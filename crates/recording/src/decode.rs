//! Decodes what the encoder wrote.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use plimsoll_api::{KindRef, Kinds, Node, ObjectKey, Pod, PodKey, PodTemplate, Str, Timestamp};
use plimsoll_engine::extenders::{Filtered, KeptCandidate};
use plimsoll_engine::{
    EffectId, Event, ExtenderError, ExtenderReply, Observation, WriteCause, WriteError,
};
use plimsoll_framework::{Code, Reason, Rejection, Time, WaitingDecision};

use crate::effects::{RecordedEffect, What};
use crate::encode::seconds;
use crate::form::{
    CauseForm, CodeForm, EffectForm, Form, NodeField, NodeRef, PodField, PodRef, ReasonForm,
    ReplyForm, TABLE_LIMIT, TextRef, WhatForm,
};
use crate::objects;

/// An entry of a recording.
#[derive(Clone, Debug)]
pub enum Entry {
    /// An event was observed.
    Event(Time, Event),
    /// So many steps were made, one after another. Only the last of them may have effects.
    Steps(Time, u32),
    /// `wind_up` was called.
    WindUp(Time),
    /// The effects of the step before, and the last 16 bits of the [digest](crate::EffectDigest) after them.
    Effects(Vec<RecordedEffect>, u16),
    /// The digest of all effects up to now.
    Digest(u64),
    /// A pod that waits at Permit was allowed or rejected from outside.
    Waiting(WaitingDecision),
    /// The events that follow tell what was known when this part began.
    PictureBegins,
    /// The end of these events.
    PictureEnds,
    /// When this part began, the pod was being bound to this node.
    Assumed(PodKey, Str),
    /// The scheduler was stopped in order.
    End,
    /// The recording goes on in the next part.
    Continues,
    /// The recording could not keep up, and ends here.
    Dropped,
}

/// What is wrong with an entry.
#[derive(Debug)]
pub(crate) enum Malformed {
    /// It does not mean anything.
    Entry(String),
    /// It has a kind that is not read.
    Kind { version: String, kind: String },
}

fn malformed(what: impl Into<String>) -> Malformed {
    Malformed::Entry(what.into())
}

/// Decodes the entries of a part.
#[derive(Debug)]
pub(crate) struct Decoder {
    /// The kinds that can be read.
    readable: Kinds,
    now: Time,
    pods: HashMap<u32, Arc<Pod>>,
    nodes: HashMap<u32, Node>,
    templates: Table<Arc<PodTemplate>>,
    texts: Table<String>,
    kinds: Vec<KindRef>,
    last_answer: u64,
}

/// The values that entries refer to by number: the last [`TABLE_LIMIT`] of them.
#[derive(Debug)]
struct Table<T> {
    /// The number of the first value that is kept.
    first: usize,
    values: VecDeque<T>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Table { first: 0, values: VecDeque::new() }
    }
}

impl<T: Clone> Table<T> {
    fn add(&mut self, value: T) {
        if self.values.len() == TABLE_LIMIT {
            self.first += 1;
            self.values.pop_front();
        }
        self.values.push_back(value);
    }

    fn get(&self, number: u32, what: &str) -> Result<T, Malformed> {
        let index = usize::try_from(number).ok().and_then(|number| number.checked_sub(self.first));
        let value = index.and_then(|index| self.values.get(index));
        value.cloned().ok_or_else(|| malformed(format!("there is no {what} {number}")))
    }
}

impl Decoder {
    /// A decoder for the first entry of a part.
    pub(crate) fn new(readable: Kinds) -> Self {
        Decoder {
            readable,
            now: Time::ZERO,
            pods: HashMap::new(),
            nodes: HashMap::new(),
            templates: Table::default(),
            texts: Table::default(),
            kinds: Vec::new(),
            last_answer: 0,
        }
    }

    /// Takes the next entry from `bytes`; `None` if there is none.
    pub(crate) fn next(&mut self, bytes: &mut &[u8]) -> Result<Option<Entry>, Malformed> {
        while !bytes.is_empty() {
            let (form, rest) = postcard::take_from_bytes::<Form>(bytes)
                .map_err(|error| malformed(format!("an entry cannot be decoded ({error})")))?;
            *bytes = rest;
            if let Some(entry) = self.entry(form)? {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    /// The entry, unless it only prepares others.
    fn entry(&mut self, form: Form) -> Result<Option<Entry>, Malformed> {
        let now = self.now;
        let event = |event| Ok(Some(Entry::Event(now, event)));
        Ok(Some(match form {
            Form::Time(after) => {
                self.now = Time::from_millis(now.millis().wrapping_add(after));
                return Ok(None);
            }
            Form::Template(template) => {
                self.templates.add(Arc::new(*template));
                return Ok(None);
            }
            Form::Text(text) => {
                self.texts.add(text);
                return Ok(None);
            }
            Form::Kind(version, kind) => {
                let Some((known, _)) = self.readable.find(&version, &kind) else {
                    return Err(Malformed::Kind { version, kind });
                };
                self.kinds.push(known);
                return Ok(None);
            }
            Form::Pod(number, fields) => return event(Event::pod(self.pod(number, fields)?)),
            Form::PodGone(pod) => {
                let key = self.pod_key(&pod)?;
                if let PodRef::Number(number) = pod {
                    self.pods.remove(&number);
                }
                return event(Event::pod_gone(key));
            }
            Form::Node(number, fields) => {
                let node = self.node(number, fields)?;
                return event(Event::Node(Box::new(Observation::Is(node))));
            }
            Form::NodeGone(node) => {
                let name = self.node_name(&node)?;
                if let NodeRef::Number(number) = node {
                    self.nodes.remove(&number);
                }
                return event(Event::Node(Box::new(Observation::Gone(name))));
            }
            Form::Object(kind, bytes) => {
                let kind = self.kind(kind)?;
                let object = objects::read(kind, &bytes)
                    .ok_or_else(|| malformed(format!("a {kind} cannot be decoded")))?;
                return event(Event::object(object));
            }
            Form::Manifest(kind, version, json) => {
                return event(manifest(self.kind(kind)?, &version, &json)?);
            }
            Form::ObjectGone(kind, key) => {
                return event(Event::Object(Observation::Gone((self.kind(kind)?, key))));
            }
            Form::Done(after, error) => {
                let id = self.answer_to(after);
                let answer = error.map_or(Ok(()), |(cause, message)| {
                    Err(WriteError::new(write_cause(cause), message))
                });
                return event(Event::Done(id, answer));
            }
            Form::Extended(after, reply) => {
                let id = self.answer_to(after);
                let reply = match reply {
                    Ok(reply) => Ok(self.reply(reply)?),
                    Err(text) => Err(ExtenderError(text)),
                };
                return event(Event::Extended(id, reply));
            }
            Form::Waiting(pod, plugin, rejected) => Entry::Waiting(waiting(pod, plugin, rejected)),
            Form::Steps(steps) => Entry::Steps(now, steps),
            Form::WindUp => Entry::WindUp(now),
            Form::Effects(effects, digest) => {
                let effects = effects.into_iter().map(|effect| self.effect(effect));
                Entry::Effects(effects.collect::<Result<_, _>>()?, digest)
            }
            Form::Digest(digest) => Entry::Digest(digest),
            Form::PictureBegins => Entry::PictureBegins,
            Form::PictureEnds => Entry::PictureEnds,
            Form::Assumed(pod, node) => Entry::Assumed(self.pod_key(&pod)?, self.node_name(&node)?),
            Form::End => Entry::End,
            Form::Continues => Entry::Continues,
            Form::Dropped => Entry::Dropped,
        }))
    }

    fn answer_to(&mut self, after: i64) -> EffectId {
        self.last_answer = self.last_answer.wrapping_add(after.cast_unsigned());
        EffectId(self.last_answer)
    }

    fn pod(&mut self, number: u32, fields: Vec<PodField>) -> Result<Arc<Pod>, Malformed> {
        let mut pod = self.pods.get(&number).map(|pod| Pod::clone(pod)).unwrap_or_default();
        for field in fields {
            match field {
                PodField::Key(key) => pod.key = key,
                PodField::Uid(uid) => pod.uid = uid,
                PodField::Annotations(annotations) => pod.annotations = annotations,
                PodField::Created(after) => pod.created = self.time(after)?,
                PodField::Deletion(after) => pod.deletion = self.time(after)?,
                PodField::Started(after) => pod.started = self.time(after)?,
                PodField::Phase(phase) => pod.phase = phase,
                PodField::Preempted(preempted) => pod.preempted = preempted,
                PodField::NodeName(node) => {
                    pod.node_name = node.map(|node| self.node_name(&node)).transpose()?;
                }
                PodField::NominatedNode(node) => {
                    pod.nominated_node = node.map(|node| self.node_name(&node)).transpose()?;
                }
                PodField::Unreadable(why) => pod.unreadable = why.map(String::into_boxed_str),
                PodField::Resources(resources) => pod.resources = resources,
                PodField::Devices(devices) => pod.devices = devices,
                PodField::Template(number) => {
                    pod.template = self.templates.get(number, "template")?;
                }
            }
        }
        let pod = Arc::new(pod);
        self.pods.insert(number, pod.clone());
        Ok(pod)
    }

    fn node(&mut self, number: u32, fields: Vec<NodeField>) -> Result<Node, Malformed> {
        let mut node = self.nodes.get(&number).cloned().unwrap_or_default();
        let has_changed = !fields.is_empty();
        for field in fields {
            match field {
                NodeField::Name(name) => node.name = name,
                NodeField::Labels(labels) => node.labels = labels,
                NodeField::Annotations(annotations) => node.annotations = annotations,
                NodeField::Avoided(avoided) => node.avoided = avoided,
                NodeField::Taints(taints) => node.taints = taints,
                NodeField::Unschedulable(unschedulable) => node.unschedulable = unschedulable,
                NodeField::Allocatable(allocatable) => node.allocatable = allocatable,
                NodeField::Images(images) => node.images = images,
                NodeField::DeclaredFeatures(features) => node.declared_features = features,
                NodeField::Created(after) => node.created = self.time(after)?,
            }
        }
        if has_changed {
            self.nodes.insert(number, node.clone());
        }
        Ok(node)
    }

    fn time(&self, after: Option<(i64, i32)>) -> Result<Option<Timestamp>, Malformed> {
        let time = after.map(|(second, nano)| {
            Timestamp::new(seconds(self.now).wrapping_add(second), nano)
                .map_err(|error| malformed(error.to_string()))
        });
        time.transpose()
    }

    fn kind(&self, number: u32) -> Result<KindRef, Malformed> {
        let kind = usize::try_from(number).ok().and_then(|number| self.kinds.get(number));
        kind.copied().ok_or_else(|| malformed(format!("there is no kind {number}")))
    }

    fn pod_key(&self, pod: &PodRef) -> Result<PodKey, Malformed> {
        match pod {
            PodRef::Key(key) => Ok(key.clone()),
            PodRef::Number(number) => match self.pods.get(number) {
                Some(pod) => Ok(pod.key.clone()),
                None => Err(malformed(format!("there is no pod {number}"))),
            },
        }
    }

    fn node_name(&self, node: &NodeRef) -> Result<Str, Malformed> {
        match node {
            NodeRef::Name(name) => Ok(name.clone()),
            NodeRef::Number(number) => match self.nodes.get(number) {
                Some(node) => Ok(node.name.clone()),
                None => Err(malformed(format!("there is no node {number}"))),
            },
        }
    }

    fn reply(&self, reply: ReplyForm) -> Result<ExtenderReply, Malformed> {
        Ok(match reply {
            ReplyForm::Filtered(passed, rejected) => {
                let passed = passed.iter().map(|node| self.node_name(node));
                let rejected = rejected.into_iter().map(|(node, code, reasons)| {
                    let reasons = reasons.into_iter().map(reason).collect();
                    let rejection = Rejection { code: rejection_code(code), reasons };
                    Ok((self.node_name(&node)?, rejection))
                });
                ExtenderReply::Filtered(Filtered {
                    passed: passed.collect::<Result<_, _>>()?,
                    rejected: rejected.collect::<Result<_, Malformed>>()?,
                })
            }
            ReplyForm::Prioritized(scores) => {
                let scores =
                    scores.into_iter().map(|(node, score)| Ok((self.node_name(&node)?, score)));
                ExtenderReply::Prioritized(scores.collect::<Result<_, Malformed>>()?)
            }
            ReplyForm::Preempting(candidates) => {
                let kept = candidates.into_iter().map(|(node, victims, broken_budgets)| {
                    Ok(KeptCandidate { node: self.node_name(&node)?, victims, broken_budgets })
                });
                ExtenderReply::Preempting(kept.collect::<Result<_, Malformed>>()?)
            }
            ReplyForm::Bound => ExtenderReply::Bound,
        })
    }

    fn text(&self, text: TextRef) -> Result<String, Malformed> {
        match text {
            TextRef::Number(number) => self.texts.get(number, "text"),
            TextRef::Text(text) => Ok(text),
        }
    }

    fn effect(&self, EffectForm(pod, what): EffectForm) -> Result<RecordedEffect, Malformed> {
        let what = match what {
            WhatForm::Bind(node) => What::Bind(self.node_name(&node)?),
            WhatForm::Write(what) => What::Write(what),
            WhatForm::Evict(victim) => What::Evict(self.pod_key(&victim)?),
            WhatForm::Nominate(node) => {
                What::Nominate(node.map(|node| self.node_name(&node)).transpose()?)
            }
            WhatForm::Condition(reason, text) => What::Condition(reason, self.text(text)?),
            WhatForm::Scheduled => What::Scheduled,
            WhatForm::Failed(text) => What::Failed(self.text(text)?),
            WhatForm::Event(reason, text) => What::Event(reason, self.text(text)?),
            WhatForm::Ask(extender, question) => What::Ask(extender, question),
        };
        Ok(RecordedEffect { pod: self.pod_key(&pod)?, what })
    }
}

fn manifest(kind: KindRef, version: &str, json: &str) -> Result<Event, Malformed> {
    let reader = kind.reader(version);
    let reader = reader.ok_or_else(|| Malformed::Kind {
        version: version.to_owned(),
        kind: kind.as_str().to_owned(),
    })?;
    let object = reader.read(json).map_err(|error| malformed(format!("{kind}: {error}")))?;
    Event::is(object).ok_or_else(|| malformed(format!("{kind}: is not read")))
}

fn waiting(pod: ObjectKey, plugin: Str, rejected: Option<ReasonForm>) -> WaitingDecision {
    match rejected {
        None => WaitingDecision::Allow { pod, plugin },
        Some(why) => WaitingDecision::Reject { pod, plugin, reason: reason(why) },
    }
}

fn write_cause(cause: CauseForm) -> WriteCause {
    match cause {
        CauseForm::NotFound => WriteCause::NotFound,
        CauseForm::AlreadyExists => WriteCause::AlreadyExists,
        CauseForm::Conflict => WriteCause::Conflict,
        CauseForm::Refused => WriteCause::Refused,
        CauseForm::TimedOut => WriteCause::TimedOut,
        CauseForm::Other => WriteCause::Other,
    }
}

fn rejection_code(code: CodeForm) -> Code {
    match code {
        CodeForm::Unschedulable => Code::Unschedulable,
        CodeForm::UnschedulableAndUnresolvable => Code::UnschedulableAndUnresolvable,
        CodeForm::Pending => Code::Pending,
        CodeForm::Error => Code::Error,
    }
}

fn reason(reason: ReasonForm) -> Reason {
    match reason {
        ReasonForm::Text(text) => text.into(),
        ReasonForm::Insufficient(resource) => Reason::Insufficient(resource),
    }
}
