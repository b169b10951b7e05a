//! The search for devices on one node: depth first, and the first solution counts.
//!
//! As in allocator_incubating.go. A choice is undone as upstream undoes it, which is not always complete.

use std::sync::Arc;

use hashbrown::HashMap;
use plimsoll_api::devices::{AllocationMode, Device, DeviceNodes};
use plimsoll_api::{ObjectKey, Str};
use rustc_hash::FxBuildHasher;

use crate::account::{Recorder, Refusal};
use crate::allocated::{add_amounts, sub_amounts};
use crate::capacity::{self, Amounts, Consumed};
use crate::constraint::ConstraintState;
use crate::counters::Counters;
use crate::plan::{AskPlan, ClaimPlan, RequestPlan};
use crate::pool::{IndexedSlice, Pool, PoolState, reaches};
use crate::{AllocateError, Allocator, DeviceId, DeviceRef, NodeRef, SelectorError, Selectors};

/// A claim has at most this many devices, `AllocationResultsMaxSize` of the API.
const MOST_RESULTS: usize = 32;

/// The place of a device among the pools of the node.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    pub(crate) pool: usize,
    pub(crate) slice: usize,
    pub(crate) device: usize,
}

/// A device that is picked.
#[derive(Debug)]
pub(crate) struct Pick {
    pub(crate) ask: usize,
    pub(crate) place: Place,
    /// What it consumes, if the claim gets only a share.
    pub(crate) share: Option<Amounts>,
}

/// How far the search is.
#[derive(Clone, Copy, Debug, Default)]
struct At {
    claim: usize,
    request: usize,
    alternative: usize,
    device: usize,
}

/// The result of a branch of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Branch {
    Found,
    Failed,
    /// The claim would have too many devices: other devices make no difference, other alternatives may.
    TooMany,
}

/// How many devices an ask needs, and which, if it needs all.
#[derive(Debug, Default)]
struct Need {
    count: usize,
    all: Vec<Place>,
}

pub(crate) struct Search<'s, 'a, R> {
    pub(crate) allocator: &'s Allocator<'a>,
    pub(crate) node: NodeRef<'s>,
    pub(crate) pools: &'s [Arc<Pool>],
    available: &'s mut HashMap<Str, Counters, FxBuildHasher>,
    selectors: &'s mut dyn Selectors,
    go_on: &'s mut dyn FnMut() -> bool,
    recorder: R,

    needs: Vec<Need>,
    selectable: HashMap<(usize, DeviceId), bool, FxBuildHasher>,
    /// The constraints of each claim.
    constraints: Vec<Vec<ConstraintState<'s>>>,
    /// What this search consumes of the counters of pools, by their names.
    consumed: HashMap<&'s str, Counters, FxBuildHasher>,
    /// The devices that are picked and not shared, with the claims.
    taken: Vec<(DeviceId, usize)>,
    /// What this search consumes of shared devices.
    shared: Vec<(DeviceId, Amounts)>,
    /// The devices of each claim.
    pub(crate) picks: Vec<Vec<Pick>>,
    /// The alternative of each request of each claim.
    pub(crate) selected: Vec<Vec<usize>>,
}

impl<'s, 'a: 's, R: Recorder> Search<'s, 'a, R> {
    pub(crate) fn new(
        allocator: &'s Allocator<'a>,
        node: NodeRef<'s>,
        pools: &'s [Arc<Pool>],
        available: &'s mut HashMap<Str, Counters, FxBuildHasher>,
        selectors: &'s mut dyn Selectors,
        go_on: &'s mut dyn FnMut() -> bool,
        recorder: R,
    ) -> Self {
        let claims = &allocator.claims;
        Search {
            allocator,
            node,
            pools,
            available,
            selectors,
            go_on,
            recorder,
            needs: Vec::with_capacity(allocator.asks.len()),
            selectable: HashMap::default(),
            constraints: Vec::with_capacity(claims.len()),
            consumed: HashMap::default(),
            taken: Vec::new(),
            shared: Vec::new(),
            picks: claims.iter().map(|_| Vec::new()).collect(),
            selected: claims.iter().map(|claim| vec![0; claim.requests.len()]).collect(),
        }
    }

    /// Checks the claims, and collects the devices of requests for all. Errors are fatal.
    pub(crate) fn prepare(&mut self) -> Result<(), AllocateError> {
        for plan in &self.allocator.claims {
            let key = &plan.claim.key;
            let mut least = 0_usize;
            for request in &plan.requests {
                self.check_gates(key, request)?;
                let mut fewest = usize::MAX;
                for ask in request.asks.clone() {
                    let need = self.need(key, ask)?;
                    fewest = fewest.min(need.count);
                    self.needs.push(need);
                }
                least = least.saturating_add(fewest);
            }
            if MOST_RESULTS < least {
                return Err(AllocateError::Failed(format!(
                    "claim {key}: number of requested devices {least} exceeds the claim limit of {MOST_RESULTS}"
                )));
            }
            let constraints = plan.claim.spec.constraints.iter().enumerate();
            let states = constraints.map(|(index, constraint)| {
                ConstraintState::of(constraint).ok_or_else(|| {
                    AllocateError::Failed(format!(
                        "claim {key}, constraint #{index}: empty constraint (unsupported constraint type?)"
                    ))
                })
            });
            self.constraints.push(states.collect::<Result<_, _>>()?);
        }
        Ok(())
    }

    /// Checks what feature gates forbid, and that a request is of a known kind.
    fn check_gates(&self, key: &ObjectKey, request: &RequestPlan<'_>) -> Result<(), AllocateError> {
        let features = self.allocator.features();
        let failed = |what: &str, name: &str, why: &str| {
            Err(AllocateError::Failed(format!("claim {key}, {what} {name}: {why}")))
        };
        if request.has_alternatives && !features.prioritized_list {
            let why = "has subrequests, but the DRAPrioritizedList feature is disabled";
            return failed("request", request.name, why);
        }
        let asks = &self.allocator.asks[request.asks.clone()];
        let with_capacity = asks.iter().find(|ask| ask.ask.capacity.is_some());
        if let Some(ask) = with_capacity.filter(|_| !features.consumable_capacity) {
            let what = if request.has_alternatives { "subrequest" } else { "request" };
            let why = "has capacity requests, but the DRAConsumableCapacity feature is disabled";
            return failed(what, ask.name, why);
        }
        if asks.is_empty() {
            let why = "missing device class name (unsupported request type?)";
            return failed("request", request.name, why);
        }
        Ok(())
    }

    /// Searches; `true` if there is a solution.
    pub(crate) fn run(&mut self) -> Result<bool, AllocateError> {
        let branch = self.branch(At::default(), false, Place::default())?;
        Ok(branch == Branch::Found)
    }

    pub(crate) fn into_recorder(self) -> R {
        self.recorder
    }

    /// As in validateDeviceRequest.
    fn need(&mut self, key: &ObjectKey, index: usize) -> Result<Need, AllocateError> {
        let plan = &self.allocator.asks[index];
        let failed =
            |why: &str| AllocateError::Failed(format!("claim {key}, request {}{why}", plan.name));
        if let Some(at) = plan.ask.selectors.iter().position(Option::is_none) {
            let why =
                format!(", selector #{at}: CEL expression empty (unsupported selector type?)");
            return Err(failed(&why));
        }
        let class = &plan.ask.class;
        if class.is_empty() {
            return Err(failed(": missing device class name (unsupported request type?)"));
        }
        if plan.class.is_none() {
            return Err(failed(&format!(
                ": could not retrieve device class {class}: deviceclass.resource.k8s.io \"{class}\" not found"
            )));
        }
        match &plan.ask.mode {
            AllocationMode::ExactCount(count) => {
                Ok(Need { count: usize::try_from(*count).unwrap_or_default(), all: Vec::new() })
            }
            AllocationMode::Other(word) => Err(failed(&format!(": unsupported count mode {word}"))),
            AllocationMode::All => {
                let all = self.all(index, &failed)?;
                Ok(Need { count: all.len(), all })
            }
        }
    }

    /// All devices that meet the selectors and have the capacity, also those in use and tainted ones.
    fn all(
        &mut self,
        ask: usize,
        failed: &dyn Fn(&str) -> AllocateError,
    ) -> Result<Vec<Place>, AllocateError> {
        let mut all = Vec::new();
        for (at, pool) in self.pools.iter().enumerate() {
            let why = match pool.state {
                PoolState::Complete => None,
                PoolState::Incomplete => Some("being updated"),
                PoolState::Invalid => Some("invalid"),
            };
            if let Some(why) = why {
                let pool = format!("{}/{}", pool.driver, pool.name);
                return Err(failed(&format!(
                    ": asks for all devices, but resource pool {pool} is currently {why}"
                )));
            }
            for (slice, indexed) in pool.slices.iter().enumerate() {
                for device in 0..indexed.ids.len() {
                    if self.is_selectable(ask, indexed, device)?
                        && self.has_capacity(ask, indexed, device)
                    {
                        all.push(Place { pool: at, slice, device });
                    }
                }
            }
        }
        Ok(all)
    }

    /// As in allocateOne. `in_alternative` says that the alternative of a request is chosen already. `start` is the
    /// place after the previous device of the same request.
    fn branch(
        &mut self,
        at: At,
        in_alternative: bool,
        start: Place,
    ) -> Result<Branch, AllocateError> {
        if !(self.go_on)() {
            return Err(AllocateError::Stopped);
        }
        let Some(plan) = self.allocator.claims.get(at.claim) else { return Ok(Branch::Found) };
        let Some(request) = plan.requests.get(at.request) else {
            let next = At { claim: at.claim + 1, ..At::default() };
            return Ok(match self.branch(next, false, Place::default())? {
                Branch::TooMany => Branch::Failed,
                branch => branch,
            });
        };
        if request.has_alternatives && !in_alternative {
            return self.alternatives(at, request.asks.len());
        }
        let ask = request.asks.start + at.alternative;
        let is_all = self.allocator.asks[ask].ask.mode == AllocationMode::All;
        let Need { count, all } = &self.needs[ask];
        if is_all && all.is_empty() {
            return Ok(Branch::Failed);
        }
        if *count <= at.device {
            let next = At { claim: at.claim, request: at.request + 1, ..At::default() };
            return self.branch(next, false, Place::default());
        }
        if MOST_RESULTS < self.picks[at.claim].len() + (count - at.device) {
            return Ok(Branch::TooMany);
        }
        if is_all {
            let place = all[at.device];
            return Ok(self.try_device(at, ask, place, in_alternative)?.unwrap_or(Branch::Failed));
        }
        self.candidates(at, ask, in_alternative, start)
    }

    /// The first alternative that leads to a solution.
    fn alternatives(&mut self, at: At, count: usize) -> Result<Branch, AllocateError> {
        let mut failed = Branch::TooMany;
        for alternative in 0..count {
            match self.branch(At { alternative, ..at }, true, Place::default())? {
                Branch::Found => {
                    self.selected[at.claim][at.request] = alternative;
                    return Ok(Branch::Found);
                }
                Branch::Failed => failed = Branch::Failed,
                Branch::TooMany => {}
            }
        }
        Ok(failed)
    }

    /// Tries one device after the other.
    fn candidates(
        &mut self,
        at: At,
        ask: usize,
        in_alternative: bool,
        start: Place,
    ) -> Result<Branch, AllocateError> {
        let pools = self.pools;
        let admin = self.allocator.asks[ask].admin_access;
        for (pool_at, pool) in pools.iter().enumerate().skip(start.pool) {
            if pool.state != PoolState::Complete {
                continue;
            }
            let first = if pool_at == start.pool { start.slice } else { 0 };
            for (slice_at, slice) in pool.slices.iter().enumerate().skip(first) {
                let is_start = pool_at == start.pool && slice_at == start.slice;
                let first = if is_start { start.device } else { 0 };
                for (device_at, &id) in slice.ids.iter().enumerate().skip(first) {
                    if if admin { self.is_taken_by(id, at.claim) } else { self.is_in_use(id) } {
                        self.recorder.refused(ask, id, || Refusal::InUse);
                        continue;
                    }
                    if !self.is_selectable(ask, slice, device_at)?
                        || !self.has_capacity(ask, slice, device_at)
                    {
                        continue;
                    }
                    let place = Place { pool: pool_at, slice: slice_at, device: device_at };
                    match self.try_device(at, ask, place, in_alternative)? {
                        None | Some(Branch::Failed) => {}
                        Some(branch) => return Ok(branch),
                    }
                }
            }
        }
        Ok(Branch::Failed)
    }

    /// Picks a device and searches on. If that fails, the device is given back. `None` if it cannot be picked.
    fn try_device(
        &mut self,
        at: At,
        ask: usize,
        place: Place,
        in_alternative: bool,
    ) -> Result<Option<Branch>, AllocateError> {
        if !self.pick(at.claim, ask, place)? {
            return Ok(None);
        }
        let next = At { device: at.device + 1, ..at };
        let start = Place { device: place.device + 1, ..place };
        let branch = self.branch(next, in_alternative, start)?;
        if branch != Branch::Found {
            self.give_back(at.claim);
        }
        Ok(Some(branch))
    }

    /// As in allocateDevice.
    fn pick(&mut self, claim: usize, ask: usize, place: Place) -> Result<bool, AllocateError> {
        let allocator = self.allocator;
        let features = allocator.features();
        let (pool, slice, device, id) = self.device(place);
        let plan = &allocator.asks[ask];
        let is_shared = features.consumable_capacity && device.allow_multiple_allocations;
        if let Some(refusal) = self.unavailable(claim, plan, place, is_shared) {
            self.recorder.refused(ask, id, || refusal);
            return Ok(false);
        }
        if let Some(constraint) = self.violated(claim, plan, &pool.driver, device) {
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
        // noted above then stays, as upstream.
        if !self.has_capacity(ask, slice, place.device) {
            return Ok(false);
        }
        let share = is_shared.then(|| capacity::share(plan.capacity(), device, features));
        if let Some(share) = &share {
            match self.shared.iter_mut().find(|(known, _)| *known == id) {
                Some((_, amounts)) => add_amounts(amounts, share),
                None => self.shared.push((id, share.clone())),
            }
        }
        self.recorder.picked(ask, id);
        self.picks[claim].push(Pick { ask, place, share });
        Ok(true)
    }

    /// Why a device that meets the selectors cannot be had. The counters of a device that is refused for a taint, or
    /// later, are not given back, as upstream.
    fn unavailable(
        &mut self,
        claim: usize,
        plan: &AskPlan<'_>,
        place: Place,
        is_shared: bool,
    ) -> Option<Refusal> {
        let features = self.allocator.features();
        let (pool, slice, device, id) = self.device(place);
        let in_use = match plan.admin_access {
            true => !is_shared && self.is_taken_by(id, claim),
            false => self.is_in_use(id),
        };
        if in_use {
            return Some(Refusal::InUse);
        }
        // The first share of a device has paid for all.
        let is_paid = is_shared && self.is_capacity_in_use(id);
        if !device.consumes_counters.is_empty() {
            if !features.partitionable_devices {
                return Some(Refusal::Counters);
            }
            if !is_paid && !self.take_counters(pool, device) {
                return Some(Refusal::Counters);
            }
        }
        if !features.device_taints {
            return None;
        }
        let tolerations = &plan.ask.tolerations;
        let mut taints = slice.taints(place.device).filter(|taint| taint.prevents_allocation());
        let taint = taints.find(|taint| !tolerations.iter().any(|one| one.tolerates(taint)))?;
        Some(Refusal::Tainted(taint.key.clone()))
    }

    /// Gives back the last device of a claim. A shared device keeps its counters, and a share without capacities stays,
    /// as upstream.
    fn give_back(&mut self, claim: usize) {
        let allocator = self.allocator;
        let pick = self.picks[claim].pop().expect("only a picked device is given back");
        let (pool, _, device, id) = self.device(pick.place);
        let plan = &allocator.asks[pick.ask];
        for &constraint in &plan.constraints {
            self.constraints[claim][constraint].remove(plan.picked());
        }
        self.taken.retain(|taken| *taken != (id, claim));
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
                self.consumed.entry(&pool.name).or_default().sub(&device.consumes_counters);
            }
        }
    }

    /// Adds a device to the constraints of its claim. Returns one that it would violate; then it is added to none.
    fn violated(
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
    fn take_counters(&mut self, pool: &'s Pool, device: &Device) -> bool {
        let allocated = self.allocator.allocated;
        let available = self
            .available
            .entry_ref(&pool.name)
            .or_insert_with(|| Counters::available(pool, allocated));
        let consumed = self.consumed.entry(&pool.name).or_default();
        consumed.add(&device.consumes_counters);
        let is_covered = available.cover(consumed);
        if !is_covered {
            consumed.sub(&device.consumes_counters);
        }
        is_covered
    }

    /// As in isSelectable.
    fn is_selectable(
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
    fn rejected(
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

    fn meets(
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
    fn failed(
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

    fn key_of(&self, ask: usize) -> &ObjectKey {
        let mut claims = self.allocator.claims.iter();
        let has = |claim: &&ClaimPlan<'_>| {
            claim.requests.iter().any(|request| request.asks.contains(&ask))
        };
        &claims.find(has).expect("each ask is one of a claim").claim.key
    }

    /// Whether a device has the capacity that is asked for.
    fn has_capacity(&mut self, ask: usize, slice: &IndexedSlice, index: usize) -> bool {
        let features = self.allocator.features();
        let (device, id) = (&slice.slice.devices[index], slice.ids[index]);
        let requested = self.allocator.asks[ask].capacity();
        if !features.consumable_capacity || requested.is_none() && device.capacity.is_empty() {
            return true;
        }
        let here = self.shared.iter().find(|(known, _)| *known == id);
        let consumed = Consumed {
            by_others: self.allocator.allocated.consumed(id).unwrap_or_default(),
            here: here.map(|(_, amounts)| amounts.as_slice()).unwrap_or_default(),
        };
        let suffices = capacity::suffices(requested, device, consumed, features);
        if !suffices {
            self.recorder.refused(ask, id, || Refusal::Capacity);
        }
        suffices
    }

    fn is_in_use(&self, id: DeviceId) -> bool {
        self.allocator.allocated.is_exclusive(id)
            || self.taken.iter().any(|(taken, _)| *taken == id)
    }

    fn is_taken_by(&self, id: DeviceId, claim: usize) -> bool {
        self.taken.contains(&(id, claim))
    }

    fn is_capacity_in_use(&self, id: DeviceId) -> bool {
        self.allocator.allocated.consumed(id).is_some()
            || self.shared.iter().any(|(shared, _)| *shared == id)
    }

    pub(crate) fn device(&self, at: Place) -> (&'s Pool, &'s IndexedSlice, &'s Device, DeviceId) {
        let pools: &'s [Arc<Pool>] = self.pools;
        let pool = &pools[at.pool];
        let slice = &pool.slices[at.slice];
        (pool, slice, &slice.slice.devices[at.device], slice.ids[at.device])
    }
}

const NO_SUCH_KEY_HINT: &str = ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for optional fields";
