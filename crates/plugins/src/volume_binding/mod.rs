//! VolumeBinding: the volumes of a pod's claims.

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

/// The gate for scoring nodes by their free storage. On since 1.37.
pub const STORAGE_CAPACITY_SCORING: &str = "StorageCapacityScoring";

const BIND_TIMEOUT: Duration = Duration::from_mins(10);

/// Rejects a pod for all nodes if one of its claims is missing, lost, or not yet bound although it need
/// not wait for a node. Rejects single nodes that cannot reach a bound volume, or that have neither a
/// matching volume nor a way to provision one for a claim that waits for a pod
/// (`WaitForFirstConsumer`).
///
/// A volume in one zone cannot be mounted in another, and a claim that is bound before its pod has a
/// node may be bound where the pod can never run. Both are therefore decided together. When a node is
/// chosen, its volumes are reserved for the claims, this is written, and the pod is bound only after
/// its claims.
///
/// ```yaml
/// apiVersion: storage.k8s.io/v1
/// kind: StorageClass
/// metadata: {name: local}
/// provisioner: kubernetes.io/no-provisioner
/// volumeBindingMode: WaitForFirstConsumer
/// ```
///
/// With the gate `StorageCapacityScoring`, which is on since 1.37, it scores nodes by the share of
/// their storage that the pod would use.
///
/// In kube-scheduler, of several volumes of one size any is taken; here the first by name.
#[derive(Clone, Debug)]
pub struct VolumeBinding {
    bind_timeout: Duration,
    /// The score for each utilization; `None` without the gate.
    shape: Option<Shape>,
}

/// The timeout for binding claims, and the scoring of storage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct VolumeBindingArgs {
    /// How many seconds binding the claims may take before the pod is tried again; 600 by default.
    pub bind_timeout_seconds: Option<u32>,
    /// The score of a node by the share of its storage that the pod would use, in percent. Only with
    /// the gate `StorageCapacityScoring`; by default, less is better.
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

    /// Volumes are taken by claims, not by other pods.
    fn update(&self, _: &mut PodClaims, _: PodChange<'_>, _: Ref<'_, Self::Node>) -> Update {
        Update::Exact
    }
}

/// Registration.
pub fn entry() -> Entry {
    Entry::of::<VolumeBinding>().pre_filter().pre_score().reserve_and_pre_bind().requeue().done()
}
