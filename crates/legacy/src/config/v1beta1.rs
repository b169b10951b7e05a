//! v1beta1, as release 1.20 reads it.

use super::changes::{ALWAYS, DROPPED, GROWN, LOCKS};
use plimsoll_config::Point;
use plimsoll_config::rules::{Again, ArgsRules, Base, PointLists, Refused, Rules, Spreading};

pub(crate) const VERSION: &str = "kubescheduler.config.k8s.io/v1beta1";

pub(super) fn rules() -> Rules {
    Rules {
        version: VERSION,
        base: Base::Lists { lists: default_lists(), again: Again::Doubles },
        refused: Refused { plugins: &[], since: VERSION, remedy: |_| "" },
        in_conflict: &[
            "NodeResourcesLeastAllocated",
            "NodeResourcesMostAllocated",
            "RequestedToCapacityRatio",
        ],
        args: ArgsRules {
            known: &[
                "DefaultPreemption",
                "InterPodAffinity",
                "NodeAffinity",
                "NodeResourcesFit",
                "PodTopologySpread",
                "VolumeBinding",
            ],
            dropped: &DROPPED,
            lacking: &[
                ("InterPodAffinity", "ignorePreferredTermsOfExistingPods"),
                ("VolumeBinding", "shape"),
            ],
            spreading: Spreading::ListIfGiven,
            rejects_overcommitted_nodes: true,
        },
        locks: &LOCKS,
        grown: &GROWN,
        always: &ALWAYS,
    }
}

/// The profile of DefaultProvider.
///
/// As in algorithmprovider/registry.go of 1.20, getDefaultConfig.
pub(super) fn default_lists() -> PointLists {
    vec![
        (Point::QueueSort, vec![("PrioritySort", 0)]),
        (
            Point::PreFilter,
            vec![
                ("NodeResourcesFit", 0),
                ("NodePorts", 0),
                ("PodTopologySpread", 0),
                ("InterPodAffinity", 0),
                ("VolumeBinding", 0),
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
            vec![("InterPodAffinity", 0), ("PodTopologySpread", 0), ("TaintToleration", 0)],
        ),
        (
            Point::Score,
            vec![
                ("NodeResourcesBalancedAllocation", 1),
                ("ImageLocality", 1),
                ("InterPodAffinity", 1),
                ("NodeResourcesLeastAllocated", 1),
                ("NodeAffinity", 1),
                ("NodePreferAvoidPods", 10_000),
                ("PodTopologySpread", 2),
                ("TaintToleration", 1),
            ],
        ),
        (Point::Reserve, vec![("VolumeBinding", 0)]),
        (Point::PreBind, vec![("VolumeBinding", 0)]),
        (Point::Bind, vec![("DefaultBinder", 0)]),
    ]
}
