//! The default profile.

use plimsoll_config::{Catalogue, Configuration};
use plimsoll_engine::Profile;
use plimsoll_framework::FeatureGates;
use plimsoll_plugins::{default_profile, in_tree};

/// What decides without a configuration.
pub(crate) fn default_profiles() -> Vec<Profile> {
    let registry = in_tree();
    let catalogue = Catalogue::of(&registry, &default_profile());
    Configuration::default_for(&catalogue)
        .profiles(&registry, &FeatureGates::default())
        .expect("the default profile is right")
}
