//! Pods with volumes are decided from remembered results, each as from scratch.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use expect_test::{Expect, expect};
use plimsoll_api::wire::{self, Object};
use plimsoll_api::{Pod, PodKey};
use plimsoll_engine::metrics::Value;
use plimsoll_engine::{Effect, Event, Next, Observation, Options, Scans, Scheduler, Write};
use plimsoll_framework::{Time, WriteVerb};
use serde_json::{Value as Json, json};

use crate::profiles::default_profiles;

/// A scheduler that is told of objects and whose writes succeed at once.
struct World {
    scheduler: Scheduler,
    pods: BTreeMap<PodKey, Arc<Pod>>,
    now: Time,
    report: String,
}

impl World {
    fn new(scans: Scans) -> Self {
        let options = Options { audit_every: 1, scans, ..Options::default() };
        let scheduler = Scheduler::new(default_profiles(), options, 0).expect("there is one");
        World { scheduler, pods: BTreeMap::new(), now: Time::ZERO, report: String::new() }
    }

    /// Tells of objects, and decides all pods that are ready.
    fn tell(&mut self, objects: &[Json]) {
        for object in objects {
            let object = wire::object_from_str(&object.to_string()).expect("it is an object");
            if let Object::Pod(pod) = &object {
                self.pods.insert(pod.key.clone(), Arc::new(Pod::clone(pod)));
            }
            self.scheduler.observe(self.now, Event::is(object).expect("its kind is read"));
        }
        loop {
            let mut effects = Vec::new();
            let next = self.scheduler.step(self.now, &mut effects);
            if effects.is_empty() && !matches!(next, Next::Again) {
                return;
            }
            for effect in effects {
                self.answer(effect);
            }
        }
    }

    /// Does what is asked for, and reports what users notice of it.
    fn answer(&mut self, effect: Effect) {
        let name = effect.pod.key.name.clone();
        let mut changed = None;
        match effect.write {
            Write::Bind(binding) => {
                self.say(&format!("{name} on {}", binding.node));
                let pod = &self.pods[&effect.pod.key];
                changed = Some(Pod { node_name: Some(binding.node), ..Pod::clone(pod) });
            }
            Write::Nominate(node) => {
                let pod = &self.pods[&effect.pod.key];
                changed = Some(Pod { nominated_node: node, ..Pod::clone(pod) });
            }
            Write::Condition(condition) => {
                self.say(&format!("{name}: {}: {}", condition.reason, condition.message));
            }
            Write::Object(write) => {
                let WriteVerb::Patch { merge, .. } = write.verb else { panic!("{write:?}") };
                self.say(&format!("{name} patches {} with {merge}", write.key.name));
            }
            Write::Evict(eviction) => {
                self.say(&format!("{name} evicts {}", eviction.victim.key.name));
                self.pods.remove(&eviction.victim.key);
                self.scheduler.observe(self.now, Event::Done(effect.id, Ok(())));
                self.scheduler.observe(self.now, Event::pod_gone(eviction.victim.key.clone()));
                return;
            }
            _ => {}
        }
        self.scheduler.observe(self.now, Event::Done(effect.id, Ok(())));
        if let Some(pod) = changed.map(Arc::new) {
            self.pods.insert(pod.key.clone(), pod.clone());
            self.scheduler.observe(self.now, Event::Pod(Observation::Is(pod)));
        }
    }

    fn say(&mut self, line: &str) {
        writeln!(self.report, "{line}").expect("a string takes all");
    }

    /// How many decisions were made from a source.
    fn n_decisions(&self, source: &str) -> u64 {
        let families = self.scheduler.metrics();
        let family = families.iter().find(|one| one.descriptor.name == "plimsoll_decisions_total");
        let series = family.expect("decisions are counted").series.iter();
        let of_source = series.filter(|one| one.labels.iter().any(|label| *label == *source));
        of_source
            .map(|one| match one.value {
                Value::Number(n) => n,
                Value::Float(_) | Value::Histogram(_) => panic!("decisions are counted"),
            })
            .sum()
    }
}

/// Tells of `steps` in turn, with and without scans. All decisions are made from memory, and none differs from
/// one from scratch.
#[track_caller]
fn check(steps: &[Vec<Json>], expected: &Expect) {
    let mut reports = Vec::new();
    for scans in [Scans::Never, Scans::Always, Scans::WhereCheaper] {
        let mut world = World::new(scans);
        for objects in steps {
            world.tell(objects);
        }
        assert_eq!(world.scheduler.audit().differences, [], "{scans:?}");
        assert_eq!(world.n_decisions("scratch"), 0, "{scans:?}\n{}", world.report);
        assert!(0 < world.n_decisions("memory"));
        reports.push(world.report);
    }
    expected.assert_eq(&reports[0]);
    assert_eq!(reports[1], reports[0]);
    assert_eq!(reports[2], reports[0]);
}

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
