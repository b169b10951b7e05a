//! A writer with a scripted API server.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use plimsoll_api::{Pod, PodKey, PodTemplate};
use plimsoll_engine::{Condition, Effect, EffectId, Write, WriteError};
use plimsoll_framework::Binding;
use tokio::sync::mpsc;

use super::super::{Options, Writer};
use crate::events::{EventRecorder, Occurrence};
use crate::fake::FakeApiServer;

/// Events that were recorded.
#[derive(Debug, Default)]
pub(super) struct EventLog(pub(super) Mutex<Vec<Occurrence>>);

impl EventRecorder for EventLog {
    fn record(&self, occurrence: Occurrence) {
        self.0.lock().expect("no test panics in it").push(occurrence);
    }
}

/// A writer and the results of its work.
pub(super) struct WriterFixture {
    pub(super) writer: Writer,
    pub(super) fake: FakeApiServer,
    pub(super) events: Arc<EventLog>,
    answers: mpsc::UnboundedReceiver<(EffectId, Result<(), WriteError>)>,
}

impl WriterFixture {
    pub(super) fn new(fake: FakeApiServer) -> Self {
        WriterFixture::with(fake, |_| {})
    }

    pub(super) fn with(fake: FakeApiServer, change: impl FnOnce(&mut Options)) -> Self {
        let events = Arc::new(EventLog::default());
        let mut options = Options::new(events.clone());
        change(&mut options);
        let (sender, answers) = mpsc::unbounded_channel();
        let writer = Writer::new(fake.client(), options, sender);
        WriterFixture { writer, fake, events, answers }
    }

    /// The next answer: the number of the effect, and the error if it is one.
    pub(super) async fn answer(&mut self) -> (u64, Result<(), String>) {
        let (id, answer) = self.answers.recv().await.expect("the writer is there");
        (id.0, answer.map_err(|error| error.message))
    }

    /// Performs one effect, and waits for its answer.
    pub(super) async fn answer_to(&mut self, effect: Effect) -> Result<(), String> {
        let id = effect.id.0;
        self.writer.perform(vec![effect]);
        let (answered, answer) = self.answer().await;
        assert_eq!(answered, id);
        answer
    }

    /// Waits until everything is done; no unread answer may be left.
    pub(super) async fn rest(&mut self) {
        self.writer.finish(Duration::from_mins(10)).await;
        assert!(self.answers.try_recv().is_err(), "nobody awaits a further answer");
    }
}

pub(super) fn pod(name: &str) -> Arc<Pod> {
    let template = PodTemplate { scheduler_name: "lab".into(), ..PodTemplate::default() };
    let pod = Pod::new(PodKey::new("ns", name), template);
    Arc::new(Pod { uid: format!("uid-{name}").into(), ..pod })
}

pub(super) fn effect(id: u64, pod: &Arc<Pod>, write: Write) -> Effect {
    Effect { id: EffectId(id), pod: pod.clone(), write }
}

pub(super) fn bind(id: u64, name: &str, node: &str) -> Effect {
    effect(id, &pod(name), Write::Bind(Binding { node: node.into() }))
}

pub(super) fn condition(id: u64, name: &str, message: &str) -> Effect {
    let condition = Condition { reason: "Unschedulable", message: message.to_owned() };
    effect(id, &pod(name), Write::Condition(condition))
}

pub(super) fn nominate(id: u64, name: &str, node: Option<&str>) -> Effect {
    effect(id, &pod(name), Write::Nominate(node.map(Into::into)))
}
