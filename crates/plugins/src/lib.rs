//! The in-tree plugins of kube-scheduler: one module, one plugin.
//!
//! [`in_tree`] lists them; [`DEFAULT_PROFILE`] says which of them the default profile enables, and
//! with which weights.
#![warn(clippy::disallowed_methods, clippy::disallowed_types)]

mod bounds;
pub mod coscheduling;
pub mod csi_migration;
pub mod default_binder;
pub mod default_preemption;
mod devices;
pub mod dynamic_resources;
pub mod gang_scheduling;
mod group_domains;
pub mod image_locality;
pub mod inter_pod_affinity;
pub mod node_affinity;
mod node_change;
pub mod node_declared_features;
pub mod node_name;
pub mod node_ports;
pub mod node_resources_balanced_allocation;
pub mod node_resources_fit;
pub mod node_unschedulable;
pub mod node_volume_limits;
pub mod place_labels;
pub mod pod_claims;
pub mod pod_group_fragmentation;
pub mod pod_group_pods_count;
pub mod pod_topology_spread;
pub mod preferred_topology;
pub mod priority_sort;
pub mod resource_allocation;
pub mod scheduling_gates;
pub mod taint_toleration;
pub mod topology_placement_generator;
pub mod utilization_shape;
pub mod volume_binding;
pub mod volume_restrictions;
pub mod volume_zone;

use plimsoll_framework::Registry;

pub use self::devices::selector_fault;

/// A plugin of the default profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefaultPlugin {
    /// Its name.
    pub name: &'static str,
    /// The weight of its scores; 0 if the profile gives none, which counts as 1 if it scores.
    pub weight: i32,
    /// The feature gate without which it does not belong to the profile.
    pub gate: Option<&'static str>,
}

impl DefaultPlugin {
    const fn new(name: &'static str) -> Self {
        DefaultPlugin { name, weight: 0, gate: None }
    }

    const fn weighing(name: &'static str, weight: i32) -> Self {
        DefaultPlugin { name, weight, gate: None }
    }

    const fn gated(name: &'static str, gate: &'static str) -> Self {
        DefaultPlugin { name, weight: 0, gate: Some(gate) }
    }
}

/// The plugins of the default profile, all enabled at MultiPoint, in this order. As in
/// apis/config/v1/default_plugins.go; plugins whose gate is off in 1.36 are not listed.
pub const DEFAULT_PROFILE: &[DefaultPlugin] = &[
    DefaultPlugin::new("SchedulingGates"),
    DefaultPlugin::new("PrioritySort"),
    DefaultPlugin::new("NodeUnschedulable"),
    DefaultPlugin::new("NodeName"),
    DefaultPlugin::weighing("TaintToleration", 3),
    DefaultPlugin::weighing("NodeAffinity", 2),
    DefaultPlugin::new("NodePorts"),
    DefaultPlugin::weighing("NodeResourcesFit", 1),
    DefaultPlugin::new("VolumeRestrictions"),
    DefaultPlugin::new("NodeVolumeLimits"),
    DefaultPlugin::new("VolumeBinding"),
    DefaultPlugin::new("VolumeZone"),
    DefaultPlugin::weighing("PodTopologySpread", 2),
    DefaultPlugin::weighing("InterPodAffinity", 2),
    DefaultPlugin::weighing("DynamicResources", 2),
    DefaultPlugin::new("DefaultPreemption"),
    DefaultPlugin::weighing("NodeResourcesBalancedAllocation", 1),
    DefaultPlugin::weighing("ImageLocality", 1),
    DefaultPlugin::new("DefaultBinder"),
    DefaultPlugin::gated("NodeDeclaredFeatures", node_declared_features::GATE),
];

/// The plugins for groups of pods, which follow those of the default profile if their gates are on. See
/// `Catalogue::with_gates` of the configuration.
pub const OF_GROUPS: [DefaultPlugin; 3] = [
    DefaultPlugin::gated("GangScheduling", "GangScheduling"),
    DefaultPlugin::gated("TopologyPlacementGenerator", "TopologyAwareWorkloadScheduling"),
    DefaultPlugin::gated("PodGroupPodsCount", "TopologyAwareWorkloadScheduling"),
];

/// The plugins that no default profile has: a configuration must name them.
pub const ON_REQUEST: [&str; 3] = ["Coscheduling", "PreferredTopology", "PodGroupFragmentation"];

/// The default profile as pairs of name and weight, with the plugins whose gate is on in 1.36.
pub fn default_profile() -> Vec<(&'static str, i32)> {
    DEFAULT_PROFILE.iter().map(|plugin| (plugin.name, plugin.weight)).collect()
}

/// All plugins, in the order of the default profile, then those [on request](ON_REQUEST).
pub fn in_tree() -> Registry {
    Registry::new([
        scheduling_gates::entry(),
        priority_sort::entry(),
        node_unschedulable::entry(),
        node_name::entry(),
        taint_toleration::entry(),
        node_affinity::entry(),
        node_ports::entry(),
        node_resources_fit::entry(),
        volume_restrictions::entry(),
        node_volume_limits::entry(),
        volume_binding::entry(),
        volume_zone::entry(),
        pod_topology_spread::entry(),
        inter_pod_affinity::entry(),
        dynamic_resources::entry(),
        default_preemption::entry(),
        node_resources_balanced_allocation::entry(),
        image_locality::entry(),
        default_binder::entry(),
        node_declared_features::entry(),
        gang_scheduling::entry(),
        topology_placement_generator::entry(),
        pod_group_pods_count::entry(),
        coscheduling::entry(),
        preferred_topology::entry(),
        pod_group_fragmentation::entry(),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_registry_has_the_plugins_of_the_default_profile_in_its_order() {
        let registry = in_tree();
        let names = registry.iter().map(plimsoll_framework::Entry::name);
        let defaults = DEFAULT_PROFILE.iter().map(|plugin| plugin.name);
        let of_groups = OF_GROUPS.iter().map(|plugin| plugin.name);
        assert!(names.eq(defaults.chain(of_groups).chain(ON_REQUEST)));
    }

    #[test]
    fn every_plugin_can_be_made_without_args() {
        for entry in in_tree().iter() {
            assert!(entry.make(None, &plimsoll_framework::FeatureGates::default()).is_ok());
        }
    }
}
