//! How much of the nodes is used.

use std::collections::BTreeMap;

use plimsoll_api::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS};
use plimsoll_api::{Resources, Str};
use plimsoll_framework::View;

/// How much of each resource the nodes have, and how much the pods on them request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Utilisation {
    allocatable: Resources,
    requested: Resources,
}

impl Utilisation {
    /// The current utilisation of the cluster.
    pub fn of(view: View<'_>) -> Self {
        let mut utilisation = Utilisation::default();
        for row in view.nodes.rows() {
            utilisation.allocatable.add(&view.nodes.node(row).allocatable);
            utilisation.requested.add(view.nodes.requested_of(row));
            let pods = i64::try_from(view.nodes.pods_on(row).len()).unwrap_or(i64::MAX);
            utilisation.requested.pods += pods;
        }
        utilisation
    }

    /// The resources that nodes have or pods request: first those that every node has, then the others by name.
    pub fn resources(&self) -> Vec<Str> {
        let has = |name: &&str| self.allocatable.get(name) != 0 || self.requested.get(name) != 0;
        let common = [CPU, MEMORY, EPHEMERAL_STORAGE, PODS].into_iter().filter(has).map(Str::from);
        let mut others: Vec<Str> = self.allocatable.scalar.keys().cloned().collect();
        others.extend(self.requested.scalar.keys().cloned());
        others.sort();
        others.dedup();
        others.retain(|name| has(&name.as_str()));
        common.chain(others).collect()
    }

    /// How much of a resource there is.
    pub fn allocatable(&self, resource: &str) -> i64 {
        self.allocatable.get(resource)
    }

    /// How much of it pods request.
    pub fn requested(&self, resource: &str) -> i64 {
        self.requested.get(resource)
    }

    /// The share of each resource that pods request.
    pub fn shares(&self) -> BTreeMap<Str, f64> {
        let share = |name: &Str| {
            let (uses, has) = (self.requested(name), self.allocatable(name));
            #[expect(clippy::cast_precision_loss, reason = "it is a share")]
            let share = if has == 0 { 0.0 } else { uses as f64 / has as f64 };
            // More digits would say nothing.
            (share * 10_000.0).round() / 10_000.0
        };
        self.resources().into_iter().map(|name| (name.clone(), share(&name))).collect()
    }
}
