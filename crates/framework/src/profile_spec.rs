//! The contents of a profile, as data.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::points::Point;

/// The contents of a profile. They come from a configuration, and the engine makes a profile from them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProfileSpec {
    /// The scheduler name of the pods it places.
    pub scheduler_name: String,
    /// How many feasible nodes are enough, in percent of all nodes: 0 to 100, where 0 means the adaptive
    /// formula. Without Score plugins one is enough. With `None` all nodes are judged in any case.
    pub percentage_of_nodes_to_score: Option<u8>,
    /// The plugins of each point in order, with their weights. Weights are used at Score only; a weight below 1
    /// counts as 1.
    pub points: BTreeMap<Point, Vec<(String, i64)>>,
    /// The args of plugins, by name.
    pub args: BTreeMap<String, Value>,
    /// Whether all filters judge a node, even after one has rejected it, so that the reasons of all are reported.
    /// As upstream's `WithRunAllFilters`, a Policy's `alwaysCheckAllPredicates`.
    pub run_all_filters: bool,
}
