//! Requested and allocatable resources of nodes, for all priorities about CPU and memory.

use plimsoll_api::Resources;
use plimsoll_api::resources::{CPU, MEMORY};

use crate::priorities::{Raw, Subject};

/// The requested amount of one resource, including the pod to place, and the capacity of the node, both
/// in the unit of the resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// How much is requested.
    pub requested: i64,
    /// How much the node has.
    pub capacity: i64,
}

impl Use {
    /// `requested` of `capacity`.
    pub fn new(requested: i64, capacity: i64) -> Self {
        Use { requested, capacity }
    }

    /// How much is left.
    pub(crate) fn free(self) -> i64 {
        self.capacity.saturating_sub(self.requested)
    }

    /// `part` of the capacity, as a whole number from 0 to `most`. Exact even if intermediate results
    /// need more than 64 bits.
    pub(crate) fn share(self, part: i64, most: i64) -> i64 {
        let share = i128::from(part) * i128::from(most) / i128::from(self.capacity);
        i64::try_from(share).unwrap_or(if share < 0 { i64::MIN } else { i64::MAX })
    }
}

/// The use of every resource of one node, including the pod.
#[derive(Clone, Debug)]
pub(crate) struct NodeUse<'a> {
    /// CPU in thousandths of a core; containers without a request count with 100.
    pub(crate) cpu: Use,
    /// Memory in bytes; containers without a request count with 200 MiB.
    pub(crate) memory: Use,
    allocatable: &'a Resources,
    requested: &'a Resources,
    asked: &'a Resources,
}

impl NodeUse<'_> {
    /// The use of a resource by its name. As in resource_allocation.go,
    /// calculateResourceAllocatableRequest: only CPU and memory have a default.
    pub(crate) fn of(&self, resource: &str) -> Use {
        match resource {
            CPU => self.cpu,
            MEMORY => self.memory,
            _ => {
                let requested =
                    self.requested.get(resource).saturating_add(self.asked.get(resource));
                Use { requested, capacity: self.allocatable.get(resource) }
            }
        }
    }
}

/// The use of every feasible node.
pub(crate) fn uses<'a>(subject: &Subject<'a>) -> impl Iterator<Item = NodeUse<'a>> {
    let (pod, nodes) = (subject.pod, subject.view.nodes);
    subject.feasible.iter().zip(subject.requested()).map(move |(&row, requested)| {
        let allocatable = &nodes.node(row).allocatable;
        NodeUse {
            cpu: Use::new(requested.milli_cpu, allocatable.milli_cpu),
            memory: Use::new(requested.memory, allocatable.memory),
            allocatable,
            requested: nodes.requested_of(row),
            asked: &pod.asks.room,
        }
    })
}

/// The mean of `score` for CPU and for memory, truncated.
pub(crate) fn average(subject: &Subject<'_>, score: fn(Use) -> i64) -> Vec<Raw> {
    uses(subject).map(|node| Raw(i64::midpoint(score(node.cpu), score(node.memory)))).collect()
}
