//! All binding cycles, found by pod, by the write they await, and by their deadline.

use std::collections::BTreeSet;

use hashbrown::HashMap;
use plimsoll_api::PodKey;
use plimsoll_framework::Time;
use rustc_hash::FxBuildHasher;

use crate::binding::BindingCycle;
use crate::effect::EffectId;
use crate::table::{Slot, Table};

/// All binding cycles. A cycle is taken out to be carried on and then put back, so that no step looks
/// at cycles for which nothing has happened.
#[derive(Debug, Default)]
pub(crate) struct Bindings {
    cycles: Table<BindingCycle>,
    awaited: HashMap<EffectId, Slot, FxBuildHasher>,
    deadlines: BTreeSet<(Time, Slot)>,
    /// Those that wait for the world to catch up.
    settling: BTreeSet<Slot>,
}

impl Bindings {
    /// Puts a cycle in.
    pub(crate) fn put(&mut self, cycle: BindingCycle) {
        let slot = self.cycles.insert(cycle);
        let cycle = &self.cycles[slot];
        self.awaited.extend(cycle.awaited().map(|id| (id, slot)));
        self.deadlines.extend(cycle.deadline().map(|time| (time, slot)));
        if cycle.is_settling() {
            self.settling.insert(slot);
        }
    }

    /// Takes the cycle of a pod out.
    pub(crate) fn take(&mut self, key: &PodKey) -> Option<BindingCycle> {
        self.cycles.find(key).map(|slot| self.take_at(slot))
    }

    /// Takes the cycle out that awaits the answer to a write. An answer belongs to that one cycle.
    pub(crate) fn take_awaiting(&mut self, id: EffectId) -> Option<BindingCycle> {
        self.awaited.get(&id).copied().map(|slot| self.take_at(slot))
    }

    /// The cycle of a pod.
    pub(crate) fn get(&self, key: &PodKey) -> Option<&BindingCycle> {
        self.cycles.get(key)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.cycles.len()
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.cycles.is_empty()
    }

    /// The pods whose cycle may have to go on without an answer, by name: the world may have caught up, or
    /// the time is over.
    pub(crate) fn to_look_at(&self, now: Time) -> BTreeSet<PodKey> {
        let due = self.deadlines.iter().take_while(|(time, _)| *time <= now);
        let slots = self.settling.iter().chain(due.map(|(_, slot)| slot));
        slots.map(|&slot| self.cycles[slot].pod.key.clone()).collect()
    }

    /// When the time of the next cycle is over.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.deadlines.first().map(|(time, _)| *time)
    }

    fn take_at(&mut self, slot: Slot) -> BindingCycle {
        let cycle = self.cycles.remove(slot);
        for id in cycle.awaited() {
            self.awaited.remove(&id);
        }
        if let Some(time) = cycle.deadline() {
            self.deadlines.remove(&(time, slot));
        }
        if cycle.is_settling() {
            self.settling.remove(&slot);
        }
        cycle
    }
}
