//! Between configurations and the engine: the catalogue of what a registry has, and the profiles that
//! a configuration describes.

use plimsoll_engine::{Profile, ProfileError, ProfileSpec};
use plimsoll_framework::{FeatureGates, Registry};

use crate::catalogue::{Catalogue, Known, Point, PointSet};
use crate::configuration::Configuration;
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
        Catalogue::new(plugins)
    }
}

fn known(registry: &Registry, name: &'static str) -> Known {
    if let Some(entry) = registry.get(name) {
        let points: Vec<Point> = entry.points().iter().map(|&point| point.into()).collect();
        return Known::new(name, PointSet::of(&points));
    }
    let points = NOT_YET.iter().find(|(other, _)| *other == name).map_or(&[][..], |(_, at)| at);
    Known::new(name, PointSet::of(points)).unavailable()
}

impl From<plimsoll_framework::Point> for Point {
    fn from(point: plimsoll_framework::Point) -> Self {
        use plimsoll_framework::Point as Framework;
        match point {
            Framework::PreEnqueue => Point::PreEnqueue,
            Framework::QueueSort => Point::QueueSort,
            Framework::PreFilter => Point::PreFilter,
            Framework::Filter => Point::Filter,
            Framework::PostFilter => Point::PostFilter,
            Framework::PreScore => Point::PreScore,
            Framework::Score => Point::Score,
            Framework::Reserve => Point::Reserve,
            Framework::Permit => Point::Permit,
            Framework::PreBind => Point::PreBind,
            Framework::Bind => Point::Bind,
            Framework::PostBind => Point::PostBind,
        }
    }
}

impl ResolvedProfile {
    /// What the engine is to make of this profile.
    pub fn to_spec(&self) -> ProfileSpec {
        let points = plimsoll_framework::Point::ALL.map(|point| {
            let plugins = self.points[&point.into()].iter();
            (point, plugins.map(|plugin| (plugin.name.to_owned(), plugin.weight)).collect())
        });
        ProfileSpec {
            scheduler_name: self.scheduler_name.clone(),
            percentage_of_nodes_to_score: self.percentage_of_nodes_to_score.map(|percentage| {
                u8::try_from(percentage).expect("a valid percentage lies between 0 and 100")
            }),
            points: points.into(),
            args: self.args.clone(),
        }
    }
}

impl Configuration {
    /// The profiles for the engine, with plugins from `registry`.
    pub fn profiles(
        &self,
        registry: &Registry,
        gates: &FeatureGates,
    ) -> Result<Vec<Profile>, ProfileError> {
        self.profiles.iter().map(|one| Profile::new(&one.to_spec(), registry, gates)).collect()
    }
}
