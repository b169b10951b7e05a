//! NodePreferAvoidPods: nodes that ask to avoid the pods of a controller.

use plimsoll_framework::prelude::*;

/// The controllers whose pods can be avoided.
const KINDS: [&str; 2] = ["ReplicationController", "ReplicaSet"];

/// Prefers nodes that do not ask to avoid the pods of the pod's controller: 0 for those that do, 100
/// for all others.
///
/// A node does so with its annotation `scheduler.alpha.kubernetes.io/preferAvoidPods`, which names a
/// ReplicationController or ReplicaSet by kind and uid, for example after its pods performed badly
/// there. An annotation that cannot be read is ignored. In the default profile of release 1.20 the
/// plugin has weight 10000, so such a node is chosen only if there is no other.
///
/// ```json
/// {"preferAvoidPods": [{"podSignature": {"podController":
///     {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "b54e", "controller": true}}}]}
/// ```
#[derive(Clone, Copy, Debug)]
pub struct NodePreferAvoidPods;

impl Plugin for NodePreferAvoidPods {
    const NAME: &'static str = "NodePreferAvoidPods";
    type Args = NoArgs;
    fn new(_: NoArgs, _: &FeatureGates) -> Self {
        NodePreferAvoidPods
    }
}

impl Score for NodePreferAvoidPods {
    type Pod = Owner;
    type Node = AvoidedControllers;

    /// As in node_prefer_avoid_pods.go, Score: `apiVersion` and name do not count.
    fn score(&self, owner: Option<&Controller>, avoided: &[AvoidedController]) -> i64 {
        let Some(owner) = owner.filter(|owner| KINDS.contains(&owner.kind.as_str())) else {
            return MAX_NODE_SCORE;
        };
        let is_owner = |one: &AvoidedController| one.kind == owner.kind && one.uid == owner.uid;
        if avoided.iter().any(is_owner) { 0 } else { MAX_NODE_SCORE }
    }
}

/// Registration.
pub fn entry() -> Entry {
    Entry::of::<NodePreferAvoidPods>().score().done()
}

#[cfg(test)]
mod tests {
    use plimsoll_testkit::{check, expect};

    use super::*;

    /// The statement of a pod that this controller owns.
    fn pod(name: &str, api_version: &str, kind: &str, uid: &str) -> String {
        format!(
            r#"
            pod {name} {{"metadata": {{"ownerReferences": [{{"apiVersion": "{api_version}",
                "kind": "{kind}", "name": "web", "uid": "{uid}", "controller": true}}]}}}}"#
        )
    }

    /// The statement of a node with this annotation.
    fn node(name: &str, annotation: &str) -> String {
        let key = "scheduler.alpha.kubernetes.io/preferAvoidPods";
        format!(
            r#"
            node {name} {{"annotations": {{"{key}": {annotation:?}}}}}"#
        )
    }

    fn avoiding(kind: &str, uid: &str) -> String {
        format!(
            r#"{{"preferAvoidPods": [{{"podSignature": {{"podController": {{"apiVersion": "v1", "kind": "{kind}", "name": "web", "uid": "{uid}", "controller": true}}}}}}]}}"#
        )
    }

    #[test]
    fn pods_of_an_avoided_controller_score_nothing_on_the_node_that_avoids_it() {
        let scenario = [
            node("rc", &avoiding("ReplicationController", "1")),
            node("rs", &avoiding("ReplicaSet", "1")),
            "\nnode any".to_owned(),
            pod("of-rc", "v1", "ReplicationController", "1"),
            pod("of-rs", "apps/v1", "ReplicaSet", "1"),
            pod("of-other", "apps/v1", "ReplicaSet", "2"),
            "\npod of-none".to_owned(),
        ];
        check(
            entry(),
            &scenario.concat(),
            &expect![[r"
            of-rc rc score 0
            of-rc rs score 100
            of-rc any score 100
            of-rs rc score 100
            of-rs rs score 0
            of-rs any score 100
            of-other rc score 100
            of-other rs score 100
            of-other any score 100
            of-none rc score 100
            of-none rs score 100
            of-none any score 100
        "]],
        );
    }

    #[test]
    fn only_pods_of_replication_controllers_and_replica_sets_are_avoided() {
        let scenario =
            [node("a", &avoiding("StatefulSet", "1")), pod("p", "apps/v1", "StatefulSet", "1")];
        check(
            entry(),
            &scenario.concat(),
            &expect![[r"
            p a score 100
        "]],
        );
    }

    #[test]
    fn an_owner_that_is_not_the_controller_does_not_count() {
        let owned = pod("p", "apps/v1", "ReplicaSet", "1").replace("true", "false");
        let scenario = [node("a", &avoiding("ReplicaSet", "1")), owned];
        check(
            entry(),
            &scenario.concat(),
            &expect![[r"
            p a score 100
        "]],
        );
    }

    #[test]
    fn an_annotation_that_cannot_be_read_avoids_nothing() {
        let scenario = [
            node("a", "{"),
            node("b", r#"{"preferAvoidPods": true}"#),
            pod("p", "apps/v1", "ReplicaSet", "1"),
        ];
        check(
            entry(),
            &scenario.concat(),
            &expect![[r"
            p a score 100
            p b score 100
        "]],
        );
    }
}
