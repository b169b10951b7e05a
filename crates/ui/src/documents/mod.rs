//! The documents of the page: plain structs, each made from a [`Picture`](crate::Picture) or [`Counts`](crate::Counts).

mod configuration;
mod devices;
mod groups;
mod instance;
mod nodes;
mod overview;
mod pods;
mod shadow;

pub use self::configuration::{Difference, SeenConfiguration, differences};
pub(crate) use self::devices::devices;
pub(crate) use self::groups::groups;
pub(crate) use self::instance::instance;
pub(crate) use self::nodes::{node, nodes};
pub(crate) use self::overview::overview;
pub(crate) use self::pods::{pod, pods};
pub use self::shadow::{part_of_report, report_namespaces};
