//! The `check` of the tests of priorities.

use std::fmt::Write;

pub(crate) use expect_test::{Expect, expect};
use plimsoll_framework::Row;
use plimsoll_testkit::{Cluster, Scenario};

use crate::priorities::{Priority, Subject};

/// Compares the results of a priority for every node of a scenario and its only pending pod.
pub(crate) fn check(priority: &dyn Priority, scenario: &str, expected: &Expect) {
    with_subject(scenario, |subject| {
        let raw = priority.map(subject);
        let points = priority.reduce(subject, &raw);
        let mut told = String::new();
        for (node, (raw, points)) in subject.nodes().zip(raw.iter().zip(points)) {
            writeln!(told, "{} raw {}, {} points", node.name, raw.0, points.0)
                .expect("a string takes all");
        }
        expected.assert_eq(&told);
    });
}

/// Calls `look` with the input of priorities for a scenario. All nodes are feasible.
pub(crate) fn with_subject(scenario: &str, look: impl FnOnce(&Subject<'_>)) {
    let scenario = Scenario::parse(scenario).expect("the scenario can be read");
    let cluster = Cluster::of(&scenario);
    let rows: Vec<Row> = cluster.nodes.rows().collect();
    let [pod] = scenario.pending.as_slice() else { panic!("a scenario has one pending pod") };
    look(&Subject { pod, view: cluster.view(), feasible: &rows });
}
