//! Answers questions about a pod: why it is pending, what is the least that would have to change so that it fits, and why
//! it is on its node.
//!
//! [`why`] asks. Every change that it proposes is proven: it is made in a [transaction](plimsoll_engine::Transaction) of
//! the scheduler, the pod is decided again, and the change is rolled back. Nothing here knows a plugin. The changes come
//! from the fields of the pod and of its claims (`relaxations`), from the nodes and the pods on them (`cluster`), and from the configurations
//! that the caller proposes. So a plugin from outside is explained like any other, as far as these fields are what it reads.
#![warn(clippy::disallowed_methods, clippy::disallowed_types)]

mod change;
mod cluster;
mod device_users;
mod draft;
mod groups;
mod member;
mod nearest;
mod new_nodes;
mod placed;
mod proposal;
mod rebuilt;
mod rebuilt_claims;
mod relaxations;
mod remedy;
mod search;
mod waiting;
mod why;

pub use self::change::{Change, Reference};
pub use self::draft::Manifests;
pub use self::groups::{
    GroupRemedy, GroupSubject, GroupWaiting, WhyGroup, WhyGroupError, why_group,
};
pub use self::member::GroupOfPod;
pub use self::nearest::{NearNode, Refusal};
pub use self::placed::RunnerUp;
pub use self::rebuilt::RebuiltPod;
pub use self::rebuilt_claims::rebuilt_claim;
pub use self::relaxations::requests::{lower as lower_request, names as requested_resources};
pub use self::remedy::{Remedy, RemedyKind, size};
pub use self::search::{Alternative, Limits};
pub use self::waiting::{AwaitedPermit, Held, RoomForGroup, Waiting};
pub use self::why::{Subject, Why, WhyError, why};
