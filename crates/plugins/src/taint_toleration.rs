//! TaintToleration: taints of nodes that a pod does not tolerate.

use plimsoll_api::taints::untolerated;
use plimsoll_framework::events::Object;
use plimsoll_framework::prelude::*;

use crate::node_change::NodeChange;

const UNTOLERATED: &str = "node(s) had untolerated taint(s)";

/// Rejects nodes with a taint `NoSchedule` or `NoExecute` that the pod does not tolerate, and
/// prefers nodes with few untolerated taints `PreferNoSchedule`.
///
/// A taint reserves a node, for example one with expensive hardware, for the pods that are meant to run
/// there.
///
/// ```yaml
/// kind: Node
/// spec:
///   taints: [{key: gpu, effect: NoSchedule}]   # tolerated with {key: gpu, operator: Exists}
/// ```
///
/// With the feature gate TaintTolerationComparisonOperators, which is off in 1.36 and 1.37, the operators
/// `Gt` and `Lt` of tolerations compare the value of a taint as an integer. Without it, such a toleration
/// tolerates nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct TaintToleration {
    comparisons: Comparisons,
}

impl Plugin for TaintToleration {
    const NAME: &'static str = "TaintToleration";
    type Args = NoArgs;
    fn new(_: NoArgs, gates: &FeatureGates) -> Self {
        TaintToleration {
            comparisons: Comparisons::from_gate(gates.enabled(Comparisons::GATE, false)),
        }
    }
}

impl Filter for TaintToleration {
    type Pod = Tolerations;
    type Node = Taints;
    fn filter(&self, tolerations: &[Toleration], taints: &[Taint]) -> Verdict {
        if self.tolerates(tolerations, taints) {
            Verdict::Pass
        } else {
            Verdict::unresolvable(UNTOLERATED)
        }
    }
}

impl TaintToleration {
    /// Whether a pod with `tolerations` may be placed on a node with `taints`.
    fn tolerates(self, tolerations: &[Toleration], taints: &[Taint]) -> bool {
        let matters = |effect| effect != Effect::PreferNoSchedule;
        untolerated(taints, tolerations, self.comparisons, matters).is_none()
    }

    fn is_disliked(self, tolerations: &[Toleration], taint: &Taint) -> bool {
        taint.effect == Effect::PreferNoSchedule
            && !tolerations.iter().any(|one| one.tolerates(taint, self.comparisons))
    }
}

impl Score for TaintToleration {
    type Pod = Tolerations;
    type Node = Taints;
    const NORMALIZE: Normalize = Normalize::Max { reverse: true };
    fn score(&self, tolerations: &[Toleration], taints: &[Taint]) -> i64 {
        taints.iter().map(|taint| i64::from(self.is_disliked(tolerations, taint))).sum()
    }
}

/// As in taint_toleration.go, the functions isSchedulableAfter…: a node whose taints the pod tolerates
/// now but did not before, and any new toleration of the pod itself.
impl Requeue for TaintToleration {
    fn events(&self) -> Vec<ClusterEvent> {
        vec![
            ClusterEvent::of::<Node>(Action::ADD | Action::UPDATE_NODE_TAINT),
            ClusterEvent::of::<Pod>(Action::UPDATE_POD_TOLERATION),
        ]
    }
    fn hint(&self, pod: &PodInfo, change: &Change<'_>) -> Hint {
        match change.object {
            Object::Itself { .. } => Hint::Queue,
            Object::Assigned { .. } => Hint::Skip,
            Object::Node { .. } | Object::Other(_) => NodeChange::of(change)
                .map_or(Hint::Queue, |node| {
                    node.now(|node| self.tolerates(&pod.tolerations, &node.taints))
                }),
        }
    }
}

/// Registration.
pub fn entry() -> Entry {
    Entry::of::<TaintToleration>().filter().score().at(Point::PreScore).requeue().done()
}

#[cfg(test)]
mod tests {
    use plimsoll_api::Node;

    use super::*;
    use crate::node_change::tests::{hint_after_node, hint_after_pod};

    fn taint(key: &str, value: &str, effect: Effect) -> Taint {
        Taint { key: key.into(), value: value.into(), effect }
    }

    fn toleration(key: &str, value: &str, effect: Option<Effect>) -> Toleration {
        Toleration {
            key: Some(key.into()),
            value: Some(value.into()),
            effect,
            ..Toleration::default()
        }
    }

    fn plain() -> TaintToleration {
        TaintToleration::default()
    }

    fn rejected() -> Verdict {
        Verdict::unresolvable("node(s) had untolerated taint(s)")
    }

    #[test]
    fn every_hard_taint_must_be_tolerated() {
        let taints =
            [taint("team", "a", Effect::NoSchedule), taint("disk", "bad", Effect::NoExecute)];
        let (team, disk) = (toleration("team", "a", None), toleration("disk", "bad", None));
        assert_eq!(plain().filter(&[], &taints), rejected());
        assert_eq!(plain().filter(std::slice::from_ref(&team), &taints), rejected());
        assert!(plain().filter(&[team, disk], &taints).passes());
        let wrong_value = toleration("team", "b", None);
        assert_eq!(plain().filter(&[wrong_value], &taints[..1]), rejected());
        let wrong_effect = toleration("team", "a", Some(Effect::NoExecute));
        assert_eq!(plain().filter(&[wrong_effect], &taints[..1]), rejected());
    }

    #[test]
    fn a_soft_taint_rejects_nobody() {
        let taints = [taint("team", "a", Effect::PreferNoSchedule)];
        assert!(plain().filter(&[], &taints).passes());
    }

    #[test]
    fn the_fewer_soft_taints_are_not_tolerated_the_higher_is_the_score() {
        let tolerations = [toleration("a", "1", Some(Effect::PreferNoSchedule))];
        let nodes = [
            vec![taint("a", "1", Effect::PreferNoSchedule)],
            vec![taint("b", "2", Effect::PreferNoSchedule), taint("h", "", Effect::NoSchedule)],
            vec![
                taint("a", "1", Effect::PreferNoSchedule),
                taint("b", "2", Effect::PreferNoSchedule),
                taint("c", "3", Effect::PreferNoSchedule),
            ],
        ];
        let raw: Vec<i64> =
            nodes.iter().map(|taints| plain().score(&tolerations, taints)).collect();
        assert_eq!(raw, [0, 1, 2]);
        let on_row = |(row, score)| Scored { row: Row::from_index(row), score };
        let mut scores: Vec<Scored> = raw.into_iter().enumerate().map(on_row).collect();
        TaintToleration::NORMALIZE.apply(&mut scores);
        assert_eq!(scores.iter().map(|one| one.score).collect::<Vec<_>>(), [100, 50, 0]);
    }

    #[test]
    fn only_a_node_that_becomes_tolerable_is_worth_another_attempt() {
        let tolerations = vec![toleration("gpu", "", None)];
        let pod = PodInfo::new(PodTemplate { tolerations, ..PodTemplate::default() });
        let node = |key: &str| Node {
            taints: vec![taint(key, "", Effect::NoSchedule)],
            ..Node::default()
        };
        let hint = |before: Option<&Node>, after| hint_after_node(&plain(), &pod, before, after);
        assert_eq!(hint(None, node("gpu")), Hint::Queue);
        assert_eq!(hint(None, node("other")), Hint::Skip);
        assert_eq!(hint(Some(&node("other")), node("gpu")), Hint::Queue);
        assert_eq!(hint(Some(&node("gpu")), Node::default()), Hint::Skip);
    }

    #[test]
    fn a_toleration_of_another_pod_is_not_worth_another_attempt() {
        let pod = PodInfo::new(Pod::default());
        let itself = Object::Itself { before: &pod };
        assert_eq!(hint_after_pod(&plain(), &pod, itself), Hint::Queue);
        let other = Object::Assigned { before: Some(&pod), after: Some(&pod), row: None };
        assert_eq!(hint_after_pod(&plain(), &pod, other), Hint::Skip);
    }

    #[test]
    fn with_the_gate_a_toleration_compares_the_value_of_a_taint() {
        let gate = FeatureGates::default().with("TaintTolerationComparisonOperators", true);
        let on = TaintToleration::new(NoArgs {}, &gate);
        let off = TaintToleration::new(NoArgs {}, &FeatureGates::default());
        let tolerations = vec![Toleration {
            key: Some("sla".into()),
            comparison: Some(Comparison::Gt(950)),
            ..Toleration::default()
        }];
        let hard = |value: &str| [taint("sla", value, Effect::NoSchedule)];
        assert!(on.filter(&tolerations, &hard("999")).passes());
        assert_eq!(on.filter(&tolerations, &hard("950")), rejected());
        assert_eq!(off.filter(&tolerations, &hard("999")), rejected());
        let soft = |value: &str| [taint("sla", value, Effect::PreferNoSchedule)];
        assert_eq!(on.score(&tolerations, &soft("999")), 0);
        assert_eq!(on.score(&tolerations, &soft("9")), 1);
        assert_eq!(off.score(&tolerations, &soft("999")), 1);
        let pod = PodInfo::new(PodTemplate { tolerations, ..PodTemplate::default() });
        let node = |value: &str| Node { taints: hard(value).to_vec(), ..Node::default() };
        let hint = |plugin: &TaintToleration, before: &str, after: &str| {
            hint_after_node(plugin, &pod, Some(&node(before)), node(after))
        };
        assert_eq!(hint(&on, "9", "999"), Hint::Queue);
        assert_eq!(hint(&on, "999", "9999"), Hint::Skip);
        assert_eq!(hint(&off, "9", "999"), Hint::Skip);
    }
}
