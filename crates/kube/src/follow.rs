//! Follows a cluster without any way to write to it, and serves what is known of it.

mod serve;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use plimsoll_api::KindRef;
use plimsoll_api::wire::Reader;
use plimsoll_engine::Event;
use plimsoll_framework::Time;
use tokio::sync::{mpsc, watch};

pub use self::serve::{Comparison, FollowedServing, Turns, serve};
use crate::client::ReadOnlyConnection;
use crate::limit::Rate;
use crate::run::EngineClock;
use crate::watch::{self as watches, Pace, Unsynced, WatchMetrics, Watches};

/// At most this many batches of events wait to be taken; beyond that the watches wait.
const EVENT_BATCHES: usize = 256;

/// The manifests of objects, reduced to what decisions need, in the order of the events about objects that exist: one for each,
/// by kind.
#[derive(Debug, Default)]
pub struct ManifestTape(Mutex<BTreeMap<KindRef, VecDeque<Option<Box<str>>>>>);

impl ManifestTape {
    /// Adds the manifest of the next event.
    pub(crate) fn push(&self, kind: KindRef, reader: Reader, json: &str) {
        let manifest = serde_json::from_str(json).ok();
        let reduced = manifest.and_then(|manifest| reader.reduce(&manifest, &|_| false).ok());
        let reduced = reduced.map(|reduced| reduced.to_string().into());
        let mut tape = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tape.entry(kind).or_default().push_back(reduced);
    }

    /// Takes the manifest that belongs to an event; `None` if the object could be read only in part. This must be called for
    /// each event about an object that exists, in order.
    pub fn take(&self, kind: KindRef) -> Option<Box<str>> {
        let mut tape = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tape.get_mut(&kind)?.pop_front()?
    }
}

/// What comes next.
#[derive(Debug)]
pub enum Followed {
    /// Events, in order.
    Events(Vec<Event>),
    /// All events so far are the state of the whole cluster. This comes once.
    Synced,
    /// Nothing came for a while.
    Quiet,
    /// The watches have ended: a bug.
    Ended,
}

/// A cluster that is being followed, until this is dropped.
#[derive(Debug)]
pub struct Following {
    watches: Watches,
    events: mpsc::Receiver<Vec<Event>>,
    unsynced: watch::Receiver<Unsynced>,
    is_synced: bool,
    clock: EngineClock,
}

impl Following {
    /// Starts to watch these kinds, as `plimsoll run` does. Must be called within a tokio runtime.
    pub fn start(
        connection: &ReadOnlyConnection,
        kinds: Vec<KindRef>,
        manifests: Option<Arc<ManifestTape>>,
    ) -> Self {
        let (sender, events) = mpsc::channel(EVENT_BATCHES);
        let options = watches::Options {
            kinds,
            events: sender,
            originals: None,
            manifests,
            pace: Pace::default(),
            served: connection.served().clone(),
            metrics: WatchMetrics::default(),
        };
        let watches = watches::start(connection.client("shadow", Rate::UNLIMITED), options);
        let unsynced = watches.unsynced();
        Following { watches, events, unsynced, is_synced: false, clock: EngineClock::start() }
    }

    /// Waits for what comes next, at most for `span`.
    pub async fn next(&mut self, span: Duration) -> Followed {
        // All events before this are already in the channel: see `Watches::unsynced`.
        if !self.is_synced && self.unsynced.borrow_and_update().is_empty() {
            if let Ok(batch) = self.events.try_recv() {
                return Followed::Events(batch);
            }
            self.is_synced = true;
            return Followed::Synced;
        }
        tokio::select! {
            Some(batch) = self.events.recv() => Followed::Events(batch),
            Ok(()) = self.unsynced.changed(), if !self.is_synced => Followed::Quiet,
            () = self.watches.ended() => Followed::Ended,
            () = tokio::time::sleep(span) => Followed::Quiet,
        }
    }

    /// The kinds that have not been listed completely.
    pub fn unsynced(&self) -> Vec<KindRef> {
        self.unsynced.borrow().kinds().to_vec()
    }

    /// The current time, by a clock that never goes back.
    pub fn now(&self) -> Time {
        self.clock.now()
    }
}
