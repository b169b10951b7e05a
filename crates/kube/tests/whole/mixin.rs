//! The queries of kubernetes-mixin about kube-scheduler: its dashboard `scheduler.json` and its recording rules, as
//! many find them in their clusters.
//!
//! Those are left out that find nothing in kube-scheduler 1.36 either (`scheduler_e2e_scheduling_duration_seconds`,
//! `scheduler_binding_duration_seconds` and `scheduler_volume_scheduling_duration_seconds` are gone there, and the
//! API server never answers with 3xx), what Prometheus says by itself (`up`), and `go_goroutines`: there is no Go
//! here. What took the place of metrics that are gone is asked in the same way.

/// Which label of the mixin kube-scheduler has no more, either: a query that groups by it gets one group.
pub(crate) const NO_MORE: &str = "url";

/// The queries, by panel or rule.
pub(crate) fn queries() -> Vec<(&'static str, String)> {
    let target = r#"cluster="$cluster", job="kube-scheduler", instance=~"$instance""#;
    let mut queries = Vec::new();
    for metric in [
        "scheduler_scheduling_algorithm_duration_seconds",
        "scheduler_scheduling_attempt_duration_seconds",
        "scheduler_pod_scheduling_sli_duration_seconds",
    ] {
        let rate = format!("sum(rate({metric}_count{{{target}}}[5m])) by (cluster, instance)");
        let latency = format!(
            "histogram_quantile(0.99, sum(rate({metric}_bucket{{{target}}}[5m])) by (cluster, instance, le))"
        );
        let rule = format!(
            "histogram_quantile(0.9, sum(rate({metric}_bucket{{job=\"kube-scheduler\"}}[5m])) \
             without(instance, pod))"
        );
        queries.extend([
            ("Scheduling Rate", rate),
            ("Scheduling latency 99th Quantile", latency),
            ("cluster_quantile:METRIC:histogram_quantile", rule),
        ]);
    }
    for code in ["2..", "4..", "5.."] {
        let rate =
            format!("sum(rate(rest_client_requests_total{{{target},code=~\"{code}\"}}[5m]))");
        queries.push(("Kube API Request Rate", rate));
    }
    for (panel, verb) in [
        ("Post Request Latency 99th Quantile", "POST"),
        ("Get Request Latency 99th Quantile", "GET"),
    ] {
        let latency = format!(
            "histogram_quantile(0.99, sum(rate(rest_client_request_duration_seconds_bucket{{{target}, \
             verb=\"{verb}\"}}[5m])) by (verb, {NO_MORE}, le))"
        );
        queries.push((panel, latency));
    }
    queries.extend([
        ("Memory", format!("process_resident_memory_bytes{{{target}}}")),
        ("CPU usage", format!("rate(process_cpu_seconds_total{{{target}}}[5m])")),
    ]);
    queries
}
