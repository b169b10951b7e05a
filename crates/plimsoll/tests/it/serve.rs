//! `plimsoll serve`: the page, and the API on files.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use expect_test::expect;
use serde_json::{Value, json};

use crate::api::{is_of_schema, until};
use crate::pages::place;
use crate::run::{check_refused, run};
use crate::whole_groups;

/// A pod of a group, and two devices, of which a claim has one.
const GROUPS_AND_DEVICES: &str = "\
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: '2', memory: 8Gi, pods: '10'}}
---
apiVersion: v1
kind: Pod
metadata: {name: train-0}
spec: {schedulingGroup: {podGroupName: train}, containers: [{name: c}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: slice-1}
spec:
  driver: gpu.example.com
  nodeName: n1
  pool: {name: n1, generation: 1, resourceSliceCount: 1}
  devices: [{name: gpu-0}, {name: gpu-1}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: own}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}
status:
  allocation:
    devices: {results: [{request: r, driver: gpu.example.com, pool: n1, device: gpu-0}]}
";

/// `plimsoll serve`, until it is dropped.
pub(crate) struct Served {
    process: Child,
    address: String,
}

impl Served {
    pub(crate) fn start(args: &[&str]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary starts");
        let mut line = String::new();
        let out = process.stdout.take().expect("it is a pipe");
        BufReader::new(out).read_line(&mut line).expect("it says where it listens");
        let address = line.trim().strip_prefix("http://").and_then(|rest| rest.strip_suffix('/'));
        let address = address.unwrap_or_else(|| panic!("no address: {line:?}")).to_owned();
        Served { process, address }
    }

    /// The status and the body of an answer.
    fn send(&self, method: &str, path: &str, headers: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
        );
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        let (head, body) = answer.split_once("\r\n\r\n").expect("an answer has a head");
        let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        (code.expect("an answer has a status"), body.to_owned())
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        let (_, body) = self.send("GET", path, &format!("Host: {}\r\n", self.address), "");
        serde_json::from_str(&body).unwrap_or_else(|error| panic!("{path}: {error}: {body}"))
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Value {
        let headers = format!("Host: {}\r\nContent-Type: application/json\r\n", self.address);
        let (_, body) = self.send("POST", path, &headers, &body.to_string());
        serde_json::from_str(&body).unwrap_or_else(|error| panic!("{path}: {error}: {body}"))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn example() -> String {
    place("examples/cluster").display().to_string()
}

#[test]
fn what_the_page_shows_of_the_example_is_as_described() {
    let served = Served::start(&["-f", &example()]);
    let overview = served.get("/api/v1/overview");
    is_of_schema("Overview", &overview);
    let nodes = served.get("/api/v1/nodes");
    is_of_schema("Nodes", &nodes);
    let names = nodes["names"].as_array().expect("there are nodes");
    assert_eq!(overview["nodes"]["all"], names.len());
    for name in names.iter().filter_map(Value::as_str) {
        is_of_schema("Node", &served.get(&format!("/api/v1/node?name={name}")));
    }
    let pods = served.get("/api/v1/pods?limit=1000");
    is_of_schema("Pods", &pods);
    let listed = pods["pods"].as_array().expect("there are pods");
    assert_eq!(pods["total"], listed.len());
    assert_ne!(listed[0]["state"], "placed", "pending ones are first");
    for pod in listed.iter().filter_map(|pod| pod["pod"].as_str()) {
        is_of_schema("Pod", &served.get(&format!("/api/v1/pod?pod={pod}")));
    }
    for (path, schema) in
        [("groups", "Groups"), ("devices", "Devices"), ("config", "Configuration")]
    {
        is_of_schema(schema, &served.get(&format!("/api/v1/{path}")));
    }
    assert_eq!(served.get("/api/v1/config")["differences"], json!([]));
    assert_eq!(served.get("/api/v1/timeline")["code"], 404, "there is no journal");
}

#[test]
fn answers_are_those_of_the_command_line() {
    let (cluster, pod) = (example(), "ml/train-huge-0");
    let served = Served::start(&["-f", &cluster]);
    let line = |line: &str| -> Value {
        serde_json::from_str(&run(&[], line).out).expect("it is one document")
    };
    let why = served.get(&format!("/api/v1/why?pod={pod}"));
    is_of_schema("Why", &why);
    assert_eq!(why, line(&format!("why -f {cluster} {pod} -o json")));
    let mut again = served.get(&format!("/api/v1/why?pod={pod}&text=true"));
    let text = again["text"].take();
    assert_eq!(text, run(&[], &format!("why -f {cluster} {pod}")).out);
    again.as_object_mut().expect("it is an object").remove("text");
    assert_eq!(why, again, "it is asked again");
    let plan = served.post("/api/v1/what-if", &json!({"actions": [{"drain": "highmem-a1"}]}));
    is_of_schema("Plan", &plan);
    assert_eq!(plan, line(&format!("what-if -f {cluster} --drain highmem-a1 -o json")));
    let shape = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [
        {"name": "c", "resources": {"requests": {"cpu": "3"}}},
    ]}});
    let capacity = served.post("/api/v1/capacity", &json!({"pods": [shape]}));
    is_of_schema("Capacity", &capacity);
    for (flags, body) in [
        ("--all-shapes", json!({"allShapes": true})),
        ("--all-shapes --limit 7", json!({"allShapes": true, "limit": 7})),
        ("--all-shapes --after-pending", json!({"allShapes": true, "afterPending": true})),
    ] {
        let capacity = served.post("/api/v1/capacity", &body);
        is_of_schema("Capacity", &capacity);
        let expected = line(&format!("capacity -f {cluster} {flags} -o json"));
        assert_eq!(capacity, expected, "{flags}");
    }
    let shapes = |body: Value| served.post("/api/v1/capacity", &body)["shapes"].clone();
    let (all, after) =
        (json!({"allShapes": true}), json!({"allShapes": true, "afterPending": true}));
    assert_ne!(shapes(all), shapes(after), "some pending pods of the example fit");
    let of_shop = shapes(json!({"allShapes": true, "namespace": "shop", "limit": 1}));
    let of_shop = of_shop.as_array().expect("it is a list");
    let is_of_shop =
        |shape: &Value| shape["pod"].as_str().is_some_and(|pod| pod.starts_with("shop/"));
    assert!(!of_shop.is_empty() && of_shop.iter().all(is_of_shop), "{of_shop:?}");
    let wrong = served.post("/api/v1/capacity", &json!({}));
    let why = "say what is counted: pods, group or allShapes";
    assert_eq!((&wrong["code"], &wrong["message"]), (&json!(400), &json!(why)));
    let unknown = served.get("/api/v1/why?pod=ml/none");
    assert_eq!(unknown["code"], 404, "{unknown}");
    let wrong = served.post("/api/v1/what-if", &json!({"actions": [{"drain": "n7"}]}));
    assert_eq!(wrong["code"], 400, "{wrong}");
}

#[test]
fn pending_pods_are_decided_and_say_why_they_are_pending() {
    let served = Served::start(&["-f", &example()]);
    let told = until("the decision about ml/train-huge-0", || {
        let told = served.get("/api/v1/pod?pod=ml/train-huge-0");
        told["message"].is_string().then_some(told)
    });
    assert_eq!(told["state"], "unschedulable");
    let message = told["message"].as_str().expect("it is text");
    assert!(message.contains("nodes are available"), "{message}");
    let counts = until("the counts", || {
        let told = served.get("/api/v1/overview");
        (told["pods"]["unschedulable"] != 0).then_some(told)
    });
    assert!(counts["reasons"].to_string().contains("nodes are available"), "{counts}");
    let listed = served.get("/api/v1/pods?state=unschedulable&search=train-huge");
    assert_eq!(listed["pods"][0]["pod"], "ml/train-huge-0");
}

#[test]
fn groups_and_devices_are_shown_where_there_are_any() {
    let folder = tempfile::tempdir().expect("there is room");
    let file = folder.path().join("cluster.yaml");
    std::fs::write(&file, GROUPS_AND_DEVICES).expect("there is room");
    let gates = ["--feature-gates", "GenericWorkload=true"];
    let served = Served::start(&["-f", &file.display().to_string(), gates[0], gates[1]]);
    let views = &served.get("/api/v1/overview")["views"];
    assert_eq!((&views["groups"], &views["devices"]), (&json!(true), &json!(true)));
    let groups = served.get("/api/v1/groups");
    is_of_schema("Groups", &groups);
    let group = &groups["groups"][0];
    assert_eq!((&group["group"], &group["exists"]), (&json!("default/train"), &json!(false)));
    assert_eq!((&group["placed"], &group["pending"]), (&json!(0), &json!(1)));
    let devices = served.get("/api/v1/devices");
    is_of_schema("Devices", &devices);
    let expected = json!([
        {"driver": "gpu.example.com", "pool": "n1", "device": "gpu-0", "node": "n1", "claims": 1,
         "claimedBy": ["default/own"]},
        {"driver": "gpu.example.com", "pool": "n1", "device": "gpu-1", "node": "n1", "claims": 0},
    ]);
    assert_eq!(devices["devices"], expected);
}

/// A tree of groups, of which one names a parent that does not exist.
const TREE: &str = "\
apiVersion: scheduling.k8s.io/v1alpha3
kind: CompositePodGroup
metadata: {name: job, namespace: default}
spec:
  schedulingPolicy: {gang: {minGroupCount: 2}}
  schedulingConstraints: {topology: [{key: rack}]}
---
apiVersion: scheduling.k8s.io/v1alpha3
kind: CompositePodGroup
metadata: {name: half, namespace: default}
spec:
  schedulingPolicy: {gang: {minGroupCount: 1}}
  parentCompositePodGroupName: job
---
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: workers, namespace: default}
spec:
  schedulingPolicy: {gang: {minCount: 1}}
  parentCompositePodGroupName: half
---
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: stray, namespace: default}
spec:
  schedulingPolicy: {gang: {minCount: 1}}
  parentCompositePodGroupName: lost
---
apiVersion: v1
kind: Pod
metadata: {name: worker, namespace: default}
spec: {schedulingGroup: {podGroupName: workers}, containers: [{name: c}]}
";

#[test]
fn groups_of_groups_are_listed_with_their_parts() {
    let folder = tempfile::tempdir().expect("there is room");
    let file = folder.path().join("cluster.yaml");
    std::fs::write(&file, TREE).expect("there is room");
    let gates = "GenericWorkload=true,TopologyAwareWorkloadScheduling=true,CompositePodGroup=true";
    let file = file.display().to_string();
    let served = Served::start(&["-f", &file, "--feature-gates", gates]);
    let groups = served.get("/api/v1/groups");
    is_of_schema("Groups", &groups);
    let expected = json!([
        {"group": "default/half", "exists": true, "minGroupCount": 1, "priority": 0, "parent": "default/job",
         "placed": 0, "pending": 1, "groups": ["default/workers"]},
        {"group": "default/job", "exists": true, "minGroupCount": 2, "topology": "rack", "priority": 0,
         "placed": 0, "pending": 1, "composites": ["default/half"]},
        {"group": "default/lost", "exists": false, "priority": 0, "placed": 0, "pending": 0,
         "groups": ["default/stray"]},
    ]);
    assert_eq!(groups["composites"], expected);
    let parents: Vec<&Value> = groups["groups"]
        .as_array()
        .expect("there are groups")
        .iter()
        .map(|group| &group["parent"])
        .collect();
    assert_eq!(parents, ["default/lost", "default/half"]);
}

#[test]
fn a_group_is_told_what_would_let_it_fit_and_moves_are_found() {
    let folder = tempfile::tempdir().expect("there is room");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("there is room");
        path.display().to_string()
    };
    let (cluster, more) =
        (file("a.yaml", whole_groups::CLUSTER), file("more.yaml", whole_groups::MORE));
    let gates = whole_groups::GATES;
    let line = |line: &str| -> Value {
        serde_json::from_str(&run(&[], line).out).expect("it is one document")
    };
    let mut args = vec!["-f", &cluster, &more];
    args.extend(gates.split(' '));
    let served = Served::start(&args);
    let why = served.get("/api/v1/why-group?group=default/more&remedies=20");
    is_of_schema("WhyGroup", &why);
    assert_eq!((&why["state"], &why["pending"]), (&json!("unschedulable"), &json!(2)));
    let files = format!("-f {cluster} {more} {gates} -o json");
    assert_eq!(why, line(&format!("why --group more --remedies 20 {files}")));
    assert_eq!(why, served.get("/api/v1/why-group?group=default/more&remedies=20"));
    let running = served.get("/api/v1/why-group?group=default/train");
    assert_eq!(running["state"], "running", "{running}");
    let unknown = served.get("/api/v1/why-group?group=default/none");
    assert_eq!(unknown["code"], 404, "{unknown}");
    let capacity = served.post("/api/v1/capacity", &json!({"group": "default/train"}));
    is_of_schema("Capacity", &capacity);
    assert_eq!(capacity, line(&format!("capacity --group train {files}")));
    assert!(capacity["shapes"][0]["remedies"][0].is_object(), "{capacity}");
    let unknown = served.post("/api/v1/capacity", &json!({"group": "default/none"}));
    let why = "there is no PodGroup default/none";
    assert_eq!((&unknown["code"], &unknown["message"]), (&json!(404), &json!(why)));
    let plan = served.post("/api/v1/rebalance", &json!({"objectives": ["freeNodes", "spread"]}));
    is_of_schema("RebalancePlan", &plan);
    assert_eq!(plan, line(&format!("rebalance --free-nodes --spread {files}")));
    let wrong = served.post("/api/v1/rebalance", &json!({"objectives": ["fast"]}));
    assert_eq!(wrong["code"], 400, "{wrong}");
    drop(served);
    let without = Served::start(&["-f", &cluster]);
    let off = without.get("/api/v1/why-group?group=default/train");
    let why = "groups of pods are off: add --feature-gates GenericWorkload=true";
    assert_eq!((&off["code"], &off["message"]), (&json!(400), &json!(why)));
    let off = without.post("/api/v1/capacity", &json!({"group": "default/train"}));
    let why = "groups of pods are off: this instance runs without the feature gate GenericWorkload";
    assert_eq!((&off["code"], &off["message"]), (&json!(400), &json!(why)));
}

#[test]
fn a_journal_shows_the_history() {
    let folder = tempfile::tempdir().expect("there is room");
    let file = folder.path().join("decisions.db").display().to_string();
    let cluster = example();
    let simulated = run(&[], &format!("simulate -f {cluster} --explain -o json --journal {file}"));
    assert_eq!(simulated.status, 0, "{}", simulated.err);
    let served = Served::start(&["--journal", &file]);
    let overview = served.get("/api/v1/overview");
    is_of_schema("Overview", &overview);
    assert_eq!(
        (
            &overview["views"]["cluster"],
            &overview["views"]["history"],
            &overview["views"]["journal"]
        ),
        (&json!(false), &json!(true), &json!(true))
    );
    let timeline = served.get("/api/v1/timeline");
    is_of_schema("Timeline", &timeline);
    assert_ne!(timeline["at"], json!([]));
    let history = served.get("/api/v1/history?pod=ml/train-huge-0");
    is_of_schema("History", &history);
    assert_eq!(history["attempts"][0]["result"], "unschedulable");
    is_of_schema("Journal", &served.get("/api/v1/journal"));
    let nowhere = served.post("/api/v1/what-if", &json!({"actions": []}));
    assert_eq!(nowhere["message"], "there is no cluster: start `plimsoll serve` with -f FILE");
}

#[test]
fn what_differs_from_the_default_configuration_is_listed() {
    let folder = tempfile::tempdir().expect("there is room");
    let file = folder.path().join("scheduler.yaml");
    let text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\npodMaxBackoffSeconds: 30\n";
    std::fs::write(&file, text).expect("there is room");
    let served = Served::start(&["-f", &example(), "--config", &file.display().to_string()]);
    let expected = json!([{"field": "podMaxBackoffSeconds", "value": 30, "default": 10}]);
    assert_eq!(served.get("/api/v1/config")["differences"], expected);
}

#[test]
fn other_hosts_are_refused() {
    let served = Served::start(&["-f", &example()]);
    let (code, body) = served.send("GET", "/", &format!("Host: {}\r\n", served.address), "");
    assert_eq!((code, body.starts_with("<!doctype html>")), (200, true));
    let (code, body) = served.send("GET", "/api/v1/nodes", "Host: evil.example\r\n", "");
    assert_eq!(code, 403, "{body}");
}

#[test]
fn it_listens_for_this_machine_only_unless_told() {
    check_refused(
        &[],
        &format!("serve -f {} --listen 0.0.0.0:0", example()),
        &expect![[r#"
            error: --listen 0.0.0.0:0: other machines reach this address, and nobody has to log in: listen on 127.0.0.1, or add --allow-remote
        "#]],
    );
    assert_eq!(run(&[], "serve").status, 2, "neither files nor a journal");
    let nothing = Path::new("/nonexistent.db").display().to_string();
    let refused = run(&[], &format!("serve --journal {nothing}"));
    assert_eq!(
        (refused.status, refused.err.contains("/nonexistent.db")),
        (1, true),
        "{}",
        refused.err
    );
}
