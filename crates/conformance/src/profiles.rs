//! From the configuration of a case to the profiles of the engine.

use plimsoll_config::{Catalogue, Configuration};
use plimsoll_engine::Profile;
use plimsoll_framework::{FeatureGates, Release};
use plimsoll_legacy::config::{Provider, load};
use plimsoll_legacy::in_tree;
use plimsoll_plugins::default_profile;
use serde_json::Value;

/// The release that was recorded: all suites are decided as in this release. Suites of release 1.20
/// contain only what still exists in it.
pub const RECORDED: Release = Release::V1_36;

/// The profiles that a configuration describes, of any version, or a Policy, or the algorithm provider
/// of `{"kind": "Provider", "name": ...}`; the default ones without it.
///
/// `gates` are those for plugins.
///
/// # Panics
/// If the configuration is not valid.
pub fn profiles(config: Option<&Value>, gates: &FeatureGates) -> Vec<Profile> {
    let registry = in_tree();
    let catalogue = Catalogue::of(&registry, &default_profile()).with_gates(gates.clone());
    let configuration = match config {
        None => Configuration::default_for(&catalogue),
        Some(config) if config["kind"] == "Provider" => {
            let name = config["name"].as_str().unwrap_or_default();
            let provider: Provider =
                name.parse().unwrap_or_else(|error| panic!("{config}: {error}"));
            provider.configuration(&catalogue)
        }
        Some(config) => load("config", &config.to_string(), &catalogue)
            .unwrap_or_else(|errors| panic!("{config}: {}", errors[0])),
    };
    Profile::all_of(&configuration.profile_specs(), &registry, gates)
        .unwrap_or_else(|error| panic!("{config:?}: {error}"))
}
