//! `/api/v1` of `plimsoll run`: the answers are those on files, and as the description says.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use plimsoll_testserver::{HttpsClient, Options, Right, TestServer, User};
use serde_json::{Value, json};

use crate::pages::{place, text};
use crate::run::run;

/// Far longer than anything takes, even on a busy machine.
const PATIENCE: Duration = Duration::from_mins(4);

const OPENAPI: &str = "crates/kube/src/serve/api/openapi.json";

/// Checks an answer against the description.
#[track_caller]
fn is_as_described(answer: &Value) {
    is_of_schema("Why", answer);
}

/// Checks an answer against one schema of the description.
#[track_caller]
pub(crate) fn is_of_schema(name: &str, answer: &Value) {
    let mut description: Value = serde_json::from_str(&text(OPENAPI)).expect("it is JSON");
    let components = description["components"].take();
    let schema = json!({"$ref": format!("#/components/schemas/{name}"), "components": components});
    let validator = jsonschema::validator_for(&schema).expect("it is a schema");
    let errors: Vec<_> = validator
        .iter_errors(answer)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{errors:#?}\n{answer:#}");
}

#[test]
fn answers_about_all_pods_of_the_example_are_as_described() {
    let cluster = place("examples/cluster");
    let cluster = cluster.display();
    let simulated = run(&[], &format!("simulate -f {cluster} -o json"));
    let pods = simulated.out.lines().map(|line| {
        let record: Value = serde_json::from_str(line).expect("a record a line");
        record["pod"].as_str().expect("it is about a pod").to_owned()
    });
    let mut n_remedies = 0;
    for pod in pods {
        let answer = run(&[], &format!("why -f {cluster} {pod} -o json"));
        assert_eq!((answer.status, answer.err.as_str()), (0, ""), "{pod}");
        let answer: Value = serde_json::from_str(&answer.out).expect("it is one document");
        is_as_described(&answer);
        n_remedies += answer["remedies"].as_array().map_or(0, Vec::len);
    }
    assert!(0 < n_remedies, "some pod of the example does not fit");
}

#[test]
fn plans_and_capacities_of_the_example_are_as_described() {
    let cluster = place("examples/cluster");
    let cluster = cluster.display();
    for actions in [
        "",
        "--drain highmem-a1",
        "--lose topology.kubernetes.io/zone=eu-b",
        "--scale data/postgres=40",
    ] {
        let answer = run(&[], &format!("what-if -f {cluster} {actions} -o json"));
        assert_eq!((answer.status, answer.err.as_str()), (0, ""), "{actions}");
        is_of_schema("Plan", &serde_json::from_str(&answer.out).expect("it is one document"));
    }
    let answer = run(&[], &format!("capacity -f {cluster} --all-shapes -o json"));
    is_of_schema("Capacity", &serde_json::from_str(&answer.out).expect("it is one document"));
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [
        {"name": "c", "resources": {"requests": {"cpu": "3"}}},
    ]}});
    let files = [("p.json", pod.to_string())];
    let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
    let answer = run(&files, &format!("capacity -f {cluster} --pod-file p.json -o json"));
    is_of_schema("Capacity", &serde_json::from_str(&answer.out).expect("it is one document"));
}

#[test]
fn an_answer_that_is_not_as_described_is_noticed() {
    let wrong =
        std::panic::catch_unwind(|| is_as_described(&json!({"pod": "a/b", "state": "lost"})));
    assert!(wrong.is_err());
    let wrong = std::panic::catch_unwind(|| {
        is_as_described(&json!({"pod": "a/b", "state": "gated", "more": 1}));
    });
    assert!(wrong.is_err());
}

/// `plimsoll run`, which serves.
pub(crate) struct Serving {
    process: Child,
    pub(crate) client: HttpsClient,
    _files: tempfile::TempDir,
}

impl Serving {
    /// With further flags.
    pub(crate) fn start(server: &TestServer, flags: &[&str]) -> Self {
        let files = tempfile::tempdir().expect("there is room");
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("there is a free port");
        let port = free.local_addr().expect("it is bound").port();
        drop(free);
        let process = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
            .args(["run", "--leader-elect=false", "--bind-address=127.0.0.1"])
            .args(flags)
            .arg(format!("--secure-port={port}"))
            .arg("--cert-dir")
            .arg(files.path())
            .arg("--kubeconfig")
            .arg(server.kubeconfig_file().expect("there is room for a file"))
            .arg(format!("--journal={}", files.path().join("decisions.db").display()))
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary starts");
        let file = files.path().join("kube-scheduler.crt");
        let certificate = until("there is a certificate", || {
            std::fs::read_to_string(&file).ok().filter(|pem| pem.ends_with("-----\n"))
        });
        let client = HttpsClient::new(([127, 0, 0, 1], port).into(), &certificate);
        Serving { process, client: client.expect("it is right"), _files: files }
    }

    /// The answer about a pod, once there is one that `is_expected`.
    #[track_caller]
    fn why(&self, token: &str, pod: &str, is_expected: impl Fn(&Value) -> bool) -> Value {
        let client = self.client.with_token(token);
        until(&format!("the answer about {pod}"), || {
            let answer = client.get(&format!("/api/v1/why?pod={pod}")).ok()?;
            let answer: Value = serde_json::from_str(&answer.body).ok()?;
            is_expected(&answer).then_some(answer)
        })
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What `look` finds, once it finds something.
#[track_caller]
pub(crate) fn until<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn node(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
        "status": {"allocatable": {"cpu": "2", "memory": "8Gi", "pods": "10"}},
    })
}

fn pod(namespace: &str, name: &str, cpu: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": namespace, "name": name},
        "spec": {"priority": 0, "containers": [
            {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}},
        ]},
    })
}

pub(crate) fn user(name: &str, rights: Vec<Right>) -> User {
    let rights =
        rights.into_iter().chain([Right::on_paths(&["/api/v1/*"], &["get", "post"])]).collect();
    User { token: format!("token-of-{name}"), name: name.to_owned(), groups: Vec::new(), rights }
}

#[test]
fn a_running_instance_answers_as_files_do() {
    let all = Right::on("", &["pods"], &["get", "list"]);
    let users = vec![user("operator", vec![all.clone()]), user("shop", vec![all.within("shop")])];
    let server = TestServer::start(Options { users, ..Options::default() });
    server.store().apply_all([node("n1")]).expect("it is valid");
    let placed = |namespace: &str, name: &str| {
        let mut pod = pod(namespace, name, "1500m");
        pod["spec"]["nodeName"] = json!("n1");
        pod["status"] = json!({"phase": "Running"});
        pod
    };
    let mut gated = pod("shop", "gated", "100m");
    gated["spec"]["schedulingGates"] = json!([{"name": "example.com/wait"}]);
    let objects = [placed("pay", "card-1"), pod("shop", "large", "1"), gated];
    server.store().apply_all(objects).expect("they are valid");
    let serving = Serving::start(&server, &[]);

    let is_tried = |answer: &Value| answer["waiting"]["attempts"] == 1;
    let told = serving.why("token-of-operator", "shop/large", is_tried);
    is_as_described(&told);
    assert_eq!(told["state"], "unschedulable");
    assert!(told["asOf"].is_string() && told["waiting"]["since"].is_string(), "{told}");
    let list = |kind: &str| server.store().list(kind);
    let items: Vec<Value> = list("pods").into_iter().chain(list("nodes")).collect();
    let files = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    let on_files = run(&[("all.json", files.as_str())], "why -f all.json shop/large -o json");
    let on_files: Value = serde_json::from_str(&on_files.out).expect("it is one document");
    for key in ["remedies", "nearest", "record"] {
        assert_eq!(told[key], on_files[key], "{key}");
    }
    assert!(told["remedies"].to_string().contains("evict pay/card-1"), "{}", told["remedies"]);

    let told = serving.why("token-of-shop", "shop/large", is_tried);
    is_as_described(&told);
    assert!(!told.to_string().contains("card-1"), "{told}");
    assert_eq!(
        told["remedies"].as_array().map(Vec::len),
        on_files["remedies"].as_array().map(Vec::len)
    );

    let told = serving.why("token-of-shop", "shop/gated", |answer| answer["state"] == "gated");
    is_as_described(&told);
    assert_eq!(told["waiting"]["heldBy"]["plugin"], "SchedulingGates");

    let told = serving.why("token-of-shop", "pay/card-1", |answer| answer["code"] == 403);
    assert_eq!(told["reason"], "Forbidden");
    let told =
        serving.why("token-of-operator", "pay/card-1", |answer| answer["state"] == "scheduled");
    is_as_described(&told);
    assert_eq!(told["node"], "n1");
    let ask = |path: &str, body: &Value| {
        let operator = serving.client.with_token("token-of-operator");
        until(path, || {
            let answer = operator.send("POST", path, &body.to_string()).ok()?;
            (answer.code != 429).then(|| serde_json::from_str::<Value>(&answer.body).ok())?
        })
    };
    let plan = ask("/api/v1/what-if", &json!({"actions": [{"addNodes": {"n": 1, "like": "n1"}}]}));
    is_of_schema("Plan", &plan);
    assert_eq!(plan["placed"], json!([{"pod": "shop/large", "to": "n1-new1"}]));
    another_configuration_decides(ask);
    let wrong = ask("/api/v1/what-if", &json!({"actions": [{"drain": "n7"}]}));
    assert_eq!(
        (&wrong["code"], &wrong["message"]),
        (&json!(400), &json!("actions[0]: no node is named n7; there is n1"))
    );
    let small = json!({"pods": [pod("shop", "small", "200m")]});
    let capacity = ask("/api/v1/capacity", &small);
    is_of_schema("Capacity", &capacity);
    assert_eq!(capacity["shapes"][0]["fits"], 2);

    let told = serving.why("token-of-operator", "pay/none", |answer| answer["code"] == 404);
    assert_eq!(told["message"], "pods \"none\" not found");

    let see = |token: &str, path: &str, schema: &str| {
        let answer = serving.client.with_token(token).get(&format!("/api/v1/{path}"));
        let answer = answer.expect("it answers");
        let answer: Value = serde_json::from_str(&answer.body).expect("it is JSON");
        is_of_schema(schema, &answer);
        answer
    };
    let told = see("token-of-operator", "overview", "Overview");
    assert_eq!((&told["nodes"]["all"], &told["views"]["live"]), (&json!(1), &json!(true)));
    assert_eq!((&told["pods"]["placed"], &told["pods"]["gated"]), (&json!(1), &json!(1)));
    see("token-of-operator", "nodes", "Nodes");
    see("token-of-operator", "timeline", "Timeline");
    assert_eq!(
        see("token-of-operator", "config", "Configuration")["differences"][0]["field"],
        "clientConnection.kubeconfig"
    );
    let told = see("token-of-shop", "node?name=n1", "Node");
    assert_eq!((&told["pods"], &told["withheld"]), (&json!([]), &json!(1)));
    let told = see("token-of-shop", "pods", "Pods");
    let names: Vec<&Value> =
        told["pods"].as_array().expect("a list").iter().map(|pod| &pod["pod"]).collect();
    assert_eq!(names, ["shop/large", "shop/gated"]);
    assert_eq!(told["pods"][0]["rejectedBy"], json!(["NodeResourcesFit"]));
    see("token-of-shop", "pod?pod=shop/gated", "Pod");
    let page = serving.client.get("/ui/").expect("it answers");
    assert!(page.body.starts_with("<!doctype html>"), "{}", page.body);
}

/// Asks an instance with the pod shop/large, for which node n1 is too small.
fn another_configuration_decides(ask: impl Fn(&str, &Value) -> Value) {
    let free = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": {"multiPoint": {"disabled": [{"name": "NodeResourcesFit"}]}}}],
        "extenders": [{"urlPrefix": "http://localhost:1", "filterVerb": "filter"}],
    });
    let plan = ask("/api/v1/what-if", &json!({"actions": [], "configuration": free}));
    is_of_schema("Plan", &plan);
    assert_eq!(plan["placed"], json!([{"pod": "shop/large", "to": "n1"}]));
    let warning = plan["warnings"][0].as_str().expect("extenders are not called");
    assert!(warning.starts_with("configuration:1: extenders: "), "{warning}");
    let wrong = ask("/api/v1/what-if", &json!({"actions": [], "configuration": 7}));
    assert_eq!(
        (&wrong["code"], &wrong["message"]),
        (
            &json!(400),
            &json!(
                "configuration: write the text of a configuration file, or what it holds as an object"
            )
        )
    );
}

#[test]
fn shapes_of_a_running_instance_are_named_to_those_who_may_list_their_pods() {
    let all = Right::on("", &["pods"], &["get", "list"]);
    let users = vec![user("operator", vec![all.clone()]), user("shop", vec![all.within("shop")])];
    let server = TestServer::start(Options { users, ..Options::default() });
    let of = |namespace: &str, controller: &str, cpu: &str| {
        let mut pod = pod(namespace, &format!("{controller}-x7"), cpu);
        pod["metadata"]["ownerReferences"] = json!([
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": controller, "uid": controller, "controller": true},
        ]);
        pod["spec"]["nodeName"] = json!("n1");
        pod["status"] = json!({"phase": "Running"});
        pod
    };
    let mut without_its_claim = of("pay", "vault", "100m");
    without_its_claim["spec"]["volumes"] =
        json!([{"name": "v", "persistentVolumeClaim": {"claimName": "scratch-of-vault"}}]);
    let objects =
        [node("n1"), of("pay", "card", "500m"), without_its_claim, of("shop", "web", "700m")];
    server.store().apply_all(objects).expect("they are valid");
    let serving = Serving::start(&server, &[]);
    let ask = |user: &str, body: Value| {
        let client = serving.client.with_token(&format!("token-of-{user}"));
        until("the shapes", || {
            let answer = client.send("POST", "/api/v1/capacity", &body.to_string()).ok()?;
            let answer: Value = serde_json::from_str(&answer.body).ok()?;
            let is_refused = answer["code"] == 403;
            (is_refused || answer["shapes"][0]["fits"] == 1).then_some(answer)
        })
    };
    let asked = json!({"allShapes": true, "text": true});
    let whole = ask("operator", asked.clone());
    is_of_schema("Capacity", &whole);
    let shapes = &whole["shapes"];
    assert_eq!((&shapes[0]["pod"], &shapes[0]["fits"]), (&json!("pay/card"), &json!(1)), "{whole}");
    assert_eq!((&shapes[2]["pod"], &shapes[2]["fits"]), (&json!("shop/web"), &json!(1)), "{whole}");
    assert_eq!(
        (&shapes[1]["pod"], &shapes[1]["fits"]),
        (&json!("pay/vault"), &json!(0)),
        "{whole}"
    );

    let told = ask("shop", asked.clone());
    is_of_schema("Capacity", &told);
    for hidden in ["card", "pay", "vault"] {
        assert!(!told.to_string().contains(hidden), "{told}");
    }
    assert_eq!(told["shapes"][0], shapes[2]);
    for (at, of) in [(1, 0), (2, 1)] {
        let mut withheld = shapes[of].clone();
        let fields = withheld.as_object_mut().expect("it is an object");
        fields.remove("pod");
        fields.insert("withheld".to_owned(), json!(true));
        let why = "a reason that may name objects of its namespace";
        fields.insert("stoppedBy".to_owned(), json!(why));
        assert_eq!(told["shapes"][at], withheld);
    }
    let text = told["text"].as_str().expect("it was asked for");
    let rows: Vec<&str> =
        text.lines().skip(1).map(|row| row.split("  ").next().unwrap_or("")).collect();
    let withheld = "a pod that you may not list";
    assert_eq!(rows, ["shop/web", withheld, withheld], "{text}");

    let of_shop = ask("shop", json!({"allShapes": true, "namespace": "shop"}));
    assert_eq!(of_shop["shapes"], json!([shapes[2]]));
    assert_eq!(ask("shop", json!({"allShapes": true, "namespace": "pay"}))["code"], 403);
}

#[test]
fn the_history_of_a_pod_and_what_the_instance_believes_are_told() {
    let all = Right::on("", &["pods"], &["get", "list"]);
    let users = vec![user("operator", vec![all.clone()]), user("shop", vec![all.within("shop")])];
    let server = TestServer::start(Options { users, ..Options::default() });
    let mut placed = pod("pay", "card-1", "1500m");
    placed["spec"]["nodeName"] = json!("n1");
    placed["status"] = json!({"phase": "Running"});
    let objects = [node("n1"), placed, pod("shop", "large", "1")];
    server.store().apply_all(objects).expect("they are valid");
    let serving = Serving::start(&server, &[]);
    serving.why("token-of-shop", "shop/large", |answer| answer["waiting"]["attempts"] == 1);
    let ask = |token: &str, path: &str| {
        let answer = serving.client.with_token(token).get(path).ok()?;
        Some((answer.code, serde_json::from_str::<Value>(&answer.body).ok()?))
    };

    let asked = "/api/v1/instance";
    let (code, instance) = ask("token-of-operator", asked).expect("it answers");
    assert_eq!(code, 200, "{instance}");
    is_of_schema("Instance", &instance);
    assert_eq!(instance["nodes"], json!(["n1"]));
    assert_eq!(
        (&instance["placed"][0]["pod"], &instance["placed"][0]["node"]),
        (&json!("pay/card-1"), &json!("n1"))
    );
    let waiting = &instance["waiting"][0];
    assert_eq!(
        (&waiting["pod"], &waiting["state"], &waiting["profile"]),
        (&json!("shop/large"), &json!("unschedulable"), &json!("default-scheduler"))
    );
    assert_eq!(ask("token-of-shop", asked).expect("it answers").0, 403);

    // The journal is written a moment after the decision.
    let asked = "/api/v1/history?pod=shop/large";
    let history = until("the journal has the attempt", || {
        let (_, answer) = ask("token-of-shop", asked)?;
        answer["attempts"][0].is_object().then_some(answer)
    });
    is_of_schema("History", &history);
    assert_eq!(history["attempts"][0]["result"], "unschedulable");
    assert_eq!(history["attempts"][0]["rejections"][0]["plugin"], "NodeResourcesFit");
    let refused = ask("token-of-shop", "/api/v1/history?pod=pay/card-1").expect("it answers");
    assert_eq!(refused.0, 403, "{}", refused.1);
}
