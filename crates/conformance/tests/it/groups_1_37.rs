//! Groups of pods by the rules of release 1.37, as upstream's tests expect it.
//!
//! A case restates the facts of one test there, or of one row of a table. [`FILES`] has the number of cases by the file
//! from which they are. The tables have more rows than are taken over here. Nothing is taken from the tests
//!
//! * of what the API server refuses (`hierarchy_validation_test.go`, `admission_test.go`), since it never reaches a scheduler;
//! * of groups whose pods have volumes or affinity (`podgroup_pvc_test.go`, `podgroup_affinity_test.go`), since the cases have
//!   no fields for these;
//! * of several plugins that generate placements (`tas_multi_placement_test.go`), since a profile has at most one here;
//! * of batches of equal pods (`podgroup_batch_test.go`), since they decide as pods one by one, up to ties.

use std::collections::BTreeMap;

use plimsoll_conformance::{GroupCase, groups_1_37};

/// How many cases there are of each kind. A case that is lost is noticed.
const CASES: [(&str, usize); 5] =
    [("composite", 24), ("gang", 16), ("placement", 21), ("preemption", 19), ("validation", 6)];

/// How many cases there are of each file of upstream.
const FILES: [(&str, usize); 11] = [
    ("cpg_tas_test.go", 4),
    ("cpg_test.go", 7),
    ("default_preemption_test.go", 3),
    ("gangscheduling_test.go", 6),
    ("podgroup_algorithm_test.go", 2),
    ("podgroup_test.go", 10),
    ("podgrouppreemption_test.go", 17),
    ("queueing_test.go", 7),
    ("schedule_one_podgroup_test.go", 7),
    ("tas_test.go", 21),
    ("util_test.go", 2),
];

#[track_caller]
fn check(kind: &str) {
    let mut failures = Vec::new();
    for case in groups_1_37().into_iter().filter(|case| case.kind == kind) {
        let differences = case.differences();
        if !differences.is_empty() {
            failures.push(format!(
                "{} ({})\n  {}",
                case.name,
                case.source,
                differences.join("\n  ")
            ));
        }
    }
    assert!(failures.is_empty(), "{} cases differ\n{}", failures.len(), failures.join("\n"));
}

/// How many cases have each of the names that `of` gives them.
#[track_caller]
fn check_counts(of: impl Fn(&GroupCase) -> String, expected: &[(&str, usize)]) {
    let mut counts = BTreeMap::<String, usize>::new();
    for case in groups_1_37() {
        *counts.entry(of(&case)).or_default() += 1;
    }
    let counts: Vec<_> = counts.iter().map(|(name, n)| (name.as_str(), *n)).collect();
    assert_eq!(counts, expected);
}

#[test]
fn no_case_is_lost() {
    check_counts(|case| case.kind.clone(), &CASES);
}

#[test]
fn each_case_is_from_a_file_of_upstream() {
    let file = |case: &GroupCase| {
        let path = case.source.split(':').next().unwrap_or_default();
        path.rsplit('/').next().unwrap_or_default().to_owned()
    };
    check_counts(file, &FILES);
}

#[test]
fn gangs() {
    check("gang");
}

#[test]
fn validation() {
    check("validation");
}

#[test]
fn placements() {
    check("placement");
}

#[test]
fn preemption() {
    check("preemption");
}

#[test]
fn composite_groups() {
    check("composite");
}
