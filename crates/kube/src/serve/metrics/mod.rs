//! Metrics for Prometheus.

mod constant;
mod go_float;
mod process;
mod resources;
mod text;

use axum::response::Response;
use http::{HeaderValue, StatusCode};
use plimsoll_engine::metrics::{Family, Stability};
use prometheus::Registry;

use constant::constants;
pub(super) use process::started;
pub(super) use resources::resources;
use text::{Printed, SampleType, TEXT_FORMAT, as_f64};

use super::health::Health;
use super::process_info::{Build, Feature};
use super::reply;

/// All metrics: those of the engine, of other registries, and of the process.
pub(super) fn all(
    engine: &[Family],
    registries: &[Registry],
    build: &Build,
    features: &[Feature],
) -> Response {
    let mut all: Vec<Printed> = engine.iter().map(Printed::from).collect();
    for registry in registries {
        all.extend(registry.gather().iter().map(Printed::from));
    }
    all.extend(constants(build, features));
    all.extend(process::metrics());
    answer(text::print(all))
}

/// The results of health checks (`/metrics/slis`). As in component-base's prometheus/slis/metrics.go.
pub(super) fn slis(health: &Health) -> Response {
    let mut last = Printed::new(
        "kubernetes_healthcheck",
        Stability::Stable,
        "This metric records the result of a single healthcheck.",
        SampleType::Gauge,
    );
    let mut total = Printed::new(
        "kubernetes_healthchecks_total",
        Stability::Stable,
        "This metric records the results of all healthcheck.",
        SampleType::Counter,
    );
    for ((name, endpoint), results) in health.results() {
        let labels = [("name", name.as_str()), ("type", endpoint)];
        last.push(&labels, f64::from(u8::from(results.well)));
        for (status, count) in [("success", results.successes), ("error", results.errors)] {
            if count != 0 {
                total.push(&[labels[0], labels[1], ("status", status)], as_f64(count));
            }
        }
    }
    answer(text::print(vec![last, total]))
}

fn answer(text: String) -> Response {
    reply::of_type(StatusCode::OK, HeaderValue::from_static(TEXT_FORMAT), text)
}
