//! Replaces plugins that version v1 refuses.

use std::collections::BTreeMap;

use plimsoll_config::rules::REMOVED;
use plimsoll_config::{Catalogue, EnabledPlugin, Point, ResolvedProfile};

/// The plugin that counts all volumes, since all of them are CSI volumes now.
pub(super) const VOLUME_LIMITS: &str = "NodeVolumeLimits";

/// The refused plugins that a profile enables, whether or not this build has them.
pub(super) fn refused(profile: &ResolvedProfile) -> Vec<&'static str> {
    let enabled = profile.plugins();
    let runs = |name: &str| {
        enabled.contains(name) || profile.unavailable.iter().any(|other| other == name)
    };
    REMOVED.into_iter().filter(|name| runs(name)).collect()
}

/// The plugins of a profile, with NodeVolumeLimits in place of those that version v1 refuses: where it is enabled
/// already, or else in the position of the first of them.
pub(super) fn points(
    profile: &ResolvedProfile,
    catalogue: &Catalogue,
) -> BTreeMap<Point, Vec<EnabledPlugin>> {
    let refused = refused(profile);
    let mut points = profile.points.clone();
    if refused.is_empty() {
        return points;
    }
    let stands_at = catalogue.get(VOLUME_LIMITS).filter(|plugin| plugin.available);
    for (point, plugins) in &mut points {
        let place = plugins.iter().position(|plugin| refused.contains(&plugin.name));
        let is_there = plugins.iter().any(|plugin| plugin.name == VOLUME_LIMITS);
        plugins.retain(|plugin| !refused.contains(&plugin.name));
        // It prepares at PreFilter what it needs at Filter.
        let belongs = matches!(point, Point::PreFilter | Point::Filter);
        if stands_at.is_some_and(|plugin| plugin.points.contains(*point)) && belongs && !is_there {
            let place = place.unwrap_or(plugins.len());
            plugins.insert(place, EnabledPlugin { name: VOLUME_LIMITS, weight: 0 });
        }
    }
    points
}
