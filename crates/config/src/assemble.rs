//! From a registry to the catalogue of what configurations may name, and from a configuration to what
//! the engine is to make of it.

use std::num::NonZeroU32;

use plimsoll_framework::{ProfileSpec, Registry};
use serde_json::{Map, Value};

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

/// Plugins that take `maxVolumes`, where kube-scheduler's read the environment.
const COUNT_DISKS: [&str; 4] = ["AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"];
/// The arg that says how many disks a node takes that does not say so itself.
const MAX_VOLUMES: &str = "maxVolumes";

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
    /// Whether some profile counts the disks of plugins that once were part of Kubernetes.
    pub fn counts_disks(&self) -> bool {
        let enabled = |profile: &ResolvedProfile| {
            profile.plugins().iter().any(|plugin| COUNT_DISKS.contains(plugin))
        };
        self.profiles.iter().any(enabled)
    }

    /// Says how many such disks a node takes that does not say so itself, as the environment variable
    /// `KUBE_MAX_PD_VOLS` does for kube-scheduler. Args that say it themselves stand.
    pub fn set_max_volumes(&mut self, most: NonZeroU32) {
        for profile in &mut self.profiles {
            let enabled = profile.plugins();
            for plugin in COUNT_DISKS.into_iter().filter(|name| enabled.contains(name)) {
                let none = || Value::Object(Map::new());
                let args = profile.args.entry(plugin.to_owned()).or_insert_with(none);
                // Args of another form are for the plugin to refuse.
                if let Value::Object(args) = args {
                    args.entry(MAX_VOLUMES).or_insert_with(|| most.get().into());
                }
            }
        }
    }

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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::profile::EnabledPlugin;

    /// A configuration with these filters.
    fn configuration(filters: &[&'static str]) -> Configuration {
        let mut configuration = Configuration::default_for(&Catalogue::new(vec![
            Known::new("PrioritySort", PointSet::of(&[Point::QueueSort])),
            Known::new("DefaultBinder", PointSet::of(&[Point::Bind])),
        ]));
        let enabled = filters.iter().map(|&name| EnabledPlugin { name, weight: 0 }).collect();
        configuration.profiles[0].points.insert(Point::Filter, enabled);
        configuration
    }

    fn with_max_volumes(mut configuration: Configuration) -> Value {
        configuration.set_max_volumes(NonZeroU32::MIN);
        json!(configuration.profiles[0].args)
    }

    #[test]
    fn the_limit_of_the_environment_is_for_plugins_that_count_disks_and_say_none_themselves() {
        let none = configuration(&["NodeName"]);
        assert!(!none.counts_disks());
        assert_eq!(with_max_volumes(none), json!({}));

        let mut some = configuration(&["NodeName", "EBSLimits", "GCEPDLimits", "CinderLimits"]);
        assert!(some.counts_disks());
        let args = &mut some.profiles[0].args;
        args.insert("EBSLimits".to_owned(), json!({"maxVolumes": 7}));
        args.insert("CinderLimits".to_owned(), json!("wrong"));
        args.insert("AzureDiskLimits".to_owned(), json!({}));
        let expected = json!({
            "EBSLimits": {"maxVolumes": 7}, "GCEPDLimits": {"maxVolumes": 1},
            "CinderLimits": "wrong", "AzureDiskLimits": {},
        });
        assert_eq!(with_max_volumes(some), expected);
    }
}
