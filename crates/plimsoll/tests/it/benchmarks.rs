//! `plimsoll bench`: what it prints, without the times.

use expect_test::{Expect, expect};
use serde_json::Value;

use crate::manifests::CLUSTER;
use crate::run::{STDIN, check_refused, records, run};

/// Compares the figures that do not depend on the machine.
#[track_caller]
fn check(line: &str, expected: &Expect) {
    let mut text = String::new();
    for mut record in records(&[], &format!("bench {line} -o json")) {
        let figures = record.as_object_mut().expect("a record is an object");
        forget_times(figures);
        let phases = figures.get_mut("phases").and_then(Value::as_array_mut);
        phases.into_iter().flatten().filter_map(Value::as_object_mut).for_each(forget_times);
        text += &record.to_string();
        text += "\n";
    }
    expected.assert_eq(&text);
}

fn forget_times(figures: &mut serde_json::Map<String, Value>) {
    let seconds = |name: &str| figures[name].as_f64().expect("it is a number");
    assert!(0.0 < seconds("seconds"));
    assert!(seconds("p50Seconds") <= seconds("p99Seconds"));
    assert!(seconds("p99Seconds") <= seconds("maxSeconds"));
    let is_of_the_machine = |name: &str| {
        name.to_lowercase().contains("second") || ["peakMemoryBytes", "placements"].contains(&name)
    };
    figures.retain(|name, _| !is_of_the_machine(name));
}

#[test]
fn a_record_has_the_sizes_and_the_results_of_a_workload() {
    check(
        "SchedulingPodAntiAffinity --nodes 5 --init-pods 1 --pods 6 --seed 7",
        &expect![[r#"
            {"audited":0,"decisions":6,"differing":0,"engine":"fast","evicted":0,"failed":2,"initPods":1,"nodes":5,"pods":6,"runs":1,"scheduled":4,"seed":7,"unschedulable":2,"workload":"SchedulingPodAntiAffinity"}
        "#]],
    );
}

#[test]
fn parts_of_a_workload_have_their_own_figures() {
    check(
        "Unschedulable --nodes 5 --init-pods 1 --pods 3",
        &expect![[r#"
            {"audited":0,"decisions":6,"differing":0,"engine":"fast","evicted":0,"failed":5,"initPods":1,"nodes":5,"phases":[{"decisions":3,"evicted":0,"failed":3,"phase":"park","pods":3,"scheduled":0},{"decisions":3,"evicted":0,"failed":2,"phase":"wake","pods":0,"scheduled":1}],"pods":3,"runs":1,"scheduled":1,"seed":0,"unschedulable":2,"workload":"Unschedulable"}
        "#]],
    );
}

#[test]
fn several_runs_and_workloads_give_one_record_for_each_workload() {
    check(
        "ClassSweep HotNodes --nodes 5 --init-pods 0 --pods 4 --classes 2 --runs 3",
        &expect![[r#"
            {"audited":0,"classes":2,"decisions":4,"differing":0,"engine":"fast","evicted":0,"failed":0,"initPods":0,"nodes":5,"pods":4,"runs":3,"scheduled":4,"seed":0,"unschedulable":0,"workload":"ClassSweep"}
            {"audited":0,"classes":2,"decisions":4,"differing":0,"engine":"fast","evicted":0,"failed":0,"initPods":0,"nodes":5,"pods":4,"runs":3,"scheduled":4,"seed":0,"unschedulable":0,"workload":"HotNodes"}
        "#]],
    );
    check(
        "Churn --nodes 5 --init-pods 90 --pods 20 --deployments 4 --runs 2",
        &expect![[r#"
            {"audited":0,"decisions":20,"deployments":4,"differing":0,"engine":"fast","evicted":0,"failed":0,"initPods":90,"nodes":5,"pods":20,"runs":2,"scheduled":20,"seed":0,"unschedulable":0,"workload":"Churn"}
        "#]],
    );
}

#[test]
fn the_table_has_a_line_for_each_workload_and_each_of_its_parts() {
    let line = "bench ClassSweep --nodes 5 --pods 4 --classes 2 --audit 0";
    let table = run(&[], line).out;
    let mut lines = table.lines();
    let headings = lines.next().expect("there are headings");
    assert!(headings.starts_with("WORKLOAD"), "{table}");
    assert!(!headings.contains("AUDITED"), "nothing is audited: {table}");
    assert!(lines.next().is_some_and(|line| line.starts_with("ClassSweep (2 classes)")), "{table}");
    let table = run(&[], "bench Unschedulable --nodes 5 --init-pods 0 --pods 3").out;
    let names: Vec<_> =
        table.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["Unschedulable", "park", "wake"]);
}

#[test]
fn one_more_run_is_audited() {
    let line = "bench ClassSweep --nodes 5 --init-pods 5 --pods 40 --classes 2";
    let audited = |more: &str| {
        let record = records(&[], &format!("{line} {more} -o json")).remove(0);
        assert_eq!(record["decisions"], 40, "the audit is beside what is measured");
        (record["audited"].clone(), record["differing"].clone())
    };
    assert_eq!(audited("--audit 4"), (11.into(), 0.into()), "those of the initial pods, too");
    assert_eq!(audited("--audit 4 --audit-pods 7 --runs 2"), (3.into(), 0.into()));
    assert_eq!(audited("--audit 0"), (Value::Null, Value::Null));
    assert_eq!(audited("--engine reference"), (Value::Null, Value::Null));
    let table = run(&[], &format!("{line} --audit 4")).out;
    let last: Vec<&str> = table.lines().map(|line| line.split_at(line.len() - 20).1).collect();
    assert_eq!(last, ["  AUDITED  DIFFERING", "       11          0"], "{table}");
}

#[test]
fn only_claims_with_alternatives_are_decided_from_scratch_in_a_workload() {
    for workload in records_of(&run(&[], "bench --list -o json").out) {
        let name = workload["workload"].as_str().expect("a workload has a name");
        let sizes = "--nodes 30 --init-pods 5 --pods 10 --audit 1";
        let record = &records(&[], &format!("bench {name} {sizes} -o json"))[0];
        let [audited, decisions] =
            ["audited", "decisions"].map(|field| record[field].as_u64().expect("it is a number"));
        let failed = record["failed"].as_u64().expect("it is a number");
        // Some pods there are rejected before any node is looked at, such as those whose claims are in use. They are
        // decided from scratch, at no cost.
        let rejected = if name.starts_with("EventHandling") { failed } else { 0 };
        // Decisions from scratch are not audited.
        assert!(decisions <= audited + rejected, "{record}");
        assert_eq!(record["differing"], 0, "{record}");
    }
}

#[test]
fn both_engines_are_measured_in_turn_and_compared() {
    let line = "bench SchedulingPodAntiAffinity --nodes 6 --init-pods 2 --pods 5 --engine both";
    let records = records(&[], &format!("{line} --runs 2 -o json"));
    let engines: Vec<_> = records.iter().map(|record| record["engine"].as_str()).collect();
    assert_eq!(engines, [Some("fast"), Some("reference")]);
    assert_eq!(records[0]["placements"], records[1]["placements"]);
    let seconds = |record: &Value| record["seconds"].as_f64().expect("it is a number");
    let ratio = records[0]["referenceRatio"].as_f64().expect("it is a number");
    assert!((ratio - seconds(&records[1]) / seconds(&records[0])).abs() < 1e-6 * ratio);
    assert!(records[1].get("referenceRatio").is_none(), "it is compared with nothing");
    let table = run(&[], line).out;
    let names: Vec<_> = table.lines().filter_map(|line| line.split("  ").next()).collect();
    let reference = "SchedulingPodAntiAffinity (from scratch)";
    assert_eq!(names, ["WORKLOAD", "SchedulingPodAntiAffinity", reference], "{table}");
    assert!(table.lines().next().is_some_and(|line| line.contains("  REFERENCE  ")), "{table}");
}

#[test]
fn another_seed_gives_other_placements() {
    let placements = |seed: u32| {
        let line = format!("bench Churn --nodes 5 --init-pods 90 --pods 20 --seed {seed} -o json");
        records(&[], &line).remove(0)["placements"].clone()
    };
    assert_eq!(placements(1), placements(1));
    assert_ne!(placements(1), placements(2));
}

#[test]
fn all_workloads_are_listed() {
    let table = run(&[], "bench --list").out;
    let listed = records_of(&run(&[], "bench --list -o json").out);
    assert_eq!(table.lines().count(), 1 + listed.len());
    for workload in &listed {
        let name = workload["workload"].as_str().expect("a workload has a name");
        assert!(table.lines().any(|line| line.starts_with(&format!("{name} "))), "{name}");
    }
}

#[test]
fn the_page_about_performance_has_all_workloads_with_their_sizes() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/performance.md");
    let page = std::fs::read_to_string(path).expect("the page is there").replace(',', "");
    for workload in records_of(&run(&[], "bench --list -o json").out) {
        let name = workload["workload"].as_str().expect("a workload has a name");
        let [nodes, init_pods, pods] = ["nodes", "initPods", "pods"].map(|size| &workload[size]);
        let row = format!("| {name} | {nodes} | {init_pods} | {pods} | ");
        assert!(page.lines().any(|line| line.starts_with(&row)), "{row}");
    }
}

fn records_of(json: &str) -> Vec<Value> {
    serde_json::from_str(json).expect("it is a list")
}

#[test]
fn a_configuration_decides_where_pods_go() {
    let config = r#"
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {multiPoint: {disabled: [{name: InterPodAffinity}]}}
"#;
    let line = "bench SchedulingPodAntiAffinity --nodes 5 --init-pods 1 --pods 6 -o json";
    let scheduled = |files, line: &str| records(files, line).remove(0)["scheduled"].clone();
    assert_eq!(scheduled(&[], line), 4);
    assert_eq!(scheduled(&[("c.yaml", config)], &format!("{line} --config c.yaml")), 6);
}

#[test]
fn a_configuration_for_other_schedulers_is_refused() {
    let config = r#"
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: someone-else
"#;
    check_refused(
        &[("c.yaml", config)],
        "bench Scale --config c.yaml --runs 2",
        &expect![[r#"
        error: no profile of the configuration has the schedulerName default-scheduler, which all pods have
    "#]],
    );
}

#[test]
fn groups_that_a_workload_does_not_have_are_refused() {
    check_refused(
        &[],
        "bench Scale ClassSweep --classes 3",
        &expect![[r#"
        error: Scale has no classes of pods: leave out --classes
    "#]],
    );
    check_refused(
        &[],
        "bench ClassSweep --deployments 3",
        &expect![[r#"
        error: ClassSweep has no Deployments: leave out --deployments
    "#]],
    );
}

#[test]
fn several_runs_do_not_share_standard_input() {
    let files: &[(&str, &str)] = &[(STDIN, CLUSTER)];
    let answer = run(files, "bench Scale --config - --runs 2");
    assert_eq!((answer.status, answer.out.as_str()), (1, ""));
    assert!(answer.err.contains("only a single run can read"), "{}", answer.err);
}

#[test]
fn errors_in_a_configuration_are_reported_once() {
    let files: &[(&str, &str)] = &[("c.yaml", "kind: Pod\napiVersion: v1\n")];
    let answer = run(files, "bench Scale --config c.yaml --runs 3");
    assert_eq!((answer.status, answer.out.as_str()), (1, ""));
    assert_eq!(answer.err.matches("c.yaml").count(), 1, "{}", answer.err);
}
