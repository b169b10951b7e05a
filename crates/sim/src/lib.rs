//! A virtual cluster in virtual time around the engine: what `plimsoll simulate` runs.
//!
//! The world answers every write at once and reports the result to the scheduler, unless it has
//! [faults]. Time advances only when nothing is left to do at the present time.

mod agenda;
mod auditor;
mod cluster;
pub mod faults;
mod happening;
mod lifecycle;
mod liveness;
mod objects;
pub mod perf;
mod run;
mod settled;
pub mod swarm;
mod volumes;
mod workload;
mod world;

pub use auditor::{Auditor, Extent, Violation};
pub use cluster::Cluster;
pub use faults::{Faults, Manner, Verb};
pub use happening::Happening;
pub use lifecycle::Lifecycle;
pub use liveness::sleepers;
pub use run::{Simulation, simulate};
pub use volumes::{ClaimBinding, Storage};
pub use workload::Workload;
pub use world::World;
