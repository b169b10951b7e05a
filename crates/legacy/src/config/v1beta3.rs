//! v1beta3, as release 1.28 reads it: the first version with multi-point.

use super::v1beta2;
use plimsoll_config::rules::{ArgsRules, Base, Rules, Spreading, Weighed};

pub(crate) const VERSION: &str = "kubescheduler.config.k8s.io/v1beta3";

/// As in apis/config/v1beta3/default_plugins.go, getDefaultPlugins.
const DEFAULT_PLUGINS: [Weighed; 20] = [
    ("PrioritySort", 0),
    ("NodeUnschedulable", 0),
    ("NodeName", 0),
    ("TaintToleration", 3),
    ("NodeAffinity", 2),
    ("NodePorts", 0),
    ("NodeResourcesFit", 1),
    ("VolumeRestrictions", 0),
    ("EBSLimits", 0),
    ("GCEPDLimits", 0),
    ("NodeVolumeLimits", 0),
    ("AzureDiskLimits", 0),
    ("VolumeBinding", 0),
    ("VolumeZone", 0),
    ("PodTopologySpread", 2),
    ("InterPodAffinity", 2),
    ("DefaultPreemption", 0),
    ("NodeResourcesBalancedAllocation", 1),
    ("ImageLocality", 1),
    ("DefaultBinder", 0),
];

pub(super) fn rules() -> Rules {
    let v1beta2 = v1beta2::rules();
    Rules {
        version: VERSION,
        base: Base::MultiPoint(DEFAULT_PLUGINS.to_vec()),
        args: ArgsRules { lacking: &[], spreading: Spreading::System, ..v1beta2.args },
        // A plugin at `multiPoint` is enabled at all points that it has today.
        grown: &[],
        ..v1beta2
    }
}
