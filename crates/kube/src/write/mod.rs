//! What the engine wants to be done, done at the API server.
//!
//! [`Writer::perform`] takes effects and never waits; answers come through a channel, exactly one for each
//! effect that the engine awaits. What is written about one pod is written in order, each after the one
//! before it was answered. A binding and a change of a volume are sent once: again only where the API
//! server surely did not take them. Where an answer was lost the object is looked at, to learn what became
//! of the write.

mod backoff;
mod bind;
mod courier;
mod desk;
mod evict;
mod job;
mod lanes;
mod object;
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

use crate::client::Caller;
use crate::events::Record;
use crate::place::Served;
use courier::Courier;
pub(crate) use courier::json;
use desk::{Desk, Order};

/// The most requests of a writer that are under way at once. An API server takes 100 streams on a
/// connection, and watches and events need some.
pub const IN_FLIGHT: usize = 64;

/// Says whether anything may be written now, and how long that may take: what is still under way then must
/// end. Asked before each request, so it must be cheap.
pub type MayWrite = Arc<dyn Fn() -> Option<Duration> + Send + Sync>;

/// How a writer works.
pub struct Options {
    /// How many requests are under way at once; at least 1.
    pub in_flight: usize,
    /// Waits until the next request may be sent, where their rate is limited. A request that waited for its
    /// turn inside the client would be taken to be sent, and its time would run.
    pub turn: Turn,
    /// How long the API server may take for one request, at least 3 seconds. It is told to give up 2 seconds
    /// sooner.
    pub request_timeout: Duration,
    /// How long the engine waits for an answer, at most. What cannot be answered within this is not begun: a
    /// binding must be begun `request_timeout` and 17 seconds before, to leave time to look what became of
    /// it. It must be shorter than `write_timeout` of the engine: a binding that the engine has given up
    /// must not be sent.
    pub patience: Duration,
    /// Whether anything may be written now; [`always`] without leader election.
    pub may_write: MayWrite,
    /// How often a binding is sent again that has failed by an error that passes, where the pod is seen to
    /// have no node; see [`bindings_again`].
    pub bindings_again: u32,
    /// In which versions the API server has the kinds that plugins write.
    pub served: Served,
    /// Who records events.
    pub events: Arc<dyn Record>,
}

/// How often a release sends a binding again. As in default_binder.go: since 1.37 four times in all.
pub fn bindings_again(release: Release) -> u32 {
    match release {
        Release::V1_36 => 0,
        Release::V1_37 => 3,
    }
}

/// Waits until the next request may be sent.
pub type Turn = Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

impl Options {
    /// As fits the engine's default of a minute for a write, with these events.
    pub fn new(events: Arc<dyn Record>) -> Self {
        Options {
            in_flight: IN_FLIGHT,
            turn: at_once(),
            request_timeout: Duration::from_secs(15),
            patience: Duration::from_secs(55),
            may_write: always(),
            bindings_again: bindings_again(Release::NEWEST),
            served: Served::default(),
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

/// Nothing has to wait for its turn.
pub fn at_once() -> Turn {
    Arc::new(|| Box::pin(std::future::ready(())))
}

/// How much a writer has to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Requests that wait for their turn.
    pub queued: usize,
    /// Requests that are under way.
    pub in_flight: usize,
}

/// Writes what the engine wants to be written. Dropping it is [`Writer::stop_at_once`].
#[derive(Debug)]
pub struct Writer {
    inbox: mpsc::UnboundedSender<Order>,
    courier: Arc<Courier>,
    meter: Arc<Meter>,
}

/// Where the desk says how much there is to do.
#[derive(Debug, Default)]
struct Meter {
    /// Effects that the desk has not yet seen.
    handed_in: AtomicUsize,
    queued: AtomicUsize,
    in_flight: AtomicUsize,
    /// Somebody waits until fewer than this are queued; 0 where nobody does.
    awaited: AtomicUsize,
    eased: Notify,
}

impl Meter {
    fn load(&self) -> Load {
        Load {
            queued: self.handed_in.load(Ordering::Acquire) + self.queued.load(Ordering::SeqCst),
            in_flight: self.in_flight.load(Ordering::Acquire),
        }
    }

    /// Wakes those who wait for this, if it is so far: to be woken costs about as much as a request.
    fn tell(&self) {
        // Each says something first and then looks what the other says, so that one of both sees it.
        if self.load().queued < self.awaited.load(Ordering::SeqCst) {
            self.awaited.store(0, Ordering::SeqCst);
            self.eased.notify_waiters();
        }
    }
}

impl Writer {
    /// A writer that begins to work at once, on the runtime that it is called on. What becomes of effects
    /// that are awaited goes to `answers`.
    pub fn new(
        caller: impl Into<Caller>,
        options: Options,
        answers: mpsc::UnboundedSender<(EffectId, Result<(), WriteError>)>,
    ) -> Self {
        let (inbox, orders) = mpsc::unbounded_channel();
        let meter = Arc::new(Meter::default());
        let courier = Arc::new(Courier::new(caller.into(), options));
        let desk = Desk::new(courier.clone(), meter.clone(), orders, answers);
        tokio::spawn(desk.run());
        Writer { inbox, courier, meter }
    }

    /// Does what `effects` say, in their order for each pod. Never waits. Questions to extenders are left
    /// out: [`Extenders`](crate::extender::Extenders) asks them.
    pub fn perform(&self, effects: Vec<Effect>) {
        if effects.is_empty() {
            return;
        }
        self.meter.handed_in.fetch_add(effects.len(), Ordering::AcqRel);
        self.order(Order::Perform(effects));
    }

    /// The lease is lost: nothing more is begun from now on, what is under way is broken off, and all of it
    /// is answered with an error.
    pub fn stop_at_once(&self) {
        self.courier.close();
        self.order(Order::Stop);
    }

    /// The process is about to end: what is sent is finished, and what cannot be sent, since the API server
    /// cannot be reached, is soon given up.
    pub fn end_soon(&self) {
        self.courier.end_soon();
    }

    /// Finishes what was handed in, within so long; then stops at once. What is handed in from now on is
    /// answered with an error. Returns what was left undone.
    pub async fn finish(&self, within: Duration) -> Load {
        let (done, is_done) = oneshot::channel();
        self.order(Order::Finish(done));
        if tokio::time::timeout(within, is_done).await.is_ok() {
            return Load::default();
        }
        let left = self.load();
        self.stop_at_once();
        left
    }

    /// How much there is to do. Who makes work should wait while much is queued: what waits too long is
    /// given up.
    pub fn load(&self) -> Load {
        self.meter.load()
    }

    /// Waits until fewer than `queued` requests wait for their turn.
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

    /// Waits until nobody writes any more, which is a bug as long as the writer is there.
    pub async fn ended(&self) {
        self.inbox.closed().await;
    }

    fn order(&self, order: Order) {
        // The desk stays as long as its writer, unless the whole runtime goes down.
        let _ = self.inbox.send(order);
    }
}
