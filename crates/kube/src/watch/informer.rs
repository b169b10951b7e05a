//! The watch of one kind: all objects once, then what changes, for ever.
//!
//! As in tools/cache/reflector.go, which says when to list anew, when to resume, and how long to wait.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use plimsoll_api::Str;
use tokio::time::Instant;

use super::Shared;
use super::apply::{Objects, Phase, Said};
use super::backoff::Backoff;
use super::counts::Cells;
use super::feed::{Closed, Feed};
use super::frames::Frames;
use super::list::{Habits, Trouble, list, path};
use plimsoll_api::KindRef;

use crate::place::Place;
use crate::request::{Failure, Refusal, get};

/// A watch that ends sooner than that, and brought nothing, is not begun again at once. As in
/// reflector.go, handleAnyWatch.
const VERY_SHORT: Duration = Duration::from_secs(1);
/// How much later than it should a server may end a watch.
const GRACE: Duration = Duration::from_secs(30);

/// The server has no such kind in the version that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotFound {
    /// All objects have been told before.
    pub(super) was_there: bool,
}

/// The watch of one kind.
#[derive(Debug)]
pub(super) struct Informer {
    shared: Arc<Shared>,
    place: Place,
    objects: Objects,
    habits: Habits,
    backoff: Backoff,
    /// Up to where all has been told.
    version: Option<Str>,
    /// The server does not know that version, or does not know it yet.
    is_lost: bool,
    /// All has been told since the kind was found.
    was_there: bool,
    /// When we were first told that we may not read the kind.
    forbidden: Option<Instant>,
    /// What went wrong last, while it does.
    complaint: Option<String>,
}

/// How a watch ended.
enum End {
    /// All must be told anew.
    Lost,
    /// It goes on from where it was, after a pause if one is given.
    Resume(Option<Duration>),
}

impl Informer {
    pub(super) fn new(shared: Arc<Shared>, place: Place) -> Self {
        Informer {
            objects: Objects::new(place, shared.clone()),
            habits: Habits::default(),
            backoff: Backoff::new(shared.pace),
            version: None,
            is_lost: false,
            was_there: false,
            forbidden: None,
            complaint: None,
            place,
            shared,
        }
    }

    /// From now on the kind is found at `place`.
    pub(super) fn set_place(&mut self, place: Place) {
        self.place = place;
        self.objects.set_place(place);
    }

    /// The kind is gone, and all objects with it.
    pub(super) async fn forget(&mut self, feed: &mut Feed) -> Result<(), Closed> {
        self.version = None;
        self.objects.begin_list();
        self.objects.end_list(feed).await
    }

    /// Tells what is there and what changes, until the kind cannot be found.
    pub(super) async fn run(&mut self, feed: &mut Feed) -> Result<NotFound, Closed> {
        self.was_there = false;
        loop {
            let pause = match self.round(feed).await {
                Ok(()) => self.backoff.next(),
                Err(Trouble::Closed) => return Err(Closed),
                Err(Trouble::Failed(failure)) if failure.code() == Some(404) => {
                    return Ok(NotFound { was_there: self.was_there });
                }
                Err(Trouble::Failed(failure)) => self.after(&failure),
            };
            tokio::time::sleep(pause).await;
        }
    }

    fn kind(&self) -> KindRef {
        self.place.kind
    }

    fn counts(&self) -> &Cells {
        self.shared.counts.of(self.place.kind)
    }

    /// Has all told once, and then follows until all must be told again.
    async fn round(&mut self, feed: &mut Feed) -> Result<(), Trouble> {
        let stream = self.streaming_list(feed).await?;
        if stream.is_none() {
            self.list(feed).await?;
        }
        (self.is_lost, self.was_there) = (false, true);
        self.forbidden = None;
        self.counts().lists.add_one();
        self.recovered();
        self.shared.progress.done(self.kind());
        self.follow(stream, feed).await
    }

    /// Has all told by lists.
    async fn list(&mut self, feed: &mut Feed) -> Result<(), Trouble> {
        loop {
            let version = match &self.version {
                _ if self.is_lost => Str::default(),
                Some(version) => version.clone(),
                None => Str::const_new("0"),
            };
            let Informer { shared, place, habits, objects, .. } = self;
            match list(&shared.client, *place, &version, habits, objects, feed).await {
                Ok(version) => {
                    self.version = Some(version);
                    return Ok(());
                }
                // The very latest can always be had.
                Err(Trouble::Failed(failure)) if !self.is_lost && is_lost(&failure) => {
                    self.is_lost = true;
                }
                Err(trouble) => return Err(trouble),
            }
        }
    }

    /// Has all told by a watch that goes on afterwards; `None` where lists must be asked for.
    async fn streaming_list(&mut self, feed: &mut Feed) -> Result<Option<Frames>, Trouble> {
        if !self.shared.has_streaming_lists.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let silence = self.shared.pace.list_silence;
        let version = if self.is_lost { None } else { self.version.as_deref() };
        let watch = self.watch_path(&[
            ("sendInitialEvents", "true"),
            ("resourceVersionMatch", "NotOlderThan"),
            ("resourceVersion", version.unwrap_or_default()),
        ]);
        let mut frames = match get(&self.shared.client, &watch, silence).await {
            Ok(answer) => Frames::new(answer.into_body()),
            Err(failure) => {
                return match &failure {
                    // As in api/meta/validation: the server knows no such parameters, or not for a watch.
                    Failure::Refused(refusal) if matches!(refusal.code, 400 | 422) => {
                        tracing::debug!(%failure, "the API server has no streaming lists");
                        self.shared.has_streaming_lists.store(false, Ordering::Relaxed);
                        Ok(None)
                    }
                    _ if is_lost(&failure) => {
                        self.is_lost = true;
                        Ok(None)
                    }
                    _ => Err(failure.into()),
                };
            }
        };
        self.objects.begin_list();
        loop {
            while let Some(frame) = frames.take() {
                match self.objects.frame(&frame, Phase::List, feed) {
                    Ok(Said::ListEnds(version)) => {
                        self.version = version;
                        self.objects.end_list(feed).await?;
                        return Ok(self.version.is_some().then_some(frames));
                    }
                    Ok(Said::Nothing | Said::UpTo(_)) => (),
                    Ok(Said::Error(refusal)) => {
                        self.is_lost |= refusal.is_expired() || refusal.is_behind;
                        return Ok(None);
                    }
                    Err(error) => {
                        tracing::debug!(
                            kind = self.kind().as_str(),
                            error,
                            "a streaming list broke off"
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
                // The server took it for a plain watch, or broke off: a list always comes to an end.
                Ok(false) | Err(_) => return Ok(None),
            }
        }
    }

    /// Follows what changes, over as many watches as it takes, until all must be told anew.
    async fn follow(&mut self, first: Option<Frames>, feed: &mut Feed) -> Result<(), Trouble> {
        let mut stream = first;
        loop {
            let start = Instant::now();
            let frames = match stream.take() {
                Some(frames) => Ok(frames),
                None => self.watch().await,
            };
            let end = match frames {
                Ok(frames) => self.read(frames, start, feed).await?,
                Err(failure) if failure.code() == Some(404) => return Err(failure.into()),
                Err(failure) if is_lost(&failure) || failure.code() == Some(400) => End::Lost,
                Err(failure) => End::Resume(Some(self.after(&failure))),
            };
            match end {
                End::Lost => return Ok(()),
                End::Resume(Some(pause)) => tokio::time::sleep(pause).await,
                End::Resume(None) => (),
            }
        }
    }

    async fn watch(&mut self) -> Result<Frames, Failure> {
        let version = self.version.as_deref().unwrap_or_default();
        let path = self.watch_path(&[("resourceVersion", version)]);
        let longest = self.longest_watch();
        // Some proxies pass the head of an answer on only with the first event.
        let answer = get(&self.shared.client, &path, longest).await?;
        self.recovered();
        Ok(Frames::new(answer.into_body()))
    }

    /// Reads a watch to its end.
    async fn read(
        &mut self,
        mut frames: Frames,
        start: Instant,
        feed: &mut Feed,
    ) -> Result<End, Trouble> {
        self.counts().watches.add_one();
        let silence = self.longest_watch();
        let mut has_said = false;
        loop {
            while let Some(frame) = frames.take() {
                has_said = true;
                let phase = Phase::after(self.version.as_deref());
                match self.objects.frame(&frame, phase, feed) {
                    Ok(Said::Nothing | Said::ListEnds(None)) => (),
                    Ok(Said::UpTo(version) | Said::ListEnds(Some(version))) => {
                        self.version = Some(version);
                    }
                    Ok(Said::Error(refusal)) => {
                        self.objects.flush(feed).await?;
                        return Ok(self.after_error(*refusal));
                    }
                    Err(error) => {
                        // What it said is not known, so all is asked for.
                        self.objects.flush(feed).await?;
                        self.after(&Failure::Broken(format!(
                            "a watch says what cannot be read: {error}"
                        )));
                        return Ok(End::Lost);
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
                Err(failure) => {
                    tracing::debug!(kind = self.kind().as_str(), %failure, "a watch broke off");
                    self.counts().failures.add_one();
                    break;
                }
            }
        }
        let is_very_short = !has_said && start.elapsed() < VERY_SHORT;
        Ok(End::Resume(is_very_short.then(|| self.backoff.next())))
    }

    fn after_error(&mut self, refusal: Refusal) -> End {
        if refusal.is_expired() {
            return End::Lost;
        }
        self.is_lost |= refusal.is_behind;
        let may_resume = !refusal.is_behind && (refusal.code == 429 || 500 <= refusal.code);
        let pause = self.after(&Failure::Refused(Box::new(refusal)));
        if may_resume { End::Resume(Some(pause)) } else { End::Lost }
    }

    /// Nothing is wrong any more.
    fn recovered(&mut self) {
        if let Some(complaint) = self.complaint.take() {
            tracing::info!(kind = self.kind().as_str(), after = complaint, "is told again");
        }
    }

    /// Takes note of a failure, and says how long to wait.
    fn after(&mut self, failure: &Failure) -> Duration {
        self.counts().failures.add_one();
        let (kind, is_forbidden) = (self.kind(), failure.code() == Some(403));
        let complaint = failure.to_string();
        if self.complaint.as_ref() == Some(&complaint) {
            tracing::debug!(kind = kind.as_str(), error = complaint, "cannot be read");
        } else if is_forbidden {
            tracing::error!(
                kind = kind.as_str(),
                error = complaint,
                "may not be read; grant get, list and watch of {} in API group {:?} to the scheduler",
                kind.plural(),
                kind.group(),
            );
        } else {
            tracing::warn!(
                kind = kind.as_str(),
                error = complaint,
                "cannot be read; it is tried again"
            );
        }
        self.complaint = Some(complaint);
        if let Some(without) = kind.without()
            && is_forbidden
            && self.shared.progress.awaits(kind)
        {
            let since = *self.forbidden.get_or_insert_with(Instant::now);
            if self.shared.pace.wait_for_kind <= since.elapsed() {
                tracing::error!(kind = kind.as_str(), "goes on without it: {without}");
                self.shared.progress.done(kind);
            }
        }
        let asked = failure.refusal().and_then(|refusal| refusal.retry_after);
        self.backoff.next().max(asked.unwrap_or_default())
    }

    /// How long to wait for the end of a watch.
    fn longest_watch(&self) -> Duration {
        self.shared.pace.watch_for * 2 + GRACE
    }

    fn watch_path(&self, parameters: &[(&str, &str)]) -> String {
        // Not all watches of all clients are to end at once.
        let seconds = self.shared.pace.watch_for.mul_f64(1.0 + rand::random::<f64>()).as_secs();
        let seconds = seconds.max(1).to_string();
        let mut all = vec![
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", seconds.as_str()),
        ];
        all.extend_from_slice(parameters);
        path(self.place, &all)
    }
}

/// Whether the server cannot give the version that it was asked for.
fn is_lost(failure: &Failure) -> bool {
    failure.refusal().is_some_and(|refusal| refusal.is_expired() || refusal.is_behind)
}
