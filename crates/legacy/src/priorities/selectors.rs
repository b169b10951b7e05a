//! Which objects select a pod, and which other pods they select.

use plimsoll_api::{Pod, SelectingKind, Selector};
use plimsoll_framework::PodSet;

use crate::priorities::Subject;

/// Which pods count, by the selectors that match them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Matched {
    /// Those that each selector matches. As in selector_spreading.go of 1.13 and later, countMatchingPods.
    ByAll,
    /// Those that some selector matches. As in selector_spreading.go of 1.5, CalculateSpreadPriority.
    ByAny,
}

/// How pods that are being deleted count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// They do not count: often the pod to place replaces one of them.
    Aside,
    /// They count like the others.
    Counted,
}

/// The selectors of the objects of these kinds that select the pod, by kind and name. As in listers.go,
/// GetPodReplicaSets, which handles every kind in the same way: an empty selector selects no pod, and
/// no selector selects a pod without labels.
pub(crate) fn of_pod<'a>(subject: &Subject<'a>, kinds: &[SelectingKind]) -> Vec<&'a Selector> {
    let pod = subject.pod;
    if pod.labels.is_empty() {
        return Vec::new();
    }
    let objects = plimsoll_framework::SelectingStore::of(subject.view.stores);
    let of_kind = |&kind| objects.selecting(&pod.key.namespace, kind, &pod.labels);
    let all = kinds.iter().flat_map(of_kind).map(|(_, selector)| selector);
    all.filter(|selector| !selector.is_everything()).collect()
}

/// How many of `pods` are in the namespace of `pod` and matched by `selectors`; none where there are no
/// selectors.
pub(crate) fn count(
    pod: &Pod,
    pods: &PodSet,
    selectors: &[&Selector],
    matched: Matched,
    leaving: Leaving,
) -> i64 {
    if selectors.is_empty() {
        return 0;
    }
    let is_matched = |other: &Pod| {
        let mut each = selectors.iter().map(|selector| selector.matches(&other.labels));
        match matched {
            Matched::ByAll => each.all(|matches| matches),
            Matched::ByAny => each.any(|matches| matches),
        }
    };
    let counts = |other: &Pod| {
        other.key.namespace == pod.key.namespace
            && (leaving == Leaving::Counted || !other.is_terminating())
            && is_matched(other)
    };
    let count = pods.iter().filter(|other| counts(other)).count();
    i64::try_from(count).expect("a node holds few pods")
}
