//! The scheduler Policy of releases 1.0 to 1.22, translated to plugins.
//!
//! As in factory.go, createFromConfig, and legacy_registry.go of release 1.20.

mod names;
mod predicates;
mod priorities;
mod profile;
mod types;

use plimsoll_config::version::{GROUP_VERSION, not_registered};
use plimsoll_config::{
    Catalogue, ConfigError, Configuration, DEFAULT_SCHEDULER, Extender, Faults,
    KubeSchedulerConfiguration, Origin, extenders,
};
use plimsoll_document::{Document, FieldPath};
use serde_json::{Map, Value, json};

use self::profile::Plan;
use self::types::Policy;
use super::form::POLICY;
use super::migrate;

const KIND: &str = "Policy";
const VERSION: &str = "v1";
/// The default namespace of a ConfigMap with a Policy.
pub(super) const NAMESPACE: &str = "kube-system";
/// The key of the Policy in a ConfigMap.
const CONFIG_MAP_KEY: &str = "policy.cfg";

/// Reads the Policy in `text`, the content of the file `source_name`.
///
/// The errors are all that were found, in the order of their lines.
pub fn load_policy(
    source_name: &str,
    text: &str,
    catalogue: &Catalogue,
) -> Result<Configuration, Vec<ConfigError>> {
    let documents = Document::parse_all(source_name, text).map_err(|error| vec![error])?;
    let Some(document) = documents.first() else {
        return Err(vec![ConfigError::new(source_name, "is empty: expected a Policy")]);
    };
    let mut configuration = load_document(document, catalogue)?;
    if let Some(second) = documents.get(1) {
        let message = "is ignored: only the first document of the file is read";
        configuration.warnings.push(second.error_at(FieldPath::root(), message));
    }
    Ok(configuration)
}

/// Reads the Policy under `policy.cfg` in the ConfigMap at `at` of `document`.
///
/// Lines in the errors are counted from the beginning of that value.
pub fn load_config_map(
    document: &Document,
    at: &FieldPath,
    catalogue: &Catalogue,
) -> Result<Configuration, Vec<ConfigError>> {
    let field = at.key("data").key(CONFIG_MAP_KEY);
    let Some(text) = document.get(&field) else {
        let message = format!(
            "missing policy config map value at key {CONFIG_MAP_KEY:?}: put the Policy under this key"
        );
        return Err(vec![document.error_at(at.key("data"), message)]);
    };
    let Some(text) = text.as_str() else {
        let message = "is not a string: write the Policy after `policy.cfg: |`";
        return Err(vec![document.error_at(field, message)]);
    };
    let place = match document.line_of(&field) {
        Some(line) => format!("{}:{line}: {field}", document.source()),
        None => format!("{}: {field}", document.source()),
    };
    load_policy(&place, text, catalogue)
}

/// Whether `document` is a Policy or a ConfigMap, which may hold one.
pub(super) fn is_policy(document: &Document) -> bool {
    matches!(document.value["kind"].as_str(), Some(KIND | "ConfigMap"))
}

/// Reads a document for which [`is_policy`] is true.
pub(super) fn load(
    document: &Document,
    catalogue: &Catalogue,
) -> Result<Configuration, Vec<ConfigError>> {
    if document.value["kind"] == KIND {
        load_document(document, catalogue)
    } else {
        load_config_map(document, &FieldPath::root(), catalogue)
    }
}

fn load_document(
    document: &Document,
    catalogue: &Catalogue,
) -> Result<Configuration, Vec<ConfigError>> {
    let (document, without_effect) = types::with_names_of_today(document);
    let mut faults = Faults::new(Some(&document));
    check_kind(&document, &mut faults);
    if !faults.is_empty() {
        return Err(faults.into_errors());
    }
    let (policy, errors) = document.decode_all::<Policy>(&FieldPath::root());
    faults.undecoded(errors);
    let Some(policy) = policy else { return Err(faults.into_errors()) };
    let mut notes = Notes::default();
    for field in without_effect {
        notes.warn(field, "is not a field of an extender, and has no effect".to_owned());
    }
    resolve(policy, catalogue, &document, notes, faults)
}

/// Refuses anything but a Policy of version v1.
fn check_kind(document: &Document, faults: &mut Faults<'_>) {
    let root = FieldPath::root();
    let text = |key: &str| document.value[key].as_str().unwrap_or_default();
    if !document.value.is_object() {
        faults.report(root, "is not an object: expected a Policy");
        return;
    }
    if text("kind") == KIND && document.value.get("profiles").is_some() {
        let message = "cannot set a Plugin config and Policy config: a Policy has no profiles; \
                       remove them, or write all of it as a KubeSchedulerConfiguration";
        faults.report(root.key("profiles"), message);
    }
    match (text("kind"), text("apiVersion")) {
        (KIND, VERSION | GROUP_VERSION) => {}
        (KIND, "") => {
            let message = format!("Object 'apiVersion' is missing: write `apiVersion: {VERSION}`");
            faults.report(root.key("apiVersion"), message);
        }
        (KIND, version) => {
            let message =
                format!("{}: write `apiVersion: {VERSION}`", not_registered(KIND, version));
            faults.report(root.key("apiVersion"), message);
        }
        ("", _) => {
            faults.report(root.key("kind"), "Object 'Kind' is missing: write `kind: Policy`");
        }
        (kind, _) => {
            let message = format!(
                "is {kind:?}: expected `kind: {KIND}`; a KubeSchedulerConfiguration is given with \
                 --config"
            );
            faults.report(root.key("kind"), message);
        }
    }
}

/// The arguments of all entries, combined.
#[derive(Debug, Default)]
struct Custom {
    affinity_labels: Vec<String>,
    anti_affinity_preference: Vec<String>,
    present_labels: Vec<String>,
    absent_labels: Vec<String>,
    present_preference: Vec<String>,
    absent_preference: Vec<String>,
    capacity_ratio: Option<Value>,
}

impl Custom {
    fn node_label_args(&self) -> Value {
        args_of([
            ("presentLabels", &self.present_labels),
            ("absentLabels", &self.absent_labels),
            ("presentLabelsPreference", &self.present_preference),
            ("absentLabelsPreference", &self.absent_preference),
        ])
    }

    fn service_affinity_args(&self) -> Value {
        args_of([
            ("affinityLabels", &self.affinity_labels),
            ("antiAffinityLabelsPreference", &self.anti_affinity_preference),
        ])
    }
}

fn args_of<const N: usize>(lists: [(&str, &Vec<String>); N]) -> Value {
    let lists = lists.into_iter().filter(|(_, list)| !list.is_empty());
    Value::Object(lists.map(|(name, list)| (name.to_owned(), json!(list))).collect::<Map<_, _>>())
}

/// A label cannot be required to be both present and absent.
///
/// As in validation_pluginargs.go of 1.20, validateNoConflict.
fn conflict(list: &str, present: &[String], absent: &[String], faults: &mut Faults<'_>) {
    if let Some(label) = present.iter().find(|label| absent.contains(label)) {
        let message = format!(
            "detecting at least one label (e.g., {label:?}) that exist in both the present({present:?}) \
             and absent({absent:?}) label list: keep it in one of them"
        );
        faults.report(FieldPath::root().key(list), message);
    }
}

/// Fields with warnings.
#[derive(Debug, Default)]
struct Notes(Vec<(FieldPath, String)>);

impl Notes {
    fn warn(&mut self, field: FieldPath, message: String) {
        self.0.push((field, message));
    }

    /// As in legacy_registry.go, ProcessPredicatePolicy: the argument of a known name is not read.
    fn ignored_argument(&mut self, what: &str, name: &str, field: &FieldPath) {
        let message = format!(
            "has no effect, since {what} {name:?} takes none: as in kube-scheduler, only an entry with a \
             name of your own can have one"
        );
        self.warn(field.key("argument"), message);
    }
}

fn resolve(
    policy: Policy,
    catalogue: &Catalogue,
    document: &Document,
    mut notes: Notes,
    mut faults: Faults<'_>,
) -> Result<Configuration, Vec<ConfigError>> {
    let (mut plan, mut custom) = (Plan::new(), Custom::default());
    let predicates = policy.predicates.as_deref();
    predicates::apply(predicates, &mut plan, &mut custom, &mut notes, &mut faults);
    let priorities = policy.priorities.as_deref();
    priorities::apply(priorities, &mut plan, &mut custom, catalogue, &mut notes, &mut faults);
    let written = priorities::as_written(priorities, document);
    conflict("predicates", &custom.present_labels, &custom.absent_labels, &mut faults);
    conflict("priorities", &custom.present_preference, &custom.absent_preference, &mut faults);
    let weight = policy.hard_pod_affinity_symmetric_weight;
    if !(0..=100).contains(&weight) {
        let field = FieldPath::root().key("hardPodAffinitySymmetricWeight");
        faults.invalid(field, weight, "not in valid range [0-100]");
    }
    let extenders: Vec<Extender> = policy.extenders.into_iter().map(Extender::from).collect();
    extenders::validate(&extenders, &mut faults);
    if !faults.is_empty() {
        return Err(faults.into_errors());
    }
    set_args(&mut plan, &custom, weight, &extenders, catalogue);
    for (plugin, asking) in plan.missing(catalogue) {
        let message =
            format!("plugin {plugin} of {} is not available yet: it has no effect", asking.what);
        notes.warn(asking.field.clone(), message);
    }
    let mut origin = Origin::of(POLICY);
    origin.priorities = written;
    let mut profile = plan.resolve(DEFAULT_SCHEDULER, catalogue);
    profile.run_all_filters = policy.always_check_all_predicates;
    if profile.run_all_filters {
        let field = FieldPath::root().key("alwaysCheckAllPredicates");
        let message = "has no counterpart in v1: if several filters reject a node, only the reasons of \
                       the first are reported";
        origin.dropped.push(document.error_at(field, message));
    }
    let profiles = vec![profile];
    let mut effective = KubeSchedulerConfiguration {
        profiles: migrate::profiles(&profiles, catalogue),
        extenders: extenders.clone(),
        ..KubeSchedulerConfiguration::default()
    };
    effective.set_defaults();
    let warning = |(field, message)| document.error_at(field, message);
    let mut warnings: Vec<ConfigError> = notes.0.into_iter().map(warning).collect();
    warnings.sort_by_key(|warning| warning.line);
    Ok(Configuration {
        profiles,
        parallelism: effective.parallelism.unwrap_or_default(),
        pod_initial_backoff_seconds: effective.pod_initial_backoff_seconds.unwrap_or_default(),
        pod_max_backoff_seconds: effective.pod_max_backoff_seconds.unwrap_or_default(),
        extenders,
        effective,
        origin,
        warnings,
    })
}

/// Sets the args that differ from the defaults.
fn set_args(
    plan: &mut Plan,
    custom: &Custom,
    hard_weight: i32,
    extenders: &[Extender],
    catalogue: &Catalogue,
) {
    let managed = extenders.iter().flat_map(|extender| &extender.managed_resources);
    let ignored: Vec<&str> = managed
        .filter(|resource| resource.ignored_by_scheduler)
        .map(|resource| resource.name.as_str())
        .collect();
    if plan.enables("NodeResourcesFit")
        && let Some(mut args) = catalogue.default_args("NodeResourcesFit")
    {
        args["rejectOvercommittedNodes"] = json!(true);
        if !ignored.is_empty() {
            args["ignoredResources"] = json!(ignored);
        }
        plan.args.insert("NodeResourcesFit", args);
    }
    if hard_weight != 0
        && let Some(mut args) = catalogue.default_args("InterPodAffinity")
    {
        args["hardPodAffinityWeight"] = json!(hard_weight);
        plan.args.insert("InterPodAffinity", args);
    }
    if plan.enables("NodeLabel") {
        plan.args.insert("NodeLabel", custom.node_label_args());
    }
    if plan.enables("ServiceAffinity") {
        plan.args.insert("ServiceAffinity", custom.service_affinity_args());
    }
    if let Some(ratio) = &custom.capacity_ratio {
        plan.args.insert("RequestedToCapacityRatio", ratio.clone());
    }
}
