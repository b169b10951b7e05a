//! Shows a journal what a scheduler does.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use plimsoll_engine::{Audit, BindingEnd, Decision, Effect, Event, GroupDecision, Recorder};
use plimsoll_framework::{Time, WaitingDecision};

use crate::entry::Entries;
use crate::queue::{Counts, Waiting, WhenFull};

/// Entries are handed over in batches of this many.
const BATCH: usize = 64;

/// Gives the thread that writes every attempt, of pods and of groups, and how binding cycles ended. Once it is dropped, the journal is
/// written to its end. The scheduler must keep decisions: at least [`Detail::Choice`](plimsoll_engine::Detail::Choice).
#[derive(Debug)]
pub struct JournalRecorder {
    to: Arc<Waiting>,
    batch: Entries,
    counts: Arc<Counts>,
    when_full: WhenFull,
}

impl JournalRecorder {
    pub(crate) fn new(to: Arc<Waiting>, counts: Arc<Counts>, when_full: WhenFull) -> Self {
        JournalRecorder { to, batch: Entries::default(), counts, when_full }
    }

    /// Hands over what was recorded so far. If the writer cannot keep up, it is lost and counted. It is called if a step has no
    /// effect, since the next one may come late.
    pub fn flush(&mut self) {
        let n = self.batch.len();
        if 0 < n && !self.to.add(&mut self.batch, self.when_full) {
            self.counts.lost.fetch_add(n as u64, Ordering::Relaxed);
        }
    }

    /// How many entries were lost so far.
    pub fn lost(&self) -> u64 {
        self.counts.lost.load(Ordering::Relaxed)
    }

    fn flush_full(&mut self) {
        if BATCH <= self.batch.len() {
            self.flush();
        }
    }

    fn has_done(&mut self, effects: &[Effect]) {
        if effects.is_empty() {
            self.flush();
        }
    }
}

impl Recorder for JournalRecorder {
    fn observed(&mut self, _now: Time, _event: &Event) {}

    fn decided(&mut self, now: Time, decision: &Decision) {
        self.batch.decided(now, decision);
        self.flush_full();
    }

    fn decided_group(&mut self, now: Time, decision: &GroupDecision) {
        self.batch.decided_group(now, decision);
        self.flush_full();
    }

    fn binding_ended(&mut self, now: Time, end: &BindingEnd<'_>) {
        self.batch.binding_ended(now, end);
        self.flush_full();
    }

    fn stepped(&mut self, _now: Time, effects: &[Effect], _audit: &Audit) {
        self.has_done(effects);
    }

    fn wound_up(&mut self, _now: Time, effects: &[Effect]) {
        self.has_done(effects);
    }

    fn waiting_pod(&mut self, _decision: &WaitingDecision) {}
}

impl Drop for JournalRecorder {
    fn drop(&mut self) {
        self.flush();
        self.to.complete();
    }
}
