//! When to try a rejected pod again.

use plimsoll_framework::events::Object;
use plimsoll_framework::prelude::*;
use plimsoll_framework::stores::NamespaceStore;

use super::InterPodAffinity;
use super::terms::{all_speak_of, speaks_of};

/// Unlike in plugin.go, isSchedulableAfterPodChange and isSchedulableAfterNodeChange, no change that
/// may help is ignored. There, a pod is not woken if a node is added for which only terms of other pods
/// matter, if a node is deleted, if one of several anti-affinity terms no longer applies, if the pod
/// may now be the first that its terms match, or if the labels of a namespace change.
impl Requeue for InterPodAffinity {
    fn events(&self) -> Vec<ClusterEvent> {
        let pod = Action::ADD | Action::UPDATE_POD_LABEL | Action::DELETE;
        let node = Action::ADD | Action::UPDATE_NODE_LABEL | Action::DELETE;
        vec![
            ClusterEvent::of::<Pod>(pod),
            ClusterEvent::of::<Node>(node),
            ClusterEvent::of::<Namespace>(Action::all()),
        ]
    }

    fn hint(&self, pod: &PodInfo, change: &Change<'_>) -> Hint {
        let namespaces = change.view.stores.of();
        let helps = match change.object {
            Object::Node { before, after: Some(row) } => {
                let after = &change.view.nodes.node(row).labels;
                match before {
                    Some(before) => helps_as_node(pod, change.view, &before.labels, after),
                    None => helps_as_new_node(&pod.affinity, after),
                }
            }
            Object::Assigned { before, after, .. } => helps_as_pod(pod, before, after, namespaces),
            // The pods that went with a node may have been what kept the pod off a whole domain. Of the
            // pod itself only its labels are listened to: terms may speak of it no longer.
            Object::Node { after: None, .. } | Object::Itself { .. } | Object::Other(_) => true,
        };
        if helps { Hint::Queue } else { Hint::Skip }
    }
}

fn helps_as_pod(
    pod: &Pod,
    before: Option<&PodInfo>,
    after: Option<&PodInfo>,
    namespaces: &NamespaceStore,
) -> bool {
    let own = &pod.affinity;
    let wanted = |other: &Pod| all_speak_of(&own.required, other.into(), namespaces);
    let was_wanted = before.is_some_and(|other| wanted(other));
    let is_wanted = after.is_some_and(|other| wanted(other));
    // If the last pod that the terms match is gone, a pod that matches its own terms may be the first.
    let is_first = was_wanted && !is_wanted && wanted(pod);
    let shunned_no_more = own.required_anti.iter().any(|term| {
        let meant = |other: &PodInfo| speaks_of(term, Neighbour::from(&**other), namespaces);
        before.is_some_and(meant) && !after.is_some_and(meant)
    });
    let shuns_no_more = after.is_none()
        && before.is_some_and(|other| {
            other.affinity.required_anti.iter().any(|term| speaks_of(term, pod.into(), namespaces))
        });
    (!was_wanted && is_wanted) || is_first || shunned_no_more || shuns_no_more
}

/// A new node may be in a domain without pods that anti-affinity excludes. Affinity needs its topology
/// label.
fn helps_as_new_node(own: &PodAffinity, labels: &Labels) -> bool {
    let has_domain = |term: &AffinityTerm| labels.contains_key(&term.topology_key);
    own.required.is_empty() || !own.required_anti.is_empty() || own.required.iter().any(has_domain)
}

/// A node that enters a domain may help affinity. One that leaves its domain may help anti-affinity,
/// and a pod that may be the first that its terms match.
fn helps_as_node(pod: &Pod, view: View<'_>, before: &Labels, after: &Labels) -> bool {
    let (own, namespaces) = (&pod.affinity, view.stores.of::<Namespace>());
    let moved = |term: &AffinityTerm| {
        let key = &term.topology_key;
        before.get(key) != after.get(key)
    };
    let came = |term: &AffinityTerm| moved(term) && after.contains_key(&term.topology_key);
    let left = |term: &AffinityTerm| moved(term) && before.contains_key(&term.topology_key);
    let is_first =
        || all_speak_of(&own.required, pod.into(), namespaces) && own.required.iter().any(left);
    let of_others = || {
        let mut others = view.nodes.rows().flat_map(|row| {
            let others = view.nodes.pods_on(row).with_required_anti_affinity();
            others.iter().flat_map(|other| &other.affinity.required_anti)
        });
        others.any(|term| left(term) && speaks_of(term, pod.into(), namespaces))
    };
    own.required.iter().any(came) || own.required_anti.iter().any(left) || is_first() || of_others()
}
