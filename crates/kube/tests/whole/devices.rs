//! Devices on a cluster: whatever happens, no device is given twice, and no claim is lost.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_config::Catalogue;
use plimsoll_engine::Profile;
use plimsoll_framework::FeatureGates;
use plimsoll_kube::run::{Exit, RunConfig};
use plimsoll_plugins::{default_profile, in_tree};
use plimsoll_testserver::{Break, FaultKind, InjectedFault, Options as ServerOptions, TestServer};
use serde_json::{Value, json};

use crate::lab::{Instance, eventually, fill, node, placed, pod, pods, until_placed};
use crate::objects::told;
use crate::serving::{rows, until};

const DRIVER: &str = "gpu.example.com";
const CLASS: &str = "gpu";
const FINALIZER: &str = "resource.kubernetes.io/delete-protection";

fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec,
    })
}

/// A class of all devices of the driver.
pub(crate) fn class() -> Value {
    let expression = format!("device.driver == '{DRIVER}'");
    object("DeviceClass", CLASS, &json!({"selectors": [{"cel": {"expression": expression}}]}))
}

fn device(name: &str) -> Value {
    json!({"name": name, "attributes": {"memory": {"int": 40}}})
}

/// The only slice of the pool of a node.
fn slice(node: &str, generation: u32, devices: &[Value]) -> Value {
    object(
        "ResourceSlice",
        &format!("{node}-devices"),
        &json!({
            "driver": DRIVER, "nodeName": node, "devices": devices,
            "pool": {"name": node, "generation": generation, "resourceSliceCount": 1},
        }),
    )
}

/// Node `number` with so many devices.
pub(crate) fn node_with_devices(number: usize, n: usize) -> [Value; 2] {
    let node = node(number);
    let name = node["metadata"]["name"].as_str().expect("it has one").to_owned();
    let devices: Vec<Value> = (0..n).map(|index| device(&format!("gpu-{index}"))).collect();
    [slice(&name, 1, &devices), node]
}

/// What a claim for one device asks for.
fn one_device() -> Value {
    json!({"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": CLASS}}]}})
}

/// A claim for one device.
pub(crate) fn claim(name: &str) -> Value {
    let mut claim = object("ResourceClaim", name, &one_device());
    claim["metadata"]["namespace"] = json!("default");
    claim
}

/// A claim that has a device, and is reserved for these pods.
fn allocated(name: &str, node: &str, device: &str, consumers: &[Value]) -> Value {
    let mut claim = claim(name);
    claim["metadata"]["finalizers"] = json!([FINALIZER]);
    let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
    claim["status"] = json!({
        "allocation": {
            "devices": {"results": [
                {"request": "gpu", "driver": DRIVER, "pool": node, "device": device},
            ]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
        },
        "reservedFor": consumers,
    });
    claim
}

pub(crate) fn template(name: &str) -> Value {
    let mut template = object("ResourceClaimTemplate", name, &json!({"spec": one_device()}));
    template["metadata"]["namespace"] = json!("default");
    template
}

/// The pod with this claim.
pub(crate) fn claiming(mut pod: Value, claim: &str) -> Value {
    pod["spec"]["resourceClaims"] = json!([{"name": "gpu", "resourceClaimName": claim}]);
    pod["spec"]["containers"][0]["resources"]["claims"] = json!([{"name": "gpu"}]);
    pod
}

/// The pod with a claim of its own.
pub(crate) fn from_template(mut pod: Value, template: &str) -> Value {
    pod["spec"]["resourceClaims"] = json!([{"name": "gpu", "resourceClaimTemplateName": template}]);
    pod["spec"]["containers"][0]["resources"]["claims"] = json!([{"name": "gpu"}]);
    pod
}

/// Makes the claims of the pods that name a template, as the controller of kube-controller-manager does.
pub(crate) fn make_claims(server: &TestServer) {
    let store = server.store();
    for mut pod in store.list("pods") {
        let named = pod["spec"]["resourceClaims"][0]["resourceClaimTemplateName"].as_str();
        let Some(template) = named.filter(|_| pod["status"].get("resourceClaimStatuses").is_none())
        else {
            continue;
        };
        let template =
            store.get("resourceclaimtemplates", "default", template).expect("there is one");
        let owner = pod["metadata"]["name"].as_str().expect("it has one").to_owned();
        let name = format!("{owner}-gpu");
        let mut claim = claim(&name);
        claim["spec"] = template["spec"]["spec"].clone();
        claim["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "v1", "kind": "Pod", "name": owner, "uid": pod["metadata"]["uid"],
            "controller": true,
        }]);
        pod["status"]["resourceClaimStatuses"] =
            json!([{"name": "gpu", "resourceClaimName": name}]);
        fill(server, [claim, pod]);
    }
}

/// The claims of a pod.
fn claims_of(pod: &Value) -> Vec<String> {
    let named = pod["spec"]["resourceClaims"].as_array().into_iter().flatten();
    let made = pod["status"]["resourceClaimStatuses"].as_array().into_iter().flatten();
    let claims = named.chain(made).filter_map(|one| one["resourceClaimName"].as_str());
    claims.map(str::to_owned).collect()
}

fn results(claim: &Value) -> impl Iterator<Item = &Value> {
    claim["status"]["allocation"]["devices"]["results"].as_array().into_iter().flatten()
}

/// No device is given twice, and the pods that have nodes have devices there. Returns the claim of each device.
#[track_caller]
fn check(server: &TestServer) -> BTreeMap<String, String> {
    let claims = server.store().list("resourceclaims");
    let mut given: BTreeMap<String, String> = BTreeMap::new();
    let mut by_name = BTreeMap::new();
    for claim in &claims {
        let name = claim["metadata"]["name"].as_str().expect("it has one");
        by_name.insert(name.to_owned(), claim);
        for result in results(claim) {
            let text = |field: &str| result[field].as_str().unwrap_or_default().to_owned();
            let device = format!("{}/{}", text("pool"), text("device"));
            let other = given.insert(device.clone(), name.to_owned());
            assert_eq!(other, None, "{device} is given twice, now to {name}");
        }
        if results(claim).next().is_some() {
            assert_eq!(claim["metadata"]["finalizers"], json!([FINALIZER]), "{name}");
        }
    }
    for pod in server.store().list("pods") {
        let Some(node) = pod["spec"]["nodeName"].as_str() else { continue };
        for name in claims_of(&pod) {
            let claim = by_name[&name];
            let pools: Vec<&Value> = results(claim).map(|result| &result["pool"]).collect();
            assert_eq!(pools, [node], "{name}");
            let consumers = claim["status"]["reservedFor"].as_array().expect("it is reserved");
            let uid = &pod["metadata"]["uid"];
            assert!(consumers.iter().any(|one| one["uid"] == *uid), "{name}: {consumers:?}");
        }
    }
    for (pod, nodes) in server.counts().bindings() {
        assert_eq!(nodes.len(), 1, "{pod} was bound to {nodes:?}");
    }
    given
}

/// Waits until a pod has been told why it is not bound, in these words: by its condition, which a later attempt may have
/// replaced, or by an event.
#[track_caller]
fn until_told(server: &TestServer, pod: &str, words: &str) {
    let by_condition = || told(server, pod).is_some_and(|(_, message)| message.contains(words));
    let is_about = |event: &Value| {
        ["involvedObject", "regarding"].iter().any(|field| event[field]["name"] == pod)
    };
    let says = |event: &Value| {
        let texts = ["message", "note"].map(|field| event[field].as_str().unwrap_or_default());
        texts.iter().any(|text| text.contains(words))
    };
    let by_event = || server.store().list("events").iter().any(|one| is_about(one) && says(one));
    eventually(&format!("{pod} is told {words:?}"), || by_condition() || by_event());
}

/// Sets args of DynamicResources.
fn with_args(config: &mut RunConfig, args: &Value) {
    let registry = in_tree();
    let catalogue = Catalogue::of(&registry, &default_profile());
    let text = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "podInitialBackoffSeconds": 1,
        "profiles": [{"pluginConfig": [{"name": "DynamicResources", "args": args}]}],
    });
    let configuration =
        plimsoll_config::load("s.json", &text.to_string(), &catalogue).expect("it is valid");
    let profiles =
        Profile::all_of(&configuration.profile_specs(), &registry, &FeatureGates::default());
    config.profiles = profiles.expect("they can be made");
}

/// A cluster with so many nodes, each with so many devices.
fn cluster(options: ServerOptions, nodes: usize, devices: usize) -> TestServer {
    let server = TestServer::start(options);
    fill(&server, [class(), template("one")]);
    fill(&server, (0..nodes).flat_map(|number| node_with_devices(number, devices)));
    server
}

#[track_caller]
fn pods_of_a_template_are_placed(options: ServerOptions) {
    let server = cluster(options, 4, 4);
    let instance = Instance::alone(&server);
    fill(&server, pods("train", 16).map(|pod| from_template(pod, "one")));
    make_claims(&server);
    until_placed(&server, 16);
    assert_eq!(check(&server).len(), 16);
    // There are no more devices.
    fill(&server, [from_template(pod("late", 100), "one")]);
    make_claims(&server);
    until_told(&server, "late", "4 cannot allocate all claims");
    assert!(server.store().delete("pods", "default", "train-3"));
    assert!(server.store().delete("resourceclaims", "default", "train-3-gpu"));
    // The claim stays as long as it has its finalizer, and so does the device.
    let kept = server.store().get("resourceclaims", "default", "train-3-gpu");
    let mut kept = kept.expect("the finalizer keeps it");
    assert_eq!(check(&server).len(), 16);
    kept["metadata"]["finalizers"] = json!([]);
    kept["status"] = json!({});
    fill(&server, [kept]);
    until_placed(&server, 16);
    assert_eq!(instance.stop(), Exit::Stopped);
    assert!(placed(&server).contains_key("late"));
}

#[test]
fn pods_of_a_template_get_devices_of_their_own() {
    pods_of_a_template_are_placed(ServerOptions::default());
}

#[test]
fn beta_versions_of_claims_will_do() {
    for (release, version) in [(32, "v1beta1"), (33, "v1beta2"), (33, "v1beta1")] {
        pods_of_a_template_are_placed(ServerOptions {
            release,
            also: vec![format!("resource.k8s.io/{version}")],
            ..ServerOptions::default()
        });
    }
}

#[test]
fn a_server_without_devices_has_pods_bound_as_before() {
    let server = TestServer::start(ServerOptions { release: 31, ..ServerOptions::default() });
    fill(&server, (0..2).map(node));
    let instance = Instance::alone(&server);
    fill(&server, [claiming(pod("train", 100), "missing")]);
    fill(&server, pods("web", 10));
    until_placed(&server, 10);
    assert_eq!(instance.stop(), Exit::Stopped);
    assert!(!placed(&server).contains_key("train"), "it waits for its claim");
}

#[test]
fn a_claim_leaves_a_node_that_is_gone() {
    let server = cluster(ServerOptions::default(), 2, 1);
    fill(&server, [allocated("data", "node-00000", "gpu-0", &[])]);
    let instance = Instance::alone(&server);
    fill(&server, pods("web", 1));
    until_placed(&server, 1);
    assert!(server.store().delete("nodes", "", "node-00000"));
    assert!(server.store().delete("resourceslices", "", "node-00000-devices"));
    // Pods that fit no node: their messages show when the scheduler has seen that the node is gone, which wakes no pod.
    let sees_one_node = |name: String| {
        fill(&server, [pod(&name, 90_000)]);
        until_told(&server, &name, "nodes are available");
        told(&server, &name).is_some_and(|(_, message)| message.contains("0/1 nodes"))
    };
    assert!((0..1000).any(|n| sees_one_node(format!("huge-{n}"))), "the node stays");
    fill(&server, [claiming(pod("train", 100), "data")]);
    until_placed(&server, 2);
    assert_eq!(placed(&server)["train"], "node-00001");
    assert_eq!(check(&server), BTreeMap::from([("node-00001/gpu-0".into(), "data".into())]));
    assert_eq!(instance.stop(), Exit::Stopped);
}

#[test]
fn a_driver_that_restarts_publishes_its_devices_anew() {
    let server = cluster(ServerOptions::default(), 1, 1);
    let instance = Instance::alone(&server);
    fill(&server, [from_template(pod("first", 100), "one")]);
    make_claims(&server);
    until_placed(&server, 1);
    // Of the two slices of the new generation only the second is there.
    let devices = |names: [&str; 2]| names.map(device).to_vec();
    let of_two = |name: &str, names: [&str; 2]| {
        let mut slice = slice("node-00000", 2, &devices(names));
        slice["metadata"]["name"] = json!(name);
        slice["spec"]["pool"]["resourceSliceCount"] = json!(2);
        slice
    };
    fill(&server, [of_two("node-00000-more", ["gpu-2", "gpu-3"])]);
    fill(&server, (0..3).map(|n| from_template(pod(&format!("more-{n}"), 100), "one")));
    make_claims(&server);
    until_told(&server, "more-0", "cannot allocate all claims");
    assert_eq!(placed(&server).len(), 1, "half a pool is not used");
    fill(&server, [of_two("node-00000-devices", ["gpu-0", "gpu-1"])]);
    until_placed(&server, 4);
    assert_eq!(check(&server).len(), 4);
    assert_eq!(instance.stop(), Exit::Stopped);
}

#[test]
fn pods_share_a_claim() {
    let server = cluster(ServerOptions::default(), 3, 1);
    fill(&server, [claim("shared")]);
    let instance = Instance::alone(&server);
    fill(&server, pods("train", 18).map(|pod| claiming(pod, "shared")));
    until_placed(&server, 18);
    assert_eq!(instance.stop(), Exit::Stopped);
    assert_eq!(check(&server).len(), 1);
    let nodes: BTreeSet<String> = placed(&server).into_values().collect();
    assert_eq!(nodes.len(), 1, "all are where the device is");
    // They take turns: a few may meet a claim that has just changed, but not all of them again and again.
    let n_writes = server.counts().requests("patch", "resourceclaims/status");
    assert!(n_writes < 2 * 18, "{n_writes} writes for 18 pods");
}

#[test]
fn a_claim_that_changes_meanwhile_is_written_again() {
    let server = cluster(ServerOptions::default(), 1, 2);
    fill(&server, [claim("new"), allocated("old", "node-00000", "gpu-1", &[])]);
    let instance = Instance::alone(&server);
    fill(&server, pods("web", 1));
    until_placed(&server, 1);
    // The scheduler does not see that both claims get a label.
    assert!(server.faults().hold("resourceclaims"));
    for name in ["new", "old"] {
        let mut changed =
            server.store().get("resourceclaims", "default", name).expect("it is there");
        changed["metadata"]["labels"] = json!({"team": "a"});
        fill(&server, [changed]);
    }
    fill(&server, [claiming(pod("train", 100), "new"), claiming(pod("serve", 100), "old")]);
    let tried = |resource: &str| 0 < server.counts().requests("patch", resource);
    eventually("both are written", || tried("resourceclaims") && tried("resourceclaims/status"));
    assert_eq!(placed(&server).len(), 1);
    assert!(server.faults().release("resourceclaims"));
    until_placed(&server, 3);
    assert_eq!(check(&server).len(), 2);
    for name in ["new", "old"] {
        let claim = server.store().get("resourceclaims", "default", name).expect("it is there");
        assert_eq!(claim["metadata"]["labels"], json!({"team": "a"}));
    }
    assert_eq!(instance.stop(), Exit::Stopped);
}

#[test]
fn no_device_is_given_twice_whatever_fails() {
    let server = cluster(ServerOptions::default(), 3, 5);
    let resources = ["resourceclaims", "resourceclaims/status", "pods/binding"];
    let faults = server.faults();
    faults.add(InjectedFault::every(7, FaultKind::Status(503)).resources(&resources));
    faults.add(InjectedFault::every(5, FaultKind::Hangup).after().resources(&resources).times(15));
    faults.add(InjectedFault::every(11, FaultKind::Hangup).resources(&resources).times(15));
    let instance = Instance::alone(&server);
    fill(&server, pods("train", 15).map(|pod| from_template(pod, "one")));
    make_claims(&server);
    eventually("some are placed", || 5 < placed(&server).len());
    faults.compact();
    faults.break_watches(Break::Torn);
    until_placed(&server, 15);
    assert_eq!(instance.stop(), Exit::Stopped);
    assert_eq!(check(&server).len(), 15);
}

/// A cluster with one node whose devices have conditions, and a pod that waits for them.
fn with_conditions(server: &TestServer) -> Value {
    let mut device = device("gpu-0");
    device["bindingConditions"] = json!(["attached"]);
    device["bindingFailureConditions"] = json!(["broken"]);
    fill(server, [class(), node(0), slice("node-00000", 1, &[device]), claim("fabric")]);
    fill(server, [claiming(pod("train", 100), "fabric")]);
    eventually("the device is allocated", || {
        let claim = server.store().get("resourceclaims", "default", "fabric");
        claim.is_some_and(|claim| results(&claim).next().is_some())
    });
    assert!(placed(server).is_empty(), "the conditions are not met");
    server.store().get("resourceclaims", "default", "fabric").expect("it was just there")
}

/// What the driver reports.
fn report(server: &TestServer, mut claim: Value, condition: &str) {
    claim["status"]["devices"] = json!([{
        "driver": DRIVER, "pool": "node-00000", "device": "gpu-0", "conditions": [{
            "type": condition, "status": "True", "reason": "Fabric", "message": "it says so",
            "lastTransitionTime": "2026-01-02T03:04:05Z",
        }],
    }]);
    fill(server, [claim]);
}

#[test]
fn a_pod_is_bound_once_the_conditions_of_its_devices_are_met() {
    let server = TestServer::start(ServerOptions::default());
    let instance = Instance::alone(&server);
    let claim = with_conditions(&server);
    let timestamp = &claim["status"]["allocation"]["allocationTimestamp"];
    assert!(timestamp.is_string(), "{claim}");
    until_told(&server, "train", "waiting for binding conditions for device on node node-00000");
    report(&server, claim, "attached");
    until_placed(&server, 1);
    assert_eq!(instance.stop(), Exit::Stopped);
    check(&server);
}

#[test]
fn a_device_whose_failure_condition_is_true_is_given_up() {
    let server = TestServer::start(ServerOptions::default());
    let instance = Instance::alone(&server);
    let claim = with_conditions(&server);
    report(&server, claim, "broken");
    until_told(&server, "train", "device binding failed: claim=fabric, reason=Fabric");
    eventually("the device is allocated anew", || {
        let claim = server.store().get("resourceclaims", "default", "fabric").expect("it is there");
        claim["status"]["devices"].is_null() && results(&claim).next().is_some()
    });
    let claim = server.store().get("resourceclaims", "default", "fabric").expect("it is there");
    report(&server, claim, "attached");
    until_placed(&server, 1);
    assert_eq!(instance.stop(), Exit::Stopped);
    check(&server);
}

#[test]
fn conditions_that_are_not_met_in_time_are_given_up() {
    let server = TestServer::start(ServerOptions::default());
    let instance =
        Instance::with(&server, |config| with_args(config, &json!({"bindingTimeout": "1s"})));
    let claim = with_conditions(&server);
    until_told(&server, "train", "device binding timeout: claim=fabric");
    let first = &claim["status"]["allocation"]["allocationTimestamp"];
    eventually("the device is allocated anew", || {
        let claim = server.store().get("resourceclaims", "default", "fabric").expect("it is there");
        let again = &claim["status"]["allocation"]["allocationTimestamp"];
        again.is_string() && again != first
    });
    assert_eq!(instance.stop(), Exit::Stopped);
    assert!(placed(&server).is_empty());
}

#[test]
fn a_claim_has_at_most_256_consumers() {
    let server = cluster(ServerOptions::default(), 1, 1);
    let consumer =
        |n: usize| json!({"resource": "pods", "name": format!("p{n}"), "uid": format!("u{n}")});
    let consumers: Vec<Value> = (0..256).map(consumer).collect();
    fill(&server, [allocated("full", "node-00000", "gpu-0", &consumers)]);
    let instance = Instance::alone(&server);
    fill(&server, [claiming(pod("train", 100), "full")]);
    until_told(&server, "train", "status.reservedFor: Too many: 257: must have at most 256 items");
    let mut less = server.store().get("resourceclaims", "default", "full").expect("it is there");
    less["status"]["reservedFor"] = json!(consumers[..255]);
    fill(&server, [less]);
    until_placed(&server, 1);
    assert_eq!(instance.stop(), Exit::Stopped);
    check(&server);
}

#[test]
fn a_pool_with_a_device_twice_is_not_used() {
    let server = cluster(ServerOptions::default(), 1, 1);
    let mut slices = ["a", "b"].map(|name| (name, slice("node-00000", 2, &[device("gpu-0")])));
    for (name, slice) in &mut slices {
        slice["metadata"]["name"] = json!(format!("node-00000-{name}"));
        slice["spec"]["pool"]["resourceSliceCount"] = json!(2);
    }
    fill(&server, slices.map(|(_, slice)| slice));
    fill(&server, [claim("data"), claiming(pod("train", 100), "data")]);
    let instance = Instance::alone(&server);
    until_told(&server, "train", "invalid resource pools were encountered");
    fill(&server, [slice("node-00000", 3, &[device("gpu-0")])]);
    until_placed(&server, 1);
    assert_eq!(instance.stop(), Exit::Stopped);
    check(&server);
}

#[test]
fn an_expression_that_fails_is_told_to_the_pod() {
    let server = cluster(ServerOptions::default(), 1, 2);
    let expensive = "lists.range(2000).all(a, lists.range(2000).all(b, a + b >= 0))";
    let memory = format!("device.attributes['{DRIVER}']");
    let cases = [
        ("wrong", "device.foo == 1".to_owned(), "CEL compile error: compilation failed"),
        (
            "costly",
            expensive.to_owned(),
            "CEL runtime error: operation cancelled: actual cost limit",
        ),
        ("lacking", format!("{memory}.color == 'red'"), "CEL runtime error: no such key: color"),
    ];
    for (name, expression, _) in &cases {
        let mut claim = claim(name);
        claim["spec"]["devices"]["requests"][0]["exactly"]["selectors"] =
            json!([{"cel": {"expression": expression}}]);
        fill(&server, [claim, claiming(pod(&format!("pod-{name}"), 100), name)]);
    }
    fill(&server, [claim("right"), claiming(pod("train", 100), "right")]);
    let instance = Instance::alone(&server);
    for (name, _, message) in &cases {
        let pod = format!("pod-{name}");
        until_told(&server, &pod, &format!("claim default/{name}: selector #0"));
        until_told(&server, &pod, message);
    }
    until_placed(&server, 1);
    assert!(placed(&server).contains_key("train"), "the others are no hindrance");
    assert_eq!(instance.stop(), Exit::Stopped);
}

#[test]
fn a_class_stands_for_an_extended_resource() {
    let server = crate::serving::cluster();
    fill(&server, (0..2).flat_map(|number| node_with_devices(number, 2)));
    let mut class = class();
    class["spec"]["extendedResourceName"] = json!("example.com/gpu");
    fill(&server, [class]);
    let (instance, anonymous) = Instance::serving(&server, |_| ());
    let with_resource = |mut pod: Value| {
        let resources = &mut pod["spec"]["containers"][0]["resources"];
        resources["requests"]["example.com/gpu"] = json!("1");
        resources["limits"] = json!({"example.com/gpu": "1"});
        pod
    };
    fill(&server, pods("train", 4).map(with_resource));
    until_placed(&server, 4);
    assert_eq!(check(&server).len(), 4);
    let page = until(&anonymous.with_token("token-of-prometheus"), "/metrics", 200).body;
    let created = "scheduler_resourceclaim_creates_total{status=\"success\"}";
    assert_eq!(rows(&page).get(created), Some(&4.0));
    for pod in server.store().list("pods") {
        let status = &pod["status"]["extendedResourceClaimStatus"];
        let name = status["resourceClaimName"].as_str().expect("it is told its claim");
        let claim = server.store().get("resourceclaims", "default", name).expect("it is there");
        assert_eq!(claim["metadata"]["ownerReferences"][0]["uid"], pod["metadata"]["uid"]);
        let mapping = &status["requestMappings"][0];
        assert_eq!(mapping["resourceName"], "example.com/gpu");
        assert_eq!(mapping["requestName"], claim["spec"]["devices"]["requests"][0]["name"]);
    }
    assert_eq!(instance.stop(), Exit::Stopped);
}
