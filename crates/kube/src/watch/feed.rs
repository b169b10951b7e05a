//! From objects to what the engine hears: events in batches, through a channel that may be full.

use std::sync::Arc;

use plimsoll_api::wire::Object;
use plimsoll_api::{KindRef, Node, ObjectKey, Pod, Templates};
use plimsoll_engine::Event;
use tokio::sync::mpsc::Sender;

use crate::originals::Kept;

/// How many events are handed over at once, at most.
const BATCH: usize = 256;

/// Nobody takes events in any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Closed;

/// Where the events of one kind go.
#[derive(Debug)]
pub(super) struct Feed {
    kind: KindRef,
    events: Sender<Vec<Event>>,
    batch: Vec<Event>,
    templates: Templates,
    originals: Option<Arc<Kept>>,
}

impl Feed {
    pub(super) fn new(
        kind: KindRef,
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
        self.batch.extend(Event::is(object));
    }

    /// An object is gone.
    pub(super) fn gone(&mut self, key: ObjectKey) {
        if let Some(kept) = &self.originals {
            if self.kind.is::<Pod>() {
                kept.pod_gone(&key);
            } else if self.kind.is::<Node>() {
                kept.node_gone(&key.name);
            }
        }
        self.batch.push(Event::gone(self.kind, key));
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

#[cfg(test)]
mod tests {
    use plimsoll_api::Kinds;
    use plimsoll_engine::Observation;

    use super::*;

    /// What the engine hears first of an object of each kind, and of its end, is about the same thing.
    #[test]
    fn an_object_that_is_gone_has_the_key_it_came_with() {
        let kinds = Kinds::built_in();
        for kind in kinds.iter() {
            let namespace = if kind.is_namespaced() { "b" } else { "" };
            let json = format!(r#"{{"metadata":{{"name":"a","namespace":"{namespace}"}}}}"#);
            let reader = kinds.reader(kind.versions()[0], kind.as_str()).expect("it is read");
            let object = reader.read(&json).expect("it is right");
            let came = Event::is(object).expect("its kind is known");
            let went = Event::gone(kind, ObjectKey::new(namespace, "a"));
            assert_eq!(key(&came), key(&went), "{kind}");
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
            Event::Object(Observation::Is(object)) => format!("{} {}", object.kind(), object.key()),
            Event::Object(Observation::Gone((kind, key))) => format!("{kind} {key}"),
            Event::Done(..) | Event::Extended(..) => "done".to_owned(),
        }
    }
}
