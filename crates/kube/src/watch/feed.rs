//! From objects to what the engine hears: events in batches, through a channel that may be full.

use std::sync::Arc;

use plimsoll_api::wire::Object;
use plimsoll_api::{ObjectKey, SelectingKind, Templates, VolumeKind};
use plimsoll_engine::{Event, Seen};
use tokio::sync::mpsc::Sender;

use crate::kinds::Kind;
use crate::originals::Kept;

/// How many events are handed over at once, at most.
const BATCH: usize = 256;

/// Nobody takes events in any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Closed;

/// Where the events of one kind go.
#[derive(Debug)]
pub(super) struct Feed {
    kind: Kind,
    events: Sender<Vec<Event>>,
    batch: Vec<Event>,
    templates: Templates,
    originals: Option<Arc<Kept>>,
}

impl Feed {
    pub(super) fn new(
        kind: Kind,
        events: Sender<Vec<Event>>,
        originals: Option<Arc<Kept>>,
    ) -> Self {
        Feed { kind, events, batch: Vec::new(), templates: Templates::default(), originals }
    }

    /// An object is as `object` says, which was read from `json`.
    pub(super) fn is(&mut self, mut object: Object, json: &str) {
        if let Object::Pod(pod) = &mut object {
            self.templates.share(pod);
        }
        if let Some(kept) = &self.originals {
            match &object {
                Object::Pod(pod) => kept.pod_is(pod.key.clone(), json),
                Object::Node(node) => kept.node_is(node.name.clone(), json),
                _ => (),
            }
        }
        self.batch.extend(is(object));
    }

    /// An object is gone.
    pub(super) fn gone(&mut self, key: ObjectKey) {
        if let Some(kept) = &self.originals {
            match self.kind {
                Kind::Pod => kept.pod_gone(&key),
                Kind::Node => kept.node_gone(&key.name),
                _ => (),
            }
        }
        self.batch.push(gone(self.kind, key));
    }

    /// Whether enough has come together to be handed over.
    pub(super) fn is_full(&self) -> bool {
        BATCH <= self.batch.len()
    }

    /// Hands over what has come together. Waits while the channel is full.
    pub(super) async fn flush(&mut self) -> Result<(), Closed> {
        if self.batch.is_empty() {
            return Ok(());
        }
        self.events.send(std::mem::take(&mut self.batch)).await.map_err(|_| Closed)
    }
}

fn is(object: Object) -> Option<Event> {
    Some(match object {
        Object::Pod(pod) => Event::Pod(Seen::Is(Arc::new(*pod))),
        Object::Node(node) => Event::Node(Box::new(Seen::Is(*node))),
        Object::Namespace(namespace) => Event::Namespace(Seen::Is(namespace)),
        Object::Selecting(selecting) => Event::Selecting(Seen::Is(selecting)),
        Object::Volume(volume) => Event::Volume(Box::new(Seen::Is(*volume))),
        Object::Budget(budget) => Event::Budget(Seen::Is(budget)),
        // A reader reads its own kind only.
        Object::Unknown { .. } => return None,
    })
}

fn gone(kind: Kind, key: ObjectKey) -> Event {
    let selecting = |kind, key| Event::Selecting(Seen::Gone((kind, key)));
    let volume = |kind, key| Event::Volume(Box::new(Seen::Gone((kind, key))));
    match kind {
        Kind::Pod => Event::Pod(Seen::Gone(key)),
        Kind::Node => Event::Node(Box::new(Seen::Gone(key.name))),
        Kind::Namespace => Event::Namespace(Seen::Gone(key.name)),
        Kind::Service => selecting(SelectingKind::Service, key),
        Kind::ReplicationController => selecting(SelectingKind::ReplicationController, key),
        Kind::ReplicaSet => selecting(SelectingKind::ReplicaSet, key),
        Kind::StatefulSet => selecting(SelectingKind::StatefulSet, key),
        Kind::PersistentVolume => volume(VolumeKind::PersistentVolume, key),
        Kind::PersistentVolumeClaim => volume(VolumeKind::PersistentVolumeClaim, key),
        Kind::StorageClass => volume(VolumeKind::StorageClass, key),
        Kind::CsiNode => volume(VolumeKind::CsiNode, key),
        Kind::CsiDriver => volume(VolumeKind::CsiDriver, key),
        Kind::CsiStorageCapacity => volume(VolumeKind::CsiStorageCapacity, key),
        Kind::VolumeAttachment => volume(VolumeKind::VolumeAttachment, key),
        Kind::PodDisruptionBudget => Event::Budget(Seen::Gone(key)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_api::wire::Reader;

    /// What the engine hears first of an object of each kind, and of its end, is about the same thing.
    #[test]
    fn an_object_that_is_gone_has_the_key_it_came_with() {
        for kind in Kind::all() {
            let namespace = if kind.is_namespaced() { "b" } else { "" };
            let json = format!(r#"{{"metadata":{{"name":"a","namespace":"{namespace}"}}}}"#);
            let reader = Reader::of(kind.versions()[0], kind.as_str()).expect("it is read");
            let came = is(reader.read(&json).expect("it is right")).expect("its kind is known");
            let went = gone(kind, ObjectKey::new(namespace, "a"));
            assert_eq!(key(&came), key(&went), "{kind}");
        }
    }

    fn key(event: &Event) -> String {
        match event {
            Event::Pod(Seen::Is(pod)) => format!("pod {}", pod.key),
            Event::Pod(Seen::Gone(key)) => format!("pod {key}"),
            Event::Node(node) => match &**node {
                Seen::Is(node) => format!("node {}", node.name),
                Seen::Gone(name) => format!("node {name}"),
            },
            Event::Namespace(Seen::Is(namespace)) => format!("namespace {}", namespace.name),
            Event::Namespace(Seen::Gone(name)) => format!("namespace {name}"),
            Event::Selecting(Seen::Is(one)) => format!("{} {}", one.kind.as_str(), one.key),
            Event::Selecting(Seen::Gone((kind, key))) => format!("{} {key}", kind.as_str()),
            Event::Volume(volume) => match &**volume {
                Seen::Is(volume) => format!("{} {}", volume.kind(), volume.key()),
                Seen::Gone((kind, key)) => format!("{kind} {key}"),
            },
            Event::Budget(Seen::Is(budget)) => format!("budget {}", budget.key),
            Event::Budget(Seen::Gone(key)) => format!("budget {key}"),
            Event::Done(..) | Event::Extended(..) => "done".to_owned(),
        }
    }
}
