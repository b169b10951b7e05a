//! Pods with volumes and claims on devices that fit, broken in one way or two that are known.

use plimsoll_advisor::{RemedyKind, size};
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde_json::{Value, json};

use crate::broken::{self, BREAKS, PLAIN, check_remedies, container, nodes};
use crate::world::{POD, World};

pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";
pub(crate) const DRIVER: &str = "csi.example.com";
pub(crate) const GPU: &str = "gpu.example.com";

/// A way to break the claims of a pod, or what they need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClaimBreak {
    VolumeZone,
    MissingClaim,
    StorageCapacity,
    MissingClass,
    AttachLimit,
    DeviceCount,
    DeviceSelector,
    DeviceTaint,
    DeviceConstraint,
    DeviceClass,
    DevicesHeld,
}

const CLAIM_BREAKS: [ClaimBreak; 11] = [
    ClaimBreak::VolumeZone,
    ClaimBreak::MissingClaim,
    ClaimBreak::StorageCapacity,
    ClaimBreak::MissingClass,
    ClaimBreak::AttachLimit,
    ClaimBreak::DeviceCount,
    ClaimBreak::DeviceSelector,
    ClaimBreak::DeviceTaint,
    ClaimBreak::DeviceConstraint,
    ClaimBreak::DeviceClass,
    ClaimBreak::DevicesHeld,
];

pub(crate) fn object(api_version: &str, kind: &str, name: &str, fields: Value) -> Value {
    let mut object = json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
    });
    let Value::Object(more) = fields else { panic!("fields are an object") };
    object.as_object_mut().expect("it is an object").extend(more);
    object
}

/// Two classes whose volumes are made where a pod is, with room in each of three zones.
pub(crate) fn storage(world: &mut World) {
    for class in ["fast", "slow"] {
        world.add(object(
            "storage.k8s.io/v1",
            "StorageClass",
            class,
            json!({
                "provisioner": DRIVER, "volumeBindingMode": "WaitForFirstConsumer",
            }),
        ));
        for zone in 0..3 {
            world.add(object(
                "storage.k8s.io/v1",
                "CSIStorageCapacity",
                &format!("{class}-{zone}"),
                json!({
                    "storageClassName": class, "capacity": "100Gi",
                    "nodeTopology": {"matchLabels": {ZONE: zone.to_string()}},
                }),
            ));
        }
    }
    let spec = json!({"spec": {"storageCapacity": true}});
    world.add(object("storage.k8s.io/v1", "CSIDriver", DRIVER, spec));
    for node in nodes(world) {
        let drivers = json!([{
            "name": DRIVER, "nodeID": node, "topologyKeys": [ZONE], "allocatable": {"count": 3},
        }]);
        let spec = json!({"spec": {"drivers": drivers}});
        world.add(object("storage.k8s.io/v1", "CSINode", &node, spec));
    }
}

/// A claim of the class `fast` that is not bound.
pub(crate) fn claim(name: &str) -> Value {
    object(
        "v1",
        "PersistentVolumeClaim",
        name,
        json!({"spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "fast",
            "resources": {"requests": {"storage": "10Gi"}},
        }}),
    )
}

/// Binds a claim to a volume in a zone that no node is in.
pub(crate) fn bind_elsewhere(world: &mut World, claim: &str) {
    world.add(object(
        "v1",
        "PersistentVolume",
        &format!("disk-of-{claim}"),
        json!({"spec": {
            "capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce"],
            "storageClassName": "fast",
            "csi": {"driver": DRIVER, "volumeHandle": claim},
            "claimRef": {"namespace": "default", "name": claim},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": ZONE, "operator": "In", "values": ["elsewhere"]},
            ]}]}},
        }}),
    ));
    let spec = &mut world.get_mut("PersistentVolumeClaim", claim)["spec"];
    spec["volumeName"] = json!(format!("disk-of-{claim}"));
}

/// Two classes of devices, and two devices on each node.
pub(crate) fn devices(world: &mut World) {
    for class in ["gpu", "card"] {
        world.add(object(
            "resource.k8s.io/v1",
            "DeviceClass",
            class,
            json!({"spec": {
                "selectors": [{"cel": {"expression": format!("device.driver == \"{GPU}\"")}}],
            }}),
        ));
    }
    for node in nodes(world) {
        let device = |number: usize| json!({"name": format!("gpu-{number}"), "attributes": {"model": {"string": "a"}}});
        world.add(object(
            "resource.k8s.io/v1",
            "ResourceSlice",
            &format!("{node}-gpus"),
            json!({
                "spec": {
                    "driver": GPU, "nodeName": node,
                    "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
                    "devices": [device(0), device(1)],
                },
            }),
        ));
    }
}

/// The spec of a claim on so many devices.
pub(crate) fn of_devices(count: usize) -> Value {
    json!({"devices": {"requests": [{"name": "gpu", "exactly": {
        "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count,
    }}]}})
}

/// The pod claims devices.
fn claim_devices(world: &mut World, rng: &mut impl Rng) {
    let spec = of_devices(rng.random_range(1..3));
    let pod = &mut world.get_mut("Pod", POD)["spec"];
    pod["containers"][0]["resources"]["claims"] = json!([{"name": "gpu"}]);
    if rng.random_bool(0.5) {
        pod["resourceClaims"] = json!([{"name": "gpu", "resourceClaimName": "gpu"}]);
        world.add(object("resource.k8s.io/v1", "ResourceClaim", "gpu", json!({"spec": spec})));
    } else {
        pod["resourceClaims"] = json!([{"name": "gpu", "resourceClaimTemplateName": "gpu"}]);
        let spec = json!({"spec": {"spec": spec}});
        world.add(object("resource.k8s.io/v1", "ResourceClaimTemplate", "gpu", spec));
    }
}

/// The spec of the claim on devices, or of its template.
fn devices_of(world: &mut World) -> &mut Value {
    if world.has("ResourceClaim", "gpu") {
        &mut world.get_mut("ResourceClaim", "gpu")["spec"]["devices"]
    } else {
        &mut world.get_mut("ResourceClaimTemplate", "gpu")["spec"]["spec"]["devices"]
    }
}

fn cluster(rng: &mut impl Rng) -> World {
    let mut world = broken::cluster(rng);
    for (at, node) in nodes(&world).into_iter().enumerate() {
        world.get_mut("Node", &node)["metadata"]["labels"][ZONE] = json!((at % 3).to_string());
    }
    storage(&mut world);
    world.add(claim("data"));
    devices(&mut world);
    claim_devices(&mut world, rng);
    world.get_mut("Pod", POD)["spec"]["volumes"] =
        json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
    world
}

/// Breaks the claims, and returns the size of undoing that at most.
fn break_it(world: &mut World, how: ClaimBreak) -> u32 {
    match how {
        ClaimBreak::VolumeZone => {
            bind_elsewhere(world, "data");
            size::EMPTY_CLAIM
        }
        ClaimBreak::MissingClaim => {
            world.remove("PersistentVolumeClaim", "data");
            size::NEW_CLAIM
        }
        ClaimBreak::StorageCapacity => {
            let claim = &mut world.get_mut("PersistentVolumeClaim", "data")["spec"];
            claim["resources"]["requests"]["storage"] = json!("500Gi");
            size::STORAGE
        }
        ClaimBreak::MissingClass => {
            let claim = &mut world.get_mut("PersistentVolumeClaim", "data")["spec"];
            claim["storageClassName"] = json!("lost");
            size::OTHER_CLASS
        }
        ClaimBreak::AttachLimit => {
            for node in nodes(world) {
                let drivers = &mut world.get_mut("CSINode", &node)["spec"]["drivers"];
                drivers[0]["allocatable"]["count"] = json!(0);
            }
            size::ATTACH_LIMIT
        }
        ClaimBreak::DeviceCount => {
            devices_of(world)["requests"][0]["exactly"]["count"] = json!(3);
            size::REQUEST + size::WHOLE_REQUEST / 3
        }
        ClaimBreak::DeviceSelector => {
            let expression = format!("device.attributes[\"{GPU}\"].model == \"b\"");
            devices_of(world)["requests"][0]["exactly"]["selectors"] =
                json!([{"cel": {"expression": expression}}]);
            size::SELECTOR
        }
        ClaimBreak::DeviceTaint => {
            taint_devices(world);
            size::TOLERATION
        }
        ClaimBreak::DeviceConstraint => {
            devices_of(world)["constraints"] =
                json!([{"requests": ["gpu"], "matchAttribute": format!("{GPU}/rack")}]);
            size::CONSTRAINT
        }
        ClaimBreak::DeviceClass => {
            devices_of(world)["requests"][0]["exactly"]["deviceClassName"] = json!("lost");
            size::DEVICE_CLASS
        }
        ClaimBreak::DevicesHeld => {
            hold_all(world);
            // A node like one that there is has free devices. It also has its taints, which the pod must tolerate.
            size::NODE + size::TOLERATION - size::TAINT
        }
    }
}

/// All devices have a taint.
pub(crate) fn taint_devices(world: &mut World) {
    for node in nodes(world) {
        let slice = &mut world.get_mut("ResourceSlice", &format!("{node}-gpus"))["spec"];
        for device in slice["devices"].as_array_mut().expect("they are a list") {
            device["taints"] = json!([{"key": "sick", "effect": "NoSchedule"}]);
        }
    }
}

/// Each device is held by a pod on its node.
pub(crate) fn hold_all(world: &mut World) {
    for node in nodes(world) {
        for number in 0..2 {
            let name = format!("user-{node}-{number}");
            let mut spec = container(1, 1);
            spec["nodeName"] = json!(node);
            spec["resourceClaims"] = json!([{"name": "gpu", "resourceClaimName": name}]);
            world.pod(&name, &json!({}), &spec);
            world.get_mut("Pod", &name)["metadata"]["uid"] = json!(format!("uid-{name}"));
            world.add(object(
                "resource.k8s.io/v1",
                "ResourceClaim",
                &name,
                json!({
                    "spec": {"devices": {"requests": [{
                        "name": "gpu", "exactly": {"deviceClassName": "gpu"},
                    }]}},
                    "status": {
                        "allocation": {
                            "devices": {"results": [{
                                "request": "gpu", "driver": GPU, "pool": node,
                                "device": format!("gpu-{number}"),
                            }]},
                            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [
                                {"key": "metadata.name", "operator": "In", "values": [node]},
                            ]}]},
                        },
                        "reservedFor": [{
                            "resource": "pods", "name": name, "uid": format!("uid-{name}"),
                        }],
                    },
                }),
            ));
        }
    }
}

#[test]
fn claims_that_are_broken_in_one_way_have_a_remedy_that_is_as_small() {
    let mut n_checked = 0;
    for seed in 0..120 {
        let rng = &mut Pcg64::seed_from_u64(seed);
        let mut world = cluster(rng);
        if world.placed(None).is_none() {
            continue;
        }
        n_checked += 1;
        let how = CLAIM_BREAKS[rng.random_range(0..CLAIM_BREAKS.len())];
        let undone = break_it(&mut world, how);
        check_remedies(&world, undone, &format!("seed {seed}: {how:?}"));
    }
    assert!(60 < n_checked, "most clusters have room: {n_checked}");
}

#[test]
fn claims_and_pods_that_are_both_broken_have_a_remedy_that_is_as_small() {
    for seed in 1000..1120 {
        let rng = &mut Pcg64::seed_from_u64(seed);
        let mut world = cluster(rng);
        if world.placed(None).is_none() {
            continue;
        }
        let how = CLAIM_BREAKS[rng.random_range(0..CLAIM_BREAKS.len())];
        let other = BREAKS[rng.random_range(0..PLAIN)];
        let undone = break_it(&mut world, how) + broken::break_it(&mut world, other, rng);
        check_remedies(&world, undone, &format!("seed {seed}: {how:?} and {other:?}"));
    }
}

fn texts(world: &World) -> Vec<String> {
    world.ask(&[]).remedies.iter().map(|remedy| remedy.text.clone()).collect()
}

/// One node with two devices, and a pod that claims them.
fn small() -> World {
    let rng = &mut Pcg64::seed_from_u64(1);
    let mut world = World::default();
    let labels = json!({ZONE: "0"});
    world.node("node-0", &labels, &json!({"cpu": "4", "memory": "8Gi", "pods": "20"}));
    let mut spec = container(100, 100);
    spec["priority"] = json!(10);
    spec["preemptionPolicy"] = json!("Never");
    world.pod(POD, &json!({}), &spec);
    storage(&mut world);
    world.add(claim("data"));
    devices(&mut world);
    claim_devices(&mut world, rng);
    world
}

#[test]
fn a_pod_that_holds_devices_is_named_and_its_claim_goes_with_it() {
    let mut world = small();
    devices_of(&mut world)["requests"][0]["exactly"]["count"] = json!(1);
    hold_all(&mut world);
    let why = world.ask(&[]);
    let evict = "evict default/user-node-0-0, whose devices are then free, from node-0";
    let remedy = why.remedies.iter().find(|one| one.text == evict);
    let remedy = remedy.unwrap_or_else(|| panic!("{:#?}", texts(&world)));
    assert_eq!((remedy.kind, remedy.changes.len()), (RemedyKind::Cluster, 2));
    assert_eq!(world.changed(&remedy.changes).placed(None), Some(("node-0".to_owned(), 1)));
}

#[test]
fn no_more_devices_are_given_up_than_necessary() {
    let mut world = small();
    devices_of(&mut world)["requests"][0]["exactly"]["count"] = json!(9);
    let texts = texts(&world);
    assert!(
        texts.iter().any(|text| text.starts_with("ask for 2 instead of 9 devices")),
        "{texts:#?}"
    );
}

#[test]
fn a_claim_without_a_volume_gets_one_on_a_node() {
    let mut world = small();
    world.add(object("storage.k8s.io/v1", "StorageClass", "local", json!({
        "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer",
    })));
    let claim = &mut world.get_mut("PersistentVolumeClaim", "data")["spec"];
    claim["storageClassName"] = json!("local");
    world.get_mut("Pod", POD)["spec"]["volumes"] =
        json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
    check_remedies(&world, size::OTHER_CLASS, "a local claim");
    let texts = texts(&world);
    let added = "add a volume of 10Gi of the class local on node-0".to_owned();
    assert!(texts.contains(&added), "{texts:#?}");
}
