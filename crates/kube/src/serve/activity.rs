//! The requests of a connection: which are in progress, and whether one has ever finished.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio::time::Instant;

/// The requests of a connection.
#[derive(Debug)]
pub(super) struct Activity(Mutex<ConnectionRequests>);

#[derive(Debug)]
struct ConnectionRequests {
    next: u64,
    /// Number and start of each request in progress, oldest first.
    under_way: Vec<(u64, Instant)>,
    /// When the last one ended, or the connection was opened.
    idle_since: Instant,
    /// When the connection was opened.
    opened: Instant,
    /// Whether the client has received a complete answer.
    has_finished: bool,
}

/// The state of a connection, least valuable first: this one is closed if another connection needs its
/// place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ConnectionState {
    /// It had enough time for a request, but never finished one.
    Useless,
    /// It has no request in progress.
    Idle,
    /// It was opened recently.
    Fresh,
    /// It has a request in progress.
    Busy,
}

impl Activity {
    pub(super) fn new() -> Arc<Self> {
        let opened = Instant::now();
        let (next, under_way, has_finished) = (0, Vec::new(), false);
        let requests =
            ConnectionRequests { next, under_way, idle_since: opened, opened, has_finished };
        Arc::new(Activity(Mutex::new(requests)))
    }

    /// Starts a request; it ends when the returned value is dropped.
    pub(super) fn begin(self: &Arc<Self>) -> UnderWay {
        let mut requests = self.lock();
        let number = requests.next;
        requests.next += 1;
        requests.under_way.push((number, Instant::now()));
        UnderWay { activity: self.clone(), number }
    }

    /// Whether a request takes longer than `patience`.
    pub(super) fn is_stuck(&self, patience: Duration) -> bool {
        self.lock().under_way.first().is_some_and(|(_, began)| patience <= began.elapsed())
    }

    /// Whether there was no request for `patience`.
    pub(super) fn is_idle(&self, patience: Duration) -> bool {
        let requests = self.lock();
        requests.under_way.is_empty() && patience <= requests.idle_since.elapsed()
    }

    /// Its state, and since when. A new connection is [`ConnectionState::Fresh`] for the time `fresh`.
    pub(super) fn standing(&self, fresh: Duration) -> (ConnectionState, Instant) {
        let requests = self.lock();
        let began = requests.under_way.first().map(|(_, began)| *began);
        match (requests.has_finished, began) {
            (true, Some(began)) => (ConnectionState::Busy, began),
            (true, None) => (ConnectionState::Idle, requests.idle_since),
            // A first request that never ends counts like none.
            (false, _) if requests.opened.elapsed() < fresh => {
                (ConnectionState::Fresh, requests.opened)
            }
            (false, _) => (ConnectionState::Useless, requests.opened),
        }
    }

    fn lock(&self) -> MutexGuard<'_, ConnectionRequests> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request in progress.
#[derive(Debug)]
pub(super) struct UnderWay {
    activity: Arc<Activity>,
    number: u64,
}

impl UnderWay {
    /// Wraps the answer, so that the request is in progress until the client has received all of it.
    pub(super) fn track(self, body: Body) -> Tracked {
        Tracked { body, under_way: self }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut requests = self.activity.lock();
        requests.under_way.retain(|(number, _)| *number != self.number);
        requests.idle_since = Instant::now();
    }
}

/// An answer whose request is in progress until the client has received all of it.
pub(super) struct Tracked {
    body: Body,
    under_way: UnderWay,
}

impl hyper::body::Body for Tracked {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        if hyper::body::Body::is_end_stream(&self.body) {
            self.under_way.activity.lock().has_finished = true;
        }
    }
}
