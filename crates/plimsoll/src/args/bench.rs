//! The command line of `plimsoll bench`.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ValueEnum, ValueHint};
use plimsoll_sim::perf::Workload;

use super::{Emulation, Engine, Output};

const BENCH_EXAMPLES: &str = "\
Examples:
  # What can be measured?
  plimsoll bench --list

  # One workload of scheduler_perf; then two, smaller than there
  plimsoll bench SchedulingBasic
  plimsoll bench SchedulingPodAffinity TopologySpreading --nodes 500 --init-pods 500 --pods 1000

  # The medians of five runs
  plimsoll bench SchedulingBasic --runs 5 -o json | jq .decisionsPerSecond

  # How much faster are decisions from what is remembered than decisions from scratch?
  plimsoll bench SchedulingBasic --engine both --runs 3

  # How does the time grow with the number of classes?
  for n in 1 10 100 1000 10000; do plimsoll bench ClassSweep --classes $n -o json; done";

/// Measure how fast pods are placed
///
/// Runs workloads in memory, by default as large as those of kube-scheduler's own scheduler_perf. Only the scheduling
/// itself is measured: objects are created beforehand, bindings are confirmed at once, and there is no API server. If
/// there are several runs, each is a separate process.
#[derive(Debug, clap::Args)]
#[command(after_help = BENCH_EXAMPLES)]
pub(crate) struct Bench {
    /// What to measure, as `--list` names it
    #[arg(value_name = "WORKLOAD", required_unless_present = "list", value_parser = workload())]
    #[arg(hide_possible_values = true)]
    pub(crate) workloads: Vec<Workload>,

    /// List the workloads instead, with their sizes
    #[arg(long, conflicts_with = "workloads")]
    pub(crate) list: bool,

    /// How many nodes there are
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) nodes: Option<u32>,

    /// How many pods are scheduled before the measurement starts
    #[arg(long, value_name = "N")]
    pub(crate) init_pods: Option<u32>,

    /// How many pods are measured
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) pods: Option<u32>,

    /// How many Deployments the pods belong to, in workloads with Deployments
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) deployments: Option<u32>,

    /// How many classes of equal pods there are, in workloads with classes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) classes: Option<u32>,

    /// How many groups the pods belong to, in workloads with PodGroups
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) pod_groups: Option<u32>,

    /// How often each workload is run; the medians are printed
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: u32,

    /// The seed for random choices: the same seed places the same pods on the same nodes
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,

    /// How decisions are made; `both` measures both ways in turn and compares them
    #[arg(long, value_name = "ENGINE", value_enum, default_value_t)]
    pub(crate) engine: Engines,

    /// In an additional run that is not measured, make every N-th decision from scratch, too, and compare the two; 0
    /// for no such run
    ///
    /// That run has the same sizes and seed as the measured ones. Every difference is reported on standard error, and
    /// the exit status is 1 if there is any. Decisions that are made from scratch anyway are not compared.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) audit: u32,

    /// How many pods the audited run schedules, in addition to the initial ones
    ///
    /// Default: all, or 2,000 if more than 20,000 nodes or pods are measured.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) audit_pods: Option<u32>,

    /// A KubeSchedulerConfiguration or a scheduler Policy; without it, the configuration of the workload or the
    /// default profile decides
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) emulation: Emulation,

    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Engines {
    /// From remembered results, where possible
    #[default]
    Fast,
    /// From scratch
    Reference,
    /// One run of each, in turn
    Both,
}

impl Engines {
    /// The engines to measure, in turn.
    pub(crate) fn each(self) -> &'static [Engine] {
        match self {
            Engines::Fast => &[Engine::Fast],
            Engines::Reference => &[Engine::Reference],
            Engines::Both => &[Engine::Fast, Engine::Reference],
        }
    }
}

/// Reads the name of a workload.
fn workload() -> impl TypedValueParser<Value = Workload> {
    PossibleValuesParser::new(Workload::all().map(|workload| workload.name))
        .map(|name| Workload::named(&name).expect("the parser knows the names of all"))
}
