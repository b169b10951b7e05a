//! The kinds of objects that are read from the API server: which versions of each there have been since
//! Kubernetes 1.20, where they are found, and who needs them.

use std::fmt;

use plimsoll_framework::parts::StoreReads;

/// A kind of objects that is read from the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// v1 Pod.
    Pod,
    /// v1 Node.
    Node,
    /// v1 Namespace.
    Namespace,
    /// v1 Service.
    Service,
    /// v1 ReplicationController.
    ReplicationController,
    /// apps/v1 ReplicaSet.
    ReplicaSet,
    /// apps/v1 StatefulSet.
    StatefulSet,
    /// v1 PersistentVolume.
    PersistentVolume,
    /// v1 PersistentVolumeClaim.
    PersistentVolumeClaim,
    /// storage.k8s.io/v1 StorageClass.
    StorageClass,
    /// storage.k8s.io/v1 CSINode.
    CsiNode,
    /// storage.k8s.io/v1 CSIDriver.
    CsiDriver,
    /// storage.k8s.io CSIStorageCapacity: v1 since 1.24, v1beta1 in 1.21 to 1.26, v1alpha1 in 1.20.
    CsiStorageCapacity,
    /// storage.k8s.io/v1 VolumeAttachment.
    VolumeAttachment,
    /// policy PodDisruptionBudget: v1 since 1.21, v1beta1 before 1.25.
    PodDisruptionBudget,
}

/// What is known of a kind.
struct Facts {
    kind: Kind,
    name: &'static str,
    /// How it is named in paths.
    plural: &'static str,
    /// The versions that are read, the best first.
    versions: &'static [&'static str],
    namespaced: bool,
    /// Which stores of the engine it fills; pods and nodes are needed always.
    fills: StoreReads,
    /// What happens without it, for people.
    without: &'static str,
}

const CORE: &[&str] = &["v1"];
const APPS: &[&str] = &["apps/v1"];
const STORAGE: &[&str] = &["storage.k8s.io/v1"];

const NO_SPREAD: &str = "pods are not spread over what it selects";
const NO_VOLUMES: &str = "pods with volumes that depend on it stay unschedulable";

const FACTS: [Facts; 15] = [
    Facts {
        kind: Kind::Pod,
        name: "Pod",
        plural: "pods",
        versions: CORE,
        namespaced: true,
        fills: StoreReads::empty(),
        without: "nothing can be scheduled",
    },
    Facts {
        kind: Kind::Node,
        name: "Node",
        plural: "nodes",
        versions: CORE,
        namespaced: false,
        fills: StoreReads::empty(),
        without: "nothing can be scheduled",
    },
    Facts {
        kind: Kind::Namespace,
        name: "Namespace",
        plural: "namespaces",
        versions: CORE,
        namespaced: false,
        fills: StoreReads::NAMESPACES,
        without: "affinity terms with a namespaceSelector select no pods",
    },
    Facts {
        kind: Kind::Service,
        name: "Service",
        plural: "services",
        versions: CORE,
        namespaced: true,
        fills: StoreReads::SELECTING,
        without: NO_SPREAD,
    },
    Facts {
        kind: Kind::ReplicationController,
        name: "ReplicationController",
        plural: "replicationcontrollers",
        versions: CORE,
        namespaced: true,
        fills: StoreReads::SELECTING,
        without: NO_SPREAD,
    },
    Facts {
        kind: Kind::ReplicaSet,
        name: "ReplicaSet",
        plural: "replicasets",
        versions: APPS,
        namespaced: true,
        fills: StoreReads::SELECTING,
        without: NO_SPREAD,
    },
    Facts {
        kind: Kind::StatefulSet,
        name: "StatefulSet",
        plural: "statefulsets",
        versions: APPS,
        namespaced: true,
        fills: StoreReads::SELECTING,
        without: NO_SPREAD,
    },
    Facts {
        kind: Kind::PersistentVolume,
        name: "PersistentVolume",
        plural: "persistentvolumes",
        versions: CORE,
        namespaced: false,
        fills: StoreReads::VOLUMES,
        without: NO_VOLUMES,
    },
    Facts {
        kind: Kind::PersistentVolumeClaim,
        name: "PersistentVolumeClaim",
        plural: "persistentvolumeclaims",
        versions: CORE,
        namespaced: true,
        fills: StoreReads::VOLUMES,
        without: NO_VOLUMES,
    },
    Facts {
        kind: Kind::StorageClass,
        name: "StorageClass",
        plural: "storageclasses",
        versions: STORAGE,
        namespaced: false,
        fills: StoreReads::VOLUMES,
        without: NO_VOLUMES,
    },
    Facts {
        kind: Kind::CsiNode,
        name: "CSINode",
        plural: "csinodes",
        versions: STORAGE,
        namespaced: false,
        fills: StoreReads::VOLUMES,
        without: "no node has a limit to the volumes of CSI drivers",
    },
    Facts {
        kind: Kind::CsiDriver,
        name: "CSIDriver",
        plural: "csidrivers",
        versions: STORAGE,
        namespaced: false,
        fills: StoreReads::VOLUMES,
        without: "the storage that is left is not looked at",
    },
    Facts {
        kind: Kind::CsiStorageCapacity,
        name: "CSIStorageCapacity",
        plural: "csistoragecapacities",
        versions: &["storage.k8s.io/v1", "storage.k8s.io/v1beta1", "storage.k8s.io/v1alpha1"],
        namespaced: true,
        fills: StoreReads::VOLUMES,
        without: "volumes of drivers that tell what storage is left are not provisioned",
    },
    Facts {
        kind: Kind::VolumeAttachment,
        name: "VolumeAttachment",
        plural: "volumeattachments",
        versions: STORAGE,
        namespaced: false,
        fills: StoreReads::VOLUMES,
        without: "volumes that are still attached without a pod do not count against limits",
    },
    Facts {
        kind: Kind::PodDisruptionBudget,
        name: "PodDisruptionBudget",
        plural: "poddisruptionbudgets",
        versions: &["policy/v1", "policy/v1beta1"],
        namespaced: true,
        fills: StoreReads::DISRUPTION_BUDGETS,
        without: "preemption spares no pods for disruption budgets",
    },
];

impl Kind {
    /// All kinds, in the order of their declaration.
    pub fn all() -> impl Iterator<Item = Kind> {
        FACTS.iter().map(|facts| facts.kind)
    }

    /// The kinds that a scheduler needs whose plugins read `stores`; see
    /// [`Scheduler::stores_read`](plimsoll_engine::Scheduler::stores_read).
    pub fn needed_by(stores: StoreReads) -> Vec<Kind> {
        let needed = |facts: &&Facts| facts.fills.is_empty() || facts.fills.intersects(stores);
        FACTS.iter().filter(needed).map(|facts| facts.kind).collect()
    }

    fn facts(self) -> &'static Facts {
        &FACTS[self as usize]
    }

    /// As manifests write it: `CSINode`.
    pub fn as_str(self) -> &'static str {
        self.facts().name
    }

    /// As paths and RBAC rules write it: `csinodes`.
    pub fn plural(self) -> &'static str {
        self.facts().plural
    }

    /// The versions that are read, such as `policy/v1`, the best first.
    pub fn versions(self) -> &'static [&'static str] {
        self.facts().versions
    }

    /// Whether objects of this kind are in a namespace.
    pub fn is_namespaced(self) -> bool {
        self.facts().namespaced
    }

    /// Whether nothing can be done without it.
    pub fn is_vital(self) -> bool {
        self.facts().fills.is_empty()
    }

    /// What happens where the API server lacks this kind, in words that follow "without it".
    pub fn without(self) -> &'static str {
        self.facts().without
    }

    /// The API group as RBAC rules write it; empty for the core.
    pub fn group(self) -> &'static str {
        self.versions()[0].split_once('/').map_or("", |(group, _)| group)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where objects of a kind are found on one API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The kind.
    pub kind: Kind,
    /// The version that the server has, such as `policy/v1beta1`.
    pub api_version: &'static str,
}

impl Place {
    /// The path of all objects of the kind in all namespaces: `/apis/policy/v1/poddisruptionbudgets`.
    pub fn path(self) -> String {
        format!("{}/{}", group_path(self.api_version), self.kind.plural())
    }
}

/// The path under which a version of an API group lies: `/api/v1`, `/apis/policy/v1`.
pub(crate) fn group_path(api_version: &str) -> String {
    let root = if api_version.contains('/') { "apis" } else { "api" };
    format!("/{root}/{api_version}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_api::wire::Reader;

    #[test]
    fn every_version_of_every_kind_can_be_read() {
        for (index, kind) in Kind::all().enumerate() {
            assert_eq!(kind as usize, index, "{kind}: the table is in order");
            for version in kind.versions() {
                assert!(Reader::of(version, kind.as_str()).is_some(), "{version} {kind}");
            }
        }
    }

    #[test]
    fn a_kind_is_found_at_its_path() {
        let path = |kind, api_version| Place { kind, api_version }.path();
        assert_eq!(path(Kind::Pod, "v1"), "/api/v1/pods");
        let budgets = path(Kind::PodDisruptionBudget, "policy/v1beta1");
        assert_eq!(budgets, "/apis/policy/v1beta1/poddisruptionbudgets");
        assert_eq!((Kind::Node.group(), Kind::CsiNode.group()), ("", "storage.k8s.io"));
    }

    #[test]
    fn only_what_plugins_read_is_needed_beside_pods_and_nodes() {
        let names = |stores| {
            let kinds = Kind::needed_by(stores).into_iter().map(Kind::as_str);
            kinds.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names(StoreReads::empty()), "Pod Node");
        let some = StoreReads::NAMESPACES | StoreReads::DISRUPTION_BUDGETS;
        assert_eq!(names(some), "Pod Node Namespace PodDisruptionBudget");
        assert_eq!(Kind::needed_by(StoreReads::all()).len(), Kind::all().count());
    }
}
