//! Which pods a controller adds or deletes when it is scaled.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use plimsoll_api::{ObjectKey, Pod, PodPhase, Str};

const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Whether `controller` makes this pod. A Deployment makes the pods of ReplicaSets that have its name and a hash.
pub(super) fn is_of(pod: &Pod, controller: &ObjectKey) -> bool {
    let Some(own) = pod.controller.as_ref() else { return false };
    let of_deployment = || {
        let hash = own.name.strip_prefix(controller.name.as_str())?.strip_prefix('-')?;
        Some(own.kind == "ReplicaSet" && !hash.is_empty() && !hash.contains('-'))
    };
    pod.key.namespace == controller.namespace
        && (own.name == controller.name || of_deployment() == Some(true))
}

/// The pods that are deleted first, if `n` of them are. As in replica_set.go, getPodsToDelete and controller_utils.go,
/// ActivePodsWithRanks: pods without a node, those that do not run yet, those with a lower deletion cost, those on nodes
/// with more of them, and the newest. A StatefulSet deletes those with the highest numbers.
pub(super) fn to_delete(mut pods: Vec<&Pod>, n: usize) -> Vec<ObjectKey> {
    let is_stateful =
        |pod: &&Pod| pod.controller.as_ref().is_some_and(|one| one.kind == "StatefulSet");
    if pods.iter().all(is_stateful) {
        pods.sort_by_key(|pod| Reverse(ordinal(pod)));
    } else {
        let mut on_node: BTreeMap<&Str, usize> = BTreeMap::new();
        for node in pods.iter().filter_map(|pod| pod.node_name.as_ref()) {
            *on_node.entry(node).or_default() += 1;
        }
        pods.sort_by_key(|pod| {
            let together = pod.node_name.as_ref().and_then(|node| on_node.get(node)).copied();
            let cost = pod.annotations.get(DELETION_COST).and_then(|cost| cost.parse().ok());
            (
                pod.node_name.is_some(),
                pod.phase != PodPhase::Pending,
                cost.unwrap_or(0_i32),
                Reverse(together),
                Reverse(pod.created),
                pod.key.clone(),
            )
        });
    }
    pods.into_iter().take(n).map(|pod| pod.key.clone()).collect()
}

/// The number at the end of the name of a pod of a StatefulSet.
fn ordinal(pod: &Pod) -> Option<u64> {
    pod.key.name.rsplit_once('-')?.1.parse().ok()
}

/// `n` more pods like `model`, whose names are not taken. Those of a StatefulSet are numbered.
pub(super) fn more(model: &Pod, n: usize, is_taken: impl Fn(&ObjectKey) -> bool) -> Vec<Pod> {
    let controller = model.controller.as_ref();
    let base = controller.map_or_else(|| model.key.name.clone(), |one| one.name.clone());
    let is_stateful = controller.is_some_and(|one| one.kind == "StatefulSet");
    let names = (0..).map(|number: u64| match is_stateful {
        true => format!("{base}-{number}"),
        false => format!("{base}-new{}", number + 1),
    });
    let keys = names.map(|name| ObjectKey::new(model.key.namespace.clone(), name));
    let new = keys.filter(|key| !is_taken(key)).take(n).map(|key| Pod {
        uid: format!("{}-new", key.name).into(),
        key,
        created: None,
        deletion: None,
        started: None,
        phase: PodPhase::Pending,
        preempted: false,
        node_name: None,
        nominated_node: None,
        devices: None,
        ..model.clone()
    });
    new.collect()
}

#[cfg(test)]
mod tests {
    use plimsoll_api::Controller;

    use super::*;

    fn pod(kind: &str, controller: &str, name: &str, node: Option<&str>) -> Pod {
        let mut pod = Pod { key: ObjectKey::new("a", name), ..Pod::default() };
        pod.controller = Some(Controller {
            api_version: "apps/v1".into(),
            kind: kind.into(),
            name: controller.into(),
            uid: controller.into(),
        });
        pod.node_name = node.map(Str::from);
        pod
    }

    #[test]
    fn a_deployment_has_the_pods_of_its_replica_sets_and_no_others() {
        let of = |kind: &str, name: &str| {
            is_of(&pod(kind, name, "p", None), &ObjectKey::new("a", "web"))
        };
        assert!(of("ReplicaSet", "web-5d89c") && of("StatefulSet", "web"));
        assert!(
            !of("ReplicaSet", "web-api-5d89c")
                && !of("StatefulSet", "web-1")
                && !of("ReplicaSet", "web-")
        );
        let other = ObjectKey::new("b", "web");
        assert!(!is_of(&pod("ReplicaSet", "web-5d89c", "p", None), &other));
    }

    #[test]
    fn pods_without_a_node_go_first_then_those_on_nodes_with_more_of_them() {
        let pods = [("p1", Some("n1")), ("p2", Some("n2")), ("p3", None), ("p4", Some("n2"))];
        let pods = pods.map(|(name, node)| pod("ReplicaSet", "web", name, node));
        let gone = to_delete(pods.iter().collect(), 3);
        let names: Vec<_> = gone.iter().map(|key| key.name.as_str()).collect();
        assert_eq!(names, ["p3", "p2", "p4"]);
    }

    #[test]
    fn a_cheaper_pod_goes_before_others() {
        let mut pods = ["p1", "p2"].map(|name| pod("ReplicaSet", "web", name, Some("n1")));
        pods[1].annotations = [(DELETION_COST, "-5")].into_iter().collect();
        assert_eq!(to_delete(pods.iter().collect(), 1), [ObjectKey::new("a", "p2")]);
    }

    #[test]
    fn a_stateful_set_is_numbered() {
        let pods = ["db-2", "db-10", "db-0"].map(|name| pod("StatefulSet", "db", name, Some("n1")));
        assert_eq!(to_delete(pods.iter().collect(), 1), [ObjectKey::new("a", "db-10")]);
        let is_taken = |key: &ObjectKey| pods.iter().any(|pod| pod.key == *key);
        let new = more(&pods[0], 2, is_taken);
        let names: Vec<_> = new.iter().map(|pod| pod.key.name.as_str()).collect();
        assert_eq!(names, ["db-1", "db-3"]);
        assert!(new.iter().all(|pod| pod.node_name.is_none()));
    }
}
