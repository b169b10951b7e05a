//! v1alpha2, as release 1.18 reads it.

use super::changes::{ALWAYS, DROPPED, GROWN, LOCKS};
use plimsoll_config::Point;
use plimsoll_config::rules::{Again, ArgsRules, Base, PointLists, Refused, Rules, Spreading};

pub(crate) const VERSION: &str = "kubescheduler.config.k8s.io/v1alpha2";

pub(super) fn rules() -> Rules {
    Rules {
        version: VERSION,
        base: Base::Lists { lists: default_lists(), again: Again::Doubles },
        refused: Refused { plugins: &[], since: VERSION, remedy: |_| "" },
        in_conflict: &[],
        args: ArgsRules {
            known: &["InterPodAffinity", "NodeResourcesFit", "PodTopologySpread", "VolumeBinding"],
            dropped: &DROPPED,
            lacking: &[
                ("InterPodAffinity", "ignorePreferredTermsOfExistingPods"),
                ("NodeResourcesFit", "ignoredResourceGroups"),
                ("NodeResourcesFit", "scoringStrategy"),
                ("PodTopologySpread", "defaultingType"),
                ("VolumeBinding", "shape"),
            ],
            spreading: Spreading::List,
            rejects_overcommitted_nodes: true,
        },
        locks: &LOCKS,
        grown: &GROWN,
        always: &ALWAYS,
    }
}

/// The profile of DefaultProvider.
///
/// As in algorithmprovider/registry.go of 1.18, getDefaultConfig, with the gates that are on by default. Plugins now do
/// what 1.18 did without one: DefaultPreemption preempts, and VolumeBinding reserves and binds volumes. SelectorSpread
/// was called DefaultPodTopologySpread.
pub(super) fn default_lists() -> PointLists {
    vec![
        (Point::QueueSort, vec![("PrioritySort", 0)]),
        (
            Point::PreFilter,
            vec![
                ("NodeResourcesFit", 0),
                ("NodePorts", 0),
                ("InterPodAffinity", 0),
                ("PodTopologySpread", 0),
            ],
        ),
        (
            Point::Filter,
            vec![
                ("NodeUnschedulable", 0),
                ("NodeResourcesFit", 0),
                ("NodeName", 0),
                ("NodePorts", 0),
                ("NodeAffinity", 0),
                ("VolumeRestrictions", 0),
                ("TaintToleration", 0),
                ("EBSLimits", 0),
                ("GCEPDLimits", 0),
                ("NodeVolumeLimits", 0),
                ("AzureDiskLimits", 0),
                ("VolumeBinding", 0),
                ("VolumeZone", 0),
                ("InterPodAffinity", 0),
                ("PodTopologySpread", 0),
            ],
        ),
        (Point::PostFilter, vec![("DefaultPreemption", 0)]),
        (
            Point::PreScore,
            vec![
                ("InterPodAffinity", 0),
                ("SelectorSpread", 0),
                ("TaintToleration", 0),
                ("PodTopologySpread", 0),
            ],
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
                ("SelectorSpread", 1),
                ("TaintToleration", 1),
                ("PodTopologySpread", 1),
            ],
        ),
        (Point::Reserve, vec![("VolumeBinding", 0)]),
        (Point::PreBind, vec![("VolumeBinding", 0)]),
        (Point::Bind, vec![("DefaultBinder", 0)]),
    ]
}
