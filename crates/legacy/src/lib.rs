//! What earlier releases of Kubernetes had and today's does not.
//!
//! [`plugins`] has the plugins that were dropped, [`priorities`] how nodes were ranked on the scale of 10, and
//! [`config`] the forms that configurations had before v1. Of the scheduler only the application uses any of it.
#![warn(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod config;
pub mod plugins;
pub mod priorities;

use plimsoll_framework::Registry;

/// The in-tree plugins of all releases: today's, then those that later releases dropped.
pub fn in_tree() -> Registry {
    let mut registry = plimsoll_plugins::in_tree();
    for entry in plugins::entries() {
        registry.add(entry);
    }
    registry
}

#[cfg(test)]
mod tests {
    use plimsoll_framework::{Entry, FeatureGates};

    use super::*;

    #[test]
    fn the_plugins_of_today_come_first() {
        let (all, today) = (in_tree(), plimsoll_plugins::in_tree());
        let dropped = plugins::entries();
        let names = today.iter().map(Entry::name).chain(dropped.iter().map(Entry::name));
        assert!(all.iter().map(Entry::name).eq(names));
    }

    #[test]
    fn no_plugin_of_earlier_releases_is_in_the_default_profile() {
        for entry in plugins::entries() {
            let mut default_profile = plimsoll_plugins::DEFAULT_PROFILE.iter();
            assert!(default_profile.all(|plugin| plugin.name != entry.name()));
        }
    }

    #[test]
    fn every_plugin_can_be_made_without_args() {
        for entry in plugins::entries() {
            assert!(entry.make(None, &FeatureGates::default()).is_ok());
        }
    }
}
