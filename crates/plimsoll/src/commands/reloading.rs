//! Watches the configuration while `run` runs, and reads it again when it has changed.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use plimsoll_api::ObjectKey;
use plimsoll_config::{Configuration, GivenGates};
use plimsoll_framework::{Prioritize, Registry};
use plimsoll_kube::client::Access;
use plimsoll_kube::run::{
    AssignProfile, ConfigurationSource, NewConfiguration, Reload, ReloadMode, ServedConfiguration,
    ranked,
};
use serde_json::Value;

use super::deciding::{Asked, Deciding};
use crate::answers::Answers;
use crate::args::{self, Client, Election, Ranking};
use crate::canary::{Canaries, CanaryFlags};
use crate::deprecated::PolicySource;
use crate::differences::differences;
use crate::input::{STDIN, Source};
use crate::options::Setup;

/// How often a file is read. A volume of a ConfigMap follows it within a minute anyway.
const READ_EVERY: Duration = Duration::from_secs(1);

/// How often a ConfigMap is read from the API server.
const ASK_EVERY: Duration = Duration::from_secs(10);

/// The fields that take effect only when the process starts.
const AT_START: [&str; 6] = [
    "leaderElection",
    "clientConnection",
    "enableProfiling",
    "enableContentionProfiling",
    "extenders",
    "delayCacheUntilActive",
];

/// The value of `--reload`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ReloadFlag {
    /// Only a restart reads the configuration again
    #[default]
    Off,
    /// A new configuration is validated and tried, and the result reported
    Check,
    /// Then it replaces the present one, if it is valid
    Apply,
}

/// Everything that leads to a configuration, to be read again.
pub(super) struct Inputs {
    pub(super) registry: Arc<Registry>,
    pub(super) cluster: args::Cluster,
    /// The Policy, if it is in a ConfigMap of the cluster.
    pub(super) policy: Vec<Source>,
    pub(super) feature_gates: Vec<String>,
    pub(super) election: Election,
    pub(super) client: Client,
    pub(super) ranking: Ranking,
    pub(super) canary: CanaryFlags,
    /// How the API server is reached.
    pub(super) access: Access,
    /// The release and the feature gates in effect.
    pub(super) gates: GivenGates,
}

/// What follows a configuration that has taken effect.
pub(super) struct Followers {
    pub(super) answers: Arc<Answers>,
    pub(super) served: ServedConfiguration,
    /// Whether a recording is written, which has one configuration.
    pub(super) is_recorded: bool,
}

/// What can change while it runs.
pub(super) struct Changing {
    pub(super) assign: Option<Arc<dyn AssignProfile>>,
    pub(super) configuration_hash: String,
    pub(super) reload: Option<Reload>,
}

/// Sets up what can change: the canaries, and the reload of the configuration in effect.
pub(super) async fn changing(
    flag: ReloadFlag,
    inputs: Inputs,
    setup: &Setup,
    followers: Followers,
) -> Result<Changing> {
    ensure!(
        flag != ReloadFlag::Apply || !followers.is_recorded,
        "--reload=apply cannot be used with --record: a recording has one configuration"
    );
    let present = &setup.configuration;
    let assign = Canaries::new(&inputs.canary, setup)?.map(assigned);
    let configuration_hash = hash(present);
    let reload = reload(flag, inputs, present.clone(), followers).await?;
    Ok(Changing { assign, configuration_hash, reload })
}

/// Where the configuration is.
#[derive(Clone, Debug)]
enum Watched {
    File(PathBuf),
    ConfigMap(ObjectKey),
}

/// A configuration that may take effect, with the rankings and the canaries that go with it.
type Candidate = (Deciding, Vec<Arc<dyn Prioritize>>, Option<Canaries>);

/// Reads a configuration again when it has changed.
struct Watcher {
    inputs: Inputs,
    followers: Followers,
    watched: Watched,
    /// The text that was read last, whether or not it was valid.
    taken: String,
    /// The configuration in effect.
    present: Configuration,
    /// The one that was passed on last.
    candidate: Option<Candidate>,
}

/// Sets up the reload of the configuration `present`; `None` if there is to be none.
async fn reload(
    flag: ReloadFlag,
    inputs: Inputs,
    present: Configuration,
    followers: Followers,
) -> Result<Option<Reload>> {
    let mode = match flag {
        ReloadFlag::Off => return Ok(None),
        ReloadFlag::Check => ReloadMode::Check,
        ReloadFlag::Apply => ReloadMode::Apply,
    };
    let policy = inputs.cluster.deprecated.policy();
    let watched = match (&inputs.cluster.config, policy) {
        (_, Some(PolicySource::ConfigMap(key))) => Watched::ConfigMap(key),
        (_, Some(PolicySource::File(file))) => Watched::File(file.to_owned()),
        (Some(file), None) => Watched::File(file.clone()),
        (None, None) => bail!("--reload: there is no configuration to watch: add --config FILE"),
    };
    if let Watched::File(file) = &watched {
        ensure!(file.as_os_str() != STDIN, "--reload: standard input cannot be read again");
    }
    let taken = String::new();
    let mut source = Watcher { inputs, followers, watched, taken, present, candidate: None };
    // What has changed since the start is noticed, too: it differs from the present configuration.
    source.taken = read(&source.watched, &source.inputs.access).await.unwrap_or_default();
    if let Ok(deciding) = source.load()
        && deciding.setup.configuration != source.present
    {
        source.taken.clear();
    }
    Ok(Some(Reload { mode, source: Box::new(source) }))
}

impl ConfigurationSource for Watcher {
    fn next(
        &mut self,
    ) -> Pin<Box<dyn Future<Output = Result<NewConfiguration, String>> + Send + '_>> {
        Box::pin(async move {
            loop {
                let text = self.changed().await.map_err(|error| one_line(&error))?;
                self.taken = text;
                let new = self.new_configuration().map_err(|error| one_line(&error))?;
                match new {
                    Some(new) => return Ok(new),
                    None => {
                        tracing::info!(
                            "the configuration file has changed, but not the configuration"
                        );
                    }
                }
            }
        })
    }

    fn is_in_effect(&mut self) {
        let Some((deciding, rankings, canaries)) = self.candidate.take() else { return };
        self.present = deciding.setup.configuration.clone();
        if let Ok(text) = serde_json::to_string(&self.present.effective) {
            self.followers.served.set(&text);
        }
        self.followers.answers.follow(&deciding.setup, rankings, canaries);
    }
}

impl Watcher {
    /// Waits until the text differs from the one that was taken in last, and is the same in two reads: a file that is
    /// being written is not read half.
    async fn changed(&mut self) -> Result<String> {
        let every = match self.watched {
            Watched::File(_) => READ_EVERY,
            Watched::ConfigMap(_) => ASK_EVERY,
        };
        let mut last = None;
        loop {
            tokio::time::sleep(every).await;
            match read(&self.watched, &self.inputs.access).await {
                // A file is missing for a moment when it is replaced.
                Err(error) => {
                    tracing::debug!(%error, "could not read the configuration; it is tried again");
                    last = None;
                }
                Ok(text) if text == self.taken => last = None,
                Ok(text) if last.as_ref() == Some(&text) => return Ok(text),
                Ok(text) => last = Some(text),
            }
        }
    }

    /// The configuration of the text that was taken in; `None` if it is the present one.
    fn new_configuration(&mut self) -> Result<Option<NewConfiguration>> {
        if let Watched::ConfigMap(key) = &self.watched {
            let name = format!("ConfigMap {key}");
            self.inputs.policy = vec![Source { name, text: self.taken.clone() }];
        }
        let mut deciding = self.load()?;
        let differences = differences(&json(&self.present)?, &json(&deciding.setup.configuration)?);
        if differences.is_empty() && self.present.profiles == deciding.setup.configuration.profiles
        {
            return Ok(None);
        }
        let of_start: Vec<&str> = differences
            .iter()
            .filter(|line| {
                AT_START.iter().any(|field| {
                    let rest = line.strip_prefix(field);
                    rest.is_some_and(|rest| rest.starts_with(['.', '[', ':']))
                })
            })
            .map(String::as_str)
            .collect();
        ensure!(
            of_start.is_empty(),
            "these fields take effect only after a restart: {}",
            of_start.join("; ")
        );
        let setup = &mut deciding.setup;
        let rankings: Vec<Arc<dyn Prioritize>> = match self.inputs.ranking.by_priorities() {
            Some(release) => {
                let is_given = self.inputs.cluster.config.is_some();
                let rankings = setup.rankings_in_place(release, is_given)?;
                rankings.into_iter().map(|one| one.priorities as Arc<dyn Prioritize>).collect()
            }
            None => Vec::new(),
        };
        let profiles = ranked(std::mem::take(&mut setup.profiles), rankings.clone());
        let canaries = Canaries::new(&self.inputs.canary, setup)?;
        let new = NewConfiguration {
            profiles,
            backoff: setup.options().backoff,
            assign: canaries.clone().map(assigned),
            hash: hash(&setup.configuration),
            differences,
        };
        self.candidate = Some((deciding, rankings, canaries));
        Ok(Some(new))
    }

    /// The configuration as at the start, from the files as they are now.
    fn load(&self) -> Result<Deciding> {
        let inputs = &self.inputs;
        let asked = Asked {
            registry: &inputs.registry,
            cluster: &inputs.cluster,
            policy: &inputs.policy,
            feature_gates: &inputs.feature_gates,
            election: &inputs.election,
            client: &inputs.client,
        };
        asked.set_up(inputs.gates.clone())
    }
}

/// The text of the configuration as it is now.
async fn read(watched: &Watched, access: &Access) -> Result<String> {
    match watched {
        Watched::File(file) => {
            std::fs::read_to_string(file).with_context(|| file.display().to_string())
        }
        Watched::ConfigMap(key) => Ok(plimsoll_kube::config_map(access.clone(), key).await?),
    }
}

fn json(configuration: &Configuration) -> Result<Value> {
    serde_json::to_value(&configuration.effective).context("cannot write the configuration as JSON")
}

/// The rules, as the routing of pods takes them.
fn assigned(canaries: Canaries) -> Arc<dyn AssignProfile> {
    Arc::new(canaries)
}

/// Identifies a configuration: equal ones have equal hashes, in all instances of one version.
fn hash(configuration: &Configuration) -> String {
    let text = format!("{:?} {:?}", configuration.effective, configuration.profiles);
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// All faults in one line, for the log and for an event.
fn one_line(error: &anyhow::Error) -> String {
    let text = format!("{error:#}");
    text.lines().collect::<Vec<_>>().join("; ")
}
