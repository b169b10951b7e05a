//! Groups of pods by the rules of release 1.37, as upstream's tests expect it.

use std::collections::BTreeMap;

use plimsoll_conformance::groups_1_37;

/// How many cases there are of each kind. A case that is lost is noticed.
const CASES: [(&str, usize); 5] =
    [("composite", 19), ("gang", 16), ("placement", 6), ("preemption", 19), ("validation", 6)];

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

#[test]
fn no_case_is_lost() {
    let mut counts = BTreeMap::<String, usize>::new();
    for case in groups_1_37() {
        *counts.entry(case.kind).or_default() += 1;
    }
    let expected: BTreeMap<String, usize> =
        CASES.into_iter().map(|(kind, n)| (kind.to_owned(), n)).collect();
    assert_eq!(counts, expected);
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
