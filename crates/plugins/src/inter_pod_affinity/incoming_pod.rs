//! The pod that is being scheduled, with its required terms.

use plimsoll_framework::prelude::*;
use plimsoll_framework::stores::NamespaceStore;

use super::by_domain::kept;
use super::rule_counts::AffinityRule;
use super::terms::{Incoming, all_speak_of, selects_by_labels, speaks_of};

/// The pod that is being scheduled, with its required terms.
#[derive(Debug)]
pub(super) struct IncomingPod {
    namespace: Str,
    namespace_labels: Labels,
    labels: Labels,
    affinity: Vec<AffinityTerm>,
    anti_affinity: Vec<AffinityTerm>,
    pub(super) meets_own_affinity: bool,
    /// Empty unless a term of the pod selects namespaces by their labels.
    namespaces: NamespaceStore,
}

impl IncomingPod {
    pub(super) fn new(
        (affinity, namespace, labels): (&PodAffinity, &Str, &Labels),
        namespaces: &NamespaceStore,
    ) -> Self {
        let namespace_labels = namespaces.labels(namespace);
        let incoming = Incoming { namespace, namespace_labels, labels };
        let PodAffinity { required, required_anti, .. } = affinity;
        let reads_namespaces = required.iter().chain(required_anti).any(selects_by_labels);
        IncomingPod {
            namespace: namespace.clone(),
            namespace_labels: namespace_labels.clone(),
            labels: labels.clone(),
            affinity: required.clone(),
            anti_affinity: required_anti.clone(),
            meets_own_affinity: required.iter().all(|term| incoming.is_meant_by(term)),
            namespaces: kept(namespaces, reads_namespaces),
        }
    }

    pub(super) fn has_terms(&self) -> bool {
        !self.affinity.is_empty() || !self.anti_affinity.is_empty()
    }

    /// Selectors, of which at least one selects each pod that [meets](Self::meets) a rule. For affinity a pod must match
    /// all terms, so the first is enough.
    pub(super) fn selectors(&self) -> impl Iterator<Item = &Selector> {
        self.affinity.iter().take(1).chain(&self.anti_affinity).map(|term| &term.selector)
    }

    /// The rules from the terms of the pod, with their topology keys, in the order of verdicts.
    pub(super) fn own_rules(&self) -> impl Iterator<Item = (AffinityRule, &Str)> {
        let affinity =
            self.affinity.iter().map(|term| (AffinityRule::Affinity, &term.topology_key));
        let anti =
            self.anti_affinity.iter().map(|term| (AffinityRule::AntiAffinity, &term.topology_key));
        affinity.chain(anti)
    }

    /// The rules that `other` matches, with their topology keys.
    pub(super) fn met_by<'a>(
        &'a self,
        other: Neighbour<'a>,
    ) -> impl Iterator<Item = (AffinityRule, &'a Str)> {
        self.meets(other).chain(self.is_shunned_by(other))
    }

    /// Those from the terms of the pod. As in filtering.go, updateWithAffinityTerms, a pod counts for
    /// affinity if it matches all terms, and then for each of them.
    pub(super) fn meets<'a>(
        &'a self,
        other: Neighbour<'a>,
    ) -> impl Iterator<Item = (AffinityRule, &'a Str)> {
        let wanted = all_speak_of(&self.affinity, other, &self.namespaces);
        let affinity = self.affinity.iter().filter(move |_| wanted);
        let shunned = move |term: &&AffinityTerm| speaks_of(term, other, &self.namespaces);
        let anti = self.anti_affinity.iter().filter(shunned);
        affinity
            .map(|term| (AffinityRule::Affinity, &term.topology_key))
            .chain(anti.map(|term| (AffinityRule::AntiAffinity, &term.topology_key)))
    }

    /// Those from the terms of `other`.
    pub(super) fn is_shunned_by<'a>(
        &'a self,
        other: Neighbour<'a>,
    ) -> impl Iterator<Item = (AffinityRule, &'a Str)> {
        let incoming = self.incoming();
        let terms = other.affinity.required_anti.iter();
        terms
            .filter(move |term| incoming.is_meant_by(term))
            .map(|term| (AffinityRule::ExistingAntiAffinity, &term.topology_key))
    }

    fn incoming(&self) -> Incoming<'_> {
        let IncomingPod { namespace, namespace_labels, labels, .. } = self;
        Incoming { namespace, namespace_labels, labels }
    }
}
