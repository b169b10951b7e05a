//! What would happen if the cluster changed: actions are carried out together, and then the scheduler does its work.
//!
//! Pods that lose their nodes are made again as their [controllers](crate::Fate) would make them, also those that are
//! evicted for others. All actions take effect before the first decision: a scenario is a state of the cluster that is
//! asked for, not a sequence of days.

mod action;
mod groups;
mod new_nodes;
mod plan;
mod scale;

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_api::wire::Object;
use plimsoll_api::{Effect, Labels, Node, ObjectKey, Pod, PodDisruptionBudget, PodKey, Str, Taint};
use plimsoll_engine::{Decision, Event, Observation, Outcome, Scheduler};
use plimsoll_framework::pod_groups::group_of;
use plimsoll_framework::{Row, View};

pub use self::action::{Action, ActionError, Model, NodeChoice, Target};
pub use self::groups::GroupInPlan;
pub(crate) use self::new_nodes::{NewNode, free_name, with_all_of};
pub use self::plan::{
    BeforeAndAfter, BrokenBudget, EvictedPod, LostPod, PendingInPlan, PlacedPod, Plan,
};
use crate::cluster::InitialCluster;
use crate::faults::RequestFaults;
use crate::lifecycle::Lifecycle;
use crate::profile_rules::ProfileRules;
use crate::recreation::Fate;
use crate::run::Simulation;
use crate::simulated_cluster::{SimulatedCluster, gone};
use crate::utilisation::Utilisation;

const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// At most so many names are offered in place of a wrong one.
const MOST_OFFERED: usize = 5;

/// A scenario: a cluster, what is changed in it, and what the scheduler makes of that.
#[derive(Debug)]
pub struct Scenario {
    simulation: Simulation,
    before: (Utilisation, BTreeMap<Str, usize>),
    /// The nodes that pods have lost.
    lost_node: BTreeMap<PodKey, Str>,
    /// The pods that somebody has asked for.
    wanted: BTreeSet<PodKey>,
    /// Pods that were pending before.
    was_pending: BTreeSet<PodKey>,
    lost: Vec<LostPod>,
    /// Pods that are evicted through the API server, which respects budgets.
    drained: Vec<Pod>,
}

impl Scenario {
    /// Nothing is changed yet. The scheduler must keep [decisions](plimsoll_engine::Options::detail).
    pub fn new(scheduler: Scheduler, cluster: InitialCluster) -> Self {
        Self::begin(Simulation::within(Self::world(), scheduler, cluster))
    }

    /// The same with rules that let other profiles decide some pods, also those that are applied or made again.
    pub fn with_rules(scheduler: Scheduler, cluster: InitialCluster, rules: ProfileRules) -> Self {
        Self::begin(Simulation::with_rules(Self::world(), scheduler, cluster, rules))
    }

    fn world() -> SimulatedCluster {
        let lifecycle = Lifecycle { recreates: true, ..Lifecycle::default() };
        SimulatedCluster::new(lifecycle, RequestFaults::default())
    }

    fn begin(mut simulation: Simulation) -> Self {
        simulation.bind_in_turn();
        let view = simulation.scheduler().view();
        let before = (Utilisation::of(view), plan::zones(view));
        let pending = simulation.scheduler().pending();
        let was_pending = pending.map(|info| info.pod.key.clone()).collect();
        Scenario {
            before,
            simulation,
            lost_node: BTreeMap::new(),
            wanted: BTreeSet::new(),
            was_pending,
            lost: Vec::new(),
            drained: Vec::new(),
        }
    }

    /// Carries out an action. After an error the scenario is as it was.
    pub fn act(&mut self, action: Action) -> Result<(), ActionError> {
        match action {
            Action::Apply(objects) => self.apply(objects),
            Action::Delete(target) => self.delete(&target)?,
            Action::DeletePods { namespace, labels } => self.delete_labelled(namespace, &labels)?,
            Action::Scale { controller, replicas } => self.scale(&controller, replicas)?,
            Action::Rollout { controller, pods } => {
                let is_old = |pod: &&Pod| scale::is_of(pod, &controller);
                let old = self.pods_that(is_old).into_iter().map(|pod| pod.key.clone());
                let old: Vec<_> = old.collect();
                self.delete_pods(&old);
                self.apply(pods.into_iter().map(|pod| Object::Pod(Box::new(pod))).collect());
            }
            Action::Drain(choice) => {
                for (row, node) in self.nodes(&choice)? {
                    self.set_cordoned(&node, true);
                    let pods = self.pods_on(row, |pod| Fate::of(pod) != Fate::GoesWithItsNode);
                    self.drained.extend(pods.iter().cloned());
                    self.evict(pods);
                }
            }
            Action::Cordon(choice) => {
                self.nodes(&choice)?.iter().for_each(|(_, node)| self.set_cordoned(node, true));
            }
            Action::Uncordon(choice) => {
                self.nodes(&choice)?.iter().for_each(|(_, node)| self.set_cordoned(node, false));
            }
            Action::Lose(choice) => {
                for (row, node) in self.nodes(&choice)? {
                    self.lose(row, &node.name);
                }
            }
            Action::Taint(choice, taint) => {
                for (row, node) in self.nodes(&choice)? {
                    self.add_taint(row, node, &taint);
                }
            }
            Action::AddNodes { n, like } => self.add_nodes(n, &like)?,
            Action::Priority { of, priority } => self.set_priority(&of, priority)?,
        }
        // Pods that are made again are there for the next action.
        self.simulation.catch_up();
        Ok(())
    }

    /// Lets the scheduler decide until nothing changes any more.
    pub fn run(self) -> Plan {
        self.run_at_most(usize::MAX).expect("nobody makes so many decisions")
    }

    /// The same; `None` if that takes more than `most` decisions.
    pub fn run_at_most(mut self, most: usize) -> Option<Plan> {
        let (mut n_decisions, mut last, mut evicted) = (0, BTreeMap::new(), Vec::new());
        let mut groups = BTreeMap::new();
        let on_nodes = self.pods_on_nodes();
        let has_no_controller = |pod: &&Pod| Fate::of(pod) == Fate::Lost;
        let single: BTreeSet<PodKey> = self
            .simulation
            .world()
            .pods()
            .filter(has_no_controller)
            .map(|pod| pod.key.clone())
            .collect();
        while let Some(decisions) = self.simulation.advance() {
            n_decisions += decisions.len();
            for Decision { pod, outcome, .. } in decisions {
                if let Outcome::Unschedulable { nomination: Some(nomination), .. } = &outcome {
                    for victim in &nomination.victims {
                        evicted.push(EvictedPod { pod: victim.clone(), for_pod: pod.clone() });
                        let from = nomination.node.clone();
                        if single.contains(victim) {
                            self.lost.push(LostPod { pod: victim.clone(), from });
                        } else {
                            self.lost_node.entry(victim.clone()).or_insert(from);
                        }
                    }
                }
                last.insert(pod, outcome);
            }
            for group in self.simulation.take_group_decisions() {
                n_decisions += group.pods.len().max(1);
                self.note_group(&group, (&single, &on_nodes), (&mut last, &mut evicted));
                groups.insert(group.group.clone(), group);
            }
            if most < n_decisions {
                return None;
            }
        }
        let groups = self.groups_in_plan(groups);
        let broken_budgets = self.broken_budgets();
        let Scenario { simulation, before, lost_node, wanted, was_pending, mut lost, .. } = self;
        let end = plan::End {
            simulation: &simulation,
            last: &last,
            lost_node: &lost_node,
            wanted: &wanted,
            was_pending: &was_pending,
        };
        let (placed, pending) = end.pods();
        let first = pending.iter().find(|pod| pod.is_required).or(pending.first()).cloned();
        lost.sort_by(|a, b| a.pod.cmp(&b.pod));
        let view = simulation.scheduler().view();
        let (utilisation, zones) = before;
        Some(Plan {
            placed,
            pending,
            lost,
            evicted,
            groups,
            broken_budgets,
            utilisation: BeforeAndAfter::of(&utilisation.shares(), &Utilisation::of(view).shares()),
            pods_by_zone: BeforeAndAfter::of(&zones, &plan::zones(view)),
            decisions: n_decisions,
            first_blocker: first,
        })
    }

    fn view(&self) -> View<'_> {
        self.simulation.scheduler().view()
    }

    fn tell(&mut self, event: Event) {
        self.simulation.happens(event);
    }

    /// The nodes that are meant, by name.
    fn nodes(&self, choice: &NodeChoice) -> Result<Vec<(Row, Node)>, ActionError> {
        let nodes = self.view().nodes;
        let is_meant = |node: &Node| match choice {
            NodeChoice::Name(name) => node.name == *name,
            NodeChoice::Label(key, value) => node.labels.get(key) == Some(value),
        };
        let found = nodes.rows().map(|row| (row, nodes.node(row)));
        let found = found.filter(|(_, node)| is_meant(node));
        let mut found: Vec<(Row, Node)> =
            found.map(|(row, node)| (row, Node::clone(node))).collect();
        found.sort_by(|(_, a), (_, b)| a.name.cmp(&b.name));
        if found.is_empty() {
            let offer = self.offer(choice);
            return Err(ActionError::NoNode { choice: choice.clone(), offer });
        }
        Ok(found)
    }

    /// What could have been meant.
    fn offer(&self, choice: &NodeChoice) -> String {
        let nodes = self.view().nodes;
        let all = || nodes.rows().map(|row| nodes.node(row));
        let (what, names): (_, BTreeSet<&str>) = match choice {
            NodeChoice::Name(_) => ("there is", all().map(|node| node.name.as_str()).collect()),
            NodeChoice::Label(key, _) => {
                let values = all().filter_map(|node| node.labels.get(key));
                ("its values are", values.map(Str::as_str).collect())
            }
        };
        let n = names.len();
        let mut some: Vec<&str> = names.into_iter().take(MOST_OFFERED).collect();
        if MOST_OFFERED < n {
            some.push("...");
        }
        match (n, choice) {
            (0, NodeChoice::Name(_)) => "there are no nodes".to_owned(),
            (0, NodeChoice::Label(..)) => "no node has a label with that key".to_owned(),
            _ => format!("{what} {}", some.join(", ")),
        }
    }

    fn pods_on(&self, row: Row, is_meant: impl Fn(&Pod) -> bool) -> Vec<Pod> {
        let pods = self.view().nodes.pods_on(row).iter().filter(|pod| is_meant(pod));
        pods.map(|pod| Pod::clone(pod.seen())).collect()
    }

    /// Takes pods from their nodes. They are made again if they have controllers.
    fn evict(&mut self, pods: Vec<Pod>) {
        for pod in pods {
            let node = pod.node_name.clone().unwrap_or_default();
            match Fate::of(&pod) {
                Fate::Recreated => _ = self.lost_node.insert(pod.key.clone(), node),
                Fate::Lost => self.lost.push(LostPod { pod: pod.key.clone(), from: node }),
                Fate::Ends | Fate::GoesWithItsNode => {}
            }
            self.tell(gone(&pod.key));
        }
    }

    /// Deletes pods for good.
    fn delete_pods(&mut self, pods: &[PodKey]) {
        self.simulation.world_mut().lifecycle.recreates = false;
        for pod in pods {
            self.wanted.remove(pod);
            self.was_pending.remove(pod);
            self.lost_node.remove(pod);
            self.tell(gone(pod));
        }
        self.simulation.world_mut().lifecycle.recreates = true;
    }

    fn lose(&mut self, row: Row, node: &Str) {
        let pods = self.pods_on(row, |_| true);
        self.evict(pods);
        self.tell(Event::Node(Box::new(Observation::Gone(node.clone()))));
    }

    fn apply(&mut self, objects: Vec<Object>) {
        for object in objects {
            if let Object::Pod(pod) = &object
                && pod.node_name.is_none()
            {
                self.wanted.insert(pod.key.clone());
            }
            if let Some(event) = Event::is(object) {
                self.tell(event);
            }
        }
    }

    fn delete(&mut self, target: &Target) -> Result<(), ActionError> {
        match target {
            Target::Pod(pod) => {
                let known = self.simulation.world().pod(pod);
                known.ok_or_else(|| ActionError::NoObject(format!("Pod {pod}")))?;
                self.delete_pods(std::slice::from_ref(pod));
            }
            Target::Node(node) => {
                for (row, node) in self.nodes(&NodeChoice::Name(node.clone()))? {
                    self.lose(row, &node.name);
                }
            }
            Target::Other(kind, key) => {
                let mut all = self.view().stores.all();
                let exists = all.any(|object| object.kind() == *kind && object.key() == *key);
                drop(all);
                if !exists {
                    return Err(ActionError::NoObject(format!("{kind} {key}")));
                }
                self.tell(Event::Object(Observation::Gone((*kind, key.clone()))));
            }
        }
        Ok(())
    }

    fn delete_labelled(&mut self, namespace: Str, labels: &Labels) -> Result<(), ActionError> {
        let is_meant = |pod: &&Pod| {
            pod.key.namespace == namespace
                && labels.iter().all(|(key, value)| pod.labels.get(key) == Some(value))
        };
        let pods = self.pods_that(is_meant).into_iter().map(|pod| pod.key.clone());
        let pods: Vec<_> = pods.collect();
        if pods.is_empty() {
            return Err(ActionError::NoSuchPods(namespace));
        }
        self.delete_pods(&pods);
        Ok(())
    }

    fn scale(&mut self, controller: &ObjectKey, replicas: usize) -> Result<(), ActionError> {
        let of_group = |pod: &Pod| group_of(pod).is_some_and(|group| group == *controller);
        let is_of = |pod: &&Pod| scale::is_of(pod, controller) && !pod.is_terminating();
        let mut pods = self.pods_that(is_of);
        if pods.is_empty() {
            pods = self.pods_that(|pod| of_group(pod) && !pod.is_terminating());
        }
        let newest = pods.iter().max_by_key(|pod| pod.created);
        let model = newest.ok_or_else(|| ActionError::NoPods(controller.clone()))?;
        if let Some(n) = replicas.checked_sub(pods.len()) {
            let world = self.simulation.world();
            let new = scale::more(model, n, |key| world.pod(key).is_some());
            self.apply(new.into_iter().map(|pod| Object::Pod(Box::new(pod))).collect());
        } else {
            let n = pods.len() - replicas;
            let pods = scale::to_delete(pods, n);
            self.delete_pods(&pods);
        }
        Ok(())
    }

    /// As the controller of node lifecycles does: a node that is cordoned also has a taint.
    fn set_cordoned(&mut self, node: &Node, cordoned: bool) {
        let mut node = node.clone();
        node.unschedulable = cordoned;
        node.taints.retain(|taint| taint.key != UNSCHEDULABLE);
        if cordoned {
            let key = UNSCHEDULABLE.into();
            node.taints.push(Taint { key, value: Str::default(), effect: Effect::NoSchedule });
        }
        self.tell(Event::Node(Box::new(Observation::Is(node))));
    }

    /// As `kubectl taint --overwrite` does: a taint of this key and effect is replaced.
    fn add_taint(&mut self, row: Row, mut node: Node, taint: &Taint) {
        node.taints.retain(|other| (&other.key, other.effect) != (&taint.key, taint.effect));
        node.taints.push(taint.clone());
        self.tell(Event::Node(Box::new(Observation::Is(node))));
        if taint.effect == Effect::NoExecute {
            let pods = self.pods_on(row, |pod| {
                !pod.tolerations.iter().any(|one| one.tolerates(taint, <_>::default()))
            });
            // What tolerates nothing goes, and does not come back here, even if it belongs to its node.
            self.evict(pods);
        }
    }

    fn add_nodes(&mut self, n: usize, like: &Model) -> Result<(), ActionError> {
        if let Model::Existing(model) = like {
            self.nodes(&NodeChoice::Name(model.clone()))?;
        }
        for _ in 0..n {
            let nodes = self.view().nodes;
            let is_taken = |name: &str| nodes.rows().any(|row| nodes.name_of(row) == name);
            let new = match like {
                Model::Given(node) if n == 1 => {
                    if is_taken(&node.name) {
                        return Err(ActionError::NodeExists(node.name.clone()));
                    }
                    Some(NewNode::alone((**node).clone()))
                }
                Model::Given(node) => {
                    let name = new_nodes::free_name(&node.name, is_taken);
                    Some(NewNode::alone(new_nodes::node_like(node, &name)))
                }
                Model::Existing(model) => {
                    let name = new_nodes::free_name(model, is_taken);
                    new_nodes::with_all_of(self.view(), model, &name)
                }
            };
            let Some(NewNode { node, pods, objects }) = new else { continue };
            self.tell(Event::Node(Box::new(Observation::Is(node))));
            objects.into_iter().map(Event::object).for_each(|event| self.tell(event));
            pods.into_iter().map(Event::pod).for_each(|event| self.tell(event));
        }
        Ok(())
    }

    fn set_priority(&mut self, of: &ObjectKey, priority: i32) -> Result<(), ActionError> {
        let is_meant = |pod: &&Pod| pod.key == *of || scale::is_of(pod, of);
        let pods: Vec<Pod> = self.pods_that(is_meant).into_iter().cloned().collect();
        if pods.is_empty() {
            return Err(ActionError::NeitherPodNorController(of.clone()));
        }
        for mut pod in pods {
            pod.priority = priority;
            self.tell(Event::pod(pod));
        }
        Ok(())
    }

    /// The pods for which a condition holds, by name.
    fn pods_that(&self, is_meant: impl FnMut(&&Pod) -> bool) -> Vec<&Pod> {
        let all = self.simulation.world().pods_in_any_order();
        let mut pods: Vec<&Pod> = all.filter(is_meant).collect();
        pods.sort_unstable_by_key(|pod| &pod.key);
        pods
    }

    /// The budgets that do not allow all evictions at once.
    fn broken_budgets(&self) -> Vec<BrokenBudget> {
        let budgets = self.view().stores.of::<PodDisruptionBudget>();
        let broken = budgets.iter().filter_map(|budget| {
            let is_protected = |pod: &&Pod| {
                pod.key.namespace == budget.key.namespace && budget.selector.matches(&pod.labels)
            };
            let evicted = self.drained.iter().filter(is_protected).count();
            let allowed = usize::try_from(budget.disruptions_allowed).unwrap_or(0);
            (allowed < evicted).then(|| BrokenBudget {
                budget: budget.key.to_string(),
                allowed,
                evicted,
            })
        });
        broken.collect()
    }
}

impl NewNode {
    fn alone(node: Node) -> Self {
        NewNode { node, pods: Vec::new(), objects: Vec::new() }
    }
}
