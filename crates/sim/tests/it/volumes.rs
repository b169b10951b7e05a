//! Pods with volumes are decided from remembered results, each as from scratch.

use expect_test::expect;
use plimsoll_api::wire::{self, Object};
use plimsoll_engine::{Detail, Options, Outcome, Scheduler};
use plimsoll_sim::{
    InitialCluster, Lifecycle, Manner, RequestFaults, RequestVerb, SimulatedCluster, Simulation,
};
use serde_json::{Value as Json, json};

use crate::profiles::default_profiles;
use crate::world::check;

/// A node in a zone with a CSI driver that can attach `limit` volumes.
fn node(name: &str, zone: &str, limit: u32) -> Vec<Json> {
    let labels = json!({"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone});
    let allocatable = json!({"cpu": "4", "memory": "8Gi", "pods": "10"});
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": allocatable},
    });
    vec![node, csi_node(name, limit)]
}

/// How many volumes the CSI driver of a node can attach.
fn csi_node(name: &str, limit: u32) -> Json {
    let driver = json!({"name": "d", "nodeID": name, "allocatable": {"count": limit}});
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": name},
        "spec": {"drivers": [driver]},
    })
}

/// A claim that is bound to a volume; `zone` is the only one from which the volume can be reached.
fn bound(name: &str, zone: Option<&str>) -> Vec<Json> {
    let affinity = zone.map(|zone| {
        let key = "topology.kubernetes.io/zone";
        let rule = json!({"key": key, "operator": "In", "values": [zone]});
        json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}})
    });
    let claim = json!({"namespace": "default", "name": name});
    vec![
        json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": format!("pv-{name}")},
            "spec": {
                "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                "csi": {"driver": "d", "volumeHandle": name}, "claimRef": claim,
                "nodeAffinity": affinity,
            },
            "status": {"phase": "Bound"},
        }),
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {
                "namespace": "default", "name": name,
                "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
            },
            "spec": {
                "accessModes": ["ReadWriteOnce"], "volumeName": format!("pv-{name}"),
                "resources": {"requests": {"storage": "1Gi"}},
            },
            "status": {"phase": "Bound"},
        }),
    ]
}

/// A pod with these claims.
fn pod(name: &str, cpu: &str, priority: i32, claims: &[&str]) -> Json {
    let volume =
        |claim: &&str| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}});
    let volumes: Vec<Json> = claims.iter().map(volume).collect();
    let container = json!({"name": "c", "resources": {"requests": {"cpu": cpu}}});
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": name},
        "spec": {
            "containers": [container], "priority": priority, "volumes": volumes,
            "schedulerName": "default-scheduler",
        },
    })
}

/// The same on a node, where its containers have ended.
fn finished(name: &str, node: &str, claims: &[&str]) -> Json {
    let mut pod = pod(name, "100m", 0, claims);
    pod["spec"]["nodeName"] = json!(node);
    pod["status"] = json!({"phase": "Succeeded"});
    pod
}

/// A pod with a claim of its own, which is bound to a volume in `zone`.
fn with_volume(name: &str, cpu: &str, priority: i32, zone: Option<&str>) -> Vec<Json> {
    let mut objects = bound(name, zone);
    objects.push(pod(name, cpu, priority, &[name]));
    objects
}

fn nodes(limit: u32) -> Vec<Json> {
    [node("a", "z1", limit), node("b", "z2", limit)].concat()
}

#[test]
fn pods_with_volumes_fill_the_slots_of_the_nodes_and_wait_for_one_that_is_free() {
    check(
        &[
            nodes(2),
            with_volume("p1", "100m", 0, None),
            with_volume("p2", "100m", 0, None),
            with_volume("p3", "100m", 0, None),
            with_volume("p4", "100m", 0, None),
            with_volume("p5", "100m", 0, None),
            with_volume("p6", "100m", 0, None),
            vec![pod("plain", "100m", 0, &[])],
            vec![finished("p1", "a", &["p1"])],
        ],
        &expect![[r#"
            p1 on a
            p2 on b
            p3 on a
            p4 on b
            p5: Unschedulable: 0/2 nodes are available: 2 node(s) exceed max volume count. no new claims to deallocate, preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod.
            p6: Unschedulable: 0/2 nodes are available: 2 node(s) exceed max volume count. no new claims to deallocate, preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod.
            plain on a
            p5: Unschedulable: 0/2 nodes are available: 2 node(s) exceed max volume count. no new claims to deallocate, preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod.
            p6 on a
            p5: Unschedulable: 0/2 nodes are available: 2 node(s) exceed max volume count. no new claims to deallocate, preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod.
        "#]],
    );
}

#[test]
fn a_volume_is_reached_only_from_its_zone() {
    check(
        &[
            nodes(9),
            with_volume("p1", "1", 0, Some("z2")),
            with_volume("p2", "1", 0, Some("z2")),
            with_volume("p3", "1", 0, Some("z1")),
            with_volume("p4", "1", 0, Some("z3")),
        ],
        &expect![[r#"
            p1 on b
            p2 on b
            p3 on a
            p4: Unschedulable: 0/2 nodes are available: 2 node(s) didn't match PersistentVolume's node affinity. no new claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.
        "#]],
    );
}

#[test]
fn a_pod_whose_claim_is_missing_or_not_bound_waits() {
    let mut unbound = bound("later", None).remove(1);
    unbound["metadata"]["annotations"] = json!({});
    unbound["spec"]["volumeName"] = Json::Null;
    check(
        &[
            nodes(9),
            vec![pod("missing", "1", 0, &["gone"])],
            vec![unbound, pod("later", "1", 0, &["later"])],
            bound("gone", None),
        ],
        &expect![[r#"
            missing: Unschedulable: 0/2 nodes are available: persistentvolumeclaim "gone" not found. not found
            later: Unschedulable: 0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found
            missing on a
            later: Unschedulable: 0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found
        "#]],
    );
}

#[test]
fn a_pod_whose_volume_is_provisioned_waits_for_it_on_its_node() {
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "made"},
        "provisioner": "d", "volumeBindingMode": "WaitForFirstConsumer",
    });
    let mut unbound = bound("new", None).remove(1);
    unbound["metadata"]["annotations"] = json!({});
    unbound["spec"]["volumeName"] = Json::Null;
    unbound["spec"]["storageClassName"] = json!("made");
    let mut provisioned = bound("new", None);
    let selected = "volume.kubernetes.io/selected-node";
    provisioned[1]["metadata"]["annotations"][selected] = json!("b");
    check(
        &[
            nodes(9),
            vec![pod("x", "1", 0, &[])],
            vec![class, unbound, pod("p", "1", 0, &["new"])],
            provisioned,
        ],
        &expect![[r#"
            x on a
            p patches new with {"metadata":{"annotations":{"volume.kubernetes.io/selected-node":"b"}}}
            p on b
        "#]],
    );
}

#[test]
fn pods_that_differ_only_in_their_volumes_fail_for_reasons_of_their_own() {
    check(
        &[
            nodes(1),
            with_volume("x", "100m", 0, None),
            with_volume("y", "100m", 0, None),
            with_volume("without-slot", "100m", 0, None),
            vec![csi_node("a", 3), csi_node("b", 3)],
            with_volume("without-zone", "100m", 0, Some("z3")),
        ],
        &expect![[r#"
            x on a
            y on b
            without-slot: Unschedulable: 0/2 nodes are available: 2 node(s) exceed max volume count. no new claims to deallocate, preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod.
            without-slot on a
            without-zone: Unschedulable: 0/2 nodes are available: 2 node(s) didn't match PersistentVolume's node affinity. no new claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.
        "#]],
    );
}

#[test]
fn pods_with_volumes_evict_others_for_cpu() {
    check(
        &[
            nodes(2),
            vec![pod("x", "3", 0, &[]), pod("y", "3", 1, &[])],
            with_volume("unimportant", "2", 0, None),
            with_volume("urgent", "2", 5, None),
            with_volume("urgent-in-z2", "2", 5, Some("z2")),
            with_volume("less-urgent", "2", 2, None),
        ],
        &expect![[r#"
            y on a
            x on b
            unimportant: Unschedulable: 0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod.
            urgent evicts x
            urgent: Unschedulable: 0/2 nodes are available: 2 Insufficient cpu. preemption: found a potential placement for pod on node b, preempting 1 victims
            urgent on b
            unimportant on b
            urgent-in-z2 evicts unimportant
            urgent-in-z2: Unschedulable: 0/2 nodes are available: 2 Insufficient cpu. preemption: found a potential placement for pod on node b, preempting 1 victims
            urgent-in-z2 on b
            less-urgent evicts y
            less-urgent: Unschedulable: 0/2 nodes are available: 2 Insufficient cpu. preemption: found a potential placement for pod on node a, preempting 1 victims
            less-urgent on a
        "#]],
    );
}

#[test]
fn a_pod_evicts_others_that_take_its_slots() {
    check(
        &[
            nodes(1),
            with_volume("x", "100m", 0, None),
            with_volume("y", "100m", 0, None),
            with_volume("urgent", "100m", 5, Some("z2")),
            with_volume("also-urgent", "100m", 5, Some("z3")),
        ],
        &expect![[r#"
            x on a
            y on b
            urgent evicts y
            urgent: Unschedulable: 0/2 nodes are available: 2 node(s) exceed max volume count. preemption: found a potential placement for pod on node b, preempting 1 victims
            urgent on b
            also-urgent: Unschedulable: 0/2 nodes are available: 2 node(s) exceed max volume count. no new claims to deallocate, preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, 1 node(s) didn't match PersistentVolume's node affinity.
        "#]],
    );
}

/// As in runtime/framework.go, RunFilterPluginsWithNominatedPods: the node is judged with the nominated pod
/// first, by all filters. That pod brings the volume that both use, so that it takes no slot of `p`.
#[test]
fn a_node_is_judged_by_all_filters_with_nominated_pods_before_it_is_judged_without() {
    let mut there = pod("x", "100m", 0, &["x"]);
    there["spec"]["nodeName"] = json!("a");
    there["metadata"]["labels"] = json!({"app": "x"});
    let mut nominated = pod("nominated", "100m", 0, &["shared"]);
    nominated["status"] = json!({"nominatedNodeName": "a"});
    let mut p = pod("p", "100m", 0, &["shared"]);
    let term = json!({
        "topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}},
    });
    p["spec"]["affinity"] =
        json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    check(
        &[
            node("a", "z1", 1),
            [bound("x", None), bound("shared", None), vec![there, p, nominated]].concat(),
        ],
        &expect![[r#"
            p: Unschedulable: 0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules. no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.
            nominated: Unschedulable: 0/1 nodes are available: 1 node(s) exceed max volume count. no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.
            nominated: Unschedulable: 0/1 nodes are available: 1 node(s) exceed max volume count. no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.
        "#]],
    );
}

/// A pod that is given up makes room for the other one, which waits for its volume in turn.
#[test]
fn a_simulation_ends_although_two_pods_take_turns_to_wait_for_volumes_that_never_come() {
    let mut objects = node("a", "z1", 5);
    objects.push(json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "never"},
        "provisioner": "d", "volumeBindingMode": "WaitForFirstConsumer",
    }));
    for name in ["p", "q"] {
        objects.push(json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"namespace": "default", "name": name},
            "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": "never",
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }));
        objects.push(pod(name, "3", 0, &[name]));
    }
    let mut faults = RequestFaults::default();
    faults.set(RequestVerb::Provision, Manner::Lost);
    let mut cluster = InitialCluster::default();
    for object in &objects {
        match wire::object(object).expect("it is right") {
            Object::Pod(pod) => cluster.pods.push(*pod),
            Object::Node(node) => cluster.nodes.push(*node),
            Object::Other(object) => cluster.objects.push(object),
            unknown @ Object::Unknown { .. } => panic!("{unknown:?}"),
        }
    }
    let world = SimulatedCluster::new(Lifecycle::default(), faults);
    let options = Options { detail: Detail::Outcome, ..Options::default() };
    let scheduler = Scheduler::new(default_profiles(), options, 0).expect("there is one");
    let mut simulation = Simulation::within(world, scheduler, cluster.settled());
    let mut failed = Vec::new();
    while let Some(decisions) = simulation.advance() {
        let errors = decisions.iter().filter(|one| matches!(one.outcome, Outcome::Error { .. }));
        failed.extend(errors.map(|one| one.pod.name.to_string()));
        assert!(failed.len() < 200, "there is no end");
    }
    assert!(["p", "q"].iter().all(|name| failed.iter().any(|pod| pod == name)), "{failed:?}");
}
