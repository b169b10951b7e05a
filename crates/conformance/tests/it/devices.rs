//! Pods with claims on devices, one after the other: each is placed by the simulator where kube-scheduler 1.36 put it,
//! with the same devices. What one pod gets is written, and taken for the pods after it.

use std::collections::BTreeSet;

use plimsoll_conformance::{ExpectedDecision, RECORDED, differences, profiles, suite};
use plimsoll_engine::{Detail, Options, Scheduler};
use plimsoll_sim::{Extent, SimulatedCluster, Simulation};

#[test]
fn the_pods_of_a_trace_are_placed_in_turn_as_recorded() {
    let (mut n_decisions, mut failures) = (0, Vec::new());
    for (case, expected) in suite("dra_trace") {
        let options = Options {
            release: RECORDED,
            detail: Detail::Outcome,
            audit_every: 1,
            ..Options::default()
        };
        let scheduler = Scheduler::new(profiles(case.config.as_ref(), &case.gates()), options, 0)
            .unwrap_or_else(|error| panic!("{}: {error}", case.name));
        let (world, cluster) = (SimulatedCluster::default(), case.cluster().settled());
        let mut simulation = Simulation::audited(world, scheduler, cluster, Extent::Placements);
        simulation.bind_in_turn();
        // A pod that is kept out of the queue is not decided.
        let is_tried = |one: &&ExpectedDecision| one.result != "gated";
        let mut recorded = expected.decisions.iter().filter(is_tried);
        let mut tried = BTreeSet::new();
        while let Some(decisions) = simulation.advance() {
            for ours in decisions {
                // Later attempts are not recorded.
                if !tried.insert(ours.pod.clone()) {
                    continue;
                }
                n_decisions += 1;
                let Some(recorded) = recorded.next() else {
                    failures.push(format!("{} {}: is decided", case.name, ours.pod));
                    continue;
                };
                let found = differences(recorded, &ours);
                let line = |difference| format!("{} {}: {difference}", case.name, recorded.pod);
                failures.extend(found.into_iter().map(line));
            }
        }
        failures.extend(recorded.map(|one| format!("{} {}: not decided", case.name, one.pod)));
        failures.extend(simulation.violations().iter().map(|one| format!("{}: {one}", case.name)));
        let audit = simulation.decisions_audit();
        failures.extend(audit.differences.iter().map(|one| format!("{}: {one}", case.name)));
    }
    assert!(0 < n_decisions, "the suite has decisions");
    let (shown, n) = (failures.iter().take(10).cloned().collect::<Vec<_>>(), failures.len());
    assert!(failures.is_empty(), "{n} differences, {n_decisions} decisions\n{}", shown.join("\n"));
}
