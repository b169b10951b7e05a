//! What happens in a workload, made piece by piece: a million pods are nowhere but in the engine.

use std::time::Duration;

use plimsoll_api::{Node, Pod};
use plimsoll_engine::Event;

use super::template::{DEFAULT, namespace, node_is, pod_is};

/// Things that happen one after the other.
pub(super) type Events = Box<dyn Iterator<Item = Event>>;

/// What happens in a workload.
pub(super) struct Plan {
    /// What is there before any pod.
    pub(super) objects: Events,
    /// The pods that are there at the beginning: on nodes, or to be placed first.
    pub(super) init_pods: Events,
    /// What is measured.
    pub(super) rounds: Box<dyn Iterator<Item = Round>>,
}

/// Things that happen at once.
pub(super) struct Round {
    /// The part of the measurement to which it belongs.
    pub(super) phase: &'static str,
    /// What happens.
    pub(super) events: Events,
    /// The next round begins so long after this one, whatever is left to do. `None`: when nothing is.
    pub(super) pace: Option<Duration>,
}

impl Round {
    /// A round that lasts until nothing is left to do.
    pub(super) fn new(phase: &'static str, events: Events) -> Self {
        Round { phase, events, pace: None }
    }
}

/// These happen one by one, so many a second.
pub(super) fn at_rate(
    phase: &'static str,
    per_second: u32,
    groups: impl Iterator<Item = Vec<Event>> + 'static,
) -> Box<dyn Iterator<Item = Round>> {
    let pace = Some(Duration::from_secs(1) / per_second);
    let round =
        move |events: Vec<Event>| Round { phase, events: Box::new(events.into_iter()), pace };
    Box::new(groups.map(round))
}

/// The phase of workloads that have but one.
pub(super) const PODS: &str = "pods";

/// The pods of these numbers come, which `make` makes as some of `group`.
pub(super) fn come(
    group: &'static str,
    make: impl Fn(&'static str, u32) -> Pod + 'static,
    numbers: impl Iterator<Item = u32> + 'static,
) -> Events {
    Box::new(numbers.map(move |number| pod_is(make(group, number))))
}

impl Plan {
    /// The common plan: nodes; then the group `init`, which the scheduler places; and then, measured, the
    /// group `pod`.
    pub(super) fn of(
        sizes: super::Sizes,
        node: impl Fn(u32) -> Node + 'static,
        init: impl Fn(&'static str, u32) -> Pod + 'static,
        pod: impl Fn(&'static str, u32) -> Pod + 'static,
    ) -> Self {
        Plan {
            objects: nodes(sizes.nodes, node),
            init_pods: come("init", init, 0..sizes.init_pods),
            rounds: at_once(PODS, come("pod", pod, 0..sizes.pods)),
        }
    }

    /// The same where all pods are of one kind, those that are there and those that are measured.
    pub(super) fn alike(
        sizes: super::Sizes,
        node: impl Fn(u32) -> Node + 'static,
        pod: impl Fn(&'static str, u32) -> Pod + Clone + 'static,
    ) -> Self {
        Plan::of(sizes, node, pod.clone(), pod)
    }

    /// And these objects before all others.
    pub(super) fn with(mut self, objects: impl Iterator<Item = Event> + 'static) -> Self {
        self.objects = Box::new(objects.chain(self.objects));
        self
    }
}

/// So many nodes, and the namespace `default`.
pub(super) fn nodes(n: u32, node: impl Fn(u32) -> Node + 'static) -> Events {
    let nodes = (0..n).map(move |number| node_is(node(number)));
    Box::new(std::iter::once(namespace(DEFAULT, None)).chain(nodes))
}

/// One round.
pub(super) fn at_once(phase: &'static str, events: Events) -> Box<dyn Iterator<Item = Round>> {
    Box::new(std::iter::once(Round::new(phase, events)))
}
