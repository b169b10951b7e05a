//! Writes of plugins, from what they say to what became of it.

use std::collections::BTreeSet;

use hashbrown::HashMap;
use plimsoll_framework::{ObjectWrite, PodInfo, Point, Time};
use rustc_hash::FxBuildHasher;

use crate::effect::EffectId;

/// A write that a plugin wants.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    pub(crate) plugin: &'static str,
    /// Where it said so.
    pub(crate) point: Point,
    /// The pod for which it is done, on its node.
    pub(crate) pod: PodInfo,
    pub(crate) write: ObjectWrite,
    /// How often it has been tried in a row, this time included.
    pub(crate) tries: u32,
}

/// So often a plugin may try in a row to mend a write that fails. One that fails each time would keep the API server
/// busy for nothing.
const MOST_TRIES: u32 = 8;

impl Said {
    /// What the plugin writes because this failed.
    pub(crate) fn again(&self, write: ObjectWrite) -> Self {
        Said { write, tries: self.tries + 1, ..self.clone() }
    }

    /// Whether the plugin may try again if it fails.
    pub(crate) fn may_be_tried_again(&self) -> bool {
        self.tries < MOST_TRIES
    }
}

/// The writes of plugins whose answers are awaited.
#[derive(Debug, Default)]
pub(crate) struct SentWrites {
    sent: HashMap<EffectId, (Said, Time), FxBuildHasher>,
    deadlines: BTreeSet<(Time, EffectId)>,
}

impl SentWrites {
    /// A write is on its way, and its answer is awaited until `deadline`.
    pub(crate) fn add(&mut self, effect: EffectId, said: Said, deadline: Time) {
        self.sent.insert(effect, (said, deadline));
        self.deadlines.insert((deadline, effect));
    }

    /// A write was answered, or will not be.
    pub(crate) fn take(&mut self, effect: EffectId) -> Option<Said> {
        let (said, deadline) = self.sent.remove(&effect)?;
        self.deadlines.remove(&(deadline, effect));
        Some(said)
    }

    /// The writes whose time is over.
    pub(crate) fn overdue(&self, now: Time) -> Vec<EffectId> {
        let due = self.deadlines.iter().take_while(|(deadline, _)| *deadline <= now);
        due.map(|(_, effect)| *effect).collect()
    }

    /// Whether no answer is awaited.
    pub(crate) fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    /// When the time of the next one is over.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }
}
