//! `plimsoll run`: the engine on a real cluster.
//!
//! [`run`] connects, watches, takes part in the election of a leader and, once it leads, lets the engine
//! decide and the writer write, until it is told to stop or loses the lease.

mod clock;
mod core;
mod post;
mod pulse;
mod scores;
mod served;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_config::Extender;
use plimsoll_engine::{Options, Profile, ProfileError, Scheduler};
use plimsoll_framework::{Prioritize, Release};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::clock::Clock;
pub use self::clock::stopwatch;
use self::core::{Core, Inbox};
use self::post::Post;
use self::pulse::Pulse;
pub use self::scores::SCORES;
use self::served::Known;
pub use self::served::{Serving, SetVerbosity};
use crate::client::{Access, AccessError, Connection, RestMetrics, connect};
use crate::events::{self, Broadcaster};
use crate::extender::{self, Extenders};
use crate::identity::hostname;
use crate::kinds::Kind;
use crate::lease::{self, SettingsError};
use crate::limit::{Bucket, Rate};
use crate::originals::Kept;
use crate::serve::{Desk, Question, ServeError};
use crate::watch::{self as watches, Pace, WatchMetrics, Watches};
use crate::write::{self, Writer};

/// So many batches of events may wait for the engine; then watches wait.
const EVENT_BATCHES: usize = 256;

/// What the part is called that decides.
const ENGINE: &str = "the engine";

/// Everything that is set up before anything is begun.
#[derive(Debug)]
pub struct Setup {
    /// What decides.
    pub profiles: Vec<Profile>,
    /// What ranks nodes in place of the scores of the profiles, for each of them in their order; empty where
    /// the scores do.
    pub rankings: Vec<Arc<dyn Prioritize>>,
    /// How the engine works.
    pub engine: Options,
    /// Where chance comes from.
    pub seed: u64,
    /// The extenders, in the order in which they are called.
    pub extenders: Vec<Extender>,
    /// Where the API server is.
    pub access: Access,
    /// How many requests are sent: by the writer, and as many again by the recorder of events.
    pub rate: Rate,
    /// The election of a leader; without one this instance leads.
    pub election: Option<lease::Settings>,
    /// `delayCacheUntilActive`: nothing is watched before this instance leads.
    pub delay_cache_until_active: bool,
    /// How long what is under way may take when it is told to stop.
    pub grace: Duration,
    /// After so long without a sign of life the engine counts as stuck; never, where that is zero. Within a
    /// decision there are signs of life where the engine has [`stopwatch`].
    pub stall_timeout: Duration,
    /// What is served; nothing if that is `None`.
    pub serving: Option<Serving>,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It was told to stop.
    Stopped,
    /// Another instance may lead now.
    LostLease,
}

/// Why it did not begin, or had to end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The API server cannot be reached that way.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The profiles make no scheduler.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// An extender cannot be called.
    #[error(transparent)]
    Extender(#[from] extender::SetupError),
    /// The API server that is to say who is who, or who may do what, cannot be reached that way.
    #[error("{flag}: {error}")]
    Reviews {
        /// The flag that says how.
        flag: &'static str,
        /// What is wrong.
        error: AccessError,
    },
    /// Nothing can be served that way.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The election cannot be held.
    #[error("leaderElection: {0}")]
    Election(#[from] SettingsError),
    /// The engine does not move any more.
    #[error(
        "the engine has not moved for {0:?} (--engine-stall-timeout): a plugin that never returns, or a bug; \
         please report it with the log"
    )]
    Stuck(Duration),
    /// A part of the process has ended that must not.
    #[error("{0} has ended: a bug, please report it with the log")]
    Ended(&'static str),
}

/// Runs until `stop` is cancelled or the lease is lost.
pub async fn run(setup: Setup, stop: CancellationToken) -> Result<Exit, RunError> {
    // A ranking logs its scores by itself.
    let logs_scores = setup.rankings.is_empty();
    let profiles = ranked(setup.profiles, setup.rankings);
    let scheduler = Scheduler::new(profiles, setup.engine, setup.seed)?;
    let mut scheduler =
        scheduler.with_extenders(setup.extenders.iter().map(extender::for_engine).collect());
    let metrics = Arc::new(RestMetrics::default());
    let watch_metrics = WatchMetrics::default();
    let access = setup.access;
    // Nothing was begun yet that would have to be finished.
    let connected = stop.run_until_cancelled(connect(access.clone(), metrics.clone())).await;
    let Some(connection) = connected.transpose()? else { return Ok(Exit::Stopped) };
    let broadcaster =
        Broadcaster::new(connection.caller("events", setup.rate), events::Options::new(hostname()));
    let record = Arc::new(broadcaster.clone());
    let end_election = CancellationToken::new();
    let mut post = Post::take(&connection, setup.election, record.clone(), end_election.clone())?;
    let (answers, answered) = mpsc::unbounded_channel();
    let writing = writing(record, &post, setup.rate, setup.engine.release);
    let (say, replies) = mpsc::unbounded_channel();
    let originals = Arc::new(Kept::default());
    let may_write = writing.may_write.clone();
    let extenders = Extenders::new(&setup.extenders, originals.clone(), may_write, say)?;
    let extenders = Arc::new(extenders);
    let caller = connection.caller("scheduler", Rate::UNLIMITED);
    let writer = Arc::new(Writer::new(caller, writing, answers));
    let (clock, (desk, mut questions)) = (Clock::start(), Desk::new());
    let (ready, is_ready) = watch::channel(false);
    let (pulse, stuck) = (Pulse::new(setup.stall_timeout), CancellationToken::new());
    let end_serving = CancellationToken::new();
    let _ends = end_serving.clone().drop_guard();
    if let Some(serving) = setup.serving {
        let known = Known {
            desk,
            metrics,
            watched: watch_metrics.clone(),
            leadership: post.leadership.clone(),
            state: post.state.clone(),
            is_ready,
            stop: stop.clone(),
            stuck: stuck.clone(),
        };
        if !begin_to_serve(serving, &access, known, &stop, end_serving).await? {
            return post.give_back(end_election).await;
        }
    }

    if setup.delay_cache_until_active {
        let asked = answer(&mut questions, clock, &mut scheduler);
        if !leads_at_last(&mut post, &stop, asked).await? {
            return post.give_back(end_election).await;
        }
    }
    let originals = (!setup.extenders.is_empty()).then_some(originals);
    let (mut watched, events) = begin_to_watch(&connection, &scheduler, originals, watch_metrics);
    let stop_deciding = CancellationToken::new();
    let inbox = Inbox {
        events,
        answers: answered,
        replies,
        questions,
        waiting: watched.waiting(),
        leads: post.state.clone(),
        stop: stop_deciding.clone(),
    };
    let outlets = (writer.clone(), extenders.clone());
    let core = Core::new(scheduler, clock, inbox, outlets, ready, pulse.clone(), logs_scores);
    let mut core = on_own_thread(core, setup.grace);

    // Whoever leads now must not be disturbed by what was decided before.
    let stop_at_once = || {
        writer.stop_at_once();
        extenders.stop_at_once();
        stop_deciding.cancel();
    };
    let parts = cannot_go_on(&mut watched, &writer, &pulse, &mut core);
    let ended = match until_it_ends(&mut post, &stop, parts).await {
        Ending::Told => None,
        Ending::Lost(lost) => {
            stop_at_once();
            return lost.map(|()| Exit::LostLease);
        }
        Ending::Stuck => {
            // What it decided last is as old as its silence.
            stop_at_once();
            stuck.cancel();
            let spans = (setup.stall_timeout, setup.grace);
            return Err(give_up(&mut post, end_election, spans, &stop).await);
        }
        Ending::Part(part) => Some(part),
    };
    stop_deciding.cancel();
    let core = (ended != Some(ENGINE)).then_some(core);
    finish(core, &extenders, &writer, &broadcaster, setup.grace).await;
    let exit = post.give_back(end_election).await?;
    ended.map_or(Ok(exit), |part| Err(RunError::Ended(part)))
}

/// The profiles, each with the ranking that decides in place of its scores, if any does.
fn ranked(profiles: Vec<Profile>, rankings: Vec<Arc<dyn Prioritize>>) -> Vec<Profile> {
    if rankings.is_empty() {
        return profiles;
    }
    let ranked = profiles.into_iter().zip(rankings);
    ranked.map(|(profile, by)| profile.ranked_by(scores::logged(by))).collect()
}

/// Waits for the lease, and answers questions meanwhile; whether it came before the end.
async fn leads_at_last(
    post: &mut Post,
    stop: &CancellationToken,
    asked: impl Future<Output = Infallible>,
) -> Result<bool, RunError> {
    tokio::select! {
        leads = post.wait_to_lead(stop) => leads,
        never = asked => match never {},
    }
}

/// How the work comes to an end.
#[derive(Debug)]
enum Ending {
    /// It was told to stop.
    Told,
    /// The lease is lost, or nobody sees to it any more that it is kept.
    Lost(Result<(), RunError>),
    /// The engine does not move any more.
    Stuck,
    /// A part has ended that must not.
    Part(&'static str),
}

/// Waits until a part of the process ends that must not, or the engine is stuck.
async fn cannot_go_on(
    watched: &mut Watches,
    writer: &Writer,
    pulse: &Pulse,
    core: &mut JoinHandle<()>,
) -> Ending {
    tokio::select! {
        biased;
        () = watched.ended() => Ending::Part("the watches"),
        () = writer.ended() => Ending::Part("the writer"),
        () = pulse.stops() => Ending::Stuck,
        _ = core => Ending::Part(ENGINE),
    }
}

/// Waits until it is told to stop, the lease is lost, or `parts` say that they cannot go on.
async fn until_it_ends(
    post: &mut Post,
    stop: &CancellationToken,
    parts: impl Future<Output = Ending>,
) -> Ending {
    let ending = tokio::select! {
        biased;
        () = stop.cancelled() => Ending::Told,
        lost = post.lost() => Ending::Lost(lost),
        ending = parts => ending,
    };
    match ending {
        // The parts hear of the lease by themselves: one that ends for its sake may be seen to end first.
        Ending::Part(_) if post.has_lost() => Ending::Lost(Ok(())),
        ending => ending,
    }
}

/// How the writer works: as long as this instance leads, and so much at a time.
fn writing(record: Arc<Broadcaster>, post: &Post, rate: Rate, release: Release) -> write::Options {
    let mut writing = write::Options::new(record);
    writing.bindings_again = write::bindings_again(release);
    if let Some(leadership) = &post.leadership {
        writing.may_write = leadership.may_write();
    }
    // Who waits for its turn inside a client would be taken to be sent already.
    let bucket = Bucket::new(rate);
    writing.turn = Arc::new(move || {
        let bucket = bucket.clone();
        Box::pin(async move {
            bucket.wait().await;
        })
    });
    writing
}

/// Begins to serve, if anything is to be served. `false` if it was told to stop before.
async fn begin_to_serve(
    serving: Serving,
    access: &Access,
    known: Known,
    stop: &CancellationToken,
    end: CancellationToken,
) -> Result<bool, RunError> {
    let server = stop.run_until_cancelled(served::listen(serving, access, known)).await;
    let Some(server) = server.transpose()? else { return Ok(false) };
    if let Some(server) = server {
        tokio::spawn(server.serve(end));
    }
    Ok(true)
}

/// The engine is stuck: gives the lease back, so that another instance can lead at once. This one never leads
/// again. It still says why for a while, to whoever asks for its health, and then ends.
async fn give_up(
    post: &mut Post,
    end_election: CancellationToken,
    (limit, grace): (Duration, Duration),
    stop: &CancellationToken,
) -> RunError {
    tracing::error!(
        without_a_beat = ?limit,
        ends_within = ?grace,
        "the engine is stuck: nothing more is written, the lease is given back, and the process ends"
    );
    if let Err(error) = post.give_back(end_election).await {
        tracing::error!(%error, "the lease could not be given back: it will run out");
    }
    let _ = tokio::time::timeout(grace, stop.cancelled()).await;
    RunError::Stuck(limit)
}

/// Finishes what the engine has begun, and what it has handed out.
async fn finish(
    core: Option<JoinHandle<()>>,
    extenders: &Extenders,
    writer: &Writer,
    broadcaster: &Broadcaster,
    grace: Duration,
) {
    // All parts have this long together: whoever stops us does not wait for one after the other.
    let deadline = Instant::now() + grace;
    let remains = || deadline.saturating_duration_since(Instant::now());
    writer.end_soon();
    if let Some(core) = core {
        // An engine that is stuck never ends.
        let _ = tokio::time::timeout_at(deadline, core).await;
    }
    // The engine has waited for them as long as it may.
    if !extenders.finish(Duration::ZERO).await {
        tracing::warn!("some bindings by extenders were given up at the end");
    }
    let left = writer.finish(remains()).await;
    if 0 < left.queued + left.in_flight {
        let (queued, in_flight) = (left.queued, left.in_flight);
        tracing::warn!(queued, in_flight, "some writes were given up at the end");
    }
    broadcaster.finish(remains()).await;
}

/// Answers questions for ever, while there is nothing else for the engine to do.
async fn answer(
    questions: &mut mpsc::Receiver<Question>,
    clock: Clock,
    scheduler: &mut Scheduler,
) -> Infallible {
    while let Some(question) = questions.recv().await {
        question.answer(clock.now(), scheduler);
    }
    // Nobody asks any more, and nothing is to be told.
    std::future::pending().await
}

fn begin_to_watch(
    connection: &Connection,
    scheduler: &Scheduler,
    originals: Option<Arc<Kept>>,
    metrics: WatchMetrics,
) -> (Watches, mpsc::Receiver<Vec<plimsoll_engine::Event>>) {
    let (events, taken) = mpsc::channel(EVENT_BATCHES);
    let options = watches::Options {
        kinds: Kind::needed_by(scheduler.stores_read()),
        events,
        originals,
        pace: Pace::default(),
        metrics,
    };
    (watches::start(connection.client("watch", Rate::UNLIMITED), options), taken)
}

/// Lets the engine work where nothing else does.
fn on_own_thread(core: Core, grace: Duration) -> JoinHandle<()> {
    let runtime = tokio::runtime::Handle::current();
    tokio::task::spawn_blocking(move || runtime.block_on(core.run(grace)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::State;

    #[tokio::test]
    async fn a_part_that_ends_since_the_lease_is_lost_is_no_bug() {
        let (leads, state) = watch::channel(State::Leading);
        let mut post = Post::at(state);
        // As the engine does: it hears that the lease is lost, and ends, after it was looked for the last time
        // whether the lease is lost.
        let engine = async {
            leads.send_replace(State::Lost);
            Ending::Part(ENGINE)
        };
        let ending = until_it_ends(&mut post, &CancellationToken::new(), engine).await;
        assert!(matches!(ending, Ending::Lost(Ok(()))), "{ending:?}");
    }

    #[tokio::test]
    async fn a_part_that_ends_while_it_leads_is_a_bug() {
        let (_leads, state) = watch::channel(State::Leading);
        let mut post = Post::at(state);
        let engine = std::future::ready(Ending::Part(ENGINE));
        let ending = until_it_ends(&mut post, &CancellationToken::new(), engine).await;
        assert!(matches!(ending, Ending::Part("the engine")), "{ending:?}");
    }
}
