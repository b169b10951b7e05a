//! Extenders of an instance: pods that ask for what they manage are placed and bound by them.
#![expect(clippy::unused_async, reason = "a handler of a route is async")]

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use plimsoll_config::Catalogue;
use plimsoll_engine::{Gates, Profile};
use plimsoll_framework::{FeatureGates, Release};
use plimsoll_kube::run::{Exit, RunConfig};
use plimsoll_plugins::{default_profile, in_tree};
use plimsoll_testserver::{Options, TestServer};
use serde_json::{Value, json};

use crate::devices::{claim, claiming, class, node_with_devices};
use crate::groups::condition;
use crate::lab::{Instance, check, eventually, fill, node, placed, pod, pods, until_placed};

/// A pod that asks for what extenders manage.
fn with_gpu(name: &str) -> Value {
    let mut pod = pod(name, 100);
    pod["spec"]["containers"][0]["resources"]["requests"]["example.com/gpu"] = json!("1");
    pod["spec"]["containers"][0]["resources"]["limits"] = json!({"example.com/gpu": "1"});
    pod
}

/// Sets an instance up as a configuration file with these extenders does.
fn configure(config: &mut RunConfig, extenders: &str) {
    configure_with(config, extenders, &FeatureGates::default());
}

/// The same with feature gates, and as their release decides.
fn configure_with(config: &mut RunConfig, extenders: &str, gates: &FeatureGates) {
    let head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";
    let (registry, profile) = (in_tree(), default_profile());
    let catalogue = Catalogue::of(&registry, &profile).with_gates(gates.clone());
    let text = format!("{head}extenders:\n{extenders}");
    let configuration = plimsoll_config::load("s.yaml", &text, &catalogue).expect("it is valid");
    let profiles = Profile::all_of(&configuration.profile_specs(), &registry, gates);
    config.profiles = profiles.expect("they can be made");
    config.engine.release = gates.release();
    config.engine.gates = Gates::of(gates);
    config.extenders = configuration.extenders_in_order().into_iter().cloned().collect();
}

/// An extender that has GPUs in one zone only, likes one node, and binds pods itself.
#[derive(Clone)]
struct Gpus {
    api: kube::Client,
    bound: Arc<Mutex<Vec<String>>>,
}

impl Gpus {
    /// Begins to serve, on a thread of its own.
    fn begin(kubeconfig: &Path) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
        let kubeconfig = kube::config::Kubeconfig::read_from(kubeconfig).expect("it can be read");
        let bound = Arc::<Mutex<Vec<String>>>::default();
        let (told, address) = std::sync::mpsc::channel();
        let seen = bound.clone();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime can be made").block_on(async move {
                let config = kube::Config::try_from(kubeconfig).expect("it is valid");
                let api = kube::Client::try_from(config).expect("it can be reached");
                let router = Router::new()
                    .route("/filter", post(Gpus::filter))
                    .route("/prioritize", post(Gpus::prioritize))
                    .route("/bind", post(Gpus::bind))
                    .with_state(Gpus { api, bound: seen });
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
                let listener = listener.expect("a port is free");
                told.send(listener.local_addr().expect("it has an address")).expect("it is heard");
                axum::serve(listener, router).await.expect("it serves");
            });
        });
        (address.recv().expect("it begins"), bound)
    }

    async fn filter(Json(args): Json<Value>) -> Json<Value> {
        let nodes = args["Nodes"]["items"].as_array().cloned().unwrap_or_default();
        let has_gpus =
            |node: &Value| node["metadata"]["labels"]["topology.kubernetes.io/zone"] == "zone-1";
        let (passed, failed): (Vec<Value>, Vec<Value>) = nodes.into_iter().partition(has_gpus);
        let failed = failed.iter().map(|node| {
            let name = node["metadata"]["name"].as_str().unwrap_or_default();
            (name.to_owned(), json!("no GPUs"))
        });
        let failed: serde_json::Map<String, Value> = failed.collect();
        Json(json!({"Nodes": {"items": passed}, "FailedNodes": failed}))
    }

    async fn prioritize() -> Json<Value> {
        Json(json!([{"Host": "node-00004", "Score": 10}]))
    }

    async fn bind(State(gpus): State<Gpus>, Json(args): Json<Value>) -> Json<Value> {
        let (namespace, name) = (&args["PodNamespace"], &args["PodName"]);
        let (Some(namespace), Some(name)) = (namespace.as_str(), name.as_str()) else {
            return Json(json!({"Error": "which pod?"}));
        };
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace, "uid": args["PodUID"]},
            "target": {"kind": "Node", "name": args["Node"]},
        });
        let request =
            http::Request::post(format!("/api/v1/namespaces/{namespace}/pods/{name}/binding"));
        let request = request.header("content-type", "application/json");
        let request = request.body(binding.to_string().into_bytes()).expect("it is a request");
        match gpus.api.request::<Value>(request).await {
            Ok(_) => {
                gpus.bound.lock().expect("nobody panics").push(name.to_owned());
                Json(json!({}))
            }
            Err(error) => Json(json!({"Error": error.to_string()})),
        }
    }
}

/// The extender has bound these pods, each once. It notes a pod after the server has it on its node.
#[track_caller]
fn have_been_bound(bound: &Mutex<Vec<String>>, expected: &[String]) {
    eventually("the extender has bound them", || {
        let mut bound = bound.lock().expect("nobody panics").clone();
        bound.sort();
        bound == expected
    });
}

#[test]
fn pods_that_ask_for_what_an_extender_manages_are_placed_and_bound_by_it() {
    let server = TestServer::start(Options::default());
    fill(&server, (0..9).map(node));
    fill(&server, pods("plain", 40));
    fill(&server, (0..8).map(|number| with_gpu(&format!("gpu-{number}"))));
    let kubeconfig = server.kubeconfig_file().expect("there is room for a file");
    let (address, bound) = Gpus::begin(&kubeconfig);
    let extenders = format!(
        "- urlPrefix: http://{address}\n  filterVerb: filter\n  prioritizeVerb: prioritize\n  \
         weight: 100\n  bindVerb: bind\n  httpTimeout: 60s\n  \
         managedResources: [{{name: example.com/gpu, ignoredByScheduler: true}}]\n"
    );
    let _instance = Instance::with(&server, |config| configure(config, &extenders));
    until_placed(&server, 48);
    check(&server);
    for (pod, node) in placed(&server).into_iter().filter(|(pod, _)| pod.starts_with("gpu-")) {
        assert_eq!(node, "node-00004", "{pod}");
    }
    let all: Vec<String> = (0..8).map(|number| format!("gpu-{number}")).collect();
    have_been_bound(&bound, &all);
}

#[test]
fn an_extender_that_does_not_answer_delays_only_the_pods_that_need_it() {
    let server = TestServer::start(Options::default());
    fill(&server, (0..3).map(node));
    fill(&server, [with_gpu("gpu")]);
    // It takes connections and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = silent.local_addr().expect("it has an address");
    let extenders = format!(
        "- urlPrefix: http://{address}\n  filterVerb: filter\n  httpTimeout: 500ms\n  \
         managedResources: [{{name: example.com/gpu, ignoredByScheduler: true}}]\n"
    );
    let _instance = Instance::with(&server, |config| configure(config, &extenders));
    let expected = format!(
        "Post \"http://{address}/filter\": context deadline exceeded (Client.Timeout exceeded while \
         awaiting headers)"
    );
    eventually("the pod says why it waits", || {
        let pods = server.store().list("pods");
        let pod = pods.iter().find(|pod| pod["metadata"]["name"] == "gpu").expect("it is there");
        let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        let mut conditions = conditions.filter(|one| one["type"] == "PodScheduled");
        conditions.any(|one| one["reason"] == "SchedulerError" && one["message"] == expected)
    });
    fill(&server, pods("plain", 20));
    until_placed(&server, 20);
    assert!(!placed(&server).contains_key("gpu"));
    check(&server);
}

/// A pod of a group that asks for what extenders manage.
fn member(group: &str, number: u32) -> Value {
    let mut pod = with_gpu(&format!("{group}-{number}"));
    pod["spec"]["schedulingGroup"] = json!({"podGroupName": group});
    pod
}

/// The gang that these members make.
fn gang(name: &str, min_count: u32) -> Value {
    json!({
        "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": min_count}}},
    })
}

/// A server of 1.37 with groups of pods.
fn server_with_groups() -> TestServer {
    let also = vec!["scheduling.k8s.io/v1beta1".to_owned()];
    TestServer::start(Options { release: 37, also, ..Options::default() })
}

/// How the extender at this address is configured.
fn gpus_at(address: SocketAddr) -> String {
    format!(
        "- urlPrefix: http://{address}\n  filterVerb: filter\n  prioritizeVerb: prioritize\n  \
         weight: 100\n  bindVerb: bind\n  httpTimeout: 60s\n  \
         managedResources: [{{name: example.com/gpu, ignoredByScheduler: true}}]\n"
    )
}

#[test]
fn the_pods_of_a_gang_share_a_claim_although_an_extender_is_asked_about_each() {
    let server = server_with_groups();
    fill(&server, (0..9).filter(|number| *number != 4).map(node));
    fill(&server, node_with_devices(4, 1));
    fill(&server, [class(), claim("shared"), gang("train", 3)]);
    fill(&server, (0..3).map(|number| claiming(member("train", number), "shared")));
    let kubeconfig = server.kubeconfig_file().expect("there is room for a file");
    let (address, _) = Gpus::begin(&kubeconfig);
    let gates = FeatureGates::of(Release::V1_37)
        .with("GenericWorkload", true)
        .with("DRAWorkloadResourceClaims", true);
    let extenders = gpus_at(address);
    let instance = Instance::with(&server, |config| configure_with(config, &extenders, &gates));
    until_placed(&server, 3);
    for (pod, node) in placed(&server) {
        assert_eq!(node, "node-00004", "{pod}");
    }
    assert_eq!(instance.stop(), Exit::Stopped);
}

#[test]
fn a_gang_is_placed_where_an_extender_lets_its_pods_and_bound_by_it_as_a_whole() {
    let server = server_with_groups();
    fill(&server, (0..9).map(node));
    fill(&server, pods("plain", 20));
    fill(&server, [gang("train", 6)]);
    fill(&server, (0..6).map(|number| member("train", number)));
    let kubeconfig = server.kubeconfig_file().expect("there is room for a file");
    let (address, bound) = Gpus::begin(&kubeconfig);
    let extenders = gpus_at(address);
    let gates = FeatureGates::of(Release::V1_37).with("GenericWorkload", true);
    let instance = Instance::with(&server, |config| configure_with(config, &extenders, &gates));
    until_placed(&server, 26);
    check(&server);
    for (pod, node) in placed(&server).into_iter().filter(|(pod, _)| pod.starts_with("train-")) {
        assert_eq!(node, "node-00004", "{pod}");
    }
    let all: Vec<String> = (0..6).map(|number| format!("train-{number}")).collect();
    have_been_bound(&bound, &all);
    eventually("the group says so", || {
        condition(&server, "train", "PodGroupInitiallyScheduled")
            .is_some_and(|[status, ..]| status == "True")
    });
    assert_eq!(instance.stop(), Exit::Stopped);
}
