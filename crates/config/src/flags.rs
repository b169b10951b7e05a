//! What flags of releases up to 1.22 change about a configuration.
//!
//! As in cmd/kube-scheduler/app/options/{options,deprecated}.go of release 1.20.

use plimsoll_document::{Document, FieldPath};
use serde_json::{Value, json};

use crate::configuration::Configuration;
use crate::faults::ConfigError;
use crate::types::PluginConfig;

const INTER_POD_AFFINITY: &str = "InterPodAffinity";
const WEIGHT: &str = "hardPodAffinityWeight";

impl Configuration {
    /// The same configuration, read from `document`, with the plugins and extenders of `policy`, as
    /// `--policy-config-file` and `--policy-configmap` choose them beside `--config`. The names of the
    /// profiles stay, and what concerns no profile.
    ///
    /// The error is that the configuration configures plugins itself.
    pub fn with_policy(
        mut self,
        document: &Document,
        policy: &Configuration,
    ) -> Result<Self, ConfigError> {
        if let Some(field) = configured_plugins(&document.value) {
            let message = "cannot set a Plugin config and Policy config: keep one profile here, \
                           without plugins and args, or leave out the flag that names a Policy";
            return Err(document.error_at(field, message));
        }
        if !self.extenders.is_empty() {
            let message = "has no effect: the extenders of the Policy take their place";
            self.warnings.push(document.error_at(FieldPath::root().key("extenders"), message));
        }
        self.take_plugins(policy);
        self.extenders.clone_from(&policy.extenders);
        self.effective.extenders.clone_from(&policy.extenders);
        self.warnings.extend_from_slice(&policy.warnings);
        Ok(self)
    }

    /// The same configuration, read from `document`, with the plugins of an algorithm provider, as
    /// `--algorithm-provider` chooses it beside `--config`.
    ///
    /// The error is that the configuration configures plugins itself. Release 1.20 put them upon those
    /// of the provider.
    pub fn with_provider(
        mut self,
        document: &Document,
        provider: &Configuration,
    ) -> Result<Self, ConfigError> {
        if let Some(field) = configured_plugins(&document.value) {
            let message = "cannot be put upon an algorithm provider: leave out --algorithm-provider, \
                           and enable here what it has more";
            return Err(document.error_at(field, message));
        }
        self.take_plugins(provider);
        Ok(self)
    }

    /// Lets every profile have the plugins and args of the only one of `other`.
    fn take_plugins(&mut self, other: &Configuration) {
        let (chosen, written) = (&other.profiles[0], &other.effective.profiles[0]);
        for profile in &mut self.profiles {
            profile.points.clone_from(&chosen.points);
            profile.args.clone_from(&chosen.args);
            profile.unavailable.clone_from(&chosen.unavailable);
            profile.run_all_filters = chosen.run_all_filters;
        }
        for profile in &mut self.effective.profiles {
            profile.plugins.clone_from(&written.plugins);
            profile.plugin_config.clone_from(&written.plugin_config);
        }
        self.origin.form = other.origin.form;
        self.origin.dropped.extend_from_slice(&other.origin.dropped);
    }

    /// Names the only profile, as `--scheduler-name` did. Of several profiles none is renamed.
    pub fn rename_profile(&mut self, scheduler_name: &str) {
        if let ([profile], [written]) =
            (self.profiles.as_mut_slice(), self.effective.profiles.as_mut_slice())
        {
            scheduler_name.clone_into(&mut profile.scheduler_name);
            written.scheduler_name = Some(scheduler_name.to_owned());
        }
    }

    /// Sets the `hardPodAffinityWeight` of `InterPodAffinity` in all profiles that have it, as
    /// `--hard-pod-affinity-symmetric-weight` did. It lies between 0 and 100.
    pub fn set_hard_pod_affinity_weight(&mut self, weight: i32) {
        let profiles = self.profiles.iter_mut().zip(&mut self.effective.profiles);
        for (profile, written) in profiles {
            let Some(Value::Object(args)) = profile.args.get_mut(INTER_POD_AFFINITY) else {
                continue;
            };
            args.insert(WEIGHT.to_owned(), json!(weight));
            let mut configs = written.plugin_config.iter_mut();
            match configs.find(|config| config.name == INTER_POD_AFFINITY) {
                Some(config) => config.args[WEIGHT] = json!(weight),
                None => written.plugin_config.push(PluginConfig {
                    name: INTER_POD_AFFINITY.to_owned(),
                    args: json!({WEIGHT: weight}),
                }),
            }
        }
    }
}

/// Where a configuration says more of plugins than a Policy leaves room for.
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
    // Version v1alpha1 has the fields of its only profile at the root.
    field.or(several).or_else(|| of(configuration, &root))
}
