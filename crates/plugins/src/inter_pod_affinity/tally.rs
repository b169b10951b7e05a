//! How many pods meet one rule in each domain of one topology key.

use std::sync::Arc;

use plimsoll_framework::prelude::*;

/// What it means for a domain that a pod in it meets the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rule {
    /// It meets the required affinity terms of the pod: the domain is open.
    Affinity,
    /// A required anti-affinity term of the pod speaks of it: the domain is closed.
    AntiAffinity,
    /// A required anti-affinity term of it speaks of the pod: the domain is closed.
    ExistingAntiAffinity,
}

/// The counts of one rule for one topology key.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    pub(super) rule: Rule,
    pub(super) key: Str,
    /// The values of `key`, sorted. Shared, since what-ifs copy the counts and never the values.
    values: Arc<Vec<Str>>,
    /// How many pods meet the rule, by value, each as often as it has terms that say so; never negative.
    counts: Vec<i64>,
}

impl Tally {
    /// No pod in any of the domains that `nodes` make.
    pub(super) fn new<'a>(
        (rule, key): (Rule, &Str),
        nodes: impl Iterator<Item = &'a Labels>,
    ) -> Self {
        let mut values: Vec<&Str> = nodes.filter_map(|labels| labels.get(key)).collect();
        // Stable sorts are fast on what is sorted already, as hostnames in the order of rows often are.
        values.sort();
        values.dedup();
        let values: Vec<Str> = values.into_iter().cloned().collect();
        let counts = vec![0; values.len()];
        Tally { rule, key: key.clone(), values: Arc::new(values), counts }
    }

    /// Counts one pod, or `by` = -1 discounts it, in the domain of `value`.
    pub(super) fn add(&mut self, value: &Str, by: i64) {
        match self.values.binary_search(value) {
            Ok(at) => self.counts[at] += by,
            Err(at) => {
                Arc::make_mut(&mut self.values).insert(at, value.clone());
                self.counts.insert(at, by);
            }
        }
    }

    /// Whether a pod in the domain of `value` meets the rule.
    pub(super) fn is_met_in(&self, value: &Str) -> bool {
        self.values.binary_search(value).is_ok_and(|at| 0 < self.counts[at])
    }

    /// Whether a pod in any domain meets the rule.
    pub(super) fn is_met(&self) -> bool {
        self.counts.iter().any(|count| 0 < *count)
    }
}
