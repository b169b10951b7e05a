//! Pods that fail with an error again and again.

use plimsoll_api::Str;
use plimsoll_config::{Catalogue, Configuration, GivenGates};
use plimsoll_engine::{Detail, Event, Observation, Options, Outcome, Profile, Scheduler};
use plimsoll_framework::prelude::*;
use plimsoll_plugins::{default_profile, in_tree};
use plimsoll_sim::{InitialCluster, Simulation};
use plimsoll_testkit::Scenario;

/// Gives every node a score above the maximum.
#[derive(Debug)]
struct Overjoyed;

impl Plugin for Overjoyed {
    const NAME: &'static str = "Overjoyed";
    type Args = NoArgs;
    fn new(_: NoArgs, _: &FeatureGates) -> Self {
        Overjoyed
    }
}

impl Score for Overjoyed {
    type Pod = ();
    type Node = ();
    fn score(&self, (): (), (): ()) -> i64 {
        101
    }
}

fn profiles() -> Vec<Profile> {
    let mut registry = in_tree();
    registry.add(Entry::of::<Overjoyed>().score().done());
    let plugins: Vec<_> = default_profile().into_iter().chain([("Overjoyed", 1)]).collect();
    let gates = GivenGates::of(Release::NEWEST);
    let catalogue = Catalogue::of(&registry, &plugins).with_gates(gates.plugins.clone());
    let specs = Configuration::default_for(&catalogue).profile_specs();
    Profile::all_of(&specs, &registry, &gates.plugins).expect("the profile is right")
}

/// More attempts than any of these simulations needs.
const MANY: usize = 100;

/// Runs a simulation to its end, and returns how often a pod failed with an error, and where pods were
/// placed.
fn ends(simulation: &mut Simulation) -> (usize, Vec<Str>) {
    let (mut errors, mut placed) = (0, Vec::new());
    while let Some(decisions) = simulation.advance() {
        for decision in decisions {
            match decision.outcome {
                Outcome::Error { .. } => errors += 1,
                Outcome::Scheduled { node, .. } => placed.push(node),
                other @ Outcome::Unschedulable { .. } => panic!("{other:?}"),
            }
        }
        assert!(errors < MANY, "the simulation does not end");
    }
    (errors, placed)
}

#[test]
fn a_simulation_ends_although_a_pod_errs_whenever_it_is_tried() {
    let scenario = Scenario::parse("node a\nnode b\npod p\npod q").expect("it can be read");
    let pods = scenario.pending.iter().map(|pod| (**pod).clone()).collect();
    let cluster = InitialCluster { nodes: scenario.nodes, pods, ..InitialCluster::default() };
    let options = Options { detail: Detail::Outcome, ..Options::default() };
    let scheduler = Scheduler::new(profiles(), options, 0).expect("there is one profile");
    let mut simulation = Simulation::new(scheduler, cluster);
    let (errors, placed) = ends(&mut simulation);
    assert!(2 < errors && placed.is_empty(), "{errors} errors, {placed:?}");
    assert!(simulation.scheduler().is_settled());

    // After a change of the cluster they are tried again: a single node is not scored.
    simulation.happens(Event::Node(Box::new(Observation::Gone("b".into()))));
    assert!(!simulation.scheduler().is_settled());
    assert_eq!(ends(&mut simulation), (0, vec!["a".into(), "a".into()]));
}
