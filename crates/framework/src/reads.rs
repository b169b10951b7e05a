//! What a plugin reads, as sets.
#![expect(missing_docs, reason = "the flags are named after the parts, which have the docs")]

use bitflags::bitflags;

bitflags! {
    /// Parts of the pod.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct PodReads: u32 {
        const KEY = 1 << 0;
        const NAMESPACE = 1 << 1;
        const LABELS = 1 << 2;
        const ANNOTATIONS = 1 << 3;
        const PINNED_NODE = 1 << 4;
        const NODE_SELECTION = 1 << 5;
        const PREFERRED_NODES = 1 << 6;
        const TOLERATIONS = 1 << 7;
        const POD_AFFINITY = 1 << 8;
        const SPREAD = 1 << 9;
        const REQUESTS = 1 << 10;
        const HOST_PORTS = 1 << 11;
        const IMAGES = 1 << 12;
        const REQUIRED_FEATURES = 1 << 13;
        const PRIORITY = 1 << 14;
        const SCHEDULING_GATES = 1 << 15;
        const CONTROLLER = 1 << 16;
        const RESOURCE_CLAIMS = 1 << 17;
        const SHARED = 1 << 18;
        const UID = 1 << 19;
        const VOLUMES = 1 << 20;
        const LIMITS = 1 << 21;
    }
}

bitflags! {
    /// Columns of the nodes.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct NodeReads: u32 {
        const NAME = 1 << 0;
        const LABELS = 1 << 1;
        const ANNOTATIONS = 1 << 2;
        const TAINTS = 1 << 3;
        const UNSCHEDULABLE = 1 << 4;
        const ALLOCATABLE = 1 << 5;
        const IMAGES = 1 << 6;
        const FEATURES = 1 << 7;
        const REQUESTED = 1 << 8;
        const NON_ZERO_REQUESTED = 1 << 9;
        const USED_PORTS = 1 << 10;
        const PODS = 1 << 11;
    }
}

bitflags! {
    /// Other objects of the cluster.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct StoreReads: u32 {
        const NAMESPACES = 1 << 0;
        const SELECTING = 1 << 1;
        const IMAGES = 1 << 2;
        const VOLUMES = 1 << 3;
        const DISRUPTION_BUDGETS = 1 << 4;
        const REFUSED_EVICTIONS = 1 << 5;
    }
}

impl NodeReads {
    /// The columns that change when a pod comes to a node or leaves it.
    pub const BY_PLACEMENT: NodeReads = NodeReads::REQUESTED
        .union(NodeReads::NON_ZERO_REQUESTED)
        .union(NodeReads::USED_PORTS)
        .union(NodeReads::PODS);
}

/// What is read of the cluster as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterReads {
    /// Columns of every node.
    pub nodes: NodeReads,
    /// Other objects.
    pub stores: StoreReads,
}

impl ClusterReads {
    /// Nothing.
    pub const EMPTY: ClusterReads =
        ClusterReads { nodes: NodeReads::empty(), stores: StoreReads::empty() };

    /// What either of both reads.
    #[must_use]
    pub const fn union(self, other: ClusterReads) -> ClusterReads {
        ClusterReads {
            nodes: self.nodes.union(other.nodes),
            stores: self.stores.union(other.stores),
        }
    }
}

/// All that a plugin reads at one extension point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// Of the pod.
    pub pod: PodReads,
    /// Of the node that is judged.
    pub node: NodeReads,
    /// Of everything else.
    pub cluster: ClusterReads,
}

impl Reads {
    /// What either of both reads.
    #[must_use]
    pub const fn union(self, other: Reads) -> Reads {
        Reads {
            pod: self.pod.union(other.pod),
            node: self.node.union(other.node),
            cluster: self.cluster.union(other.cluster),
        }
    }

    /// What is read, in words, for people: `pod: tolerations · node: taints`.
    pub fn describe(&self) -> String {
        let words = |names: Vec<&str>| {
            names
                .iter()
                .map(|name| name.to_lowercase().replace('_', " "))
                .collect::<Vec<_>>()
                .join(", ")
        };
        let mut out = Vec::new();
        if !self.pod.is_empty() {
            out.push(format!("pod: {}", words(self.pod.iter_names().map(|n| n.0).collect())));
        }
        if !self.node.is_empty() {
            out.push(format!("node: {}", words(self.node.iter_names().map(|n| n.0).collect())));
        }
        if !self.cluster.nodes.is_empty() {
            let names = self.cluster.nodes.iter_names().map(|n| n.0).collect();
            out.push(format!("every node: {}", words(names)));
        }
        if !self.cluster.stores.is_empty() {
            let names = self.cluster.stores.iter_names().map(|n| n.0).collect();
            out.push(format!("cluster: {}", words(names)));
        }
        out.join(" · ")
    }
}
