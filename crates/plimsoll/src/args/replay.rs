//! The command line of `plimsoll replay`, and the flags of `plimsoll run` about recordings.

use std::path::PathBuf;

use clap::{ValueEnum, ValueHint};
use plimsoll_api::Quantity;

use super::Output;

const EXAMPLES: &str = "\
Examples:
  # Are the decisions of a simulation the same again?
  plimsoll simulate -f cluster.json --record recording
  plimsoll replay recording

  # What do both engines decide, and how long does each take?
  plimsoll replay recording --engine both -o json | jq '.replays[].seconds'

  # The smallest recording in which the two engines differ
  plimsoll replay recording --shrink difference

Exit status: 0 when all decisions are the same as recorded; 1 when one differs, or the file cannot be \
read; 2 when the command line is wrong.";

/// Make the decisions of a recording again, and compare them
///
/// Reads what `simulate --record` or `run --record` wrote, and shows it to a new scheduler with the same profiles. A
/// recording of several parts is replayed from the given file on. Without its first part, each decision is judged by
/// itself on the cluster of that time, because the queue at that time is not known.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Replay {
    /// The recording; parts that follow it are found by their names
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,

    /// Stop after N decisions
    #[arg(long, value_name = "N")]
    pub(crate) until: Option<u64>,

    /// How decisions are made; all ways lead to the same decisions
    #[arg(long, value_name = "ENGINE", value_enum, default_value_t)]
    pub(crate) engine: ReplayEngine,

    /// Audit every decision, and write the smallest recording that shows the first difference to this file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(conflicts_with_all = ["engine", "format"])]
    pub(crate) shrink: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReplayEngine {
    /// From remembered results, where possible
    #[default]
    Fast,
    /// From scratch
    Reference,
    /// One after the other
    Both,
}

/// What `plimsoll run` records.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Recording")]
#[expect(clippy::struct_field_names, reason = "the flags have these names")]
pub(crate) struct Record {
    /// Record everything that enters the engine to this file, for `plimsoll replay`
    ///
    /// The parts that follow are FILE.2, FILE.3 and so on. An earlier recording is renamed to FILE.before.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) record: Option<PathBuf>,

    /// The size at which a part of the recording is closed and the next one begins
    #[arg(long, value_name = "SIZE", default_value = "256Mi", requires = "record")]
    pub(crate) record_size: Quantity,

    /// How many parts of the recording are kept; older ones are deleted
    #[arg(long, value_name = "N", default_value_t = 4, requires = "record")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) record_files: u32,
}
