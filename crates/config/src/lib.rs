//! KubeSchedulerConfiguration: from a file to the profiles the scheduler runs.
//!
//! [`load`] reads a configuration of version `kubescheduler.config.k8s.io/v1` or of any version before it, fills in
//! every default, merges each profile's plugin sets with the default ones as the release of that version did, and
//! validates the result. [`Configuration::migrate`] converts any of them to a file of v1. A [`Catalogue`] says which
//! plugins exist and which args they take.
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
mod extenders;
mod faults;
mod foreign_gates;
mod gates;
mod legacy;
mod migrate;
mod multipoint;
mod names;
mod origin;
mod profile;
mod rules;
mod types;
mod unprepared;
mod validate;
mod version;

pub use catalogue::{Catalogue, Known, Point, PointSet};
pub use configuration::{Configuration, PolicyPlace, load, load_beside_policy, policy_place};
pub use faults::ConfigError;
pub use gates::{Gate, GateError, GivenGates};
pub use legacy::policy::{load_config_map, load_policy};
pub use legacy::{OldGate, Provider, ProviderError};
pub use migrate::{Migration, Note, to_yaml};
pub use origin::{Form, Origin, Priority};
pub use plimsoll_framework::{DurationError, GoDuration};
pub use profile::{EnabledPlugin, ResolvedProfile};
pub use types::{
    Base64, ClientConnection, Extender, ExtenderTlsConfig, KubeSchedulerConfiguration,
    LeaderElection, ManagedResource, Plugin, PluginConfig, PluginSet, Plugins, Profile,
};
