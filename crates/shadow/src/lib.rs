//! Compares what another scheduler does with what this one would have done.
//!
//! [`Shadow`] is a fold over the events of a cluster that another scheduler serves. Whenever a pod is seen on a node, it decides
//! the pod on the state just before, and compares. It makes no effects: its schedulers never step, so there is nothing to
//! write.
//!
//! **How far it sees.** The other scheduler decides before it binds, and binds several pods at once. So pods can be seen on
//! their nodes in another order than that of the decisions. If the pod does not agree with the state as it was seen, it is
//! decided again with bindings of a short span before and after it moved to where they may have been. A pod that agrees only
//! then is counted as such.
#![warn(clippy::disallowed_methods, clippy::disallowed_types)]

mod balance;
mod candidates;
mod comparison;
mod configurations;
mod disagreement;
mod groups;
mod histogram;
mod own_cluster;
mod report;
mod shadow;
mod tally;

pub use self::balance::{Balance, Span};
pub use self::comparison::{Points, Verdict};
pub use self::configurations::{Difference, Differences};
pub use self::disagreement::{Archive, Disagreement, DisagreementKind, NoArchive, Reproduction};
pub use self::histogram::{Durations, Histogram};
pub use self::report::{
    Agreement, Configuration, InfeasibleBy, OurCluster, Report, StillPending, WorseBy,
};
pub use self::shadow::{Judge, Settings, Shadow};
