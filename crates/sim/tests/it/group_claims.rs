//! Claims on devices that the pods of a group share.

use std::fmt::Write as _;
use std::time::Duration;

use expect_test::{Expect, expect};
use plimsoll_api::devices::{
    ClaimConsumer, ClaimSource, ClaimSpec, Device, DeviceAsk, DeviceNodes, DeviceRequest,
    RequestKind,
};
use plimsoll_api::wire::Object;
use plimsoll_api::{
    AnyObject, DeviceClass, KindRef, Kinds, ObjectKey, PodGroup, PodKey, PodResourceClaim,
    ResourceClaim, ResourceClaimTemplate, ResourceSlice,
};
use plimsoll_engine::{Engine, Event, GroupDecision, GroupResult, Options, Scheduler};
use plimsoll_framework::{Release, Time};
use plimsoll_sim::{
    Extent, Happening, InitialCluster, Lifecycle, Manner, RequestFaults, RequestVerb,
    SimulatedCluster, Simulation,
};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde_json::{Value as Json, json};

use crate::groups;

const RULES: [Release; 2] = [Release::V1_36, Release::V1_37];

/// Three nodes, of which two reach one device together.
fn hardware() -> Vec<Json> {
    let node = |name: &str, rack: &str| {
        json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"rack": rack}},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
        })
    };
    let in_rack = json!({"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["r1"]}]}]});
    vec![
        node("a", "r1"),
        node("b", "r2"),
        node("c", "r1"),
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "fabric"}}),
        json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"},
            "spec": {
                "driver": "fabric.example.com", "nodeSelector": in_rack, "devices": [{"name": "switch"}],
                "pool": {"name": "r1", "generation": 1, "resourceSliceCount": 1},
            },
        }),
        json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
            "metadata": {"namespace": "default", "name": "t"},
            "spec": {"spec": {"devices": {"requests": [
                {"name": "r", "exactly": {"deviceClassName": "fabric"}}]}}},
        }),
        json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": {"namespace": "default", "name": "named"},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "fabric"}}]}},
        }),
    ]
}

/// A gang of four pods that share a claim, each with two CPUs.
fn gang(shared: &Json) -> Vec<Json> {
    let mut objects = vec![json!({
        "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
        "metadata": {"name": "train", "namespace": "default", "uid": "g1"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 4}}, "resourceClaims": [shared]},
    })];
    objects.extend((0..4).map(|number| member(number, shared)));
    objects
}

fn member(number: u32, claim: &Json) -> Json {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "default", "name": format!("train-{number}")},
        "spec": {
            "schedulingGroup": {"podGroupName": "train"},
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}],
            "resourceClaims": [claim],
        },
    })
}

fn from_template() -> Json {
    json!({"name": "net", "resourceClaimTemplateName": "t"})
}

fn by_name() -> Json {
    json!({"name": "net", "resourceClaimName": "named"})
}

fn cluster(objects: &[Json]) -> InitialCluster {
    let kinds = Kinds::built_in().with(KindRef::of::<ResourceClaimTemplate>());
    let mut cluster = InitialCluster::default();
    for object in objects {
        match kinds.object(object).expect("the object is valid") {
            Object::Pod(pod) => cluster.pods.push(*pod),
            Object::Node(node) => cluster.nodes.push(*node),
            Object::Other(object) => cluster.objects.push(object),
            unknown @ Object::Unknown { .. } => panic!("{unknown:?}"),
        }
    }
    cluster.settled()
}

/// A scheduler with all gates of groups, and that of their claims.
fn scheduler(release: Release, engine: Engine) -> Scheduler {
    let audit_every = u32::from(engine == Engine::Fast);
    let with = |options| Options { engine, audit_every, ..options };
    groups::gated_scheduler(&["DRAWorkloadResourceClaims"], release, with)
}

/// Where pods and devices are after so many seconds.
fn report(simulation: &Simulation) -> String {
    let mut report = String::new();
    for pod in simulation.world().pods() {
        let node = pod.node_name.as_deref().unwrap_or("no node");
        writeln!(report, "{} on {node}", pod.key.name).expect("text can grow");
    }
    let stores = &simulation.scheduler().view().stores.objects;
    for claim in stores.of::<ResourceClaim>().iter() {
        let devices = claim.allocation.iter().flat_map(|allocation| &allocation.devices);
        let devices: Vec<_> = devices.map(|device| device.device.as_str()).collect();
        let users = claim.reserved_for.iter().map(|one| format!("{} {}", one.resource, one.name));
        let users: Vec<_> = users.collect();
        writeln!(report, "{} has {devices:?} for {users:?}", claim.key.name).expect("it can grow");
    }
    report
}

/// What has become of these objects after so many seconds, in which all this has happened.
#[track_caller]
fn after(
    release: Release,
    objects: &[Json],
    (seconds, happenings): (i64, Vec<(i64, Happening)>),
    faults: RequestFaults,
) -> String {
    let mut world = SimulatedCluster::new(Lifecycle::default(), faults);
    for (second, what) in happenings {
        world.plan(Time::from_millis(second * 1000), what);
    }
    let scheduler = scheduler(release, Engine::Fast);
    let mut simulation =
        Simulation::audited(world, scheduler, cluster(objects), Extent::Placements);
    while simulation.advance_until(Some(Time::from_millis(seconds * 1000))).is_some() {}
    assert_eq!(simulation.violations(), [], "{release}");
    assert_eq!(simulation.decisions_audit().differences, [], "{release}");
    report(&simulation)
}

#[track_caller]
fn check(
    objects: &[Json],
    (seconds, happenings): (i64, Vec<(i64, Happening)>),
    faults: impl Fn() -> RequestFaults,
    expected: &Expect,
) {
    for release in RULES {
        let happens = (seconds, happenings.clone());
        expected.assert_eq(&after(release, objects, happens, faults()));
    }
}

#[test]
fn a_gang_gets_one_device_for_all_its_pods_where_they_reach_it() {
    let mut objects = hardware();
    objects.extend(gang(&from_template()));
    check(
        &objects,
        (30, Vec::new()),
        RequestFaults::default,
        &expect![[r#"
            train-0 on a
            train-1 on c
            train-2 on a
            train-3 on c
            named has [] for []
            train-net has ["switch"] for ["podgroups train"]
        "#]],
    );
}

#[test]
fn a_gang_can_share_a_claim_that_it_names() {
    let mut objects = hardware();
    objects.extend(gang(&by_name()));
    check(
        &objects,
        (30, Vec::new()),
        RequestFaults::default,
        &expect![[r#"
            train-0 on a
            train-1 on c
            train-2 on a
            train-3 on c
            named has ["switch"] for ["podgroups train"]
        "#]],
    );
}

/// The claim is then reserved for each pod, one after the other.
#[test]
fn pods_of_a_gang_can_share_a_claim_that_is_not_of_the_gang() {
    let mut objects = hardware();
    objects.extend(gang(&by_name()));
    let group = objects.iter_mut().find(|object| object["kind"] == "PodGroup");
    group.expect("there is a group")["spec"]["resourceClaims"] = json!([]);
    check(
        &objects,
        (30, Vec::new()),
        RequestFaults::default,
        &expect![[r#"
            train-0 on a
            train-1 on c
            train-2 on a
            train-3 on c
            named has ["switch"] for ["pods train-0", "pods train-1", "pods train-2", "pods train-3"]
        "#]],
    );
}

/// It is reserved for the gang, which is enough.
#[test]
fn a_pod_can_use_the_claim_of_its_gang_under_another_name() {
    let mut objects = hardware();
    objects.extend(gang(&by_name()).into_iter().take(4));
    objects.push(member(3, &json!({"name": "own", "resourceClaimName": "named"})));
    check(
        &objects,
        (30, Vec::new()),
        RequestFaults::default,
        &expect![[r#"
            train-0 on a
            train-1 on c
            train-2 on a
            train-3 on c
            named has ["switch"] for ["podgroups train"]
        "#]],
    );
}

/// The nodes that reach the device have room for four pods.
#[test]
fn a_gang_for_which_there_is_no_room_at_its_device_holds_nothing() {
    let mut objects = hardware();
    objects.extend(gang(&from_template()));
    objects.push(member(4, &from_template()));
    let group = objects.iter_mut().find(|object| object["kind"] == "PodGroup");
    group.expect("there is a group")["spec"]["schedulingPolicy"]["gang"]["minCount"] = json!(5);
    check(
        &objects,
        (30, Vec::new()),
        RequestFaults::default,
        &expect![[r#"
            train-0 on no node
            train-1 on no node
            train-2 on no node
            train-3 on no node
            train-4 on no node
            named has [] for []
            train-net has [] for []
        "#]],
    );
}

#[test]
fn a_claim_of_a_group_outlives_its_pods_and_goes_with_the_group() {
    let mut objects = hardware();
    objects.extend(gang(&from_template()));
    let gone = |number: u32| {
        let pod = PodKey::new("default", format!("train-{number}"));
        (20, Happening::IsDeleted(pod, Duration::ZERO))
    };
    let mut happenings: Vec<_> = (0..4).map(gone).collect();
    check(
        &objects,
        (30, happenings.clone()),
        RequestFaults::default,
        &expect![[r#"
            named has [] for []
            train-net has ["switch"] for ["podgroups train"]
        "#]],
    );
    let key = ObjectKey::new("default", "train");
    happenings.push((40, Happening::Other(Event::gone(KindRef::of::<PodGroup>(), key))));
    check(
        &objects,
        (60, happenings),
        RequestFaults::default,
        &expect![[r#"
            named has [] for []
        "#]],
    );
}

/// Nobody uses the claim, or only the group, of which no pod runs: in 1.36 its reservation ends first.
#[test]
fn a_gang_gives_up_a_device_where_it_has_no_room() {
    let group = json!({
        "apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "train", "uid": "g1"});
    for reserved_for in [json!([]), json!([group])] {
        let mut objects = hardware();
        for object in &mut objects {
            if object["metadata"]["labels"]["rack"] == "r1" {
                object["spec"]["unschedulable"] = json!(true);
            }
            if object["metadata"]["name"] == "named" {
                object["status"] = json!({
                    "reservedFor": reserved_for,
                    "allocation": {
                        "devices": {"results": [{
                            "request": "r", "driver": "fabric.example.com", "pool": "r1",
                            "device": "switch",
                        }]},
                        "nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [
                            {"key": "rack", "operator": "In", "values": ["r1"]}]}]},
                    },
                });
            }
        }
        objects.push(json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "other"},
            "spec": {
                "driver": "fabric.example.com", "nodeName": "b", "devices": [{"name": "other"}],
                "pool": {"name": "r2", "generation": 1, "resourceSliceCount": 1},
            },
        }));
        objects.extend(gang(&by_name()).into_iter().take(3));
        let group = objects.iter_mut().find(|object| object["kind"] == "PodGroup");
        group.expect("there is a group")["spec"]["schedulingPolicy"]["gang"]["minCount"] = json!(2);
        check(
            &objects,
            (60, Vec::new()),
            RequestFaults::default,
            &expect![[r#"
                train-0 on b
                train-1 on b
                named has ["other"] for ["podgroups train"]
            "#]],
        );
    }
}

/// The claim keeps its pod from all nodes.
#[test]
fn a_claim_for_extended_resources_that_an_earlier_attempt_has_left_is_deleted() {
    let group = json!({
        "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
        "metadata": {"name": "train", "namespace": "default", "uid": "g1"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
    });
    let member = |number: u32| {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "namespace": "default", "name": format!("train-{number}"), "uid": format!("p{number}"),
            },
            "spec": {
                "schedulingGroup": {"podGroupName": "train"},
                "containers": [{
                    "name": "main", "resources": {"requests": {"example.com/gpu": "1"}}}],
            },
        })
    };
    let left = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {
            "namespace": "default", "name": "left", "uid": "c1",
            "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
            "finalizers": ["resource.kubernetes.io/delete-protection"],
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Pod", "name": "train-0", "uid": "p0",
                "controller": true,
            }],
        },
        "spec": {"devices": {"requests": [
            {"name": "container-0-request-0", "exactly": {"deviceClassName": "gpu"}}]}},
    });
    let objects = [
        json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
        }),
        json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"},
            "spec": {"extendedResourceName": "example.com/gpu"},
        }),
        json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"},
            "spec": {
                "driver": "gpu.example.com", "nodeName": "a",
                "devices": [{"name": "gpu-0"}, {"name": "gpu-1"}],
                "pool": {"name": "a", "generation": 1, "resourceSliceCount": 1},
            },
        }),
        group,
        left,
        member(0),
        member(1),
    ];
    for release in RULES {
        let what = after(release, &objects, (60, Vec::new()), RequestFaults::default());
        assert!(what.starts_with("train-0 on a\ntrain-1 on a\n"), "{release}: {what}");
        assert!(!what.contains("left has"), "{release}: {what}");
        assert_eq!(what.matches(" has [\"gpu-").count(), 2, "{release}: {what}");
    }
}

/// The claim `named` has the device, and is reserved for a group of this uid.
fn allocated(mut objects: Vec<Json>, uid: &str) -> Vec<Json> {
    let named = objects.iter_mut().find(|object| object["metadata"]["name"] == "named");
    named.expect("there is one")["status"] = json!({
        "reservedFor": [{
            "apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "train", "uid": uid}],
        "allocation": {
            "devices": {"results": [{
                "request": "r", "driver": "fabric.example.com", "pool": "r1", "device": "switch",
            }]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "rack", "operator": "In", "values": ["r1"]}]}]},
        },
    });
    objects
}

/// The reservation for the earlier group ends soon.
#[test]
fn a_claim_that_is_reserved_for_an_earlier_group_of_the_name_is_reserved_again() {
    let mut objects = allocated(hardware(), "g0");
    objects.extend(gang(&by_name()));
    check(
        &objects,
        (30, Vec::new()),
        RequestFaults::default,
        &expect![[r#"
            train-0 on a
            train-1 on c
            train-2 on a
            train-3 on c
            named has ["switch"] for ["podgroups train", "podgroups train"]
        "#]],
    );
}

fn group_is_gone() -> Happening {
    let key = ObjectKey::new("default", "train");
    Happening::Other(Event::gone(KindRef::of::<PodGroup>(), key))
}

fn late_writes() -> RequestFaults {
    let mut faults = RequestFaults::default();
    faults.set(RequestVerb::Write, Manner::Late(Duration::from_secs(5)));
    faults
}

#[test]
fn a_pod_is_not_bound_with_a_claim_of_a_group_that_has_gone_meanwhile() {
    let mut objects = hardware();
    objects.extend(gang(&by_name()));
    check(
        &objects,
        (60, vec![(7, group_is_gone())]),
        late_writes,
        &expect![[r#"
            train-0 on no node
            train-1 on no node
            train-2 on no node
            train-3 on no node
            named has [] for []
        "#]],
    );
}

#[test]
fn a_claim_is_reserved_for_the_group_that_has_come_in_the_place_of_another_meanwhile() {
    let mut objects = hardware();
    objects.extend(gang(&by_name()));
    let mut again = objects.iter().find(|object| object["kind"] == "PodGroup").cloned();
    let again = again.as_mut().expect("there is a group");
    again["metadata"]["uid"] = json!("g2");
    let again = cluster(std::slice::from_ref(again)).objects.remove(0);
    let happenings = vec![(7, group_is_gone()), (8, Happening::Other(Event::object(again)))];
    for release in RULES {
        let report = after(release, &objects, (60, happenings.clone()), late_writes());
        let is_reserved = report.contains(r#"named has ["switch"] for ["podgroups train"]"#);
        assert!(is_reserved && !report.contains("no node"), "{release}: {report}");
    }
}

/// A pod that claims the device for itself.
fn solo() -> Vec<Json> {
    vec![
        json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": {"namespace": "default", "name": "of-solo"},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "fabric"}}]}},
        }),
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": "solo"},
            "spec": {
                "schedulingGates": [{"name": "later"}], "containers": [{"name": "main"}],
                "resourceClaims": [{"name": "net", "resourceClaimName": "of-solo"}],
            },
        }),
    ]
}

/// The first pod of a gang, which writes the devices, is given up, and then the others, while that write is on its way.
fn given_up_while_devices_are_written() -> (Vec<Json>, Vec<(i64, Happening)>) {
    let mut objects = hardware();
    objects.extend(gang(&by_name()));
    objects.extend(solo());
    let pod = |name: &str| PodKey::new("default", name);
    let mut happenings: Vec<(i64, Happening)> = (0..4)
        .map(|n| (7, Happening::IsDeleted(pod(&format!("train-{n}")), Duration::ZERO)))
        .collect();
    happenings.push((8, Happening::IsUngated(pod("solo"))));
    (objects, happenings)
}

#[test]
fn devices_whose_write_is_on_its_way_are_not_free_once_all_pods_of_the_gang_are_given_up() {
    let (objects, happenings) = given_up_while_devices_are_written();
    check(
        &objects,
        (60, happenings),
        late_writes,
        &expect![[r#"
            solo on no node
            named has ["switch"] for ["podgroups train"]
            of-solo has [] for []
        "#]],
    );
}

/// The write never takes effect, and no answer comes.
#[test]
fn devices_whose_write_has_failed_are_free_once_all_pods_of_the_gang_are_given_up() {
    for release in RULES {
        let (objects, happenings) = given_up_while_devices_are_written();
        let mut world = SimulatedCluster::default();
        for (second, what) in happenings {
            world.plan(Time::from_millis(second * 1000), what);
        }
        let scheduler = scheduler(release, Engine::Fast);
        let mut simulation =
            Simulation::audited(world, scheduler, cluster(&objects), Extent::Placements);
        let mut run_until = |second: i64, manner| {
            simulation.world_mut().faults.set(RequestVerb::Write, manner);
            while simulation.advance_until(Some(Time::from_millis(second * 1000))).is_some() {}
            report(&simulation)
        };
        run_until(4, Manner::Late(Duration::from_secs(5)));
        let before = run_until(8, Manner::Lost);
        assert!(before.contains("solo on no node"), "{release}: {before}");
        let after = run_until(200, Manner::Works);
        assert!(
            after.contains("of-solo has [\"switch\"] for [\"pods solo\"]"),
            "{release}: {after}"
        );
        assert_eq!(simulation.violations(), [], "{release}");
    }
}

/// The pod that was to write the devices is given up, and another one of the gang does it.
#[test]
fn a_gang_whose_writes_come_late_gets_its_device_once() {
    let mut objects = hardware();
    objects.extend(gang(&from_template()));
    check(
        &objects,
        (60, Vec::new()),
        late_writes,
        &expect![[r#"
            train-0 on a
            train-1 on c
            train-2 on a
            train-3 on c
            named has [] for []
            train-net has ["switch"] for ["podgroups train"]
        "#]],
    );
}

fn spec(count: i64) -> ClaimSpec {
    let ask = DeviceAsk {
        class: "any".into(),
        mode: plimsoll_api::devices::AllocationMode::ExactCount(count),
        ..DeviceAsk::default()
    };
    let kind = RequestKind::Exactly { ask, admin_access: None };
    let requests = vec![DeviceRequest { name: "r".into(), kind }];
    ClaimSpec { requests, ..ClaimSpec::default() }
}

/// The random clusters of groups, with devices: those of one node, or of all in a zone. Most groups share a claim.
fn random(seed: u64) -> InitialCluster {
    let mut cluster = groups::cluster(&mut Pcg64::seed_from_u64(seed));
    let rng = &mut Pcg64::seed_from_u64(!seed);
    let class = DeviceClass { name: "any".into(), ..DeviceClass::default() };
    let mut objects = vec![AnyObject::new(class)];
    let device = |number: usize| Device { name: format!("d{number}").into(), ..Device::default() };
    for node in &cluster.nodes {
        let n_devices = rng.random_range(0..3);
        objects.push(AnyObject::new(ResourceSlice {
            name: node.name.clone(),
            driver: "d.example.com".into(),
            pool: node.name.clone(),
            generation: 1,
            slice_count: 1,
            nodes: DeviceNodes::Node(node.name.clone()),
            devices: (0..n_devices).map(device).collect(),
            ..ResourceSlice::default()
        }));
    }
    if rng.random_bool(0.5) {
        objects.push(AnyObject::new(ResourceSlice {
            name: "everywhere".into(),
            driver: "d.example.com".into(),
            pool: "everywhere".into(),
            generation: 1,
            slice_count: 1,
            nodes: DeviceNodes::All,
            devices: (0..rng.random_range(1..4)).map(device).collect(),
            ..ResourceSlice::default()
        }));
    }
    for number in 0..2_i64 {
        let key = ObjectKey::new("default", format!("t{number}"));
        let template = ResourceClaimTemplate { key, spec: spec(number + 1) };
        objects.push(AnyObject::new(template));
        let key = ObjectKey::new("default", format!("c{number}"));
        let claim = ResourceClaim { key, spec: spec(number + 1), ..ResourceClaim::default() };
        objects.push(AnyObject::new(claim));
    }
    let mut sources = Vec::new();
    for object in &mut cluster.objects {
        let Some(group) = object.get::<PodGroup>().filter(|_| rng.random_bool(0.7)) else {
            continue;
        };
        let number = rng.random_range(0..2);
        let source = match rng.random_bool(0.7) {
            true => ClaimSource::Template(format!("t{number}").into()),
            false => ClaimSource::Claim(format!("c{number}").into()),
        };
        let claim = PodResourceClaim { name: "shared".into(), source };
        sources.push((group.key.name.clone(), claim.clone()));
        // Some pods share a claim that is none of the group.
        let resource_claims = if rng.random_bool(0.8) { vec![claim] } else { Vec::new() };
        *object = PodGroup { resource_claims, ..group.clone() }.into();
    }
    for pod in &mut cluster.pods {
        let claim = sources.iter().find(|(name, _)| pod.scheduling_group.as_ref() == Some(name));
        let shared = claim.map(|(_, claim)| claim.clone()).filter(|_| rng.random_bool(0.9));
        let own =
            PodResourceClaim { name: "own".into(), source: ClaimSource::Template("t0".into()) };
        let own = Some(own).filter(|_| pod.node_name.is_none() && rng.random_bool(0.2));
        pod.resource_claims.extend(shared.into_iter().chain(own));
    }
    cluster.objects.extend(objects);
    cluster.settled()
}

const SEEDS: u64 = 400;

fn run(
    (release, engine): (Release, Engine),
    seed: u64,
    faults: RequestFaults,
) -> (Simulation, Vec<GroupDecision>) {
    let world = SimulatedCluster::new(Lifecycle::default(), faults);
    let (scheduler, cluster) = (scheduler(release, engine), random(seed));
    let mut simulation = Simulation::audited(world, scheduler, cluster, Extent::Placements);
    let mut decided = Vec::new();
    while simulation.advance().is_some() {
        decided.extend(simulation.take_group_decisions());
    }
    (simulation, decided)
}

/// A claim of a group is reserved for the group alone.
fn reservations_are_right(simulation: &Simulation, of: &str) -> usize {
    let stores = &simulation.scheduler().view().stores.objects;
    let mut n_for_groups = 0;
    for claim in stores.of::<ResourceClaim>().iter() {
        let made_for_group = claim.controller.as_ref().is_some_and(|one| one.kind == "PodGroup");
        let all_groups = claim.reserved_for.iter().all(ClaimConsumer::is_group);
        assert!(!made_for_group || all_groups, "{of}: {:?}", claim.reserved_for);
        let n_groups = claim.reserved_for.iter().filter(|one| one.is_group()).count();
        n_for_groups += n_groups;
    }
    n_for_groups
}

#[test]
fn groups_share_claims_in_random_clusters_and_none_sleeps_that_would_fit() {
    for release in RULES {
        let (mut n_for_groups, mut n_left) = (0, 0);
        for seed in 0..SEEDS {
            let of = format!("{release}, seed {seed}");
            let (mut simulation, _) = run((release, Engine::Fast), seed, RequestFaults::default());
            assert_eq!(simulation.violations(), [], "{of}");
            assert_eq!(simulation.decisions_audit().differences, [], "{of}");
            n_for_groups += reservations_are_right(&simulation, &of);
            let now = simulation.now() + Duration::from_mins(1);
            let stores = &simulation.scheduler().view().stores.objects;
            let groups: Vec<ObjectKey> =
                stores.of::<PodGroup>().iter().map(|group| group.key.clone()).collect();
            for group in groups {
                let state = simulation.scheduler().view().stores.groups.get(&group);
                if state.is_some_and(|state| 0 < state.placed().len()) {
                    continue;
                }
                let again = simulation.scheduler_mut().try_group_now(now, &group, &mut Vec::new());
                let fits = again.is_some_and(|again| again.result == GroupResult::Scheduled);
                assert!(!fits, "{of}: {group} would fit");
                n_left += 1;
            }
        }
        assert!(50 < n_for_groups && 50 < n_left, "{release}: {n_for_groups} share, {n_left} wait");
    }
}

#[test]
fn groups_that_share_claims_are_decided_alike_from_memory_and_from_scratch() {
    for (release, seed) in RULES.into_iter().flat_map(|one| (0..SEEDS).map(move |n| (one, n))) {
        let decided = |engine| run((release, engine), seed, RequestFaults::default()).1;
        let (fast, slow) = (decided(Engine::Fast), decided(Engine::Reference));
        assert_eq!(fast, slow, "{release}, seed {seed}");
    }
}

#[test]
fn no_rule_is_broken_by_groups_that_share_claims_under_faults() {
    for (release, seed) in RULES.into_iter().flat_map(|one| (0..SEEDS).map(move |n| (one, n))) {
        let until = random(seed).begins() + Duration::from_mins(1);
        let faults = RequestFaults::by_chance(seed, 30, until);
        let (simulation, _) = run((release, Engine::Fast), seed, faults);
        let of = format!("{release}, seed {seed}");
        assert_eq!(simulation.violations(), [], "{of}");
        assert_eq!(simulation.decisions_audit().differences, [], "{of}");
        reservations_are_right(&simulation, &of);
    }
}
