//! What an instance serves while it works, asked from outside.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};

use plimsoll_kube::lease::LeaseClock;
use plimsoll_kube::run::{Exit, RunConfig};
use plimsoll_testserver::{
    FaultKind, HttpsClient, HttpsResponse, InjectedFault, Options as ServerOptions, Right,
    TestServer, User,
};
use serde_json::Value;

use crate::lab::{Instance, election, eventually, fill, node, pod, pods, until_placed};

/// What only those may see who have a right to.
const INSIDE: [&str; 6] = [
    "/metrics",
    "/metrics/resources",
    "/configz",
    "/debug/cache",
    "/explain?pod=default/large",
    "/statusz",
];

fn user(name: &str, rights: Vec<Right>) -> User {
    User { token: format!("token-of-{name}"), name: name.to_owned(), groups: Vec::new(), rights }
}

/// A cluster where `prometheus` may look at everything inside, and `jane` at nothing.
pub(crate) fn cluster() -> TestServer {
    let paths = INSIDE.map(|path| path.split('?').next().unwrap_or(path));
    TestServer::start(ServerOptions {
        users: vec![
            user("prometheus", vec![Right::on_paths(&paths, &["get", "head"])]),
            user("jane", Vec::new()),
            user("operator", vec![Right::on_paths(&["*"], &["*"])]),
        ],
        ..ServerOptions::default()
    })
}

/// Asks until there is an answer of this status: others, such as that one asks too often, pass.
#[track_caller]
pub(crate) fn until(client: &HttpsClient, path: &str, code: u16) -> HttpsResponse {
    let ask = || client.get(path).expect("it answers");
    let last = std::cell::RefCell::new(ask());
    eventually(&format!("{path} answers {code}"), || {
        last.borrow().code == code || {
            *last.borrow_mut() = ask();
            false
        }
    });
    last.into_inner()
}

/// The value of each row of a page of metrics. Also looks whether the page is one: every metric has its type, and
/// no row is told twice.
pub(crate) fn rows(page: &str) -> BTreeMap<String, f64> {
    let (mut types, mut rows) = (BTreeSet::new(), BTreeMap::new());
    for line in page.lines() {
        if let Some(told) = line.strip_prefix("# TYPE ") {
            let name = told.split(' ').next().expect("it has a name");
            assert!(types.insert(name), "{name} is told twice");
        } else if !line.starts_with('#') {
            let (row, value) = line.rsplit_once(' ').expect("a row has a value");
            let name = row.split('{').next().expect("a row has a name");
            let parts = ["_bucket", "_sum", "_count"].iter();
            let family = parts.filter_map(|part| name.strip_suffix(part));
            let known = family.chain([name]).any(|name| types.contains(name));
            assert!(known, "{name} has no type");
            let value = value.parse().expect("a value is a number");
            assert_eq!(rows.insert(row.to_owned(), value), None, "{row} is told twice");
        }
    }
    rows
}

#[test]
fn health_is_for_everybody_and_it_is_ready_once_the_cluster_is_known() {
    let server = cluster();
    fill(&server, [node(0)]);
    let withheld = InjectedFault::every(1, FaultKind::Status(503)).verbs(&["list", "watch"]);
    server.faults().add(withheld.resources(&["nodes"]));
    let (instance, client) = Instance::serving(&server, |_| ());
    for path in ["/healthz", "/livez"] {
        assert_eq!(client.get(path).expect("it answers").body, "ok", "{path}");
    }
    let answer = client.get("/readyz").expect("it answers");
    assert_eq!(answer.code, 500);
    for line in ["[+]shutdown ok\n", "[-]informer-sync failed: reason withheld\n"] {
        assert!(answer.body.contains(line), "{}", answer.body);
    }
    let operator = client.with_token("token-of-operator");
    let answer = until(&operator, "/readyz/sched-handler-sync", 500);
    let told = "internal server error: handlers are not fully synchronized\n";
    assert_eq!((answer.code, answer.body.as_str()), (500, told));
    server.faults().clear();
    assert_eq!(until(&client, "/readyz", 200).body, "ok");
    let answer = client.get("/readyz?verbose").expect("it answers");
    assert!(answer.body.ends_with("readyz check passed\n"), "{}", answer.body);
    assert_eq!(instance.stop(), Exit::Stopped);
    assert!(client.get("/healthz").is_err(), "nobody listens any more");
}

#[test]
fn what_is_inside_is_for_those_who_may_see_it() {
    let server = cluster();
    fill(&server, [node(0), pod("large", 9000)]);
    let (instance, anonymous) = Instance::serving(&server, |_| ());
    let forged = anonymous.with_token("token-of-nobody");
    let jane = anonymous.with_token("token-of-jane");
    let prometheus = anonymous.with_token("token-of-prometheus");
    let signed = server.client_certificate("prometheus", &[]).expect("the cluster has TLS");
    let signed = anonymous.with_certificate(&signed).expect("the certificate is right");
    let master = server.client_certificate("root", &["system:masters"]).expect("the same");
    let master = anonymous.with_certificate(&master).expect("the certificate is right");
    // One that another cluster has signed proves nothing.
    let strange = TestServer::start(ServerOptions::default());
    let strange = strange.client_certificate("prometheus", &[]).expect("the cluster has TLS");
    let strange = anonymous.with_certificate(&strange).expect("the certificate is right");
    until(&prometheus, "/explain?pod=default/large", 200);
    for path in INSIDE {
        for (who, client, code) in [
            ("anonymous", &anonymous, 403),
            ("forged", &forged, 401),
            ("jane", &jane, 403),
            ("prometheus", &prometheus, 200),
            ("prometheus by certificate", &signed, 200),
            ("a member of system:masters", &master, 200),
            ("certified elsewhere", &strange, 401),
        ] {
            assert_eq!(until(client, path, code).code, code, "{who}: {path}");
        }
    }
    let told = jane.get("/metrics").expect("it answers").body;
    let told: Value = serde_json::from_str(&told).expect("it is JSON");
    assert_eq!(told["message"], "forbidden: User \"jane\" cannot get path \"/metrics\"");
    let told = anonymous.get("/metrics").expect("it answers").body;
    assert!(told.contains("User \\\"system:anonymous\\\" cannot get"), "{told}");
    // What is not there is not told to those who may not know.
    assert_eq!(until(&jane, "/nothing", 403).code, 403);
    assert_eq!(instance.stop(), Exit::Stopped);
}

#[test]
fn the_paths_that_the_page_about_operations_names_are_served() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `/")?.split('`').next());
    let named: BTreeSet<&str> = rows.filter_map(|path| path.split('?').next()).collect();
    let mut served: BTreeSet<&str> =
        INSIDE.iter().filter_map(|path| path.split('?').next()?.strip_prefix('/')).collect();
    // The tests of the page ask for it.
    served.insert("ui/");
    assert!(3 < named.len() && named.is_subset(&served), "{named:?}");
}

#[test]
fn metrics_tell_what_was_done() {
    let server = cluster();
    fill(&server, (0..4).map(node));
    fill(&server, pods("web", 40).chain([pod("large", 9000), pod("huge", 9001)]));
    let (instance, anonymous) = Instance::serving(&server, |_| ());
    let prometheus = anonymous.with_token("token-of-prometheus");
    until_placed(&server, 40);
    let ask = || rows(&until(&prometheus, "/metrics", 200).body);
    // The last answers to bindings may still be on their way.
    let attempts = |result: &str| {
        format!(
            "scheduler_schedule_attempts_total{{profile=\"default-scheduler\",result=\"{result}\"}}"
        )
    };
    let is_done = |rows: &BTreeMap<String, f64>| {
        rows.get(&attempts("scheduled")) == Some(&40.0)
            && rows.get(&attempts("unschedulable")) >= Some(&2.0)
            && rows.get("scheduler_cache_size{type=\"assumed_pods\"}") == Some(&0.0)
    };
    eventually("all is counted", || is_done(&ask()));
    let told = ask();
    for (row, value) in [
        ("scheduler_pending_pods{queue=\"unschedulable\"}", 2.0),
        ("scheduler_pending_pods{queue=\"active\"}", 0.0),
        ("scheduler_pending_pods{queue=\"backoff\"}", 0.0),
        ("scheduler_pending_pods{queue=\"gated\"}", 0.0),
        ("scheduler_cache_size{type=\"nodes\"}", 4.0),
        ("scheduler_cache_size{type=\"pods\"}", 40.0),
        ("scheduler_pod_scheduling_attempts_count", 40.0),
        ("scheduler_pod_scheduling_attempts_sum", 40.0),
        ("scheduler_pod_scheduling_sli_duration_seconds_count{attempts=\"1\"}", 40.0),
        ("plimsoll_audit_differences_total", 0.0),
    ] {
        assert_eq!(told.get(row), Some(&value), "{row}");
    }
    let took = "scheduler_scheduling_attempt_duration_seconds_count{profile=\"default-scheduler\",\
                result=\"scheduled\"}";
    assert_eq!(told.get(took), Some(&40.0));
    let bound = "rest_client_requests_total{code=\"201\",host=";
    let bound = told.iter().filter(|(row, _)| row.starts_with(bound)).map(|(_, n)| n).sum::<f64>();
    assert!(40.0 <= bound, "each binding is a request: {bound}");
    // Who leads tells what pods ask for.
    let resources = rows(&until(&prometheus, "/metrics/resources", 200).body);
    let asked = resources.iter().filter(|(row, _)| row.contains("resource=\"cpu\""));
    assert_eq!(asked.clone().count(), 42);
    let large = asked.filter(|(row, _)| row.contains("pod=\"large\"")).map(|(_, cores)| *cores);
    assert_eq!(large.collect::<Vec<_>>(), [9.0]);
    assert_eq!(instance.stop(), Exit::Stopped);
}

#[test]
fn a_pending_pod_is_explained_as_its_condition_says() {
    let server = cluster();
    fill(&server, (0..3).map(node));
    fill(&server, [pod("small", 100), pod("large", 9000)]);
    let mut foreign = pod("foreign", 100);
    foreign["spec"]["schedulerName"] = "another".into();
    fill(&server, [foreign]);
    let (instance, anonymous) = Instance::serving(&server, |_| ());
    let prometheus = anonymous.with_token("token-of-prometheus");
    let condition = || {
        let large = server.store().get("pods", "default", "large")?;
        let conditions = large["status"]["conditions"].as_array()?.clone();
        conditions.into_iter().find(|one| one["type"] == "PodScheduled")
    };
    eventually("the condition is set", || condition().is_some());
    let message = condition().expect("it was just there")["message"].clone();
    let answer = prometheus.get("/explain?pod=default/large").expect("it answers");
    assert_eq!(answer.code, 200, "{}", answer.body);
    let record: Value = serde_json::from_str(&answer.body).expect("it is JSON");
    assert_eq!(record["pod"], "default/large");
    assert_eq!(record["result"], "unschedulable");
    assert_eq!(record["message"], message);
    let nodes = record["nodes"].as_array().expect("it tells of each node");
    assert_eq!(nodes.len(), 3);
    assert!(nodes.iter().all(|node| node["filter"]["plugin"] == "NodeResourcesFit"), "{nodes:?}");
    until_placed(&server, 1);
    for (path, code, told) in [
        ("/explain?pod=default/none", 404, "pod default/none is not known"),
        ("/explain?pod=default/foreign", 404, "another scheduler is to place it"),
        ("/explain?pod=default/small", 404, "pod default/small is not pending"),
        ("/explain?pod=large", 400, "ask for one pending pod: /explain?pod=NAMESPACE/NAME"),
        ("/explain?pod=a/b/c", 400, "pod \"a/b/c\" is no NAMESPACE/NAME"),
        ("/explain?pod=%ff/%00", 404, "is not known"),
        ("/explain?nod=a/b", 400, "unknown parameter \"nod\""),
        ("/explain", 400, "/explain?pod=NAMESPACE/NAME"),
    ] {
        let answer = until(&prometheus, path, code);
        assert!(answer.body.contains(told), "{path}: {}", answer.body);
    }
    assert_eq!(instance.stop(), Exit::Stopped);
}

#[test]
fn requests_that_make_no_sense_are_answered_and_hurt_nobody() {
    let server = cluster();
    fill(&server, [node(0)]);
    let (instance, anonymous) = Instance::serving(&server, |_| ());
    let operator = anonymous.with_token("token-of-operator");
    until(&anonymous, "/readyz", 200);
    let send = |method: &str, path: &str, body: &str| {
        operator.send(method, path, body).unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    };
    for (method, path, code) in [
        ("POST", "/explain?pod=a/b", 405),
        ("DELETE", "/debug/cache", 405),
        ("POST", "/statusz", 200),
        ("POST", "/healthz", 200),
        ("BREW", "/configz", 200),
        ("GET", "/nothing", 404),
        ("GET", "/debug/pprof/profile", 404),
        ("GET", "/metrics/", 404),
        ("GET", "//metrics", 404),
        ("GET", "/debug/flags/v", 406),
        ("PUT", "/debug/flags/v", 200),
    ] {
        assert_eq!(send(method, path, "").code, code, "{method} {path}");
    }
    // HEAD has the head of GET, and no body.
    for path in ["/healthz", "/metrics", "/configz", "/explain", "/nothing"] {
        let (get, head) = (send("GET", path, ""), send("HEAD", path, ""));
        assert_eq!((head.code, head.body.as_str()), (get.code, ""), "{path}");
    }
    // A body that nobody asked for is let be, if it is small, and is too much if it is not.
    assert_eq!(send("GET", "/configz", "hello").code, 200);
    assert_eq!(send("POST", "/metrics", &"x".repeat(100_000)).code, 413);
    let long = operator.with_header(&format!("X-Long: {}", "x".repeat(600_000)));
    assert_eq!(long.get("/configz").expect("it answers").code, 431);
    for nonsense in ["GET\r\n\r\n", "\0\0\0\0\r\n\r\n", "GET /healthz HTTP/9.9\r\n\r\n"] {
        let answer = anonymous.say(nonsense).expect("it answers");
        assert_eq!(answer.code, 400, "{nonsense:?}");
    }
    assert_eq!(until(&anonymous, "/livez", 200).body, "ok");
    assert_eq!(instance.stop(), Exit::Stopped);
}

#[test]
fn many_who_ask_and_some_who_are_slow_keep_nobody_from_work() {
    let server = cluster();
    fill(&server, (0..10).map(node));
    let (instance, anonymous) = Instance::serving(&server, |_| ());
    let prometheus = anonymous.with_token("token-of-prometheus");
    until(&anonymous, "/readyz", 200);
    // They never come to the end of their request.
    let slow: Vec<_> = (0..20)
        .map(|_| {
            let mut talk = anonymous.connect().expect("it takes connections");
            talk.write_all(b"GET /metrics HTTP/1.1\r\nHo").expect("it takes it");
            talk
        })
        .collect();
    let clients: Vec<_> = (0..16)
        .map(|number| {
            let client = prometheus.clone();
            std::thread::spawn(move || {
                let path = INSIDE[number % INSIDE.len()];
                (0..25).map(|_| client.get(path).expect("it answers").code).collect::<Vec<_>>()
            })
        })
        .collect();
    fill(&server, pods("web", 150));
    until_placed(&server, 150);
    for client in clients {
        for code in client.join().expect("it does not panic") {
            // Too many at once are told to wait; the pod of /explain is not there.
            assert!([200, 404, 429].contains(&code), "{code}");
        }
    }
    assert_eq!(until(&anonymous, "/healthz", 200).body, "ok");
    // Who is slow does not keep it from ending, and hears that it has.
    assert_eq!(instance.stop(), Exit::Stopped);
    for mut talk in slow {
        let mut rest = Vec::new();
        let _ = talk.read_to_end(&mut rest);
        assert!(!rest.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&rest));
    }
}

/// An instance that serves and takes part in the election.
fn candidate(
    server: &TestServer,
    identity: &str,
    change: impl FnOnce(&mut RunConfig),
) -> (Instance, HttpsClient) {
    let (instance, anonymous) = Instance::serving(server, |config| {
        config.election = Some(election(identity, LeaseClock::default()));
        change(config);
    });
    (instance, anonymous.with_token("token-of-prometheus"))
}

/// Whether it says that it leads.
fn leads(client: &HttpsClient) -> bool {
    let rows = rows(&until(client, "/metrics", 200).body);
    0.5 < rows["leader_election_master_status{name=\"kube-scheduler\"}"]
}

#[test]
fn a_standby_is_ready_and_leaves_it_to_the_leader_to_tell_of_pods() {
    let server = cluster();
    fill(&server, [node(0), pod("web", 100)]);
    let (leader, first) = candidate(&server, "first", |_| ());
    until_placed(&server, 1);
    let (standby, second) = candidate(&server, "second", |_| ());
    until(&second, "/readyz", 200);
    assert!(leads(&first) && !leads(&second), "exactly one leads");
    assert!(first.get("/metrics/resources").expect("it answers").body.contains("pod=\"web\""));
    assert_eq!(second.get("/metrics/resources").expect("it answers").body, "");
    assert_eq!(leader.stop(), Exit::Stopped);
    eventually("the other leads", || leads(&second));
    assert!(second.get("/metrics/resources").expect("it answers").body.contains("pod=\"web\""));
    assert_eq!(standby.stop(), Exit::Stopped);
}

#[test]
fn a_standby_that_watches_nothing_yet_answers_all_the_same() {
    let server = cluster();
    fill(&server, [node(0), pod("web", 100)]);
    let (leader, _) = candidate(&server, "first", |_| ());
    until_placed(&server, 1);
    let (standby, second) =
        candidate(&server, "second", |config| config.delay_cache_until_active = true);
    assert!(!leads(&second));
    for (path, code) in
        [("/debug/cache", 200), ("/explain?pod=default/web", 404), ("/healthz", 200)]
    {
        assert_eq!(until(&second, path, code).code, code, "{path}");
    }
    // As kube-scheduler it is ready only once it knows the cluster.
    assert_eq!(until(&second, "/readyz", 500).code, 500);
    assert_eq!(leader.stop(), Exit::Stopped);
    until(&second, "/readyz", 200);
    assert_eq!(standby.stop(), Exit::Stopped);
}
