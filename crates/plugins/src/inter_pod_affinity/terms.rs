//! Whom a term speaks of.

use plimsoll_framework::prelude::*;
use plimsoll_framework::stores::NamespaceStore;

/// Whether `term` speaks of `pod`. Most terms name their namespaces, so the labels of the pod's
/// namespace are looked up only for those that select by them.
///
/// A namespace that is not known counts as one without labels. In plugin.go,
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

/// Whether there are terms and all of them speak of `pod`.
pub(super) fn all_speak_of(
    terms: &[AffinityTerm],
    pod: Neighbour<'_>,
    namespaces: &NamespaceStore,
) -> bool {
    !terms.is_empty() && terms.iter().all(|term| speaks_of(term, pod, namespaces))
}

/// Whether the labels of a namespace decide whether the term speaks of pods in it.
pub(super) fn selects_by_labels(term: &AffinityTerm) -> bool {
    term.namespace_selector != Selector::Nothing && !term.namespace_selector.is_everything()
}

/// The pod that is being scheduled, as terms look at it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Incoming<'a> {
    pub(super) namespace: &'a Str,
    pub(super) namespace_labels: &'a Labels,
    pub(super) labels: &'a Labels,
}

impl Incoming<'_> {
    /// Whether `term` speaks of the pod.
    pub(super) fn is_meant_by(self, term: &AffinityTerm) -> bool {
        term.matches(self.namespace, self.namespace_labels, self.labels)
    }
}
