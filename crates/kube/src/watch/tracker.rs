//! Turns the objects of lists and watches into events, if they have changed.

use std::sync::Arc;

use plimsoll_api::wire::{Reader, Salvaged, WireError};
use plimsoll_api::{ObjectKey, Str};
use prometheus::IntGauge;

use super::WatchContext;
use super::counts::WatchCounters;
use super::decode::{Bookmark, DecodeError, EventType, PartialObjectMeta, split, split_beginning};
use super::feed::{Closed, Feed};
use super::frames::{OBJECT_LIMIT, Text};
use super::unreadable::{Fallback, UnreadableObjects};
use super::versions::{Delta, ObjectVersions};
use crate::api_resource::ApiResource;
use crate::request::StatusError;

/// At most this many faults of an object are logged.
const MAX_LOGGED_FAULTS: usize = 3;

/// Tracks all objects of one kind.
#[derive(Debug)]
pub(super) struct ObjectTracker {
    resource: ApiResource,
    reader: Reader,
    versions: ObjectVersions,
    unreadable: UnreadableObjects,
    n_unreadable: IntGauge,
    context: Arc<WatchContext>,
}

/// What a frame of a watch means for the watch itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FrameOutcome {
    /// Nothing.
    None,
    /// All changes up to this version have been passed on.
    Version(Str),
    /// All objects of a streaming list have been passed on, up to this version.
    ListEnd(Option<Str>),
    /// The watch ends.
    Error(Box<StatusError>),
}

/// Which frames are new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamPhase {
    /// The objects of a list arrive, in any order.
    List,
    /// Changes arrive in the order of their versions. Those up to this version have been passed on.
    After(Option<u64>),
}

impl StreamPhase {
    /// What follows `version`, which is opaque unless it is a number.
    pub(super) fn after(version: Option<&str>) -> Self {
        StreamPhase::After(version.and_then(|version| version.parse().ok()))
    }

    /// Whether an object of `version` has been passed on, so that its frame is a repetition.
    fn is_past(self, version: &str) -> bool {
        match (self, version.parse::<u64>()) {
            (StreamPhase::After(Some(last)), Ok(version)) => version <= last,
            _ => false,
        }
    }
}

impl ObjectTracker {
    pub(super) fn new(resource: ApiResource, context: Arc<WatchContext>) -> Self {
        ObjectTracker {
            resource,
            reader: reader(resource),
            versions: ObjectVersions::default(),
            unreadable: UnreadableObjects::default(),
            n_unreadable: context.metrics.unreadable(resource.kind),
            context,
        }
    }

    /// From now on objects have this API version.
    pub(super) fn set_resource(&mut self, resource: ApiResource) {
        (self.resource, self.reader) = (resource, reader(resource));
    }

    fn counts(&self) -> &WatchCounters {
        self.context.counts.of(self.resource.kind)
    }

    /// Begins a list of all objects.
    pub(super) fn begin_list(&mut self) {
        self.versions.begin_list();
    }

    /// Ends a list of all objects: those that it lacks are deleted.
    pub(super) async fn end_list(&mut self, feed: &mut Feed) -> Result<(), Closed> {
        for key in self.versions.end_list() {
            self.counts().deleted.add_one();
            self.unreadable.remove_key(&key);
            feed.delete(key);
            if feed.is_full() {
                feed.flush().await?;
            }
        }
        self.flush(feed).await
    }

    /// Sends the collected events.
    pub(super) async fn flush(&self, feed: &mut Feed) -> Result<(), Closed> {
        self.counts().objects.set(self.versions.len());
        self.n_unreadable.set(i64::try_from(self.versions.n_unreadable()).unwrap_or(i64::MAX));
        feed.flush().await
    }

    /// Processes an item of a list.
    pub(super) fn item(&mut self, item: &Text, feed: &mut Feed) {
        match item {
            Text::Whole(bytes) => match std::str::from_utf8(bytes) {
                Ok(json) => {
                    self.apply(json, StreamPhase::List, feed);
                }
                Err(error) => self.add_unreadable(None, &error.to_string(), Fallback::LastVersion),
            },
            Text::Beginning(bytes) => {
                self.add_too_large(&String::from_utf8_lossy(bytes), StreamPhase::List);
            }
        }
    }

    /// Processes a frame of a watch.
    pub(super) fn frame(
        &mut self,
        frame: &Text,
        phase: StreamPhase,
        feed: &mut Feed,
    ) -> Result<FrameOutcome, DecodeError> {
        let bytes = match frame {
            Text::Whole(bytes) => bytes,
            Text::Beginning(bytes) => {
                let beginning = String::from_utf8_lossy(bytes);
                let (event_type, object) =
                    split_beginning(&beginning).ok_or(DecodeError::TooLarge)?;
                return Ok(match event_type {
                    EventType::Deleted => self.delete(object, phase, feed),
                    _ => self.add_too_large(object, phase),
                });
            }
        };
        let (event_type, object) = split(std::str::from_utf8(bytes)?)?;
        Ok(match event_type {
            EventType::Applied => self.apply(object, phase, feed),
            EventType::Deleted => self.delete(object, phase, feed),
            EventType::Bookmark => {
                self.counts().bookmarks.add_one();
                let bookmark = Bookmark::read(object)?;
                match bookmark.version {
                    version if bookmark.ends_list => FrameOutcome::ListEnd(version),
                    Some(version) => FrameOutcome::Version(version),
                    None => FrameOutcome::None,
                }
            }
            // The object contains the actual code.
            EventType::Error => {
                FrameOutcome::Error(Box::new(StatusError::read(500, object.as_bytes())))
            }
            EventType::Unknown => FrameOutcome::None,
        })
    }

    /// Processes an object that was added or modified.
    fn apply(&mut self, json: &str, phase: StreamPhase, feed: &mut Feed) -> FrameOutcome {
        let meta = match PartialObjectMeta::read(json) {
            Ok(meta) => meta,
            Err(error) => {
                self.add_unreadable(None, &error.to_string(), Fallback::LastVersion);
                return FrameOutcome::None;
            }
        };
        if phase.is_past(&meta.version) {
            self.counts().unchanged.add_one();
            return FrameOutcome::None;
        }
        if self.versions.observe(&meta) == Delta::Unchanged {
            self.counts().unchanged.add_one();
            return up_to(&meta);
        }
        match self.reader.read(json) {
            Ok(object) => {
                self.unreadable.remove(&meta);
                self.counts().changed.add_one();
                feed.apply(object, json, self.reader);
            }
            Err(error) => self.apply_readable_fields(&meta, json, &error, feed),
        }
        up_to(&meta)
    }

    fn apply_readable_fields(
        &mut self,
        meta: &PartialObjectMeta<'_>,
        json: &str,
        error: &WireError,
        feed: &mut Feed,
    ) {
        match self.reader.salvage(json) {
            Ok(Salvaged { object, faults }) => {
                let faults: Vec<String> =
                    faults.iter().take(MAX_LOGGED_FAULTS).map(ToString::to_string).collect();
                self.add_unreadable(Some(meta), &faults.join("; "), Fallback::ReadableFields);
                self.counts().changed.add_one();
                feed.apply(object, json, self.reader);
            }
            Err(_) => self.add_unreadable(Some(meta), &error.to_string(), Fallback::LastVersion),
        }
    }

    fn delete(&mut self, json: &str, phase: StreamPhase, feed: &mut Feed) -> FrameOutcome {
        let meta = match PartialObjectMeta::read(json) {
            Ok(meta) => meta,
            Err(error) => {
                self.add_unreadable(None, &error.to_string(), Fallback::LastVersion);
                return FrameOutcome::None;
            }
        };
        let is_past = phase.is_past(&meta.version);
        // A deletion may carry the last version of the object. Any other past version means that the
        // frame is a repetition, and another object may have the name now.
        if !(is_past && self.versions.has_other_version(&meta)) && self.versions.remove(&meta) {
            self.unreadable.remove(&meta);
            self.counts().deleted.add_one();
            feed.delete(ObjectKey::new(&*meta.namespace, &*meta.name));
        }
        if is_past { FrameOutcome::None } else { up_to(&meta) }
    }

    fn add_too_large(&mut self, beginning: &str, phase: StreamPhase) -> FrameOutcome {
        let why = format!("it is larger than {OBJECT_LIMIT} bytes");
        let Ok(meta) = PartialObjectMeta::read(beginning) else {
            self.add_unreadable(None, &why, Fallback::LastVersion);
            return FrameOutcome::None;
        };
        if phase.is_past(&meta.version) {
            return FrameOutcome::None;
        }
        if self.versions.observe(&meta) != Delta::Unchanged {
            self.add_unreadable(Some(&meta), &why, Fallback::LastVersion);
        }
        up_to(&meta)
    }

    fn add_unreadable(
        &mut self,
        meta: Option<&PartialObjectMeta<'_>>,
        why: &str,
        fallback: Fallback,
    ) {
        self.counts().unreadable.add_one();
        if let Some(meta) = meta {
            self.versions.mark_unreadable(meta);
        }
        self.unreadable.add(self.resource.kind, meta, why, fallback);
    }
}

fn up_to(meta: &PartialObjectMeta<'_>) -> FrameOutcome {
    if meta.version.is_empty() {
        FrameOutcome::None
    } else {
        FrameOutcome::Version(Str::from(&*meta.version))
    }
}

fn reader(resource: ApiResource) -> Reader {
    let ApiResource { kind, api_version } = resource;
    kind.reader(api_version).expect("discovery finds a version that the kind has")
}
