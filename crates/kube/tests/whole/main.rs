//! The whole edge against an API server in memory: everything is bound, once, whatever goes wrong.

mod coscheduling;
mod dashboards;
mod devices;
mod endings;
mod ends;
mod extenders;
mod faults;
mod groups;
mod lab;
mod leaders;
mod mixin;
mod objects;
mod reloads;
mod rights;
mod self_audit;
mod serving;
mod stuck;
