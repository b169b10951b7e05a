//! Gangs by a label on a cluster without the PodGroup API: their PodGroup is a custom resource.

use plimsoll_config::{Catalogue, load};
use plimsoll_engine::Profile;
use plimsoll_framework::FeatureGates;
use plimsoll_kube::run::{Exit, RunConfig};
use plimsoll_plugins::{default_profile, in_tree};
use plimsoll_testserver::{CustomKind, Options as ServerOptions, TestServer};
use serde_json::{Value, json};

use crate::lab::{Instance, check, eventually, fill, node, placed, pod, until_placed};

const CONFIGURATION: &str = "
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint:
      enabled: [{name: Coscheduling}]
    queueSort:
      enabled: [{name: Coscheduling}]
      disabled: [{name: '*'}]
";

fn with_coscheduling(config: &mut RunConfig) {
    let (registry, gates) = (in_tree(), FeatureGates::default());
    let catalogue = Catalogue::of(&registry, &default_profile()).with_gates(gates.clone());
    let configuration = load("s.yaml", CONFIGURATION, &catalogue).expect("it is valid");
    let specs = configuration.profile_specs();
    config.profiles = Profile::all_of(&specs, &registry, &gates).expect("it makes a profile");
}

/// A server with the custom resource, and two nodes of 4 CPUs.
fn server() -> TestServer {
    let groups = CustomKind {
        api_version: "scheduling.x-k8s.io/v1alpha1".to_owned(),
        kind: "PodGroup".to_owned(),
        plural: "podgroups".to_owned(),
        namespaced: true,
    };
    let server =
        TestServer::start(ServerOptions { custom: vec![groups], ..ServerOptions::default() });
    fill(&server, [node(0), node(1)]);
    server
}

fn gang(min_member: u32) -> Value {
    json!({
        "apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup",
        "metadata": {"name": "train", "namespace": "default"}, "spec": {"minMember": min_member},
    })
}

fn member(number: u32, milli_cpu: u32) -> Value {
    let mut pod = pod(&format!("train-{number}"), milli_cpu);
    pod["metadata"]["labels"] = json!({"scheduling.x-k8s.io/pod-group": "train"});
    pod
}

/// Why a pod is not scheduled, as its condition says.
fn why(server: &TestServer, pod: &str) -> String {
    let pod = server.store().get("pods", "default", pod).unwrap_or_default();
    let condition = pod["status"]["conditions"].as_array().and_then(|all| all.first().cloned());
    condition.map_or_else(String::new, |one| one["message"].as_str().unwrap_or("").to_owned())
}

#[test]
fn a_gang_by_a_label_is_bound_once_it_is_complete() {
    let server = server();
    let instance = Instance::with(&server, with_coscheduling);
    fill(&server, [gang(3)]);
    fill(&server, [member(0, 2000), member(1, 2000)]);
    eventually("the first ones say what they wait for", || {
        why(&server, "train-0").contains("cannot find enough sibling pods, current pods number: ")
    });
    assert_eq!(placed(&server).len(), 0);
    fill(&server, [member(2, 2000)]);
    until_placed(&server, 3);
    check(&server);
    assert_eq!(instance.stop(), Exit::Stopped);
}
