//! The clusters of the benchmarks.

use plimsoll_api::wire::{self, Object};
use plimsoll_api::{Pod, Templates};
use plimsoll_config::{Catalogue, Configuration};
use plimsoll_engine::{Event, Observation, Options, Profile, Scheduler};
use plimsoll_framework::{FeatureGates, Time};
use plimsoll_plugins::{default_profile, in_tree};
use serde_json::{Value, json};

const ZONES: u32 = 3;

/// The kinds of pods, with their fields in addition to requests.
pub(crate) fn kinds() -> [(&'static str, Value); 4] {
    let pods = json!({"matchLabels": {"app": "web"}});
    let spread = |when: &str| {
        json!({"topologySpreadConstraints": [{
            "maxSkew": 1,
            "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": when,
            "labelSelector": pods,
        }]})
    };
    let apart = json!({"labelSelector": pods, "topologyKey": "kubernetes.io/hostname"});
    let apart = json!({"weight": 1, "podAffinityTerm": apart});
    let apart =
        json!({"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [apart]}});
    [
        ("plain", json!({})),
        ("must be spread over zones", spread("DoNotSchedule")),
        ("would rather be spread over zones", spread("ScheduleAnyway")),
        ("would rather be apart", json!({"affinity": apart})),
    ]
}

fn object(manifest: &Value) -> Object {
    wire::object(manifest).expect("the manifest is right")
}

pub(crate) fn pod(name: &str, more: &Value) -> Pod {
    let requests = json!({"cpu": "100m", "memory": "500Mi"});
    let mut spec = json!({"containers": [{"name": "c", "resources": {"requests": requests}}]});
    let fields = spec.as_object_mut().expect("it is an object");
    fields.extend(more.as_object().expect("it is an object").clone());
    let metadata = json!({"name": name, "uid": name, "labels": {"app": "web"}});
    let manifest = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
    match object(&manifest) {
        Object::Pod(pod) => *pod,
        other => unreachable!("the manifest is that of a pod: {other:?}"),
    }
}

/// A scheduler that knows nothing.
pub(crate) fn empty(options: Options) -> Scheduler {
    let registry = in_tree();
    let catalogue = Catalogue::of(&registry, &default_profile());
    let specs = Configuration::default_for(&catalogue).profile_specs();
    let profiles = Profile::all_of(&specs, &registry, &FeatureGates::default())
        .expect("the default profile is right");
    Scheduler::new(profiles, options, 0).expect("the profiles make a scheduler")
}

/// A scheduler that knows `n_nodes` nodes with so much CPU and `per_node` pods of a kind each. The pods share their template,
/// as all pods do that are read.
pub(crate) fn scheduler(kind: &Value, cpu: &str, n_nodes: u32, per_node: u32) -> Scheduler {
    let (mut scheduler, mut templates) = (empty(Options::default()), Templates::default());
    for number in 0..n_nodes {
        let name = format!("node-{number}");
        let zone = format!("zone-{}", number % ZONES);
        let labels = json!({"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone});
        let allocatable = json!({"cpu": cpu, "memory": "32Gi", "pods": "110"});
        let node = json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "status": {"allocatable": allocatable},
        });
        let Object::Node(node) = object(&node) else { unreachable!("it is a node") };
        scheduler.observe(Time::ZERO, Event::Node(Box::new(Observation::Is(*node))));
        for place in 0..per_node {
            let placed = pod(&format!("placed-{number}-{place}"), kind);
            let mut placed = Pod { node_name: Some(name.clone().into()), ..placed };
            templates.share(&mut placed);
            scheduler.observe(Time::ZERO, Event::pod(placed));
        }
    }
    scheduler
}
