//! KubeSchedulerConfiguration: from a file to the profiles the scheduler runs.
//!
//! [`load`] reads a configuration of version `kubescheduler.config.k8s.io/v1`, fills in every default, merges each
//! profile's plugin sets with the default ones, and validates the result. A [`Catalogue`] says which plugins exist and
//! which args they take.
//!
//! A file of another form is first translated to the fields of v1. [`Configuration::resolve`] then resolves it by the
//! [`Rules`](rules::Rules) of its version.
//!
//! ```
//! use plimsoll_config::{Catalogue, Known, Point, PointSet, load};
//!
//! let catalogue = Catalogue::new(vec![
//!     Known::new("PrioritySort", PointSet::of(&[Point::QueueSort])),
//!     Known::new("TaintToleration", PointSet::of(&[Point::Filter, Point::Score])).weighing(3),
//!     Known::new("DefaultBinder", PointSet::of(&[Point::Bind])),
//! ]);
//! let text = "
//! apiVersion: kubescheduler.config.k8s.io/v1
//! kind: KubeSchedulerConfiguration
//! profiles:
//! - plugins:
//!     score:
//!       enabled: [{name: TaintToleration, weight: 5}]
//! ";
//! let configuration = load("scheduler.yaml", text, &catalogue).expect("it is valid");
//! let profile = &configuration.profiles[0];
//! assert_eq!(profile.scheduler_name, "default-scheduler");
//! assert_eq!(profile.points[&Point::Score][0].weight, 5);
//! ```
//!
//! All errors are reported at once, each with file, line and field.

mod args;
mod args_of_version;
mod assemble;
mod catalogue;
mod configuration;
mod defaults;
pub mod extenders;
mod faults;
mod foreign_gates;
mod gates;
mod multipoint;
mod names;
mod origin;
mod point_lists;
mod profile;
pub mod rules;
mod types;
mod unprepared;
mod validate;
pub mod version;
mod yaml;

pub use catalogue::{Catalogue, Known, Point, PointSet};
pub use configuration::{Configuration, load, load_with, read};
pub use defaults::DEFAULT_SCHEDULER;
pub use faults::{ConfigError, Faults};
pub use gates::{Gate, GateError, GivenGates, OldGate};
pub use multipoint::ALL;
pub use origin::{Form, Origin, Priority};
pub use plimsoll_framework::{DurationError, GoDuration};
pub use profile::{EnabledPlugin, ResolvedProfile};
pub use types::{
    Base64, ClientConnection, Extender, ExtenderTlsConfig, KubeSchedulerConfiguration,
    LeaderElection, ManagedResource, Plugin, PluginConfig, PluginSet, Plugins, Profile,
};
pub use yaml::to_yaml;
