//! NodePreferAvoidPodsPriority: nodes without an annotation that asks to avoid the pod.

use plimsoll_api::{Controller, Node};

use crate::priorities::{MAX_PRIORITY, Priority, Raw, Subject};

/// The controllers that a node can name.
const KINDS: [&str; 2] = ["ReplicationController", "ReplicaSet"];

/// Gives 0 to nodes whose annotation `scheduler.alpha.kubernetes.io/preferAvoidPods` names the pod's
/// ReplicationController or ReplicaSet, by kind and uid, and 10 to all others. There is no reduce step.
/// The same from 1.3 to 1.16. Its weight of 10000 exceeds the sum of all other priorities.
#[derive(Clone, Copy, Debug)]
pub struct NodePreferAvoidPods;

impl Priority for NodePreferAvoidPods {
    /// As in node_prefer_avoid_pods.go, CalculateNodePreferAvoidPodsPriorityMap.
    fn map(&self, subject: &Subject<'_>) -> Vec<Raw> {
        let named = subject.pod.controller.as_ref();
        let controller = named.filter(|controller| KINDS.contains(&controller.kind.as_str()));
        let raw = subject.nodes().map(|node| match controller {
            Some(controller) if avoids(node, controller) => Raw(0),
            _ => Raw(MAX_PRIORITY),
        });
        raw.collect()
    }
}

fn avoids(node: &Node, controller: &Controller) -> bool {
    node.avoided.iter().any(|one| one.kind == controller.kind && one.uid == controller.uid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::priorities::testing::{check, expect};

    const NODES: &str = r#"
        node a
        node b {"annotations": {"scheduler.alpha.kubernetes.io/preferAvoidPods":
            "{\"preferAvoidPods\": [{\"podSignature\": {\"podController\":
                {\"kind\": \"ReplicaSet\", \"uid\": \"u1\"}}}]}"}}
        node c {"annotations": {"scheduler.alpha.kubernetes.io/preferAvoidPods":
            "{\"preferAvoidPods\": [{\"podSignature\": {\"podController\":
                {\"kind\": \"StatefulSet\", \"uid\": \"u1\"}}}]}"}}
        "#;

    fn owned_by(kind: &str) -> String {
        let owner = format!(
            r#"{{"apiVersion": "v1", "kind": "{kind}", "name": "x", "uid": "u1", "controller": true}}"#
        );
        format!("{NODES}\npod p {{\"metadata\": {{\"ownerReferences\": [{owner}]}}}}")
    }

    #[test]
    fn a_node_that_names_the_controller_gets_nothing() {
        check(
            &NodePreferAvoidPods,
            &owned_by("ReplicaSet"),
            &expect![[r#"
                a raw 10, 10 points
                b raw 0, 0 points
                c raw 10, 10 points
            "#]],
        );
    }

    #[test]
    fn other_controllers_are_not_avoided() {
        check(
            &NodePreferAvoidPods,
            &owned_by("StatefulSet"),
            &expect![[r#"
                a raw 10, 10 points
                b raw 10, 10 points
                c raw 10, 10 points
            "#]],
        );
    }
}
