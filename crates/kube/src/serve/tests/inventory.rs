//! The metrics are those of kube-scheduler 1.36 and 1.37: names, types, labels, buckets and stability.

use std::fmt::Write as _;
use std::sync::Arc;

use expect_test::expect;
use plimsoll_engine::metrics::{
    Buckets, Descriptor, Family, Histogram, MetricSeries, MetricType, Value, inventory,
};
use plimsoll_framework::Release;

use super::fixture::{FakeScheduler, ServerFixture, api_server};

/// Name, type, labels, buckets (first, factor, how many) and stability, as kube-scheduler 1.36 has them.
const KNOWN: &str = "
scheduler_cache_size                                 G type                            -             ALPHA
scheduler_event_handling_duration_seconds            H event                           0.0001,2,12   ALPHA
scheduler_framework_extension_point_duration_seconds H extension_point,status,profile  0.0001,2,12   STABLE
scheduler_goroutines                                 G operation                       -             BETA
scheduler_inflight_events                            G event                           -             ALPHA
scheduler_pending_pods                               G queue                           -             STABLE
scheduler_permit_wait_duration_seconds               H result                          0.001,2,15    BETA
scheduler_plugin_evaluation_total                    C plugin,extension_point,profile  -             BETA
scheduler_plugin_execution_duration_seconds          H plugin,extension_point,status   0.00001,1.5,20 ALPHA
scheduler_pod_scheduled_after_flush_total            C -                               -             ALPHA
scheduler_pod_scheduling_attempts                    H -                               1,2,5         STABLE
scheduler_pod_scheduling_sli_duration_seconds        H attempts                        0.01,2,20     BETA
scheduler_podgroup_schedule_attempts_total           C result,profile                  -             ALPHA
scheduler_podgroup_scheduling_algorithm_duration_seconds H -                           0.001,2,15    ALPHA
scheduler_podgroup_scheduling_attempt_duration_seconds H result,profile                0.001,2,15    ALPHA
scheduler_preemption_attempts_total                  C -                               -             STABLE
scheduler_preemption_goroutines_duration_seconds     H result                          0.01,2,20     ALPHA
scheduler_preemption_goroutines_execution_total      C result                          -             ALPHA
scheduler_preemption_victims                         H -                               1,2,7         STABLE
scheduler_queue_incoming_pods_total                  C queue,event                     -             STABLE
scheduler_queueing_hint_execution_duration_seconds   H plugin,event,hint               0.00001,1.5,20 ALPHA
scheduler_schedule_attempts_total                    C result,profile                  -             STABLE
scheduler_scheduling_algorithm_duration_seconds      H -                               0.001,2,15    ALPHA
scheduler_scheduling_attempt_duration_seconds        H result,profile                  0.001,2,15    STABLE
scheduler_unschedulable_pods                         G plugin,profile                  -             BETA
";

/// What is different or new in kube-scheduler 1.37.
const CHANGED: &str = "
scheduler_generated_placements_total                 C profile                         -             ALPHA
scheduler_placement_evaluation_duration_seconds      H result,profile                  0.001,2,15    ALPHA
scheduler_placement_evaluations_total                C result,profile                  -             ALPHA
scheduler_plugin_execution_duration_seconds          H plugin,extension_point,status   0.00001,1.5,20 BETA
scheduler_preemption_evaluation_duration_seconds     H preemptor,result                0.001,2,16    ALPHA
scheduler_preemption_execution_duration_seconds      H preemptor,result                0.001,2,16    ALPHA
scheduler_preemption_pdb_violations_total            C preemptor                       -             ALPHA
scheduler_preemption_workload_disruptions            H preemptor                       1,2,11        ALPHA
scheduler_queue_incoming_entities_total              C queue,event,type                -             ALPHA
scheduler_queued_entities                            G queue,type                      -             ALPHA
scheduler_scheduling_algorithm_duration_seconds      H -                               0.001,2,15    BETA
scheduler_workload_preemption_attempts_total         C result                          -             ALPHA
scheduler_workload_preemption_victims                H -                               1,2,11        ALPHA
";

#[test]
fn the_inventory_is_that_of_kube_scheduler() {
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines = |text: &str| -> Vec<String> {
        text.lines().filter(|line| !line.is_empty()).map(words).collect()
    };
    let old = lines(KNOWN);
    assert_eq!(descriptors(Release::V1_36), old);
    let changed = lines(CHANGED);
    let name = |line: &String| line.split(' ').next().unwrap_or_default().to_owned();
    let names: Vec<String> = changed.iter().map(name).collect();
    let mut new: Vec<String> =
        old.into_iter().filter(|line| !names.contains(&name(line))).chain(changed).collect();
    new.sort_by_key(name);
    let mut current = descriptors(Release::V1_37);
    current.sort_by_key(name);
    assert_eq!(current, new);
}

/// The metrics of a release, a line each.
fn descriptors(release: Release) -> Vec<String> {
    let list = |all: &[&str]| if all.is_empty() { "-".to_owned() } else { all.join(",") };
    inventory(release)
        .filter(|one| one.name.starts_with("scheduler_"))
        .map(|one| {
            let (kind, buckets) = match one.metric_type {
                MetricType::Counter => ("C", "-".to_owned()),
                MetricType::Gauge => ("G", "-".to_owned()),
                MetricType::Histogram(Buckets { start, factor, count }) => {
                    ("H", format!("{start},{factor},{count}"))
                }
            };
            let (labels, stability) = (list(one.labels), one.stability.as_str());
            format!("{} {kind} {labels} {buckets} {stability}", one.name)
        })
        .collect()
}

/// Every metric, with a value.
fn all() -> Vec<Family> {
    let series = |labels: &[&str], value| {
        let labels = labels.iter().map(|label| format!("some-{label}").into()).collect();
        vec![MetricSeries { labels, value }]
    };
    let value = |kind| match kind {
        MetricType::Counter | MetricType::Gauge => Value::Number(7),
        MetricType::Histogram(buckets) => {
            let mut histogram = Histogram::new(buckets);
            histogram.observe(buckets.start);
            Value::Histogram(histogram)
        }
    };
    let family = |descriptor: &'static Descriptor| {
        let Descriptor { labels, metric_type, .. } = *descriptor;
        Family { descriptor, series: series(labels, value(metric_type)) }
    };
    inventory(Release::NEWEST).map(family).collect()
}

async fn page(families: Vec<Family>) -> String {
    let fake = api_server(|_| true);
    let mut setup = ServerFixture::new(Some(&fake));
    setup.scheduler = Arc::new(FakeScheduler { families, ..FakeScheduler::default() });
    setup.start().await.get_as_jane("/metrics").await.body
}

#[tokio::test]
async fn the_page_tells_all_of_it_with_sorted_labels_and_bounds_as_go_prints_them() {
    let body = page(all()).await;
    for known in inventory(Release::NEWEST) {
        let kind = match known.metric_type {
            MetricType::Counter => "counter",
            MetricType::Gauge => "gauge",
            MetricType::Histogram(_) => "histogram",
        };
        let (name, stability) = (known.name, known.stability.as_str());
        let head = format!("# HELP {name} [{stability}] {}\n# TYPE {name} {kind}\n", known.help);
        assert!(body.contains(&head), "{head}");
    }
    let mut excerpt = String::new();
    for name in
        ["scheduler_queue_incoming_pods_total", "scheduler_plugin_execution_duration_seconds"]
    {
        for line in body.lines().filter(|line| line.starts_with(name)) {
            writeln!(excerpt, "{line}").expect("a text takes everything");
        }
    }
    expect![[r#"
        scheduler_queue_incoming_pods_total{event="some-event",queue="some-queue"} 7
        scheduler_plugin_execution_duration_seconds_bucket{extension_point="some-extension_point",plugin="some-plugin",status="some-status",le="1e-05"} 1
        scheduler_plugin_execution_duration_seconds_bucket{extension_point="some-extension_point",plugin="some-plugin",status="some-status",le="1.5000000000000002e-05"} 1
        scheduler_plugin_execution_duration_seconds_bucket{extension_point="some-extension_point",plugin="some-plugin",status="some-status",le="2.2500000000000005e-05"} 1
        scheduler_plugin_execution_duration_seconds_bucket{extension_point="some-extension_point",plugin="some-plugin",status="some-status",le="3.375000000000001e-05"} 1
        scheduler_plugin_execution_duration_seconds_bucket{extension_point="some-extension_point",plugin="some-plugin",status="some-status",le="5.062500000000001e-05"} 1
        scheduler_plugin_execution_duration_seconds_bucket{extension_point="some-extension_point",plugin="some-plugin",status="some-status",le="7.593750000000002e-05"} 1
        scheduler_plugin_execution_duration_seconds_bucket{extension_point="some-extension_point",plugin="some-plugin",status="some-status",le="0.00011390625000000003"} 1
        scheduler_plugin_execution_duration_seconds_bucket{extension_point="some-extension_point",plugin="some-plugin",status="some-status",le="0.00017085937500000006"} 1
        scheduler_plugin_execution_duration_seconds_bucket{extension_point="some-extension_point",plugin="some-plugin",status="some-status",le="0.0002562890625000001"} 1
        scheduler_plugin_execution_duration_seconds_bucket{extension_point="some-extension_point",plugin="some-plugin",status="some-status",le="0.00038443359375000017"} 1
        scheduler_plugin_execution_duration_seconds_bucket{extension_point="some-extension_point",plugin="some-plugin",status="some-status",le="0.0005766503906250003"} 1
        scheduler_plugin_execution_duration_seconds_bucket{extension_point="some-extension_point",plugin="some-plugin",status="some-status",le="0.0008649755859375004"} 1
        scheduler_plugin_execution_duration_seconds_bucket{extension_point="some-extension_point",plugin="some-plugin",status="some-status",le="0.0012974633789062506"} 1
        scheduler_plugin_execution_duration_seconds_bucket{extension_point="some-extension_point",plugin="some-plugin",status="some-status",le="0.0019461950683593758"} 1
        scheduler_plugin_execution_duration_seconds_bucket{extension_point="some-extension_point",plugin="some-plugin",status="some-status",le="0.0029192926025390638"} 1
        scheduler_plugin_execution_duration_seconds_bucket{extension_point="some-extension_point",plugin="some-plugin",status="some-status",le="0.004378938903808595"} 1
        scheduler_plugin_execution_duration_seconds_bucket{extension_point="some-extension_point",plugin="some-plugin",status="some-status",le="0.006568408355712893"} 1
        scheduler_plugin_execution_duration_seconds_bucket{extension_point="some-extension_point",plugin="some-plugin",status="some-status",le="0.009852612533569338"} 1
        scheduler_plugin_execution_duration_seconds_bucket{extension_point="some-extension_point",plugin="some-plugin",status="some-status",le="0.014778918800354007"} 1
        scheduler_plugin_execution_duration_seconds_bucket{extension_point="some-extension_point",plugin="some-plugin",status="some-status",le="0.02216837820053101"} 1
        scheduler_plugin_execution_duration_seconds_bucket{extension_point="some-extension_point",plugin="some-plugin",status="some-status",le="+Inf"} 1
        scheduler_plugin_execution_duration_seconds_sum{extension_point="some-extension_point",plugin="some-plugin",status="some-status"} 1e-05
        scheduler_plugin_execution_duration_seconds_count{extension_point="some-extension_point",plugin="some-plugin",status="some-status"} 1
    "#]]
    .assert_eq(&excerpt);
}
