//! Clusters as manifests, which are asked about, changed as proposed, and simulated.

use std::collections::BTreeMap;

use json_patch::Patch;
use plimsoll_advisor::{
    Alternative, Change, GroupSubject, Limits, Manifests, Reference, Subject, Why, WhyGroup, why,
    why_group,
};
use plimsoll_api::wire::Object;
use plimsoll_api::{KindRef, Kinds, ObjectKey, PodKey, ResourceClaimTemplate};
use plimsoll_config::{Catalogue, Configuration, GivenGates};
use plimsoll_engine::{
    Detail, Event, Gates, GroupResult, MemberDecision, MemberResult, NodeVerdict, Options, Outcome,
    Profile, Reservations, Scheduler,
};
use plimsoll_framework::{FeatureGates, Point, ProfileSpec, Release, Time};
use plimsoll_plugins::coscheduling::CoschedulingGroup;
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

/// A profile that lets pods only to nodes that nobody has.
pub(crate) const STRICT: &str = "strict";

/// The default profile, and a strict one.
const PROFILES: &str = "
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
- schedulerName: strict
  pluginConfig:
  - name: NodeAffinity
    args:
      addedAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          nodeSelectorTerms: [{matchExpressions: [{key: pool, operator: In, values: [strict]}]}]
";

fn specs() -> Vec<ProfileSpec> {
    let registry = in_tree();
    let catalogue = Catalogue::of(&registry, &default_profile());
    let configuration = plimsoll_config::load("profiles", PROFILES, &catalogue);
    configuration.expect("it is right").profile_specs()
}

fn strict() -> Profile {
    let spec = specs().swap_remove(1);
    Profile::new(&spec, &in_tree(), &FeatureGates::default()).expect("it is complete")
}

/// The default profile, without one filter if that is asked.
pub(crate) fn profile(without: Option<&str>) -> Profile {
    let mut spec = specs().swap_remove(0);
    for plugins in spec.points.values_mut() {
        plugins.retain(|(name, _)| Some(name.as_str()) != without);
    }
    Profile::new(&spec, &in_tree(), &FeatureGates::default()).expect("it is complete")
}

/// The default profile with Coscheduling.
pub(crate) fn coscheduling() -> Profile {
    let mut spec = specs().swap_remove(0);
    let name = "Coscheduling".to_owned();
    spec.points.insert(Point::QueueSort, vec![(name.clone(), 1)]);
    for point in [Point::PreFilter, Point::PostFilter, Point::Reserve, Point::Permit] {
        spec.points.entry(point).or_default().push((name.clone(), 1));
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

    /// The pods on a node.
    pub(crate) fn pods_on<'w>(&'w self, node: &'w str) -> impl Iterator<Item = &'w Value> {
        let pods = self.0.iter().filter(|((kind, _), _)| kind == "Pod");
        pods.map(|(_, pod)| pod).filter(move |pod| pod["spec"]["nodeName"] == node)
    }

    fn find(&self, object: &Reference) -> Option<Value> {
        self.0.get(&(object.kind.clone(), object.name.clone())).cloned()
    }

    pub(crate) fn has(&self, kind: &str, name: &str) -> bool {
        self.0.contains_key(&(kind.to_owned(), name.to_owned()))
    }

    pub(crate) fn remove(&mut self, kind: &str, name: &str) {
        self.0.remove(&(kind.to_owned(), name.to_owned()));
    }

    fn cluster(&self) -> InitialCluster {
        let mut cluster = InitialCluster::default();
        let kinds = Kinds::built_in()
            .with(KindRef::of::<ResourceClaimTemplate>())
            .with(KindRef::of::<CoschedulingGroup>());
        for manifest in self.0.values() {
            for object in kinds.objects(manifest).expect("every manifest is right") {
                match object {
                    Object::Pod(pod) => cluster.pods.push(*pod),
                    Object::Node(node) => cluster.nodes.push(*node),
                    Object::Other(object) => cluster.objects.push(object),
                    Object::Unknown { kind, .. } => panic!("{kind} is not known"),
                }
            }
        }
        cluster.settled()
    }

    fn simulation(&self, without: Option<&str>) -> Simulation {
        let options = Options { detail: Detail::Nodes, ..Options::default() };
        let profiles = vec![profile(without), strict()];
        let scheduler = Scheduler::new(profiles, options, 0).expect("it is complete");
        Simulation::new(scheduler, self.cluster())
    }

    /// Asks about the pod.
    pub(crate) fn ask(&self, alternatives: &[Alternative]) -> Why {
        let mut simulation = self.simulation(None);
        let now = simulation.now();
        let (pod, manifest) = (&key(), self.get("Pod", POD));
        let limits = Limits { remedies: 100, ..Limits::default() };
        let find = |object: &Reference| self.find(object);
        let manifests = Manifests::by(&find);
        let subject = Subject { pod, manifest, manifests, alternatives, limits, pending: None };
        why(simulation.scheduler_mut(), now, &subject).expect("there is an answer")
    }

    /// What is told of the objects.
    pub(crate) fn events(&self) -> Vec<Event> {
        self.cluster().into_events()
    }

    /// A simulation with all gates of groups.
    fn simulation_of_groups(&self, release: Release) -> Simulation {
        Simulation::new(World::scheduler_of_groups(release, None), self.cluster())
    }

    /// A scheduler with all gates of groups.
    pub(crate) fn scheduler_of_groups(
        release: Release,
        reservations: Option<Reservations>,
    ) -> Scheduler {
        let gates = match release {
            Release::V1_36 => vec![
                "GenericWorkload",
                "GangScheduling",
                "TopologyAwareWorkloadScheduling",
                "WorkloadAwarePreemption",
            ],
            Release::V1_37 => {
                vec!["GenericWorkload", "TopologyAwareWorkloadScheduling", "CompositePodGroup"]
            }
        };
        let gates: Vec<String> = gates.iter().map(|gate| format!("{gate}=true")).collect();
        let gates = GivenGates::parse(release, &gates, &[]).expect("they exist").plugins;
        let registry = in_tree();
        let catalogue = Catalogue::of(&registry, &default_profile()).with_gates(gates.clone());
        let specs = Configuration::default_for(&catalogue).profile_specs();
        let profiles = Profile::all_of(&specs, &registry, &gates).expect("the profile is right");
        let options = Options {
            release,
            gates: Gates::of(&gates),
            detail: Detail::Outcome,
            reservations,
            ..Options::default()
        };
        Scheduler::new(profiles, options, 0).expect("it is complete")
    }

    /// Asks about a group of pods.
    pub(crate) fn ask_group(&self, name: &str) -> WhyGroup {
        self.ask_group_under(Release::V1_36, name)
    }

    /// The same, by the rules of a release.
    pub(crate) fn ask_group_under(&self, release: Release, name: &str) -> WhyGroup {
        let mut simulation = self.simulation_of_groups(release);
        let now = simulation.now();
        let group = &ObjectKey::new("default", name);
        let find = |object: &Reference| self.find(object);
        let subject =
            GroupSubject { group, manifests: Manifests::by(&find), remedies: 100, pending: None };
        why_group(simulation.scheduler_mut(), now, &subject).expect("there is an answer")
    }

    /// Asks about a pod of a group by the rules of a release. Objects of the kind `unknown` have no manifests.
    pub(crate) fn ask_member(&self, release: Release, name: &str, unknown: &str) -> Why {
        let mut simulation = self.simulation_of_groups(release);
        self.ask_on(&mut simulation, name, unknown)
    }

    /// Asks about a pod of a gang of Coscheduling.
    pub(crate) fn ask_coscheduled(&self, name: &str) -> Why {
        let options = Options { detail: Detail::Nodes, ..Options::default() };
        let scheduler = Scheduler::new(vec![coscheduling()], options, 0).expect("it is complete");
        self.ask_on(&mut Simulation::new(scheduler, self.cluster()), name, "")
    }

    /// Asks about a pod as it is in the queue of a scheduler that runs.
    pub(crate) fn ask_running(&self, scheduler: &mut Scheduler, now: Time, name: &str) -> Why {
        let pod = &PodKey::new("default", name);
        let pending = scheduler.pending_state(pod);
        let find = |object: &Reference| self.find(object);
        let subject = Subject {
            pod,
            manifest: self.get("Pod", name),
            manifests: Manifests::by(&find),
            alternatives: &[],
            limits: Limits::default(),
            pending: pending.as_ref(),
        };
        why(scheduler, now, &subject).expect("there is an answer")
    }

    fn ask_on(&self, simulation: &mut Simulation, name: &str, unknown: &str) -> Why {
        let now = simulation.now();
        let find = |object: &Reference| self.find(object).filter(|_| object.kind != unknown);
        let subject = Subject {
            pod: &PodKey::new("default", name),
            manifest: self.get("Pod", name),
            manifests: Manifests::by(&find),
            alternatives: &[],
            limits: Limits { remedies: 100, ..Limits::default() },
            pending: None,
        };
        why(simulation.scheduler_mut(), now, &subject).expect("there is an answer")
    }

    /// How many pods of a group a simulation places at once; `None` if none.
    pub(crate) fn group_placed(&self, name: &str) -> Option<usize> {
        self.group_placed_under(Release::V1_36, name)
    }

    /// The same, by the rules of a release. The group may be one of groups, or part of one.
    pub(crate) fn group_placed_under(&self, release: Release, name: &str) -> Option<usize> {
        let mut simulation = self.simulation_of_groups(release);
        let is_own = |one: &&MemberDecision| {
            let group = &self.get("Pod", &one.pod.name)["spec"]["schedulingGroup"]["podGroupName"];
            *group == name
                || self.0.contains_key(&("CompositePodGroup".to_owned(), name.to_owned()))
        };
        let is_placed =
            |one: &&MemberDecision| matches!(one.result, MemberResult::Scheduled { .. });
        while simulation.advance().is_some() {
            for decision in simulation.take_group_decisions() {
                let whole = (&decision.group, decision.result);
                let parts = decision.groups.iter().map(|part| (&part.group, part.result));
                let is_meant = |(group, result): (&ObjectKey, GroupResult)| {
                    group.name == *name && result == GroupResult::Scheduled
                };
                if parts.chain([whole]).any(is_meant) {
                    return Some(decision.pods.iter().filter(is_own).filter(is_placed).count());
                }
            }
        }
        None
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
