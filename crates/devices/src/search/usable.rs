//! Which devices a request can use: they meet the selectors, are not in use, and have room.

use plimsoll_api::ObjectKey;
use plimsoll_api::devices::DeviceNodes;

use super::Search;
use crate::account::{Recorder, Refusal};
use crate::capacity::{self, Consumed};
use crate::plan::ClaimPlan;
use crate::pool::{IndexedSlice, reaches};
use crate::{AllocateError, DeviceId, DeviceRef, SelectorError};

const NO_SUCH_KEY_HINT: &str = ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for optional fields";

impl<'s, 'a: 's, R: Recorder> Search<'s, 'a, R> {
    /// As in isSelectable.
    pub(super) fn is_selectable(
        &mut self,
        ask: usize,
        slice: &IndexedSlice,
        index: usize,
    ) -> Result<bool, AllocateError> {
        let (device, id) = (&slice.slice.devices[index], slice.ids[index]);
        if !self.allocator.features().binding_conditions && !device.binding_conditions.is_empty() {
            self.recorder.refused(ask, id, || Refusal::BindingConditions);
            return Ok(false);
        }
        if let Some(known) = self.selectable.get(&(ask, id)) {
            return Ok(*known);
        }
        let refusal = self.rejected(ask, slice, index)?;
        let is_selectable = refusal.is_none();
        if let Some(refusal) = refusal {
            self.recorder.refused(ask, id, || refusal);
        }
        self.selectable.insert((ask, id), is_selectable);
        Ok(is_selectable)
    }

    /// The selector that rejects a device, if any.
    pub(super) fn rejected(
        &mut self,
        ask: usize,
        slice: &IndexedSlice,
        index: usize,
    ) -> Result<Option<Refusal>, AllocateError> {
        let plan = &self.allocator.asks[ask];
        let own = plan.ask.selectors.iter().enumerate();
        let of_class = plan.class.iter().flat_map(|class| &class.selectors).enumerate();
        for (at, selector) in of_class {
            if !self.meets(selector.as_deref(), slice, index).map_err(|error| {
                let class = &plan.ask.class;
                self.failed(&format!("class {class}: selector #{at}"), slice, index, error)
            })? {
                return Ok(Some(Refusal::ClassSelector(at)));
            }
        }
        for (at, selector) in own {
            if !self.meets(selector.as_deref(), slice, index).map_err(|error| {
                let key = self.key_of(ask);
                self.failed(&format!("claim {key}: selector #{at}"), slice, index, error)
            })? {
                return Ok(Some(Refusal::Selector(at)));
            }
        }
        if slice.slice.nodes == DeviceNodes::PerDevice {
            let device = &slice.slice.devices[index];
            if !reaches(&device.nodes, self.node).map_err(AllocateError::Failed)? {
                return Ok(Some(Refusal::OtherNode));
            }
        }
        Ok(None)
    }

    pub(super) fn meets(
        &mut self,
        selector: Option<&str>,
        slice: &IndexedSlice,
        index: usize,
    ) -> Result<bool, SelectorError> {
        let Some(expression) = selector else {
            let why = "CEL expression empty (unsupported selector type?)";
            return Err(SelectorError::Compile(why.to_owned()));
        };
        let device = DeviceRef {
            id: slice.ids[index],
            stamp: slice.stamp,
            driver: &slice.slice.driver,
            pool: &slice.slice.pool,
            device: &slice.slice.devices[index],
        };
        self.selectors.matches(expression, device)
    }

    /// As in selectorsMatch.
    pub(super) fn failed(
        &self,
        what: &str,
        slice: &IndexedSlice,
        index: usize,
        error: SelectorError,
    ) -> AllocateError {
        AllocateError::Failed(match error {
            SelectorError::Runtime(text) if self.allocator.features().is_37() => {
                let hint = match text.starts_with("no such key: ") {
                    true => NO_SUCH_KEY_HINT,
                    false => "",
                };
                let (driver, pool) = (&slice.slice.driver, &slice.slice.pool);
                let device = format!("{driver}/{pool}/{}", slice.slice.devices[index].name);
                format!("{what} on device {device}: CEL runtime error: {text}{hint}")
            }
            error => format!("{what}: {error}"),
        })
    }

    pub(super) fn key_of(&self, ask: usize) -> &ObjectKey {
        let mut claims = self.allocator.claims.iter();
        let has = |claim: &&ClaimPlan<'_>| {
            claim.requests.iter().any(|request| request.asks.contains(&ask))
        };
        &claims.find(has).expect("each ask is one of a claim").claim.key
    }

    /// Whether a device has the capacity that is asked for, if it is asked for all: in 1.37 whoever uses it, so that a
    /// device without room makes the request fail.
    pub(super) fn may_have_capacity(
        &mut self,
        ask: usize,
        slice: &IndexedSlice,
        index: usize,
    ) -> Result<bool, AllocateError> {
        match self.allocator.features().is_37() {
            true => self.has_capacity_left(ask, slice, index, Consumed::default()),
            false => self.has_capacity(ask, slice, index),
        }
    }

    /// Whether a device has the capacity that is asked for.
    pub(super) fn has_capacity(
        &mut self,
        ask: usize,
        slice: &IndexedSlice,
        index: usize,
    ) -> Result<bool, AllocateError> {
        let id = slice.ids[index];
        // The amounts are borrowed from here, while the answer is recorded.
        let here = self.shared.iter().find(|(known, _)| *known == id);
        let here = here.map(|(_, amounts)| amounts.clone()).unwrap_or_default();
        let by_others = self.allocator.allocated.consumed(id).unwrap_or_default();
        self.has_capacity_left(ask, slice, index, Consumed { by_others, here: &here })
    }

    /// The same, where this much is consumed.
    pub(super) fn has_capacity_left(
        &mut self,
        ask: usize,
        slice: &IndexedSlice,
        index: usize,
        consumed: Consumed<'_>,
    ) -> Result<bool, AllocateError> {
        let features = self.allocator.features();
        let (device, id) = (&slice.slice.devices[index], slice.ids[index]);
        let requested = self.allocator.asks[ask].capacity();
        if !features.consumable_capacity || requested.is_none() && device.capacity.is_empty() {
            return Ok(true);
        }
        let suffices = capacity::suffices(requested, device, consumed, features)
            .map_err(AllocateError::Failed)?;
        if !suffices {
            self.recorder.refused(ask, id, || Refusal::Capacity);
        }
        Ok(suffices)
    }

    pub(super) fn is_in_use(&self, id: DeviceId) -> bool {
        self.allocator.allocated.is_exclusive(id)
            || self.taken.iter().any(|(taken, _)| *taken == id)
    }

    pub(super) fn is_taken_by(&self, id: DeviceId, claim: usize) -> bool {
        self.taken.contains(&(id, claim))
    }

    pub(super) fn is_capacity_in_use(&self, id: DeviceId) -> bool {
        let allocated = self.allocator.allocated;
        allocated.consumed(id).is_some()
            || self.allocator.features().is_37() && allocated.is_shared(id)
            || self.shared.iter().any(|(shared, _)| *shared == id)
    }
}
