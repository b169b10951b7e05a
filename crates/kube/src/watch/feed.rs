//! Collects events in batches, and sends them to the engine through a bounded channel.

use std::sync::Arc;

use plimsoll_api::wire::{Object, Reader};
use plimsoll_api::{KindRef, Node, ObjectKey, Pod, Templates};
use plimsoll_engine::Event;
use tokio::sync::mpsc::Sender;

use crate::follow::ManifestTape;
use crate::originals::OriginalStore;

/// The maximum number of events in a batch.
const BATCH: usize = 256;

/// The receiver of the events was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Closed;

/// Sends the events of one kind.
#[derive(Debug)]
pub(super) struct Feed {
    kind: KindRef,
    events: Sender<Vec<Event>>,
    batch: Vec<Event>,
    templates: Templates,
    originals: Option<Arc<OriginalStore>>,
    manifests: Option<Arc<ManifestTape>>,
}

impl Feed {
    pub(super) fn new(
        kind: KindRef,
        events: Sender<Vec<Event>>,
        originals: Option<Arc<OriginalStore>>,
        manifests: Option<Arc<ManifestTape>>,
    ) -> Self {
        let (batch, templates) = (Vec::new(), Templates::default());
        Feed { kind, events, batch, templates, originals, manifests }
    }

    /// Adds an event: `object`, which `reader` has read from `json`, is new or has changed.
    pub(super) fn apply(&mut self, mut object: Object, json: &str, reader: Reader) {
        if let Object::Pod(pod) = &mut object {
            self.templates.share(pod);
        }
        if let Some(originals) = &self.originals {
            match &object {
                Object::Pod(pod) => originals.set_pod(pod.key.clone(), json),
                Object::Node(node) => originals.set_node(node.name.clone(), json),
                _ => (),
            }
        }
        let Some(event) = Event::is(object) else { return };
        if let Some(manifests) = &self.manifests {
            manifests.push(self.kind, reader, json);
        }
        self.batch.push(event);
    }

    /// Adds an event: an object was deleted.
    pub(super) fn delete(&mut self, key: ObjectKey) {
        if let Some(originals) = &self.originals {
            if self.kind.is::<Pod>() {
                originals.remove_pod(&key);
            } else if self.kind.is::<Node>() {
                originals.remove_node(&key.name);
            }
        }
        self.batch.push(Event::gone(self.kind, key));
    }

    /// Whether the batch is full.
    pub(super) fn is_full(&self) -> bool {
        BATCH <= self.batch.len()
    }

    /// Sends the batch. Waits while the channel is full.
    pub(super) async fn flush(&mut self) -> Result<(), Closed> {
        if self.batch.is_empty() {
            return Ok(());
        }
        self.events.send(std::mem::take(&mut self.batch)).await.map_err(|_| Closed)
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_api::Kinds;
    use plimsoll_engine::Observation;

    use super::*;

    #[test]
    fn the_events_of_an_object_have_the_same_key_from_creation_to_deletion() {
        let kinds = Kinds::built_in();
        for kind in kinds.iter() {
            let namespace = if kind.is_namespaced() { "b" } else { "" };
            // What some kinds must have; the others pass over it.
            let spec = r#"{"schedulingPolicy":{"basic":{}},"driver":"d","nodeName":"n","pool":{"name":"p","generation":1,"resourceSliceCount":1}}"#;
            let json =
                format!(r#"{{"metadata":{{"name":"a","namespace":"{namespace}"}},"spec":{spec}}}"#);
            let reader = kinds.reader(kind.versions()[0], kind.as_str()).expect("it is read");
            let object = reader.read(&json).expect("it is right");
            let added = Event::is(object).expect("its kind is known");
            let deleted = Event::gone(kind, ObjectKey::new(namespace, "a"));
            assert_eq!(key(&added), key(&deleted), "{kind}");
        }
    }

    fn key(event: &Event) -> String {
        match event {
            Event::Pod(Observation::Is(pod)) => format!("pod {}", pod.key),
            Event::Pod(Observation::Gone(key)) => format!("pod {key}"),
            Event::Node(node) => match &**node {
                Observation::Is(node) => format!("node {}", node.name),
                Observation::Gone(name) => format!("node {name}"),
            },
            Event::Object(Observation::Is(object)) => {
                format!("{} {}", object.kind(), object.key())
            }
            Event::Object(Observation::Gone((kind, key))) => format!("{kind} {key}"),
            Event::Done(..) | Event::Extended(..) => "done".to_owned(),
        }
    }
}
