//! The engine and its extenders together.

use std::sync::Arc;

use plimsoll_api::wire::{self, Object};
use plimsoll_config::{Catalogue, Configuration};
use plimsoll_engine::{Effect, Event, Next, Observation, Options, Profile, Scheduler, Write};
use plimsoll_framework::{FeatureGates, Time};
use plimsoll_plugins::{default_profile, in_tree};
use tokio::sync::mpsc::unbounded_channel;

use super::super::{HttpExtenders, for_engine};
use super::fake::{FakeExtender, Reaction};
use super::{LONG, originals};
use crate::write::always;

fn configuration(text: &str) -> Configuration {
    let head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";
    let catalogue = Catalogue::of(&in_tree(), &default_profile());
    let configuration = plimsoll_config::load("s.yaml", &format!("{head}{text}"), &catalogue);
    configuration.expect("it is valid")
}

fn seen(json: &str) -> Event {
    match wire::object_from_str(json).expect("it can be read") {
        Object::Pod(pod) => Event::Pod(Observation::Is(Arc::new(*pod))),
        Object::Node(node) => Event::Node(Box::new(Observation::Is(*node))),
        other => panic!("{other:?}"),
    }
}

fn node(name: &str) -> Event {
    let status = r#"{"allocatable":{"cpu":"4","memory":"8Gi","pods":"9"}}"#;
    seen(&format!(
        r#"{{"apiVersion":"v1","kind":"Node","metadata":{{"name":"{name}"}},"status":{status}}}"#
    ))
}

fn pod(name: &str, limits: &str) -> Event {
    seen(&format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}","namespace":"team","uid":"u"}},
            "spec":{{"containers":[{{"name":"c","image":"i","resources":{{"limits":{limits}}}}}]}}}}"#
    ))
}

#[tokio::test]
async fn a_pod_that_wants_what_an_extender_manages_is_placed_and_bound_by_it() {
    let fake = FakeExtender::new(
        Reaction::Routes(&[
            (
                "/filter",
                r#"{"Nodes":{"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]}}"#,
            ),
            ("/rank", r#"[{"Host":"a","Score":0},{"Host":"b","Score":10}]"#),
            ("/bind", "{}"),
        ]),
        None,
    )
    .await;
    // The first extender is ignorable and always fails.
    let configuration = configuration(&format!(
        "extenders:\n\
         - {{urlPrefix: '{url}/none', filterVerb: filter, ignorable: true, httpTimeout: 60s}}\n\
         - urlPrefix: {url}\n  \
           filterVerb: filter\n  prioritizeVerb: rank\n  weight: 1\n  bindVerb: bind\n  \
           httpTimeout: 60s\n  \
           managedResources: [{{name: example.com/gpu, ignoredByScheduler: true}}]\n",
        url = fake.url()
    ));
    let profiles =
        Profile::all_of(&configuration.profile_specs(), &in_tree(), &FeatureGates::default());
    let scheduler = Scheduler::new(profiles.expect("they can be made"), Options::default(), 0);
    let scheduler = scheduler.expect("there is one");
    let mut scheduler = scheduler
        .with_extenders(configuration.extenders_in_order().into_iter().map(for_engine).collect());
    let (sender, mut answers) = unbounded_channel();
    let extenders =
        HttpExtenders::new(configuration.extenders_in_order(), originals(), always(), sender);
    let extenders = extenders.expect("they can be called");
    let gpu = r#"{"cpu":"1","example.com/gpu":"1"}"#;
    for event in [node("a"), node("b"), pod("p", gpu), pod("v", r#"{"cpu":"1"}"#)] {
        scheduler.observe(Time::ZERO, event);
    }

    let (mut effects, mut written) = (Vec::new(), Vec::new());
    while written.len() < 2 {
        while scheduler.step(Time::ZERO, &mut effects) == Next::Again {}
        let others = extenders.perform(std::mem::take(&mut effects));
        written.extend(others.into_iter().filter_map(|effect: Effect| match effect.write {
            Write::Bind(binding) => Some(format!("{} to {}", effect.pod.key, binding.node)),
            Write::Record(record) if record.reason == "Scheduled" => Some(record.note),
            _ => None,
        }));
        if written.len() < 2 {
            let answer = tokio::time::timeout(LONG, answers.recv()).await;
            let (id, reply) = answer.expect("an answer comes in time").expect("somebody answers");
            scheduler.observe(Time::ZERO, Event::Extended(id, reply));
        }
    }
    written.sort();
    let [by_extender, by_plugin] = written.as_slice() else { panic!("{written:?}") };
    assert_eq!(by_plugin, "team/v to a");
    assert_eq!(by_extender, "Successfully assigned team/p to b");
    let paths: Vec<String> = fake.got().into_iter().map(|got| got.path).collect();
    assert_eq!(paths.iter().filter(|path| *path == "/bind").count(), 1, "{paths:?}");
}
