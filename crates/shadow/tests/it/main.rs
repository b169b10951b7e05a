//! Clusters that another scheduler serves, and what the shadow says of it.

mod groups;
mod lab;
mod own_cluster;

use plimsoll_api::PodKey;
use plimsoll_shadow::{Archive, Disagreement, DisagreementKind, Reproduction};
use serde_json::json;

use crate::lab::{Lab, node, pod};

#[test]
fn the_best_node_is_the_same_or_a_tie() {
    let mut lab = Lab::new();
    lab.see(&[node("n1", "4"), node("n2", "4")]);
    lab.begin();
    lab.see(&[pod("a", "1"), pod("b", "1")]);
    lab.bind("a", "n2");
    // The other node is empty now.
    lab.bind("b", "n1");
    let report = lab.report();
    let pods = &report.configurations[0].pods;
    assert_eq!((pods.compared, pods.tie, pods.same), (2, 1, 1));
    assert_eq!(report.disagreements.len(), 0);
    assert_eq!(json!(report.balance.pods_per_node.max), json!(1.0));
}

#[test]
fn a_worse_node_is_reported_with_the_plugin_that_decides() {
    let mut lab = Lab::new();
    lab.see(&[node("n1", "4"), node("n2", "4")]);
    lab.begin();
    lab.see(&[pod("a", "1"), pod("b", "1")]);
    lab.bind("a", "n1");
    lab.wait(10);
    lab.bind("b", "n1");
    let report = lab.report();
    let configuration = &report.configurations[0];
    assert_eq!((configuration.pods.tie, configuration.pods.worse), (1, 1));
    // Which of the two makes the greater difference depends on rounding.
    assert!(configuration.worse_by[0].plugin.starts_with("NodeResources"));
    let found = &report.disagreements[0];
    assert_eq!((found.kind, &*found.pod), (DisagreementKind::Worse, "default/b"));
    assert_eq!((found.theirs.as_deref(), &*found.ours[0]), (Some("n1"), "n2"));
    assert!(
        found.why.starts_with("n1 has ") && found.why.contains("NodeResourcesFit"),
        "{}",
        found.why
    );
    assert_eq!(
        configuration.max_margin,
        found.margin.and_then(|margin| u64::try_from(margin).ok())
    );
}

#[test]
fn an_infeasible_node_is_reported_with_the_rule() {
    let mut lab = Lab::new();
    let mut tainted = node("n2", "8");
    tainted["spec"]["taints"] = json!([{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]);
    lab.see(&[node("n1", "1"), tainted]);
    lab.begin();
    lab.see(&[pod("a", "1"), pod("b", "4")]);
    lab.bind("a", "n2");
    lab.wait(10);
    lab.bind("b", "n2");
    let report = lab.report();
    let configuration = &report.configurations[0];
    assert_eq!((configuration.pods.infeasible, configuration.pods.unschedulable), (1, 1));
    let rule = &configuration.infeasible_by[0];
    assert_eq!((&*rule.plugin, rule.pods), ("TaintToleration", 2));
    assert!(rule.reason.contains("untolerated taint"), "{}", rule.reason);
    let kinds: Vec<_> = report.disagreements.iter().map(|found| found.kind).collect();
    assert_eq!(kinds, [DisagreementKind::Infeasible, DisagreementKind::Unschedulable]);
    assert!(report.disagreements[1].ours.is_empty());
}

#[test]
fn bindings_that_come_in_another_order_than_decisions_still_agree() {
    // The other scheduler decided a, then b; the binding of b is seen first.
    let mut lab = Lab::new();
    lab.see(&[node("n1", "8"), node("n2", "4")]);
    lab.begin();
    lab.see(&[pod("a", "6"), pod("b", "2")]);
    lab.bind("b", "n2");
    lab.bind("a", "n1");
    let pods = lab.report().configurations[0].pods.clone();
    assert_eq!((pods.compared, pods.agreed(), pods.reordered), (2, 2, 1), "{pods:?}");
    // Long afterwards it cannot have been so.
    let mut lab = Lab::new();
    lab.see(&[node("n1", "8"), node("n2", "4")]);
    lab.begin();
    lab.see(&[pod("a", "6"), pod("b", "2")]);
    lab.bind("b", "n2");
    lab.wait(10);
    lab.bind("a", "n1");
    let pods = lab.report().configurations[0].pods.clone();
    assert_eq!((pods.agreed(), pods.reordered, pods.worse), (1, 0, 1), "{pods:?}");
}

#[test]
fn a_pod_that_the_other_one_leaves_pending_is_compared() {
    let mut lab = Lab::new();
    lab.see(&[node("n1", "4")]);
    lab.begin();
    let said = |mut pod: serde_json::Value| {
        pod["metadata"]["resourceVersion"] = json!("7");
        pod["status"]["conditions"] = json!([{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1",
        }]);
        pod
    };
    lab.see(&[pod("fits", "1"), pod("large", "9")]);
    lab.see(&[said(pod("fits", "1")), said(pod("large", "9"))]);
    // The same again is nothing new.
    lab.see(&[said(pod("large", "9"))]);
    let report = lab.report();
    let pods = &report.configurations[0].pods;
    assert_eq!((pods.both_pending, pods.pending_although_fits), (1, 1));
    assert_eq!(report.disagreements[0].kind, DisagreementKind::Pending);
    assert_eq!((report.still_pending.pods, report.still_pending.said_unschedulable), (2, 2));
}

#[test]
fn pods_before_the_beginning_and_of_others_are_not_compared() {
    let mut lab = Lab::new();
    lab.see(&[node("n1", "4"), pod("old", "1")]);
    lab.bind("old", "n1");
    lab.begin();
    let mut foreign = pod("foreign", "1");
    foreign["spec"]["schedulerName"] = json!("another");
    let mut direct = pod("direct", "1");
    direct["spec"]["nodeName"] = json!("n1");
    lab.see(&[foreign.clone(), direct]);
    foreign["spec"]["nodeName"] = json!("n1");
    lab.see(&[foreign]);
    let report = lab.report();
    assert_eq!(report.configurations[0].pods.compared, 0);
    assert_eq!(report.not_seen_pending, 1);
    assert_eq!(json!(report.balance.pods_per_node.max), json!(3.0), "all of them use the node");
}

#[test]
fn pending_times_are_those_of_the_other_scheduler() {
    let mut lab = Lab::new();
    lab.see(&[node("n1", "4")]);
    lab.begin();
    lab.wait(1);
    lab.see(&[pod("a", "1")]);
    lab.wait(8);
    lab.bind("a", "n1");
    let times = lab.report().pending_time;
    assert_eq!(times.count, 1);
    assert!((7.8..=8.0).contains(&times.p50_seconds), "{times:?}");
}

#[derive(Default)]
struct Kept(Vec<(String, Vec<String>)>);

impl Archive for Kept {
    fn keep(
        &mut self,
        disagreement: &Disagreement,
        manifests: &mut dyn Iterator<Item = &str>,
    ) -> Option<Reproduction> {
        let manifests = manifests.map(ToOwned::to_owned).collect();
        self.0.push((disagreement.key.to_string(), manifests));
        Some(Reproduction { file: "f".to_owned(), command: "explain".to_owned() })
    }
}

#[test]
fn the_state_of_a_disagreement_is_archived_as_it_was_before_the_binding() {
    let mut lab = Lab::new();
    lab.see(&[node("n1", "4"), node("n2", "4")]);
    lab.begin();
    lab.see(&[pod("a", "1"), pod("b", "1"), pod("gone", "1")]);
    lab.delete(&PodKey::new("default", "gone"));
    lab.bind("a", "n1");
    lab.wait(10);
    lab.bind("b", "n1");
    let mut kept = Kept::default();
    let report = lab.report_with(&mut kept);
    assert_eq!(
        report.disagreements[0].reproduction.as_ref().map(|one| &*one.command),
        Some("explain")
    );
    let [(key, manifests)] = &*kept.0 else { panic!("there is one: {:?}", kept.0) };
    assert_eq!(key, "default/b");
    let placed: Vec<_> = manifests
        .iter()
        .map(|manifest| serde_json::from_str::<serde_json::Value>(manifest).expect("it is JSON"))
        .map(|it| (it["metadata"]["name"].clone(), it["spec"]["nodeName"].clone()))
        .collect();
    let expected = [("n1", None), ("n2", None), ("a", Some("n1")), ("b", None)];
    assert_eq!(placed, expected.map(|(name, node)| (json!(name), json!(node))));
}

#[test]
fn two_configurations_are_compared_with_each_other() {
    let mut lab = Lab::against(&["NodeResourcesFit", "NodeResourcesBalancedAllocation"]);
    lab.see(&[node("n1", "4"), node("n2", "4")]);
    lab.begin();
    lab.see(&[pod("a", "1"), pod("b", "1")]);
    lab.bind("a", "n1");
    lab.wait(10);
    lab.bind("b", "n1");
    let report = lab.report();
    // The second one does not care for free resources.
    let [first, second] = &*report.configurations else { panic!("there are two") };
    assert_eq!((first.pods.worse, second.pods.worse), (1, 0));
    let between = report.between_configurations.expect("there are two");
    assert_eq!((between.compared, between.same, between.overlap), (2, 1, 1));
    assert_eq!(between.examples[0].first, ["n2"]);
    assert_eq!(between.examples[0].second, ["n1", "n2"]);
}

#[test]
fn only_the_latest_disagreements_are_kept() {
    let mut lab = Lab::new();
    // Each pod is a large enough part of the node to be seen in the score.
    lab.see(&[node("n1", "20"), node("n2", "20")]);
    lab.begin();
    for number in 0..15 {
        let name = format!("p{number}");
        lab.see(&[pod(&name, "1")]);
        lab.bind(&name, "n1");
        lab.wait(10);
    }
    let report = lab.report();
    assert_eq!(report.configurations[0].pods.worse, 14);
    assert_eq!((report.disagreements.len(), report.disagreements_dropped), (lab::MOST_KEPT, 4));
    assert_eq!(report.disagreements[0].number, 5);
}
