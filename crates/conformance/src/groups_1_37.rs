//! What upstream's tests of release 1.37 expect of groups of pods: `cases/groups_1_37.json`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use plimsoll_api::wire::{self, Object};
use plimsoll_api::{Pod, PodKey};
use plimsoll_config::GivenGates;
use plimsoll_engine::{
    Detail, Event, Gates, GroupDecision, GroupResult, MemberResult, Options, Scheduler,
};
use plimsoll_framework::Release;
use plimsoll_sim::{Extent, InitialCluster, SimulatedCluster, Simulation};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::profiles::profiles;

/// The most rounds of decisions in one step. A case that needs more never ends.
const ROUNDS: usize = 200;

/// The cases.
///
/// # Panics
/// If the file does not have the form that [`GroupCase`] describes.
pub fn groups_1_37() -> Vec<GroupCase> {
    #[derive(Deserialize)]
    struct File {
        cases: Vec<GroupCase>,
    }
    let text = include_str!("../cases/groups_1_37.json");
    serde_json::from_str::<File>(text).expect("the cases have the form of a case").cases
}

/// A cluster, and what happens in it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupCase {
    /// What it is about: `gang`, `validation`, `placement`, `preemption` or `composite`.
    pub kind: String,
    /// What it shows.
    pub name: String,
    /// The file of upstream's test.
    #[serde(rename = "from")]
    pub source: String,
    /// Feature gates besides `GenericWorkload`.
    #[serde(default)]
    gates: Vec<String>,
    nodes: BTreeMap<String, CaseNode>,
    steps: Vec<CaseStep>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseNode {
    cpu: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

/// What happens, and what is expected once nothing happens any more.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseStep {
    /// Nodes that come.
    #[serde(default)]
    nodes: BTreeMap<String, CaseNode>,
    #[serde(default)]
    composites: BTreeMap<String, CaseGroup>,
    #[serde(default)]
    groups: BTreeMap<String, CaseGroup>,
    #[serde(default)]
    budgets: BTreeMap<String, CaseBudget>,
    /// In the order in which they come.
    #[serde(default)]
    pods: Vec<CasePod>,
    /// Pods that are deleted.
    #[serde(default)]
    delete: Vec<String>,
    /// Pods that lose their scheduling gate.
    #[serde(default)]
    ungate: Vec<String>,
    expect: Expectation,
}

/// A group; one without a count is basic.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CaseGroup {
    min_count: Option<u32>,
    min_group_count: Option<u32>,
    priority: i32,
    topology: Option<String>,
    parent: Option<String>,
    /// `all`, or else single.
    mode: Option<String>,
    policy: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseBudget {
    /// The value of the label `app`.
    app: String,
    allowed: i32,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CasePod {
    name: String,
    cpu: String,
    #[serde(default)]
    priority: i32,
    group: Option<String>,
    /// The node on which it runs already.
    node: Option<String>,
    policy: Option<String>,
    scheduler: Option<String>,
    #[serde(default)]
    gated: bool,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

/// What is expected. What is left out is not compared.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Expectation {
    /// All pods that are on nodes.
    bound: Option<BTreeSet<String>>,
    /// How many pods of a group are on nodes.
    #[serde(default)]
    bound_of: BTreeMap<String, usize>,
    /// Only these pods are on these nodes.
    #[serde(default)]
    on: BTreeMap<String, BTreeSet<String>>,
    /// Pods that are on one node.
    #[serde(default)]
    together: Vec<BTreeSet<String>>,
    /// Pods, with spaces between them, that are on some of these nodes.
    #[serde(default)]
    among: BTreeMap<String, BTreeSet<String>>,
    /// Pods, with spaces between them, that are in one domain of this label.
    #[serde(default)]
    in_one_domain: BTreeMap<String, String>,
    /// Pods that were evicted: these, and no others.
    gone: Option<BTreeSet<String>>,
    /// Why a group never had a cycle.
    #[serde(default)]
    waiting: BTreeMap<String, String>,
    /// The condition of a group in the end: status, reason, message.
    #[serde(default)]
    conditions: BTreeMap<String, [String; 3]>,
    /// The same after its first cycle in this step.
    #[serde(default)]
    first_condition: BTreeMap<String, [String; 3]>,
    /// The reason alone.
    #[serde(default)]
    first_reason: BTreeMap<String, String>,
    /// The result of the first cycle of a group in this step.
    #[serde(default)]
    results: BTreeMap<String, String>,
    /// What pods are told after the first cycle of their group in this step.
    #[serde(default)]
    messages: BTreeMap<String, String>,
    /// The nodes to which pods are nominated then.
    #[serde(default)]
    nominated: BTreeMap<String, String>,
    /// The pods that are nominated then, wherever.
    nominated_only: Option<BTreeSet<String>>,
    /// Pods whose group could not be judged in its first cycle in this step.
    #[serde(default)]
    errors: BTreeSet<String>,
}

impl GroupCase {
    /// Runs the case, and returns what differs from what is expected.
    ///
    /// # Panics
    /// If it cannot be read.
    pub fn differences(&self) -> Vec<String> {
        let given: Vec<String> = std::iter::once("GenericWorkload=true".to_owned())
            .chain(self.gates.iter().map(|gate| format!("{gate}=true")))
            .collect();
        let gates = GivenGates::parse(Release::V1_37, &given, &[]).expect("the gates exist");
        let options = Options {
            release: Release::V1_37,
            gates: Gates::of(&gates.plugins),
            detail: Detail::Outcome,
            audit_every: 1,
            ..Options::default()
        };
        // Two profiles, so that pods of a group can differ in that.
        let config = json!({
            "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
            "profiles": [{"schedulerName": "default-scheduler"}, {"schedulerName": "other"}],
        });
        let profiles = profiles(Some(&config), &gates.plugins);
        let scheduler = Scheduler::new(profiles, options, 0).expect("the profiles are right");
        let world = SimulatedCluster::default();
        let mut run = Run {
            simulation: Simulation::audited(
                world,
                scheduler,
                InitialCluster::default(),
                Extent::Placements,
            ),
            seen: BTreeSet::new(),
            deleted: BTreeSet::new(),
            pods: BTreeMap::new(),
            nodes: BTreeMap::new(),
        };
        run.nodes_come(&self.nodes);
        let mut differences = Vec::new();
        for (number, step) in self.steps.iter().enumerate() {
            let found = run.step(step);
            differences
                .extend(found.into_iter().map(|what| format!("step {}: {what}", number + 1)));
        }
        let violations = run.simulation.violations().iter().map(ToString::to_string);
        let audit = run.simulation.decisions_audit().differences.iter().map(ToString::to_string);
        differences.extend(violations.chain(audit));
        differences
    }
}

struct Run {
    simulation: Simulation,
    /// All pods that ever came.
    seen: BTreeSet<String>,
    /// Those that a step has deleted.
    deleted: BTreeSet<String>,
    pods: BTreeMap<String, CasePod>,
    nodes: BTreeMap<String, CaseNode>,
}

impl Run {
    fn happens(&mut self, manifest: &Value) {
        let object = wire::object(manifest).expect("it is right");
        assert!(!matches!(object, Object::Unknown { .. }), "it is read: {manifest}");
        self.simulation.happens(Event::is(object).expect("its kind is known"));
    }

    fn nodes_come(&mut self, nodes: &BTreeMap<String, CaseNode>) {
        for (name, node) in nodes {
            self.happens(&json!({
                "apiVersion": "v1", "kind": "Node",
                "metadata": {"name": name, "labels": node.labels},
                "status": {"allocatable": {"cpu": node.cpu, "memory": "64Gi", "pods": "32"}},
            }));
            self.nodes.insert(name.clone(), node.clone());
        }
    }

    fn step(&mut self, step: &CaseStep) -> Vec<String> {
        self.nodes_come(&step.nodes);
        for (name, group) in &step.composites {
            self.happens(&group.manifest(name, "scheduling.k8s.io/v1alpha3", "CompositePodGroup"));
        }
        for (name, group) in &step.groups {
            self.happens(&group.manifest(name, "scheduling.k8s.io/v1beta1", "PodGroup"));
        }
        for (name, budget) in &step.budgets {
            self.happens(&json!({
                "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                "metadata": {"name": name, "namespace": "default"},
                "spec": {"selector": {"matchLabels": {"app": budget.app}}},
                "status": {"disruptionsAllowed": budget.allowed},
            }));
        }
        for pod in &step.pods {
            self.seen.insert(pod.name.clone());
            self.pods.insert(pod.name.clone(), pod.clone());
            self.happens(&pod.manifest());
        }
        for name in &step.ungate {
            let pod = CasePod { gated: false, ..self.pods[name].clone() };
            self.happens(&pod.manifest());
        }
        for name in &step.delete {
            self.deleted.insert(name.clone());
            self.simulation.happens(Event::pod_gone(PodKey::new("default", name.as_str())));
        }
        let mut decided = Vec::new();
        let mut rounds = 0;
        // Groups without room are tried for ever.
        let until = self.simulation.now() + Duration::from_mins(2);
        while self.simulation.advance_until(Some(until)).is_some() {
            decided.extend(self.simulation.take_group_decisions());
            rounds += 1;
            assert!(rounds < ROUNDS, "the step never ends");
        }
        self.compare(&step.expect, &decided)
    }

    fn compare(&self, expected: &Expectation, decided: &[GroupDecision]) -> Vec<String> {
        let mut differs = Differs(Vec::new());
        let world = self.simulation.world();
        let all: BTreeMap<String, &Pod> =
            world.pods().map(|pod| (pod.key.name.to_string(), pod)).collect();
        let node_of = |name: &String| all.get(name).and_then(|pod| pod.node_name.clone());
        let bound: BTreeSet<String> =
            all.keys().filter(|name| node_of(name).is_some()).cloned().collect();
        if let Some(expected) = &expected.bound {
            differs.note("bound", expected, &bound);
        }
        for (pods, nodes) in &expected.among {
            let outside = |pod: &&str| {
                let node = node_of(&(*pod).to_owned()).map(|node| node.to_string());
                node.is_none_or(|node| !nodes.contains(&node))
            };
            let outside: Vec<&str> = pods.split(' ').filter(outside).collect();
            differs.note(&format!("not among {nodes:?}"), &Vec::new(), &outside);
        }
        for (pods, label) in &expected.in_one_domain {
            let domain = |pod: &str| {
                let node = self.nodes.get(node_of(&pod.to_owned())?.as_str())?;
                node.labels.get(label).cloned()
            };
            let domains: BTreeSet<_> = pods.split(' ').map(domain).collect();
            differs.note(&format!("domains of {pods}"), &1, &domains.len());
        }
        for (group, expected) in &expected.bound_of {
            let is_of = |name: &&String| {
                all[*name].scheduling_group.as_ref().is_some_and(|of| of.as_str() == group)
            };
            differs.note(
                &format!("bound of {group}"),
                expected,
                &bound.iter().filter(is_of).count(),
            );
        }
        for (node, may) in &expected.on {
            let there =
                all.keys().filter(|name| node_of(name).is_some_and(|of| of.as_str() == node));
            for pod in there.filter(|pod| !may.contains(*pod)) {
                differs.0.push(format!("{pod} is on {node}"));
            }
        }
        for pods in &expected.together {
            let nodes: BTreeSet<_> = pods.iter().map(node_of).collect();
            differs.note(&format!("nodes of {pods:?}"), &1, &nodes.len());
        }
        if let Some(expected) = &expected.gone {
            let gone = self.seen.iter().filter(|name| !all.contains_key(*name));
            let gone: BTreeSet<String> =
                gone.filter(|name| !self.deleted.contains(*name)).cloned().collect();
            differs.note("gone", expected, &gone);
        }
        let waiting: BTreeMap<String, String> = self
            .simulation
            .scheduler()
            .waiting_groups()
            .into_iter()
            .map(|one| (one.group.name.to_string(), one.message.unwrap_or_default()))
            .collect();
        if !expected.waiting.is_empty() {
            differs.note("waiting", &expected.waiting, &waiting);
        }
        for (group, expected) in &expected.conditions {
            differs.note(
                &format!("condition of {group}"),
                &Some(expected.clone()),
                &condition(decided.iter().rev(), group),
            );
        }
        for (group, expected) in &expected.first_condition {
            differs.note(
                &format!("first condition of {group}"),
                &Some(expected.clone()),
                &condition(decided.iter(), group),
            );
        }
        for (group, expected) in &expected.first_reason {
            let found = condition(decided.iter(), group).map(|[_, reason, _]| reason);
            differs.note(&format!("first reason of {group}"), &Some(expected.clone()), &found);
        }
        for (group, expected) in &expected.results {
            let found = decided.iter().find_map(|one| result(one, group)).map(GroupResult::as_str);
            differs.note(&format!("result of {group}"), &Some(expected.as_str()), &found);
        }
        differs.members(expected, decided);
        differs.0
    }
}

/// What differs.
struct Differs(Vec<String>);

impl Differs {
    fn note<T: PartialEq + std::fmt::Debug>(&mut self, what: &str, expected: &T, found: &T) {
        if expected != found {
            self.0.push(format!("{what}: expected {expected:?}, found {found:?}"));
        }
    }

    /// What became of members in the first cycles of their groups.
    fn members(&mut self, expected: &Expectation, decided: &[GroupDecision]) {
        let mut first = BTreeMap::<String, &MemberResult>::new();
        for member in decided.iter().flat_map(|group| &group.pods) {
            first.entry(member.pod.name.to_string()).or_insert(&member.result);
        }
        for (pod, expected) in &expected.messages {
            let found = match first.get(pod) {
                Some(
                    MemberResult::Unschedulable { message, .. } | MemberResult::Error { message },
                ) => Some(message.clone()),
                _ => None,
            };
            self.note(&format!("message of {pod}"), &Some(expected.clone()), &found);
        }
        let nominated: BTreeMap<String, String> = first
            .iter()
            .filter_map(|(pod, result)| match result {
                MemberResult::Unschedulable { nominated: Some(node), .. } => {
                    Some((pod.clone(), node.to_string()))
                }
                _ => None,
            })
            .collect();
        if !expected.nominated.is_empty() {
            self.note("nominated", &expected.nominated, &nominated);
        }
        if let Some(expected) = &expected.nominated_only {
            self.note("nominated", expected, &nominated.into_keys().collect());
        }
        for pod in &expected.errors {
            let is_error = matches!(first.get(pod), Some(MemberResult::Error { .. }));
            self.note(&format!("{pod} could not be judged"), &true, &is_error);
        }
    }
}

/// The result of a group, if the decision is about it or about a tree that it is part of.
fn result(decision: &GroupDecision, group: &str) -> Option<GroupResult> {
    if decision.group.name.as_str() == group {
        return Some(decision.result);
    }
    let part = decision.groups.iter().find(|part| part.group.name.as_str() == group);
    part.map(|part| part.result)
}

/// The first condition of a group that the decisions have.
fn condition<'a>(
    mut decided: impl Iterator<Item = &'a GroupDecision>,
    group: &str,
) -> Option<[String; 3]> {
    let condition = decided.find_map(|one| {
        let own = one.condition.as_ref().filter(|_| one.group.name.as_str() == group);
        let part = one.groups.iter().find(|part| part.group.name.as_str() == group);
        own.or(part.and_then(|part| part.condition.as_ref()))
    })?;
    let status = if condition.is_true { "True" } else { "False" };
    Some([status.to_owned(), condition.reason.to_string(), condition.message.clone()])
}

impl CaseGroup {
    fn manifest(&self, name: &str, api_version: &str, kind: &str) -> Value {
        let policy = match (self.min_count, self.min_group_count) {
            (Some(count), _) => json!({"gang": {"minCount": count}}),
            (None, Some(count)) => json!({"gang": {"minGroupCount": count}}),
            (None, None) => json!({"basic": {}}),
        };
        let mode = self.mode.as_deref().unwrap_or("single");
        let mut spec = json!({
            "schedulingPolicy": policy, "priority": self.priority, "disruptionMode": {mode: {}},
        });
        if let Some(key) = &self.topology {
            spec["schedulingConstraints"] = json!({"topology": [{"key": key}]});
        }
        if let Some(parent) = &self.parent {
            spec["parentCompositePodGroupName"] = json!(parent);
        }
        if let Some(policy) = &self.policy {
            spec["preemptionPolicy"] = json!(policy);
        }
        json!({
            "apiVersion": api_version, "kind": kind,
            "metadata": {"name": name, "namespace": "default", "uid": name}, "spec": spec,
        })
    }
}

impl CasePod {
    fn manifest(&self) -> Value {
        let requests = json!({"cpu": self.cpu});
        let mut spec = json!({
            "containers": [{"name": "c", "resources": {"requests": requests}}],
            "priority": self.priority,
            "schedulerName": self.scheduler.as_deref().unwrap_or("default-scheduler"),
        });
        if let Some(group) = &self.group {
            spec["schedulingGroup"] = json!({"podGroupName": group});
        }
        if let Some(node) = &self.node {
            spec["nodeName"] = json!(node);
        }
        if let Some(policy) = &self.policy {
            spec["preemptionPolicy"] = json!(policy);
        }
        if self.gated {
            spec["schedulingGates"] = json!([{"name": "wait"}]);
        }
        let metadata = json!({
            "name": self.name, "namespace": "default", "uid": self.name, "labels": self.labels,
        });
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    }
}
