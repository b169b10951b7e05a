//! The task that queues writes and passes on their results.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use plimsoll_api::PodKey;
use plimsoll_engine::{Effect, EffectId, WriteError};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{Id, JoinError, JoinSet};

use super::Meter;
use super::courier::Courier;
use super::job::{Job, Work};
use super::lanes::Lanes;

/// The most writes that may wait. A scheduler that respects [`Writer::load`](super::Writer::load) never
/// reaches this.
const QUEUE_LIMIT: usize = 200_000;

const STOPPED: &str = "the scheduler has stopped writing";
const TOO_MUCH: &str = "too many writes are waiting";

/// A command to the desk.
#[derive(Debug)]
pub(super) enum Order {
    /// Perform these effects.
    Perform(Vec<Effect>),
    /// Abort everything.
    Stop,
    /// Accept no more effects, and reply when all are done.
    Finish(oneshot::Sender<()>),
}

type Answer = (EffectId, Result<(), WriteError>);

/// Queues writes and starts them.
pub(super) struct Desk {
    courier: Arc<Courier>,
    meter: Arc<Meter>,
    orders: mpsc::UnboundedReceiver<Order>,
    answers: mpsc::UnboundedSender<Answer>,
    lanes: Lanes,
    tasks: JoinSet<Result<(), WriteError>>,
    running: HashMap<Id, (PodKey, Option<EffectId>)>,
    is_closed: bool,
    finishing: Vec<oneshot::Sender<()>>,
}

impl Desk {
    pub(super) fn new(
        courier: Arc<Courier>,
        meter: Arc<Meter>,
        orders: mpsc::UnboundedReceiver<Order>,
        answers: mpsc::UnboundedSender<Answer>,
    ) -> Self {
        let lanes = Lanes::new(courier.options().in_flight);
        Desk {
            courier,
            meter,
            orders,
            answers,
            lanes,
            tasks: JoinSet::new(),
            running: HashMap::new(),
            is_closed: false,
            finishing: Vec::new(),
        }
    }

    /// Runs until the writer is dropped.
    pub(super) async fn run(mut self) {
        loop {
            while let Some(job) = self.lanes.pop() {
                self.begin(job);
            }
            self.tell_load();
            tokio::select! {
                order = self.orders.recv() => match order {
                    Some(order) => self.heed(order),
                    None => break,
                },
                Some(done) = self.tasks.join_next_with_id() => self.end(done),
            }
            while let Some(done) = self.tasks.try_join_next_with_id() {
                self.end(done);
            }
        }
        self.courier.close();
        self.stop();
        while let Some(done) = self.tasks.join_next_with_id().await {
            self.end(done);
        }
    }

    fn heed(&mut self, order: Order) {
        match order {
            Order::Perform(effects) => {
                let n = effects.len();
                for effect in effects {
                    self.take_in(effect);
                }
                self.meter.handed_in.fetch_sub(n, Ordering::AcqRel);
            }
            Order::Stop => self.stop(),
            Order::Finish(done) => {
                self.is_closed = true;
                self.finishing.push(done);
            }
        }
    }

    fn take_in(&mut self, effect: Effect) {
        match Work::of(effect, self.courier.options().patience) {
            // Events are recorded until the end, since they say what was done.
            Work::Event(occurrence) => self.courier.options().events.record(*occurrence),
            Work::Elsewhere => {}
            Work::Job(job) if self.is_closed => self.refuse(&job, STOPPED),
            Work::Job(job) if QUEUE_LIMIT <= self.lanes.n_queued() => self.refuse(&job, TOO_MUCH),
            Work::Job(job) => self.lanes.push(job),
        }
    }

    fn begin(&mut self, job: Job) {
        let (key, awaited) = (job.about().clone(), job.awaited());
        let courier = self.courier.clone();
        let task = self.tasks.spawn(async move { courier.perform(job).await });
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
        self.lanes.done(&key);
        self.answer(awaited, answer);
    }

    fn stop(&mut self) {
        self.is_closed = true;
        for job in self.lanes.clear() {
            self.refuse(&job, STOPPED);
        }
        self.tasks.abort_all();
    }

    fn refuse(&self, job: &Job, why: &str) {
        self.answer(job.awaited(), Err(WriteError::other(why)));
    }

    fn answer(&self, awaited: Option<EffectId>, answer: Result<(), WriteError>) {
        if let Some(id) = awaited {
            // Where nobody listens any more the process is about to end.
            let _ = self.answers.send((id, answer));
        }
    }

    fn tell_load(&mut self) {
        self.meter.queued.store(self.lanes.n_queued(), Ordering::SeqCst);
        self.meter.in_flight.store(self.lanes.n_running(), Ordering::Release);
        self.meter.tell();
        if self.lanes.n_queued() == 0 && self.lanes.n_running() == 0 {
            for done in self.finishing.drain(..) {
                // An error means that nobody waits for it any more.
                let _ = done.send(());
            }
        }
    }
}
