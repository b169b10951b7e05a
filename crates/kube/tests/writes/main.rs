//! Writes, events and leases at an API server over HTTP, with its faults.

mod bindings;
mod kit;
mod leases;
mod pods;
