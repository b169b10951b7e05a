//! Watches: what is in the cluster, told to the engine as it changes.
//!
//! Each kind has an informer of its own (`informer.rs`): it has all objects told to it once, by a streaming
//! list where the server has them and by pages of a list elsewhere, and then follows a watch. After a
//! break it goes on where it was; where the server does not know that place any more (410), it has all
//! told again and finds out itself what is gone. An object is reduced to what scheduling reads as it
//! arrives, and only what is new is read at all.
//!
//! **Invariants.** Nothing is told twice, and nothing is left out, whatever breaks. What is held is
//! bounded: one object of a kind at a time, its batch, and the channel.

mod apply;
mod backoff;
mod counts;
mod feed;
mod frames;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod head;
mod informer;
mod items;
mod known;
mod list;
mod metrics;
mod progress;
mod unreadable;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use plimsoll_engine::Event;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

pub(crate) use self::backoff::Backoff;
pub use self::backoff::Pace;
use self::counts::AllCells;
pub use self::counts::Counts;
use self::feed::{Closed, Feed};
use self::informer::{Informer, NotFound};
pub use self::metrics::WatchMetrics;
use self::progress::Progress;
pub use self::progress::Waiting;
use crate::discovery::discover;
use plimsoll_api::KindRef;

use crate::originals::Kept;
use crate::place::{Place, Served};
use crate::server_release::minor_release;

/// What is watched, and who hears of it.
#[derive(Clone, Debug)]
pub struct Options {
    /// The kinds; see [`Scheduler::kinds`](plimsoll_engine::Scheduler::kinds).
    pub kinds: Vec<KindRef>,
    /// Takes events in, in batches. Where it is full, watches wait.
    pub events: mpsc::Sender<Vec<Event>>,
    /// Keeps pods and nodes as they were written, where extenders want them.
    pub originals: Option<Arc<Kept>>,
    /// In which versions the server has the kinds is told here.
    pub served: Served,
    /// How fast things are tried again.
    pub pace: Pace,
    /// Where what was found is told.
    pub metrics: WatchMetrics,
}

/// Watches that run until this is dropped, or until nobody takes events in any more.
#[derive(Debug)]
pub struct Watches {
    /// Dropping it ends the tasks.
    tasks: JoinSet<()>,
    shared: Arc<Shared>,
    waiting: watch::Receiver<Waiting>,
}

/// What all informers share.
struct Shared {
    client: kube::Client,
    counts: AllCells,
    progress: Progress,
    pace: Pace,
    served: Served,
    metrics: WatchMetrics,
    /// Whether the server may know streaming lists.
    has_streaming_lists: AtomicBool,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("counts", &self.counts).finish_non_exhaustive()
    }
}

/// Begins to watch. Asks the server first which kinds it has; one that it has not is named in the log once.
///
/// Must be called within a tokio runtime.
pub fn start(client: kube::Client, options: Options) -> Watches {
    let (progress, waiting) = Progress::new(&options.kinds);
    let shared = Arc::new(Shared {
        client,
        counts: AllCells::new(&options.kinds),
        progress,
        pace: options.pace,
        served: options.served.clone(),
        metrics: options.metrics.clone(),
        has_streaming_lists: AtomicBool::new(true),
    });
    let mut tasks = JoinSet::new();
    tasks.spawn(run(shared.clone(), options));
    Watches { tasks, shared, waiting }
}

impl Watches {
    /// The kinds that have not been told whole yet. Once there are none, all batches of the first lists
    /// are in the channel: whoever sees that takes them in first, and then knows the cluster. Until then
    /// batches must be taken in, too: the channel is soon full.
    pub fn waiting(&self) -> watch::Receiver<Waiting> {
        self.waiting.clone()
    }

    /// Waits until nothing is watched any more: nobody takes events in, or a bug has come to light. Whoever
    /// still wants to know the cluster then must begin anew.
    pub async fn ended(&mut self) {
        while self.tasks.join_next().await.is_some() {}
    }

    /// What has happened so far.
    pub fn counts(&self) -> BTreeMap<KindRef, Counts> {
        self.shared.counts.read()
    }
}

async fn run(shared: Arc<Shared>, options: Options) {
    let events = options.events.clone();
    tokio::select! {
        () = watch_all(shared, options) => (),
        // Whatever is waited for, nobody wants it any more.
        () = events.closed() => (),
    }
}

async fn watch_all(shared: Arc<Shared>, options: Options) {
    let Options { kinds, events, originals, pace, served: _, metrics: _ } = options;
    let mut backoff = Backoff::new(pace);
    let found = loop {
        match discover(&shared.client, &kinds).await {
            Ok(found) => break found,
            Err(error) => {
                let wait = backoff.next();
                let again_in_seconds = wait.as_secs_f32();
                tracing::warn!(%error, again_in_seconds, "nothing can be watched yet");
                tokio::time::sleep(wait).await;
            }
        }
    };
    // Most servers before that refuse a streaming list, but some take it for a plain watch.
    let minor = minor_release(&shared.client).await.ok().flatten();
    if minor.is_some_and(|minor| minor < STREAMING_LISTS) {
        shared.has_streaming_lists.store(false, Ordering::Relaxed);
    }
    let mut informers = JoinSet::new();
    let missing = found.missing.iter().map(|&kind| (kind, None));
    let found = found.places.into_iter().map(|place| (place.kind, Some(place)));
    for (kind, place) in found.chain(missing) {
        let feed = Feed::new(kind, events.clone(), originals.clone());
        informers.spawn(follow(shared.clone(), kind, place, feed));
    }
    // They go on for ever, or until nobody takes events in. Where one of them ends by a bug all do: the
    // scheduler must not go on with a picture of the cluster of which a part stands still.
    informers.join_next().await;
}

/// The minor release from which on there may be streaming lists.
const STREAMING_LISTS: u32 = 27;
/// How often a kind is looked for that the server has not: it may be upgraded.
const LOOK_EVERY: Duration = Duration::from_mins(5);
/// How often a place may be named where there is nothing, before that is believed.
const MISSES: u32 = 3;

/// Watches one kind, wherever it may be found, until nobody takes events in any more.
async fn follow(
    shared: Arc<Shared>,
    kind: KindRef,
    mut place: Option<Place>,
    mut feed: Feed,
) -> Result<(), Closed> {
    let mut informer: Option<Informer> = None;
    let mut backoff = Backoff::new(shared.pace);
    let (mut absent, mut is_named, mut misses) = (None, false, 0);
    loop {
        if let Some(here) = place {
            let informer = informer.get_or_insert_with(|| Informer::new(shared.clone(), here));
            informer.set_place(here);
            shared.served.is_at(here);
            let NotFound { was_there } = informer.run(&mut feed).await?;
            if was_there {
                (absent, is_named, misses) = (None, false, 0);
            }
            misses += 1;
        } else if let Some(without) = kind.without()
            && !is_named
        {
            // A server that starts may lack for a moment what it has: nothing is forgotten at once.
            let since = *absent.get_or_insert_with(Instant::now);
            if informer.is_none() || shared.pace.wait_for_kind <= since.elapsed() {
                is_named = true;
                let versions = kind.versions().join(", ");
                tracing::warn!(
                    kind = kind.as_str(),
                    versions,
                    "the API server has no such kind: {without}"
                );
                if let Some(informer) = &mut informer {
                    informer.forget(&mut feed).await?;
                }
                // As in reflector.go, list: there is nothing to wait for.
                shared.progress.done(kind);
            }
        }
        let pause = if is_named { LOOK_EVERY } else { backoff.next() };
        tokio::time::sleep(pause).await;
        match discover(&shared.client, &[kind]).await {
            Ok(found) => {
                let found = found.places.first().copied();
                place = found.filter(|_| found != place || misses < MISSES);
            }
            Err(error) => tracing::debug!(kind = kind.as_str(), %error, "is looked for again"),
        }
    }
}
