//! `plimsoll run` as a process: killed at any moment, stopped by a signal, and with wrong command lines.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use plimsoll_document::{Document, FieldPath};
use plimsoll_testserver::{
    FaultKind, HttpsClient, InjectedFault, Options, Right, TestServer, User,
};
use serde_json::{Value, json};

use crate::process::{eventually, free_port};

fn node(number: usize) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": format!("node-{number:03}")},
        "status": {"allocatable": {"cpu": "4", "memory": "16Gi", "pods": "20"}},
    })
}

fn pod(number: usize) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": format!("web-{number:04}"), "namespace": "default"},
        "spec": {"containers": [{
            "name": "c", "image": "i", "resources": {"requests": {"cpu": "200m"}},
        }]},
    })
}

fn n_bound(server: &TestServer) -> usize {
    let pods = server.store().list("pods");
    pods.iter().filter(|pod| pod["spec"]["nodeName"].is_string()).count()
}

struct Process(Child);

impl Process {
    fn start(kubeconfig: &Path) -> Self {
        Self::start_with(kubeconfig, &[])
    }

    fn start_with(kubeconfig: &Path, more: &[&str]) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
            .args(["run", "--secure-port=0", "--leader-elect=false", "--kube-api-qps=2000"])
            .args(["--kube-api-burst=2000", "--kubeconfig"])
            .arg(kubeconfig)
            .args(more)
            .stderr(Stdio::null())
            .spawn();
        Process(child.expect("the binary starts"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn after_kills_at_any_moment_every_pod_is_bound_exactly_once() {
    let server = TestServer::start(Options::default());
    let kubeconfig = server.kubeconfig_file().expect("there is room for a file");
    server.store().apply_all((0..40).map(node)).expect("they are valid");
    server.store().apply_all((0..600).map(pod)).expect("they are valid");
    // Slow enough to be killed in the middle.
    let slow = InjectedFault::every(1, FaultKind::Slow(Duration::from_millis(40)));
    server.faults().add(slow.resources(&["pods/binding"]));
    for round in 1..=4 {
        let process = Process::start(&kubeconfig);
        eventually("some more are bound", || 120 * round < n_bound(&server));
        // SIGKILL: it cannot finish anything.
        drop(process);
    }
    server.faults().clear();
    let _process = Process::start(&kubeconfig);
    eventually("all are bound", || n_bound(&server) == 600);
    for (pod, nodes) in server.counts().bindings() {
        assert_eq!(nodes.len(), 1, "{pod} was bound to {nodes:?}");
    }
    let mut on_node = std::collections::BTreeMap::<String, usize>::new();
    for pod in server.store().list("pods") {
        *on_node.entry(pod["spec"]["nodeName"].to_string()).or_default() += 1;
    }
    let most = on_node.values().max();
    assert!(most.is_some_and(|&most| most <= 20), "a node takes 20 pods: {most:?}");
}

/// The pods of a gang that run already count, so that the next instance binds the rest.
#[test]
fn after_kills_between_the_bindings_of_gangs_every_gang_is_complete() {
    let api = "scheduling.k8s.io/v1beta1".to_owned();
    let server = TestServer::start(Options { release: 37, also: vec![api], ..Options::default() });
    let kubeconfig = server.kubeconfig_file().expect("there is room for a file");
    server.store().apply_all((0..20).map(node)).expect("they are valid");
    let gang = |number: usize| {
        json!({
            "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
            "metadata": {"name": format!("gang-{number}"), "namespace": "default"},
            "spec": {"schedulingPolicy": {"gang": {"minCount": 40}}},
        })
    };
    server.store().apply_all((0..10).map(gang)).expect("they are valid");
    let member = |number: usize| {
        let mut pod = pod(number);
        pod["spec"]["schedulingGroup"] = json!({"podGroupName": format!("gang-{}", number / 40)});
        pod
    };
    server.store().apply_all((0..400).map(member)).expect("they are valid");
    // Slow enough to be killed in the middle of a gang.
    let slow = InjectedFault::every(1, FaultKind::Slow(Duration::from_millis(40)));
    server.faults().add(slow.resources(&["pods/binding"]));
    let gates = ["--feature-gates=GenericWorkload=true"];
    for round in 1..=4 {
        let process = Process::start_with(&kubeconfig, &gates);
        eventually("some more are bound", || 75 * round < n_bound(&server));
        // SIGKILL: it cannot finish anything.
        drop(process);
    }
    server.faults().clear();
    let _process = Process::start_with(&kubeconfig, &gates);
    eventually("all are bound", || n_bound(&server) == 400);
    for (pod, nodes) in server.counts().bindings() {
        assert_eq!(nodes.len(), 1, "{pod} was bound to {nodes:?}");
    }
    let is_scheduled = |group: &Value| {
        let conditions = group["status"]["conditions"].as_array();
        conditions.is_some_and(|all| {
            all.iter()
                .any(|one| one["type"] == "PodGroupInitiallyScheduled" && one["status"] == "True")
        })
    };
    eventually("every group says so", || {
        server.store().list("podgroups").iter().all(&is_scheduled)
    });
}

fn device_object(kind: &str, name: &str, spec: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec,
    });
    if kind == "ResourceClaim" {
        object["metadata"]["namespace"] = json!("default");
    }
    object
}

/// Four devices of a node.
fn devices(number: usize) -> Value {
    let node = format!("node-{number:03}");
    let devices: Vec<Value> = (0..4).map(|index| json!({"name": format!("gpu-{index}")})).collect();
    device_object(
        "ResourceSlice",
        &node,
        &json!({
            "driver": "gpu.example.com", "nodeName": node, "devices": devices,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        }),
    )
}

/// How many pods have devices.
fn n_reserved(server: &TestServer) -> usize {
    let claims = server.store().list("resourceclaims");
    let consumers = claims.iter().map(|claim| &claim["status"]["reservedFor"]);
    consumers.map(|all| all.as_array().map_or(0, Vec::len)).sum()
}

#[test]
fn after_kills_at_any_moment_no_device_is_given_twice_and_no_claim_is_lost() {
    let server = TestServer::start(Options::default());
    let kubeconfig = server.kubeconfig_file().expect("there is room for a file");
    server.store().apply_all((0..30).flat_map(|n| [node(n), devices(n)])).expect("they are valid");
    let class = device_object("DeviceClass", "gpu", &json!({}));
    server.store().apply(class).expect("it is valid");
    // As many claims as devices. Every tenth claim is of two pods.
    let request = json!({"name": "gpu", "exactly": {"deviceClassName": "gpu"}});
    let spec = json!({"devices": {"requests": [request]}});
    let claims = (0..120).map(|n| device_object("ResourceClaim", &format!("c{n}"), &spec));
    server.store().apply_all(claims).expect("they are valid");
    let claiming = |number: usize, claim: usize| {
        let mut pod = pod(number);
        pod["spec"]["resourceClaims"] =
            json!([{"name": "gpu", "resourceClaimName": format!("c{claim}")}]);
        pod
    };
    let pods = (0..120).map(|n| claiming(n, n)).chain((0..12).map(|n| claiming(200 + n, n * 10)));
    server.store().apply_all(pods).expect("they are valid");
    // Slow enough to be killed between any two writes of a pod.
    let slow = InjectedFault::every(1, FaultKind::Slow(Duration::from_millis(40)));
    let resources = ["resourceclaims", "resourceclaims/status", "pods/binding"];
    server.faults().add(slow.resources(&resources));
    let mut n_between = 0;
    for round in 1..=4 {
        let process = Process::start(&kubeconfig);
        eventually("some more are bound", || 20 * round < n_bound(&server));
        // SIGKILL: it cannot finish anything.
        drop(process);
        n_between += n_reserved(&server) - n_bound(&server);
    }
    assert!(0 < n_between, "some pods had devices and no node when it was killed");
    server.faults().clear();
    let _process = Process::start(&kubeconfig);
    eventually("all are bound", || n_bound(&server) == 132);
    let mut given = std::collections::BTreeMap::new();
    let mut n_consumers = 0;
    for claim in server.store().list("resourceclaims") {
        let result = &claim["status"]["allocation"]["devices"]["results"][0];
        let device = format!("{}/{}", result["pool"], result["device"]);
        let name = claim["metadata"]["name"].to_string();
        assert_eq!(given.insert(device, name), None, "a device is given twice: {result}");
        n_consumers += claim["status"]["reservedFor"].as_array().map_or(0, Vec::len);
    }
    assert_eq!((given.len(), n_consumers), (120, 132));
    for pod in server.store().list("pods") {
        let claim = pod["spec"]["resourceClaims"][0]["resourceClaimName"].as_str();
        let claim = server.store().get("resourceclaims", "default", claim.expect("it has one"));
        let claim = claim.expect("no claim is lost");
        let pool = &claim["status"]["allocation"]["devices"]["results"][0]["pool"];
        assert_eq!(*pool, pod["spec"]["nodeName"], "{claim}");
    }
    for (pod, nodes) in server.counts().bindings() {
        assert_eq!(nodes.len(), 1, "{pod} was bound to {nodes:?}");
    }
}

#[test]
fn a_signal_to_stop_ends_it_with_success() {
    let server = TestServer::start(Options::default());
    let kubeconfig = server.kubeconfig_file().expect("there is room for a file");
    server.store().apply_all((0..2).map(node)).expect("they are valid");
    server.store().apply_all((0..10).map(pod)).expect("they are valid");
    let mut process = Process::start(&kubeconfig);
    eventually("all are bound", || n_bound(&server) == 10);
    let id = process.0.id().to_string();
    assert!(Command::new("kill").arg(id).status().expect("kill is there").success());
    assert!(process.0.wait().expect("it can be waited for").success());
}

#[test]
fn a_signal_to_stop_ends_it_soon_without_an_api_server() {
    let server = TestServer::start(Options::default());
    let kubeconfig = server.kubeconfig_file().expect("there is room for a file");
    server.store().apply_all((0..4).map(node)).expect("they are valid");
    server.store().apply_all((0..10).map(pod)).expect("they are valid");
    let child = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
        .args(["run", "--secure-port=0", "--shutdown-grace-period=5m", "--kubeconfig"])
        .arg(&kubeconfig)
        .stderr(Stdio::null())
        .spawn();
    let mut process = Process(child.expect("the binary starts"));
    eventually("all are bound", || n_bound(&server) == 10);
    // Bindings, conditions and events are in progress, and more are queued.
    let silent = InjectedFault::every(1, FaultKind::Slow(Duration::from_hours(1)));
    server.faults().add(silent.resources(&["pods/binding", "pods/status", "events"]));
    let before = server.counts().requests("create", "pods/binding");
    server.store().apply_all((10..200).map(pod)).expect("they are valid");
    eventually("some are being bound", || {
        before < server.counts().requests("create", "pods/binding")
    });
    drop(server);
    let begun = Instant::now();
    let id = process.0.id().to_string();
    assert!(Command::new("kill").arg(id).status().expect("kill is there").success());
    process.0.wait().expect("it can be waited for");
    // It takes about a second. A process manager would kill it after a few.
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[test]
fn warnings_appear_once_with_an_api_server_of_an_older_release() {
    let server = TestServer::start(Options { release: 36, ..Options::default() });
    let kubeconfig = server.kubeconfig_file().expect("there is room for a file");
    let dir = tempfile::tempdir().expect("there is room");
    let (config, log) = (dir.path().join("config.yaml"), dir.path().join("log"));
    let text = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": false},
        "clientConnection": {"kubeconfig": kubeconfig},
        "profiles": [{"pluginConfig": [{"name": "DefaultPreemption", "args": {"minCandidateNodesPercentage": 100}}]}],
        "enableContentionProfiling": true,
    });
    std::fs::write(&config, text.to_string()).expect("there is room");
    let child = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
        .args([
            "run",
            "--secure-port=0",
            "--feature-gates=EvenPodsSpread=true,LoggingAlphaOptions=true",
        ])
        .args(["--contention-profiling=true", "--kube-api-qps=70", "--config"])
        .arg(&config)
        .stderr(std::fs::File::create(&log).expect("there is room"))
        .spawn();
    let _process = Process(child.expect("the binary starts"));
    let read = || std::fs::read_to_string(&log).unwrap_or_default();
    eventually("it knows how old the API server is", || read().contains("release=\"1.36\""));
    let log = read();
    let warnings: Vec<&str> = log.lines().filter(|line| line.contains("warning: ")).collect();
    for part in ["EvenPodsSpread=true has no effect", "LoggingAlphaOptions has no effect"] {
        assert!(warnings.iter().any(|line| line.contains(part)), "{part}: {log}");
    }
    let unlike: std::collections::BTreeSet<&&str> = warnings.iter().collect();
    assert_eq!(unlike.len(), warnings.len(), "{warnings:#?}");
}

#[test]
fn a_configuration_is_written_with_all_defaults() {
    let dir = tempfile::tempdir().expect("there is room");
    let file = dir.path().join("effective.yaml");
    let status = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
        .args(["run", "--leader_elect_lease_duration=30s", "--write-config-to"])
        .arg(&file)
        .status();
    assert!(status.expect("the binary starts").success());
    let text = std::fs::read_to_string(&file).expect("it was written");
    for line in ["leaseDuration: \"30s\"", "schedulerName: default-scheduler", "parallelism: 16"] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let check = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
        .args(["config", "check"])
        .arg(&file)
        .stdout(Stdio::null())
        .status();
    assert!(check.expect("the binary starts").success(), "what was written can be read");
}

#[test]
fn feature_gates_of_earlier_releases_are_accepted_with_a_warning() {
    let dir = tempfile::tempdir().expect("there is room");
    let output = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
        .args(["run", "--feature-gates=EvenPodsSpread=true,DefaultPodTopologySpread=false"])
        .arg("--write-config-to")
        .arg(dir.path().join("effective.yaml"))
        .output();
    let output = output.expect("the binary starts");
    assert!(output.status.success());
    let told = String::from_utf8(output.stderr).expect("messages are text");
    for line in [
        "warning: --feature-gates: EvenPodsSpread=true has no effect, as it is a gate of an earlier release: \
         PodTopologySpread always applies topologySpreadConstraints",
        "warning: --feature-gates: DefaultPodTopologySpread=false has no effect, as it is a gate of an earlier release: \
         PodTopologySpread always spreads pods without constraints",
    ] {
        assert!(told.contains(line), "{line}: {told}");
    }
}

#[test]
fn errors_on_the_command_line_say_what_to_do() {
    let told = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_plimsoll")).arg("run").args(args).output();
        let output = output.expect("the binary starts");
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    for (args, part) in [
        (&["--kubecfg=x"][..], "'--kubeconfig'"),
        (&["--feature-gates=Nonsense=true"], "unrecognized feature gate: Nonsense"),
        (&["--kubeconfig=/nowhere/config"], "kubeconfig /nowhere/config: cannot be read"),
        (&["--leader-elect-resource-lock=endpoints"], "must be leases"),
        (&["--secure-port=70000"], "--secure-port 70000 must be between 0 and 65535"),
        (&["--tls-cert-file=a.crt"], "give --tls-private-key-file, too"),
    ] {
        let told = told(args);
        assert!(told.contains(part), "{args:?}: {told}");
    }
}

#[test]
fn an_unreachable_api_server_for_reviews_is_reported_at_once() {
    let server = TestServer::start(Options::default());
    let kubeconfig = server.kubeconfig_file().expect("there is room for a file");
    for flag in ["--authentication-kubeconfig", "--authorization-kubeconfig"] {
        let output = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
            .args(["run", "--secure-port=0", "--kubeconfig"])
            .arg(&kubeconfig)
            .arg(format!("{flag}=/nowhere/config"))
            .output()
            .expect("the binary starts");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{told}");
        let expected = format!("{flag}: kubeconfig /nowhere/config: cannot be read");
        assert!(told.contains(&expected), "{told}");
    }
}

#[test]
fn no_token_is_logged_at_any_level() {
    const TOKENS: [&str; 3] = ["t0k3n-of-prometheus", "t0k3n-of-jane", "t0k3n-of-nobody"];
    let user = |token: &str, name: &str, paths: &[&str]| User {
        token: token.to_owned(),
        name: name.to_owned(),
        groups: Vec::new(),
        rights: vec![Right::on_paths(paths, &["get"])],
    };
    let users = vec![user(TOKENS[0], "prometheus", &["/metrics"]), user(TOKENS[1], "jane", &[])];
    let server = TestServer::start(Options { users, ..Options::default() });
    server.store().apply_all((0..2).map(node)).expect("they are valid");
    server.store().apply_all((0..10).map(pod)).expect("they are valid");
    let kubeconfig = server.kubeconfig_file().expect("there is room for a file");
    let own = std::fs::read_to_string(&kubeconfig).expect("it is there");
    let own = own.lines().find_map(|line| line.trim().strip_prefix("token: "));
    let own = own.expect("the file has a token").trim_matches('"').to_owned();
    let dir = tempfile::tempdir().expect("there is room");
    let (port, log) = (free_port(), dir.path().join("log"));
    let child = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
        .args(["run", "-v=10", "--leader-elect=false", "--bind-address=127.0.0.1"])
        .arg(format!("--secure-port={port}"))
        .arg("--cert-dir")
        .arg(dir.path())
        .arg("--kubeconfig")
        .arg(&kubeconfig)
        .stderr(std::fs::File::create(&log).expect("there is room"))
        .spawn();
    let process = Process(child.expect("the binary starts"));
    let read = |file: &Path| std::fs::read_to_string(file).unwrap_or_default();
    eventually("it serves", || read(&log).contains("Serving securely"));
    let certificate = read(&dir.path().join("kube-scheduler.crt"));
    let client =
        HttpsClient::new(([127, 0, 0, 1], port).into(), &certificate).expect("it is right");
    eventually("all are bound", || n_bound(&server) == 10);
    for (token, code) in TOKENS.into_iter().zip([200, 403, 401]) {
        let client = client.with_token(token);
        assert_eq!(client.get("/metrics").expect("it answers").code, code, "{token}");
    }
    let signed = server.client_certificate("jane", &[]).expect("the cluster has TLS");
    let jane = client.with_certificate(&signed).expect("the certificate is right");
    assert_eq!(jane.get("/metrics").expect("it answers").code, 403);
    drop(process);
    let log = read(&log);
    for part in ["Unable to authenticate the request", "path=\"/metrics\"", "bearer token"] {
        assert!(log.contains(part), "much is logged: {part}");
    }
    let secrets = TOKENS.iter().map(|token| (*token).to_owned()).chain([own]);
    for secret in secrets.chain(["Authorization: ".to_owned()]) {
        let line = log.lines().find(|line| line.contains(&secret));
        assert_eq!(line, None, "{secret}");
    }
    let key = read(&dir.path().join("kube-scheduler.key"));
    let key = key.lines().nth(1).expect("a key has lines");
    assert!(!log.contains(key), "the key is in the log");
}

#[test]
fn the_flags_and_configurations_of_the_manifests_are_valid() {
    let (dir, deploy) = (tempfile::tempdir().expect("there is room"), "../../deploy");
    for manifest in ["beside.yaml", "replace.yaml"] {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(deploy).join(manifest);
        let text = std::fs::read_to_string(&file).expect("it is in the repository");
        let objects = Document::parse_all(manifest, &text).expect("it is YAML");
        let find = |kind: &str| {
            let whole = objects.iter().filter_map(|object| object.get(&FieldPath::default()));
            let mut found = whole.filter(|object| object["kind"] == kind);
            found.next().unwrap_or_else(|| panic!("{manifest} has a {kind}")).clone()
        };
        let deployment = find("Deployment");
        let pod = &deployment["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        let mounts = container["volumeMounts"].as_array().expect("it mounts something");
        let place = mounts[0]["mountPath"].as_str().expect("somewhere").to_owned();
        let map = find("ConfigMap");
        assert_eq!(pod["volumes"][0]["configMap"]["name"], map["metadata"]["name"]);
        for (name, text) in map["data"].as_object().expect("it has files") {
            std::fs::write(dir.path().join(name), text.as_str().unwrap_or_default())
                .expect("there is room");
        }
        let args = container["args"].as_array().expect("it has arguments").iter();
        let here = dir.path().display().to_string();
        let args = args.map(|arg| arg.as_str().expect("they are texts").replace(&place, &here));
        let written = dir.path().join("effective.yaml");
        let output = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
            .args(args)
            .arg("--write-config-to")
            .arg(&written)
            .output()
            .expect("the binary starts");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{manifest}: {told}");
        let effective = std::fs::read_to_string(&written).expect("it was written");
        let lease = if manifest == "beside.yaml" { "plimsoll" } else { "kube-scheduler" };
        assert!(effective.contains(&format!("resourceName: {lease}\n")), "{effective}");
        assert!(container["resources"]["limits"]["memory"].is_string(), "{manifest}");
        // Writes in progress, and then the release of the lease, have enough time.
        assert!(Some(25) < pod["terminationGracePeriodSeconds"].as_u64(), "{manifest}");
    }
}

#[test]
fn the_network_policy_is_about_the_pods_and_the_port_of_the_manifests() {
    let read = |manifest: &str| {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(manifest);
        let text = std::fs::read_to_string(&file).expect("it is in the repository");
        let objects = Document::parse_all(manifest, &text).expect("it is YAML");
        objects.into_iter().map(|object| object.value).collect::<Vec<_>>()
    };
    let policy = &read("network-policy.yaml")[0];
    let chosen = policy["spec"]["podSelector"]["matchExpressions"][0].clone();
    assert_eq!(chosen["key"], "app");
    for manifest in ["beside.yaml", "replace.yaml"] {
        let objects = read(manifest);
        let deployment = objects.iter().find(|object| object["kind"] == "Deployment");
        let deployment = deployment.expect("there is one");
        assert_eq!(deployment["metadata"]["namespace"], policy["metadata"]["namespace"]);
        let pod = &deployment["spec"]["template"];
        let label = &pod["metadata"]["labels"]["app"];
        let values = chosen["values"].as_array().expect("it names labels");
        assert!(values.contains(label), "{manifest}: {label}");
        assert_eq!(
            policy["spec"]["ingress"][0]["ports"][0]["port"],
            pod["spec"]["containers"][0]["ports"][0]["containerPort"]
        );
    }
}
