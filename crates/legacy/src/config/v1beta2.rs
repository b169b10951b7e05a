//! v1beta2, as release 1.26 reads it.

use super::changes::{ALWAYS, GONE_IN_V1BETA2, GROWN_SINCE_1_26, LOCKS, instead_in_v1beta2};
use plimsoll_config::Point;
use plimsoll_config::rules::{Again, ArgsRules, Base, PointLists, Refused, Rules, Spreading};

pub(crate) const VERSION: &str = "kubescheduler.config.k8s.io/v1beta2";

pub(super) fn rules() -> Rules {
    Rules {
        version: VERSION,
        base: Base::Lists { lists: default_lists(), again: Again::Replaces },
        refused: Refused { plugins: &GONE_IN_V1BETA2, since: VERSION, remedy: instead_in_v1beta2 },
        in_conflict: &[],
        args: ArgsRules {
            known: &[
                "DefaultPreemption",
                "InterPodAffinity",
                "NodeAffinity",
                "NodeResourcesBalancedAllocation",
                "NodeResourcesFit",
                "PodTopologySpread",
                "VolumeBinding",
            ],
            dropped: &[],
            lacking: &[("InterPodAffinity", "ignorePreferredTermsOfExistingPods")],
            spreading: Spreading::System,
            rejects_overcommitted_nodes: false,
        },
        locks: &LOCKS,
        grown: &GROWN_SINCE_1_26,
        always: &ALWAYS,
    }
}

/// As in apis/config/v1beta2/default_plugins.go, getDefaultPlugins.
fn default_lists() -> PointLists {
    vec![
        (Point::QueueSort, vec![("PrioritySort", 0)]),
        (
            Point::PreFilter,
            vec![
                ("NodeResourcesFit", 0),
                ("NodePorts", 0),
                ("VolumeRestrictions", 0),
                ("PodTopologySpread", 0),
                ("InterPodAffinity", 0),
                ("VolumeBinding", 0),
                ("VolumeZone", 0),
                ("NodeAffinity", 0),
            ],
        ),
        (
            Point::Filter,
            vec![
                ("NodeUnschedulable", 0),
                ("NodeName", 0),
                ("TaintToleration", 0),
                ("NodeAffinity", 0),
                ("NodePorts", 0),
                ("NodeResourcesFit", 0),
                ("VolumeRestrictions", 0),
                ("EBSLimits", 0),
                ("GCEPDLimits", 0),
                ("NodeVolumeLimits", 0),
                ("AzureDiskLimits", 0),
                ("VolumeBinding", 0),
                ("VolumeZone", 0),
                ("PodTopologySpread", 0),
                ("InterPodAffinity", 0),
            ],
        ),
        (Point::PostFilter, vec![("DefaultPreemption", 0)]),
        (
            Point::PreScore,
            vec![
                ("InterPodAffinity", 0),
                ("PodTopologySpread", 0),
                ("TaintToleration", 0),
                ("NodeAffinity", 0),
            ],
        ),
        (
            Point::Score,
            vec![
                ("NodeResourcesBalancedAllocation", 1),
                ("ImageLocality", 1),
                ("InterPodAffinity", 1),
                ("NodeResourcesFit", 1),
                ("NodeAffinity", 1),
                ("PodTopologySpread", 2),
                ("TaintToleration", 1),
            ],
        ),
        (Point::Reserve, vec![("VolumeBinding", 0)]),
        (Point::PreBind, vec![("VolumeBinding", 0)]),
        (Point::Bind, vec![("DefaultBinder", 0)]),
    ]
}
