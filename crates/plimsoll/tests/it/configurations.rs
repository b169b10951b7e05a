//! Valid and invalid configurations.

use expect_test::{Expect, expect};
use serde_json::Value;

use crate::manifests::CLUSTER;
use crate::run::{check_refused, records, run};

const HEAD: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";

/// Checks the errors in a configuration whose fields after apiVersion and kind are `text`.
fn check_wrong(text: &str, expected: &Expect) {
    let file = format!("{HEAD}{text}");
    check_refused(&[("s.yaml", &file)], "config check s.yaml", expected);
}

/// The warnings, and the plugins of the first profile at Score.
fn scores(text: &str) -> String {
    let file = format!("{HEAD}{text}");
    let answer = run(&[("s.yaml", &file)], "config check s.yaml -o json");
    assert_eq!(answer.status, 0, "{}", answer.err);
    let resolved: Value = serde_json::from_str(&answer.out).expect("it is JSON");
    let scores = resolved["profiles"][0]["points"]["score"].as_array().expect("a list").iter();
    let scores = scores.map(|plugin| {
        format!("{}={}\n", plugin["name"].as_str().expect("a name"), plugin["weight"])
    });
    answer.err + &scores.collect::<String>()
}

#[test]
fn a_plugin_that_does_not_exist_is_refused() {
    check_wrong(
        "profiles:\n- plugins:\n    score:\n      enabled:\n      - {name: NodeAfinity}\n",
        &expect![[r#"
            error: s.yaml:7: profiles[0].plugins.score.enabled[0].name: ScorePlugin "NodeAfinity" does not exist
        "#]],
    );
}

#[test]
fn two_profiles_of_one_name_are_refused() {
    check_wrong(
        "profiles:\n- schedulerName: a\n- schedulerName: a\n",
        &expect![[r#"
            error: s.yaml:5: profiles[1].schedulerName: Duplicate value: profiles[0].schedulerName
        "#]],
    );
}

#[test]
fn a_misspelt_field_of_args_is_refused() {
    check_wrong(
        "profiles:\n- pluginConfig:\n  - name: NodeResourcesFit\n    args:\n      scoringStrateggy: {}\n",
        &expect![[r#"
            error: s.yaml:7: profiles[0].pluginConfig[0].args.scoringStrateggy: unknown field `scoringStrateggy`, expected one of `apiVersion`, `kind`, `ignoredResources`, `ignoredResourceGroups`, `scoringStrategy`, `rejectOvercommittedNodes`
        "#]],
    );
}

#[test]
fn args_for_a_plugin_that_takes_none_are_refused() {
    check_wrong(
        "profiles:\n- pluginConfig:\n  - name: ImageLocality\n    args:\n      threshold: 5\n",
        &expect![[r#"
            error: s.yaml:7: profiles[0].pluginConfig[0].args.threshold: unknown field `threshold`, there are no fields
        "#]],
    );
}

#[test]
fn a_file_that_is_not_a_configuration_is_refused() {
    check_refused(
        &[("s.yaml", "kind: Pod\n")],
        "config check s.yaml",
        &expect![[r#"
            error: s.yaml:1: apiVersion: Object 'apiVersion' is missing: write `apiVersion: kubescheduler.config.k8s.io/v1`
        "#]],
    );
    check_refused(
        &[],
        "config check s.yaml",
        &expect![[r#"
            error: s.yaml: cannot be read: No such file or directory (os error 2)
        "#]],
    );
    check_refused(
        &[("a.yaml", CLUSTER)],
        "simulate -f a.yaml --config none.yaml",
        &expect![[r#"
            error: none.yaml: cannot be read: No such file or directory (os error 2)
        "#]],
    );
}

#[test]
fn weights_multiply_scores_and_no_weight_is_one() {
    let weighing = |weight: &str| {
        format!(
            "profiles:\n- plugins:\n    score:\n      disabled: [{{name: '*'}}]\n      enabled:\n      \
             - {{name: ImageLocality, weight: {weight}}}\n"
        )
    };
    expect![[r#"
        ImageLocality=1
    "#]]
    .assert_eq(&scores(&weighing("0")));
    expect![[r#"
        ImageLocality=1000000
    "#]]
    .assert_eq(&scores(&weighing("1000000")));
    check_wrong(
        &weighing("100000000000"),
        &expect![[r#"
            error: s.yaml:8: profiles[0].plugins.score.enabled[0].weight: invalid value: integer `100000000000`, expected i32
        "#]],
    );
}

#[test]
fn what_has_no_effect_is_warned_of() {
    let text = "\
profiles:
- plugins:
    permit:
      enabled: [{name: GangScheduling}]
    filter:
      disabled: [{name: '*'}, {name: NoSuchPlugin}]
    score:
      disabled: [{name: '*'}]
      enabled: [{name: NodeResourcesFit, weight: 4}]
extenders: [{urlPrefix: 'http://localhost', filterVerb: filter}]
";
    expect![[r#"
        warning: s.yaml:8: profiles[0].plugins.filter.disabled[1].name: plugin "NoSuchPlugin" does not exist: disabling it has no effect
        warning: s.yaml:12: extenders: only `plimsoll run` calls extenders: here they have no effect
        NodeResourcesFit=4
    "#]].assert_eq(&scores(text));
}

#[test]
fn a_profile_is_shown_by_extension_point() {
    let text = "\
profiles:
- schedulerName: packing
  percentageOfNodesToScore: 0
  plugins:
    multiPoint:
      disabled: [{name: '*'}]
      enabled:
      - {name: PrioritySort}
      - {name: NodeResourcesFit, weight: 7}
      - {name: DefaultBinder}
";
    let file = format!("{HEAD}{text}");
    let answer = run(&[("s.yaml", &file)], "config check s.yaml");
    expect![[r#"
        profile packing: looks at a share of the nodes that adapts to their number
          POINT      PLUGINS
          queueSort  PrioritySort
          preFilter  NodeResourcesFit
          filter     NodeResourcesFit
          preScore   NodeResourcesFit
          score      NodeResourcesFit=7
          bind       DefaultBinder

        A pod that failed waits 1 s before it is tried again, and 10 s at most.
    "#]]
    .assert_eq(&answer.out);
}

#[test]
fn a_configuration_decides_which_pods_are_placed_and_how() {
    let file = format!(
        "{HEAD}profiles:\n- schedulerName: mine\n  pluginConfig:\n  - name: NodeResourcesFit\n    args:\n      \
         scoringStrategy: {{type: MostAllocated, resources: [{{name: cpu, weight: 1}}]}}\n"
    );
    let mine = CLUSTER.replace("spec: {", "spec: {schedulerName: mine, ");
    let files: &[(&str, &str)] = &[("s.yaml", &file), ("a.yaml", &mine), ("b.yaml", CLUSTER)];
    let packed = records(files, "simulate -f a.yaml --config s.yaml -o json");
    assert_eq!([&packed[0]["node"], &packed[1]["node"]], ["n1", "n1"]);
    let others = run(files, "simulate -f b.yaml --config s.yaml -o json");
    expect![[r#"
        warning: 2 pods belong to other schedulers (default/p1, shop/p2)
    "#]]
    .assert_eq(&others.err);
    assert_eq!((others.out.as_str(), others.status), ("", 0));
}

#[test]
fn parallelism_changes_no_byte() {
    let with = |parallelism: u32| {
        let file = format!("{HEAD}parallelism: {parallelism}\n");
        let files: &[(&str, &str)] = &[("s.yaml", &file), ("a.yaml", CLUSTER)];
        run(files, "simulate -f a.yaml --config s.yaml -o json --explain --tie-break random")
    };
    assert_eq!(with(1).status, 0);
    assert_eq!(with(1), with(16));
}

const OLD: &str = "\
apiVersion: kubescheduler.config.k8s.io/v1beta2
kind: KubeSchedulerConfiguration
metricsBindAddress: 0.0.0.0:10251
profiles:
- plugins:
    score:
      disabled: [{name: ImageLocality}]
      enabled: [{name: NodeResourcesFit, weight: 5}]
";

#[test]
fn an_old_configuration_and_its_migration_decide_the_same() {
    let migrated = run(&[("old.yaml", OLD)], "config migrate old.yaml");
    assert_eq!(migrated.status, 0, "{}", migrated.err);
    let files = [("a.yaml", CLUSTER), ("old.yaml", OLD), ("new.yaml", &migrated.out)];
    let with =
        |config: &str| records(&files, &format!("simulate -f a.yaml --explain -o json {config}"));
    assert_eq!(with("--config old.yaml"), with("--config new.yaml"));
    assert_ne!(with("--config old.yaml"), with(""), "the weights are those of v1beta2");
}

#[test]
fn an_algorithm_provider_is_checked_and_migrated_in_place_of_a_file() {
    let line = "--algorithm-provider ClusterAutoscalerProvider";
    let migrated = run(&[], &format!("config migrate {line}"));
    assert_eq!(migrated.status, 0, "{}", migrated.err);
    let checked = run(&[], &format!("config check {line}")).out;
    let again = run(&[("new.yaml", &migrated.out)], "config check new.yaml").out;
    let score = |out: &str| {
        let line = out.lines().find(|line| line.starts_with("  score"));
        line.expect("a profile scores").to_owned()
    };
    assert!(score(&checked).contains("NodeResourcesMostAllocated=1"), "{checked}");
    assert_eq!(score(&again), score(&checked));
    check_refused(
        &[],
        "config migrate --algorithm-provider Other",
        &expect![[r#"
        error: algorithm provider "Other" is not registered: write DefaultProvider or ClusterAutoscalerProvider
    "#]],
    );
    for line in ["config migrate", "config check s.yaml --algorithm-provider DefaultProvider"] {
        assert_eq!(run(&[("s.yaml", "")], line).status, 2, "{line}");
    }
}

#[test]
fn a_check_names_what_kube_scheduler_would_refuse() {
    let text = format!(
        "{HEAD}profiles:\n- plugins: {{score: {{enabled: [{{name: SelectorSpread}}]}}}}\n  pluginConfig:\n  \
         - {{name: NodeResourcesFit, args: {{rejectOvercommittedNodes: true}}}}\n"
    );
    let out = run(&[("s.yaml", &text)], "config check s.yaml").out;
    let told: Vec<_> = out.lines().skip_while(|line| !line.starts_with("not for")).collect();
    expect![[r#"
        not for kube-scheduler 1.36, which refuses it
        - profile default-scheduler: keeps SelectorSpread, which kube-scheduler 1.36 does not know; for kube-scheduler, disable it: PodTopologySpread with `defaultingType: System` spreads the pods of services over nodes and zones, too, with other scores
        - profile default-scheduler: keeps `rejectOvercommittedNodes` in the args of NodeResourcesFit, which kube-scheduler 1.36 does not know: a node whose pods request more than it has takes only pods that request nothing, as up to 1.22; for kube-scheduler, remove it: pods that do not request what is short may then go to such nodes"#]].assert_eq(&told.join("\n"));
    let out = run(&[("s.yaml", HEAD)], "config check s.yaml").out;
    assert!(!out.contains("not for"), "{out}");
}

#[test]
fn a_check_of_an_old_configuration_says_what_changes_in_v1() {
    let answer = run(&[("s.yaml", OLD)], "config check s.yaml -o json");
    let resolved: Value = serde_json::from_str(&answer.out).expect("it is JSON");
    assert_eq!(resolved["form"], "v1beta2");
    let notes = resolved["notes"].as_array().expect("there are notes");
    assert_eq!(notes[0]["subject"], "s.yaml:3: metricsBindAddress");
    let migrated = run(&[("s.yaml", OLD)], "config migrate s.yaml -o json");
    let migrated: Value = serde_json::from_str(&migrated.out).expect("it is JSON");
    assert_eq!(migrated["notes"], resolved["notes"]);
    assert_eq!(migrated["configuration"]["profiles"][0]["schedulerName"], "default-scheduler");
    let table = run(&[("s.yaml", OLD)], "config check s.yaml").out;
    assert!(table.contains("\nfrom v1beta2 to v1 (`plimsoll config migrate` writes the file)\n"));
    assert!(table.contains("\n- s.yaml:3: metricsBindAddress: is dropped"), "{table}");
}

#[test]
fn errors_in_an_old_configuration_have_its_fields() {
    let file = "apiVersion: componentconfig/v1alpha1\nkind: KubeSchedulerConfiguration\n\
                plugins:\n  score: {enabled: [{name: NodeLabel}]}\n\
                pluginConfig:\n- name: NodeLabel\n  args: {presentLabel: [a]}\n";
    check_refused(
        &[("s.yaml", file)],
        "config migrate s.yaml",
        &expect![[r#"
            error: s.yaml:7: pluginConfig[0].args.presentLabel: unknown field `presentLabel`, expected one of `presentLabels`, `absentLabels`, `presentLabelsPreference`, `absentLabelsPreference`
        "#]],
    );
}

#[test]
fn resources_that_only_extenders_manage_need_not_fit() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, \
               resources: {limits: {example.com/gpu: 1}}}]}\n";
    let node = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n\
                status: {allocatable: {cpu: 1, memory: 1Gi, pods: 9}}\n";
    let outcome = |ignored: bool| {
        let config = format!(
            "{HEAD}extenders:\n- urlPrefix: http://localhost\n  filterVerb: filter\n  \
             managedResources: [{{name: example.com/gpu, ignoredByScheduler: {ignored}}}]\n"
        );
        let files = [("s.yaml", config.as_str()), ("pod.yaml", pod), ("node.yaml", node)];
        let answer = run(&files, "simulate --config s.yaml -f pod.yaml -f node.yaml");
        assert!(answer.err.contains("only `plimsoll run` calls extenders"), "{}", answer.err);
        answer.out
    };
    assert!(outcome(false).contains("Insufficient example.com/gpu"), "{}", outcome(false));
    assert!(!outcome(true).contains("Insufficient"), "{}", outcome(true));
}
