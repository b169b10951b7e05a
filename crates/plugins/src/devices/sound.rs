//! Whether a search for devices can fail with an error. If it cannot, only the nodes that may be chosen are asked about.

use hashbrown::HashMap;
use plimsoll_api::devices::{
    AllocationMode, ConstraintKind, Device, DeviceAsk, DeviceNodeSelector, DeviceNodes, RequestKind,
};
use plimsoll_devices::{Inventory, Selectors};
use plimsoll_framework::prelude::*;
use rustc_hash::FxBuildHasher;

use super::{SelectorResults, sizes};

/// Beyond this many bytes all lists of selectors are forgotten.
const MOST_BYTES: usize = 16 << 20;
/// Results per claim. As in types.go, AllocationResultsMaxSize.
const MOST_RESULTS: i64 = 32;

/// What is known of lists of selectors: whether one of them may fail for a device, and how many devices match. It is
/// derived from the inventory of a revision, and computed again where devices have changed.
#[derive(Debug)]
pub(crate) struct SoundSelectors {
    /// By the selectors of class and request: the revision that was looked at, and what was seen.
    known: HashMap<Vec<Str>, (u64, Seen), FxBuildHasher>,
    /// The same for the node selectors of slices and devices, and the most devices that a node can reach.
    nodes: Option<(u64, Option<u64>)>,
    /// The approximate size of `known` in bytes.
    bytes: usize,
    /// Its limit.
    most_bytes: usize,
}

impl Default for SoundSelectors {
    fn default() -> Self {
        let (known, nodes) = (HashMap::default(), None);
        SoundSelectors { known, nodes, bytes: 0, most_bytes: MOST_BYTES }
    }
}

/// What a list of selectors says about all devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    /// It fails for no device.
    is_sound: bool,
    /// For how many devices it is true, if it fails for none.
    n_matching: i64,
}

impl SoundSelectors {
    /// Whether devices for `claim` can be looked for without an error on any node: a sufficient condition, since it
    /// considers devices that no search would visit. `most_steps` limits a search.
    pub(crate) fn cannot_err<'a>(
        &mut self,
        claim: &ResourceClaim,
        class_of: impl Fn(&str) -> Option<&'a DeviceClass>,
        inventory: &Inventory,
        selectors: &mut SelectorResults,
        most_steps: Option<u64>,
    ) -> bool {
        let constraints = &claim.spec.constraints;
        if constraints.iter().any(|one| one.kind == ConstraintKind::Unknown) {
            return false;
        }
        let mut asks: Vec<&DeviceAsk> = Vec::new();
        for request in &claim.spec.requests {
            match &request.kind {
                RequestKind::Unknown => return false,
                RequestKind::Exactly { ask, .. } => asks.push(ask),
                RequestKind::FirstAvailable(alternatives) => {
                    asks.extend(alternatives.iter().map(|one| &one.ask));
                }
            }
        }
        let mut count = 0_i64;
        for ask in &asks {
            let AllocationMode::ExactCount(n) = ask.mode else { return false };
            if ask.capacity.is_some() && checks_amounts(inventory) {
                return false;
            }
            count = count.saturating_add(n);
        }
        let Some(reachable) = self.most_reachable(inventory) else { return false };
        // The steps of a search that tries every combination.
        let steps =
            reachable.saturating_add(2).checked_pow(u32::try_from(count + 1).unwrap_or(u32::MAX));
        let is_short = most_steps.is_none_or(|most| steps.is_some_and(|steps| steps <= most));
        count <= MOST_RESULTS
            && is_short
            && asks.iter().all(|ask| {
                class_of(&ask.class)
                    .and_then(|class| self.seen(class, ask, inventory, selectors))
                    .is_some_and(|seen| seen.is_sound)
            })
    }

    /// Whether there are enough devices for a request, in use or not: a necessary condition.
    pub(crate) fn may_be_found(
        &mut self,
        class: &DeviceClass,
        ask: &DeviceAsk,
        inventory: &Inventory,
        selectors: &mut SelectorResults,
    ) -> bool {
        let AllocationMode::ExactCount(n) = ask.mode else { return true };
        let seen = self.seen(class, ask, inventory, selectors);
        seen.is_none_or(|seen| !seen.is_sound || n <= seen.n_matching)
    }

    /// What the selectors of a class and then of a request say about all devices, in the order of the search. `None` if one
    /// of them is no expression.
    fn seen(
        &mut self,
        class: &DeviceClass,
        ask: &DeviceAsk,
        inventory: &Inventory,
        selectors: &mut SelectorResults,
    ) -> Option<Seen> {
        let all: Option<Vec<Str>> = class.selectors.iter().chain(&ask.selectors).cloned().collect();
        let all = all?;
        let revision = inventory.revision();
        if let Some(&(known, seen)) = self.known.get(&all)
            && known == revision
        {
            return Some(seen);
        }
        let checks_amounts = checks_amounts(inventory);
        let mut n_matching = 0;
        let mut devices = inventory.slices().flat_map(|(_, devices)| devices);
        let is_sound = devices.all(|device| {
            for expression in &all {
                match selectors.matches(expression, device) {
                    Ok(true) => {}
                    Ok(false) => return true,
                    Err(_) => return false,
                }
            }
            n_matching += 1;
            !checks_amounts || !has_negative(device.device)
        });
        if self.most_bytes < self.bytes {
            self.known.clear();
            self.bytes = 0;
        }
        let seen = Seen { is_sound, n_matching };
        let bytes = size_of::<(Vec<Str>, u64, Seen)>() + sizes::PLACE + sizes::texts(&all);
        if self.known.insert(all, (revision, seen)).is_none() {
            self.bytes += bytes;
        }
        Some(seen)
    }

    /// The approximate size in bytes, and its limit.
    #[cfg(test)]
    pub(super) fn weight(&self) -> (usize, usize) {
        (self.bytes, self.most_bytes)
    }

    /// Changes the limit, in bytes.
    #[cfg(test)]
    pub(super) fn limit(&mut self, most_bytes: usize) {
        self.most_bytes = most_bytes;
    }

    /// The most devices that a node may reach. `None` if a node selector does not parse, or has several terms, which no
    /// allocation can repeat.
    fn most_reachable(&mut self, inventory: &Inventory) -> Option<u64> {
        let revision = inventory.revision();
        if let Some((known, most)) = self.nodes
            && known == revision
        {
            return most;
        }
        let most = most_reachable(inventory);
        self.nodes = Some((revision, most));
        most
    }
}

/// Whether an amount of capacity can be an error.
fn checks_amounts(inventory: &Inventory) -> bool {
    let features = inventory.features();
    features.consumable_capacity && Release::V1_37 <= features.release
}

/// Whether a device has an amount of capacity that is negative, by itself or by default.
fn has_negative(device: &Device) -> bool {
    device.capacity.iter().any(|(_, capacity)| {
        let default = capacity.policy.as_ref().and_then(|policy| policy.default.as_ref());
        default.unwrap_or(&capacity.value).is_negative()
    })
}

fn most_reachable(inventory: &Inventory) -> Option<u64> {
    let is_sound = |selector: &DeviceNodeSelector| {
        selector.terms().len() <= 1 && selector.matches("", &Labels::default()).is_ok()
    };
    let mut on_node: HashMap<&str, u64, FxBuildHasher> = HashMap::default();
    let mut elsewhere = 0;
    for (slice, _) in inventory.slices() {
        let n = u64::try_from(slice.devices.len()).unwrap_or(u64::MAX);
        match &slice.nodes {
            DeviceNodes::Node(name) => *on_node.entry(name).or_default() += n,
            DeviceNodes::Selected(selector) if !is_sound(selector) => return None,
            DeviceNodes::PerDevice => {
                for device in &slice.devices {
                    if let DeviceNodes::Selected(selector) = &device.nodes
                        && !is_sound(selector)
                    {
                        return None;
                    }
                }
                elsewhere += n;
            }
            DeviceNodes::Selected(_) | DeviceNodes::All | DeviceNodes::Unknown => elsewhere += n,
        }
    }
    Some(on_node.values().max().copied().unwrap_or(0) + elsewhere)
}
