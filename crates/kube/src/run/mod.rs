//! `plimsoll run`: the engine on a real cluster.
//!
//! [`run`] connects, watches, takes part in the leader election and, once it leads, lets the engine
//! decide and the writer write, until it is stopped or loses the lease.

mod candidacy;
mod clock;
mod core;
mod heartbeat;
mod reload;
mod remedies;
mod scores;
mod self_audit;
mod served;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_config::Extender;
use plimsoll_engine::{Options, Profile, ProfileError, Recorder, Scheduler};
use plimsoll_framework::{Prioritize, Release};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::candidacy::Candidacy;
pub(crate) use self::clock::EngineClock;
pub use self::clock::stopwatch;
use self::core::{Core, CoreSettings, Inbox};
use self::heartbeat::Heartbeat;
use self::reload::{Announcer, REQUESTS, ReloadMetrics, follow};
pub use self::reload::{AssignProfile, ConfigurationSource, NewConfiguration, Reload, ReloadMode};
pub use self::remedies::RemedySource;
pub use self::scores::SCORES;
pub use self::self_audit::SelfAudit;
use self::self_audit::{SelfAuditMetrics, ViewAudit, Watchdog};
use self::served::ServedState;
pub(crate) use self::served::manifest;
pub use self::served::{ServedConfiguration, Serving, SetVerbosity};
use crate::api_resource::ServedVersions;
use crate::client::{Access, AccessError, Connection, RestMetrics, connect};
use crate::events::{self, Broadcaster};
use crate::extender::{self, HttpExtenders};
use crate::identity::hostname;
use crate::lease::{self, SettingsError};
use crate::limit::{Rate, TokenBucket};
use crate::originals::OriginalStore;
use crate::serve::{EngineHandle, EngineQuery, ServeError};
use crate::watch::{self as watches, Pace, WatchMetrics, Watches};
use crate::write::{self, Writer};

/// At most this many batches of events wait for the engine; beyond that the watches wait.
const EVENT_BATCHES: usize = 256;

/// The name of the engine in errors.
const ENGINE: &str = "the engine";

/// Everything that is needed to start.
pub struct RunConfig {
    /// The profiles that decide.
    pub profiles: Vec<Profile>,
    /// The rankings that replace the scores of the profiles, in the order of the profiles; empty if the
    /// scores are used.
    pub rankings: Vec<Arc<dyn Prioritize>>,
    /// The options of the engine.
    pub engine: Options,
    /// The seed for random choices.
    pub seed: u64,
    /// The extenders, in the order in which they are called.
    pub extenders: Vec<Extender>,
    /// Where the API server is.
    pub access: Access,
    /// The rate limit of requests by the writer, and again by the recorder of events.
    pub rate: Rate,
    /// The leader election; without one this instance leads.
    pub election: Option<lease::Settings>,
    /// `delayCacheUntilActive`: nothing is watched before this instance leads.
    pub delay_cache_until_active: bool,
    /// How long writes in progress may take after it is stopped.
    pub grace: Duration,
    /// If the engine makes no progress for this long, it counts as stuck; zero disables this. With
    /// [`stopwatch`] the engine also reports progress within a decision.
    pub stall_timeout: Duration,
    /// What is served; `None` for nothing.
    pub serving: Option<Serving>,
    /// Are shown everything that enters the engine, and what it decides.
    pub recorders: Vec<Box<dyn Recorder>>,
    /// Who finds the smallest change that would help a pod, for its events and its condition; `None` to write what
    /// kube-scheduler writes.
    pub remedies: Option<RemedySource>,
    /// How the instance audits itself.
    pub self_audit: SelfAudit,
    /// Which pods other profiles decide than those of their scheduler names.
    pub assign: Option<Arc<dyn AssignProfile>>,
    /// Identifies the configuration in metrics.
    pub configuration_hash: String,
    /// How the configuration is reloaded; `None` if it is not.
    pub reload: Option<Reload>,
}

impl std::fmt::Debug for RunConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunConfig").field("profiles", &self.profiles).finish_non_exhaustive()
    }
}

/// How the run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It was stopped.
    Stopped,
    /// Another instance may lead now.
    LostLease,
}

/// Why it could not start, or had to end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The access to the API server is invalid.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The profiles are invalid.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// An extender cannot be called.
    #[error(transparent)]
    Extender(#[from] extender::SetupError),
    /// The access to the API server for authentication or authorization is invalid.
    #[error("{flag}: {error}")]
    Reviews {
        /// The flag that configures it.
        flag: &'static str,
        /// What is wrong.
        error: AccessError,
    },
    /// The serving options are invalid.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The settings of the election are invalid.
    #[error("leaderElection: {0}")]
    Election(#[from] SettingsError),
    /// The engine is stuck.
    #[error(
        "the engine has not moved for {0:?} (--engine-stall-timeout): a plugin that never returns, or a bug; \
         please report it with the log"
    )]
    Stuck(Duration),
    /// A part of the process that must not end has ended.
    #[error("{0} has ended: a bug, please report it with the log")]
    Ended(&'static str),
}

/// Runs until `stop` is cancelled or the lease is lost.
#[expect(clippy::too_many_lines, reason = "it joins all parts, and each needs some of the others")]
pub async fn run(config: RunConfig, stop: CancellationToken) -> Result<Exit, RunError> {
    // A ranking logs its scores itself.
    let logs_scores = config.rankings.is_empty();
    let profiles = ranked(config.profiles, config.rankings);
    let scheduler = Scheduler::new(profiles, config.engine, config.seed)?;
    let mut scheduler =
        scheduler.with_extenders(config.extenders.iter().map(extender::for_engine).collect());
    config.recorders.into_iter().for_each(|recorder| scheduler.record_to(recorder));
    let metrics = Arc::new(RestMetrics::default());
    let watch_metrics = WatchMetrics::default();
    let audit_metrics = SelfAuditMetrics::default();
    let reload_metrics = ReloadMetrics::new(&config.configuration_hash, unix_seconds());
    let (reload_sender, reloads) = mpsc::channel(REQUESTS);
    let access = config.access;
    // Nothing has been started that would have to be finished.
    let connected = stop.run_until_cancelled(connect(access.clone(), metrics.clone())).await;
    let Some(connection) = connected.transpose()? else { return Ok(Exit::Stopped) };
    let broadcaster = Broadcaster::new(
        connection.caller("events", config.rate),
        events::Options::new(hostname()),
    );
    let recorder = Arc::new(broadcaster.clone());
    let announcer =
        announcer(config.election.as_ref(), &scheduler, recorder.clone(), reload_metrics.clone());
    let end_election = CancellationToken::new();
    let mut candidacy =
        Candidacy::take(&connection, config.election, recorder.clone(), end_election.clone())?;
    let (answers, answered) = mpsc::unbounded_channel();
    let writing = writing(recorder, &candidacy, config.rate, config.engine.release);
    let (say, replies) = mpsc::unbounded_channel();
    let originals = Arc::new(OriginalStore::default());
    let (may_write, served) = (writing.may_write.clone(), writing.served.clone());
    let extenders = HttpExtenders::new(&config.extenders, originals.clone(), may_write, say)?;
    let extenders = Arc::new(extenders);
    let caller = connection.caller("scheduler", Rate::UNLIMITED);
    let writer = Arc::new(Writer::new(caller, writing, answers));
    let (clock, (engine_handle, mut queries)) = (EngineClock::start(), EngineHandle::new());
    let (ready, is_ready) = watch::channel(false);
    let begins_to_audit = is_ready.clone();
    let (heartbeat, stuck) = (Heartbeat::new(config.stall_timeout), CancellationToken::new());
    let remedies = {
        let reading = (config.rate, served.clone());
        remedies::begin(config.remedies, &engine_handle, &connection, reading)
    };
    let end_serving = CancellationToken::new();
    let _ends = end_serving.clone().drop_guard();
    if let Some(serving) = config.serving {
        let served_state = ServedState {
            engine: engine_handle.clone(),
            manifests: connection.caller("questions", config.rate),
            versions: served.clone(),
            metrics,
            watched: watch_metrics.clone(),
            audited: audit_metrics.clone(),
            reloaded: reload_metrics,
            leadership: candidacy.leadership.clone(),
            state: candidacy.state.clone(),
            is_ready,
            stop: stop.clone(),
            stuck: stuck.clone(),
        };
        // It is too large for the stack, with all the state that is served.
        let begins = begin_to_serve(serving, &access, served_state, &stop, end_serving);
        if !Box::pin(begins).await? {
            return candidacy.give_back(end_election).await;
        }
    }

    if config.delay_cache_until_active {
        let asked = answer(&mut queries, clock, &mut scheduler);
        if !leads_at_last(&mut candidacy, &stop, asked).await? {
            return candidacy.give_back(end_election).await;
        }
    }
    let originals = (!config.extenders.is_empty()).then_some(originals);
    let (mut watched, events) =
        begin_to_watch(&connection, &scheduler, originals, served, watch_metrics);
    let stop_deciding = CancellationToken::new();
    let inbox = Inbox {
        events,
        answers: answered,
        replies,
        queries,
        reloads,
        unsynced: watched.unsynced(),
        leads: candidacy.state.clone(),
        stop: stop_deciding.clone(),
    };
    let outlets = (writer.clone(), extenders.clone(), remedies);
    let settings = CoreSettings {
        logs_scores,
        detail: config.engine.detail,
        watchdog: Watchdog::new(config.self_audit, audit_metrics.clone()),
        assign: config.assign,
        reloads: config.reload.is_some(),
    };
    if let Some(reload) = config.reload {
        in_background(&stop_deciding, follow(reload, reload_sender, announcer));
    }
    let core = Core::new(scheduler, clock, inbox, outlets, ready, heartbeat.clone(), settings);
    if config.self_audit.is_on() {
        let client = connection.client("self-audit", Rate::UNLIMITED);
        let audit = ViewAudit::new(client, engine_handle, config.self_audit, audit_metrics);
        in_background(&stop_deciding, audit.run(begins_to_audit));
    }
    let mut core = on_own_thread(core, config.grace);

    // The new leader must not be disturbed by earlier decisions.
    let stop_at_once = || {
        writer.stop_at_once();
        extenders.stop_at_once();
        stop_deciding.cancel();
    };
    let parts = cannot_go_on(&mut watched, &writer, &heartbeat, &mut core);
    let ended = match until_it_ends(&mut candidacy, &stop, parts).await {
        Ending::Stopped => None,
        Ending::Lost(lost) => {
            stop_at_once();
            return lost.map(|()| Exit::LostLease);
        }
        Ending::Stuck => {
            // Its last decisions are as old as its last progress.
            stop_at_once();
            stuck.cancel();
            let spans = (config.stall_timeout, config.grace);
            return Err(give_up(&mut candidacy, end_election, spans, &stop).await);
        }
        Ending::Part(part) => Some(part),
    };
    stop_deciding.cancel();
    let core = (ended != Some(ENGINE)).then_some(core);
    finish(core, &extenders, &writer, &broadcaster, config.grace).await;
    let exit = candidacy.give_back(end_election).await?;
    ended.map_or(Ok(exit), |part| Err(RunError::Ended(part)))
}

/// The profiles, each with the ranking that replaces its scores, if any. The ranking then also logs its scores.
pub fn ranked(profiles: Vec<Profile>, rankings: Vec<Arc<dyn Prioritize>>) -> Vec<Profile> {
    if rankings.is_empty() {
        return profiles;
    }
    let ranked = profiles.into_iter().zip(rankings);
    ranked.map(|(profile, by)| profile.ranked_by(scores::logged(by))).collect()
}

/// What reports new configurations.
fn announcer(
    lease: Option<&lease::Settings>,
    scheduler: &Scheduler,
    recorder: Arc<Broadcaster>,
    metrics: ReloadMetrics,
) -> Announcer {
    Announcer {
        metrics,
        recorder,
        controller: scheduler.profile_names().remove(0).into(),
        lease: lease.map(|lease| (lease.namespace.as_str().into(), lease.name.as_str().into())),
    }
}

/// Runs a task until it ends or `stop` is cancelled.
fn in_background(stop: &CancellationToken, task: impl Future<Output = ()> + Send + 'static) {
    let stop = stop.clone();
    tokio::spawn(async move {
        stop.run_until_cancelled(task).await;
    });
}

/// The time of day, in seconds since 1970.
fn unix_seconds() -> f64 {
    jiff::Timestamp::now().as_duration().as_secs_f64()
}

/// Waits for the lease, and answers queries meanwhile. Returns whether this instance leads.
async fn leads_at_last(
    candidacy: &mut Candidacy,
    stop: &CancellationToken,
    queries: impl Future<Output = Infallible>,
) -> Result<bool, RunError> {
    tokio::select! {
        leads = candidacy.wait_to_lead(stop) => leads,
        never = queries => match never {},
    }
}

/// Why the work ends.
#[derive(Debug)]
enum Ending {
    /// It was stopped.
    Stopped,
    /// The lease is lost, or the election has ended and no longer renews it.
    Lost(Result<(), RunError>),
    /// The engine is stuck.
    Stuck,
    /// A part that must not end has ended.
    Part(&'static str),
}

/// Waits until a part of the process that must not end ends, or the engine is stuck.
async fn cannot_go_on(
    watched: &mut Watches,
    writer: &Writer,
    heartbeat: &Heartbeat,
    core: &mut JoinHandle<()>,
) -> Ending {
    tokio::select! {
        biased;
        () = watched.ended() => Ending::Part("the watches"),
        () = writer.ended() => Ending::Part("the writer"),
        () = heartbeat.stops() => Ending::Stuck,
        _ = core => Ending::Part(ENGINE),
    }
}

/// Waits until it is stopped, the lease is lost, or `parts` report that they cannot continue.
async fn until_it_ends(
    candidacy: &mut Candidacy,
    stop: &CancellationToken,
    parts: impl Future<Output = Ending>,
) -> Ending {
    let ending = tokio::select! {
        biased;
        () = stop.cancelled() => Ending::Stopped,
        lost = candidacy.lost() => Ending::Lost(lost),
        ending = parts => ending,
    };
    match ending {
        // The parts observe the lease themselves: one that ends because of it may be noticed first.
        Ending::Part(_) if candidacy.has_lost() => Ending::Lost(Ok(())),
        ending => ending,
    }
}

/// The options of the writer: it writes only while this instance leads, and respects the rate limit.
fn writing(
    recorder: Arc<Broadcaster>,
    candidacy: &Candidacy,
    rate: Rate,
    release: Release,
) -> write::Options {
    let mut writing = write::Options::new(recorder);
    writing.binding_retries = write::binding_retries(release);
    if let Some(leadership) = &candidacy.leadership {
        writing.may_write = leadership.may_write();
    }
    // A request that waits in the rate limiter of a client would count as sent.
    let bucket = TokenBucket::new(rate);
    writing.rate_limiter = Arc::new(move || {
        let bucket = bucket.clone();
        Box::pin(async move {
            bucket.wait().await;
        })
    });
    writing
}

/// Starts to serve, if configured. `false` if it was stopped before.
async fn begin_to_serve(
    serving: Serving,
    access: &Access,
    state: ServedState,
    stop: &CancellationToken,
    end: CancellationToken,
) -> Result<bool, RunError> {
    // The future contains the whole server, which is too large for the stack.
    let listening = Box::pin(served::listen(serving, access, state));
    let server = stop.run_until_cancelled(listening).await;
    let Some(server) = server.transpose()? else { return Ok(false) };
    if let Some(server) = server {
        tokio::spawn(server.serve(end));
    }
    Ok(true)
}

/// The engine is stuck: releases the lease, so that another instance can lead at once. This one never
/// leads again. Its health checks report the reason for a while, and then the process ends.
async fn give_up(
    candidacy: &mut Candidacy,
    end_election: CancellationToken,
    (limit, grace): (Duration, Duration),
    stop: &CancellationToken,
) -> RunError {
    tracing::error!(
        without_a_beat = ?limit,
        ends_within = ?grace,
        "the engine is stuck: no more writes, the lease is released, and the process exits"
    );
    if let Err(error) = candidacy.give_back(end_election).await {
        tracing::error!(%error, "could not release the lease; it will expire");
    }
    let _ = tokio::time::timeout(grace, stop.cancelled()).await;
    RunError::Stuck(limit)
}

/// Finishes what the engine has started, and the effects that it has handed out.
async fn finish(
    core: Option<JoinHandle<()>>,
    extenders: &HttpExtenders,
    writer: &Writer,
    broadcaster: &Broadcaster,
    grace: Duration,
) {
    // All parts share this time: whoever stops the process does not wait for one after the other.
    let deadline = Instant::now() + grace;
    let remains = || deadline.saturating_duration_since(Instant::now());
    writer.end_soon();
    if let Some(core) = core {
        // A stuck engine never ends.
        let _ = tokio::time::timeout_at(deadline, core).await;
    }
    // The engine has already waited for them as long as it may.
    if !extenders.finish(Duration::ZERO).await {
        tracing::warn!("some bindings by extenders were aborted at shutdown");
    }
    let left = writer.finish(remains()).await;
    if 0 < left.queued + left.in_flight {
        let (queued, in_flight) = (left.queued, left.in_flight);
        tracing::warn!(queued, in_flight, "some writes were dropped at shutdown");
    }
    broadcaster.finish(remains()).await;
}

/// Answers queries forever, while the engine has nothing else to do.
async fn answer(
    queries: &mut mpsc::Receiver<EngineQuery>,
    clock: EngineClock,
    scheduler: &mut Scheduler,
) -> Infallible {
    while let Some(query) = queries.recv().await {
        query.answer(clock.now(), scheduler);
    }
    // There will be no more queries.
    std::future::pending().await
}

fn begin_to_watch(
    connection: &Connection,
    scheduler: &Scheduler,
    originals: Option<Arc<OriginalStore>>,
    served: ServedVersions,
    metrics: WatchMetrics,
) -> (Watches, mpsc::Receiver<Vec<plimsoll_engine::Event>>) {
    let (events, taken) = mpsc::channel(EVENT_BATCHES);
    let options = watches::Options {
        kinds: scheduler.kinds(),
        events,
        originals,
        manifests: None,
        pace: Pace::default(),
        served,
        metrics,
    };
    (watches::start(connection.client("watch", Rate::UNLIMITED), options), taken)
}

/// Runs the engine on its own thread.
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
        let mut candidacy = Candidacy::at(state);
        // As the engine does: it notices that the lease is lost and ends, after the last check whether
        // the lease is lost.
        let engine = async {
            leads.send_replace(State::Lost);
            Ending::Part(ENGINE)
        };
        let ending = until_it_ends(&mut candidacy, &CancellationToken::new(), engine).await;
        assert!(matches!(ending, Ending::Lost(Ok(()))), "{ending:?}");
    }

    #[tokio::test]
    async fn a_part_that_ends_while_it_leads_is_a_bug() {
        let (_leads, state) = watch::channel(State::Leading);
        let mut candidacy = Candidacy::at(state);
        let engine = std::future::ready(Ending::Part(ENGINE));
        let ending = until_it_ends(&mut candidacy, &CancellationToken::new(), engine).await;
        assert!(matches!(ending, Ending::Part("the engine")), "{ending:?}");
    }
}
