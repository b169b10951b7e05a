//! Makes the catalogue of plugins from a registry, and the engine's profile specs from a configuration.

use plimsoll_framework::{ProfileSpec, Registry};

use crate::catalogue::{Catalogue, Known, PointSet};
use crate::configuration::Configuration;
use crate::extenders;
use crate::profile::ResolvedProfile;

impl Catalogue {
    /// The plugins that configurations may name: those of the default profile in its order with their weights (0 for
    /// none), and the others of `registry`.
    pub fn of(registry: &Registry, default_profile: &[(&'static str, i32)]) -> Self {
        let mut plugins: Vec<Known> = default_profile
            .iter()
            .map(|&(name, weight)| known(registry, name).weighing(weight))
            .collect();
        let others = registry.iter().map(plimsoll_framework::Entry::name);
        for name in others {
            if plugins.iter().all(|plugin| plugin.name != name) {
                plugins.push(known(registry, name).on_request());
            }
        }
        Catalogue::new(plugins).with_args_of(registry)
    }
}

fn known(registry: &Registry, name: &'static str) -> Known {
    let points = registry.get(name).into_iter().flat_map(|entry| entry.points().iter().copied());
    Known::new(name, PointSet::of(&points.collect::<Vec<_>>()))
}

impl ResolvedProfile {
    /// This profile as the engine takes it.
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
    /// Each profile as the engine takes it. Resources that only extenders manage are left to them.
    pub fn profile_specs(&self) -> Vec<ProfileSpec> {
        let spec = |profile: &ResolvedProfile| {
            let mut spec = profile.to_spec();
            extenders::leave_resources(&self.extenders, &mut spec);
            spec
        };
        self.profiles.iter().map(spec).collect()
    }
}
