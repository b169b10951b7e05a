//! Reads a file into a valid configuration.

use plimsoll_document::{Document, FieldPath};
use serde_json::Value;

use crate::args::Args;
use crate::catalogue::{Catalogue, Point};
use crate::defaults;
use crate::faults::{ConfigError, Faults, error_at};
use crate::legacy::{self, PolicyReader, Provider, Reading, policy};
use crate::multipoint::ALL;
use crate::origin::{Form, Origin};
use crate::profile::{Draft, ResolvedProfile};
use crate::rules::Rules;
use crate::types::{Extender, KubeSchedulerConfiguration};
use crate::{migrate, unprepared, validate, version};

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
    /// version v1; for a file of another form, its profiles are those of
    /// [`migrate`](Configuration::migrate).
    pub effective: KubeSchedulerConfiguration,
    /// The form in which the configuration was written.
    pub origin: Origin,
    /// What is allowed but has no effect and was probably not meant, in the form of errors.
    pub warnings: Vec<ConfigError>,
}

/// Reads the configuration in `text`, the content of the file `source_name`: a
/// KubeSchedulerConfiguration, a Policy, or a ConfigMap with a Policy under `policy.cfg`.
///
/// The errors are all that were found, in the order of their lines.
pub fn load(
    source_name: &str,
    text: &str,
    catalogue: &Catalogue,
) -> Result<Configuration, Vec<ConfigError>> {
    load_first(source_name, text, PolicyReader::Nobody, catalogue)
}

/// Where to find the Policy that a configuration of version v1alpha1 names in `algorithmSource`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyPlace {
    /// In the file of this path.
    File(String),
    /// In a ConfigMap, under `policy.cfg`.
    ConfigMap {
        /// The namespace of the ConfigMap; `kube-system` if none is given.
        namespace: String,
        /// Its name.
        name: String,
    },
}

/// Where to find the Policy that a configuration of version v1alpha1 names in `algorithmSource`, if it names one.
///
/// [`load`] refuses such a configuration, since it reads only one file. A caller that can read the Policy calls
/// [`load_beside_policy`] and then [`Configuration::with_policy`].
pub fn policy_place(document: &Document) -> Option<PolicyPlace> {
    let form = version::form_of(document, &mut Faults::new(None))?;
    let policy = FieldPath::root().key("algorithmSource").key("policy");
    let policy = document.get(&policy).filter(|_| form == Form::V1alpha1)?;
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    if let Some(path) = text(&policy["file"]["path"]) {
        return Some(PolicyPlace::File(path));
    }
    let map = &policy["configMap"];
    let namespace = text(&map["namespace"]).unwrap_or_else(|| policy::NAMESPACE.to_owned());
    Some(PolicyPlace::ConfigMap { namespace, name: text(&map["name"])? })
}

/// Reads a configuration as [`load`] does, except for its plugins: it may name a Policy that is somewhere else, which
/// [`policy_place`] finds.
///
/// The errors are all that were found, in the order of their lines.
pub fn load_beside_policy(
    source_name: &str,
    text: &str,
    catalogue: &Catalogue,
) -> Result<Configuration, Vec<ConfigError>> {
    load_first(source_name, text, PolicyReader::Caller, catalogue)
}

/// Reads the first document.
fn load_first(
    source_name: &str,
    text: &str,
    reader: PolicyReader,
    catalogue: &Catalogue,
) -> Result<Configuration, Vec<ConfigError>> {
    let documents = Document::parse_all(source_name, text).map_err(|error| vec![error])?;
    let Some(document) = documents.first() else {
        let message = "is empty: expected a KubeSchedulerConfiguration";
        return Err(vec![ConfigError::new(source_name, message)]);
    };
    let mut configuration = if policy::is_policy(document) {
        policy::load(document, catalogue)?
    } else {
        from_document(document, reader, None, catalogue)?
    };
    // As sigs.k8s.io/yaml, which reads only the first document.
    if let Some(second) = documents.get(1) {
        let message = "is ignored: only the first document of the file is read";
        configuration.warnings.push(second.error_at(FieldPath::root(), message));
    }
    Ok(configuration)
}

/// Reads a KubeSchedulerConfiguration whose plugins are applied on top of those of `provider`, even if it names another
/// provider.
pub(crate) fn upon_provider(
    document: &Document,
    provider: Provider,
    catalogue: &Catalogue,
) -> Result<Configuration, Vec<ConfigError>> {
    from_document(document, PolicyReader::Caller, Some(provider), catalogue)
}

/// Reads a KubeSchedulerConfiguration, on top of `provider` if there is one.
fn from_document(
    document: &Document,
    reader: PolicyReader,
    provider: Option<Provider>,
    catalogue: &Catalogue,
) -> Result<Configuration, Vec<ConfigError>> {
    let mut faults = Faults::new(Some(document));
    let Some(form) = version::form_of(document, &mut faults) else {
        return Err(faults.into_errors());
    };
    let mut rules = legacy::rules(form).unwrap_or_else(|| Rules::v1(catalogue));
    let mut reading =
        Reading { document: document.clone(), origin: Origin::of(form), provider: None };
    if form != Form::V1 {
        reading = legacy::read(document, form, reader, &mut faults);
    }
    if let Some(provider) = provider.or(reading.provider) {
        provider.apply_to(&mut rules);
    }
    let Reading { document: read, origin, .. } = &reading;
    let (decoded, errors) = read.decode_all::<KubeSchedulerConfiguration>(&FieldPath::root());
    faults.undecoded(errors);
    let Some(decoded) = decoded else {
        return Err(placed(faults.into_errors(), origin, document));
    };
    let setting = Setting { rules: &rules, document: Some(read), catalogue };
    let mut configuration = match complete(decoded, origin.clone(), &setting, faults) {
        Ok(configuration) => configuration,
        Err(errors) => return Err(placed(errors, origin, document)),
    };
    configuration.warnings = placed(configuration.warnings, origin, document);
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
        complete_without_file(&Rules::v1(catalogue), Origin::default(), catalogue)
    }
}

/// The configuration of a version in which nothing is configured.
pub(crate) fn complete_without_file(
    rules: &Rules,
    origin: Origin,
    catalogue: &Catalogue,
) -> Configuration {
    let decoded = KubeSchedulerConfiguration::default();
    let setting = Setting { rules, document: None, catalogue };
    match complete(decoded, origin, &setting, Faults::new(None)) {
        Ok(configuration) => configuration,
        Err(errors) => panic!("the catalogue has no valid default profile: {}", errors[0]),
    }
}

/// The errors with the fields and lines of the file, if it was not written in the form of v1.
fn placed(errors: Vec<ConfigError>, origin: &Origin, document: &Document) -> Vec<ConfigError> {
    let place = |error: ConfigError| match &error.field {
        Some(field) if origin.place(field) != *field => {
            document.error_at(origin.place(field), error.message)
        }
        _ => error,
    };
    let mut errors: Vec<_> = errors.into_iter().map(place).collect();
    errors.sort_by_key(|error| error.line);
    errors
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
    defaults::set_defaults(&mut decoded);
    let drafts = drafts(&decoded, setting, &mut faults);
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
    let effective = match origin.form {
        Form::V1 => drafts.iter().map(|draft| draft.to_effective(catalogue)).collect(),
        _ => migrate::profiles(&profiles, catalogue),
    };
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
        migrate::to_yaml(&self.effective.to_value())
    }
}

impl KubeSchedulerConfiguration {
    /// The configuration as JSON, with the fields in alphabetical order.
    pub fn to_value(&self) -> Value {
        serde_json::to_value(self).expect("a configuration is plain data")
    }
}
