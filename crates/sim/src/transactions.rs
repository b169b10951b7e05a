//! Random transactions, which leave no trace when they are rolled back.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_api::{
    AnyObject, CsiNode, CsiStorageCapacity, DeviceClass, Effect, Kind, KindRef, Namespace, Node,
    PersistentVolume, PersistentVolumeClaim, Pod, PodDisruptionBudget, ResourceClaim,
    ResourceSlice, Service, StorageClass, Str, Taint, VolumeAttachment,
};
use plimsoll_engine::{Detail, Event, Observation, Scheduler, Transaction};
use plimsoll_framework::Time;
use plimsoll_framework::pod_groups::group_of;
use rand::{Rng, RngExt};

/// At most this many changes are in a transaction, without those nested in it.
const MOST_CHANGES: usize = 6;
/// How deep transactions are nested.
const DEEPEST: usize = 2;
/// After one transaction in so many the state is compared with that before, and everything that is remembered with what is
/// derived anew. The decisions that follow are compared after all of them.
const COMPARED_EVERY: u32 = 4;

/// What random transactions are made of.
struct Parts {
    now: Time,
    schedules_groups: bool,
    pods: Vec<Pod>,
    nodes: Vec<Node>,
    kinds: Vec<KindRef>,
}

/// Makes random changes in a transaction, decides pods in between, and rolls all back. Returns how the decisions from
/// memory differ from those from scratch, and how the state afterwards differs from that before.
pub(crate) fn try_random(scheduler: &mut Scheduler, now: Time, rng: &mut impl Rng) -> Vec<String> {
    let parts = Parts::of(scheduler, now);
    let mut differences = Vec::new();
    let is_compared = rng.random_ratio(1, COMPARED_EVERY);
    let before = if is_compared { scheduler.state() } else { Vec::new() };
    scheduler.transaction(now, |all| parts.change(all, 0, rng, &mut differences));
    if !is_compared {
        return differences;
    }
    let after = scheduler.state();
    if before != after {
        let gone = missing(&after, &before);
        let gone = gone.map(|line| format!("it is not rolled back to: {line}"));
        let new = missing(&before, &after);
        differences.extend(gone.chain(new.map(|line| format!("it is rolled back to: {line}"))));
    }
    differences.extend(scheduler.audit_memory());
    differences
}

/// The lines of `expected` that are not in `lines`, or not as often.
fn missing<'a>(lines: &'a [String], expected: &'a [String]) -> impl Iterator<Item = &'a String> {
    let mut left = BTreeMap::<&String, usize>::new();
    for line in lines {
        *left.entry(line).or_default() += 1;
    }
    expected.iter().filter(move |line| match left.get_mut(line) {
        Some(n_left) if 0 < *n_left => {
            *n_left -= 1;
            false
        }
        _ => true,
    })
}

/// Makes random changes in a transaction, decides pods in between, and commits it. Returns the changes as they would be
/// observed, and how decisions from memory differ from those from scratch.
pub(crate) fn commit_random(
    scheduler: &mut Scheduler,
    now: Time,
    rng: &mut impl Rng,
) -> (Vec<Event>, Vec<String>) {
    let parts = Parts::of(scheduler, now);
    let mut differences = Vec::new();
    let events = scheduler.transaction(now, |all| {
        all.commit();
        parts.change(all, 0, rng, &mut differences)
    });
    (events, differences)
}

fn any<'a, T>(all: &'a [T], rng: &mut impl Rng) -> Option<&'a T> {
    (!all.is_empty()).then(|| &all[rng.random_range(0..all.len())])
}

impl Parts {
    fn of(scheduler: &Scheduler, now: Time) -> Self {
        let view = scheduler.view();
        let nodes = view.nodes.rows().map(|row| Node::clone(view.nodes.node(row))).collect();
        // The same random numbers must mean the same pods.
        let mut pods: Vec<Pod> = scheduler.pods().map(|pod| Pod::clone(pod)).collect();
        pods.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        let (schedules_groups, kinds) = (scheduler.schedules_groups(), scheduler.kinds());
        Parts { now, schedules_groups, pods, nodes, kinds }
    }

    /// Makes random changes, and returns them as events, without those that are rolled back.
    fn change(
        &self,
        all: &mut Transaction<'_>,
        depth: usize,
        rng: &mut impl Rng,
        differences: &mut Vec<String>,
    ) -> Vec<Event> {
        let mut events = Vec::new();
        for _ in 0..rng.random_range(1..=MOST_CHANGES) {
            let (pod, node) = (any(&self.pods, rng), any(&self.nodes, rng));
            match rng.random_range(0..12) {
                // What is not possible changes nothing.
                0 | 1 => {
                    if let (Some(pod), Some(node)) = (pod, node) {
                        let pod = self.pod_like(pod, rng);
                        events.extend(place(all, pod, &node.name));
                    }
                }
                2 => {
                    if let Some(pod) = pod {
                        events.extend(evict(all, pod));
                    }
                }
                3 => {
                    // It comes back with other contents, where it was or elsewhere.
                    let on = pod.and_then(|pod| pod.node_name.clone());
                    let on = on.filter(|_| rng.random_ratio(2, 3));
                    let on = on.or_else(|| node.map(|node| node.name.clone()));
                    if let (Some(pod), Some(on)) = (pod, on) {
                        events.extend(evict(all, pod));
                        let changed = Pod { key: pod.key.clone(), ..self.pod_like(pod, rng) };
                        events.extend(place(all, changed, &on));
                    }
                }
                4 | 5 => {
                    if let Some(node) = node {
                        let node = self.node_like(node, rng);
                        all.set_node(node.clone());
                        events.push(Event::Node(Box::new(Observation::Is(node))));
                    }
                }
                6 => {
                    if let Some(node) = node
                        && all.remove_node(&node.name).is_ok()
                    {
                        let gone = Observation::Gone(node.name.clone());
                        events.push(Event::Node(Box::new(gone)));
                    }
                }
                7 | 8 => events.extend(self.change_object(all, rng)),
                9 if depth < DEEPEST => {
                    events.extend(all.transaction(|inner| {
                        let events = self.change(inner, depth + 1, rng, differences);
                        match rng.random_ratio(1, 2) {
                            true => {
                                inner.commit();
                                events
                            }
                            false => Vec::new(),
                        }
                    }));
                }
                _ => {
                    if let Some(pod) = pod {
                        decide(all, pod, differences);
                        self.decide_group(all, pod);
                    }
                }
            }
        }
        events
    }

    /// Decides the group of a pod that waits, as if it were the only one that does.
    fn decide_group(&self, all: &mut Transaction<'_>, pod: &Pod) {
        let group = group_of(pod).filter(|_| self.schedules_groups && pod.node_name.is_none());
        if let Some(group) = group {
            // An error says that it has a node by now.
            let _ = all.decide_group(self.now, &group, [Arc::new(pod.clone())]);
        }
    }

    /// The pod itself, or a new one like it, or like it and another one.
    fn pod_like(&self, pod: &Pod, rng: &mut impl Rng) -> Pod {
        let mut pod = Pod { node_name: None, ..pod.clone() };
        if rng.random_ratio(1, 2) {
            pod.key.name = format!("{}-copy", pod.key.name).into();
            pod.uid = format!("{}-copy", pod.uid).into();
            match any(&self.pods, rng) {
                Some(other) if rng.random_ratio(1, 2) => {
                    Arc::make_mut(&mut pod.template).labels = other.labels.clone();
                }
                // Its requests, ports, volumes, claims and affinity.
                Some(other) if other.scheduling_group == pod.scheduling_group => {
                    pod.template = other.template.clone();
                }
                _ => {}
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

    /// Removes an object, adds one, or gives one the contents of another.
    fn change_object(&self, all: &mut Transaction<'_>, rng: &mut impl Rng) -> Vec<Event> {
        match rng.random_range(0..12) {
            0 => self.change_one_of::<Service>(all, rng),
            1 => self.change_one_of::<PersistentVolume>(all, rng),
            2 => self.change_one_of::<PersistentVolumeClaim>(all, rng),
            3 => self.change_one_of::<CsiNode>(all, rng),
            4 => self.change_one_of::<ResourceSlice>(all, rng),
            5 => self.change_one_of::<DeviceClass>(all, rng),
            6 => self.change_one_of::<StorageClass>(all, rng),
            7 => self.change_one_of::<CsiStorageCapacity>(all, rng),
            8 => self.change_one_of::<VolumeAttachment>(all, rng),
            9 => self.change_one_of::<PodDisruptionBudget>(all, rng),
            10 => self.change_one_of::<Namespace>(all, rng),
            _ => self.change_one_of::<ResourceClaim>(all, rng),
        }
    }

    fn change_one_of<K: Named>(&self, all: &mut Transaction<'_>, rng: &mut impl Rng) -> Vec<Event> {
        let kind = KindRef::of::<K>();
        if !self.kinds.contains(&kind) {
            return Vec::new();
        }
        let mut objects: Vec<Arc<K>> =
            all.view().stores.objects.of::<K>().iter().cloned().collect();
        objects.sort_unstable_by_key(|object| object.key());
        let (Some(object), Some(other)) = (any(&objects, rng), any(&objects, rng)) else {
            return Vec::new();
        };
        let mut events = Vec::new();
        let mut set = |all: &mut Transaction<'_>, object: K| {
            all.set_object(AnyObject::new(object.clone()));
            events.push(Event::object(AnyObject::new(object)));
        };
        match rng.random_range(0..4) {
            0 => set(all, K::clone(other).called(object)),
            1 => set(all, K::clone(object).called_anew(rng.random_range(0..3))),
            more => {
                all.remove_object(kind, object.key());
                events.push(Event::gone(kind, object.key()));
                if more == 2 {
                    all.set_object(AnyObject::new(K::clone(object)));
                    events.push(Event::object(AnyObject::new(K::clone(object))));
                }
            }
        }
        events
    }
}

/// An object that can be like another of its kind.
trait Named: Kind + Clone {
    /// With the key of another object.
    fn called(self, other: &Self) -> Self;
    /// With a name of its own.
    fn called_anew(self, number: u32) -> Self;
}

macro_rules! named {
    ($($kind:ident by $($field:ident).+,)*) => {
        $(impl Named for $kind {
            fn called(mut self, other: &Self) -> Self {
                self.$($field).+ = other.$($field).+.clone();
                self
            }
            fn called_anew(mut self, number: u32) -> Self {
                self.$($field).+ = format!("{}-tried-{number}", self.$($field).+).into();
                self
            }
        })*
    };
}

named! {
    Service by key.name,
    PersistentVolume by name,
    PersistentVolumeClaim by key.name,
    CsiNode by name,
    ResourceSlice by name,
    DeviceClass by name,
    StorageClass by name,
    CsiStorageCapacity by key.name,
    VolumeAttachment by name,
    PodDisruptionBudget by key.name,
    Namespace by name,
    ResourceClaim by key.name,
}

/// Places a pod, and returns what would be observed of that.
fn place(all: &mut Transaction<'_>, pod: Pod, node: &Str) -> Option<Event> {
    all.place(pod.clone(), node).ok()?;
    Some(Event::pod(Pod { node_name: Some(node.clone()), ..pod }))
}

/// Evicts a pod, and returns what would be observed of that.
fn evict(all: &mut Transaction<'_>, pod: &Pod) -> Option<Event> {
    all.evict(&pod.key).ok()?;
    Some(Event::pod_gone(pod.key.clone()))
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

#[cfg(test)]
mod tests {
    use super::missing;

    #[test]
    fn a_line_that_occurs_less_often_is_missing() {
        let lines = |text: &str| -> Vec<String> { text.chars().map(String::from).collect() };
        let missing = |one, other| missing(&lines(one), &lines(other)).cloned().collect::<String>();
        assert_eq!(missing("abb", "abbbc"), "bc");
        assert_eq!(missing("abbbc", "abb"), "");
    }
}
