//! Args of plugins: their defaults, and every rule that they can break.

use expect_test::{Expect, expect};
use plimsoll_config::GivenGates;
use plimsoll_framework::{FeatureGates, Release};

use crate::catalogue::{catalogue, configuration, errors_with, lines};

/// A configuration in which the plugin `name` has these args, in flow notation.
fn with_args(name: &str, args: &str) -> String {
    format!("profiles:\n- pluginConfig:\n  - name: {name}\n    args: {args}\n")
}

#[track_caller]
fn check(name: &str, args: &str, expected: &Expect) {
    check_with(FeatureGates::default(), name, args, expected);
}

#[track_caller]
fn check_with(gates: FeatureGates, name: &str, args: &str, expected: &Expect) {
    let errors = errors_with(&with_args(name, args), &catalogue().with_gates(gates));
    expected.assert_eq(&errors.replace("test.yaml:6: profiles[0].pluginConfig[0].args", "args"));
}

#[track_caller]
fn check_resolved(name: &str, args: &str, expected: &Expect) {
    let configuration = configuration(&with_args(name, args));
    let args = &configuration.profiles[0].args;
    expected.assert_eq(&args.get(name).map(ToString::to_string).unwrap_or_default());
}

#[test]
fn enabled_plugins_have_their_default_args() {
    let configuration = configuration("");
    let args = &configuration.profiles[0].args;
    let shown: Vec<_> = args.iter().map(|(name, args)| format!("{name} {args}")).collect();
    expect![[r#"
        DefaultPreemption {"minCandidateNodesAbsolute":100,"minCandidateNodesPercentage":10}
        DynamicResources {"bindingTimeout":"10m0s","filterTimeout":"10s"}
        InterPodAffinity {"hardPodAffinityWeight":1,"ignorePreferredTermsOfExistingPods":false}
        NodeAffinity {}
        NodeResourcesBalancedAllocation {"resources":[{"name":"cpu","weight":1},{"name":"memory","weight":1}]}
        NodeResourcesFit {"scoringStrategy":{"resources":[{"name":"cpu","weight":1},{"name":"memory","weight":1}],"type":"LeastAllocated"}}
        PodTopologySpread {"defaultingType":"System"}
        VolumeBinding {"bindTimeoutSeconds":600,"shape":[{"score":10,"utilization":0},{"score":0,"utilization":100}]}
    "#]].assert_eq(&lines(&shown));
}

#[test]
fn a_disabled_plugin_has_no_args() {
    let text = "
profiles:
- plugins:
    multiPoint: {disabled: [{name: InterPodAffinity}]}
  pluginConfig:
  - {name: InterPodAffinity, args: {hardPodAffinityWeight: 3}}
";
    assert_eq!(configuration(text).profiles[0].args.get("InterPodAffinity"), None);
}

#[test]
fn args_are_completed_with_defaults() {
    check_resolved(
        "InterPodAffinity",
        "{hardPodAffinityWeight: 0}",
        &expect![[r#"{"hardPodAffinityWeight":0,"ignorePreferredTermsOfExistingPods":false}"#]],
    );
    check_resolved(
        "DefaultPreemption",
        "{minCandidateNodesAbsolute: 5}",
        &expect![[r#"{"minCandidateNodesAbsolute":5,"minCandidateNodesPercentage":10}"#]],
    );
    check_resolved(
        "NodeResourcesFit",
        "{ignoredResources: [example.com/a]}",
        &expect![[
            r#"{"ignoredResources":["example.com/a"],"scoringStrategy":{"resources":[{"name":"cpu","weight":1},{"name":"memory","weight":1}],"type":"LeastAllocated"}}"#
        ]],
    );
    check_resolved(
        "NodeResourcesFit",
        "{scoringStrategy: {type: MostAllocated}}",
        &expect![[
            r#"{"scoringStrategy":{"resources":[{"name":"cpu","weight":1},{"name":"memory","weight":1}],"type":"MostAllocated"}}"#
        ]],
    );
    check_resolved(
        "NodeResourcesBalancedAllocation",
        "{resources: [{name: cpu}, {name: nvidia.com/gpu, weight: 0}]}",
        &expect![[
            r#"{"resources":[{"name":"cpu","weight":1},{"name":"nvidia.com/gpu","weight":1}]}"#
        ]],
    );
    check_resolved(
        "DynamicResources",
        "{filterTimeout: 0s}",
        &expect![[r#"{"bindingTimeout":"10m0s","filterTimeout":"0s"}"#]],
    );
    check_resolved(
        "PodTopologySpread",
        "{defaultingType: List, defaultConstraints: \
         [{maxSkew: 2, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]}",
        &expect![[
            r#"{"defaultConstraints":[{"maxSkew":2,"topologyKey":"zone","whenUnsatisfiable":"ScheduleAnyway"}],"defaultingType":"List"}"#
        ]],
    );
    check_resolved(
        "NodeAffinity",
        "{addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: \
         {nodeSelectorTerms: [{matchExpressions: [{key: disk, operator: In, values: [ssd]}]}]}}}",
        &expect![[
            r#"{"addedAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"disk","operator":"In","values":["ssd"]}]}]}}}"#
        ]],
    );
}

#[test]
fn a_plugin_from_outside_gets_its_args_unchanged() {
    let text = "
profiles:
- plugins:
    multiPoint: {enabled: [{name: ExampleScore}]}
  pluginConfig:
  - {name: ExampleScore, args: {apiVersion: example.com/v1, kind: Any, depth: ~, on: yes}}
";
    let args = &configuration(text).profiles[0].args;
    expect![[r#"{"apiVersion":"example.com/v1","depth":null,"kind":"Any","true":true}"#]]
        .assert_eq(&args["ExampleScore"].to_string());
}

#[test]
fn args_may_name_their_version_and_kind() {
    check_resolved(
        "InterPodAffinity",
        "{apiVersion: kubescheduler.config.k8s.io/v1, kind: InterPodAffinityArgs}",
        &expect![[r#"{"hardPodAffinityWeight":1,"ignorePreferredTermsOfExistingPods":false}"#]],
    );
}

#[test]
fn args_of_another_version_or_plugin_are_refused() {
    check(
        "InterPodAffinity",
        "{apiVersion: kubescheduler.config.k8s.io/v1beta3, kind: InterPodAffinityArgs}",
        &expect![[r#"
            args.apiVersion: decoding args for plugin InterPodAffinity: no kind "InterPodAffinityArgs" is registered for version "kubescheduler.config.k8s.io/v1beta3": write `apiVersion: kubescheduler.config.k8s.io/v1` and `kind: InterPodAffinityArgs`, or leave both out
        "#]],
    );
    check(
        "InterPodAffinity",
        "{kind: NodeAffinityArgs}",
        &expect![[r#"
            args.kind: args for plugin InterPodAffinity were not of type InterPodAffinityArgs.kubescheduler.config.k8s.io, got NodeAffinityArgs.kubescheduler.config.k8s.io
        "#]],
    );
    check(
        "InterPodAffinity",
        "{kind: InterPodAffinity}",
        &expect![[r#"
            args.kind: decoding args for plugin InterPodAffinity: no kind "InterPodAffinity" is registered for version "kubescheduler.config.k8s.io/v1": write `apiVersion: kubescheduler.config.k8s.io/v1` and `kind: InterPodAffinityArgs`, or leave both out
        "#]],
    );
}

#[test]
fn a_misspelt_field_is_refused() {
    check(
        "NodeAffinity",
        "{xyz: 1}",
        &expect![[r#"
            args.xyz: unknown field `xyz`, expected one of `apiVersion`, `kind`, `addedAffinity`
        "#]],
    );
    check(
        "NodeResourcesFit",
        "{scoringStrategy: {typ: a, resources: [{nam: 1}]}}",
        &expect![[r#"
            args.scoringStrategy.resources[0].nam: unknown field `nam`, expected `name` or `weight`
            args.scoringStrategy.typ: unknown field `typ`, expected one of `type`, `resources`, `requestedToCapacityRatio`
            args.scoringStrategy.type: Unsupported value: "": supported values: "LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"
        "#]],
    );
    check(
        "NodeAffinity",
        "5",
        &expect![[r#"
            args: invalid type: integer `5`, expected an object
        "#]],
    );
}

#[test]
fn the_share_of_candidate_nodes_has_a_range() {
    let name = "DefaultPreemption";
    check(
        name,
        "{minCandidateNodesPercentage: 101}",
        &expect![[r#"
            args.minCandidateNodesPercentage: Invalid value: 101: not in valid range [0, 100]
        "#]],
    );
    check(
        name,
        "{minCandidateNodesPercentage: -1}",
        &expect![[r#"
            args.minCandidateNodesPercentage: Invalid value: -1: not in valid range [0, 100]
        "#]],
    );
    check(
        name,
        "{minCandidateNodesAbsolute: -1}",
        &expect![[r#"
            args.minCandidateNodesAbsolute: Invalid value: -1: not in valid range [0, inf)
        "#]],
    );
    let none = "{minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: 0}";
    check(
        name,
        none,
        &expect![[r#"
            args.minCandidateNodesPercentage: Invalid value: 0: cannot be zero at the same time as minCandidateNodesAbsolute
            args.minCandidateNodesAbsolute: Invalid value: 0: cannot be zero at the same time as minCandidateNodesPercentage
        "#]],
    );
}

#[test]
fn the_weight_of_hard_affinity_is_between_0_and_100() {
    check(
        "InterPodAffinity",
        "{hardPodAffinityWeight: -1}",
        &expect![[r#"
            args.hardPodAffinityWeight: Invalid value: -1: not in valid range [0, 100]
        "#]],
    );
    check(
        "InterPodAffinity",
        "{hardPodAffinityWeight: 101}",
        &expect![[r#"
            args.hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100]
        "#]],
    );
}

#[test]
fn default_constraints_are_for_the_list_type() {
    let constraint = "{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}";
    let name = "PodTopologySpread";
    check(
        name,
        "{defaultingType: Any}",
        &expect![[r#"
            args.defaultingType: Unsupported value: "Any": supported values: "System", "List"
        "#]],
    );
    check(
        name,
        &format!("{{defaultConstraints: [{constraint}]}}"),
        &expect![[r#"
            args.defaultingType: Invalid value: "System": when .defaultConstraints are not empty
        "#]],
    );
}

#[test]
fn a_default_constraint_is_complete_and_has_no_selector() {
    let list = |constraint| format!("{{defaultingType: List, defaultConstraints: [{constraint}]}}");
    let name = "PodTopologySpread";
    check(
        name,
        &list("{}"),
        &expect![[r#"
            args.defaultConstraints[0].maxSkew: Invalid value: 0: not in valid range (0, inf)
            args.defaultConstraints[0].topologyKey: Required value: can not be empty
            args.defaultConstraints[0].whenUnsatisfiable: Required value: can not be empty
        "#]],
    );
    check(
        name,
        &list("{maxSkew: 1, topologyKey: -zone, whenUnsatisfiable: Never, labelSelector: {}}"),
        &expect![[r#"
            args.defaultConstraints[0].topologyKey: Invalid value: "-zone": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
            args.defaultConstraints[0].whenUnsatisfiable: Unsupported value: "Never": supported values: "DoNotSchedule", "ScheduleAnyway"
            args.defaultConstraints[0].labelSelector: Forbidden: constraint must not define a selector, as they deduced for each pod
        "#]],
    );
    let constraint = "{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}";
    check(
        name,
        &list(&format!("{constraint}, {constraint}")),
        &expect![[r#"
            args.defaultConstraints[1]: Duplicate value: "{zone, DoNotSchedule}"
        "#]],
    );
}

#[test]
fn ignored_resources_are_label_names_and_groups_have_no_slash() {
    let name = "NodeResourcesFit";
    check(
        name,
        "{ignoredResources: [example.com/a, a b]}",
        &expect![[r#"
            args.ignoredResources[1]: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
        "#]],
    );
    check(
        name,
        "{ignoredResourceGroups: [example.com, example.com/a]}",
        &expect![[r#"
            args.ignoredResourceGroups[1]: Invalid value: "example.com/a": resource group name can't contain '/'
        "#]],
    );
}

#[test]
fn a_scoring_strategy_is_one_of_three() {
    let name = "NodeResourcesFit";
    check(
        name,
        "{scoringStrategy: {type: Best}}",
        &expect![[r#"
            args.scoringStrategy.type: Unsupported value: "Best": supported values: "LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"
        "#]],
    );
    check(
        name,
        "{scoringStrategy: {}}",
        &expect![[r#"
            args.scoringStrategy.type: Unsupported value: "": supported values: "LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"
        "#]],
    );
}

#[test]
fn resources_of_a_strategy_weigh_1_to_100() {
    check(
        "NodeResourcesFit",
        "{scoringStrategy: {type: MostAllocated, \
         resources: [{name: cpu, weight: 101}, {name: memory, weight: -1}, {name: gpu, weight: 0}]}}",
        &expect![[r#"
            args.scoringStrategy.resources[0].weight: Invalid value: 101: resource weight of cpu not in valid range (0, 100]
            args.scoringStrategy.resources[1].weight: Invalid value: -1: resource weight of memory not in valid range (0, 100]
        "#]],
    );
}

#[test]
fn a_shape_belongs_to_its_strategy() {
    let name = "NodeResourcesFit";
    check(
        name,
        "{scoringStrategy: {type: RequestedToCapacityRatio}}",
        &expect![[r#"
            args.scoringStrategy.requestedToCapacityRatio: Required value: must be specified when type is RequestedToCapacityRatio
        "#]],
    );
    check(
        name,
        "{scoringStrategy: {type: LeastAllocated, requestedToCapacityRatio: {}}}",
        &expect![[r#"
            args.scoringStrategy.requestedToCapacityRatio: Forbidden: must be nil when type is not RequestedToCapacityRatio
        "#]],
    );
}

#[test]
fn a_shape_rises_and_stays_in_its_ranges() {
    let name = "NodeResourcesFit";
    let shape = |points| {
        format!(
            "{{scoringStrategy: {{type: RequestedToCapacityRatio, \
             requestedToCapacityRatio: {{shape: [{points}]}}}}}}"
        )
    };
    check(
        name,
        &shape(""),
        &expect![[r#"
            args.scoringStrategy.requestedToCapacityRatio.shape: Required value: at least one point must be specified
        "#]],
    );
    let falling = "{utilization: 5, score: 1}, {utilization: 5, score: 2}, {utilization: 4}";
    check(
        name,
        &shape(falling),
        &expect![[r#"
            args.scoringStrategy.requestedToCapacityRatio.shape[1].utilization: Invalid value: 5: values must be sorted in increasing order
        "#]],
    );
    let outside = "{utilization: -1, score: 11}, {utilization: 101, score: -1}";
    check(
        name,
        &shape(outside),
        &expect![[r#"
            args.scoringStrategy.requestedToCapacityRatio.shape[0].utilization: Invalid value: -1: not in valid range [0, 100]
            args.scoringStrategy.requestedToCapacityRatio.shape[0].score: Invalid value: 11: not in valid range [0, 10]
            args.scoringStrategy.requestedToCapacityRatio.shape[1].utilization: Invalid value: 101: not in valid range [0, 100]
            args.scoringStrategy.requestedToCapacityRatio.shape[1].score: Invalid value: -1: not in valid range [0, 10]
        "#]],
    );
}

#[test]
fn balanced_resources_weigh_1_and_differ() {
    check(
        "NodeResourcesBalancedAllocation",
        "{resources: [{name: cpu, weight: 2}, {name: cpu}]}",
        &expect![[r#"
            args.resources[0].weight: Invalid value: 2: must be 1
            args.resources[1].name: Duplicate value: "cpu"
        "#]],
    );
}

#[test]
fn the_bind_timeout_of_volumes_is_not_negative() {
    check(
        "VolumeBinding",
        "{bindTimeoutSeconds: -1}",
        &expect![[r#"
            args.bindTimeoutSeconds: Invalid value: -1: invalid BindTimeoutSeconds, should not be a negative value
        "#]],
    );
}

#[test]
fn a_shape_of_volumes_needs_its_gate() {
    let name = "VolumeBinding";
    let args = "{shape: [{utilization: 0, score: 5}, {utilization: 0, score: 5}]}";
    let without = GivenGates::of(Release::V1_36).plugins;
    check_with(
        without.clone(),
        name,
        args,
        &expect![[r#"
            args.shape: Invalid value: [{"score":5,"utilization":0},{"score":5,"utilization":0}]: unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring
        "#]],
    );
    check_with(
        without,
        name,
        "{shape: []}",
        &expect![[r#"
            args.shape: Invalid value: []: unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring
        "#]],
    );
    check_with(
        GivenGates::of(Release::V1_37).plugins,
        name,
        args,
        &expect![[r#"
            args.shape[1].utilization: Invalid value: 0: values must be sorted in increasing order
        "#]],
    );
}

#[test]
fn device_timeouts_are_not_negative_and_need_their_gates() {
    let name = "DynamicResources";
    check(
        name,
        "{filterTimeout: -1s, bindingTimeout: 999ms}",
        &expect![[r#"
            args.filterTimeout: Invalid value: -1s: must be zero or positive
            args.bindingTimeout: Invalid value: 999ms: must be at least 1 second
        "#]],
    );
    check(
        name,
        "{filterTimeout: 10, bindingTimeout: 5 minutes}",
        &expect![[r#"
            args.bindingTimeout: time: unknown unit " minutes" in duration "5 minutes"
            args.filterTimeout: invalid type: integer `10`, expected a duration such as "15s"
        "#]],
    );
    let gates = FeatureGates::default()
        .with("DRASchedulerFilterTimeout", false)
        .with("DRADeviceBindingConditions", false);
    check_with(
        gates,
        name,
        "{filterTimeout: 1s, bindingTimeout: 1s}",
        &expect![[r#"
            args.filterTimeout: Forbidden: DRASchedulingFilterTimeout feature gate is disabled
            args.bindingTimeout: Forbidden: DRADeviceBindingConditions or DRAResourceClaimDeviceStatus feature gate is disabled
        "#]],
    );
}

#[test]
fn added_affinity_has_valid_requirements() {
    let required = |requirement| {
        format!(
            "{{addedAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: \
             {{nodeSelectorTerms: [{{matchExpressions: [{requirement}]}}]}}}}}}"
        )
    };
    let name = "NodeAffinity";
    check(
        name,
        &required("{key: a, operator: Equals, values: [b]}"),
        &expect![[r#"
            args.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].operator: Unsupported value: "Equals": supported values: "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"
        "#]],
    );
    check(
        name,
        &required("{key: a, operator: In}"),
        &expect![[r#"
            args.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty
        "#]],
    );
    check(
        name,
        &required("{key: a, operator: Exists, values: [b]}"),
        &expect![[r#"
            args.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].values: Invalid value: ["b"]: values set must be empty for exists and does not exist
        "#]],
    );
    check(
        name,
        &required("{key: a, operator: Gt, values: [b, \"2\"]}"),
        &expect![[r#"
            args.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].values: Invalid value: ["b","2"]: for 'Gt', 'Lt' operators, exactly one value is required
            args.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].values[0]: Invalid value: "b": for 'Gt', 'Lt' operators, the value must be an integer
        "#]],
    );
    check(
        name,
        &required("{key: \"-\", operator: In, values: [a/b]}"),
        &expect![[r#"
            args.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].key: Invalid value: "-": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
            args.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].values[0]: Invalid value: "a/b": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')
        "#]],
    );
}

#[test]
fn added_affinity_matches_one_name_at_a_time() {
    let required = |requirement| {
        format!(
            "{{addedAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: \
             {{nodeSelectorTerms: [{{matchFields: [{requirement}]}}]}}}}}}"
        )
    };
    let name = "NodeAffinity";
    check(
        name,
        &required("{key: metadata.name, operator: In, values: [a, b]}"),
        &expect![[r#"
            args.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchFields[0].values: Invalid value: ["a","b"]: must have one element
        "#]],
    );
    check(
        name,
        &required("{key: metadata.name, operator: Exists}"),
        &expect![[r#"
            args.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchFields[0].operator: Unsupported value: "Exists": supported values: "In", "NotIn"
        "#]],
    );
}

#[test]
fn added_preferences_without_weight_are_not_validated() {
    let preferred = |weight| {
        format!(
            "{{addedAffinity: {{preferredDuringSchedulingIgnoredDuringExecution: \
             [{{weight: {weight}, preference: {{matchExpressions: [{{key: a, operator: X}}]}}}}]}}}}"
        )
    };
    check(
        "NodeAffinity",
        &preferred("0"),
        &expect![[r#"
            no error
        "#]],
    );
    check(
        "NodeAffinity",
        &preferred("1"),
        &expect![[r#"
            args.addedAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].matchExpressions[0].operator: Unsupported value: "X": supported values: "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"
        "#]],
    );
}

#[test]
fn args_of_fit_are_validated_only_if_it_is_enabled() {
    let text = "
profiles:
- plugins:
    multiPoint: {disabled: [{name: NodeResourcesFit}]}
  pluginConfig:
  - {name: NodeResourcesFit, args: {scoringStrategy: {type: Best}}}
";
    assert_eq!(errors_with(text, &catalogue()), "no error\n");
}
