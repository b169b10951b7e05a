//! `plimsoll shadow` as the manifests of `deploy/` run it: what it may do, and what it serves to whom.

use std::path::Path;
use std::process::{Command, Stdio};

use plimsoll_document::Document;
use plimsoll_testserver::{HttpsClient, Options, Right, TestServer, User};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::api::{is_of_schema, until};
use crate::pages::text;
use crate::process::{Process, client_of, eventually, free_port};
use crate::shadow::{SHADOW, bind, node, pod, shadow_rights, texts};

/// The token of a user who may see the page.
const SRE: &str = "token-of-an-sre";
/// The token of a user who may ask, and see the pods of no namespace.
const VISITOR: &str = "token-of-a-visitor";
/// The token of Prometheus.
const SCRAPER: &str = "token-of-prometheus";
/// The token of a user who may do nothing.
const STRANGER: &str = "token-of-a-stranger";

fn objects(file: &str) -> Vec<Value> {
    let objects = Document::parse_all(file, &text(file)).expect("it is YAML");
    objects.into_iter().map(|object| object.value.clone()).collect()
}

fn of_kind<'a>(objects: &'a [Value], kind: &str) -> &'a Value {
    objects.iter().find(|object| object["kind"] == kind).unwrap_or_else(|| panic!("no {kind}"))
}

/// The rights that a role of `deploy/shadow-page.yaml` gives.
fn page_rights() -> Vec<Right> {
    let objects = objects("deploy/shadow-page.yaml");
    let rules = of_kind(&objects, "ClusterRole")["rules"].as_array().expect("it has rules").clone();
    let right = |rule: Value| Right {
        verbs: texts(&rule["verbs"]),
        groups: texts(&rule["apiGroups"]),
        resources: texts(&rule["resources"]),
        paths: texts(&rule["nonResourceURLs"]),
        ..Right::default()
    };
    rules.into_iter().map(right).collect()
}

/// What the role `system:auth-delegator` of every cluster allows.
fn auth_delegator() -> [Right; 2] {
    [
        Right::on("authentication.k8s.io", &["tokenreviews"], &["create"]),
        Right::on("authorization.k8s.io", &["subjectaccessreviews"], &["create"]),
    ]
}

/// The cluster, as the manifests of the shadow and its page leave it.
fn cluster(shadow: Vec<Right>) -> TestServer {
    let user = |token: &str, rights: Vec<Right>| User {
        token: token.to_owned(),
        name: token.to_owned(),
        groups: Vec::new(),
        rights,
    };
    let visitor = vec![Right::on_paths(&["/api/v1/*"], &["get"])];
    let users = vec![
        user(SHADOW, shadow),
        user(SRE, page_rights()),
        user(VISITOR, visitor),
        user(SCRAPER, vec![Right::on_paths(&["/metrics"], &["get"])]),
        user(STRANGER, Vec::new()),
    ];
    let options =
        Options { users, authenticate: true, remember_requests: true, ..Options::default() };
    let server = TestServer::start(options);
    server.store().apply_all((0..6).map(node)).expect("they are valid");
    server
}

/// The shadow, as the Deployment starts it.
struct Deployed {
    /// Ended with the test.
    _process: Process,
    folder: TempDir,
    port: u16,
}

impl Deployed {
    /// Starts it with the arguments of the Deployment, but with files in a folder of its own.
    fn start(server: &TestServer) -> Self {
        let folder = tempfile::tempdir().expect("there is room");
        let port = free_port();
        let here = folder.path().display().to_string();
        let objects = objects("deploy/shadow.yaml");
        let config = of_kind(&objects, "ConfigMap")["data"]["config.yaml"].as_str();
        let write = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).expect("there is room");
        };
        write("config.yaml", config.expect("the ConfigMap has it"));
        write("kubeconfig", &server.kubeconfig_of(SHADOW));
        let args = texts(&container(&objects)["args"]);
        let args = args.iter().map(|arg| {
            arg.replace("/etc/plimsoll", &here)
                .replace("/var/lib/plimsoll", &here)
                .replace("=10259", &format!("={port}"))
        });
        let log = std::fs::File::create(folder.path().join("log")).expect("there is room");
        let child = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
            .args(args)
            .args(["--kubeconfig", &format!("{here}/kubeconfig"), "--bind-address=127.0.0.1"])
            .args(["--cert-dir", &here])
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        Deployed { _process: Process(child.expect("the binary starts")), folder, port }
    }

    fn client(&self) -> HttpsClient {
        client_of(self.folder.path(), self.port)
    }

    /// Waits until a path answers so.
    #[track_caller]
    fn wait_for(&self, path: &str, code: u16) {
        let client = self.client();
        eventually(&format!("{path} answers {code}"), || {
            client.get(path).is_ok_and(|answer| answer.code == code)
        });
    }
}

fn container(objects: &[Value]) -> &Value {
    &of_kind(objects, "Deployment")["spec"]["template"]["spec"]["containers"][0]
}

/// What the report says of the pods of the first configuration.
fn compared(report: &Value) -> Option<u64> {
    report["configurations"][0]["pods"]["compared"].as_u64()
}

#[test]
fn the_manifests_give_the_shadow_no_right_to_write_but_to_ask_for_reviews() {
    let deployment = objects("deploy/shadow.yaml");
    let spec = &of_kind(&deployment, "Deployment")["spec"]["template"]["spec"];
    assert_eq!(spec["serviceAccountName"], "plimsoll-shadow");
    let mut roles = Vec::new();
    for file in ["deploy/shadow-rbac.yaml", "deploy/shadow-page.yaml"] {
        for object in objects(file) {
            let is_ours = |subject: &Value| subject["name"] == "plimsoll-shadow";
            if object["subjects"].as_array().is_some_and(|all| all.iter().any(is_ours)) {
                roles.push(object["roleRef"]["name"].as_str().unwrap_or_default().to_owned());
            }
        }
    }
    // The first one has only get, list and watch, as another test says.
    let expected =
        ["plimsoll-shadow", "system:auth-delegator", "extension-apiserver-authentication-reader"];
    assert_eq!(roles, expected);
    assert!(!text("deploy/shadow.yaml").contains("kind: ClusterRole"));
    let only_read =
        |right: &Right| right.verbs.iter().all(|verb| ["get", "list"].contains(&verb.as_str()));
    let of_pods = |right: &Right| !right.resources.is_empty();
    assert!(page_rights().iter().filter(|right| of_pods(right)).all(only_read));
}

#[test]
fn the_deployment_runs_with_the_rights_to_read_alone_and_its_probes_succeed() {
    let server = cluster(shadow_rights());
    let deployed = Deployed::start(&server);
    let objects = objects("deploy/shadow.yaml");
    for probe in ["livenessProbe", "readinessProbe"] {
        let http = &container(&objects)[probe]["httpGet"];
        assert_eq!((&http["port"], &http["scheme"]), (&json!("https"), &json!("HTTPS")));
        deployed.wait_for(http["path"].as_str().expect("it has a path"), 200);
    }
    server.store().apply(pod(1)).expect("it is valid");
    bind(&server, "web-001", "node-1");
    // Nobody can be found out to be anybody.
    let client = deployed.client();
    for path in ["/api/v1/shadow", "/metrics"] {
        let code = client.with_token(SRE).get(path).expect("it answers").code;
        assert!([401, 403, 500].contains(&code), "{path}: {code}");
    }
    let reviews = |request: &plimsoll_testserver::Request| request.resource.ends_with("reviews");
    let others: Vec<_> =
        server.counts().different_requests().into_iter().filter(|one| !reviews(one)).collect();
    assert!(
        others.iter().all(|one| ["get", "list", "watch"].contains(&one.verb.as_str())),
        "{others:?}"
    );
}

#[test]
fn the_report_is_served_to_those_who_may_ask_with_the_pods_that_they_may_see() {
    let rights = shadow_rights().into_iter().chain(auth_delegator()).collect();
    let server = cluster(rights);
    let deployed = Deployed::start(&server);
    deployed.wait_for("/readyz", 200);
    // Another scheduler that always takes the node with a taint.
    for number in 0..4 {
        server.store().apply(pod(number)).expect("it is valid");
        bind(&server, &format!("web-{number:03}"), "node-0");
    }
    let client = deployed.client();
    let ask = |token: &str, path: &str| {
        let answer = client.with_token(token).get(path).expect("it answers");
        (answer.code, serde_json::from_str::<Value>(&answer.body).unwrap_or_default())
    };
    let report = until("all are compared", || {
        let (_, report) = ask(SRE, "/api/v1/shadow");
        (compared(&report) == Some(4)).then_some(report)
    });
    is_of_schema("Shadow", &report);
    assert_eq!((&report["total"], &report["withheld"]), (&json!(4), &json!(0)));
    let first = &report["disagreements"][0];
    assert_eq!((&first["pod"], &first["kind"]), (&json!("default/web-003"), &json!("infeasible")));
    assert_eq!((&first["theirs"], &first["plugin"]), (&json!("node-0"), &json!("TaintToleration")));
    assert!(first["reproduction"]["command"].as_str().is_some(), "{first}");
    let (_, part) = ask(SRE, "/api/v1/shadow?kind=worse,infeasible&from=1&limit=2");
    is_of_schema("Shadow", &part);
    assert_eq!(part["disagreements"].as_array().map(Vec::len), Some(2));
    let (_, none) = ask(SRE, "/api/v1/shadow?kind=pending");
    assert_eq!((&none["total"], &none["disagreements"]), (&json!(0), &json!([])));

    let (code, seen) = ask(VISITOR, "/api/v1/shadow");
    assert_eq!((code, &seen["withheld"], &seen["disagreements"]), (200, &json!(4), &json!([])));
    assert!(!seen.to_string().contains("web-"), "{seen}");
    assert_eq!(ask(STRANGER, "/api/v1/shadow").0, 403);
    assert_eq!(ask("token-of-nobody", "/api/v1/shadow").0, 401);

    // The metrics count the same.
    let name = report["configurations"][0]["name"].as_str().expect("it has a name");
    let comparisons = |verdict: &str, count| {
        let labels = format!("configuration={name:?},verdict={verdict:?}");
        format!("comparisons_total{{{labels}}} {count}")
    };
    let none = ["same", "tie", "worse", "unschedulable", "unjudged", "both_pending"];
    let mut told: Vec<String> = none.map(|verdict| comparisons(verdict, 0)).into();
    told.extend([comparisons("infeasible", 4), comparisons("pending_although_fits", 0)]);
    let others = ["disagreements_total 4", "pods_not_seen_pending_total 0"].into_iter();
    told.extend(others.chain(["waiting_events 0", "lag_seconds 0"]).map(str::to_owned));
    until("the metrics tell all", || {
        let page = client.with_token(SCRAPER).get("/metrics").expect("it answers").body;
        let has = |line: &String| page.contains(&format!("\nplimsoll_shadow_{line}\n"));
        told.iter().all(has).then_some(())
    });

    // The rest of the API is about the cluster as it is, and the page is open to everybody.
    let (_, overview) = ask(SRE, "/api/v1/overview");
    is_of_schema("Overview", &overview);
    assert_eq!(
        (&overview["views"]["shadow"], &overview["pods"]["placed"]),
        (&json!(true), &json!(4))
    );
    is_of_schema("Why", &ask(SRE, "/api/v1/why?pod=default/web-000").1);
    let page = client.get("/ui/").expect("it answers");
    assert!(page.code == 200 && page.body.starts_with("<!doctype html>"), "{}", page.body);

    let written: Vec<_> = server.counts().different_requests().into_iter().collect();
    let written =
        written.iter().filter(|one| !["get", "list", "watch"].contains(&one.verb.as_str()));
    for request in written {
        let reviews = ["tokenreviews", "subjectaccessreviews"];
        assert!(reviews.contains(&request.resource.as_str()), "{request:?}");
    }
    assert!(Path::new(&deployed.folder.path().join("differ/commands.sh")).exists());
}

#[test]
fn the_report_with_which_the_page_is_tested_is_as_described() {
    let report = text("crates/ui/web/tests/shadow.json");
    is_of_schema("Shadow", &serde_json::from_str(&report).expect("it is JSON"));
}
