//! Events: what happened to pods, for people who use `kubectl describe`.
//!
//! [`Broadcaster`] writes them to `events.k8s.io/v1` asynchronously and never blocks a caller: if its
//! queue is full, it drops events and logs that. An event that is repeated within six minutes becomes a
//! series of the first, as in client-go's tools/events.

mod correlator;
mod queue;
mod send;
#[cfg(test)]
mod tests;
mod wire;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use plimsoll_api::{Edition, Pod, Str};
use tokio::sync::{mpsc, oneshot};

use crate::client::Caller;
use queue::{EventCommand, EventQueue};
pub use wire::Dialect;

/// Records events.
pub trait EventRecorder: Send + Sync {
    /// Records an event asynchronously. Never blocks.
    fn record(&self, occurrence: Occurrence);
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occurrence {
    /// Who reports it: the scheduler name of a profile.
    pub controller: Str,
    /// The object it is about.
    pub regarding: EventObject,
    /// A related object.
    pub related: Option<EventObject>,
    /// `Normal` or `Warning`.
    pub kind: &'static str,
    /// Such as `FailedScheduling`.
    pub reason: &'static str,
    /// Such as `Scheduling`.
    pub action: &'static str,
    /// The text, at most 1,024 bytes.
    pub note: String,
}

impl Occurrence {
    /// The same with objects that keep only what an event contains.
    fn without_bodies(&self) -> Self {
        let mut bare = self.clone();
        for subject in [Some(&mut bare.regarding), bare.related.as_mut()].into_iter().flatten() {
            let EventObject::Pod(pod) = subject else { continue };
            let edition = Edition {
                resource_version: pod.edition.resource_version.clone(),
                ..Edition::default()
            };
            let (key, uid) = (pod.key.clone(), pod.uid.clone());
            *subject = EventObject::Pod(Arc::new(Pod { key, uid, edition, ..Pod::default() }));
        }
        bare
    }
}

/// An object that an event is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventObject {
    /// A pod, in the version that the event is about.
    Pod(Arc<Pod>),
    /// A Lease. Events about it go to the core API, as those of client-go's leader election.
    Lease {
        /// Its namespace.
        namespace: Str,
        /// Its name.
        name: Str,
        /// Its unique identity.
        uid: Str,
        /// Its resource version.
        resource_version: Str,
    },
}

/// How events are written.
#[derive(Clone, Debug)]
pub struct Options {
    /// The name of this machine, for `reportingInstance`.
    pub hostname: String,
    /// How many requests are in flight at once.
    pub in_flight: usize,
    /// At most this many events wait; further ones are dropped. client-go passes 1,000 on to an
    /// unlimited number of goroutines, which wait for the client's rate limit. Here there is one queue
    /// for both.
    pub queue: usize,
    /// The timeout of one request.
    pub request_timeout: Duration,
    /// The API for events; `None` asks the API server which one it has.
    pub dialect: Option<Dialect>,
}

impl Options {
    /// The options for a machine of this name.
    pub fn new(hostname: String) -> Self {
        Options {
            hostname,
            in_flight: 32,
            queue: 10_000,
            request_timeout: Duration::from_secs(30),
            dialect: None,
        }
    }
}

/// How many events were lost, and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// The queue was full.
    pub dropped: u64,
    /// The API server rejected them, or could not be reached for too long.
    pub rejected: u64,
}

/// Writes events.
#[derive(Clone, Debug)]
pub struct Broadcaster {
    inbox: mpsc::Sender<Occurrence>,
    commands: mpsc::UnboundedSender<EventCommand>,
    losses: Arc<LossCounters>,
}

#[derive(Debug, Default)]
struct LossCounters {
    dropped: AtomicU64,
    rejected: AtomicU64,
}

impl Broadcaster {
    /// Creates a broadcaster that starts at once on the current runtime.
    pub fn new(caller: impl Into<Caller>, options: Options) -> Self {
        let (inbox, occurrences) = mpsc::channel(options.queue.max(1));
        let (commands, receiver) = mpsc::unbounded_channel();
        let losses = Arc::new(LossCounters::default());
        let queue = EventQueue::new(caller.into(), options, losses.clone());
        tokio::spawn(queue.run(occurrences, receiver));
        Broadcaster { inbox, commands, losses }
    }

    /// Waits until all recorded events are written, for at most `within`, and then drops the rest.
    pub async fn finish(&self, within: Duration) {
        let (done, is_done) = oneshot::channel();
        // If the queue has ended, there is nothing to wait for.
        let _ = self.commands.send(EventCommand::Finish(done));
        let _ = tokio::time::timeout(within, is_done).await;
        let _ = self.commands.send(EventCommand::Stop);
    }

    /// How many events have been lost so far.
    pub fn lost(&self) -> Lost {
        Lost {
            dropped: self.losses.dropped.load(Ordering::Relaxed),
            rejected: self.losses.rejected.load(Ordering::Relaxed),
        }
    }
}

impl EventRecorder for Broadcaster {
    fn record(&self, occurrence: Occurrence) {
        if self.inbox.try_send(occurrence).is_err() {
            self.losses.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}
