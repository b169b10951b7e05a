//! The task that queues events and sends them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use crate::call::ApiError;
use crate::client::Caller;

use super::correlator::{EventCorrelator, FINISHED_AFTER};
use super::send::{self, Sender, WriteOutcome};
use super::wire::{Dialect, WireEvent};
use super::{LossCounters, Occurrence, Options};

/// How often an event is tried. As in event_broadcaster.go.
const TRIES_MAX: u32 = 12;
/// How often the counts of series are written, so that the API server does not forget them.
const REFRESHED_AFTER: Duration = Duration::from_mins(30);
/// How often lost events are logged.
const LOGGED_AFTER: Duration = Duration::from_mins(1);

/// A command to the queue.
#[derive(Debug)]
pub(super) enum EventCommand {
    /// Reply when all events are written.
    Finish(oneshot::Sender<()>),
    /// Stop.
    Stop,
}

/// An event that is being sent.
#[derive(Debug)]
struct QueuedEvent {
    event: WireEvent,
    tries: u32,
}

/// Queues events and sends them.
pub(super) struct EventQueue {
    sender: Sender,
    options: Options,
    losses: Arc<LossCounters>,
    correlator: EventCorrelator,
    ready: VecDeque<QueuedEvent>,
    /// Events that wait for a retry, by time; the number distinguishes equal times.
    resting: BTreeMap<(Instant, u64), QueuedEvent>,
    n_rested: u64,
    tasks: JoinSet<(QueuedEvent, WriteOutcome)>,
    finishing: Vec<oneshot::Sender<()>>,
    /// The process ends and the API server cannot be reached: the remaining events are dropped.
    is_hopeless: bool,
    /// How many lost events have been logged.
    n_logged: u64,
}

impl EventQueue {
    pub(super) fn new(caller: Caller, options: Options, losses: Arc<LossCounters>) -> Self {
        let (hostname, timeout) = (options.hostname.clone(), options.request_timeout);
        EventQueue {
            sender: Sender { caller, hostname, timeout },
            options,
            losses,
            correlator: EventCorrelator::default(),
            ready: VecDeque::new(),
            resting: BTreeMap::new(),
            n_rested: 0,
            tasks: JoinSet::new(),
            finishing: Vec::new(),
            is_hopeless: false,
            n_logged: 0,
        }
    }

    /// Runs until it gets [`EventCommand::Stop`], or all broadcasters are dropped.
    pub(super) async fn run(
        mut self,
        mut occurrences: mpsc::Receiver<Occurrence>,
        mut commands: mpsc::UnboundedReceiver<EventCommand>,
    ) {
        // Events cannot be written before the API is known; they wait in the channel.
        let dialect = loop {
            tokio::select! {
                dialect = self.dialect() => match dialect {
                    Some(dialect) => break dialect,
                    None => return,
                },
                command = commands.recv() => match command {
                    Some(EventCommand::Finish(done)) => self.finishing.push(done),
                    Some(EventCommand::Stop) | None => return,
                },
            }
        };
        let [mut finish, mut refresh, mut log] =
            [FINISHED_AFTER, REFRESHED_AFTER, LOGGED_AFTER].map(every);
        loop {
            self.send(dialect);
            self.reply_if_finished(occurrences.is_empty());
            let next = self.resting.first_key_value().map(|((at, _), _)| *at);
            let has_room = self.ready.len() + self.resting.len() < self.options.queue;
            tokio::select! {
                command = commands.recv() => match command {
                    Some(EventCommand::Finish(done)) => {
                        self.finishing.push(done);
                        self.hurry();
                    }
                    Some(EventCommand::Stop) | None => return,
                },
                Some(occurrence) = occurrences.recv(), if has_room => {
                    self.ready.extend(
                        self.correlator.record(occurrence, dialect, Timestamp::now()).map(QueuedEvent::new),
                    );
                }
                Some(done) = self.tasks.join_next(), if !self.tasks.is_empty() => {
                    match done {
                        Ok((queued, written)) => self.handle_result(queued, written),
                        Err(_) => self.lose(1),
                    }
                }
                () = until(next) => self.wake(),
                _ = finish.tick() => {
                    let over = self.correlator.finish();
                    self.ready.extend(over.into_iter().map(QueuedEvent::new));
                }
                _ = refresh.tick() => {
                    self.ready.extend(self.correlator.refresh().into_iter().map(QueuedEvent::new));
                }
                _ = log.tick() => self.log_losses(),
            }
        }
    }

    /// Asks the API server for its dialect until it answers. When the process ends, it asks only if,
    /// and as often as, it would retry an event.
    async fn dialect(&self) -> Option<Dialect> {
        if let Some(dialect) = self.options.dialect {
            return Some(dialect);
        }
        let mut tries = 0;
        loop {
            let failed = match self.sender.dialect().await {
                Ok(dialect) => return Some(dialect),
                Err(failed) => failed,
            };
            tries += 1;
            let rest = send::rest(&failed);
            let rest = match self.is_finishing() {
                true if tries == TRIES_MAX => None,
                true => rest.and_then(|span| send::rest_at_the_end(&failed, span)),
                // No event can be written before this is known, so any error is retried.
                false => Some(rest.unwrap_or_else(send::pause)),
            };
            let Some(rest) = rest else {
                tracing::warn!(error = %failed, "could not discover the events API; dropping the waiting events");
                return None;
            };
            tracing::warn!(error = %failed, "could not discover the events API; retrying");
            tokio::time::sleep(rest).await;
        }
    }

    /// Sends as many events as may be in flight.
    fn send(&mut self, dialect: Dialect) {
        if self.is_hopeless {
            self.lose(self.ready.len() + self.resting.len());
            self.ready.clear();
            self.resting.clear();
        }
        while self.tasks.len() < self.options.in_flight.max(1)
            && let Some(queued) = self.ready.pop_front()
        {
            let sender = self.sender.clone();
            self.tasks.spawn(async move {
                let written = sender.write(&queued.event, dialect).await;
                (queued, written)
            });
        }
    }

    fn is_finishing(&self) -> bool {
        !self.finishing.is_empty()
    }

    /// Retries all waiting events now, since this is the last chance.
    fn hurry(&mut self) {
        self.ready.extend(std::mem::take(&mut self.resting).into_values());
    }

    fn handle_result(&mut self, mut queued: QueuedEvent, written: WriteOutcome) {
        let written = if self.is_finishing() { written.at_the_end() } else { written };
        if self.is_finishing() && matches!(&written, WriteOutcome::Rejected(ApiError::NotSent(_))) {
            self.is_hopeless = true;
            // Most of them wait in the rate limiter of the client.
            self.tasks.abort_all();
        }
        let error = match written {
            WriteOutcome::Done => return,
            WriteOutcome::Later(span, _) if queued.tries + 1 < TRIES_MAX => {
                queued.tries += 1;
                self.n_rested += 1;
                self.resting.insert((Instant::now() + span, self.n_rested), queued);
                return;
            }
            WriteOutcome::Later(_, error) | WriteOutcome::Rejected(error) => error,
        };
        self.lose(1);
        let occurrence = &*queued.event.occurrence;
        tracing::debug!(name = %queued.event.name, reason = occurrence.reason, %error, "event was not written");
    }

    /// Counts `n` events as lost.
    fn lose(&self, n: usize) {
        let n = u64::try_from(n).unwrap_or(u64::MAX);
        self.losses.rejected.fetch_add(n, Ordering::Relaxed);
    }

    /// Retries the events whose pause is over.
    fn wake(&mut self) {
        let now = Instant::now();
        while let Some(entry) = self.resting.first_entry()
            && entry.key().0 <= now
        {
            self.ready.push_back(entry.remove());
        }
    }

    fn reply_if_finished(&mut self, nothing_waits: bool) {
        let is_idle = nothing_waits && self.ready.is_empty() && self.tasks.is_empty();
        if is_idle && self.resting.is_empty() {
            for done in self.finishing.drain(..) {
                // An error means that nobody waits for it any more.
                let _ = done.send(());
            }
        }
    }

    fn log_losses(&mut self) {
        let dropped = self.losses.dropped.load(Ordering::Relaxed);
        let rejected = self.losses.rejected.load(Ordering::Relaxed);
        if self.n_logged < dropped + rejected {
            self.n_logged = dropped + rejected;
            tracing::warn!(
                dropped,
                rejected,
                "events were lost; the numbers count from the start of the process"
            );
        }
    }
}

impl QueuedEvent {
    fn new(event: WireEvent) -> Self {
        QueuedEvent { event, tries: 0 }
    }
}

/// Ticks after each `period`. Missed ticks are delayed, not repeated.
fn every(period: Duration) -> Interval {
    let mut interval = interval_at(Instant::now() + period, period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

/// Waits until `at`, or forever if it is `None`.
async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
