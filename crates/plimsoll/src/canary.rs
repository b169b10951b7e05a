//! Canaries: rules that let another profile decide some pods, without a change of the pods.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Result, bail};
use clap::Args;
use plimsoll_api::{Pod, PodKey, Str};
use plimsoll_cel::{DecidedWith, PodExpression};
use plimsoll_framework::GroupGates;
use plimsoll_kube::run::AssignProfile;
use plimsoll_sim::what_if::Plan;
use plimsoll_sim::{InitialCluster, ProfileRules};
use serde::Serialize;

use crate::options::Setup;

/// A longer expression is not compiled. The API server has the same limit for those of devices.
const LONGEST: usize = 10 << 10;

/// The rules of a command line.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct CanaryFlags {
    /// Let a profile decide the pods that a CEL expression picks, whatever their schedulerName; may be repeated, and the
    /// first that picks a pod counts
    ///
    /// The expression reads schedulerName, podNamespace, podName, podGroup, labels, priority, and share: a number from 0 to less
    /// than 1 that belongs to the pod. `podNamespace == "ml" && share < 0.1=packing` lets the profile `packing` decide a tenth
    /// of the pods of a namespace. Of pods that are scheduled as a group it reads what all of them have.
    #[arg(long, value_name = "EXPR=PROFILE")]
    pub(crate) canary: Vec<Rule>,
}

/// A rule.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    /// As it was given.
    text: Str,
    expression: Arc<PodExpression>,
    /// The scheduler name of the profile.
    profile: Str,
    /// Whether a warning says that it cannot be asked about members of groups.
    has_warned: Arc<AtomicBool>,
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
            Ok(compiled) => Ok(Rule {
                text: text.into(),
                expression: Arc::new(compiled),
                profile: profile.into(),
                has_warned: Arc::default(),
            }),
            Err(error) => bail!("{error}"),
        }
    }
}

/// The rule that has chosen the profile of a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CanaryChoice {
    /// The rule, as it was given.
    pub(crate) rule: Str,
    /// The profile that decides.
    pub(crate) profile: Str,
    /// `spec.schedulerName` of the pod.
    pub(crate) scheduler_name: Str,
}

/// The rules, whose profiles exist.
#[derive(Clone, Debug)]
pub(crate) struct Canaries {
    rules: Vec<Rule>,
    /// The scheduler names of all profiles.
    names: BTreeSet<Str>,
    /// With which pods a member of a group is decided.
    members: DecidedWith,
}

impl Canaries {
    /// The given rules; `None` if there are none. An error if the configuration lacks a profile that they name.
    pub(crate) fn new(flags: &CanaryFlags, setup: &Setup) -> Result<Option<Self>> {
        let profiles = setup.configuration.profiles.iter();
        let names = profiles.map(|profile| profile.scheduler_name.as_str()).collect();
        Canaries::among(flags, names, GroupGates::of(&setup.gates))
    }

    /// The same for profiles with these scheduler names.
    pub(crate) fn among(
        flags: &CanaryFlags,
        names: Vec<&str>,
        groups: GroupGates,
    ) -> Result<Option<Self>> {
        for Rule { profile, .. } in &flags.canary {
            if !names.contains(&profile.as_str()) {
                bail!(
                    "--canary: the configuration has no profile {profile:?}; it has {}",
                    names.join(", ")
                );
            }
        }
        let members = match (groups.generic_workload, groups.composite) {
            (false, _) => DecidedWith::Nobody,
            (true, false) => DecidedWith::Group,
            (true, true) => DecidedWith::Tree,
        };
        let names = names.into_iter().map(Str::from).collect();
        let canaries = Canaries { rules: flags.canary.clone(), names, members };
        Ok((!flags.canary.is_empty()).then_some(canaries))
    }

    /// The same rules under another configuration. An error if it lacks a profile that they name.
    pub(crate) fn under(&self, setup: &Setup) -> Result<Self> {
        let flags = CanaryFlags { canary: self.rules.clone() };
        Ok(Canaries::new(&flags, setup)?.unwrap_or_else(|| self.clone()))
    }

    /// Lets the profiles decide the pods of a cluster that they pick: the pending ones, and members of groups on their nodes,
    /// too, since all members of a group must have the same profile.
    pub(crate) fn assign(&self, cluster: &mut InitialCluster) {
        for pod in cluster.pods.iter_mut().filter(|pod| matters(pod)) {
            self.assign_to(pod);
        }
    }

    /// Lets a profile decide this pod if a rule picks it, also on its node.
    pub(crate) fn assign_to(&self, pod: &mut Pod) -> Option<CanaryChoice> {
        let choice = self.choice(pod)?;
        pod.scheduler_name.clone_from(&choice.profile);
        Some(choice)
    }

    /// The rule that picks a pod of our profiles, if it were pending.
    pub(crate) fn choice(&self, pod: &Pod) -> Option<CanaryChoice> {
        if !self.names.contains(&pod.scheduler_name) {
            return None;
        }
        let Rule { text, profile, .. } = self.rule_of(pod)?;
        let scheduler_name = pod.scheduler_name.clone();
        Some(CanaryChoice { rule: text.clone(), profile: profile.clone(), scheduler_name })
    }

    /// The rules that cannot be asked about a member of a group, each with the reason.
    pub(crate) fn unasked(&self, pod: &Pod) -> Vec<String> {
        let with = self.decided_with(pod);
        if with == DecidedWith::Nobody {
            return Vec::new();
        }
        let share = share(pod);
        let why = |rule: &Rule| {
            let error = rule.expression.matches_with(pod, share, with).err()?;
            Some(format!("--canary '{}' picks no pod of a group: {error}", rule.text))
        };
        self.rules.iter().filter_map(why).collect()
    }

    /// The first rule that picks a pod. One whose expression fails picks nothing.
    fn rule_of(&self, pod: &Pod) -> Option<&Rule> {
        let (share, with) = (share(pod), self.decided_with(pod));
        self.rules.iter().find(|rule| match rule.expression.matches_with(pod, share, with) {
            Ok(picks) => picks,
            Err(error) => {
                if with != DecidedWith::Nobody && !rule.has_warned.swap(true, Ordering::Relaxed) {
                    let (rule, pod) = (&rule.text, &pod.key);
                    tracing::warn!(%rule, %pod, %error, "this rule of --canary picks no pod of a group");
                }
                false
            }
        })
    }

    fn decided_with(&self, pod: &Pod) -> DecidedWith {
        if pod.scheduling_group.is_some() { self.members } else { DecidedWith::Nobody }
    }
}

impl AssignProfile for Canaries {
    fn profile_of(&self, pod: &Pod) -> Option<Str> {
        self.rule_of(pod).map(|rule| rule.profile.clone())
    }
}

/// Whether it matters which profile a pod has.
fn matters(pod: &Pod) -> bool {
    pod.node_name.is_none() || pod.scheduling_group.is_some()
}

/// The rules in a scenario, and what they pick there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Picks(Arc<Mutex<BTreeMap<PodKey, CanaryChoice>>>);

/// The pods of a scenario whose profile a rule has chosen.
#[derive(Debug, Serialize)]
pub(crate) struct PickedPods {
    #[serde(flatten)]
    pub(crate) choice: CanaryChoice,
    /// The pods, by name.
    pub(crate) pods: Vec<String>,
}

impl Picks {
    /// Rules for a scenario. The pods that `decided` names have their profile already.
    pub(crate) fn by(&self, canaries: Canaries, decided: BTreeMap<PodKey, Str>) -> ProfileRules {
        let picks = self.clone();
        ProfileRules::new(move |pod: &Pod| {
            if decided.get(&pod.key) == Some(&pod.uid) {
                return None;
            }
            let choice = canaries.choice(pod);
            let profile = choice.as_ref().map(|choice| choice.profile.clone());
            if let Some(choice) = choice {
                picks.lock().insert(pod.key.clone(), choice);
            }
            profile
        })
    }

    /// The pods of a plan that were picked, by rule.
    pub(crate) fn of(&self, plan: &Plan) -> Vec<PickedPods> {
        let picks = self.lock();
        let mut by_choice = BTreeMap::<&CanaryChoice, Vec<String>>::new();
        let placed = plan.placed.iter().map(|placed| &placed.pod);
        for pod in placed.chain(plan.pending.iter().map(|pending| &pending.pod)) {
            if let Some(choice) = picks.get(pod) {
                by_choice.entry(choice).or_default().push(pod.to_string());
            }
        }
        let picked = by_choice.into_iter();
        picked.map(|(choice, pods)| PickedPods { choice: choice.clone(), pods }).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<PodKey, CanaryChoice>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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

    fn canaries(rules: &[&str], members: DecidedWith) -> Canaries {
        let rules = rules.iter().map(|text| rule(text).expect("it is right")).collect();
        let names = ["default-scheduler", "packing", "rest"].map(Str::from).into();
        Canaries { rules, names, members }
    }

    #[test]
    fn members_of_a_group_have_one_profile_whatever_a_rule_reads() {
        let member = |name: &str, team: &'static str, group: &str| {
            let mut pod = pod("ml", name);
            pod.key = PodKey::new("ml", name);
            pod.labels = [("team", team)].into_iter().collect();
            pod.scheduling_group = Some(group.into());
            pod
        };
        let (one, other) = (member("train-0", "a", "train"), member("train-1", "b", "train"));
        let rules = ["labels.team == \"a\"=packing", "podGroup == \"train\"=rest"];
        let as_group = canaries(&rules, DecidedWith::Group);
        for pod in [&one, &other] {
            assert_eq!(as_group.profile_of(pod).as_deref(), Some("rest"));
        }
        let unasked = as_group.unasked(&one);
        assert!(unasked.len() == 1 && unasked[0].contains("labels may differ"), "{unasked:?}");
        // Another group of the tree has another name, and must have the same profile.
        let as_tree = canaries(&rules, DecidedWith::Tree);
        for pod in [&one, &other, &member("serve-0", "a", "serve")] {
            assert_eq!(as_tree.profile_of(pod), None);
        }
        // Without the feature gate they are pods like others.
        let singly = canaries(&rules, DecidedWith::Nobody);
        assert_eq!(singly.profile_of(&one).as_deref(), Some("packing"));
        assert_eq!(singly.profile_of(&other).as_deref(), Some("rest"));
    }

    #[test]
    fn the_choice_names_the_rule_and_leaves_pods_of_other_schedulers_alone() {
        let canaries = canaries(&["podNamespace == \"ml\"=packing"], DecidedWith::Nobody);
        let mut pod = pod("ml", "u");
        pod.scheduler_name = "default-scheduler".into();
        let choice = canaries.choice(&pod).expect("it is picked");
        assert_eq!(&*choice.rule, "podNamespace == \"ml\"=packing");
        assert_eq!((&*choice.profile, &*choice.scheduler_name), ("packing", "default-scheduler"));
        pod.scheduler_name = "foreign".into();
        assert_eq!(canaries.choice(&pod), None);
    }

    #[test]
    fn the_first_rule_that_picks_a_pod_counts() {
        let rules = ["labels.x == \"1\"=never", "podNamespace == \"ml\"=packing", "true=rest"];
        let canaries = canaries(&rules, DecidedWith::Nobody);
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
