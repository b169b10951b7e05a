//! The fields that versions before v1 have and v1 does not, and the other way round.

use plimsoll_config::Form;

use super::form::{V1ALPHA1, V1ALPHA2, V1BETA1, V1BETA2};

/// How the fields of a version differ from those of v1.
pub(super) struct FieldRules {
    /// Top-level fields that v1 has and the version does not.
    pub(super) lacks: &'static [&'static str],
    /// The same for fields of profiles.
    pub(super) profile_lacks: &'static [&'static str],
    /// The same for points of `plugins`.
    pub(super) point_lacks: &'static [&'static str],
    /// Top-level fields of the version that have no effect.
    pub(super) dropped: &'static [&'static str],
    /// Whether there is a point `unreserve`.
    pub(super) has_unreserve: bool,
}

const ADDRESSES: [&str; 2] = ["healthzBindAddress", "metricsBindAddress"];

pub(super) fn rules(form: Form) -> FieldRules {
    let v1beta3 = FieldRules {
        lacks: &["delayCacheUntilActive"],
        profile_lacks: &["percentageOfNodesToScore"],
        point_lacks: &["placementGenerate", "placementScore", "podGroupPostFilter"],
        dropped: &[],
        has_unreserve: false,
    };
    match form {
        V1BETA2 => FieldRules {
            point_lacks: &[
                "multiPoint",
                "placementGenerate",
                "placementScore",
                "podGroupPostFilter",
            ],
            dropped: &ADDRESSES,
            ..v1beta3
        },
        V1BETA1 => FieldRules {
            point_lacks: &[
                "multiPoint",
                "preEnqueue",
                "placementGenerate",
                "placementScore",
                "podGroupPostFilter",
            ],
            dropped: &ADDRESSES,
            ..v1beta3
        },
        V1ALPHA2 => FieldRules {
            lacks: &["delayCacheUntilActive", "parallelism"],
            point_lacks: &[
                "multiPoint",
                "preEnqueue",
                "placementGenerate",
                "placementScore",
                "podGroupPostFilter",
            ],
            dropped: &ADDRESSES,
            has_unreserve: true,
            ..v1beta3
        },
        V1ALPHA1 => FieldRules {
            lacks: &["delayCacheUntilActive", "parallelism", "extenders", "profiles"],
            // The percentage is a top-level field, which the version has.
            profile_lacks: &[],
            point_lacks: &[
                "multiPoint",
                "preEnqueue",
                "preScore",
                "placementGenerate",
                "placementScore",
                "podGroupPostFilter",
            ],
            dropped: &["healthzBindAddress", "metricsBindAddress", "failureDomains"],
            has_unreserve: true,
        },
        _ => v1beta3,
    }
}

/// What happened to a field without effect.
pub(super) fn fate(key: &str) -> &'static str {
    match key {
        "failureDomains" => "is dropped: it has had no effect since 1.8",
        _ => {
            "is dropped: since 1.23 health and metrics are served only on the secure port, which the \
             flags --bind-address and --secure-port set"
        }
    }
}
