//! Requests to the API server, and answers to the engine.

mod bindings;
mod evictions;
mod faults;
mod fixture;
mod order;
mod volumes;
