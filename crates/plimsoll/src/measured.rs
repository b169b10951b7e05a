//! The record of a measurement, and the medians of several.

use anyhow::{Result, ensure};
use plimsoll_engine::Audit;
use plimsoll_sim::perf::{MeasuredPhase, Measurement, Sizes, Workload, WorkloadGroups};
use serde::{Deserialize, Serialize};

use crate::args::Engine;

/// The results of measuring a workload. Times are in seconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Record {
    pub(crate) workload: String,
    /// How decisions were made.
    pub(crate) engine: Engine,
    pub(crate) nodes: u32,
    pub(crate) init_pods: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) deployments: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) classes: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pod_groups: Option<u32>,
    pub(crate) seed: u64,
    /// How many runs these are the medians of.
    pub(crate) runs: usize,
    pub(crate) set_up_seconds: f64,
    #[serde(flatten)]
    pub(crate) total: Figures,
    /// The shortest and the longest time of a run.
    pub(crate) seconds_range: [f64; 2],
    pub(crate) cpu_seconds: Option<f64>,
    pub(crate) peak_memory_bytes: Option<u64>,
    /// How many pods had no node at the end.
    pub(crate) unschedulable: usize,
    /// A hash that is equal if the same pods were bound to the same nodes in the same order.
    pub(crate) placements: String,
    /// How many times as long the run with decisions from scratch took, if that was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reference_ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) audited: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) differing: Option<u64>,
    /// The parts of the measurement, if it has several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) phases: Vec<PhaseRecord>,
}

/// A part of a measurement.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PhaseRecord {
    pub(crate) phase: String,
    #[serde(flatten)]
    pub(crate) figures: Figures,
}

/// The figures of a whole measurement, and of each part.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Figures {
    /// How many pods were added.
    pub(crate) pods: usize,
    pub(crate) seconds: f64,
    /// How many scheduling attempts there were.
    pub(crate) decisions: u64,
    pub(crate) decisions_per_second: f64,
    /// The median latency of a decision.
    pub(crate) p50_seconds: f64,
    /// The 99th percentile.
    pub(crate) p99_seconds: f64,
    /// The maximum.
    pub(crate) max_seconds: f64,
    pub(crate) scheduled: usize,
    /// How many attempts found no node.
    pub(crate) failed: usize,
    pub(crate) evicted: usize,
}

impl Record {
    /// The record of one run.
    pub(crate) fn new(
        workload: &Workload,
        engine: Engine,
        sizes: Sizes,
        seed: u64,
        measurement: &Measurement,
        peak_memory_bytes: Option<u64>,
    ) -> Self {
        let total = Figures::of(&measurement.total());
        let groups = |groups| (workload.groups == groups).then_some(sizes.groups);
        let phases = match measurement.phases.as_slice() {
            [] | [_] => Vec::new(),
            several => several.iter().map(PhaseRecord::of).collect(),
        };
        Record {
            workload: workload.name.to_owned(),
            engine,
            nodes: sizes.nodes,
            init_pods: sizes.init_pods,
            deployments: groups(WorkloadGroups::Deployments),
            classes: groups(WorkloadGroups::Classes),
            pod_groups: groups(WorkloadGroups::PodGroups)
                .or(groups(WorkloadGroups::PodGroupsInRacks)),
            seed,
            runs: 1,
            set_up_seconds: measurement.set_up.as_secs_f64(),
            seconds_range: [total.seconds; 2],
            total,
            cpu_seconds: measurement.cpu.map(|cpu| cpu.as_secs_f64()),
            peak_memory_bytes,
            unschedulable: measurement.unschedulable,
            placements: format!("{:016x}", measurement.placements),
            reference_ratio: None,
            audited: None,
            differing: None,
            phases,
        }
    }

    /// The medians of several runs with the same seed, figure by figure.
    pub(crate) fn medians(runs: &[Record]) -> Result<Record> {
        let first = runs.first().expect("there is at least one run");
        for run in runs {
            first.check_equal(run)?;
        }
        let of = |figure: &dyn Fn(&Record) -> f64| median(runs.iter().map(figure));
        let phase = |(i, phase): (usize, &PhaseRecord)| PhaseRecord {
            phase: phase.phase.clone(),
            figures: Figures::medians(&|run| &run.phases[i].figures, runs),
        };
        let total = Figures::medians(&|run| &run.total, runs);
        let seconds = || runs.iter().map(|run| run.total.seconds);
        Ok(Record {
            runs: runs.len(),
            set_up_seconds: of(&|run| run.set_up_seconds),
            seconds_range: [seconds().fold(f64::INFINITY, f64::min), seconds().fold(0.0, f64::max)],
            total,
            cpu_seconds: first.cpu_seconds.map(|_| of(&|run| run.cpu_seconds.unwrap_or(0.0))),
            peak_memory_bytes: runs.iter().filter_map(|run| run.peak_memory_bytes).max(),
            phases: first.phases.iter().enumerate().map(phase).collect(),
            ..first.clone()
        })
    }

    /// Adds the results of an audit of the same workload.
    pub(crate) fn audit(&mut self, audit: &Audit) {
        self.audited = Some(audit.audited);
        self.differing = Some(audit.differing);
    }

    /// Adds how long a run with decisions from scratch took. Its decisions must be the same.
    pub(crate) fn compare(&mut self, reference: &Record) -> Result<()> {
        self.check_equal(reference)?;
        self.reference_ratio = Some(reference.total.seconds / self.total.seconds);
        Ok(())
    }

    /// Fails if `other`, with the same seed, made different decisions.
    fn check_equal(&self, other: &Record) -> Result<()> {
        ensure!(
            self.came_to() == other.came_to(),
            "two runs of {} with the seed {} decide differently: {:?} ({:?}) and {:?} ({:?}) \
             (decisions, scheduled, failed, evicted, unschedulable, placements); please report this",
            self.workload,
            self.seed,
            self.came_to(),
            self.engine,
            other.came_to(),
            other.engine,
        );
        Ok(())
    }

    /// The results that depend only on the seed.
    fn came_to(&self) -> (u64, usize, usize, usize, usize, &str) {
        let Figures { decisions, scheduled, failed, evicted, .. } = self.total;
        (decisions, scheduled, failed, evicted, self.unschedulable, &self.placements)
    }
}

impl PhaseRecord {
    fn of(phase: &MeasuredPhase) -> Self {
        PhaseRecord { phase: phase.name.to_owned(), figures: Figures::of(phase) }
    }
}

impl Figures {
    fn of(phase: &MeasuredPhase) -> Self {
        let (latency, seconds) = (&phase.latency, phase.wall.as_secs_f64());
        let decisions = latency.decisions();
        let per_second = f64::from(u32::try_from(decisions).unwrap_or(u32::MAX)) / seconds;
        Figures {
            pods: phase.pods,
            seconds,
            decisions,
            decisions_per_second: if 0.0 < seconds { per_second } else { 0.0 },
            p50_seconds: latency.quantile(0.5).as_secs_f64(),
            p99_seconds: latency.quantile(0.99).as_secs_f64(),
            max_seconds: latency.max().as_secs_f64(),
            scheduled: phase.scheduled,
            failed: phase.failed,
            evicted: phase.evicted,
        }
    }

    /// The medians of `figures` in each of `runs`. The counts are the same in all of them.
    fn medians(figures: &dyn Fn(&Record) -> &Figures, runs: &[Record]) -> Figures {
        let of = |one: fn(&Figures) -> f64| median(runs.iter().map(|run| one(figures(run))));
        Figures {
            seconds: of(|figures| figures.seconds),
            decisions_per_second: of(|figures| figures.decisions_per_second),
            p50_seconds: of(|figures| figures.p50_seconds),
            p99_seconds: of(|figures| figures.p99_seconds),
            max_seconds: of(|figures| figures.max_seconds),
            ..figures(&runs[0]).clone()
        }
    }
}

/// The middle value, or the mean of the two in the middle.
fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    match (figures.len() / 2, figures.len() % 2) {
        (middle, 1) => figures[middle],
        (0, _) => 0.0,
        (middle, _) => f64::midpoint(figures[middle - 1], figures[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(seconds: f64, scheduled: usize) -> Record {
        let record = serde_json::json!({
            "workload": "SchedulingBasic", "engine": "fast", "placements": "0", "nodes": 1, "initPods": 0, "seed": 0, "runs": 1,
            "setUpSeconds": 1.0, "pods": 2, "seconds": seconds, "decisions": 2,
            "decisionsPerSecond": 2.0 / seconds, "p50Seconds": seconds, "p99Seconds": seconds,
            "maxSeconds": seconds, "scheduled": scheduled, "failed": 0, "evicted": 0,
            "secondsRange": [seconds, seconds], "cpuSeconds": null, "unschedulable": 0,
            "peakMemoryBytes": 1000.0 * seconds,
        });
        let text = record.to_string().replace("000.0", "000");
        serde_json::from_str(&text).expect("it is a record")
    }

    #[test]
    fn several_runs_become_medians_and_extremes() {
        let runs = [run(1.0, 2), run(9.0, 2), run(2.0, 2)];
        let record = Record::medians(&runs).expect("they decide the same");
        assert_eq!(record.runs, 3);
        assert!((record.total.seconds - 2.0).abs() < 1e-9);
        assert!((record.total.decisions_per_second - 1.0).abs() < 1e-9);
        assert_eq!(record.seconds_range.map(f64::to_bits), [1.0, 9.0].map(f64::to_bits));
        assert_eq!((record.peak_memory_bytes, record.cpu_seconds), (Some(9000), None));
        let record = Record::medians(&[run(1.0, 2), run(2.0, 2)]).expect("they decide the same");
        assert!((record.total.seconds - 1.5).abs() < 1e-9);
    }

    #[test]
    fn runs_of_one_seed_that_decide_differently_are_refused() {
        let error = Record::medians(&[run(1.0, 2), run(1.0, 1)]).expect_err("they differ");
        assert!(error.to_string().contains("SchedulingBasic with the seed 0"), "{error}");
        let elsewhere = Record { placements: "1".to_owned(), ..run(1.0, 2) };
        Record::medians(&[run(1.0, 2), elsewhere]).expect_err("other nodes were chosen");
    }

    #[test]
    fn an_engine_is_compared_with_one_that_decides_the_same() {
        let mut fast = run(2.0, 2);
        fast.compare(&run(9.0, 2)).expect("they decide the same");
        assert_eq!(fast.reference_ratio.map(f64::to_bits), Some(4.5_f64.to_bits()));
        let reference = Record { engine: Engine::Reference, ..run(9.0, 1) };
        let error = fast.compare(&reference).expect_err("one pod less was placed").to_string();
        assert!(error.contains("(Fast) and (2, 1, 0, 0, 0, \"0\") (Reference)"), "{error}");
    }
}
