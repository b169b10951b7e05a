//! When to try a rejected pod again.

use plimsoll_api::Node;
use plimsoll_framework::events::Object;
use plimsoll_framework::prelude::*;

use super::{PodParts, PodTopologySpread};

/// As in plugin.go, EventsToRegister, isSchedulableAfterPodChange and isSchedulableAfterNodeChange.
/// Changes of Services and controllers do not wake pods, even if the constraints are default ones.
/// Unlike there, a pod on a node that starts to terminate is an event, since it no longer counts, and so is a node that
/// begins or ceases to match the node affinity of the rejected pod, since its domain may no longer be the smallest one.
impl Requeue for PodTopologySpread {
    fn events(&self) -> Vec<ClusterEvent> {
        let pod = Action::ADD | Action::UPDATE | Action::DELETE;
        let node =
            Action::ADD | Action::DELETE | Action::UPDATE_NODE_LABEL | Action::UPDATE_NODE_TAINT;
        vec![ClusterEvent::of::<Pod>(pod), ClusterEvent::of::<Node>(node)]
    }

    fn hint(&self, pod: &PodInfo, change: &Change<'_>) -> Hint {
        let near = |other: &PodInfo| other.key.namespace == pod.key.namespace;
        // Most changes concern unrelated pods, and a pod may have ten thousand constraints.
        if let Object::Assigned { before, after, .. } = change.object
            && !after.or(before).is_some_and(near)
        {
            return Hint::Skip;
        }
        let hard = WhenUnsatisfiable::DoNotSchedule;
        let made = match self.as_they_are(&pod.spread) {
            true => None,
            false => {
                self.spreading(pod.part::<PodParts>(), SelectingStore::of(change.view.stores), hard)
            }
        };
        let all = made.as_ref().map_or(&pod.spread, |made| &made.constraints);
        let constraints =
            &all.iter().filter(|one| one.when_unsatisfiable == hard).collect::<Hard<'_>>();
        let helps = match change.object {
            Object::Assigned { before, after, .. } => match (before, after) {
                (Some(before), Some(after)) => {
                    let goes = !before.is_terminating() && after.is_terminating();
                    is_relabelled(constraints, before, after)
                        || (goes && is_counted(constraints, after))
                }
                (Some(one), None) | (None, Some(one)) => is_counted(constraints, one),
                (None, None) => false,
            },
            Object::Itself { before } => {
                let tolerates = before.tolerations != pod.tolerations;
                let matters = constraints.iter().any(|one| one.honor_node_taints);
                (tolerates && matters) || is_relabelled(constraints, before, pod)
            }
            Object::Node { before, after } => {
                let after = after.map(|row| &**change.view.nodes.node(row));
                is_other_domain(constraints, pod, before, after)
            }
            Object::Other(_) => true,
        };
        if helps { Hint::Queue } else { Hint::Skip }
    }
}

/// The hard constraints of a pod.
type Hard<'a> = SmallVec<[&'a SpreadConstraint; 4]>;

/// Whether some constraint counts the pod.
fn is_counted(constraints: &Hard<'_>, pod: &PodInfo) -> bool {
    constraints.iter().any(|one| one.selector.matches(&pod.labels))
}

/// Whether some constraint counts the pod only before, or only after.
fn is_relabelled(constraints: &Hard<'_>, before: &PodInfo, after: &PodInfo) -> bool {
    let moves = |one: &&SpreadConstraint| {
        one.selector.matches(&before.labels) != one.selector.matches(&after.labels)
    };
    constraints.iter().any(moves)
}

/// Whether domains of the pod were added, removed or changed with the node.
fn is_other_domain(
    constraints: &Hard<'_>,
    pod: &Pod,
    before: Option<&Node>,
    after: Option<&Node>,
) -> bool {
    let has_all_keys =
        |node: &Node| constraints.iter().all(|one| node.labels.contains_key(&one.topology_key));
    let (Some(before), Some(after)) = (before, after) else {
        return before.or(after).is_some_and(has_all_keys);
    };
    let moved = |one: &&SpreadConstraint| {
        before.labels.get(&one.topology_key) != after.labels.get(&one.topology_key)
    };
    let selected = |node: &Node| pod.node_selection.matches(&node.name, &node.labels);
    match (has_all_keys(before), has_all_keys(after)) {
        (true, true) => {
            before.taints != after.taints
                || constraints.iter().any(moved)
                || (constraints.iter().any(|one| one.honor_node_affinity)
                    && selected(before) != selected(after))
        }
        (false, false) => false,
        (true, false) | (false, true) => true,
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_framework::Stores;
    use plimsoll_testkit::Scenario;

    use super::super::PodTopologySpreadArgs;
    use super::*;

    const REJECTED: &str = r#"
        pod p app=web {"topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}}}]}"#;
    const HONORS_TAINTS: &str = r#"
        pod p app=web {"topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            "nodeTaintsPolicy": "Honor", "labelSelector": {"matchLabels": {"app": "web"}}}]}"#;

    /// A rejected pod for testing hints. A change is given by two scenarios with the object before and
    /// after, or without it.
    struct RejectedPod {
        pod: PodInfo,
        gates: FeatureGates,
    }

    impl RejectedPod {
        fn is(scenario: &str) -> Self {
            let scenario = Scenario::parse(scenario).expect("the scenario is right");
            RejectedPod { pod: scenario.pending[0].clone(), gates: scenario.gates }
        }

        fn hint(&self, kind: KindRef, nodes: &Columns, object: Object<'_>) -> Hint {
            let args = PodTopologySpreadArgs::default();
            let plugin = PodTopologySpread::new(args, &self.gates);
            let view = View { nodes, stores: &Stores::default() };
            let event = ClusterEvent::new(kind, Action::all());
            plugin.hint(&self.pod, &Change { event, object, view })
        }

        fn pod(&self, before: &str, after: &str) -> Hint {
            let pod = |text: &str| {
                let scenario = Scenario::parse(&format!("node n\n{text}"));
                scenario.expect("the scenario is right").placed.first().cloned()
            };
            let (before, after) = (pod(before), pod(after));
            let object =
                Object::Assigned { before: before.as_ref(), after: after.as_ref(), row: None };
            self.hint(KindRef::of::<Pod>(), &Columns::default(), object)
        }

        fn node(&self, before: &str, after: &str) -> Hint {
            let node = |text| {
                let scenario = Scenario::parse(text).expect("the scenario is right");
                scenario.nodes.first().cloned()
            };
            let mut nodes = Columns::default();
            let after = node(after).map(|node| nodes.add(node));
            let before = node(before);
            self.hint(
                KindRef::of::<Node>(),
                &nodes,
                Object::Node { before: before.as_ref(), after },
            )
        }
    }

    #[test]
    fn pods_help_if_they_are_counted_in_one_state_and_not_in_the_other() {
        let rejected = RejectedPod::is(REJECTED);
        for (before, after, expected) in [
            ("", "pod a app=web on n", Hint::Queue),
            ("pod a app=web on n", "", Hint::Queue),
            ("", "pod a app=db on n", Hint::Skip),
            ("", "pod other/a app=web on n", Hint::Skip),
            ("pod a app=web on n", "pod a app=db on n", Hint::Queue),
            ("pod a app=web on n", "pod a app=web tier=front on n", Hint::Skip),
        ] {
            assert_eq!(rejected.pod(before, after), expected, "{before:?} {after:?}");
        }
    }

    #[test]
    fn match_label_keys_say_who_helps_unless_their_gate_is_off() {
        let with_keys = r#"pod p app=web rev=2 {"topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            "matchLabelKeys": ["rev"], "labelSelector": {"matchLabels": {"app": "web"}}}]}"#;
        for (gate, expected) in
            [("", Hint::Skip), ("gate MatchLabelKeysInPodTopologySpread=false\n", Hint::Queue)]
        {
            let rejected = RejectedPod::is(&format!("{gate}{with_keys}"));
            assert_eq!(rejected.pod("pod a app=web rev=1 on n", ""), expected, "{gate}");
            assert_eq!(rejected.pod("pod a app=web rev=2 on n", ""), Hint::Queue, "{gate}");
        }
    }

    #[test]
    fn nodes_help_if_they_have_all_keys_before_or_after_and_their_domain_changes() {
        let rejected = RejectedPod::is(REJECTED);
        for (before, after, expected) in [
            ("", "node a zone=1", Hint::Queue),
            ("node a zone=1", "", Hint::Queue),
            ("", "node a", Hint::Skip),
            ("node a", "", Hint::Skip),
            ("node a", "node a zone=1", Hint::Queue),
            ("node a zone=1", "node a zone=2", Hint::Queue),
            ("node a zone=1", "node a zone=1 disk=ssd", Hint::Skip),
            (
                "node a zone=1",
                r#"node a zone=1 {"taints": [{"key": "k", "effect": "NoSchedule"}]}"#,
                Hint::Queue,
            ),
            ("node a", r#"node a {"taints": [{"key": "k", "effect": "NoSchedule"}]}"#, Hint::Skip),
        ] {
            assert_eq!(rejected.node(before, after), expected, "{before:?} {after:?}");
        }
    }

    #[test]
    fn nodes_that_the_pod_begins_or_ceases_to_select_help_if_constraints_honor_its_node_affinity() {
        let text = |policy| {
            format!(
                r#"pod p app=web {{"nodeSelector": {{"disk": "ssd"}}, "topologySpreadConstraints": [{{
                "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "nodeAffinityPolicy": "{policy}",
                "labelSelector": {{"matchLabels": {{"app": "web"}}}}}}]}}"#
            )
        };
        for (policy, expected) in [("Honor", Hint::Queue), ("Ignore", Hint::Skip)] {
            let rejected = RejectedPod::is(&text(policy));
            let (selected, other) = ("node a zone=1 disk=ssd", "node a zone=1 disk=hdd");
            assert_eq!(rejected.node(selected, other), expected, "{policy}");
            assert_eq!(rejected.node(other, selected), expected, "{policy}");
            assert_eq!(rejected.node("node a disk=ssd", "node a disk=hdd"), Hint::Skip, "{policy}");
            assert_eq!(rejected.node(other, other), Hint::Skip, "{policy}");
        }
    }

    #[test]
    fn a_new_toleration_helps_only_where_taints_are_honored() {
        for (scenario, expected) in [(REJECTED, Hint::Skip), (HONORS_TAINTS, Hint::Queue)] {
            let rejected = RejectedPod::is(scenario);
            let mut before = Pod::clone(&rejected.pod);
            before.tolerations = vec![Toleration::default()];
            let before = PodInfo::new(before);
            let object = Object::Itself { before: &before };
            let hint = rejected.hint(KindRef::of::<Pod>(), &Columns::default(), object);
            assert_eq!(hint, expected, "{scenario}");
        }
    }
}
