//! Groups of pods on a cluster: a gang is bound as a whole or not at all, and its PodGroup says what came of it.

use plimsoll_config::{Catalogue, Configuration};
use plimsoll_engine::{Gates, Profile};
use plimsoll_framework::{FeatureGates, Release};
use plimsoll_kube::run::{Exit, RunConfig};
use plimsoll_plugins::{default_profile, in_tree};
use plimsoll_testserver::{Options as ServerOptions, TestServer};
use serde_json::{Value, json};

use crate::lab::{Instance, check, eventually, fill, node, placed, pod, until_placed};

/// With the gates of gangs, as release 1.36 decides.
pub(crate) fn with_gangs(config: &mut RunConfig) {
    decide_as(Release::V1_36, &["GenericWorkload", "GangScheduling"], config);
}

/// With the gates of gangs and of groups of groups, as release 1.37 decides.
fn with_trees(config: &mut RunConfig) {
    let on = ["GenericWorkload", "TopologyAwareWorkloadScheduling", "CompositePodGroup"];
    decide_as(Release::V1_37, &on, config);
}

fn decide_as(release: Release, on: &[&'static str], config: &mut RunConfig) {
    let gates = FeatureGates::of(release);
    let gates = on.iter().fold(gates, |gates, name| gates.with(name, true));
    let registry = in_tree();
    let catalogue = Catalogue::of(&registry, &default_profile()).with_gates(gates.clone());
    let specs = Configuration::default_for(&catalogue).profile_specs();
    config.profiles = Profile::all_of(&specs, &registry, &gates).expect("the defaults are valid");
    config.engine.release = release;
    config.engine.gates = Gates::of(&gates);
}

/// A server of 1.36 that serves PodGroups, with two nodes of 4 CPUs.
fn server() -> TestServer {
    let also = vec!["scheduling.k8s.io/v1alpha2".to_owned()];
    let server = TestServer::start(ServerOptions { release: 36, also, ..ServerOptions::default() });
    fill(&server, [node(0), node(1)]);
    server
}

pub(crate) fn gang(name: &str, min_count: u32) -> Value {
    json!({
        "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": min_count}}},
    })
}

pub(crate) fn member(group: &str, number: u32, milli_cpu: u32) -> Value {
    let mut pod = pod(&format!("{group}-{number}"), milli_cpu);
    pod["spec"]["schedulingGroup"] = json!({"podGroupName": group});
    pod
}

/// The condition of a group that has this type: status, reason and message.
pub(crate) fn condition(server: &TestServer, group: &str, of_type: &str) -> Option<[String; 3]> {
    let group = server.store().get("podgroups", "default", group)?;
    let conditions = group["status"]["conditions"].as_array()?;
    let one = conditions.iter().find(|one| one["type"] == of_type)?;
    assert!(one["lastTransitionTime"].is_string(), "the API requires it: {one}");
    Some(
        ["status", "reason", "message"].map(|key| one[key].as_str().unwrap_or_default().to_owned()),
    )
}

#[test]
fn a_gang_is_bound_once_it_is_complete_and_fits() {
    let server = server();
    let instance = Instance::with(&server, with_gangs);
    fill(&server, [gang("train", 4)]);
    fill(&server, (0..3).map(|number| member("train", number, 2000)));
    fill(&server, [pod("alone", 100)]);
    // The pod by itself was behind those of the gang.
    until_placed(&server, 1);
    fill(&server, [member("train", 3, 1900)]);
    until_placed(&server, 5);
    eventually("the group says so", || {
        condition(&server, "train", "PodGroupScheduled").is_some_and(|[status, reason, _]| {
            (status.as_str(), reason.as_str()) == ("True", "Scheduled")
        })
    });
    check(&server);
    assert_eq!(instance.stop(), Exit::Stopped);
}

#[test]
fn a_gang_without_room_says_so_and_is_bound_when_a_node_comes() {
    let server = server();
    let instance = Instance::with(&server, with_gangs);
    fill(&server, [gang("large", 3)]);
    fill(&server, (0..3).map(|number| member("large", number, 3000)));
    eventually("the group says why", || {
        let expected = ["False", "Unschedulable", "pod group is unschedulable"];
        condition(&server, "large", "PodGroupScheduled").is_some_and(|told| told == expected)
    });
    assert_eq!(placed(&server).len(), 0, "not even those that fit are bound");
    fill(&server, [node(2)]);
    until_placed(&server, 3);
    eventually("the group says so", || {
        condition(&server, "large", "PodGroupScheduled")
            .is_some_and(|[status, ..]| status == "True")
    });
    check(&server);
    assert_eq!(instance.stop(), Exit::Stopped);
}

/// The scheduler ends at once while it binds a gang; the next one binds the rest.
#[test]
fn a_gang_that_was_bound_in_part_is_completed_by_the_next_instance() {
    let server = server();
    fill(&server, [gang("train", 4)]);
    let mut first = member("train", 0, 2000);
    first["spec"]["nodeName"] = json!(node(0)["metadata"]["name"]);
    fill(&server, [first]);
    fill(&server, (1..4).map(|number| member("train", number, 2000)));
    let instance = Instance::with(&server, with_gangs);
    until_placed(&server, 4);
    check(&server);
    assert_eq!(instance.stop(), Exit::Stopped);
}

/// A server of 1.37 that serves groups of both kinds, with two nodes of 4 CPUs.
fn server_of_1_37() -> TestServer {
    let also = ["v1beta1", "v1alpha3"].map(|version| format!("scheduling.k8s.io/{version}"));
    let options = ServerOptions { release: 37, also: also.to_vec(), ..ServerOptions::default() };
    let server = TestServer::start(options);
    fill(&server, [node(0), node(1)]);
    server
}

fn part(name: &str, parent: &str) -> Value {
    json!({
        "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "schedulingPolicy": {"gang": {"minCount": 2}}, "parentCompositePodGroupName": parent,
        },
    })
}

#[test]
fn a_group_of_groups_is_bound_once_enough_of_them_fit() {
    let server = server_of_1_37();
    let instance = Instance::with(&server, with_trees);
    fill(&server, [part("a", "job"), part("b", "job")]);
    let both = ["a", "b"].map(|group| (0..2).map(move |number| member(group, number, 2000)));
    fill(&server, both.into_iter().flatten());
    fill(&server, [pod("alone", 100)]);
    // It was behind those of the groups, which wait until the whole is known.
    until_placed(&server, 1);
    let whole = json!({
        "apiVersion": "scheduling.k8s.io/v1alpha3", "kind": "CompositePodGroup",
        "metadata": {"name": "job", "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minGroupCount": 2}}},
    });
    fill(&server, [whole]);
    // Beside the other pod there is room for one group only.
    eventually("the groups say why", || {
        ["a", "b"].iter().all(|group| {
            condition(&server, group, "PodGroupInitiallyScheduled").is_some_and(
                |[status, reason, _]| (&*status, &*reason) == ("False", "Unschedulable"),
            )
        })
    });
    assert_eq!(placed(&server).len(), 1, "not even the group that fits is bound");
    fill(&server, [node(2)]);
    until_placed(&server, 5);
    eventually("the groups say so", || {
        ["a", "b"].iter().all(|group| {
            condition(&server, group, "PodGroupInitiallyScheduled")
                .is_some_and(|[status, ..]| status == "True")
        })
    });
    check(&server);
    assert_eq!(instance.stop(), Exit::Stopped);
}
