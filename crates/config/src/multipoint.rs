//! Merges the plugin sets of a profile with the default profile into one list for each point.
//!
//! As in default_plugins.go, mergePluginSet, and runtime/framework.go, expandMultiPointPlugins.

use std::collections::BTreeMap;

use plimsoll_framework::{GroupGates, GroupRules};

use crate::catalogue::{Catalogue, Known, Point};
use crate::profile::EnabledPlugin;
use crate::rules::{Rules, Weighed};
use crate::types::{PluginSet, Plugins};

/// The name that disables all default plugins.
pub const ALL: &str = "*";

/// The order in which upstream goes through the points. It determines which error it finds first.
pub(crate) const EXPANSION_ORDER: [Point; Point::ALL.len()] = [
    Point::PreFilter,
    Point::Filter,
    Point::PostFilter,
    Point::Reserve,
    Point::PreScore,
    Point::Score,
    Point::PreBind,
    Point::Bind,
    Point::PostBind,
    Point::Permit,
    Point::PreEnqueue,
    Point::QueueSort,
    Point::PlacementGenerate,
    Point::PlacementScore,
    Point::PodGroupPostFilter,
];

/// A plugin that is enabled at all points it implements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MultiPoint<'a> {
    pub(crate) name: &'a str,
    /// 0 if none is given.
    pub(crate) weight: i32,
    /// Its index in `multiPoint.enabled`; none for a plugin of the default profile.
    pub(crate) position: Option<usize>,
}

/// The default plugins with the changes of a profile's `multiPoint`.
///
/// A default plugin that the profile also enables keeps its place and gets the profile's weight. If the profile also
/// disables it, it moves to the end, where all other plugins follow in their order.
pub(crate) fn merge<'a>(defaults: &[Weighed], custom: &'a PluginSet) -> Vec<MultiPoint<'a>> {
    let enabled: Vec<_> = custom
        .enabled
        .iter()
        .enumerate()
        .map(|(position, plugin)| MultiPoint {
            name: &plugin.name,
            weight: plugin.weight.unwrap_or_default(),
            position: Some(position),
        })
        .collect();
    let mut merged = Vec::new();
    let mut replacing = vec![false; enabled.len()];
    if !disables(custom, ALL) {
        for &(name, weight) in defaults.iter().filter(|(name, _)| !disables(custom, name)) {
            // If a name occurs several times, the last entry replaces the default and the others remain.
            let replacement = enabled.iter().rposition(|entry| entry.name == name);
            merged.push(match replacement {
                Some(position) => {
                    replacing[position] = true;
                    enabled[position]
                }
                None => MultiPoint { name, weight, position: None },
            });
        }
    }
    let others = enabled.into_iter().zip(replacing).filter(|(_, replaces)| !replaces);
    merged.extend(others.map(|(entry, _)| entry));
    merged
}

/// The plugins that work at `point`, in order.
///
/// First those that both the point and `multiPoint` enable, in the order of the point; then the others of `multiPoint`;
/// then the others of the point.
pub(crate) fn expand<'c>(
    catalogue: &'c Catalogue,
    multi_point: &[MultiPoint<'_>],
    plugins: &Plugins,
    point: Point,
) -> Vec<&'c Known> {
    let set = plugins.at(point);
    let own = unique(set.enabled.iter().map(|plugin| plugin.name.as_str()), catalogue, point);
    if disables(set, ALL) || !is_implied_at(catalogue, point) {
        return own;
    }
    let is_implied = |name: &&str| !disables(set, name);
    let names = multi_point.iter().map(|entry| entry.name).filter(is_implied);
    let implied = unique(names, catalogue, point);
    let (overriding, others): (Vec<_>, Vec<_>) =
        own.iter().partition(|plugin| implied.contains(plugin));
    let expanded = implied.iter().filter(|plugin| !own.contains(plugin)).copied();
    overriding.into_iter().chain(expanded).chain(others).collect()
}

/// Whether plugins stand at `point` only because `multiPoint` enables them. Placements are scored, and room is made for groups,
/// only with the gates for that. In 1.36 whoever makes room for pods also makes it for groups.
pub(crate) fn is_implied_at(catalogue: &Catalogue, point: Point) -> bool {
    let groups = GroupGates::of(&catalogue.gates);
    match point {
        Point::PlacementScore => groups.topology_aware,
        Point::PodGroupPostFilter => groups.generic_workload && GroupRules::V1_37 <= groups.rules,
        _ => true,
    }
}

/// The weight of `name` at `point`: that of the point, or else that of `multiPoint`. A weight of 0 counts as 1.
///
/// As in runtime/framework.go, getScoreWeights: an entry of the point without a weight counts as 1, even if
/// `multiPoint` gives one.
pub(crate) fn weight(
    multi_point: &[MultiPoint<'_>],
    plugins: &Plugins,
    point: Point,
    name: &str,
) -> i64 {
    let own = plugins.at(point).enabled.iter().find(|plugin| plugin.name == name);
    let weight = match own {
        Some(plugin) => plugin.weight.unwrap_or_default(),
        None => multi_point.iter().find(|entry| entry.name == name).map_or(0, |e| e.weight),
    };
    if weight == 0 { 1 } else { i64::from(weight) }
}

/// Whether `multiPoint` enables the plugin `name` at `point`, and the point does not name it.
pub(crate) fn is_expanded(
    catalogue: &Catalogue,
    plugins: &Plugins,
    point: Point,
    name: &str,
) -> bool {
    let set = plugins.at(point);
    catalogue.get(name).is_some_and(|plugin| plugin.points.contains(point))
        && !disables(set, ALL)
        && !disables(set, name)
        && set.enabled.iter().all(|plugin| plugin.name != name)
}

impl Plugins {
    /// The plugins of this build that a profile of v1 with these sets runs, in order. Every point has an entry.
    pub fn resolve(&self, catalogue: &Catalogue) -> BTreeMap<Point, Vec<EnabledPlugin>> {
        let rules = Rules::v1(catalogue);
        let merged = merge(rules.multi_point(), &self.multi_point);
        let resolved = Point::ALL.into_iter().map(|point| {
            let plugins = expand(catalogue, &merged, self, point);
            let available = plugins.into_iter().filter(|plugin| plugin.available);
            let weighed = available.map(|plugin| EnabledPlugin {
                name: plugin.name,
                weight: match point.is_weighed() {
                    true => weight(&merged, self, point, plugin.name),
                    false => 0,
                },
            });
            (point, weighed.collect())
        });
        resolved.collect()
    }
}

pub(crate) fn disables(set: &PluginSet, name: &str) -> bool {
    set.disabled.iter().any(|plugin| plugin.name == name)
}

fn unique<'a, 'c>(
    names: impl Iterator<Item = &'a str>,
    catalogue: &'c Catalogue,
    point: Point,
) -> Vec<&'c Known> {
    let mut plugins = Vec::new();
    for plugin in names.filter_map(|name| catalogue.get(name)) {
        if plugin.points.contains(point) && !plugins.contains(&plugin) {
            plugins.push(plugin);
        }
    }
    plugins
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upstream_goes_through_every_point_once() {
        let mut points = EXPANSION_ORDER;
        points.sort();
        assert_eq!(points, Point::ALL);
    }
}
