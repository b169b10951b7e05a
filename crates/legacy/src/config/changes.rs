//! What several versions have that v1 has not, or the other way round: lock types, plugins, and points of plugins.

use plimsoll_config::Point;
use plimsoll_config::rules::Grown;

/// A pod with scheduling gates must not be scheduled, even if the release of the file did not know them.
pub(super) const ALWAYS: [(Point, &str); 1] = [(Point::PreEnqueue, "SchedulingGates")];

/// The lock types of releases before 1.24.
pub(super) const LOCKS: [&str; 5] =
    ["leases", "endpoints", "configmaps", "endpointsleases", "configmapsleases"];

/// As in validation.go of 1.22, removedPluginsByVersion.
pub(super) const GONE_IN_V1BETA2: [&str; 6] = [
    "NodeLabel",
    "ServiceAffinity",
    "NodePreferAvoidPods",
    "NodeResourcesLeastAllocated",
    "NodeResourcesMostAllocated",
    "RequestedToCapacityRatio",
];

pub(super) fn instead_in_v1beta2(plugin: &str) -> &'static str {
    match plugin {
        "NodeLabel" => ": use `addedAffinity` in the args of NodeAffinity",
        "ServiceAffinity" => ": use the affinity of pods to each other",
        "NodePreferAvoidPods" => ": use taints with PreferNoSchedule",
        _ => ": use `scoringStrategy` in the args of NodeResourcesFit",
    }
}

/// Plugins with args that later versions dropped.
pub(super) const DROPPED: [&str; 5] = [
    "NodeLabel",
    "NodeResourcesLeastAllocated",
    "NodeResourcesMostAllocated",
    "RequestedToCapacityRatio",
    "ServiceAffinity",
];

/// The points that plugins have in 1.37 and did not have in 1.20.
pub(super) const GROWN: [Grown; 10] = [
    grown("VolumeRestrictions", Point::Filter, Point::PreFilter),
    grown("NodeVolumeLimits", Point::Filter, Point::PreFilter),
    grown("VolumeBinding", Point::Filter, Point::PreFilter),
    grown("VolumeZone", Point::Filter, Point::PreFilter),
    grown("NodeAffinity", Point::Filter, Point::PreFilter),
    grown("NodeAffinity", Point::Score, Point::PreScore),
    grown("NodeResourcesFit", Point::Score, Point::PreScore),
    grown("NodeResourcesBalancedAllocation", Point::Score, Point::PreScore),
    grown("DefaultPreemption", Point::PostFilter, Point::PreEnqueue),
    grown("DefaultPreemption", Point::PostFilter, Point::PodGroupPostFilter),
];

/// The points that they have in 1.37 and did not have in 1.26.
pub(super) const GROWN_SINCE_1_26: [Grown; 5] = [
    grown("NodeVolumeLimits", Point::Filter, Point::PreFilter),
    grown("NodeResourcesFit", Point::Score, Point::PreScore),
    grown("NodeResourcesBalancedAllocation", Point::Score, Point::PreScore),
    grown("DefaultPreemption", Point::PostFilter, Point::PreEnqueue),
    grown("DefaultPreemption", Point::PostFilter, Point::PodGroupPostFilter),
];

pub(super) const fn grown(plugin: &'static str, beside: Point, at: Point) -> Grown {
    Grown { plugin, beside, at }
}
