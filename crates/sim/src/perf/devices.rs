//! Pods that claim devices: the workloads in the folder `dra` of scheduler_perf, and one with many classes.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use plimsoll_api::devices::{ClaimSpec, PodClaimStatus, PodDevices};
use plimsoll_api::wire::{self, Object};
use plimsoll_api::{AnyObject, Controller, KindRef, Labels, Node, ObjectKey, ResourceClaim};
use plimsoll_engine::Event;
use serde_json::{Value, json};

use super::plan::{Events, PODS, Round, WorkloadPlan, at_once, nodes};
use super::template::{DEFAULT, named, node, node_name, pod_is, pod_written};
use super::{Sizes, Workload, WorkloadGroups};

const DRIVER: &str = "test-driver.cdi.k8s.io";
const CLASS: &str = "test-class";
/// A class without devices.
const NO_DEVICES: &str = "no-devices-class";
/// The devices of a node.
const DEVICES: u32 = 8;
/// How many pods use a claim that is shared.
const SHARED_BY: u32 = 5;
/// How many pods come at once where pods come and go.
const AT_ONCE: u32 = 10;
/// The label of nodes that reach the devices of SteadyStateClusterResourceClaimTemplatePartitionable.
const WITH_DEVICES: &str = "node-with-dra";
/// The name of the claim in the pods.
const RESOURCE: &str = "resource";

pub(super) const WORKLOADS: [Workload; 6] = [
    Workload {
        name: "SchedulingWithResourceClaimTemplate",
        about: "pods with a claim for one device each, until all 8 devices of all nodes are in use",
        sizes: Sizes { nodes: 5_000, init_pods: 20_000, pods: 20_000, groups: 0 },
        groups: WorkloadGroups::None,
        configuration: None,
        plan: |sizes, _| filling(sizes, &one_device(), 1),
    },
    Workload {
        name: "SchedulingWithResourceClaim",
        about: "the same where 5 pods share a claim",
        sizes: Sizes { nodes: 5_000, init_pods: 20_000, pods: 20_000, groups: 0 },
        groups: WorkloadGroups::None,
        configuration: None,
        plan: |sizes, _| filling(sizes, &one_device(), SHARED_BY),
    },
    Workload {
        name: "SteadyStateClusterResourceClaimTemplate",
        about: "half of the devices are in use, and 10 pods at a time come and go",
        sizes: Sizes { nodes: 5_000, init_pods: 20_000, pods: 20_000, groups: 0 },
        groups: WorkloadGroups::None,
        configuration: None,
        plan: |sizes, _| steady(sizes, &one_device()),
    },
    Workload {
        name: "SteadyStateClusterResourceClaimTemplateFirstAvailable",
        about: "the same with claims for a device of a class that has none, or else of another one",
        sizes: Sizes { nodes: 500, init_pods: 2_000, pods: 2_000, groups: 0 },
        groups: WorkloadGroups::None,
        configuration: None,
        plan: |sizes, _| steady(sizes, &first_available()),
    },
    Workload {
        name: "SteadyStateClusterResourceClaimTemplatePartitionable",
        about: "pods with two devices of one pool with shared counters; every node reaches all pools",
        sizes: Sizes { nodes: 100, init_pods: 100, pods: 100, groups: 0 },
        groups: WorkloadGroups::None,
        configuration: None,
        plan: |sizes, _| partitionable(sizes),
    },
    Workload {
        name: "DeviceClassSweep",
        about: "pods of many classes of devices in turn, each with an expression of ten terms",
        sizes: Sizes { nodes: 5_000, init_pods: 20_000, pods: 20_000, groups: 100 },
        groups: WorkloadGroups::Classes,
        configuration: None,
        plan: |sizes, _| class_sweep(sizes),
    },
];

/// Pods that stay, until all devices are in use.
fn filling(sizes: Sizes, spec: &ClaimSpec, shared_by: u32) -> WorkloadPlan {
    let pods = Claiming { specs: Rc::from([spec.clone()]), shared_by };
    WorkloadPlan {
        objects: devices(sizes.nodes, [any_device()]),
        init_pods: pods.come("init", 0..sizes.init_pods),
        rounds: at_once(PODS, pods.come("pod", 0..sizes.pods)),
    }
}

/// Pods that come and go, beside those that stay.
fn steady(sizes: Sizes, spec: &ClaimSpec) -> WorkloadPlan {
    let stay = Claiming { specs: Rc::from([one_device()]), shared_by: 1 };
    let come = Claiming { specs: Rc::from([spec.clone()]), shared_by: 1 };
    let none = device_class(NO_DEVICES, r#"device.driver == "no-such-driver.cdi.k8s.io""#);
    WorkloadPlan {
        objects: devices(sizes.nodes, [any_device(), none]),
        init_pods: stay.come("init", 0..sizes.init_pods),
        rounds: Box::new(come.come_and_go(sizes.pods)),
    }
}

/// As in resourceslice-partitionable.yaml: in each pool half of the counters are in use, and the pods get the other half.
fn partitionable(sizes: Sizes) -> WorkloadPlan {
    let two = claim_spec(&json!({
        "devices": {
            "requests": [{"name": "req-0", "exactly": {"deviceClassName": CLASS, "count": 2}}],
            "constraints": [{"requests": ["req-0"], "matchAttribute": "dra.example.com/slice"}],
        },
    }));
    let stay = Claiming { specs: Rc::from([preallocated()]), shared_by: 1 };
    let come = Claiming { specs: Rc::from([two]), shared_by: 1 };
    let labelled = |number: u32| -> Node {
        let node = node(number);
        let labels = node.labels.iter().map(|(key, value)| (key.clone(), value.clone()));
        let with = (WITH_DEVICES.into(), "true".into());
        Node { labels: labels.chain([with]).collect::<Labels>(), ..node }
    };
    let n_pools = sizes.init_pods.max(sizes.pods);
    let pools = (0..n_pools).flat_map(partitionable_pool).map(Event::object);
    let objects = std::iter::once(any_device()).chain(pools).chain(nodes(sizes.nodes, labelled));
    WorkloadPlan {
        objects: Box::new(objects),
        init_pods: stay.come("init", 0..sizes.init_pods),
        rounds: at_once(PODS, come.come("pod", 0..sizes.pods)),
    }
}

/// Class N asks for devices with at least N cores; all devices have enough.
fn class_sweep(sizes: Sizes) -> WorkloadPlan {
    let class_name = |number: u32| format!("class-{number}");
    let classes = (0..sizes.groups).map(move |number| {
        let expression = format!(
            r#"device.driver == "{DRIVER}"
            && device.attributes["{DRIVER}"].model == "a100"
            && device.attributes["{DRIVER}"].architecture.startsWith("Amp")
            && device.attributes["{DRIVER}"].cores >= {number}
            && device.attributes["{DRIVER}"].index < {DEVICES}
            && device.attributes["{DRIVER}"].driverVersion.compareTo(semver("550.1.0")) > 0
            && !device.attributes["{DRIVER}"].partitioned
            && device.attributes["{DRIVER}"].numa in [0, 1]
            && device.capacity["{DRIVER}"].memory.compareTo(quantity("40Gi")) >= 0
            && device.capacity["{DRIVER}"].links.isGreaterThan(quantity("2"))"#
        );
        device_class(&class_name(number), &expression)
    });
    let of_class = |number| one_device_of(&class_name(number));
    let pods = Claiming { specs: (0..sizes.groups).map(of_class).collect(), shared_by: 1 };
    WorkloadPlan {
        objects: devices(sizes.nodes, classes),
        init_pods: pods.come("init", 0..sizes.init_pods),
        rounds: at_once(PODS, pods.come("pod", 0..sizes.pods)),
    }
}

/// Pods with a claim each, or with one for several of them. The claims have these contents in turn.
#[derive(Clone)]
struct Claiming {
    specs: Rc<[ClaimSpec]>,
    shared_by: u32,
}

impl Claiming {
    /// The pods with these numbers, and before each its claim if it is new.
    fn come(&self, group: &'static str, numbers: std::ops::Range<u32>) -> Events {
        let make = self.clone().make(group);
        Box::new(numbers.flat_map(make))
    }

    /// As the claim controller makes them: a claim from a template belongs to its pod, whose status names it.
    fn make(self, group: &'static str) -> impl FnMut(u32) -> Vec<Event> + 'static {
        let claims = json!({"claims": [{"name": RESOURCE}]});
        let pod_with = move |source: Value| {
            let mut claim = source;
            claim["name"] = json!(RESOURCE);
            let spec = format!(r#""resourceClaims": [{claim}]"#);
            Arc::new(pod_written("{}", &format!(r#""resources": {claims}"#), &spec))
        };
        let of_template = pod_with(json!({"resourceClaimTemplateName": "test-claim-template"}));
        let Claiming { specs, shared_by } = self;
        move |number| {
            let claim = claim_key(group, number / shared_by);
            let spec = specs[number as usize % specs.len()].clone();
            let claim_is = |controller: Option<Controller>| {
                let uid = claim.name.clone();
                let (key, resource_version) = (claim.clone(), "1".into());
                Event::object(ResourceClaim {
                    key,
                    uid,
                    resource_version,
                    controller,
                    spec,
                    ..ResourceClaim::default()
                })
            };
            if 1 < shared_by {
                let template = pod_with(json!({"resourceClaimName": claim.name.as_str()}));
                let pod = pod_is(named(&template, DEFAULT, group, number));
                return match number.is_multiple_of(shared_by) {
                    true => vec![claim_is(None), pod],
                    false => vec![pod],
                };
            }
            let mut pod = named(&of_template, DEFAULT, group, number);
            let status = PodClaimStatus { name: RESOURCE.into(), claim: Some(claim.name.clone()) };
            let said = PodDevices { claims: vec![status], ..PodDevices::default() };
            pod.devices = Some(Box::new(said));
            let owner = Controller {
                api_version: "v1".into(),
                kind: "Pod".into(),
                name: pod.key.name.clone(),
                uid: pod.uid.clone(),
            };
            vec![claim_is(Some(owner)), pod_is(pod)]
        }
    }

    /// Pods of a steady state: those that came last go, with their claims, and others come.
    fn come_and_go(self, n: u32) -> impl Iterator<Item = Round> {
        let mut make = self.make("pod");
        let mut there: VecDeque<u32> = VecDeque::new();
        (0..n.div_ceil(AT_ONCE)).map(move |round| {
            let gone = std::mem::take(&mut there).into_iter().flat_map(|number| {
                let claim = claim_key("pod", number);
                let pod = named(&Arc::default(), DEFAULT, "pod", number).key;
                [Event::pod_gone(pod), Event::gone(KindRef::of::<ResourceClaim>(), claim)]
            });
            let numbers = round * AT_ONCE..n.min((round + 1) * AT_ONCE);
            there.extend(numbers.clone());
            let events: Vec<Event> = gone.chain(numbers.flat_map(&mut make)).collect();
            Round::new(PODS, Box::new(events.into_iter()))
        })
    }
}

fn claim_key(group: &str, number: u32) -> ObjectKey {
    ObjectKey::new(DEFAULT, format!("{group}-claim-{number}"))
}

/// These classes, and nodes with 8 devices each.
fn devices(n_nodes: u32, classes: impl IntoIterator<Item = Event, IntoIter: 'static>) -> Events {
    let slices = (0..n_nodes).map(|number| Event::object(slice(number)));
    Box::new(classes.into_iter().chain(slices).chain(nodes(n_nodes, node)))
}

/// The devices of the node of this number. They differ in their index and their uuid, as those of a driver of GPUs do.
fn slice(number: u32) -> AnyObject {
    let name = node_name(number);
    let device = |index: u32| {
        json!({
            "name": format!("gpu-{index}"),
            "attributes": {
                "index": {"int": index},
                "uuid": {"string": format!("gpu-{number}-{index}")},
                "model": {"string": "a100"},
                "architecture": {"string": "Ampere"},
                "cores": {"int": 6912},
                "driverVersion": {"version": "550.54.15"},
                "partitioned": {"bool": false},
                "numa": {"int": index / 4},
            },
            "capacity": {"memory": {"value": "80Gi"}, "links": {"value": "12"}},
        })
    };
    read(&json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice",
        "metadata": {"name": format!("{name}-slice")},
        "spec": {
            "driver": DRIVER, "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": (0..DEVICES).map(device).collect::<Vec<Value>>(),
        },
    }))
}

/// As in resourceslice-partitionable.yaml: two devices with two counters each, and four with one. Since 1.35 counters have
/// a slice of their own.
fn partitionable_pool(number: u32) -> [AnyObject; 2] {
    let name = format!("resourceslice-{number}");
    let slice = |part: &str, spec: Value| {
        let mut slice = json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice",
            "metadata": {"name": format!("{name}-{part}")}, "spec": spec,
        });
        slice["spec"]["driver"] = json!(DRIVER);
        slice["spec"]["pool"] = json!({"name": name, "generation": 1, "resourceSliceCount": 2});
        slice["spec"]["nodeSelector"] = json!({"nodeSelectorTerms": [{"matchExpressions": [
            {"key": WITH_DEVICES, "operator": "In", "values": ["true"]},
        ]}]});
        read(&slice)
    };
    let of_one = |counters: &mut dyn Iterator<Item = u32>| -> Value {
        counters.map(|n| (format!("counter{n}"), json!({"value": "1"}))).collect()
    };
    let device = |name: &str, is_first: bool, counters: &[u32]| {
        json!({
            "name": name,
            "attributes": {
                "preallocate": {"bool": is_first}, "dra.example.com/slice": {"int": number},
            },
            "capacity": {"counters": {"value": counters.len().to_string()}},
            "consumesCounters": [{
                "counterSet": "counter-set", "counters": of_one(&mut counters.iter().copied()),
            }],
        })
    };
    let devices = [
        device("device-2-counters-1", true, &[1, 2]),
        device("device-2-counters-2", false, &[3, 4]),
        device("device-1-counter-1", false, &[1]),
        device("device-1-counter-2", false, &[2]),
        device("device-1-counter-3", false, &[3]),
        device("device-1-counter-4", false, &[4]),
    ];
    let set = json!({"name": "counter-set", "counters": of_one(&mut (1..=4))});
    [
        slice("counters", json!({"sharedCounters": [set]})),
        slice("devices", json!({"devices": devices})),
    ]
}

/// The class of all devices of the driver.
fn any_device() -> Event {
    device_class(CLASS, &format!(r#"device.driver == "{DRIVER}""#))
}

fn device_class(name: &str, expression: &str) -> Event {
    Event::object(read(&json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    })))
}

fn one_device() -> ClaimSpec {
    one_device_of(CLASS)
}

fn one_device_of(class: &str) -> ClaimSpec {
    let request = json!({"name": "req-0", "exactly": {"deviceClassName": class}});
    claim_spec(&json!({"devices": {"requests": [request]}}))
}

/// As in resourceclaimtemplate-first-available.yaml.
fn first_available() -> ClaimSpec {
    claim_spec(&json!({"devices": {"requests": [{"name": "req-0", "firstAvailable": [
        {"name": "sub-0", "deviceClassName": NO_DEVICES},
        {"name": "sub-1", "deviceClassName": CLASS},
    ]}]}}))
}

/// As in resourceclaim-with-selector.yaml.
fn preallocated() -> ClaimSpec {
    let expression = format!(
        "device.capacity['{DRIVER}'].counters.compareTo(quantity('2')) >= 0 && device.attributes['{DRIVER}'].preallocate"
    );
    claim_spec(&json!({"devices": {"requests": [{"name": "req-0", "exactly": {
        "deviceClassName": CLASS, "selectors": [{"cel": {"expression": expression}}],
    }}]}}))
}

fn claim_spec(spec: &Value) -> ClaimSpec {
    let claim = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"name": "claim", "namespace": DEFAULT}, "spec": spec,
    });
    read(&claim).get::<ResourceClaim>().expect("it is a claim").spec.clone()
}

/// An object of a workload.
fn read(manifest: &Value) -> AnyObject {
    match wire::object_from_str(&manifest.to_string()) {
        Ok(Object::Other(object)) => object,
        other => unreachable!("the manifest is valid: {other:?}"),
    }
}
