//! The claims of a pod, with the data that determines on which nodes they can be satisfied.

use std::sync::Arc;

use plimsoll_framework::prelude::*;

use super::migration;
use crate::pod_claims;

const UNBOUND_IMMEDIATE: &str = "pod has unbound immediate PersistentVolumeClaims";

/// The fields of a pod that are read.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClaimingPod<'a> {
    pub(super) key: &'a PodKey,
    pub(super) uid: &'a Str,
    pub(super) volumes: &'a [PodVolume],
}

impl<'a> From<&'a PodInfo> for ClaimingPod<'a> {
    fn from(pod: &'a PodInfo) -> Self {
        ClaimingPod { key: &pod.key, uid: &pod.uid, volumes: &pod.volumes }
    }
}

/// The claims of a pod.
#[derive(Clone, Debug)]
pub struct PodClaims(Arc<Sorted>);

#[derive(Debug, Default)]
struct Sorted {
    bound: Vec<BoundVolumeClaim>,
    provisioning: Vec<WaitingClaim>,
    matching: Vec<WaitingClaim>,
}

/// A claim that is bound.
#[derive(Debug)]
pub(super) struct BoundVolumeClaim {
    /// Its volume; `None` if that does not exist.
    pub(super) volume: Option<Arc<PersistentVolume>>,
    /// Its volume on nodes where its in-tree plugin is migrated.
    pub(super) migrated: Option<Migrated>,
}

/// A volume whose in-tree plugin is migrated on some nodes.
#[derive(Debug)]
pub(super) struct Migrated {
    /// The in-tree plugin, as in CSINodes.
    pub(super) plugin: &'static str,
    /// What the nodes say about their plugins.
    csi_nodes: Arc<Store<CsiNode>>,
    /// The volume there, or why it cannot be used there.
    pub(super) volume: Result<PersistentVolume, String>,
}

impl Migrated {
    /// Whether the plugin is migrated on this node.
    pub(super) fn is_on(&self, node: &Str) -> bool {
        let node = self.csi_nodes.get(node);
        node.is_some_and(|node| node.migrated_plugins.iter().any(|one| one == self.plugin))
    }
}

/// A claim that waits for its pod to get a node.
#[derive(Debug)]
pub(super) struct WaitingClaim {
    pub(super) claim: Arc<PersistentVolumeClaim>,
    pub(super) class: Arc<StorageClass>,
    /// The volumes that are reserved for it, in the order of their names.
    pub(super) reserved: Vec<Arc<PersistentVolume>>,
    /// The matching volumes, by size and name.
    pub(super) fitting: Vec<Arc<PersistentVolume>>,
    /// The free storage for it; `None` if its driver does not report it.
    pub(super) capacities: Option<Vec<Arc<CsiStorageCapacity>>>,
}

impl PodClaims {
    /// Sorts the claims of a pod. A pod is rejected for all nodes where one of them can satisfy none. As
    /// in volume_binding.go, `podHasPVCs`, and binder.go, `GetPodVolumeClaims`.
    pub(super) fn of(pod: ClaimingPod<'_>, cluster: VolumeStore<'_>) -> Result<Self, Rejection> {
        let mut claims = Vec::new();
        for volume in pod.volumes {
            claims.extend(usable_claim(pod, volume, cluster).map_err(Rejection::unresolvable)?);
        }
        let mut sorted = Sorted::default();
        for claim in claims {
            if let (true, Some(volume)) = (claim.bind_completed, &claim.volume) {
                sorted.bound.push(BoundVolumeClaim::to(cluster.volumes.get(volume), cluster));
                continue;
            }
            let class = cluster.classes.get(&claim.class);
            let waits = |class: &&Arc<StorageClass>| {
                class.binding_mode == BindingMode::WaitForFirstConsumer && claim.volume.is_none()
            };
            let Some(class) = class.filter(waits) else {
                return Err(Rejection::unresolvable(UNBOUND_IMMEDIATE));
            };
            let waiting = WaitingClaim::new(claim, class, cluster);
            if claim.selected_node.is_some() {
                sorted.provisioning.push(waiting);
            } else {
                sorted.matching.push(waiting);
            }
        }
        // The smallest first, so that it does not take the volume that only a larger one needs.
        sorted.matching.sort_by(|a, b| a.claim.requested.cmp(&b.claim.requested));
        Ok(PodClaims(Arc::new(sorted)))
    }

    /// Claims that are bound.
    pub(super) fn bound(&self) -> &[BoundVolumeClaim] {
        &self.0.bound
    }

    /// Claims for which a volume is being provisioned for a selected node.
    pub(super) fn provisioning(&self) -> &[WaitingClaim] {
        &self.0.provisioning
    }

    /// Claims for which a volume must be found or provisioned; the smallest first.
    pub(super) fn matching(&self) -> &[WaitingClaim] {
        &self.0.matching
    }

    /// Whether there are volumes for an unbound claim, or storage of a known size.
    pub(super) fn have_sizes(&self) -> bool {
        let has_size = |claim: &WaitingClaim| {
            !claim.reserved.is_empty() || !claim.fitting.is_empty() || claim.capacities.is_some()
        };
        self.0.provisioning.iter().chain(&self.0.matching).any(has_size)
    }

    /// Whether all are bound.
    pub(super) fn are_bound(&self) -> bool {
        self.0.provisioning.is_empty() && self.0.matching.is_empty()
    }
}

/// Whether a claim of a pod is yet to be bound. One that is missing is not: it rejects the pod elsewhere.
pub(super) fn wait(pod: ClaimingPod<'_>, cluster: VolumeStore<'_>) -> bool {
    let mut claims = pod.volumes.iter().filter_map(|volume| {
        cluster.claims.get((pod.key.namespace.as_str(), volume.claim()?.as_str()))
    });
    claims.any(|claim| !(claim.bind_completed && claim.volume.is_some()))
}

/// The claim of a volume of a pod, if it has one. The error says why no node can run the pod.
fn usable_claim<'a>(
    pod: ClaimingPod<'_>,
    volume: &PodVolume,
    cluster: VolumeStore<'a>,
) -> Result<Option<&'a Arc<PersistentVolumeClaim>>, String> {
    let Some(name) = volume.claim() else { return Ok(None) };
    let ephemeral = matches!(volume.kind, PodVolumeKind::Ephemeral(_));
    let Some(claim) = cluster.claims.get((pod.key.namespace.as_str(), name.as_str())) else {
        return Err(if ephemeral {
            format!(
                "waiting for ephemeral volume controller to create the persistentvolumeclaim {name:?}"
            )
        } else {
            pod_claims::not_found("persistentvolumeclaim", name)
        });
    };
    if claim.phase == ClaimPhase::Lost {
        let volume = claim.volume.as_deref().unwrap_or_default();
        return Err(format!(
            "persistentvolumeclaim {name:?} bound to non-existent persistentvolume {volume:?}"
        ));
    }
    if claim.is_terminating() {
        return Err(format!("persistentvolumeclaim {name:?} is being deleted"));
    }
    if ephemeral {
        pod_claims::check_made_for(claim, pod.key, pod.uid)?;
    }
    Ok(Some(claim))
}

impl BoundVolumeClaim {
    fn to(volume: Option<&Arc<PersistentVolume>>, cluster: VolumeStore<'_>) -> Self {
        let plugin = volume.and_then(|volume| migration::in_tree_plugin(&volume.source));
        let migrated = volume.zip(plugin).map(|(volume, plugin)| Migrated {
            plugin,
            csi_nodes: cluster.csi_nodes.clone(),
            volume: migration::migrated(volume),
        });
        BoundVolumeClaim { volume: volume.cloned(), migrated }
    }

    /// Whether some node may not be able to say if it can use the volume.
    pub(super) fn may_be_untranslatable(&self) -> bool {
        self.migrated.as_ref().is_some_and(|migrated| migrated.volume.is_err())
    }
}

impl WaitingClaim {
    /// As in pv_helpers.go, `FindMatchingVolume`, as far as the node does not matter.
    fn new(
        claim: &Arc<PersistentVolumeClaim>,
        class: &Arc<StorageClass>,
        cluster: VolumeStore<'_>,
    ) -> Self {
        let of_claim = cluster.volumes.by_index(&claim.key.name);
        let is_reserved = |volume: &&Arc<PersistentVolume>| {
            volume.is_reserved_for(claim) && could_hold(volume, claim)
        };
        let reserved = of_claim.filter(is_reserved).cloned().collect();
        let of_class = cluster.volumes.by_index(&claim.class);
        let fits = |volume: &&Arc<PersistentVolume>| {
            volume.claim.is_none() && could_hold(volume, claim) && is_offered(volume, claim)
        };
        let mut fitting: Vec<_> = of_class.filter(fits).cloned().collect();
        fitting.sort_by(|a, b| a.capacity.cmp(&b.capacity));
        let capacities = capacities(claim, class, cluster);
        WaitingClaim { claim: claim.clone(), class: class.clone(), reserved, fitting, capacities }
    }
}

/// Whether a volume satisfies a claim, regardless of its location and reservation.
fn could_hold(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    volume.class == claim.class
        && claim.requested <= volume.capacity
        && volume.mode == claim.mode
        && volume.attributes_class == claim.attributes_class
        && volume.deletion.is_none()
}

/// Whether an unreserved volume may be bound to a claim.
fn is_offered(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    volume.phase == VolumePhase::Available
        && claim.selector.matches(&volume.labels)
        && volume.access_modes.contains(claim.access_modes)
}

/// The free storage for a claim, if its driver reports it. As in binder.go, `hasEnoughCapacity`, as far
/// as the node does not matter.
fn capacities(
    claim: &PersistentVolumeClaim,
    class: &StorageClass,
    cluster: VolumeStore<'_>,
) -> Option<Vec<Arc<CsiStorageCapacity>>> {
    let counts = |driver: &Arc<CsiDriver>| driver.storage_capacity;
    if claim.requested.is_zero() || !cluster.csi_drivers.get(&class.provisioner).is_some_and(counts)
    {
        return None;
    }
    let size = claim.requested.at_most_value();
    let suffices = |left: &&Arc<CsiStorageCapacity>| {
        left.class == class.name && left.limit().is_some_and(|limit| size <= limit.at_most_value())
    };
    Some(cluster.capacities.iter().filter(suffices).cloned().collect())
}
