//! Policies and the flags of releases that had them.

use expect_test::{Expect, expect};
use serde_json::Value;

use crate::run::{check, check_refused, run, run_where};

/// Two nodes, one with a small disk image cache and one with a taint, and a pod.
const CLUSTER: &str = "\
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: '4', memory: 8Gi, pods: '10'}}
---
apiVersion: v1
kind: Node
metadata: {name: n2}
spec: {taints: [{key: own, effect: NoSchedule}]}
status: {allocatable: {cpu: '1', memory: 8Gi, pods: '10'}}
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: c, resources: {requests: {cpu: '2'}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: huge}
spec: {containers: [{name: c, resources: {requests: {cpu: '9'}}}]}
";

const POLICY: &str = r#"{
  "kind": "Policy", "apiVersion": "v1",
  "predicates": [{"name": "PodFitsResources"}],
  "priorities": [{"name": "LeastRequestedPriority", "weight": 2}],
  "alwaysCheckAllPredicates": true
}"#;

const CONFIG_MAP: &str = "\
apiVersion: v1
kind: ConfigMap
metadata: {name: policy, namespace: kube-system}
data:
  policy.cfg: |
    kind: Policy
    apiVersion: v1
    predicates: []
    priorities: []
";

const FILES: [(&str, &str); 4] = [
    ("c.yaml", CLUSTER),
    ("p.json", POLICY),
    ("map.yaml", CONFIG_MAP),
    (
        "s.yaml",
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: [{schedulerName: own}]\n",
    ),
];

/// The warnings, where both pods go, and the exit status.
#[track_caller]
fn check_run(flags: &str, expected: &Expect) {
    check(&FILES, &format!("simulate -o json -f c.yaml {flags}"), expected);
}

#[track_caller]
fn check_wrong(flags: &str, expected: &Expect) {
    check_refused(&FILES, &format!("explain -f c.yaml --pod web {flags}"), expected);
}

#[test]
fn a_policy_decides_as_a_configuration_does() {
    check_run(
        "--config p.json",
        &expect![[r#"
        {"pod":"default/web","result":"scheduled","node":"n1","best":["n1"]}
        {"pod":"default/huge","result":"unschedulable","message":"0/2 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu. preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."}
        exit status 0
    "#]],
    );
    check_run(
        "--config map.yaml",
        &expect![[r#"
        {"pod":"default/web","result":"scheduled","node":"n1","best":["n1"]}
        {"pod":"default/huge","result":"scheduled","node":"n1","best":["n1"]}
        exit status 0
    "#]],
    );
}

#[test]
fn flags_name_a_policy() {
    check_run(
        "--policy-config-file p.json",
        &expect![[r#"
        warning: --policy-config-file is deprecated: use --config, which takes a Policy, too
        {"pod":"default/web","result":"scheduled","node":"n1","best":["n1"]}
        {"pod":"default/huge","result":"unschedulable","message":"0/2 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu. preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."}
        exit status 0
    "#]],
    );
    check_run(
        "-f map.yaml --policy-configmap policy",
        &expect![[r#"
        warning: --policy-configmap is deprecated: use --config with the manifest of the ConfigMap
        {"pod":"default/web","result":"scheduled","node":"n1","best":["n1"]}
        {"pod":"default/huge","result":"scheduled","node":"n1","best":["n1"]}
        exit status 0
    "#]],
    );
}

#[test]
fn a_config_map_takes_precedence_over_a_file_that_is_not_forced() {
    let both = "-f map.yaml --policy-configmap policy --policy-config-file p.json";
    check_run(
        both,
        &expect![[r#"
        warning: --policy-config-file is deprecated: use --config, which takes a Policy, too
        warning: --policy-configmap is deprecated: use --config with the manifest of the ConfigMap
        warning: --policy-config-file has no effect: --policy-configmap takes precedence
        {"pod":"default/web","result":"scheduled","node":"n1","best":["n1"]}
        {"pod":"default/huge","result":"scheduled","node":"n1","best":["n1"]}
        exit status 0
    "#]],
    );
    check_run(
        &format!("{both} --use-legacy-policy-config"),
        &expect![[r#"
        warning: --policy-config-file is deprecated: use --config, which takes a Policy, too
        warning: --policy-configmap is deprecated: use --config with the manifest of the ConfigMap
        warning: --use-legacy-policy-config is deprecated: use --config with the file of the Policy
        warning: --policy-configmap has no effect: --use-legacy-policy-config asks for the file
        warning: map.yaml: 1 object of kind ConfigMap (v1) does not affect scheduling and was ignored
        {"pod":"default/web","result":"scheduled","node":"n1","best":["n1"]}
        {"pod":"default/huge","result":"unschedulable","message":"0/2 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu. preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."}
        exit status 0
    "#]],
    );
    check_run(
        &format!("{both} --use-legacy-policy-config=false"),
        &expect![[r#"
        warning: --policy-config-file is deprecated: use --config, which takes a Policy, too
        warning: --policy-configmap is deprecated: use --config with the manifest of the ConfigMap
        warning: --use-legacy-policy-config is deprecated: use --config with the file of the Policy
        warning: --policy-config-file has no effect: --policy-configmap takes precedence
        {"pod":"default/web","result":"scheduled","node":"n1","best":["n1"]}
        {"pod":"default/huge","result":"scheduled","node":"n1","best":["n1"]}
        exit status 0
    "#]],
    );
}

#[test]
fn a_policy_can_be_combined_with_a_configuration_without_plugins() {
    check_run(
        "--config s.yaml --policy-config-file p.json",
        &expect![[r#"
        warning: --policy-config-file is deprecated: use --config, which takes a Policy, too
        warning: 2 pods belong to other schedulers (default/web, default/huge)
        exit status 0
    "#]],
    );
}

#[test]
fn the_profile_has_the_name_of_the_flag() {
    check_run(
        "--scheduler-name own",
        &expect![[r#"
        warning: --scheduler-name is deprecated: use profiles[].schedulerName in a KubeSchedulerConfiguration
        warning: 2 pods belong to other schedulers (default/web, default/huge)
        exit status 0
    "#]],
    );
    check_run(
        "--scheduler-name own --config p.json",
        &expect![[r#"
        warning: --scheduler-name is deprecated: use profiles[].schedulerName in a KubeSchedulerConfiguration
        warning: 2 pods belong to other schedulers (default/web, default/huge)
        exit status 0
    "#]],
    );
    check_run(
        "--scheduler-name default-scheduler --config s.yaml",
        &expect![[r#"
        warning: --scheduler-name is deprecated: use profiles[].schedulerName in a KubeSchedulerConfiguration
        warning: --scheduler-name has no effect: the configuration names its profiles
        warning: 2 pods belong to other schedulers (default/web, default/huge)
        exit status 0
    "#]],
    );
}

#[test]
fn a_provider_decides_if_there_is_no_policy() {
    let node = "apiVersion: v1\nkind: Node\nmetadata: {name: n3}\n\
                status: {allocatable: {cpu: '4', memory: 8Gi, pods: '10'}}\n";
    let files = [FILES[0], ("n3.yaml", node)];
    let is_scored_by = |plugin: &str, flags: &str| {
        let line = format!("explain -o json -f c.yaml n3.yaml --pod web {flags}");
        let record: Value =
            serde_json::from_str(&run(&files, &line).out).expect("a line is a record");
        !record["nodes"][0]["scores"][plugin].is_null()
    };
    // Since 1.22 one plugin replaces the score plugins of the providers.
    assert!(is_scored_by("NodeResourcesFit", ""));
    assert!(!is_scored_by("NodeResourcesFit", "--algorithm-provider DefaultProvider"));
    assert!(is_scored_by("TaintToleration", "--algorithm-provider ClusterAutoscalerProvider"));
    check_run(
        "--algorithm-provider DefaultProvider --config p.json",
        &expect![[r#"
        warning: --algorithm-provider is deprecated: use --config, which enables plugins
        warning: --algorithm-provider has no effect: a Policy takes precedence
        {"pod":"default/web","result":"scheduled","node":"n1","best":["n1"]}
        {"pod":"default/huge","result":"unschedulable","message":"0/2 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu. preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."}
        exit status 0
    "#]],
    );
    let named =
        run(&FILES, "simulate -f c.yaml --algorithm-provider DefaultProvider --config s.yaml");
    assert!(named.out.contains("2 pods belong to other schedulers"), "{}", named.out);
    assert_eq!(named.status, 0, "{}", named.err);
}

#[test]
fn an_unknown_provider_is_an_error() {
    check_wrong(
        "--algorithm-provider OtherProvider",
        &expect![[r#"
        warning: --algorithm-provider is deprecated: use --config, which enables plugins
        error: algorithm provider "OtherProvider" is not registered: write DefaultProvider or ClusterAutoscalerProvider
    "#]],
    );
    let configured = "\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {score: {disabled: [{name: ImageLocality}]}}
";
    let files = [FILES[0], ("plugins.yaml", configured)];
    let line = "simulate -f c.yaml --config plugins.yaml --algorithm-provider DefaultProvider";
    check_refused(
        &files,
        line,
        &expect![[r#"
        warning: --algorithm-provider is deprecated: use --config, which enables plugins
        error: plugins.yaml:4: profiles[0].plugins: cannot be combined with an algorithm provider: leave out --algorithm-provider, and enable its plugins here
    "#]],
    );
}

#[test]
fn flags_without_effect_are_warned_of() {
    check_run(
        "--address 0.0.0.0 --port 0 --lock-object-name a --lock-object-namespace b --failure-domains a,b",
        &expect![[r#"
            warning: --lock-object-namespace is deprecated: it has no effect; use leaderElection in a KubeSchedulerConfiguration
            warning: --lock-object-name is deprecated: it has no effect; use leaderElection in a KubeSchedulerConfiguration
            warning: --address is deprecated: it has no effect; `plimsoll run` takes --bind-address and --secure-port
            warning: --port is deprecated: it has no effect; `plimsoll run` takes --bind-address and --secure-port
            warning: --failure-domains is deprecated: it has no effect; use the topologyKey of each term
            {"pod":"default/web","result":"scheduled","node":"n1","best":["n1"]}
            {"pod":"default/huge","result":"unschedulable","message":"0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s). no new claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."}
            exit status 0
        "#]],
    );
    check_run(
        "--hard-pod-affinity-symmetric-weight 5 --config p.json",
        &expect![[r#"
        warning: --hard-pod-affinity-symmetric-weight is deprecated: use hardPodAffinityWeight in the args of InterPodAffinity
        warning: --hard-pod-affinity-symmetric-weight has no effect: write hardPodAffinitySymmetricWeight in the Policy
        {"pod":"default/web","result":"scheduled","node":"n1","best":["n1"]}
        {"pod":"default/huge","result":"unschedulable","message":"0/2 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu. preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."}
        exit status 0
    "#]],
    );
    check_run(
        "--hard-pod-affinity-symmetric-weight 5 --config s.yaml",
        &expect![[r#"
        warning: --hard-pod-affinity-symmetric-weight is deprecated: use hardPodAffinityWeight in the args of InterPodAffinity
        warning: --hard-pod-affinity-symmetric-weight has no effect: write the args of InterPodAffinity in the configuration
        warning: 2 pods belong to other schedulers (default/web, default/huge)
        exit status 0
    "#]],
    );
}

#[test]
fn the_weight_of_hard_affinity_counts_without_a_file() {
    let cluster = "\
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: a, labels: {zone: a}}, status: {allocatable: {cpu: '9', memory: 8Gi, pods: '10'}}}
- {apiVersion: v1, kind: Node, metadata: {name: b, labels: {zone: b}}, status: {allocatable: {cpu: '9', memory: 8Gi, pods: '10'}}}
- apiVersion: v1
  kind: Pod
  metadata: {name: here, labels: {app: web}}
  spec:
    nodeName: b
    containers: [{name: c}]
    affinity:
      podAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
        - {topologyKey: zone, labelSelector: {matchLabels: {app: web}}}
- {apiVersion: v1, kind: Pod, metadata: {name: next, labels: {app: web}}, spec: {containers: [{name: c}]}}
";
    let score = |flags: &str| {
        let line = format!("explain -o json -f c.yaml --pod next {flags}");
        let answer = run(&[("c.yaml", cluster)], &line);
        let record: Value = serde_json::from_str(&answer.out).expect("it is JSON");
        record["nodes"][1]["scores"]["InterPodAffinity"].clone()
    };
    assert_eq!(score("--hard-pod-affinity-symmetric-weight 1"), score(""));
    assert_ne!(score("--hard-pod-affinity-symmetric-weight 0"), score(""));
}

#[test]
fn a_missing_config_map_is_an_error() {
    check_wrong(
        "--policy-configmap policy",
        &expect![[r#"
        warning: --policy-configmap is deprecated: use --config with the manifest of the ConfigMap
        error: couldn't get policy config map kube-system/policy: it is not in the files; add its manifest
    "#]],
    );
    check_wrong(
        "-f map.yaml --policy-configmap policy --policy-configmap-namespace default",
        &expect![[r#"
            warning: --policy-configmap is deprecated: use --config with the manifest of the ConfigMap
            warning: --policy-configmap-namespace is deprecated: use --config with the manifest of the ConfigMap
            error: couldn't get policy config map default/policy: it is not in the files; there is ConfigMap kube-system/policy, which --policy-configmap-namespace can choose
        "#]],
    );
    check_wrong(
        "--policy-config-file missing.json",
        &expect![[r#"
        warning: --policy-config-file is deprecated: use --config, which takes a Policy, too
        error: missing.json: cannot be read: No such file or directory (os error 2)
    "#]],
    );
}

#[test]
fn two_sources_that_exclude_each_other_are_an_error() {
    check_wrong(
        "--config p.json --policy-config-file p.json",
        &expect![[r#"
        warning: --policy-config-file is deprecated: use --config, which takes a Policy, too
        error: p.json: holds a Policy already: leave out --config, or the flag that names another
    "#]],
    );
    check_wrong(
        "--policy-config-file s.yaml",
        &expect![[r#"
            warning: --policy-config-file is deprecated: use --config, which takes a Policy, too
            error: s.yaml:2: kind: is "KubeSchedulerConfiguration": expected `kind: Policy`; a KubeSchedulerConfiguration is given with --config
        "#]],
    );
    let configured = "\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig: [{name: InterPodAffinity}]
";
    let files = [FILES[0], FILES[1], ("plugins.yaml", configured)];
    let line = "simulate -f c.yaml --config plugins.yaml --policy-config-file p.json";
    check_refused(
        &files,
        line,
        &expect![[r#"
        warning: --policy-config-file is deprecated: use --config, which takes a Policy, too
        error: plugins.yaml:4: profiles[0].pluginConfig: cannot set a Plugin config and Policy config: keep one profile here, without plugins and args, or leave out the flag that names a Policy
    "#]],
    );
}

#[test]
fn old_flags_have_their_values() {
    for flags in [
        "--use-legacy-policy-config",
        "--hard-pod-affinity-symmetric-weight 101",
        "--hard-pod-affinity-symmetric-weight x",
        "--port much",
        "--use-legacy-policy-config=perhaps",
    ] {
        let answer = run(&FILES, &format!("simulate -f c.yaml {flags}"));
        assert_eq!((answer.status, answer.out.as_str()), (2, ""), "{flags}");
    }
}

#[test]
fn standard_input_can_be_used_only_once() {
    check_wrong(
        "--config - --policy-config-file -",
        &expect![[r#"
        error: standard input can hold the cluster or the configuration, not both
    "#]],
    );
}

#[test]
fn old_flags_are_only_in_the_long_help() {
    let long = run(&[], "simulate --help").out;
    assert!(long.contains("Deprecated:") && long.contains("--policy-config-file"), "{long}");
    let short = run(&[], "simulate -h").out;
    assert!(!short.contains("--policy-config-file"), "{short}");
}

#[test]
fn errors_in_the_policy_of_a_config_map_have_its_line() {
    let map = CONFIG_MAP.replace("predicates: []", "predicates: [{name: HostNam}]");
    let files = [FILES[0], ("map.yaml", map.as_str())];
    check_refused(
        &files,
        "simulate -f c.yaml map.yaml --policy-configmap policy",
        &expect![[r#"
            warning: --policy-configmap is deprecated: use --config with the manifest of the ConfigMap
            error: map.yaml:5: data[policy.cfg]:3: predicates[0].name: predicate type not found for "HostNam": did you mean "HostName"?
        "#]],
    );
}

#[test]
fn the_environment_sets_the_disk_limit() {
    let disk = |name: &str, spec: &str| {
        format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  {spec}\n  containers: \
             [{{name: c}}]\n  volumes: [{{name: v, awsElasticBlockStore: {{volumeID: {name}}}}}]\n"
        )
    };
    let node = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n\
                status: {allocatable: {cpu: '9', memory: 8Gi, pods: '10'}}\n";
    let cluster = node.to_owned() + &disk("there", "nodeName: n1") + &disk("next", "priority: 0");
    let policy = "{kind: Policy, apiVersion: v1, predicates: [{name: MaxEBSVolumeCount}]}";
    let files = [("c.yaml", cluster.as_str()), ("p.yaml", policy)];
    let told = |limit: &str| {
        let line = "explain -f c.yaml --pod next --config p.yaml";
        let answer = run_where(&[("KUBE_MAX_PD_VOLS", limit)], &files, line);
        format!("{}{}", answer.err, answer.out.lines().last().unwrap_or_default())
    };
    expect!["FailedScheduling: 0/1 nodes are available: 1 node(s) exceed max volume count. preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."].assert_eq(&told("1"));
    expect!["Scheduled: Successfully assigned default/next to n1"].assert_eq(&told("2"));
    expect![[r#"
        warning: environment variable KUBE_MAX_PD_VOLS is "many", not a positive number: the default limits apply
        Scheduled: Successfully assigned default/next to n1"#]].assert_eq(&told("many"));
}

const NAMES_A_CONFIG_MAP: &str = "\
apiVersion: kubescheduler.config.k8s.io/v1alpha1
kind: KubeSchedulerConfiguration
algorithmSource: {policy: {configMap: {name: policy}}}
";

#[test]
fn a_configuration_of_v1alpha1_names_a_config_map_as_the_flag_does() {
    let files = [FILES[0], FILES[2], ("old.yaml", NAMES_A_CONFIG_MAP)];
    check(
        &files,
        "simulate -o json -f c.yaml map.yaml --config old.yaml",
        &expect![[r#"
            {"pod":"default/web","result":"scheduled","node":"n1","best":["n1"]}
            {"pod":"default/huge","result":"scheduled","node":"n1","best":["n1"]}
            exit status 0
        "#]],
    );
    let explained = run(&files, "explain -o json -f c.yaml map.yaml --config old.yaml --pod huge");
    assert_eq!((explained.status, explained.err.as_str()), (0, ""));
    assert!(explained.out.contains("\"node\":\"n1\""), "{}", explained.out);
    for command in ["check", "migrate"] {
        let named = run(&files, &format!("config {command} old.yaml -f map.yaml -o json"));
        assert_eq!(named.status, 0, "{}", named.err);
        let named: Value = serde_json::from_str(&named.out).expect("it is JSON");
        let itself = run(&files, &format!("config {command} map.yaml -o json"));
        let itself: Value = serde_json::from_str(&itself.out).expect("it is JSON");
        for key in ["profiles", "configuration"] {
            assert_eq!(named[key], itself[key], "{command}");
        }
    }
}

#[test]
fn a_missing_config_map_is_an_error_at_the_field_that_names_it() {
    let wrong = |line: &str, old: &str, expected: &Expect| {
        check_refused(&[FILES[0], FILES[2], ("old.yaml", old)], line, expected);
    };
    wrong(
        "explain -f c.yaml --pod web --config old.yaml",
        NAMES_A_CONFIG_MAP,
        &expect![[r#"
            error: old.yaml:3: algorithmSource.policy.configMap.name: couldn't get policy config map kube-system/policy: it is not in the files; add its manifest
        "#]],
    );
    wrong(
        "explain -f c.yaml map.yaml --pod web --config old.yaml",
        &NAMES_A_CONFIG_MAP.replace("name: policy", "name: policy, namespace: default"),
        &expect![[r#"
            error: old.yaml:3: algorithmSource.policy.configMap.name: couldn't get policy config map default/policy: it is not in the files; there is ConfigMap kube-system/policy, which algorithmSource.policy.configMap.namespace can choose
        "#]],
    );
    wrong(
        "config check old.yaml",
        NAMES_A_CONFIG_MAP,
        &expect![[r#"
            error: old.yaml:3: algorithmSource.policy.configMap.name: couldn't get policy config map kube-system/policy: it is not in the files; add its manifest
        "#]],
    );
}
