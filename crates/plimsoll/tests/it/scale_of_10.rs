//! The examples of docs/scale-of-10.md: `simulate` and `run` place pods by priorities.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use expect_test::{Expect, expect};
use plimsoll_testserver::{Options, TestServer};
use serde_json::{Value, json};

use crate::process::Process;
use crate::run::{records, run};

/// Far longer than anything takes, even on a busy machine.
const PATIENCE: Duration = Duration::from_mins(4);

/// A node with this CPU and memory, these labels and these other fields.
fn node(name: &str, (cpu, memory): (&str, &str), labels: &str, more: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Node\nmetadata: {{name: {name}, labels: {{{labels}}}}}\n\
         status: {{allocatable: {{cpu: '{cpu}', memory: {memory}, pods: '20'}}}}\n{more}\n"
    )
}

const ROOM: (&str, &str) = ("10", "10Gi");

/// A pod of the Service `web` with this `spec`, on the node `on` unless that is empty.
fn pod(name: &str, on: &str, spec: &str) -> String {
    let on = if on.is_empty() { String::new() } else { format!("nodeName: {on}, ") };
    let spec = if spec.is_empty() { "containers: [{name: c}]" } else { spec };
    format!(
        "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, labels: {{app: web}}}}\n\
         spec: {{{on}{spec}}}\n"
    )
}

/// `n` pods of the Service on a node.
fn pods(on: &str, n: usize) -> String {
    (0..n).map(|i| pod(&format!("{on}-{i}"), on, "")).collect()
}

/// A pod with these requests.
fn asking(name: &str, on: &str, cpu: &str, memory: &str) -> String {
    let requests = format!("{{cpu: '{cpu}', memory: {memory}}}");
    pod(name, on, &format!("containers: [{{name: c, resources: {{requests: {requests}}}}}]"))
}

const SERVICE: &str = "---\napiVersion: v1\nkind: Service\nmetadata: {name: web}\n\
                       spec: {selector: {app: web}}\n";

fn policy(priorities: &str) -> String {
    format!("{{kind: Policy, apiVersion: v1, predicates: [], priorities: [{priorities}]}}")
}

/// Checks the points of each node from one priority, for the only pending pod, and where the pod goes. `explain` must
/// say the same.
#[track_caller]
fn check(cluster: &str, priority: &str, release: &str, expected: &Expect) {
    let policy = policy(priority);
    let files = [("all.yaml", cluster), ("policy.yaml", policy.as_str())];
    let flags = format!("-f all.yaml --config policy.yaml --scale 10 {release} -o json");
    let decided = records(&files, &format!("simulate --explain {flags}")).remove(0);
    let points = decided["nodes"].as_array().expect("there are nodes").iter().map(|node| {
        let scores = node["scores"].as_object().expect("the node is feasible");
        let points = scores.values().next().expect("there is one priority");
        assert_eq!(&node["total"], points);
        format!("{} {points}", node["name"].as_str().expect("a name is text"))
    });
    let points: Vec<String> = points.collect();
    let node = decided["node"].as_str().expect("the pod was placed");
    expected.assert_eq(&format!("{}: {node}\n", points.join(", ")));

    let reference = records(&files, &format!("simulate --explain --engine reference {flags}"));
    assert_eq!(reference[0], decided);
    let plain = records(&files, &format!("simulate {flags}")).remove(0);
    let explained = records(&files, &format!("explain --pod p {flags}")).remove(0);
    for key in ["node", "best"] {
        assert_eq!(plain[key], decided[key], "without --explain: {key}");
        assert_eq!(explained[key], decided[key], "explain: {key}");
    }
    assert_eq!(explained["nodes"], decided["nodes"]);
    assert_eq!(explained["scale10"]["best"], decided["best"]);
}

#[test]
fn least_requested_and_most_requested_depend_on_requests() {
    let nodes = node("a", ("4", "10Gi"), "", "") + &node("b", ("2", "10Gi"), "", "");
    let all = nodes + &asking("p", "", "1", "5Gi");
    let least = "{name: LeastRequestedPriority, weight: 1}";
    check(
        &all,
        least,
        "",
        &expect![[r#"
        a 6, b 5: a
    "#]],
    );
    let most = "{name: MostRequestedPriority, weight: 1}";
    check(
        &all,
        most,
        "",
        &expect![[r#"
        a 3, b 5: b
    "#]],
    );
}

#[test]
fn balance_depends_on_the_difference_of_the_fractions() {
    let nodes = node("a", ("4", "10Gi"), "", "")
        + &node("b", ("10", "25Gi"), "", "")
        + &node("c", ("1", "10Gi"), "", "");
    let all = nodes + &asking("there", "b", "5", "0") + &asking("p", "", "1", "5Gi");
    let balance = "{name: BalancedResourceAllocation, weight: 1}";
    check(
        &all,
        balance,
        "",
        &expect![[r#"
        a 7, b 6, c 0: a
    "#]],
    );
}

#[test]
fn images_fall_into_ten_buckets() {
    const MB: u64 = 1024 * 1024;
    let sizes = [23 * MB - 1, 23 * MB, 250 * MB, 512 * MB, 1000 * MB - 1, 1000 * MB];
    let nodes = ["a", "b", "c", "d", "e", "f"].into_iter().zip(sizes).map(|(name, size)| {
        let image = format!("  images: [{{names: ['web:1'], sizeBytes: {size}}}]");
        let (cpu, memory) = ROOM;
        format!(
            "---\napiVersion: v1\nkind: Node\nmetadata: {{name: {name}}}\nstatus:\n  \
             allocatable: {{cpu: '{cpu}', memory: {memory}, pods: '20'}}\n{image}\n"
        )
    });
    let all = nodes.collect::<String>() + &pod("p", "", "containers: [{name: c, image: 'web:1'}]");
    let images = "{name: ImageLocalityPriority, weight: 1}";
    check(
        &all,
        images,
        "",
        &expect![[r#"
        a 0, b 1, c 3, d 6, e 10, f 10: e
    "#]],
    );
    check(
        &all,
        images,
        "--release 1.5",
        &expect![[r#"
        a 0, b 1, c 3, d 6, e 10, f 10: e
    "#]],
    );
    check(
        &all,
        images,
        "--release 1.16",
        &expect![[r#"
        a 0, b 0, c 2, d 5, e 9, f 10: f
    "#]],
    );
}

#[test]
fn pods_of_a_service_are_spread_over_nodes_and_zones() {
    let spread = "{name: SelectorSpreadPriority, weight: 1}";
    let nodes = ["a", "b", "c"].map(|name| node(name, ROOM, "", "")).concat() + SERVICE;
    let crowded = pods("a", 3) + &pods("b", 5) + &pods("c", 10);
    check(
        &(nodes.clone() + &crowded + &pod("p", "", "")),
        spread,
        "",
        &expect![[r#"
        a 7, b 5, c 0: a
    "#]],
    );
    check(
        &(nodes + &pod("p", "", "")),
        spread,
        "",
        &expect![[r#"
        a 10, b 10, c 10: a
    "#]],
    );
    let zones = [("a", "z1"), ("b", "z1"), ("c", "z2"), ("d", "z2")];
    let nodes = zones
        .map(|(name, zone)| node(name, ROOM, &format!("topology.kubernetes.io/zone: {zone}"), ""));
    let nodes = nodes.concat() + SERVICE + &pods("a", 3) + &pods("b", 1) + &pods("c", 2);
    check(
        &(nodes + &pod("p", "", "")),
        spread,
        "",
        &expect![[r#"
        a 0, b 2, c 4, d 6: d
    "#]],
    );
}

#[test]
fn pods_of_a_service_are_spread_over_the_values_of_a_label() {
    let apart = "{name: RackSpread, weight: 1, argument: {serviceAntiAffinity: {label: rack}}}";
    let racks = [("a", "rack: r1"), ("b", "rack: r2"), ("c", "rack: r3"), ("d", "")];
    let nodes = racks.map(|(name, rack)| node(name, ROOM, rack, "")).concat() + SERVICE;
    let all = nodes + &pods("a", 2) + &pods("b", 1) + &pods("d", 1) + &pod("p", "", "");
    check(
        &all,
        apart,
        "",
        &expect![[r#"
        a 5, b 7, c 10, d 0: c
    "#]],
    );
}

#[test]
fn preferred_nodes_get_points_in_proportion_to_the_highest_weight() {
    let nodes = [("a", "ssd: '', gpu: ''"), ("b", "ssd: ''"), ("c", "gpu: ''"), ("d", "")];
    let nodes = nodes.map(|(name, labels)| node(name, ROOM, labels, "")).concat();
    let term = |weight: u32, key: &str| {
        format!(
            "{{weight: {weight}, preference: {{matchExpressions: [{{key: {key}, operator: Exists}}]}}}}"
        )
    };
    let preferred = format!(
        "affinity: {{nodeAffinity: {{preferredDuringSchedulingIgnoredDuringExecution: [{}, {}]}}}}, \
         containers: [{{name: c}}]",
        term(5, "ssd"),
        term(2, "gpu"),
    );
    let all = nodes + &pod("p", "", &preferred);
    let affinity = "{name: NodeAffinityPriority, weight: 1}";
    for release in ["", "--release 1.5"] {
        check(
            &all,
            affinity,
            release,
            &expect![[r#"
            a 10, b 7, c 2, d 0: a
        "#]],
        );
    }
}

#[test]
fn taints_cost_points_and_1_5_truncates_the_rest() {
    let taint = |key: &str| format!("{{key: {key}, effect: PreferNoSchedule}}");
    let taints = [vec![], vec![taint("old")], vec![taint("old"), taint("slow"), taint("far")]];
    let nodes = ["a", "b", "c"].into_iter().zip(taints).map(|(name, taints)| {
        node(name, ROOM, "", &format!("spec: {{taints: [{}]}}", taints.join(", ")))
    });
    let all = nodes.collect::<String>() + &pod("p", "", "");
    let taints = "{name: TaintTolerationPriority, weight: 1}";
    check(
        &all,
        taints,
        "",
        &expect![[r#"
        a 10, b 7, c 0: a
    "#]],
    );
    check(
        &all,
        taints,
        "--release 1.5",
        &expect![[r#"
        a 10, b 6, c 0: a
    "#]],
    );
}

#[test]
fn affinity_between_pods_is_scaled_from_the_lowest_to_the_highest_sum() {
    let zones = ["a", "b", "c"].map(|name| node(name, ROOM, &format!("host: {name}"), ""));
    let other = |name: &str, on: &str, app: &str| {
        format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, labels: {{app: {app}}}}}\n\
             spec: {{nodeName: {on}, containers: [{{name: c}}]}}\n"
        )
    };
    let term = |weight: u32, app: &str| {
        format!(
            "[{{weight: {weight}, podAffinityTerm: {{topologyKey: host, labelSelector: \
             {{matchLabels: {{app: {app}}}}}}}}}]"
        )
    };
    let own = format!(
        "affinity: {{podAffinity: {{preferredDuringSchedulingIgnoredDuringExecution: {}}}, \
         podAntiAffinity: {{preferredDuringSchedulingIgnoredDuringExecution: {}}}}}, \
         containers: [{{name: c}}]",
        term(6, "db"),
        term(2, "noise"),
    );
    let all = zones.concat() + &other("db", "a", "db") + &other("noise", "c", "noise");
    let affinity = "{name: InterPodAffinityPriority, weight: 1}";
    check(
        &(all + &pod("p", "", &own)),
        affinity,
        "",
        &expect![[r#"
        a 10, b 2, c 0: a
    "#]],
    );
}

/// Two nodes with pods that match all selectors of `p`, or only one of them.
fn selected() -> String {
    let replicas = "---\napiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: web-2}\n\
                    spec: {selector: {matchLabels: {app: web, gen: '2'}}}\n";
    let labelled = |name: &str, labels: &str, on: &str| {
        format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, labels: {{{labels}}}}}\n\
             spec: {{{on}containers: [{{name: c}}]}}\n"
        )
    };
    node("a", ROOM, "", "")
        + &node("b", ROOM, "", "")
        + SERVICE
        + replicas
        + &labelled("old-0", "app: web, gen: '1'", "nodeName: a, ")
        + &labelled("old-1", "app: web, gen: '1'", "nodeName: a, ")
        + &labelled("new-0", "app: web, gen: '2'", "nodeName: b, ")
        + &labelled("p", "app: web, gen: '2'", "")
}

#[test]
fn a_pod_counts_if_all_selectors_match_and_in_1_5_if_any_does() {
    let spread = "{name: SelectorSpreadPriority, weight: 1}";
    for release in ["", "--release 1.16"] {
        check(
            &selected(),
            spread,
            release,
            &expect![[r#"
            a 10, b 0: a
        "#]],
        );
    }
    check(
        &selected(),
        spread,
        "--release 1.5",
        &expect![[r#"
        a 0, b 5: b
    "#]],
    );
}

#[test]
fn pods_are_placed_one_after_another() {
    let nodes = ["a", "b"].map(|name| node(name, ROOM, "", "")).concat() + SERVICE;
    let pods: String = ["p", "q", "r"].map(|name| pod(name, "", "")).concat();
    let policy = policy(
        "{name: ServiceSpreadingPriority, weight: 2}, {name: EqualPriority, weight: 1}, \
         {name: CalculateAntiAffinityPriority, weight: 1}",
    );
    let files = [("all.yaml", nodes + &pods), ("policy.yaml", policy)];
    let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
    let decided = records(&files, "simulate -f all.yaml --config policy.yaml --scale 10 -o json");
    let places: Vec<&str> = decided.iter().filter_map(|pod| pod["node"].as_str()).collect();
    assert_eq!(places, ["a", "b", "a"]);
}

#[test]
fn a_score_plugin_that_was_no_priority_has_no_effect_and_a_warning_says_so() {
    let config = "
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    score:
      disabled: [{name: '*'}]
      enabled: [{name: VolumeBinding}, {name: TaintToleration}]
";
    let all = node("a", ROOM, "", "") + &pod("p", "", "");
    let files = [("all.yaml", all.as_str()), ("config.yaml", config)];
    let answer = run(&files, "simulate -f all.yaml --config config.yaml --scale 10 -o json");
    let told = "warning: profile default-scheduler: score plugin VolumeBinding has no priority on the \
                scale of 10, and no effect\n";
    assert_eq!((answer.status, answer.err.as_str()), (0, told));
}

#[test]
fn random_clusters_are_decided_by_priorities_without_a_difference() {
    let answer = run(&[], "simulate --swarm 5 --scale 10 --release 1.5");
    assert_eq!((answer.status, answer.err.as_str()), (0, ""), "{}", answer.out);
    assert!(answer.out.starts_with("5 simulations from seed 0: "), "{}", answer.out);
}

#[test]
fn a_release_is_one_of_the_scale_of_10() {
    for line in ["simulate -f all.yaml --release 1.5", "explain -f all.yaml --pod p --release 1.5"]
    {
        let answer = run(&[], line);
        assert_eq!(answer.status, 2);
        assert!(answer.err.contains("--scale <MOST>"), "{}", answer.err);
    }
}

/// Today's scores choose n1 for the pod, which has more free resources. The priorities of a Policy in a ConfigMap
/// choose n2, which has its image.
#[test]
fn a_cluster_is_scheduled_by_the_priorities_of_a_policy_in_a_config_map() {
    let server = TestServer::start(Options::default());
    let node = |name: &str, images: Value| {
        json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}, "images": images},
        })
    };
    let pod = |name: &str, on: Option<&str>, cpu: &str, memory: &str| {
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
            "spec": {"nodeName": on, "containers": [{
                "name": "c", "image": "web:1", "resources": {"requests": {"cpu": cpu, "memory": memory}},
            }]},
        })
    };
    let held = json!([{"names": ["web:1"], "sizeBytes": 300 * 1024 * 1024}]);
    let priorities =
        "{name: LeastRequestedPriority, weight: 1}, {name: ImageLocalityPriority, weight: 2}";
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "policy", "namespace": "kube-system"},
        "data": {"policy.cfg": policy(priorities)},
    });
    let objects = [
        map,
        node("n1", json!([])),
        node("n2", held),
        pod("batch-0", Some("n2"), "500m", "1Gi"),
        pod("web-0", None, "1", "2Gi"),
    ];
    server.store().apply_all(objects).expect("they are valid");
    let dir = tempfile::tempdir().expect("there is room");
    let (config, log) = (dir.path().join("config.yaml"), dir.path().join("log"));
    let kubeconfig = server.kubeconfig_file().expect("there is room for a file");
    let text = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1alpha1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": false},
        "clientConnection": {"kubeconfig": kubeconfig},
        "algorithmSource": {"policy": {"configMap": {"name": "policy"}}},
    });
    std::fs::write(&config, text.to_string()).expect("there is room");
    let child = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
        .args(["run", "--secure-port=0", "--scale=10", "-v=10", "--config"])
        .arg(&config)
        .stderr(std::fs::File::create(&log).expect("there is room"))
        .spawn();
    let _process = Process(child.expect("the binary starts"));
    let node_of_web = || {
        let pods = server.store().list("pods");
        let web = pods.iter().find(|pod| pod["metadata"]["name"] == "web-0")?;
        web["spec"]["nodeName"].as_str().map(ToOwned::to_owned)
    };
    let read = |file: &Path| std::fs::read_to_string(file).unwrap_or_default();
    let begun = Instant::now();
    while node_of_web().is_none() {
        assert!(begun.elapsed() < PATIENCE, "in vain: {}", read(&log));
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(node_of_web().as_deref(), Some("n2"));
    let log = read(&log);
    // As in 1.16, the points before the weight.
    for score in [
        "web-0_default -> n1: LeastRequestedPriority, Score: (7)",
        "web-0_default -> n2: LeastRequestedPriority, Score: (6)",
        "web-0_default -> n1: ImageLocalityPriority, Score: (0)",
        "web-0_default -> n2: ImageLocalityPriority, Score: (3)",
    ] {
        assert!(log.contains(score), "{score} is not in the log: {log}");
    }
}
