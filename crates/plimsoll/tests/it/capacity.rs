//! `plimsoll capacity` on files.

use expect_test::expect;
use serde_json::{Value, json};

use crate::run::{check_refused, records, run};

/// Two nodes that are partly used.
const CLUSTER: &str = "\
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {zone: a}}
status: {allocatable: {cpu: '4', memory: 8Gi, pods: '10'}}
---
apiVersion: v1
kind: Node
metadata: {name: n2, labels: {zone: b}}
status: {allocatable: {cpu: '8', memory: 8Gi, pods: '10'}}
---
apiVersion: v1
kind: Pod
metadata: {name: old, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: old-1, uid: o, controller: true}]}
spec: {nodeName: n1, containers: [{name: c, resources: {requests: {cpu: '1'}}}]}
status: {phase: Running}
---
apiVersion: v1
kind: Pod
metadata: {name: waits}
spec: {containers: [{name: c, resources: {requests: {cpu: '2'}}}]}
";

fn pod(name: &str, cpu: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\n\
         spec: {{containers: [{{name: c, resources: {{requests: {{cpu: {cpu}}}}}}}]}}\n"
    )
}

fn answer(files: &[(&str, &str)], line: &str) -> Value {
    let answer = run(files, line);
    assert_eq!((answer.status, answer.err.as_str()), (0, ""));
    serde_json::from_str(&answer.out).expect("it is one document")
}

#[test]
fn as_many_fit_as_simulate_places_and_not_one_more() {
    let worker = pod("w", "900m");
    let files = [("a.yaml", CLUSTER), ("w.yaml", worker.as_str())];
    let answer = answer(&files, "capacity -f a.yaml --pod-file w.yaml -o json");
    let shape = &answer["shapes"][0];
    assert_eq!((&shape["pod"], &shape["fits"]), (&json!("default/w"), &json!(11)));
    assert_eq!(shape["byNode"], json!({"n1": 3, "n2": 8}));
    let message = shape["stoppedBy"].as_str().expect("something stops it");
    assert!(message.starts_with("0/2 nodes are available: 2 Insufficient cpu."), "{message}");
    let without_waiting = CLUSTER.split("---\n").take(3).collect::<Vec<_>>().join("---\n");
    for (n, placed) in [(11, 11), (12, 11)] {
        let workers: Vec<_> = (0..n).map(|number| pod(&format!("w{number}"), "900m")).collect();
        let all = format!("{without_waiting}---\n{}", workers.join("---\n"));
        let decided = records(&[("a.yaml", &all)], "simulate -f a.yaml -o json");
        let n_placed = decided.iter().filter(|one| one["result"] == "scheduled").count();
        assert_eq!(n_placed, placed, "of {n}");
    }
}

#[test]
fn the_missing_claim_is_named() {
    let mounts = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c}], volumes: \
                  [{name: v, persistentVolumeClaim: {claimName: data}}]}\n";
    let files = [("a.yaml", CLUSTER), ("p.yaml", mounts)];
    let answer = answer(&files, "capacity -f a.yaml --pod-file p.yaml -o json");
    let stopped_by = "persistentvolumeclaim \"data\" not found; postfilter error: not found";
    assert_eq!(answer["shapes"][0]["stoppedBy"], stopped_by);
    // A plan says the same of a pod without a node.
    let plan = run(&files, "what-if -f a.yaml --apply p.yaml -o json");
    assert!(plan.out.contains(&stopped_by.replace('"', "\\\"")), "{}", plan.out);
}

#[test]
fn a_tenth_more_and_one_more_are_answered() {
    let worker = pod("w", "900m");
    let files = [("a.yaml", CLUSTER), ("w.yaml", worker.as_str())];
    let answer = answer(&files, "capacity -f a.yaml --pod-file w.yaml -o json --remedies 1");
    let shape = &answer["shapes"][0];
    let more = json!({"nodes": 1, "like": "n1", "pods": 2});
    assert_eq!(shape["tenPercentMore"], more);
    let remedies = shape["remedies"].as_array().expect("there are some");
    assert_eq!(remedies.len(), 1);
    assert_eq!(remedies[0]["text"], "request 800m cpu instead of 900m");
}

#[test]
fn several_shapes_take_turns() {
    let (one, two) = (pod("one", "1"), pod("two", "2"));
    let files = [("a.yaml", CLUSTER), ("1.yaml", one.as_str()), ("2.yaml", two.as_str())];
    let line = "capacity -f a.yaml --pod-file 1.yaml --pod-file 2.yaml -o json --remedies 0";
    let answer = answer(&files, line);
    let fits = |at: usize| answer["shapes"][at]["fits"].as_u64().expect("a number");
    // 11 CPUs are free.
    assert_eq!(fits(0) + 2 * fits(1), 11);
    assert!(fits(0).abs_diff(fits(1)) <= 2, "{answer}");
}

#[test]
fn pending_pods_come_first_if_that_is_asked() {
    let worker = pod("w", "900m");
    let files = [("a.yaml", CLUSTER), ("w.yaml", worker.as_str())];
    let line = "capacity -f a.yaml --pod-file w.yaml --after-pending -o json";
    assert_eq!(answer(&files, line)["shapes"][0]["fits"], 9);
    let line = "capacity -f a.yaml --pod-file w.yaml --limit 4 -o json";
    let limited = answer(&files, line);
    assert_eq!(limited["shapes"][0]["fits"], 4);
    assert_eq!(limited["shapes"][0].get("stoppedBy"), None);
}

#[test]
fn every_sort_of_pod_of_the_cluster_is_counted() {
    let answer = answer(&[("a.yaml", CLUSTER)], "capacity -f a.yaml --all-shapes -o json");
    assert_eq!(answer["shapes"][0]["pod"], "default/old-1");
    assert_eq!(answer["shapes"][0]["fits"], 11);
    assert_eq!(answer["shapes"].as_array().map(Vec::len), Some(1));
}

#[test]
fn a_workload_stands_for_its_template() {
    let workload = "\
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec: {replicas: 3, selector: {}, template: {spec: {containers: [{name: c, resources: {requests: {cpu: '3'}}}]}}}
";
    let files = [("a.yaml", CLUSTER), ("db.yaml", workload)];
    let answer = answer(&files, "capacity -f a.yaml --pod-file db.yaml -o json");
    assert_eq!(
        (&answer["shapes"][0]["pod"], &answer["shapes"][0]["fits"]),
        (&json!("default/db-0"), &json!(3))
    );
}

#[test]
fn wrong_files_are_refused() {
    let foreign = pod("w", "1").replace("spec: {", "spec: {schedulerName: other, ");
    let files = [
        ("a.yaml", CLUSTER),
        ("none.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: s}\n"),
        (
            "wrong.yaml",
            "apiVersion: v1\nkind: Pod\nmetadata: {name: w}\nspec: {containers: [{name: c, resources: {requests: {cpu: x}}}]}\n",
        ),
        ("foreign.yaml", foreign.as_str()),
    ];
    for (file, expected) in [
        (
            "none.yaml",
            expect![[r#"
            error: none.yaml: contains no pod, and no workload with a template of one
        "#]],
        ),
        (
            "wrong.yaml",
            expect![[r#"
            error: wrong.yaml:1: Pod default/w: spec.containers[0].resources.requests[cpu]: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$': got "x", a quantity is a number with an optional suffix, such as 500m, 2, 1.5Gi, 10k or 1e3
        "#]],
        ),
        (
            "foreign.yaml",
            expect![[r#"
            error: pod default/w belongs to scheduler other, and no profile has that name
        "#]],
        ),
    ] {
        check_refused(&files, &format!("capacity -f a.yaml --pod-file {file}"), &expected);
    }
}

/// Two nodes with two and three devices, a template of a claim for one, and a pod that is to use it.
const DEVICES: &str = r#"
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "16", memory: 64Gi, pods: "100"}}
---
apiVersion: v1
kind: Node
metadata: {name: n2}
status: {allocatable: {cpu: "16", memory: 64Gi, pods: "100"}}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec:
  selectors: [{cel: {expression: 'device.driver == "gpu.example.com"'}}]
  extendedResourceName: example.com/gpu
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: n1-gpus}
spec:
  driver: gpu.example.com
  nodeName: n1
  pool: {name: n1, generation: 1, resourceSliceCount: 1}
  devices: [{name: gpu-0}, {name: gpu-1}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: n2-gpus}
spec:
  driver: gpu.example.com
  nodeName: n2
  pool: {name: n2, generation: 1, resourceSliceCount: 1}
  devices: [{name: gpu-0}, {name: gpu-1}, {name: gpu-2}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one-gpu, namespace: default}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: shared-gpu, namespace: default, uid: shared-gpu}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}
---
apiVersion: v1
kind: Pod
metadata:
  {name: first-0, namespace: default, uid: f, ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: first, uid: s, controller: true}]}
spec:
  containers: [{name: c, resources: {requests: {cpu: "1"}, claims: [{name: gpu}]}}]
  resourceClaims: [{name: gpu, resourceClaimTemplateName: one-gpu}]
"#;

/// A pod that claims devices as `source` says, or asks for them as a resource.
fn claiming(source: &str) -> String {
    let resources = match source {
        "" => r#"{requests: {cpu: "1", example.com/gpu: "1"}, limits: {example.com/gpu: "1"}}"#,
        _ => r#"{requests: {cpu: "1"}, claims: [{name: gpu}]}"#,
    };
    let claims = match source {
        "" => String::new(),
        _ => format!("  resourceClaims: [{{name: gpu, {source}}}]\n"),
    };
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: train, namespace: default}}\nspec:\n  \
         containers: [{{name: c, resources: {resources}}}]\n{claims}"
    )
}

#[test]
fn each_copy_uses_the_devices_that_it_claims() {
    let of_template = claiming("resourceClaimTemplateName: one-gpu");
    let files = [("a.yaml", DEVICES), ("p.yaml", &of_template)];
    let told = answer(&files, "capacity -f a.yaml --pod-file p.yaml -o json");
    let told = &told["shapes"][0];
    assert_eq!((&told["fits"], &told["byNode"]), (&json!(5), &json!({"n1": 2, "n2": 3})));
    let stopped = told["stoppedBy"].as_str().unwrap_or_default();
    assert!(stopped.contains("2 cannot allocate all claims"), "{stopped}");
    assert_eq!(told["tenPercentMore"], json!({"nodes": 1, "like": "n1", "pods": 1}));
    let remedies = told["remedies"].as_array().expect("it has some");
    let texts: Vec<&str> = remedies.iter().filter_map(|one| one["text"].as_str()).collect();
    // One more in place of a copy is none.
    assert_eq!(texts, ["drop the claim gpu on devices"]);
    // The pod that is pending has a device first.
    let line = "capacity -f a.yaml --pod-file p.yaml --after-pending -o json --remedies 0";
    assert_eq!(answer(&files, line)["shapes"][0]["fits"], 4);
    let all = answer(&files, "capacity -f a.yaml --all-shapes -o json");
    assert_eq!(
        (&all["shapes"][0]["pod"], &all["shapes"][0]["fits"]),
        (&json!("default/first"), &json!(5))
    );
}

#[test]
fn a_template_that_is_not_there_is_named() {
    let lost = claiming("resourceClaimTemplateName: lost");
    let files = [("a.yaml", DEVICES), ("p.yaml", lost.as_str())];
    let answer = run(&files, "capacity -f a.yaml --pod-file p.yaml");
    let expected = "pod default/train claims devices by ResourceClaimTemplate default/lost (spec.resourceClaims), which is not there";
    assert!(answer.status != 0 && answer.err.contains(expected), "{}", answer.err);
}

#[test]
fn copies_that_share_a_claim_go_where_its_device_is() {
    let shared = claiming("resourceClaimName: shared-gpu");
    let files = [("a.yaml", DEVICES), ("p.yaml", &shared)];
    let told = answer(&files, "capacity -f a.yaml --pod-file p.yaml -o json --remedies 0");
    let told = &told["shapes"][0];
    assert_eq!(
        (&told["fits"], &told["byNode"]),
        (&json!(16), &json!({"n1": 16})),
        "its processors"
    );
}

#[test]
fn devices_that_stand_for_a_resource_are_used_up() {
    let extended = claiming("");
    let files = [("a.yaml", DEVICES), ("p.yaml", &extended)];
    let told = answer(&files, "capacity -f a.yaml --pod-file p.yaml -o json --remedies 0");
    assert_eq!(told["shapes"][0]["byNode"], json!({"n1": 2, "n2": 3}));
}
