//! Records of runs with groups of pods.

use plimsoll_engine::record::{DecisionRecord, GroupRecord};
use plimsoll_engine::{Decision, Detail, Gates, GroupDecision, Options, Scheduler};
use plimsoll_sim::{Extent, SimulatedCluster, Simulation};
use serde::Deserialize;
use serde_json::Value;

use crate::case::Case;
use crate::profiles::{RECORDED, profiles};

/// The recorded decisions of a case with groups.
#[derive(Clone, Debug, Deserialize)]
pub struct ExpectedRun {
    /// The name of the case.
    pub name: String,
    /// The records, in order.
    pub decisions: Vec<Value>,
}

/// A run of a case with groups: its records, and the rules that it broke.
#[derive(Clone, Debug)]
pub struct GroupRun {
    /// The records of first attempts, in order.
    pub records: Vec<Value>,
    /// The rules that the auditor found broken, and how decisions from memory differ from those from scratch.
    pub violations: Vec<String>,
}

impl Case {
    /// Runs the whole queue. As in the recorded runs, victims are gone at once, and no pod is tried before its backoff is
    /// over.
    ///
    /// # Panics
    /// If the case cannot be read.
    pub fn run(&self) -> GroupRun {
        let mut case = self.clone();
        for gate in ["SchedulerAsyncPreemption", "SchedulerPopFromBackoffQ"] {
            case.feature_gates.insert(gate.to_owned(), false);
        }
        let gates = case.gates();
        let options = Options {
            release: RECORDED,
            gates: Gates::of(&gates),
            detail: Detail::Outcome,
            audit_every: 1,
            ..Options::default()
        };
        let scheduler = Scheduler::new(profiles(case.config.as_ref(), &gates), options, 0)
            .unwrap_or_else(|error| panic!("{}: {error}", case.name));
        let world = SimulatedCluster::default();
        let mut cluster = case.cluster();
        let order =
            |key: &plimsoll_api::PodKey| case.pods.iter().position(|name| *name == key.to_string());
        cluster.pods.sort_by_key(|pod| (order(&pod.key), pod.key.clone()));
        let mut simulation = Simulation::audited(world, scheduler, cluster, Extent::Placements);
        simulation.bind_in_turn();
        let mut records = Vec::new();
        while let Some(decisions) = simulation.advance() {
            records.extend(decisions.iter().map(of_pod));
            records.extend(simulation.take_group_decisions().iter().map(of_group));
        }
        records.extend(simulation.scheduler().waiting_groups().iter().map(of_group));
        records.retain(|record| record.get("attempt").is_none());
        let audit = simulation.decisions_audit().differences.iter().map(ToString::to_string);
        let violations = simulation.violations().iter().map(ToString::to_string);
        GroupRun { records, violations: violations.chain(audit).collect() }
    }
}

/// The record of a plain pod.
fn of_pod(decision: &Decision) -> Value {
    serde_json::to_value(DecisionRecord::of(decision)).expect("a record has no keys but texts")
}

/// The record of a group.
fn of_group(decision: &GroupDecision) -> Value {
    serde_json::to_value(GroupRecord::of(decision)).expect("a record has no keys but texts")
}
