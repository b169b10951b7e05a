//! What comes of a scenario.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_api::{Pod, PodKey, Str};
use plimsoll_engine::{Outcome, QueuePlace};
use plimsoll_framework::View;
use serde::{Serialize, Serializer};

use super::GroupInPlan;
use crate::run::Simulation;

const ZONE: &str = "topology.kubernetes.io/zone";

/// What comes of a scenario. A key whose value would be empty is left out.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// The pods that get a node, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub placed: Vec<PlacedPod>,
    /// The pods that end without a node, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pending: Vec<PendingInPlan>,
    /// The pods that nobody makes again, because they have no controller.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<LostPod>,
    /// The pods that are evicted for others, in this order. Those with controllers are made again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub evicted: Vec<EvictedPod>,
    /// The groups of pods that were decided or wait, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupInPlan>,
    /// The budgets because of which draining would have to wait.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub broken_budgets: Vec<BrokenBudget>,
    /// By resource, the share of what nodes have that pods request.
    pub utilisation: BeforeAndAfter<f64>,
    /// By zone, the number of pods on nodes; left out if no node has a zone.
    #[serde(skip_serializing_if = "BeforeAndAfter::is_empty")]
    pub pods_by_zone: BeforeAndAfter<usize>,
    /// How many decisions were made.
    pub decisions: usize,
    /// The first pod that ends without a node, of those that had one or were asked for if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_blocker: Option<PendingInPlan>,
}

impl Plan {
    /// Whether a pod that had a node, or was asked for, ends without one.
    pub fn leaves_pods_pending(&self) -> bool {
        !self.lost.is_empty() || self.pending.iter().any(|pod| pod.is_required)
    }
}

/// A pod that gets a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlacedPod {
    /// The pod.
    #[serde(serialize_with = "name")]
    pub pod: PodKey,
    /// The node that it had.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Str>,
    /// The node that it gets.
    pub to: Str,
    /// Whether it had no node before, and nobody asked for it now.
    #[serde(skip)]
    pub waited: bool,
}

/// A pod that ends without a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PendingInPlan {
    /// The pod.
    #[serde(serialize_with = "name")]
    pub pod: PodKey,
    /// The node that it had.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Str>,
    /// Why, as kube-scheduler would say it.
    pub message: String,
    /// Whether it had a node, or was asked for.
    #[serde(skip)]
    pub is_required: bool,
}

/// A pod that loses its node, and that nobody makes again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LostPod {
    /// The pod.
    #[serde(serialize_with = "name")]
    pub pod: PodKey,
    /// The node that it had.
    pub from: Str,
}

/// A pod that is evicted for another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EvictedPod {
    /// The pod.
    #[serde(serialize_with = "name")]
    pub pod: PodKey,
    /// The other one.
    #[serde(rename = "for", serialize_with = "name")]
    pub for_pod: PodKey,
}

/// A budget that does not allow as many evictions at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BrokenBudget {
    /// The budget, as `namespace/name`.
    pub budget: String,
    /// How many evictions it allows now.
    pub allowed: usize,
    /// How many there would be.
    pub evicted: usize,
}

/// Values by name, before and after.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BeforeAndAfter<T> {
    /// Before the scenario.
    pub before: BTreeMap<Str, T>,
    /// After it.
    pub after: BTreeMap<Str, T>,
}

impl<T: Clone> BeforeAndAfter<T> {
    pub(super) fn of(before: &BTreeMap<Str, T>, after: &BTreeMap<Str, T>) -> Self {
        BeforeAndAfter { before: before.clone(), after: after.clone() }
    }
}

impl<T> BeforeAndAfter<T> {
    fn is_empty(&self) -> bool {
        self.before.is_empty() && self.after.is_empty()
    }
}

fn name<S: Serializer>(pod: &PodKey, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(pod)
}

/// How many pods are in each zone.
pub(super) fn zones(view: View<'_>) -> BTreeMap<Str, usize> {
    let mut zones = BTreeMap::new();
    for row in view.nodes.rows() {
        if let Some(zone) = view.nodes.node(row).labels.get(ZONE) {
            *zones.entry(zone.clone()).or_default() += view.nodes.pods_on(row).len();
        }
    }
    zones
}

/// The end of a scenario.
pub(super) struct End<'a> {
    pub(super) simulation: &'a Simulation,
    /// The last decision about each pod.
    pub(super) last: &'a BTreeMap<PodKey, Outcome>,
    pub(super) lost_node: &'a BTreeMap<PodKey, Str>,
    pub(super) wanted: &'a BTreeSet<PodKey>,
    pub(super) was_pending: &'a BTreeSet<PodKey>,
}

impl End<'_> {
    /// The pods that get a node, and those that do not, by name.
    pub(super) fn pods(&self) -> (Vec<PlacedPod>, Vec<PendingInPlan>) {
        let (mut placed, mut pending) = (Vec::new(), Vec::new());
        let concerned: BTreeSet<&PodKey> =
            self.lost_node.keys().chain(self.wanted).chain(self.was_pending).collect();
        for key in concerned {
            let Some(pod) = self.simulation.world().pod(key) else { continue };
            let from = self.lost_node.get(key);
            let is_required = from.is_some() || self.wanted.contains(key);
            let (key, from) = (pod.key.clone(), from.cloned());
            if let Some(node) = &pod.node_name {
                placed.push(PlacedPod { pod: key, from, to: node.clone(), waited: !is_required });
            } else {
                let message = self.message(pod);
                pending.push(PendingInPlan { pod: key, from, message, is_required });
            }
        }
        (placed, pending)
    }

    /// Why a pod has no node.
    fn message(&self, pod: &Pod) -> String {
        let scheduler = self.simulation.scheduler();
        match (self.last.get(&pod.key), scheduler.queued_pod(&pod.key).map(|info| &info.place)) {
            (_, Some(QueuePlace::Gated { why, .. })) => why.to_string(),
            (Some(outcome), _) => match outcome.node() {
                Ok(_) => "it could not be bound".to_owned(),
                Err(why) => why.into_owned(),
            },
            (None, Some(_)) => "it was not tried".to_owned(),
            (None, None) => {
                format!("no profile has the name of its scheduler, {}", pod.scheduler_name)
            }
        }
    }
}
