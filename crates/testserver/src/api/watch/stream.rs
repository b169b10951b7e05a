//! The stream of one watch: chunks of events, as soon as there are any.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use crate::api::list::metadata_of;
use crate::api::table;
use crate::failure::FailureStatus;
use crate::faults::FaultInjector;
use crate::request::{RequestTarget, ResponseShape};
use crate::selector::Selection;
use crate::store::{Break, Op, SharedStore, Signal, StoreChange, Stored};

/// A chunk is sent when it has about this many bytes.
const CHUNK: usize = 64 * 1024;

/// So many changes are looked at under one lock.
const AT_ONCE: usize = 512;

/// Longer than any watch.
const NEVER: Duration = Duration::from_hours(48);

/// One stream, between two chunks.
pub(super) struct EventStream {
    pub(super) shared: Arc<SharedStore>,
    pub(super) faults: Arc<FaultInjector>,
    pub(super) target: RequestTarget,
    pub(super) head: String,
    pub(super) shape: ResponseShape,
    pub(super) selection: Selection,
    pub(super) receiver: tokio::sync::watch::Receiver<Signal>,
    pub(super) breaks: u64,
    /// Objects to begin with.
    pub(super) initial: std::vec::IntoIter<Arc<Stored>>,
    /// The version at which the initial objects end, if the watch must report it.
    pub(super) initial_end: Option<u64>,
    /// The number of the next change.
    pub(super) next: u64,
    pub(super) bookmarks: bool,
    pub(super) next_bookmark: Instant,
    pub(super) deadline: Instant,
    pub(super) end: StreamEnd,
}

/// What follows the chunk that is being sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamEnd {
    NotYet,
    Clean,
    Torn,
}

impl EventStream {
    /// The next chunk, as soon as there is one.
    pub(super) async fn chunk(mut self) -> Option<(io::Result<Bytes>, Self)> {
        match self.end {
            StreamEnd::NotYet => {}
            StreamEnd::Clean => return None,
            StreamEnd::Torn => {
                self.end = StreamEnd::Clean;
                return Some((Err(io::ErrorKind::ConnectionReset.into()), self));
            }
        }
        let mut out = Vec::new();
        while out.is_empty() {
            let signal = *self.receiver.borrow_and_update();
            if signal.breaks != self.breaks {
                self.break_off(signal.how, &mut out);
                break;
            }
            if !self.begin(&mut out) {
                break;
            }
            let due = match self.news(&mut out) {
                Poll::Some => continue,
                Poll::None(due) => due,
            };
            if !self.wait(due, &mut out).await {
                return None;
            }
            if self.end != StreamEnd::NotYet {
                break;
            }
        }
        if out.is_empty() {
            return None;
        }
        Some((Ok(out.into()), self))
    }

    /// Ends the stream in the given way.
    fn break_off(&mut self, how: Break, out: &mut Vec<u8>) {
        self.end = StreamEnd::Clean;
        match how {
            Break::Clean => {}
            Break::Torn => {
                out.extend_from_slice(br#"{"type":"MODIFIED","object":{"kind":""#);
                self.end = StreamEnd::Torn;
            }
            Break::Expired => {
                let failure = FailureStatus::expired("too old resource version: 1 (1)");
                out.extend_from_slice(error_event(&failure).as_bytes());
            }
        }
    }

    /// Writes the initial objects. `false` if the chunk is full.
    fn begin(&mut self, out: &mut Vec<u8>) -> bool {
        while let Some(object) = self.initial.next() {
            self.event(out, "ADDED", &object);
            if CHUNK <= out.len() {
                return false;
            }
        }
        if let Some(version) = self.initial_end.take() {
            let annotations = json!({ "k8s.io/initial-events-end": "true" });
            self.bookmark(out, version, Some(annotations));
        }
        true
    }

    /// Writes what has changed, until the chunk is full or there is no more.
    fn news(&mut self, out: &mut Vec<u8>) -> Poll {
        let state = self.shared.lock();
        let found = state.history(self.target.id).news(self.next, AT_ONCE, state.version());
        drop(state);
        let Some(news) = found else {
            // It was too slow: changes that it has not seen are no longer kept.
            self.break_off(Break::Expired, out);
            return Poll::Some;
        };
        if news.changes.is_empty() {
            return Poll::None(NextWake {
                due: news.due.map(Instant::from_std),
                at: news.caught_up,
            });
        }
        for change in &news.changes {
            self.change(out, change);
            self.next += 1;
            if CHUNK <= out.len() {
                break;
            }
        }
        Poll::Some
    }

    /// Waits until something may have happened. `false` if the stream is over.
    async fn wait(&mut self, wait: NextWake, out: &mut Vec<u8>) -> bool {
        if !out.is_empty() {
            return true;
        }
        let due = wait.due.unwrap_or_else(|| self.deadline + NEVER);
        tokio::select! {
            changed = self.receiver.changed() => return changed.is_ok(),
            () = sleep_until(due) => return true,
            () = sleep_until(self.next_bookmark), if self.bookmarks => {}
            () = sleep_until(self.deadline) => self.end = StreamEnd::Clean,
        }
        self.next_bookmark = Instant::now() + self.shared.options.bookmarks;
        // At the end of a stream, a bookmark says which version it has reached.
        if self.bookmarks
            && let Some(version) = wait.at
        {
            self.bookmark(out, version, None);
        }
        true
    }

    /// One change as this watch sees it: an object that leaves the selection counts as deleted.
    fn change(&self, out: &mut Vec<u8>, change: &StoreChange) {
        let is = self.selection.matches(&change.object);
        let was = change.previous.as_ref().is_some_and(|previous| self.selection.matches(previous));
        match (change.op, was, is) {
            (Op::Deleted, true, _) | (Op::Added, false, true) | (Op::Modified, true, true) => {
                let name = match change.op {
                    Op::Added => "ADDED",
                    Op::Modified => "MODIFIED",
                    Op::Deleted => "DELETED",
                };
                self.doubled_event(out, name, &change.object);
            }
            (_, false, true) => self.doubled_event(out, "ADDED", &change.object),
            (Op::Modified, true, false) => {
                // As in the watch cache: as it was when it was last seen, at the version of the change.
                let previous = change.previous.as_ref().map(|previous| previous.value());
                let kind = self.target.id.kind();
                let last = Stored::new(kind, previous.unwrap_or_default(), change.object.version);
                self.doubled_event(out, "DELETED", &last);
            }
            _ => {}
        }
    }

    fn doubled_event(&self, out: &mut Vec<u8>, name: &str, object: &Stored) {
        self.event(out, name, object);
        if self.faults.duplicates_next() {
            self.event(out, name, object);
        }
    }

    fn event(&self, out: &mut Vec<u8>, name: &str, object: &Stored) {
        out.extend_from_slice(b"{\"type\":\"");
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\",\"object\":");
        match self.shape {
            ResponseShape::Object | ResponseShape::Groups => {
                out.extend_from_slice(self.head.as_bytes());
                out.extend_from_slice(&object.item(self.target.form())[1..]);
            }
            ResponseShape::Metadata => {
                let object = metadata_of(object, &self.target, "PartialObjectMetadata");
                out.extend_from_slice(object.to_string().as_bytes());
            }
            ResponseShape::Table => {
                let table = table::of(&self.target, &[object], object.version, None);
                out.extend_from_slice(table.to_string().as_bytes());
            }
        }
        out.extend_from_slice(b"}\n");
    }

    fn bookmark(&self, out: &mut Vec<u8>, version: u64, annotations: Option<Value>) {
        let (kind, api_version) = match self.shape {
            ResponseShape::Object | ResponseShape::Groups => {
                (self.target.id.kind().kind, self.target.api_version.as_str())
            }
            ResponseShape::Metadata => ("PartialObjectMetadata", "meta.k8s.io/v1"),
            ResponseShape::Table => ("Table", "meta.k8s.io/v1"),
        };
        let mut object = json!({
            "kind": kind, "apiVersion": api_version,
            "metadata": { "resourceVersion": version.to_string() },
        });
        if let Some(annotations) = annotations {
            object["metadata"]["annotations"] = annotations;
        }
        if self.shape == ResponseShape::Table {
            object["columnDefinitions"] = json!([]);
            object["rows"] = json!([]);
        }
        let event = json!({ "type": "BOOKMARK", "object": object });
        out.extend_from_slice(event.to_string().as_bytes());
        out.push(b'\n');
    }
}

enum Poll {
    Some,
    None(NextWake),
}

/// What to wait for when there is nothing to send.
struct NextWake {
    due: Option<Instant>,
    at: Option<u64>,
}

pub(super) fn error_event(failure: &FailureStatus) -> String {
    format!("{}\n", json!({ "type": "ERROR", "object": failure.to_status() }))
}
