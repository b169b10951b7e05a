//! Random objects related to pods: Services, controllers and disruption budgets.

use std::time::Duration;

use plimsoll_api::{
    AnyObject, ObjectKey, Pod, PodDisruptionBudget, Requirement, SelectingKind, Selector,
};
use plimsoll_framework::Time;
use rand::RngExt;

use super::pods::APPS;
use super::{BEGINNING, Maker, NAMESPACES};
use crate::lifecycle;

const KINDS: [SelectingKind; 4] = [
    SelectingKind::Service,
    SelectingKind::ReplicationController,
    SelectingKind::ReplicaSet,
    SelectingKind::StatefulSet,
];

impl Maker {
    /// Services and controllers, where pods have owners.
    pub(super) fn selecting(&mut self) -> Vec<AnyObject> {
        let mut all = Vec::new();
        if !self.has(self.traits.owners) {
            return all;
        }
        for kind in KINDS {
            let ((namespace, _), app) = (self.pick(&NAMESPACES), self.pick(&APPS));
            let selector = match self.rng.random_range(0..4) {
                0 => Selector::Nothing,
                _ => Selector::All(vec![Requirement::equals("app", app)]),
            };
            all.push(kind.object(ObjectKey::new(namespace, app), selector));
        }
        all
    }

    /// Budgets, of which some allow nothing and some are already used up for a pod.
    pub(super) fn budgets(&mut self) -> Vec<AnyObject> {
        let mut all = Vec::new();
        for number in 0..self.rng.random_range(0..3) {
            let (namespace, _) = self.pick(&NAMESPACES);
            let disrupted = Self::key(self.some_pod()).name;
            all.push(AnyObject::new(PodDisruptionBudget {
                key: ObjectKey::new(namespace, format!("b{number}")),
                selector: self.pods_selector(),
                disruptions_allowed: self.rng.random_range(0..=2),
                disrupted_pods: if self.once_in(3) { vec![disrupted] } else { vec![] },
            }));
        }
        all
    }

    /// A pod in a state that a starting scheduler may find: nominated to a node, and being deleted.
    pub(super) fn as_found(&mut self, pod: Pod) -> Pod {
        let span = Duration::from_secs(self.rng.random_range(1..=60));
        let is_going = pod.nominated_node.is_some() && self.once_in(3);
        let deletion = is_going.then(|| lifecycle::timestamp(Time::from_millis(BEGINNING) + span));
        Pod { deletion: deletion.flatten(), ..pod }
    }
}
