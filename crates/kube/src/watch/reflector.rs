//! Lists and watches the objects of one kind.
//!
//! As in tools/cache/reflector.go, which says when to list again, when to resume, and how long to wait.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use plimsoll_api::{KindRef, Str};
use tokio::time::Instant;

use super::WatchContext;
use super::backoff::Backoff;
use super::counts::WatchCounters;
use super::feed::{Closed, Feed};
use super::frames::Frames;
use super::list::{ListWatchError, Pagination, list, path};
use super::tracker::{FrameOutcome, ObjectTracker, StreamPhase};
use crate::api_resource::ApiResource;
use crate::request::{GetError, StatusError, get};

/// A watch that ends sooner than this without an event is resumed after a backoff. As in reflector.go,
/// handleAnyWatch.
const VERY_SHORT: Duration = Duration::from_secs(1);
/// How much later than requested the API server may end a watch.
const GRACE: Duration = Duration::from_secs(30);

/// The API server does not have the kind in the requested version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KindNotFound {
    /// All objects were listed before.
    pub(super) had_synced: bool,
}

/// Lists and watches the objects of one kind.
#[derive(Debug)]
pub(super) struct Reflector {
    context: Arc<WatchContext>,
    resource: ApiResource,
    objects: ObjectTracker,
    pagination: Pagination,
    backoff: Backoff,
    /// All changes up to this resource version have been passed on.
    version: Option<Str>,
    /// The API server does not have that version any more, or not yet.
    is_version_unavailable: bool,
    /// All objects have been listed since the kind was found.
    has_synced: bool,
    /// When the API server first denied access to the kind.
    forbidden_since: Option<Instant>,
    /// The last error, until a request succeeds.
    last_error: Option<String>,
}

/// How a watch ended.
enum WatchEnd {
    /// All objects must be listed again.
    Relist,
    /// The watch is resumed at the last version, after a pause if one is given.
    Resume(Option<Duration>),
}

impl Reflector {
    pub(super) fn new(context: Arc<WatchContext>, resource: ApiResource) -> Self {
        Reflector {
            objects: ObjectTracker::new(resource, context.clone()),
            pagination: Pagination::default(),
            backoff: Backoff::new(context.pace),
            version: None,
            is_version_unavailable: false,
            has_synced: false,
            forbidden_since: None,
            last_error: None,
            resource,
            context,
        }
    }

    /// From now on reads the kind in this version.
    pub(super) fn set_resource(&mut self, resource: ApiResource) {
        self.resource = resource;
        self.objects.set_resource(resource);
    }

    /// The kind no longer exists, so all its objects are deleted.
    pub(super) async fn delete_all(&mut self, feed: &mut Feed) -> Result<(), Closed> {
        self.version = None;
        self.objects.begin_list();
        self.objects.end_list(feed).await
    }

    /// Passes on all objects and their changes, until the API server does not find the kind.
    pub(super) async fn run(&mut self, feed: &mut Feed) -> Result<KindNotFound, Closed> {
        self.has_synced = false;
        loop {
            let pause = match self.list_and_watch(feed).await {
                Ok(()) => self.backoff.next(),
                Err(ListWatchError::Closed) => return Err(Closed),
                Err(ListWatchError::Failed(error)) if error.code() == Some(404) => {
                    return Ok(KindNotFound { had_synced: self.has_synced });
                }
                Err(ListWatchError::Failed(error)) => self.on_error(&error),
            };
            tokio::time::sleep(pause).await;
        }
    }

    fn kind(&self) -> KindRef {
        self.resource.kind
    }

    fn counts(&self) -> &WatchCounters {
        self.context.counts.of(self.resource.kind)
    }

    /// Lists all objects, and then watches until they must be listed again.
    async fn list_and_watch(&mut self, feed: &mut Feed) -> Result<(), ListWatchError> {
        let stream = self.streaming_list(feed).await?;
        if stream.is_none() {
            self.list(feed).await?;
        }
        (self.is_version_unavailable, self.has_synced) = (false, true);
        self.forbidden_since = None;
        self.counts().lists.add_one();
        self.on_success();
        self.context.sync.done(self.kind());
        self.watch(stream, feed).await
    }

    /// Lists all objects, in pages.
    async fn list(&mut self, feed: &mut Feed) -> Result<(), ListWatchError> {
        loop {
            let version = match &self.version {
                _ if self.is_version_unavailable => Str::default(),
                Some(version) => version.clone(),
                None => Str::const_new("0"),
            };
            let Reflector { context, resource, pagination, objects, .. } = self;
            match list(&context.client, *resource, &version, pagination, objects, feed).await {
                Ok(version) => {
                    self.version = Some(version);
                    return Ok(());
                }
                // The latest version is always available.
                Err(ListWatchError::Failed(error))
                    if !self.is_version_unavailable && is_version_unavailable(&error) =>
                {
                    self.is_version_unavailable = true;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Lists all objects by a watch that then continues. `None` if plain lists are needed.
    async fn streaming_list(&mut self, feed: &mut Feed) -> Result<Option<Frames>, ListWatchError> {
        if !self.context.has_streaming_lists.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let silence = self.context.pace.list_silence;
        let version = if self.is_version_unavailable { None } else { self.version.as_deref() };
        let path = self.watch_path(&[
            ("sendInitialEvents", "true"),
            ("resourceVersionMatch", "NotOlderThan"),
            ("resourceVersion", version.unwrap_or_default()),
        ]);
        let mut frames = match get(&self.context.client, &path, silence).await {
            Ok(response) => Frames::new(response.into_body()),
            Err(error) => {
                return match &error {
                    // As in api/meta/validation: the API server does not know these parameters, or does
                    // not allow them for a watch.
                    GetError::Status(status) if matches!(status.code, 400 | 422) => {
                        tracing::debug!(%error, "the API server has no streaming lists; using plain lists");
                        self.context.has_streaming_lists.store(false, Ordering::Relaxed);
                        Ok(None)
                    }
                    _ if is_version_unavailable(&error) => {
                        self.is_version_unavailable = true;
                        Ok(None)
                    }
                    _ => Err(error.into()),
                };
            }
        };
        self.objects.begin_list();
        loop {
            while let Some(frame) = frames.take() {
                match self.objects.frame(&frame, StreamPhase::List, feed) {
                    Ok(FrameOutcome::ListEnd(version)) => {
                        self.version = version;
                        self.objects.end_list(feed).await?;
                        return Ok(self.version.is_some().then_some(frames));
                    }
                    Ok(FrameOutcome::None | FrameOutcome::Version(_)) => (),
                    Ok(FrameOutcome::Error(status)) => {
                        self.is_version_unavailable |= status.is_version_unavailable();
                        return Ok(None);
                    }
                    Err(error) => {
                        tracing::debug!(
                            kind = self.kind().as_str(),
                            %error,
                            "a streaming list broke off; using plain lists"
                        );
                        return Ok(None);
                    }
                }
                if feed.is_full() {
                    self.objects.flush(feed).await?;
                }
            }
            self.objects.flush(feed).await?;
            match frames.fill(silence).await {
                Ok(true) => (),
                // The API server treated the request as a plain watch, or the connection broke. A plain
                // list always ends.
                Ok(false) | Err(_) => return Ok(None),
            }
        }
    }

    /// Watches for changes, resuming as often as possible, until all objects must be listed again.
    async fn watch(
        &mut self,
        first: Option<Frames>,
        feed: &mut Feed,
    ) -> Result<(), ListWatchError> {
        let mut stream = first;
        loop {
            let start = Instant::now();
            let frames = match stream.take() {
                Some(frames) => Ok(frames),
                None => self.open_watch().await,
            };
            let end = match frames {
                Ok(frames) => self.read(frames, start, feed).await?,
                Err(error) if error.code() == Some(404) => return Err(error.into()),
                Err(error) if is_version_unavailable(&error) || error.code() == Some(400) => {
                    WatchEnd::Relist
                }
                Err(error) => WatchEnd::Resume(Some(self.on_error(&error))),
            };
            match end {
                WatchEnd::Relist => return Ok(()),
                WatchEnd::Resume(Some(pause)) => tokio::time::sleep(pause).await,
                WatchEnd::Resume(None) => (),
            }
        }
    }

    async fn open_watch(&mut self) -> Result<Frames, GetError> {
        let version = self.version.as_deref().unwrap_or_default();
        let path = self.watch_path(&[("resourceVersion", version)]);
        // Some proxies hold back the response headers until the first event.
        let timeout = self.watch_timeout();
        let response = get(&self.context.client, &path, timeout).await?;
        self.on_success();
        Ok(Frames::new(response.into_body()))
    }

    /// Reads a watch to its end.
    async fn read(
        &mut self,
        mut frames: Frames,
        start: Instant,
        feed: &mut Feed,
    ) -> Result<WatchEnd, ListWatchError> {
        self.counts().watches.add_one();
        let silence = self.watch_timeout();
        let mut has_events = false;
        loop {
            while let Some(frame) = frames.take() {
                has_events = true;
                let phase = StreamPhase::after(self.version.as_deref());
                match self.objects.frame(&frame, phase, feed) {
                    Ok(FrameOutcome::None | FrameOutcome::ListEnd(None)) => (),
                    Ok(FrameOutcome::Version(version) | FrameOutcome::ListEnd(Some(version))) => {
                        self.version = Some(version);
                    }
                    Ok(FrameOutcome::Error(status)) => {
                        self.objects.flush(feed).await?;
                        return Ok(self.on_status(*status));
                    }
                    Err(error) => {
                        // It is unknown which change was lost, so all objects are listed.
                        self.objects.flush(feed).await?;
                        self.on_error(&GetError::Broken(format!(
                            "an event of a watch cannot be read: {error}"
                        )));
                        return Ok(WatchEnd::Relist);
                    }
                }
                if feed.is_full() {
                    self.objects.flush(feed).await?;
                }
            }
            self.objects.flush(feed).await?;
            match frames.fill(silence).await {
                Ok(true) => (),
                Ok(false) => break,
                Err(error) => {
                    tracing::debug!(kind = self.kind().as_str(), %error, "a watch broke off; resuming it");
                    self.counts().failures.add_one();
                    break;
                }
            }
        }
        let is_very_short = !has_events && start.elapsed() < VERY_SHORT;
        Ok(WatchEnd::Resume(is_very_short.then(|| self.backoff.next())))
    }

    /// Handles an `ERROR` event of a watch.
    fn on_status(&mut self, status: StatusError) -> WatchEnd {
        if status.is_expired() {
            return WatchEnd::Relist;
        }
        self.is_version_unavailable |= status.is_version_too_large;
        let may_resume = !status.is_version_too_large && (status.code == 429 || 500 <= status.code);
        let pause = self.on_error(&GetError::Status(Box::new(status)));
        if may_resume { WatchEnd::Resume(Some(pause)) } else { WatchEnd::Relist }
    }

    /// Logs that a request succeeded after an error.
    fn on_success(&mut self) {
        if let Some(error) = self.last_error.take() {
            tracing::info!(kind = self.kind().as_str(), after = error, "the watch works again");
        }
    }

    /// Logs an error, and returns how long to wait before the next request.
    fn on_error(&mut self, error: &GetError) -> Duration {
        self.counts().failures.add_one();
        let (kind, is_forbidden) = (self.kind(), error.code() == Some(403));
        let text = error.to_string();
        if self.last_error.as_ref() == Some(&text) {
            tracing::debug!(
                kind = kind.as_str(),
                error = text,
                "could not list or watch; retrying"
            );
        } else if is_forbidden {
            tracing::error!(
                kind = kind.as_str(),
                error = text,
                "no permission to list or watch; grant get, list and watch of {} in API group {:?} to the \
                 scheduler",
                kind.plural(),
                kind.group(),
            );
        } else {
            tracing::warn!(kind = kind.as_str(), error = text, "could not list or watch; retrying");
        }
        self.last_error = Some(text);
        if let Some(without) = kind.without()
            && is_forbidden
            && self.context.sync.is_awaited(kind)
        {
            let since = *self.forbidden_since.get_or_insert_with(Instant::now);
            if self.context.pace.wait_for_kind <= since.elapsed() {
                tracing::error!(
                    kind = kind.as_str(),
                    "still no permission; continuing without this kind: {without}"
                );
                self.context.sync.done(kind);
            }
        }
        let retry_after = error.status_error().and_then(|status| status.retry_after);
        self.backoff.next().max(retry_after.unwrap_or_default())
    }

    /// How long to wait for the end of a watch.
    fn watch_timeout(&self) -> Duration {
        self.context.pace.watch_for * 2 + GRACE
    }

    fn watch_path(&self, parameters: &[(&str, &str)]) -> String {
        // A random length, so that the watches of all clients do not end at the same time.
        let seconds = self.context.pace.watch_for.mul_f64(1.0 + rand::random::<f64>()).as_secs();
        let seconds = seconds.max(1).to_string();
        let mut all = vec![
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", seconds.as_str()),
        ];
        all.extend_from_slice(parameters);
        path(self.resource, &all)
    }
}

/// Whether the API server does not have the requested version.
fn is_version_unavailable(error: &GetError) -> bool {
    error.status_error().is_some_and(StatusError::is_version_unavailable)
}
