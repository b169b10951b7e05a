//! The simulator, in virtual time.

mod profiles;
mod swarm;
