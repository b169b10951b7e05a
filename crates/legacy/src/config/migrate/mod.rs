//! Converts a configuration of any form to a file of version v1 that leads to the same decisions.

mod notes;
mod spelling;
mod substitutes;

use plimsoll_config::rules::REMOVED;
use plimsoll_config::{
    ALL, Catalogue, Configuration, KubeSchedulerConfiguration, Plugin, PluginConfig, PluginSet,
    Point, Profile, ResolvedProfile, to_yaml,
};
use serde::Serialize;
use serde_json::{Map, Value, json};

pub use notes::Note;

/// A configuration as a file of version v1.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Migration {
    /// The configuration. It has only what differs from the defaults.
    pub configuration: Value,
    /// What changes or needs attention, and what to do about it.
    pub notes: Vec<Note>,
}

impl Migration {
    /// `configuration` as a file of version v1, which resolves to the same profiles with the same catalogue.
    ///
    /// There are three exceptions, since version v1 cannot express them: EBSLimits, GCEPDLimits, AzureDiskLimits and
    /// CinderLimits become NodeVolumeLimits; plugins that the catalogue does not know are left out; and if several
    /// filters reject a node, only the first is reported.
    pub fn of(configuration: &Configuration, catalogue: &Catalogue) -> Self {
        let mut file = configuration.effective.clone();
        file.profiles = profiles(&configuration.profiles, catalogue);
        let percentage = configuration.profiles[0].percentage_of_nodes_to_score;
        let is_common =
            |profile: &ResolvedProfile| profile.percentage_of_nodes_to_score == percentage;
        file.percentage_of_nodes_to_score = None;
        if configuration.profiles.iter().all(is_common) {
            file.percentage_of_nodes_to_score = percentage;
        } else {
            for (profile, resolved) in file.profiles.iter_mut().zip(&configuration.profiles) {
                profile.percentage_of_nodes_to_score = resolved.percentage_of_nodes_to_score;
            }
        }
        let notes = notes::of(configuration, catalogue);
        Migration { configuration: without_defaults(&file), notes }
    }

    /// The configuration as YAML, with a line break at its end.
    pub fn to_yaml(&self) -> String {
        to_yaml(&self.configuration)
    }
}

/// What the profiles use of old releases that is allowed here but that kube-scheduler 1.36 refuses in a file of
/// version v1, with what to write instead.
pub fn extensions(configuration: &Configuration) -> Vec<Note> {
    configuration.profiles.iter().flat_map(notes::extensions).collect()
}

/// Writes the profiles of `effective` in the form of v1, for a configuration that was read from another form.
pub(super) fn write_profiles(configuration: &mut Configuration, catalogue: &Catalogue) {
    configuration.effective.profiles = profiles(&configuration.profiles, catalogue);
}

/// The profiles of a file of version v1 that resolve to these.
pub(super) fn profiles(resolved: &[ResolvedProfile], catalogue: &Catalogue) -> Vec<Profile> {
    let mut profiles: Vec<_> = resolved.iter().map(|profile| spelled(profile, catalogue)).collect();
    agree_on_queue_sort(&mut profiles, resolved);
    profiles
}

fn spelled(profile: &ResolvedProfile, catalogue: &Catalogue) -> Profile {
    let points = substitutes::points(profile, catalogue);
    let target = spelling::Target { points: &points, unavailable: &profile.unavailable };
    let sets = spelling::sets(target, catalogue);
    Profile {
        scheduler_name: Some(profile.scheduler_name.clone()),
        percentage_of_nodes_to_score: None,
        plugins: Some(sets),
        plugin_config: args(profile, catalogue),
    }
}

/// The args that differ from the defaults, of plugins that are enabled somewhere.
fn args(profile: &ResolvedProfile, catalogue: &Catalogue) -> Vec<PluginConfig> {
    let enabled = profile.plugins();
    let is_refused = |name: &str| REMOVED.contains(&name);
    let stands = |name: &String| {
        (enabled.contains(name.as_str()) || profile.unavailable.contains(name)) && !is_refused(name)
    };
    let mut configs = Vec::new();
    for (name, args) in profile.args.iter().filter(|(name, _)| stands(name)) {
        let default = catalogue.default_args(name).unwrap_or(Value::Null);
        let differing = match (args, &default) {
            (Value::Object(fields), Value::Object(default)) => {
                let differing =
                    fields.iter().filter(|(key, value)| default.get(*key) != Some(value));
                let differing = differing.map(|(key, value)| (key.clone(), value.clone()));
                Value::Object(differing.collect())
            }
            _ => args.clone(),
        };
        if differing != json!({}) || default.is_null() {
            configs.push(PluginConfig { name: name.clone(), args: differing });
        }
    }
    configs
}

/// All profiles must have the same `queueSort`.
fn agree_on_queue_sort(profiles: &mut [Profile], resolved: &[ResolvedProfile]) {
    let set = |profile: &Profile| profile.plugins.as_ref().map(|sets| sets.queue_sort.clone());
    let Some((first, others)) = profiles.split_first() else { return };
    if others.iter().all(|other| set(other) == set(first)) {
        return;
    }
    for (profile, resolved) in profiles.iter_mut().zip(resolved) {
        let enabled = &resolved.points[&Point::QueueSort];
        let enabled =
            enabled.iter().map(|plugin| Plugin { name: plugin.name.to_owned(), weight: None });
        let all = Plugin { name: ALL.to_owned(), weight: None };
        if let Some(sets) = &mut profile.plugins {
            sets.queue_sort = PluginSet { enabled: enabled.collect(), disabled: vec![all] };
        }
    }
}

/// The configuration as JSON, without defaults.
fn without_defaults(configuration: &KubeSchedulerConfiguration) -> Value {
    let mut default = KubeSchedulerConfiguration::default();
    default.set_defaults();
    default.profiles.clear();
    let mut value = configuration.to_value();
    let mut default = default.to_value();
    for kept in ["apiVersion", "kind", "percentageOfNodesToScore"] {
        default.as_object_mut().map(|fields| fields.remove(kept));
    }
    subtract(&mut value, &default);
    for profile in value["profiles"].as_array_mut().into_iter().flatten() {
        prune_sets(profile);
    }
    value
}

/// Removes from `value` what is the same in `default`.
fn subtract(value: &mut Value, default: &Value) {
    let (Value::Object(fields), Value::Object(defaults)) = (value, default) else { return };
    for (key, default) in defaults {
        let Some(value) = fields.get_mut(key) else { continue };
        subtract(value, default);
        if value == default || *value == Value::Object(Map::new()) {
            fields.remove(key);
        }
    }
}

/// Removes empty plugin sets.
fn prune_sets(profile: &mut Value) {
    let Value::Object(profile) = profile else { return };
    if let Some(Value::Object(sets)) = profile.get_mut("plugins") {
        sets.retain(|_, set| *set != json!({}));
        if sets.is_empty() {
            profile.remove("plugins");
        }
    }
}
