//! Scores nodes by the share of storage that a pod would use.

use std::collections::BTreeMap;

use plimsoll_api::Quantity;
use plimsoll_framework::prelude::*;

use super::VolumeBinding;
use super::claims::{self, ClaimingPod, PodClaims, WaitingClaim};
use super::find::FoundVolumes;
use crate::utilization_shape::{MAX_UTILIZATION, UtilizationShape};

/// Requested storage and capacity, in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct StorageUse {
    requested: i64,
    capacity: i64,
}

impl StorageUse {
    fn ask(&mut self, claim: &PersistentVolumeClaim) {
        self.requested = self.requested.saturating_add(claim.requested.at_most_value());
    }

    /// In percent.
    fn utilization(self) -> i64 {
        let StorageUse { requested, capacity } = self;
        match capacity == 0 || capacity < requested {
            true => MAX_UTILIZATION,
            false => requested.saturating_mul(MAX_UTILIZATION) / capacity,
        }
    }
}

impl PreScore for VolumeBinding {
    type Pod = <VolumeBinding as PreFilter>::Pod;
    type Node = (Name, Labels);
    type Cluster = Volumes;
    /// `None` if the pod has no claims: every node scores 0.
    type State = Option<PodClaims>;

    /// Without claims every node would score 0.
    fn applies(&self, (.., volumes): Ref<'_, Self::Pod>) -> bool {
        self.shape.is_some() && volumes.iter().any(|volume| volume.claim().is_some())
    }

    /// So would one whose claims are all bound, or are provisioned by drivers that do not report their storage:
    /// what counts is the size of volumes and storage for claims that are yet to be bound.
    fn applies_in(&self, pod: Ref<'_, Self::Pod>, cluster: VolumeStore<'_>) -> bool {
        let (key, uid, volumes) = pod;
        let pod = ClaimingPod { key, uid, volumes };
        claims::wait(pod, cluster)
            && PodClaims::of(pod, cluster).is_ok_and(|claims| claims.have_sizes())
    }

    fn pre_score(
        &self,
        (key, uid, volumes): Ref<'_, Self::Pod>,
        _: Feasible<'_, Self::Node>,
        cluster: VolumeStore<'_>,
    ) -> Option<Option<PodClaims>> {
        self.shape.as_ref()?;
        let pod = ClaimingPod { key, uid, volumes };
        Some(PodClaims::of(pod, cluster).ok())
    }

    fn score(
        &self,
        claims: &Option<PodClaims>,
        _: Row,
        (name, labels): Ref<'_, Self::Node>,
    ) -> i64 {
        let Some((shape, claims)) = self.shape.as_ref().zip(claims.as_ref()) else { return 0 };
        claims.find(name, labels).map_or(0, |found| score(shape, &by_class(&found)))
    }
}

/// The claims are those of the pod alone.
impl ScoreOnDemand for VolumeBinding {
    fn state(
        &self,
        (key, uid, volumes): Ref<'_, <Self as PreScore>::Pod>,
        cluster: VolumeStore<'_>,
    ) -> Option<Option<PodClaims>> {
        self.shape.as_ref()?;
        Some(PodClaims::of(ClaimingPod { key, uid, volumes }, cluster).ok())
    }

    fn highest(&self, claims: &Option<PodClaims>) -> i64 {
        let Some((shape, claims)) = self.shape.as_ref().zip(claims.as_ref()) else { return 0 };
        let mut waiting = claims.provisioning().iter().chain(claims.matching());
        match (waiting.next(), waiting.next()) {
            (Some(only), None) => highest(shape, only),
            _ => MAX_NODE_SCORE,
        }
    }
}

/// The highest score that any of its volumes or storage gives a claim.
fn highest(shape: &UtilizationShape, waiting: &WaitingClaim) -> i64 {
    let WaitingClaim { claim, reserved, fitting, capacities, .. } = waiting;
    let volumes = reserved.iter().chain(fitting).map(|volume| volume.capacity.at_most_value());
    let left = capacities.iter().flatten();
    let left = left.map(|left| left.capacity.as_ref().map_or(0, Quantity::at_most_value));
    let requested = claim.requested.at_most_value();
    let of = |capacity| shape.score(StorageUse { requested, capacity }.utilization());
    // Where the driver does not report its storage, no class counts.
    volumes.chain(left).map(of).max().unwrap_or(0).max(0)
}

/// The mean over the classes. As in scorer.go, `buildScorerFunction`.
fn score(shape: &UtilizationShape, by_class: &BTreeMap<&Str, StorageUse>) -> i64 {
    let Ok(n_classes @ 1..) = i64::try_from(by_class.len()) else { return 0 };
    let scores = by_class.values().map(|storage| shape.score(storage.utilization()));
    // Rounded half up.
    (2 * scores.sum::<i64>() + n_classes) / (2 * n_classes)
}

/// Requested storage and capacity by class: of matching volumes, or if there are none, of storage to
/// provision. As in volume_binding.go, `Score`.
fn by_class<'a>(found: &FoundVolumes<'a>) -> BTreeMap<&'a Str, StorageUse> {
    let mut by_class: BTreeMap<&Str, StorageUse> = BTreeMap::new();
    for (waiting, volume) in &found.bindings {
        let storage = by_class.entry(&volume.class).or_default();
        storage.ask(&waiting.claim);
        storage.capacity = storage.capacity.saturating_add(volume.capacity.at_most_value());
    }
    if !found.bindings.is_empty() {
        return by_class;
    }
    for provision in &found.provisions {
        let Some(left) = provision.left else { continue };
        let storage = by_class.entry(&provision.claim.claim.class).or_default();
        storage.ask(&provision.claim.claim);
        // All of them share the free storage.
        storage.capacity = left.capacity.as_ref().map_or(0, Quantity::at_most_value);
    }
    by_class
}
