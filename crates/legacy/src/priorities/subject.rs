//! The input of priorities.

use plimsoll_api::{Labels, Node, NonZero};
use plimsoll_framework::{Columns, NodePart, NonZeroRequested, PodInfo, PodSet, Row, View};

/// A pod, the nodes on which it fits, and the cluster.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The pod to place.
    pub pod: &'a PodInfo,
    /// The cluster.
    pub view: View<'a>,
    /// The nodes that pass all predicates.
    pub feasible: &'a [Row],
}

impl<'a> Subject<'a> {
    /// All nodes of the cluster with their pods, feasible or not.
    pub(crate) fn all_nodes(&self) -> impl Iterator<Item = (&'a Node, &'a PodSet)> {
        let nodes: &'a Columns = self.view.nodes;
        nodes.rows().map(move |row| (&**nodes.node(row), nodes.pods_on(row)))
    }

    /// The feasible nodes.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &'a Node> {
        let nodes: &'a Columns = self.view.nodes;
        self.feasible.iter().map(move |&row| &**nodes.node(row))
    }

    /// The labels of the feasible nodes.
    pub(crate) fn labels(&self) -> impl Iterator<Item = &'a Labels> {
        self.nodes().map(|node| &node.labels)
    }

    /// The pods on the feasible nodes.
    pub(crate) fn pods(&self) -> impl Iterator<Item = &'a PodSet> {
        let nodes: &'a Columns = self.view.nodes;
        self.feasible.iter().map(move |&row| nodes.pods_on(row))
    }

    /// The sum of the requests of the pods on each feasible node and of the pod to place. Containers
    /// without a request count with a default.
    pub(crate) fn requested(&self) -> impl Iterator<Item = NonZero> {
        let nodes: &'a Columns = self.view.nodes;
        let own = self.pod.asks.room_non_zero;
        self.feasible.iter().map(move |&row| {
            let mut sum = NonZeroRequested::at(nodes, row).0;
            sum.add(own);
            sum
        })
    }
}
