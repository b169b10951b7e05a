//! NodeDeclaredFeatures: features that a pod needs of its node.

use plimsoll_api::features::VOLUME_BIND_MOUNT_OPTIONS;
use plimsoll_framework::events::Object;
use plimsoll_framework::prelude::*;

use crate::node_change::NodeChange;

const MISSING: &str = "node(s) didn't match Pod's required features";

/// The feature gate without which the plugin does nothing.
pub const GATE: &str = "NodeDeclaredFeatures";

/// Rejects nodes that do not declare every feature that the pod's spec needs.
///
/// A kubelet that is older than the control plane may not know a feature, and would fail the pod or
/// behave differently.
///
/// ```yaml
/// kind: Node
/// status: {declaredFeatures: [GuaranteedQoSPodCPUResize]}
/// ```
#[derive(Clone, Copy, Debug)]
pub struct NodeDeclaredFeatures {
    enabled: bool,
    /// Features that the release does not know, so that no pod needs them.
    unknown: &'static [&'static str],
}

/// As in nodedeclaredfeatures/features/registry.go of component-helpers.
fn unknown(release: Release) -> &'static [&'static str] {
    match release {
        Release::V1_36 => &[VOLUME_BIND_MOUNT_OPTIONS],
        Release::V1_37 => &[],
    }
}

impl NodeDeclaredFeatures {
    fn knows(&self, feature: &Str) -> bool {
        !self.unknown.contains(&feature.as_str())
    }
}

impl Plugin for NodeDeclaredFeatures {
    const NAME: &'static str = "NodeDeclaredFeatures";
    type Args = NoArgs;
    fn new(_: NoArgs, gates: &FeatureGates) -> Self {
        let unknown = unknown(gates.release());
        NodeDeclaredFeatures { enabled: gates.enabled(GATE, true), unknown }
    }
}

impl Filter for NodeDeclaredFeatures {
    type Pod = RequiredFeatures;
    type Node = DeclaredFeatures;
    fn applies(&self, required: &[Str]) -> bool {
        self.enabled && required.iter().any(|feature| self.knows(feature))
    }
    fn filter(&self, required: &[Str], declared: &[Str]) -> Verdict {
        // Declared features are sorted.
        let mut needed = required.iter().filter(|feature| self.knows(feature));
        if needed.all(|feature| declared.binary_search(feature).is_ok()) {
            Verdict::Pass
        } else {
            Verdict::unresolvable(MISSING)
        }
    }
}

/// As in nodedeclaredfeatures.go, the functions isSchedulableAfter…: any change of the declared
/// features of a node or of the required features of the pod.
impl Requeue for NodeDeclaredFeatures {
    fn events(&self) -> Vec<ClusterEvent> {
        if !self.enabled {
            return Vec::new();
        }
        let node = Action::ADD | Action::UPDATE_NODE_DECLARED_FEATURE;
        vec![ClusterEvent::of::<Node>(node), ClusterEvent::of::<Pod>(Action::UPDATE)]
    }
    fn hint(&self, pod: &PodInfo, change: &Change<'_>) -> Hint {
        let changed = match change.object {
            Object::Itself { before } => before.required_features != pod.required_features,
            Object::Assigned { .. } => false,
            Object::Node { .. } | Object::Other(_) => NodeChange::of(change).is_none_or(|node| {
                node.before.is_none_or(|old| old.declared_features != node.after.declared_features)
            }),
        };
        if changed { Hint::Queue } else { Hint::Skip }
    }
}

/// Registration.
pub fn entry() -> Entry {
    Entry::of::<NodeDeclaredFeatures>().filter().at(Point::PreFilter).requeue().done()
}

#[cfg(test)]
mod tests {
    use plimsoll_api::Node;
    use plimsoll_testkit::{check, expect};

    use super::*;
    use crate::node_change::tests::{hint_after_node, hint_after_pod};

    const ON: NodeDeclaredFeatures = NodeDeclaredFeatures { enabled: true, unknown: &[] };

    fn features(names: &[&str]) -> Vec<Str> {
        names.iter().map(|&name| name.into()).collect()
    }

    fn node(declared: &[&str]) -> Node {
        Node { declared_features: features(declared), ..Node::default() }
    }

    #[test]
    fn a_node_must_declare_every_feature_that_is_needed() {
        let needed = features(&["A", "C"]);
        assert!(ON.applies(&needed));
        assert!(ON.filter(&needed, &features(&["A", "B", "C"])).passes());
        assert_eq!(
            ON.filter(&needed, &features(&["A", "B"])),
            Verdict::unresolvable("node(s) didn't match Pod's required features")
        );
        assert!(!ON.filter(&needed, &[]).passes());
    }

    #[test]
    fn a_pod_that_needs_nothing_may_run_on_any_node() {
        assert!(!ON.applies(&[]));
    }

    #[test]
    fn without_its_gate_the_plugin_does_nothing() {
        let off = FeatureGates::default().with("NodeDeclaredFeatures", false);
        let plugin = NodeDeclaredFeatures::new(NoArgs {}, &off);
        assert!(!plugin.applies(&features(&["A"])));
        assert_eq!(plugin.events(), []);
    }

    #[test]
    fn options_of_bind_mounts_are_needed_since_1_37() {
        let scenario = |release| {
            format!(
                r#"
                release {release}
                node old
                node new {{"features": ["VolumeBindMountOptions"]}}
                pod p {{"spec": {{"containers": [{{"name": "c", "image": "i", "volumeMounts": [
                    {{"name": "v", "mountPath": "/v", "bindMountOptions": ["noexec"]}}]}}]}}}}
                "#
            )
        };
        check(
            entry(),
            &scenario("1.36"),
            &expect![[r#"
            p old Success
            p new Success
        "#]],
        );
        check(
            entry(),
            &scenario("1.37"),
            &expect![[r#"
            p old UnschedulableAndUnresolvable: node(s) didn't match Pod's required features
            p new Success
        "#]],
        );
    }

    #[test]
    fn a_change_of_what_a_node_declares_is_worth_another_attempt() {
        let pod = PodInfo::new(PodTemplate {
            required_features: features(&["A"]),
            ..PodTemplate::default()
        });
        let hint = |before: Option<&Node>, after| hint_after_node(&ON, &pod, before, after);
        assert_eq!(hint(None, node(&[])), Hint::Queue);
        assert_eq!(hint(Some(&node(&[])), node(&["A"])), Hint::Queue);
        assert_eq!(hint(Some(&node(&["A"])), node(&["A"])), Hint::Skip);
    }

    #[test]
    fn a_change_of_what_the_pod_needs_is_worth_another_attempt() {
        let before = PodInfo::new(PodTemplate {
            required_features: features(&["A"]),
            ..PodTemplate::default()
        });
        let itself = Object::Itself { before: &before };
        let after = PodInfo::new(Pod::default());
        assert_eq!(hint_after_pod(&ON, &after, itself), Hint::Queue);
        assert_eq!(hint_after_pod(&ON, &before, itself), Hint::Skip);
    }
}
