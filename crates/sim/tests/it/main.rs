//! The simulator, in virtual time.

mod engines;
mod mishaps;
mod perf;
mod profiles;
mod script;
mod swarm;
