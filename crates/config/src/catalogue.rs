//! Which plugins exist, and at which extension points each works.

use std::collections::BTreeMap;

pub use plimsoll_framework::Point;
use plimsoll_framework::{ArgsForm, FeatureGates, GroupGates, Registry};

/// A set of extension points.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PointSet(u16);

impl PointSet {
    /// The set of `points`.
    pub const fn of(points: &[Point]) -> Self {
        let mut bits = 0;
        let mut index = 0;
        while index < points.len() {
            bits |= 1 << points[index] as u16;
            index += 1;
        }
        Self(bits)
    }

    /// Whether `point` is in the set.
    pub const fn contains(self, point: Point) -> bool {
        self.0 & (1 << point as u16) != 0
    }

    /// The points of the set, in the order of a scheduling cycle.
    pub fn iter(self) -> impl Iterator<Item = Point> {
        Point::ALL.into_iter().filter(move |point| self.contains(*point))
    }
}

/// A plugin that a configuration may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// The name in configurations.
    pub name: &'static str,
    /// The extension points it implements.
    pub points: PointSet,
    /// Its weight in the default profile; 0 if the default profile gives none, which counts as 1.
    pub weight: i32,
    /// Whether the default profile enables it, at every point it implements.
    pub by_default: bool,
    /// Whether this build has it. A configuration may name it even if not, but then it has no effect.
    pub available: bool,
}

impl Known {
    /// A plugin of this build that the default profile enables, with no weight of its own.
    pub const fn new(name: &'static str, points: PointSet) -> Self {
        Self { name, points, weight: 0, by_default: true, available: true }
    }

    /// The same plugin with this weight in the default profile.
    #[must_use]
    pub const fn weighing(self, weight: i32) -> Self {
        Self { weight, ..self }
    }

    /// The same plugin, enabled only if a configuration says so.
    #[must_use]
    pub const fn on_request(self) -> Self {
        Self { by_default: false, ..self }
    }

    /// The same plugin, known by name but not part of this build.
    #[must_use]
    pub const fn unavailable(self) -> Self {
        Self { available: false, ..self }
    }
}

/// Every plugin a configuration may name, those of the default profile in its order.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    // No two have the same name.
    plugins: Vec<Known>,
    /// The args of the plugins that declare them.
    args: BTreeMap<&'static str, ArgsForm>,
    /// The release and the feature gates, which change which args are valid.
    pub gates: FeatureGates,
}

impl Catalogue {
    /// The catalogue of these plugins with the gates of the newest release. Any args are valid.
    ///
    /// # Panics
    ///
    /// If two plugins have the same name.
    pub fn new(plugins: Vec<Known>) -> Self {
        for (position, plugin) in plugins.iter().enumerate() {
            let is_new = plugins[..position].iter().all(|other| other.name != plugin.name);
            assert!(is_new, "{} is in the catalogue twice", plugin.name);
        }
        Self { plugins, args: BTreeMap::new(), gates: FeatureGates::default() }
    }

    /// The same catalogue with these gates. They decide whether the default profile enables the plugins for groups of pods.
    #[must_use]
    pub fn with_gates(self, gates: FeatureGates) -> Self {
        let groups = GroupGates::of(&gates);
        let mut plugins = self.plugins;
        for plugin in &mut plugins {
            // As in default_plugins.go, applyFeatureGates.
            match plugin.name {
                "GangScheduling" => plugin.by_default = groups.gang_scheduling,
                "TopologyPlacementGenerator" => plugin.by_default = groups.topology_aware,
                "PodGroupPodsCount" => {
                    (plugin.by_default, plugin.weight) = (groups.topology_aware, 1);
                }
                _ => {}
            }
        }
        Self { plugins, gates, ..self }
    }

    /// The same catalogue with the args that the plugins of `registry` declare. For a plugin that declares none, any
    /// args are valid.
    #[must_use]
    pub fn with_args_of(self, registry: &Registry) -> Self {
        let known = registry.iter().filter(|entry| self.get(entry.name()).is_some());
        let args = known.map(|entry| (entry.name(), entry.args())).collect();
        Self { args, ..self }
    }

    /// The args of the plugin called `name`, if it declares them.
    pub(crate) fn args_of(&self, name: &str) -> Option<ArgsForm> {
        self.args.get(name).copied()
    }

    /// The plugin called `name`, if there is one.
    pub fn get(&self, name: &str) -> Option<&Known> {
        self.plugins.iter().find(|plugin| plugin.name == name)
    }

    /// All plugins, in order.
    pub fn plugins(&self) -> &[Known] {
        &self.plugins
    }

    /// The plugins of the default profile, in its order.
    pub fn by_default(&self) -> impl Iterator<Item = &Known> {
        self.plugins.iter().filter(|plugin| plugin.by_default)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_the_points_it_was_made_of() {
        let set = PointSet::of(&[Point::Score, Point::PreEnqueue, Point::PlacementScore]);
        let points: Vec<_> = set.iter().collect();
        assert_eq!(points, [Point::PreEnqueue, Point::Score, Point::PlacementScore]);
        assert!(!set.contains(Point::Filter));
    }

    #[test]
    #[should_panic(expected = "A is in the catalogue twice")]
    fn a_catalogue_names_a_plugin_once() {
        let plugin = Known::new("A", PointSet::default());
        let _ = Catalogue::new(vec![plugin, plugin]);
    }
}
