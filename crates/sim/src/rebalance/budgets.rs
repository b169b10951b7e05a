//! What PodDisruptionBudgets allow.

use std::sync::Arc;

use plimsoll_api::{Pod, PodDisruptionBudget};
use plimsoll_framework::View;
use serde::Serialize;

/// A budget that a plan uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UsedBudget {
    /// The budget, as `namespace/name`.
    pub budget: String,
    /// How many evictions it allows now.
    pub allowed: usize,
    /// How many there are.
    pub used: usize,
}

/// The budgets, with the evictions so far. As if no pod that was moved were ready again: the whole plan fits into what they
/// allow now.
#[derive(Clone, Debug)]
pub(super) struct Budgets(Vec<(Arc<PodDisruptionBudget>, usize)>);

impl Budgets {
    pub(super) fn of(view: View<'_>) -> Self {
        let budgets = view.stores.of::<PodDisruptionBudget>().iter();
        Budgets(budgets.map(|budget| (budget.clone(), 0)).collect())
    }

    /// Counts the eviction of a pod, and returns whether the budgets allow it. As in eviction.go, a pod with more than one
    /// budget cannot be evicted.
    pub(super) fn take(&mut self, pod: &Pod) -> bool {
        let mut protecting = self.0.iter_mut().filter(|(budget, _)| {
            budget.key.namespace == pod.key.namespace && budget.selector.matches(&pod.labels)
        });
        match (protecting.next(), protecting.next()) {
            (None, _) => true,
            (Some((budget, used)), None) if *used < allowed(budget) => {
                *used += 1;
                true
            }
            _ => false,
        }
    }

    /// The budgets that are used, by name.
    pub(super) fn used(self) -> Vec<UsedBudget> {
        let used = self.0.into_iter().filter(|(_, used)| 0 < *used).map(|(budget, used)| {
            UsedBudget { budget: budget.key.to_string(), allowed: allowed(&budget), used }
        });
        used.collect()
    }
}

fn allowed(budget: &PodDisruptionBudget) -> usize {
    usize::try_from(budget.disruptions_allowed).unwrap_or(0)
}
