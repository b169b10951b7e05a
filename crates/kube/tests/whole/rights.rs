//! The rights of `deploy/rbac.yaml`: enough for all that an instance asks for, and no more than kube-scheduler has.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use plimsoll_document::{Document, FieldPath};
use plimsoll_kube::lease::{LeaseClock, Settings};
use plimsoll_kube::run::{Exit, SelfAudit};
use plimsoll_testserver::{
    FaultKind, InjectedFault, Options as ServerOptions, Request, TestServer,
};
use serde_json::{Value, json};

use crate::devices;
use crate::lab::{Instance, election, eventually, fill, node, placed, pod, pods};

/// Who an instance is in its pod.
const GROUPS: [&str; 3] =
    ["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"];

/// The rights of a cluster.
struct Rights(Vec<Value>);

impl Rights {
    /// Those that an API server of a release grants by itself, and those of the manifest.
    fn of(release: &str) -> Self {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let granted = here.join(format!("tests/whole/roles/{release}.yaml"));
        let mut objects = read(&granted);
        objects.extend(read(&here.join("../../deploy/rbac.yaml")));
        Rights(objects)
    }

    fn of_kind(&self, kind: &str) -> impl Iterator<Item = &Value> {
        self.0.iter().filter(move |object| object["kind"] == kind)
    }

    /// Whether the service account may do it.
    fn allow(&self, request: &Request) -> bool {
        self.of_kind("ClusterRoleBinding").chain(self.of_kind("RoleBinding")).any(|binding| {
            let scope = text(&binding["metadata"]["namespace"]);
            let is_ours = list(&binding["subjects"]).any(|subject| match text(&subject["kind"]) {
                "ServiceAccount" => {
                    (text(&subject["name"]), text(&subject["namespace"]))
                        == ("plimsoll", "kube-system")
                }
                "Group" => GROUPS.contains(&text(&subject["name"])),
                _ => false,
            });
            let role = self.role(&binding["roleRef"], scope);
            is_ours
                && (scope.is_empty() || scope == request.namespace)
                && list(&role["rules"]).any(|rule| allows(rule, request))
        })
    }

    /// The role that a binding names. There must be one: a name that is misspelt grants nothing.
    fn role(&self, named: &Value, scope: &str) -> &Value {
        let kind = text(&named["kind"]);
        let namespace = if kind == "Role" { scope } else { "" };
        let is_it = |role: &&Value| {
            role["metadata"]["name"] == named["name"]
                && text(&role["metadata"]["namespace"]) == namespace
        };
        let role = self.of_kind(kind).find(is_it);
        role.unwrap_or_else(|| panic!("there is no {kind} {}", named["name"]))
    }
}

fn read(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).expect("it is in the repository");
    let documents = Document::parse_all(&file.display().to_string(), &text);
    let whole = |document: Document| document.get(&FieldPath::default()).cloned();
    documents.expect("it is YAML").into_iter().filter_map(whole).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// As in rbac's evaluation_helpers.go, RuleAllows.
fn allows(rule: &Value, request: &Request) -> bool {
    let has = |field: &str, wanted: &str| {
        list(&rule[field]).any(|one| [wanted, "*"].contains(&text(one)))
    };
    let is_path = |rule: &str| match rule.strip_suffix('*') {
        Some(prefix) => request.path.starts_with(prefix),
        None => rule == request.path,
    };
    has("verbs", &request.verb)
        && if request.path.is_empty() {
            has("apiGroups", &request.group)
                && has("resources", &request.resource)
                && (list(&rule["resourceNames"]).next().is_none()
                    || list(&rule["resourceNames"]).any(|name| text(name) == request.name))
        } else {
            list(&rule["nonResourceURLs"]).any(|rule| is_path(text(rule)))
        }
}

/// One pod claims a device, and another one requests an extended resource for which a class stands.
fn claim_devices(server: &TestServer) {
    let mut class = devices::class();
    class["spec"]["extendedResourceName"] = json!("example.com/gpu");
    fill(server, [class, devices::template("one")]);
    fill(server, devices::node_with_devices(2, 2));
    fill(server, [devices::from_template(pod("claiming", 100), "one")]);
    devices::make_claims(server);
    let mut extended = pod("extended", 100);
    let resources = &mut extended["spec"]["containers"][0]["resources"];
    resources["requests"]["example.com/gpu"] = json!("1");
    fill(server, [extended]);
}

/// All that an instance asks an API server for that makes it do everything it can.
fn asked(release: u32, lease: &str) -> Vec<Request> {
    let options = ServerOptions { release, remember_requests: true, ..ServerOptions::default() };
    let server = TestServer::start(options);
    fill(&server, (0..2).map(node));
    // It finds out what became of a binding that was not answered.
    server.faults().add(
        InjectedFault::every(1, FaultKind::Hangup).after().resources(&["pods/binding"]).times(1),
    );
    fill(
        &server,
        [json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "late"},
            "provisioner": "disks", "volumeBindingMode": "WaitForFirstConsumer",
        })],
    );
    for claim in ["made", "found"] {
        fill(
            &server,
            [json!({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "metadata": {"name": claim, "namespace": "default"},
                "spec": {
                    "storageClassName": "late", "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": if claim == "made" { "9Gi" } else { "1Gi" }}},
                },
                "status": {"phase": "Pending"},
            })],
        );
        let mut with_volume = pod(claim, 100);
        with_volume["spec"]["volumes"] =
            json!([{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]);
        fill(&server, [with_volume]);
    }
    fill(
        &server,
        [json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "disk"},
            "spec": {
                "storageClassName": "late", "accessModes": ["ReadWriteOnce"],
                "capacity": {"storage": "1Gi"}, "csi": {"driver": "disks", "volumeHandle": "1"},
            },
            "status": {"phase": "Available"},
        })],
    );
    fill(&server, pods("web", 10));
    if 34 <= release {
        claim_devices(&server);
    }
    let (instance, client) = Instance::serving(&server, |config| {
        config.grace = Duration::from_secs(1);
        // It compares what it knows with the API server, too.
        config.self_audit =
            SelfAudit { period: Duration::from_millis(100), ..SelfAudit::default() };
        let settings = election("first", LeaseClock::default());
        config.election = Some(Settings { name: lease.to_owned(), ..settings });
    });
    let client = client.with_token("token");
    let n_pods = if 34 <= release { 12 } else { 10 };
    eventually("pods are bound", || n_pods <= placed(&server).len());
    // Larger than what is left of any node, and more important than what is there.
    let mut urgent = pod("urgent", 3900);
    urgent["spec"]["priority"] = json!(1000);
    fill(&server, [urgent, pod("large", 9000)]);
    eventually("room is made", || placed(&server).contains_key("urgent"));
    assert_eq!(client.get("/metrics").expect("it answers").code, 401);
    let certified = server.client_certificate("jane", &[]).expect("the cluster has TLS");
    let jane = client.with_certificate(&certified).expect("the certificate is right");
    assert_eq!(jane.get("/metrics").expect("it answers").code, 403);
    let counts = server.counts();
    for (verb, resource) in [
        ("patch", "persistentvolumes"),
        ("patch", "persistentvolumeclaims"),
        ("patch", "pods/status"),
        ("create", "events"),
        ("update", "leases"),
    ] {
        eventually(&format!("{verb} {resource}"), || 0 < counts.requests(verb, resource));
    }
    assert_eq!(instance.stop(), Exit::Stopped);
    counts.different_requests()
}

#[track_caller]
fn check(release: u32, lease: &str) -> BTreeSet<(String, String)> {
    let rights = Rights::of(&format!("1.{release}"));
    let asked = asked(release, lease);
    let forbidden: Vec<_> = asked.iter().filter(|request| !rights.allow(request)).collect();
    assert!(forbidden.is_empty(), "{forbidden:#?}");
    let said: BTreeSet<_> =
        asked.iter().map(|one| (one.verb.clone(), one.resource.clone())).collect();
    for something in [
        ("watch", "pods"),
        ("get", "pods"),
        ("delete", "pods"),
        ("create", "pods/binding"),
        ("create", "leases"),
        ("get", "configmaps"),
        ("create", "tokenreviews"),
        ("create", "subjectaccessreviews"),
    ] {
        expect(&said, something);
    }
    assert!(asked.iter().any(|one| !one.path.is_empty()), "it looks for what there is");
    said
}

#[track_caller]
fn expect(said: &BTreeSet<(String, String)>, (verb, resource): (&str, &str)) {
    let is_there = said.contains(&(verb.to_owned(), resource.to_owned()));
    assert!(is_there, "it did not happen: {verb} {resource} of {said:?}");
}

#[test]
fn a_second_scheduler_may_do_all_it_does() {
    let said = check(36, "plimsoll");
    // Claims are written, too.
    for something in [
        ("create", "resourceclaims"),
        ("patch", "resourceclaims"),
        ("patch", "resourceclaims/status"),
        ("patch", "resourceclaims/binding"),
        ("watch", "resourceslices"),
        ("watch", "deviceclasses"),
    ] {
        expect(&said, something);
    }
}

#[test]
fn one_in_place_of_kube_scheduler_may_do_all_it_does() {
    check(36, "kube-scheduler");
}

#[test]
fn on_the_oldest_release_it_may_do_all_it_does() {
    check(20, "plimsoll");
}

#[test]
fn what_nobody_needs_is_not_allowed() {
    let rights = Rights::of("1.36");
    let request = |verb: &str, resource: &str, name: &str| Request {
        verb: verb.to_owned(),
        resource: resource.to_owned(),
        namespace: "kube-system".to_owned(),
        name: name.to_owned(),
        ..Request::default()
    };
    for forbidden in [
        request("get", "secrets", "s"),
        request("create", "pods", ""),
        request("patch", "nodes", "n"),
        request("get", "configmaps", "another"),
        request("list", "configmaps", ""),
        Request {
            group: "coordination.k8s.io".to_owned(),
            ..request("update", "leases", "kube-controller-manager")
        },
        Request { path: "/metrics".to_owned(), ..request("get", "", "") },
    ] {
        assert!(!rights.allow(&forbidden), "{forbidden:?}");
    }
}

#[test]
fn its_roles_have_nothing_that_kube_scheduler_has_not() {
    let rights = Rights::of("1.36");
    let upstream = |name: &str| {
        let named = json!({"kind": "ClusterRole", "name": name});
        list(&rights.role(&named, "")["rules"]).cloned().collect::<Vec<_>>()
    };
    let upstream: Vec<_> = ["system:kube-scheduler", "system:volume-scheduler"]
        .into_iter()
        .flat_map(upstream)
        .collect();
    let own = rights.of_kind("ClusterRole").chain(rights.of_kind("Role"));
    let own = own.filter(|role| text(&role["metadata"]["name"]).starts_with("plimsoll"));
    let mut n_rules = 0;
    for rule in own.flat_map(|role| list(&role["rules"])) {
        n_rules += 1;
        for (group, resource, verb) in list(&rule["apiGroups"]).flat_map(|group| {
            list(&rule["resources"]).flat_map(move |resource| {
                list(&rule["verbs"]).map(move |verb| (text(group), text(resource), text(verb)))
            })
        }) {
            let request = Request {
                verb: verb.to_owned(),
                group: group.to_owned(),
                resource: resource.to_owned(),
                // The lease has another name, and nothing else differs.
                name: "kube-scheduler".to_owned(),
                ..Request::default()
            };
            let has = upstream.iter().any(|rule| allows(rule, &request));
            assert!(has, "kube-scheduler may not {verb} {resource} in {group:?}");
        }
        if list(&rule["resources"]).any(|resource| resource == "leases") {
            assert_eq!(rule["resourceNames"], json!(["plimsoll"]));
        }
    }
    assert!(1 < n_rules, "the manifest has roles of its own");
}
