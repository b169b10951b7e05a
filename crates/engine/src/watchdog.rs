//! What a watchdog asks of a scheduler: whether its view of the cluster is right, and what is stuck.
//!
//! Nothing here decides anything. Only [`Scheduler::activate`] changes the scheduler: it wakes a pod.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use plimsoll_api::{Node, Pod, PodKey, PodPhase, Resources, Str, resources};
use plimsoll_framework::{PodInfo, Point, Row, Time};

use crate::decision::Outcome;
use crate::queue::{QueuePlace, QueuedPodInfo, Surroundings};
use crate::scheduler::Scheduler;

/// The annotation of a pod that a kubelet has created from a file, and shows to the API server. As in
/// kubelet/types/pod_update.go, ConfigMirrorAnnotationKey.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// A difference between an object as the API server has it, and as the scheduler knows it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ViewDifference {
    /// `Node` or `Pod`.
    pub kind: &'static str,
    /// The name of the object, for a pod with its namespace.
    pub object: String,
    /// What differs, such as `taints`.
    pub what: &'static str,
}

impl fmt::Display for ViewDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.kind, self.object, self.what)
    }
}

/// A pod that has a node but is not bound yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenBinding {
    /// The pod.
    pub pod: PodKey,
    /// Its node.
    pub node: Str,
    /// The extension point at which it waits: Permit, PreBind or Bind.
    pub point: Point,
    /// When it was given its node.
    pub since: Time,
}

/// Who has placed a pod on its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PlacedBy {
    /// A scheduler name that no profile has.
    AnotherScheduler,
    /// The kubelet of the node, from a file.
    Kubelet,
    /// A profile of this scheduler, or whoever sets the node of a pod with its scheduler name, such as a user.
    Profile,
}

/// A node whose pods request more of a resource than it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overcommitted {
    /// The node.
    pub node: Str,
    /// The resource, with the largest excess in relation to what the node has.
    pub resource: Str,
    /// What its pods request, in the units of [`Resources`].
    pub requested: i64,
    /// What it has.
    pub allocatable: i64,
    /// What the pods of each origin request of it.
    pub by: BTreeMap<PlacedBy, i64>,
}

impl Overcommitted {
    /// Who must have caused it: the first of another scheduler and the kubelet without whose pods the rest would fit,
    /// both together, or else the profiles. They never place a pod where it does not fit, so then the node has become
    /// smaller, or somebody has set the node of a pod.
    pub fn cause(&self) -> PlacedBy {
        let of = |by| self.by.get(&by).copied().unwrap_or(0);
        let (others, kubelet) = (of(PlacedBy::AnotherScheduler), of(PlacedBy::Kubelet));
        let excess = self.requested.saturating_sub(self.allocatable);
        if excess <= others {
            PlacedBy::AnotherScheduler
        } else if excess <= kubelet {
            PlacedBy::Kubelet
        } else if excess <= others.saturating_add(kubelet) {
            PlacedBy::AnotherScheduler
        } else {
            PlacedBy::Profile
        }
    }
}

impl Scheduler {
    /// What differs between a node with its pods, as the API server has them, and what is known of them here. Pods that
    /// are only assumed to be on the node do not count.
    pub fn differences_on(&self, node: &Node, pods: Vec<Arc<Pod>>) -> Vec<ViewDifference> {
        let mut found = Vec::new();
        let mut differs = |kind, object: String, what| {
            found.push(ViewDifference { kind, object, what });
        };
        let name = || node.name.to_string();
        let Some(row) = self.cache.row(&node.name) else {
            return vec![ViewDifference { kind: "Node", object: name(), what: "is not known" }];
        };
        let view = self.view();
        let known = view.nodes.node(row);
        for (what, is_equal) in [
            ("labels", known.labels == node.labels),
            ("taints", known.taints == node.taints),
            ("unschedulable", known.unschedulable == node.unschedulable),
            ("allocatable", known.allocatable == node.allocatable),
        ] {
            if !is_equal {
                differs("Node", name(), what);
            }
        }
        let mut sum = Resources::default();
        for pod in view.nodes.pods_on(row).iter() {
            sum.add(&pod.requests);
        }
        if sum != *view.nodes.requested_of(row) {
            differs("Node", name(), "requested is not the sum of its pods");
        }
        let is_there = |pod: &Arc<Pod>| pod.phase != PodPhase::Ended;
        let theirs: BTreeMap<PodKey, Arc<Pod>> =
            pods.into_iter().filter(is_there).map(|pod| (pod.key.clone(), pod)).collect();
        let mut ours = BTreeMap::new();
        for pod in view.nodes.pods_on(row).iter() {
            ours.insert(&pod.key, pod);
        }
        for (key, pod) in &theirs {
            match ours.get(key) {
                None => {
                    differs("Pod", key.to_string(), "is on the node, but not known to be there");
                }
                Some(known) => {
                    let pod = self.reckoned(pod.clone());
                    if known.uid != pod.uid {
                        differs("Pod", key.to_string(), "uid");
                    }
                    if known.requests != pod.requests {
                        differs("Pod", key.to_string(), "requests");
                    }
                    if known.labels != pod.labels {
                        differs("Pod", key.to_string(), "labels");
                    }
                }
            }
        }
        let is_assumed =
            |key: &PodKey| self.names.find(key).is_some_and(|id| self.cache.assumed(id).is_some());
        for key in ours.keys().filter(|key| !theirs.contains_key(**key) && !is_assumed(key)) {
            differs("Pod", key.to_string(), "is known to be on the node, but is not there");
        }
        found.sort();
        found
    }

    /// Those of these pods without a node, as the API server has them, that this scheduler should know but does not.
    pub fn unknown_of(&self, pods: &[Arc<Pod>]) -> Vec<ViewDifference> {
        let is_missing = |pod: &&Arc<Pod>| {
            pod.node_name.is_none()
                && pod.phase != PodPhase::Ended
                && self.profiles.get(&pod.scheduler_name).is_some()
                // A pod that is being deleted may have left the queue.
                && !pod.is_terminating()
                && !self.knows_pod(&pod.key)
        };
        let difference = |pod: &Arc<Pod>| ViewDifference {
            kind: "Pod",
            object: pod.key.to_string(),
            what: "is pending, but not in the queue",
        };
        pods.iter().filter(is_missing).map(difference).collect()
    }

    /// Whether there is a node of this name.
    pub fn knows_node(&self, name: &str) -> bool {
        self.cache.row(name).is_some()
    }

    /// The number of nodes.
    pub fn n_nodes(&self) -> usize {
        self.view().nodes.len()
    }

    /// The name of the node at this place of all nodes, counted from 0.
    pub fn node_at(&self, place: usize) -> Option<Str> {
        let view = self.view();
        let row = view.nodes.rows().nth(place)?;
        Some(view.nodes.name_of(row).clone())
    }

    /// The pods that have had a node since `before` or earlier and are not bound yet, the oldest first.
    pub fn open_bindings(&self, before: Time) -> Vec<OpenBinding> {
        let mut open: Vec<OpenBinding> = self
            .bindings
            .iter()
            .filter(|cycle| cycle.began <= before)
            .map(|cycle| OpenBinding {
                pod: cycle.pod.key.clone(),
                node: cycle.pod.node().cloned().unwrap_or_default(),
                point: cycle.point(),
                since: cycle.began,
            })
            .collect();
        open.sort_by(|a, b| (a.since, &a.pod).cmp(&(b.since, &b.pod)));
        open
    }

    /// The pods that have waited for a change since `before` or earlier, in no particular order.
    pub fn waiting_for_change(&self, before: Time) -> Vec<PodKey> {
        let waits =
            |info: &QueuedPodInfo| info.place == QueuePlace::Unschedulable && info.queued <= before;
        let all = self.queue.iter_in_any_order();
        all.filter(|(_, info)| waits(info)).map(|(_, info)| info.pod.key.clone()).collect()
    }

    /// The node on which a pod that waits for a change would be placed if it were tried now. `None` if it does not wait, if
    /// there is no such node, or if that cannot be known without trying it: it belongs to a group, extenders are asked
    /// about it, or something else than a filter has rejected it.
    pub fn would_fit(&mut self, now: Time, pod: &PodKey) -> Option<Str> {
        let info = self.pending_pod(pod)?;
        let known = info.place == QueuePlace::Unschedulable
            && info.pod.scheduling_group.is_none()
            && info.pod.unreadable.is_none()
            && !info.pod.is_terminating()
            && self.extenders.to_ask(&info.pod).is_none();
        let profile = self.profiles.get(&info.pod.scheduler_name)?;
        let rejectors: Vec<&'static str> = info.rejectors().collect();
        let filters = |name: &&'static str| {
            let name = *name;
            // Without any node there is no plugin that rejects.
            profile.named(name).is_none()
                || profile.at(Point::Filter).any(|(plugin, _)| plugin.name == name)
        };
        if !known || rejectors.is_empty() || !rejectors.iter().all(filters) {
            return None;
        }
        let pod = info.pod.seen().clone();
        self.cache.set_now(now);
        match self.transaction(now, |transaction| transaction.decide(pod)).ok()?.outcome {
            Outcome::Scheduled { node, .. } => Some(node),
            Outcome::Unschedulable { .. } | Outcome::Error { .. } => None,
        }
    }

    /// Wakes a pod that waits for a change: it is tried again after its backoff. Whether it waited.
    ///
    /// Recorders are not shown this, so a recording cannot be replayed after it.
    pub fn activate(&mut self, now: Time, pod: &PodKey) -> bool {
        let Some(id) = self.names.find(pod) else { return false };
        let waits = self.queue.get(id).is_some_and(|info| info.place == QueuePlace::Unschedulable);
        if waits {
            let with = Surroundings { profiles: &self.profiles, cache: &self.cache };
            self.queue.retry(now, id, with);
        }
        waits
    }

    /// Those of `n` nodes from the place `from` on whose pods request more than they have.
    pub fn overcommitted(&self, from: usize, n: usize) -> Vec<Overcommitted> {
        let rows = self.view().nodes.rows().skip(from).take(n);
        rows.filter_map(|row| self.overcommitted_row(row)).collect()
    }

    fn overcommitted_row(&self, row: Row) -> Option<Overcommitted> {
        let view = self.view();
        let (pods, node) = (view.nodes.pods_on(row), view.nodes.node(row));
        let (has, used) = (&node.allocatable, view.nodes.requested_of(row));
        let n_pods = i64::try_from(pods.len()).unwrap_or(i64::MAX);
        let named = [resources::CPU, resources::MEMORY, resources::EPHEMERAL_STORAGE];
        let named = named.into_iter().map(|name| (Str::from(name), used.get(name)));
        let scalars = used.scalar.iter().map(|(name, amount)| (name.clone(), *amount));
        let all = named.chain([(Str::from(resources::PODS), n_pods)]).chain(scalars);
        let provided = view.nodes.provided();
        // What devices stand for is not on the node.
        let exceeds =
            |(name, requested): &(Str, i64)| has.get(name) < *requested && !provided.contains(name);
        let ratio = |(name, requested): &(Str, i64)| {
            let has = i128::from(has.get(name).max(1));
            i128::from(*requested).saturating_mul(1 << 20) / has
        };
        let (resource, requested) = all.filter(exceeds).max_by_key(ratio)?;
        let mut by = BTreeMap::new();
        for pod in pods.iter() {
            let amount = match resource.as_str() {
                resources::PODS => 1,
                name => pod.requests.get(name),
            };
            let sum: &mut i64 = by.entry(self.placed_by(pod)).or_default();
            *sum = sum.saturating_add(amount);
        }
        Some(Overcommitted {
            node: node.name.clone(),
            allocatable: has.get(&resource),
            resource,
            requested,
            by,
        })
    }

    fn placed_by(&self, pod: &PodInfo) -> PlacedBy {
        if pod.annotations.get(MIRROR).is_some() {
            PlacedBy::Kubelet
        } else if self.profiles.get(&pod.scheduler_name).is_none() {
            PlacedBy::AnotherScheduler
        } else {
            PlacedBy::Profile
        }
    }
}
