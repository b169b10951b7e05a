//! `kubectl plimsoll` against a running instance, which it finds and reaches through the API server.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use plimsoll_document::Document;
use plimsoll_kube::identity::hostname;
use plimsoll_testserver::{Options, Right, TestServer, User};
use serde_json::{Value, json};

use crate::pages::text;
use crate::run::run;

/// Far longer than anything takes, even on a busy machine.
const PATIENCE: Duration = Duration::from_mins(4);

/// The rights of `deploy/questions.yaml`, and to see all pods and their groups.
fn rights() -> Vec<Right> {
    let manifests = text("deploy/questions.yaml");
    let manifests = Document::parse_all("questions.yaml", &manifests).expect("it is YAML");
    let owned = |list: &Value| -> Vec<String> {
        let texts = list.as_array().into_iter().flatten().filter_map(Value::as_str);
        texts.map(str::to_owned).collect()
    };
    let mut rights = vec![
        Right::on("", &["pods"], &["get", "list"]),
        Right::on("scheduling.k8s.io", &["podgroups"], &["get"]),
    ];
    for manifest in manifests {
        let namespace = manifest.value["metadata"]["namespace"].as_str();
        for rule in manifest.value["rules"].as_array().into_iter().flatten() {
            rights.push(Right {
                verbs: owned(&rule["verbs"]),
                groups: owned(&rule["apiGroups"]),
                resources: owned(&rule["resources"]),
                paths: owned(&rule["nonResourceURLs"]),
                namespaces: namespace.map(str::to_owned).into_iter().collect(),
            });
        }
    }
    rights
}

fn user(name: &str, rights: Vec<Right>) -> User {
    User { token: format!("token-of-{name}"), name: name.to_owned(), groups: Vec::new(), rights }
}

/// Without what one of them has of this resource or path.
fn without(what: &str) -> Vec<Right> {
    let mut rights = rights();
    for right in &mut rights {
        right.resources.retain(|resource| resource != what);
        right.paths.retain(|path| path != what);
    }
    rights
}

fn pod(namespace: &str, name: &str, cpu: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": namespace, "name": name},
        "spec": {"priority": 0, "containers": [
            {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}},
        ]},
    })
}

/// A pod of the scheduler, as `deploy/beside.yaml` makes it.
fn scheduler_pod(name: &str, node: &str, port: u16) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "kube-system", "name": name, "labels": {"app": "plimsoll"}},
        "spec": {"nodeName": node, "hostNetwork": true, "containers": [
            {"name": "plimsoll", "image": "i", "ports": [{"name": "https", "containerPort": port}]},
        ]},
        "status": {"phase": "Running", "podIP": "127.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

/// A cluster with a scheduler, and the plugin in a directory of its own.
struct Scene {
    server: TestServer,
    process: Child,
    files: tempfile::TempDir,
}

impl Scene {
    fn start(users: Vec<User>) -> Self {
        let options = Options { users, authenticate: true, ..Options::default() };
        let server = TestServer::start(options);
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"},
            "status": {"allocatable": {"cpu": "2", "memory": "8Gi", "pods": "10"}},
        });
        let mut placed = pod("pay", "card-1", "1500m");
        placed["metadata"]["ownerReferences"] = json!([
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "card", "uid": "c", "controller": true},
        ]);
        placed["spec"]["nodeName"] = json!("n1");
        placed["status"] = json!({"phase": "Running"});
        let objects = [node, placed, pod("shop", "large", "1")];
        server.store().apply_all(objects).expect("they are valid");
        let files = tempfile::tempdir().expect("there is room");
        symlink(env!("CARGO_BIN_EXE_plimsoll"), files.path().join("kubectl-plimsoll"))
            .expect("it can be linked");
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("there is a free port");
        let port = free.local_addr().expect("it is bound").port();
        drop(free);
        let process = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
            .args(["run", "--bind-address=127.0.0.1", "--leader-elect-resource-name=plimsoll"])
            .arg(format!("--secure-port={port}"))
            .arg("--kubeconfig")
            .arg(server.kubeconfig_file().expect("there is room for a file"))
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary starts");
        // Nothing listens where the other pod says that it does.
        let pods = [
            scheduler_pod("plimsoll-a", "elsewhere", 1),
            scheduler_pod("plimsoll-b", &hostname(), port),
        ];
        server.store().apply_all(pods).expect("they are valid");
        Scene { server, process, files }
    }

    /// Writes a kubeconfig for a user with a token.
    fn kubeconfig(&self, user: &str) -> PathBuf {
        self.write(user, &self.server.kubeconfig_of(&format!("token-of-{user}")))
    }

    fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.files.path().join(name);
        std::fs::write(&path, content).expect("there is room");
        path
    }

    /// Runs the plugin as kubectl does.
    fn ask(&self, kubeconfig: &Path, line: &str) -> Output {
        Command::new(self.files.path().join("kubectl-plimsoll"))
            .args(line.split_whitespace())
            .current_dir(self.files.path())
            .env("KUBECONFIG", kubeconfig)
            .env_remove("CLICOLOR_FORCE")
            .output()
            .expect("it runs")
    }

    /// The answer, once the instance leads and has tried the pod.
    #[track_caller]
    fn answer(&self, kubeconfig: &Path, line: &str) -> String {
        let begun = Instant::now();
        loop {
            let Output { status, stdout, stderr } = self.ask(kubeconfig, line);
            if status.success() {
                return String::from_utf8(stdout).expect("it is text");
            }
            let said = String::from_utf8_lossy(&stderr);
            assert!(begun.elapsed() < PATIENCE, "in vain: {line}: {said}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The error.
    #[track_caller]
    fn refusal(&self, kubeconfig: &Path, line: &str) -> String {
        let Output { status, stdout, stderr } = self.ask(kubeconfig, line);
        assert_eq!((status.code(), stdout.is_empty()), (Some(1), true), "{line}");
        String::from_utf8(stderr).expect("it is text").trim_end().to_owned()
    }

    /// Waits until the pod was tried.
    fn ready(&self, kubeconfig: &Path) {
        let begun = Instant::now();
        loop {
            let told = self.answer(kubeconfig, "why shop/large -o json");
            let told: Value = serde_json::from_str(&told).expect("it is JSON");
            if told["waiting"]["attempts"] == 1 {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "in vain: the pod is tried: {told}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The cluster as a file.
    fn cluster(&self) -> String {
        let list = |kind: &str| self.server.store().list(kind);
        let items: Vec<Value> = list("pods").into_iter().chain(list("nodes")).collect();
        json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A text without what an instance knows of a pod that was tried, and files do not.
fn timeless(text: &str) -> String {
    let Some((before, rest)) = text.split_once("\nIt was tried once, and has waited again since 2")
    else {
        return text.to_owned();
    };
    let (_, rest) = rest
        .split_once(".\n\nWithout a change that may help, it is tried again at 2")
        .expect("it says when");
    let (_, events) = rest.split_once(". ").expect("events may help");
    format!("{before}\nAs long as nothing changes, it is not tried again. {events}")
}

/// A configuration under which nodes are never full.
const WITHOUT_FIT: &str = "\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {multiPoint: {disabled: [{name: NodeResourcesFit}]}}}]
";

#[test]
fn the_answers_are_those_on_files() {
    let scene = Scene::start(vec![user("sre", rights())]);
    let sre = scene.kubeconfig("sre");
    scene.ready(&sre);
    let worker = pod("shop", "worker", "200m").to_string();
    scene.write("worker.json", &worker);
    scene.write("free.yaml", WITHOUT_FIT);
    let cluster = scene.cluster();
    let files = [
        ("all.json", cluster.as_str()),
        ("worker.json", worker.as_str()),
        ("free.yaml", WITHOUT_FIT),
    ];
    for (asked, on_files) in [
        ("why shop/large", "why -f all.json shop/large"),
        ("why -n shop large --remedies 1", "why -f all.json shop/large --remedies 1"),
        ("why pay/card-1", "why -f all.json pay/card-1"),
        ("explain shop/large", "explain -f all.json --pod shop/large"),
        ("what-if --add-nodes 1 --like n1", "what-if -f all.json --add-nodes 1 --like n1"),
        ("what-if --apply worker.json", "what-if -f all.json --apply worker.json"),
        ("what-if --with-config free.yaml", "what-if -f all.json --with-config free.yaml"),
        (
            "what-if --cordon n1 --with-config free.yaml",
            "what-if -f all.json --cordon n1 --with-config free.yaml",
        ),
        ("capacity --pod-file worker.json", "capacity -f all.json --pod-file worker.json"),
        (
            "capacity --pod-file worker.json --after-pending",
            "capacity -f all.json --pod-file worker.json --after-pending",
        ),
        ("capacity --all-shapes", "capacity -f all.json --all-shapes"),
        ("capacity --all-shapes -n pay --limit 0", "capacity -f all.json --all-shapes --limit 0"),
        (
            "rebalance --free-nodes --max-moves 3",
            "rebalance -f all.json --free-nodes --max-moves 3",
        ),
    ] {
        let expected = run(&files, on_files);
        assert_eq!(expected.status, 0, "{on_files}: {}", expected.err);
        assert_eq!(timeless(&scene.answer(&sre, asked)), expected.out, "{asked}");
    }
    let told: Value = serde_json::from_str(&scene.answer(&sre, "why shop/large -o json"))
        .expect("it is one document");
    let on_files = run(&files, "why -f all.json shop/large -o json");
    let on_files: Value = serde_json::from_str(&on_files.out).expect("it is one document");
    for key in ["remedies", "nearest", "record"] {
        assert_eq!(told[key], on_files[key], "{key}");
    }
    let of_shop = scene.answer(&sre, "capacity --all-shapes -n shop");
    assert_eq!(
        of_shop,
        "Nothing can be counted: no pod here has both a controller (other than a DaemonSet) and a profile.\n"
    );
    let told_text = scene.answer(&sre, "why shop/large");
    assert_ne!(timeless(&told_text), told_text, "it says since when the pod waits");
    assert!(told["asOf"].is_string() && told["text"].is_null(), "{told}");
    let fails = scene.ask(&sre, "what-if --lose n1 --fail-if-pending");
    assert_eq!(fails.status.code(), Some(3), "{}", String::from_utf8_lossy(&fails.stderr));
}

#[test]
fn a_snapshot_of_the_instance_has_its_queue_and_decides_as_it_does() {
    let reads = Right::on("*", &["*"], &["get", "list", "watch"]);
    let mut all = rights();
    all.extend([reads, Right::on_paths(&["*"], &["get"])]);
    let scene = Scene::start(vec![user("sre", all), user("few", rights_without_all_pods())]);
    let sre = scene.kubeconfig("sre");
    scene.ready(&sre);
    let snapshot = |user: &Path, flags: &str| {
        run(&[], &format!("snapshot --instance --kubeconfig {} -o - {flags}", user.display()))
    };
    let answer = snapshot(&sre, "");
    assert_eq!(answer.status, 0, "{}", answer.err);
    assert!(answer.err.contains("note: the instance had this picture at "), "{}", answer.err);
    let list: Value = serde_json::from_str(&answer.out).expect("it is JSON");
    let find = |list: &Value, name: &str| {
        let mut items = list["items"].as_array().expect("it is a list").iter();
        let found = items.find(|item| item["metadata"]["name"] == name);
        found.expect("it is there").clone()
    };
    let large = find(&list, "large");
    let place = large["metadata"]["annotations"]["plimsoll.io/queue"].as_str();
    let place = place.expect("it waits");
    assert!(place.starts_with("unschedulable since "), "{place}");
    assert!(place.ends_with("1 attempt, rejected by NodeResourcesFit"), "{place}");
    assert_eq!(find(&list, "card-1")["spec"]["nodeName"], "n1");
    let on_file = run(&[("all.json", &answer.out)], "why -f all.json shop/large");
    assert_eq!(timeless(&scene.answer(&sre, "why shop/large")), on_file.out);

    let hashed = snapshot(&sre, "--hash-names");
    assert_eq!(hashed.status, 0, "{}", hashed.err);
    assert!(hashed.out.contains("rejected by NodeResourcesFit"), "{}", hashed.out);
    assert!(!hashed.out.contains("card-1") && !hashed.out.contains("\"n1\""), "{}", hashed.out);

    let refused = snapshot(&scene.kubeconfig("few"), "");
    assert_eq!((refused.status, refused.out.as_str()), (1, ""));
}

/// The rights of `deploy/questions.yaml`, and to see the pods of one namespace.
fn rights_without_all_pods() -> Vec<Right> {
    let mut rights = rights();
    rights[0].namespaces = vec!["shop".to_owned()];
    rights
}

#[test]
fn a_user_with_a_certificate_is_known_to_the_instance() {
    let scene = Scene::start(vec![user("carol", rights())]);
    let certificate = scene.server.client_certificate("carol", &[]).expect("it can be made");
    scene.write("carol.crt", &certificate.certificate);
    scene.write("carol.key", &certificate.key);
    let kubeconfig = scene.server.kubeconfig_of("none").replace(
        "    token: \"none\"\n",
        "    client-certificate: carol.crt\n    client-key: carol.key\n",
    );
    let carol = scene.write("carol", &kubeconfig);
    let told = scene.answer(&carol, "why shop/large");
    assert!(told.starts_with("shop/large fits 0 of 1 node."), "{told}");
}

#[test]
fn what_is_missing_is_named() {
    let users = vec![
        user("sre", rights()),
        user("no-list", without("pods")),
        user("no-forward", without("pods/portforward")),
        user("no-path", without("/api/v1/*")),
    ];
    let scene = Scene::start(users);
    let gangs = "{multiPoint: {enabled: [{name: Coscheduling}]}, \
                 queueSort: {enabled: [{name: Coscheduling}], disabled: [{name: '*'}]}}";
    let wrong = "{filter: {enabled: [{name: Nothing}]}}";
    for (file, plugins) in [("wrong.yaml", wrong), ("gangs.yaml", gangs)] {
        let header = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration";
        scene.write(file, &format!("{header}\nprofiles: [{{plugins: {plugins}}}]\n"));
    }
    let sre = scene.kubeconfig("sre");
    scene.ready(&sre);
    let role = "deploy/questions.yaml has a role with what is needed";
    assert_eq!(
        scene.refusal(&scene.kubeconfig("no-list"), "why shop/large"),
        format!(
            "error: cannot list the pods of the scheduler in namespace kube-system: pods is forbidden: User \"no-list\" cannot \
             list resource \"pods\" in API group \"\" in the namespace \"kube-system\"; {role}"
        )
    );
    assert_eq!(
        scene.refusal(&scene.kubeconfig("no-path"), "why shop/large"),
        "error: forbidden: User \"no-path\" cannot get path \"/api/v1/why\"; deploy/questions.yaml has a role that allows it"
    );
    let refusal = scene.refusal(&scene.kubeconfig("no-forward"), "why shop/large");
    let forwarding = "pods \"plimsoll-b\" is forbidden: User \"no-forward\" cannot get resource \"pods/portforward\"";
    assert!(refusal.contains(forwarding) && refusal.ends_with(role), "{refusal}");
    let stranger = scene.kubeconfig("nobody");
    assert!(scene.refusal(&stranger, "why shop/large").contains("401"), "of the API server");
    for (line, why) in [
        (
            "why shop/larg",
            "error: pods \"larg\" not found: looked for pod shop/larg; name its namespace with -n",
        ),
        (
            "why large",
            "error: pods \"large\" not found: looked for pod default/large; name its namespace with -n",
        ),
        (
            "why --group shop/train",
            "error: groups of pods are off: this instance runs without the feature gate GenericWorkload",
        ),
        (
            "capacity --group train -n shop",
            "error: groups of pods are off: this instance runs without the feature gate GenericWorkload",
        ),
        ("what-if --drain n7", "error: actions[0]: no node is named n7; there is n1"),
        ("what-if --with-config wrong.yaml", "error: wrong.yaml:3: profiles[0].plugins.filter…"),
        (
            "what-if --with-config gangs.yaml",
            "error: gangs.yaml: its plugins read kinds of objects that this instance does not watch: …",
        ),
        (
            "why shop/large --scheduler-selector app=other",
            "error: no instance runs: of the pods in namespace kube-system with the labels \"app=other\", there is none; name \
             the place with --scheduler-namespace, --scheduler-selector, --service or --scheduler-pod",
        ),
        (
            "why shop/large --scheduler-pod plimsoll-a",
            // The connection may end before the node has said why.
            "error: cannot reach port 1 of pod kube-system/plimsoll-a: …",
        ),
        (
            "why shop/large --as joe",
            "error: cannot act as joe: the scheduler checks the credentials themselves, and only the API server can act as \
             another user; give a token of the other user (--token=\"$(kubectl create token NAME)\" for a service account)",
        ),
        (
            "why shop/large --context other",
            "error: kubeconfig KUBECONFIG: current-context: there is no context \"other\"; it has test; choose one that exists \
             (kubectl --kubeconfig FILE config use-context NAME)",
        ),
        (
            "why shop/large --service plimsoll",
            "error: cannot read service kube-system/plimsoll: 404 NotFound: services \"plimsoll\" not found",
        ),
    ] {
        let refusal = scene.refusal(&sre, line).replace(&sre.display().to_string(), "KUBECONFIG");
        match why.strip_suffix('…') {
            Some(beginning) => assert!(refusal.starts_with(beginning), "{line}: {refusal}"),
            None => assert_eq!(refusal, why, "{line}"),
        }
    }
    let told = scene.answer(&stranger, "why -n shop large --token token-of-sre -o json");
    assert!(told.contains("\"state\":\"unschedulable\""), "{told}");
}
