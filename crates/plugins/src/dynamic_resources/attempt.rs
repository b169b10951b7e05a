//! An attempt to allocate devices on a node, remembered until what the node reaches changes.

use plimsoll_devices::{AllocateError, NodeRef as DeviceNode};
use plimsoll_framework::prelude::*;

use super::allocate::{Prepared, PreparedClaims, UNAVAILABLE, found_or_why};
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
        let found = self.points_found(claims, node);
        if let Some(outcome) = Outcome::of(&found) {
            devices.attempts.open().note(list, reach, version, outcome);
        }
        found
    }

    /// Searches.
    fn points_found(&self, claims: &PreparedClaims, node: DeviceNode<'_>) -> Points {
        let found = self.search(claims, None, node)?;
        Ok(found.map(|found| found.points()))
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
