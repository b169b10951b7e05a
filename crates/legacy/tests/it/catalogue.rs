//! The plugins of all releases.

use plimsoll_config::{Catalogue, Known, Point, PointSet};
use plimsoll_legacy::in_tree;

pub(crate) use crate::today::{HEAD, catalogue, lines, shown};
use Point::{Filter, PreFilter, PreScore, Score};

/// The plugins of 1.36 with volumes, and, not enabled by default, those that later releases dropped.
pub(crate) fn catalogue_of_all_releases() -> Catalogue {
    let known = |name, points: &[Point]| Known::new(name, PointSet::of(points));
    let mut plugins: Vec<_> =
        catalogue().plugins().iter().map(|plugin| Known { available: true, ..*plugin }).collect();
    plugins.retain(|plugin| !plugin.name.ends_with("Limits"));
    let place = plugins.iter().position(|plugin| plugin.name == "VolumeBinding");
    let place = place.expect("the catalogue has volumes");
    plugins.insert(place + 1, known("VolumeZone", &[PreFilter, Filter]));
    plugins.insert(place, known("NodeVolumeLimits", &[PreFilter, Filter]));
    plugins.insert(place, known("VolumeRestrictions", &[PreFilter, Filter]));
    plugins.extend([
        known("SelectorSpread", &[PreScore, Score]).on_request(),
        known("NodeLabel", &[Filter, Score]).on_request(),
        known("ServiceAffinity", &[PreFilter, Filter, Score]).on_request(),
        known("NodePreferAvoidPods", &[Score]).on_request(),
        known("NodeResourcesLeastAllocated", &[Score]).on_request(),
        known("NodeResourcesMostAllocated", &[Score]).on_request(),
        known("RequestedToCapacityRatio", &[Score]).on_request(),
        known("NodeResourceLimits", &[PreScore, Score]).on_request(),
        known("EBSLimits", &[Filter]).on_request(),
        known("GCEPDLimits", &[Filter]).on_request(),
        known("AzureDiskLimits", &[Filter]).on_request(),
        known("CinderLimits", &[Filter]).on_request(),
    ]);
    Catalogue::new(plugins).with_args_of(&in_tree())
}
