//! `/api/v1`: questions about the cluster, answered on a copy of it.
//!
//! The engine only takes a snapshot, which shares its objects. Everything else happens on another thread, so that no
//! decision waits for it. Pods are named only to users who may list them in the API server.

mod asker;
mod openapi;
mod posted;
mod why;
mod withhold;

#[cfg(test)]
pub(super) use openapi::OPENAPI;
pub(super) use openapi::description;
pub(super) use posted::{capacity, what_if};
pub(super) use why::why;
