//! How long groups wait, and what for.

use std::collections::BTreeMap;

use plimsoll_framework::pod_groups::group_of;
use plimsoll_framework::{GroupRef, Time};

use super::{GroupResult, GroupWait};
use crate::metrics::ReservationEnd;
use crate::queue::{Attempt, QueuePlace};
use crate::scheduler::Scheduler;

/// All reasons, in the order of [`GroupWait`].
const REASONS: [&str; 5] = ["queued", "unschedulable", "preemption", "error", "gated"];

impl Scheduler {
    /// Notes that a group has its turn.
    pub(super) fn has_turn(&mut self, group: &GroupRef, members: &[Attempt]) {
        let ready = |one: &Attempt| self.queue.get(one.id).and_then(|info| info.first_ready);
        let first_ready = members.iter().filter_map(ready).min();
        let history = self.groups.entry(group.clone()).or_default();
        history.waits_since = history.waits_since.or(first_ready);
    }

    /// Notes what came of the cycle of a group.
    pub(super) fn has_had_turn(&mut self, now: Time, group: &GroupRef, result: GroupResult) {
        let history = self.groups.entry(group.clone()).or_default();
        history.waits_for = match result {
            GroupResult::Scheduled => GroupWait::Turn,
            GroupResult::Unschedulable | GroupResult::Waiting => GroupWait::Room,
            GroupResult::Preempting => GroupWait::Preemption,
            GroupResult::Error => GroupWait::EndOfError,
        };
        if result != GroupResult::Scheduled {
            return;
        }
        let since = history.waits_since.take();
        // What is left of a group that was scheduled does not count.
        if let Some(since) = since.filter(|_| !history.is_scheduled) {
            self.counts.groups.scheduled_after(now.since(since));
        }
        history.is_scheduled = true;
        self.end_reservation_of(group, ReservationEnd::Scheduled);
    }

    /// How many groups have waiting pods, by the reason; all reasons are there.
    pub(crate) fn waits_of_groups(&self) -> Vec<(&'static str, u64)> {
        let mut roots = BTreeMap::new();
        // The smallest counts: a group whose pods are apart waits for what comes first.
        let mut waits = BTreeMap::<GroupRef, GroupWait>::new();
        for (_, info) in self.queue.iter_in_any_order() {
            let Some(leaf) = group_of(&info.pod) else { continue };
            let root = roots.entry(leaf).or_insert_with_key(|leaf| self.root_of(leaf)).clone();
            let wait = match info.place {
                QueuePlace::InFlight => continue,
                QueuePlace::Active => GroupWait::Turn,
                QueuePlace::Gated { .. } => GroupWait::Gate,
                QueuePlace::Backoff { .. }
                | QueuePlace::ErrorBackoff { .. }
                | QueuePlace::Unschedulable => {
                    self.groups.get(&root).map_or(GroupWait::Room, |known| known.waits_for)
                }
            };
            let known = waits.entry(root).or_insert(wait);
            *known = wait.min(*known);
        }
        let mut counts = [0; REASONS.len()];
        for wait in waits.into_values() {
            counts[wait as usize] += 1;
        }
        REASONS.into_iter().zip(counts).collect()
    }
}
