//! When a rejected pod is worth another attempt.

use plimsoll_framework::events::Object;
use plimsoll_framework::prelude::*;
use plimsoll_framework::stores::NamespaceStore;

use super::InterPodAffinity;
use super::terms::all_speak_of;

impl Requeue for InterPodAffinity {
    fn events(&self) -> Vec<ClusterEvent> {
        let pod = Action::ADD | Action::UPDATE_POD_LABEL | Action::DELETE;
        let node = Action::ADD | Action::UPDATE_NODE_LABEL;
        vec![ClusterEvent::new(Resource::Pod, pod), ClusterEvent::new(Resource::Node, node)]
    }

    fn hint(&self, pod: &PodInfo, change: &Change<'_>) -> Hint {
        let helps = match change.object {
            Object::Node { after: None, .. } => false,
            Object::Node { before, after: Some(row) } => {
                let before = before.map(|node| &node.labels);
                helps_as_node(&pod.affinity, before, &change.view.nodes.node(row).labels)
            }
            Object::Assigned { before, after, .. } => helps_as_pod(pod, before, after),
            // Only its labels are listened to: terms of others may speak of it no longer.
            Object::Itself { .. } | Object::Volume(_) | Object::Other => true,
        };
        if helps { Hint::Queue } else { Hint::Skip }
    }
}

/// As in plugin.go, isSchedulableAfterPodChange. There, too, a pod must meet *all* anti-affinity terms
/// for its end to matter, and terms are asked without the labels of namespaces.
fn helps_as_pod(pod: &Pod, before: Option<&PodInfo>, after: Option<&PodInfo>) -> bool {
    let wanted = |other: &Pod| speak_of(&pod.affinity.required, other);
    let shunned = |other: &Pod| speak_of(&pod.affinity.required_anti, other);
    match (before, after) {
        (Some(before), Some(after)) => {
            (!wanted(before) && wanted(after)) || (shunned(before) && !shunned(after))
        }
        (None, Some(after)) => wanted(after),
        (Some(before), None) => shunned(before) || speak_of(&before.affinity.required_anti, pod),
        (None, None) => false,
    }
}

fn speak_of(terms: &[AffinityTerm], pod: &Pod) -> bool {
    all_speak_of(terms, pod, &NamespaceStore::default())
}

/// As in plugin.go, isSchedulableAfterNodeChange: a node that has come to another domain may help any
/// term; one that has come to a domain only affinity, one that has left its domain only anti-affinity.
/// A new node without the label is no use to affinity, but free of anti-affinity.
fn helps_as_node(affinity: &PodAffinity, before: Option<&Labels>, after: &Labels) -> bool {
    let came = |term: &AffinityTerm| {
        let key = &term.topology_key;
        let domain = after.get(key);
        domain.is_some() && before.is_none_or(|before| before.get(key) != domain)
    };
    let left = |term: &AffinityTerm| {
        let key = &term.topology_key;
        before.is_none_or(|before| before.contains_key(key) && before.get(key) != after.get(key))
    };
    affinity.required.iter().any(came) || affinity.required_anti.iter().any(left)
}
