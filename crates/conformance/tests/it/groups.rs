//! Groups of pods: the whole queue is run, and every first attempt is as in kube-scheduler 1.36.

use plimsoll_conformance::{ExpectedRun, runs};
use serde_json::Value;

#[track_caller]
fn check(name: &str) {
    let (mut n_records, mut failures) = (0, Vec::new());
    for (case, expected) in runs(name) {
        let ours = case.run();
        failures.extend(ours.violations.iter().map(|one| format!("{}: {one}", case.name)));
        let recorded = first_attempts(&expected);
        n_records += recorded.len();
        let differs = recorded.iter().zip(&ours.records).find(|(theirs, ours)| **theirs != **ours);
        if let Some((theirs, ours)) = differs {
            failures.push(format!("{}\n  recorded {theirs}\n  ours     {ours}", case.name));
        } else if recorded.len() != ours.records.len() {
            let (theirs, n_ours) = (recorded.len(), ours.records.len());
            let rest = recorded.get(n_ours).or_else(|| ours.records.get(theirs));
            failures.push(format!("{}: {theirs} records, ours {n_ours}: {rest:?}", case.name));
        }
    }
    assert!(0 < n_records, "suite {name} has records");
    let (shown, n) = (failures.iter().take(8).cloned().collect::<Vec<_>>(), failures.len());
    assert!(failures.is_empty(), "suite {name}: {n} differ\n{}", shown.join("\n"));
}

/// Later attempts are not binding: real backoffs differ.
fn first_attempts(expected: &ExpectedRun) -> Vec<Value> {
    let is_first = |record: &&Value| record.get("attempt").is_none();
    expected.decisions.iter().filter(is_first).cloned().collect()
}

#[test]
fn gangs() {
    check("group_gang");
}

#[test]
fn topologies() {
    check("group_topology");
}

#[test]
fn preemption() {
    check("group_preemption");
}

#[test]
fn mixed() {
    check("group_mixed");
}
