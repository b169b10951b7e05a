//! The simulator, in virtual time.

mod mishaps;
mod perf;
mod profiles;
mod script;
mod swarm;
