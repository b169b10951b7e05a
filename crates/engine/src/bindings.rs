//! All binding cycles, indexed by pod, by the write they await, and by their deadline.

use std::collections::BTreeSet;

use hashbrown::HashMap;
use plimsoll_framework::Time;
use rustc_hash::FxBuildHasher;

use crate::binding::BindingCycle;
use crate::by_pod::ByPod;
use crate::effect::EffectId;
use crate::names::PodId;
use crate::sorted_pods::SortedPods;

/// All binding cycles. A cycle is taken out to advance it and then put back, so that a step does not
/// touch cycles for which nothing has happened.
#[derive(Debug, Default)]
pub(crate) struct Bindings {
    cycles: ByPod<Box<BindingCycle>>,
    awaited: HashMap<EffectId, PodId, FxBuildHasher>,
    deadlines: SortedPods<(Time, PodId)>,
    /// Those that wait for a state of the cluster.
    settling: BTreeSet<PodId>,
}

impl Bindings {
    /// Puts a cycle in.
    pub(crate) fn put(&mut self, cycle: Box<BindingCycle>) {
        let id = cycle.id;
        self.awaited.extend(cycle.awaited().map(|effect| (effect, id)));
        if let Some(time) = cycle.deadline() {
            self.deadlines.insert((time, id), id);
        }
        if cycle.is_settling() {
            self.settling.insert(id);
        }
        self.cycles.insert(id, cycle);
    }

    /// Takes the cycle of a pod out.
    pub(crate) fn take(&mut self, id: PodId) -> Option<Box<BindingCycle>> {
        let cycle = self.cycles.remove(id)?;
        for effect in cycle.awaited() {
            self.awaited.remove(&effect);
        }
        if let Some(time) = cycle.deadline() {
            self.deadlines.remove(&(time, id));
        }
        if cycle.is_settling() {
            self.settling.remove(&id);
        }
        Some(cycle)
    }

    /// Takes the cycle out that awaits the answer to a write. An answer belongs to that one cycle.
    pub(crate) fn take_awaiting(&mut self, effect: EffectId) -> Option<Box<BindingCycle>> {
        let id = *self.awaited.get(&effect)?;
        self.take(id)
    }

    /// The cycle of a pod.
    pub(crate) fn get(&self, id: PodId) -> Option<&BindingCycle> {
        self.cycles.get(id).map(|cycle| &**cycle)
    }

    /// All of them, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &BindingCycle> {
        self.cycles.iter().map(|(_, cycle)| &**cycle)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.cycles.len()
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.cycles.len() == 0
    }

    /// The pods whose cycle may advance without an answer, by name: the cluster may have reached the
    /// awaited state, or the deadline has passed.
    pub(crate) fn to_look_at(&self, now: Time) -> Vec<PodId> {
        let is_due = self.next_deadline().is_some_and(|deadline| deadline <= now);
        if !is_due && self.settling.is_empty() {
            return Vec::new();
        }
        let due = self.deadlines.up_to((now, PodId::LAST));
        let mut all: Vec<PodId> = self.settling.iter().copied().chain(due).collect();
        all.sort_unstable_by(|a, b| self.cycles[*a].pod.key.cmp(&self.cycles[*b].pod.key));
        all.dedup();
        all
    }

    /// The next deadline.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.deadlines.first().map(|((time, _), _)| *time)
    }
}
