//! Why devices of a node were not picked.

use std::collections::BTreeMap;

use plimsoll_api::{ObjectKey, Str};

use crate::DeviceId;

/// Why a device was not picked for a request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// A claim has it already, or another request of the pod has picked it.
    InUse,
    /// It has binding conditions, and the feature gate is off.
    BindingConditions,
    /// This selector of the class rejects it.
    ClassSelector(usize),
    /// This selector of the request rejects it.
    Selector(usize),
    /// It cannot be reached from the node.
    OtherNode,
    /// It has too little capacity left.
    Capacity,
    /// Too little is left of the counters of its pool, or the feature gate is off.
    Counters,
    /// It has a taint with this key that is not tolerated.
    Tainted(Str),
    /// It would violate this constraint of the claim.
    Constraint(usize),
}

/// Why devices of a node were not picked, request by request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// How many devices the node has in pools that are complete.
    pub devices: usize,
    /// Pools that are being updated, as `DRIVER/POOL`.
    pub incomplete: Vec<Str>,
    /// Pools that are invalid, as `DRIVER/POOL`.
    pub invalid: Vec<Str>,
    /// The requests and their alternatives, in order. One that the search has not reached has no numbers.
    pub requests: Vec<RequestAccount>,
}

/// Why devices of a node were not picked for a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestAccount {
    /// The claim.
    pub claim: ObjectKey,
    /// The request, as `REQUEST` or `REQUEST/SUBREQUEST`.
    pub request: Str,
    /// How many devices were picked at some time in the search.
    pub picked: usize,
    /// How many devices were refused, by the first reason. One that was picked at another time does not count.
    pub refused: BTreeMap<Refusal, usize>,
    /// How many of those that were picked were refused at another time because of what was picked before them: against a
    /// constraint, or without enough left of the counters of the pool. By the first such reason.
    pub also_refused: BTreeMap<Refusal, usize>,
    /// The devices that are in use, as driver, pool and name. They are among those that were refused.
    pub in_use: Vec<(Str, Str, Str)>,
}

impl Refusal {
    /// Whether it follows from what was picked before.
    fn follows_from_picks(&self) -> bool {
        matches!(self, Refusal::Constraint(_) | Refusal::Counters)
    }
}

/// Hears what the search decides about devices.
pub(crate) trait Recorder {
    /// A device is refused for a request.
    fn refused(&mut self, ask: usize, device: DeviceId, why: impl FnOnce() -> Refusal);
    /// A device is picked for a request.
    fn picked(&mut self, ask: usize, device: DeviceId);
}

/// Hears nothing.
pub(crate) struct Silent;

impl Recorder for Silent {
    fn refused(&mut self, _: usize, _: DeviceId, _: impl FnOnce() -> Refusal) {}
    fn picked(&mut self, _: usize, _: DeviceId) {}
}

/// What happened to a device in the search for a request.
#[derive(Default)]
pub(crate) struct Looks {
    pub(crate) is_picked: bool,
    /// The first reason for which it was refused.
    pub(crate) first: Option<Refusal>,
    /// The first one that follows from what was picked before.
    pub(crate) in_vain: Option<Refusal>,
}

/// Keeps what happened, for each request and device.
#[derive(Default)]
pub(crate) struct Reasons(pub(crate) BTreeMap<(usize, DeviceId), Looks>);

impl Recorder for Reasons {
    fn refused(&mut self, ask: usize, device: DeviceId, why: impl FnOnce() -> Refusal) {
        let looks = self.0.entry((ask, device)).or_default();
        if looks.first.is_some() && looks.in_vain.is_some() {
            return;
        }
        let why = why();
        if looks.in_vain.is_none() && why.follows_from_picks() {
            looks.in_vain = Some(why.clone());
        }
        looks.first.get_or_insert(why);
    }

    fn picked(&mut self, ask: usize, device: DeviceId) {
        self.0.entry((ask, device)).or_default().is_picked = true;
    }
}
