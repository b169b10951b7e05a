//! Which nodes are looked at, which of equal ones is taken, and that it is the same every time.

use std::fmt::Write as _;

use expect_test::expect;
use plimsoll_api::{Node, Pod};
use plimsoll_framework::{Point, Time};

use super::lab;
use crate::{
    Detail, Effect, Event, NodeVerdict, Observation, Options, Outcome, Profile, ProfileSpec,
    Scheduler, TieBreak,
};

fn scheduler(percentage: Option<u8>, scores: bool, tie_break: TieBreak, seed: u64) -> Scheduler {
    let at = |point| scores || point != Point::Score;
    let options = Options { detail: Detail::Nodes, tie_break, ..Options::default() };
    let profile = lab::profile("lab", percentage, at);
    Scheduler::new(vec![profile], options, seed).expect("there is one profile")
}

fn add_nodes(scheduler: &mut Scheduler, nodes: impl IntoIterator<Item = Node>) {
    for node in nodes {
        scheduler.observe(Time::ZERO, Event::Node(Box::new(Observation::Is(node))));
    }
}

fn schedule(scheduler: &mut Scheduler, pod: Pod) -> Vec<Effect> {
    scheduler.observe(Time::ZERO, Event::pod(pod));
    let mut effects = Vec::new();
    scheduler.step(Time::ZERO, &mut effects);
    effects
}

/// 120 nodes, of which every `rejected`-th is too small.
fn many(rejected: usize) -> impl Iterator<Item = Node> {
    (0..120).map(move |i| {
        let cpu = if (i + 1) % rejected == 0 { "cpu=0" } else { "cpu=9" };
        lab::node(&format!("n{i:03}"), &[cpu])
    })
}

/// A line for each of `n_pods` pods: its node, and the nodes that were judged, as ranges.
fn looks(scheduler: &mut Scheduler, n_pods: usize) -> String {
    let mut text = String::new();
    for i in 0..n_pods {
        schedule(scheduler, lab::pod(&format!("p{i}"), &["cpu=1"]));
        let decision = scheduler.take_decisions().pop().expect("the pod was decided");
        let Outcome::Scheduled { node, .. } = &decision.outcome else {
            panic!("{:?}", decision.outcome)
        };
        let rejected = |verdict: &NodeVerdict| matches!(verdict, NodeVerdict::Rejected { .. });
        let n_rejected = decision.nodes.iter().filter(|node| rejected(&node.verdict)).count();
        let numbers = decision.nodes.iter().map(|node| node.name[1..].parse::<usize>());
        let numbers: Vec<usize> = numbers.map(|n| n.expect("names end in numbers")).collect();
        let ranges: Vec<String> = numbers
            .chunk_by(|a, b| a + 1 == *b)
            .map(|run| format!("{}..={}", run[0], run[run.len() - 1]))
            .collect();
        let ranges = ranges.join(" ");
        writeln!(text, "{node} of {ranges}, {n_rejected} rejected").expect("text can grow");
    }
    text
}

#[test]
fn all_nodes_are_looked_at_unless_a_share_is_set() {
    let mut scheduler = scheduler(None, true, TieBreak::First, 0);
    add_nodes(&mut scheduler, many(3));
    expect![[r#"
        n000 of 0..=119, 40 rejected
        n000 of 0..=119, 40 rejected
    "#]]
    .assert_eq(&looks(&mut scheduler, 2));
}

#[test]
fn with_an_adaptive_share_each_pod_goes_on_where_the_last_one_ended() {
    let mut scheduler = scheduler(Some(0), true, TieBreak::First, 0);
    add_nodes(&mut scheduler, many(1000));
    expect![[r#"
        n000 of 0..=99, 0 rejected
        n000 of 0..=79 100..=119, 0 rejected
        n000 of 0..=59 80..=119, 0 rejected
        n000 of 0..=39 60..=119, 0 rejected
    "#]]
    .assert_eq(&looks(&mut scheduler, 4));
}

#[test]
fn nodes_that_are_rejected_do_not_fill_the_share() {
    let mut scheduler = scheduler(Some(50), true, TieBreak::First, 0);
    add_nodes(&mut scheduler, many(10));
    expect![[r#"
        n000 of 0..=110, 11 rejected
        n000 of 0..=101 111..=119, 11 rejected
        n000 of 0..=92 102..=119, 11 rejected
    "#]]
    .assert_eq(&looks(&mut scheduler, 3));
}

#[test]
fn where_nothing_is_scored_one_feasible_node_is_enough() {
    let mut scheduler = scheduler(Some(0), false, TieBreak::First, 0);
    add_nodes(&mut scheduler, many(2));
    expect![[r#"
        n000 of 0..=1, 1 rejected
        n002 of 2..=3, 1 rejected
        n004 of 4..=5, 1 rejected
    "#]]
    .assert_eq(&looks(&mut scheduler, 3));
}

#[test]
fn a_share_is_taken_from_all_zones_in_turn() {
    let mut scheduler = scheduler(Some(0), true, TieBreak::First, 0);
    let zone = |i: usize| {
        if i < 100 {
            "topology.kubernetes.io/zone=x"
        } else {
            "failure-domain.beta.kubernetes.io/zone=y"
        }
    };
    let nodes = (0..120).map(|i| lab::node(&format!("n{i:03}"), &["cpu=9", zone(i)]));
    add_nodes(&mut scheduler, nodes);
    // One of each zone until the 20 of y are all taken, and then the rest of x.
    expect![[r#"
        n000 of 0..=79 100..=119, 0 rejected
        n000 of 0..=59 80..=119, 0 rejected
    "#]]
    .assert_eq(&looks(&mut scheduler, 2));
}

fn picks(seed: u64, n_pods: usize) -> Vec<String> {
    let mut scheduler = scheduler(None, true, TieBreak::Random, seed);
    add_nodes(&mut scheduler, ["a", "b", "c", "d"].map(|name| lab::node(name, &["cpu=9"])));
    let mut picks = Vec::new();
    for i in 0..n_pods {
        schedule(&mut scheduler, lab::pod(&format!("p{i}"), &[]));
        match scheduler.take_decisions().pop().map(|decision| decision.outcome) {
            Some(Outcome::Scheduled { node, best }) => {
                assert_eq!(best.len(), 4, "all nodes are equal");
                picks.push(node.to_string());
            }
            other => panic!("{other:?}"),
        }
    }
    picks
}

#[test]
fn a_random_choice_among_equals_is_uniform() {
    let picks = picks(7, 4000);
    for node in ["a", "b", "c", "d"] {
        let n = picks.iter().filter(|pick| *pick == node).count();
        // Six standard deviations of a binomial distribution of 4000 with 1/4 are 164.
        assert!(n.abs_diff(1000) < 164, "{node} was taken {n} times of 4000 with seed 7");
    }
}

#[test]
fn a_random_choice_depends_on_the_seed_alone() {
    assert_eq!(picks(1, 50), picks(1, 50));
    assert_ne!(picks(1, 50), picks(2, 50));
}

#[test]
fn the_same_events_have_the_same_effects() {
    let run = || {
        let mut scheduler = scheduler(Some(0), true, TieBreak::Random, 3);
        add_nodes(&mut scheduler, many(7));
        let mut all = Vec::new();
        for i in 0..100 {
            let cpu = format!("cpu={}", 1 + i % 12);
            let pod = lab::pod(&format!("p{i}"), &[cpu.as_str(), "prepare=yes"]);
            let effects = schedule(&mut scheduler, pod);
            for effect in &effects {
                scheduler.observe(Time::ZERO, Event::Done(effect.id, Ok(())));
            }
            all.extend(effects);
        }
        (all, scheduler.take_decisions())
    };
    assert_eq!(run(), run());
}

fn broken(change: impl Fn(&mut ProfileSpec)) -> String {
    let registry = super::plugins::registry();
    let mut spec = ProfileSpec { scheduler_name: "lab".into(), ..ProfileSpec::default() };
    spec.points.insert(Point::QueueSort, vec![("Sort".into(), 0)]);
    spec.points.insert(Point::Bind, vec![("Binder".into(), 0)]);
    change(&mut spec);
    let made = Profile::new(&spec, &registry, &plimsoll_framework::FeatureGates::default());
    made.err().map_or_else(|| "fine".to_owned(), |error| error.to_string())
}

#[test]
fn a_profile_that_cannot_work_is_refused() {
    let twice = vec![("Cpu".to_owned(), 0); 2];
    let mut all = vec![
        broken(|_| ()),
        broken(|spec| drop(spec.points.remove(&Point::Bind))),
        broken(|spec| drop(spec.points.remove(&Point::QueueSort))),
        broken(|spec| drop(spec.points.insert(Point::Filter, twice.clone()))),
    ];
    for weight in [i64::MAX / 100, i64::MAX / 100 + 1] {
        let like = vec![("Like".to_owned(), weight)];
        all.push(broken(|spec| drop(spec.points.insert(Point::Score, like.clone()))));
    }
    expect![[r#"
        fine
        profile "lab": at least one bind plugin must be enabled
        profile "lab": exactly one queue sort plugin must be enabled
        profile "lab": plugin "Cpu" already registered as "FilterPlugin"
        fine
        profile "lab": total score of Score plugins could overflow
    "#]]
    .assert_eq(&(all.join("\n") + "\n"));
}
