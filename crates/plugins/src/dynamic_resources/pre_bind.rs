//! PreBind: claims are written, and the conditions of their devices awaited.

use std::time::Duration;

use plimsoll_framework::prelude::*;

use super::held::{HeldClaim, HeldClaims, Progress, held_for};
use super::metrics::count_conditions;
use super::{DynamicResources, writes};

/// As in dynamicresources.go, PreBind and bindClaim. A claim that has to be allocated gets its finalizer first.
impl PreBind for DynamicResources {
    type Held = HeldClaims;

    fn pre_bind(&self, held: &HeldClaims, at: &Placement<'_>, handle: &mut Handle<'_>) {
        let store = at.view.stores.of::<ResourceClaim>();
        for one in held.each_once() {
            if let Some(claim) = store.observed(&one.key) {
                one.write(claim, held, at, handle);
            }
        }
        if !held.node_allocatable.is_empty() {
            writes::name_node_allocatable(at.pod, &held.node_allocatable, handle);
        }
        if let Some(extended) = &held.extended {
            writes::create(&extended.claim, at.pod, handle);
        }
    }

    fn ready(&self, held: &HeldClaims, at: &Placement<'_>, handle: &mut Handle<'_>) -> Readiness {
        match held.ready(at, handle.shared.read()) {
            Ok(true) => {
                // What is observed now says all that was assumed.
                let store = at.view.stores.of();
                for one in held.each_once() {
                    if held_for(&one.key, store, at.pod).is_some() {
                        handle.assume.as_seen::<ResourceClaim>(&one.key);
                    }
                }
                if let Some(extended) = &held.extended {
                    handle.assume.as_seen::<ResourceClaim>(&extended.claim.key);
                }
                self.await_conditions(held, at, handle)
            }
            Ok(false) => {
                held.write_again(at, handle);
                Readiness::Waiting
            }
            Err(why) => Readiness::Failed(Rejection::error(why)),
        }
    }

    fn timeout(&self) -> Duration {
        self.binding_timeout
    }

    fn timed_out(&self, held: &HeldClaims) -> Rejection {
        let has_conditions = |one: &&HeldClaim| {
            let devices = one.allocation().into_iter().flat_map(|allocation| &allocation.devices);
            devices.into_iter().any(|device| !device.binding_conditions.is_empty())
        };
        let awaited = held.claims.iter().filter(has_conditions);
        let named = awaited.chain(&held.claims).map(|one| &one.key.name);
        let extended = held.extended.iter().map(|one| &one.claim.key.name);
        let claim = named.chain(extended).next().map_or("", Str::as_str);
        Rejection::error(format!("device binding timeout: claim={claim}"))
    }
}

impl DynamicResources {
    /// What the drivers say about the devices, once all is written.
    fn await_conditions(
        &self,
        held: &HeldClaims,
        at: &Placement<'_>,
        handle: &mut Handle<'_>,
    ) -> Readiness {
        let store = at.view.stores.of::<ResourceClaim>();
        let drivers = held.drivers(store);
        if !self.gates.features.binding_conditions || drivers.is_empty() {
            return Readiness::Ready;
        }
        let mut progress = Progress::of(handle);
        if progress.waits_since.is_none() {
            let note = format!("waiting for binding conditions for device on node {}", at.node);
            let (reason, action) = ("BindingConditionsPending", "Scheduling");
            handle.events.record(PodEventKind::Normal, reason, action, note);
        }
        let since = *progress.waits_since.get_or_insert(handle.now);
        let (readiness, outcome) = held.conditions(store, self.binding_timeout, handle.now);
        if let Some(outcome) = outcome {
            progress.waits_since = None;
            count_conditions(outcome, since, &drivers, at.pod, handle);
        }
        handle.shared.write(progress);
        readiness
    }
}
