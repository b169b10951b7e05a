//! Other configurations under which a pod might fit.

use anyhow::{Context, Result};
use plimsoll_advisor::Alternative;
use plimsoll_config::{Configuration, Point};
use plimsoll_engine::Profile;
use plimsoll_framework::{FeatureGates, Registry};
use serde_json::{Value, json};

/// Filters whose rules the kubelet, or whoever attaches volumes and devices, enforces as well: without them a pod would be
/// bound to a node that cannot run it.
const ENFORCED: [&str; 13] = [
    "NodeResourcesFit",
    "NodePorts",
    "NodeName",
    "NodeAffinity",
    "NodeDeclaredFeatures",
    "TaintToleration",
    "VolumeBinding",
    "VolumeRestrictions",
    "VolumeZone",
    "NodeVolumeLimits",
    "DynamicResources",
    "SchedulingGates",
    "GangScheduling",
];

/// The configuration without one of the filters that the scheduler alone enforces, for each of them.
pub(crate) fn alternatives(
    configuration: &Configuration,
    (registry, gates): (&Registry, &FeatureGates),
    scheduler: &str,
) -> Result<Vec<Alternative>> {
    let specs = configuration.profile_specs();
    let at = specs.iter().position(|spec| spec.scheduler_name == scheduler);
    let at = at.context("no profile has the name of the pod's scheduler")?;
    let points = &configuration.profiles[at].points;
    let filters = points.get(&Point::Filter).into_iter().flatten();
    let optional = filters.map(|plugin| plugin.name).filter(|name| !ENFORCED.contains(name));
    optional
        .map(|name| {
            let mut spec = specs[at].clone();
            let mut operations = Vec::new();
            for point in [Point::Filter, Point::PreFilter] {
                let of_point = points.get(&point).into_iter().flatten();
                if let Some(index) = of_point.into_iter().position(|plugin| plugin.name == name) {
                    let path = format!("/profiles/{at}/points/{}/{index}", point.key());
                    operations.push(json!({"op": "remove", "path": path}));
                }
                if let Some(plugins) = spec.points.get_mut(&point) {
                    plugins.retain(|(other, _)| other != name);
                }
            }
            Ok(Alternative {
                text: format!("switch off {name} at filter in profile {scheduler}"),
                operations: serde_json::from_value(Value::Array(operations))?,
                profile: Profile::new(&spec, registry, gates)?,
                without: Some(name.to_owned()),
            })
        })
        .collect()
}
