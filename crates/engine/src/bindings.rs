//! All binding cycles, found by pod, by the write they await, and by their deadline.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_api::PodKey;
use plimsoll_framework::Time;

use crate::binding::BindingCycle;
use crate::effect::EffectId;

/// All binding cycles. A cycle is taken out to be carried on and then put back, so that no step looks
/// at cycles for which nothing has happened.
#[derive(Debug, Default)]
pub(crate) struct Bindings {
    cycles: BTreeMap<PodKey, BindingCycle>,
    awaited: BTreeMap<EffectId, PodKey>,
    deadlines: BTreeSet<(Time, PodKey)>,
    /// Those that wait for the world to catch up.
    settling: BTreeSet<PodKey>,
}

impl Bindings {
    /// Puts a cycle in.
    pub(crate) fn put(&mut self, cycle: BindingCycle) {
        let key = cycle.pod.key.clone();
        self.awaited.extend(cycle.awaited().map(|id| (id, key.clone())));
        self.deadlines.extend(cycle.deadline().map(|time| (time, key.clone())));
        if cycle.is_settling() {
            self.settling.insert(key.clone());
        }
        self.cycles.insert(key, cycle);
    }

    /// Takes the cycle of a pod out.
    pub(crate) fn take(&mut self, key: &PodKey) -> Option<BindingCycle> {
        let cycle = self.cycles.remove(key)?;
        for id in cycle.awaited() {
            self.awaited.remove(&id);
        }
        if let Some(time) = cycle.deadline() {
            self.deadlines.remove(&(time, key.clone()));
        }
        self.settling.remove(key);
        Some(cycle)
    }

    /// The cycle of a pod.
    pub(crate) fn get(&self, key: &PodKey) -> Option<&BindingCycle> {
        self.cycles.get(key)
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.cycles.is_empty()
    }

    /// The pod whose cycle awaits the answer to a write. An answer belongs to that one cycle.
    pub(crate) fn awaiting(&self, id: EffectId) -> Option<&PodKey> {
        self.awaited.get(&id)
    }

    /// The pods whose cycle may have to go on without an answer: the world may have caught up, or the
    /// time is over.
    pub(crate) fn to_look_at(&self, now: Time) -> BTreeSet<PodKey> {
        let due = self.deadlines.iter().take_while(|(time, _)| *time <= now);
        self.settling.iter().chain(due.map(|(_, key)| key)).cloned().collect()
    }

    /// When the time of the next cycle is over.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.deadlines.first().map(|(time, _)| *time)
    }
}
