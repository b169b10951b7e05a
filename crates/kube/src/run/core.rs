//! The loop around the engine: what comes in, one step, what goes out.
//!
//! The engine lives on a thread of its own and owns its state. It hears of the cluster from the moment on
//! when the watches begin, and decides once it knows all of it and may write.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_engine::{Effect, EffectId, Event, Next, Scheduler, WriteError};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::clock::Clock;
use super::pulse::Pulse;
use super::scores;
use crate::extender::{self, Extenders};
use crate::lease::State;
use crate::serve::Question;
use crate::watch::Waiting;
use crate::write::Writer;

/// So many requests may wait to be sent before the engine waits, too: a decision is as good as the
/// picture it was made from, and what waits too long is given up.
const MOST_QUEUED: usize = 256;

/// So many batches of events are taken in between two decisions, at most: a flood of them must not keep
/// pods waiting, and pods must not keep the picture from being true.
const MOST_BATCHES: usize = 64;

/// So many effects are handed to the writer at once, and so long after the first of them at most: each
/// time others are woken up for it.
const HANDED_OVER: usize = 32;
const HANDED_OVER_AFTER: Duration = Duration::from_millis(1);

/// While the writer has enough to do, what comes in is taken in so often: it is not waited for one by one.
const LOOK_WHILE_QUEUED: Duration = Duration::from_millis(2);

/// How often it is looked whether all is done, at the end.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Answers to writes.
pub(crate) type Answer = (EffectId, Result<(), WriteError>);

/// Everything that the engine hears from.
pub(crate) struct Inbox {
    pub(crate) events: mpsc::Receiver<Vec<Event>>,
    pub(crate) answers: mpsc::UnboundedReceiver<Answer>,
    /// What extenders say.
    pub(crate) replies: mpsc::UnboundedReceiver<extender::Answer>,
    pub(crate) questions: mpsc::Receiver<Question>,
    /// The kinds that have not been told whole yet.
    pub(crate) waiting: watch::Receiver<Waiting>,
    /// Whether this instance leads.
    pub(crate) leads: watch::Receiver<State>,
    pub(crate) stop: CancellationToken,
}

/// The engine with all it talks to.
pub(crate) struct Core {
    scheduler: Scheduler,
    clock: Clock,
    inbox: Inbox,
    writer: Arc<Writer>,
    extenders: Arc<Extenders>,
    /// Whether the whole cluster is known.
    knows_all: bool,
    /// Told once, when the first decision can be made.
    ready: watch::Sender<bool>,
    pulse: Pulse,
    /// Whether the scores of nodes are logged from here: a ranking does so by itself.
    logs_scores: bool,
    /// Of how many differences between decisions the log tells.
    differences_told: usize,
}

impl Core {
    pub(crate) fn new(
        scheduler: Scheduler,
        clock: Clock,
        inbox: Inbox,
        (writer, extenders): (Arc<Writer>, Arc<Extenders>),
        ready: watch::Sender<bool>,
        pulse: Pulse,
        logs_scores: bool,
    ) -> Self {
        Core {
            scheduler,
            clock,
            inbox,
            writer,
            extenders,
            knows_all: false,
            ready,
            pulse,
            logs_scores,
            differences_told: 0,
        }
    }

    /// Works until it is stopped; then finishes what it has begun, within `grace`.
    pub(crate) async fn run(mut self, grace: Duration) {
        self.pulse.adopt();
        self.decide().await;
        if self.has_lost() {
            return;
        }
        // Told in vain if it takes too long: whoever waits for this finds out what is left.
        let _ = tokio::time::timeout(grace, self.wind_up()).await;
    }

    /// Logs what audits of decisions have found: the first few.
    fn tell_differences(&mut self) {
        let found = &self.scheduler.audit().differences;
        for difference in found.iter().skip(self.differences_told) {
            tracing::error!(
                %difference,
                "a decision from memory came out otherwise from scratch: the one from scratch is carried out; \
                 please report it"
            );
        }
        self.differences_told = found.len();
    }

    async fn decide(&mut self) {
        let mut effects = Vec::new();
        let mut handed_over = self.clock.now();
        while !self.inbox.stop.is_cancelled() && !self.has_lost() {
            self.pulse.beat();
            self.take_in();
            if !self.may_decide() {
                self.perform(&mut effects);
                self.wait(None).await;
                continue;
            }
            if MOST_QUEUED <= self.writer.load().queued + effects.len() {
                self.perform(&mut effects);
                self.wait_for_writer().await;
                continue;
            }
            let now = self.clock.now();
            if effects.is_empty() {
                handed_over = now;
            }
            if self.logs_scores {
                self.scheduler.set_detail(scores::detail());
            }
            let next = self.scheduler.step(now, &mut effects);
            if self.logs_scores {
                scores::log(&self.scheduler.take_decisions());
            }
            self.tell_differences();
            let is_late = || HANDED_OVER_AFTER <= self.clock.now().since(handed_over);
            if next != Next::Again || HANDED_OVER <= effects.len() || is_late() {
                self.perform(&mut effects);
            }
            match next {
                Next::Again => {}
                Next::At(time) => {
                    let span = time.since(self.clock.now());
                    self.wait(Some(span)).await;
                }
                Next::Idle => self.wait(None).await,
            }
        }
        self.perform(&mut effects);
    }

    /// Carries on what was begun, until nothing of it is being written.
    async fn wind_up(&mut self) {
        let mut effects = Vec::new();
        loop {
            self.pulse.beat();
            self.take_in();
            self.scheduler.wind_up(self.clock.now(), &mut effects);
            self.perform(&mut effects);
            // An answer is sent before its call is over.
            let is_binding = self.extenders.is_binding();
            let load = self.writer.load();
            let is_told = self.inbox.answers.is_empty() && self.inbox.replies.is_empty();
            if load.queued + load.in_flight == 0 && !is_binding && is_told {
                return;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    fn perform(&self, effects: &mut Vec<Effect>) {
        if !effects.is_empty() {
            self.writer.perform(self.extenders.perform(std::mem::take(effects)));
        }
    }

    /// Takes in what has come, without waiting for more.
    fn take_in(&mut self) {
        // What was told before this is in the channel: see `Watches::waiting`.
        let is_told = !self.knows_all && self.inbox.waiting.borrow_and_update().is_over();
        let mut batches = 0;
        while let Ok(batch) = self.inbox.events.try_recv() {
            self.observe(batch);
            batches += 1;
            if batches == MOST_BATCHES && !is_told {
                break;
            }
        }
        if is_told {
            self.knows_all = true;
            self.ready.send_replace(true);
            tracing::info!("the cluster is known: decisions can be made");
        }
        while let Ok(answer) = self.inbox.answers.try_recv() {
            self.observe_answer(answer);
        }
        while let Ok(reply) = self.inbox.replies.try_recv() {
            self.observe_reply(reply);
        }
        while let Ok(question) = self.inbox.questions.try_recv() {
            question.answer(self.clock.now(), &mut self.scheduler);
            self.pulse.beat();
        }
    }

    /// Whether the lease is lost: nothing may be done any more.
    fn has_lost(&self) -> bool {
        *self.inbox.leads.borrow() == State::Lost
    }

    fn may_decide(&self) -> bool {
        self.knows_all && *self.inbox.leads.borrow() == State::Leading
    }

    /// Waits until something comes in, or `span` is over.
    async fn wait(&mut self, span: Option<Duration>) {
        let inbox = &mut self.inbox;
        // It wakes up now and then all the same, to show that it can.
        let span = span.unwrap_or(Duration::MAX).min(self.pulse.rest());
        let alarm = async {
            match span {
                Duration::MAX => std::future::pending().await,
                span => tokio::time::sleep(span).await,
            }
        };
        tokio::select! {
            Some(batch) = inbox.events.recv() => self.observe(batch),
            Some(answer) = inbox.answers.recv() => self.observe_answer(answer),
            Some(reply) = inbox.replies.recv() => self.observe_reply(reply),
            Some(question) = inbox.questions.recv() => {
                question.answer(self.clock.now(), &mut self.scheduler);
            }
            Ok(()) = inbox.waiting.changed(), if !self.knows_all => {}
            Ok(()) = inbox.leads.changed() => {}
            () = inbox.stop.cancelled() => {}
            () = alarm => {}
        }
    }

    /// Waits until requests have gone out, but not for long: what comes in meanwhile is to be taken in.
    async fn wait_for_writer(&mut self) {
        tokio::select! {
            () = self.writer.eased(MOST_QUEUED / 2) => {}
            () = tokio::time::sleep(LOOK_WHILE_QUEUED) => {}
            () = self.inbox.stop.cancelled() => {}
        }
    }

    fn observe(&mut self, batch: Vec<Event>) {
        let now = self.clock.now();
        for event in batch {
            self.scheduler.observe(now, event);
            self.pulse.beat();
        }
    }

    fn observe_answer(&mut self, (id, result): Answer) {
        self.scheduler.observe(self.clock.now(), Event::Done(id, result));
    }

    fn observe_reply(&mut self, (id, reply): extender::Answer) {
        self.scheduler.observe(self.clock.now(), Event::Extended(id, reply));
    }
}
