//! The simulator, in virtual time.

mod mishaps;
mod profiles;
mod script;
mod swarm;
