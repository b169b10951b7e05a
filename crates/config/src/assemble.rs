//! From a registry to the catalogue of what configurations may name, and from a configuration to what
//! the engine is to make of it.

use plimsoll_framework::{ProfileSpec, Registry};

use crate::catalogue::{Catalogue, Known, Point, PointSet};
use crate::configuration::Configuration;
use crate::extenders;
use crate::profile::ResolvedProfile;

/// Plugins of release 1.36 that are not there yet, with the points at which they stand: a
/// configuration may name them, and is told that they have no effect.
const NOT_YET: &[(&str, &[Point])] = &[
    ("GangScheduling", &[Point::PreEnqueue, Point::Permit]),
    ("TopologyPlacementGenerator", &[Point::PlacementGenerate]),
    ("PodGroupPodsCount", &[Point::PlacementScore]),
];

impl Catalogue {
    /// What configurations may name: the plugins of the default profile in its order with their
    /// weights (0 for none), the other plugins of `registry`, and those of 1.36 that are not there yet.
    pub fn of(registry: &Registry, default_profile: &[(&'static str, i32)]) -> Self {
        let mut plugins: Vec<Known> = default_profile
            .iter()
            .map(|&(name, weight)| known(registry, name).weighing(weight))
            .collect();
        let others = registry.iter().map(plimsoll_framework::Entry::name);
        let others = others.chain(NOT_YET.iter().map(|&(name, _)| name));
        for name in others {
            if plugins.iter().all(|plugin| plugin.name != name) {
                plugins.push(known(registry, name).on_request());
            }
        }
        Catalogue::new(plugins).with_args_of(registry)
    }
}

fn known(registry: &Registry, name: &'static str) -> Known {
    if let Some(entry) = registry.get(name) {
        let points: Vec<Point> = entry.points().iter().copied().collect();
        return Known::new(name, PointSet::of(&points));
    }
    let points = NOT_YET.iter().find(|(other, _)| *other == name).map_or(&[][..], |(_, at)| at);
    Known::new(name, PointSet::of(points)).unavailable()
}

impl ResolvedProfile {
    /// What the engine is to make of this profile.
    pub fn to_spec(&self) -> ProfileSpec {
        let points = self.points.iter().map(|(&point, plugins)| {
            let plugins = plugins.iter();
            (point, plugins.map(|plugin| (plugin.name.to_owned(), plugin.weight)).collect())
        });
        ProfileSpec {
            scheduler_name: self.scheduler_name.clone(),
            percentage_of_nodes_to_score: self.percentage_of_nodes_to_score.map(|percentage| {
                u8::try_from(percentage).expect("a valid percentage lies between 0 and 100")
            }),
            points: points.collect(),
            args: self.args.clone(),
            run_all_filters: self.run_all_filters,
        }
    }
}

impl Configuration {
    /// What the engine is to make of each profile. What extenders manage alone the profiles leave to them.
    pub fn profile_specs(&self) -> Vec<ProfileSpec> {
        let spec = |profile: &ResolvedProfile| {
            let mut spec = profile.to_spec();
            extenders::leave_resources(&self.extenders, &mut spec);
            spec
        };
        self.profiles.iter().map(spec).collect()
    }
}
