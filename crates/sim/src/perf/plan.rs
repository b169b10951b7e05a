//! The events of a workload. They are created piece by piece, so that only the engine holds a million
//! pods.

use std::time::Duration;

use plimsoll_api::{Node, Pod};
use plimsoll_engine::Event;

use super::template::{DEFAULT, namespace, node_is, pod_is};

/// A sequence of events.
pub(super) type Events = Box<dyn Iterator<Item = Event>>;

/// The events of a workload.
pub(super) struct WorkloadPlan {
    /// The objects before any pod.
    pub(super) objects: Events,
    /// The initial pods: on nodes, or to be placed first.
    pub(super) init_pods: Events,
    /// The measured rounds.
    pub(super) rounds: Box<dyn Iterator<Item = Round>>,
}

/// Events that happen at the same time.
pub(super) struct Round {
    /// The part of the measurement to which it belongs.
    pub(super) phase: &'static str,
    /// The events.
    pub(super) events: Events,
    /// The next round begins this long after this one, even if work is left. `None`: when nothing is
    /// left to do.
    pub(super) pace: Option<Duration>,
}

impl Round {
    /// A round that lasts until nothing is left to do.
    pub(super) fn new(phase: &'static str, events: Events) -> Self {
        Round { phase, events, pace: None }
    }
}

/// These rounds happen at a fixed rate per second.
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

/// The phase of workloads that have only one.
pub(super) const PODS: &str = "pods";

/// Adds the pods with these numbers, which `make` creates in `group`.
pub(super) fn come(
    group: &'static str,
    make: impl Fn(&'static str, u32) -> Pod + 'static,
    numbers: impl Iterator<Item = u32> + 'static,
) -> Events {
    Box::new(numbers.map(move |number| pod_is(make(group, number))))
}

impl WorkloadPlan {
    /// The common plan: nodes; then the group `init`, which the scheduler places; and then, measured, the
    /// group `pod`.
    pub(super) fn of(
        sizes: super::Sizes,
        node: impl Fn(u32) -> Node + 'static,
        init: impl Fn(&'static str, u32) -> Pod + 'static,
        pod: impl Fn(&'static str, u32) -> Pod + 'static,
    ) -> Self {
        WorkloadPlan {
            objects: nodes(sizes.nodes, node),
            init_pods: come("init", init, 0..sizes.init_pods),
            rounds: at_once(PODS, come("pod", pod, 0..sizes.pods)),
        }
    }

    /// The same if all pods, initial and measured, are of one kind.
    pub(super) fn alike(
        sizes: super::Sizes,
        node: impl Fn(u32) -> Node + 'static,
        pod: impl Fn(&'static str, u32) -> Pod + Clone + 'static,
    ) -> Self {
        WorkloadPlan::of(sizes, node, pod.clone(), pod)
    }

    /// Adds these objects before all others.
    pub(super) fn with(mut self, objects: impl Iterator<Item = Event> + 'static) -> Self {
        self.objects = Box::new(objects.chain(self.objects));
        self
    }
}

/// `n` nodes, and the namespace `default`.
pub(super) fn nodes(n: u32, node: impl Fn(u32) -> Node + 'static) -> Events {
    let nodes = (0..n).map(move |number| node_is(node(number)));
    Box::new(std::iter::once(namespace(DEFAULT, None)).chain(nodes))
}

/// One round.
pub(super) fn at_once(phase: &'static str, events: Events) -> Box<dyn Iterator<Item = Round>> {
    Box::new(std::iter::once(Round::new(phase, events)))
}
