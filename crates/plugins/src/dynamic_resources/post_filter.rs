//! Gives up devices that keep a pod from all nodes: deallocates a claim, or deletes one that was left over.

use plimsoll_framework::prelude::*;

use super::allocate::{PreparedClaims, UNAVAILABLE};
use super::claims::{ClaimingPod, FoundClaim, WholePod};
use super::{DynamicResources, may_claim, writes};

const NO_STATE: &str = "not found";
const NO_CLAIMS: &str = "no new claims to deallocate";
const NOTHING_HELPS: &str = "still not schedulable";
const DEALLOCATED: &str = "deallocation of ResourceClaim completed";
const DELETED: &str = "deletion of ResourceClaim completed";

/// What PostFilter does for a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Remedy {
    /// The pod has no claims.
    NoClaims,
    /// Takes the devices from a claim that cannot be used on some node.
    Deallocate(ObjectKey),
    /// Deletes the claim for extended resources that an earlier attempt has left.
    Delete(ObjectKey),
    /// There is none.
    Nothing,
}

impl Remedy {
    fn answer(&self) -> PostFilterAnswer {
        let why = match self {
            Remedy::NoClaims => NO_CLAIMS,
            Remedy::Deallocate(_) => DEALLOCATED,
            Remedy::Delete(_) => DELETED,
            Remedy::Nothing => NOTHING_HELPS,
        };
        PostFilterAnswer::Unschedulable(why.into())
    }
}

impl DynamicResources {
    /// What to do for a pod that `rejected` nodes. As in dynamicresources.go, PostFilter. There, any one of several claims
    /// is deallocated; here the first of the pod.
    pub(super) fn remedy(
        &self,
        pod: &PodInfo,
        rejected: &[NodeRejection],
        view: &View<'_>,
    ) -> Remedy {
        let objects = &view.stores.objects;
        let prepared = self.prepare(WholePod::from(pod), objects, view.stores.now);
        // Of a pod that PreFilter rejected no claims are known.
        let is_known =
            |claims: &PreparedClaims| !claims.are_none() && claims.check(&self.gates).is_ok();
        let Some(claims) = prepared.ok().filter(is_known) else { return Remedy::NoClaims };
        if let Some(index) = self.first_to_deallocate(pod, &claims, rejected, view) {
            return Remedy::Deallocate(claims.named()[index].claim.key.clone());
        }
        match claims.extended() {
            Some(extended) if extended.is_left_over => Remedy::Delete(extended.claim.key.clone()),
            _ => Remedy::Nothing,
        }
    }

    fn first_to_deallocate(
        &self,
        pod: &PodInfo,
        claims: &PreparedClaims,
        rejected: &[NodeRejection],
        view: &View<'_>,
    ) -> Option<usize> {
        let is_ours = |node: &&NodeRejection| {
            node.plugin == Self::NAME
                && node.rejection.reasons.iter().any(|reason| reason.to_string() == UNAVAILABLE)
        };
        let nodes = rejected.iter().filter(is_ours).map(|node| view.nodes.node(node.row));
        let of_node = |node: &Node| claims.unavailable(self, &node.name, &node.labels);
        let unavailable = nodes.flat_map(|node| of_node(node));
        let may_go = |&index: &usize| {
            let reserved_for = &claims.named()[index].claim.reserved_for;
            reserved_for.is_empty() || matches!(&reserved_for[..], [one] if one.uid == pod.uid)
        };
        unavailable.filter(may_go).min()
    }
}

impl PostFilter for DynamicResources {
    fn without_nodes(&self, pod: &PodInfo, has_looked: bool) -> Option<PostFilterAnswer> {
        if !has_looked {
            // Its PreFilter would have created the state.
            return Some(PostFilterAnswer::Error(NO_STATE.into()));
        }
        let may_claim = may_claim(&pod.resource_claims, &pod.container_devices);
        (!may_claim).then(|| PostFilterAnswer::Unschedulable(NO_CLAIMS.into()))
    }

    /// Only where a claim has devices it matters which nodes they keep the pod from.
    fn without_rejections(&self, pod: &PodInfo, view: &View<'_>) -> Option<PostFilterAnswer> {
        let found = ClaimingPod::from(pod).find(&view.stores.objects);
        let has_devices =
            |claims: Vec<FoundClaim>| claims.iter().any(|one| one.claim.allocation.is_some());
        (!found.is_ok_and(has_devices)).then(|| self.remedy(pod, &[], view).answer())
    }

    fn post_filter(
        &self,
        pod: &PodInfo,
        rejected: &[NodeRejection],
        dry_run: &DryRun<'_>,
    ) -> PostFilterAnswer {
        if let Some(answer) = self.without_nodes(pod, dry_run.has_looked(Self::NAME)) {
            return answer;
        }
        self.remedy(pod, rejected, dry_run.view()).answer()
    }
}

impl AfterPostFilter for DynamicResources {
    fn after_post_filter(
        &self,
        pod: &PodInfo,
        _: Option<&Nomination>,
        rejected: &[NodeRejection],
        view: &View<'_>,
        handle: &mut Handle<'_>,
    ) {
        if !may_claim(&pod.resource_claims, &pod.container_devices) {
            return;
        }
        let claims = view.stores.of::<ResourceClaim>();
        match self.remedy(pod, rejected, view) {
            Remedy::Deallocate(key) => {
                if let Some(claim) = claims.get(&key) {
                    writes::deallocate(claim, handle);
                }
            }
            Remedy::Delete(key) => {
                if let Some(claim) = claims.get(&key) {
                    writes::delete(claim, handle);
                }
            }
            Remedy::NoClaims | Remedy::Nothing => {}
        }
    }
}
