//! Requests and limits of each pod (`/metrics/resources`).
//!
//! There are several lines for each pod, so they are generated while the client reads them.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use futures::stream;
use http::{HeaderValue, StatusCode};
use plimsoll_api::resources::{CPU, EPHEMERAL_STORAGE, HUGE_PAGES_PREFIX, MEMORY};
use plimsoll_api::{PodPhase, Resources};
use plimsoll_framework::PodInfo;

use super::text::{self, SampleType, TEXT_FORMAT};
use crate::serve::reply;

/// Lines are generated for this many pods at once: about 100 KB.
const PODS_AT_ONCE: usize = 256;

/// One of the two metrics. As in metrics/resources/resources.go.
struct Metric {
    name: &'static str,
    help: &'static str,
    of: fn(&PodInfo) -> &Resources,
}

const METRICS: [Metric; 2] = [
    Metric {
        name: "kube_pod_resource_limit",
        help: "[STABLE] Resources limit for workloads on the cluster, broken down by pod. This shows the resource usage the scheduler and kubelet expect per pod for resources along with the unit for the resource if any.",
        of: |pod| &pod.limits,
    },
    Metric {
        name: "kube_pod_resource_request",
        help: "[STABLE] Resources requested by workloads on the cluster, broken down by pod. This shows the resource usage the scheduler and kubelet expect per pod for resources along with the unit for the resource if any.",
        of: |pod| &pod.asks.fit,
    },
];

/// The requests and limits of all pods, except those that have ended.
pub(in crate::serve) fn resources(mut pods: Vec<PodInfo>) -> Response {
    pods.retain(|pod| pod.phase != PodPhase::Ended);
    pods.sort_unstable_by(|a, b| a.key.cmp(&b.key));
    let pods: Arc<[PodInfo]> = pods.into();
    let parts = METRICS.iter().flat_map(move |metric| {
        let pods = pods.clone();
        let starts = (0..pods.len()).step_by(PODS_AT_ONCE);
        starts.map(move |start| {
            let end = (start + PODS_AT_ONCE).min(pods.len());
            Ok::<_, std::convert::Infallible>(part(metric, start == 0, &pods[start..end]))
        })
    });
    let body = Body::from_stream(stream::iter(parts));
    reply::of_type(StatusCode::OK, HeaderValue::from_static(TEXT_FORMAT), body)
}

fn part(metric: &Metric, first: bool, pods: &[PodInfo]) -> String {
    let mut out = String::new();
    if first {
        text::head(&mut out, metric.name, metric.help, SampleType::Gauge);
    }
    for pod in pods {
        for (name, amount) in amounts((metric.of)(pod)) {
            let labels = [
                ("namespace", pod.key.namespace.as_str()),
                ("node", pod.node().map_or("", |node| node.as_str())),
                ("pod", &pod.key.name),
                ("priority", &pod.priority.to_string()),
                ("resource", name),
                ("scheduler", &pod.scheduler_name),
                ("unit", unit(name)),
            ];
            let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned()));
            text::line(&mut out, metric.name, &labels, None, amount);
        }
    }
    out
}

/// Resources by name with their amounts, CPU in cores; zero amounts are left out.
fn amounts(all: &Resources) -> impl Iterator<Item = (&str, f64)> {
    let named =
        [(CPU, all.milli_cpu), (EPHEMERAL_STORAGE, all.ephemeral_storage), (MEMORY, all.memory)];
    let scalar = all.scalar.iter().map(|(name, amount)| (name.as_str(), *amount));
    let mut amounts: Vec<_> =
        named.into_iter().chain(scalar).filter(|(_, amount)| *amount != 0).collect();
    amounts.sort_unstable();
    amounts.into_iter().map(|(name, amount)| (name, in_units(name, amount)))
}

#[expect(clippy::cast_precision_loss, reason = "the format knows no other numbers than floats")]
fn in_units(name: &str, amount: i64) -> f64 {
    if name == CPU { amount as f64 / 1000.0 } else { amount as f64 }
}

fn unit(name: &str) -> &'static str {
    match name {
        CPU => "cores",
        MEMORY | EPHEMERAL_STORAGE => "bytes",
        _ if name.starts_with(HUGE_PAGES_PREFIX) => "bytes",
        _ if name.starts_with("attachable-volumes-") => "integer",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use http_body_util::BodyExt as _;
    use plimsoll_api::{Asks, Pod, PodKey, PodTemplate};

    use super::*;

    fn pod(name: &str, cpu: i64) -> Pod {
        let fit = Resources {
            milli_cpu: cpu,
            memory: 1 << 20,
            scalar: [("a.com/b".into(), 2), ("hugepages-2Mi".into(), 4)].into(),
            ..Resources::default()
        };
        let template = PodTemplate {
            scheduler_name: "default-scheduler".into(),
            priority: -5,
            asks: Asks { fit, ..Asks::default() },
            ..PodTemplate::default()
        };
        Pod::new(PodKey::new("team", name), template)
    }

    async fn body(pods: Vec<PodInfo>) -> String {
        let body = resources(pods).into_body().collect().await.expect("it is at hand");
        String::from_utf8(body.to_bytes().to_vec()).expect("it is text")
    }

    #[tokio::test]
    async fn requests_and_limits_are_told_by_pod_and_resource() {
        let limits = Resources { milli_cpu: 1500, ..Resources::default() };
        let mut limited = pod("b", 0);
        limited.limits = limits;
        let ended = Pod { phase: PodPhase::Ended, ..pod("ended", 1) };
        let pods = vec![
            PodInfo::new(limited).placed_on("n".into()),
            PodInfo::new(pod("a", 100)),
            PodInfo::new(ended),
        ];
        let text =
            body(pods).await.replace(METRICS[0].help, "LIMIT").replace(METRICS[1].help, "REQUEST");
        expect![[r##"
            # HELP kube_pod_resource_limit LIMIT
            # TYPE kube_pod_resource_limit gauge
            kube_pod_resource_limit{namespace="team",node="n",pod="b",priority="-5",resource="cpu",scheduler="default-scheduler",unit="cores"} 1.5
            # HELP kube_pod_resource_request REQUEST
            # TYPE kube_pod_resource_request gauge
            kube_pod_resource_request{namespace="team",node="",pod="a",priority="-5",resource="a.com/b",scheduler="default-scheduler",unit=""} 2
            kube_pod_resource_request{namespace="team",node="",pod="a",priority="-5",resource="cpu",scheduler="default-scheduler",unit="cores"} 0.1
            kube_pod_resource_request{namespace="team",node="",pod="a",priority="-5",resource="hugepages-2Mi",scheduler="default-scheduler",unit="bytes"} 4
            kube_pod_resource_request{namespace="team",node="",pod="a",priority="-5",resource="memory",scheduler="default-scheduler",unit="bytes"} 1.048576e+06
            kube_pod_resource_request{namespace="team",node="n",pod="b",priority="-5",resource="a.com/b",scheduler="default-scheduler",unit=""} 2
            kube_pod_resource_request{namespace="team",node="n",pod="b",priority="-5",resource="hugepages-2Mi",scheduler="default-scheduler",unit="bytes"} 4
            kube_pod_resource_request{namespace="team",node="n",pod="b",priority="-5",resource="memory",scheduler="default-scheduler",unit="bytes"} 1.048576e+06
        "##]]
        .assert_eq(&text);
    }

    #[tokio::test]
    async fn many_pods_are_told_part_by_part_and_each_once() {
        let pods = (0..=PODS_AT_ONCE * 2).map(|i| PodInfo::new(pod(&format!("p{i}"), 1)));
        let text = body(pods.collect()).await;
        assert_eq!(text.matches("resource=\"cpu\"").count(), PODS_AT_ONCE * 2 + 1);
        assert_eq!(text.matches("# TYPE").count(), 2);
    }
}
