//! Writes what a scheduler does to a journal.

use std::collections::HashMap;

use plimsoll_api::{PodKey, Str};
use plimsoll_engine::{Audit, Decision, Effect, EffectId, Event, GroupDecision, Recorder, Write};
use plimsoll_framework::{Time, WaitingDecision};
use rustc_hash::FxBuildHasher;

use crate::entry::{AttemptEntry, Entry, GroupEntry};
use crate::sender::Sender;

/// Writes every attempt, of pods and of groups, and how bindings ended. The scheduler must keep decisions: at least
/// [`Detail::Choice`](plimsoll_engine::Detail::Choice).
#[derive(Debug)]
pub struct JournalRecorder {
    sender: Sender,
    /// The bindings that are not answered yet.
    binding: HashMap<EffectId, (PodKey, Str), FxBuildHasher>,
}

impl JournalRecorder {
    /// Writes to this journal.
    pub fn new(sender: Sender) -> Self {
        JournalRecorder { sender, binding: HashMap::default() }
    }

    fn note(&mut self, effects: &[Effect]) {
        for effect in effects {
            if let Write::Bind(_) = &effect.write {
                let pod = (effect.pod.key.clone(), effect.pod.uid.clone());
                self.binding.insert(effect.id, pod);
            }
        }
        // There is nothing to do at present, so nothing else would hand them over.
        if effects.is_empty() {
            self.sender.flush();
        }
    }
}

impl Recorder for JournalRecorder {
    fn observed(&mut self, now: Time, event: &Event) {
        if let Event::Done(id, result) = event
            && let Some((pod, uid)) = self.binding.remove(id)
        {
            let error = result.as_ref().err().map(ToString::to_string);
            self.sender.send(Entry::Bound { at: now, pod, uid, error });
        }
    }

    fn decided(&mut self, now: Time, decision: &Decision) {
        if let Some(entry) = AttemptEntry::of(now, decision) {
            self.sender.send(Entry::Attempt(Box::new(entry)));
        }
    }

    fn decided_group(&mut self, now: Time, decision: &GroupDecision) {
        self.sender.send(Entry::Group(Box::new(GroupEntry::of(now, decision))));
    }

    fn stepped(&mut self, _now: Time, effects: &[Effect], _audit: &Audit) {
        self.note(effects);
    }

    fn wound_up(&mut self, _now: Time, effects: &[Effect]) {
        self.note(effects);
    }

    fn waiting_pod(&mut self, _decision: &WaitingDecision) {}
}
