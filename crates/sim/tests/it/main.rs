//! The simulator, in virtual time.

mod coscheduling;
mod counted;
mod devices;
mod engines;
mod errors;
mod group_claims;
mod group_metrics;
mod group_reservations;
mod groups;
mod mishaps;
mod nominations;
mod perf;
mod preferred_topology;
mod profiles;
mod rebalance;
mod script;
mod swarm;
mod transactions;
mod volumes;
mod world;
