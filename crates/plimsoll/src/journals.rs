//! Begins the journals of `simulate` and `run`.

use std::path::Path;

use anyhow::{Context, Result};
use plimsoll_journal::{Journal, JournalRecorder, Retention, WhenFull, Written};

use crate::args::JournalFlags;
use crate::notices;
use crate::wording::count;

/// Begins the journal of a simulation, which keeps everything.
pub(crate) fn of_simulation(path: &Path) -> Result<(Journal, JournalRecorder)> {
    let everything = Retention { size: u64::MAX, age: std::time::Duration::MAX };
    let (journal, sender) = Journal::begin(path, everything, WhenFull::Wait, |_| ())?;
    Ok((journal, JournalRecorder::new(sender)))
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

/// Begins the journal that the flags ask for.
pub(crate) fn of_run(flags: &JournalFlags) -> Result<Option<(Journal, JournalRecorder)>> {
    let Some(path) = &flags.journal else { return Ok(None) };
    let size = flags.journal_size.at_most_value();
    let size = u64::try_from(size).ok().filter(|size| 0 < *size);
    let size = size.with_context(|| {
        format!("--journal-size={}: must be positive", flags.journal_size.at_most_value())
    })?;
    let age = flags.journal_age.to_std().context("--journal-age must not be negative")?;
    let (journal, sender) =
        Journal::begin(path, Retention { size, age }, WhenFull::Lose, |error| {
            tracing::error!(%error, "the journal has ended early; decisions go on");
        })?;
    tracing::info!(file = %path.display(), "writing every decision to the journal");
    Ok(Some((journal, JournalRecorder::new(sender))))
}
