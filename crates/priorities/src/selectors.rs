//! Which objects select a pod, and which other pods they select.

use plimsoll_api::{Pod, SelectingKind, Selector};
use plimsoll_framework::PodSet;

use crate::Subject;

/// The selectors of the objects of these kinds that select the pod, by kind and name.
pub(crate) fn of_pod<'a>(subject: &Subject<'a>, kinds: &[SelectingKind]) -> Vec<&'a Selector> {
    let pod = subject.pod;
    let selecting = &subject.view.stores.selecting;
    let all = kinds.iter().flat_map(|&kind| selecting.of_kind(&pod.key.namespace, kind));
    let selecting_it = all.filter(|(_, selector)| selector.matches(&pod.labels));
    selecting_it.map(|(_, selector)| selector).collect()
}

/// How many of `pods` are in the namespace of `pod` and selected by any of `selectors`. Pods that are
/// being deleted do not count: often the pod is there to replace one of them.
pub(crate) fn count(pod: &Pod, pods: &PodSet, selectors: &[&Selector]) -> i64 {
    let counts = |other: &Pod| {
        other.key.namespace == pod.key.namespace
            && !other.is_terminating()
            && selectors.iter().any(|selector| selector.matches(&other.labels))
    };
    let count = pods.iter().filter(|other| counts(other)).count();
    i64::try_from(count).expect("a node holds few pods")
}
