//! The laws compare the acceleration of every plugin with its rule.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use plimsoll_framework::prelude::*;
use plimsoll_testkit::{laws, random_scenarios};
use serde::Deserialize;

/// Which acceleration differs from the rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
enum Wrong {
    #[default]
    None,
    Filter,
    Score,
}

#[derive(Default, Deserialize)]
struct Args {
    wrong: Wrong,
}

/// Judges by CPU, and gives every node the same score.
struct Cpus(Wrong);

impl Plugin for Cpus {
    const NAME: &'static str = "Cpus";
    type Args = Args;
    fn new(args: Args, _: &FeatureGates) -> Self {
        Cpus(args.wrong)
    }
}

impl Filter for Cpus {
    type Pod = Requests;
    type Node = (Allocatable, Requested);
    fn filter(&self, pod: &Resources, (all, taken): (&Allocatable, &Requested)) -> Verdict {
        match pod.milli_cpu <= all.0.milli_cpu.saturating_sub(taken.0.milli_cpu) {
            true => Verdict::Pass,
            false => Verdict::unschedulable("Insufficient cpu"),
        }
    }
}

impl FilterByAmounts for Cpus {
    fn needs(&self, pod: &Resources) -> Option<Needs> {
        let more = if self.0 == Wrong::Filter { 1_000 } else { 0 };
        Some(Needs([("cpu".into(), pod.milli_cpu.saturating_add(more))].into_iter().collect()))
    }
}

impl Score for Cpus {
    type Pod = ();
    type Node = ();
    fn score(&self, (): (), (): ()) -> i64 {
        50
    }
}

struct Flat(f32);

impl ScoreBound for Flat {
    fn resources(&self) -> SmallVec<[Str; 4]> {
        SmallVec::new()
    }
    fn add(&self, _: &Supply, _: &[f32], weight: f32, out: &mut [f32]) {
        for out in out {
            *out += weight * self.0;
        }
    }
}

impl ScoreByAmounts for Cpus {
    fn bound(&self, (): ()) -> Option<Box<dyn ScoreBound>> {
        Some(Box::new(Flat(if self.0 == Wrong::Score { 49.0 } else { 50.0 })))
    }
}

/// Lets a zone have two pods, and prefers zones with one.
struct Zones(Wrong);

impl Plugin for Zones {
    const NAME: &'static str = "Zones";
    type Args = Args;
    fn new(args: Args, _: &FeatureGates) -> Self {
        Zones(args.wrong)
    }
}

type ByZone = BTreeMap<Str, i64>;

fn pods_by_zone(nodes: NodesRef<'_, (Labels, Pods)>) -> ByZone {
    let mut zones = ByZone::new();
    for (labels, pods) in nodes.iter() {
        if let Some(zone) = labels.get("zone") {
            *zones.entry(zone.clone()).or_default() += i64::try_from(pods.len()).expect("few pods");
        }
    }
    zones
}

fn of(zones: &ByZone, labels: &Labels) -> i64 {
    labels.get("zone").and_then(|zone| zones.get(zone)).copied().unwrap_or(0)
}

fn verdict(count: i64) -> Verdict {
    match count <= 2 {
        true => Verdict::Pass,
        false => Verdict::unschedulable("node(s) were in a crowded zone"),
    }
}

fn score(count: i64) -> i64 {
    if count == 1 { 100 } else { 0 }
}

impl PreFilter for Zones {
    type Pod = ();
    type Node = Labels;
    type Cluster = Nodes<(Labels, Pods)>;
    type State = ByZone;
    fn pre_filter(
        &self,
        (): (),
        nodes: NodesRef<'_, (Labels, Pods)>,
    ) -> Result<Option<ByZone>, Rejection> {
        Ok(Some(pods_by_zone(nodes)))
    }
    fn filter(&self, zones: &ByZone, labels: &Labels) -> Verdict {
        verdict(of(zones, labels))
    }
}

impl PreScore for Zones {
    type Pod = ();
    type Node = Labels;
    type Cluster = Nodes<(Labels, Pods)>;
    type State = ByZone;
    fn pre_score(
        &self,
        (): (),
        _: Feasible<'_, Labels>,
        nodes: NodesRef<'_, (Labels, Pods)>,
    ) -> Option<ByZone> {
        Some(pods_by_zone(nodes))
    }
    fn score(&self, zones: &ByZone, _: Row, labels: &Labels) -> i64 {
        score(of(zones, labels))
    }
}

/// Every pod counts once in its zone, or twice if it is to be wrong.
struct CountsPods([DomainTerm; 1], i64);

impl CountsPods {
    fn of(wrong: bool) -> Self {
        let key = TopologyKey::Label("zone".into());
        CountsPods([DomainTerm { key, nodes: CountedNodes::default() }], if wrong { 2 } else { 1 })
    }
}

impl DomainCounter for CountsPods {
    fn terms(&self) -> &[DomainTerm] {
        &self.0
    }
    fn counts_plain_pods(&self) -> bool {
        true
    }
    fn count(&self, _: Neighbour<'_>) -> Option<Counting> {
        Some(smallvec![(0, self.1)])
    }
}

impl DomainFilter for CountsPods {
    fn compares_domains(&self) -> bool {
        false
    }
    fn verdict(&self, term_counts: &[TermCount], _: &[TermTotals]) -> Verdict {
        verdict(term_counts[0].count)
    }
}

impl DomainScore for CountsPods {
    fn is_ranked(&self, _: &[TermCount]) -> bool {
        true
    }
    fn reads_domains(&self) -> bool {
        false
    }
    fn raw(&self, term_counts: &[TermCount], _: &[f64]) -> i64 {
        score(term_counts[0].count)
    }
    fn normalize(&self, _: &mut [Scored]) {}
}

impl FilterByCounts for Zones {
    type Objects = ();
    fn by_domain(&self, (): (), (): (), _: Neighbours<'_>) -> ByDomain<dyn DomainFilter> {
        ByDomain::Counts(Box::new(CountsPods::of(self.0 == Wrong::Filter)))
    }
}

impl ScoreByCounts for Zones {
    type Objects = ();
    fn by_domain(&self, (): (), (): (), _: Neighbours<'_>) -> ByDomain<dyn DomainScore> {
        ByDomain::Counts(Box::new(CountsPods::of(self.0 == Wrong::Score)))
    }
}

/// Scores that depend on which nodes are feasible, which is not allowed for scores by node.
struct Choosy(Wrong);

impl Plugin for Choosy {
    const NAME: &'static str = "Choosy";
    type Args = Args;
    fn new(args: Args, _: &FeatureGates) -> Self {
        Choosy(args.wrong)
    }
}

impl PreScore for Choosy {
    type Pod = ();
    type Node = ();
    type Cluster = ();
    type State = i64;
    fn pre_score(&self, (): (), feasible: Feasible<'_, ()>, (): ()) -> Option<i64> {
        let is_one = feasible.iter().count() == 1;
        Some(if self.0 == Wrong::Score && is_one { 100 } else { 7 })
    }
    fn score(&self, state: &i64, _: Row, (): ()) -> i64 {
        *state
    }
}

impl ScoreByNode for Choosy {
    fn state(&self, (): (), (): ()) -> Option<i64> {
        Some(7)
    }
}

/// The law that a plugin breaks.
fn broken(entry: &Entry, wrong: &str) -> String {
    let scenarios = random_scenarios(0..20)
        .map(|scenario| format!("args {{\"wrong\": \"{wrong}\"}}\n{scenario}"));
    match catch_unwind(AssertUnwindSafe(|| laws(entry, scenarios))) {
        Ok(()) => "none".to_owned(),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().expect("laws panic with text");
            let law = text.split("breaks a law: ").nth(1).expect("a law is broken");
            law.split(", but").next().expect("the law comes first").to_owned()
        }
    }
}

fn cpus() -> Entry {
    Entry::of::<Cpus>().filter().filter_by_amounts().score().score_by_amounts().done()
}

fn zones() -> Entry {
    Entry::of::<Zones>().pre_filter().filter_by_counts().pre_score().score_by_counts().done()
}

fn choosy() -> Entry {
    Entry::of::<Choosy>().pre_score().score_by_node().done()
}

#[test]
fn acceleration_that_agrees_with_the_rule_passes() {
    for entry in [cpus(), zones(), choosy()] {
        assert_eq!(broken(&entry, "None"), "none", "{}", entry.name());
    }
}

#[test]
fn needs_that_differ_from_the_filter_are_caught() {
    assert_eq!(broken(&cpus(), "Filter"), "needs agree with the filter");
}

#[test]
fn a_bound_below_a_score_is_caught() {
    let law = "a bound is a whole number, and no score is above it";
    assert_eq!(broken(&cpus(), "Score"), law);
}

#[test]
fn counts_that_differ_from_the_filter_are_caught() {
    assert_eq!(broken(&zones(), "Filter"), "counts agree with the filter");
}

#[test]
fn counts_that_differ_from_the_score_are_caught() {
    assert_eq!(broken(&zones(), "Score"), "counts agree with the score");
}

#[test]
fn a_score_that_depends_on_the_feasible_nodes_is_caught() {
    let law = "a score by node does not depend on which nodes are feasible";
    assert_eq!(broken(&choosy(), "Score"), law);
}

#[test]
fn a_plain_plugin_does_not_use_its_acceleration() {
    for (entry, wrong) in [(cpus(), "Filter"), (cpus(), "Score"), (zones(), "Filter")] {
        assert_eq!(broken(&entry.plain(), wrong), "none");
    }
}
