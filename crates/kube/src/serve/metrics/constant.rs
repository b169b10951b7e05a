//! Metrics that never change: build information and feature gates.

use plimsoll_engine::metrics::Stability;

use super::text::{Printed, SampleType};
use crate::serve::process_info::{Build, Feature};

/// Build information and feature gates. As in component-base's metrics/version.go and
/// prometheus/feature/metrics.go.
pub(super) fn constants(build: &Build, features: &[Feature]) -> Vec<Printed> {
    let info = Printed::new(
        "kubernetes_build_info",
        Stability::Alpha,
        "A metric with a constant '1' value labeled by major, minor, git version, git commit, git tree state, build date, Go version, and compiler from which Kubernetes was built, and platform on which it is running.",
        SampleType::Gauge,
    );
    let info = info.with(
        &[
            ("major", &build.major),
            ("minor", &build.minor),
            ("git_version", &build.git_version),
            ("git_commit", &build.git_commit),
            ("git_tree_state", &build.git_tree_state),
            ("build_date", &build.build_date),
            ("go_version", &build.go_version),
            ("compiler", &build.compiler),
            ("platform", &build.platform),
        ],
        1.0,
    );
    let mut enabled = Printed::new(
        "kubernetes_feature_enabled",
        Stability::Beta,
        "This metric records the data about the stage and enablement of a k8s feature.",
        SampleType::Gauge,
    );
    for Feature { name, stage, enabled: on } in features {
        enabled.push(&[("name", name), ("stage", stage)], f64::from(u8::from(*on)));
    }
    vec![info, enabled]
}
