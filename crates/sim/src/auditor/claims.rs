//! Checks the volumes of a pod on a node.

use std::collections::BTreeSet;

use plimsoll_api::{
    AccessModes, ObjectKey, PersistentVolumeClaim, Pod, PodKey, PodVolume, PodVolumeKind, Str,
    VolumeSource,
};

use super::ObservedCluster;

/// The labels that say where a volume is.
const PLACES: [&str; 2] = ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];

impl ObservedCluster {
    /// No other pod may use a `ReadWriteOncePod` claim of the pod, and the node must be able to reach
    /// the volumes of bound claims.
    pub(super) fn has_volumes(
        &self,
        pod: &Pod,
        node: &str,
        without: &BTreeSet<PodKey>,
    ) -> Result<(), String> {
        for key in claims_of(pod) {
            let claim = self.claims.get(&key).ok_or_else(|| format!("there is no claim {key}"))?;
            let others = |other: &&Pod| other.key != pod.key && !without.contains(&other.key);
            // For kube-scheduler it is enough to evict any pod with a claim of that name, even if it is
            // another claim or others use it, too. That may evict pods in vain, but places no pod
            // wrongly.
            let is_dry_run = !without.is_empty();
            if let Some(other) = self.users(claim).find(others).filter(|_| !is_dry_run) {
                return Err(format!("{} uses {key}, which only one pod may use", other.key));
            }
            self.reaches(claim, node)?;
            self.is_in_place(claim, node)?;
        }
        Ok(())
    }

    /// The pods that use a `ReadWriteOncePod` claim. As in kube-scheduler, a pod whose node is deleted
    /// uses nothing, even before the pod is deleted.
    fn users<'a>(&'a self, claim: &'a PersistentVolumeClaim) -> impl Iterator<Item = &'a Pod> {
        let alone = claim.access_modes.contains(AccessModes::READ_WRITE_ONCE_POD);
        let uses = |pod: &&Pod| claims_of(pod).any(|key| key == claim.key);
        let there = self.placed().filter(|(_, node)| self.nodes.contains_key(*node));
        there.map(|(pod, _)| pod).filter(move |_| alone).filter(uses)
    }

    fn reaches(&self, claim: &PersistentVolumeClaim, node: &str) -> Result<(), String> {
        let volume = claim.volume.as_ref().and_then(|name| self.volumes.get(name));
        let (Some(volume), Some(node)) = (volume, self.nodes.get(node)) else { return Ok(()) };
        let met = volume
            .node_affinity
            .as_ref()
            .is_none_or(|terms| terms.iter().any(|term| term.matches("", &node.labels)));
        if met { Ok(()) } else { Err(format!("volume {} does not reach it", volume.name)) }
    }

    /// The volume of a bound claim must be in the zone and the region of the node. A node without these
    /// labels is not checked.
    fn is_in_place(&self, claim: &PersistentVolumeClaim, node: &str) -> Result<(), String> {
        let volume = claim.volume.as_ref().and_then(|name| self.volumes.get(name));
        let (Some(volume), Some(node)) = (volume, self.nodes.get(node)) else { return Ok(()) };
        let is_anywhere = PLACES.iter().all(|key| !node.labels.contains_key(key));
        let is_there = |key: &&str| {
            let zones = volume.labels.get(key).map(|zones| zones.split("__"));
            zones.is_none_or(|mut zones| {
                zones.any(|zone| node.labels.get(key).is_some_and(|own| own == zone))
            })
        };
        match is_anywhere || PLACES.iter().all(is_there) {
            true => Ok(()),
            false => Err(format!("volume {} is in another zone", volume.name)),
        }
    }

    /// No other pod may use an exclusive disk of the pod, and the node can attach only a limited number
    /// of volumes.
    pub(super) fn has_disks(&self, pod: &Pod, node: &str, there: &[&Pod]) -> Result<(), String> {
        let disks = |pod: &Pod| -> Vec<(VolumeSource, bool)> {
            let inline = |one: &PodVolume| match &one.kind {
                PodVolumeKind::Inline { source, read_only } => Some((source.clone(), *read_only)),
                PodVolumeKind::Claim(_) | PodVolumeKind::Ephemeral(_) => None,
            };
            pod.volumes.iter().filter_map(inline).collect()
        };
        for (disk, read_only) in disks(pod) {
            let clashes = |(other, other_only): &(VolumeSource, bool)| {
                is_same_disk(&disk, other) && !(read_only && *other_only && can_be_shared(&disk))
            };
            if let Some(other) = there.iter().find(|other| disks(other).iter().any(clashes)) {
                return Err(format!("{} uses the same disk", other.key));
            }
        }
        let Some(limits) = self.limits.get(node) else { return Ok(()) };
        let attached: BTreeSet<_> = there.iter().flat_map(|pod| self.attached_for(pod)).collect();
        let all = attached.iter().cloned().chain(self.attached_for(pod)).collect::<BTreeSet<_>>();
        for (driver, limit) in limits {
            let of_driver = |all: &BTreeSet<(Str, Str)>| {
                all.iter().filter(|(other, _)| other == driver).count()
            };
            if of_driver(&attached) < of_driver(&all) && *limit < of_driver(&all) {
                return Err(format!("it can attach {limit} volumes of {driver}"));
            }
        }
        Ok(())
    }

    /// The volumes that are bound for a pod, by driver and handle.
    fn attached_for(&self, pod: &Pod) -> BTreeSet<(Str, Str)> {
        let volume = |key: ObjectKey| {
            let volume = self.volumes.get(self.claims.get(&key)?.volume.as_ref()?)?;
            match &volume.source {
                VolumeSource::Csi { driver, handle } => Some((driver.clone(), handle.clone())),
                _ => None,
            }
        };
        claims_of(pod).filter_map(volume).collect()
    }

    /// Whether everything is ready for a pod that is bound now.
    pub(super) fn is_mountable(&self, pod: &Pod, node: &str) -> Result<(), String> {
        for key in claims_of(pod) {
            let claim = self.claims.get(&key).ok_or_else(|| format!("there is no claim {key}"))?;
            if claim.volume.is_none() || !claim.bind_completed {
                return Err(format!("its claim {key} is not bound"));
            }
            // A node that was deleted meanwhile reaches nothing, and its pods are lost anyway.
            self.reaches(claim, node)?;
        }
        Ok(())
    }
}

/// The claims of a pod, by name.
fn claims_of(pod: &Pod) -> impl Iterator<Item = ObjectKey> {
    let names = pod.volumes.iter().filter_map(PodVolume::claim);
    names.map(|name| ObjectKey::new(pod.key.namespace.clone(), name.clone()))
}

/// Whether two pods name the same disk. Ceph images are the same if they share a monitor.
fn is_same_disk(one: &VolumeSource, other: &VolumeSource) -> bool {
    match (one, other) {
        (
            VolumeSource::Rbd { monitors, pool, image },
            VolumeSource::Rbd { monitors: others, pool: other_pool, image: other_image },
        ) => {
            (pool, image) == (other_pool, other_image)
                && monitors.iter().any(|m| others.contains(m))
        }
        _ => one == other,
    }
}

/// Whether read-only pods can share a disk.
fn can_be_shared(disk: &VolumeSource) -> bool {
    !matches!(disk, VolumeSource::AwsElasticBlockStore { .. })
}
