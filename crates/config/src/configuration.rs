//! From a file to a valid configuration.

use plimsoll_document::{Document, FieldPath};
use serde_json::Value;

use crate::args::Args;
use crate::catalogue::{Catalogue, Point};
use crate::defaults;
use crate::faults::{ConfigError, Faults, error_at};
use crate::multipoint::ALL;
use crate::profile::{Draft, ResolvedProfile};
use crate::types::{Extender, KubeSchedulerConfiguration};
use crate::{validate, version};

/// A valid configuration with everything decided.
#[derive(Clone, Debug, PartialEq)]
pub struct Configuration {
    /// What each profile runs. There is at least one, and their names differ.
    pub profiles: Vec<ResolvedProfile>,
    /// How many workers upstream uses for one pod. Positive.
    pub parallelism: i32,
    /// The first backoff of an unschedulable pod, in seconds. Positive.
    pub pod_initial_backoff_seconds: i64,
    /// The longest backoff, in seconds. Not less than the first.
    pub pod_max_backoff_seconds: i64,
    /// The extenders, in the order in which they are called.
    pub extenders: Vec<Extender>,
    /// The configuration as `--write-config-to` shows it: with all defaults, and with the plugins
    /// of the default profile merged into each `multiPoint`. It is itself a valid configuration.
    pub effective: KubeSchedulerConfiguration,
    /// What is allowed, but has no effect and was hardly meant: in the form of errors.
    pub warnings: Vec<ConfigError>,
}

/// Reads the configuration in `text`, the content of the file `source_name`.
///
/// The errors are all that were found, in the order of their lines.
pub fn load(
    source_name: &str,
    text: &str,
    catalogue: &Catalogue,
) -> Result<Configuration, Vec<ConfigError>> {
    let documents = Document::parse_all(source_name, text).map_err(|error| vec![error])?;
    let Some(document) = documents.first() else {
        let message = "is empty: expected a KubeSchedulerConfiguration";
        return Err(vec![ConfigError::new(source_name, message)]);
    };
    let mut faults = Faults::new(Some(document));
    version::check(document, &mut faults);
    if !faults.is_empty() {
        return Err(faults.into_errors());
    }
    let (decoded, errors) = document.decode_all::<KubeSchedulerConfiguration>(&FieldPath::root());
    faults.undecoded(errors);
    let Some(decoded) = decoded else {
        return Err(faults.into_errors());
    };
    let mut configuration = complete(decoded, Some(document), catalogue, faults)?;
    // As sigs.k8s.io/yaml, which reads one document and does not look further.
    if let Some(second) = documents.get(1) {
        let message = "is ignored: only the first document of the file is read";
        configuration.warnings.push(second.error_at(FieldPath::root(), message));
    }
    Ok(configuration)
}

impl Configuration {
    /// The configuration without any file: one profile with the default plugins.
    ///
    /// # Panics
    ///
    /// If the default plugins of the catalogue are no valid profile: they must sort the queue, with
    /// one plugin, and bind.
    pub fn default_for(catalogue: &Catalogue) -> Self {
        let decoded = KubeSchedulerConfiguration::default();
        match complete(decoded, None, catalogue, Faults::new(None)) {
            Ok(configuration) => configuration,
            Err(errors) => panic!("the catalogue has no valid default profile: {}", errors[0]),
        }
    }
}

/// Defaults, validates and resolves what was decoded.
fn complete(
    mut decoded: KubeSchedulerConfiguration,
    document: Option<&Document>,
    catalogue: &Catalogue,
    mut faults: Faults<'_>,
) -> Result<Configuration, Vec<ConfigError>> {
    let global_percentage = decoded.percentage_of_nodes_to_score;
    defaults::set_defaults(&mut decoded);
    let drafts = drafts(&decoded, document, catalogue, &mut faults);
    validate::validate(&decoded, &drafts, catalogue, &mut faults);
    let profiles: Vec<_> = drafts
        .iter()
        .map(|draft| draft.resolve(catalogue, global_percentage, &mut faults))
        .collect();
    if !faults.is_empty() {
        return Err(faults.into_errors());
    }
    let warnings = drafts.iter().flat_map(|draft| warnings(draft, document, catalogue)).collect();
    let effective = drafts.iter().map(|draft| draft.to_effective(catalogue)).collect();
    drop(drafts);
    decoded.profiles = effective;
    Ok(Configuration {
        profiles,
        parallelism: decoded.parallelism.unwrap_or_default(),
        pod_initial_backoff_seconds: decoded.pod_initial_backoff_seconds.unwrap_or_default(),
        pod_max_backoff_seconds: decoded.pod_max_backoff_seconds.unwrap_or_default(),
        extenders: decoded.extenders.clone(),
        effective: decoded,
        warnings,
    })
}

fn drafts<'a>(
    configuration: &'a KubeSchedulerConfiguration,
    document: Option<&Document>,
    catalogue: &Catalogue,
    faults: &mut Faults<'_>,
) -> Vec<Draft<'a>> {
    let mut drafts = Vec::new();
    for (index, profile) in configuration.profiles.iter().enumerate() {
        let field = FieldPath::root().key("profiles").index(index);
        let mut args = Vec::new();
        for (index, config) in profile.plugin_config.iter().enumerate() {
            let field = field.key("pluginConfig").index(index).key("args");
            args.push(match document {
                Some(document) => {
                    Args::decode(document, &config.name, &field, catalogue.gates, faults)
                }
                None => Some(Args::Other(config.args.clone())),
            });
        }
        let plugins = profile.plugins.clone().unwrap_or_default();
        drafts.push(Draft { profile, plugins, args, field, is_first: index == 0 });
    }
    drafts
}

/// What names a plugin that does not exist where kube-scheduler does not mind.
fn warnings(
    draft: &Draft<'_>,
    document: Option<&Document>,
    catalogue: &Catalogue,
) -> Vec<ConfigError> {
    let mut warnings = Vec::new();
    let mut warn = |field: FieldPath, name: &str, effect: &str| {
        if name != ALL && catalogue.get(name).is_none() {
            let message = format!("plugin {name:?} does not exist: {effect}");
            warnings.push(error_at(document, field.key("name"), message));
        }
    };
    let plugins = draft.field.key("plugins");
    let sets = Point::ALL.into_iter().map(|point| (point.key(), draft.plugins.at(point)));
    for (key, set) in sets.chain([("multiPoint", &draft.plugins.multi_point)]) {
        for (index, plugin) in set.disabled.iter().enumerate() {
            let field = plugins.key(key).key("disabled").index(index);
            warn(field, &plugin.name, "disabling it has no effect");
        }
    }
    for (index, config) in draft.profile.plugin_config.iter().enumerate() {
        let field = draft.field.key("pluginConfig").index(index);
        warn(field, &config.name, "its args have no effect");
    }
    warnings
}

impl KubeSchedulerConfiguration {
    /// The configuration as JSON, the fields in the order of the alphabet.
    pub fn to_value(&self) -> Value {
        serde_json::to_value(self).expect("a configuration is plain data")
    }
}
