//! NodeLabel: labels that nodes should have, or should not have, according to the profile.

use plimsoll_framework::prelude::*;
use serde::Deserialize;

const NOT_AS_REQUESTED: &str = "node(s) didn't have the requested labels";

/// Rejects nodes that lack one of some labels or have one of others, whatever their values, and prefers
/// nodes in the same way.
///
/// A profile can thus restrict its pods to nodes with a rack label, or keep them off nodes that will be
/// retired. The score is the mean over all preferences, 100 for each that is satisfied. With
/// `presentLabelsPreference: [ssd]` and `absentLabelsPreference: [retiring]` a node that has both
/// labels scores 50.
///
/// As in kube-scheduler 1.20. There a profile that enables its score without any preference divides by
/// zero; here it gives no scores then.
#[derive(Clone, Debug)]
pub struct NodeLabel {
    args: NodeLabelArgs,
}

/// `NodeLabelArgs` of `kubescheduler.config.k8s.io/v1beta1`. No label may be both in a list and in the
/// opposite list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "WireArgs")]
pub struct NodeLabelArgs {
    present: Vec<Str>,
    absent: Vec<Str>,
    present_preference: Vec<Str>,
    absent_preference: Vec<Str>,
}

impl Plugin for NodeLabel {
    const NAME: &'static str = "NodeLabel";
    type Args = NodeLabelArgs;
    fn new(args: NodeLabelArgs, _: &FeatureGates) -> Self {
        NodeLabel { args }
    }
}

impl Filter for NodeLabel {
    type Pod = ();
    type Node = Labels;

    fn applies(&self, (): ()) -> bool {
        !self.args.present.is_empty() || !self.args.absent.is_empty()
    }

    fn filter(&self, (): (), labels: &Labels) -> Verdict {
        let has = |label: &Str| labels.contains_key(label);
        if self.args.present.iter().all(has) && !self.args.absent.iter().any(has) {
            Verdict::Pass
        } else {
            Verdict::unresolvable(NOT_AS_REQUESTED)
        }
    }
}

impl Score for NodeLabel {
    type Pod = ();
    type Node = Labels;

    fn applies(&self, (): ()) -> bool {
        !self.args.present_preference.is_empty() || !self.args.absent_preference.is_empty()
    }

    /// As in node_label.go, Score: a label that is listed twice counts twice.
    fn score(&self, (): (), labels: &Labels) -> i64 {
        let NodeLabelArgs { present_preference, absent_preference, .. } = &self.args;
        let present = present_preference.iter().map(|label| labels.contains_key(label));
        let absent = absent_preference.iter().map(|label| !labels.contains_key(label));
        let (mut met, mut all) = (0, 0);
        for is_met in present.chain(absent) {
            met += i64::from(is_met);
            all += 1;
        }
        MAX_NODE_SCORE * met / all
    }
}

/// Registration.
pub fn entry() -> Entry {
    Entry::of::<NodeLabel>().filter().score().done()
}

/// `NodeLabelArgs` as in the configuration.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct WireArgs {
    present_labels: Vec<Str>,
    absent_labels: Vec<Str>,
    present_labels_preference: Vec<Str>,
    absent_labels_preference: Vec<Str>,
}

impl TryFrom<WireArgs> for NodeLabelArgs {
    type Error = String;

    fn try_from(args: WireArgs) -> Result<Self, String> {
        no_conflict(&args.present_labels, &args.absent_labels)?;
        no_conflict(&args.present_labels_preference, &args.absent_labels_preference)?;
        Ok(NodeLabelArgs {
            present: args.present_labels,
            absent: args.absent_labels,
            present_preference: args.present_labels_preference,
            absent_preference: args.absent_labels_preference,
        })
    }
}

/// As in validation_pluginargs.go, validateNoConflict.
fn no_conflict(present: &[Str], absent: &[Str]) -> Result<(), String> {
    match absent.iter().find(|label| present.contains(label)) {
        None => Ok(()),
        Some(label) => Err(format!(
            "detecting at least one label (e.g., {label:?}) that exist in both the present([{}]) and \
             absent([{}]) label list",
            present.join(" "),
            absent.join(" "),
        )),
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_testkit::{check, expect};

    use super::*;

    /// Nodes with both labels, one of them, and none.
    const NODES: &str = "
        node both foo=x bar=
        node foo foo=y
        node bar bar=z
        node none
        pod p
    ";

    fn check_with(args: &str, expected: &plimsoll_testkit::Expect) {
        check(entry(), &format!("args {args}\n{NODES}"), expected);
    }

    #[test]
    fn all_present_labels_must_be_there_whatever_their_value() {
        check_with(
            r#"{"presentLabels": ["foo", "bar"]}"#,
            &expect![[r"
            p both Success
            p foo UnschedulableAndUnresolvable: node(s) didn't have the requested labels
            p bar UnschedulableAndUnresolvable: node(s) didn't have the requested labels
            p none UnschedulableAndUnresolvable: node(s) didn't have the requested labels
            p skips score
        "]],
        );
    }

    #[test]
    fn no_absent_label_may_be_there_even_with_an_empty_value() {
        check_with(
            r#"{"absentLabels": ["bar"]}"#,
            &expect![[r"
            p both UnschedulableAndUnresolvable: node(s) didn't have the requested labels
            p foo Success
            p bar UnschedulableAndUnresolvable: node(s) didn't have the requested labels
            p none Success
            p skips score
        "]],
        );
        check_with(
            r#"{"presentLabels": ["foo"], "absentLabels": ["bar"]}"#,
            &expect![[r"
            p both UnschedulableAndUnresolvable: node(s) didn't have the requested labels
            p foo Success
            p bar UnschedulableAndUnresolvable: node(s) didn't have the requested labels
            p none UnschedulableAndUnresolvable: node(s) didn't have the requested labels
            p skips score
        "]],
        );
    }

    #[test]
    fn the_score_is_the_average_over_all_preferences() {
        check_with(
            r#"{"presentLabelsPreference": ["foo"], "absentLabelsPreference": ["bar"]}"#,
            &expect![[r"
                p both Success
                p foo Success
                p bar Success
                p none Success
                p both score 50
                p foo score 100
                p bar score 0
                p none score 50
            "]],
        );
        check_with(
            r#"{"presentLabelsPreference": ["foo", "foo"], "absentLabelsPreference": ["bar"]}"#,
            &expect![[r"
                p both Success
                p foo Success
                p bar Success
                p none Success
                p both score 66
                p foo score 100
                p bar score 0
                p none score 33
            "]],
        );
    }

    #[test]
    fn without_args_every_node_passes_and_no_score_is_given() {
        check_with(
            "{}",
            &expect![[r"
            p both Success
            p foo Success
            p bar Success
            p none Success
            p skips score
        "]],
        );
    }

    #[test]
    fn a_label_cannot_be_wanted_both_present_and_absent() {
        check_with(
            r#"{"presentLabels": ["foo", "bar"], "absentLabels": ["baz", "bar"]}"#,
            &expect![[r#"
                args of plugin NodeLabel: detecting at least one label (e.g., "bar") that exist in both the present([foo bar]) and absent([baz bar]) label list
            "#]],
        );
        check_with(
            r#"{"presentLabelsPreference": ["foo"], "absentLabelsPreference": ["foo"]}"#,
            &expect![[r#"
                args of plugin NodeLabel: detecting at least one label (e.g., "foo") that exist in both the present([foo]) and absent([foo]) label list
            "#]],
        );
        check_with(
            r#"{"presentLabels": ["foo"], "absentLabelsPreference": ["foo"]}"#,
            &expect![[r"
                p both Success
                p foo Success
                p bar UnschedulableAndUnresolvable: node(s) didn't have the requested labels
                p none UnschedulableAndUnresolvable: node(s) didn't have the requested labels
                p both score 0
                p foo score 0
            "]],
        );
    }

    #[test]
    fn a_rejected_pod_waits_for_nodes_that_come_and_for_labels() {
        let points = entry().make(None, &FeatureGates::default()).expect("args are optional");
        let waits = plimsoll_framework::events::derived(points.reads, &[]);
        let labels = Action::ADD | Action::UPDATE_NODE_LABEL;
        assert_eq!(waits, [ClusterEvent::of::<Node>(labels)]);
        assert!(points.filter_is_local, "the node that changed is asked whether that helps");
    }

    #[test]
    fn args_with_an_unknown_field_are_refused() {
        check_with(
            r#"{"labels": ["foo"]}"#,
            &expect![[r"
            args.labels of plugin NodeLabel: unknown field `labels`, expected one of `presentLabels`, `absentLabels`, `presentLabelsPreference`, `absentLabelsPreference`
        "]],
        );
    }
}
