//! Flags of kube-scheduler up to 1.22 that later releases do not have.
//!
//! As in cmd/kube-scheduler/app/options/deprecated.go and insecure_serving.go of release 1.20.

use std::path::{Path, PathBuf};

use clap::ValueHint;
use plimsoll_api::ObjectKey;

use crate::notices;

/// The default namespace of the ConfigMap with the Policy.
const POLICY_NAMESPACE: &str = "kube-system";

/// The flags. Those without effect are accepted, so that old command lines still work.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Deprecated {
    /// DefaultProvider or ClusterAutoscalerProvider of release 1.20
    #[arg(long, value_name = "NAME", help_heading = "Deprecated", hide_short_help = true)]
    pub(crate) algorithm_provider: Option<String>,

    /// The file of a scheduler Policy; use --config, which also takes a Policy
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(help_heading = "Deprecated", hide_short_help = true)]
    pub(crate) policy_config_file: Option<PathBuf>,

    /// A ConfigMap with a scheduler Policy under `policy.cfg`; use --config
    #[arg(long, value_name = "NAME", help_heading = "Deprecated", hide_short_help = true)]
    pub(crate) policy_configmap: Option<String>,

    /// The namespace of that ConfigMap; `kube-system` if not given
    #[arg(long, value_name = "NAME", help_heading = "Deprecated", hide_short_help = true)]
    pub(crate) policy_configmap_namespace: Option<String>,

    /// Whether the file of the Policy takes precedence over the ConfigMap
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true", requires_if("true", "policy_config_file"))]
    #[arg(help_heading = "Deprecated", hide_short_help = true)]
    pub(crate) use_legacy_policy_config: Option<bool>,

    /// The hardPodAffinityWeight of InterPodAffinity, if there is neither --config nor a Policy
    #[arg(long, value_name = "0..100", value_parser = clap::value_parser!(i32).range(0..=100))]
    #[arg(help_heading = "Deprecated", hide_short_help = true)]
    pub(crate) hard_pod_affinity_symmetric_weight: Option<i32>,

    /// The name of the profile, if there is no KubeSchedulerConfiguration
    #[arg(long, value_name = "NAME", help_heading = "Deprecated", hide_short_help = true)]
    pub(crate) scheduler_name: Option<String>,

    /// No effect
    #[arg(long, value_name = "NAME", help_heading = "Deprecated", hide_short_help = true)]
    lock_object_namespace: Option<String>,

    /// No effect
    #[arg(long, value_name = "NAME", help_heading = "Deprecated", hide_short_help = true)]
    lock_object_name: Option<String>,

    /// No effect
    #[arg(long, value_name = "IP", help_heading = "Deprecated", hide_short_help = true)]
    address: Option<String>,

    /// No effect
    #[arg(long, value_name = "PORT", help_heading = "Deprecated", hide_short_help = true)]
    port: Option<u16>,

    /// No effect
    #[arg(long, value_name = "KEYS", help_heading = "Deprecated", hide_short_help = true)]
    failure_domains: Option<String>,
}

/// Where a Policy is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PolicySource<'a> {
    File(&'a Path),
    ConfigMap(ObjectKey),
}

impl Deprecated {
    /// Warns of every given flag, with what replaces it, and of flags that others override.
    pub(crate) fn tell(&self) {
        for (flag, instead) in self.given() {
            notices::warning(format_args!("--{flag} is deprecated: {instead}"));
        }
        let file = self.policy_config_file.is_some();
        match self.policy() {
            Some(PolicySource::File(_)) if self.policy_configmap.is_some() => {
                no_effect("policy-configmap", "--use-legacy-policy-config asks for the file");
            }
            Some(PolicySource::ConfigMap(_)) if file => {
                no_effect("policy-config-file", "--policy-configmap takes precedence");
            }
            _ => {}
        }
    }

    /// Where the Policy of the flags is. As in deprecated.go, ApplyTo: the file if there is no ConfigMap or
    /// `--use-legacy-policy-config` is given, else the ConfigMap.
    pub(crate) fn policy(&self) -> Option<PolicySource<'_>> {
        let is_forced = self.use_legacy_policy_config == Some(true);
        match (&self.policy_config_file, &self.policy_configmap) {
            (Some(file), None) => Some(PolicySource::File(file)),
            (Some(file), Some(_)) if is_forced => Some(PolicySource::File(file)),
            (_, Some(name)) => {
                let namespace = self.policy_configmap_namespace.as_deref();
                let namespace = namespace.filter(|namespace| !namespace.is_empty());
                let namespace = namespace.unwrap_or(POLICY_NAMESPACE);
                Some(PolicySource::ConfigMap(ObjectKey::new(namespace, name.as_str())))
            }
            (None, None) => None,
        }
    }

    /// The given flags, with what replaces them.
    fn given(&self) -> Vec<(&'static str, &'static str)> {
        let election = "it has no effect; use leaderElection in a KubeSchedulerConfiguration";
        let serving = "it has no effect; `plimsoll run` takes --bind-address and --secure-port";
        let flags = [
            (
                self.algorithm_provider.is_some(),
                "algorithm-provider",
                "use --config, which enables plugins",
            ),
            (
                self.policy_config_file.is_some(),
                "policy-config-file",
                "use --config, which takes a Policy, too",
            ),
            (
                self.policy_configmap.is_some(),
                "policy-configmap",
                "use --config with the manifest of the ConfigMap",
            ),
            (
                self.policy_configmap_namespace.is_some(),
                "policy-configmap-namespace",
                "use --config with the manifest of the ConfigMap",
            ),
            (
                self.use_legacy_policy_config.is_some(),
                "use-legacy-policy-config",
                "use --config with the file of the Policy",
            ),
            (
                self.hard_pod_affinity_symmetric_weight.is_some(),
                "hard-pod-affinity-symmetric-weight",
                "use hardPodAffinityWeight in the args of InterPodAffinity",
            ),
            (
                self.scheduler_name.is_some(),
                "scheduler-name",
                "use profiles[].schedulerName in a KubeSchedulerConfiguration",
            ),
            (self.lock_object_namespace.is_some(), "lock-object-namespace", election),
            (self.lock_object_name.is_some(), "lock-object-name", election),
            (self.address.is_some(), "address", serving),
            (self.port.is_some(), "port", serving),
            (
                self.failure_domains.is_some(),
                "failure-domains",
                "it has no effect; use the topologyKey of each term",
            ),
        ];
        let given = flags.into_iter().filter(|(is_given, ..)| *is_given);
        given.map(|(_, flag, instead)| (flag, instead)).collect()
    }
}

/// Warns that a given flag has no effect.
pub(crate) fn no_effect(flag: &str, why: &str) {
    notices::warning(format_args!("--{flag} has no effect: {why}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_comes_before_a_config_map_only_if_it_is_forced() {
        let flags = |file: bool, config_map: bool, forced| Deprecated {
            policy_config_file: file.then(|| PathBuf::from("p.json")),
            policy_configmap: config_map.then(|| "p".to_owned()),
            use_legacy_policy_config: forced,
            ..Deprecated::default()
        };
        let file = Some(PolicySource::File(Path::new("p.json")));
        let config_map = Some(PolicySource::ConfigMap(ObjectKey::new("kube-system", "p")));
        assert_eq!(flags(false, false, None).policy(), None);
        assert_eq!(flags(true, false, None).policy(), file);
        assert_eq!(flags(false, true, None).policy(), config_map);
        assert_eq!(flags(true, true, None).policy(), config_map);
        assert_eq!(flags(true, true, Some(false)).policy(), config_map);
        assert_eq!(flags(true, true, Some(true)).policy(), file);
    }
}
