//! Topology spread constraints that must be satisfied.

use serde_json::Value;

use super::list;

const CONSTRAINTS: &str = "/spec/topologySpreadConstraints";

/// The constraints that must be satisfied.
pub(super) fn all_of(manifest: &Value) -> Vec<usize> {
    let constraints = list(manifest, CONSTRAINTS).iter().enumerate();
    let hard =
        constraints.filter(|(_, constraint)| constraint["whenUnsatisfiable"] == "DoNotSchedule");
    hard.map(|(at, _)| at).collect()
}

/// Makes a constraint a preference.
pub(crate) fn make_soft(manifest: &mut Value, at: usize) {
    manifest["spec"]["topologySpreadConstraints"][at]["whenUnsatisfiable"] =
        "ScheduleAnyway".into();
}

pub(super) fn key(manifest: &Value, at: usize) -> &str {
    manifest["spec"]["topologySpreadConstraints"][at]["topologyKey"].as_str().unwrap_or_default()
}

/// The skew that a constraint allows.
pub(crate) fn skew(manifest: &Value, at: usize) -> i64 {
    manifest["spec"]["topologySpreadConstraints"][at]["maxSkew"].as_i64().unwrap_or(1)
}

/// Makes a constraint one that must be satisfied, with another skew.
pub(crate) fn allow_skew(manifest: &mut Value, at: usize, skew: i64) {
    let constraint = &mut manifest["spec"]["topologySpreadConstraints"][at];
    constraint["whenUnsatisfiable"] = "DoNotSchedule".into();
    constraint["maxSkew"] = skew.into();
}

/// A larger skew in words.
pub(crate) fn skew_text(manifest: &Value, at: usize, skew: i64) -> String {
    let before = self::skew(manifest, at);
    format!("allow a skew of {skew} instead of {before} over {}", key(manifest, at))
}
