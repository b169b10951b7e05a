//! The thread that writes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::entry::Entries;
use crate::queue::{AT_ONCE, Counts, Waiting, WhenFull};
use crate::recorder::JournalRecorder;
use crate::store::{JournalError, Retention, Store, is_busy};

/// How often it is tried to write while another program holds the file. SQLite waits five seconds each time.
const TRIES: u32 = 12;
/// How often old entries are deleted.
const TIDIED_EVERY: Duration = Duration::from_mins(1);

/// A journal that is being written.
#[derive(Debug)]
pub struct Journal {
    /// The error that ended it, if one did.
    thread: JoinHandle<Option<String>>,
    to: Arc<Waiting>,
    counts: Arc<Counts>,
}

/// What was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// How many entries.
    pub entries: u64,
    /// How many entries were lost.
    pub lost: u64,
    /// The error that ended it early, if one did.
    pub error: Option<String>,
}

impl Journal {
    /// Opens the journal in `path`, or makes one, and starts to write what the recorder is shown. `on_error` is told if it has to
    /// end early; what is recorded from then on is lost.
    pub fn begin(
        path: &Path,
        retention: Retention,
        when_full: WhenFull,
        on_error: impl Fn(&str) + Send + 'static,
    ) -> Result<(Self, JournalRecorder), JournalError> {
        let store = Store::open(path)?;
        let failed = |error| JournalError::Sqlite { path: path.to_owned(), error };
        store.newest().map_err(failed)?;
        let size = store.size().map_err(failed)?;
        let to = Arc::new(Waiting::default());
        let counts = Arc::new(Counts { size: size.into(), ..Counts::default() });
        let recorder = JournalRecorder::new(to.clone(), counts.clone(), when_full);
        let thread = {
            let (from, counts, path) = (to.clone(), counts.clone(), path.to_owned());
            let mut writer =
                Writer { store, retention, counts, path, told: 0, tidied: Instant::now() };
            std::thread::Builder::new().name("journal".to_owned()).spawn(move || {
                let _ends = Ends(&from);
                let error = writer.run(&from).err().map(|error| error.to_string());
                if let Some(error) = &error {
                    writer.counts.errors.fetch_add(1, Ordering::Relaxed);
                    on_error(error);
                }
                error
            })
        };
        let thread = thread.map_err(|error| {
            let error = rusqlite::Error::ToSqlConversionFailure(Box::new(error));
            JournalError::Sqlite { path: path.to_owned(), error }
        })?;
        Ok((Journal { thread, to, counts }, recorder))
    }

    /// What is counted while it is written. It can be read as long as anybody likes.
    pub fn counts(&self) -> JournalCounts {
        JournalCounts(self.counts.clone())
    }

    /// Waits until everything is written that the [`JournalRecorder`] has handed over. What is recorded afterwards is lost.
    pub fn finish(self) -> Written {
        self.to.complete();
        let error = self
            .thread
            .join()
            .unwrap_or_else(|_| Some("the thread that writes the journal has panicked".to_owned()));
        let entries = self.counts.written.load(Ordering::Relaxed);
        let lost = self.counts.lost.load(Ordering::Relaxed);
        Written { entries, lost, error }
    }
}

/// What is counted while a journal is written.
#[derive(Clone, Debug)]
pub struct JournalCounts(Arc<Counts>);

/// How much was written so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tallied {
    /// Entries that were written.
    pub written: u64,
    /// Entries that were lost.
    pub lost: u64,
    /// Errors: another program held the file for seconds, or nothing more can be written.
    pub errors: u64,
    /// The size of the file, in bytes.
    pub size: u64,
}

impl JournalCounts {
    /// The present counts.
    pub fn read(&self) -> Tallied {
        let Counts { written, lost, errors, size } = &*self.0;
        Tallied {
            written: written.load(Ordering::Relaxed),
            lost: lost.load(Ordering::Relaxed),
            errors: errors.load(Ordering::Relaxed),
            size: size.load(Ordering::Relaxed),
        }
    }
}

/// Lets nobody wait for a writer that has ended, in whatever way.
struct Ends<'a>(&'a Waiting);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

struct Writer {
    store: Store,
    retention: Retention,
    counts: Arc<Counts>,
    path: PathBuf,
    /// How many losses the journal tells of.
    told: u64,
    tidied: Instant,
}

impl Writer {
    fn run(&mut self, from: &Waiting) -> Result<(), JournalError> {
        let mut entries = Entries::default();
        loop {
            let is_complete = from.take(&mut entries, TIDIED_EVERY);
            self.write(&mut entries)?;
            if is_complete {
                return Ok(());
            }
        }
    }

    /// Notes the size of the file.
    fn measure(&self) -> rusqlite::Result<()> {
        self.counts.size.store(self.store.size()?, Ordering::Relaxed);
        Ok(())
    }

    fn write(&mut self, entries: &mut Entries) -> Result<(), JournalError> {
        let failed = |error| JournalError::Sqlite { path: self.path.clone(), error };
        let n = entries.len();
        if 0 < n {
            let mut tries = 1;
            while let Err(error) = self.store.write(entries) {
                if !is_busy(&error) || tries == TRIES {
                    return Err(failed(error));
                }
                self.counts.errors.fetch_add(1, Ordering::Relaxed);
                tries += 1;
            }
            self.counts.written.fetch_add(n as u64, Ordering::Relaxed);
            entries.clear();
            // The room for many more than usual is given back.
            if 2 * AT_ONCE < n {
                *entries = Entries::default();
            }
        }
        let lost = self.counts.lost.load(Ordering::Relaxed);
        if self.told < lost {
            let at = self.store.newest().map_err(failed)?.unwrap_or(0);
            self.store.lose(at, lost - self.told).map_err(failed)?;
            self.told = lost;
        }
        if TIDIED_EVERY <= self.tidied.elapsed() {
            self.tidied = Instant::now();
            self.store.keep(self.retention).map_err(failed)?;
        }
        self.measure().map_err(failed)?;
        Ok(())
    }
}

/// Deletes from a journal what is too old or too much.
pub fn tidy(path: &Path, retention: Retention) -> Result<(), JournalError> {
    let failed = |error| JournalError::Sqlite { path: path.to_owned(), error };
    Store::open(path)?.keep(retention).map_err(failed)
}
