//! The scale of 10: how releases before 1.17 filtered and ranked nodes.

use expect_test::expect;
use serde_json::Value;

use crate::run::{Answer, check, records, run};

/// A node of 4 CPUs and 8 GiB with these additional fields.
fn node(name: &str, labels: &str, spec: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Node\nmetadata: {{name: {name}, labels: {{{labels}}}}}\n\
         spec: {{{spec}}}\nstatus: {{allocatable: {{cpu: '4', memory: 8Gi, pods: '20'}}}}\n"
    )
}

/// A pod of the service `web` that requests `cpu` CPUs.
fn pod(name: &str, cpu: &str, spec: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, labels: {{app: web}}}}\n\
         spec:\n  containers: [{{name: c, resources: {{requests: {{cpu: {cpu}}}}}}}]\n  {spec}\n"
    )
}

const SERVICE: &str = "---\napiVersion: v1\nkind: Service\nmetadata: {name: web}\n\
                       spec: {selector: {app: web}}\n";

/// `n` pods with different names on a node.
fn pods_on(node: &str, n: usize) -> String {
    (0..n).map(|i| pod(&format!("{node}-{i}"), "10m", &format!("nodeName: {node}"))).collect()
}

#[test]
fn nodes_with_three_five_and_ten_pods_of_a_service_get_seven_five_and_no_points() {
    let nodes = ["a", "b", "c"].map(|name| node(name, "", "")).concat();
    let pods = pods_on("a", 3) + &pods_on("b", 5) + &pods_on("c", 10);
    let all = nodes + SERVICE + &pods + &pod("p", "10m", "");
    let record = records(&[("all.yaml", &all)], "explain -f all.yaml --pod p --scale 10 -o json");
    let nodes = record[0]["scale10"]["nodes"].as_array().expect("there are nodes").iter();
    let spread: Vec<String> = nodes
        .map(|node| {
            let priorities = node["priorities"].as_array().expect("it is feasible");
            let spread = priorities.iter().find(|one| one["name"] == "SelectorSpreadPriority");
            let spread = spread.expect("it is a default priority");
            format!("{} {} {}", node["name"], spread["raw"], spread["points"])
        })
        .collect();
    assert_eq!(spread, [r#""a" 3 7"#, r#""b" 5 5"#, r#""c" 10 0"#]);
}

#[test]
fn predicates_report_all_reasons_in_their_old_order() {
    let taint = "taints: [{key: gpu, effect: NoSchedule}]";
    let all = node("a", "", taint) + &node("b", "", "unschedulable: true") + &node("c", "", "");
    let all = all + &pod("p", "'5'", "nodeSelector: {disk: ssd}");
    check(
        &[("all.yaml", &all)],
        "explain -f all.yaml --pod p --scale 10",
        &expect![[r#"
        default/p fits 0 of 3 nodes.

        REJECTED  BY PREDICATE            REASON                                             NODES
               1  CheckNodeUnschedulable  node(s) were unschedulable                         b
               3  GeneralPredicates       Insufficient cpu                                   a, b, c
               3  GeneralPredicates       node(s) didn't match Pod's node affinity/selector  a, b, c
               1  PodToleratesNodeTaints  node(s) had untolerated taint(s)                   a

        FailedScheduling: 0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable. no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.
        exit status 0
    "#]],
    );
    check(
        &[("all.yaml", &all)],
        "explain -f all.yaml --pod p --scale 10 -o json",
        &expect![[r#"
            {"pod":"default/p","result":"unschedulable","message":"0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable. no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.","nodes":[{"name":"a","filter":{"plugin":"TaintToleration","code":"UnschedulableAndUnresolvable","reasons":["node(s) had untolerated taint(s)"]}},{"name":"b","filter":{"plugin":"NodeUnschedulable","code":"UnschedulableAndUnresolvable","reasons":["node(s) were unschedulable"]}},{"name":"c","filter":{"plugin":"NodeAffinity","code":"UnschedulableAndUnresolvable","reasons":["node(s) didn't match Pod's node affinity/selector"]}}],"scale10":{"nodes":[{"name":"a","predicates":[{"name":"GeneralPredicates","reasons":["Insufficient cpu","node(s) didn't match Pod's node affinity/selector"]},{"name":"PodToleratesNodeTaints","reasons":["node(s) had untolerated taint(s)"]}]},{"name":"b","predicates":[{"name":"CheckNodeUnschedulable","reasons":["node(s) were unschedulable"]},{"name":"GeneralPredicates","reasons":["Insufficient cpu","node(s) didn't match Pod's node affinity/selector"]}]},{"name":"c","predicates":[{"name":"GeneralPredicates","reasons":["Insufficient cpu","node(s) didn't match Pod's node affinity/selector"]}]}]}}
            exit status 0
        "#]],
    );
}

#[test]
fn a_pod_that_is_rejected_for_all_nodes_at_once_fails_on_each() {
    let conflict = "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: \
                    {nodeSelectorTerms: [{matchFields: [\
                    {key: metadata.name, operator: In, values: [a]}, \
                    {key: metadata.name, operator: In, values: [b]}]}]}}}";
    let all = node("a", "", "") + &node("b", "", "") + &pod("p", "'1'", conflict);
    check(
        &[("all.yaml", &all)],
        "explain -f all.yaml --pod p --scale 10",
        &expect![[r#"
        default/p fits no node: NodeAffinity rejects it for all nodes: pod affinity terms conflict.

        REJECTED  BY PREDICATE       REASON                       NODES
               2  GeneralPredicates  pod affinity terms conflict  a, b

        FailedScheduling: postfilter error: not found
        exit status 0
    "#]],
    );
}

#[test]
fn a_configuration_is_mapped_back_to_priorities_with_its_weights() {
    let config = "
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    score:
      disabled: [{name: '*'}]
      enabled: [{name: NodeResourcesFit, weight: 5}, {name: VolumeBinding}, {name: PodTopologySpread}]
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated}}
  - name: PodTopologySpread
    args: {defaultingType: List}
";
    let spread = "topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, \
                  whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: web}}}]";
    let all = node("a", "zone: z1", "") + &node("b", "zone: z2", "");
    let all = all + &pod("old", "'2'", "nodeName: a") + &pod("p", "'1'", spread);
    check(
        &[("all.yaml", &all), ("config.yaml", config)],
        "explain -f all.yaml --config config.yaml --pod p --scale 10",
        &expect![[r#"
            default/p fits 2 of 2 nodes and goes to a, as good as b and first by name.
            On the scale of 100 it is a, too.

               NODE  TOTAL  MostRequestedPriority ×5  EvenPodsSpreadPriority
            →  a        15                     3 → 3                   1 → 0
            →  b        15                     1 → 1                  0 → 10
            raw value → points; the total is the sum of points ×weight
            Score plugins that have no priority and are ignored: VolumeBinding

            Scheduled: Successfully assigned default/p to a
            exit status 0
        "#]],
    );
}

#[test]
fn plugins_of_policies_are_the_priorities_of_their_arguments() {
    let config = "
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    score:
      disabled: [{name: '*'}]
      enabled:
      - {name: NodeLabel, weight: 4}
      - {name: ServiceAffinity, weight: 2}
      - {name: SelectorSpread, weight: 1}
      - {name: NodePreferAvoidPods, weight: 10000}
  pluginConfig:
  - name: NodeLabel
    args: {presentLabelsPreference: [ssd], absentLabelsPreference: [retiring]}
  - name: ServiceAffinity
    args: {antiAffinityLabelsPreference: [rack]}
";
    let nodes = node("a", "rack: r1, ssd: '', retiring: ''", "")
        + &node("b", "rack: r1", "")
        + &node("c", "rack: r2, ssd: ''", "");
    let all = nodes + SERVICE + &pods_on("a", 2) + &pods_on("c", 1) + &pod("p", "'1'", "");
    check(
        &[("all.yaml", &all), ("config.yaml", config)],
        "explain -f all.yaml --config config.yaml --pod p --scale 10",
        &expect![[r#"
            default/p fits 3 of 3 nodes and goes to c, the best.
            On the scale of 100 it is c, too.

               NODE   TOTAL  NodeLabelPriority(ssd) ×2  NodeLabelPriority(!retiring) ×2  ServiceAntiAffinityPriority(rack) ×2  SelectorSpreadPriority
            →  c     100057                    10 → 10                          10 → 10                                 1 → 6                   1 → 5
               b     100036                      0 → 0                          10 → 10                                 0 → 3                  0 → 10
               a     100026                    10 → 10                            0 → 0                                 2 → 3                   2 → 0
            Each node got the same from NodePreferAvoidPodsPriority ×10000 10 → 10
            raw value → points; the total is the sum of points ×weight

            Scheduled: Successfully assigned default/p to c
            exit status 0
        "#]],
    );
}

#[test]
fn the_priorities_of_a_policy_are_shown_under_its_names() {
    let policy = "
kind: Policy
apiVersion: v1
priorities:
- {name: ServiceSpreadingPriority, weight: 2}
- {name: EqualPriority, weight: 1}
- {name: LikesSsd, weight: 4, argument: {labelPreference: {label: ssd, presence: true}}}
- {name: RackSpread, weight: 3, argument: {serviceAntiAffinity: {label: rack}}}
";
    let nodes = node("a", "rack: r1, ssd: ''", "") + &node("b", "rack: r1", "");
    let all = nodes + SERVICE + &pods_on("a", 2) + &pod("p", "'1'", "");
    for line in [
        "explain -f all.yaml --pod p --scale 10 --config policy.yaml",
        "explain -f all.yaml --pod p --scale 10 --config old.yaml",
    ] {
        let old = "apiVersion: componentconfig/v1alpha1\nkind: KubeSchedulerConfiguration\n\
                   algorithmSource: {policy: {file: {path: policy.yaml}}}\n";
        check(
            &[("all.yaml", &all), ("policy.yaml", policy), ("old.yaml", old)],
            line,
            &expect![[r#"
                default/p fits 2 of 2 nodes and goes to a, the best.
                On the scale of 100 it is a, too.

                   NODE  TOTAL  ServiceSpreadingPriority ×2  LikesSsd ×4   RackSpread ×3
                →  a        41                        2 → 0      10 → 10           2 → 0
                   b        21                       0 → 10        0 → 0           0 → 0
                Each node got the same from EqualPriority 1 → 1
                raw value → points; the total is the sum of points ×weight

                Scheduled: Successfully assigned default/p to a
                exit status 0
            "#]],
        );
    }
}

#[test]
fn equally_good_nodes_on_both_scales_are_no_difference() {
    let all = node("a", "", "") + &node("b", "", "") + &pod("p", "'1'", "");
    let Answer { out, .. } = run(&[("all.yaml", &all)], "explain -f all.yaml --pod p --scale 10");
    let told = out.lines().nth(1).expect("there is a second line");
    assert_eq!(told, "On the scale of 100 it is a, too.");
    let record = records(&[("all.yaml", &all)], "explain -f all.yaml --pod p --scale 10 -o json");
    assert_eq!(record[0]["scale10"]["best"], Value::from(vec!["a", "b"]));
    assert_eq!(record[0]["scale10"]["sameNode"], true);
}

#[test]
fn a_pod_that_a_gate_keeps_out_is_not_ranked() {
    let all = node("a", "", "") + &pod("p", "'1'", "schedulingGates: [{name: wait}]");
    let files = [("all.yaml", all.as_str())];
    for format in ["", " -o json"] {
        let line = format!("explain -f all.yaml --pod p{format}");
        assert_eq!(run(&files, &format!("{line} --scale 10")), run(&files, &line));
    }
}

#[test]
fn the_scale_of_100_is_the_default() {
    let all = node("a", "", "") + &node("b", "", "") + &pod("p", "'1'", "");
    let files = [("all.yaml", all.as_str())];
    let line = "explain -f all.yaml --pod p";
    assert_eq!(run(&files, &format!("{line} --scale 100")), run(&files, line));
}

#[test]
fn another_scale_is_refused_with_the_possible_ones() {
    let Answer { status, err, out } = run(&[], "explain -f all.yaml --pod p --scale 7");
    assert_eq!((status, out.as_str()), (2, ""));
    expect![[r#"
        error: invalid value '7' for '--scale <MOST>'
          [possible values: 10, 100]

        For more information, try '--help'.
    "#]]
    .assert_eq(&err);
}
