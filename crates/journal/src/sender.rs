//! Gives entries to the writer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SendError, SyncSender, TrySendError};

use crate::entry::Entry;

/// Entries are handed over in batches of this many: each wakes the writer.
const BATCH: usize = 64;

/// What the sender and the writer count.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) written: AtomicU64,
    pub(crate) lost: AtomicU64,
    /// How often something could not be written at once, or at all.
    pub(crate) errors: AtomicU64,
    /// The size of the file in bytes, after the last time that something was written.
    pub(crate) size: AtomicU64,
}

/// What the writer is told.
#[derive(Debug)]
pub(crate) enum Message {
    /// These entries are to be written.
    Entries(Vec<Entry>),
    /// No more is to be written.
    End,
}

/// What happens to entries that come faster than they can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// They are lost and counted: a scheduler must not wait.
    Lose,
    /// Whoever sends them waits: a simulation can.
    Wait,
}

/// Gives entries to the thread that writes.
#[derive(Debug)]
pub struct Sender {
    pub(crate) to: SyncSender<Message>,
    pub(crate) batch: Vec<Entry>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) when_full: WhenFull,
}

impl Sender {
    /// Writes an entry soon. If the writer cannot keep up, the entry is lost and counted.
    pub fn send(&mut self, entry: Entry) {
        self.batch.push(entry);
        if BATCH <= self.batch.len() {
            self.flush();
        }
    }

    /// Hands over what was sent so far. To be called when nothing else is to be done.
    pub fn flush(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        let n = self.batch.len() as u64;
        let batch = Message::Entries(std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH)));
        let sent = match self.when_full {
            WhenFull::Lose => self.to.try_send(batch),
            WhenFull::Wait => {
                self.to.send(batch).map_err(|SendError(batch)| TrySendError::Disconnected(batch))
            }
        };
        match sent {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.counts.lost.fetch_add(n, Ordering::Relaxed);
            }
        }
    }

    /// How many entries were lost so far.
    pub fn lost(&self) -> u64 {
        self.counts.lost.load(Ordering::Relaxed)
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.flush();
    }
}
