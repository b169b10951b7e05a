//! Turns a configuration into profiles and options for the engine.

use std::num::NonZeroU32;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use plimsoll_api::ObjectKey;
use plimsoll_config::{Catalogue, ConfigError, Configuration, GivenGates, OldGate};
use plimsoll_document::{Document, FieldPath};
use plimsoll_engine::{Backoff, Gates, Options, Profile, ProfileError};
use plimsoll_framework::{ArgsError, FeatureGates, Registry, Release};
use plimsoll_legacy::config as legacy;
use plimsoll_legacy::priorities::OldRelease;
use plimsoll_plugins::default_profile;
use serde_json::Value;

use crate::faults::Faults;
use crate::given::{Given, Place};
use crate::input::{self, Source};
use crate::old_scale::{self, OldRanking};
use crate::{args, notices};

/// The environment variable with the disk limit of a node, as in kube-scheduler.
const MAX_VOLUMES: &str = "KUBE_MAX_PD_VOLS";

/// The warning of commands that do not use the network.
const NOT_CALLED: &str = "only `plimsoll run` calls extenders: here they have no effect";

/// Whether extenders are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extenders {
    Called,
    NotCalled,
}

/// The feature gates of a release with those that `--feature-gates` sets.
pub(crate) fn given_gates(release: Release, given: &[String]) -> Result<GivenGates> {
    let gates = GivenGates::parse(release, given, legacy::OLD_GATES);
    gates.with_context(|| format!("--feature-gates, in release {release}"))
}

/// Warns of feature gates that have no effect.
pub(crate) fn warn_of_gates(gates: &GivenGates) {
    for gate in &gates.without_effect {
        notices::warning(format_args!("--feature-gates: {gate} has no effect here"));
    }
    for OldGate { name, on, now } in &gates.old {
        notices::warning(format_args!(
            "--feature-gates: {name}={on} has no effect, as it is a gate of an earlier release: {now}"
        ));
    }
}

/// The configuration that decides, ready for the engine.
#[derive(Debug)]
pub(crate) struct Setup {
    /// The resolved configuration.
    pub(crate) configuration: Configuration,
    /// Its profiles, for the engine.
    pub(crate) profiles: Vec<Profile>,
    /// The release and the feature gates of the profiles.
    pub(crate) gates: FeatureGates,
    /// The ConfigMap of the cluster that contains its Policy, if there is one.
    pub(crate) config_map: Option<ObjectKey>,
}

impl Setup {
    /// Loads the configuration in `file`, and warns of what has no effect.
    ///
    /// The error lists everything that is wrong with the file.
    pub(crate) fn load(file: &Path, registry: &Registry, gates: &GivenGates) -> Result<Self> {
        Self::assemble(Given::read(file, &[], &catalogue(registry, gates))?, registry, gates)
    }

    /// Loads the configuration of `config check` or `config migrate`, and warns of what has no effect.
    pub(crate) fn of(
        subject: &args::Subject,
        registry: &Registry,
        gates: &GivenGates,
    ) -> Result<Self> {
        Self::assemble(Given::of(subject, &catalogue(registry, gates))?, registry, gates)
    }

    /// Loads the configuration in `text`, which `name` names in errors.
    pub(crate) fn of_text(
        name: &str,
        text: &str,
        registry: &Registry,
        gates: &GivenGates,
    ) -> Result<Self> {
        let configuration = legacy::load(name, text, &catalogue(registry, gates));
        let configuration = configuration.map_err(Faults::from)?;
        let given = Given { configuration, place: None, config_map: None };
        Self::assemble(given, registry, gates)
    }

    /// Loads the configuration in a text that is no file of this machine, with the warnings of what has no effect. It may name no
    /// other file.
    pub(crate) fn of_source(
        source: &Source,
        registry: &Registry,
        gates: &GivenGates,
    ) -> Result<(Self, Vec<ConfigError>)> {
        let given = Given::of_source(source, &catalogue(registry, gates))?;
        Self::assemble_silently(given, registry, gates, Extenders::NotCalled)
    }

    /// The default configuration.
    pub(crate) fn default_for(registry: &Registry, gates: &GivenGates) -> Result<Self> {
        let configuration = Configuration::default_for(&catalogue(registry, gates));
        let given = Given { configuration, place: None, config_map: None };
        Self::assemble(given, registry, gates)
    }

    /// Loads the configuration of the command line, with a Policy from `sources` if it is there; the default one if
    /// none is given. If no release is given, the groups of pods in `sources` choose it. Warns of what has no effect.
    ///
    /// The error lists everything that is wrong with a file.
    pub(crate) fn choose(
        args: &args::Cluster,
        sources: &[Source],
        registry: &Registry,
    ) -> Result<Self> {
        Self::choose_beside(args, sources, &[], registry)
    }

    /// The same; the groups in `also` have a say in the release, too.
    pub(crate) fn choose_beside(
        args: &args::Cluster,
        sources: &[Source],
        also: &[Source],
        registry: &Registry,
    ) -> Result<Self> {
        let all = sources.iter().chain(also);
        let release = input::deciding_release(args.emulation.emulated_version, all)?;
        let gates = given_gates(release.unwrap_or_default(), &args.feature_gates)?;
        warn_of_gates(&gates);
        Self::choose_under(args, sources, registry, (&gates, Extenders::NotCalled))
    }

    /// The same with these feature gates, for a command that calls extenders or does not.
    pub(crate) fn choose_under(
        args: &args::Cluster,
        sources: &[Source],
        registry: &Registry,
        (gates, extenders): (&GivenGates, Extenders),
    ) -> Result<Self> {
        let given = Given::choose(args, sources, &catalogue(registry, gates))?;
        Self::assemble_with(given, registry, gates, extenders)
    }

    fn assemble(given: Given, registry: &Registry, gates: &GivenGates) -> Result<Self> {
        Self::assemble_with(given, registry, gates, Extenders::NotCalled)
    }

    fn assemble_with(
        given: Given,
        registry: &Registry,
        gates: &GivenGates,
        extenders: Extenders,
    ) -> Result<Self> {
        let (setup, warnings) = Self::assemble_silently(given, registry, gates, extenders)?;
        warnings.iter().for_each(notices::warning);
        Ok(setup)
    }

    /// The same, with the warnings in the order of their lines.
    fn assemble_silently(
        given: Given,
        registry: &Registry,
        gates: &GivenGates,
        extenders: Extenders,
    ) -> Result<(Self, Vec<ConfigError>)> {
        let Given { mut configuration, place, config_map } = given;
        if legacy::counts_disks(&configuration)
            && let Some(most) = max_volumes()
        {
            legacy::set_max_volumes(&mut configuration, most);
        }
        let gates = gates.plugins.clone();
        let profiles = Profile::all_of(&configuration.profile_specs(), registry, &gates);
        let profiles = profiles.map_err(|error| located(error, &configuration, place.as_ref()))?;
        let mut warnings = configuration.warnings.clone();
        if let Some(place) = &place {
            warnings.extend(without_effect(&configuration, place));
            if extenders == Extenders::NotCalled && !configuration.extenders.is_empty() {
                let field = place.at.key("extenders");
                warnings.push(place.document.error_at(field, NOT_CALLED));
            }
        }
        warnings.sort_by_key(|warning| warning.line);
        Ok((Setup { configuration, profiles, gates, config_map }, warnings))
    }

    /// The priorities of `release` that rank nodes instead of scores, for each profile. `is_given` says whether there
    /// is a configuration.
    pub(crate) fn rankings(&self, release: OldRelease, is_given: bool) -> Result<Vec<OldRanking>> {
        let configuration = &self.configuration;
        let of = |profile| OldRanking::of(configuration, is_given, profile, release);
        configuration.profiles.iter().map(of).collect()
    }

    /// The same, with a warning for each score plugin that then has no effect.
    pub(crate) fn rankings_in_place(
        &self,
        release: OldRelease,
        is_given: bool,
    ) -> Result<Vec<OldRanking>> {
        let rankings = self.rankings(release, is_given)?;
        for (ranking, profile) in rankings.iter().zip(&self.configuration.profiles) {
            for plugin in &ranking.without {
                let profile = &profile.scheduler_name;
                notices::warning(format_args!(
                    "profile {profile}: score plugin {plugin} has no priority on the scale of 10, and no \
                     effect"
                ));
            }
        }
        Ok(rankings)
    }

    /// Makes each profile rank nodes by its priorities of `release`.
    pub(crate) fn rank_by_priorities(&mut self, release: OldRelease, is_given: bool) -> Result<()> {
        let rankings = self.rankings_in_place(release, is_given)?;
        self.profiles = old_scale::ranked(std::mem::take(&mut self.profiles), &rankings);
        Ok(())
    }

    /// Whether it decides as the default profile does.
    pub(crate) fn is_default(&self, registry: &Registry) -> bool {
        let gates = GivenGates::of(self.gates.release());
        self.configuration == Configuration::default_for(&catalogue(registry, &gates))
    }

    /// The options that the configuration sets; the others have the defaults of kube-scheduler.
    pub(crate) fn options(&self) -> Options {
        let seconds = |seconds: i64| Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        let backoff = Backoff {
            initial: seconds(self.configuration.pod_initial_backoff_seconds),
            max: seconds(self.configuration.pod_max_backoff_seconds),
        };
        let gates = Gates::of(&self.gates);
        Options { release: self.gates.release(), gates, backoff, ..Options::default() }
    }

    /// Whether some profile schedules the pods of this scheduler.
    pub(crate) fn is_for(&self, scheduler_name: &str) -> bool {
        self.configuration.profiles.iter().any(|one| one.scheduler_name == scheduler_name)
    }
}

/// The disk limit from the environment, for nodes without their own. As in non_csi.go of release 1.20,
/// getMaxVolLimitFromEnv, it is ignored if it is not a positive number.
fn max_volumes() -> Option<NonZeroU32> {
    let value = std::env::var_os(MAX_VOLUMES).filter(|value| !value.is_empty())?;
    let most = value.to_str().and_then(|value| value.parse().ok());
    if most.is_none() {
        notices::warning(format_args!(
            "environment variable {MAX_VOLUMES} is \"{}\", not a positive number: the default limits apply",
            value.display()
        ));
    }
    most
}

/// The plugins that configurations may name, with these gates.
pub(crate) fn catalogue(registry: &Registry, gates: &GivenGates) -> Catalogue {
    Catalogue::of(registry, &default_profile()).with_gates(gates.plugins.clone())
}

/// The error with file, line and field, if it is about args in the file.
fn located(
    error: ProfileError,
    configuration: &Configuration,
    place: Option<&Place>,
) -> anyhow::Error {
    let located = match (&error, place) {
        (ProfileError::Args { profile, error }, Some(place)) => {
            args_field(configuration, place, profile, error)
                .map(|field| place.document.error_at(field, error.message.clone()))
        }
        _ => None,
    };
    located.map_or_else(|| error.into(), Into::into)
}

/// The field of the configuration that a plugin does not accept.
fn args_field(
    configuration: &Configuration,
    place: &Place,
    profile: &str,
    error: &ArgsError,
) -> Option<FieldPath> {
    let mut profiles = configuration.profiles.iter();
    let index = profiles.position(|other| other.scheduler_name == profile)?;
    let configs = FieldPath::root().key("profiles").index(index).key("pluginConfig");
    let configs = place.at.concat(&legacy::place(configuration.origin.form, &configs));
    let mut entries = place.document.get(&configs)?.as_array()?.iter();
    let index = entries.position(|entry| entry["name"] == error.plugin)?;
    Some(configs.index(index).key("args").concat(&FieldPath::from(error.field.as_str())))
}

/// Warnings about plugins of the file that this build does not have.
fn without_effect(configuration: &Configuration, place: &Place) -> Vec<ConfigError> {
    let Place { document, at } = place;
    let mut warnings = Vec::new();
    for (index, profile) in configuration.profiles.iter().enumerate() {
        let field = FieldPath::root().key("profiles").index(index);
        let place =
            |key: &str| at.concat(&legacy::place(configuration.origin.form, &field.key(key)));
        let mut warn = |field: FieldPath, entry: &Value, effect: &str| {
            let name = entry["name"].as_str().unwrap_or_default();
            if profile.unavailable.iter().any(|other| other == name) {
                let message = format!("plugin {name} is not available yet: {effect}");
                warnings.push(document.error_at(field.key("name"), message));
            }
        };
        for (field, entry) in entries(document, &place("pluginConfig")) {
            warn(field, entry, "its args have no effect");
        }
        let plugins = place("plugins");
        let sets = document.get(&plugins).and_then(Value::as_object);
        for point in sets.into_iter().flat_map(|sets| sets.keys()) {
            for (field, entry) in entries(document, &plugins.key(point).key("enabled")) {
                warn(field, entry, "enabling it has no effect");
            }
        }
    }
    warnings
}

/// The elements of the list at `field`, each with its own field.
fn entries<'a>(
    document: &'a Document,
    field: &FieldPath,
) -> impl Iterator<Item = (FieldPath, &'a Value)> {
    let list = document.get(field).and_then(Value::as_array);
    let entries = list.into_iter().flatten().enumerate();
    entries.map(move |(index, entry)| (field.index(index), entry))
}

#[cfg(test)]
mod tests {
    use plimsoll_framework::Release;
    use plimsoll_legacy::in_tree;

    use super::*;

    #[test]
    fn feature_gates_reach_the_engine() {
        let registry = in_tree();
        let options = |given: &[&str]| {
            let given: Vec<String> = given.iter().map(|&gate| gate.to_owned()).collect();
            let gates = GivenGates::parse(Release::NEWEST, &given, &[]).expect("all are known");
            Setup::default_for(&registry, &gates).expect("the default is right").options().gates
        };
        assert_eq!(options(&[]), Gates::default());
        let off = [
            "SchedulerPopFromBackoffQ=false",
            "SchedulerAsyncPreemption=false",
            "NominatedNodeNameForExpectation=false",
            "InPlacePodLevelResourcesVerticalScaling=false",
            "PodLevelResources=false",
        ];
        let none = Gates {
            pops_from_backoff: false,
            preempts_async: false,
            says_expected_node: false,
            pod_level_resources: false,
            pod_level_resize: false,
            groups: Gates::default().groups,
        };
        assert_eq!(options(&off), none);
    }
}
