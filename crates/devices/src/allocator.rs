//! The allocator: for one pod, node by node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plimsoll_api::devices::Allocation;
use plimsoll_api::{DeviceClass, Labels, ResourceClaim, Str};

use crate::account::{Account, Looks, Reasons, Refusal, RequestAccount, Silent};
use crate::counters::PoolCounters;
use crate::plan::{AskPlan, ClaimPlan, plans};
use crate::pool::{Pool, PoolState};
use crate::search::Search;
use crate::{AllocateError, Allocated, DeviceId, Features, Inventory, Selectors};

/// A node for which devices are allocated.
#[derive(Clone, Copy, Debug)]
pub struct NodeRef<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its labels.
    pub labels: &'a Labels,
}

/// What an attempt to schedule a pod remembers from node to node.
///
/// As upstream, the counters that are available in a pool are computed once an attempt. 1.36 keeps them by the name of the
/// pool without its driver: if two drivers have pools of the same name with counters, both use the numbers of the one that
/// comes first. A new attempt needs a new memory.
#[derive(Debug, Default)]
pub struct CycleMemory {
    pub(crate) available: PoolCounters,
    pools: Vec<Arc<Pool>>,
}

/// Finds devices for those claims of a pod that have no allocation.
#[derive(Debug)]
pub struct Allocator<'a> {
    pub(crate) inventory: &'a Inventory,
    pub(crate) allocated: &'a Allocated,
    pub(crate) claims: Vec<ClaimPlan<'a>>,
    pub(crate) asks: Vec<AskPlan<'a>>,
}

impl<'a> Allocator<'a> {
    /// An allocator for `claims`, in the order of the pod. `classes` finds a class by its name.
    ///
    /// # Panics
    /// If the inventory has changes that have not [taken effect](Inventory::settle).
    pub fn new<'c: 'a>(
        inventory: &'a Inventory,
        allocated: &'a Allocated,
        claims: &[&'a ResourceClaim],
        classes: impl Fn(&str) -> Option<&'c DeviceClass>,
    ) -> Self {
        assert!(inventory.is_settled(), "an inventory is settled before devices are allocated");
        let (claims, asks) = plans(claims, classes);
        Allocator { inventory, allocated, claims, asks }
    }

    /// Finds devices on a node: an allocation for each claim, in order. `None` if there are too few.
    ///
    /// It asks `go_on` before each step, for each device that it tries and each branch of the search, and stops if that is
    /// `false`.
    pub fn allocate(
        &self,
        node: NodeRef<'_>,
        memory: &mut CycleMemory,
        selectors: &mut dyn Selectors,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Vec<Allocation>>, AllocateError> {
        let CycleMemory { available, pools } = memory;
        let pools = self.inventory.pools(node, pools)?;
        let mut search = Search::new(self, node, pools, available, selectors, go_on, Silent);
        search.prepare()?;
        match search.run()? {
            true => Ok(Some(search.outcome()?)),
            false if pools.iter().any(|pool| pool.state == PoolState::Invalid) => {
                Err(AllocateError::InvalidPools)
            }
            false => Ok(None),
        }
    }

    /// Searches again, and says for each request why devices were not picked. That a search fails is no error here: the
    /// account then ends where it failed.
    pub fn account(
        &self,
        node: NodeRef<'_>,
        memory: &mut CycleMemory,
        selectors: &mut dyn Selectors,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Account {
        let CycleMemory { available, pools } = memory;
        let mut account = Account::default();
        for ClaimPlan { claim, requests } in &self.claims {
            let asks = requests.iter().flat_map(|request| &self.asks[request.asks.clone()]);
            account.requests.extend(asks.map(|ask| RequestAccount {
                claim: claim.key.clone(),
                request: ask.full.clone(),
                ..RequestAccount::default()
            }));
        }
        let Ok(pools) = self.inventory.pools(node, pools) else { return account };
        for pool in pools {
            let name = || Str::from(format!("{}/{}", pool.driver, pool.name));
            match pool.state {
                PoolState::Complete => {
                    account.devices +=
                        pool.slices.iter().map(|slice| slice.ids.len()).sum::<usize>();
                }
                PoolState::Incomplete => account.incomplete.push(name()),
                PoolState::Invalid => account.invalid.push(name()),
            }
        }
        let reasons = Reasons::default();
        let mut search = Search::new(self, node, pools, available, selectors, go_on, reasons);
        // An error is what `allocate` reports.
        let _ = search.prepare().and_then(|()| search.run());
        let looks = search.into_recorder().0;
        for (&(ask, _), looks) in &looks {
            let request = &mut account.requests[ask];
            let (why, counts) = match looks.is_picked {
                true => (&looks.in_vain, &mut request.also_refused),
                false => (&looks.first, &mut request.refused),
            };
            request.picked += usize::from(looks.is_picked);
            if let Some(why) = why {
                *counts.entry(why.clone()).or_default() += 1;
            }
        }
        add_in_use(&mut account, &looks, pools);
        account
    }

    pub(crate) fn features(&self) -> Features {
        self.inventory.features()
    }
}

/// Adds the names of the devices that are in use to the requests that they were refused for.
fn add_in_use(
    account: &mut Account,
    looks: &BTreeMap<(usize, DeviceId), Looks>,
    pools: &[Arc<Pool>],
) {
    let is_in_use = |looks: &Looks| !looks.is_picked && looks.first == Some(Refusal::InUse);
    let in_use = looks.iter().filter(|(_, looks)| is_in_use(looks));
    let in_use: BTreeSet<(DeviceId, usize)> = in_use.map(|(&(ask, id), _)| (id, ask)).collect();
    for pool in pools {
        for slice in &pool.slices {
            for (device, &id) in slice.slice.devices.iter().zip(&slice.ids) {
                for &(_, ask) in in_use.range((id, 0)..=(id, usize::MAX)) {
                    let name = (pool.driver.clone(), pool.name.clone(), device.name.clone());
                    account.requests[ask].in_use.push(name);
                }
            }
        }
    }
}
