//! Questions to an engine on a thread of its own.

use plimsoll_api::PodKey;
use plimsoll_engine::Scheduler;
use plimsoll_engine::metrics::Family;
use plimsoll_framework::{PodInfo, Time};
use tokio::sync::{mpsc, oneshot};

use super::inside::{Explained, Silent};

/// How many questions may wait for the engine: more than there are requests at once.
const QUESTIONS: usize = 64;

/// The longest text about nodes, pods and the queue, in bytes: 100,000 pods have room in it.
const DUMP_BYTES: usize = 16 * 1024 * 1024;

/// A question to the engine, with where the answer goes.
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
    /// Answers it. Nothing is decided and nothing changes but what is counted. Who asked may have gone.
    pub fn answer(self, now: Time, scheduler: &mut Scheduler) {
        match self.0 {
            Kind::Metrics(to) => drop(to.send(scheduler.metrics())),
            Kind::ResetMetrics(to) => {
                scheduler.reset_metrics();
                let _ = to.send(());
            }
            // The most expensive one: not worth it if nobody listens any more.
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

/// Where questions are asked. The engine's thread takes them from the other end and answers each with
/// [`Question::answer`].
#[derive(Clone, Debug)]
pub struct Desk {
    questions: mpsc::Sender<Question>,
}

impl Desk {
    /// A desk, and the end from which the engine's thread takes questions.
    pub fn new() -> (Self, mpsc::Receiver<Question>) {
        let (questions, taken) = mpsc::channel(QUESTIONS);
        (Desk { questions }, taken)
    }

    /// All that the engine has counted.
    pub async fn metrics(&self) -> Result<Vec<Family>, Silent> {
        self.ask(Kind::Metrics).await
    }

    /// Lets the engine begin to count anew.
    pub async fn reset_metrics(&self) -> Result<(), Silent> {
        self.ask(Kind::ResetMetrics).await
    }

    /// What would be decided about a pending pod, and why.
    pub async fn explain(&self, pod: PodKey) -> Result<Explained, Silent> {
        self.ask(|to| Kind::Explain(pod, to)).await
    }

    /// Every pod that is known.
    pub async fn pods(&self) -> Result<Vec<PodInfo>, Silent> {
        self.ask(Kind::Pods).await
    }

    /// What the engine knows of the cluster, as text for people.
    pub async fn dump(&self) -> Result<String, Silent> {
        self.ask(Kind::Dump).await
    }

    async fn ask<T>(&self, kind: impl FnOnce(oneshot::Sender<T>) -> Kind) -> Result<T, Silent> {
        let (to, answer) = oneshot::channel();
        self.questions.send(Question(kind(to))).await.map_err(|_| Silent)?;
        answer.await.map_err(|_| Silent)
    }
}
