//! What is counted about groups of pods.

use plimsoll_api::wire;
use plimsoll_engine::metrics::{Family, Value};
use plimsoll_engine::{Engine, Event};
use plimsoll_framework::Release;
use plimsoll_sim::{InitialCluster, Simulation};
use serde_json::{Value as Json, json};

use crate::groups::scheduler;

fn node(name: &str, zone: &str, cpu: &str) -> Json {
    let allocatable = json!({"cpu": cpu, "memory": "64Gi", "pods": "20"});
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"zone": zone}}, "status": {"allocatable": allocatable},
    })
}

fn pod(name: &str, group: &str, cpu: &str, priority: i32) -> Json {
    let containers = json!([{"name": "c", "resources": {"requests": {"cpu": cpu}}}]);
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"containers": containers, "priority": priority, "schedulingGroup": {"podGroupName": group}},
    })
}

fn group(name: &str, spec: &Json) -> Json {
    let metadata = json!({"name": name, "namespace": "default", "uid": name});
    json!({"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": metadata, "spec": spec})
}

fn gang(least: u32) -> Json {
    json!({"schedulingPolicy": {"gang": {"minCount": least}}})
}

/// A simulation of 1.37 that has come to rest after each call.
struct Script(Simulation);

impl Script {
    fn new() -> Self {
        let scheduler = scheduler(Release::V1_37, Engine::Fast);
        Script(Simulation::new(scheduler, InitialCluster::default()))
    }

    fn happens(&mut self, objects: &[Json]) {
        for object in objects {
            let object = wire::object(object).expect("it is right");
            self.0.happens(Event::is(object).expect("it is read"));
        }
        while self.0.advance().is_some() {}
    }

    fn metrics(&self) -> Metrics {
        Metrics(self.0.scheduler().metrics())
    }
}

struct Metrics(Vec<Family>);

impl Metrics {
    /// The values of the series of a metric that have these labels.
    fn values<'a>(&'a self, name: &str, labels: &'a [&str]) -> impl Iterator<Item = &'a Value> {
        let families = self.0.iter().filter(move |family| family.descriptor.name == name);
        let has = |own: &[plimsoll_api::Str]| {
            labels.iter().all(|label| own.iter().any(|own| own.as_str() == *label))
        };
        families
            .collect::<Vec<_>>()
            .into_iter()
            .flat_map(|family| &family.series)
            .filter(move |series| has(&series.labels))
            .map(|series| &series.value)
    }

    /// The sum of the numbers of the series of a metric that have these labels.
    fn number(&self, name: &str, labels: &[&str]) -> u64 {
        let values = self.values(name, labels).map(|value| match value {
            Value::Number(number) => *number,
            other => panic!("{name} is {other:?}"),
        });
        values.sum()
    }

    /// How many values histograms have that have these labels, and their sum.
    fn histogram(&self, name: &str, labels: &[&str]) -> (u64, f64) {
        let values = self.values(name, labels).map(|value| match value {
            Value::Histogram(all) => (all.count(), all.sum()),
            other => panic!("{name} is {other:?}"),
        });
        values.fold((0, 0.0), |(n, sum), (more, other)| (n + more, sum + other))
    }
}

#[test]
fn placements_of_groups_are_counted_and_how_long_groups_wait() {
    let mut script = Script::new();
    let mut spec = gang(2);
    spec["schedulingConstraints"] = json!({"topology": [{"key": "zone"}]});
    script.happens(&[node("a", "x", "2"), node("b", "y", "4"), group("g", &spec)]);
    script.happens(&[pod("g-0", "g", "2", 0), pod("g-1", "g", "2", 0)]);
    let metrics = script.metrics();
    assert_eq!(metrics.number("scheduler_generated_placements_total", &["default-scheduler"]), 2);
    for result in ["feasible", "infeasible"] {
        assert_eq!(
            metrics.number("scheduler_placement_evaluations_total", &[result]),
            1,
            "{result}"
        );
    }
    let waited = metrics.histogram("plimsoll_podgroup_scheduling_sli_duration_seconds", &[]);
    assert_eq!(waited, (1, 0.0));
    // Both pods were gated until the second was there. They came into the queue as one entry.
    for (queue, n_pods) in [("active", 2), ("unschedulable", 2)] {
        let pods = metrics.number("scheduler_queue_incoming_pods_total", &[queue]);
        assert_eq!(pods, n_pods, "{queue}");
        let entities =
            |kind| metrics.number("scheduler_queue_incoming_entities_total", &[queue, kind]);
        assert_eq!((entities("pod"), entities("podgroup")), (0, 1), "{queue}");
    }
}

#[test]
fn evictions_for_a_group_are_counted_by_themselves() {
    let mut script = Script::new();
    script.happens(&[node("b", "y", "4"), group("g", &gang(2))]);
    script.happens(&[pod("g-0", "g", "2", 0), pod("g-1", "g", "2", 0)]);
    let mut spec = gang(1);
    spec["priority"] = json!(10);
    script.happens(&[group("urgent", &spec), pod("urgent-0", "urgent", "4", 10)]);
    let metrics = script.metrics();
    assert_eq!(metrics.number("scheduler_workload_preemption_attempts_total", &["Success"]), 1);
    assert_eq!(metrics.histogram("scheduler_workload_preemption_victims", &[]), (1, 2.0));
    let disruptions =
        |preemptor| metrics.histogram("scheduler_preemption_workload_disruptions", &[preemptor]);
    assert_eq!((disruptions("podgroup"), disruptions("pod")), ((1, 2.0), (0, 0.0)));
    let executions = metrics
        .histogram("scheduler_preemption_execution_duration_seconds", &["podgroup", "success"]);
    assert_eq!(executions.0, 1);
    assert_eq!(metrics.histogram("scheduler_preemption_victims", &[]), (0, 0.0));
}

#[test]
fn groups_that_wait_are_counted_by_the_reason() {
    let mut script = Script::new();
    script.happens(&[node("b", "y", "4"), group("few", &gang(3)), group("big", &gang(2))]);
    script.happens(&[
        pod("few-0", "few", "1", 0),
        pod("lost-0", "lost", "1", 0),
        pod("big-0", "big", "9", 0),
        pod("big-1", "big", "9", 0),
    ]);
    let metrics = script.metrics();
    let waiting = |reason| metrics.number("plimsoll_waiting_podgroups", &[reason]);
    assert_eq!((waiting("gated"), waiting("unschedulable"), waiting("queued")), (2, 1, 0));
    let pods = |queue| metrics.number("scheduler_pending_pods", &[queue]);
    assert_eq!((pods("incomplete"), pods("gated"), pods("pending")), (1, 1, 0));
    let groups = |queue| metrics.number("scheduler_queued_entities", &[queue, "podgroup"]);
    assert_eq!(groups("gated"), 1);
    assert_eq!(groups("active") + groups("backoff") + groups("unschedulable"), 1);
    assert_eq!(metrics.number("scheduler_queued_entities", &["pod"]), 0);
}
