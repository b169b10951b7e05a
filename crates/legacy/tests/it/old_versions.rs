//! Files of versions before v1.

use expect_test::{Expect, expect};
use plimsoll_config::Configuration;
use plimsoll_legacy::config::{Provider, ProviderError, V1ALPHA1, load};

use crate::catalogue::{catalogue, catalogue_of_all_releases, lines, shown};

/// The file of a version, with `text` after apiVersion and kind.
fn file(version: &str, text: &str) -> String {
    let group = if version.contains('/') { "" } else { "kubescheduler.config.k8s.io/" };
    format!("apiVersion: {group}{version}\nkind: KubeSchedulerConfiguration\n{text}")
}

#[track_caller]
pub(crate) fn old(version: &str, text: &str) -> Configuration {
    match load("old.yaml", &file(version, text), &catalogue_of_all_releases()) {
        Ok(configuration) => configuration,
        Err(errors) => panic!("{}", lines(&errors)),
    }
}

/// What the profiles of a file resolve to.
#[track_caller]
fn check(version: &str, text: &str, expected: &Expect) {
    expected.assert_eq(&shown(&old(version, text).profiles));
}

/// What one point of the first profile resolves to.
#[track_caller]
fn check_point(version: &str, point: &str, text: &str, expected: &Expect) {
    let shown = shown(&old(version, text).profiles);
    let start = format!("  {point}: ");
    let plugins = shown.lines().find_map(|line| line.strip_prefix(&start));
    expected.assert_eq(plugins.unwrap_or_default());
}

/// The args of a plugin of the first profile.
#[track_caller]
fn check_args(version: &str, plugin: &str, text: &str, expected: &Expect) {
    let configuration = old(version, text);
    let args = configuration.profiles[0].args.get(plugin);
    expected.assert_eq(&args.map(ToString::to_string).unwrap_or_default());
}

#[track_caller]
fn check_errors(version: &str, text: &str, expected: &Expect) {
    let errors = match load("old.yaml", &file(version, text), &catalogue_of_all_releases()) {
        Ok(_) => "no error\n".to_owned(),
        Err(errors) => lines(&errors),
    };
    expected.assert_eq(&errors);
}

/// Checks the notes about fields that v1 does not have, and the warnings.
#[track_caller]
fn check_notes(version: &str, text: &str, expected: &Expect) {
    let configuration = old(version, text);
    expected.assert_eq(&(lines(&configuration.origin.dropped) + &lines(&configuration.warnings)));
}

#[test]
fn each_version_has_its_own_default_profile() {
    for version in ["v1beta3", "v1beta2", "v1beta1", "v1alpha2"] {
        assert_eq!(old(version, "").origin.form.to_string(), version);
    }
    check(
        "v1beta3",
        "",
        &expect![[r#"
        default-scheduler
          preEnqueue: SchedulingGates DefaultPreemption
          queueSort: PrioritySort
          preFilter: NodeAffinity NodePorts NodeResourcesFit VolumeRestrictions NodeVolumeLimits VolumeBinding VolumeZone PodTopologySpread InterPodAffinity
          filter: NodeUnschedulable NodeName TaintToleration NodeAffinity NodePorts NodeResourcesFit VolumeRestrictions EBSLimits GCEPDLimits NodeVolumeLimits AzureDiskLimits VolumeBinding VolumeZone PodTopologySpread InterPodAffinity
          postFilter: DefaultPreemption
          preScore: TaintToleration NodeAffinity NodeResourcesFit VolumeBinding PodTopologySpread InterPodAffinity NodeResourcesBalancedAllocation
          score: TaintToleration=3 NodeAffinity=2 NodeResourcesFit=1 VolumeBinding=1 PodTopologySpread=2 InterPodAffinity=2 NodeResourcesBalancedAllocation=1 ImageLocality=1
          reserve: VolumeBinding
          preBind: VolumeBinding
          bind: DefaultBinder
    "#]],
    );
    check(
        "v1beta2",
        "",
        &expect![[r#"
        default-scheduler
          preEnqueue: SchedulingGates DefaultPreemption
          queueSort: PrioritySort
          preFilter: NodeResourcesFit NodePorts VolumeRestrictions PodTopologySpread InterPodAffinity VolumeBinding VolumeZone NodeAffinity NodeVolumeLimits
          filter: NodeUnschedulable NodeName TaintToleration NodeAffinity NodePorts NodeResourcesFit VolumeRestrictions EBSLimits GCEPDLimits NodeVolumeLimits AzureDiskLimits VolumeBinding VolumeZone PodTopologySpread InterPodAffinity
          postFilter: DefaultPreemption
          preScore: InterPodAffinity PodTopologySpread TaintToleration NodeAffinity NodeResourcesFit NodeResourcesBalancedAllocation
          score: NodeResourcesBalancedAllocation=1 ImageLocality=1 InterPodAffinity=1 NodeResourcesFit=1 NodeAffinity=1 PodTopologySpread=2 TaintToleration=1
          reserve: VolumeBinding
          preBind: VolumeBinding
          bind: DefaultBinder
    "#]],
    );
    check(
        "v1beta1",
        "",
        &expect![[r#"
        default-scheduler
          preEnqueue: SchedulingGates DefaultPreemption
          queueSort: PrioritySort
          preFilter: NodeResourcesFit NodePorts PodTopologySpread InterPodAffinity VolumeBinding VolumeRestrictions NodeVolumeLimits VolumeZone NodeAffinity
          filter: NodeUnschedulable NodeName TaintToleration NodeAffinity NodePorts NodeResourcesFit VolumeRestrictions EBSLimits GCEPDLimits NodeVolumeLimits AzureDiskLimits VolumeBinding VolumeZone PodTopologySpread InterPodAffinity
          postFilter: DefaultPreemption
          preScore: InterPodAffinity PodTopologySpread TaintToleration NodeAffinity NodeResourcesBalancedAllocation
          score: NodeResourcesBalancedAllocation=1 ImageLocality=1 InterPodAffinity=1 NodeResourcesLeastAllocated=1 NodeAffinity=1 NodePreferAvoidPods=10000 PodTopologySpread=2 TaintToleration=1
          reserve: VolumeBinding
          preBind: VolumeBinding
          bind: DefaultBinder
    "#]],
    );
    check(
        "v1alpha2",
        "",
        &expect![[r#"
        default-scheduler
          preEnqueue: SchedulingGates DefaultPreemption
          queueSort: PrioritySort
          preFilter: NodeResourcesFit NodePorts InterPodAffinity PodTopologySpread VolumeRestrictions NodeVolumeLimits VolumeBinding VolumeZone NodeAffinity
          filter: NodeUnschedulable NodeResourcesFit NodeName NodePorts NodeAffinity VolumeRestrictions TaintToleration EBSLimits GCEPDLimits NodeVolumeLimits AzureDiskLimits VolumeBinding VolumeZone InterPodAffinity PodTopologySpread
          postFilter: DefaultPreemption
          preScore: InterPodAffinity SelectorSpread TaintToleration PodTopologySpread NodeAffinity NodeResourcesBalancedAllocation
          score: NodeResourcesBalancedAllocation=1 ImageLocality=1 InterPodAffinity=1 NodeResourcesLeastAllocated=1 NodeAffinity=1 NodePreferAvoidPods=10000 SelectorSpread=1 TaintToleration=1 PodTopologySpread=1
          reserve: VolumeBinding
          preBind: VolumeBinding
          bind: DefaultBinder
    "#]],
    );
    for version in ["v1alpha1", "componentconfig/v1alpha1"] {
        let (first, second) = (old(version, ""), old("v1alpha2", ""));
        assert_eq!(first.origin.form, V1ALPHA1);
        assert_eq!(first.profiles, second.profiles);
    }
}

#[test]
fn plugins_that_this_build_does_not_have_are_named() {
    let text = file("v1beta1", "");
    let configuration = load("old.yaml", &text, &catalogue()).expect("it is valid");
    let names = configuration.profiles[0].unavailable.join(" ");
    expect!["VolumeBinding VolumeRestrictions GCEPDLimits NodeVolumeLimits AzureDiskLimits VolumeZone NodeResourcesLeastAllocated NodePreferAvoidPods"].assert_eq(&names);
}

#[test]
fn enabling_a_default_plugin_again_doubles_it_in_v1beta1() {
    let text = "
profiles:
- plugins:
    score:
      enabled: [{name: ImageLocality, weight: 4}, {name: SelectorSpread}]
";
    check_errors(
        "v1beta1",
        text,
        &expect![[r#"
            old.yaml:7: profiles[0].plugins.score.enabled[0].name: plugin "ImageLocality" already registered as "ScorePlugin": it is enabled by default, so disable it here, too
        "#]],
    );
    check_errors(
        "v1alpha2",
        text,
        &expect![[r#"
            old.yaml:7: profiles[0].plugins.score.enabled[0].name: plugin "ImageLocality" already registered as "ScorePlugin": it is enabled by default, so disable it here, too
            old.yaml:7: profiles[0].plugins.score.enabled[1].name: plugin "SelectorSpread" already registered as "ScorePlugin": it is enabled by default, so disable it here, too
        "#]],
    );
    check_point(
        "v1beta2",
        "score",
        &text.replace(", {name: SelectorSpread}", ""),
        &expect![
            "NodeResourcesBalancedAllocation=1 ImageLocality=4 InterPodAffinity=1 NodeResourcesFit=1 NodeAffinity=1 PodTopologySpread=2 TaintToleration=1"
        ],
    );
}

#[test]
fn a_plugin_that_is_disabled_and_enabled_comes_last() {
    let text = "
profiles:
- plugins:
    score:
      disabled: [{name: ImageLocality}, {name: TaintToleration}]
      enabled: [{name: ImageLocality, weight: 4}]
";
    check_point(
        "v1beta1",
        "score",
        text,
        &expect![
            "NodeResourcesBalancedAllocation=1 InterPodAffinity=1 NodeResourcesLeastAllocated=1 NodeAffinity=1 NodePreferAvoidPods=10000 PodTopologySpread=2 ImageLocality=4"
        ],
    );
    check_point(
        "v1beta2",
        "score",
        text,
        &expect![
            "NodeResourcesBalancedAllocation=1 InterPodAffinity=1 NodeResourcesFit=1 NodeAffinity=1 PodTopologySpread=2 ImageLocality=4"
        ],
    );
}

#[test]
fn a_star_disables_all_defaults_of_one_point() {
    let text = "
profiles:
- plugins:
    filter: {disabled: [{name: '*'}], enabled: [{name: NodeLabel}, {name: VolumeRestrictions}]}
    score: {disabled: [{name: '*'}]}
    bind: {disabled: []}
";
    check(
        "v1beta1",
        text,
        &expect![[r#"
        default-scheduler
          preEnqueue: SchedulingGates DefaultPreemption
          queueSort: PrioritySort
          preFilter: NodeResourcesFit NodePorts PodTopologySpread InterPodAffinity VolumeBinding VolumeRestrictions
          filter: NodeLabel VolumeRestrictions
          postFilter: DefaultPreemption
          preScore: InterPodAffinity PodTopologySpread TaintToleration
          reserve: VolumeBinding
          preBind: VolumeBinding
          bind: DefaultBinder
    "#]],
    );
}

#[test]
fn plugins_are_enabled_where_they_prepare_today() {
    let text = "
profiles:
- plugins:
    preFilter: {disabled: [{name: '*'}]}
    filter: {disabled: [{name: '*'}], enabled: [{name: VolumeRestrictions}, {name: NodeName}]}
    preScore: {disabled: [{name: '*'}]}
    score: {disabled: [{name: '*'}], enabled: [{name: NodeAffinity}, {name: TaintToleration}]}
    postFilter: {disabled: [{name: '*'}]}
";
    check(
        "v1beta1",
        text,
        &expect![[r#"
        default-scheduler
          preEnqueue: SchedulingGates
          queueSort: PrioritySort
          preFilter: VolumeRestrictions
          filter: VolumeRestrictions NodeName
          preScore: NodeAffinity
          score: NodeAffinity=1 TaintToleration=1
          reserve: VolumeBinding
          preBind: VolumeBinding
          bind: DefaultBinder
    "#]],
    );
    check(
        "v1beta2",
        text,
        &expect![[r#"
        default-scheduler
          preEnqueue: SchedulingGates
          queueSort: PrioritySort
          filter: VolumeRestrictions NodeName
          score: NodeAffinity=1 TaintToleration=1
          reserve: VolumeBinding
          preBind: VolumeBinding
          bind: DefaultBinder
    "#]],
    );
}

#[test]
fn scheduling_gates_hold_in_every_version() {
    let text = "
profiles:
- plugins:
    multiPoint:
      disabled: [{name: '*'}]
      enabled: [{name: PrioritySort}, {name: DefaultBinder}]
";
    check(
        "v1beta3",
        text,
        &expect![[r#"
        default-scheduler
          preEnqueue: SchedulingGates
          queueSort: PrioritySort
          bind: DefaultBinder
    "#]],
    );
}

#[test]
fn weights_of_v1beta3_merge_as_in_v1() {
    let text = "
profiles:
- plugins:
    multiPoint:
      enabled: [{name: TaintToleration, weight: 5}]
      disabled: [{name: EBSLimits}]
    score:
      enabled: [{name: ImageLocality, weight: 10}]
";
    check_point(
        "v1beta3",
        "score",
        text,
        &expect![
            "ImageLocality=10 TaintToleration=5 NodeAffinity=2 NodeResourcesFit=1 VolumeBinding=1 PodTopologySpread=2 InterPodAffinity=2 NodeResourcesBalancedAllocation=1"
        ],
    );
    check_point(
        "v1beta3",
        "filter",
        text,
        &expect![
            "NodeUnschedulable NodeName TaintToleration NodeAffinity NodePorts NodeResourcesFit VolumeRestrictions GCEPDLimits NodeVolumeLimits AzureDiskLimits VolumeBinding VolumeZone PodTopologySpread InterPodAffinity"
        ],
    );
}

#[test]
fn later_versions_refuse_removed_plugins() {
    let text = "
profiles:
- plugins:
    score:
      enabled: [{name: NodeResourcesLeastAllocated}]
    filter:
      enabled: [{name: NodeLabel}]
  pluginConfig:
  - name: RequestedToCapacityRatio
    args: {shape: []}
";
    check_errors(
        "v1beta2",
        text,
        &expect![[r#"
            old.yaml:7: profiles[0].plugins.score.enabled[0]: Invalid value: "NodeResourcesLeastAllocated": was invalid in version "kubescheduler.config.k8s.io/v1beta2" (KubeSchedulerConfiguration is version "kubescheduler.config.k8s.io/v1beta2"): use `scoringStrategy` in the args of NodeResourcesFit
            old.yaml:9: profiles[0].plugins.filter.enabled[0]: Invalid value: "NodeLabel": was invalid in version "kubescheduler.config.k8s.io/v1beta2" (KubeSchedulerConfiguration is version "kubescheduler.config.k8s.io/v1beta2"): use `addedAffinity` in the args of NodeAffinity
            old.yaml:11: profiles[0].pluginConfig[0]: Invalid value: "RequestedToCapacityRatio": was invalid in version "kubescheduler.config.k8s.io/v1beta2" (KubeSchedulerConfiguration is version "kubescheduler.config.k8s.io/v1beta2"): use `scoringStrategy` in the args of NodeResourcesFit
        "#]],
    );
    check_errors(
        "v1beta3",
        text,
        &expect![[r#"
            old.yaml:7: profiles[0].plugins.score.enabled[0]: Invalid value: "NodeResourcesLeastAllocated": was invalid in version "kubescheduler.config.k8s.io/v1beta2" (KubeSchedulerConfiguration is version "kubescheduler.config.k8s.io/v1beta3"): use `scoringStrategy` in the args of NodeResourcesFit
            old.yaml:9: profiles[0].plugins.filter.enabled[0]: Invalid value: "NodeLabel": was invalid in version "kubescheduler.config.k8s.io/v1beta2" (KubeSchedulerConfiguration is version "kubescheduler.config.k8s.io/v1beta3"): use `addedAffinity` in the args of NodeAffinity
            old.yaml:11: profiles[0].pluginConfig[0]: Invalid value: "RequestedToCapacityRatio": was invalid in version "kubescheduler.config.k8s.io/v1beta2" (KubeSchedulerConfiguration is version "kubescheduler.config.k8s.io/v1beta3"): use `scoringStrategy` in the args of NodeResourcesFit
        "#]],
    );
}

#[test]
fn fields_that_came_later_are_refused() {
    let text = "
delayCacheUntilActive: true
parallelism: 3
profiles:
- percentageOfNodesToScore: 7
  plugins:
    multiPoint: {}
    preEnqueue: {}
    placementScore: {}
    unreserve: {}
";
    check_errors(
        "v1beta3",
        text,
        &expect![[r#"
        old.yaml:4: delayCacheUntilActive: unknown field `delayCacheUntilActive`: version v1beta3 does not have it
        old.yaml:7: profiles[0].percentageOfNodesToScore: unknown field `percentageOfNodesToScore`: version v1beta3 does not have it
        old.yaml:11: profiles[0].plugins.placementScore: unknown field `placementScore`: version v1beta3 does not have it
        old.yaml:12: profiles[0].plugins.unreserve: unknown field `unreserve`, expected one of `preEnqueue`, `queueSort`, `preFilter`, `filter`, `postFilter`, `preScore`, `score`, `reserve`, `permit`, `preBind`, `bind`, `postBind`, `multiPoint`, `placementGenerate`, `placementScore`, `podGroupPostFilter`
    "#]],
    );
    check_errors(
        "v1beta2",
        text,
        &expect![[r#"
        old.yaml:4: delayCacheUntilActive: unknown field `delayCacheUntilActive`: version v1beta2 does not have it
        old.yaml:7: profiles[0].percentageOfNodesToScore: unknown field `percentageOfNodesToScore`: version v1beta2 does not have it
        old.yaml:9: profiles[0].plugins.multiPoint: unknown field `multiPoint`: version v1beta2 does not have it
        old.yaml:11: profiles[0].plugins.placementScore: unknown field `placementScore`: version v1beta2 does not have it
        old.yaml:12: profiles[0].plugins.unreserve: unknown field `unreserve`, expected one of `preEnqueue`, `queueSort`, `preFilter`, `filter`, `postFilter`, `preScore`, `score`, `reserve`, `permit`, `preBind`, `bind`, `postBind`, `multiPoint`, `placementGenerate`, `placementScore`, `podGroupPostFilter`
    "#]],
    );
    check_errors(
        "v1beta1",
        text,
        &expect![[r#"
        old.yaml:4: delayCacheUntilActive: unknown field `delayCacheUntilActive`: version v1beta1 does not have it
        old.yaml:7: profiles[0].percentageOfNodesToScore: unknown field `percentageOfNodesToScore`: version v1beta1 does not have it
        old.yaml:9: profiles[0].plugins.multiPoint: unknown field `multiPoint`: version v1beta1 does not have it
        old.yaml:10: profiles[0].plugins.preEnqueue: unknown field `preEnqueue`: version v1beta1 does not have it
        old.yaml:11: profiles[0].plugins.placementScore: unknown field `placementScore`: version v1beta1 does not have it
        old.yaml:12: profiles[0].plugins.unreserve: unknown field `unreserve`, expected one of `preEnqueue`, `queueSort`, `preFilter`, `filter`, `postFilter`, `preScore`, `score`, `reserve`, `permit`, `preBind`, `bind`, `postBind`, `multiPoint`, `placementGenerate`, `placementScore`, `podGroupPostFilter`
    "#]],
    );
    check_errors(
        "v1alpha2",
        text,
        &expect![[r#"
        old.yaml:4: delayCacheUntilActive: unknown field `delayCacheUntilActive`: version v1alpha2 does not have it
        old.yaml:5: parallelism: unknown field `parallelism`: version v1alpha2 does not have it
        old.yaml:7: profiles[0].percentageOfNodesToScore: unknown field `percentageOfNodesToScore`: version v1alpha2 does not have it
        old.yaml:9: profiles[0].plugins.multiPoint: unknown field `multiPoint`: version v1alpha2 does not have it
        old.yaml:10: profiles[0].plugins.preEnqueue: unknown field `preEnqueue`: version v1alpha2 does not have it
        old.yaml:11: profiles[0].plugins.placementScore: unknown field `placementScore`: version v1alpha2 does not have it
    "#]],
    );
    let text = "
profiles: []
extenders: []
plugins: {preScore: {}}
";
    check_errors(
        "v1alpha1",
        text,
        &expect![[r#"
        old.yaml:4: profiles: unknown field `profiles`: version v1alpha1 does not have it
        old.yaml:5: extenders: unknown field `extenders`: version v1alpha1 does not have it
        old.yaml:6: plugins.preScore: unknown field `preScore`: version v1alpha1 does not have it
    "#]],
    );
}

#[test]
fn args_are_of_the_version_of_the_file() {
    let args = |version: &str| {
        format!(
            "profiles:\n- pluginConfig:\n  - name: InterPodAffinity\n    args:\n      \
             apiVersion: kubescheduler.config.k8s.io/{version}\n      kind: InterPodAffinityArgs\n      \
             hardPodAffinityWeight: 7\n"
        )
    };
    check_args(
        "v1beta1",
        "InterPodAffinity",
        &args("v1beta1"),
        &expect![[r#"{"hardPodAffinityWeight":7,"ignorePreferredTermsOfExistingPods":false}"#]],
    );
    check_errors(
        "v1beta1",
        &args("v1beta2"),
        &expect![[r#"
        old.yaml:7: profiles[0].pluginConfig[0].args.apiVersion: decoding args for plugin InterPodAffinity: no kind "InterPodAffinityArgs" is registered for version "kubescheduler.config.k8s.io/v1beta2": write `apiVersion: kubescheduler.config.k8s.io/v1beta1` and `kind: InterPodAffinityArgs`, or leave both out
    "#]],
    );
    let text = "
profiles:
- pluginConfig:
  - name: NodeLabel
    args: {kind: ServiceAffinityArgs}
  - name: NodeResourcesFit
    args: {kind: NodeLabelArgs}
  - name: ServiceAffinity
    args: {kind: DynamicResourcesArgs}
";
    check_errors(
        "v1beta1",
        text,
        &expect![[r#"
        old.yaml:7: profiles[0].pluginConfig[0].args.kind: args for plugin NodeLabel were not of type NodeLabelArgs.kubescheduler.config.k8s.io, got ServiceAffinityArgs.kubescheduler.config.k8s.io
        old.yaml:9: profiles[0].pluginConfig[1].args.kind: args for plugin NodeResourcesFit were not of type NodeResourcesFitArgs.kubescheduler.config.k8s.io, got NodeLabelArgs.kubescheduler.config.k8s.io
        old.yaml:11: profiles[0].pluginConfig[2].args.kind: decoding args for plugin ServiceAffinity: no kind "DynamicResourcesArgs" is registered for version "kubescheduler.config.k8s.io/v1beta1": write `apiVersion: kubescheduler.config.k8s.io/v1beta1` and `kind: ServiceAffinityArgs`, or leave both out
    "#]],
    );
}

#[test]
fn args_have_the_fields_of_their_time() {
    let text = "
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args: {ignoredResourceGroups: [example.com], scoringStrategy: {type: MostAllocated}}
  - name: PodTopologySpread
    args: {defaultingType: System}
  - name: InterPodAffinity
    args: {ignorePreferredTermsOfExistingPods: true}
";
    check_errors(
        "v1alpha2",
        text,
        &expect![[r#"
            old.yaml:7: profiles[0].pluginConfig[0].args.ignoredResourceGroups: unknown field `ignoredResourceGroups`: version v1alpha2 does not have it
            old.yaml:7: profiles[0].pluginConfig[0].args.scoringStrategy: unknown field `scoringStrategy`: version v1alpha2 does not have it
            old.yaml:9: profiles[0].pluginConfig[1].args.defaultingType: unknown field `defaultingType`: version v1alpha2 does not have it
            old.yaml:11: profiles[0].pluginConfig[2].args.ignorePreferredTermsOfExistingPods: unknown field `ignorePreferredTermsOfExistingPods`: version v1alpha2 does not have it
        "#]],
    );
    check_errors(
        "v1beta2",
        text,
        &expect![[r#"
            old.yaml:11: profiles[0].pluginConfig[2].args.ignorePreferredTermsOfExistingPods: unknown field `ignorePreferredTermsOfExistingPods`: version v1beta2 does not have it
        "#]],
    );
    check_args(
        "v1beta3",
        "InterPodAffinity",
        text,
        &expect![[r#"{"hardPodAffinityWeight":1,"ignorePreferredTermsOfExistingPods":true}"#]],
    );
}

#[test]
fn args_of_dropped_plugins_are_kept() {
    let text = "
profiles:
- plugins:
    filter: {enabled: [{name: NodeLabel}]}
  pluginConfig:
  - name: NodeLabel
    args:
      apiVersion: kubescheduler.config.k8s.io/v1beta1
      kind: NodeLabelArgs
      presentLabels: [zone]
";
    check_args("v1beta1", "NodeLabel", text, &expect![[r#"{"presentLabels":["zone"]}"#]]);
}

#[test]
fn spread_constraints_default_as_in_their_release() {
    let none = "";
    let some = "
profiles:
- pluginConfig:
  - name: PodTopologySpread
    args:
      defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]
";
    check_args("v1alpha2", "PodTopologySpread", none, &expect![[r#"{"defaultingType":"List"}"#]]);
    check_args("v1beta1", "PodTopologySpread", none, &expect![[r#"{"defaultingType":"System"}"#]]);
    check_args(
        "v1beta1",
        "PodTopologySpread",
        some,
        &expect![[
            r#"{"defaultConstraints":[{"maxSkew":1,"topologyKey":"zone","whenUnsatisfiable":"ScheduleAnyway"}],"defaultingType":"List"}"#
        ]],
    );
    check_errors(
        "v1beta2",
        some,
        &expect![[r#"
        old.yaml:7: profiles[0].pluginConfig[0].args.defaultingType: Invalid value: "System": when .defaultConstraints are not empty
    "#]],
    );
}

#[test]
fn args_that_a_version_does_not_have_are_warned_of() {
    let text = "
profiles:
- pluginConfig:
  - name: NodeResourcesBalancedAllocation
    args: {resources: [{name: cpu}]}
";
    check_notes(
        "v1beta1",
        text,
        &expect![[r#"
        old.yaml:7: profiles[0].pluginConfig[0].args: version kubescheduler.config.k8s.io/v1beta1 has no args for plugin "NodeResourcesBalancedAllocation": they have no effect
    "#]],
    );
    check_args(
        "v1beta1",
        "NodeResourcesBalancedAllocation",
        text,
        &expect![[r#"{"resources":[{"name":"cpu","weight":1},{"name":"memory","weight":1}]}"#]],
    );
    check_args(
        "v1beta2",
        "NodeResourcesBalancedAllocation",
        text,
        &expect![[r#"{"resources":[{"name":"cpu","weight":1}]}"#]],
    );
}

#[test]
fn v1alpha2_reads_shapes_and_resources_in_any_case() {
    let text = "
profiles:
- plugins:
    score: {enabled: [{name: RequestedToCapacityRatio}]}
  pluginConfig:
  - name: RequestedToCapacityRatio
    args:
      shape: [{Utilization: 0, SCORE: 0}, {utilization: 100, Score: 10}]
      resources: [{Name: cpu, weight: 2}]
";
    check_args(
        "v1alpha2",
        "RequestedToCapacityRatio",
        text,
        &expect![[
            r#"{"resources":[{"name":"cpu","weight":2}],"shape":[{"score":0,"utilization":0},{"score":10,"utilization":100}]}"#
        ]],
    );
}

#[test]
fn fit_cannot_score_together_with_the_plugins_it_replaced() {
    let text = "
profiles:
- plugins:
    score: {enabled: [{name: NodeResourcesFit, weight: 2}]}
";
    check_errors(
        "v1beta1",
        text,
        &expect![[r#"
        old.yaml:6: profiles[0].plugins.score.enabled[0]: Invalid value: "NodeResourcesFit": was conflict with ["NodeResourcesLeastAllocated"] in version "kubescheduler.config.k8s.io/v1beta1" (KubeSchedulerConfiguration is version "kubescheduler.config.k8s.io/v1beta1"): disable those at score
    "#]],
    );
    let text =
        text.replace("{enabled", "{disabled: [{name: NodeResourcesLeastAllocated}], enabled");
    check_point(
        "v1beta1",
        "score",
        &text,
        &expect![
            "NodeResourcesBalancedAllocation=1 ImageLocality=1 InterPodAffinity=1 NodeAffinity=1 NodePreferAvoidPods=10000 PodTopologySpread=2 TaintToleration=1 NodeResourcesFit=2"
        ],
    );
}

#[test]
fn addresses_are_dropped() {
    let text = "healthzBindAddress: 0.0.0.0:10251\nmetricsBindAddress: 1.2.3.4\n";
    check_notes(
        "v1beta2",
        text,
        &expect![[r#"
        old.yaml:3: healthzBindAddress: is dropped: since 1.23 health and metrics are served only on the secure port, which the flags --bind-address and --secure-port set
        old.yaml:4: metricsBindAddress: is dropped: since 1.23 health and metrics are served only on the secure port, which the flags --bind-address and --secure-port set
    "#]],
    );
    check_errors(
        "v1beta3",
        text,
        &expect![[r#"
        old.yaml:3: healthzBindAddress: unknown field `healthzBindAddress`, expected one of `apiVersion`, `kind`, `parallelism`, `leaderElection`, `clientConnection`, `enableProfiling`, `enableContentionProfiling`, `percentageOfNodesToScore`, `podInitialBackoffSeconds`, `podMaxBackoffSeconds`, `profiles`, `extenders`, `delayCacheUntilActive`
        old.yaml:4: metricsBindAddress: unknown field `metricsBindAddress`, expected one of `apiVersion`, `kind`, `parallelism`, `leaderElection`, `clientConnection`, `enableProfiling`, `enableContentionProfiling`, `percentageOfNodesToScore`, `podInitialBackoffSeconds`, `podMaxBackoffSeconds`, `profiles`, `extenders`, `delayCacheUntilActive`
    "#]],
    );
    check_errors(
        "v1beta1",
        "healthzBindAddress: 1\n",
        &expect![[r#"
        old.yaml:3: healthzBindAddress: invalid type: integer `1`, expected a string
    "#]],
    );
}

#[test]
fn old_locks_become_leases() {
    let text = "leaderElection: {resourceLock: endpointsleases}\n";
    check_notes(
        "v1beta1",
        text,
        &expect![[r#"
        old.yaml:3: leaderElection.resourceLock: is "leases" in v1, which no longer has "endpointsleases": replicas with different locks do not see each other, so stop the old ones before you start the new
    "#]],
    );
    check_errors(
        "v1beta1",
        "leaderElection: {resourceLock: files}\n",
        &expect![[r#"
        old.yaml:3: leaderElection.resourceLock: Invalid value: "files": resourceLock value must be "leases"
    "#]],
    );
}

#[test]
fn v1alpha2_has_settings_that_became_args() {
    let text = "
disablePreemption: true
bindTimeoutSeconds: 30
profiles:
- schedulerName: a
  plugins: {unreserve: {enabled: [{name: VolumeBinding}]}}
- schedulerName: b
  pluginConfig: [{name: VolumeBinding, args: {bindTimeoutSeconds: 7}}]
extenders:
- {urlPrefix: 'http://a', enableHttps: true, httpTimeout: 100000000}
";
    check_notes(
        "v1alpha2",
        text,
        &expect![[r#"
            old.yaml:4: disablePreemption: is expressed in v1 by disabling all plugins at postFilter
            old.yaml:5: bindTimeoutSeconds: is bindTimeoutSeconds in the args of VolumeBinding in v1
            old.yaml:8: profiles[0].plugins.unreserve: is dropped: since 1.20 a plugin at reserve also releases what it reserved
        "#]],
    );
    check_point("v1alpha2", "postFilter", text, &expect![[r#""#]]);
    check_args(
        "v1alpha2",
        "VolumeBinding",
        text,
        &expect![[
            r#"{"bindTimeoutSeconds":30,"shape":[{"score":10,"utilization":0},{"score":0,"utilization":100}]}"#
        ]],
    );
    let configuration = old("v1alpha2", text);
    assert_eq!(configuration.profiles[1].args["VolumeBinding"]["bindTimeoutSeconds"], 7);
    let extender = &configuration.extenders[0];
    assert!(extender.enable_https && extender.http_timeout.to_string() == "100ms");
    check_errors(
        "v1alpha2",
        "bindTimeoutSeconds: -1\n",
        &expect![[r#"
        old.yaml:3: bindTimeoutSeconds: Invalid value: -1: invalid BindTimeoutSeconds, should not be a negative value
    "#]],
    );
}

#[test]
fn v1alpha1_is_one_profile() {
    let text = "
schedulerName: mine
algorithmSource: {provider: ClusterAutoscalerProvider}
hardPodAffinitySymmetricWeight: 5
failureDomains: a,b
disablePreemption: false
percentageOfNodesToScore: 40
leaderElection: {lockObjectName: l, lockObjectNamespace: ns, resourceNamespace: ns}
plugins:
  postFilter: {disabled: [{name: DefaultPodTopologySpread}]}
  score: {disabled: [{name: DefaultPodTopologySpread}]}
pluginConfig:
- name: NodeResourcesFit
  args: {ignoredResources: [example.com/a]}
";
    check(
        "v1alpha1",
        text,
        &expect![[r#"
        mine
          preEnqueue: SchedulingGates DefaultPreemption
          queueSort: PrioritySort
          preFilter: NodeResourcesFit NodePorts InterPodAffinity PodTopologySpread VolumeRestrictions NodeVolumeLimits VolumeBinding VolumeZone NodeAffinity
          filter: NodeUnschedulable NodeResourcesFit NodeName NodePorts NodeAffinity VolumeRestrictions TaintToleration EBSLimits GCEPDLimits NodeVolumeLimits AzureDiskLimits VolumeBinding VolumeZone InterPodAffinity PodTopologySpread
          postFilter: DefaultPreemption
          preScore: InterPodAffinity TaintToleration PodTopologySpread NodeAffinity NodeResourcesBalancedAllocation
          score: NodeResourcesBalancedAllocation=1 ImageLocality=1 InterPodAffinity=1 NodeResourcesMostAllocated=1 NodeAffinity=1 NodePreferAvoidPods=10000 TaintToleration=1 PodTopologySpread=1
          reserve: VolumeBinding
          preBind: VolumeBinding
          bind: DefaultBinder
    "#]],
    );
    check_notes(
        "v1alpha1",
        text,
        &expect![[r#"
        old.yaml:5: algorithmSource: is dropped: v1 lists the plugins of the provider
        old.yaml:6: hardPodAffinitySymmetricWeight: is hardPodAffinityWeight in the args of InterPodAffinity in v1
        old.yaml:7: failureDomains: is dropped: it has had no effect since 1.8
        old.yaml:8: disablePreemption: is dropped: v1 does the same by default
        old.yaml:10: leaderElection.lockObjectNamespace: is called resourceNamespace in v1
        old.yaml:10: leaderElection.lockObjectName: is called resourceName in v1
        old.yaml:11: plugins: plugin DefaultPodTopologySpread is called SelectorSpread since 1.19
    "#]],
    );
    check_args(
        "v1alpha1",
        "InterPodAffinity",
        text,
        &expect![[r#"{"hardPodAffinityWeight":5,"ignorePreferredTermsOfExistingPods":false}"#]],
    );
    check_args(
        "v1alpha1",
        "NodeResourcesFit",
        text,
        &expect![[
            r#"{"ignoredResources":["example.com/a"],"rejectOvercommittedNodes":true,"scoringStrategy":{"resources":[{"name":"cpu","weight":1},{"name":"memory","weight":1}],"type":"LeastAllocated"}}"#
        ]],
    );
    let configuration = old("v1alpha1", text);
    assert_eq!(configuration.profiles[0].percentage_of_nodes_to_score, Some(40));
    assert_eq!(configuration.effective.leader_election.resource_name, "l");
}

#[test]
fn errors_in_v1alpha1_name_its_own_fields() {
    let text = "
schedulerName: 5
hardPodAffinitySymmetricWeight: 101
bindTimeoutSeconds: later
leaderElection: {lockObjectName: l, resourceName: m}
plugins:
  postFilter: {enabled: [{name: Nothing}]}
  score: {enabled: [{name: NodeName}], disable: []}
pluginConfig:
- name: InterPodAffinity
  args: {hardPodAffinityWeight: 200}
";
    check_errors(
        "v1alpha1",
        text,
        &expect![[r#"
        old.yaml:4: schedulerName: invalid type: integer `5`, expected a string
        old.yaml:5: hardPodAffinitySymmetricWeight: Invalid value: 101: not in valid range [0-100]
        old.yaml:6: bindTimeoutSeconds: invalid type: string "later", expected i64
        old.yaml:7: leaderElection.lockObjectName: ResourceName and LockObjectName are both set and do not match, ResourceName: m, LockObjectName: l
        old.yaml:9: plugins.postFilter.enabled[0].name: PreScorePlugin "Nothing" does not exist
        old.yaml:10: plugins.score.disable: unknown field `disable`, expected `enabled` or `disabled`
        old.yaml:10: plugins.score.enabled[0].name: plugin "NodeName" does not extend ScorePlugin plugin
        old.yaml:13: pluginConfig[0].args.hardPodAffinityWeight: Invalid value: 200: not in valid range [0, 100]
    "#]],
    );
}

#[test]
fn a_policy_in_another_file_must_be_given_itself() {
    let source = |text: &str| format!("algorithmSource:\n  {text}\n");
    check_errors(
        "v1alpha1",
        &source("policy: {file: {path: /etc/policy.json}}"),
        &expect![[r#"
            old.yaml:4: algorithmSource.policy.file.path: the Policy is in another file: give "/etc/policy.json" itself as the configuration
        "#]],
    );
    check_errors(
        "v1alpha1",
        &source("policy: {configMap: {name: p}}"),
        &expect![[r#"
        old.yaml:4: algorithmSource.policy.configMap.name: the Policy is in ConfigMap kube-system/p: save its key policy.cfg to a file, and give that file as the configuration
    "#]],
    );
    check_errors(
        "v1alpha1",
        &source("policy: {}"),
        &expect![[r#"
        old.yaml:4: algorithmSource.policy: names neither a file nor a configMap: give the Policy itself as the configuration, or name a provider
    "#]],
    );
    check_errors(
        "v1alpha1",
        &source("provider: MyProvider"),
        &expect![[r#"
        old.yaml:4: algorithmSource.provider: algorithm provider "MyProvider" is not registered: write DefaultProvider or ClusterAutoscalerProvider
    "#]],
    );
    check_errors(
        "v1alpha1",
        &source("providers: a"),
        &expect![[r#"
        old.yaml:4: algorithmSource.providers: unknown field `providers`, expected `policy` or `provider`
    "#]],
    );
}

#[test]
fn providers_are_profiles_with_a_name() {
    let catalogue = catalogue_of_all_releases();
    let provider = |name: &str| -> Result<Configuration, ProviderError> {
        Ok(name.parse::<Provider>()?.configuration(&catalogue))
    };
    let default = provider("DefaultProvider").expect("there is one");
    assert_eq!(default.profiles, old("v1beta1", "").profiles);
    let scores = |configuration: &Configuration| {
        let shown = shown(&configuration.profiles);
        shown.lines().find(|line| line.starts_with("  score")).unwrap_or_default().to_owned()
    };
    let packing = provider("ClusterAutoscalerProvider").expect("there is one");
    expect!["  score: NodeResourcesBalancedAllocation=1 ImageLocality=1 InterPodAffinity=1 NodeResourcesMostAllocated=1 NodeAffinity=1 NodePreferAvoidPods=10000 PodTopologySpread=2 TaintToleration=1"].assert_eq(&scores(&packing));
    assert_eq!(packing.origin.form.to_string(), "ClusterAutoscalerProvider");
    let error = provider("Autoscaler").expect_err("there is none");
    expect![[r#"algorithm provider "Autoscaler" is not registered: write DefaultProvider or ClusterAutoscalerProvider"#]].assert_eq(&error.to_string());
}
