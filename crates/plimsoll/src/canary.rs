//! Canaries: rules that let another profile decide some pods, without a change of the pods.

use std::str::FromStr;
use std::sync::Arc;

use anyhow::{Result, bail};
use clap::Args;
use plimsoll_api::{Pod, Str};
use plimsoll_cel::PodExpression;
use plimsoll_config::Configuration;
use plimsoll_kube::run::AssignProfile;
use plimsoll_sim::InitialCluster;

/// A longer expression is not compiled. The API server has the same limit for those of devices.
const LONGEST: usize = 10 << 10;

/// The rules of a command line.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct CanaryFlags {
    /// Let a profile decide the pods that a CEL expression picks, whatever their schedulerName; may be repeated, and the
    /// first that picks a pod counts
    ///
    /// The expression reads schedulerName, podNamespace, podName, labels, priority, and share: a number from 0 to less than 1 that
    /// belongs to the pod. `podNamespace == "ml" && share < 0.1=packing` lets the profile `packing` decide a tenth of the pods
    /// of a namespace.
    #[arg(long, value_name = "EXPR=PROFILE")]
    pub(crate) canary: Vec<Rule>,
}

/// A rule.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    expression: Arc<PodExpression>,
    /// The scheduler name of the profile.
    profile: Str,
}

impl FromStr for Rule {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let Some((expression, profile)) = text.rsplit_once('=') else {
            bail!("write it as EXPR=PROFILE")
        };
        let (expression, profile) = (expression.trim(), profile.trim());
        let is_name =
            |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c));
        if profile.is_empty() || !is_name(profile) {
            bail!("{profile:?} is no name of a profile: write it as EXPR=PROFILE");
        }
        if LONGEST < expression.len() {
            bail!("the expression is longer than {LONGEST} bytes");
        }
        match PodExpression::compile(expression) {
            Ok(compiled) => Ok(Rule { expression: Arc::new(compiled), profile: profile.into() }),
            Err(error) => bail!("{error}"),
        }
    }
}

/// The rules, whose profiles exist.
#[derive(Clone, Debug)]
pub(crate) struct Canaries(Vec<Rule>);

impl Canaries {
    /// The given rules; `None` if there are none. An error if the configuration lacks a profile that they name.
    pub(crate) fn new(flags: &CanaryFlags, configuration: &Configuration) -> Result<Option<Self>> {
        let names: Vec<&str> =
            configuration.profiles.iter().map(|profile| profile.scheduler_name.as_str()).collect();
        for Rule { profile, .. } in &flags.canary {
            if !names.contains(&profile.as_str()) {
                bail!(
                    "--canary: the configuration has no profile {profile:?}; it has {}",
                    names.join(", ")
                );
            }
        }
        Ok((!flags.canary.is_empty()).then(|| Canaries(flags.canary.clone())))
    }

    /// Lets the profiles decide the pending pods of a cluster that they pick. Members of groups have them on their nodes,
    /// too, since all members of a group must have the same.
    pub(crate) fn assign(&self, cluster: &mut InitialCluster, configuration: &Configuration) {
        let is_ours = |pod: &Pod| {
            configuration.profiles.iter().any(|one| one.scheduler_name == pod.scheduler_name)
        };
        let matters = |pod: &Pod| pod.node_name.is_none() || pod.scheduling_group.is_some();
        for pod in cluster.pods.iter_mut().filter(|pod| matters(pod)) {
            if let Some(profile) = self.profile_of(pod).filter(|_| is_ours(pod)) {
                pod.scheduler_name = profile;
            }
        }
    }
}

impl AssignProfile for Canaries {
    /// An expression that fails picks nothing.
    fn profile_of(&self, pod: &Pod) -> Option<Str> {
        let share = share(pod);
        let picks = |rule: &&Rule| rule.expression.matches(pod, share) == Ok(true);
        self.0.iter().find(picks).map(|rule| rule.profile.clone())
    }
}

/// The number of a pod, from 0 to less than 1. Members of a group share one, since one profile decides a group.
fn share(pod: &Pod) -> f64 {
    let key = match &pod.scheduling_group {
        Some(group) => format!("{}/{group}", pod.key.namespace),
        None if pod.uid.is_empty() => pod.key.to_string(),
        None => pod.uid.to_string(),
    };
    let hash = key.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    // FNV leaves similar keys close to each other: the steps of splitmix64 spread them.
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    let hash = hash ^ (hash >> 31);
    let bits = u32::try_from(hash >> 32).expect("32 bits are left");
    f64::from(bits) / (f64::from(u32::MAX) + 1.0)
}

#[cfg(test)]
mod tests {
    use plimsoll_api::PodKey;

    use super::*;

    fn rule(text: &str) -> Result<Rule, String> {
        text.parse::<Rule>().map_err(|error| format!("{error:#}"))
    }

    fn pod(namespace: &str, uid: &str) -> Pod {
        Pod { key: PodKey::new(namespace, "web"), uid: uid.into(), ..Pod::default() }
    }

    #[test]
    fn a_rule_is_an_expression_and_a_profile() {
        let packing = rule(r#"podNamespace == "ml"=packing"#).expect("it is right");
        assert_eq!(packing.profile, "packing");
        for (text, part) in [
            ("packing", "EXPR=PROFILE"),
            (r#"podNamespace == "ml""#, "is no name of a profile"),
            ("share < 0.1=", "is no name of a profile"),
            ("shares < 0.1=x", "undeclared reference to 'shares'"),
            ("1=x", "must evaluate to bool"),
        ] {
            let error = rule(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn the_first_rule_that_picks_a_pod_counts() {
        let rules = ["labels.x == \"1\"=never", "podNamespace == \"ml\"=packing", "true=rest"];
        let canaries = Canaries(rules.map(|text| rule(text).expect("it is right")).to_vec());
        assert_eq!(canaries.profile_of(&pod("ml", "u")).as_deref(), Some("packing"));
        assert_eq!(canaries.profile_of(&pod("web", "u")).as_deref(), Some("rest"));
    }

    #[test]
    fn a_share_is_that_share_of_all_pods_and_belongs_to_a_pod() {
        let shares: Vec<f64> = (0..10_000)
            .map(|i| share(&pod("ml", &format!("6f1d9a3c-0000-4000-8000-{i:012x}"))))
            .collect();
        assert!(shares.iter().all(|share| (0.0..1.0).contains(share)));
        for (limit, expected) in [(0.1, 1_000_i32), (0.5, 5_000)] {
            let picked = shares.iter().filter(|share| **share < limit).count();
            let picked = i32::try_from(picked).expect("there are 10,000");
            assert!((picked - expected).abs() < 200, "{picked} of 10,000 pods for {limit}");
        }
        assert_eq!(share(&pod("ml", "u")).to_bits(), share(&pod("web", "u")).to_bits());
        let member = |name: &str, uid: &str| {
            let mut pod = Pod { key: PodKey::new("ml", name), uid: uid.into(), ..Pod::default() };
            pod.scheduling_group = Some("gang".into());
            share(&pod).to_bits()
        };
        assert_eq!(member("a", "1"), member("b", "2"));
    }
}
