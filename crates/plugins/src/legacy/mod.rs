//! Plugins of kube-scheduler 1.20 that later releases dropped, and that old configurations name. They
//! belong to no default profile of today.

mod groups;
pub mod node_label;
pub mod node_prefer_avoid_pods;
pub mod selector_spread;
pub mod service_affinity;

use plimsoll_framework::Entry;

/// All of them, in the order of their names.
pub fn entries() -> Vec<Entry> {
    vec![
        node_label::entry(),
        node_prefer_avoid_pods::entry(),
        selector_spread::entry(),
        service_affinity::entry(),
    ]
}
