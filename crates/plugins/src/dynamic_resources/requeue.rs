//! When to try a pod again whose claims kept it from all nodes.

use plimsoll_api::devices::{AllocationMode, RequestKind};
use plimsoll_api::{ObjectStores, PodGroup};
use plimsoll_framework::events::Object;
use plimsoll_framework::pod_groups::group_of;
use plimsoll_framework::prelude::*;

use super::claims::is_made_for;
use super::{DynamicResources, may_claim};

/// As in dynamicresources.go, `EventsToRegister`, `isSchedulableAfterClaimChange` and `isSchedulableAfterPodChange`. As in
/// its assume cache, the state before a claim changes or goes may be an assumed one; that a claim goes wakes pods since
/// 1.37 there. A pod also waits for the devices that another pod gives up which is not bound; for the end of its own claim
/// for extended resources, which an earlier attempt has left; if it claims all devices, for the allocation of one that keeps
/// it from the rest; and for the PodGroup that it names.
impl Requeue for DynamicResources {
    fn events(&self) -> Vec<ClusterEvent> {
        const COMES_OR_CHANGES: Action = Action::ADD.union(Action::UPDATE);
        let mut events = vec![
            ClusterEvent::of::<Node>(
                Action::ADD | Action::UPDATE_NODE_LABEL | Action::UPDATE_NODE_ALLOCATABLE,
            ),
            ClusterEvent::of::<ResourceClaim>(Action::all()),
            ClusterEvent::of::<Pod>(Action::UPDATE_POD_GENERATED_RESOURCE_CLAIM | Action::DELETE),
            ClusterEvent::of::<DeviceClass>(COMES_OR_CHANGES),
            ClusterEvent::of::<ResourceSlice>(COMES_OR_CHANGES),
            // In kube-scheduler the slices change with the rules that taint their devices.
            ClusterEvent::of::<DeviceTaintRule>(Action::all()),
        ];
        if self.gates.group_claims {
            events.push(ClusterEvent::of::<PodGroup>(Action::ADD));
        }
        events
    }

    fn hint(&self, pod: &PodInfo, change: &Change<'_>) -> Hint {
        let objects = &change.view.stores.objects;
        let helps = if let Some(claim) = change.of::<ResourceClaim>() {
            self.helps_claim(pod, &claim, objects)
        } else if let Some(group) = change.of::<PodGroup>() {
            let key = group.after.as_ref().map(|group| &group.key);
            key.is_some() && key == group_of(pod).as_ref()
        } else if let Object::Itself { .. } = change.object {
            self.claiming(pod).find(objects).is_ok()
        } else if let Object::Assigned { before, after, .. } = change.object {
            let holds = |gone: &PodInfo| may_claim(&gone.resource_claims, &gone.container_devices);
            after.is_none() && before.is_some_and(holds)
        } else {
            true
        };
        if helps { Hint::Queue } else { Hint::Skip }
    }
}

/// Whether some request, or an alternative of one, is for all devices.
fn asks_for_all(claim: &ResourceClaim) -> bool {
    claim.spec.requests.iter().any(|request| match &request.kind {
        RequestKind::Exactly { ask, .. } => ask.mode == AllocationMode::All,
        RequestKind::FirstAvailable(all) => {
            all.iter().any(|one| one.ask.mode == AllocationMode::All)
        }
        RequestKind::Unknown => false,
    })
}

impl DynamicResources {
    /// Whether a claim that came or changed may help a pod.
    fn helps_claim(
        &self,
        pod: &PodInfo,
        claim: &Versions<ResourceClaim>,
        objects: &ObjectStores,
    ) -> bool {
        let Ok(own) = self.claiming(pod).find(objects) else { return false };
        let before = claim.before.as_ref();
        let is_allocated = |claim: &ResourceClaim| claim.allocation.is_some();
        // Devices that were being written for a pod that was given up count as taken until the claim is seen without them.
        let had_devices =
            [before, claim.dropped.as_ref()].into_iter().flatten().any(|one| is_allocated(one));
        let Some(after) = &claim.after else {
            return had_devices || before.is_some_and(|gone| is_made_for(gone, &pod.uid));
        };
        if had_devices && !is_allocated(after) {
            return true;
        }
        if own.iter().all(|one| one.claim.key != after.key) {
            // A device without capacity left does not count among all devices: the others may do now.
            let is_new = !before.is_some_and(|before| is_allocated(before)) && is_allocated(after);
            return is_new
                && own.iter().any(|one| !is_allocated(&one.claim) && asks_for_all(&one.claim));
        }
        before.is_none_or(|before| {
            let status = |claim: &ResourceClaim| {
                (claim.allocation.clone(), claim.reserved_for.clone(), claim.devices.clone())
            };
            status(before) != status(after)
        })
    }
}
