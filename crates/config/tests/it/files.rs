//! Whole files: their forms, defaults and warnings.

use expect_test::{Expect, expect, expect_file};
use plimsoll_config::{Base64, Configuration, ExtenderTlsConfig, load};
use serde_json::Value;

use crate::catalogue::{HEAD, catalogue, configuration, lines};

#[track_caller]
fn check_file(text: &str, expected: &Expect) {
    let errors = match load("test.yaml", text, &catalogue()) {
        Ok(_) => "no error\n".to_owned(),
        Err(errors) => lines(&errors),
    };
    expected.assert_eq(&errors);
}

#[test]
fn a_file_names_its_version_and_kind() {
    check_file(
        "",
        &expect![[r#"
            test.yaml: is empty: expected a KubeSchedulerConfiguration
        "#]],
    );
    check_file(
        "- a\n",
        &expect![[r#"
            test.yaml:1: is not an object: expected a KubeSchedulerConfiguration
        "#]],
    );
    check_file(
        "apiVersion: kubescheduler.config.k8s.io/v1\n",
        &expect![[r#"
            test.yaml:1: kind: Object 'Kind' is missing: write `kind: KubeSchedulerConfiguration`
        "#]],
    );
    check_file(
        "kind: KubeSchedulerConfiguration\n",
        &expect![[r#"
            test.yaml:1: apiVersion: Object 'apiVersion' is missing: write `apiVersion: kubescheduler.config.k8s.io/v1`
        "#]],
    );
}

#[test]
fn other_versions_are_refused_with_advice() {
    let text = "kind: KubeSchedulerConfiguration\napiVersion: kubescheduler.config.k8s.io/v2\n";
    check_file(
        text,
        &expect![[r#"
            test.yaml:2: apiVersion: no kind "KubeSchedulerConfiguration" is registered for version "kubescheduler.config.k8s.io/v2": expected `apiVersion: kubescheduler.config.k8s.io/v1` and `kind: KubeSchedulerConfiguration`
        "#]],
    );
    check_file(
        "kind: Pod\napiVersion: v1\n",
        &expect![[r#"
            test.yaml:2: apiVersion: no kind "Pod" is registered for version "v1": expected `apiVersion: kubescheduler.config.k8s.io/v1` and `kind: KubeSchedulerConfiguration`
        "#]],
    );
    check_file(
        "kind: Pod\napiVersion: kubescheduler.config.k8s.io/v1\n",
        &expect![[r#"
            test.yaml:1: kind: no kind "Pod" is registered for version "kubescheduler.config.k8s.io/v1": expected `apiVersion: kubescheduler.config.k8s.io/v1` and `kind: KubeSchedulerConfiguration`
        "#]],
    );
}

#[test]
fn a_file_that_is_not_yaml_is_refused() {
    check_file(
        "kind: a: b\n",
        &expect![[r#"
            test.yaml:1: is not valid YAML: mapping values are not allowed in this context
        "#]],
    );
    check_file(
        &format!("{HEAD}parallelism: 1\nparallelism: 2\n"),
        &expect![[r#"
            test.yaml:4: parallelism: duplicate key, already set on line 3
        "#]],
    );
}

#[test]
fn json_is_read_like_yaml() {
    let text = "{\"apiVersion\": \"kubescheduler.config.k8s.io/v1\",\n\
                \"kind\": \"KubeSchedulerConfiguration\",\n\
                \"profiles\": [{\n\"percentageOfNodesToScore\": 200}]}";
    check_file(
        text,
        &expect![[r#"
            test.yaml:4: profiles[0].percentageOfNodesToScore: Invalid value: 200: not in valid range [0-100]
        "#]],
    );
}

#[test]
fn the_percentage_of_a_profile_overrides_the_global_one() {
    let percentages = |text: &str| -> Vec<_> {
        let profiles = configuration(text).profiles;
        profiles.iter().map(|profile| profile.percentage_of_nodes_to_score).collect()
    };
    let profiles =
        "profiles:\n- schedulerName: a\n- {schedulerName: b, percentageOfNodesToScore: 7}";
    assert_eq!(percentages(profiles), [None, Some(7)]);
    let global = format!("percentageOfNodesToScore: 0\n{profiles}");
    assert_eq!(percentages(&global), [Some(0), Some(7)]);
}

#[test]
fn a_plugin_without_its_preparing_point_is_warned_of() {
    let text = "
profiles:
- plugins:
    preFilter:
      disabled: [{name: NodePorts}, {name: NodeAffinity}]
    preScore:
      disabled: [{name: '*'}]
      enabled: [{name: InterPodAffinity}]
";
    expect![[r#"
        test.yaml:5: profiles[0].plugins.filter: plugin NodePorts is enabled at filter but not at preFilter: it works here, but kube-scheduler fails every pod with "from cycleState: not found"; enable it at preFilter, too
        test.yaml:5: profiles[0].plugins.score: plugin PodTopologySpread is enabled at score but not at preScore: it works here, but kube-scheduler fails every pod with "from cycleState: not found"; enable it at preScore, too
        test.yaml:5: profiles[0].plugins.score: plugin TaintToleration is enabled at score but not at preScore: it works here, but kube-scheduler fails every pod with "from cycleState: not found"; enable it at preScore, too
    "#]]
    .assert_eq(&lines(&configuration(text).warnings));
    let nothing = "profiles: [{plugins: {filter: {disabled: [{name: '*'}]}, preFilter: {disabled: [{name: '*'}]}}}]";
    assert_eq!(lines(&configuration(nothing).warnings), "");
}

#[test]
fn fields_without_effect_are_warned_of() {
    let text = "
profiles:
- plugins:
    score:
      disabled: [{name: NodeAfinity}, {name: '*'}]
    multiPoint:
      disabled:
      - name: SelectorSpread
  pluginConfig:
  - name: InterpodAffinity
    args: {hardPodAffinityWeight: 3}
---
a: 1
";
    expect![[r#"
        test.yaml:7: profiles[0].plugins.score.disabled[0].name: plugin "NodeAfinity" does not exist: disabling it has no effect
        test.yaml:10: profiles[0].plugins.multiPoint.disabled[0].name: plugin "SelectorSpread" does not exist: disabling it has no effect
        test.yaml:12: profiles[0].pluginConfig[0].name: plugin "InterpodAffinity" does not exist: its args have no effect
        test.yaml:15: is ignored: only the first document of the file is read
    "#]].assert_eq(&lines(&configuration(text).warnings));
}

#[test]
fn everything_has_a_default() {
    let configuration = Configuration::default_for(&catalogue());
    let shown = serde_json::to_string_pretty(&configuration.effective.to_value());
    expect_file!["default.json"].assert_eq(&(shown.expect("it is JSON") + "\n"));
}

#[test]
fn an_empty_configuration_is_the_default() {
    assert_eq!(Configuration::default_for(&catalogue()), configuration(""));
}

#[test]
fn the_effective_configuration_means_the_same() {
    let text = "
enableProfiling: no
leaderElection: {leaseDuration: 1m30s}
clientConnection: {qps: 1.5, burst: 7}
delayCacheUntilActive: true
percentageOfNodesToScore: 40
profiles:
- schedulerName: one
  plugins:
    multiPoint:
      enabled: [{name: ExampleScore, weight: 3}, {name: NodeAffinity, weight: 8}]
      disabled: [{name: TaintToleration}]
    score:
      enabled: [{name: ImageLocality, weight: 2}]
      disabled: [{name: PodTopologySpread}]
  pluginConfig:
  - {name: ExampleScore, args: {depth: 3}}
  - {name: DynamicResources, args: {filterTimeout: 5s}}
- schedulerName: two
extenders:
- urlPrefix: https://localhost:8888
  filterVerb: filter
  enableHTTPS: true
  httpTimeout: 100ms
  tlsConfig: {insecure: true, caData: Zm9v}
  managedResources: [{name: example.com/foo, ignoredByScheduler: true}]
";
    let first = configuration(text);
    let effective = first.effective.to_value().to_string();
    // The merged `multiPoint` list is complete, so nothing must be merged into it again.
    let mut value: Value = serde_json::from_str(&effective).expect("it is JSON");
    for profile in value["profiles"].as_array_mut().expect("there are profiles") {
        profile["plugins"]["multiPoint"]["disabled"] = serde_json::json!([{"name": "*"}]);
    }
    let second = load("effective.json", &value.to_string(), &catalogue()).expect("it is valid");
    assert_eq!(first.profiles, second.profiles);
    assert_eq!(first.extenders, second.extenders);
}

#[test]
fn a_key_in_a_configuration_is_not_in_debug_output() {
    let data: Base64 = serde_json::from_str("\"c2VjcmV0LWtleQ==\"").expect("it is base64");
    assert_eq!(data.as_str(), "c2VjcmV0LWtleQ==");
    let tls = ExtenderTlsConfig { key_data: data, ..ExtenderTlsConfig::default() };
    let shown = format!("{tls:?}");
    assert!(shown.contains("key_data") && !shown.contains("c2Vj"), "{shown}");
}
