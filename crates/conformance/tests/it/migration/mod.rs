//! A migrated file leads to the same decisions as the original: every node of every pod, the scores,
//! and the choice.
//!
//! Unavoidable differences are left out: nodes that EBSLimits, GCEPDLimits, AzureDiskLimits or
//! CinderLimits reject, or NodeVolumeLimits, which replaces them in v1; and the reasons of nodes if all
//! filters run, which v1 cannot express.

mod cluster;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use expect_test::{Expect, expect};
use plimsoll_config::{Catalogue, Configuration};
use plimsoll_conformance::{Case, Mode, suite};
use plimsoll_engine::{Decision, NodeDecision, NodeVerdict, Outcome};
use plimsoll_legacy::config::{Migration, Provider, load};
use plimsoll_legacy::in_tree;
use plimsoll_plugins::default_profile;
use serde_json::Value;

/// Plugins that count volumes differently in v1.
const LIMITS: [&str; 5] =
    ["AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits", "NodeVolumeLimits"];

fn catalogue() -> Catalogue {
    Catalogue::of(&in_tree(), &default_profile())
}

/// The configuration of a case.
fn configuration(config: &Value) -> Configuration {
    let catalogue = catalogue();
    match config["kind"].as_str() {
        Some("Provider") => {
            let name = config["name"].as_str().unwrap_or_default();
            let provider: Provider = name.parse().unwrap_or_else(|error| panic!("{error}"));
            provider.configuration(&catalogue)
        }
        _ => load("config", &config.to_string(), &catalogue)
            .unwrap_or_else(|errors| panic!("{config}: {}", errors[0])),
    }
}

fn decisions(case: &Case) -> Vec<Decision> {
    let mut decisions = Vec::new();
    case.decide(|decision| decisions.push(decision));
    decisions
}

/// The decisions of a case, and those of its migrated configuration.
fn both(case: &Case) -> (Vec<Decision>, Vec<Decision>) {
    let config = case.config.as_ref().expect("a case of an old release has a configuration");
    let migrated = Migration::of(&configuration(config), &catalogue()).configuration;
    (decisions(case), decisions(&Case { config: Some(migrated), ..case.clone() }))
}

/// Whether volume limits matter to the decision.
fn is_about_limits(decision: &Decision) -> bool {
    decision.nodes.iter().any(|node| match &node.verdict {
        NodeVerdict::Rejected { plugin, .. } => LIMITS.contains(&&**plugin),
        _ => false,
    })
}

/// The differences of the decision of the migrated file, including the reasons of rejected nodes if
/// `told_alike`.
fn differences(old: &Decision, new: &Decision, told_alike: bool) -> Vec<String> {
    let mut found = Vec::new();
    let chosen = |decision: &Decision| match &decision.outcome {
        Outcome::Scheduled { node, best } => Some((node.clone(), best.clone())),
        Outcome::Unschedulable { .. } | Outcome::Error { .. } => None,
    };
    if old.pod != new.pod || chosen(old) != chosen(new) || old.nodes.len() != new.nodes.len() {
        found.push(format!("{}: {:?} became {:?}", old.pod, old.outcome, new.outcome));
    }
    let alike = |old: &NodeDecision, new: &NodeDecision| match (&old.verdict, &new.verdict) {
        (NodeVerdict::Rejected { .. }, NodeVerdict::Rejected { .. }) if !told_alike => true,
        // Their order in the profile does not matter.
        (
            NodeVerdict::Scored { scores, total },
            NodeVerdict::Scored { scores: others, total: other },
        ) => {
            total == other
                && scores.iter().collect::<BTreeSet<_>>() == others.iter().collect::<BTreeSet<_>>()
        }
        (old, new) => old == new,
    };
    for (old, new) in old.nodes.iter().zip(&new.nodes) {
        if old.name != new.name || !alike(old, new) {
            found.push(format!("{}: {old:?} became {new:?}", new.name));
        }
    }
    found
}

fn tells_alike(case: &Case) -> bool {
    case.config.as_ref().is_none_or(|config| config["alwaysCheckAllPredicates"] != true)
}

/// Decides the pods of the cluster by a Policy and by its migrated form, and reports how many fit,
/// which plugins reject nodes, and which give nodes different scores.
#[track_caller]
fn check(policy: &str, expected: &Expect) {
    let documents = plimsoll_document::Document::parse_all("policy", policy).expect("it is YAML");
    let (objects, pods) = cluster::objects();
    let config = Some(documents[0].value.clone());
    let name = "policy".to_owned();
    let feature_gates = BTreeMap::new();
    let case = Case { name, mode: Mode::Trace, config, feature_gates, objects, pods };
    let (old, new) = both(&case);
    assert_eq!(old.len(), case.pods.len());
    for (old, new) in old.iter().zip(&new) {
        assert!(!is_about_limits(old) && !is_about_limits(new), "no node is full of volumes");
        let found = differences(old, new, tells_alike(&case));
        assert!(found.is_empty(), "{}", found.join("\n"));
    }
    expected.assert_eq(&summary(&old));
}

fn summary(decisions: &[Decision]) -> String {
    let (mut rejected, mut telling, mut fit) = (BTreeMap::new(), BTreeSet::new(), 0);
    for decision in decisions {
        fit += u32::from(matches!(decision.outcome, Outcome::Scheduled { .. }));
        if let Outcome::Unschedulable { pre_filter: Some((plugin, _)), .. } = &decision.outcome {
            *rejected.entry(plugin.to_string()).or_insert(0) += decision.nodes.len();
        }
        let mut scores: BTreeMap<&str, BTreeSet<i64>> = BTreeMap::new();
        for node in &decision.nodes {
            match &node.verdict {
                NodeVerdict::Rejected { plugin, .. } => {
                    *rejected.entry(plugin.to_string()).or_insert(0) += 1;
                }
                NodeVerdict::Scored { scores: of_node, .. } => {
                    for (plugin, score) in of_node {
                        scores.entry(plugin).or_default().insert(*score);
                    }
                }
                NodeVerdict::NotJudged | NodeVerdict::Only => {}
            }
        }
        let differing = scores.into_iter().filter(|(_, scores)| 1 < scores.len());
        telling.extend(differing.map(|(plugin, _)| plugin.to_owned()));
    }
    let mut text = format!("{fit} of {} pods fit\nrejected:", decisions.len());
    for (plugin, n_nodes) in rejected {
        write!(text, " {plugin} {n_nodes}").expect("a string takes all");
    }
    let telling: Vec<_> = telling.into_iter().collect();
    writeln!(text, "\nscored: {}", telling.join(" ")).expect("a string takes all");
    text
}

macro_rules! policies {
    ($($name:ident $file:literal $expected:expr;)*) => { $(
        #[test]
        fn $name() {
            check(include_str!(concat!("../../../../legacy/tests/policies/policy-", $file)), &$expected);
        }
    )* };
}

policies! {
    a_policy_of_1_0_decides_alike_as_v1 "1.0.json" expect![[r#"
        32 of 36 pods fit
        rejected: NodeAffinity 33 NodeLabel 128 NodePorts 3 NodeResourcesFit 141 NodeUnschedulable 36 ServiceAffinity 314 TaintToleration 60 VolumeRestrictions 4
        scored: NodeLabel NodeResourcesBalancedAllocation NodeResourcesLeastAllocated PodTopologySpread ServiceAffinity
    "#]];
    a_policy_of_1_2_decides_alike_as_v1 "1.2.json" expect![[r#"
        36 of 36 pods fit
        rejected: InterPodAffinity 59 NodeAffinity 33 NodePorts 3 NodeResourcesFit 66 NodeUnschedulable 36 TaintToleration 60 VolumeRestrictions 8 VolumeZone 40
        scored: ImageLocality InterPodAffinity NodeAffinity NodeLabel NodeResourcesBalancedAllocation NodeResourcesLeastAllocated PodTopologySpread ServiceAffinity
    "#]];
    a_policy_of_1_4_decides_alike_as_v1 "1.4.json" expect![[r#"
        36 of 36 pods fit
        rejected: InterPodAffinity 50 NodeAffinity 29 NodeResourcesFit 191 NodeUnschedulable 36 TaintToleration 60 VolumeRestrictions 3 VolumeZone 31
        scored: InterPodAffinity NodeAffinity NodePreferAvoidPods NodeResourcesBalancedAllocation NodeResourcesMostAllocated PodTopologySpread TaintToleration
    "#]];
    a_policy_of_1_7_decides_alike_as_v1 "1.7.json" expect![[r#"
        36 of 36 pods fit
        rejected: InterPodAffinity 65 NodeAffinity 33 NodePorts 3 NodeResourcesFit 68 NodeUnschedulable 36 TaintToleration 60 VolumeRestrictions 8 VolumeZone 39
        scored: InterPodAffinity NodeAffinity NodePreferAvoidPods NodeResourcesBalancedAllocation NodeResourcesLeastAllocated PodTopologySpread TaintToleration
    "#]];
    a_policy_of_1_10_decides_alike_as_v1 "1.10.yaml" expect![[r#"
        36 of 36 pods fit
        rejected: InterPodAffinity 65 NodeAffinity 33 NodePorts 3 NodeResourcesFit 65 NodeUnschedulable 36 TaintToleration 60 VolumeRestrictions 8 VolumeZone 42
        scored: InterPodAffinity NodeAffinity NodePreferAvoidPods NodeResourceLimits NodeResourcesBalancedAllocation NodeResourcesLeastAllocated PodTopologySpread TaintToleration
    "#]];
    a_policy_of_1_12_decides_alike_as_v1 "1.12.json" expect![[r#"
        36 of 36 pods fit
        rejected: InterPodAffinity 57 NodeAffinity 29 NodeResourcesFit 125 NodeUnschedulable 36 TaintToleration 60 VolumeRestrictions 7 VolumeZone 36
        scored: ImageLocality NodeResourcesLeastAllocated RequestedToCapacityRatio TaintToleration
    "#]];
    a_policy_of_1_14_decides_alike_as_v1 "1.14.yaml" expect![[r#"
        36 of 36 pods fit
        rejected: InterPodAffinity 51 NodeAffinity 29 NodeResourcesFit 150 NodeUnschedulable 36 PodTopologySpread 41 TaintToleration 60 VolumeRestrictions 4 VolumeZone 33
        scored: NodePreferAvoidPods PodTopologySpread RequestedToCapacityRatio
    "#]];
    a_policy_of_1_16_decides_alike_as_v1 "1.16.json" expect![[r#"
        36 of 36 pods fit
        rejected: NodeAffinity 33 NodePorts 3 NodeResourcesFit 55 NodeUnschedulable 36 PodTopologySpread 23 TaintToleration 60
        scored: NodeResourcesLeastAllocated PodTopologySpread TaintToleration
    "#]];
}

/// Every recorded case of release 1.20 has the same decisions with its migrated configuration.
#[track_caller]
fn check_suite(name: &str) {
    let (mut n_decisions, mut n_limits, mut failures) = (0, 0, Vec::new());
    for (case, _) in suite(name) {
        let (old, new) = both(&case);
        for (old, new) in old.iter().zip(&new) {
            n_decisions += 1;
            if is_about_limits(old) || is_about_limits(new) {
                n_limits += 1;
                continue;
            }
            let found = differences(old, new, tells_alike(&case));
            failures.extend(found.iter().map(|one| format!("{} {one}", case.name)));
        }
    }
    assert!(n_limits < n_decisions / 8, "{name}: {n_limits} of {n_decisions} are about limits");
    let shown = failures.iter().take(8).cloned().collect::<Vec<_>>().join("\n");
    assert!(failures.is_empty(), "{name}: {} differ\n{shown}", failures.len());
}

macro_rules! suites {
    ($($name:ident)*) => { $(
        #[test]
        fn $name() {
            check_suite(stringify!($name));
        }
    )* };
}

suites! { legacy_selectorspread legacy_resources legacy_policy legacy_default }
