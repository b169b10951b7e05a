//! PersistentVolumes and the claims on them.

use bitflags::bitflags;

use serde::{Deserialize, Serialize};

use crate::{
    Labels, NodeSelectorTerm, ObjectKey, Pod, Quantity, Selector, Str, Timestamp, VolumeSource,
};

bitflags! {
    /// How a volume can be mounted, or how a claim requests it.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    pub struct AccessModes: u8 {
        /// `ReadWriteOnce`: to read and write, by one node.
        const READ_WRITE_ONCE = 1 << 0;
        /// `ReadOnlyMany`: to read, by many nodes.
        const READ_ONLY_MANY = 1 << 1;
        /// `ReadWriteMany`: to read and write, by many nodes.
        const READ_WRITE_MANY = 1 << 2;
        /// `ReadWriteOncePod`: to read and write, by one pod.
        const READ_WRITE_ONCE_POD = 1 << 3;
    }
}

/// What a volume shows to a container.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum VolumeMode {
    /// A file system.
    #[default]
    Filesystem,
    /// A raw block device.
    Block,
}

/// The phase of a PersistentVolume.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum VolumePhase {
    /// Not yet available.
    #[default]
    Pending,
    /// Free to be claimed.
    Available,
    /// Bound to a claim.
    Bound,
    /// Its claim is gone.
    Released,
    /// It could not be recycled or deleted, or its phase is unknown.
    Failed,
}

/// The phase of a PersistentVolumeClaim.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum ClaimPhase {
    /// Not yet bound.
    Pending,
    /// Bound to a volume.
    Bound,
    /// The volume it was bound to is gone.
    Lost,
    /// None is given, as in a manifest: an API server sets [`ClaimPhase::Pending`].
    #[default]
    Unset,
}

/// The claim for which a PersistentVolume is reserved.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClaimRef {
    /// Namespace and name of the claim.
    pub key: ObjectKey,
    /// Its unique identity; empty if any claim of that name matches.
    pub uid: Str,
}

/// v1 PersistentVolume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PersistentVolume {
    /// Its name, unique in the cluster.
    pub name: Str,
    /// Its unique identity.
    pub uid: Str,
    /// Its `metadata.resourceVersion`; empty if it does not come from an API server.
    pub resource_version: Str,
    /// Its labels.
    pub labels: Labels,
    /// When it must be gone.
    #[serde(with = "crate::timestamp")]
    pub deletion: Option<Timestamp>,
    /// The name of its StorageClass, empty for none: from the annotation
    /// `volume.beta.kubernetes.io/storage-class` if present, else from the spec.
    pub class: Str,
    /// The name of its VolumeAttributesClass, empty for none.
    pub attributes_class: Str,
    /// Its size (`capacity.storage`); zero if not given.
    pub capacity: Quantity,
    /// The ways in which it can be mounted.
    pub access_modes: AccessModes,
    /// What it shows to a container.
    pub mode: VolumeMode,
    /// The nodes that can reach it: one of these terms must match. `None` if all nodes can. A rule
    /// without terms matches no node. A term that cannot be read is kept as one without conditions,
    /// which matches no node either.
    pub node_affinity: Option<Vec<NodeSelectorTerm>>,
    /// The claim for which it is reserved.
    pub claim: Option<ClaimRef>,
    /// Whether a controller or the scheduler, not the user, made that reservation (annotation
    /// `pv.kubernetes.io/bound-by-controller`).
    pub bound_by_controller: bool,
    /// The provisioner that created it (annotation `pv.kubernetes.io/provisioned-by`); empty if none
    /// did.
    pub provisioned_by: Str,
    /// Its phase.
    pub phase: VolumePhase,
    /// The storage behind it.
    pub source: VolumeSource,
}

impl PersistentVolume {
    /// Whether a node with these labels can reach it. As in component-helpers' helpers.go,
    /// CheckNodeAffinity, only labels count: a term on the name of a node matches none.
    pub fn reaches(&self, labels: &Labels) -> bool {
        let met = |terms: &Vec<NodeSelectorTerm>| terms.iter().any(|one| one.matches("", labels));
        self.node_affinity.as_ref().is_none_or(met)
    }

    /// Whether it is reserved for `claim`. As in pv_helpers.go, IsVolumeBoundToClaim.
    pub fn is_reserved_for(&self, claim: &PersistentVolumeClaim) -> bool {
        self.claim
            .as_ref()
            .is_some_and(|by| by.key == claim.key && (by.uid.is_empty() || by.uid == claim.uid))
    }
}

/// v1 PersistentVolumeClaim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PersistentVolumeClaim {
    /// Namespace and name.
    pub key: ObjectKey,
    /// Its unique identity.
    pub uid: Str,
    /// Its `metadata.resourceVersion`; empty if it does not come from an API server.
    pub resource_version: Str,
    /// When it must be gone.
    #[serde(with = "crate::timestamp")]
    pub deletion: Option<Timestamp>,
    /// The unique identity of the controller that owns it: the pod, if it was created for one.
    pub controller: Option<Str>,
    /// The name of its StorageClass, empty for none: from the annotation
    /// `volume.beta.kubernetes.io/storage-class` if present, else from the spec.
    pub class: Str,
    /// The name of its VolumeAttributesClass, empty for none.
    pub attributes_class: Str,
    /// How much storage it requests; zero if not given.
    pub requested: Quantity,
    /// The ways in which it must be mountable.
    pub access_modes: AccessModes,
    /// What it must show to a container.
    pub mode: VolumeMode,
    /// The volumes that match, by their labels; all if there is no selector.
    pub selector: Selector,
    /// The volume to which it is bound, or that it requests by name.
    pub volume: Option<Str>,
    /// Whether its binding is complete (annotation `pv.kubernetes.io/bind-completed`).
    pub bind_completed: bool,
    /// The node for which to provision it (annotation `volume.kubernetes.io/selected-node`).
    pub selected_node: Option<Str>,
    /// The provisioner that must provision it (annotation `volume.kubernetes.io/storage-provisioner`,
    /// or the beta one of that name); empty if none is named.
    pub provisioner: Str,
    /// Its phase.
    pub phase: ClaimPhase,
}

impl PersistentVolumeClaim {
    /// Whether it is being deleted.
    pub fn is_terminating(&self) -> bool {
        self.deletion.is_some()
    }

    /// Whether it is bound completely. As in binder.go, isPVCFullyBound.
    pub fn is_fully_bound(&self) -> bool {
        self.volume.is_some() && self.bind_completed
    }

    /// Whether it was created for `pod`. As in component-helpers' ephemeral.go, VolumeIsForPod.
    pub fn is_made_for(&self, pod: &Pod) -> bool {
        self.key.namespace == pod.key.namespace && self.controller.as_ref() == Some(&pod.uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Requirement;

    #[test]
    fn a_volume_is_reserved_for_the_claim_it_names_and_for_no_later_one_of_that_name() {
        let key = ObjectKey::new("a", "b");
        let claim = |uid: &str| PersistentVolumeClaim {
            key: key.clone(),
            uid: uid.into(),
            ..PersistentVolumeClaim::default()
        };
        let volume = |uid: &str| PersistentVolume {
            claim: Some(ClaimRef { key: key.clone(), uid: uid.into() }),
            ..PersistentVolume::default()
        };
        assert!(volume("1").is_reserved_for(&claim("1")));
        assert!(volume("").is_reserved_for(&claim("1")));
        assert!(!volume("1").is_reserved_for(&claim("2")));
        let other = PersistentVolumeClaim { key: ObjectKey::new("b", "b"), ..claim("1") };
        assert!(!volume("").is_reserved_for(&other));
        assert!(!PersistentVolume::default().is_reserved_for(&claim("1")));
    }

    #[test]
    fn a_volume_reaches_all_nodes_by_default() {
        let in_zone = |zone: &str| [("zone", zone)].into_iter().collect::<Labels>();
        let volume =
            |terms| PersistentVolume { node_affinity: Some(terms), ..PersistentVolume::default() };
        let term = NodeSelectorTerm {
            labels: vec![Requirement::equals("zone", "a")],
            ..NodeSelectorTerm::default()
        };
        assert!(PersistentVolume::default().reaches(&in_zone("a")));
        assert!(volume(vec![term.clone()]).reaches(&in_zone("a")));
        assert!(!volume(vec![term]).reaches(&in_zone("b")));
        assert!(!volume(vec![]).reaches(&in_zone("a")));
        assert!(!volume(vec![NodeSelectorTerm::default()]).reaches(&in_zone("a")));
    }

    #[test]
    fn a_claim_is_made_for_the_pod_that_controls_it() {
        let claim = PersistentVolumeClaim {
            key: ObjectKey::new("a", "p-data"),
            controller: Some("1".into()),
            ..PersistentVolumeClaim::default()
        };
        let pod = |namespace: &str, uid: &str| Pod {
            key: ObjectKey::new(namespace, "p"),
            uid: uid.into(),
            ..Pod::default()
        };
        assert!(claim.is_made_for(&pod("a", "1")));
        assert!(!claim.is_made_for(&pod("a", "2")));
        assert!(!claim.is_made_for(&pod("b", "1")));
        let nobodys = PersistentVolumeClaim { controller: None, ..claim };
        assert!(!nobodys.is_made_for(&pod("a", "")));
    }
}
