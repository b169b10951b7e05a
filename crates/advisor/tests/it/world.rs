//! Clusters as manifests, which are asked about, changed as proposed, and simulated.

use std::collections::BTreeMap;

use json_patch::Patch;
use plimsoll_advisor::{Alternative, Change, Limits, Reference, Subject, Why, why};
use plimsoll_api::PodKey;
use plimsoll_api::wire::{self, Object};
use plimsoll_config::{Catalogue, Configuration};
use plimsoll_engine::{Detail, NodeVerdict, Options, Outcome, Profile, Scheduler};
use plimsoll_framework::{FeatureGates, ProfileSpec};
use plimsoll_plugins::{default_profile, in_tree};
use plimsoll_sim::{InitialCluster, Simulation};
use serde_json::{Value, json};

/// The objects of a cluster by kind and name.
#[derive(Clone, Debug, Default)]
pub(crate) struct World(BTreeMap<(String, String), Value>);

/// The pod that is asked about.
pub(crate) const POD: &str = "pod";

fn key() -> PodKey {
    PodKey::new("default", POD)
}

fn specs() -> Vec<ProfileSpec> {
    let registry = in_tree();
    Configuration::default_for(&Catalogue::of(&registry, &default_profile())).profile_specs()
}

/// The default profile, without one filter if that is asked.
pub(crate) fn profile(without: Option<&str>) -> Profile {
    let mut spec = specs().swap_remove(0);
    for plugins in spec.points.values_mut() {
        plugins.retain(|(name, _)| Some(name.as_str()) != without);
    }
    Profile::new(&spec, &in_tree(), &FeatureGates::default()).expect("it is complete")
}

/// The default profile without one filter, as something that may be proposed.
pub(crate) fn alternative(without: &str) -> Alternative {
    Alternative {
        text: format!("switch off {without}"),
        operations: Vec::new(),
        profile: profile(Some(without)),
        without: Some(without.to_owned()),
    }
}

impl World {
    pub(crate) fn add(&mut self, manifest: Value) {
        let kind = manifest["kind"].as_str().expect("each has a kind").to_owned();
        let name = manifest["metadata"]["name"].as_str().expect("each has a name").to_owned();
        self.0.insert((kind, name), manifest);
    }

    pub(crate) fn node(&mut self, name: &str, labels: &Value, allocatable: &Value) {
        let mut labels = labels.clone();
        labels["kubernetes.io/hostname"] = json!(name);
        self.add(json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": {}, "status": {"allocatable": allocatable},
        }));
    }

    pub(crate) fn pod(&mut self, name: &str, labels: &Value, spec: &Value) {
        self.add(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "labels": labels},
            "spec": spec,
        }));
    }

    pub(crate) fn get(&self, kind: &str, name: &str) -> &Value {
        &self.0[&(kind.to_owned(), name.to_owned())]
    }

    pub(crate) fn get_mut(&mut self, kind: &str, name: &str) -> &mut Value {
        self.0.get_mut(&(kind.to_owned(), name.to_owned())).expect("it is there")
    }

    pub(crate) fn has_node(&self, name: &str) -> bool {
        self.0.contains_key(&("Node".to_owned(), name.to_owned()))
    }

    pub(crate) fn remove(&mut self, kind: &str, name: &str) {
        self.0.remove(&(kind.to_owned(), name.to_owned()));
    }

    fn cluster(&self) -> InitialCluster {
        let mut cluster = InitialCluster::default();
        for manifest in self.0.values() {
            match wire::object(manifest).expect("every manifest is right") {
                Object::Pod(pod) => cluster.pods.push(*pod),
                Object::Node(node) => cluster.nodes.push(*node),
                Object::Other(object) => cluster.objects.push(object),
                Object::Unknown { kind, .. } => panic!("{kind} is not known"),
            }
        }
        cluster.settled()
    }

    fn simulation(&self, without: Option<&str>) -> Simulation {
        let options = Options { detail: Detail::Nodes, ..Options::default() };
        let scheduler = Scheduler::new(vec![profile(without)], options, 0).expect("it is complete");
        Simulation::new(scheduler, self.cluster())
    }

    /// Asks about the pod.
    pub(crate) fn ask(&self, alternatives: &[Alternative]) -> Why {
        let mut simulation = self.simulation(None);
        let now = simulation.now();
        let (pod, manifest) = (&key(), self.get("Pod", POD));
        let limits = Limits { remedies: 100, ..Limits::default() };
        let subject = Subject { pod, manifest, alternatives, limits, pending: None };
        why(simulation.scheduler_mut(), now, &subject).expect("there is an answer")
    }

    /// Where a simulation places the pod at its first attempt, and how many nodes are feasible.
    pub(crate) fn placed(&self, without: Option<&str>) -> Option<(String, usize)> {
        let mut simulation = self.simulation(without);
        while let Some(decisions) = simulation.advance() {
            let Some(decision) = decisions.into_iter().find(|one| one.pod == key()) else {
                continue;
            };
            let is_feasible = |verdict: &NodeVerdict| {
                matches!(verdict, NodeVerdict::Only | NodeVerdict::Scored { .. })
            };
            let feasible = decision.nodes.iter().filter(|node| is_feasible(&node.verdict)).count();
            return match decision.outcome {
                Outcome::Scheduled { node, .. } => Some((node.to_string(), feasible)),
                Outcome::Unschedulable { .. } | Outcome::Error { .. } => None,
            };
        }
        None
    }

    /// The objects after these changes.
    pub(crate) fn changed(&self, changes: &[Change]) -> World {
        let mut world = self.clone();
        for change in changes {
            match change {
                Change::Patch { patch: Reference { kind, name, .. }, operations } => {
                    let object = world.get_mut(kind, name);
                    let patch = Patch(operations.clone());
                    json_patch::patch(object, &patch).expect("the patch fits the object");
                }
                Change::Create { create } => world.add(create.clone()),
                Change::Delete { delete: Reference { kind, name, .. } } => world.remove(kind, name),
                Change::Configuration { .. } => {}
            }
        }
        world
    }
}
