//! The connection to a Kubernetes cluster: watches that feed the engine, writes that carry out what it
//! decides, leader election, and the HTTPS server for health, metrics and debugging.

pub mod api_resource;
mod call;
pub mod client;
mod config_map;
pub mod discovery;
pub mod events;
pub mod extender;
#[cfg(test)]
mod fake;
pub mod follow;
pub mod identity;
pub mod instance;
pub mod lease;
pub mod limit;
pub mod listing;
pub mod originals;

mod request;
pub mod run;
pub mod serve;
mod server_release;
pub mod watch;
mod wire_time;
pub mod write;

pub use config_map::{ConfigMapError, config_map};
pub use server_release::server_release;
