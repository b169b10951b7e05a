//! Recordings: everything that enters a scheduler, written to files from which the same decisions can be made again.
//!
//! A [`Recorder`](plimsoll_engine::Recorder) is shown each event, answer and step of a scheduler with its time. The
//! [`Recording`] encodes them on a thread of its own, and writes them in frames with checksums. A [`Reader`] reads
//! them, and a [`Replay`] makes the same calls on a new scheduler and compares the effects. `docs/recording.md`
//! describes the format.

mod decode;
mod effects;
mod encode;
mod error;
mod form;
mod frame;
mod header;
mod judge;
mod objects;
mod reader;
mod recorder;
mod replay;
mod shrink;
mod state;
mod writer;

pub use decode::Entry;
pub use effects::{EffectDigest, RecordedEffect, What};
pub use error::{ReadError, RecordError};
pub use header::{Header, RecordedOptions};
pub use judge::{Judge, Verdicts};
pub use reader::{Ending, Reader};
pub use recorder::{Recording, Summary, WhenFull};
pub use replay::{Difference, Replay, Replayed, Tally};
pub use shrink::{Effort, Shrunk, shrink};
pub use state::RecordedState;
pub use writer::{Destination, Limits, part_path};
