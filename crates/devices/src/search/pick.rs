//! Picks a device, and gives it back.

use plimsoll_api::devices::{AllocationMode, Device};

use super::{Counting, Pick, Place, Search};
use crate::account::{Recorder, Refusal};
use crate::allocated::{add_amounts, sub_amounts};
use crate::capacity::{self, Amounts};
use crate::plan::AskPlan;
use crate::{AllocateError, DeviceId};

impl<'s, 'a: 's, R: Recorder> Search<'s, 'a, R> {
    /// As in allocateDevice.
    pub(super) fn pick(
        &mut self,
        claim: usize,
        ask: usize,
        place: Place,
    ) -> Result<bool, AllocateError> {
        let allocator = self.allocator;
        let features = allocator.features();
        let (pool, slice, device, id) = self.device(place);
        let plan = &allocator.asks[ask];
        let is_shared = features.consumable_capacity && device.allow_multiple_allocations;
        let has_paid = match self.unavailable(claim, plan, place, is_shared) {
            Ok(has_paid) => has_paid,
            Err(refusal) => {
                self.recorder.refused(ask, id, || refusal);
                return Ok(false);
            }
        };
        if let Some(constraint) = self.violated(claim, plan, &pool.driver, device) {
            self.take_back_counters(has_paid, place.pool, device);
            self.recorder.refused(ask, id, || Refusal::Constraint(constraint));
            if plan.ask.mode == AllocationMode::All {
                let key = &allocator.claims[claim].claim.key;
                let device = format!("{}/{}/{}", pool.driver, pool.name, device.name);
                return Err(AllocateError::Failed(format!(
                    "claim {key}, request {}: cannot add device {device} because a claim constraint would not be satisfied",
                    plan.name
                )));
            }
            return Ok(false);
        }
        if !is_shared && !self.is_taken_by(id, claim) {
            self.taken.push((id, claim));
        }
        // Other requests for a shared device may have taken its capacity since a request for all was prepared. What is
        // noted above then stays in 1.36.
        if !self.has_capacity(ask, slice, place.device)? {
            if features.is_37() {
                self.take_back_counters(has_paid, place.pool, device);
                self.release_constraints(claim, plan);
                self.taken.retain(|taken| *taken != (id, claim));
            }
            return Ok(false);
        }
        let share = is_shared.then(|| capacity::share(plan.capacity(), device, features));
        let share = share.transpose().map_err(AllocateError::Failed)?;
        if let Some(share) = &share {
            match self.shared.iter_mut().find(|(known, _)| *known == id) {
                Some((_, amounts)) => add_amounts(amounts, share),
                None => self.shared.push((id, share.clone())),
            }
        }
        self.recorder.picked(ask, id);
        self.picks[claim].push(Pick { ask, place, share, has_paid });
        Ok(true)
    }

    /// Whether counters were taken for a device that meets the selectors, or why it cannot be had. In 1.36 the counters
    /// of a device that is refused for a taint, or later, are not given back.
    pub(super) fn unavailable(
        &mut self,
        claim: usize,
        plan: &AskPlan<'_>,
        place: Place,
        is_shared: bool,
    ) -> Result<bool, Refusal> {
        let features = self.allocator.features();
        let (_, slice, device, id) = self.device(place);
        let in_use = match plan.admin_access {
            true => !is_shared && self.is_taken_by(id, claim),
            false => self.is_in_use(id),
        };
        if in_use {
            return Err(Refusal::InUse);
        }
        // The first share of a device has paid for all.
        let is_paid = is_shared && self.is_capacity_in_use(id);
        let mut has_paid = false;
        if !device.consumes_counters.is_empty() {
            if !features.partitionable_devices {
                return Err(Refusal::Counters);
            }
            if !is_paid && !self.take_counters(place.pool, device) {
                return Err(Refusal::Counters);
            }
            has_paid = !is_paid;
        }
        if !features.device_taints {
            return Ok(has_paid);
        }
        let tolerations = &plan.ask.tolerations;
        let mut taints = slice.taints(place.device).filter(|taint| taint.prevents_allocation());
        match taints.find(|taint| !tolerations.iter().any(|one| one.tolerates(taint))) {
            None => Ok(has_paid),
            Some(taint) => {
                let refusal = Refusal::Tainted(taint.key.clone());
                self.take_back_counters(has_paid, place.pool, device);
                Err(refusal)
            }
        }
    }

    /// Gives back the counters of a device that is refused after they were taken. 1.36 does not.
    pub(super) fn take_back_counters(&mut self, has_paid: bool, pool: usize, device: &Device) {
        if has_paid && self.allocator.features().is_37() {
            self.counting(pool).consumed.sub(&device.consumes_counters);
        }
    }

    /// Takes the last device of a claim out of the constraints of its request.
    pub(super) fn release_constraints(&mut self, claim: usize, plan: &AskPlan<'_>) {
        for &constraint in &plan.constraints {
            self.constraints[claim][constraint].remove(plan.picked());
        }
    }

    /// Gives back the last device of a claim. In 1.36 a shared device keeps its counters, and a share without capacities
    /// stays.
    pub(super) fn give_back(&mut self, claim: usize) {
        let allocator = self.allocator;
        let features = allocator.features();
        let pick = self.picks[claim].pop().expect("only a picked device is given back");
        let (_, _, device, id) = self.device(pick.place);
        self.release_constraints(claim, &allocator.asks[pick.ask]);
        self.taken.retain(|taken| *taken != (id, claim));
        if features.is_37() {
            self.take_back_counters(pick.has_paid, pick.place.pool, device);
            if let Some(share) = &pick.share {
                self.give_back_share(id, share);
            }
            return;
        }
        match &pick.share {
            Some(share) if share.is_empty() => {}
            Some(share) => {
                if let Some(at) = self.shared.iter().position(|(known, _)| *known == id) {
                    let (_, amounts) = &mut self.shared[at];
                    sub_amounts(amounts, share);
                    if amounts.iter().all(|(_, amount)| amount.is_zero()) {
                        self.shared.remove(at);
                    }
                }
            }
            None if device.consumes_counters.is_empty() => {}
            None => {
                self.counting(pick.place.pool).consumed.sub(&device.consumes_counters);
            }
        }
    }

    /// Gives back a share of a device, which stays in use as long as there are others.
    pub(super) fn give_back_share(&mut self, id: DeviceId, share: &Amounts) {
        let mut picks = self.picks.iter().flatten();
        let has_others = picks.any(|one| one.share.is_some() && self.device(one.place).3 == id);
        let Some(at) = self.shared.iter().position(|(known, _)| *known == id) else { return };
        match has_others {
            true => sub_amounts(&mut self.shared[at].1, share),
            false => _ = self.shared.remove(at),
        }
    }

    /// Adds a device to the constraints of its claim. Returns one that it would violate; then it is added to none.
    pub(super) fn violated(
        &mut self,
        claim: usize,
        plan: &'s AskPlan<'a>,
        driver: &str,
        device: &'s Device,
    ) -> Option<usize> {
        let states = &mut self.constraints[claim];
        for (added, &constraint) in plan.constraints.iter().enumerate() {
            if !states[constraint].add(plan.picked(), driver, device) {
                for &before in &plan.constraints[..added] {
                    states[before].remove(plan.picked());
                }
                return Some(constraint);
            }
        }
        None
    }

    /// As in checkAvailableCounters: adds what the device consumes, unless some counter of the pool is then used up.
    pub(super) fn take_counters(&mut self, pool: usize, device: &Device) -> bool {
        let Counting { available, consumed } = self.counting(pool);
        consumed.add(&device.consumes_counters);
        let is_covered = available.cover(consumed);
        if !is_covered {
            consumed.sub(&device.consumes_counters);
        }
        is_covered
    }
}
