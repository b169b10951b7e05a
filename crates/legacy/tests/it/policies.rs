//! Policies and the plugins that they are translated to.

use std::fmt::Write;

use expect_test::{Expect, expect};
use plimsoll_config::{Catalogue, Configuration, Known, Point, PointSet};
use plimsoll_legacy::config::load;
use plimsoll_legacy::in_tree;

use crate::catalogue::{lines, shown};

use Point::{
    Bind, Filter, PostFilter, PreBind, PreEnqueue, PreFilter, PreScore, QueueSort, Reserve, Score,
};

/// The plugins that a Policy can use, including those that the default profile no longer has.
pub(crate) fn catalogue() -> Catalogue {
    let known = |name, points: &[Point]| Known::new(name, PointSet::of(points));
    let mut plugins = vec![
        known("SchedulingGates", &[PreEnqueue]),
        known("PrioritySort", &[QueueSort]),
        known("NodeUnschedulable", &[Filter]),
        known("NodeName", &[Filter]),
        known("TaintToleration", &[Filter, PreScore, Score]).weighing(3),
        known("NodeAffinity", &[PreFilter, Filter, PreScore, Score]).weighing(2),
        known("NodePorts", &[PreFilter, Filter]),
        known("NodeResourcesFit", &[PreFilter, Filter, PreScore, Score]).weighing(1),
        known("VolumeRestrictions", &[PreFilter, Filter]),
        known("NodeVolumeLimits", &[PreFilter, Filter]),
        known("VolumeBinding", &[PreFilter, Filter, PreScore, Score, Reserve, PreBind]),
        known("VolumeZone", &[PreFilter, Filter]),
        known("PodTopologySpread", &[PreFilter, Filter, PreScore, Score]).weighing(2),
        known("InterPodAffinity", &[PreFilter, Filter, PreScore, Score]).weighing(2),
        known("DefaultPreemption", &[PreEnqueue, PostFilter]),
        known("NodeResourcesBalancedAllocation", &[PreScore, Score]).weighing(1),
        known("ImageLocality", &[Score]).weighing(1),
        known("DefaultBinder", &[Bind]),
    ];
    let filters = ["EBSLimits", "GCEPDLimits", "AzureDiskLimits", "CinderLimits"];
    plugins.extend(filters.map(|name| known(name, &[Filter]).on_request()));
    let scores = [
        "NodePreferAvoidPods",
        "NodeResourcesLeastAllocated",
        "NodeResourcesMostAllocated",
        "RequestedToCapacityRatio",
    ];
    plugins.extend(scores.map(|name| known(name, &[Score]).on_request()));
    plugins.push(known("NodeLabel", &[Filter, Score]).on_request());
    plugins.push(known("ServiceAffinity", &[PreFilter, Filter, Score]).on_request());
    plugins.push(known("NodeResourceLimits", &[PreScore, Score]).on_request());
    Catalogue::new(plugins).with_args_of(&in_tree())
}

/// The configuration of a Policy, which must be valid.
fn policy(text: &str) -> Configuration {
    match load("policy.yaml", text, &catalogue()) {
        Ok(configuration) => configuration,
        Err(errors) => panic!("{}", lines(&errors)),
    }
}

/// Checks the warnings about a Policy and its plugins, with args that differ from the defaults.
#[track_caller]
fn check(text: &str, expected: &Expect) {
    let configuration = policy(text);
    let mut text = lines(&configuration.warnings) + &shown(&configuration.profiles);
    let profile = &configuration.profiles[0];
    let telling = [
        "InterPodAffinity",
        "NodeLabel",
        "PodTopologySpread",
        "RequestedToCapacityRatio",
        "ServiceAffinity",
    ];
    for (name, args) in profile.args.iter().filter(|(name, _)| telling.contains(&name.as_str())) {
        writeln!(text, "  {name} {args}").expect("a string takes all");
    }
    if let Some(fit) = profile.args.get("NodeResourcesFit") {
        assert_eq!(fit["rejectOvercommittedNodes"], true, "as in 1.20");
    }
    if let Some(ignored) = profile.args.get("NodeResourcesFit").map(|a| &a["ignoredResources"])
        && !ignored.is_null()
    {
        writeln!(text, "  NodeResourcesFit ignores {ignored}").expect("a string takes all");
    }
    if profile.run_all_filters {
        text += "  all filters run\n";
    }
    for extender in &configuration.extenders {
        let extender = serde_json::to_value(extender).expect("an extender is plain data");
        writeln!(text, "  extender {extender}").expect("a string takes all");
    }
    expected.assert_eq(&text);
}

/// As [`check`], with entries of priorities and no predicates.
#[track_caller]
fn check_priorities(priorities: &str, expected: &Expect) {
    check(&with_priorities(priorities), expected);
}

pub(crate) fn with_priorities(priorities: &str) -> String {
    format!("kind: Policy\napiVersion: v1\npredicates: []\npriorities:\n{priorities}")
}

#[test]
fn a_policy_of_1_0_loads() {
    check(
        include_str!("../policies/policy-1.0.json"),
        &expect![[r#"
        default-scheduler
          preEnqueue: SchedulingGates
          queueSort: PrioritySort
          preFilter: NodePorts NodeResourcesFit ServiceAffinity
          filter: NodeUnschedulable NodeName NodePorts NodeAffinity NodeResourcesFit VolumeRestrictions TaintToleration NodeLabel ServiceAffinity
          postFilter: DefaultPreemption
          preScore: PodTopologySpread
          score: NodeResourcesBalancedAllocation=1 NodeResourcesLeastAllocated=1 NodeLabel=4 PodTopologySpread=2 ServiceAffinity=3
          bind: DefaultBinder
          NodeLabel {"absentLabels":["retiring"],"presentLabelsPreference":["ssd"]}
          PodTopologySpread {"defaultingType":"System"}
          ServiceAffinity {"affinityLabels":["zone"],"antiAffinityLabelsPreference":["rack"]}
    "#]],
    );
}

#[test]
fn a_policy_of_1_2_loads() {
    check(
        include_str!("../policies/policy-1.2.json"),
        &expect![[r#"
        default-scheduler
          preEnqueue: SchedulingGates
          queueSort: PrioritySort
          preFilter: NodeResourcesFit NodePorts InterPodAffinity
          filter: NodeUnschedulable NodeResourcesFit NodeName NodePorts NodeAffinity VolumeRestrictions TaintToleration EBSLimits GCEPDLimits VolumeZone InterPodAffinity
          postFilter: DefaultPreemption
          preScore: InterPodAffinity PodTopologySpread
          score: NodeResourcesBalancedAllocation=1 ImageLocality=1 InterPodAffinity=2 NodeResourcesLeastAllocated=1 NodeAffinity=2 NodeLabel=8 PodTopologySpread=1 ServiceAffinity=6
          bind: DefaultBinder
          InterPodAffinity {"hardPodAffinityWeight":1,"ignorePreferredTermsOfExistingPods":false}
          NodeLabel {"absentLabelsPreference":["old"],"presentLabelsPreference":["ssd"]}
          PodTopologySpread {"defaultingType":"System"}
          ServiceAffinity {"antiAffinityLabelsPreference":["rack","row"]}
          extender {"filterVerb":"filter","httpTimeout":"0s","prioritizeVerb":"prioritize","urlPrefix":"http://127.0.0.1:12346/scheduler","weight":5}
    "#]],
    );
}

#[test]
fn a_policy_of_1_4_loads() {
    check(
        include_str!("../policies/policy-1.4.json"),
        &expect![[r#"
        policy.yaml:12: predicates[7].name: predicate "CheckNodeMemoryPressure" no longer exists: taints describe the state of a node, so PodToleratesNodeTaints and CheckNodeUnschedulable replace it
        policy.yaml:13: predicates[8].name: predicate "CheckNodeDiskPressure" no longer exists: taints describe the state of a node, so PodToleratesNodeTaints and CheckNodeUnschedulable replace it
        default-scheduler
          preEnqueue: SchedulingGates
          queueSort: PrioritySort
          preFilter: NodeResourcesFit NodePorts InterPodAffinity
          filter: NodeUnschedulable NodeResourcesFit NodeName NodePorts NodeAffinity VolumeRestrictions TaintToleration EBSLimits GCEPDLimits VolumeZone InterPodAffinity
          postFilter: DefaultPreemption
          preScore: InterPodAffinity PodTopologySpread TaintToleration
          score: NodeResourcesBalancedAllocation=1 InterPodAffinity=1 NodeResourcesMostAllocated=1 NodeAffinity=1 NodePreferAvoidPods=10000 PodTopologySpread=1 TaintToleration=1
          bind: DefaultBinder
          InterPodAffinity {"hardPodAffinityWeight":1,"ignorePreferredTermsOfExistingPods":false}
          PodTopologySpread {"defaultingType":"System"}
    "#]],
    );
}

#[test]
fn a_policy_of_1_7_loads() {
    check(
        include_str!("../policies/policy-1.7.json"),
        &expect![[r#"
        policy.yaml:6: predicates[1].name: predicate "NoVolumeNodeConflict" no longer exists: volume binding checks where volumes can be used, so CheckVolumeBinding replaces it
        policy.yaml:14: predicates[9].name: predicate "CheckNodeMemoryPressure" no longer exists: taints describe the state of a node, so PodToleratesNodeTaints and CheckNodeUnschedulable replace it
        policy.yaml:15: predicates[10].name: predicate "CheckNodeDiskPressure" no longer exists: taints describe the state of a node, so PodToleratesNodeTaints and CheckNodeUnschedulable replace it
        policy.yaml:16: predicates[11].name: predicate "CheckNodeCondition" no longer exists: taints describe the state of a node, so PodToleratesNodeTaints and CheckNodeUnschedulable replace it
        default-scheduler
          preEnqueue: SchedulingGates
          queueSort: PrioritySort
          preFilter: NodeResourcesFit NodePorts VolumeBinding InterPodAffinity
          filter: NodeUnschedulable NodeResourcesFit NodeName NodePorts NodeAffinity VolumeRestrictions TaintToleration EBSLimits GCEPDLimits AzureDiskLimits VolumeBinding VolumeZone InterPodAffinity
          postFilter: DefaultPreemption
          preScore: InterPodAffinity PodTopologySpread TaintToleration
          score: NodeResourcesBalancedAllocation=1 InterPodAffinity=1 NodeResourcesLeastAllocated=1 NodeAffinity=1 NodePreferAvoidPods=10000 PodTopologySpread=1 TaintToleration=1
          reserve: VolumeBinding
          preBind: VolumeBinding
          bind: DefaultBinder
          InterPodAffinity {"hardPodAffinityWeight":10,"ignorePreferredTermsOfExistingPods":false}
          PodTopologySpread {"defaultingType":"System"}
          extender {"bindVerb":"bind","enableHTTPS":true,"filterVerb":"filter","httpTimeout":"2.5s","nodeCacheCapable":true,"tlsConfig":{"caFile":"/etc/ca.pem","insecure":true},"urlPrefix":"https://extender.example.com/"}
    "#]],
    );
}

#[test]
fn a_policy_of_1_10_loads() {
    check(
        include_str!("../policies/policy-1.10.yaml"),
        &expect![[r#"
        policy.yaml:11: predicates[7].name: predicate "CheckNodeMemoryPressure" no longer exists: taints describe the state of a node, so PodToleratesNodeTaints and CheckNodeUnschedulable replace it
        policy.yaml:12: predicates[8].name: predicate "CheckNodeDiskPressure" no longer exists: taints describe the state of a node, so PodToleratesNodeTaints and CheckNodeUnschedulable replace it
        policy.yaml:13: predicates[9].name: predicate "CheckNodePIDPressure" no longer exists: taints describe the state of a node, so PodToleratesNodeTaints and CheckNodeUnschedulable replace it
        policy.yaml:14: predicates[10].name: predicate "CheckNodeCondition" no longer exists: taints describe the state of a node, so PodToleratesNodeTaints and CheckNodeUnschedulable replace it
        policy.yaml:25: priorities[7].name: priority "ResourceLimitsPriority" was removed in release 1.20: the plugin NodeResourceLimits replaces it
        default-scheduler
          preEnqueue: SchedulingGates
          queueSort: PrioritySort
          preFilter: NodeResourcesFit NodePorts VolumeBinding InterPodAffinity
          filter: NodeUnschedulable NodeResourcesFit NodeName NodePorts NodeAffinity VolumeRestrictions TaintToleration EBSLimits GCEPDLimits AzureDiskLimits VolumeBinding VolumeZone InterPodAffinity
          postFilter: DefaultPreemption
          preScore: InterPodAffinity NodeResourceLimits PodTopologySpread TaintToleration
          score: NodeResourcesBalancedAllocation=1 InterPodAffinity=1 NodeResourcesLeastAllocated=1 NodeAffinity=1 NodePreferAvoidPods=10000 NodeResourceLimits=1 PodTopologySpread=1 TaintToleration=1
          reserve: VolumeBinding
          preBind: VolumeBinding
          bind: DefaultBinder
          InterPodAffinity {"hardPodAffinityWeight":1,"ignorePreferredTermsOfExistingPods":false}
          PodTopologySpread {"defaultingType":"System"}
          NodeResourcesFit ignores ["example.com/fpga"]
          all filters run
          extender {"bindVerb":"bind","filterVerb":"filter","httpTimeout":"0s","ignorable":true,"managedResources":[{"ignoredByScheduler":true,"name":"example.com/fpga"}],"urlPrefix":"http://localhost:8888/"}
    "#]],
    );
}

#[test]
fn a_policy_of_1_12_loads() {
    check(
        include_str!("../policies/policy-1.12.json"),
        &expect![[r#"
        policy.yaml:20: priorities[2].name: priority "RequestedToCapacityRatioPriority" without an argument was removed in release 1.17: here it prefers the nodes that are used least, as it did before; write the shape as requestedToCapacityRatioArguments
        default-scheduler
          preEnqueue: SchedulingGates
          queueSort: PrioritySort
          preFilter: NodeResourcesFit NodePorts VolumeBinding InterPodAffinity
          filter: NodeUnschedulable NodeResourcesFit NodeName NodePorts NodeAffinity VolumeRestrictions TaintToleration EBSLimits GCEPDLimits NodeVolumeLimits AzureDiskLimits VolumeBinding VolumeZone InterPodAffinity
          postFilter: DefaultPreemption
          preScore: TaintToleration
          score: ImageLocality=1 NodeResourcesLeastAllocated=1 RequestedToCapacityRatio=2 TaintToleration=1
          reserve: VolumeBinding
          preBind: VolumeBinding
          bind: DefaultBinder
          InterPodAffinity {"hardPodAffinityWeight":1,"ignorePreferredTermsOfExistingPods":false}
          RequestedToCapacityRatio {"shape":[{"score":10,"utilization":0},{"score":0,"utilization":100}]}
    "#]],
    );
}

#[test]
fn a_policy_of_1_14_loads() {
    check(
        include_str!("../policies/policy-1.14.yaml"),
        &expect![[r#"
            default-scheduler
              preEnqueue: SchedulingGates
              queueSort: PrioritySort
              preFilter: NodeResourcesFit NodePorts VolumeBinding PodTopologySpread InterPodAffinity
              filter: NodeUnschedulable NodeResourcesFit NodeName NodePorts NodeAffinity VolumeRestrictions TaintToleration EBSLimits GCEPDLimits NodeVolumeLimits AzureDiskLimits VolumeBinding VolumeZone PodTopologySpread InterPodAffinity
              postFilter: DefaultPreemption
              preScore: PodTopologySpread
              score: NodePreferAvoidPods=10000 RequestedToCapacityRatio=2 PodTopologySpread=2
              reserve: VolumeBinding
              preBind: VolumeBinding
              bind: DefaultBinder
              InterPodAffinity {"hardPodAffinityWeight":1,"ignorePreferredTermsOfExistingPods":false}
              PodTopologySpread {"defaultingType":"System"}
              RequestedToCapacityRatio {"resources":[{"name":"nvidia.com/gpu","weight":5},{"name":"cpu","weight":1}],"shape":[{"score":0,"utilization":0},{"score":10,"utilization":100}]}
        "#]],
    );
}

#[test]
fn a_policy_of_1_16_loads() {
    check(
        include_str!("../policies/policy-1.16.json"),
        &expect![[r#"
        default-scheduler
          preEnqueue: SchedulingGates
          queueSort: PrioritySort
          preFilter: NodeResourcesFit NodePorts VolumeBinding PodTopologySpread
          filter: NodeUnschedulable NodeResourcesFit NodeName NodePorts NodeAffinity TaintToleration CinderLimits VolumeBinding PodTopologySpread
          postFilter: DefaultPreemption
          preScore: PodTopologySpread TaintToleration
          score: PodTopologySpread=2 NodeResourcesLeastAllocated=1 TaintToleration=1
          reserve: VolumeBinding
          preBind: VolumeBinding
          bind: DefaultBinder
          PodTopologySpread {"defaultingType":"List"}
    "#]],
    );
}

#[test]
fn priorities_keep_the_names_that_a_policy_gives_them() {
    let check = |text: &str, expected: &Expect| {
        let priorities = policy(text).origin.priorities;
        let lines = priorities.iter().map(|one| {
            let argument = one.argument.as_ref().map(|argument| format!(" {argument}"));
            format!("{}={}{}\n", one.name, one.weight, argument.unwrap_or_default())
        });
        expected.assert_eq(&lines.collect::<String>());
    };
    check(
        include_str!("../policies/policy-1.0.json"),
        &expect![[r#"
        LeastRequestedPriority=1
        BalancedResourceAllocation=1
        ServiceSpreadingPriority=2
        EqualPriority=1
        RackSpread=3 {"serviceAntiAffinity":{"label":"rack"}}
        LikesSsd=4 {"labelPreference":{"label":"ssd","presence":true}}
    "#]],
    );
    check(
        "{kind: Policy, apiVersion: v1}",
        &expect![[r#"
        SelectorSpreadPriority=1
        InterPodAffinityPriority=1
        LeastRequestedPriority=1
        BalancedResourceAllocation=1
        NodePreferAvoidPodsPriority=10000
        NodeAffinityPriority=1
        TaintTolerationPriority=1
        ImageLocalityPriority=1
        EvenPodsSpreadPriority=2
    "#]],
    );
    let twice = "\
- {name: SelectorSpreadPriority, weight: 5}
- {name: ImageLocalityPriority, weight: 1, argument: {labelPreference: {label: a}}}
- {name: Own, weight: 1, argument: {LabelPreference: {Label: a}}}
- {name: ServiceSpreadingPriority, weight: 3}
";
    check(
        &with_priorities(twice),
        &expect![[r#"
        ImageLocalityPriority=1
        Own=1 {"labelPreference":{"label":"a"}}
        ServiceSpreadingPriority=3
    "#]],
    );
    check(
        &with_priorities(""),
        &expect![[r#"
        SelectorSpreadPriority=1
        InterPodAffinityPriority=1
        LeastRequestedPriority=1
        BalancedResourceAllocation=1
        NodePreferAvoidPodsPriority=10000
        NodeAffinityPriority=1
        TaintTolerationPriority=1
        ImageLocalityPriority=1
        EvenPodsSpreadPriority=2
    "#]],
    );
}

#[test]
fn absent_lists_are_the_default_ones() {
    check(
        "{kind: Policy, apiVersion: v1, predicates: null}",
        &expect![[r#"
        default-scheduler
          preEnqueue: SchedulingGates
          queueSort: PrioritySort
          preFilter: NodeResourcesFit NodePorts VolumeBinding PodTopologySpread InterPodAffinity
          filter: NodeUnschedulable NodeResourcesFit NodeName NodePorts NodeAffinity VolumeRestrictions TaintToleration EBSLimits GCEPDLimits NodeVolumeLimits AzureDiskLimits VolumeBinding VolumeZone PodTopologySpread InterPodAffinity
          postFilter: DefaultPreemption
          preScore: PodTopologySpread InterPodAffinity TaintToleration
          score: NodeResourcesBalancedAllocation=1 PodTopologySpread=2 ImageLocality=1 InterPodAffinity=1 NodeResourcesLeastAllocated=1 NodeAffinity=1 NodePreferAvoidPods=10000 TaintToleration=1
          reserve: VolumeBinding
          preBind: VolumeBinding
          bind: DefaultBinder
          InterPodAffinity {"hardPodAffinityWeight":1,"ignorePreferredTermsOfExistingPods":false}
          PodTopologySpread {"defaultingType":"System"}
    "#]],
    );
}

#[test]
fn empty_lists_leave_the_mandatory_predicates() {
    check(
        "{kind: Policy, apiVersion: v1, predicates: [], priorities: []}",
        &expect![[r#"
        default-scheduler
          preEnqueue: SchedulingGates
          queueSort: PrioritySort
          filter: NodeUnschedulable TaintToleration
          postFilter: DefaultPreemption
          bind: DefaultBinder
    "#]],
    );
}

#[test]
fn every_name_of_1_20_becomes_its_plugins() {
    let predicates = [
        "CheckNodeUnschedulable",
        "GeneralPredicates",
        "HostName",
        "PodFitsHostPorts",
        "PodFitsPorts",
        "MatchNodeSelector",
        "PodFitsResources",
        "NoDiskConflict",
        "PodToleratesNodeTaints",
        "CheckNodeLabelPresence",
        "CheckServiceAffinity",
        "MaxEBSVolumeCount",
        "MaxGCEPDVolumeCount",
        "MaxCSIVolumeCountPred",
        "MaxAzureDiskVolumeCount",
        "MaxCinderVolumeCount",
        "CheckVolumeBinding",
        "NoVolumeZoneConflict",
        "EvenPodsSpread",
        "MatchInterPodAffinity",
    ];
    let mut table = String::new();
    for name in predicates {
        let text = format!(
            "{{kind: Policy, apiVersion: v1, predicates: [{{name: {name}}}], priorities: []}}"
        );
        writeln!(table, "{name}: {}", plugins(&text)).expect("a string takes all");
    }
    let priorities = [
        "EqualPriority",
        "LeastRequestedPriority",
        "MostRequestedPriority",
        "BalancedResourceAllocation",
        "SelectorSpreadPriority",
        "ServiceSpreadingPriority",
        "EvenPodsSpreadPriority",
        "InterPodAffinityPriority",
        "NodePreferAvoidPodsPriority",
        "NodeAffinityPriority",
        "TaintTolerationPriority",
        "ImageLocalityPriority",
    ];
    for name in priorities {
        let text = with_priorities(&format!("- {{name: {name}, weight: 7}}\n"));
        writeln!(table, "{name}: {}", plugins(&text)).expect("a string takes all");
    }
    expect![[r#"
        CheckNodeUnschedulable: 
        GeneralPredicates: preFilter/NodeResourcesFit preFilter/NodePorts filter/NodeResourcesFit filter/NodeName filter/NodePorts filter/NodeAffinity
        HostName: filter/NodeName
        PodFitsHostPorts: preFilter/NodePorts filter/NodePorts
        PodFitsPorts: preFilter/NodePorts filter/NodePorts
        MatchNodeSelector: filter/NodeAffinity
        PodFitsResources: preFilter/NodeResourcesFit filter/NodeResourcesFit
        NoDiskConflict: filter/VolumeRestrictions
        PodToleratesNodeTaints: 
        CheckNodeLabelPresence: filter/NodeLabel
        CheckServiceAffinity: preFilter/ServiceAffinity filter/ServiceAffinity
        MaxEBSVolumeCount: filter/EBSLimits
        MaxGCEPDVolumeCount: filter/GCEPDLimits
        MaxCSIVolumeCountPred: filter/NodeVolumeLimits
        MaxAzureDiskVolumeCount: filter/AzureDiskLimits
        MaxCinderVolumeCount: filter/CinderLimits
        CheckVolumeBinding: preFilter/VolumeBinding filter/VolumeBinding reserve/VolumeBinding preBind/VolumeBinding
        NoVolumeZoneConflict: filter/VolumeZone
        EvenPodsSpread: preFilter/PodTopologySpread filter/PodTopologySpread
        MatchInterPodAffinity: preFilter/InterPodAffinity filter/InterPodAffinity
        EqualPriority: 
        LeastRequestedPriority: score/NodeResourcesLeastAllocated=7
        MostRequestedPriority: score/NodeResourcesMostAllocated=7
        BalancedResourceAllocation: score/NodeResourcesBalancedAllocation=7
        SelectorSpreadPriority: preScore/PodTopologySpread score/PodTopologySpread=7
        ServiceSpreadingPriority: preScore/PodTopologySpread score/PodTopologySpread=7
        EvenPodsSpreadPriority: preScore/PodTopologySpread score/PodTopologySpread=7
        InterPodAffinityPriority: preScore/InterPodAffinity score/InterPodAffinity=7
        NodePreferAvoidPodsPriority: score/NodePreferAvoidPods=7
        NodeAffinityPriority: score/NodeAffinity=7
        TaintTolerationPriority: preScore/TaintToleration score/TaintToleration=7
        ImageLocalityPriority: score/ImageLocality=7
    "#]].assert_eq(&table);
}

/// The plugins of a Policy, without those that are always enabled.
fn plugins(text: &str) -> String {
    let profile = policy(text).profiles.remove(0);
    let always = ["NodeUnschedulable", "TaintToleration"];
    let mut shown = Vec::new();
    for (point, plugins) in &profile.points {
        if [PreEnqueue, QueueSort, PostFilter, Bind].contains(point) {
            continue;
        }
        let plugins = plugins.iter().filter(|p| *point != Filter || !always.contains(&p.name));
        shown.extend(plugins.map(|p| match p.weight {
            0 => format!("{}/{}", point.key(), p.name),
            weight => format!("{}/{}={weight}", point.key(), p.name),
        }));
    }
    shown.join(" ")
}

#[test]
fn filters_have_the_order_of_evaluation_not_that_of_the_entries() {
    let text = "\
kind: Policy
apiVersion: v1
priorities: []
predicates:
- name: MatchInterPodAffinity
- name: NoDiskConflict
- {name: Here, argument: {labelsPresence: {labels: [b], presence: true}}}
- {name: Here, argument: {labelsPresence: {labels: [a], presence: true}}}
- {name: NotThere, argument: {labelsPresence: {labels: [c]}}}
- {name: Together, argument: {serviceAffinity: {labels: [zone, rack]}}}
- name: PodFitsPorts
- name: GeneralPredicates
";
    check(
        text,
        &expect![[r#"
        default-scheduler
          preEnqueue: SchedulingGates
          queueSort: PrioritySort
          preFilter: NodeResourcesFit NodePorts ServiceAffinity InterPodAffinity
          filter: NodeUnschedulable NodeResourcesFit NodeName NodePorts NodeAffinity VolumeRestrictions TaintToleration NodeLabel ServiceAffinity InterPodAffinity
          postFilter: DefaultPreemption
          bind: DefaultBinder
          InterPodAffinity {"hardPodAffinityWeight":1,"ignorePreferredTermsOfExistingPods":false}
          NodeLabel {"absentLabels":["c"],"presentLabels":["b","a"]}
          ServiceAffinity {"affinityLabels":["zone","rack"]}
    "#]],
    );
}

#[test]
fn an_argument_under_a_known_name_has_no_effect() {
    let text = "\
kind: Policy
apiVersion: v1
priorities:
- {name: ImageLocalityPriority, weight: 1, argument: {labelPreference: {label: a}}}
predicates:
- {name: CheckNodeLabelPresence, argument: {labelsPresence: {labels: [b], presence: true}}}
";
    check(
        text,
        &expect![[r#"
        policy.yaml:4: priorities[0].argument: has no effect, since priority "ImageLocalityPriority" takes none: as in kube-scheduler, only an entry with a name of your own can have one
        policy.yaml:6: predicates[0].argument: has no effect, since predicate "CheckNodeLabelPresence" takes none: as in kube-scheduler, only an entry with a name of your own can have one
        default-scheduler
          preEnqueue: SchedulingGates
          queueSort: PrioritySort
          filter: NodeUnschedulable TaintToleration NodeLabel
          postFilter: DefaultPreemption
          score: ImageLocality=1
          bind: DefaultBinder
          NodeLabel {}
    "#]],
    );
}

#[test]
fn both_priorities_that_spread_become_one_plugin_with_the_systems_constraints() {
    let both = "\
- {name: SelectorSpreadPriority, weight: 5}
- {name: EvenPodsSpreadPriority, weight: 3}
";
    check_priorities(
        both,
        &expect![[r#"
        default-scheduler
          preEnqueue: SchedulingGates
          queueSort: PrioritySort
          filter: NodeUnschedulable TaintToleration
          postFilter: DefaultPreemption
          preScore: PodTopologySpread
          score: PodTopologySpread=3
          bind: DefaultBinder
          PodTopologySpread {"defaultingType":"System"}
    "#]],
    );
    check_priorities(
        "- {name: EvenPodsSpreadPriority, weight: 3}\n",
        &expect![[r#"
        default-scheduler
          preEnqueue: SchedulingGates
          queueSort: PrioritySort
          filter: NodeUnschedulable TaintToleration
          postFilter: DefaultPreemption
          preScore: PodTopologySpread
          score: PodTopologySpread=3
          bind: DefaultBinder
          PodTopologySpread {"defaultingType":"List"}
    "#]],
    );
}

#[test]
fn the_weights_of_entries_of_one_kind_are_added() {
    let text = "\
- {name: A, weight: 3, argument: {labelPreference: {label: a, presence: true}}}
- {name: B, weight: 3, argument: {labelPreference: {label: b}}}
- {name: C, weight: 2, argument: {serviceAntiAffinity: {label: c}}}
- {name: D, weight: 2, argument: {serviceAntiAffinity: {label: d}}}
- {name: E, weight: 2, argument: {serviceAntiAffinity: {label: e}}}
";
    check_priorities(
        text,
        &expect![[r#"
        default-scheduler
          preEnqueue: SchedulingGates
          queueSort: PrioritySort
          filter: NodeUnschedulable TaintToleration
          postFilter: DefaultPreemption
          score: NodeLabel=6 ServiceAffinity=6
          bind: DefaultBinder
          NodeLabel {"absentLabelsPreference":["b"],"presentLabelsPreference":["a"]}
          ServiceAffinity {"antiAffinityLabelsPreference":["c","d","e"]}
    "#]],
    );
}

#[test]
fn the_last_of_two_entries_for_one_priority_is_used() {
    let text = "\
- {name: SelectorSpreadPriority, weight: 5}
- {name: ServiceSpreadingPriority, weight: 3}
";
    check_priorities(
        text,
        &expect![[r#"
        policy.yaml:6: priorities[1]: priority "SelectorSpreadPriority" is listed twice: the last weight is used
        default-scheduler
          preEnqueue: SchedulingGates
          queueSort: PrioritySort
          filter: NodeUnschedulable TaintToleration
          postFilter: DefaultPreemption
          preScore: PodTopologySpread
          score: PodTopologySpread=3
          bind: DefaultBinder
          PodTopologySpread {"defaultingType":"System"}
    "#]],
    );
}

#[test]
fn a_config_map_holds_a_policy() {
    let text = "\
apiVersion: v1
kind: ConfigMap
metadata: {name: scheduler-policy, namespace: kube-system}
data:
  policy.cfg: |
    {\"kind\": \"Policy\", \"apiVersion\": \"v1\", \"priorities\": [],
     \"predicates\": [{\"name\": \"CheckNodeCondition\"}]}
";
    check(
        text,
        &expect![[r#"
        policy.yaml:5: data[policy.cfg]:2: predicates[0].name: predicate "CheckNodeCondition" no longer exists: taints describe the state of a node, so PodToleratesNodeTaints and CheckNodeUnschedulable replace it
        default-scheduler
          preEnqueue: SchedulingGates
          queueSort: PrioritySort
          filter: NodeUnschedulable TaintToleration
          postFilter: DefaultPreemption
          bind: DefaultBinder
    "#]],
    );
}

#[test]
fn unknown_fields_of_an_extender_are_warned_of() {
    let text = "\
kind: Policy
apiVersion: v1
predicates: []
priorities: []
extenders:
- urlPrefix: http://localhost
  FilterVerb: filter
  apiVersion: v1beta1
  httpTimeout: 100
";
    check(
        text,
        &expect![[r#"
        policy.yaml:8: extenders[0].apiVersion: is not a field of an extender, and has no effect
        default-scheduler
          preEnqueue: SchedulingGates
          queueSort: PrioritySort
          filter: NodeUnschedulable TaintToleration
          postFilter: DefaultPreemption
          bind: DefaultBinder
          extender {"filterVerb":"filter","httpTimeout":"100ns","urlPrefix":"http://localhost"}
    "#]],
    );
}

#[test]
fn an_unavailable_plugin_is_left_out_with_a_warning() {
    let text =
        "kind: Policy\napiVersion: v1\npriorities: []\npredicates:\n- name: MaxEBSVolumeCount\n";
    let all = catalogue();
    let others = all.plugins().iter().filter(|plugin| plugin.name != "EBSLimits");
    let catalogue = Catalogue::new(others.copied().collect());
    let configuration = load("policy.yaml", text, &catalogue).expect("it is valid");
    let shown = lines(&configuration.warnings) + &shown(&configuration.profiles);
    expect![[r#"
        policy.yaml:5: predicates[0]: plugin EBSLimits of predicate MaxEBSVolumeCount is not available yet: it has no effect
        default-scheduler
          preEnqueue: SchedulingGates
          queueSort: PrioritySort
          filter: NodeUnschedulable TaintToleration
          postFilter: DefaultPreemption
          bind: DefaultBinder
          unavailable: EBSLimits
    "#]].assert_eq(&shown);
}

#[test]
fn a_policy_is_translated_to_a_valid_configuration() {
    let first = policy(
        "\
kind: Policy
apiVersion: v1
predicates: [{name: GeneralPredicates}, {name: CheckVolumeBinding}, {name: EvenPodsSpread}]
priorities:
- {name: EvenPodsSpreadPriority, weight: 2}
- {name: A, weight: 3, argument: {labelPreference: {label: a}}}
- {name: B, weight: 3, argument: {labelPreference: {label: b}}}
extenders: [{urlPrefix: a, filterVerb: filter, httpTimeout: 1}]
",
    );
    let written = first.effective.to_value().to_string();
    let second = load("written.json", &written, &catalogue()).expect("it is valid");
    let points = |configuration: &Configuration| configuration.profiles[0].points.clone();
    let args = |configuration: &Configuration| configuration.profiles[0].args.clone();
    assert_eq!(points(&first), points(&second));
    assert_eq!(args(&first), args(&second));
    assert_eq!(first.extenders, second.extenders);
}

#[test]
fn names_that_only_old_documentation_has_are_accepted_with_a_warning() {
    check(
        "
kind: Policy
apiVersion: v1
predicates:
- {name: MaxGCEDVolumeCount}
priorities:
- {name: CalculateAntiAffinityPriority, weight: 2}
- {name: LeastRequestedPriority, weight: 1}
",
        &expect![[r#"
            policy.yaml:5: predicates[0].name: predicate "MaxGCEDVolumeCount" is a misspelling in old documentation, so MaxGCEPDVolumeCount replaces it
            policy.yaml:7: priorities[0].name: priority "CalculateAntiAffinityPriority" is the name of serviceAntiAffinity in old documentation: without an argument that names a label, it spreads the pods of a Service over nodes; write serviceAntiAffinity with a label
            default-scheduler
              preEnqueue: SchedulingGates
              queueSort: PrioritySort
              filter: NodeUnschedulable TaintToleration GCEPDLimits
              postFilter: DefaultPreemption
              preScore: PodTopologySpread
              score: NodeResourcesLeastAllocated=1 PodTopologySpread=2
              bind: DefaultBinder
              PodTopologySpread {"defaultingType":"System"}
        "#]],
    );
    // With a label it is the argument of that name.
    check_priorities(
        "- {name: CalculateAntiAffinityPriority, weight: 2, argument: {serviceAntiAffinity: {label: rack}}}\n",
        &expect![[r#"
            default-scheduler
              preEnqueue: SchedulingGates
              queueSort: PrioritySort
              filter: NodeUnschedulable TaintToleration
              postFilter: DefaultPreemption
              score: ServiceAffinity=2
              bind: DefaultBinder
              ServiceAffinity {"antiAffinityLabelsPreference":["rack"]}
        "#]],
    );
}

#[test]
fn balance_without_a_priority_for_full_or_empty_nodes_is_warned_of() {
    let warnings = |others: &str| {
        let list = format!("- {{name: BalancedResourceAllocation, weight: 1}}\n{others}");
        lines(&policy(&with_priorities(&list)).warnings)
    };
    expect![[r#"
        policy.yaml:5: priorities[0].name: priority "BalancedResourceAllocation" is used without LeastRequestedPriority or MostRequestedPriority: alone it rates an almost full node as high as an empty one; add one of them
    "#]]
    .assert_eq(&warnings("- {name: EqualPriority, weight: 1}\n"));
    assert_eq!(warnings("- {name: LeastRequestedPriority, weight: 1}\n"), "");
    assert_eq!(warnings("- {name: MostRequestedPriority, weight: 1}\n"), "");
}
