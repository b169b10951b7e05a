//! A reservation: a group that has not fitted for too long has whatever becomes free to itself for a while.
//!
//! A gang needs much room at once. A stream of small pods of the same priority takes up what becomes free piece by piece, and
//! the gang never fits. kube-scheduler leaves it at that. With [`Options::reservations`](crate::Options::reservations), others
//! of the same or a lower priority are not tried once the gang has waited for too long. They stay where they are in the queue
//! until the gang is scheduled, but not for longer than a limit, and are tried before room is reserved for another group. There
//! is one reservation at a time, and none for a group that would not fit without those others either.

use std::time::Duration;

use plimsoll_api::PodKey;
use plimsoll_framework::pod_groups::group_of;
use plimsoll_framework::{GroupForest, GroupGates, GroupRef, GroupRules, PodInfo, Time};

use super::{GroupCycle, GroupResult};
use crate::metrics::ReservationEnd;
use crate::queue::Surroundings;
use crate::scheduler::Scheduler;

/// When room is reserved for a group. Not in kube-scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservations {
    /// How long a group must have waited since it first did not fit.
    pub after: Duration,
    /// How long others wait for it at most. Then the group must wait again before it gets another one.
    pub at_most: Duration,
}

/// A reservation.
#[derive(Clone, Debug)]
pub(crate) struct Reservation {
    /// The group; the root of its tree under the rules of 1.37.
    group: GroupRef,
    /// Others are tried only if their priority is higher.
    priority: i32,
    until: Time,
}

impl Reservation {
    /// Whether a pod may be tried: it is of the group, or has a higher priority, which is that of its group if the queue
    /// knows groups.
    pub(crate) fn admits(&self, pod: &PodInfo, forest: GroupForest<'_>, gates: GroupGates) -> bool {
        let priority = match gates.rules {
            GroupRules::V1_36 => pod.priority,
            GroupRules::V1_37 => forest.priority_of(pod),
        };
        self.priority < priority || is_of(pod, &self.group, forest)
    }
}

/// Room that is reserved for a group, so that others are not tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservedRoom {
    /// The group; the root of its tree under the rules of 1.37.
    pub group: GroupRef,
    /// Until when at the latest.
    pub until: Time,
}

/// Whether a pod belongs to a group or, if it is the root of a tree, to one of its groups.
fn is_of(pod: &PodInfo, group: &GroupRef, forest: GroupForest<'_>) -> bool {
    group_of(pod).is_some_and(|leaf| match forest.root(&leaf) {
        Ok(root) => root == *group,
        Err(_) => *group == GroupRef::Pods(leaf),
    })
}

impl Scheduler {
    /// Reserves for a group that has had its turn, if it is time. What of the group fits later is not waited for.
    pub(super) fn may_reserve(&mut self, now: Time, group: &GroupCycle, result: GroupResult) {
        let Some(rule) = self.options.reservations else { return };
        let root = &group.root.group;
        let history = self.groups.entry(root.clone()).or_default();
        if result != GroupResult::Unschedulable {
            history.fails_since = None;
            return;
        }
        let since = *history.fails_since.get_or_insert(now);
        if self.reservation.is_some() || now.since(since) < rule.after {
            return;
        }
        // Others that had to wait for another group have their turn first. Otherwise they would never have it while two groups
        // wait for room in turn.
        if self.queue.has_readmitted() {
            return;
        }
        // If it would not fit, it is asked about again only after the same time.
        history.fails_since = Some(now);
        let priority = match self.options.gates.groups.rules {
            GroupRules::V1_36 => group.pods.iter().map(|pod| pod.priority).max().unwrap_or(0),
            GroupRules::V1_37 => group.in_cycle(&group.root).priority(),
        };
        if self.fits_without_others(now, group, priority) {
            let until = now + rule.at_most;
            self.reservation = Some(Reservation { group: root.clone(), priority, until });
        }
    }

    /// Whether a group would fit if no pods of others with the same or a lower priority were on nodes.
    fn fits_without_others(&mut self, now: Time, group: &GroupCycle, priority: i32) -> bool {
        let gates = self.options.gates.groups;
        let reservation =
            Reservation { group: group.root.group.clone(), priority, until: Time::ZERO };
        self.in_dry_run(now, group, |dry_run| {
            let view = dry_run.view();
            let forest = GroupForest::of(view.stores, gates);
            let placed = view.nodes.rows().flat_map(|row| view.nodes.pods_on(row).iter());
            let others = placed.filter(|pod| !reservation.admits(pod, forest, gates));
            let others: Vec<PodKey> = others.map(|pod| pod.key.clone()).collect();
            for other in &others {
                dry_run.remove(other);
            }
            match gates.rules {
                GroupRules::V1_36 => dry_run.try_group().is_ok(),
                GroupRules::V1_37 => dry_run.assign_group().is_ok(),
            }
        })
    }

    /// Ends the reservation when its time is over.
    pub(crate) fn end_overdue_reservation(&mut self, now: Time) {
        let over = self.reservation.as_ref().filter(|reservation| reservation.until <= now);
        if let Some(group) = over.map(|reservation| reservation.group.clone()) {
            // It must wait again, so that the others get their turn.
            self.groups.entry(group).or_default().fails_since = Some(now);
            self.end_reservation(ReservationEnd::Expired);
        }
    }

    /// Ends the reservation of a group, if it has one.
    pub(super) fn end_reservation_of(&mut self, group: &GroupRef, end: ReservationEnd) {
        if self.reservation.as_ref().is_some_and(|reservation| reservation.group == *group) {
            self.end_reservation(end);
        }
    }

    fn end_reservation(&mut self, end: ReservationEnd) {
        self.reservation = None;
        self.counts.groups.reservation_over(end);
        let with = Surroundings { profiles: &self.profiles, cache: &self.cache };
        self.queue.readmit(with);
    }

    /// The room because of which a pod is not tried, if any is reserved.
    pub(crate) fn reserved_before(&self, pod: &PodInfo) -> Option<ReservedRoom> {
        let reservation = self.reservation.as_ref()?;
        let gates = self.options.gates.groups;
        let forest = GroupForest::of(self.cache.view().stores, gates);
        let room = ReservedRoom { group: reservation.group.clone(), until: reservation.until };
        (!reservation.admits(pod, forest, gates)).then_some(room)
    }

    /// When the reservation ends at the latest.
    pub(crate) fn reservation_end(&self) -> Option<Time> {
        self.reservation.as_ref().map(|reservation| reservation.until)
    }
}
