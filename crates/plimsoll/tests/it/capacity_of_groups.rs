//! `plimsoll capacity` of groups of pods, on files.

use std::collections::BTreeMap;

use expect_test::expect;
use serde_json::{Value, json};

use crate::api::is_of_schema;
use crate::run::{check_refused, run};
use crate::whole_groups::{CLUSTER, GATES, MORE};

const TOPOLOGY: &str =
    "--feature-gates GenericWorkload=true,GangScheduling=true,TopologyAwareWorkloadScheduling=true";

/// Two racks of two nodes: in the first one four pods of two CPUs fit, in the other one two.
fn racks() -> String {
    let node = |name: &str, rack: &str, cpu: &str| {
        format!(
            "apiVersion: v1\nkind: Node\nmetadata: {{name: {name}, labels: {{rack: {rack}}}}}\n\
             status: {{allocatable: {{cpu: '{cpu}', memory: 8Gi, pods: '10'}}}}\n---\n"
        )
    };
    let nodes = [("n1", "r1", "4"), ("n2", "r1", "4"), ("n3", "r2", "4"), ("n4", "r2", "1")];
    nodes.map(|(name, rack, cpu)| node(name, rack, cpu)).concat()
}

/// A group of three pods of two CPUs.
fn group(name: &str, min_count: u32, constraints: &str) -> String {
    let group = format!(
        "apiVersion: scheduling.k8s.io/v1beta1\nkind: PodGroup\nmetadata: {{name: {name}, namespace: default, uid: {name}}}\n\
         spec: {{schedulingPolicy: {{gang: {{minCount: {min_count}}}}}{constraints}}}\n"
    );
    let pods = (0..3).map(|number| {
        format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}-{number}, uid: {name}-{number}}}\n\
             spec: {{schedulingGroup: {{podGroupName: {name}}}, containers: [{{name: c, resources: {{requests: {{cpu: '2'}}}}}}]}}\n"
        )
    });
    [group].into_iter().chain(pods).collect()
}

const IN_ONE_RACK: &str = ", schedulingConstraints: {topology: [{key: rack}]}";

fn answer(files: &[(&str, &str)], line: &str) -> Value {
    let answer = run(files, line);
    assert_eq!((answer.status, answer.err.as_str()), (0, ""), "{line}");
    serde_json::from_str(&answer.out).expect("it is one document")
}

/// How many of `n` groups `simulate` places as a whole.
fn n_simulated(constraints: &str, n: usize, flags: &str) -> usize {
    let groups: Vec<_> = (0..n).map(|at| group(&format!("g{at}"), 3, constraints)).collect();
    let all = format!("{}{}", racks(), groups.join("---\n"));
    let told = run(&[("a.yaml", &all)], &format!("simulate -f a.yaml -o json {flags}"));
    assert_eq!(told.status, 0, "{}", told.err);
    let mut placed = BTreeMap::new();
    for line in told.out.lines() {
        let record: Value = serde_json::from_str(line).expect("a line is a record");
        let pods = record["pods"].as_array().expect("it is about a group");
        let n = pods.iter().filter(|pod| pod["node"].is_string()).count();
        placed.insert(record["group"].to_string(), n);
    }
    assert_eq!(placed.len(), n, "{}", told.out);
    assert!(placed.values().all(|n| [0, 3].contains(n)), "all or none: {}", told.out);
    placed.values().filter(|n| **n == 3).count()
}

#[test]
fn as_many_groups_fit_as_simulate_places_and_not_one_more() {
    for (release, version) in [("1.36", "v1alpha2"), ("1.37", "v1beta1")] {
        let flags = format!("--emulated-version {release} {TOPOLOGY}");
        for (constraints, fits) in [("", 2), (IN_ONE_RACK, 1)] {
            let of_release = |group: String| group.replace("v1beta1", version);
            let (racks, model) = (racks(), of_release(group("train", 3, constraints)));
            let files = [("a.yaml", racks.as_str()), ("train.yaml", model.as_str())];
            let line =
                format!("capacity -f a.yaml --pod-file train.yaml -o json --remedies 0 {flags}");
            let told = answer(&files, &line);
            let shape = &told["shapes"][0];
            is_of_schema("Capacity", &told);
            assert_eq!((&shape["group"], &shape["pods"]), (&json!("default/train"), &json!(3)));
            assert_eq!(shape["fits"], fits, "{release} {constraints}: {told:#}");
            assert!(shape["stoppedBy"].as_str().is_some_and(|why| !why.is_empty()), "{told:#}");
            if constraints.is_empty() {
                assert_eq!(shape["byNode"], json!({"n1": 2, "n2": 2, "n3": 2}));
                let more = json!({"nodes": 2, "like": "n1", "groups": 1});
                assert_eq!(shape["tenPercentMore"], more, "a node has room for two of its pods");
            } else {
                assert_eq!(shape["byPlacement"], json!({"r1": 1}));
                // Two pods fit on the other nodes of the first rack, or of the second one.
                assert_eq!(shape["tenPercentMore"]["nodes"], 1, "{told:#}");
            }
            assert_eq!(n_simulated(constraints, fits, &flags), fits, "{release} {constraints}");
            assert_eq!(n_simulated(constraints, fits + 1, &flags), fits, "{release} {constraints}");
        }
    }
}

#[test]
fn a_copy_counts_only_as_a_whole_though_its_gang_is_smaller() {
    // Five pods fit, and two of the second copy would be enough for its gang.
    let nodes = racks().replace("cpu: '1'", "cpu: '0'").replacen("cpu: '4'", "cpu: '2'", 1);
    let model = group("train", 2, "");
    let files = [("a.yaml", nodes.as_str()), ("train.yaml", model.as_str())];
    let line = format!("capacity -f a.yaml --pod-file train.yaml {GATES} -o json --remedies 1");
    let told = answer(&files, &line);
    let shape = &told["shapes"][0];
    assert_eq!(shape["fits"], 1, "{told:#}");
    let why = shape["stoppedBy"].as_str().expect("something stops it");
    assert!(why.starts_with("only 2 of its 3 pods would have a node: 0/4 nodes are"), "{why}");
}

#[test]
fn groups_of_the_cluster_are_counted_by_name_and_with_all_shapes() {
    let room = "apiVersion: v1\nkind: Node\nmetadata: {name: n3}\nstatus: {allocatable: {cpu: '13', pods: '10'}}\n---\n";
    let cluster = format!("{room}{CLUSTER}");
    let files = [("a.yaml", cluster.as_str()), ("more.yaml", MORE)];
    let told = answer(&files, &format!("capacity -f a.yaml --group train {GATES} -o json"));
    is_of_schema("Capacity", &told);
    let shape = &told["shapes"][0];
    assert_eq!((&shape["fits"], &shape["byNode"]), (&json!(2), &json!({"n3": 4})), "{told:#}");
    let remedies = shape["remedies"].as_array().expect("something helps");
    assert!(remedies.iter().any(|one| one["placed"] == 2 && one["pods"] == 2), "{told:#}");
    let texts: Vec<_> = remedies.iter().map(|one| one["text"].to_string()).collect();
    assert!(texts.iter().all(|text| !text.contains("-copy")), "copies stay: {texts:?}");
    // The pods of a group have a controller, too, but are counted as a group only.
    let all = answer(&files, &format!("capacity -f a.yaml --all-shapes {GATES} -o json"));
    assert_eq!(all["shapes"].as_array().map(Vec::len), Some(1), "{all:#}");
    assert_eq!(
        (&all["shapes"][0]["group"], &all["shapes"][0]["fits"]),
        (&json!("default/train"), &json!(2))
    );
    let train = answer(
        &files,
        &format!("capacity -f a.yaml --pod-file more.yaml --limit 5 {GATES} -o json"),
    );
    assert_eq!(train["shapes"][0]["fits"], 2, "a third copy would be more than five pods");
    assert_eq!(train["shapes"][0].get("stoppedBy"), None);
}

#[test]
fn a_workload_whose_template_names_a_group_stands_for_all_its_pods() {
    let job = "\
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: batch, namespace: default}
spec: {schedulingPolicy: {gang: {minCount: 3}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: batch}
spec: {parallelism: 3, template: {spec: {schedulingGroup: {podGroupName: batch}, containers: [{name: c, resources: {requests: {cpu: '2'}}}]}}}
";
    let racks = racks();
    let files = [("a.yaml", racks.as_str()), ("job.yaml", job)];
    let line = "capacity -f a.yaml --pod-file job.yaml";
    let told = answer(&files, &format!("{line} {GATES} -o json --remedies 0"));
    let shape = &told["shapes"][0];
    assert_eq!((&shape["pods"], &shape["fits"]), (&json!(3), &json!(2)), "{told:#}");
    let text = run(&files, &format!("{line} {GATES} --remedies 1"));
    assert_eq!((text.status, text.err.as_str()), (0, ""));
    assert!(
        text.out.contains("; one of its pods: 0/4 nodes are available: 4 Insufficient cpu."),
        "{}",
        text.out
    );
    let row = text.out.lines().nth(1).unwrap_or_default();
    assert!(
        row.starts_with("default/batch (3 pods)     2  n1 2, n2 2, n3 2  2 nodes like n1"),
        "{}",
        text.out
    );
}

#[test]
fn what_cannot_be_counted_is_refused_with_the_remedy() {
    let alone = MORE.split("---\n").next().expect("it has a group");
    let pod = MORE.split("---\n").nth(1).expect("it has pods");
    let claims = MORE.replace(
        "podGroupName: more}\n",
        "podGroupName: more}\n  resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}]\n",
    );
    let part = MORE.replace("minCount: 2}}", "minCount: 2}}, parentCompositePodGroupName: all");
    let files = [
        ("a.yaml", CLUSTER),
        ("more.yaml", MORE),
        ("alone.yaml", alone),
        ("pod.yaml", pod),
        ("claims.yaml", &claims),
        ("part.yaml", &part),
    ];
    for (asked, expected) in [
        (
            "--pod-file more.yaml".to_owned(),
            expect![[r"
                error: groups of pods are off: add --feature-gates GenericWorkload=true, and with topologies TopologyAwareWorkloadScheduling=true
            "]],
        ),
        (
            format!("--pod-file alone.yaml {GATES}"),
            expect![[r"
                error: PodGroup default/more has no pods: add their manifests
            "]],
        ),
        (
            format!("--pod-file pod.yaml {GATES}"),
            expect![[r"
                error: pod default/more-0 belongs to group default/more (spec.schedulingGroup), and there is no such PodGroup: add its manifest
            "]],
        ),
        (
            format!("--pod-file claims.yaml {GATES}"),
            expect![[r"
                error: pod default/more-0 of group default/more claims devices (spec.resourceClaims), which copies would not use up: ask `plimsoll what-if --apply` whether one more fits
            "]],
        ),
        (
            format!("--pod-file part.yaml {TOPOLOGY},CompositePodGroup=true"),
            expect![[r"
                error: PodGroup default/more is part of CompositePodGroup all (spec.parentCompositePodGroupName), which is placed as a whole: ask `plimsoll what-if --apply` whether one more fits, or leave the field out
            "]],
        ),
        (
            format!("--group other {GATES}"),
            expect![[r"
                error: group default/other is not in the files; the groups are default/train
            "]],
        ),
        (
            "--group train".to_owned(),
            expect![[r"
                error: groups of pods are off: add --feature-gates GenericWorkload=true, and with topologies TopologyAwareWorkloadScheduling=true
            "]],
        ),
    ] {
        check_refused(&files, &format!("capacity -f a.yaml {asked}"), &expected);
    }
}
