//! The args of NodeResourcesFit, and which are valid.

use plimsoll_framework::prelude::*;
use serde::{Deserialize, Serialize};

use crate::resource_allocation::{self, ResourceSpec};
use crate::utilization_shape::{self, UtilizationShapePoint};

/// In the order in which upstream lists them.
const SCORING_STRATEGIES: [&str; 3] = [LEAST_ALLOCATED, MOST_ALLOCATED, REQUESTED_TO_CAPACITY];
pub(super) const LEAST_ALLOCATED: &str = "LeastAllocated";
pub(super) const MOST_ALLOCATED: &str = "MostAllocated";
pub(super) const REQUESTED_TO_CAPACITY: &str = "RequestedToCapacityRatio";

/// `NodeResourcesFitArgs` of `kubescheduler.config.k8s.io/v1`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
pub struct NodeResourcesFitArgs {
    #[serde(skip_serializing)]
    pub(super) api_version: String,
    #[serde(skip_serializing)]
    pub(super) kind: String,
    /// Extended resources that the filter does not look at.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ignored_resources: Vec<String>,
    /// The filter looks at no extended resource with one of these prefixes: `example.com` stands
    /// for `example.com/a` and `example.com/b`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ignored_resource_groups: Vec<String>,
    /// How nodes are scored; by default emptier nodes are preferred, by CPU and memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scoring_strategy: Option<ScoringStrategyArgs>,
    /// A node whose pods ask for more of something than it has takes only pods that ask for nothing at
    /// all, as in release 1.20. kube-scheduler's args have no such field.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reject_overcommitted_nodes: bool,
}

/// How nodes are scored, and by which resources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
pub struct ScoringStrategyArgs {
    /// `LeastAllocated`, `MostAllocated` or `RequestedToCapacityRatio`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The resources that count; CPU and memory alike if none are named.
    pub resources: Vec<ResourceSpec>,
    /// For the type of this name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested_to_capacity_ratio: Option<RequestedToCapacityRatioParam>,
}

/// The score of a node by how full it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
pub struct RequestedToCapacityRatioParam {
    /// The score for each utilization.
    pub shape: Vec<UtilizationShapePoint>,
}

impl NodeResourcesFitArgs {
    pub(super) fn complete(&mut self) {
        let strategy = self.scoring_strategy.get_or_insert_with(|| ScoringStrategyArgs {
            kind: LEAST_ALLOCATED.to_owned(),
            ..ScoringStrategyArgs::default()
        });
        resource_allocation::complete(&mut strategy.resources);
    }

    /// As in validation_pluginargs.go, ValidateNodeResourcesFitArgs.
    pub(super) fn validate(&self, faults: &mut ArgsFaults) {
        let args = ArgsField::default();
        for (index, resource) in self.ignored_resources.iter().enumerate() {
            faults.label_key(resource, &args.key("ignoredResources").index(index));
        }
        for (index, group) in self.ignored_resource_groups.iter().enumerate() {
            let field = args.key("ignoredResourceGroups").index(index);
            if group.contains('/') {
                faults.invalid(field.clone(), group, "resource group name can't contain '/'");
            }
            faults.label_key(group, &field);
        }
        if let Some(strategy) = &self.scoring_strategy {
            strategy.validate(&args.key("scoringStrategy"), faults);
        }
    }
}

impl ScoringStrategyArgs {
    fn validate(&self, field: &ArgsField, faults: &mut ArgsFaults) {
        if !SCORING_STRATEGIES.contains(&self.kind.as_str()) {
            faults.not_supported(field.key("type"), &self.kind, &SCORING_STRATEGIES);
        }
        for (index, ResourceSpec { name, weight }) in self.resources.iter().enumerate() {
            if !(1..=100).contains(weight) {
                let rule = format!("resource weight of {name} not in valid range (0, 100]");
                faults.invalid(field.key("resources").index(index).key("weight"), weight, &rule);
            }
        }
        let ratio_field = field.key("requestedToCapacityRatio");
        let is_ratio = self.kind == REQUESTED_TO_CAPACITY;
        match &self.requested_to_capacity_ratio {
            Some(ratio) if is_ratio => {
                utilization_shape::validate(&ratio.shape, &ratio_field.key("shape"), faults);
            }
            None if is_ratio => {
                let rule = "must be specified when type is RequestedToCapacityRatio";
                faults.required(ratio_field, rule);
            }
            Some(_) => {
                let rule = "must be nil when type is not RequestedToCapacityRatio";
                faults.forbidden(ratio_field, rule);
            }
            None => {}
        }
    }
}
