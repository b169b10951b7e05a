//! VolumeBinding: the volumes of a pod's claims.

mod claims;
mod find;
mod keys;
mod migration;
mod requeue;
mod reserve;
mod score;
#[cfg(test)]
mod tests;

use std::time::Duration;

use plimsoll_framework::prelude::*;
use serde::{Deserialize, Serialize};

use crate::utilization_shape::{self, UtilizationShape, UtilizationShapePoint};
use claims::{BoundVolumeClaim, ClaimingPod, PodClaims};
use keys::ClaimsKey;

/// The gate for scoring nodes by their free storage. On since 1.37.
pub const STORAGE_CAPACITY_SCORING: &str = "StorageCapacityScoring";

const BIND_TIMEOUT_SECONDS: i64 = 600;

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
    shape: Option<UtilizationShape>,
}

/// How long volumes may take, and how storage that is left is scored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
pub struct VolumeBindingArgs {
    #[serde(skip_serializing)]
    api_version: String,
    #[serde(skip_serializing)]
    kind: String,
    /// For how many seconds claims may take to be bound before the pod is tried anew; 600 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bind_timeout_seconds: Option<i64>,
    /// The score of a node by the share of its storage that the pod would take, in percent. Counts
    /// with the gate `StorageCapacityScoring` only; by default, the less the better.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape: Option<Vec<UtilizationShapePoint>>,
}

impl Plugin for VolumeBinding {
    const NAME: &'static str = "VolumeBinding";
    type Args = VolumeBindingArgs;
    fn new(args: VolumeBindingArgs, gates: &FeatureGates) -> Self {
        let seconds = args.bind_timeout_seconds.unwrap_or(BIND_TIMEOUT_SECONDS);
        let seconds = u64::try_from(seconds).expect("a valid timeout is not negative");
        let shape = || UtilizationShape::try_from(args.shape.unwrap_or_else(default_shape));
        VolumeBinding {
            bind_timeout: Duration::from_secs(seconds),
            shape: scores_capacity(gates).then(|| shape().expect("a valid shape")),
        }
    }

    fn complete(args: &mut VolumeBindingArgs, gates: &FeatureGates) {
        args.bind_timeout_seconds.get_or_insert(BIND_TIMEOUT_SECONDS);
        if scores_capacity(gates) && args.shape.as_ref().is_none_or(Vec::is_empty) {
            args.shape = Some(default_shape());
        }
    }

    /// As in validation_pluginargs.go, ValidateVolumeBindingArgs.
    fn validate(args: &VolumeBindingArgs, gates: &FeatureGates, faults: &mut ArgsFaults) {
        let timeout = args.bind_timeout_seconds.unwrap_or_default();
        let timeout_field = ArgsField::default().key("bindTimeoutSeconds");
        if timeout < 0 {
            let rule = "invalid BindTimeoutSeconds, should not be a negative value";
            faults.invalid(timeout_field, timeout, rule);
        } else if u32::try_from(timeout).is_err() {
            // Upstream takes it, though it is more than 136 years.
            faults
                .report(timeout_field, format!("invalid value: integer `{timeout}`, expected u32"));
        }
        let field = ArgsField::default().key("shape");
        match &args.shape {
            Some(points) if !scores_capacity(gates) => {
                let rule = "unexpected field `shape`, remove it or turn on the feature gate \
                            StorageCapacityScoring";
                faults.invalid(field, points, rule);
            }
            Some(points) => utilization_shape::validate(points, &field, faults),
            None => {}
        }
    }
}

/// Whether nodes are scored by the storage that is left.
fn scores_capacity(gates: &FeatureGates) -> bool {
    gates.enabled(STORAGE_CAPACITY_SCORING, Release::V1_37 <= gates.release())
}

/// The less of the storage is taken the better. As in apis/config/v1/defaults.go,
/// `SetDefaults_VolumeBindingArgs`.
fn default_shape() -> Vec<UtilizationShapePoint> {
    let points = [(0, 10), (100, 0)];
    points.map(|(utilization, score)| UtilizationShapePoint { utilization, score }).to_vec()
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

    /// Only a volume that its driver cannot serve.
    fn may_err(&self, claims: &PodClaims) -> bool {
        claims.bound().iter().any(BoundVolumeClaim::may_be_untranslatable)
    }

    fn passes_only_on(&self, claims: &PodClaims) -> Option<Vec<Str>> {
        claims.selected_node().map(|node| vec![node.clone()])
    }

    fn passes_only_with(&self, claims: &PodClaims) -> Vec<LabelledNodes> {
        claims.labels_of_nodes()
    }

    /// Volumes are taken by claims, not by other pods.
    fn update(&self, _: &mut PodClaims, _: PodChange<'_>, _: Ref<'_, Self::Node>) -> Update {
        Update::Exact
    }
}

/// Bound claims share the verdicts of all claims whose volumes the same nodes reach, and claims that wait those of all
/// that the same volumes or the same free storage could satisfy.
impl FilterByKey for VolumeBinding {
    type Key = ClaimsKey;

    fn key(&self, claims: &PodClaims, _: VolumeStore<'_>) -> Option<ClaimsKey> {
        ClaimsKey::of(claims)
    }

    fn key_bytes(&self, key: &ClaimsKey) -> usize {
        key.bytes()
    }

    /// A CSINode says which in-tree plugins are migrated on its node.
    fn concerns(&self, object: &AnyObject, _: VolumeStore<'_>) -> ConcernedNodes {
        match object.shared::<CsiNode>() {
            Some(csi_node) => ConcernedNodes::Named(csi_node.name.clone()),
            None => ConcernedNodes::none(),
        }
    }
}

/// Registration.
pub fn entry() -> Entry {
    Entry::of::<VolumeBinding>()
        .pre_filter()
        .pre_score()
        .score_on_demand()
        .reserve_and_pre_bind()
        .requeue()
        .filter_by_key()
        .shows_args()
        .done()
}
