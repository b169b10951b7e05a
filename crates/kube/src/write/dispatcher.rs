//! The task that queues writes and passes on their results.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use plimsoll_api::PodKey;
use plimsoll_engine::{Effect, EffectId, WriteError};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{Id, JoinError, JoinSet};

use super::LoadMeter;
use super::job::{EffectAction, WriteJob};
use super::queues::PodWriteQueues;
use super::sender::RequestSender;

/// The most writes that may wait. A scheduler that respects [`Writer::load`](super::Writer::load) never
/// reaches this.
const QUEUE_LIMIT: usize = 200_000;

const STOPPED: &str = "the scheduler has stopped writing";
const TOO_MUCH: &str = "too many writes are waiting";

/// A command to the dispatcher.
#[derive(Debug)]
pub(super) enum WriteCommand {
    /// Perform these effects.
    Perform(Vec<Effect>),
    /// Abort everything.
    Stop,
    /// Accept no more effects, and reply when all are done.
    Finish(oneshot::Sender<()>),
}

type WriteResult = (EffectId, Result<(), WriteError>);

/// Queues writes and starts them.
pub(super) struct WriteDispatcher {
    sender: Arc<RequestSender>,
    meter: Arc<LoadMeter>,
    commands: mpsc::UnboundedReceiver<WriteCommand>,
    answers: mpsc::UnboundedSender<WriteResult>,
    queues: PodWriteQueues,
    tasks: JoinSet<Result<(), WriteError>>,
    running: HashMap<Id, (PodKey, Option<EffectId>)>,
    is_closed: bool,
    finishing: Vec<oneshot::Sender<()>>,
}

impl WriteDispatcher {
    pub(super) fn new(
        sender: Arc<RequestSender>,
        meter: Arc<LoadMeter>,
        commands: mpsc::UnboundedReceiver<WriteCommand>,
        answers: mpsc::UnboundedSender<WriteResult>,
    ) -> Self {
        let queues = PodWriteQueues::new(sender.options().in_flight);
        WriteDispatcher {
            sender,
            meter,
            commands,
            answers,
            queues,
            tasks: JoinSet::new(),
            running: HashMap::new(),
            is_closed: false,
            finishing: Vec::new(),
        }
    }

    /// Runs until the writer is dropped.
    pub(super) async fn run(mut self) {
        loop {
            while let Some(job) = self.queues.pop() {
                self.begin(job);
            }
            self.report_load();
            tokio::select! {
                command = self.commands.recv() => match command {
                    Some(command) => self.execute(command),
                    None => break,
                },
                Some(done) = self.tasks.join_next_with_id() => self.end(done),
            }
            while let Some(done) = self.tasks.try_join_next_with_id() {
                self.end(done);
            }
        }
        self.sender.close();
        self.stop();
        while let Some(done) = self.tasks.join_next_with_id().await {
            self.end(done);
        }
    }

    fn execute(&mut self, command: WriteCommand) {
        match command {
            WriteCommand::Perform(effects) => {
                let n = effects.len();
                for effect in effects {
                    self.enqueue(effect);
                }
                self.meter.submitted.fetch_sub(n, Ordering::AcqRel);
            }
            WriteCommand::Stop => self.stop(),
            WriteCommand::Finish(done) => {
                self.is_closed = true;
                self.finishing.push(done);
            }
        }
    }

    fn enqueue(&mut self, effect: Effect) {
        match EffectAction::of(effect, self.sender.options().patience) {
            // Events are recorded until the end, since they say what was done.
            EffectAction::Event(occurrence) => self.sender.options().events.record(*occurrence),
            EffectAction::Elsewhere => {}
            EffectAction::Write(job) if self.is_closed => self.refuse(&job, STOPPED),
            EffectAction::Write(job) if QUEUE_LIMIT <= self.queues.n_queued() => {
                self.refuse(&job, TOO_MUCH);
            }
            EffectAction::Write(job) => self.queues.push(job),
        }
    }

    fn begin(&mut self, job: WriteJob) {
        let (key, awaited) = (job.about().clone(), job.awaited());
        let sender = self.sender.clone();
        let task = self.tasks.spawn(async move { sender.perform(job).await });
        self.running.insert(task.id(), (key, awaited));
    }

    fn end(&mut self, done: Result<(Id, Result<(), WriteError>), JoinError>) {
        let (id, answer) = match done {
            Ok(done) => done,
            Err(error) if error.is_cancelled() => (error.id(), Err(WriteError::other(STOPPED))),
            Err(error) => {
                (error.id(), Err(WriteError::other(format!("the write broke off: {error}"))))
            }
        };
        let Some((key, awaited)) = self.running.remove(&id) else { return };
        self.queues.done(&key);
        self.answer(awaited, answer);
    }

    fn stop(&mut self) {
        self.is_closed = true;
        for job in self.queues.clear() {
            self.refuse(&job, STOPPED);
        }
        self.tasks.abort_all();
    }

    fn refuse(&self, job: &WriteJob, why: &str) {
        self.answer(job.awaited(), Err(WriteError::other(why)));
    }

    fn answer(&self, awaited: Option<EffectId>, answer: Result<(), WriteError>) {
        if let Some(id) = awaited {
            // If the receiver is dropped, the process is about to end.
            let _ = self.answers.send((id, answer));
        }
    }

    fn report_load(&mut self) {
        self.meter.queued.store(self.queues.n_queued(), Ordering::SeqCst);
        self.meter.in_flight.store(self.queues.n_running(), Ordering::Release);
        self.meter.notify();
        if self.queues.n_queued() == 0 && self.queues.n_running() == 0 {
            for done in self.finishing.drain(..) {
                // An error means that nobody waits for it any more.
                let _ = done.send(());
            }
        }
    }
}
