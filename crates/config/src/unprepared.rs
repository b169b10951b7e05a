//! Finds plugins that are enabled without the point at which they prepare their work in kube-scheduler.

use crate::catalogue::Point;
use crate::profile::ResolvedProfile;

/// Plugins with a point at which they decide, and the point at which they prepare for that. If they are not enabled
/// there, kube-scheduler's plugin finds nothing in its cycle state and fails every pod with
/// `... from cycleState: not found`. Other plugins do not depend on a preparing point.
const PREPARE: [(&str, Point, Point); 13] = [
    ("DynamicResources", Point::Filter, Point::PreFilter),
    ("InterPodAffinity", Point::Filter, Point::PreFilter),
    ("NodeDeclaredFeatures", Point::Filter, Point::PreFilter),
    ("NodePorts", Point::Filter, Point::PreFilter),
    ("NodeResourcesFit", Point::Filter, Point::PreFilter),
    ("PodTopologySpread", Point::Filter, Point::PreFilter),
    ("VolumeBinding", Point::Filter, Point::PreFilter),
    ("VolumeRestrictions", Point::Filter, Point::PreFilter),
    ("DynamicResources", Point::Score, Point::PreFilter),
    ("InterPodAffinity", Point::Score, Point::PreScore),
    ("PodTopologySpread", Point::Score, Point::PreScore),
    ("TaintToleration", Point::Score, Point::PreScore),
    ("VolumeBinding", Point::Score, Point::PreFilter),
];

/// The warnings about such plugins of `profile`: the point at which each decides, and the message.
pub(crate) fn warnings(profile: &ResolvedProfile) -> impl Iterator<Item = (Point, String)> {
    let stands = |name: &str, point| profile.points[&point].iter().any(|one| one.name == name);
    let unprepared = PREPARE
        .into_iter()
        .filter(move |(name, at, prepared_at)| stands(name, *at) && !stands(name, *prepared_at));
    unprepared.map(|(name, at, prepared_at)| {
        let (at_key, before) = (at.key(), prepared_at.key());
        let message = format!(
            "plugin {name} is enabled at {at_key} but not at {before}: it works here, but kube-scheduler \
             fails every pod with \"from cycleState: not found\"; enable it at {before}, too"
        );
        (at, message)
    })
}
