//! `watch`: the stream of changes of one kind.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http::Response;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use super::list::{metadata_of, refuse, selection, too_large, version_of};
use super::{Api, Asked, table};
use crate::failure::{Failure, FieldError};
use crate::faults::Faults;
use crate::request::{Query, Shape, Target};
use crate::respond::{self, Body};
use crate::selector::Selection;
use crate::store::{Break, Change, Op, Shared, Signal, Stored};

/// A chunk is sent when it has about this many bytes.
const CHUNK: usize = 64 * 1024;

/// So many changes are looked at under one lock.
const AT_ONCE: usize = 512;

/// A watch without a limit of its own that nobody wants to be forever.
const LONGEST: Duration = Duration::from_hours(24);

/// Releases before this one do not know `sendInitialEvents` and leave it alone.
const KNOWS_INITIAL_EVENTS: u32 = 27;

/// One stream, between two chunks.
struct Stream {
    shared: Arc<Shared>,
    faults: Arc<Faults>,
    target: Target,
    head: String,
    shape: Shape,
    selection: Selection,
    receiver: tokio::sync::watch::Receiver<Signal>,
    breaks: u64,
    /// Objects to begin with.
    initial: std::vec::IntoIter<Arc<Stored>>,
    /// The version at which the initial objects end, if that is to be said.
    initial_end: Option<u64>,
    /// The number of the next change.
    next: u64,
    bookmarks: bool,
    next_bookmark: Instant,
    deadline: Instant,
    end: End,
}

/// What comes after the chunk that is being sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    NotYet,
    Clean,
    Torn,
}

impl Api {
    pub(super) fn watch(&self, asked: Asked) -> Result<Response<Body>, Failure> {
        let Asked { target, query, shape, .. } = asked;
        let has_initial = self.wants_initial_events(&query)?;
        let selection = selection(&target, &query)?;
        let wanted = version_of(&query.version)?;
        let state = self.shared.lock();
        let receiver = state.subscribe(target.id);
        let history = state.history(target.id);
        let version = state.version();
        let (mut initial, mut initial_end) = (Vec::new(), None);
        let next = if has_initial != Initial::None {
            if version < wanted {
                return Err(too_large(wanted, version));
            }
            let objects = state.objects(target.id).filter(|object| selection.matches(object));
            initial.extend(objects.cloned());
            initial_end = (has_initial == Initial::WithEnd).then_some(version);
            Some(history.end())
        } else if wanted == 0 {
            Some(history.end())
        } else {
            history.after(wanted)
        };
        let oldest = history.compacted();
        drop(state);
        let Some(next) = next else {
            let message = format!("too old resource version: {wanted} ({oldest})");
            let event = error_event(&Failure::expired(message));
            return Ok(respond::bytes(200, event));
        };
        let options = self.options();
        let breaks = receiver.borrow().breaks;
        let timeout = query.timeout_seconds.filter(|seconds| *seconds != 0);
        let timeout = timeout.map_or(options.watch_timeout, Duration::from_secs).min(LONGEST);
        let now = Instant::now();
        let stream = Stream {
            shared: Arc::clone(&self.shared),
            faults: Arc::clone(&self.faults),
            head: target.head(),
            target,
            shape,
            selection,
            receiver,
            breaks,
            initial: initial.into_iter(),
            initial_end,
            next,
            bookmarks: query.bookmarks,
            next_bookmark: now + options.bookmarks,
            deadline: now + timeout,
            end: End::NotYet,
        };
        Ok(respond::stream(stream::unfold(stream, Stream::chunk)))
    }

    /// As `SetListOptionsDefaults` and `ValidateListOptions` for watches.
    fn wants_initial_events(&self, query: &Query) -> Result<Initial, Failure> {
        let options = self.options();
        let from_nowhere = ["", "0"].contains(&&*query.version);
        if options.release < KNOWS_INITIAL_EVENTS {
            return Ok(if from_nowhere { Initial::Plain } else { Initial::None });
        }
        let streams = options.has_streaming_lists();
        let mut asked = query.initial_events;
        let mut matching = query.version_match.as_str();
        if streams && asked.is_none() && matching.is_empty() && from_nowhere {
            (asked, matching) = (Some(true), "NotOlderThan");
        }
        let field = "resourceVersionMatch";
        let mut errors = Vec::new();
        if asked.is_some() && matching != "NotOlderThan" {
            let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            errors.push(FieldError::forbidden(field, detail));
        }
        if asked.is_some() && !streams {
            let detail = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
            errors.push(FieldError::forbidden("sendInitialEvents", detail));
        }
        if !matching.is_empty() {
            if asked.is_none() {
                let detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
                errors.push(FieldError::forbidden(field, detail));
            }
            if matching != "NotOlderThan" {
                errors.push(FieldError::not_supported(field, matching, "\"NotOlderThan\""));
            }
            if !query.proceed.is_empty() {
                let detail = "resourceVersionMatch is forbidden when continue is provided";
                errors.push(FieldError::forbidden(field, detail));
            }
        }
        refuse(&errors)?;
        Ok(match asked {
            Some(true) if query.bookmarks => Initial::WithEnd,
            Some(true) => Initial::Plain,
            Some(false) => Initial::None,
            None if from_nowhere => Initial::Plain,
            None => Initial::None,
        })
    }
}

/// Whether a watch begins with the present objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Initial {
    None,
    Plain,
    /// And says where they end.
    WithEnd,
}

impl Stream {
    /// The next chunk, as soon as there is one.
    async fn chunk(mut self) -> Option<(io::Result<Bytes>, Self)> {
        match self.end {
            End::NotYet => {}
            End::Clean => return None,
            End::Torn => {
                self.end = End::Clean;
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
                News::Some => continue,
                News::None(due) => due,
            };
            if !self.wait(due, &mut out).await {
                return None;
            }
            if self.end != End::NotYet {
                break;
            }
        }
        if out.is_empty() {
            return None;
        }
        Some((Ok(out.into()), self))
    }

    /// Ends the stream, in the way that is asked for.
    fn break_off(&mut self, how: Break, out: &mut Vec<u8>) {
        self.end = End::Clean;
        match how {
            Break::Clean => {}
            Break::Torn => {
                out.extend_from_slice(br#"{"type":"MODIFIED","object":{"kind":""#);
                self.end = End::Torn;
            }
            Break::Expired => {
                let failure = Failure::expired("too old resource version: 1 (1)");
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
    fn news(&mut self, out: &mut Vec<u8>) -> News {
        let state = self.shared.lock();
        let found = state.history(self.target.id).news(self.next, AT_ONCE, state.version());
        drop(state);
        let Some(news) = found else {
            // It was too slow, and what it has not seen is forgotten.
            self.break_off(Break::Expired, out);
            return News::Some;
        };
        if news.changes.is_empty() {
            return News::None(Wait { due: news.due.map(Instant::from_std), at: news.caught_up });
        }
        for change in &news.changes {
            self.change(out, change);
            self.next += 1;
            if CHUNK <= out.len() {
                break;
            }
        }
        News::Some
    }

    /// Waits until something may have happened. `false` if the stream is over.
    async fn wait(&mut self, wait: Wait, out: &mut Vec<u8>) -> bool {
        if !out.is_empty() {
            return true;
        }
        let due = wait.due.unwrap_or_else(|| self.deadline + LONGEST);
        tokio::select! {
            changed = self.receiver.changed() => return changed.is_ok(),
            () = sleep_until(due) => return true,
            () = sleep_until(self.next_bookmark), if self.bookmarks => {}
            () = sleep_until(self.deadline) => self.end = End::Clean,
        }
        self.next_bookmark = Instant::now() + self.shared.options.bookmarks;
        // A stream that ends says how far it was.
        if self.bookmarks
            && let Some(version) = wait.at
        {
            self.bookmark(out, version, None);
        }
        true
    }

    /// One change as this watch sees it: what leaves its selection is deleted for it.
    fn change(&self, out: &mut Vec<u8>, change: &Change) {
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
            Shape::Object | Shape::Groups => {
                out.extend_from_slice(self.head.as_bytes());
                out.extend_from_slice(&object.item(self.target.form())[1..]);
            }
            Shape::Metadata => {
                let object = metadata_of(object, &self.target, "PartialObjectMetadata");
                out.extend_from_slice(object.to_string().as_bytes());
            }
            Shape::Table => {
                let table = table::of(&self.target, &[object], object.version, None);
                out.extend_from_slice(table.to_string().as_bytes());
            }
        }
        out.extend_from_slice(b"}\n");
    }

    fn bookmark(&self, out: &mut Vec<u8>, version: u64, annotations: Option<Value>) {
        let (kind, api_version) = match self.shape {
            Shape::Object | Shape::Groups => {
                (self.target.id.kind().kind, self.target.api_version.as_str())
            }
            Shape::Metadata => ("PartialObjectMetadata", "meta.k8s.io/v1"),
            Shape::Table => ("Table", "meta.k8s.io/v1"),
        };
        let mut object = json!({
            "kind": kind, "apiVersion": api_version,
            "metadata": { "resourceVersion": version.to_string() },
        });
        if let Some(annotations) = annotations {
            object["metadata"]["annotations"] = annotations;
        }
        if self.shape == Shape::Table {
            object["columnDefinitions"] = json!([]);
            object["rows"] = json!([]);
        }
        let event = json!({ "type": "BOOKMARK", "object": object });
        out.extend_from_slice(event.to_string().as_bytes());
        out.push(b'\n');
    }
}

enum News {
    Some,
    None(Wait),
}

/// What to wait for where there is nothing to send.
struct Wait {
    due: Option<Instant>,
    at: Option<u64>,
}

fn error_event(failure: &Failure) -> String {
    format!("{}\n", json!({ "type": "ERROR", "object": failure.to_status() }))
}
