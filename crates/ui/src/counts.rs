//! The nodes with what is on them, and how many pods there are, without the pods.
//!
//! The overview and the map of nodes need no more, and pages show these most of the time. A list of all pods takes memory, and
//! keeps objects that have changed since.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plimsoll_api::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS};
use plimsoll_api::{
    CompositePodGroup, Node, PodGroup, ResourceClaim, ResourceSlice, Resources, Str,
};
use plimsoll_engine::Scheduler;
use plimsoll_framework::Time;
use serde::Serialize;

use crate::documents;
use crate::picture::{PodState, Views, text_of};
use crate::question::{Failure, Question};

/// The label of a node with its zone.
const ZONE: &str = "topology.kubernetes.io/zone";

/// The nodes with what is on them, and how many pods there are, as they were counted.
#[derive(Debug, Default)]
pub struct CountedCluster {
    /// When they were counted.
    pub taken: Time,
    /// In no particular order.
    pub(crate) nodes: Vec<CountedNode>,
    pub(crate) pods: PodCounts,
    /// Whether there are groups of pods.
    pub(crate) has_groups: bool,
    /// Whether there are devices.
    pub(crate) has_devices: bool,
}

/// A node with what is on it.
#[derive(Debug)]
pub(crate) struct CountedNode {
    pub(crate) node: Arc<Node>,
    /// What its pods request, with their number.
    pub(crate) requested: Resources,
    /// How many pods it has.
    pub(crate) n_pods: usize,
}

/// How many pods there are.
#[derive(Debug, Default)]
pub(crate) struct PodCounts {
    /// In each state.
    pub(crate) states: BTreeMap<PodState, usize>,
    /// Of those that are pending, by the reason.
    pub(crate) reasons: BTreeMap<String, usize>,
}

/// What the overview and the map of nodes show.
#[derive(Debug)]
pub struct Counts {
    pub(crate) taken: Time,
    pub(crate) views: Views,
    /// Sorted by name.
    pub(crate) nodes: Vec<CountedNode>,
    /// The resources that nodes have or pods request: first those that most nodes have.
    pub(crate) resources: Vec<Str>,
    pub(crate) pods: PodCounts,
}

impl CountedCluster {
    /// What a scheduler knows.
    pub fn of(scheduler: &Scheduler, now: Time) -> Self {
        let view = scheduler.view();
        let (mut pods, mut has_groups) = (PodCounts::default(), false);
        let mut rejected_by: BTreeMap<Vec<&'static str>, usize> = BTreeMap::new();
        let mut rejectors = Vec::new();
        for (pod, info) in scheduler.pending_in_any_order() {
            has_groups |= pod.scheduling_group.is_some();
            pods.add(PodState::of(&info.place), 1);
            rejectors.clear();
            rejectors.extend(info.rejectors());
            // Many pods have the same reason.
            match rejected_by.get_mut(&rejectors) {
                Some(n) => *n += 1,
                None => drop(rejected_by.insert(rejectors.clone(), 1)),
            }
        }
        for (rejectors, n) in rejected_by.into_iter().filter(|(rejectors, _)| !rejectors.is_empty())
        {
            pods.add_reason(rejectors.join(", "), n);
        }
        let mut n_bound = 0;
        for pod in scheduler.bound() {
            n_bound += 1;
            has_groups |= pod.scheduling_group.is_some();
        }
        pods.add(PodState::Placed, n_bound);
        let nodes = view.nodes.rows().map(|row| {
            let n_pods = view.nodes.pods_on(row).len();
            let mut requested = view.nodes.requested_of(row).clone();
            requested.pods = i64::try_from(n_pods).unwrap_or(i64::MAX);
            CountedNode { node: view.nodes.node(row).clone(), requested, n_pods }
        });
        let stores = view.stores;
        CountedCluster {
            taken: now,
            nodes: nodes.collect(),
            pods,
            has_groups: has_groups
                || stores.of::<PodGroup>().iter().next().is_some()
                || stores.of::<CompositePodGroup>().iter().next().is_some(),
            has_devices: stores.of::<ResourceSlice>().iter().next().is_some()
                || stores.of::<ResourceClaim>().iter().next().is_some(),
        }
    }
}

impl CountedNode {
    pub(crate) fn zone(&self) -> Option<&Str> {
        self.node.labels.get(ZONE)
    }
}

impl PodCounts {
    /// There are `n` more pods in this state.
    pub(crate) fn add(&mut self, state: PodState, n: usize) {
        *self.states.entry(state).or_default() += n;
    }

    /// `n` more pods are pending for this reason.
    pub(crate) fn add_reason(&mut self, reason: String, n: usize) {
        *self.reasons.entry(reason).or_default() += n;
    }
}

impl Counts {
    /// What is shown of a cluster. `views` says what can be asked beside it.
    pub fn new(counted: CountedCluster, views: Views) -> Self {
        let CountedCluster { taken, mut nodes, pods, has_groups, has_devices } = counted;
        // Sorting in place needs no memory, and no two nodes have the same name.
        nodes.sort_unstable_by(|one, other| one.node.name.cmp(&other.node.name));
        let views = Views { groups: has_groups, devices: has_devices, ..views };
        Counts { taken, views, resources: resources(&nodes), nodes, pods }
    }

    /// Whether it answers a question.
    pub fn answers(question: &Question) -> bool {
        matches!(question, Question::Overview | Question::Nodes)
    }

    /// The answer to a question, as JSON; `None` to a question about something else.
    pub fn answer(&self, question: &Question) -> Option<Result<String, Failure>> {
        match question {
            Question::Overview => Some(written(&documents::overview(self))),
            Question::Nodes => Some(written(&documents::nodes(self))),
            _ => None,
        }
    }

    /// When it was taken, as text.
    pub(crate) fn as_of(&self) -> String {
        text_of(self.taken)
    }
}

/// A document as JSON.
pub(crate) fn written(document: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(document).map_err(|error| Failure::Failed(error.to_string()))
}

/// The resources that nodes have or pods request: first those that most nodes have, then the others by name.
fn resources(nodes: &[CountedNode]) -> Vec<Str> {
    let (mut has, mut others) = (Resources::default(), BTreeSet::new());
    for node in nodes {
        has.add(&node.node.allocatable);
        has.add(&node.requested);
        for name in node.node.allocatable.scalar.keys().chain(node.requested.scalar.keys()) {
            if !others.contains(name) {
                others.insert(name.clone());
            }
        }
    }
    let common = [CPU, MEMORY, PODS, EPHEMERAL_STORAGE].into_iter();
    let common = common.filter(|name| has.get(name) != 0).map(Str::from);
    common.chain(others.into_iter().filter(|name| has.get(name) != 0)).collect()
}
