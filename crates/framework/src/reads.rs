//! What a plugin reads, as sets of flags.
#![expect(missing_docs, reason = "the flags are named after the parts, which have the docs")]

use std::ops::{BitOr, BitOrAssign};

use bitflags::bitflags;
use plimsoll_api::{Kind, KindRef};

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
        const SCHEDULING_GROUP = 1 << 22;
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

/// Other objects of the cluster, the pods of groups, the images on nodes, and the evictions that were refused.
///
/// Two kinds may share a bit. A plugin that reads one of them is then asked again when the other changes, too. The
/// exact kinds are in [`ClusterPart`](crate::ClusterPart).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreReads(u64);

impl StoreReads {
    /// The pods of groups.
    pub const GROUPS: StoreReads = StoreReads(1 << 61);
    /// The images, with the number of nodes that hold each.
    pub const IMAGES: StoreReads = StoreReads(1 << 62);
    /// The pods whose eviction was refused.
    pub const REFUSED_EVICTIONS: StoreReads = StoreReads(1 << 63);

    /// Nothing.
    pub const fn empty() -> Self {
        StoreReads(0)
    }

    /// Everything.
    pub const fn all() -> Self {
        StoreReads(u64::MAX)
    }

    /// Objects of kind `K`.
    pub const fn of<K: Kind>() -> Self {
        StoreReads::of_kind(KindRef::of::<K>())
    }

    /// Objects of `kind`.
    pub const fn of_kind(kind: KindRef) -> Self {
        let name = kind.as_str().as_bytes();
        let (mut sum, mut at) = (0_u64, 0);
        while at < name.len() {
            sum = (sum * 31 + name[at] as u64) % 1_000_003;
            at += 1;
        }
        StoreReads(1 << (sum % 61))
    }

    /// What either of them reads.
    #[must_use]
    pub const fn union(self, other: StoreReads) -> Self {
        StoreReads(self.0 | other.0)
    }

    /// What the first reads and the second does not.
    #[must_use]
    pub const fn without(self, other: StoreReads) -> Self {
        StoreReads(self.0 & !other.0)
    }

    /// Whether nothing is read.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether they have something in common.
    pub const fn intersects(self, other: StoreReads) -> bool {
        self.0 & other.0 != 0
    }
}

impl BitOr for StoreReads {
    type Output = StoreReads;

    fn bitor(self, other: StoreReads) -> StoreReads {
        self.union(other)
    }
}

impl BitOrAssign for StoreReads {
    fn bitor_assign(&mut self, other: StoreReads) {
        *self = self.union(other);
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

    /// What either of them reads.
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
    /// What either of them reads.
    #[must_use]
    pub const fn union(self, other: Reads) -> Reads {
        Reads {
            pod: self.pod.union(other.pod),
            node: self.node.union(other.node),
            cluster: self.cluster.union(other.cluster),
        }
    }

    /// What is read, in words: `pod: tolerations · node: taints`. `kinds` are the kinds of objects that are read.
    pub fn describe(&self, kinds: &[KindRef]) -> String {
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
        let mut cluster: Vec<&str> = kinds.iter().map(|kind| kind.plural()).collect();
        if self.cluster.stores.intersects(StoreReads::IMAGES) {
            cluster.push("images");
        }
        if self.cluster.stores.intersects(StoreReads::GROUPS) {
            cluster.push("pods of groups");
        }
        if !cluster.is_empty() {
            out.push(format!("cluster: {}", cluster.join(", ")));
        }
        out.join(" · ")
    }
}
