//! Carries out effects of the engine at the API server.
//!
//! [`Writer::perform`] takes effects and never blocks. Answers are sent to a channel, exactly one for
//! each effect that the engine awaits. Writes to one pod are done in order, each after the answer to
//! the previous one. A binding and a change of a volume are sent once, and retried only if the API
//! server certainly did not process them. If an answer is lost, the object is read to learn the result
//! of the write.

mod backoff;
mod bind;
mod dispatcher;
mod evict;
mod job;
mod object;
mod queues;
mod sender;
mod status;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use plimsoll_engine::{Effect, EffectId, WriteError};
use plimsoll_framework::Release;
use tokio::sync::{Notify, mpsc, oneshot};

use crate::api_resource::ServedVersions;
use crate::client::Caller;
use crate::events::EventRecorder;
use dispatcher::{WriteCommand, WriteDispatcher};
use sender::RequestSender;
pub(crate) use sender::json;

/// The most requests of a writer in flight at once. An API server accepts 100 streams on a connection,
/// and watches and events need some.
pub const IN_FLIGHT: usize = 64;

/// Says whether writes are allowed now, and how long a write may take. It is called before each
/// request, so it must be cheap.
pub type MayWrite = Arc<dyn Fn() -> Option<Duration> + Send + Sync>;

/// The options of a writer.
pub struct Options {
    /// How many requests are in flight at once; at least 1.
    pub in_flight: usize,
    /// Waits until the rate limit allows the next request. If a request waited inside the client
    /// instead, it would count as sent, and its timeout would run.
    pub rate_limiter: RateLimiter,
    /// The timeout of one request, at least 3 seconds. The API server gets a timeout that is 2 seconds
    /// shorter.
    pub request_timeout: Duration,
    /// How long the engine waits for an answer at most. A write that cannot be answered within this
    /// time is not started: a binding must start `request_timeout` plus 17 seconds earlier, to leave
    /// time to read its result. This must be shorter than `write_timeout` of the engine, since a
    /// binding that the engine has given up must not be sent.
    pub patience: Duration,
    /// Whether writes are allowed now; [`always`] without leader election.
    pub may_write: MayWrite,
    /// How often a binding is sent again after a transient error, if the pod has no node; see
    /// [`binding_retries`].
    pub binding_retries: u32,
    /// In which versions the API server has the kinds that plugins write.
    pub served: ServedVersions,
    /// Who records events.
    pub events: Arc<dyn EventRecorder>,
}

/// How often a release sends a binding again. As in default_binder.go: since 1.37 four times in all.
pub fn binding_retries(release: Release) -> u32 {
    match release {
        Release::V1_36 => 0,
        Release::V1_37 => 3,
    }
}

/// Waits until the next request may be sent.
pub type RateLimiter = Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

impl Options {
    /// Options that fit the engine's default write timeout of a minute.
    pub fn new(events: Arc<dyn EventRecorder>) -> Self {
        Options {
            in_flight: IN_FLIGHT,
            rate_limiter: at_once(),
            request_timeout: Duration::from_secs(15),
            patience: Duration::from_secs(55),
            may_write: always(),
            binding_retries: binding_retries(Release::NEWEST),
            served: ServedVersions::default(),
            events,
        }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("in_flight", &self.in_flight)
            .field("request_timeout", &self.request_timeout)
            .field("patience", &self.patience)
            .finish_non_exhaustive()
    }
}

/// Writes are always allowed.
pub fn always() -> MayWrite {
    Arc::new(|| Some(Duration::MAX))
}

/// There is no rate limit.
pub fn at_once() -> RateLimiter {
    Arc::new(|| Box::pin(std::future::ready(())))
}

/// The load of a writer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Waiting requests.
    pub queued: usize,
    /// Requests in flight.
    pub in_flight: usize,
}

/// Writes the effects of the engine. Dropping it is [`Writer::stop_at_once`].
#[derive(Debug)]
pub struct Writer {
    commands: mpsc::UnboundedSender<WriteCommand>,
    sender: Arc<RequestSender>,
    meter: Arc<LoadMeter>,
}

/// The load, as reported by the dispatcher.
#[derive(Debug, Default)]
struct LoadMeter {
    /// Effects that the dispatcher has not received yet.
    submitted: AtomicUsize,
    queued: AtomicUsize,
    in_flight: AtomicUsize,
    /// A task waits until fewer than this are queued; 0 if none does.
    awaited: AtomicUsize,
    eased: Notify,
}

impl LoadMeter {
    fn load(&self) -> Load {
        Load {
            queued: self.submitted.load(Ordering::Acquire) + self.queued.load(Ordering::SeqCst),
            in_flight: self.in_flight.load(Ordering::Acquire),
        }
    }

    /// Wakes the waiting tasks if the load is low enough. A wake-up costs about as much as a request.
    fn notify(&self) {
        // Each side first stores its value and then loads that of the other, so at least one of them
        // sees the change.
        if self.load().queued < self.awaited.load(Ordering::SeqCst) {
            self.awaited.store(0, Ordering::SeqCst);
            self.eased.notify_waiters();
        }
    }
}

impl Writer {
    /// Creates a writer that starts at once on the current runtime. The results of awaited effects are
    /// sent to `answers`.
    pub fn new(
        caller: impl Into<Caller>,
        options: Options,
        answers: mpsc::UnboundedSender<(EffectId, Result<(), WriteError>)>,
    ) -> Self {
        let (commands, receiver) = mpsc::unbounded_channel();
        let meter = Arc::new(LoadMeter::default());
        let sender = Arc::new(RequestSender::new(caller.into(), options));
        let dispatcher = WriteDispatcher::new(sender.clone(), meter.clone(), receiver, answers);
        tokio::spawn(dispatcher.run());
        Writer { commands, sender, meter }
    }

    /// Carries out `effects`, for each pod in their order. Never blocks. Ignores questions to
    /// extenders, which [`HttpExtenders`](crate::extender::HttpExtenders) sends.
    pub fn perform(&self, effects: Vec<Effect>) {
        if effects.is_empty() {
            return;
        }
        self.meter.submitted.fetch_add(effects.len(), Ordering::AcqRel);
        self.command(WriteCommand::Perform(effects));
    }

    /// To be called when the lease is lost: starts nothing more, aborts writes in flight, and answers
    /// all of them with an error.
    pub fn stop_at_once(&self) {
        self.sender.close();
        self.command(WriteCommand::Stop);
    }

    /// To be called when the process is about to end: writes in flight are finished, and writes that
    /// cannot be sent because the API server cannot be reached are soon given up.
    pub fn end_soon(&self) {
        self.sender.end_soon();
    }

    /// Finishes all effects within this time, and then stops at once. Later effects are answered with
    /// an error. Returns what was left undone.
    pub async fn finish(&self, within: Duration) -> Load {
        let (done, is_done) = oneshot::channel();
        self.command(WriteCommand::Finish(done));
        if tokio::time::timeout(within, is_done).await.is_ok() {
            return Load::default();
        }
        let left = self.load();
        self.stop_at_once();
        left
    }

    /// The current load. Callers should pause while many requests are queued, since a request that
    /// waits too long is given up.
    pub fn load(&self) -> Load {
        self.meter.load()
    }

    /// Waits until fewer than `queued` requests wait.
    pub async fn eased(&self, queued: usize) {
        loop {
            let notified = self.meter.eased.notified();
            self.meter.awaited.fetch_max(queued, Ordering::SeqCst);
            if self.load().queued < queued {
                return;
            }
            notified.await;
        }
    }

    /// Waits until the dispatcher has ended, which is a bug as long as the writer exists.
    pub async fn ended(&self) {
        self.commands.closed().await;
    }

    fn command(&self, command: WriteCommand) {
        // The dispatcher lives as long as its writer, unless the whole runtime shuts down.
        let _ = self.commands.send(command);
    }
}
