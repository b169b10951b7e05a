//! Extenders where the lab does not reach: when not all nodes are looked at, and at the end.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_api::{Pod, Str};
use plimsoll_framework::Time;

use super::super::lab;
use crate::extenders::{ExtenderVerb, Filtered};
use crate::{
    Effect, EffectId, Event, Extender, ExtenderQuestion, ExtenderReply, Next, Observation, Options,
    Scheduler, Write,
};

/// As many nodes as it takes before some are not looked at.
const N_NODES: usize = 200;

/// What comes of all that can be done now.
fn work(scheduler: &mut Scheduler) -> Vec<Effect> {
    let mut effects = Vec::new();
    while scheduler.step(Time::ZERO, &mut effects) == Next::Again {}
    effects
}

fn comes(scheduler: &mut Scheduler, pod: Pod) -> Vec<Effect> {
    scheduler.observe(Time::ZERO, Event::Pod(Observation::Is(Arc::new(pod))));
    work(scheduler)
}

/// A scheduler whose extender filters, and that has asked it about the pod `p`: what it asked.
fn asked() -> (Scheduler, EffectId, Arc<[Str]>) {
    let extender = Extender {
        name: "e".into(),
        verbs: BTreeSet::from([ExtenderVerb::Filter]),
        weight: 1,
        ignorable: false,
        managed_resources: BTreeSet::from(["example.com/gpu".into()]),
        timeout: Duration::from_secs(5),
    };
    let profile = lab::profile("lab", Some(50), |_| true);
    let scheduler = Scheduler::new(vec![profile], Options::default(), 0);
    let mut scheduler = scheduler.expect("there is one profile").with_extenders(vec![extender]);
    for i in 0..N_NODES {
        let node = lab::node(&format!("n{i:03}"), &["cpu=9"]);
        scheduler.observe(Time::ZERO, Event::Node(Box::new(Observation::Is(node))));
    }
    let effects = comes(&mut scheduler, lab::pod("p", &["cpu=1", "gpu=yes"]));
    let [Effect { id, write: Write::Extender(call), .. }] = effects.as_slice() else {
        panic!("one question is asked, not {effects:?}");
    };
    let ExtenderQuestion::Filter(nodes) = &call.question else { panic!("{:?}", call.question) };
    (scheduler, *id, nodes.clone())
}

fn passes(scheduler: &mut Scheduler, id: EffectId, node: &Str) {
    let reply = Filtered { passed: vec![node.clone()], ..Filtered::default() };
    scheduler.observe(Time::ZERO, Event::Extended(id, Ok(ExtenderReply::Filtered(reply))));
}

#[test]
fn the_nodes_that_extenders_were_asked_about_are_looked_at_again() {
    let (mut scheduler, id, nodes) = asked();
    assert_eq!(nodes.len(), N_NODES / 2);
    // Others go on where this search ended.
    comes(&mut scheduler, lab::pod("q", &["cpu=1"]));
    passes(&mut scheduler, id, &nodes[7]);
    let bound = work(&mut scheduler);
    assert!(
        matches!(&bound[0].write, Write::Bind(binding) if binding.node == nodes[7]),
        "{bound:?}"
    );
}

#[test]
fn an_answer_decides_nothing_any_more_when_the_end_has_come() {
    let (mut scheduler, id, nodes) = asked();
    assert!(!scheduler.is_settled(), "a pod waits");
    passes(&mut scheduler, id, &nodes[7]);
    let mut effects = Vec::new();
    scheduler.wind_up(Time::ZERO, &mut effects);
    assert!(effects.is_empty(), "{effects:?}");
}
