//! The command line of `plimsoll journal`, and the flags of `plimsoll run` about the journal.

use std::path::PathBuf;

use clap::{Subcommand, ValueHint};
use plimsoll_api::{PodKey, Quantity};
use plimsoll_config::GoDuration;

use super::{Output, pod_key};

const EXAMPLES: &str = "\
Examples:
  # What happened to a pod?
  plimsoll journal decisions.db pod shop/web-0

  # Which pods were evicted, and for whom?
  plimsoll journal decisions.db preemptions

  # The ten pods that waited longest
  plimsoll journal decisions.db slowest --limit 10";

/// Ask a journal of decisions
///
/// Reads the file that `run --journal FILE` or `simulate --journal FILE` writes, also while it is written.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(mut_arg("format", |format| format.global(true)))]
pub(crate) struct Journal {
    /// The journal
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,

    #[command(subcommand)]
    pub(crate) question: Question,

    /// How many rows are shown, the last or the greatest ones
    #[arg(long, value_name = "N", default_value_t = 50, global = true)]
    pub(crate) limit: usize,

    #[command(flatten)]
    pub(crate) output: Output,
}

/// What is asked.
#[derive(Debug, Subcommand)]
pub(crate) enum Question {
    /// The attempts to schedule a pod
    Pod {
        /// The pod; without a namespace it is in `default`
        #[arg(value_name = "NAMESPACE/NAME", value_parser = pod_key)]
        pod: PodKey,
    },
    /// The attempts to schedule a group of pods
    Group {
        /// The PodGroup or CompositePodGroup; without a namespace it is in `default`
        #[arg(value_name = "NAMESPACE/NAME", value_parser = pod_key)]
        group: PodKey,
    },
    /// The pods that were evicted for others
    Preemptions {
        /// Only those with which this pod has to do
        #[arg(long, value_name = "NAMESPACE/NAME", value_parser = pod_key)]
        pod: Option<PodKey>,
    },
    /// The pods that waited longest until they were bound
    Slowest,
    /// The pods that were tried most often
    MostRetried,
    /// Attempts by hour, and by the plugins that rejected pods
    Hours,
    /// When entries were lost, because they came faster than they could be written
    Losses,
}

/// The journal of `plimsoll run`.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Journal")]
pub(crate) struct JournalFlags {
    /// Write every decision to this SQLite file, for `plimsoll journal`; `off` for none
    ///
    /// An earlier journal is continued. Without this option it is decisions.db in $STATE_DIRECTORY, which systemd sets, or
    /// else in /var/lib/plimsoll, if that directory is there and can be written.
    #[arg(long, value_name = "FILE|off", value_hint = ValueHint::FilePath)]
    pub(crate) journal: Option<PathBuf>,

    /// How long decisions stay in the journal
    #[arg(long, value_name = "DURATION", default_value = "168h")]
    pub(crate) journal_age: GoDuration,

    /// The size of the journal beyond which the oldest decisions are deleted
    #[arg(long, value_name = "SIZE", default_value = "1Gi")]
    pub(crate) journal_size: Quantity,
}
