//! Pods with claims on devices, from the template to the end of the pod.

use std::fmt::Write as _;
use std::time::Duration;

use expect_test::{Expect, expect};
use plimsoll_api::wire::Object;
use plimsoll_api::{KindRef, Kinds, ObjectKey, PodKey, ResourceClaim, ResourceClaimTemplate};
use plimsoll_config::GivenGates;
use plimsoll_engine::{Detail, Event, Options, Outcome, Profile, Scheduler};
use plimsoll_framework::{Release, Time};
use plimsoll_sim::{
    Extent, Happening, InitialCluster, Lifecycle, Manner, RequestFaults, RequestVerb,
    SimulatedCluster, Simulation,
};
use serde_json::{Value as Json, json};

use crate::profiles::{default_profiles, profiles_with};

/// One node with one device, and a class for it; `device` has more fields of the device.
fn hardware(device: &Json) -> Vec<Json> {
    let mut gpu = json!({"name": "gpu-0"});
    for (field, value) in device.as_object().into_iter().flatten() {
        gpu[field] = value.clone();
    }
    vec![
        json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
        }),
        json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"},
            "spec": {"extendedResourceName": "example.com/gpu"},
        }),
        json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"},
            "spec": {
                "driver": "gpu.example.com", "nodeName": "n", "devices": [gpu],
                "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
            },
        }),
    ]
}

fn claim_spec() -> Json {
    json!({"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}})
}

fn template() -> Json {
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
        "metadata": {"namespace": "default", "name": "t"}, "spec": {"spec": claim_spec()},
    })
}

fn claim() -> Json {
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"namespace": "default", "name": "c"}, "spec": claim_spec(),
    })
}

/// A pod that names `claims`.
fn pod(name: &str, claims: &Json) -> Json {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": name},
        "spec": {"containers": [{"name": "main"}], "resourceClaims": claims},
    })
}

fn by_template(name: &str) -> Json {
    pod(name, &json!([{"name": "gpu", "resourceClaimTemplateName": "t"}]))
}

fn by_name(name: &str) -> Json {
    pod(name, &json!([{"name": "gpu", "resourceClaimName": "c"}]))
}

/// A pod that asks for the resource for which the class stands.
fn by_resource(name: &str) -> Json {
    let resources =
        json!({"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}});
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": name},
        "spec": {"containers": [{"name": "main", "resources": resources}]},
    })
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

fn at(second: i64) -> Time {
    Time::from_millis(second * 1000)
}

fn deletion(pod: &str) -> Happening {
    Happening::IsDeleted(PodKey::new("default", pod), Duration::ZERO)
}

/// Runs a simulation for some seconds, in which pods are deleted at the given seconds: its decisions, and the claims at
/// its end.
#[track_caller]
fn check(
    seconds: i64,
    objects: &[Json],
    deleted: &[(i64, &str)],
    faults: RequestFaults,
    expected: &Expect,
) {
    let happenings = deleted.iter().map(|&(second, pod)| (second, deletion(pod)));
    check_with(seconds, objects, happenings, faults, expected);
}

/// The same with anything else that happens.
#[track_caller]
fn check_with(
    seconds: i64,
    objects: &[Json],
    happenings: impl IntoIterator<Item = (i64, Happening)>,
    faults: RequestFaults,
    expected: &Expect,
) {
    check_profiles(default_profiles(), seconds, objects, happenings, faults, expected);
}

/// The same by these profiles.
#[track_caller]
fn check_profiles(
    profiles: Vec<Profile>,
    seconds: i64,
    objects: &[Json],
    happenings: impl IntoIterator<Item = (i64, Happening)>,
    faults: RequestFaults,
    expected: &Expect,
) {
    let mut world = SimulatedCluster::new(Lifecycle::default(), faults);
    for (second, what) in happenings {
        world.plan(at(second), what);
    }
    let options = Options { detail: Detail::Outcome, audit_every: 1, ..Options::default() };
    let scheduler = Scheduler::new(profiles, options, 0).expect("there is one");
    let mut simulation =
        Simulation::audited(world, scheduler, cluster(objects), Extent::Placements);
    let mut report = String::new();
    while let Some(decisions) = simulation.advance_until(Some(at(seconds))) {
        for decision in decisions {
            let (name, second) = (&decision.pod.name, simulation.now().millis() / 1000);
            let outcome = match &decision.outcome {
                Outcome::Scheduled { node, .. } => format!("goes to {node}"),
                Outcome::Unschedulable { message, .. } | Outcome::Error { message } => {
                    message.clone()
                }
            };
            writeln!(report, "{second}s {name}: {outcome}").expect("text can grow");
        }
    }
    for claim in simulation.scheduler().view().stores.objects.of::<ResourceClaim>().iter() {
        let devices = claim.allocation.iter().flat_map(|allocation| &allocation.devices);
        let devices: Vec<_> = devices.map(|device| device.device.as_str()).collect();
        let users: Vec<_> = claim.reserved_for.iter().map(|user| user.name.as_str()).collect();
        let key = &claim.key;
        writeln!(report, "{key} has {devices:?} for {users:?}").expect("text can grow");
    }
    assert_eq!(simulation.violations(), []);
    assert_eq!(simulation.decisions_audit().differences, []);
    expected.assert_eq(&report);
}

#[test]
fn a_claim_is_made_for_each_pod_and_its_device_is_free_when_the_pod_is_gone() {
    let mut objects = hardware(&Json::Null);
    objects.extend([template(), by_template("a"), by_template("b")]);
    check(
        100,
        &objects,
        &[(60, "a")],
        RequestFaults::default(),
        &expect![[r#"
        0s a: goes to n
        0s b: 0/1 nodes are available: 1 cannot allocate all claims. still not schedulable, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.
        60s b: goes to n
        default/b-gpu has ["gpu-0"] for ["b"]
    "#]],
    );
}

#[test]
fn a_shared_claim_keeps_its_device_until_its_last_pod_is_gone() {
    let mut objects = hardware(&Json::Null);
    objects.extend([claim(), by_name("a"), by_name("b"), template(), by_template("c")]);
    let deleted = &[(60, "a"), (120, "b")];
    check(
        100,
        &objects,
        deleted,
        RequestFaults::default(),
        &expect![[r#"
        0s a: goes to n
        0s b: 0/1 nodes are available: resource claim default/c is in the process of being allocated. no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.
        0s c: 0/1 nodes are available: 1 cannot allocate all claims. still not schedulable, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.
        0s b: goes to n
        60s c: 0/1 nodes are available: 1 cannot allocate all claims. still not schedulable, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.
        default/c has ["gpu-0"] for ["b"]
        default/c-gpu has [] for []
    "#]],
    );
    check(
        200,
        &objects,
        deleted,
        RequestFaults::default(),
        &expect![[r#"
        0s a: goes to n
        0s b: 0/1 nodes are available: resource claim default/c is in the process of being allocated. no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.
        0s c: 0/1 nodes are available: 1 cannot allocate all claims. still not schedulable, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.
        0s b: goes to n
        60s c: 0/1 nodes are available: 1 cannot allocate all claims. still not schedulable, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.
        120s c: goes to n
        default/c has [] for []
        default/c-gpu has ["gpu-0"] for ["c"]
    "#]],
    );
}

#[test]
fn a_device_stands_for_a_resource_until_the_pod_is_gone() {
    let mut objects = hardware(&Json::Null);
    objects.extend([by_resource("a"), by_resource("b")]);
    check(
        30,
        &objects,
        &[(60, "a")],
        RequestFaults::default(),
        &expect![[r#"
        0s a: goes to n
        0s b: 0/1 nodes are available: 1 cannot allocate all claims. still not schedulable, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.
        default/a-extended-resources-99257 has ["gpu-0"] for ["a"]
    "#]],
    );
    check(
        100,
        &objects,
        &[(60, "a"), (90, "b")],
        RequestFaults::default(),
        &expect![[r#"
        0s a: goes to n
        0s b: 0/1 nodes are available: 1 cannot allocate all claims. still not schedulable, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.
        60s b: goes to n
    "#]],
    );
}

#[test]
fn a_pod_gives_up_a_device_that_is_never_prepared() {
    let conditions =
        json!({"bindingConditions": ["prepared"], "bindingFailureConditions": ["broken"]});
    let mut objects = hardware(&conditions);
    objects.extend([claim(), by_name("a")]);
    let mut faults = RequestFaults::default();
    faults.set(RequestVerb::Prepare, Manner::Lost);
    check(
        700,
        &objects,
        &[],
        faults,
        &expect![[r#"
        0s a: goes to n
        600s a: running PreBind plugin "DynamicResources": device binding timeout: claim=c
        602s a: 0/1 nodes are available: 1 resourceclaim not available on the node. deallocation of ResourceClaim completed, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.
        602s a: goes to n
        default/c has ["gpu-0"] for ["a"]
    "#]],
    );
    check(
        700,
        &objects,
        &[],
        RequestFaults::default(),
        &expect![[r#"
        0s a: goes to n
        default/c has ["gpu-0"] for ["a"]
    "#]],
    );
}

#[test]
fn a_reservation_that_the_controller_has_ended_is_not_written_again() {
    let conditions =
        json!({"bindingConditions": ["prepared"], "bindingFailureConditions": ["broken"]});
    let mut objects = hardware(&conditions);
    let mut second = by_name("b");
    second["metadata"]["uid"] = json!("b");
    objects.extend([claim(), by_name("a"), second.clone()]);
    // A finalizer keeps it, so that the scheduler goes on.
    second["metadata"]["finalizers"] = json!(["example.com/kept"]);
    second["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:02:00Z");
    let Ok(Object::Pod(deleted)) = Kinds::built_in().object(&second) else { panic!("a pod") };
    let mut faults = RequestFaults::default();
    faults.set(RequestVerb::Prepare, Manner::Lost);
    check_with(
        100,
        &objects,
        [(10, Happening::Other(Event::pod(*deleted)))],
        faults,
        &expect![[r#"
            0s a: goes to n
            0s b: 0/1 nodes are available: resource claim default/c is in the process of being allocated. no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.
            0s b: goes to n
            10s b: running PreBind plugin "DynamicResources": claim default/c is no longer reserved for the pod
            default/c has ["gpu-0"] for ["a"]
        "#]],
    );
}

#[test]
fn a_write_that_comes_late_meets_a_claim_that_has_changed() {
    let mut objects = hardware(&Json::Null);
    objects.extend([claim(), by_name("a"), by_name("b"), by_name("c")]);
    let mut faults = RequestFaults::default();
    faults.set(RequestVerb::Write, Manner::Late(Duration::from_secs(5)));
    check(
        100,
        &objects,
        &[],
        faults,
        &expect![[r#"
        0s a: goes to n
        0s b: 0/1 nodes are available: resource claim default/c is in the process of being allocated. no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.
        0s c: 0/1 nodes are available: resource claim default/c is in the process of being allocated. no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.
        10s b: goes to n
        10s c: goes to n
        default/c has ["gpu-0"] for ["a", "b", "c"]
    "#]],
    );
}

#[test]
fn the_device_of_a_claim_that_goes_while_it_is_written_is_free() {
    let mut objects = hardware(&Json::Null);
    let mut protected = claim();
    protected["metadata"]["finalizers"] = json!([ResourceClaim::FINALIZER]);
    objects.extend([protected, by_name("a"), template(), by_template("b")]);
    let mut faults = RequestFaults::default();
    faults.set(RequestVerb::Write, Manner::Lost);
    let claim_goes = Happening::ClaimIsDeleted(ObjectKey::new("default", "c"));
    check_with(
        30,
        &objects,
        [(10, deletion("a")), (20, claim_goes)],
        faults,
        &expect![[r#"
        0s a: goes to n
        0s b: 0/1 nodes are available: 1 cannot allocate all claims. still not schedulable, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.
        10s b: 0/1 nodes are available: 1 cannot allocate all claims. still not schedulable, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.
        20s b: goes to n
        default/b-gpu has ["gpu-0"] for ["b"]
    "#]],
    );
}

/// A node with two devices, a pod that names one claim twice, and another one with a claim of its own.
fn named_twice() -> Vec<Json> {
    let mut objects = hardware(&Json::Null);
    objects[2]["spec"]["devices"] = json!([{"name": "gpu-0"}, {"name": "gpu-1"}]);
    let mut protected = claim();
    protected["metadata"]["finalizers"] = json!([ResourceClaim::FINALIZER]);
    let twice = json!([
        {"name": "gpu", "resourceClaimName": "c"}, {"name": "again", "resourceClaimName": "c"},
    ]);
    objects.extend([protected, pod("a", &twice), template(), by_template("b")]);
    objects
}

#[test]
fn a_pod_that_names_a_claim_twice_gets_its_first_devices() {
    check(
        60,
        &named_twice(),
        &[],
        RequestFaults::default(),
        &expect![[r#"
        0s a: goes to n
        0s b: goes to n
        default/b-gpu has ["gpu-1"] for ["b"]
        default/c has ["gpu-0"] for ["a"]
    "#]],
    );
}

#[test]
fn no_other_pod_gets_the_devices_that_are_written_for_a_claim_that_is_named_twice() {
    let mut faults = RequestFaults::default();
    faults.set(RequestVerb::Write, Manner::Unanswered);
    check(
        20,
        &named_twice(),
        &[],
        faults,
        &expect![[r#"
        0s a: goes to n
        0s b: goes to n
        default/b-gpu has ["gpu-1"] for ["b"]
        default/c has ["gpu-0"] for ["a"]
    "#]],
    );
}

/// A device stands for the CPUs of the first slice in which there is one of its pool and name. kube-scheduler does not
/// look at the driver or the generation of that slice either.
#[test]
fn a_device_stands_for_what_any_device_of_its_pool_and_name_does() {
    let cpus = |count: &str| json!({"nodeAllocatableResourceMappings": {"cpu": {"allocationMultiplier": count}}});
    let mut user = by_template("a");
    user["spec"]["containers"][0]["resources"] = json!({"claims": [{"name": "gpu"}]});
    // The device has one of the four CPUs of the node.
    let mut objects = hardware(&cpus("1"));
    objects.extend([template(), user]);
    objects[1]["spec"]["selectors"] = json!([{"cel": {
        "expression": "device.driver == 'gpu.example.com'",
    }}]);
    objects[2]["spec"]["pool"]["generation"] = json!(2);
    let gates = GivenGates::of(Release::NEWEST).plugins.with("DRANodeAllocatableResources", true);
    let check = |other: Option<Json>, expected: &Expect| {
        let objects: Vec<Json> = objects.iter().cloned().chain(other).collect();
        let profiles = profiles_with(&gates);
        check_profiles(profiles, 30, &objects, [], RequestFaults::default(), expected);
    };
    check(
        None,
        &expect![[r#"
        0s a: goes to n
        default/a-gpu has ["gpu-0"] for ["a"]
    "#]],
    );
    let mut other = hardware(&cpus("5")).remove(2);
    other["metadata"]["name"] = json!("earlier");
    // An older generation of the pool.
    check(
        Some(other.clone()),
        &expect![[r#"
        0s a: 0/1 nodes are available: 1 Insufficient cpu. still not schedulable, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.
        default/a-gpu has [] for []
    "#]],
    );
    // A pool of another driver.
    other["spec"]["driver"] = json!("other.example.com");
    other["spec"]["pool"]["generation"] = json!(2);
    check(
        Some(other),
        &expect![[r#"
        0s a: 0/1 nodes are available: 1 Insufficient cpu. still not schedulable, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.
        default/a-gpu has [] for []
    "#]],
    );
}
