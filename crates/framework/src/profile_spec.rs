//! What a profile is to contain, as data.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::points::Point;

/// What a profile is to contain. A configuration says it, and the engine makes a profile of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProfileSpec {
    /// The scheduler name of the pods it places.
    pub scheduler_name: String,
    /// How many feasible nodes are enough, in percent of all nodes, 0 to 100, where 0 means the adaptive
    /// formula. Without any Score plugin one is enough. `None` looks at all nodes in any case.
    pub percentage_of_nodes_to_score: Option<u8>,
    /// The plugins of each point in order, with their weights, which count at Score only. A weight
    /// below 1 counts as 1.
    pub points: BTreeMap<Point, Vec<(String, i64)>>,
    /// The args of plugins, by name.
    pub args: BTreeMap<String, Value>,
    /// Whether every filter is asked about a node, even after one rejected it, so that the reasons of
    /// all are told. As upstream's `WithRunAllFilters`, a Policy's `alwaysCheckAllPredicates`.
    pub run_all_filters: bool,
}
