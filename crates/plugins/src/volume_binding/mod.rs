//! VolumeBinding: the volumes that a pod's claims are bound to, or are to be bound to.

mod claims;
mod find;
mod migration;
mod requeue;
mod reserve;
mod score;
#[cfg(test)]
mod tests;

use std::time::Duration;

use plimsoll_framework::prelude::*;
use serde::Deserialize;

use crate::shape::Shape;
use claims::{ClaimingPod, PodClaims};

/// The gate under which nodes are scored by the storage that is left. On since 1.37.
pub const STORAGE_CAPACITY_SCORING: &str = "StorageCapacityScoring";

const BIND_TIMEOUT: Duration = Duration::from_mins(10);

/// Rejects pods whose claims cannot be mounted: for all nodes those with a claim that is missing, lost
/// or not yet bound though it need not wait for a node; for single nodes those where a bound volume
/// cannot be reached, or where for a claim that waits for a pod (`WaitForFirstConsumer`) there is
/// neither a volume that fits nor a way to provision one.
///
/// A volume that lies in one zone cannot be mounted in another; and a claim that is bound before its
/// pod has a node may be bound where the pod can never run. So both are decided together. When a node
/// is chosen, its volumes are reserved for the claims, then that is written, and the pod is bound only
/// after its claims are.
///
/// ```yaml
/// apiVersion: storage.k8s.io/v1
/// kind: StorageClass
/// metadata: {name: local}
/// provisioner: kubernetes.io/no-provisioner
/// volumeBindingMode: WaitForFirstConsumer
/// ```
///
/// With the gate `StorageCapacityScoring`, which is on since 1.37, it prefers nodes by how much of their storage the pod would
/// take.
///
/// In kube-scheduler, of several volumes of one size any is taken; here the first by name.
#[derive(Clone, Debug)]
pub struct VolumeBinding {
    bind_timeout: Duration,
    /// The score for each utilization; `None` without the gate.
    shape: Option<Shape>,
}

/// How long volumes may take, and how storage that is left is scored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct VolumeBindingArgs {
    /// For how many seconds claims may take to be bound before the pod is tried anew; 600 by default.
    pub bind_timeout_seconds: Option<u32>,
    /// The score of a node by the share of its storage that the pod would take, in percent. Counts
    /// with the gate `StorageCapacityScoring` only; by default, the less the better.
    pub shape: Option<Shape>,
}

impl Plugin for VolumeBinding {
    const NAME: &'static str = "VolumeBinding";
    type Args = VolumeBindingArgs;
    fn new(args: VolumeBindingArgs, gates: &FeatureGates) -> Self {
        let seconds = args.bind_timeout_seconds.map(u64::from);
        let by_default = Release::V1_37 <= gates.release();
        let scores = gates.enabled(STORAGE_CAPACITY_SCORING, by_default);
        VolumeBinding {
            bind_timeout: seconds.map_or(BIND_TIMEOUT, Duration::from_secs),
            shape: scores.then(|| args.shape.unwrap_or_else(score::default_shape)),
        }
    }
}

impl PreFilter for VolumeBinding {
    type Pod = (PodKey, PodUid, PodVolumes);
    type Node = (Name, Labels);
    type Cluster = Volumes;
    type State = PodClaims;

    fn applies(&self, (.., volumes): Ref<'_, Self::Pod>) -> bool {
        volumes.iter().any(|volume| volume.claim().is_some())
    }

    fn pre_filter(
        &self,
        (key, uid, volumes): Ref<'_, Self::Pod>,
        cluster: VolumeStore<'_>,
    ) -> Result<Option<PodClaims>, Rejection> {
        let pod = ClaimingPod { key, uid, volumes };
        PodClaims::of(pod, cluster).map(Some)
    }

    fn filter(&self, claims: &PodClaims, (name, labels): Ref<'_, Self::Node>) -> Verdict {
        match claims.find(name, labels) {
            Ok(_) => Verdict::Pass,
            Err(why) => Verdict::Fail(why),
        }
    }

    /// Other pods do not take volumes: claims do.
    fn update(&self, _: &mut PodClaims, _: PodChange<'_>, _: Ref<'_, Self::Node>) -> Update {
        Update::Exact
    }
}

/// Registration.
pub fn entry() -> Entry {
    Entry::of::<VolumeBinding>().pre_filter().pre_score().reserve_and_pre_bind().requeue().done()
}
