//! Errors in a Policy.

use expect_test::{Expect, expect};
use plimsoll_legacy::config::{load, load_policy};

use crate::catalogue::lines;
use crate::policies::{catalogue, with_priorities};

#[track_caller]
fn check(text: &str, expected: &Expect) {
    let errors = match load("policy.yaml", text, &catalogue()) {
        Ok(_) => "no error\n".to_owned(),
        Err(errors) => lines(&errors),
    };
    expected.assert_eq(&errors);
}

/// As [`check`], with the fields after kind and apiVersion.
#[track_caller]
fn check_fields(text: &str, expected: &Expect) {
    check(&format!("kind: Policy\napiVersion: v1\n{text}"), expected);
}

#[test]
fn an_unknown_predicate_is_refused_with_the_nearest_name() {
    check_fields(
        "predicates:\n- name: PodFitsResource\n- name: podfitshostport\n- name: CheckNodePidPresure\n",
        &expect![[r#"
            policy.yaml:4: predicates[0].name: predicate type not found for "PodFitsResource": did you mean "PodFitsResources"?
            policy.yaml:5: predicates[1].name: predicate type not found for "podfitshostport": did you mean "PodFitsHostPorts"?
            policy.yaml:6: predicates[2].name: predicate type not found for "CheckNodePidPresure": did you mean "CheckNodePIDPressure"?
        "#]],
    );
}

#[test]
fn a_predicate_of_your_own_needs_an_argument() {
    check_fields(
        "predicates:\n- name: RackAware\n- {}\n",
        &expect![[r#"
        policy.yaml:4: predicates[0].name: predicate type not found for "RackAware": a name of your own needs an argument, serviceAffinity or labelsPresence
        policy.yaml:5: predicates[1].name: Required value: write the name of a predicate
    "#]],
    );
}

#[test]
fn an_unknown_priority_is_refused_with_the_nearest_name() {
    check(
        &with_priorities(
            "- {name: LeastRequested, weight: 1}\n- {name: ImageLocalityPrioritty, weight: 1}\n",
        ),
        &expect![[r#"
            policy.yaml:5: priorities[0].name: priority type not found for "LeastRequested": did you mean "LeastRequestedPriority"?
            policy.yaml:6: priorities[1].name: priority type not found for "ImageLocalityPrioritty": did you mean "ImageLocalityPriority"?
        "#]],
    );
}

#[test]
fn a_priority_of_your_own_needs_an_argument() {
    check(
        &with_priorities("- {name: NodeLabel, weight: 1}\n- {weight: 1}\n"),
        &expect![[r#"
        policy.yaml:5: priorities[0].name: priority type not found for "NodeLabel": a name of your own needs an argument, serviceAntiAffinity, labelPreference or requestedToCapacityRatioArguments
        policy.yaml:6: priorities[1].name: Required value: write the name of a priority
    "#]],
    );
}

#[test]
fn a_priority_needs_a_positive_weight() {
    check(
        &with_priorities(
            "- name: ImageLocalityPriority\n- {name: EqualPriority, weight: -1}\n- {name: NodeAffinityPriority, weight: 2147483648}\n",
        ),
        &expect![[r#"
            policy.yaml:5: priorities[0].weight: priority ImageLocalityPriority should have a positive weight applied to it or it has overflown: write a `weight` of 1 to 2147483647
            policy.yaml:6: priorities[1].weight: priority EqualPriority should have a positive weight applied to it or it has overflown: write a `weight` of 1 to 2147483647
            policy.yaml:7: priorities[2].weight: priority NodeAffinityPriority should have a positive weight applied to it or it has overflown: write a `weight` of 1 to 2147483647
        "#]],
    );
}

#[test]
fn weights_that_overflow_together_are_refused() {
    check(
        &with_priorities(
            "- {name: A, weight: 2147483647, argument: {labelPreference: {label: a}}}\n- {name: B, weight: 2147483647, argument: {labelPreference: {label: b}}}\n",
        ),
        &expect![[r#"
            policy.yaml:6: priorities[1].weight: priority B should have a positive weight applied to it or it has overflown: write a `weight` of 1 to 2147483647
        "#]],
    );
}

#[test]
fn an_entry_has_one_argument() {
    check_fields(
        "\
predicates:
- name: Two
  argument: {serviceAffinity: {labels: [a]}, labelsPresence: {labels: [a]}}
- name: None
  argument: {}
priorities:
- name: Two
  weight: 1
  argument: {serviceAntiAffinity: {label: a}, labelPreference: {label: a}}
- name: None
  weight: 1
  argument: {}
",
        &expect![[r#"
            policy.yaml:5: predicates[0].argument: exactly 1 predicate argument is required, numArgs: 2, predicate "Two": keep one of serviceAffinity and labelsPresence, and write the other as an entry of its own
            policy.yaml:7: predicates[1].argument: exactly 1 predicate argument is required, numArgs: 0, predicate "None": keep one of serviceAffinity and labelsPresence, and write the other as an entry of its own
            policy.yaml:11: priorities[0].argument: exactly 1 priority argument is required, numArgs: 2, priority "Two": keep one of serviceAntiAffinity, labelPreference and requestedToCapacityRatioArguments, and write the others as entries of their own
            policy.yaml:14: priorities[1].argument: exactly 1 priority argument is required, numArgs: 0, priority "None": keep one of serviceAntiAffinity, labelPreference and requestedToCapacityRatioArguments, and write the others as entries of their own
        "#]],
    );
}

#[test]
fn entries_of_one_kind_weigh_the_same() {
    check(
        &with_priorities(
            "\
- {name: A, weight: 1, argument: {labelPreference: {label: a}}}
- {name: B, weight: 2, argument: {labelPreference: {label: b}}}
- {name: C, weight: 1, argument: {serviceAntiAffinity: {label: c}}}
- {name: D, weight: 2, argument: {serviceAntiAffinity: {label: d}}}
",
        ),
        &expect![[r#"
            policy.yaml:6: priorities[1].weight: LabelPreference  priority "B" has a different weight with "A": 2 is not 1, and they become one plugin with one weight
            policy.yaml:8: priorities[3].weight: ServiceAntiAffinity  priority "D" has a different weight with "C": 2 is not 1, and they become one plugin with one weight
        "#]],
    );
}

#[test]
fn there_is_one_ratio_of_requested_to_capacity() {
    check(
        &with_priorities(
            "\
- {name: A, weight: 1, argument: {requestedToCapacityRatioArguments: {shape: [{utilization: 0, score: 0}]}}}
- {name: B, weight: 1, argument: {requestedToCapacityRatioArguments: {shape: [{utilization: 0, score: 0}]}}}
",
        ),
        &expect![[r#"
            policy.yaml:6: priorities[1]: priority "B" redeclares custom priority "RequestedToCapacityRatio", from: "A": keep one of them
        "#]],
    );
}

#[test]
fn a_shape_rises_within_its_range() {
    check(
        &with_priorities(
            "\
- name: A
  weight: 1
  argument:
    requestedToCapacityRatioArguments:
      shape:
      - {utilization: 50, score: 11}
      - {utilization: 50, score: 1}
      resources:
      - {name: cpu, weight: -1}
",
        ),
        &expect![[r#"
            policy.yaml:10: priorities[0].argument.requestedToCapacityRatioArguments.shape[0].score: Invalid value: 11: not in valid range [0, 10]
            policy.yaml:11: priorities[0].argument.requestedToCapacityRatioArguments.shape[1].utilization: Invalid value: 50: values must be sorted in increasing order
            policy.yaml:13: priorities[0].argument.requestedToCapacityRatioArguments.resources[0].weight: Invalid value: -1: resource weight of cpu should be a positive value
        "#]],
    );
    check(
        &with_priorities(
            "- {name: A, weight: 1, argument: {requestedToCapacityRatioArguments: {}}}\n",
        ),
        &expect![[r#"
            policy.yaml:5: priorities[0].argument.requestedToCapacityRatioArguments.shape: Required value: at least one point must be specified
        "#]],
    );
}

#[test]
fn a_label_is_wanted_or_unwanted() {
    check_fields(
        "\
predicates:
- {name: A, argument: {labelsPresence: {labels: [a, b], presence: true}}}
- {name: B, argument: {labelsPresence: {labels: [b]}}}
priorities:
- {name: C, weight: 1, argument: {labelPreference: {label: c, presence: true}}}
- {name: D, weight: 1, argument: {labelPreference: {label: c}}}
",
        &expect![[r#"
            policy.yaml:3: predicates: detecting at least one label (e.g., "b") that exist in both the present(["a", "b"]) and absent(["b"]) label list: keep it in one of them
            policy.yaml:6: priorities: detecting at least one label (e.g., "c") that exist in both the present(["c"]) and absent(["c"]) label list: keep it in one of them
        "#]],
    );
}

#[test]
fn the_weight_of_hard_affinity_has_a_range() {
    check_fields(
        "hardPodAffinitySymmetricWeight: 101\n",
        &expect![[r#"
        policy.yaml:3: hardPodAffinitySymmetricWeight: Invalid value: 101: not in valid range [0-100]
    "#]],
    );
    check_fields(
        "hardPodAffinitySymmetricWeight: -1\n",
        &expect![[r#"
        policy.yaml:3: hardPodAffinitySymmetricWeight: Invalid value: -1: not in valid range [0-100]
    "#]],
    );
}

#[test]
fn extenders_are_checked_as_elsewhere() {
    check_fields(
        "\
extenders:
- {urlPrefix: a, prioritizeVerb: prioritize, bindVerb: bind}
- {urlPrefix: b, bindVerb: bind, httpTimeout: 5s}
- urlPrefix: c
  managedResources: [{name: cpu}, {name: example.com/a}, {name: example.com/a}]
",
        &expect![[r#"
            policy.yaml:3: extenders: Invalid value: "found 2 extenders implementing bind": only one extender can implement bind
            policy.yaml:4: extenders[0].weight: Invalid value: 0: must have a positive weight applied to it
            policy.yaml:5: extenders[1].httpTimeout: invalid type: string "5s", expected a number of nanoseconds, such as 5000000000 for 5s
            policy.yaml:7: extenders[2].managedResources[0].name: Invalid value: "cpu": is an invalid extended resource name
            policy.yaml:7: extenders[2].managedResources[2].name: Invalid value: "example.com/a": duplicate extender managed resource name
        "#]],
    );
}

#[test]
fn a_policy_has_no_profiles() {
    check_fields(
        "profiles: [{schedulerName: a}]\n",
        &expect![[r#"
        policy.yaml:3: profiles: cannot set a Plugin config and Policy config: a Policy has no profiles; remove them, or write all of it as a KubeSchedulerConfiguration
    "#]],
    );
}

#[test]
fn unknown_fields_and_wrong_types_are_errors() {
    check_fields(
        "\
predicate: []
predicates:
- {name: 3}
- {name: HostName, arguments: {}}
priorities: {}
alwaysCheckAllPredicates: 1
",
        &expect![[r#"
            policy.yaml:3: predicate: unknown field `predicate`, expected one of `apiVersion`, `kind`, `predicates`, `priorities`, `extenders`, `hardPodAffinitySymmetricWeight`, `alwaysCheckAllPredicates`
            policy.yaml:5: predicates[0].name: invalid type: integer `3`, expected a string
            policy.yaml:6: predicates[1].arguments: unknown field `arguments`, expected `name` or `argument`
            policy.yaml:7: priorities: invalid type: map, expected a sequence
            policy.yaml:8: alwaysCheckAllPredicates: invalid type: integer `1`, expected a boolean
        "#]],
    );
}

#[test]
fn a_policy_is_of_version_v1() {
    check(
        "kind: Policy\n",
        &expect![[r#"
        policy.yaml:1: apiVersion: Object 'apiVersion' is missing: write `apiVersion: v1`
    "#]],
    );
    check(
        "{kind: Policy, apiVersion: kubescheduler.config.k8s.io/v1beta1}",
        &expect![[r#"
        policy.yaml:1: apiVersion: no kind "Policy" is registered for version "kubescheduler.config.k8s.io/v1beta1": write `apiVersion: v1`
    "#]],
    );
}

#[test]
fn a_policy_file_holds_a_policy() {
    let check = |text: &str, expected: &Expect| {
        let errors = load_policy("policy.yaml", text, &catalogue()).expect_err("it is no Policy");
        expected.assert_eq(&lines(&errors));
    };
    check(
        "",
        &expect![[r#"
        policy.yaml: is empty: expected a Policy
    "#]],
    );
    check(
        "[]",
        &expect![[r#"
        policy.yaml:1: is not an object: expected a Policy
    "#]],
    );
    check(
        "{apiVersion: v1}",
        &expect![[r#"
        policy.yaml:1: kind: Object 'Kind' is missing: write `kind: Policy`
    "#]],
    );
    check(
        "{kind: KubeSchedulerConfiguration, apiVersion: kubescheduler.config.k8s.io/v1}",
        &expect![[r#"
            policy.yaml:1: kind: is "KubeSchedulerConfiguration": expected `kind: Policy`; a KubeSchedulerConfiguration is given with --config
        "#]],
    );
}

#[test]
fn a_config_map_has_the_key_of_policies() {
    check(
        "{kind: ConfigMap, apiVersion: v1, data: {policy: x}}",
        &expect![[r#"
        policy.yaml:1: data: missing policy config map value at key "policy.cfg": put the Policy under this key
    "#]],
    );
    check(
        "{kind: ConfigMap, apiVersion: v1, data: {policy.cfg: {kind: Policy}}}",
        &expect![[r#"
            policy.yaml:1: data[policy.cfg]: is not a string: write the Policy after `policy.cfg: |`
        "#]],
    );
}

#[test]
fn errors_in_a_config_map_have_the_line_within_its_value() {
    check(
        "\
kind: ConfigMap
apiVersion: v1
data:
  policy.cfg: |
    {\"kind\": \"Policy\",
     \"apiVersion\": \"v1\",
     \"predicates\": [,]}
",
        &expect![[r#"
            policy.yaml:4: data[policy.cfg]:3: is not valid JSON: expected value
        "#]],
    );
    check(
        "\
kind: ConfigMap
apiVersion: v1
data:
  policy.cfg: |
    {\"kind\": \"Policy\",
     \"apiVersion\": \"v1\",
     \"predicates\": [{\"name\": \"Hostname1\"}]}
",
        &expect![[r#"
            policy.yaml:4: data[policy.cfg]:3: predicates[0].name: predicate type not found for "Hostname1": did you mean "HostName"?
        "#]],
    );
}
