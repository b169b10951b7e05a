//! Pods as large as an API server accepts, more of them than any cluster has, and pools of ten thousand devices must not end
//! the scheduler, or keep it busy.
//!
//! Every test runs the program as a process with limits on its memory and its CPU time. They are set with `ulimit`,
//! which has an effect only on Linux, so the tests run only there.

use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use plimsoll_testserver::{Options, TestServer};
use serde_json::{Value, json};

/// The memory limit for reading a cluster and deciding it. Without the limits of the program, each cluster here would
/// take several times as much.
const MEMORY: usize = 1 << 30;
/// A hundred times what the slowest test takes. A decision whose time is quadratic in the size of a pod takes longer.
const SECONDS: usize = 600;

/// Starts `plimsoll` with these limits.
fn limited(memory: usize, words: &[&str]) -> Command {
    let mut command = Command::new("sh");
    let limits = format!("ulimit -v {} && ulimit -t {SECONDS} && exec \"$@\"", memory / 1024);
    command.args(["-c", &limits, "sh", env!("CARGO_BIN_EXE_plimsoll")]).args(words);
    command
}

/// Decides a cluster with every decision audited: both ways of deciding must stay within the limits.
#[track_caller]
fn decided(objects: &[Value]) -> String {
    decided_with_audit(objects, "1")
}

#[track_caller]
fn decided_with_audit(objects: &[Value], audit: &str) -> String {
    let default = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";
    decided_by(objects, audit, default)
}

/// The same with this configuration.
#[track_caller]
fn decided_by(objects: &[Value], audit: &str, configuration: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let written = |name: &str, content: &str| {
        let file = folder.path().join(name);
        std::fs::write(&file, content).expect("there is room for a file");
        file.to_str().expect("a folder has a name").to_owned()
    };
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    let file = written("cluster.json", &list.to_string());
    let config = written("config.yaml", configuration);
    let words = ["simulate", "--audit", audit, "-f", &file, "--config", &config];
    let mut command = limited(MEMORY, &words);
    let Output { status, stdout, stderr } = command.output().expect("there is a shell");
    let err = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{status}: {}", err.chars().take(2000).collect::<String>());
    String::from_utf8_lossy(&stdout).into_owned()
}

fn nodes(n: usize) -> Vec<Value> {
    let node = |number: usize| {
        json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": format!("n{number}"), "labels": {
                "kubernetes.io/hostname": format!("n{number}"),
                "topology.kubernetes.io/zone": format!("z{}", number % 3),
            }},
            "status": {"allocatable": {"cpu": "64", "memory": "256Gi", "pods": "1000"}},
        })
    };
    (0..n).map(node).collect()
}

fn pod(name: &str, spec: &Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "d", "labels": {"app": "a"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    for (field, value) in spec.as_object().expect("it has fields") {
        pod["spec"][field] = value.clone();
    }
    pod
}

fn constraint(key: &str, when: &str) -> Value {
    let selector = json!({"matchLabels": {"app": "a"}});
    json!({"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": selector})
}

fn constraints(n: usize, prefix: &str, when: &str) -> Value {
    let all = (0..n).map(|number| constraint(&format!("{prefix}{number}"), when));
    json!({"topologySpreadConstraints": all.collect::<Vec<_>>()})
}

fn terms(n: usize, prefix: &str) -> Value {
    let term = |number: usize| {
        let selector = json!({"matchLabels": {"app": "a"}});
        json!({"topologyKey": format!("{prefix}{number}"), "labelSelector": selector})
    };
    json!({"requiredDuringSchedulingIgnoredDuringExecution": (0..n).map(term).collect::<Vec<_>>()})
}

/// `n` pods, each with the spec for its number.
fn pods(n: usize, spec: impl Fn(usize) -> Value) -> impl Iterator<Item = Value> {
    (0..n).map(move |number| pod(&format!("p{number}"), &spec(number)))
}

#[test]
fn one_pod_with_fifteen_thousand_spread_constraints_is_decided() {
    for when in ["DoNotSchedule", "ScheduleAnyway"] {
        let mut objects = nodes(3);
        objects.extend(pods(1, |_| constraints(15_000, "k", when)));
        decided(&objects);
    }
}

#[test]
fn four_hundred_pods_with_hundreds_of_spread_constraints_are_decided() {
    for n in [500, 60] {
        let mut objects = nodes(100);
        let all = |number| constraints(n, &format!("k{number}-"), "ScheduleAnyway");
        objects.extend(pods(400, all));
        decided(&objects);
    }
}

#[test]
fn one_pod_with_twelve_thousand_affinity_terms_is_decided_and_so_are_others() {
    for field in ["podAffinity", "podAntiAffinity"] {
        let mut objects = nodes(100);
        objects.extend(pods(20, |number| match number {
            0 => json!({"affinity": {field: terms(12_000, "k")}}),
            _ => json!({}),
        }));
        decided(&objects);
    }
}

#[test]
fn a_hundred_thousand_terms_of_pods_on_nodes_are_met_by_every_pod() {
    let mut objects = nodes(200);
    objects.extend(pods(200, |number| {
        let terms = terms(500, &format!("k{number}-"));
        json!({"nodeName": format!("n{number}"), "affinity": {"podAntiAffinity": terms}})
    }));
    objects.extend((0..50).map(|number| {
        let mut pod = pod(&format!("q{number}"), &json!({}));
        pod["metadata"]["labels"]["own"] = json!(number.to_string());
        pod
    }));
    decided(&objects);
}

#[test]
fn thousands_of_different_pods_that_count_each_other_are_decided() {
    let mut objects = nodes(50);
    objects.extend((0..4000).map(|number| {
        let host = constraint("kubernetes.io/hostname", "ScheduleAnyway");
        let zone = constraint("topology.kubernetes.io/zone", "ScheduleAnyway");
        let spec = json!({"topologySpreadConstraints": [host, zone]});
        let mut pod = pod(&format!("p{number}"), &spec);
        pod["metadata"]["labels"]["own"] = json!(number.to_string());
        pod
    }));
    // Auditing all of them would take minutes.
    decided_with_audit(&objects, "100");
}

#[test]
fn the_message_about_ten_thousand_missing_resources_is_short() {
    let mut objects = nodes(3000);
    objects.extend(pods(3, |number| {
        let asked = (0..15_000).map(|name| (format!("x.y/r{number}-{name}"), json!("1")));
        let requests: Value = asked.collect::<serde_json::Map<_, _>>().into();
        let resources = json!({"requests": requests.clone(), "limits": requests});
        json!({"containers": [{"name": "c", "image": "i", "resources": resources}]})
    }));
    let out = decided(&objects);
    assert!(out.contains("Insufficient x.y/r0-0") && out.len() < 1 << 20, "{} bytes", out.len());
}

#[test]
fn pods_with_tens_of_thousands_of_anything_else_are_decided() {
    let many = |n: usize, one: &dyn Fn(usize) -> Value| (0..n).map(one).collect::<Vec<_>>();
    let container = |ports: Vec<Value>| json!([{"name": "c", "image": "i", "ports": ports}]);
    let values = |number: usize| many(20_000, &|n| json!(format!("v{number}-{n}")));
    let kinds: [(&str, &dyn Fn(usize) -> Value); 8] = [
        ("disks", &|_| {
            let disk = |n| json!({"name": format!("v{n}"), "gcePersistentDisk": {"pdName": format!("d{n}")}});
            json!({"volumes": many(12_000, &disk)})
        }),
        ("claims", &|_| {
            let claim = |n| json!({"name": format!("v{n}"), "persistentVolumeClaim": {"claimName": format!("c{n}")}});
            json!({"volumes": many(12_000, &claim)})
        }),
        (
            "ports",
            &|_| json!({"containers": container(many(20_000, &|n| json!({"containerPort": 1, "hostPort": n + 1})))}),
        ),
        (
            "containers",
            &|number| json!({"containers": many(15_000, &|n| json!({"name": format!("c{n}"), "image": format!("i{number}-{n}")}))}),
        ),
        (
            "tolerations",
            &|number| json!({"tolerations": many(15_000, &|n| json!({"key": format!("t{number}-{n}"), "operator": "Exists"}))}),
        ),
        (
            "gates",
            &|number| json!({"schedulingGates": many(30_000, &|n| json!({"name": format!("g{number}-{n}")}))}),
        ),
        ("selectors", &|number| {
            let selector = json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": values(number)}]});
            let mut constraint = constraint("topology.kubernetes.io/zone", "ScheduleAnyway");
            constraint["labelSelector"] = selector;
            json!({"topologySpreadConstraints": [constraint]})
        }),
        ("node selectors", &|number| {
            let expression = json!({"key": "kubernetes.io/hostname", "operator": "NotIn", "values": values(number)});
            let terms = json!([{"matchExpressions": [expression]}]);
            json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}})
        }),
    ];
    for (what, spec) in kinds {
        let mut objects = nodes(30);
        objects.extend(pods(20, spec));
        assert!(decided(&objects).contains("d/p19 "), "{what}");
    }
}

/// A pool with this many devices, which every node reaches. Each device has a `serial` of its own.
fn pool(devices: usize) -> impl Iterator<Item = Value> {
    /// An API server accepts 128.
    const IN_SLICE: usize = 125;
    let slices = devices.div_ceil(IN_SLICE);
    (0..slices).map(move |slice| {
        let device = |number| json!({"name": format!("d{number}"), "attributes": {"serial": {"int": number}}});
        let numbers = slice * IN_SLICE..devices.min((slice + 1) * IN_SLICE);
        let pool = json!({"name": "p", "generation": 1, "resourceSliceCount": slices});
        json!({
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": format!("s{slice}")},
            "spec": {"driver": "a.io", "allNodes": true, "pool": pool, "devices": numbers.map(device).collect::<Vec<_>>()},
        })
    })
}

/// A pod, and the claim that it names.
fn claiming(name: &str, devices: &Value) -> [Value; 2] {
    let metadata = json!({"name": name, "namespace": "d", "uid": name});
    let claim = json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": {"devices": devices},
    });
    let claims = json!([{"name": "devices", "resourceClaimName": name}]);
    [claim, pod(name, &json!({"resourceClaims": claims}))]
}

#[test]
fn ten_thousand_devices_in_a_pool_are_searched_in_bounded_time() {
    let class = json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "any"}});
    let selected = |expression: &str| {
        let selectors = json!([{"cel": {"expression": expression}}]);
        json!({"requests": [{"name": "r", "exactly": {"deviceClassName": "any", "selectors": selectors}}]})
    };
    let ask = |mode: &str, count: &Value| {
        let exactly = json!({"deviceClassName": "any", "allocationMode": mode, "count": count});
        json!({"requests": [{"name": "r", "exactly": exactly}], "constraints": [{"matchAttribute": "a.io/serial"}]})
    };
    let mut objects = nodes(3);
    objects.push(class);
    objects.extend(pool(10_000));
    objects.extend(claiming("last", &selected("device.attributes['a.io'].serial == 9999")));
    objects.extend(claiming("none", &selected("device.attributes['a.io'].serial > 9999")));
    objects.extend(claiming("all", &ask("All", &Value::Null)));
    // Every two devices are compared, unless something ends the search.
    objects.extend(claiming("equal", &ask("ExactCount", &json!(2))));
    let configuration = "\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{pluginConfig: [{name: DynamicResources, args: {filterTimeout: 20ms}}]}]
";
    let out = decided_by(&objects, "1", configuration);
    assert!(out.contains("Scheduled 1 of 4 pods"), "{out}");
    for told in [
        "d/none: 0/3 nodes are available: 3 cannot allocate all claims.",
        "claim d/all: number of requested devices 10000 exceeds the claim limit of 32",
        "node n0: timed out trying to allocate devices",
    ] {
        assert!(out.contains(told), "{told}: {out}");
    }
}

#[test]
fn requests_that_exceed_64_bits_together_fill_the_node() {
    let asks = |memory: &str| {
        let resources = json!({"requests": {"memory": memory}});
        json!([
            {"name": "a", "image": "i", "resources": resources.clone()},
            {"name": "b", "image": "i", "resources": resources},
        ])
    };
    let mut objects = nodes(1);
    objects.push(pod("large", &json!({"nodeName": "n0", "containers": asks("6900P")})));
    objects.push(pod("small", &json!({"containers": asks("1")})));
    objects.push(pod("as-large", &json!({"containers": asks("6900P")})));
    let out = decided(&objects);
    assert!(out.contains("Scheduled 0 of 2 pods"), "{out}");
    assert!(out.contains("d/small: 0/1 nodes are available: 1 Insufficient memory."), "{out}");
}

#[test]
fn a_file_of_nested_anchors_is_an_error_and_takes_little_memory() {
    /// Several times what the program takes for any file of this size.
    const LITTLE: usize = 512 << 20;
    let anchored = |depth: usize| {
        let open: Vec<String> = (0..depth).map(|number| format!("&a{number} [")).collect();
        open.concat() + &"]".repeat(depth)
    };
    let twice = |number| format!("- &a{} [*a{number}, *a{number}]\n", number + 1);
    let mut doubled = vec!["- &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned()];
    doubled.extend((0..2999).map(twice));
    let doubled = doubled.concat();
    let folder = tempfile::tempdir().expect("a folder can be made");
    for (name, text) in [
        // Anchors within anchors, each with an alias.
        ("nested.yaml", {
            let names = (0..5000).map(|number| format!("*a{number}"));
            format!("a: {}\nb: [{}]\n", anchored(5000), names.collect::<Vec<_>>().join(", "))
        }),
        ("unnamed.yaml", format!("a: {}\n", anchored(10_000))),
        ("doubled.yaml", doubled),
    ] {
        let file = folder.path().join(name);
        std::fs::write(&file, &text).expect("there is room for a file");
        let file = file.to_str().expect("a folder has a name");
        let output = limited(LITTLE, &["simulate", "-f", file]).output();
        let Output { status, stderr, .. } = output.expect("there is a shell");
        let err = String::from_utf8_lossy(&stderr);
        // It exits with an error that names the file.
        let told = err.chars().take(2000).collect::<String>();
        assert!(
            status.code().is_some_and(|code| code == 1 || code == 2),
            "{name}: {status}: {told}"
        );
        assert!(err.contains("error: ") && err.contains(name), "{name}: {told}");
    }
}

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_scheduler_on_a_cluster_survives_such_a_pod() {
    /// The limit is on address space, which includes unused stacks and heaps of threads.
    const ADDRESSES: usize = 4 << 30;
    const PATIENCE: Duration = Duration::from_mins(8);
    let server = TestServer::start(Options::default());
    let kubeconfig = server.kubeconfig_file().expect("there is room for a file");
    server.store().apply_all(nodes(3)).expect("they are valid");
    let large = pods(1, |_| constraints(15_000, "k", "ScheduleAnyway"));
    server.store().apply_all(large).expect("it is valid");
    let mut command =
        limited(ADDRESSES, &["run", "--secure-port=0", "--leader-elect=false", "--kubeconfig"]);
    let child = command.arg(&kubeconfig).stderr(Stdio::null()).spawn();
    let mut running = Running(child.expect("there is a shell"));
    let mut is_bound = |name: &str| {
        let begun = Instant::now();
        loop {
            let pods = server.store().list("pods");
            let pod = pods.iter().find(|pod| pod["metadata"]["name"] == name);
            if pod.is_some_and(|pod| pod["spec"]["nodeName"].is_string()) {
                return;
            }
            assert_eq!(running.0.try_wait().expect("it is ours"), None, "it ended");
            assert!(begun.elapsed() < PATIENCE, "in vain: {name} is bound");
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    is_bound("p0");
    server.store().apply_all([pod("after", &json!({}))]).expect("it is valid");
    is_bound("after");
}
