//! Workloads that measure how fast the engine decides: those of scheduler_perf by their names and shapes,
//! and some that grow further.
//!
//! Only the engine is measured. Objects are made while the clock stands, and every write is answered at
//! once: nothing here waits for a network. Nothing is kept of a pod but what the engine keeps.

mod adversarial;
mod affinity;
mod basic;
mod churn;
mod events;
mod full;
mod measure;
mod plan;
mod scale;
mod spreading;
mod template;
mod volumes;
mod world;

use std::fmt;

use plimsoll_engine::Scheduler;

pub use measure::{Latency, Measurement, Meter, Phase};
use plan::Plan;

/// How large a workload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// How many nodes there are.
    pub nodes: u32,
    /// How many pods are there before anything is measured.
    pub init_pods: u32,
    /// How many pods are measured.
    pub pods: u32,
    /// How many [groups](Workload::groups) the pods are of; 0 where there are none.
    pub groups: u32,
}

/// What the groups of a workload's pods are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Groups {
    /// It has none.
    None,
    /// Deployments: their pods are alike but for their labels and their owner.
    Deployments,
    /// Classes: their pods differ in what they request.
    Classes,
}

/// Something to measure.
#[derive(Clone, Copy)]
pub struct Workload {
    /// Its name; that of scheduler_perf where it is one of its workloads.
    pub name: &'static str,
    /// What its pods are like, in a line.
    pub about: &'static str,
    /// How large it is unless it is said otherwise. As in the performance-config.yaml of scheduler_perf,
    /// the variant of 5,000 nodes that is watched for regressions.
    pub sizes: Sizes,
    /// What its groups are.
    pub groups: Groups,
    plan: fn(Sizes, u64) -> Plan,
}

impl fmt::Debug for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workload")
            .field("name", &self.name)
            .field("sizes", &self.sizes)
            .finish_non_exhaustive()
    }
}

impl Workload {
    /// All workloads: those of scheduler_perf first.
    pub fn all() -> impl Iterator<Item = Workload> {
        let basic: [&[Workload]; 6] = [
            &basic::WORKLOADS,
            &spreading::WORKLOADS,
            &affinity::WORKLOADS,
            &full::WORKLOADS,
            &volumes::WORKLOADS,
            &events::WORKLOADS,
        ];
        let own: [&[Workload]; 3] = [&scale::WORKLOADS, &churn::WORKLOADS, &adversarial::WORKLOADS];
        basic.into_iter().chain(own).flatten().copied()
    }

    /// The workload of this name.
    pub fn named(name: &str) -> Option<Workload> {
        Self::all().find(|workload| workload.name == name)
    }

    /// Runs it at these sizes on a scheduler that has seen nothing yet. `seed` is where the chance in it
    /// comes from.
    pub fn measure(
        &self,
        sizes: Sizes,
        seed: u64,
        scheduler: &mut Scheduler,
        meter: &dyn Meter,
    ) -> Measurement {
        measure::measure((self.plan)(sizes, seed), scheduler, meter)
    }
}
