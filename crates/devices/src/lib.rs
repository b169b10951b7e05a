//! Which devices the claims of a pod get on a node.
//!
//! This is the allocator of kube-scheduler (`dynamic-resource-allocation/structured`, the variant that 1.36 uses). It
//! searches for the first devices that satisfy all claims of a pod, in an order that is part of the result. Where
//! upstream undoes a choice only in part, it does the same, because each such trace changes later choices.
//!
//! Everything here is a pure function: [`Inventory`] has the published devices, [`Allocated`] what claims hold of
//! them, and an [`Allocator`] answers for one pod and one node at a time. Whoever calls it keeps both up to date,
//! evaluates CEL expressions ([`Selectors`]) and makes the ids of shares.
#![warn(clippy::disallowed_methods, clippy::disallowed_types)]

mod account;
mod allocated;
mod allocator;
mod capacity;
mod constraint;
mod counters;
mod error;
mod features;
mod ids;
mod inventory;
mod outcome;
mod plan;
mod pool;
mod search;
mod selectors;

pub use account::{Account, Refusal, RequestAccount};
pub use allocated::{Allocated, HeldDevices};
pub use allocator::{Allocator, CycleMemory, NodeRef};
pub use error::AllocateError;
pub use features::Features;
pub use ids::{DeviceId, DeviceIds};
pub use inventory::{Inventory, Reach};
pub use selectors::{DeviceRef, SelectorError, Selectors};
