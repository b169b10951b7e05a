//! The names that filters had as predicates, and their order.

/// Filters and the corresponding predicates, in the order of evaluation of the predicates. As in
/// predicates.go, predicatesOrdering.
const ORDER: &[(&str, &str)] = &[
    ("NodeUnschedulable", "CheckNodeUnschedulable"),
    ("NodeName", "HostName"),
    ("NodePorts", "PodFitsHostPorts"),
    ("NodeAffinity", "MatchNodeSelector"),
    ("NodeResourcesFit", "PodFitsResources"),
    ("VolumeRestrictions", "NoDiskConflict"),
    ("TaintToleration", "PodToleratesNodeTaints"),
    ("NodeLabel", "CheckNodeLabelPresence"),
    ("ServiceAffinity", "CheckServiceAffinity"),
    ("EBSLimits", "MaxEBSVolumeCount"),
    ("GCEPDLimits", "MaxGCEPDVolumeCount"),
    ("NodeVolumeLimits", "MaxCSIVolumeCountPred"),
    ("AzureDiskLimits", "MaxAzureDiskVolumeCount"),
    ("CinderLimits", "MaxCinderVolumeCount"),
    ("VolumeBinding", "CheckVolumeBinding"),
    ("VolumeZone", "NoVolumeZoneConflict"),
    ("PodTopologySpread", "EvenPodsSpread"),
    ("InterPodAffinity", "MatchInterPodAffinity"),
];

/// The only predicate that became several filters.
const GENERAL: &str = "GeneralPredicates";
/// Its filters, in the order in which it evaluated them. As in predicates.go, GeneralPredicates.
const GENERAL_FILTERS: [&str; 4] = ["NodeResourcesFit", "NodeName", "NodePorts", "NodeAffinity"];
/// The filter whose predicate precedes it.
const BEFORE_GENERAL: &str = "NodeUnschedulable";

/// A predicate, and the filters that have replaced it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Predicate {
    /// Its name. A filter that was never a predicate keeps its own.
    pub name: String,
    /// The filters, in the order in which the predicate reported their reasons.
    pub filters: Vec<String>,
}

/// The predicates that correspond to these filters, in the order of evaluation. If all filters of
/// GeneralPredicates are present, they become that one. Filters that were never predicates come last,
/// in their own order.
pub fn of_filters(filters: &[&str]) -> Vec<Predicate> {
    let has = |filter: &str| filters.contains(&filter);
    let has_general = GENERAL_FILTERS.into_iter().all(has);
    let general = Predicate {
        name: GENERAL.to_owned(),
        filters: GENERAL_FILTERS.map(ToOwned::to_owned).to_vec(),
    };
    let mut predicates = Vec::new();
    for &(filter, predicate) in ORDER {
        let in_group = has_general && GENERAL_FILTERS.contains(&filter);
        if has(filter) && !in_group {
            predicates.push(named(predicate, filter));
        }
        if has_general && filter == BEFORE_GENERAL {
            predicates.push(general.clone());
        }
    }
    let others = filters.iter().filter(|other| ORDER.iter().all(|(filter, _)| filter != *other));
    predicates.extend(others.map(|other| named(other, other)));
    predicates
}

fn named(name: &str, filter: &str) -> Predicate {
    Predicate { name: name.to_owned(), filters: vec![filter.to_owned()] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(filters: &[&str]) -> Vec<String> {
        of_filters(filters).into_iter().map(|predicate| predicate.name).collect()
    }

    #[test]
    fn predicates_stand_in_their_old_order_with_the_general_ones_as_one() {
        let filters = [
            "NodeName",
            "NodeUnschedulable",
            "InterPodAffinity",
            "TaintToleration",
            "NodeAffinity",
            "NodePorts",
            "NodeResourcesFit",
            "VolumeZone",
        ];
        assert_eq!(
            names(&filters),
            [
                "CheckNodeUnschedulable",
                "GeneralPredicates",
                "PodToleratesNodeTaints",
                "NoVolumeZoneConflict",
                "MatchInterPodAffinity",
            ]
        );
        let general = &of_filters(&filters)[1];
        assert_eq!(general.filters, ["NodeResourcesFit", "NodeName", "NodePorts", "NodeAffinity"]);
    }

    #[test]
    fn without_all_of_the_general_ones_each_has_its_own_name() {
        let filters = ["NodeResourcesFit", "NodePorts", "NodeName"];
        assert_eq!(names(&filters), ["HostName", "PodFitsHostPorts", "PodFitsResources"]);
    }

    #[test]
    fn a_filter_that_was_no_predicate_keeps_its_name_and_comes_last() {
        let filters = ["DynamicResources", "MyFilter", "TaintToleration"];
        assert_eq!(names(&filters), ["PodToleratesNodeTaints", "DynamicResources", "MyFilter"]);
    }

    #[test]
    fn the_general_ones_come_first_where_nodes_may_be_cordoned() {
        let filters = ["NodeName", "NodeAffinity", "NodePorts", "NodeResourcesFit", "EBSLimits"];
        assert_eq!(names(&filters), ["GeneralPredicates", "MaxEBSVolumeCount"]);
    }
}
