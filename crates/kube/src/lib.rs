//! The edge to a Kubernetes cluster: watches that feed the engine, writes that carry out what it decides,
//! leader election, and what is served to people and machines.

mod call;
pub mod events;
#[cfg(test)]
mod fake;
pub mod identity;
pub mod lease;
mod wire_time;
pub mod write;
