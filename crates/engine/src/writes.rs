//! The writes of plugins: those that were requested, and those whose answers are awaited.

use std::collections::BTreeSet;

use hashbrown::HashMap;
use plimsoll_framework::{ObjectWrite, PodInfo, Point, Time};
use rustc_hash::FxBuildHasher;

use crate::effect::EffectId;

/// A write that a plugin has requested.
#[derive(Clone, Debug)]
pub(crate) struct RequestedWrite {
    pub(crate) plugin: &'static str,
    /// The extension point at which it was requested.
    pub(crate) point: Point,
    /// The pod for which it is requested, on its node.
    pub(crate) pod: PodInfo,
    pub(crate) write: ObjectWrite,
    /// The number of attempts in a row, this one included.
    pub(crate) tries: u32,
}

/// A plugin may answer a failed write with another one this many times in a row. Beyond that, a write that always fails
/// would only keep the API server busy.
const MOST_TRIES: u32 = 8;

impl RequestedWrite {
    /// Another write, because this one failed.
    pub(crate) fn again(&self, write: ObjectWrite) -> Self {
        RequestedWrite { write, tries: self.tries + 1, ..self.clone() }
    }

    /// Whether the plugin may write again if this one fails.
    pub(crate) fn may_be_tried_again(&self) -> bool {
        self.tries < MOST_TRIES
    }
}

/// The writes of plugins whose answers are awaited.
#[derive(Debug, Default)]
pub(crate) struct SentWrites {
    sent: HashMap<EffectId, (RequestedWrite, Time), FxBuildHasher>,
    deadlines: BTreeSet<(Time, EffectId)>,
}

impl SentWrites {
    /// Adds a write that was sent. Its answer is awaited until `deadline`.
    pub(crate) fn add(&mut self, effect: EffectId, said: RequestedWrite, deadline: Time) {
        self.sent.insert(effect, (said, deadline));
        self.deadlines.insert((deadline, effect));
    }

    /// Removes a write that was answered, or that timed out.
    pub(crate) fn take(&mut self, effect: EffectId) -> Option<RequestedWrite> {
        let (said, deadline) = self.sent.remove(&effect)?;
        self.deadlines.remove(&(deadline, effect));
        Some(said)
    }

    /// The writes that have timed out.
    pub(crate) fn overdue(&self, now: Time) -> Vec<EffectId> {
        let due = self.deadlines.iter().take_while(|(deadline, _)| *deadline <= now);
        due.map(|(_, effect)| *effect).collect()
    }

    /// Whether no answer is awaited.
    pub(crate) fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    /// When the next write times out.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }
}
