//! The entries of a recording as they are encoded, by postcard. The order of variants and fields is the format.

use plimsoll_api::devices::PodDevices;
use plimsoll_api::requests::PodResourcesInput;
use plimsoll_api::{
    AvoidedController, Labels, NodeImage, ObjectKey, PodPhase, PodTemplate, Resources, Str, Taint,
};
use serde::{Deserialize, Serialize};

/// The version of the format. Whatever changes an encoded byte, also in the types of `plimsoll-api`, raises it.
pub(crate) const FORMAT: u16 = 6;

/// Only the last 4,096 templates and texts can be referred to, so that neither the writer nor the reader needs memory for
/// all of a long recording.
pub(crate) const TABLE_LIMIT: usize = 4096;

/// Of an entry with many effects, only the first 1,024 refer to texts by number: fewer than the tables hold.
pub(crate) const NUMBERED_TEXTS: usize = 1024;

/// One entry. Numbers that a `Form` assigns (`Template`, `Text`, `Kind`, new pods and nodes) count up from 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Form {
    /// The time of the following entries, in milliseconds after the time before; the first is after 1970.
    Time(i64),
    /// The next template.
    Template(Box<PodTemplate>),
    /// The next text.
    Text(String),
    /// The next kind: its API version and name.
    Kind(String, String),
    /// A pod was seen. A number that is new is a new pod, which has the fields of an empty one.
    Pod(u32, Vec<PodField>),
    /// A pod is gone.
    PodGone(PodRef),
    /// A node was seen. A number that is new is a new node.
    Node(u32, Vec<NodeField>),
    /// A node is gone.
    NodeGone(NodeRef),
    /// An object of a kind of Kubernetes was seen.
    Object(u32, Vec<u8>),
    /// An object of another kind was seen: its API version and its JSON.
    Manifest(u32, String, String),
    /// An object is gone.
    ObjectGone(u32, ObjectKey),
    /// A write was answered: its id, after that of the answer before, and the error.
    Done(i64, Option<(CauseForm, String)>),
    /// An extender answered: the id of the question, after that of the answer before.
    Extended(i64, Result<ReplyForm, String>),
    /// A waiting pod was allowed or rejected by this plugin.
    Waiting(ObjectKey, Str, Option<ReasonForm>),
    /// So many steps.
    Steps(u32),
    /// A call of `wind_up`.
    WindUp,
    /// The effects of the step before, and the last 16 bits of the digest after them.
    Effects(Vec<EffectForm>, u16),
    /// The digest of all effects up to now.
    Digest(u64),
    /// The objects that follow are what was known when this part began.
    PictureBegins,
    /// The end of these objects.
    PictureEnds,
    /// When this part began, the pod was being bound to this node.
    Assumed(PodRef, NodeRef),
    /// Nothing follows: the scheduler was stopped in order.
    End,
    /// The recording goes on in the next part.
    Continues,
    /// The recording could not keep up, and ends here.
    Dropped,
}

/// A field of a pod that differs from before. Times are in seconds after that of the entry, and nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum PodField {
    Key(ObjectKey),
    Uid(Str),
    Annotations(Labels),
    Created(Option<(i64, i32)>),
    Deletion(Option<(i64, i32)>),
    Started(Option<(i64, i32)>),
    Phase(PodPhase),
    Preempted(bool),
    NodeName(Option<NodeRef>),
    NominatedNode(Option<NodeRef>),
    Unreadable(Option<String>),
    Resources(Option<Box<PodResourcesInput>>),
    Template(u32),
    Devices(Option<Box<PodDevices>>),
}

/// A field of a node that differs from before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum NodeField {
    Name(Str),
    Labels(Labels),
    Annotations(Labels),
    Avoided(Vec<AvoidedController>),
    Taints(Vec<Taint>),
    Unschedulable(bool),
    Allocatable(Resources),
    Images(Vec<NodeImage>),
    DeclaredFeatures(Vec<Str>),
    Created(Option<(i64, i32)>),
}

/// A pod: by its number, or by its key if it has none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum PodRef {
    Number(u32),
    Key(ObjectKey),
}

/// A node: by its number, or by its name if it has none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum NodeRef {
    Number(u32),
    Name(Str),
}

/// A text: by its number, or as it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum TextRef {
    Number(u32),
    Text(String),
}

/// An effect: the pod, and what is done for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct EffectForm(pub(crate) PodRef, pub(crate) WhatForm);

/// What is done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum WhatForm {
    Bind(NodeRef),
    Write(String),
    Evict(PodRef),
    Nominate(Option<NodeRef>),
    Condition(Str, TextRef),
    Scheduled,
    Failed(TextRef),
    Event(Str, TextRef),
    Ask(u32, Str),
}

/// The cause of a failed write.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum CauseForm {
    NotFound,
    AlreadyExists,
    Conflict,
    Refused,
    TimedOut,
    Other,
}

/// The answer of an extender.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum ReplyForm {
    Filtered(Vec<NodeRef>, Vec<(NodeRef, CodeForm, Vec<ReasonForm>)>),
    Prioritized(Vec<(NodeRef, i64)>),
    /// The nodes, with the uids of the victims, and how many budgets are broken.
    Preempting(Vec<(NodeRef, Vec<Str>, i64)>),
    Bound,
}

/// The code of a rejection.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum CodeForm {
    Unschedulable,
    UnschedulableAndUnresolvable,
    Pending,
    Error,
}

/// A reason.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum ReasonForm {
    Text(String),
    Insufficient(Str),
}
