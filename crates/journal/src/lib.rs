//! The journal of decisions: an SQLite file that says what was decided, when and why.
//!
//! [`Journal::begin`] opens a file and starts a thread that writes. The scheduler's thread gives entries to a [`Sender`],
//! which need not wait: what does not fit into the queue is lost, and the journal says how much. [`Reader`] answers questions.
//! The [schema](SCHEMA) is an interface: other programs may read the file.

mod batch;
mod entry;
mod names;
mod pods;
mod questions;
mod reader;
mod recorder;
mod rows;
mod sender;
mod store;
mod writer;

pub use self::entry::{AttemptEntry, Entry, GroupEntry, ScoredNode};
pub use self::reader::{
    Hour, JournalAttempt, JournalGroupAttempt, JournalPod, JournalPreemption, JournalRejection,
    JournalScore, Loss, Reader,
};
pub use self::recorder::JournalRecorder;
pub use self::sender::{Sender, WhenFull};
pub use self::store::{JournalError, Retention, SCHEMA, VERSION};
pub use self::writer::{Journal, JournalCounts, Tallied, Written, tidy};
