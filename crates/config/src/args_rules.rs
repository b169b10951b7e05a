//! Which args of plugins are valid.
//!
//! As in pkg/scheduler/apis/config/validation/validation_pluginargs.go.

use plimsoll_document::FieldPath;

use crate::args::{
    Args, DefaultPreemptionArgs, DynamicResourcesArgs, NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs, PodTopologySpreadArgs, ResourceSpec, ScoringStrategy, ShapePoint,
    SpreadConstraint, VolumeBindingArgs,
};
use crate::catalogue::Gates;
use crate::duration::GoDuration;
use crate::faults::Faults;
use crate::names::label_key_faults;

/// In the order in which upstream lists them.
const SCORING_STRATEGIES: [&str; 3] = ["LeastAllocated", "MostAllocated", REQUESTED_TO_CAPACITY];
const REQUESTED_TO_CAPACITY: &str = "RequestedToCapacityRatio";
const DEFAULTING_TYPES: [&str; 2] = ["System", "List"];
const WHEN_UNSATISFIABLE: [&str; 2] = ["DoNotSchedule", "ScheduleAnyway"];

impl Args {
    /// Reports what is invalid in these args, which stand at `field`.
    pub(crate) fn validate(&self, field: &FieldPath, gates: Gates, faults: &mut Faults<'_>) {
        match self {
            Self::DefaultPreemption(args) => default_preemption(args, field, faults),
            Self::DynamicResources(args) => dynamic_resources(args, field, gates, faults),
            Self::InterPodAffinity(args) => {
                let weight = args.hard_pod_affinity_weight.unwrap_or_default();
                if !(0..=100).contains(&weight) {
                    let field = field.key("hardPodAffinityWeight");
                    faults.invalid(field, weight, "not in valid range [0, 100]");
                }
            }
            Self::NodeAffinity(args) => {
                if let Some(affinity) = &args.added_affinity {
                    affinity.validate(&field.key("addedAffinity"), faults);
                }
            }
            Self::NodeResourcesBalancedAllocation(args) => balanced(args, field, faults),
            Self::NodeResourcesFit(args) => fit(args, field, faults),
            Self::PodTopologySpread(args) => spread(args, field, faults),
            Self::VolumeBinding(args) => volume_binding(args, field, gates, faults),
            Self::Other(_) => {}
        }
    }
}

fn default_preemption(args: &DefaultPreemptionArgs, field: &FieldPath, faults: &mut Faults<'_>) {
    let (percentage, absolute) = (
        args.min_candidate_nodes_percentage.unwrap_or_default(),
        args.min_candidate_nodes_absolute.unwrap_or_default(),
    );
    let (percentage_field, absolute_field) =
        (field.key("minCandidateNodesPercentage"), field.key("minCandidateNodesAbsolute"));
    if !(0..=100).contains(&percentage) {
        faults.invalid(percentage_field.clone(), percentage, "not in valid range [0, 100]");
    }
    if absolute < 0 {
        faults.invalid(absolute_field.clone(), absolute, "not in valid range [0, inf)");
    }
    if percentage == 0 && absolute == 0 {
        let rule = "cannot be zero at the same time as minCandidateNodesAbsolute";
        faults.invalid(percentage_field, percentage, rule);
        let rule = "cannot be zero at the same time as minCandidateNodesPercentage";
        faults.invalid(absolute_field, absolute, rule);
    }
}

fn dynamic_resources(
    args: &DynamicResourcesArgs,
    field: &FieldPath,
    gates: Gates,
    faults: &mut Faults<'_>,
) {
    let filter_field = field.key("filterTimeout");
    match args.filter_timeout {
        Some(_) if !gates.dra_scheduler_filter_timeout => {
            faults.forbidden(filter_field, "DRASchedulingFilterTimeout feature gate is disabled");
        }
        Some(timeout) if timeout.nanoseconds < 0 => {
            faults.invalid_shown(filter_field, timeout, "must be zero or positive");
        }
        _ => {}
    }
    let is_gate_on = gates.dra_device_binding_conditions && gates.dra_resource_claim_device_status;
    let binding_field = field.key("bindingTimeout");
    match args.binding_timeout {
        Some(_) if !is_gate_on => {
            let rule = "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus feature gate \
                        is disabled";
            faults.forbidden(binding_field, rule);
        }
        Some(timeout) if timeout < GoDuration::from_seconds(1) => {
            faults.invalid_shown(binding_field, timeout, "must be at least 1 second");
        }
        _ => {}
    }
}

fn balanced(
    args: &NodeResourcesBalancedAllocationArgs,
    field: &FieldPath,
    faults: &mut Faults<'_>,
) {
    let field = field.key("resources");
    for (index, resource) in args.resources.iter().enumerate() {
        if args.resources[..index].iter().any(|other| other.name == resource.name) {
            faults.duplicate(field.index(index).key("name"), &resource.name);
        }
        if resource.weight != 1 {
            faults.invalid(field.index(index).key("weight"), resource.weight, "must be 1");
        }
    }
}

fn fit(args: &NodeResourcesFitArgs, field: &FieldPath, faults: &mut Faults<'_>) {
    for (index, resource) in args.ignored_resources.iter().enumerate() {
        label_key(resource, &field.key("ignoredResources").index(index), faults);
    }
    for (index, group) in args.ignored_resource_groups.iter().enumerate() {
        let field = field.key("ignoredResourceGroups").index(index);
        if group.contains('/') {
            faults.invalid(field.clone(), group, "resource group name can't contain '/'");
        }
        label_key(group, &field, faults);
    }
    if let Some(strategy) = &args.scoring_strategy {
        scoring_strategy(strategy, &field.key("scoringStrategy"), faults);
    }
}

fn scoring_strategy(strategy: &ScoringStrategy, field: &FieldPath, faults: &mut Faults<'_>) {
    if !SCORING_STRATEGIES.contains(&strategy.kind.as_str()) {
        faults.not_supported(field.key("type"), &strategy.kind, &SCORING_STRATEGIES);
    }
    for (index, ResourceSpec { name, weight }) in strategy.resources.iter().enumerate() {
        if !(1..=100).contains(weight) {
            let rule = format!("resource weight of {name} not in valid range (0, 100]");
            faults.invalid(field.key("resources").index(index).key("weight"), weight, &rule);
        }
    }
    let ratio_field = field.key("requestedToCapacityRatio");
    let is_ratio = strategy.kind == REQUESTED_TO_CAPACITY;
    match &strategy.requested_to_capacity_ratio {
        Some(ratio) if is_ratio => shape(&ratio.shape, &ratio_field.key("shape"), faults),
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

/// As in validation_pluginargs.go, validateFunctionShape.
/// Reports what is invalid in a function from utilization to score.
pub(crate) fn shape(points: &[ShapePoint], field: &FieldPath, faults: &mut Faults<'_>) {
    if points.is_empty() {
        faults.required(field.clone(), "at least one point must be specified");
        return;
    }
    let disorder = points.windows(2).position(|pair| pair[0].utilization >= pair[1].utilization);
    if let Some(position) = disorder {
        let index = position + 1;
        let rule = "values must be sorted in increasing order";
        faults.invalid(field.index(index).key("utilization"), points[index].utilization, rule);
    }
    for (index, point) in points.iter().enumerate() {
        if !(0..=100).contains(&point.utilization) {
            let field = field.index(index).key("utilization");
            faults.invalid(field, point.utilization, "not in valid range [0, 100]");
        }
        if !(0..=10).contains(&point.score) {
            let field = field.index(index).key("score");
            faults.invalid(field, point.score, "not in valid range [0, 10]");
        }
    }
}

fn spread(args: &PodTopologySpreadArgs, field: &FieldPath, faults: &mut Faults<'_>) {
    let type_field = field.key("defaultingType");
    let defaulting = args.defaulting_type.as_str();
    if !DEFAULTING_TYPES.contains(&defaulting) {
        faults.not_supported(type_field, defaulting, &DEFAULTING_TYPES);
    } else if defaulting == "System" && !args.default_constraints.is_empty() {
        faults.invalid(type_field, defaulting, "when .defaultConstraints are not empty");
    }
    let field = field.key("defaultConstraints");
    for (index, one) in args.default_constraints.iter().enumerate() {
        spread_constraint(one, &field.index(index), faults);
        let is_repeated = args.default_constraints[..index].iter().any(|other| {
            other.topology_key == one.topology_key
                && other.when_unsatisfiable == one.when_unsatisfiable
        });
        if is_repeated {
            let value = format!("{{{}, {}}}", one.topology_key, one.when_unsatisfiable);
            faults.duplicate(field.index(index), value);
        }
    }
}

fn spread_constraint(constraint: &SpreadConstraint, field: &FieldPath, faults: &mut Faults<'_>) {
    if constraint.max_skew <= 0 {
        faults.invalid(field.key("maxSkew"), constraint.max_skew, "not in valid range (0, inf)");
    }
    let key_field = field.key("topologyKey");
    match constraint.topology_key.as_str() {
        "" => faults.required(key_field, "can not be empty"),
        key => label_key(key, &key_field, faults),
    }
    let when_field = field.key("whenUnsatisfiable");
    match constraint.when_unsatisfiable.as_str() {
        "" => faults.required(when_field, "can not be empty"),
        when if WHEN_UNSATISFIABLE.contains(&when) => {}
        when => faults.not_supported(when_field, when, &WHEN_UNSATISFIABLE),
    }
    if constraint.label_selector.is_some() {
        let rule = "constraint must not define a selector, as they deduced for each pod";
        faults.forbidden(field.key("labelSelector"), rule);
    }
}

fn volume_binding(
    args: &VolumeBindingArgs,
    field: &FieldPath,
    gates: Gates,
    faults: &mut Faults<'_>,
) {
    let timeout = args.bind_timeout_seconds.unwrap_or_default();
    if timeout < 0 {
        let rule = "invalid BindTimeoutSeconds, should not be a negative value";
        faults.invalid(field.key("bindTimeoutSeconds"), timeout, rule);
    }
    match &args.shape {
        Some(points) if !gates.storage_capacity_scoring => {
            let rule = "unexpected field `shape`, remove it or turn on the feature gate \
                        StorageCapacityScoring";
            faults.invalid(field.key("shape"), points, rule);
        }
        Some(points) => shape(points, &field.key("shape"), faults),
        None => {}
    }
}

fn label_key(key: &str, field: &FieldPath, faults: &mut Faults<'_>) {
    for fault in label_key_faults(key) {
        faults.invalid(field.clone(), key, &fault);
    }
}
