//! A virtual cluster in virtual time around the engine: what `plimsoll simulate` runs.
//!
//! The world answers every write at once and tells the scheduler what became of it. Time passes only
//! when nothing is left to do at the present moment.

mod run;
mod world;

pub use run::{Simulation, simulate};
pub use world::{Cluster, World};
