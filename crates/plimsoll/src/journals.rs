//! Begins the journals of `simulate` and `run`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use plimsoll_journal::{
    Journal, JournalCounts, JournalRecorder, Retention, Tallied, WhenFull, Written,
};
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntCounter, IntGauge, Registry};

use crate::args::JournalFlags;
use crate::notices;
use crate::wording::count;

/// Begins the journal of a simulation, which keeps everything.
pub(crate) fn of_simulation(path: &Path) -> Result<(Journal, JournalRecorder)> {
    let everything = Retention { size: u64::MAX, age: std::time::Duration::MAX };
    Ok(Journal::begin(path, everything, WhenFull::Wait, |_| ())?)
}

/// Says what was written.
pub(crate) fn finish(path: &Path, journal: Journal) {
    let Written { entries, error, .. } = journal.finish();
    let entries =
        count(usize::try_from(entries).unwrap_or(usize::MAX), "entry").replace("entrys", "entries");
    match error {
        None => notices::note(format_args!("{}: wrote {entries}", path.display())),
        Some(error) => notices::warning(format_args!("the journal has ended early: {error}")),
    }
}

/// The value of `--journal` for none. A file of this name is `./off`.
const OFF: &str = "off";
/// Where the journal is if nothing is said about it.
const STATE_DIRECTORY: &str = "/var/lib/plimsoll";
const FILE: &str = "decisions.db";

/// A journal that is being written.
pub(crate) struct Begun {
    pub(crate) path: PathBuf,
    pub(crate) journal: Journal,
    pub(crate) recorder: JournalRecorder,
}

/// Begins the journal: where the flags say, or else in the directory for the state of this service. An error there is no
/// reason not to schedule pods, since nobody has asked for a journal.
pub(crate) fn of_run(flags: &JournalFlags) -> Result<Option<Begun>> {
    match &flags.journal {
        Some(path) if path.as_os_str() == OFF => Ok(None),
        Some(path) => begin(path, flags).map(Some),
        None => {
            let variable = std::env::var_os("STATE_DIRECTORY");
            let Some(path) = default_path(variable.as_deref(), Path::new(STATE_DIRECTORY)) else {
                tracing::info!(
                    "no journal of decisions is written, since there is no {STATE_DIRECTORY}: make it, or give \
                     --journal=FILE"
                );
                return Ok(None);
            };
            match begin(&path, flags) {
                Ok(begun) => Ok(Some(begun)),
                Err(error) => {
                    let error = format!("{error:#}");
                    tracing::warn!(%error, "no journal of decisions is written; give --journal=FILE, or --journal=off");
                    Ok(None)
                }
            }
        }
    }
}

/// The journal if nothing is said about it. systemd names the directories of `StateDirectory=`, separated by colons; the
/// first one counts.
fn default_path(variable: Option<&OsStr>, otherwise: &Path) -> Option<PathBuf> {
    let named = variable.map(std::env::split_paths).into_iter().flatten();
    let mut named = named.filter(|path| !path.as_os_str().is_empty());
    let directory = named.next().or_else(|| otherwise.is_dir().then(|| otherwise.to_owned()))?;
    Some(directory.join(FILE))
}

fn begin(path: &Path, flags: &JournalFlags) -> Result<Begun> {
    let size = flags.journal_size.at_most_value();
    let size = u64::try_from(size).ok().filter(|size| 0 < *size);
    let size = size.with_context(|| {
        format!("--journal-size={}: must be positive", flags.journal_size.at_most_value())
    })?;
    let age = flags.journal_age.to_std().context("--journal-age must not be negative")?;
    let (journal, recorder) =
        Journal::begin(path, Retention { size, age }, WhenFull::Lose, |error| {
            tracing::error!(%error, "the journal has ended early; decisions go on");
        })?;
    tracing::info!(file = %path.display(), "writing every decision to the journal");
    Ok(Begun { path: path.to_owned(), journal, recorder })
}

/// The metrics of a journal that is being written.
pub(crate) fn metrics(journal: &Journal) -> Result<Registry> {
    let registry = Registry::new();
    let metrics = JournalMetrics::new(journal.counts())?;
    registry.register(Box::new(metrics))?;
    Ok(registry)
}

/// Counts that another thread keeps, as metrics.
struct JournalMetrics {
    counts: JournalCounts,
    /// What the counters tell at present.
    told: Mutex<Tallied>,
    written: IntCounter,
    lost: IntCounter,
    errors: IntCounter,
    size: IntGauge,
}

impl JournalMetrics {
    fn new(counts: JournalCounts) -> prometheus::Result<Self> {
        Ok(JournalMetrics {
            counts,
            told: Mutex::default(),
            written: IntCounter::new(
                "plimsoll_journal_entries_total",
                "Number of entries that were written to the journal of decisions: attempts, and answers to bindings.",
            )?,
            lost: IntCounter::new(
                "plimsoll_journal_lost_entries_total",
                "Number of entries that the journal of decisions lacks, because they came faster than they could be written, or after it had ended.",
            )?,
            errors: IntCounter::new(
                "plimsoll_journal_errors_total",
                "Number of times that the journal of decisions could not be written: another program held the file, or it has ended.",
            )?,
            size: IntGauge::new(
                "plimsoll_journal_size_bytes",
                "Size of the file of the journal of decisions, without its write-ahead log.",
            )?,
        })
    }
}

impl Collector for JournalMetrics {
    fn desc(&self) -> Vec<&Desc> {
        let counters = [&self.written, &self.lost, &self.errors].into_iter();
        counters.flat_map(Collector::desc).chain(self.size.desc()).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.counts.read();
        self.written.inc_by(now.written - told.written);
        self.lost.inc_by(now.lost - told.lost);
        self.errors.inc_by(now.errors - told.errors);
        self.size.set(i64::try_from(now.size).unwrap_or(i64::MAX));
        *told = now;
        let counters = [&self.written, &self.lost, &self.errors].into_iter();
        counters.flat_map(Collector::collect).chain(self.size.collect()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_journal_is_in_the_directory_of_the_service_if_there_is_one() {
        let folder = tempfile::tempdir().expect("there is room");
        let missing = folder.path().join("none");
        let path = |variable: Option<&str>, otherwise: &Path| {
            default_path(variable.map(OsStr::new), otherwise)
        };
        let there = folder.path().join(FILE);
        assert_eq!(path(None, folder.path()), Some(there));
        assert_eq!(path(Some("/state/a:/state/b"), &missing), Some("/state/a/decisions.db".into()));
        assert_eq!(path(Some(""), &missing), None);
        assert_eq!(path(None, &missing), None);
    }
}
