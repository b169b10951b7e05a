//! How kube-scheduler ranked nodes before 1.17: priorities that give 0 to 10 whole points.
//!
//! A [`Priority`] works in two steps. The map step gives every feasible node a [`Raw`] value, such as a
//! count of pods; the reduce step turns all raw values together into [`Points`]. A [`Ranking`] adds up
//! the points times the weights of the priorities, and the nodes with the highest total are the best.
//!
//! Priorities come from [`defaults`], which are those of a release, from [`of_policy`], which are those
//! of a policy, or from [`of_plugins`], which maps the score plugins of a profile back to priorities.
//! [`predicates`] has the names that filters had then.
//!
//! If releases differ, an [`OldRelease`] selects the formula; the docs of each priority describe the
//! differences. Each module has one priority.

pub mod balanced_resource_allocation;
mod defaults;
pub mod equal;
pub mod even_pods_spread;
mod float;
pub mod image_locality;
pub mod inter_pod_affinity;
pub mod least_requested;
pub mod most_requested;
pub mod node_affinity;
pub mod node_label;
pub mod node_prefer_avoid_pods;
mod policy;
pub mod predicates;
pub mod profile;
mod ranking;
mod release;
pub mod requested_to_capacity_ratio;
pub mod resource_limits;
pub mod room;
pub mod selector_spread;
mod selectors;
pub mod service_anti_affinity;
pub mod share;
mod subject;
pub mod taint_toleration;

use std::fmt::Debug;

pub use defaults::defaults;
pub use policy::{Entry, of_policy};
pub use profile::{ArgsError, Mapped, of_plugins};
pub use ranking::{Priorities, Ranking, Standing};
pub use release::OldRelease;
pub use subject::Subject;

/// The most points that a priority gives a node.
pub const MAX_PRIORITY: i64 = 10;

/// The result of the map step for one node. Its unit and range depend on the priority. Without a reduce
/// step it is the points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Raw(pub i64);

/// The points of a node before the weight of the priority: 0 to [`MAX_PRIORITY`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Points(pub i64);

/// A way to rank nodes.
pub trait Priority: Debug + Send + Sync {
    /// The raw value of every feasible node, in their order.
    fn map(&self, subject: &Subject<'_>) -> Vec<Raw>;

    /// The points of every feasible node, in their order. `raw` is the result of the map step; without
    /// a reduce step these are the points.
    fn reduce(&self, subject: &Subject<'_>, raw: &[Raw]) -> Vec<Points> {
        let _ = subject;
        raw.iter().map(|raw| Points(raw.0)).collect()
    }
}

/// A priority with its name and weight.
#[derive(Debug)]
pub struct Weighted {
    /// Its name in policies; a priority about a label has that label in parentheses.
    pub name: String,
    /// The factor for its points.
    pub weight: i64,
    /// How it ranks.
    pub priority: Box<dyn Priority>,
}

impl Weighted {
    /// A priority under its own name.
    pub fn new(name: impl Into<String>, weight: i64, priority: impl Priority + 'static) -> Self {
        Weighted { name: name.into(), weight, priority: Box::new(priority) }
    }
}

#[cfg(test)]
mod testing;
