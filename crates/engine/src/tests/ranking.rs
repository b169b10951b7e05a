//! A ranking in place of the Score plugins.

use std::fmt::Write as _;
use std::sync::Arc;

use expect_test::{Expect, expect};
use plimsoll_api::{Node, Pod};
use plimsoll_framework::{PodInfo, Point, Prioritize, Prioritized, Row, Time, View};

use super::lab;
use crate::{
    Detail, Engine, Event, NodeVerdict, Observation, Options, Outcome, Scheduler, TieBreak,
};

/// Gives a node the points of its label `points`, and the node with the most pods none in the end: what a
/// node gets depends on the others, as it does in a reduce step.
#[derive(Debug)]
struct ByLabel;

impl Prioritize for ByLabel {
    fn most(&self) -> i64 {
        10
    }

    fn prioritize(&self, _: &PodInfo, view: View<'_>, feasible: &[Row]) -> Vec<Prioritized> {
        let points = |row: &Row| {
            let label = view.nodes.node(*row).labels.get("points").map(|points| points.parse());
            label.map_or(0, |points| points.expect("it is a number"))
        };
        let count = |row: &Row| view.nodes.pods_on(*row).len();
        let most = feasible.iter().map(count).max().unwrap_or(0);
        let fewer = |row: &Row| if 0 < most && count(row) == most { 0 } else { 10 };
        vec![
            Prioritized {
                name: "ByLabel".into(),
                weight: 2,
                points: feasible.iter().map(points).collect(),
            },
            Prioritized {
                name: "Fewer".into(),
                weight: 1,
                points: feasible.iter().map(fewer).collect(),
            },
        ]
    }
}

fn scheduler(engine: Engine, detail: Detail) -> Scheduler {
    let profile = lab::profile("lab", None, |_| true).ranked_by(Arc::new(ByLabel));
    let options = Options { engine, detail, tie_break: TieBreak::First, ..Options::default() };
    Scheduler::new(vec![profile], options, 0).expect("there is one profile")
}

/// Where a pod of this scheduler goes, and what every node got.
fn decide(scheduler: &mut Scheduler, pod: Pod) -> String {
    scheduler.observe(Time::ZERO, Event::pod(pod));
    scheduler.step(Time::ZERO, &mut Vec::new());
    let decision = scheduler.take_decisions().pop().expect("the pod was decided");
    let mut told = match decision.outcome {
        Outcome::Scheduled { node, best } => format!("{node} of {}\n", best.join(" ")),
        Outcome::Unschedulable { message, .. } | Outcome::Error { message } => message + "\n",
    };
    for node in decision.nodes {
        if let NodeVerdict::Scored { scores, total } = node.verdict {
            let scores = scores.iter().map(|(name, score)| format!("{name} {score}"));
            let scores: Vec<String> = scores.collect();
            writeln!(told, "{}: {} = {total}", node.name, scores.join(" + "))
                .expect("text can grow");
        }
    }
    told
}

fn check(nodes: &[Node], pods: &[Pod], expected: &Expect) {
    let [fast, reference] = [Engine::Fast, Engine::Reference].map(|engine| {
        let mut told = String::new();
        let mut plain = String::new();
        for (detail, text) in [(Detail::Nodes, &mut told), (Detail::Outcome, &mut plain)] {
            let mut scheduler = scheduler(engine, detail);
            for node in nodes {
                scheduler.observe(Time::ZERO, Event::Node(Box::new(Observation::Is(node.clone()))));
            }
            for pod in pods {
                *text += &decide(&mut scheduler, pod.clone());
            }
        }
        let outcomes: Vec<&str> = told.lines().filter(|line| !line.contains(" = ")).collect();
        assert_eq!(outcomes.join("\n"), plain.trim_end(), "detail changes no decision");
        told
    });
    assert_eq!(fast, reference);
    expected.assert_eq(&fast);
}

#[test]
fn a_ranking_decides_in_place_of_the_score_plugins() {
    let nodes = [
        lab::node("a", &["cpu=9", "zone=x", "points=3"]),
        lab::node("b", &["cpu=9", "points=7"]),
        lab::node("c", &["cpu=0", "points=10"]),
    ];
    // The Score plugin of the lab would have it go to a, which the pod likes.
    let pods = ["p", "q"].map(|name| lab::pod(name, &["cpu=1", "likes=x"]));
    check(
        &nodes,
        &pods,
        &expect![[r#"
            b of b
            a: ByLabel 6 + Fewer 10 = 16
            b: ByLabel 14 + Fewer 10 = 24
            a of a
            a: ByLabel 6 + Fewer 10 = 16
            b: ByLabel 14 + Fewer 0 = 14
        "#]],
    );
}

#[test]
fn points_out_of_range_are_an_error() {
    let nodes = [lab::node("a", &["cpu=9", "points=11"]), lab::node("b", &["cpu=9"])];
    check(
        &nodes,
        &[lab::pod("p", &["cpu=1"])],
        &expect![[r#"
            priority "ByLabel" gives 11 points, it should give 0 to 10 after reducing
        "#]],
    );
}

#[test]
fn with_a_share_of_the_nodes_those_of_the_share_are_ranked() {
    let profile = lab::profile("lab", Some(0), |point| point != Point::Score);
    let profile = profile.ranked_by(Arc::new(ByLabel));
    let options = Options { detail: Detail::Nodes, ..Options::default() };
    let mut scheduler = Scheduler::new(vec![profile], options, 0).expect("there is one profile");
    for i in 0..120 {
        let node = lab::node(&format!("n{i:03}"), &["cpu=9", &format!("points={}", i / 12)]);
        scheduler.observe(Time::ZERO, Event::Node(Box::new(Observation::Is(node))));
    }
    // Without anything that ranks, the first feasible node would be enough.
    let told = decide(&mut scheduler, lab::pod("p", &["cpu=1"]));
    assert!(told.starts_with("n096 of n096 n097 n098 n099\n"), "{told}");
}
