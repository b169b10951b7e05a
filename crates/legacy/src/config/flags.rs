//! The changes that flags of releases up to 1.22 make to a configuration.
//!
//! As in cmd/kube-scheduler/app/options/{options,deprecated}.go of release 1.20.

use plimsoll_config::{Catalogue, ConfigError, Configuration, PluginConfig};
use plimsoll_document::{Document, FieldPath};
use serde_json::{Value, json};

use super::form::{V1ALPHA1, V1ALPHA2, V1BETA1};
use super::load::upon_provider;
use super::provider::Provider;

const INTER_POD_AFFINITY: &str = "InterPodAffinity";
const WEIGHT: &str = "hardPodAffinityWeight";
/// The top-level field of versions before v1beta1 for the same.
const OLD_WEIGHT: &str = "hardPodAffinitySymmetricWeight";

/// Args that are top-level fields in versions before v1beta1 and that a Policy does not have.
const BESIDE_POLICY: &[(&str, &str)] = &[("VolumeBinding", "bindTimeoutSeconds")];
/// Those that a provider does not set.
const BESIDE_PROVIDER: &[(&str, &str)] =
    &[("VolumeBinding", "bindTimeoutSeconds"), (INTER_POD_AFFINITY, WEIGHT)];

/// The configuration that was read from `document`, with the plugins and extenders of `policy`, as
/// `--policy-config-file` and `--policy-configmap` choose them beside `--config`. The names of the profiles and the
/// fields outside profiles stay.
///
/// It is an error if the configuration configures plugins itself.
pub fn with_policy(
    mut configuration: Configuration,
    document: &Document,
    policy: &Configuration,
) -> Result<Configuration, ConfigError> {
    if let Some(field) = configured_plugins(&document.value) {
        let message = "cannot set a Plugin config and Policy config: keep one profile here, \
                       without plugins and args, or leave out the flag that names a Policy";
        return Err(document.error_at(field, message));
    }
    if !configuration.extenders.is_empty() {
        let message = "has no effect: the extenders of the Policy replace them";
        configuration.warnings.push(document.error_at(FieldPath::root().key("extenders"), message));
    }
    let weight = FieldPath::root().key(OLD_WEIGHT);
    if document.get(&weight).is_some_and(|value| !value.is_null()) {
        configuration.origin.dropped.retain(|note| note.field.as_ref() != Some(&weight));
        let message = "has no effect: the Policy sets it, or else it is 1";
        configuration.warnings.push(document.error_at(weight, message));
    }
    take_plugins(&mut configuration, policy, BESIDE_POLICY);
    configuration.extenders.clone_from(&policy.extenders);
    configuration.effective.extenders.clone_from(&policy.extenders);
    configuration.warnings.extend_from_slice(&policy.warnings);
    Ok(configuration)
}

/// The configuration that was read from `document`, with the plugins of an algorithm provider, as
/// `--algorithm-provider` chooses it beside `--config`. The plugins of a configuration up to v1beta1 are applied on top
/// of those of the provider, as in release 1.20.
///
/// It is an error if a newer configuration configures plugins, or if the result is not valid.
pub fn with_provider(
    mut configuration: Configuration,
    document: &Document,
    provider: Provider,
    catalogue: &Catalogue,
) -> Result<Configuration, Vec<ConfigError>> {
    if let Some(field) = configured_plugins(&document.value) {
        if matches!(configuration.origin.form, V1BETA1 | V1ALPHA2 | V1ALPHA1) {
            return upon_provider(document, provider, catalogue);
        }
        let message = "cannot be combined with an algorithm provider: leave out \
                       --algorithm-provider, and enable its plugins here";
        return Err(vec![document.error_at(field, message)]);
    }
    take_plugins(&mut configuration, &provider.configuration(catalogue), BESIDE_PROVIDER);
    Ok(configuration)
}

/// Gives every profile the plugins and args of the only profile of `other`, except for the args in `kept`.
fn take_plugins(configuration: &mut Configuration, other: &Configuration, kept: &[(&str, &str)]) {
    let (chosen, written) = (&other.profiles[0], &other.effective.profiles[0]);
    let own = configuration.profiles[0].args.clone();
    for profile in &mut configuration.profiles {
        profile.points.clone_from(&chosen.points);
        profile.args.clone_from(&chosen.args);
        profile.unavailable.clone_from(&chosen.unavailable);
        profile.run_all_filters = chosen.run_all_filters;
    }
    for profile in &mut configuration.effective.profiles {
        profile.plugins.clone_from(&written.plugins);
        profile.plugin_config.clone_from(&written.plugin_config);
    }
    for &(plugin, arg) in kept {
        let before = chosen.args.get(plugin).map(|args| &args[arg]);
        let value = own.get(plugin).and_then(|args| args.get(arg));
        if let Some(value) = value.filter(|value| before.is_some_and(|before| before != *value)) {
            set_arg(configuration, plugin, arg, value);
        }
    }
    configuration.origin.form = other.origin.form;
    configuration.origin.priorities.clone_from(&other.origin.priorities);
    configuration.origin.dropped.extend_from_slice(&other.origin.dropped);
}

/// Names the only profile, as `--scheduler-name` did. If there are several profiles, none is renamed.
pub fn rename_profile(configuration: &mut Configuration, scheduler_name: &str) {
    if let ([profile], [written]) =
        (configuration.profiles.as_mut_slice(), configuration.effective.profiles.as_mut_slice())
    {
        scheduler_name.clone_into(&mut profile.scheduler_name);
        written.scheduler_name = Some(scheduler_name.to_owned());
    }
}

/// Sets the `hardPodAffinityWeight` of `InterPodAffinity` in all profiles that have it, as
/// `--hard-pod-affinity-symmetric-weight` did. It lies between 0 and 100.
pub fn set_hard_pod_affinity_weight(configuration: &mut Configuration, weight: i32) {
    set_arg(configuration, INTER_POD_AFFINITY, WEIGHT, &json!(weight));
}

/// Sets an arg of a plugin in all profiles that have args for it.
fn set_arg(configuration: &mut Configuration, plugin: &str, arg: &str, value: &Value) {
    let profiles = configuration.profiles.iter_mut().zip(&mut configuration.effective.profiles);
    for (profile, written) in profiles {
        let Some(Value::Object(args)) = profile.args.get_mut(plugin) else { continue };
        args.insert(arg.to_owned(), value.clone());
        let mut configs = written.plugin_config.iter_mut();
        if let Some(config) = configs.find(|config| config.name == plugin) {
            config.args[arg] = value.clone();
            continue;
        }
        let (name, args) = (plugin.to_owned(), json!({arg: value}));
        written.plugin_config.push(PluginConfig { name, args });
    }
}

/// The field that configures plugins, or several profiles, and so conflicts with a Policy.
///
/// As in options.go, emptySchedulerProfileConfig.
fn configured_plugins(configuration: &Value) -> Option<FieldPath> {
    let root = FieldPath::root();
    let is_set = |value: &Value| match value {
        Value::Null => false,
        Value::Array(entries) => !entries.is_empty(),
        _ => true,
    };
    let of = |value: &Value, at: &FieldPath| {
        let named = ["plugins", "pluginConfig"].into_iter().find(|key| is_set(&value[key]));
        named.map(|key| at.key(key))
    };
    let profiles = root.key("profiles");
    let entries = configuration["profiles"].as_array().map_or(&[][..], Vec::as_slice);
    let mut fields = entries.iter().enumerate();
    let field = fields.find_map(|(index, profile)| of(profile, &profiles.index(index)));
    let several = (1 < entries.len()).then_some(profiles);
    // In version v1alpha1 the fields of its only profile are top-level.
    field.or(several).or_else(|| of(configuration, &root))
}
