//! The journal of decisions: an SQLite file that says what was decided, when and why.
//!
//! [`Journal::begin`] opens a file and starts a thread that writes. The scheduler shows a [`JournalRecorder`] what it does, which
//! need not wait: what does not fit into the queue is lost, and the journal says how much. [`Reader`] answers questions.
//! The [schema](SCHEMA) is an interface: other programs may read the file.

mod entry;
mod names;
mod pods;
mod questions;
mod queue;
mod reader;
mod recorder;
mod rows;
mod sequences;
mod store;
mod transaction;
mod writer;

pub use self::queue::WhenFull;
pub use self::reader::{
    Hour, JournalAttempt, JournalGroupAttempt, JournalPod, JournalPreemption, JournalRejection,
    JournalScore, Loss, Reader,
};
pub use self::recorder::JournalRecorder;
pub use self::store::{JournalError, Retention, SCHEMA, VERSION};
pub use self::writer::{Journal, JournalCounts, Tallied, Written, tidy};
