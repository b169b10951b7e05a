//! Watches: report the objects of the cluster and their changes to the engine.
//!
//! Each kind has its own reflector (`reflector.rs`). It lists all objects once, by a streaming list if the
//! API server has them and else in pages, and then watches. A broken watch is resumed where it was. If
//! that version has expired (410), the reflector lists again, and finds out which objects were deleted.
//! Objects are reduced to what scheduling reads as they arrive, and only new versions are read at all.
//!
//! **Invariants.** No change is reported twice or left out, whatever breaks. Memory is bounded: one object
//! of each kind at a time, its batch, and the channel.

mod backoff;
mod counts;
mod decode;
mod feed;
mod frames;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod list;
mod list_parser;
mod metrics;
mod reflector;
mod sync;
mod tracker;
mod unreadable;
mod versions;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use plimsoll_api::KindRef;
use plimsoll_engine::Event;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

pub(crate) use self::backoff::Backoff;
pub use self::backoff::Pace;
use self::counts::AllWatchCounters;
pub use self::counts::WatchCounts;
use self::feed::{Closed, Feed};
pub(crate) use self::list::{encode, list_texts};
pub use self::metrics::WatchMetrics;
use self::reflector::{KindNotFound, Reflector};
use self::sync::SyncTracker;
pub use self::sync::Unsynced;
use crate::api_resource::{ApiResource, ServedVersions};
use crate::discovery::discover;
use crate::follow::ManifestTape;
use crate::originals::OriginalStore;
use crate::server_release::minor_release;

/// What is watched, and where events go.
#[derive(Clone, Debug)]
pub struct Options {
    /// The kinds; see [`Scheduler::kinds`](plimsoll_engine::Scheduler::kinds).
    pub kinds: Vec<KindRef>,
    /// Receives events in batches. While it is full, watches wait.
    pub events: mpsc::Sender<Vec<Event>>,
    /// Stores pods and nodes as the API server wrote them, if extenders need them.
    pub originals: Option<Arc<OriginalStore>>,
    /// Receives the reduced manifests of all objects, if somebody needs them.
    pub manifests: Option<Arc<ManifestTape>>,
    /// Receives the versions in which the API server has the kinds.
    pub served: ServedVersions,
    /// How fast failed requests are retried.
    pub pace: Pace,
    /// The metrics of all watches.
    pub metrics: WatchMetrics,
}

/// Watches that run until this is dropped, or the receiver of their events.
#[derive(Debug)]
pub struct Watches {
    /// Dropping this ends the tasks.
    tasks: JoinSet<()>,
    context: Arc<WatchContext>,
    unsynced: watch::Receiver<Unsynced>,
}

/// What all reflectors share.
struct WatchContext {
    client: kube::Client,
    counts: AllWatchCounters,
    sync: SyncTracker,
    pace: Pace,
    served: ServedVersions,
    metrics: WatchMetrics,
    /// Whether the API server may have streaming lists.
    has_streaming_lists: AtomicBool,
}

impl fmt::Debug for WatchContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchContext").field("counts", &self.counts).finish_non_exhaustive()
    }
}

/// Starts to watch. First asks the API server which kinds it has. Each missing kind is logged once.
///
/// Must be called within a tokio runtime.
pub fn start(client: kube::Client, options: Options) -> Watches {
    let (sync, unsynced) = SyncTracker::new(&options.kinds);
    let context = Arc::new(WatchContext {
        client,
        counts: AllWatchCounters::new(&options.kinds),
        sync,
        pace: options.pace,
        served: options.served.clone(),
        metrics: options.metrics.clone(),
        has_streaming_lists: AtomicBool::new(true),
    });
    let mut tasks = JoinSet::new();
    tasks.spawn(run(context.clone(), options));
    Watches { tasks, context, unsynced }
}

impl Watches {
    /// The kinds that have not been listed completely. Once it is empty, the channel contains all events
    /// of the first lists: a receiver that then empties the channel knows the whole cluster. It must
    /// receive batches before that, too, because the channel is soon full.
    pub fn unsynced(&self) -> watch::Receiver<Unsynced> {
        self.unsynced.clone()
    }

    /// Waits until all watches have ended, because the receiver of their events was dropped, or because
    /// of a bug. After a bug, new watches must be started.
    pub async fn ended(&mut self) {
        while self.tasks.join_next().await.is_some() {}
    }

    /// What has happened so far, by kind.
    pub fn counts(&self) -> BTreeMap<KindRef, WatchCounts> {
        self.context.counts.read()
    }
}

async fn run(context: Arc<WatchContext>, options: Options) {
    let events = options.events.clone();
    tokio::select! {
        () = watch_all(context, options) => (),
        // The receiver was dropped, so there is nothing to wait for.
        () = events.closed() => (),
    }
}

async fn watch_all(context: Arc<WatchContext>, options: Options) {
    let Options { kinds, events, originals, manifests, pace, served: _, metrics: _ } = options;
    let mut backoff = Backoff::new(pace);
    let discovered = loop {
        match discover(&context.client, &kinds).await {
            Ok(discovered) => break discovered,
            Err(error) => {
                let wait = backoff.next();
                let again_in_seconds = wait.as_secs_f32();
                tracing::warn!(%error, again_in_seconds, "could not discover the kinds of the API server; retrying");
                tokio::time::sleep(wait).await;
            }
        }
    };
    // Most older servers refuse a streaming list, but some treat it as a plain watch.
    let minor = minor_release(&context.client).await.ok().flatten();
    if minor.is_some_and(|minor| minor < STREAMING_LISTS) {
        context.has_streaming_lists.store(false, Ordering::Relaxed);
    }
    let mut reflectors = JoinSet::new();
    let missing = discovered.missing.iter().map(|&kind| (kind, None));
    let found = discovered.resources.into_iter().map(|resource| (resource.kind, Some(resource)));
    for (kind, resource) in found.chain(missing) {
        let feed = Feed::new(kind, events.clone(), originals.clone(), manifests.clone());
        reflectors.spawn(follow(context.clone(), kind, resource, feed));
    }
    // They run until the receiver of the events is dropped. If one of them ends because of a bug, all
    // must end: the scheduler must not continue with an outdated view of one kind.
    reflectors.join_next().await;
}

/// The first minor release that may have streaming lists.
const STREAMING_LISTS: u32 = 27;
/// How often a missing kind is looked for, since the API server may be upgraded.
const RETRY_MISSING_KIND: Duration = Duration::from_mins(5);
/// After this many 404s for a kind that discovery reports, the kind counts as missing.
const MAX_NOT_FOUND: u32 = 3;

/// Watches one kind in whatever version the API server has, until the receiver of the events is dropped.
async fn follow(
    context: Arc<WatchContext>,
    kind: KindRef,
    mut resource: Option<ApiResource>,
    mut feed: Feed,
) -> Result<(), Closed> {
    let mut reflector: Option<Reflector> = None;
    let mut backoff = Backoff::new(context.pace);
    let (mut missing_since, mut is_logged, mut n_not_found) = (None, false, 0);
    loop {
        if let Some(resource) = resource {
            let reflector =
                reflector.get_or_insert_with(|| Reflector::new(context.clone(), resource));
            reflector.set_resource(resource);
            context.served.set(resource);
            let KindNotFound { had_synced } = reflector.run(&mut feed).await?;
            if had_synced {
                (missing_since, is_logged, n_not_found) = (None, false, 0);
            }
            n_not_found += 1;
        } else if let Some(without) = kind.without()
            && !is_logged
        {
            // A starting API server may lack kinds for a moment, so objects are not deleted at once.
            let since = *missing_since.get_or_insert_with(Instant::now);
            if reflector.is_none() || context.pace.wait_for_kind <= since.elapsed() {
                is_logged = true;
                let versions = kind.versions().join(", ");
                tracing::warn!(
                    kind = kind.as_str(),
                    versions,
                    "the API server does not have this kind; continuing without it: {without}"
                );
                if let Some(reflector) = &mut reflector {
                    reflector.delete_all(&mut feed).await?;
                }
                // As in reflector.go, list: a missing kind counts as synced.
                context.sync.done(kind);
            }
        }
        let pause = if is_logged { RETRY_MISSING_KIND } else { backoff.next() };
        tokio::time::sleep(pause).await;
        match discover(&context.client, &[kind]).await {
            Ok(discovered) => {
                let found = discovered.resources.first().copied();
                resource = found.filter(|_| found != resource || n_not_found < MAX_NOT_FOUND);
            }
            Err(error) => {
                tracing::debug!(kind = kind.as_str(), %error, "could not discover a kind; retrying");
            }
        }
    }
}
