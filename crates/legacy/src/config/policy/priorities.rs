//! Translates the priorities of a Policy to score plugins.

use std::collections::BTreeMap;

use plimsoll_config::{Catalogue, Faults, Point, Priority as Written};
use plimsoll_document::{Document, FieldPath};
use plimsoll_framework::args::shape;
use serde_json::{Value, json};

use super::names::{
    self, BALANCED, BY_ARGUMENT, BY_FULLNESS, CAPACITY_RATIO, DEFAULT_PRIORITIES, EQUAL,
    EVEN_SPREAD, NODE_LABEL, PRIORITIES, Priority, REQUESTED_TO_CAPACITY, RESOURCE_LIMITS,
    SELECTOR_SPREAD, SERVICE_SPREAD, SERVICE_SPREAD_FUNCTION,
};
use super::profile::{Asking, Plan};
use super::types::{CapacityRatio, PriorityArgument, PriorityPolicy, ResourceSpec};
use super::{Custom, Notes};

/// The highest weight: plugins have 32-bit weights.
const MOST_WEIGHT: i64 = i32::MAX as i64;
const POD_TOPOLOGY_SPREAD: &str = "PodTopologySpread";

/// A priority that the Policy uses.
struct Chosen {
    weight: i64,
    asking: Asking,
}

/// Enables the score plugins that replace `priorities`.
///
/// As in factory.go, createFromConfig, and legacy_registry.go, AppendPriorityConfigs: of two entries for one priority
/// the later is used, and plugins are sorted by the names of their priorities.
pub(super) fn apply(
    priorities: Option<&[PriorityPolicy]>,
    plan: &mut Plan,
    custom: &mut Custom,
    catalogue: &Catalogue,
    notes: &mut Notes,
    faults: &mut Faults<'_>,
) {
    let list = FieldPath::root().key("priorities");
    let mut chosen: BTreeMap<&'static str, Chosen> = BTreeMap::new();
    match priorities {
        None => {
            for (name, weight) in DEFAULT_PRIORITIES {
                let asking = Asking { what: format!("priority {name}"), field: list.clone() };
                chosen.insert(name, Chosen { weight, asking });
            }
        }
        Some(priorities) => {
            declared_alike(priorities, &list, faults);
            for (index, priority) in priorities.iter().enumerate() {
                let field = list.index(index);
                weigh(priority, &field, faults);
                let key = key(priority, &field, custom, notes, faults);
                let Some(key) = key.filter(|key| *key != EQUAL) else { continue };
                let what = format!("priority {}", priority.name);
                let asking = Asking { what, field: field.clone() };
                let earlier = chosen.insert(key, Chosen { weight: priority.weight, asking });
                if earlier.is_some() && !BY_ARGUMENT.contains(&key) {
                    let message =
                        format!("priority {key:?} is listed twice: the last weight is used");
                    notes.warn(field, message);
                }
            }
        }
    }
    warn_of_balance_alone(&chosen, notes);
    for (name, chosen) in &chosen {
        let known = PRIORITIES.iter().find(|known| known.name == *name);
        let known = known.expect("only names of the list are chosen");
        enable(known, chosen, plan, custom, faults);
    }
    spread(&chosen, plan, catalogue);
}

/// As a comment in balanced_resource_allocation.go of 1.5 says, it must not be used alone.
fn warn_of_balance_alone(chosen: &BTreeMap<&'static str, Chosen>, notes: &mut Notes) {
    let Some(balanced) = chosen.get(BALANCED) else { return };
    if BY_FULLNESS.iter().all(|other| !chosen.contains_key(other)) {
        let message = format!(
            "priority {BALANCED:?} is used without LeastRequestedPriority or MostRequestedPriority: \
             alone it rates an almost full node as high as an empty one; add one of them"
        );
        notes.warn(balanced.asking.field.key("name"), message);
    }
}

/// The priorities with the names that the Policy gives them.
pub(super) fn as_written(
    priorities: Option<&[PriorityPolicy]>,
    document: &Document,
) -> Vec<Written> {
    let Some(priorities) = priorities else {
        let default = DEFAULT_PRIORITIES.into_iter();
        let written =
            |(name, weight): (&str, i64)| Written { name: name.to_owned(), weight, argument: None };
        return default.map(written).collect();
    };
    let list = FieldPath::root().key("priorities");
    let mut written: Vec<Written> = Vec::new();
    for (index, priority) in priorities.iter().enumerate() {
        let argument = document.get(&list.index(index).key("argument"));
        let argument = argument.filter(|value| !value.is_null()).cloned();
        let is_known = known(&priority.name).is_some();
        if is_known {
            let meant = names::unaliased(&priority.name);
            written.retain(|earlier| names::unaliased(&earlier.name) != meant);
        }
        let (name, weight) = (priority.name.clone(), priority.weight);
        written.push(Written { name, weight, argument: argument.filter(|_| !is_known) });
    }
    written
}

/// The priority that a name means without an argument.
fn known(name: &str) -> Option<&'static Priority> {
    let is_meant = |known: &&Priority| known.name == names::unaliased(name);
    PRIORITIES.iter().find(is_meant).filter(|one| !BY_ARGUMENT.contains(&one.name))
}

fn enable(
    priority: &Priority,
    chosen: &Chosen,
    plan: &mut Plan,
    custom: &Custom,
    faults: &mut Faults<'_>,
) {
    // Entries of one kind become one plugin, whose score is their average, so it gets the sum of their weights.
    let n_entries = match priority.name {
        NODE_LABEL => custom.present_preference.len() + custom.absent_preference.len(),
        SERVICE_SPREAD => custom.anti_affinity_preference.len(),
        _ => 1,
    };
    let n_entries = i64::try_from(n_entries).unwrap_or(i64::MAX);
    let weight = chosen.weight.saturating_mul(n_entries);
    if MOST_WEIGHT < weight && chosen.weight <= MOST_WEIGHT {
        overflown(&chosen.asking.what, &chosen.asking.field, faults);
    }
    if priority.prepares {
        plan.enable(priority.plugin, Point::PreScore, 0, &chosen.asking);
    }
    plan.enable(priority.plugin, Point::Score, weight, &chosen.asking);
}

/// PodTopologySpread replaces both priorities that spread pods. As in legacy_registry.go, it has the system's
/// constraints with SelectorSpreadPriority, and none with EvenPodsSpreadPriority alone.
fn spread(chosen: &BTreeMap<&'static str, Chosen>, plan: &mut Plan, catalogue: &Catalogue) {
    if chosen.contains_key(EVEN_SPREAD)
        && !chosen.contains_key(SELECTOR_SPREAD)
        && let Some(mut args) = catalogue.default_args(POD_TOPOLOGY_SPREAD)
    {
        args["defaultingType"] = json!("List");
        plan.args.insert(POD_TOPOLOGY_SPREAD, args);
    }
}

/// The priority of 1.20 that an entry means. Reports its errors.
fn key(
    priority: &PriorityPolicy,
    field: &FieldPath,
    custom: &mut Custom,
    notes: &mut Notes,
    faults: &mut Faults<'_>,
) -> Option<&'static str> {
    let name = priority.name.as_str();
    if name.is_empty() {
        faults.required(field.key("name"), "write the name of a priority");
        return None;
    }
    if let Some(argument) = &priority.argument {
        let n_args = n_args(argument);
        if n_args != 1 {
            let message = format!(
                "exactly 1 priority argument is required, numArgs: {n_args}, priority {name:?}: keep \
                 one of serviceAntiAffinity, labelPreference and requestedToCapacityRatioArguments, \
                 and write the others as entries of their own"
            );
            faults.report(field.key("argument"), message);
            return None;
        }
    }
    if let Some(known) = known(name) {
        if priority.argument.is_some() {
            notes.ignored_argument("priority", name, field);
        }
        if known.name == RESOURCE_LIMITS {
            let message = format!(
                "priority {name:?} was removed in release 1.20: the plugin {} replaces it",
                known.plugin
            );
            notes.warn(field.key("name"), message);
        }
        return Some(known.name);
    }
    match &priority.argument {
        Some(argument) => Some(customised(argument, &field.key("argument"), custom, faults)),
        None if name == SERVICE_SPREAD_FUNCTION => {
            let message = format!(
                "priority {name:?} is the name of serviceAntiAffinity in old documentation: without an \
                 argument that names a label, it spreads the pods of a Service over nodes; write \
                 serviceAntiAffinity with a label"
            );
            notes.warn(field.key("name"), message);
            Some(SELECTOR_SPREAD)
        }
        None if name == REQUESTED_TO_CAPACITY => {
            let message = format!(
                "priority {name:?} without an argument was removed in release 1.17: here it prefers the \
                 nodes that are used least, as it did before; write the shape as requestedToCapacityRatioArguments"
            );
            notes.warn(field.key("name"), message);
            custom.capacity_ratio.get_or_insert_with(|| {
                json!({"shape": [{"utilization": 0, "score": 10}, {"utilization": 100, "score": 0}]})
            });
            Some(CAPACITY_RATIO)
        }
        None => {
            unknown(name, field, faults);
            None
        }
    }
}

fn customised(
    argument: &PriorityArgument,
    field: &FieldPath,
    custom: &mut Custom,
    faults: &mut Faults<'_>,
) -> &'static str {
    if let Some(spread) = &argument.service_anti_affinity {
        custom.anti_affinity_preference.push(spread.label.clone());
        return SERVICE_SPREAD;
    }
    if let Some(preference) = &argument.label_preference {
        let labels = if preference.presence {
            &mut custom.present_preference
        } else {
            &mut custom.absent_preference
        };
        labels.push(preference.label.clone());
        return NODE_LABEL;
    }
    if let Some(ratio) = &argument.requested_to_capacity_ratio_arguments {
        let field = field.key("requestedToCapacityRatioArguments");
        custom.capacity_ratio = Some(capacity_ratio(ratio, &field, faults));
    }
    CAPACITY_RATIO
}

/// As in validation_pluginargs.go, ValidateRequestedToCapacityRatioArgs.
fn capacity_ratio(ratio: &CapacityRatio, field: &FieldPath, faults: &mut Faults<'_>) -> Value {
    let shape_field = field.key("shape");
    shape::validate(&ratio.shape, |at, message| {
        let field = at.map(|(index, key)| shape_field.index(index).key(key));
        faults.report(field.unwrap_or_else(|| shape_field.clone()), message);
    });
    for (index, resource) in ratio.resources.iter().enumerate() {
        if resource.weight < 0 {
            let field = field.key("resources").index(index).key("weight");
            let rule = format!("resource weight of {} should be a positive value", resource.name);
            faults.invalid(field, resource.weight, &rule);
        }
    }
    let mut args = json!({"shape": ratio.shape});
    if !ratio.resources.is_empty() {
        let weighed = |resource: &ResourceSpec| {
            // As in requested_to_capacity_ratio.go, NewRequestedToCapacityRatio: a weight of 0 counts as 1.
            json!({"name": resource.name, "weight": resource.weight.max(1)})
        };
        args["resources"] = ratio.resources.iter().map(weighed).collect();
    }
    args
}

fn n_args(argument: &PriorityArgument) -> usize {
    let args = [
        argument.service_anti_affinity.is_some(),
        argument.label_preference.is_some(),
        argument.requested_to_capacity_ratio_arguments.is_some(),
    ];
    args.into_iter().filter(|is_there| *is_there).count()
}

/// As in validation.go, ValidatePolicy.
fn weigh(priority: &PriorityPolicy, field: &FieldPath, faults: &mut Faults<'_>) {
    if priority.weight <= 0 || MOST_WEIGHT < priority.weight {
        overflown(&format!("priority {}", priority.name), field, faults);
    }
}

fn overflown(what: &str, field: &FieldPath, faults: &mut Faults<'_>) {
    let message = format!(
        "{what} should have a positive weight applied to it or it has overflown: write a `weight` of \
         1 to {MOST_WEIGHT}"
    );
    faults.report(field.key("weight"), message);
}

/// Entries of one kind must have the same weight; only one entry may have a capacity ratio.
///
/// As in validation.go, validateCustomPriorities, which compares an entry with the previous one of its kind.
fn declared_alike(priorities: &[PriorityPolicy], list: &FieldPath, faults: &mut Faults<'_>) {
    let mut before: BTreeMap<&str, &PriorityPolicy> = BTreeMap::new();
    for (index, priority) in priorities.iter().enumerate() {
        let Some(argument) = &priority.argument else { continue };
        let kind = if argument.label_preference.is_some() {
            "LabelPreference"
        } else if argument.service_anti_affinity.is_some() {
            "ServiceAntiAffinity"
        } else if argument.requested_to_capacity_ratio_arguments.is_some() {
            CAPACITY_RATIO
        } else {
            continue;
        };
        let (name, field) = (&priority.name, list.index(index));
        match before.insert(kind, priority) {
            Some(earlier) if kind == CAPACITY_RATIO => {
                let message = format!(
                    "priority {name:?} redeclares custom priority {kind:?}, from: {:?}: keep one of \
                     them",
                    earlier.name
                );
                faults.report(field, message);
            }
            Some(earlier) if earlier.weight != priority.weight => {
                let message = format!(
                    "{kind}  priority {name:?} has a different weight with {:?}: {} is not {}, and \
                     they become one plugin with one weight",
                    earlier.name, priority.weight, earlier.weight
                );
                faults.report(field.key("weight"), message);
            }
            _ => {}
        }
    }
}

fn unknown(name: &str, field: &FieldPath, faults: &mut Faults<'_>) {
    let known = PRIORITIES.iter().map(|known| known.name);
    let known = known.filter(|known| !BY_ARGUMENT.contains(known)).chain([REQUESTED_TO_CAPACITY]);
    let advice = match names::nearest(name, known) {
        Some(nearest) => format!("did you mean {nearest:?}?"),
        None => "a name of your own needs an argument, serviceAntiAffinity, labelPreference or \
                 requestedToCapacityRatioArguments"
            .to_owned(),
    };
    let message = format!("priority type not found for {name:?}: {advice}");
    faults.report(field.key("name"), message);
}
