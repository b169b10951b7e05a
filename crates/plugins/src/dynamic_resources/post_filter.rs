//! Gives up devices that keep a pod from all nodes: deallocates a claim, or deletes one that was left over.

use std::sync::Arc;

use plimsoll_api::devices::ClaimSource;
use plimsoll_framework::pod_groups::group_of;
use plimsoll_framework::prelude::*;

use super::allocate::{PreparedClaims, UNAVAILABLE};
use super::claims::{FoundClaim, is_made_for};
use super::{DynamicResources, may_claim, writes};

const NO_STATE: &str = "not found";
const NO_CLAIMS: &str = "no new claims to deallocate";
const NOTHING_HELPS: &str = "still not schedulable";
const DEALLOCATED: &str = "deallocation of ResourceClaim completed";
const DELETED: &str = "deletion of ResourceClaim completed";
const UNRESERVED: &str = "ResourceClaim unreserved for PodGroup";

/// What PostFilter does for a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Remedy {
    /// The pod has no claims.
    NoClaims,
    /// Takes the devices from a claim that cannot be used on some node.
    Deallocate(ObjectKey),
    /// Deletes the claim for extended resources that an earlier attempt has left.
    Delete(ObjectKey),
    /// Ends the reservation of a claim for the group with this uid, of which no pod is on a node.
    Unreserve(ObjectKey, Str),
    /// There is none.
    Nothing,
    /// What would help cannot be said.
    Error(String),
}

impl Remedy {
    fn answer(&self) -> PostFilterAnswer {
        let why = match self {
            Remedy::NoClaims => NO_CLAIMS,
            Remedy::Deallocate(_) => DEALLOCATED,
            Remedy::Delete(_) => DELETED,
            Remedy::Unreserve(..) => UNRESERVED,
            Remedy::Nothing => NOTHING_HELPS,
            Remedy::Error(why) => return PostFilterAnswer::Error(why.clone().into()),
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
        let prepared = self.prepare(self.whole(pod), objects, view.stores.now);
        let Some(claims) = prepared.ok().filter(|claims| self.are_known(claims)) else {
            return Remedy::NoClaims;
        };
        let is_ours = |node: &&NodeRejection| {
            node.plugin == Self::NAME
                && node.rejection.reasons.iter().any(|reason| reason.to_string() == UNAVAILABLE)
        };
        let nodes = rejected.iter().filter(is_ours).map(|node| view.nodes.node(node.row));
        let is_free = |claim: &ResourceClaim| is_free(claim, pod);
        if let Some(claim) = self.first_to_deallocate(&claims, nodes, is_free) {
            return Remedy::Deallocate(claim.key.clone());
        }
        match claims.extended() {
            Some(extended) if extended.is_left_over => Remedy::Delete(extended.claim.key.clone()),
            _ => match self.to_unreserve(pod, view) {
                Ok(None) => Remedy::Nothing,
                Ok(Some((key, uid))) => Remedy::Unreserve(key, uid),
                Err(why) => Remedy::Error(why),
            },
        }
    }

    /// A claim of the group of a pod that is still reserved for the group, with its uid, although no pod of the group is on a
    /// node: an earlier attempt has failed to bind. As in dynamicresources.go, unreservePodGroupClaims. Pods that are placed
    /// on trial in this cycle do not count.
    fn to_unreserve(
        &self,
        pod: &PodInfo,
        view: &View<'_>,
    ) -> Result<Option<(ObjectKey, Str)>, String> {
        let (claiming, objects) = (self.claiming(pod), &view.stores.objects);
        let Some(group) = claiming.group_object(objects)? else { return Ok(None) };
        let state = view.stores.groups.get(&group.key);
        if state.is_some_and(|state| 0 < state.n_placed_before()) {
            return Ok(None);
        }
        let store = objects.of::<ResourceClaim>();
        for shared in &group.resource_claims {
            let Some((name, is_made)) = name_of(group, shared)? else { continue };
            let key = (group.key.namespace.as_str(), name.as_str());
            let claim = store
                .get(key)
                .ok_or_else(|| format!("could not find ResourceClaim \"{}/{}\"", key.0, key.1))?;
            let is_own = !is_made || is_made_for(claim, &group.uid);
            if is_own && claim.allocation.is_some() && claiming.may_use(claim) {
                return Ok(Some((claim.key.clone(), group.uid.clone())));
            }
        }
        Ok(None)
    }

    /// Whether PreFilter has accepted the claims of a pod: otherwise none are known.
    fn are_known(&self, claims: &PreparedClaims) -> bool {
        !claims.are_none() && claims.check(&self.gates).is_ok()
    }

    /// The first claim that is free, and cannot be used on one of these nodes.
    fn first_to_deallocate<'a>(
        &self,
        claims: &'a PreparedClaims,
        nodes: impl Iterator<Item = &'a Arc<Node>>,
        is_free: impl Fn(&ResourceClaim) -> bool,
    ) -> Option<&'a ResourceClaim> {
        let unavailable = nodes.flat_map(|node| claims.unavailable(self, &node.name, &node.labels));
        let claim = |index: usize| &*claims.named()[index].claim;
        let may_go = |&index: &usize| claim(index).allocation.is_some() && is_free(claim(index));
        unavailable.filter(may_go).min().map(claim)
    }
}

/// Whether nobody but a pod uses a claim.
fn is_free(claim: &ResourceClaim, pod: &PodInfo) -> bool {
    match &claim.reserved_for[..] {
        [] => true,
        [one] => one.uid == pod.uid,
        _ => false,
    }
}

/// Since 1.37 no PostFilter is asked for the pods of groups. In its place a claim is deallocated that keeps one of them from a
/// node, and that nobody uses: it may be reserved for the group as long as no pod of this is on a node. Or the claim for
/// extended resources is deleted that an earlier attempt has left, which keeps the pod from all nodes.
impl GroupRemedy for DynamicResources {
    fn group_remedy(
        &self,
        member: &PodInfo,
        view: &View<'_>,
        handle: Option<&mut Handle<'_>>,
    ) -> Option<Reason> {
        if !may_claim(&member.resource_claims, &member.container_devices) {
            return None;
        }
        let prepared = self.prepare(self.whole(member), &view.stores.objects, view.stores.now);
        let claims = prepared.ok().filter(|claims| self.are_known(claims))?;
        let state = group_of(member).and_then(|key| view.stores.groups.get(&key));
        let runs = state.is_some_and(|state| 0 < state.n_placed_before());
        let group = self.claiming(member).group.filter(|_| !runs);
        let is_free = |claim: &ResourceClaim| {
            is_free(claim, member)
                || matches!(&claim.reserved_for[..], [one] if one.is_group() && Some(&one.name) == group)
        };
        let nodes = view.nodes.rows().map(|row| view.nodes.node(row));
        if let Some(claim) = self.first_to_deallocate(&claims, nodes, is_free) {
            if let Some(handle) = handle {
                writes::deallocate(claim, handle);
            }
            return Some(DEALLOCATED.into());
        }
        let left = claims.extended().filter(|extended| extended.is_left_over)?;
        if let Some(handle) = handle {
            writes::delete(&left.claim, handle);
        }
        Some(DELETED.into())
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
        let found = self.claiming(pod).find(&view.stores.objects);
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
            Remedy::Unreserve(key, uid) => {
                let reserved = claims
                    .get(&key)
                    .filter(|claim| claim.reserved_for.iter().any(|one| one.uid == uid));
                if let Some(claim) = reserved {
                    writes::unreserve(claim, &uid, handle);
                }
            }
            Remedy::NoClaims | Remedy::Nothing | Remedy::Error(_) => {}
        }
    }
}

/// The name of a claim of a group, and whether it was made for the group. `None` if none was needed. As in
/// resourceclaim.go, NameFromPodGroup.
fn name_of<'a>(
    group: &'a PodGroup,
    shared: &'a PodResourceClaim,
) -> Result<Option<(&'a Str, bool)>, String> {
    match &shared.source {
        ClaimSource::Claim(name) => Ok(Some((name, false))),
        ClaimSource::Template(_) => {
            let made = group.claim_statuses.iter().find(|one| one.name == shared.name);
            let made = made
                .ok_or_else(|| format!("PodGroup {}: ResourceClaim not created yet", group.key))?;
            Ok(made.claim.as_ref().map(|name| (name, true)))
        }
        ClaimSource::Unknown => Ok(None),
    }
}
