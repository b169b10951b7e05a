//! Events: everything that can happen, in one closed list.

use std::sync::Arc;

use plimsoll_api::wire::Object;
use plimsoll_api::{AnyObject, KindRef, Node, ObjectKey, Pod, PodKey, Str};

use plimsoll_framework::WriteError;

use crate::effect::EffectId;
use crate::extenders::{ExtenderError, ExtenderReply};

/// An observation of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation<T, K> {
    /// The object exists in this state: created, changed or unchanged.
    Is(T),
    /// The object is deleted.
    Gone(K),
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A pod.
    Pod(Observation<Arc<Pod>, PodKey>),
    /// A node.
    Node(Box<Observation<Node, Str>>),
    /// An object of another kind.
    Object(Observation<AnyObject, (KindRef, ObjectKey)>),
    /// A write was answered. Answers to writes that are not awaited any more are ignored.
    Done(EffectId, Result<(), WriteError>),
    /// An extender has answered or failed. Answers that are not awaited any more are ignored.
    Extended(EffectId, Result<ExtenderReply, ExtenderError>),
}

impl Event {
    /// An object was seen; `None` for one of a kind that is not read.
    pub fn is(object: Object) -> Option<Self> {
        match object {
            Object::Pod(pod) => Some(Event::pod(*pod)),
            Object::Node(node) => Some(Event::Node(Box::new(Observation::Is(*node)))),
            Object::Other(object) => Some(Event::object(object)),
            Object::Unknown { .. } => None,
        }
    }

    /// An object is gone.
    pub fn gone(kind: KindRef, key: ObjectKey) -> Self {
        if kind.is::<Pod>() {
            Event::pod_gone(key)
        } else if kind.is::<Node>() {
            Event::Node(Box::new(Observation::Gone(key.name)))
        } else {
            Event::Object(Observation::Gone((kind, key)))
        }
    }

    /// An object that is neither pod nor node was seen.
    pub fn object(object: impl Into<AnyObject>) -> Self {
        Event::Object(Observation::Is(object.into()))
    }

    /// A pod was seen.
    pub fn pod(pod: impl Into<Arc<Pod>>) -> Self {
        Event::Pod(Observation::Is(pod.into()))
    }

    /// A pod was deleted.
    pub fn pod_gone(pod: PodKey) -> Self {
        Event::Pod(Observation::Gone(pod))
    }
}
