//! Prefers nodes on which the first alternatives of requests are available.

use plimsoll_api::ObjectStores;
use plimsoll_api::devices::{Allocation, RequestKind};
use plimsoll_framework::prelude::*;

use super::allocate::PreparedClaims;
use super::{ClaimingParts, DynamicResources, NodeParts, whole};
use crate::devices::DeviceKinds;

/// How many alternatives a request can have. The score of the first one. As in types.go,
/// FirstAvailableDeviceRequestMaxSize.
const MOST_ALTERNATIVES: i64 = 8;

/// The claims of a pod, if their alternatives can differ from node to node.
#[derive(Clone, Debug)]
pub struct Alternatives(Option<PreparedClaims>);

impl PreScore for DynamicResources {
    type Pod = ClaimingParts;
    type Node = NodeParts;
    type Cluster = (ObjectsOf<DeviceKinds>, Now);
    type State = Alternatives;

    /// Unless a request has alternatives, all nodes get 0.
    fn is_constant(
        &self,
        pod: Ref<'_, ClaimingParts>,
        (objects, _): (&ObjectStores, Time),
    ) -> bool {
        let pod = whole(pod).claiming;
        if pod.claims.is_empty() || !self.gates.features.prioritized_list {
            return true;
        }
        let found = pod.find(objects);
        found.is_ok_and(|claims| !claims.iter().any(|one| has_alternatives(&one.claim)))
    }

    fn pre_score(
        &self,
        pod: Ref<'_, ClaimingParts>,
        _: Feasible<'_, <Self as PreScore>::Node>,
        (objects, now): (&ObjectStores, Time),
    ) -> Option<Alternatives> {
        let pod = whole(pod);
        if pod.claiming.claims.is_empty() || !self.gates.features.prioritized_list {
            return Some(Alternatives(None));
        }
        let prepared = self.prepare(pod, objects, now).ok();
        Some(Alternatives(
            prepared
                .filter(|prepared| prepared.named().iter().any(|one| has_alternatives(&one.claim))),
        ))
    }

    fn score(&self, Alternatives(claims): &Alternatives, _: Row, node: Ref<'_, NodeParts>) -> i64 {
        let Some(claims) = claims else { return 0 };
        let Ok(new) = self.points_on(claims, node) else { return 0 };
        let before = claims.named().iter().filter_map(|one| {
            one.claim.allocation.as_ref().map(|allocation| points(&one.claim, allocation))
        });
        new + before.sum::<i64>()
    }

    fn normalize(&self, _: &Alternatives, scores: &mut [Scored]) {
        Normalize::Max { reverse: false }.apply(scores);
    }
}

/// Whether a request has alternatives.
fn has_alternatives(claim: &ResourceClaim) -> bool {
    claim.spec.requests.iter().any(|one| matches!(one.kind, RequestKind::FirstAvailable(_)))
}

/// As in dynamicresources.go, computeScore: the earlier the alternative that was chosen, the more.
pub(super) fn points(claim: &ResourceClaim, allocation: &Allocation) -> i64 {
    let mut sum = 0;
    for request in &claim.spec.requests {
        let RequestKind::FirstAvailable(alternatives) = &request.kind else { continue };
        for (index, one) in (0i64..).zip(alternatives) {
            let full = format!("{}/{}", request.name, one.name);
            if allocation.devices.iter().any(|device| device.request == full) {
                sum += MOST_ALTERNATIVES - index;
            }
        }
    }
    sum
}
