//! How many disks a node takes, for the plugins that counted them by kind before they were all CSI volumes.

use std::num::NonZeroU32;

use serde_json::{Map, Value};

use crate::configuration::Configuration;
use crate::profile::ResolvedProfile;

/// Plugins that take `maxVolumes`, where kube-scheduler's read the environment.
const COUNT_DISKS: [&str; 4] = ["AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"];
/// The arg that says how many disks a node takes that does not say so itself.
const MAX_VOLUMES: &str = "maxVolumes";

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
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::catalogue::{Catalogue, Known, Point, PointSet};
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
