//! Plugins of earlier releases that 1.36 does not have. They are not in the default profile, but in
//! configurations of the versions that had them.
//!
//! Statements about release 1.20 are from its source code, and hold for all releases in which these
//! plugins existed.

mod allocation;
mod groups;
pub mod in_tree_volume_limits;
pub mod least_allocated;
pub mod most_allocated;
pub mod node_label;
pub mod node_prefer_avoid_pods;
pub mod node_resource_limits;
pub mod requested_to_capacity_ratio;
pub mod selector_spread;
pub mod service_affinity;

use plimsoll_framework::Entry;

/// These plugins, in the order of their modules.
pub fn entries() -> Vec<Entry> {
    let mut entries = Vec::new();
    entries.extend(in_tree_volume_limits::entries());
    entries.push(least_allocated::entry());
    entries.push(most_allocated::entry());
    entries.push(node_label::entry());
    entries.push(node_prefer_avoid_pods::entry());
    entries.push(node_resource_limits::entry());
    entries.push(requested_to_capacity_ratio::entry());
    entries.push(selector_spread::entry());
    entries.push(service_affinity::entry());
    entries
}
