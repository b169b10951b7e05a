//! The default profile.

use plimsoll_config::{Catalogue, Configuration, GivenGates};
use plimsoll_engine::Profile;
use plimsoll_framework::Release;
use plimsoll_plugins::{default_profile, in_tree};

/// The release of a seed: two have the oldest, then two the newest.
pub(crate) fn release_of(seed: u64) -> Release {
    if (seed / 2).is_multiple_of(2) { Release::OLDEST } else { Release::NEWEST }
}

/// What decides without a configuration in the newest release.
pub(crate) fn default_profiles() -> Vec<Profile> {
    profiles_of(Release::NEWEST)
}

/// What decides without a configuration.
pub(crate) fn profiles_of(release: Release) -> Vec<Profile> {
    let registry = in_tree();
    let gates = GivenGates::of(release);
    let catalogue = Catalogue::of(&registry, &default_profile()).with_gates(gates.args);
    Configuration::default_for(&catalogue)
        .profiles(&registry, &gates.plugins)
        .expect("the default profile is right")
}
