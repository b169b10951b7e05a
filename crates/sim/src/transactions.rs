//! Random transactions, which leave no trace when they are rolled back.

use std::sync::Arc;

use plimsoll_api::{
    AnyObject, CsiNode, DeviceClass, Effect, Kind, KindRef, Node, PersistentVolume,
    PersistentVolumeClaim, Pod, ResourceClaim, ResourceSlice, Service, Str, Taint,
};
use plimsoll_engine::{Detail, Scheduler, Transaction};
use plimsoll_framework::Time;
use plimsoll_framework::pod_groups::group_of;
use rand::{Rng, RngExt};

/// At most this many changes are in a transaction, without those nested in it.
const MOST_CHANGES: usize = 6;
/// How deep transactions are nested.
const DEEPEST: usize = 2;

/// What random transactions are made of.
struct Parts {
    now: Time,
    schedules_groups: bool,
    pods: Vec<Pod>,
    nodes: Vec<Node>,
    kinds: Vec<KindRef>,
}

/// Makes random changes in a transaction, decides pods in between, and rolls all back. Returns how the decisions from
/// memory differ from those from scratch.
pub(crate) fn try_random(scheduler: &mut Scheduler, now: Time, rng: &mut impl Rng) -> Vec<String> {
    let view = scheduler.view();
    let nodes = view.nodes.rows().map(|row| Node::clone(view.nodes.node(row))).collect();
    let pods = scheduler.pods().map(|pod| Pod::clone(pod)).collect();
    let (schedules_groups, kinds) = (scheduler.schedules_groups(), scheduler.kinds());
    let parts = Parts { now, schedules_groups, pods, nodes, kinds };
    let mut differences = Vec::new();
    scheduler.transaction(now, |all| parts.change(all, 0, rng, &mut differences));
    differences
}

fn any<'a, T>(all: &'a [T], rng: &mut impl Rng) -> Option<&'a T> {
    (!all.is_empty()).then(|| &all[rng.random_range(0..all.len())])
}

impl Parts {
    fn change(
        &self,
        all: &mut Transaction<'_>,
        depth: usize,
        rng: &mut impl Rng,
        differences: &mut Vec<String>,
    ) {
        for _ in 0..rng.random_range(1..=MOST_CHANGES) {
            let (pod, node) = (any(&self.pods, rng), any(&self.nodes, rng));
            match rng.random_range(0..10) {
                // What is not possible changes nothing.
                0 | 1 => {
                    if let (Some(pod), Some(node)) = (pod, node) {
                        let _ = all.place(self.pod_like(pod, rng), &node.name);
                    }
                }
                2 => {
                    if let Some(pod) = pod {
                        let _ = all.evict(&pod.key);
                    }
                }
                3 | 4 => {
                    if let Some(node) = node {
                        all.set_node(self.node_like(node, rng));
                    }
                }
                5 => {
                    if let Some(node) = node {
                        let _ = all.remove_node(&node.name);
                    }
                }
                6 => self.change_object(all, rng),
                7 if depth < DEEPEST => all.transaction(|inner| {
                    self.change(inner, depth + 1, rng, differences);
                    if rng.random_ratio(1, 2) {
                        inner.commit();
                    }
                }),
                _ => {
                    if let Some(pod) = pod {
                        decide(all, pod, differences);
                        self.decide_group(all, pod);
                    }
                }
            }
        }
    }

    /// Decides the group of a pod that waits, as if it were the only one that does.
    fn decide_group(&self, all: &mut Transaction<'_>, pod: &Pod) {
        let group = group_of(pod).filter(|_| self.schedules_groups && pod.node_name.is_none());
        if let Some(group) = group {
            // An error says that it has a node by now.
            let _ = all.decide_group(self.now, &group, [Arc::new(pod.clone())]);
        }
    }

    /// The pod itself, or a new one like it.
    fn pod_like(&self, pod: &Pod, rng: &mut impl Rng) -> Pod {
        let mut pod = Pod { node_name: None, ..pod.clone() };
        if rng.random_ratio(1, 2) {
            pod.key.name = format!("{}-copy", pod.key.name).into();
            pod.uid = format!("{}-copy", pod.uid).into();
            if let Some(other) = any(&self.pods, rng) {
                pod.labels = other.labels.clone();
            }
        }
        pod
    }

    /// The node with a change, or a new one like it.
    fn node_like(&self, node: &Node, rng: &mut impl Rng) -> Node {
        let mut node = node.clone();
        let other = any(&self.nodes, rng);
        match rng.random_range(0..5) {
            0 => node.unschedulable = !node.unschedulable,
            1 if node.taints.is_empty() => node.taints = vec![taint()],
            1 => node.taints.clear(),
            2 => node.labels = other.map_or(node.labels, |other| other.labels.clone()),
            3 => {
                node.allocatable =
                    other.map_or(node.allocatable, |other| other.allocatable.clone());
            }
            // Before all others, after them, or in between.
            _ => {
                let before = ["0", "zz", &*node.name][rng.random_range(0..3)];
                node.name = format!("{before}-{}", rng.random_range(0..3)).into();
            }
        }
        node
    }

    /// Removes an object, and perhaps adds it again.
    fn change_object(&self, all: &mut Transaction<'_>, rng: &mut impl Rng) {
        match rng.random_range(0..7) {
            0 => self.change_one_of::<Service>(all, rng),
            1 => self.change_one_of::<PersistentVolume>(all, rng),
            2 => self.change_one_of::<PersistentVolumeClaim>(all, rng),
            3 => self.change_one_of::<CsiNode>(all, rng),
            4 => self.change_one_of::<ResourceSlice>(all, rng),
            5 => self.change_one_of::<DeviceClass>(all, rng),
            _ => self.change_one_of::<ResourceClaim>(all, rng),
        }
    }

    fn change_one_of<K: Kind + Clone>(&self, all: &mut Transaction<'_>, rng: &mut impl Rng) {
        let kind = KindRef::of::<K>();
        if !self.kinds.contains(&kind) {
            return;
        }
        let objects: Vec<Arc<K>> = all.view().stores.objects.of::<K>().iter().cloned().collect();
        if let Some(object) = any(&objects, rng) {
            all.remove_object(kind, object.key());
            if rng.random_ratio(1, 3) {
                all.set_object(AnyObject::new(K::clone(object)));
            }
        }
    }
}

fn taint() -> Taint {
    Taint { key: "example.com/tried".into(), value: Str::default(), effect: Effect::NoSchedule }
}

/// Decides a pod from memory and from scratch, and asks all filters about all nodes both ways.
fn decide(all: &mut Transaction<'_>, pod: &Pod, differences: &mut Vec<String>) {
    let pod = Pod { node_name: None, ..pod.clone() };
    let known = all.judge(pod.clone()).map(|mut judge| judge.verdicts());
    let anew = all.judge_from_scratch(pod.clone()).map(|mut judge| judge.verdicts());
    if known != anew {
        differences.push(format!("{}: {known:?}, from scratch {anew:?}", pod.key));
    }
    let mut in_detail = |detail| {
        all.transaction(|each| each.decide_in_detail(pod.clone(), detail).map(|one| one.outcome))
    };
    let (remembered, from_scratch) = (in_detail(Detail::Outcome), in_detail(Detail::Nodes));
    if remembered != from_scratch {
        differences.push(format!("{}: {remembered:?}, from scratch {from_scratch:?}", pod.key));
    }
}
