//! Workloads that measure how fast the engine decides: those of scheduler_perf, and larger ones.
//!
//! Only the engine is measured. Objects are created while the clock is stopped, and every write is
//! answered at once: nothing waits for a network. Only the engine keeps pods in memory.

mod adversarial;
mod affinity;
mod basic;
mod churn;
mod configured;
mod confined_volumes;
mod devices;
mod events;
mod full;
mod instant_cluster;
mod measure;
mod plan;
mod pod_groups;
mod scale;
mod spreading;
mod template;
mod volumes;

use std::fmt;

use plimsoll_engine::Scheduler;
use plimsoll_framework::Release;

pub use measure::{Latency, MeasuredPhase, Measurement, MeasurementClock};
use plan::WorkloadPlan;

/// How large a workload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// How many nodes there are.
    pub nodes: u32,
    /// How many pods exist before the measurement.
    pub init_pods: u32,
    /// How many pods are measured.
    pub pods: u32,
    /// The number of [groups](Workload::groups) of pods; 0 if there are none.
    pub groups: u32,
}

/// The kind of groups of a workload's pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkloadGroups {
    /// It has none.
    None,
    /// Deployments: their pods are equal except for labels and owner.
    Deployments,
    /// Classes: their pods differ in what they request, such as the class of their devices.
    Classes,
    /// PodGroups of the API.
    PodGroups,
    /// The same, each of which must be in one rack.
    PodGroupsInRacks,
}

/// A workload.
#[derive(Clone, Copy)]
pub struct Workload {
    /// Its name; that of scheduler_perf if it is one of its workloads.
    pub name: &'static str,
    /// A description of its pods, in one line.
    pub about: &'static str,
    /// Its default sizes. As in the performance-config.yaml of scheduler_perf, the variant with 5,000
    /// nodes that has a threshold for regressions.
    pub sizes: Sizes,
    /// The kind of its groups.
    pub groups: WorkloadGroups,
    /// The KubeSchedulerConfiguration that decides, in YAML; `None` for the default one.
    pub configuration: Option<&'static str>,
    plan: fn(Sizes, u64) -> WorkloadPlan,
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
        let basic: [&[Workload]; 8] = [
            &basic::WORKLOADS,
            &spreading::WORKLOADS,
            &affinity::WORKLOADS,
            &full::WORKLOADS,
            &volumes::WORKLOADS,
            &devices::WORKLOADS,
            &events::WORKLOADS,
            &pod_groups::WORKLOADS,
        ];
        let own: [&[Workload]; 5] = [
            &scale::WORKLOADS,
            &churn::WORKLOADS,
            &configured::WORKLOADS,
            &confined_volumes::WORKLOADS,
            &adversarial::WORKLOADS,
        ];
        basic.into_iter().chain(own).flatten().copied()
    }

    /// The workload of this name.
    pub fn named(name: &str) -> Option<Workload> {
        Self::all().find(|workload| workload.name == name)
    }

    /// The feature gates that must be on in a release, beside those that are on by default.
    pub fn gates(&self, release: Release) -> Vec<&'static str> {
        pod_groups::gates(self.groups, release)
    }

    /// Runs it with these sizes on a new scheduler. `seed` determines its random choices.
    pub fn measure(
        &self,
        sizes: Sizes,
        seed: u64,
        scheduler: &mut Scheduler,
        meter: &dyn MeasurementClock,
    ) -> Measurement {
        measure::measure((self.plan)(sizes, seed), scheduler, meter)
    }
}
