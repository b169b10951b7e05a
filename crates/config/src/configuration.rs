//! Reads a file into a valid configuration.

use plimsoll_document::{Document, FieldPath};
use plimsoll_framework::Release;
use serde_json::Value;

use crate::args::Args;
use crate::catalogue::{Catalogue, Point};
use crate::faults::{ConfigError, Faults, error_at};
use crate::multipoint::ALL;
use crate::origin::{Form, Origin};
use crate::profile::{Draft, ResolvedProfile};
use crate::rules::Rules;
use crate::types::{Extender, KubeSchedulerConfiguration};
use crate::yaml::to_yaml;
use crate::{unprepared, validate, version};

/// A valid configuration, with all defaults and profiles resolved.
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
    /// The extenders, in the order of the file. They are called in [another order](Configuration::extenders_in_order).
    pub extenders: Vec<Extender>,
    /// The configuration as `--write-config-to` shows it: with all defaults, and with the plugins
    /// of the default profile merged into each `multiPoint`. It is itself a valid configuration of
    /// version v1.
    pub effective: KubeSchedulerConfiguration,
    /// The form in which the configuration was written.
    pub origin: Origin,
    /// What is allowed but has no effect and was probably not meant, in the form of errors.
    pub warnings: Vec<ConfigError>,
}

/// Reads the configuration of version v1 in `text`, the content of the file `source_name`.
///
/// The errors are all that were found, in the order of their lines.
pub fn load(
    source_name: &str,
    text: &str,
    catalogue: &Catalogue,
) -> Result<Configuration, Vec<ConfigError>> {
    load_with(source_name, text, |document| read(document, catalogue))
}

/// Reads `text`, the content of the file `source_name`, with a function that reads its first document.
pub fn load_with(
    source_name: &str,
    text: &str,
    read: impl FnOnce(&Document) -> Result<Configuration, Vec<ConfigError>>,
) -> Result<Configuration, Vec<ConfigError>> {
    let documents = Document::parse_all(source_name, text).map_err(|error| vec![error])?;
    let Some(document) = documents.first() else {
        let message = "is empty: expected a KubeSchedulerConfiguration";
        return Err(vec![ConfigError::new(source_name, message)]);
    };
    let mut configuration = read(document)?;
    // As sigs.k8s.io/yaml, which reads only the first document.
    if let Some(second) = documents.get(1) {
        let message = "is ignored: only the first document of the file is read";
        configuration.warnings.push(second.error_at(FieldPath::root(), message));
    }
    Ok(configuration)
}

/// Reads a document of version v1.
pub fn read(document: &Document, catalogue: &Catalogue) -> Result<Configuration, Vec<ConfigError>> {
    let mut faults = Faults::new(Some(document));
    if version::form_of(document, |_| None, &mut faults).is_none() {
        return Err(faults.into_errors());
    }
    let rules = Rules::v1(catalogue);
    let mut configuration =
        Configuration::resolve(document, &rules, Origin::default(), catalogue, faults)?;
    configuration.warnings.sort_by_key(|warning| warning.line);
    Ok(configuration)
}

impl Configuration {
    /// The configuration without any file: one profile with the default plugins.
    ///
    /// # Panics
    ///
    /// If the default plugins of the catalogue are not a valid profile: exactly one must sort the queue, and at least
    /// one must bind.
    pub fn default_for(catalogue: &Catalogue) -> Self {
        Configuration::without_file(&Rules::v1(catalogue), Origin::default(), catalogue)
    }

    /// The configuration in which nothing is configured, with the default plugins of `rules`.
    ///
    /// # Panics
    ///
    /// As [`default_for`](Configuration::default_for), about the default plugins of `rules`.
    pub fn without_file(rules: &Rules, origin: Origin, catalogue: &Catalogue) -> Self {
        let decoded = KubeSchedulerConfiguration::default();
        let setting = Setting { rules, document: None, catalogue };
        match complete(decoded, origin, &setting, Faults::new(None)) {
            Ok(configuration) => configuration,
            Err(errors) => panic!("the catalogue has no valid default profile: {}", errors[0]),
        }
    }

    /// Resolves a document that has the fields of v1 by the rules of its version. `faults` holds what is wrong with it
    /// so far.
    ///
    /// The fields of errors and warnings are those of `document`. Warnings are in no order. For a form other than v1 the
    /// caller sets the profiles of `effective`.
    pub fn resolve(
        document: &Document,
        rules: &Rules,
        origin: Origin,
        catalogue: &Catalogue,
        mut faults: Faults<'_>,
    ) -> Result<Self, Vec<ConfigError>> {
        let (decoded, errors) =
            document.decode_all::<KubeSchedulerConfiguration>(&FieldPath::root());
        faults.undecoded(errors);
        let Some(decoded) = decoded else { return Err(faults.into_errors()) };
        let setting = Setting { rules, document: Some(document), catalogue };
        complete(decoded, origin, &setting, faults)
    }
}

/// What is needed to read a configuration.
struct Setting<'a> {
    rules: &'a Rules,
    /// The file in the fields of v1, if there is one.
    document: Option<&'a Document>,
    catalogue: &'a Catalogue,
}

/// Defaults, validates and resolves what was decoded.
fn complete(
    mut decoded: KubeSchedulerConfiguration,
    origin: Origin,
    setting: &Setting<'_>,
    mut faults: Faults<'_>,
) -> Result<Configuration, Vec<ConfigError>> {
    let &Setting { rules, document, catalogue } = setting;
    let global_percentage = decoded.percentage_of_nodes_to_score;
    decoded.set_defaults();
    let drafts = drafts(&decoded, setting, &mut faults);
    refuse_newer_points(&drafts, setting, &mut faults);
    validate::validate(&decoded, &drafts, rules, catalogue, &mut faults);
    let profiles: Vec<_> = drafts
        .iter()
        .map(|draft| draft.resolve(catalogue, global_percentage, &mut faults))
        .collect();
    if !faults.is_empty() {
        return Err(faults.into_errors());
    }
    let mut warnings: Vec<_> = drafts.iter().flat_map(|draft| warnings(draft, setting)).collect();
    // Older forms are for releases whose plugins prepared their work at other points.
    if origin.form == Form::V1 {
        for (draft, profile) in drafts.iter().zip(&profiles) {
            for (point, message) in unprepared::warnings(profile) {
                let field = draft.field.key("plugins").key(point.key());
                warnings.push(error_at(document, field, message));
            }
        }
    }
    let effective = drafts.iter().map(|draft| draft.to_effective(catalogue)).collect();
    drop(drafts);
    decoded.profiles = effective;
    "leases".clone_into(&mut decoded.leader_election.resource_lock);
    Ok(Configuration {
        profiles,
        parallelism: decoded.parallelism.unwrap_or_default(),
        pod_initial_backoff_seconds: decoded.pod_initial_backoff_seconds.unwrap_or_default(),
        pod_max_backoff_seconds: decoded.pod_max_backoff_seconds.unwrap_or_default(),
        extenders: decoded.extenders.clone(),
        effective: decoded,
        origin,
        warnings,
    })
}

fn drafts<'a>(
    configuration: &'a KubeSchedulerConfiguration,
    setting: &Setting<'a>,
    faults: &mut Faults<'_>,
) -> Vec<Draft<'a>> {
    let &Setting { rules, document, catalogue } = setting;
    let mut drafts = Vec::new();
    for (index, profile) in configuration.profiles.iter().enumerate() {
        let field = FieldPath::root().key("profiles").index(index);
        let mut args = Vec::new();
        for (index, config) in profile.plugin_config.iter().enumerate() {
            let field = field.key("pluginConfig").index(index).key("args");
            args.push(match document {
                Some(document) => {
                    Args::decode(document, &config.name, &field, (rules, catalogue), faults)
                }
                None => Some(Args::Given(config.args.clone())),
            });
        }
        let plugins = profile.plugins.clone().unwrap_or_default();
        drafts.push(Draft { profile, rules, plugins, args, field, is_first: index == 0 });
    }
    drafts
}

/// Reports extension points that only later releases than the one that decides have.
fn refuse_newer_points(drafts: &[Draft<'_>], setting: &Setting<'_>, faults: &mut Faults<'_>) {
    let &Setting { document: Some(document), catalogue, .. } = setting else { return };
    if Release::V1_37 <= catalogue.gates.release() {
        return;
    }
    let key = Point::PodGroupPostFilter.key();
    for draft in drafts {
        let field = draft.field.key("plugins").key(key);
        if document.get(&field).is_some() {
            let message = format!(
                "unknown field `{key}`: release 1.36 does not have it, and makes room for groups with the plugins at \
                 `postFilter`; remove it, or decide as release 1.37"
            );
            faults.report(field, message);
        }
    }
}

/// Warnings about names of plugins that do not exist, in places where kube-scheduler accepts them.
fn warnings(draft: &Draft<'_>, setting: &Setting<'_>) -> Vec<ConfigError> {
    let &Setting { rules, document, catalogue } = setting;
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
    for (index, config) in draft.profile.plugin_config.iter().enumerate() {
        if rules.args.ignores(&config.name) {
            let field = draft.field.key("pluginConfig").index(index).key("args");
            let message = format!(
                "version {} has no args for plugin {:?}: they have no effect",
                rules.version, config.name
            );
            warnings.push(error_at(document, field, message));
        }
    }
    warnings
}

impl Configuration {
    /// The file that `--write-config-to` writes: version v1 with all defaults.
    pub fn to_yaml(&self) -> String {
        to_yaml(&self.effective.to_value())
    }
}

impl KubeSchedulerConfiguration {
    /// The configuration as JSON, with the fields in alphabetical order.
    pub fn to_value(&self) -> Value {
        serde_json::to_value(self).expect("a configuration is plain data")
    }
}
