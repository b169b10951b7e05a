//! An attempt to allocate devices on a node, remembered until what the node reaches changes.

use plimsoll_devices::{AllocateError, NodeRef as DeviceNode};
use plimsoll_framework::prelude::*;

use super::allocate::{NodeAllocations, Prepared, PreparedClaims, UNAVAILABLE, found_or_why};
use super::{DynamicResources, NodeParts};
use crate::devices::{ListId, Outcome};

/// How early the alternatives are that were chosen; `None` if there are too few devices.
type Points = Result<Option<i64>, AllocateError>;

impl DynamicResources {
    /// Whether the claims of a pod get devices on a node as with [`on_node`](Self::on_node), and how early the alternatives
    /// are that they get. It is remembered, unless the resources of the node matter.
    pub(super) fn points_on(
        &self,
        claims: &PreparedClaims,
        node: Ref<'_, NodeParts>,
    ) -> Result<i64, Rejection> {
        let Prepared { extended, requesting, .. } = &*claims.0;
        if extended.is_some() || requesting.is_some() {
            return Ok(self.on_node(claims, node)?.points());
        }
        let ((name, labels), _) = node;
        let node = DeviceNode { name, labels };
        let points = match claims.need_devices() {
            true => found_or_why(self.remembered(claims, node), node)?,
            false => 0,
        };
        match claims.unavailable(self, name, labels).is_empty() {
            true => Ok(points),
            false => Err(Rejection::unresolvable(UNAVAILABLE)),
        }
    }

    fn remembered(&self, claims: &PreparedClaims, node: DeviceNode<'_>) -> Points {
        let devices = &claims.0.devices;
        let Some(reach) = devices.inventory.reach(node) else {
            return self.points_found(claims, node);
        };
        let (list, version) = (claims.list(self.most_steps), devices.versions.of(reach));
        let known = devices.attempts.open().find(list, reach, version);
        if let Some(known) = known {
            let is_right = || Outcome::of(&self.points_found(claims, node)) == Some(known);
            debug_assert!(is_right(), "what was found on {} is not what is found now", node.name);
            return known.points();
        }
        let found = self.search(claims, None, node);
        let points = points_of(&found);
        let mut attempts = devices.attempts.open();
        if let Some(outcome) = Outcome::of(&points) {
            attempts.note(list, reach, version, outcome);
        }
        if let Ok(Some(found)) = found {
            let allocations = found.allocations.into_iter().map(|(_, allocation)| allocation);
            attempts.keep(list, node.name, version, allocations.collect());
        }
        points
    }

    /// The devices that a search has found for the claims on a node, if they are kept and nothing has changed since.
    pub(super) fn found_before(
        &self,
        claims: &PreparedClaims,
        node: DeviceNode<'_>,
    ) -> Option<NodeAllocations> {
        let devices = &claims.0.devices;
        let reach = devices.inventory.reach(node)?;
        let (list, version) = (claims.list(self.most_steps), devices.versions.of(reach));
        let kept = devices.attempts.open().take_found(list, node.name, version)?;
        let allocations = claims.wanting().cloned().zip(kept).collect();
        let found = NodeAllocations { allocations, ..NodeAllocations::default() };
        debug_assert!(
            self.search(claims, None, node).is_ok_and(|anew| anew.as_ref() == Some(&found)),
            "what was found on {} is not what is found now",
            node.name
        );
        Some(found)
    }

    /// Searches.
    fn points_found(&self, claims: &PreparedClaims, node: DeviceNode<'_>) -> Points {
        points_of(&self.search(claims, None, node))
    }
}

fn points_of(found: &Result<Option<NodeAllocations>, AllocateError>) -> Points {
    match found {
        Ok(found) => Ok(found.as_ref().map(NodeAllocations::points)),
        Err(error) => Err(error.clone()),
    }
}

impl Outcome {
    /// What may be remembered: no error that names a claim.
    fn of(found: &Points) -> Option<Self> {
        match found {
            Ok(Some(points)) => Some(Outcome::Found(*points)),
            Ok(None) => Some(Outcome::TooFew),
            Err(AllocateError::InvalidPools) => Some(Outcome::InvalidPools),
            Err(AllocateError::Stopped | AllocateError::Failed(_)) => None,
        }
    }

    fn points(self) -> Points {
        match self {
            Outcome::Found(points) => Ok(Some(points)),
            Outcome::TooFew => Ok(None),
            Outcome::InvalidPools => Err(AllocateError::InvalidPools),
        }
    }
}

impl PreparedClaims {
    /// What the claims without devices ask for.
    fn list(&self, most_steps: Option<u64>) -> ListId {
        let specs = self.wanting().map(|claim| &claim.spec);
        let attempts = &self.0.devices.attempts;
        *self.0.list.open().get_or_insert_with(|| attempts.open().list(specs, most_steps))
    }
}
