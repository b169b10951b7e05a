//! The cluster of a scenario, as plugins see it.

use plimsoll_api::Node;
use plimsoll_framework::{Columns, PodInfo, Row, Stores, View};

use crate::scenario::Scenario;

/// Nodes with the pods on them, and all other objects.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    /// The nodes and the pods on them.
    pub nodes: Columns,
    /// Everything else.
    pub stores: Stores,
}

impl Cluster {
    /// The cluster of `scenario`, with its pods on their nodes. The rows are in the order of its nodes.
    pub fn of(scenario: &Scenario) -> Self {
        Cluster::with(scenario, scenario.nodes.iter(), scenario.placed.iter())
    }

    /// The same cluster, with nodes and pods added in the given order.
    pub(crate) fn with<'a>(
        scenario: &Scenario,
        nodes: impl Iterator<Item = &'a Node>,
        placed: impl Iterator<Item = &'a PodInfo>,
    ) -> Self {
        let mut cluster = Cluster::default();
        for object in &scenario.objects {
            cluster.stores.keep(object.kind());
            cluster.stores.set(object);
        }
        for node in nodes {
            cluster.stores.images.set(None, Some(node));
            cluster.nodes.add(node.clone());
        }
        for pod in placed {
            let node = pod.node_name.as_ref().expect("a placed pod names its node");
            let row = cluster.row(node).expect("a scenario has the nodes of its placed pods");
            cluster.nodes.place(row, pod);
            cluster.stores.groups.is_known(pod);
            cluster.stores.groups.is_placed(pod);
        }
        cluster
    }

    /// The cluster as plugins see it.
    pub fn view(&self) -> View<'_> {
        View { nodes: &self.nodes, stores: &self.stores }
    }

    /// The row of the node with this name.
    pub fn row(&self, node: &str) -> Option<Row> {
        self.nodes.rows().find(|&row| self.nodes.name_of(row) == node)
    }
}
