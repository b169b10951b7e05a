//! Matches terms with pods.

use plimsoll_framework::prelude::*;
use plimsoll_framework::stores::NamespaceStore;

/// Whether `term` matches `pod`. Most terms name their namespaces, so the labels of the pod's namespace
/// are looked up only for those that select by them.
///
/// An unknown namespace counts as one without labels. In plugin.go,
/// mergeAffinityTermNamespacesIfNotEmpty, only a selector of everything matches it; but no pod is in a
/// namespace that does not exist.
pub(super) fn speaks_of(
    term: &AffinityTerm,
    pod: Neighbour<'_>,
    namespaces: &NamespaceStore,
) -> bool {
    static UNREAD: Labels = Labels::empty();
    let namespace = pod.namespace;
    let namespace_labels =
        if selects_by_labels(term) { namespaces.labels(namespace) } else { &UNREAD };
    term.matches(namespace, namespace_labels, pod.labels)
}

/// Whether there are terms and all of them match `pod`.
pub(super) fn all_speak_of(
    terms: &[AffinityTerm],
    pod: Neighbour<'_>,
    namespaces: &NamespaceStore,
) -> bool {
    !terms.is_empty() && terms.iter().all(|term| speaks_of(term, pod, namespaces))
}

/// Whether the term selects namespaces by their labels.
pub(super) fn selects_by_labels(term: &AffinityTerm) -> bool {
    term.namespace_selector != Selector::Nothing && !term.namespace_selector.is_everything()
}

/// The pod that is being scheduled, with the fields that terms read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Incoming<'a> {
    pub(super) namespace: &'a Str,
    pub(super) namespace_labels: &'a Labels,
    pub(super) labels: &'a Labels,
}

impl Incoming<'_> {
    /// Whether `term` matches the pod.
    pub(super) fn is_meant_by(self, term: &AffinityTerm) -> bool {
        term.matches(self.namespace, self.namespace_labels, self.labels)
    }
}
