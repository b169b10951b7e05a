//! Questions to an engine that runs on its own thread.

use plimsoll_api::PodKey;
use plimsoll_engine::Scheduler;
use plimsoll_engine::metrics::Family;
use plimsoll_framework::{PodInfo, Time};
use tokio::sync::{mpsc, oneshot};

use super::inside::{Explained, Silent};

/// At most this many questions wait for the engine. This is more than the number of concurrent
/// requests.
const QUESTIONS: usize = 64;

/// The longest text about nodes, pods and the queue, in bytes: enough for 100,000 pods.
const DUMP_BYTES: usize = 16 * 1024 * 1024;

/// A question to the engine, with the channel for its answer.
#[derive(Debug)]
pub struct Question(Kind);

#[derive(Debug)]
enum Kind {
    Metrics(oneshot::Sender<Vec<Family>>),
    ResetMetrics(oneshot::Sender<()>),
    Explain(PodKey, oneshot::Sender<Explained>),
    Pods(oneshot::Sender<Vec<PodInfo>>),
    Dump(oneshot::Sender<String>),
}

impl Question {
    /// Answers the question. This decides nothing, and changes nothing except counters. The client may
    /// already be gone.
    pub fn answer(self, now: Time, scheduler: &mut Scheduler) {
        match self.0 {
            Kind::Metrics(to) => drop(to.send(scheduler.metrics())),
            Kind::ResetMetrics(to) => {
                scheduler.reset_metrics();
                let _ = to.send(());
            }
            // The most expensive question: skip it if nobody waits for the answer any more.
            Kind::Explain(_, to) if to.is_closed() => {}
            Kind::Explain(pod, to) => drop(to.send(explain(scheduler, &pod))),
            Kind::Pods(to) => drop(to.send(scheduler.pods().cloned().collect())),
            Kind::Dump(to) => drop(to.send(scheduler.dump(now, DUMP_BYTES))),
        }
    }
}

fn explain(scheduler: &Scheduler, pod: &PodKey) -> Explained {
    match scheduler.explain(pod) {
        Some(decision) => Explained::Decision(Box::new(decision)),
        None if scheduler.knows_pod(pod) => Explained::Placed,
        None => Explained::Unknown,
    }
}

/// Sends questions. The engine's thread receives them and answers each with [`Question::answer`].
#[derive(Clone, Debug)]
pub struct Desk {
    questions: mpsc::Sender<Question>,
}

impl Desk {
    /// A desk, and the receiver for the engine's thread.
    pub fn new() -> (Self, mpsc::Receiver<Question>) {
        let (questions, taken) = mpsc::channel(QUESTIONS);
        (Desk { questions }, taken)
    }

    /// All metrics of the engine.
    pub async fn metrics(&self) -> Result<Vec<Family>, Silent> {
        self.ask(Kind::Metrics).await
    }

    /// Resets the metrics of the engine.
    pub async fn reset_metrics(&self) -> Result<(), Silent> {
        self.ask(Kind::ResetMetrics).await
    }

    /// What would be decided about a pending pod, and why.
    pub async fn explain(&self, pod: PodKey) -> Result<Explained, Silent> {
        self.ask(|to| Kind::Explain(pod, to)).await
    }

    /// All known pods.
    pub async fn pods(&self) -> Result<Vec<PodInfo>, Silent> {
        self.ask(Kind::Pods).await
    }

    /// The engine's view of the cluster, as text for people.
    pub async fn dump(&self) -> Result<String, Silent> {
        self.ask(Kind::Dump).await
    }

    async fn ask<T>(&self, kind: impl FnOnce(oneshot::Sender<T>) -> Kind) -> Result<T, Silent> {
        let (to, answer) = oneshot::channel();
        self.questions.send(Question(kind(to))).await.map_err(|_| Silent)?;
        answer.await.map_err(|_| Silent)
    }
}
