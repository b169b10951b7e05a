//! What was typed, as the engine understands it: a configuration becomes profiles and options.

use std::num::NonZeroU32;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use plimsoll_config::{Catalogue, ConfigError, Configuration};
use plimsoll_document::{Document, FieldPath};
use plimsoll_engine::{Backoff, Options, Profile, ProfileError};
use plimsoll_framework::{ArgsError, FeatureGates, Registry};
use plimsoll_plugins::default_profile;
use serde_json::Value;

use crate::faults::Faults;
use crate::input::Source;
use crate::notices;

/// The environment variable by which kube-scheduler was told how many disks a node takes.
const MAX_VOLUMES: &str = "KUBE_MAX_PD_VOLS";

/// What decides.
#[derive(Debug)]
pub(crate) struct Setup {
    /// The configuration with everything decided.
    pub(crate) configuration: Configuration,
    /// Its profiles, for the engine.
    pub(crate) profiles: Vec<Profile>,
}

impl Setup {
    /// What the configuration in `file` sets up, or kube-scheduler's own without a file. Warns of
    /// what in it has no effect.
    ///
    /// The error is everything that is wrong with the file.
    pub(crate) fn load(file: Option<&Path>, registry: &Registry) -> Result<Self> {
        let catalogue = catalogue(registry);
        let Some(file) = file else {
            return Self::assemble(Configuration::default_for(&catalogue), None, registry);
        };
        let Source { name, text } = Source::read(file)?;
        let configuration =
            plimsoll_config::load(&name, &text, &catalogue).map_err(Faults::from)?;
        let documents = Document::parse_all(&name, &text)?;
        Self::assemble(configuration, documents.first(), registry)
    }

    fn assemble(
        mut configuration: Configuration,
        document: Option<&Document>,
        registry: &Registry,
    ) -> Result<Self> {
        if configuration.counts_disks()
            && let Some(most) = max_volumes()
        {
            configuration.set_max_volumes(most);
        }
        let profiles = configuration.profiles(registry, &FeatureGates::default());
        let profiles = profiles.map_err(|error| located(error, &configuration, document))?;
        if let Some(document) = document {
            let mut warnings = configuration.warnings.clone();
            warnings.extend(without_effect(&configuration, document));
            warnings.sort_by_key(|warning| warning.line);
            warnings.iter().for_each(notices::warning);
        }
        Ok(Setup { configuration, profiles })
    }

    /// The options that the configuration sets; the others as kube-scheduler has them.
    pub(crate) fn options(&self) -> Options {
        let seconds = |seconds: i64| Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        let backoff = Backoff {
            initial: seconds(self.configuration.pod_initial_backoff_seconds),
            max: seconds(self.configuration.pod_max_backoff_seconds),
        };
        Options { backoff, ..Options::default() }
    }

    /// Whether some profile is for the pods of this scheduler.
    pub(crate) fn is_for(&self, scheduler_name: &str) -> bool {
        self.configuration.profiles.iter().any(|one| one.scheduler_name == scheduler_name)
    }
}

/// How many disks a node takes that does not say so itself, if the environment says so. As in non_csi.go
/// of release 1.20, getMaxVolLimitFromEnv: what is not a positive number does not count.
fn max_volumes() -> Option<NonZeroU32> {
    let value = std::env::var_os(MAX_VOLUMES).filter(|value| !value.is_empty())?;
    let most = value.to_str().and_then(|value| value.parse().ok());
    if most.is_none() {
        notices::warning(format_args!(
            "environment variable {MAX_VOLUMES} is \"{}\", not a positive number: the usual limits hold",
            value.display()
        ));
    }
    most
}

/// What configurations may name.
pub(crate) fn catalogue(registry: &Registry) -> Catalogue {
    Catalogue::of(registry, &default_profile())
}

/// The error with file, line and field, where it is about args in the file.
fn located(
    error: ProfileError,
    configuration: &Configuration,
    document: Option<&Document>,
) -> anyhow::Error {
    let place = match (&error, document) {
        (ProfileError::Args { profile, error }, Some(document)) => {
            args_field(configuration, document, profile, error)
                .map(|field| document.error_at(field, error.message.clone()))
        }
        _ => None,
    };
    place.map_or_else(|| error.into(), Into::into)
}

/// The field of the configuration that a plugin does not accept.
fn args_field(
    configuration: &Configuration,
    document: &Document,
    profile: &str,
    error: &ArgsError,
) -> Option<FieldPath> {
    let mut profiles = configuration.profiles.iter();
    let index = profiles.position(|other| other.scheduler_name == profile)?;
    let configs = FieldPath::root().key("profiles").index(index).key("pluginConfig");
    let configs = configuration.origin.place(&configs);
    let mut entries = document.get(&configs)?.as_array()?.iter();
    let index = entries.position(|entry| entry["name"] == error.plugin)?;
    Some(configs.index(index).key("args").concat(&FieldPath::from(error.field.as_str())))
}

/// What the file says of things that this build does not have.
fn without_effect(configuration: &Configuration, document: &Document) -> Vec<ConfigError> {
    let mut warnings = Vec::new();
    for (index, profile) in configuration.profiles.iter().enumerate() {
        let field = FieldPath::root().key("profiles").index(index);
        let place = |key: &str| configuration.origin.place(&field.key(key));
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
    if !configuration.extenders.is_empty() {
        let field = FieldPath::root().key("extenders");
        warnings.push(document.error_at(field, "extenders are not called yet"));
    }
    warnings
}

/// The elements of the list at `field`, each with its own.
fn entries<'a>(
    document: &'a Document,
    field: &FieldPath,
) -> impl Iterator<Item = (FieldPath, &'a Value)> {
    let list = document.get(field).and_then(Value::as_array);
    let entries = list.into_iter().flatten().enumerate();
    entries.map(move |(index, entry)| (field.index(index), entry))
}
