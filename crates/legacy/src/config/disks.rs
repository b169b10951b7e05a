//! The disk limit of a node, for the plugins that counted disks by kind before all of them were CSI volumes.

use std::num::NonZeroU32;

use plimsoll_config::{Configuration, ResolvedProfile};
use serde_json::{Map, Value};

/// Plugins that take `maxVolumes`. Those of kube-scheduler read the environment instead.
const COUNT_DISKS: [&str; 4] = ["AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"];
/// The arg with the disk limit of nodes that have none themselves.
const MAX_VOLUMES: &str = "maxVolumes";

/// Whether some profile enables one of the plugins that count disks.
pub fn counts_disks(configuration: &Configuration) -> bool {
    let enabled = |profile: &ResolvedProfile| {
        profile.plugins().iter().any(|plugin| COUNT_DISKS.contains(plugin))
    };
    configuration.profiles.iter().any(enabled)
}

/// Sets the disk limit of nodes that have none themselves, as the environment variable `KUBE_MAX_PD_VOLS` does for
/// kube-scheduler. A limit in the args takes precedence.
pub fn set_max_volumes(configuration: &mut Configuration, most: NonZeroU32) {
    for profile in &mut configuration.profiles {
        let enabled = profile.plugins();
        for plugin in COUNT_DISKS.into_iter().filter(|name| enabled.contains(name)) {
            let none = || Value::Object(Map::new());
            let args = profile.args.entry(plugin.to_owned()).or_insert_with(none);
            // The plugin refuses args of another form.
            if let Value::Object(args) = args {
                args.entry(MAX_VOLUMES).or_insert_with(|| most.get().into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_config::{Catalogue, EnabledPlugin, Known, Point, PointSet};
    use serde_json::json;

    use super::*;

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
        set_max_volumes(&mut configuration, NonZeroU32::MIN);
        json!(configuration.profiles[0].args)
    }

    #[test]
    fn the_limit_is_set_for_plugins_that_count_disks_unless_their_args_have_one() {
        let none = configuration(&["NodeName"]);
        assert!(!counts_disks(&none));
        assert_eq!(with_max_volumes(none), json!({}));

        let mut some = configuration(&["NodeName", "EBSLimits", "GCEPDLimits", "CinderLimits"]);
        assert!(counts_disks(&some));
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
