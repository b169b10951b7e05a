//! How many pods match one rule in each domain of one topology key.

use std::sync::Arc;

use plimsoll_framework::prelude::*;

/// What a pod that matches the rule means for its domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum AffinityRule {
    /// The required affinity terms of the pod match it: the domain is open.
    Affinity,
    /// A required anti-affinity term of the pod matches it: the domain is closed.
    AntiAffinity,
    /// Its required anti-affinity term matches the pod: the domain is closed.
    ExistingAntiAffinity,
}

/// The counts of one rule for one topology key.
#[derive(Clone, Debug)]
pub(super) struct RuleCounts {
    pub(super) rule: AffinityRule,
    pub(super) key: Str,
    /// The values of `key`, sorted. Shared, since dry runs copy the counts but never the values.
    values: Arc<Vec<Str>>,
    /// How many pods match the rule, by value; each counts as often as it has matching terms. Never
    /// negative.
    counts: Vec<i64>,
}

impl RuleCounts {
    /// Counts without pods, with the domains of `nodes`.
    pub(super) fn new<'a>(
        (rule, key): (AffinityRule, &Str),
        nodes: impl Iterator<Item = &'a Labels>,
    ) -> Self {
        let mut values: Vec<&Str> = nodes.filter_map(|labels| labels.get(key)).collect();
        // A stable sort is fast on sorted input, as host names in the order of rows often are.
        values.sort();
        values.dedup();
        let values: Vec<Str> = values.into_iter().cloned().collect();
        let counts = vec![0; values.len()];
        RuleCounts { rule, key: key.clone(), values: Arc::new(values), counts }
    }

    /// Adds a pod in the domain of `value`, or removes it with `by` = -1.
    pub(super) fn add(&mut self, value: &Str, by: i64) {
        match self.values.binary_search(value) {
            Ok(at) => self.counts[at] += by,
            Err(at) => {
                Arc::make_mut(&mut self.values).insert(at, value.clone());
                self.counts.insert(at, by);
            }
        }
    }

    /// Whether a pod in the domain of `value` matches the rule.
    pub(super) fn is_met_in(&self, value: &Str) -> bool {
        self.values.binary_search(value).is_ok_and(|at| 0 < self.counts[at])
    }

    /// Whether a pod in any domain matches the rule.
    pub(super) fn is_met(&self) -> bool {
        self.counts.iter().any(|count| 0 < *count)
    }
}
