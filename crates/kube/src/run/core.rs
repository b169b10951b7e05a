//! The loop around the engine: it takes in events, makes one step, and hands out effects.
//!
//! The engine runs on its own thread and owns its state. It receives events from the start of the
//! watches, and makes decisions once it knows the whole cluster and may write.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_api::KindRef;
use plimsoll_engine::{Detail, Effect, EffectId, Event, Next, Scheduler, WriteError};
use plimsoll_framework::Time;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::clock::EngineClock;
use super::heartbeat::Heartbeat;
use super::reload::{
    AssignProfile, NewConfiguration, Recent, ReloadMode, ReloadRequest, ReloadRequests, Router,
    Trial,
};
use super::remedies::{RemedyAnswer, RemedyNotes};
use super::scores;
use super::self_audit::Watchdog;
use crate::extender::{self, HttpExtenders};
use crate::lease::State;
use crate::serve::{EngineQuery, SnapshotQueries};
use crate::watch::Unsynced;
use crate::write::Writer;

/// At most 256 requests wait to be sent. Beyond that the engine pauses, because a decision made now
/// would be stale when it is written, and a request that waits too long is given up.
const MOST_QUEUED: usize = 256;

/// At most this many batches of events are taken in between two decisions: a flood of events must not
/// delay pods, and decisions must not delay events.
const MOST_BATCHES: usize = 64;

/// Effects are passed to the writer in batches of this many, and at the latest this long after the
/// first: each batch wakes other threads.
const HANDED_OVER: usize = 32;
const HANDED_OVER_AFTER: Duration = Duration::from_millis(1);

/// While the writer is busy, events are taken in at this interval instead of one by one.
const LOOK_WHILE_QUEUED: Duration = Duration::from_millis(2);

/// How often the engine checks at the end whether everything is done.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Answers to writes.
pub(crate) type WriteAnswer = (EffectId, Result<(), WriteError>);

/// All inputs of the engine.
pub(crate) struct Inbox {
    pub(crate) events: mpsc::Receiver<Vec<Event>>,
    pub(crate) answers: mpsc::UnboundedReceiver<WriteAnswer>,
    /// Answers of extenders.
    pub(crate) replies: mpsc::UnboundedReceiver<extender::ExtenderAnswer>,
    pub(crate) queries: mpsc::Receiver<EngineQuery>,
    /// New configurations.
    pub(crate) reloads: ReloadRequests,
    /// The kinds that have not been listed completely.
    pub(crate) unsynced: watch::Receiver<Unsynced>,
    /// Whether this instance leads.
    pub(crate) leads: watch::Receiver<State>,
    pub(crate) stop: CancellationToken,
}

/// The engine with its inputs and outputs.
pub(crate) struct Core {
    scheduler: Scheduler,
    clock: EngineClock,
    inbox: Inbox,
    writer: Arc<Writer>,
    extenders: Arc<HttpExtenders>,
    /// What would help pods, if that is written.
    remedies: Option<RemedyNotes>,
    /// Whether the whole cluster is known.
    knows_all: bool,
    /// Set once, when the first decision can be made.
    ready: watch::Sender<bool>,
    heartbeat: Heartbeat,
    /// Whether scores of nodes are logged here; a ranking logs them itself.
    logs_scores: bool,
    /// How much detail of decisions is kept for recorders.
    detail: Detail,
    /// How many differences between decisions have been logged.
    differences_logged: usize,
    watchdog: Option<Watchdog>,
    router: Router,
    /// The pods that were placed last, if the configuration can be replaced.
    recent: Option<Recent>,
    /// The new configuration that is being tried.
    trial: Option<Trial>,
    /// The kinds that are watched.
    watched: Vec<KindRef>,
    /// The snapshots that are asked for.
    snapshots: SnapshotQueries,
}

/// What the engine does beside its decisions.
pub(crate) struct CoreSettings {
    /// Whether scores of nodes are logged here.
    pub(crate) logs_scores: bool,
    /// How much detail of decisions is kept for recorders.
    pub(crate) detail: Detail,
    pub(crate) watchdog: Option<Watchdog>,
    /// Which pods other profiles decide than those of their scheduler names.
    pub(crate) assign: Option<Arc<dyn AssignProfile>>,
    /// Whether the configuration can be replaced.
    pub(crate) reloads: bool,
}

impl Core {
    pub(crate) fn new(
        scheduler: Scheduler,
        clock: EngineClock,
        inbox: Inbox,
        (writer, extenders, remedies): (Arc<Writer>, Arc<HttpExtenders>, Option<RemedyNotes>),
        ready: watch::Sender<bool>,
        heartbeat: Heartbeat,
        settings: CoreSettings,
    ) -> Self {
        let CoreSettings { logs_scores, detail, watchdog, assign, reloads } = settings;
        let router = Router::new(assign, reloads, &scheduler);
        Core {
            router,
            recent: reloads.then(Recent::default),
            trial: None,
            watched: scheduler.kinds(),
            scheduler,
            clock,
            inbox,
            writer,
            extenders,
            remedies,
            knows_all: false,
            ready,
            heartbeat,
            logs_scores,
            detail,
            differences_logged: 0,
            watchdog,
            snapshots: SnapshotQueries::default(),
        }
    }

    /// Runs until it is stopped. Then finishes what it has started, within `grace`.
    pub(crate) async fn run(mut self, grace: Duration) {
        self.heartbeat.adopt();
        self.decide().await;
        if self.has_lost() {
            return;
        }
        // A timeout can be ignored here: the caller finds out what is left undone.
        let _ = tokio::time::timeout(grace, self.wind_up()).await;
    }

    /// Goes on with the trial of a new configuration, and replaces the present one once it is over.
    fn go_on_with_reload(&mut self) {
        if self.recent.is_none() {
            return;
        }
        let now = self.clock.now();
        if let Some(trial) = &mut self.trial {
            if !trial.go_on(now, &self.router, &mut self.scheduler) {
                return;
            }
        } else if let Ok(request) = self.inbox.reloads.try_recv() {
            self.begin_trial(request);
            return;
        }
        let Some((request, mut outcome)) = self.trial.take().map(Trial::end) else { return };
        let ReloadRequest { new, mode, done } = request;
        let replaced = match mode {
            ReloadMode::Check => Ok(0),
            ReloadMode::Apply => self.replace(now, new),
        };
        let answer = replaced.map(|without_profile| {
            outcome.without_profile = without_profile;
            outcome
        });
        // Whoever asked may be gone at shutdown.
        let _ = done.send(answer);
    }

    /// Begins to try a new configuration, unless it needs what only a restart brings.
    fn begin_trial(&mut self, request: ReloadRequest) {
        let read = self.scheduler.kinds_of(&request.new.profiles);
        let unwatched: Vec<_> = read.iter().filter(|kind| !self.watched.contains(kind)).collect();
        if !unwatched.is_empty() {
            let kinds: Vec<&str> = unwatched.iter().map(|kind| kind.as_str()).collect();
            let reason = format!(
                "its plugins read kinds of objects that are not watched: {}; restart to watch them",
                kinds.join(", ")
            );
            let _ = request.done.send(Err(reason));
            return;
        }
        let now = self.clock.now();
        let recent = self.recent.get_or_insert_default();
        self.trial = Some(Trial::new(now, request, recent, &self.scheduler));
    }

    /// Replaces the configuration, and returns how many pending pods have no profile any more.
    fn replace(&mut self, now: Time, new: NewConfiguration) -> Result<usize, String> {
        let NewConfiguration { profiles, backoff, assign, .. } = new;
        let replaced = self.scheduler.replace_profiles(now, profiles, backoff);
        replaced.map_err(|error| error.to_string())?;
        let orphans = self.scheduler.take_orphans();
        let n_orphans = orphans.len();
        for event in self.router.replace(assign, &self.scheduler, orphans) {
            self.scheduler.observe(now, event);
        }
        Ok(n_orphans)
    }

    /// Lets the watchdog look, if it is time. Returns when to decide next.
    fn look_around(&mut self, next: Next) -> Next {
        let Some(watchdog) = &mut self.watchdog else { return next };
        let now = self.clock.now();
        let was_due = watchdog.rests(now).is_zero();
        watchdog.look(now, &mut self.scheduler);
        if was_due {
            // A pod may have been woken.
            return Next::Again;
        }
        let looks_at = now + watchdog.rests(now);
        match next {
            Next::Again => Next::Again,
            Next::At(time) => Next::At(time.min(looks_at)),
            Next::Idle => Next::At(looks_at),
        }
    }

    /// Logs the first few differences that audits have found.
    fn log_differences(&mut self) {
        let found = &self.scheduler.audit().differences;
        for difference in found.iter().skip(self.differences_logged) {
            tracing::error!(
                %difference,
                "a decision from memory differed from the one from scratch, which is used; \
                 please report it"
            );
        }
        self.differences_logged = found.len();
    }

    async fn decide(&mut self) {
        let mut effects = Vec::new();
        let mut handed_over = self.clock.now();
        while !self.inbox.stop.is_cancelled() && !self.has_lost() {
            self.heartbeat.beat();
            self.take_in();
            self.go_on_with_reload();
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
                self.scheduler.set_detail(self.detail.max(scores::detail()));
            }
            let noted = effects.len();
            let next = self.scheduler.step(now, &mut effects);
            if self.recent.is_some() {
                self.router.keep(self.scheduler.take_orphans());
            }
            if self.logs_scores {
                scores::log(&self.scheduler.take_decisions());
            }
            // They were shown to recorders, and must not pile up.
            self.scheduler.forget_decisions();
            self.log_differences();
            let next = match self.look_around(next) {
                _ if self.snapshots.are_waiting() => Next::Again,
                next => next,
            };
            if let Some(recent) = &mut self.recent {
                recent.note(now, &effects[noted.min(effects.len())..]);
            }
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

    /// Continues with what was started, until no writes of it are left.
    async fn wind_up(&mut self) {
        let mut effects = Vec::new();
        loop {
            self.heartbeat.beat();
            self.take_in();
            self.scheduler.wind_up(self.clock.now(), &mut effects);
            self.perform(&mut effects);
            // An answer is sent before its call ends.
            let is_binding = self.extenders.is_binding();
            let load = self.writer.load();
            let is_empty = self.inbox.answers.is_empty() && self.inbox.replies.is_empty();
            if load.queued + load.in_flight == 0 && !is_binding && is_empty {
                return;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    fn perform(&mut self, effects: &mut Vec<Effect>) {
        if !effects.is_empty() {
            if let Some(remedies) = &mut self.remedies {
                remedies.add_to(effects);
            }
            self.writer.perform(self.extenders.perform(std::mem::take(effects)));
        }
    }

    /// Takes in everything that has arrived, without waiting for more.
    fn take_in(&mut self) {
        // All events before this are already in the channel: see `Watches::unsynced`.
        let has_synced = !self.knows_all && self.inbox.unsynced.borrow_and_update().is_empty();
        let mut batches = 0;
        while let Ok(batch) = self.inbox.events.try_recv() {
            self.observe(batch);
            batches += 1;
            if batches == MOST_BATCHES && !has_synced {
                break;
            }
        }
        if has_synced {
            self.knows_all = true;
            self.ready.send_replace(true);
            tracing::info!("the whole cluster is known; scheduling can start");
        }
        while let Ok(answer) = self.inbox.answers.try_recv() {
            self.observe_answer(answer);
        }
        while let Ok(reply) = self.inbox.replies.try_recv() {
            self.observe_reply(reply);
        }
        while let Ok(query) = self.inbox.queries.try_recv() {
            query.answer_in_parts(self.clock.now(), &mut self.scheduler, &mut self.snapshots);
            self.heartbeat.beat();
        }
        if self.snapshots.are_waiting() {
            self.snapshots.go_on(self.clock.now(), &mut self.scheduler);
        }
        while let Some(answer) = self.remedies.as_mut().and_then(RemedyNotes::try_next) {
            self.tell(answer);
        }
    }

    /// Whether the lease is lost, so that nothing may be done any more.
    fn has_lost(&self) -> bool {
        *self.inbox.leads.borrow() == State::Lost
    }

    fn may_decide(&self) -> bool {
        self.knows_all && *self.inbox.leads.borrow() == State::Leading
    }

    /// Waits until something arrives, or `span` is over.
    async fn wait(&mut self, span: Option<Duration>) {
        let inbox = &mut self.inbox;
        // It still wakes up from time to time, to show that it is alive.
        let span = span.unwrap_or(Duration::MAX).min(self.heartbeat.rest());
        let span = if self.snapshots.are_waiting() { Duration::ZERO } else { span };
        let span = match &self.trial {
            Some(trial) => span.min(trial.rests(self.clock.now())),
            None => span,
        };
        let is_free = self.trial.is_none();
        let remedies = &mut self.remedies;
        let remedy = async {
            match remedies {
                Some(remedies) => remedies.next().await,
                None => std::future::pending().await,
            }
        };
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
            Some(query) = inbox.queries.recv() => {
                query.answer_in_parts(self.clock.now(), &mut self.scheduler, &mut self.snapshots);
            }
            answer = remedy => self.tell(answer),
            Some(request) = inbox.reloads.recv(), if is_free => self.begin_trial(request),
            Ok(()) = inbox.unsynced.changed(), if !self.knows_all => {}
            Ok(()) = inbox.leads.changed() => {}
            () = inbox.stop.cancelled() => {}
            () = alarm => {}
        }
    }

    /// Waits until requests have been sent, but only for a short time, since events must be taken in
    /// meanwhile.
    async fn wait_for_writer(&mut self) {
        tokio::select! {
            () = self.writer.eased(MOST_QUEUED / 2) => {}
            () = tokio::time::sleep(LOOK_WHILE_QUEUED) => {}
            () = self.inbox.stop.cancelled() => {}
        }
    }

    /// Writes what would help a pod, if it still waits and this instance leads.
    fn tell(&mut self, answer: RemedyAnswer) {
        if self.may_decide()
            && let Some(remedies) = &mut self.remedies
        {
            self.writer.perform(remedies.late(answer, &self.scheduler));
        }
    }

    fn observe(&mut self, batch: Vec<Event>) {
        let now = self.clock.now();
        for event in batch {
            let event = self.router.route(event);
            self.scheduler.observe(now, event);
            self.heartbeat.beat();
        }
    }

    fn observe_answer(&mut self, (id, result): WriteAnswer) {
        self.scheduler.observe(self.clock.now(), Event::Done(id, result));
    }

    fn observe_reply(&mut self, (id, reply): extender::ExtenderAnswer) {
        self.scheduler.observe(self.clock.now(), Event::Extended(id, reply));
    }
}
