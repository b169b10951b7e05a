//! A virtual cluster in virtual time around the engine: what `plimsoll simulate` runs.
//!
//! The world answers every write at once and reports the result to the scheduler, unless it has
//! [faults]. Time advances only when nothing is left to do at the present time.

mod agenda;
mod auditor;
mod capacity;
mod claims;
mod cluster;
pub mod faults;
mod happening;
mod lifecycle;
mod liveness;
mod objects;
pub mod perf;
mod profile_rules;
mod rebalance;
mod recreation;
mod run;
mod settled;
mod simulated_cluster;
pub mod swarm;
mod transactions;
mod utilisation;
mod volumes;
pub mod what_if;
mod workload;

pub use auditor::{Auditor, Extent, Violation};
pub use capacity::{
    Copies, GroupShape, MoreCopies, MoreNodes, PlacedCopy, PodShape, Shape, ShapeCapacity, capacity,
};
pub use cluster::InitialCluster;
pub use faults::{Manner, RequestFaults, RequestVerb};
pub use happening::Happening;
pub use lifecycle::Lifecycle;
pub use liveness::sleepers;
pub use profile_rules::ProfileRules;
pub use rebalance::{
    Objective, PodMove, RebalanceOptions, RebalancePlan, RebalanceStep, SkewChange, UsedBudget,
    rebalance,
};
pub use recreation::Fate;
pub use run::{Simulation, simulate};
pub use simulated_cluster::{DeviceDelays, SimulatedCluster};
pub use utilisation::Utilisation;
pub use volumes::{ClaimBinding, VolumeDelays};
pub use workload::{GangArgs, GangKind, GangSpec, RandomWorkload};
