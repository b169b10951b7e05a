//! The search for devices on one node: depth first, and the first solution counts.
//!
//! As in allocator_incubating.go. A choice is undone as upstream undoes it, which in 1.36 is not always complete.

mod pick;
mod usable;

use std::sync::Arc;

use hashbrown::HashMap;
use plimsoll_api::devices::{AllocationMode, Device};
use plimsoll_api::{ObjectKey, Str};
use rustc_hash::FxBuildHasher;

use crate::account::{Recorder, Refusal};
use crate::capacity::Amounts;
use crate::constraint::ConstraintState;
use crate::counters::{self, Counters, PoolCounters};
use crate::plan::RequestPlan;
use crate::pool::{IndexedSlice, Pool, PoolState};
use crate::{AllocateError, Allocator, DeviceId, NodeRef, Selectors};

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
    /// Whether its counters were taken for it.
    has_paid: bool,
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

/// The counters of a pool in a search.
struct Counting {
    /// What was left before.
    available: Arc<Counters>,
    /// What the search consumes.
    consumed: Counters,
}

pub(crate) struct Search<'s, 'a, R> {
    pub(crate) allocator: &'s Allocator<'a>,
    pub(crate) node: NodeRef<'s>,
    pub(crate) pools: &'s [Arc<Pool>],
    available: &'s mut PoolCounters,
    selectors: &'s mut dyn Selectors,
    go_on: &'s mut dyn FnMut() -> bool,
    recorder: R,

    needs: Vec<Need>,
    selectable: HashMap<(usize, DeviceId), bool, FxBuildHasher>,
    /// The constraints of each claim.
    constraints: Vec<Vec<ConstraintState<'s>>>,
    /// The counters of pools, as far as the search has come to them.
    counting: Vec<Counting>,
    /// Their places by the keys of pools, and by the pools of the node.
    counting_by_key: HashMap<(Str, Str), usize, FxBuildHasher>,
    counting_of_pool: Vec<Option<usize>>,
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
        available: &'s mut PoolCounters,
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
            counting: Vec::new(),
            counting_by_key: HashMap::default(),
            counting_of_pool: vec![None; pools.len()],
            taken: Vec::new(),
            shared: Vec::new(),
            picks: claims.iter().map(|_| Vec::new()).collect(),
            selected: claims.iter().map(|claim| vec![0; claim.requests.len()]).collect(),
        }
    }

    /// Checks the claims, and collects the devices of requests for all. Errors are fatal.
    pub(crate) fn prepare(&mut self) -> Result<(), AllocateError> {
        let features = self.allocator.features();
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
                ConstraintState::of(constraint, features).ok_or_else(|| {
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
                        && self.may_have_capacity(ask, indexed, device)?
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
                        || !self.has_capacity(ask, slice, device_at)?
                    {
                        continue;
                    }
                    // A branch that fails for every device of a large pool takes as long as many branches.
                    if !(self.go_on)() {
                        return Err(AllocateError::Stopped);
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

    /// The counters of the pool at this place.
    fn counting(&mut self, pool: usize) -> &mut Counting {
        let at = match self.counting_of_pool[pool] {
            Some(at) => at,
            None => self.count(pool),
        };
        &mut self.counting[at]
    }

    /// Comes to a pool whose counters the search has not used yet. Returns their place.
    fn count(&mut self, pool: usize) -> usize {
        let (allocated, pools) = (self.allocator.allocated, self.pools);
        let key = counters::key_of(&pools[pool], self.allocator.features());
        let next = self.counting.len();
        let at = *self.counting_by_key.entry(key.clone()).or_insert(next);
        if at == next {
            let left = || allocated.counters.available(&pools[pool], allocated);
            let available = self.available.entry(key).or_insert_with(left).clone();
            self.counting.push(Counting { available, consumed: Counters::default() });
        }
        self.counting_of_pool[pool] = Some(at);
        at
    }

    pub(crate) fn device(&self, at: Place) -> (&'s Pool, &'s IndexedSlice, &'s Device, DeviceId) {
        let pools: &'s [Arc<Pool>] = self.pools;
        let pool = &pools[at.pool];
        let slice = &pool.slices[at.slice];
        (pool, slice, &slice.slice.devices[at.device], slice.ids[at.device])
    }
}
