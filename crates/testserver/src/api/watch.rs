//! `watch`: the options of the request, and where the stream of changes begins.

mod stream;

use std::sync::Arc;
use std::time::Duration;

use futures::stream as streams;
use http::Response;
use tokio::time::Instant;

use super::list::{refuse, selection, too_large, version_of};
use super::{ApiHandler, ObjectRequest};
use crate::failure::{FailureStatus, FieldError};
use crate::request::Query;
use crate::respond::{self, Body};
use stream::{EventStream, StreamEnd, error_event};

/// The limit of a watch that names none, so that no watch lasts forever.
const LONGEST: Duration = Duration::from_hours(24);

/// Releases before this one do not know `sendInitialEvents` and leave it alone.
const KNOWS_INITIAL_EVENTS: u32 = 27;

impl ApiHandler {
    pub(super) fn watch(&self, asked: ObjectRequest) -> Result<Response<Body>, FailureStatus> {
        let ObjectRequest { target, query, shape, .. } = asked;
        let has_initial = self.wants_initial_events(&query)?;
        let selection = selection(&target, &query)?;
        let wanted = version_of(&query.version)?;
        let state = self.shared.lock();
        let receiver = state.subscribe(target.id);
        let breaks = receiver.borrow().breaks;
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
            let event = error_event(&FailureStatus::expired(message));
            return Ok(respond::bytes(200, event));
        };
        let options = self.options();
        let timeout = query.timeout_seconds.filter(|seconds| *seconds != 0);
        let timeout = timeout.map_or(options.watch_timeout, Duration::from_secs).min(LONGEST);
        let now = Instant::now();
        let stream = EventStream {
            shared: Arc::clone(&self.shared),
            faults: Arc::clone(&self.faults),
            head: target.head(),
            target,
            shape,
            selection,
            breaks,
            receiver,
            initial: initial.into_iter(),
            initial_end,
            next,
            bookmarks: query.bookmarks,
            next_bookmark: now + options.bookmarks,
            deadline: now + timeout,
            end: StreamEnd::NotYet,
        };
        Ok(respond::stream(streams::unfold(stream, EventStream::chunk)))
    }

    /// As `SetListOptionsDefaults` and `ValidateListOptions` for watches.
    fn wants_initial_events(&self, query: &Query) -> Result<Initial, FailureStatus> {
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
