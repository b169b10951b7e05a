//! Affinity and anti-affinity between pods.

use serde::{Deserialize, Serialize};

use crate::{Labels, Selector, Str};

/// Which other pods a rule matches, and in which topology domain.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AffinityTerm {
    /// The other pods, by their labels; `matchLabelKeys` and `mismatchLabelKeys` are merged in.
    pub selector: Selector,
    /// Namespaces by name, sorted. The pod's own where the term names and selects none.
    pub namespaces: Vec<Str>,
    /// Namespaces by label; [`Selector::Nothing`] where the term does not select any.
    pub namespace_selector: Selector,
    /// The node label whose value makes a topology domain.
    pub topology_key: Str,
}

impl AffinityTerm {
    /// Whether the term matches a pod in `namespace` (with `namespace_labels`) with `labels`.
    pub fn matches(&self, namespace: &str, namespace_labels: &Labels, labels: &Labels) -> bool {
        let in_namespace = self.namespaces.iter().any(|name| name == namespace)
            || self.namespace_selector.matches(namespace_labels);
        in_namespace && self.selector.matches(labels)
    }
}

/// A preferred term and its weight, 1 to 100.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WeightedTerm {
    /// How much a match adds (or, for anti-affinity, takes away).
    pub weight: i32,
    /// What is preferred.
    pub term: AffinityTerm,
}

/// All affinity and anti-affinity terms of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PodAffinity {
    /// The domain of the node must satisfy each of these.
    pub required: Vec<AffinityTerm>,
    /// Each one that is satisfied counts for the node.
    pub preferred: Vec<WeightedTerm>,
    /// The domain of the node must satisfy none of these.
    pub required_anti: Vec<AffinityTerm>,
    /// Each one that is satisfied counts against the node.
    pub preferred_anti: Vec<WeightedTerm>,
}

impl PodAffinity {
    /// Whether the pod has no term at all.
    pub fn is_empty(&self) -> bool {
        self.required.is_empty()
            && self.preferred.is_empty()
            && self.required_anti.is_empty()
            && self.preferred_anti.is_empty()
    }
}
