//! NodeAffinity: conditions of a pod and its profile on the labels and the name of a node.

mod args;

use std::collections::BTreeSet;

use plimsoll_api::node_selector::{NAME_FIELD, NodeSelectorTerm};
use plimsoll_framework::prelude::*;

pub use self::args::{AddedAffinity, NodeAffinityArgs};
use crate::node_change::NodeChange;

const NOT_SELECTED: &str = "node(s) didn't match Pod's node affinity/selector";
const NOT_ENFORCED: &str = "node(s) didn't match scheduler-enforced node affinity";
const CONFLICT: &str = "pod affinity terms conflict";

/// Rejects nodes that the pod's `nodeSelector` or required node affinity does not match, and
/// prefers those that its preferred terms match, by the sum of their weights.
///
/// A pod may need something that only some nodes have, such as a kind of disk. The profile can add node
/// affinity for all of its pods (`addedAffinity`).
///
/// ```yaml
/// affinity:
///   nodeAffinity:
///     requiredDuringSchedulingIgnoredDuringExecution:
///       nodeSelectorTerms:
///       - matchExpressions: [{key: disk, operator: In, values: [ssd]}]
/// ```
///
/// If every term names nodes (`metadata.name`, as in the pods of a DaemonSet), only these are judged.
///
/// A required term that cannot be read, such as one with `Gt` and a value that is no 64-bit integer,
/// matches no node, and the other terms are tried. A preferred one makes the scores of the pod an error.
#[derive(Clone, Debug)]
pub struct NodeAffinity {
    added: Added,
}

/// Node affinity that the profile adds to that of each pod (`addedAffinity`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Added {
    /// What every node must match; `None` asks nothing, no terms match no node.
    required: Option<NodeSelection>,
    /// What is preferred; a weight of 0 says nothing.
    preferred: PreferredNodes,
}

impl Plugin for NodeAffinity {
    const NAME: &'static str = "NodeAffinity";
    type Args = NodeAffinityArgs;
    fn new(args: NodeAffinityArgs, _: &FeatureGates) -> Self {
        NodeAffinity { added: args.into() }
    }

    fn validate(args: &NodeAffinityArgs, _: &FeatureGates, faults: &mut ArgsFaults) {
        if let Some(affinity) = &args.added_affinity {
            affinity.validate(&ArgsField::default().key("addedAffinity"), faults);
        }
    }
}

impl Filter for NodeAffinity {
    type Pod = NodeSelection;
    type Node = (Name, Labels);

    fn applies(&self, wanted: &NodeSelection) -> bool {
        !wanted.is_any() || self.added.required.is_some()
    }

    fn candidates(&self, wanted: &NodeSelection) -> Result<Candidates, Rejection> {
        let terms = wanted.terms.as_deref().unwrap_or_default();
        if terms.is_empty() {
            return Ok(Candidates::All);
        }
        // One matching term is enough, so if a single term names no node, all nodes remain.
        let Some(lists) = terms.iter().map(named_by).collect::<Option<Vec<_>>>() else {
            return Ok(Candidates::All);
        };
        let names: BTreeSet<Str> = lists.into_iter().flatten().collect();
        if names.is_empty() {
            return Err(Rejection::unresolvable(CONFLICT));
        }
        Ok(Candidates::Only(names))
    }

    fn filter(&self, wanted: &NodeSelection, (name, labels): Ref<'_, Self::Node>) -> Verdict {
        if !self.allows(name, labels) {
            Verdict::unresolvable(NOT_ENFORCED)
        } else if !wanted.matches(name, labels) {
            Verdict::unresolvable(NOT_SELECTED)
        } else {
            Verdict::Pass
        }
    }
}

/// The nodes that a term names: those in all of its lists. `None` if it has no list.
fn named_by(term: &NodeSelectorTerm) -> Option<BTreeSet<Str>> {
    let mut lists = term.fields.iter().filter_map(|field| match &field.test {
        Test::In(names) if field.key == NAME_FIELD => Some(names),
        _ => None,
    });
    let mut named: BTreeSet<Str> = lists.next()?.iter().cloned().collect();
    for list in lists {
        named.retain(|name| list.contains(name));
    }
    Some(named)
}

impl Score for NodeAffinity {
    type Pod = PreferredNodes;
    type Node = (Name, Labels);
    const NORMALIZE: Normalize = Normalize::Max { reverse: false };

    fn applies(&self, preferred: &PreferredNodes) -> bool {
        !preferred.0.is_empty() || !self.added.preferred.0.is_empty()
    }

    fn error(&self, preferred: &PreferredNodes) -> Option<String> {
        preferred.error()
    }

    fn score(&self, preferred: &PreferredNodes, (name, labels): Ref<'_, Self::Node>) -> i64 {
        self.added.preferred.weight(name, labels) + preferred.weight(name, labels)
    }
}

/// As in node_affinity.go, isSchedulableAfterNodeChange: a node that matches the affinity of the pod
/// and of the profile, if the pod's own affinity did not match it before.
impl Requeue for NodeAffinity {
    fn events(&self) -> Vec<ClusterEvent> {
        vec![ClusterEvent::of::<Node>(Action::ADD | Action::UPDATE_NODE_LABEL)]
    }

    fn hint(&self, pod: &PodInfo, change: &Change<'_>) -> Hint {
        let Some(node) = NodeChange::of(change) else { return Hint::Queue };
        if self.allows(&node.after.name, &node.after.labels) {
            node.now(|node| pod.node_selection.matches(&node.name, &node.labels))
        } else {
            Hint::Skip
        }
    }
}

impl NodeAffinity {
    /// Whether the profile allows the node.
    fn allows(&self, name: &str, labels: &Labels) -> bool {
        self.added.required.as_ref().is_none_or(|required| required.matches(name, labels))
    }
}

/// Registration.
pub fn entry() -> Entry {
    Entry::of::<NodeAffinity>()
        .at(Point::PreFilter)
        .filter()
        .at(Point::PreScore)
        .score()
        .requeue()
        .shows_args()
        .done()
}

#[cfg(test)]
mod tests {
    use plimsoll_api::Node;

    use super::*;
    use crate::node_change::tests::hint_after_node;

    fn labels(disk: &str) -> Labels {
        [("disk", disk)].into_iter().collect()
    }

    fn on_label(value: &str) -> NodeSelectorTerm {
        NodeSelectorTerm {
            labels: vec![Requirement::equals("disk", value)],
            ..NodeSelectorTerm::default()
        }
    }

    fn on_names(lists: &[&[&str]]) -> NodeSelectorTerm {
        let list = |names: &&[&str]| Requirement {
            key: NAME_FIELD.into(),
            test: Test::In(names.iter().map(|&name| name.into()).collect()),
        };
        NodeSelectorTerm { fields: lists.iter().map(list).collect(), ..NodeSelectorTerm::default() }
    }

    fn wants(terms: Vec<NodeSelectorTerm>) -> NodeSelection {
        NodeSelection { terms: Some(terms), ..NodeSelection::default() }
    }

    fn adding(required: Option<NodeSelectorTerm>, preferred: PreferredNodes) -> NodeAffinity {
        let required = required.map(|term| wants(vec![term]));
        NodeAffinity { added: Added { required, preferred } }
    }

    fn plain() -> NodeAffinity {
        adding(None, PreferredNodes::default())
    }

    fn filter(plugin: &NodeAffinity, wanted: &NodeSelection, node: &str, disk: &str) -> Verdict {
        plugin.filter(wanted, (&node.into(), &labels(disk)))
    }

    #[test]
    fn a_node_must_match_selector_and_affinity() {
        let mut wanted = wants(vec![on_label("ssd"), on_label("nvme")]);
        assert!(filter(&plain(), &wanted, "a", "nvme").passes());
        let reason = "node(s) didn't match Pod's node affinity/selector";
        assert_eq!(filter(&plain(), &wanted, "a", "hdd"), Verdict::unresolvable(reason));
        wanted.selector = labels("ssd");
        assert!(filter(&plain(), &wanted, "a", "ssd").passes());
        assert_eq!(filter(&plain(), &wanted, "a", "nvme"), Verdict::unresolvable(reason));
    }

    #[test]
    fn a_pod_that_asks_nothing_is_judged_only_where_the_profile_asks_something() {
        let nothing = NodeSelection::default();
        assert!(!Filter::applies(&plain(), &nothing));
        assert!(Filter::applies(&plain(), &wants(vec![])));
        let enforcing = adding(Some(on_label("ssd")), PreferredNodes::default());
        assert!(Filter::applies(&enforcing, &nothing));
        assert!(filter(&enforcing, &nothing, "a", "ssd").passes());
    }

    #[test]
    fn what_the_profile_asks_is_judged_first() {
        let enforcing = adding(Some(on_label("ssd")), PreferredNodes::default());
        let wanted = wants(vec![on_label("nvme")]);
        let enforced = "node(s) didn't match scheduler-enforced node affinity";
        assert_eq!(filter(&enforcing, &wanted, "a", "hdd"), Verdict::unresolvable(enforced));
        assert_eq!(filter(&enforcing, &wanted, "a", "nvme"), Verdict::unresolvable(enforced));
        let own = "node(s) didn't match Pod's node affinity/selector";
        assert_eq!(filter(&enforcing, &wanted, "a", "ssd"), Verdict::unresolvable(own));
    }

    #[test]
    fn only_nodes_that_the_terms_name_are_candidates() {
        let candidates = |terms| plain().candidates(&wants(terms));
        let only =
            |names: &[&str]| Ok(Candidates::Only(names.iter().map(|&name| name.into()).collect()));
        assert_eq!(candidates(vec![on_names(&[&["a"]])]), only(&["a"]));
        assert_eq!(candidates(vec![on_names(&[&["b"]]), on_names(&[&["a"]])]), only(&["a", "b"]));
        assert_eq!(candidates(vec![on_names(&[&["a", "b"], &["b", "c"]])]), only(&["b"]));
        assert_eq!(
            candidates(vec![on_names(&[&["a"], &["b"]]), on_names(&[&["c"]])]),
            only(&["c"])
        );
    }

    #[test]
    fn a_term_that_names_no_node_leaves_all_of_them() {
        let all = Ok(Candidates::All);
        assert_eq!(plain().candidates(&wants(vec![on_names(&[&["a"]]), on_label("ssd")])), all);
        assert_eq!(plain().candidates(&wants(vec![])), all);
        assert_eq!(plain().candidates(&NodeSelection::default()), all);
        let mut other_than = on_names(&[&["a"]]);
        other_than.fields[0].test = Test::NotIn(vec!["a".into()]);
        assert_eq!(plain().candidates(&wants(vec![other_than])), all);
    }

    #[test]
    fn terms_that_name_different_nodes_at_once_reject_the_pod_for_all_nodes() {
        let conflict = wants(vec![on_names(&[&["a"], &["b"]])]);
        assert_eq!(
            plain().candidates(&conflict),
            Err(Rejection::unresolvable("pod affinity terms conflict"))
        );
    }

    #[test]
    fn the_weights_of_the_pod_and_of_the_profile_add_up() {
        let plugin = adding(None, PreferredNodes(vec![(5, on_label("ssd")), (3, on_label("hdd"))]));
        let preferred = PreferredNodes(vec![(20, on_label("ssd"))]);
        let score = |disk: &str| plugin.score(&preferred, (&"a".into(), &labels(disk)));
        assert_eq!((score("ssd"), score("hdd"), score("nvme")), (25, 3, 0));
    }

    #[test]
    fn without_any_preference_no_score_is_given() {
        let none = PreferredNodes::default();
        assert!(!Score::applies(&plain(), &none));
        let useless = PreferredNodes(vec![(1, NodeSelectorTerm::default())]);
        assert!(Score::applies(&plain(), &useless));
        assert!(Score::applies(&adding(None, useless), &none));
    }

    #[test]
    fn only_a_node_that_comes_to_match_is_worth_another_attempt() {
        let node_selection = wants(vec![on_label("ssd")]);
        let pod = PodInfo::new(PodTemplate { node_selection, ..PodTemplate::default() });
        let node = |disk: &str| Node { labels: labels(disk), ..Node::default() };
        let hint = |plugin: &NodeAffinity, before: Option<&str>, after: &str| {
            hint_after_node(plugin, &pod, before.map(node).as_ref(), node(after))
        };
        assert_eq!(hint(&plain(), None, "ssd"), Hint::Queue);
        assert_eq!(hint(&plain(), None, "hdd"), Hint::Skip);
        assert_eq!(hint(&plain(), Some("hdd"), "ssd"), Hint::Queue);
        assert_eq!(hint(&plain(), Some("ssd"), "ssd"), Hint::Skip);
        let elsewhere = adding(Some(on_label("nvme")), PreferredNodes::default());
        assert_eq!(hint(&elsewhere, None, "ssd"), Hint::Skip);
    }

    #[test]
    fn added_affinity_is_read_from_the_args() {
        let args = r#"{"addedAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}]},
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 0, "preference": {"matchExpressions": [{"key": "x", "operator": "?"}]}},
                {"weight": 10, "preference": {"matchExpressions": [
                    {"key": "gen", "operator": "Gt", "values": ["3"]}]}}]}}"#;
        let args = args.parse().expect("this is JSON");
        let points =
            entry().make(Some(&args), &FeatureGates::default()).expect("the args are good");
        let (mut nodes, stores) = (Columns::default(), Stores::default());
        for (name, generation) in [("a", "4"), ("b", "3")] {
            let labels = [("gen", generation)].into_iter().collect();
            nodes.add(Node { name: name.into(), labels, ..Node::default() });
        }
        let (pod, view) = (PodInfo::new(Pod::default()), View { nodes: &nodes, stores: &stores });
        let rows: Vec<Row> = nodes.rows().collect();
        let shared = &mut CycleState::new();
        let filter = points.filter.expect("it filters").prepare(&pod, shared, &view);
        let passes = |&row: &Row| filter.judge_one(&pod, &nodes, row).passes();
        assert_eq!(rows.iter().map(passes).collect::<Vec<_>>(), [true, false]);
        let scored = points.score.expect("it scores").score(&pod, shared, &view, &rows);
        let scored = scored.expect("the profile has a preference");
        assert_eq!(scored.iter().map(|one| one.score).collect::<Vec<_>>(), [100, 0]);
    }

    #[test]
    fn args_with_an_unknown_field_or_operator_are_refused() {
        for args in [
            r#"{"addedAffinities": {}}"#,
            r#"{"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                {"nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "a", "operator": "Has"}]}]}}}"#,
        ] {
            let args = args.parse().expect("this is JSON");
            assert!(entry().make(Some(&args), &FeatureGates::default()).is_err());
        }
    }
}
