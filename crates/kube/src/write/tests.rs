//! What reaches the API server, and what the engine is told.

mod bindings;
mod evictions;
mod faults;
mod lab;
mod order;
mod volumes;
