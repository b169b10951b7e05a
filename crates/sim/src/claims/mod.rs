//! Claims on devices: what the API server, the ResourceClaim controller and the drivers do with them.

mod controller;
mod drivers;
mod group_claims;
mod objects;
mod pod_status;

pub(crate) use self::controller::{ClaimController, claim_for, named};
pub(crate) use self::drivers::Preparation;
pub(crate) use self::objects::{ClaimObjects, deleted, next};
pub(crate) use self::pod_status::{boxed, patched_pod};
