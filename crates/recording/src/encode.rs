//! Encodes what enters a scheduler, and what it does.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;
use std::sync::Arc;

use plimsoll_api::{AnyObject, KindRef, Node, ObjectKey, Pod, PodKey, PodTemplate, Str, Timestamp};
use plimsoll_engine::extenders::KeptCandidate;
use plimsoll_engine::{Event, ExtenderReply, Observation, WriteCause};
use plimsoll_framework::{Code, Reason, Time, WaitingDecision};

use crate::effects::{RecordedEffect, What};
use crate::form::{
    CauseForm, CodeForm, EffectForm, Form, NUMBERED_TEXTS, NodeField, NodeRef, PodField, PodRef,
    ReasonForm, ReplyForm, TABLE_LIMIT, TextRef, WhatForm,
};
use crate::objects;

/// An object cannot be encoded: it was made by a program, of a kind that only manifests can say.
#[derive(Debug)]
pub(crate) struct Unwritable {
    pub(crate) kind: KindRef,
    pub(crate) key: ObjectKey,
}

/// Encodes entries. It knows the objects that exist, since it writes only what changes.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    /// What is encoded and not taken yet.
    bytes: Vec<u8>,
    now: Time,
    pods: BTreeMap<PodKey, (u32, Arc<Pod>)>,
    nodes: BTreeMap<Str, (u32, Node)>,
    objects: BTreeMap<(KindRef, ObjectKey), AnyObject>,
    /// Pods that are being bound and were not observed on their nodes yet.
    assumed: BTreeMap<PodKey, Str>,
    next_pod: u32,
    next_node: u32,
    templates: Numbered<PodTemplate>,
    texts: Numbered<str>,
    kinds: Vec<KindRef>,
    last_answer: u64,
    /// Steps that are not encoded yet.
    steps: u32,
}

/// Values that entries refer to by number: the last [`TABLE_LIMIT`] of them.
#[derive(Debug)]
struct Numbered<T: ?Sized> {
    numbers: HashMap<Arc<T>, u32>,
    order: VecDeque<Arc<T>>,
    next: u32,
}

impl<T: ?Sized> Default for Numbered<T> {
    fn default() -> Self {
        Numbered { numbers: HashMap::new(), order: VecDeque::new(), next: 0 }
    }
}

impl<T: ?Sized + Eq + Hash> Numbered<T> {
    /// Adds a value that is not there, and returns its number.
    fn add(&mut self, value: Arc<T>) -> u32 {
        if self.order.len() == TABLE_LIMIT
            && let Some(first) = self.order.pop_front()
        {
            self.numbers.remove(&first);
        }
        let number = self.next;
        self.next += 1;
        self.numbers.insert(value.clone(), number);
        self.order.push_back(value);
        number
    }
}

impl Encoder {
    /// An encoder for the next part. It begins with the objects that `self` knows.
    pub(crate) fn next_part(self) -> Result<Self, Unwritable> {
        let mut next = Encoder::default();
        next.put(&Form::PictureBegins);
        next.at(self.now);
        for object in self.objects.into_values() {
            next.event(&Event::object(object))?;
        }
        for (_, (_, node)) in self.nodes {
            next.event(&Event::Node(Box::new(Observation::Is(node))))?;
        }
        let mut pods: Vec<(u32, Arc<Pod>)> = self.pods.into_values().collect();
        pods.sort_unstable_by_key(|(number, _)| *number);
        for (_, pod) in pods {
            next.event(&Event::pod(pod))?;
        }
        next.put(&Form::PictureEnds);
        for (pod, node) in self.assumed {
            let form = Form::Assumed(next.pod_ref(&pod), next.node_ref(&node));
            next.put(&form);
            next.assumed.insert(pod, node);
        }
        Ok(next)
    }

    /// How many bytes are encoded and not taken yet.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nothing is encoded that was not taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.steps == 0
    }

    /// Takes what is encoded.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.put_steps();
        std::mem::take(&mut self.bytes)
    }

    /// An event was observed.
    pub(crate) fn observed(&mut self, now: Time, event: &Event) -> Result<(), Unwritable> {
        self.put_steps();
        self.at(now);
        self.event(event)
    }

    /// A step was made, with these effects. `digest` includes them.
    pub(crate) fn stepped(&mut self, now: Time, effects: &[RecordedEffect], digest: u64) {
        if now != self.now || self.steps == u32::MAX {
            self.put_steps();
            self.at(now);
        }
        self.steps += 1;
        self.effects(effects, digest);
    }

    /// `wind_up` was called, with these effects.
    pub(crate) fn wound_up(&mut self, now: Time, effects: &[RecordedEffect], digest: u64) {
        self.put_steps();
        self.at(now);
        self.put(&Form::WindUp);
        self.effects(effects, digest);
    }

    /// A waiting pod was allowed or rejected.
    pub(crate) fn waiting_pod(&mut self, decision: &WaitingDecision) {
        self.put_steps();
        let form = match decision {
            WaitingDecision::Allow { pod, plugin } => {
                Form::Waiting(pod.clone(), plugin.clone(), None)
            }
            WaitingDecision::Reject { pod, plugin, reason: why } => {
                Form::Waiting(pod.clone(), plugin.clone(), Some(reason(why)))
            }
        };
        self.put(&form);
    }

    /// An entry without content.
    pub(crate) fn mark(&mut self, form: &Form) {
        self.put_steps();
        self.put(form);
    }

    fn put_steps(&mut self) {
        if self.steps != 0 {
            let steps = std::mem::take(&mut self.steps);
            self.put(&Form::Steps(steps));
        }
    }

    fn put(&mut self, form: &Form) {
        let bytes = std::mem::take(&mut self.bytes);
        self.bytes =
            postcard::to_extend(form, bytes).expect("a vector takes all, and lengths are known");
    }

    fn at(&mut self, now: Time) {
        if now != self.now {
            self.put(&Form::Time(now.millis().wrapping_sub(self.now.millis())));
            self.now = now;
        }
    }

    fn event(&mut self, event: &Event) -> Result<(), Unwritable> {
        match event {
            Event::Pod(Observation::Is(pod)) => self.pod(pod),
            Event::Pod(Observation::Gone(key)) => {
                let gone = self.pod_ref(key);
                self.pods.remove(key);
                self.assumed.remove(key);
                self.put(&Form::PodGone(gone));
            }
            Event::Node(seen) => match &**seen {
                Observation::Is(node) => self.node(node),
                Observation::Gone(name) => {
                    let gone = self.node_ref(name);
                    self.nodes.remove(name);
                    self.put(&Form::NodeGone(gone));
                }
            },
            Event::Object(Observation::Is(object)) => self.object(object)?,
            Event::Object(Observation::Gone((kind, key))) => {
                self.objects.remove(&(*kind, key.clone()));
                let kind = self.kind(*kind);
                self.put(&Form::ObjectGone(kind, key.clone()));
            }
            Event::Done(id, answer) => {
                let id = self.answer_to(id.0);
                let error =
                    answer.as_ref().err().map(|error| (cause(error.cause), error.message.clone()));
                self.put(&Form::Done(id, error));
            }
            Event::Extended(id, reply) => {
                let id = self.answer_to(id.0);
                let reply = match reply {
                    Ok(reply) => Ok(self.reply(reply)),
                    Err(error) => Err(error.0.clone()),
                };
                self.put(&Form::Extended(id, reply));
            }
        }
        Ok(())
    }

    /// The id of an effect after that of the answer before.
    fn answer_to(&mut self, id: u64) -> i64 {
        let after = id.wrapping_sub(self.last_answer).cast_signed();
        self.last_answer = id;
        after
    }

    fn pod(&mut self, pod: &Arc<Pod>) {
        let known = self.pods.get(&pod.key).cloned();
        let (number, before) = known.unwrap_or_else(|| {
            let number = self.next_pod;
            self.next_pod += 1;
            (number, Arc::default())
        });
        let template = (!Arc::ptr_eq(&before.template, &pod.template)
            && before.template != pod.template)
            .then(|| self.template(&pod.template));
        let fields = self.pod_fields(&before, pod, template);
        if pod.node_name.is_some() {
            self.assumed.remove(&pod.key);
        }
        self.pods.insert(pod.key.clone(), (number, pod.clone()));
        self.put(&Form::Pod(number, fields));
    }

    fn pod_fields(&self, before: &Pod, pod: &Pod, template: Option<u32>) -> Vec<PodField> {
        let Pod {
            key,
            uid,
            annotations,
            created,
            deletion,
            started,
            phase,
            preempted,
            node_name,
            nominated_node,
            unreadable,
            // No decision depends on it.
            edition: _,
            resources,
            devices,
            template: _,
        } = pod;
        let now = self.now;
        let node = |name: &Option<Str>| name.as_ref().map(|name| self.node_ref(name));
        let mut fields = Vec::new();
        let mut add = |differs: bool, field: &dyn Fn() -> PodField| {
            if differs {
                fields.push(field());
            }
        };
        add(*key != before.key, &|| PodField::Key(key.clone()));
        add(*uid != before.uid, &|| PodField::Uid(uid.clone()));
        add(*annotations != before.annotations, &|| PodField::Annotations(annotations.clone()));
        add(*created != before.created, &|| PodField::Created(after(now, *created)));
        add(*deletion != before.deletion, &|| PodField::Deletion(after(now, *deletion)));
        add(*started != before.started, &|| PodField::Started(after(now, *started)));
        add(*phase != before.phase, &|| PodField::Phase(*phase));
        add(*preempted != before.preempted, &|| PodField::Preempted(*preempted));
        add(*node_name != before.node_name, &|| PodField::NodeName(node(node_name)));
        add(*nominated_node != before.nominated_node, &|| {
            PodField::NominatedNode(node(nominated_node))
        });
        add(*unreadable != before.unreadable, &|| {
            PodField::Unreadable(unreadable.as_deref().map(str::to_owned))
        });
        add(*resources != before.resources, &|| PodField::Resources(resources.clone()));
        add(*devices != before.devices, &|| PodField::Devices(devices.clone()));
        fields.extend(template.map(PodField::Template));
        fields
    }

    fn template(&mut self, template: &Arc<PodTemplate>) -> u32 {
        if let Some(number) = self.templates.numbers.get(template) {
            return *number;
        }
        self.put(&Form::Template(Box::new(PodTemplate::clone(template))));
        self.templates.add(template.clone())
    }

    fn text(&mut self, text: &str) -> TextRef {
        if let Some(number) = self.texts.numbers.get(text) {
            return TextRef::Number(*number);
        }
        self.put(&Form::Text(text.to_owned()));
        TextRef::Number(self.texts.add(text.into()))
    }

    fn node(&mut self, node: &Node) {
        let number = self.nodes.get(&node.name).map(|(number, _)| *number);
        let number = number.unwrap_or_else(|| {
            let number = self.next_node;
            self.next_node += 1;
            number
        });
        let fields = match self.nodes.get(&node.name) {
            Some((_, before)) => node_fields(self.now, before, node),
            None => node_fields(self.now, &Node::default(), node),
        };
        if !fields.is_empty() || !self.nodes.contains_key(&node.name) {
            self.nodes.insert(node.name.clone(), (number, node.clone()));
        }
        self.put(&Form::Node(number, fields));
    }

    fn object(&mut self, object: &AnyObject) -> Result<(), Unwritable> {
        let kind = object.kind();
        let form = if let Some(bytes) = objects::write(object) {
            Form::Object(self.kind(kind), bytes)
        } else if let Some((version, json)) = object.manifest() {
            Form::Manifest(self.kind(kind), version.to_owned(), json.to_owned())
        } else {
            return Err(Unwritable { kind, key: object.key() });
        };
        self.objects.insert((kind, object.key()), object.clone());
        self.put(&form);
        Ok(())
    }

    fn kind(&mut self, kind: KindRef) -> u32 {
        let known = self.kinds.iter().position(|known| *known == kind);
        let number = known.unwrap_or_else(|| {
            let version = kind.versions().first().copied().unwrap_or_default();
            self.put(&Form::Kind(version.to_owned(), kind.as_str().to_owned()));
            self.kinds.push(kind);
            self.kinds.len() - 1
        });
        u32::try_from(number).expect("there are few kinds")
    }

    fn pod_ref(&self, key: &PodKey) -> PodRef {
        match self.pods.get(key) {
            Some((number, _)) => PodRef::Number(*number),
            None => PodRef::Key(key.clone()),
        }
    }

    fn node_ref(&self, name: &Str) -> NodeRef {
        match self.nodes.get(name) {
            Some((number, _)) => NodeRef::Number(*number),
            None => NodeRef::Name(name.clone()),
        }
    }

    fn reply(&self, reply: &ExtenderReply) -> ReplyForm {
        match reply {
            ExtenderReply::Filtered(filtered) => {
                let rejected = filtered.rejected.iter().map(|(node, why)| {
                    (self.node_ref(node), code(why.code), why.reasons.iter().map(reason).collect())
                });
                let passed = filtered.passed.iter().map(|node| self.node_ref(node));
                ReplyForm::Filtered(passed.collect(), rejected.collect())
            }
            ExtenderReply::Prioritized(scores) => {
                let scores = scores.iter().map(|(node, score)| (self.node_ref(node), *score));
                ReplyForm::Prioritized(scores.collect())
            }
            ExtenderReply::Preempting(candidates) => {
                let kept =
                    candidates.iter().map(|KeptCandidate { node, victims, broken_budgets }| {
                        (self.node_ref(node), victims.clone(), *broken_budgets)
                    });
                ReplyForm::Preempting(kept.collect())
            }
            ExtenderReply::Bound => ReplyForm::Bound,
        }
    }

    fn effects(&mut self, effects: &[RecordedEffect], digest: u64) {
        if effects.is_empty() {
            return;
        }
        self.put_steps();
        let mut forms = Vec::with_capacity(effects.len());
        for (index, RecordedEffect { pod, what }) in effects.iter().enumerate() {
            let text = |encoder: &mut Self, text: &str| match index < NUMBERED_TEXTS {
                true => encoder.text(text),
                false => TextRef::Text(text.to_owned()),
            };
            let form = match what {
                What::Bind(node) => {
                    self.assumed.insert(pod.clone(), node.clone());
                    WhatForm::Bind(self.node_ref(node))
                }
                What::Write(what) => WhatForm::Write(what.clone()),
                What::Evict(victim) => WhatForm::Evict(self.pod_ref(victim)),
                What::Nominate(node) => {
                    WhatForm::Nominate(node.as_ref().map(|node| self.node_ref(node)))
                }
                What::Condition(reason, message) => {
                    WhatForm::Condition(reason.clone(), text(self, message))
                }
                What::Scheduled => WhatForm::Scheduled,
                What::Failed(note) => {
                    self.assumed.remove(pod);
                    WhatForm::Failed(text(self, note))
                }
                What::Event(reason, note) => WhatForm::Event(reason.clone(), text(self, note)),
                What::Ask(extender, question) => WhatForm::Ask(*extender, question.clone()),
            };
            forms.push(EffectForm(self.pod_ref(pod), form));
        }
        let [low, high, ..] = digest.to_le_bytes();
        self.put(&Form::Effects(forms, u16::from_le_bytes([low, high])));
    }
}

fn node_fields(now: Time, before: &Node, node: &Node) -> Vec<NodeField> {
    let Node {
        name,
        labels,
        annotations,
        avoided,
        taints,
        unschedulable,
        allocatable,
        images,
        declared_features,
        created,
    } = node;
    let mut fields = Vec::new();
    let mut add = |differs: bool, field: &dyn Fn() -> NodeField| {
        if differs {
            fields.push(field());
        }
    };
    add(*name != before.name, &|| NodeField::Name(name.clone()));
    add(*labels != before.labels, &|| NodeField::Labels(labels.clone()));
    add(*annotations != before.annotations, &|| NodeField::Annotations(annotations.clone()));
    add(*avoided != before.avoided, &|| NodeField::Avoided(avoided.clone()));
    add(*taints != before.taints, &|| NodeField::Taints(taints.clone()));
    add(*unschedulable != before.unschedulable, &|| NodeField::Unschedulable(*unschedulable));
    add(*allocatable != before.allocatable, &|| NodeField::Allocatable(allocatable.clone()));
    add(*images != before.images, &|| NodeField::Images(images.clone()));
    add(*declared_features != before.declared_features, &|| {
        NodeField::DeclaredFeatures(declared_features.clone())
    });
    add(*created != before.created, &|| NodeField::Created(after(now, *created)));
    fields
}

/// A time in seconds after `now`, and nanoseconds.
fn after(now: Time, time: Option<Timestamp>) -> Option<(i64, i32)> {
    time.map(|time| (time.as_second().wrapping_sub(seconds(now)), time.subsec_nanosecond()))
}

/// Whole seconds since 1970.
pub(crate) fn seconds(now: Time) -> i64 {
    now.millis().div_euclid(1000)
}

fn cause(cause: WriteCause) -> CauseForm {
    match cause {
        WriteCause::NotFound => CauseForm::NotFound,
        WriteCause::AlreadyExists => CauseForm::AlreadyExists,
        WriteCause::Conflict => CauseForm::Conflict,
        WriteCause::Refused => CauseForm::Refused,
        WriteCause::TimedOut => CauseForm::TimedOut,
        WriteCause::Other => CauseForm::Other,
    }
}

fn code(code: Code) -> CodeForm {
    match code {
        Code::Unschedulable => CodeForm::Unschedulable,
        Code::UnschedulableAndUnresolvable => CodeForm::UnschedulableAndUnresolvable,
        Code::Pending => CodeForm::Pending,
        Code::Error => CodeForm::Error,
    }
}

fn reason(reason: &Reason) -> ReasonForm {
    match reason {
        Reason::Text(text) => ReasonForm::Text((*text).to_owned()),
        Reason::Owned(text) => ReasonForm::Text(text.to_string()),
        Reason::Insufficient(resource) => ReasonForm::Insufficient(resource.clone()),
    }
}
