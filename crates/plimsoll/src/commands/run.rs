//! `plimsoll run`: schedules the pods of a cluster, in kube-scheduler's place.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use plimsoll_config::{Configuration, Form, GoDuration};
use plimsoll_engine::{Detail, Options, Recorder, TieBreak};
use plimsoll_framework::{Prioritize, Registry};
use plimsoll_journal::Journal;
use plimsoll_kube::client::Access;
use plimsoll_kube::extender::for_engine;
use plimsoll_kube::lease;
use plimsoll_kube::limit::Rate;
use plimsoll_kube::run::{self, Exit, RemedySource, SelfAudit};
use plimsoll_kube::serve::Advisor;
use plimsoll_kube::server_release;
use plimsoll_kube::watch::Pace;
use plimsoll_legacy::config::Migration;
use plimsoll_recording::{Destination, Header, Limits, Recording, WhenFull};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::deciding::{Asked, Deciding};
use super::reloading::{Changing, Followers, Inputs, changing};
use super::serving::{listening, serving};
use crate::answers::Answers;
use crate::args::{self, Client, Election, Emulation, Ranking, Record, Run};
use crate::canary::Canaries;
use crate::deprecated::{PolicySource, no_effect};
use crate::given::named_config_map;
use crate::input::Source;
use crate::journals::Begun;
use crate::{difference_files, journals, logs, notices, options, recordings};

/// The number of threads for requests; the engine has its own thread. One is enough for thousands of pods a second, and
/// with one no other thread has to be woken for a task.
const WORKERS: usize = 1;

/// How long threads may take to end after everything else has finished.
const LAST_MOMENT: Duration = Duration::from_secs(1);

/// Runs until it receives a signal to stop. If the lease is lost, the process exits with status 1, like kube-scheduler.
pub(crate) fn run(args: Run, registry: &Arc<Registry>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .enable_all()
        .build()
        .context("cannot start the worker threads")?;
    let ended = runtime.block_on(begin(args, registry));
    // An engine that is stuck never ends, and must not keep the process from exiting.
    runtime.shutdown_timeout(LAST_MOMENT);
    ended
}

#[expect(clippy::too_many_lines, reason = "every group of flags is taken apart once")]
async fn begin(args: Run, registry: &Arc<Registry>) -> Result<()> {
    let Run { main, election, gates, logs, record, journal, client, deprecated, .. } = args;
    let (flags, authentication, authorization) =
        (args.serving, args.authentication, args.authorization);
    let emulation = Emulation { emulated_version: gates.emulated_version };
    let feature_gates = gates.feature_gates.clone();
    let (files, config) = (Vec::new(), main.config);
    let cluster = args::Cluster { files, config, emulation, feature_gates, deprecated };
    let policy = policy(&cluster, registry, &client, main.master.clone()).await?;
    let asked = Asked {
        registry,
        cluster: &cluster,
        policy: &policy,
        feature_gates: &gates.feature_gates,
        election: &election,
        client: &client,
    };
    let mut deciding = asked.begin()?;
    if let Some(file) = main.write_config_to {
        return write_config(&deciding, registry, main.ranking, &file);
    }

    let verbosity = logs::begin(&logs.logging_format, logs.verbosity);
    let listening = listening(flags, authentication, authorization)?;
    let stop = CancellationToken::new();
    stop_on_signals(stop.clone())?;
    if emulation.emulated_version.is_none() {
        let connection = &deciding.setup.configuration.effective.client_connection;
        let access = Access::new(connection, main.master.clone());
        let release = tokio::select! {
            release = server_release(access, Pace::default()) => release?,
            () = stop.cancelled() => return Ok(()),
        };
        deciding = asked.follow(deciding, release)?;
    }
    let Deciding { gates: given_gates, setup } = deciding;
    let rankings = match main.ranking.by_priorities() {
        Some(release) => setup.rankings_in_place(release, cluster.config.is_some())?,
        None => Vec::new(),
    };
    tracing::info!(release = %given_gates.plugins.release(), "deciding as kube-scheduler of this release");
    let controller = setup.configuration.profiles[0].scheduler_name.clone();
    let leader_election = &setup.configuration.effective.leader_election;
    let lease =
        lease::Settings::from_config(leader_election, &controller).context("leaderElection")?;
    let connection = &setup.configuration.effective.client_connection;
    let (mut journal_path, mut journal_and_recorder) = (None, None);
    if let Some(Begun { path, journal, recorder }) = journals::of_run(&journal)? {
        (journal_path, journal_and_recorder) = (Some(path), Some((journal, recorder)));
    }
    let (journal, recorder) = journal_and_recorder.unzip();
    let options = setup.options();
    let engine = Options {
        stopwatch: Some(plimsoll_kube::run::stopwatch),
        tie_break: TieBreak::Random,
        audit_every: main.audit,
        detail: if journal.is_some() { Detail::Choice } else { Detail::None },
        max_in_unschedulable: span(
            "--pod-max-in-unschedulable-pods-duration",
            main.pod_max_in_unschedulable_pods_duration,
        )?,
        reservations: main.reservations.rule(options.gates.groups)?,
        ..options
    };
    let rankings: Vec<_> =
        rankings.into_iter().map(|one| one.priorities as Arc<dyn Prioritize>).collect();
    let canaries = Canaries::new(&main.canary, &setup)?;
    let known = (rankings.clone(), canaries);
    let answers = Answers::new(&setup, registry.clone(), known, engine);
    let answers = Arc::new(answers.with_journal(journal_path));
    let advisor: Arc<dyn Advisor> = answers.clone();
    let remedies = main.why_in_events.then(|| RemedySource(advisor.clone()));
    let about = (&setup.configuration, &given_gates, verbosity);
    let registries = journal.as_ref().map(journals::metrics).transpose()?.into_iter().collect();
    let default = Configuration::default_for(&options::catalogue(registry, &given_gates));
    let serving = serving(listening, about, &default, (advisor, registries))?;
    let access = Access::new(connection, main.master.clone());
    let is_recorded = record.record.is_some();
    let followers = Followers { answers, served: serving.configuration.clone(), is_recorded };
    let seed = rand::random();
    tracing::info!(seed, "created the engine; it breaks ties by this seed");
    let extenders: Vec<_> = setup.configuration.extenders_in_order().into_iter().cloned().collect();
    let header = recordings::header("run", &setup, &engine, seed);
    let asked: Vec<_> = extenders.iter().map(for_engine).collect();
    let recording = begin_recording(&record, header.with_extenders(&asked), main.ranking)?;
    let journalist = recorder.map(|recorder| Box::new(recorder) as Box<dyn Recorder>);
    let differences =
        record.record.clone().map(|path| difference_files::watch(path, registry.clone()));
    let differences = differences.transpose()?.map(|one| Box::new(one) as Box<dyn Recorder>);
    let recorders = recording.as_ref().map(Recording::recorder).into_iter();
    let recorders = recorders.chain(journalist).chain(differences);
    let inputs = Inputs {
        registry: registry.clone(),
        cluster,
        policy,
        feature_gates: gates.feature_gates,
        election,
        client,
        ranking: main.ranking,
        canary: main.canary,
        access: access.clone(),
        gates: given_gates.clone(),
    };
    let Changing { assign, configuration_hash, reload } =
        changing(main.reload, inputs, &setup, followers).await?;
    let setup = run::RunConfig {
        extenders,
        access,
        rate: Rate { qps: connection.qps, burst: connection.burst },
        election: lease,
        delay_cache_until_active: setup.configuration.effective.delay_cache_until_active,
        grace: span("--shutdown-grace-period", main.shutdown_grace_period)?,
        stall_timeout: span("--engine-stall-timeout", main.engine_stall_timeout)?,
        profiles: setup.profiles,
        rankings,
        engine,
        seed,
        serving: Some(serving),
        recorders: recorders.collect(),
        remedies,
        self_audit: self_audit(main.self_audit_period, is_recorded)?,
        assign,
        configuration_hash,
        reload,
    };
    // The future contains the whole scheduler, which is too large for the stack.
    let ended = Box::pin(run::run(setup, stop)).await;
    finish_files(recording, journal);
    match ended? {
        Exit::Stopped => {
            tracing::info!("requested to terminate, exiting");
            Ok(())
        }
        Exit::LostLease => bail!("leaderelection lost"),
    }
}

/// How the instance audits itself.
fn self_audit(period: GoDuration, is_recorded: bool) -> Result<SelfAudit> {
    let period = span("--self-audit-period", period)?;
    Ok(SelfAudit { period, is_recorded, ..SelfAudit::default() })
}

/// Writes the rest of the recording and the journal.
fn finish_files(recording: Option<Recording>, journal: Option<Journal>) {
    if let Some(journal) = journal {
        let plimsoll_journal::Written { entries, lost, .. } = journal.finish();
        tracing::info!(entries, lost, "the journal is complete");
    }
    if let Some(Ok(recorded)) = recording.map(Recording::finish) {
        let plimsoll_recording::Summary { events, bytes, parts } = recorded;
        tracing::info!(events, bytes, parts, "the recording is complete");
    }
}

/// Begins the recording that the flags ask for.
fn begin_recording(flags: &Record, header: Header, ranking: Ranking) -> Result<Option<Recording>> {
    let Some(path) = flags.record.clone() else { return Ok(None) };
    ensure!(
        ranking.by_priorities().is_none(),
        "--record cannot be used with --scale 10: recordings do not have the priorities"
    );
    recordings::keep_earlier(&path)?;
    let size = flags.record_size.at_most_value();
    let part_size = u64::try_from(size).ok().filter(|size| 0 < *size);
    let part_size = part_size.with_context(|| format!("--record-size={size}: must be positive"))?;
    let limits = Limits { part_size, parts: flags.record_files };
    let recording =
        Recording::start(Destination { path, limits }, header, WhenFull::End, |error| {
            tracing::error!(%error, "the recording has ended early; decisions go on");
        })?;
    Ok(Some(recording))
}

/// The Policy, if it is in a ConfigMap of the cluster.
async fn policy(
    asked: &args::Cluster,
    registry: &Registry,
    client: &Client,
    master: Option<String>,
) -> Result<Vec<Source>> {
    match asked.deprecated.policy() {
        Some(PolicySource::ConfigMap(key)) => {
            let text = plimsoll_kube::config_map(client.access(master), &key).await?;
            Ok(vec![Source { name: format!("ConfigMap {key}"), text }])
        }
        Some(PolicySource::File(_)) | None => named_policy(asked, registry, master).await,
    }
}

/// The ConfigMap that the configuration names in `algorithmSource`, if it names one.
async fn named_policy(
    asked: &args::Cluster,
    registry: &Registry,
    master: Option<String>,
) -> Result<Vec<Source>> {
    let Some(file) = &asked.config else { return Ok(Vec::new()) };
    let Some((key, connection)) =
        named_config_map(file, &options::catalogue(registry, &asked.emulation.gates()))?
    else {
        return Ok(Vec::new());
    };
    let text = plimsoll_kube::config_map(Access::new(&connection, master), &key).await?;
    Ok(vec![Source { name: format!("ConfigMap {key}"), text }])
}

/// Writes a configuration with all defaults, and notes what version v1 cannot express.
fn write_config(
    deciding: &Deciding,
    registry: &Registry,
    ranking: Ranking,
    file: &Path,
) -> Result<()> {
    let configuration = &deciding.setup.configuration;
    if configuration.origin.form != Form::V1 {
        let migration =
            Migration::of(configuration, &options::catalogue(registry, &deciding.gates));
        migration.notes.iter().for_each(notices::note);
    }
    let ranking = ranking.typed();
    if !ranking.is_empty() {
        let flags = ranking.trim_end();
        notices::note(format!(
            "a configuration cannot contain {flags}: give it when the file is used"
        ));
    }
    std::fs::write(file, configuration.to_yaml())
        .with_context(|| format!("--write-config-to: {}", file.display()))
}

/// SIGTERM and SIGINT stop the scheduler; a second signal exits at once.
fn stop_on_signals(stop: CancellationToken) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot handle SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot handle SIGINT")?;
    tokio::spawn(async move {
        for is_first in [true, false] {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if !is_first {
                std::process::exit(1);
            }
            tracing::info!(
                "received a stop signal: finishing writes in progress; a second signal exits at once"
            );
            stop.cancel();
        }
    });
    Ok(())
}

pub(crate) fn span(flag: &str, duration: GoDuration) -> Result<Duration> {
    duration.to_std().with_context(|| format!("{flag} must not be negative"))
}

impl Election {
    /// Applies the given flags to the configuration.
    pub(super) fn apply(&self, configuration: &mut Configuration) -> Result<()> {
        let election = &mut configuration.effective.leader_election;
        let set = |field: &mut GoDuration, given: Option<GoDuration>| {
            *field = given.unwrap_or(*field);
        };
        set(&mut election.lease_duration, self.leader_elect_lease_duration);
        set(&mut election.renew_deadline, self.leader_elect_renew_deadline);
        set(&mut election.retry_period, self.leader_elect_retry_period);
        let set = |field: &mut String, given: &Option<String>| {
            if let Some(given) = given {
                field.clone_from(given);
            }
        };
        set(&mut election.resource_lock, &self.leader_elect_resource_lock);
        set(&mut election.resource_name, &self.leader_elect_resource_name);
        set(&mut election.resource_namespace, &self.leader_elect_resource_namespace);
        election.leader_elect = self.leader_elect.or(election.leader_elect);
        if election.leader_elect != Some(false) {
            let lock = &election.resource_lock;
            ensure!(
                lock == "leases",
                "--leader-elect-resource-lock={lock}: must be leases, the only kind since release 1.24"
            );
            for (flag, value) in [
                ("--leader-elect-resource-name", &election.resource_name),
                ("--leader-elect-resource-namespace", &election.resource_namespace),
            ] {
                ensure!(!value.is_empty(), "{flag} must not be empty");
            }
        }
        Ok(())
    }
}

impl Client {
    /// How to reach the API server, without a configuration.
    fn access(&self, master: Option<String>) -> Access {
        Access { kubeconfig: self.kubeconfig.clone(), master, ..Access::default() }
    }

    /// Applies the given flags to the configuration if there was no file; otherwise warns that they have no effect.
    pub(super) fn apply(&self, configuration: &mut Configuration, has_config: bool) {
        let given = [
            ("kubeconfig", self.kubeconfig.is_some()),
            ("kube-api-qps", self.kube_api_qps.is_some()),
            ("kube-api-burst", self.kube_api_burst.is_some()),
            ("kube-api-content-type", self.kube_api_content_type.is_some()),
            ("profiling", self.profiling.is_some()),
            ("contention-profiling", self.contention_profiling.is_some()),
        ];
        if has_config {
            for (flag, _) in given.iter().filter(|(_, is_given)| *is_given) {
                no_effect(flag, "the file of --config decides");
            }
            return;
        }
        let effective = &mut configuration.effective;
        effective.enable_profiling = self.profiling.or(effective.enable_profiling);
        effective.enable_contention_profiling =
            self.contention_profiling.or(effective.enable_contention_profiling);
        let connection = &mut effective.client_connection;
        let path = |path: &PathBuf| path.to_string_lossy().into_owned();
        connection.kubeconfig = self
            .kubeconfig
            .as_ref()
            .map_or_else(|| std::mem::take(&mut connection.kubeconfig), path);
        connection.qps = self.kube_api_qps.unwrap_or(connection.qps);
        connection.burst = self.kube_api_burst.unwrap_or(connection.burst);
        if let Some(content_type) = &self.kube_api_content_type {
            connection.content_type.clone_from(content_type);
        }
    }
}

/// The command line with underscores in flags replaced by dashes, for `run` only, as pflag does.
pub(crate) fn with_dashes(line: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut line: Vec<OsString> = line.collect();
    if line.get(1).is_some_and(|command| command == "run") {
        for word in line.iter_mut().skip(2) {
            let Some(text) = word.to_str().filter(|text| text.starts_with("--")) else { continue };
            let (name, value) = match text.split_once('=') {
                Some((name, value)) => (name, format!("={value}")),
                None => (text, String::new()),
            };
            *word = (name.replace('_', "-") + &value).into();
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn underscores_become_dashes_in_flags_but_not_in_values() {
        let line = ["plimsoll", "run", "--leader_elect=false", "--config=a_b.yaml", "c_d"];
        let read = with_dashes(line.into_iter().map(OsString::from));
        assert_eq!(read, ["plimsoll", "run", "--leader-elect=false", "--config=a_b.yaml", "c_d"]);
    }
}
