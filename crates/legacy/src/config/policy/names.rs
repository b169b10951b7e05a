//! The predicates and priorities of a Policy, and the plugins that replaced them.
//!
//! As in legacy_registry.go of release 1.20. Names that only earlier releases had are listed with their replacements.

use plimsoll_config::Point;

/// A predicate with the plugins that replaced it.
pub(super) struct Predicate {
    pub(super) name: &'static str,
    pub(super) plugins: &'static [(&'static str, &'static [Point])],
}

/// A priority with the plugin that replaced it.
pub(super) struct Priority {
    pub(super) name: &'static str,
    pub(super) plugin: &'static str,
    /// Whether the plugin is also enabled at PreScore.
    pub(super) prepares: bool,
}

/// A name that 1.20 does not have, with the names of 1.20 that replace it, and the reason. Messages have the reason
/// after the name.
pub(super) struct Gone {
    pub(super) name: &'static str,
    pub(super) instead: &'static [&'static str],
    pub(super) why: &'static str,
}

pub(super) const GENERAL: &str = "GeneralPredicates";
/// The predicate that all entries with `labelsPresence` become.
pub(super) const LABEL_PRESENCE: &str = "CheckNodeLabelPresence";
/// The predicate that all entries with `serviceAffinity` become.
pub(super) const SERVICE_AFFINITY: &str = "CheckServiceAffinity";

/// At least 5 letters must match before a prefix counts as a misspelled name: shorter ones match by chance.
const LONG_ENOUGH: usize = 5;

const FILTER: &[Point] = &[Point::Filter];
const BOTH: &[Point] = &[Point::PreFilter, Point::Filter];
const VOLUME_BINDING: &[Point] = &[Point::PreFilter, Point::Filter, Point::Reserve, Point::PreBind];

/// In the order of evaluation. As in legacy_registry.go, predicateOrdering.
pub(super) const PREDICATES: [Predicate; 19] = [
    predicate("CheckNodeUnschedulable", &[("NodeUnschedulable", FILTER)]),
    predicate(
        GENERAL,
        &[
            ("NodeResourcesFit", BOTH),
            ("NodeName", FILTER),
            ("NodePorts", BOTH),
            ("NodeAffinity", FILTER),
        ],
    ),
    predicate("HostName", &[("NodeName", FILTER)]),
    predicate("PodFitsHostPorts", &[("NodePorts", BOTH)]),
    predicate("MatchNodeSelector", &[("NodeAffinity", FILTER)]),
    predicate("PodFitsResources", &[("NodeResourcesFit", BOTH)]),
    predicate("NoDiskConflict", &[("VolumeRestrictions", FILTER)]),
    predicate("PodToleratesNodeTaints", &[("TaintToleration", FILTER)]),
    predicate(LABEL_PRESENCE, &[("NodeLabel", FILTER)]),
    predicate(SERVICE_AFFINITY, &[("ServiceAffinity", BOTH)]),
    predicate("MaxEBSVolumeCount", &[("EBSLimits", FILTER)]),
    predicate("MaxGCEPDVolumeCount", &[("GCEPDLimits", FILTER)]),
    predicate("MaxCSIVolumeCountPred", &[("NodeVolumeLimits", FILTER)]),
    predicate("MaxAzureDiskVolumeCount", &[("AzureDiskLimits", FILTER)]),
    predicate("MaxCinderVolumeCount", &[("CinderLimits", FILTER)]),
    predicate("CheckVolumeBinding", &[("VolumeBinding", VOLUME_BINDING)]),
    predicate("NoVolumeZoneConflict", &[("VolumeZone", FILTER)]),
    predicate("EvenPodsSpread", &[("PodTopologySpread", BOTH)]),
    predicate("MatchInterPodAffinity", &[("InterPodAffinity", BOTH)]),
];

/// Evaluated even if a Policy does not list them.
pub(super) const MANDATORY_PREDICATES: [&str; 2] =
    ["PodToleratesNodeTaints", "CheckNodeUnschedulable"];

/// The predicates of a Policy without `predicates`.
pub(super) const DEFAULT_PREDICATES: [&str; 12] = [
    "NoVolumeZoneConflict",
    "MaxEBSVolumeCount",
    "MaxGCEPDVolumeCount",
    "MaxAzureDiskVolumeCount",
    "MaxCSIVolumeCountPred",
    "MatchInterPodAffinity",
    "NoDiskConflict",
    GENERAL,
    "PodToleratesNodeTaints",
    "CheckVolumeBinding",
    "CheckNodeUnschedulable",
    "EvenPodsSpread",
];

/// Names of release 1.0 and the later names for the same.
pub(super) const ALIASES: [(&str, &str); 2] =
    [("PodFitsPorts", "PodFitsHostPorts"), ("ServiceSpreadingPriority", SELECTOR_SPREAD)];

const TAINTS_INSTEAD: &str = "no longer exists: taints describe the state of a node";

pub(super) const GONE_PREDICATES: [Gone; 6] = [
    gone("CheckNodeMemoryPressure", &MANDATORY_PREDICATES, TAINTS_INSTEAD),
    gone("CheckNodeDiskPressure", &MANDATORY_PREDICATES, TAINTS_INSTEAD),
    gone("CheckNodePIDPressure", &MANDATORY_PREDICATES, TAINTS_INSTEAD),
    gone("CheckNodeCondition", &MANDATORY_PREDICATES, TAINTS_INSTEAD),
    gone(
        "NoVolumeNodeConflict",
        &["CheckVolumeBinding"],
        "no longer exists: volume binding checks where volumes can be used",
    ),
    gone("MaxGCEDVolumeCount", &["MaxGCEPDVolumeCount"], "is a misspelling in old documentation"),
];

/// The function behind `serviceAntiAffinity`, which old documentation lists as a priority.
pub(super) const SERVICE_SPREAD_FUNCTION: &str = "CalculateAntiAffinityPriority";

pub(super) const SELECTOR_SPREAD: &str = "SelectorSpreadPriority";
pub(super) const BALANCED: &str = "BalancedResourceAllocation";
/// The priorities that distinguish a full node from an empty one.
pub(super) const BY_FULLNESS: [&str; 3] =
    ["LeastRequestedPriority", "MostRequestedPriority", CAPACITY_RATIO];
pub(super) const EVEN_SPREAD: &str = "EvenPodsSpreadPriority";
/// Gives all nodes the same score, and so is left out.
pub(super) const EQUAL: &str = "EqualPriority";
/// Of releases 1.12 to 1.16, with a default shape; later ones require an argument.
pub(super) const REQUESTED_TO_CAPACITY: &str = "RequestedToCapacityRatioPriority";
/// The plugin that all entries with `labelPreference` become.
pub(super) const NODE_LABEL: &str = "NodeLabel";
/// The plugin that all entries with `serviceAntiAffinity` become.
pub(super) const SERVICE_SPREAD: &str = "ServiceAffinity";
/// The plugin that the entry with `requestedToCapacityRatioArguments` becomes.
pub(super) const CAPACITY_RATIO: &str = "RequestedToCapacityRatio";

/// `PodTopologySpread` with the system's constraints replaces `SelectorSpreadPriority`, since the gate
/// `DefaultPodTopologySpread` is on in 1.20.
pub(super) const PRIORITIES: [Priority; 15] = [
    priority(BALANCED, "NodeResourcesBalancedAllocation"),
    preparing(EVEN_SPREAD, "PodTopologySpread"),
    priority("ImageLocalityPriority", "ImageLocality"),
    preparing("InterPodAffinityPriority", "InterPodAffinity"),
    priority("LeastRequestedPriority", "NodeResourcesLeastAllocated"),
    priority("MostRequestedPriority", "NodeResourcesMostAllocated"),
    priority("NodeAffinityPriority", "NodeAffinity"),
    priority(NODE_LABEL, NODE_LABEL),
    priority("NodePreferAvoidPodsPriority", "NodePreferAvoidPods"),
    priority(CAPACITY_RATIO, CAPACITY_RATIO),
    preparing(RESOURCE_LIMITS, "NodeResourceLimits"),
    preparing(SELECTOR_SPREAD, "PodTopologySpread"),
    priority(SERVICE_SPREAD, SERVICE_SPREAD),
    preparing("TaintTolerationPriority", "TaintToleration"),
    priority(EQUAL, ""),
];

/// The names of [`PRIORITIES`] that depend on the argument of an entry, not on its name.
pub(super) const BY_ARGUMENT: [&str; 3] = [NODE_LABEL, SERVICE_SPREAD, CAPACITY_RATIO];

/// Of releases 1.9 to 1.19, behind the gate `ResourceLimitsPriorityFunction`.
pub(super) const RESOURCE_LIMITS: &str = "ResourceLimitsPriority";

/// The priorities of a Policy without `priorities`.
pub(super) const DEFAULT_PRIORITIES: [(&str, i64); 9] = [
    (SELECTOR_SPREAD, 1),
    ("InterPodAffinityPriority", 1),
    ("LeastRequestedPriority", 1),
    ("BalancedResourceAllocation", 1),
    ("NodePreferAvoidPodsPriority", 10_000),
    ("NodeAffinityPriority", 1),
    ("TaintTolerationPriority", 1),
    ("ImageLocalityPriority", 1),
    (EVEN_SPREAD, 2),
];

const fn predicate(
    name: &'static str,
    plugins: &'static [(&'static str, &'static [Point])],
) -> Predicate {
    Predicate { name, plugins }
}

const fn gone(name: &'static str, instead: &'static [&'static str], why: &'static str) -> Gone {
    Gone { name, instead, why }
}

const fn priority(name: &'static str, plugin: &'static str) -> Priority {
    Priority { name, plugin, prepares: false }
}

const fn preparing(name: &'static str, plugin: &'static str) -> Priority {
    Priority { name, plugin, prepares: true }
}

/// The later name for `name`, or `name` itself.
pub(super) fn unaliased(name: &str) -> &str {
    ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, meant)| meant)
}

/// The name of `known` that was probably meant: one is a prefix of the other, or they differ in at most a third of the
/// letters.
pub(super) fn nearest<'k>(name: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    let begins = |long: &str, short: &str| {
        LONG_ENOUGH <= short.len() && long.to_lowercase().starts_with(&short.to_lowercase())
    };
    let near = known.filter_map(|other| {
        let distance = distance(name, other);
        let is_near = 3 * distance <= other.len() || begins(other, name) || begins(name, other);
        is_near.then_some((distance, other))
    });
    near.min().map(|(_, nearest)| nearest)
}

/// The Levenshtein distance of two names, ignoring case.
fn distance(one: &str, other: &str) -> usize {
    let (one, other) = (one.to_ascii_lowercase(), other.to_ascii_lowercase());
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, letter) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &candidate) in other.iter().enumerate() {
            let change = diagonal + usize::from(letter != candidate);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_that_was_meant_is_found() {
        let known = || PREDICATES.iter().map(|predicate| predicate.name);
        assert_eq!(nearest("PodFitsResource", known()), Some("PodFitsResources"));
        assert_eq!(nearest("podfitsresources", known()), Some("PodFitsResources"));
        assert_eq!(nearest("MaxCSIVolume", known()), Some("MaxCSIVolumeCountPred"));
        assert_eq!(nearest("HostNamePredicate", known()), Some("HostName"));
        assert_eq!(nearest("Resources", known()), None);
        assert_eq!(nearest("Max", known()), None);
        assert_eq!(nearest("", known()), None);
    }

    #[test]
    fn every_default_and_every_replacement_is_a_name() {
        let is_predicate = |name: &str| PREDICATES.iter().any(|one| one.name == name);
        let is_priority = |name: &str| PRIORITIES.iter().any(|one| one.name == name);
        let replacements = GONE_PREDICATES.iter().flat_map(|gone| gone.instead);
        assert!(DEFAULT_PREDICATES.iter().chain(replacements).all(|name| is_predicate(name)));
        assert!(DEFAULT_PRIORITIES.iter().all(|(name, _)| is_priority(name)));
        assert!(ALIASES.iter().all(|(_, name)| is_predicate(name) || is_priority(name)));
    }
}
