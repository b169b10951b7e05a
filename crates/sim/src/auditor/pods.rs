//! Checks required affinity and anti-affinity between pods.

use std::collections::BTreeSet;

use plimsoll_api::{AffinityTerm, Labels, Node, Pod, PodKey, Str};

use super::ObservedCluster;

impl ObservedCluster {
    pub(super) fn near_and_far(
        &self,
        pod: &Pod,
        node: &Node,
        without: &BTreeSet<PodKey>,
    ) -> Result<(), String> {
        let others: Vec<(&Pod, &Node)> = self
            .placed()
            .filter(|(other, _)| other.key != pod.key && !without.contains(&other.key))
            .filter_map(|(other, on)| Some((other, self.nodes.get(on)?)))
            .collect();
        for (other, on) in &others {
            let own = pod
                .affinity
                .required_anti
                .iter()
                .any(|term| self.speaks_of(term, other) && together(term, node, on));
            let its = other
                .affinity
                .required_anti
                .iter()
                .any(|term| self.speaks_of(term, pod) && together(term, node, on));
            if own || its {
                return Err(format!("{} on {} must not be near", other.key, on.name));
            }
        }
        self.near(pod, node, &others)
    }

    /// For each term the domain of the node must have a pod that all terms match. If there is no such
    /// pod in the cluster, it is enough that the pod itself matches all terms.
    fn near(&self, pod: &Pod, node: &Node, others: &[(&Pod, &Node)]) -> Result<(), String> {
        let terms = &pod.affinity.required;
        let all_speak_of = |other: &Pod| terms.iter().all(|term| self.speaks_of(term, other));
        let wanted: Vec<_> = others.iter().filter(|(other, _)| all_speak_of(other)).collect();
        for term in terms {
            let key = &term.topology_key;
            if !node.labels.contains_key(key) {
                return Err(format!("the node has no {key}"));
            }
            let met = wanted.iter().any(|(_, on)| together(term, node, on));
            // A pod counts where its node has the key of some term.
            let any = wanted
                .iter()
                .any(|(_, on)| terms.iter().any(|term| on.labels.contains_key(&term.topology_key)));
            if !met && (any || !all_speak_of(pod)) {
                return Err(format!("no pod that it must be near is in this {key}"));
            }
        }
        Ok(())
    }

    pub(super) fn speaks_of(&self, term: &AffinityTerm, pod: &Pod) -> bool {
        let namespace: &Str = &pod.key.namespace;
        let none = Labels::empty();
        let labels = self.namespaces.get(namespace).unwrap_or(&none);
        let there = term.namespaces.contains(namespace) || term.namespace_selector.matches(labels);
        there && term.selector.matches(&pod.labels)
    }
}

/// Whether two nodes are in one domain.
pub(super) fn together(term: &AffinityTerm, one: &Node, other: &Node) -> bool {
    let domain = |node: &Node| node.labels.get(&term.topology_key).cloned();
    domain(one).is_some() && domain(one) == domain(other)
}
