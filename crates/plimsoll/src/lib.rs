//! Plimsoll, a scheduler for Kubernetes, as a library: [`App`] is the program `plimsoll` with your plugins.
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! use plimsoll::App;
//! use plimsoll::prelude::*;
//!
//! /// Rejects nodes that are called "attic".
//! struct NoAttic;
//!
//! impl Plugin for NoAttic {
//!     const NAME: &'static str = "NoAttic";
//!     type Args = ();
//!     fn new((): (), _: &FeatureGates) -> Self {
//!         NoAttic
//!     }
//! }
//!
//! impl Filter for NoAttic {
//!     type Pod = ();
//!     type Node = Name;
//!     fn filter(&self, (): (), name: &Str) -> Verdict {
//!         match name.as_str() {
//!             "attic" => Verdict::unschedulable(Reason::Text("node(s) were in the attic")),
//!             _ => Verdict::Pass,
//!         }
//!     }
//! }
//!
//! fn main() -> ExitCode {
//!     App::new().with_plugin(Entry::of::<NoAttic>().filter().done()).run()
//! }
//! ```
//!
//! [`tutorial`] leads from an empty directory to a pod placed by a plugin. [`framework`] describes what a plugin is.
//!
//! This crate reads files and command lines, prints answers, and starts the IO layer for a cluster.

mod alternatives;
mod answers;
mod app;
mod args;
mod audits;
mod canary;
mod caveats;
mod commands;
mod deprecated;
mod difference_files;
mod differences;
mod faults;
#[cfg(test)]
#[path = "../tests/it/fickle.rs"]
mod fickle;
mod given;
mod input;
mod journals;
mod logs;
mod measured;
mod notices;
mod old_scale;
mod options;
mod progress;
mod recorded;
mod recordings;
mod render;
mod report;
mod snapshot;
mod wording;

#[doc = include_str!("../../../docs/tutorial.md")]
pub mod tutorial {}

pub use plimsoll_framework as framework;
pub use plimsoll_framework::prelude;

pub use crate::app::App;
