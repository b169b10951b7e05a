//! `/api/v1`: questions about the cluster, answered on a copy of it.
//!
//! The engine only takes a snapshot, which shares its objects. Everything else happens on another thread, so that no
//! decision waits for it. Pods are named only to users who may list them in the API server. An answer is based on manifests of
//! other objects only as far as the user may read them there.

mod answered;
mod asker;
mod capacity;
mod manifests;
mod openapi;
mod page;
mod posted;
mod samples;
mod why;
mod withhold;

pub(super) use capacity::capacity;
pub use openapi::OPENAPI;
pub(super) use openapi::description;
pub(super) use page::{Pages, events, page};
pub(super) use posted::{rebalance, what_if};
pub(super) use samples::INTERVAL as SAMPLE_INTERVAL;
pub(super) use why::{why, why_group};
