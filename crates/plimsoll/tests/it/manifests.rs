//! Valid and invalid input files.

use expect_test::expect;
use serde_json::Value;

use crate::run::{STDIN, check, check_refused, placements, run};

/// Two nodes, and two pods that fit both.
pub(crate) const CLUSTER: &str = "\
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: '4', memory: 8Gi, pods: '10'}}
---
apiVersion: v1
kind: Node
metadata: {name: n2}
status: {allocatable: {cpu: '4', memory: 8Gi, pods: '10'}}
---
apiVersion: v1
kind: Pod
metadata: {name: p1}
spec: {containers: [{name: c, resources: {requests: {cpu: '1'}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: p2, namespace: shop}
spec: {containers: [{name: c, resources: {requests: {cpu: '1'}}}]}
";

const PLACED: &str = "default/p1 n1\nshop/p2 n2\n";

fn list(items: &[Value]) -> Value {
    serde_json::json!({"apiVersion": "v1", "kind": "List", "items": items})
}

fn node(name: &str) -> Value {
    let allocatable = serde_json::json!({"cpu": "4", "memory": "8Gi", "pods": "10"});
    serde_json::json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
        "status": {"allocatable": allocatable}})
}

fn pod(namespace: &str, name: &str) -> Value {
    serde_json::json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}})
}

#[test]
fn yaml_and_json_of_one_cluster_give_the_same_bytes() {
    let json = list(&[node("n1"), node("n2"), pod("default", "p1"), pod("shop", "p2")]);
    let from_yaml = run(&[("a.yaml", CLUSTER)], "simulate -f a.yaml -o json --explain");
    let from_json = run(&[("a.json", &json.to_string())], "simulate -f a.json -o json --explain");
    assert_eq!(from_yaml, from_json);
    assert_eq!(from_yaml.status, 0, "{}", from_yaml.err);
    assert_eq!(from_yaml.out.lines().count(), 2);
}

#[test]
fn standard_input_is_a_file_like_any_other() {
    assert_eq!(placements(&[(STDIN, CLUSTER)], "simulate -f - -o json"), PLACED);
}

#[test]
fn lists_of_any_kind_hold_objects() {
    let pods = serde_json::json!({"apiVersion": "v1", "kind": "PodList", "items": [
        {"metadata": {"name": "p1"}, "spec": pod("", "")["spec"]},
        {"metadata": {"name": "p2", "namespace": "shop"}, "spec": pod("", "")["spec"]},
    ]});
    let nested = list(&[list(&[node("n1")]), node("n2"), pods]);
    assert_eq!(
        placements(&[("a.json", &nested.to_string())], "simulate -f a.json -o json"),
        PLACED
    );
}

#[test]
fn json_objects_may_follow_each_other() {
    let objects = [node("n1"), node("n2"), pod("default", "p1"), pod("shop", "p2")];
    let lines = objects.map(|object| object.to_string()).join("\n");
    assert_eq!(placements(&[("a.json", &lines)], "simulate -f a.json -o json"), PLACED);
}

#[test]
fn a_directory_means_its_manifests_in_the_order_of_their_names() {
    let [n1, n2, p1, p2] = [node("n1"), node("n2"), pod("default", "p1"), pod("shop", "p2")]
        .map(|object| object.to_string());
    let files: &[(&str, &str)] = &[
        ("d/4.json", &p2),
        ("d/3.yml", &p1),
        ("d/2.yaml", &n2),
        ("d/README.md", "not: [yaml"),
        ("d/deeper/5.yaml", "not: [yaml"),
        ("1.yaml", &n1),
    ];
    assert_eq!(placements(files, "simulate -f 1.yaml d -o json"), PLACED);
    assert_eq!(placements(files, "simulate -f d -f 1.yaml -o json"), PLACED);
}

#[test]
fn a_cluster_without_nodes_has_none_for_any_pod() {
    let pod = pod("default", "p1").to_string();
    check(
        &[("a.json", &pod)],
        "simulate -f a.json -o json",
        &expect![[r#"
            {"pod":"default/p1","result":"unschedulable","message":"no nodes available to schedule pods"}
            exit status 0
        "#]],
    );
}

#[test]
fn a_file_that_is_missing_is_named() {
    check_refused(
        &[],
        "simulate -f none.yaml",
        &expect![[r#"
            error: none.yaml: cannot be read: No such file or directory (os error 2)
        "#]],
    );
}

#[test]
fn a_directory_without_manifests_is_refused() {
    check_refused(
        &[("d/notes.txt", "")],
        "simulate -f d",
        &expect![[r#"
            error: d: the directory has no files *.yaml, *.yml or *.json; its subdirectories are not read
        "#]],
    );
}

#[test]
fn a_file_that_is_named_twice_is_refused() {
    check_refused(
        &[("d/a.yaml", CLUSTER)],
        "simulate -f d d/a.yaml",
        &expect![[r#"
            error: d/a.yaml: is named twice
        "#]],
    );
}

#[test]
fn a_file_without_objects_is_warned_of() {
    check(
        &[("a.yaml", "# nothing\n")],
        "simulate -f a.yaml",
        &expect![[r#"
            warning: a.yaml: holds no objects
            No pod is waiting for a node.

            exit status 0
        "#]],
    );
}

#[test]
fn an_item_without_a_kind_is_identified_by_its_field() {
    let items = list(&[node("n1"), Value::Null, serde_json::json!({"kind": ""})]);
    check_refused(
        &[("a.json", &items.to_string())],
        "simulate -f a.json",
        &expect![[r#"
            error: a.json:1: items[1]: an object is expected, with apiVersion and kind
            error: a.json:1: items[2].kind: Required value: name the kind of the object, such as Pod
        "#]],
    );
}

#[test]
fn a_file_that_is_not_yaml_says_where() {
    check_refused(
        &[("a.yaml", "kind: Pod\nmetadata: {name: [}\n")],
        "simulate -f a.yaml",
        &expect![[r#"
            error: a.yaml:2: is not valid YAML: mismatched bracket '[' closed by '}'
        "#]],
    );
    check_refused(
        &[("a.json", "{\"kind\": \"Pod\"\n\"metadata\": {}}\n")],
        "simulate -f a.json",
        &expect![[r#"
            error: a.json:2: is not valid JSON: expected `,` or `}`
        "#]],
    );
    check_refused(
        &[("a.yaml", "just text\n")],
        "simulate -f a.yaml",
        &expect![[r#"
            error: a.yaml:1: an object is expected, with apiVersion and kind
        "#]],
    );
}

#[test]
fn there_is_one_warning_for_each_kind_that_is_not_read() {
    let other = |api_version: &str, kind: &str, name: &str| serde_json::json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
    let objects = list(&[
        other("v1", "ConfigMap", "a"),
        other("v1", "ConfigMap", "b"),
        other("v1", "ConfigMap", "b"),
        other("apps/v1", "Deployment", "a"),
        other("resource.k8s.io/v1", "ResourceClaim", "a"),
        other("resource.k8s.io/v1", "DeviceClass", "a"),
        other("resource.k8s.io/v1", "DeviceClass", "b"),
        node("n1"),
        pod("default", "p1"),
    ]);
    check(
        &[("a.json", &objects.to_string())],
        "simulate -f a.json -o json",
        &expect![[r#"
            warning: a.json: 3 objects of kind ConfigMap (v1) do not affect scheduling and were ignored
            warning: a.json: 1 object of kind Deployment (apps/v1) was ignored: add the pods that it makes
            {"pod":"default/p1","result":"scheduled","node":"n1","best":["n1"]}
            exit status 0
        "#]],
    );
}

#[test]
fn an_object_that_occurs_twice_is_refused_with_both_lines() {
    check_refused(
        &[("a.yaml", CLUSTER), ("b.json", &list(&[node("n3"), node("n2")]).to_string())],
        "simulate -f a.yaml b.json",
        &expect![[r#"
            error: b.json:1: Node n2: is already defined at a.yaml:6: remove or rename one of them
        "#]],
    );
    let twice = format!("{CLUSTER}---\n{}\n", pod("shop", "p2"));
    check_refused(
        &[("a.yaml", &twice)],
        "simulate -f a.yaml",
        &expect![[r#"
            error: a.yaml:21: Pod shop/p2: is already defined at a.yaml:16: remove or rename one of them
        "#]],
    );
    // A volume has no namespace, even if its manifest has one.
    let volume = |rest: &str| {
        format!("apiVersion: v1\nkind: PersistentVolume\nmetadata: {{name: disk{rest}}}\n")
    };
    let twice = format!("{}---\n{}", volume(""), volume(", namespace: shop"));
    check_refused(
        &[("a.yaml", &twice)],
        "simulate -f a.yaml",
        &expect![[r#"
            error: a.yaml:5: PersistentVolume disk: is already defined at a.yaml:1: remove or rename one of them
        "#]],
    );
}

#[test]
fn bad_amounts_name_file_line_object_and_field() {
    let bad = "\
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Pod
  metadata: {name: negative}
  spec:
    containers:
    - name: c
      resources:
        requests:
          cpu: -1
- apiVersion: v1
  kind: Pod
  metadata: {name: unreadable, namespace: shop}
  spec:
    containers:
    - name: c
      resources:
        requests:
          memory: 1 GB
- apiVersion: v1
  kind: Node
  metadata: {name: n1}
  status: {allocatable: {pods: ten}}
- apiVersion: v1
  kind: Pod
  spec: {}
";
    check_refused(
        &[("pods.yaml", bad)],
        "simulate -f pods.yaml",
        &expect![[r#"
            error: pods.yaml:12: Pod default/negative: spec.containers[0].resources.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0
            error: pods.yaml:21: Pod shop/unreadable: spec.containers[0].resources.requests[memory]: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$': got "1 GB", a quantity is a number with an optional suffix, such as 500m, 2, 1.5Gi, 10k or 1e3
            error: pods.yaml:25: Node n1: status.allocatable[pods]: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$': got "ten", a quantity is a number with an optional suffix, such as 500m, 2, 1.5Gi, 10k or 1e3
            error: pods.yaml:26: Pod: metadata.name: Required value: give the object a name; none is generated
        "#]],
    );
}

#[test]
fn ten_errors_are_shown_and_the_rest_is_counted() {
    let mut pods: Vec<_> = (0..13).map(|i| pod("default", &format!("p{i:02}"))).collect();
    for pod in &mut pods {
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "much".into();
    }
    let text = serde_json::to_string_pretty(&list(&pods)).expect("it is JSON");
    check_refused(
        &[("a.json", &text)],
        "simulate -f a.json",
        &expect![[r#"
            error: a.json:17: Pod default/p00: spec.containers[0].resources.requests[cpu]: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$': got "much", a quantity is a number with an optional suffix, such as 500m, 2, 1.5Gi, 10k or 1e3
            error: a.json:37: Pod default/p01: spec.containers[0].resources.requests[cpu]: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$': got "much", a quantity is a number with an optional suffix, such as 500m, 2, 1.5Gi, 10k or 1e3
            error: a.json:57: Pod default/p02: spec.containers[0].resources.requests[cpu]: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$': got "much", a quantity is a number with an optional suffix, such as 500m, 2, 1.5Gi, 10k or 1e3
            error: a.json:77: Pod default/p03: spec.containers[0].resources.requests[cpu]: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$': got "much", a quantity is a number with an optional suffix, such as 500m, 2, 1.5Gi, 10k or 1e3
            error: a.json:97: Pod default/p04: spec.containers[0].resources.requests[cpu]: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$': got "much", a quantity is a number with an optional suffix, such as 500m, 2, 1.5Gi, 10k or 1e3
            error: a.json:117: Pod default/p05: spec.containers[0].resources.requests[cpu]: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$': got "much", a quantity is a number with an optional suffix, such as 500m, 2, 1.5Gi, 10k or 1e3
            error: a.json:137: Pod default/p06: spec.containers[0].resources.requests[cpu]: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$': got "much", a quantity is a number with an optional suffix, such as 500m, 2, 1.5Gi, 10k or 1e3
            error: a.json:157: Pod default/p07: spec.containers[0].resources.requests[cpu]: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$': got "much", a quantity is a number with an optional suffix, such as 500m, 2, 1.5Gi, 10k or 1e3
            error: a.json:177: Pod default/p08: spec.containers[0].resources.requests[cpu]: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$': got "much", a quantity is a number with an optional suffix, such as 500m, 2, 1.5Gi, 10k or 1e3
            error: a.json:197: Pod default/p09: spec.containers[0].resources.requests[cpu]: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$': got "much", a quantity is a number with an optional suffix, such as 500m, 2, 1.5Gi, 10k or 1e3
            and 3 more
        "#]],
    );
}

#[test]
fn a_file_that_is_not_utf_8_is_refused_with_the_line() {
    // Latin-1.
    let folder = tempfile::tempdir().expect("a folder can be made");
    let file = folder.path().join("a.yaml");
    std::fs::write(&file, b"kind: Pod\n# \xe4\n").expect("the file can be written");
    let file = file.display().to_string();
    let answer = run(&[], &format!("simulate -f {file}"));
    assert_eq!(answer.err, format!("error: {file}:2: is not UTF-8 text\n"));
}

#[test]
fn pods_on_missing_nodes_are_warned_of() {
    let mut lost = pod("default", "lost");
    lost["spec"]["nodeName"] = "n9".into();
    let cluster = list(&[node("n1"), lost]).to_string();
    let answer = run(&[("a.json", &cluster)], "simulate -f a.json -o json");
    assert_eq!(answer.status, 0);
    expect![[r#"
        warning: 1 pod on nodes that are not in the files (default/lost)
    "#]]
    .assert_eq(&answer.err);
}

/// Pods with claims on devices: `both` gets one claim allocated and is reserved in another, a claim of `moves` is
/// deallocated, and one that an earlier attempt of `again` has left is deleted.
pub(crate) const CLAIMS: &str = "\
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: '4', memory: 8Gi, pods: '10'}}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {extendedResourceName: example.com/gpu}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: gpus}
spec:
  driver: gpu.example.com
  nodeName: n1
  pool: {name: n1, generation: 1, resourceSliceCount: 1}
  devices: [{name: gpu-0}, {name: gpu-1}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: shared, uid: shared}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}
status:
  allocation: {devices: {results: [{request: gpu, driver: gpu.example.com, pool: n1, device: gpu-0}]}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: own, uid: own}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: elsewhere, uid: elsewhere}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}
status:
  allocation:
    devices: {results: [{request: gpu, driver: gpu.example.com, pool: gone, device: gpu-0}]}
    nodeSelector: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [gone]}]}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata:
  name: left-over
  uid: left-over
  annotations: {resource.kubernetes.io/extended-resource-claim: 'true'}
  ownerReferences: [{apiVersion: v1, kind: Pod, name: again, uid: again, controller: true}]
spec: {devices: {requests: [{name: container-0-request-0, exactly: {deviceClassName: gpu, count: 9}}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: both, uid: both}
spec:
  containers: [{name: c, image: i, resources: {claims: [{name: a}, {name: b}]}}]
  resourceClaims: [{name: a, resourceClaimName: shared}, {name: b, resourceClaimName: own}]
---
apiVersion: v1
kind: Pod
metadata: {name: moves, uid: moves}
spec:
  containers: [{name: c, image: i, resources: {claims: [{name: a}]}}]
  resourceClaims: [{name: a, resourceClaimName: elsewhere}]
---
apiVersion: v1
kind: Pod
metadata: {name: again, uid: again}
spec: {containers: [{name: c, image: i, resources: {limits: {example.com/gpu: '9'}, requests: {example.com/gpu: '9'}}}]}
";
