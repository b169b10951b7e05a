//! Earlier releases: the versions of KubeSchedulerConfiguration before v1 with their defaults, and how their files are
//! read; algorithm providers and Policies; and flags and feature gates that were removed.

mod disks;
mod fields;
mod flags;
pub(crate) mod old_gates;
mod point_lists;
pub(crate) mod policy;
mod provider;
mod reading;
mod source;
mod v1alpha1;
mod v1alpha2;
mod v1beta1;
mod v1beta2;
mod v1beta3;

use plimsoll_document::FieldPath;

use crate::catalogue::Point;
use crate::origin::Form;
use crate::rules::{Grown, Rules};

pub use old_gates::OldGate;
pub(crate) use point_lists::merge;
pub use provider::{Provider, ProviderError};
pub(crate) use reading::{Reading, read};
pub(crate) use source::PolicyReader;

/// The form of a file with this `apiVersion`, if that is a version before v1.
pub(crate) fn form_of(version: &str) -> Option<Form> {
    Some(match version {
        v1beta3::VERSION => Form::V1beta3,
        v1beta2::VERSION => Form::V1beta2,
        v1beta1::VERSION => Form::V1beta1,
        v1alpha2::VERSION => Form::V1alpha2,
        v1alpha1::VERSION | v1alpha1::OLD_VERSION => Form::V1alpha1,
        _ => return None,
    })
}

/// The rules of a version before v1; none for other forms.
pub(crate) fn rules(form: Form) -> Option<Rules> {
    Some(match form {
        Form::V1beta3 => v1beta3::rules(),
        Form::V1beta2 => v1beta2::rules(),
        Form::V1beta1 => v1beta1::rules(),
        Form::V1alpha2 => v1alpha2::rules(),
        Form::V1alpha1 => v1alpha1::rules(),
        Form::V1 | Form::Provider(_) | Form::Policy => return None,
    })
}

/// A pod with scheduling gates must not be scheduled, even if the release of the file did not know them.
const ALWAYS: [(Point, &str); 1] = [(Point::PreEnqueue, "SchedulingGates")];

/// The lock types of releases before 1.24.
const LOCKS: [&str; 5] =
    ["leases", "endpoints", "configmaps", "endpointsleases", "configmapsleases"];

/// As in validation.go of 1.22, removedPluginsByVersion.
const GONE_IN_V1BETA2: [&str; 6] = [
    "NodeLabel",
    "ServiceAffinity",
    "NodePreferAvoidPods",
    "NodeResourcesLeastAllocated",
    "NodeResourcesMostAllocated",
    "RequestedToCapacityRatio",
];

fn instead_in_v1beta2(plugin: &str) -> &'static str {
    match plugin {
        "NodeLabel" => ": use `addedAffinity` in the args of NodeAffinity",
        "ServiceAffinity" => ": use the affinity of pods to each other",
        "NodePreferAvoidPods" => ": use taints with PreferNoSchedule",
        _ => ": use `scoringStrategy` in the args of NodeResourcesFit",
    }
}

/// Plugins with args that later versions dropped.
const DROPPED: [&str; 5] = [
    "NodeLabel",
    "NodeResourcesLeastAllocated",
    "NodeResourcesMostAllocated",
    "RequestedToCapacityRatio",
    "ServiceAffinity",
];

/// The points that plugins have in 1.36 and did not have in 1.20.
const GROWN: [Grown; 9] = [
    grown("VolumeRestrictions", Point::Filter, Point::PreFilter),
    grown("NodeVolumeLimits", Point::Filter, Point::PreFilter),
    grown("VolumeBinding", Point::Filter, Point::PreFilter),
    grown("VolumeZone", Point::Filter, Point::PreFilter),
    grown("NodeAffinity", Point::Filter, Point::PreFilter),
    grown("NodeAffinity", Point::Score, Point::PreScore),
    grown("NodeResourcesFit", Point::Score, Point::PreScore),
    grown("NodeResourcesBalancedAllocation", Point::Score, Point::PreScore),
    grown("DefaultPreemption", Point::PostFilter, Point::PreEnqueue),
];

/// The points that they have in 1.36 and did not have in 1.26.
const GROWN_SINCE_1_26: [Grown; 4] = [
    grown("NodeVolumeLimits", Point::Filter, Point::PreFilter),
    grown("NodeResourcesFit", Point::Score, Point::PreScore),
    grown("NodeResourcesBalancedAllocation", Point::Score, Point::PreScore),
    grown("DefaultPreemption", Point::PostFilter, Point::PreEnqueue),
];

const fn grown(plugin: &'static str, beside: Point, at: Point) -> Grown {
    Grown { plugin, beside, at }
}

/// The field of a file of `form` that corresponds to the field of v1 at `path`.
pub(crate) fn place(form: Form, path: &FieldPath) -> FieldPath {
    match form {
        Form::V1alpha1 => v1alpha1::place(path),
        _ => path.clone(),
    }
}
