//! The allocations of a search that has found devices.

use plimsoll_api::Str;
use plimsoll_api::devices::{
    Allocation, AllocationConfig, ConfigSource, DeviceNodeSelector, DeviceNodeTerm, DeviceNodes,
    DeviceResult, WrittenRequirement,
};

use crate::AllocateError;
use crate::account::Recorder;
use crate::plan::{AskPlan, ClaimPlan};
use crate::search::{Pick, Search};

impl<'s, 'a: 's, R: Recorder> Search<'s, 'a, R> {
    /// An allocation for each claim.
    pub(crate) fn outcome(&self) -> Result<Vec<Allocation>, AllocateError> {
        let claims = self.allocator.claims.iter().enumerate();
        let allocations = claims.map(|(index, plan)| {
            let picks = &self.picks[index];
            let node_selector = self.node_selector(picks).map_err(|why| {
                let name = &plan.claim.key.name;
                AllocateError::failed(format!("create NodeSelector for claim {name}: {why}"))
            })?;
            Ok(Allocation {
                devices: picks.iter().map(|pick| self.result(pick)).collect(),
                config: self.config(plan, &self.selected[index]),
                node_selector,
                timestamp: None,
            })
        });
        allocations.collect()
    }

    fn result(&self, pick: &Pick) -> DeviceResult {
        let (pool, _, device, _) = self.device(pick.place);
        let plan = &self.allocator.asks[pick.ask];
        let has_bindings = self.allocator.features().binding_conditions;
        let bindings = |names: &[Str]| if has_bindings { names.to_vec() } else { Vec::new() };
        DeviceResult {
            request: plan.full.clone(),
            driver: pool.driver.clone(),
            pool: pool.name.clone(),
            device: device.name.clone(),
            admin_access: plan.admin_access.then_some(true),
            tolerations: plan.ask.tolerations.clone(),
            binding_conditions: bindings(&device.binding_conditions),
            binding_failure_conditions: bindings(&device.binding_failure_conditions),
            share_id: pick.share.as_ref().map(|_| Str::default()),
            consumed_capacity: pick.share.clone().unwrap_or_default(),
        }
    }

    /// The configurations of the classes, then those of the claim. `selected` has the alternative of each request.
    fn config(&self, plan: &ClaimPlan<'_>, selected: &[usize]) -> Vec<AllocationConfig> {
        let is_37 = self.allocator.features().is_37();
        let requests = plan.requests.iter().zip(selected);
        let asks = requests
            .map(|(request, alternative)| &self.allocator.asks[request.asks.start + alternative]);
        let mut all: Vec<AllocationConfig> = Vec::new();
        let mut classes: Vec<(&str, std::ops::Range<usize>)> = Vec::new();
        for ask in asks.clone() {
            let Some(class) = ask.class else { continue };
            if let Some((_, range)) = classes.iter().find(|(name, _)| *name == class.name) {
                for config in &mut all[range.clone()] {
                    config.requests.push(ask.full.clone());
                }
                continue;
            }
            let start = all.len();
            all.extend(class.config.iter().map(|opaque| AllocationConfig {
                source: ConfigSource::Class,
                requests: vec![ask.full.clone()],
                opaque: opaque.clone(),
            }));
            classes.push((&class.name, start..all.len()));
        }
        for config in &plan.claim.spec.config {
            let named = asks.clone().filter(|ask| are_about(&config.requests, ask));
            // 1.36 copies a configuration once for each request that it names.
            let copies = match config.requests.is_empty() {
                true => 1,
                false if is_37 => named.count().min(1),
                false => named.count(),
            };
            all.extend((0..copies).map(|_| AllocationConfig {
                source: ConfigSource::Claim,
                requests: config.requests.clone(),
                opaque: config.opaque.clone(),
            }));
        }
        if is_37 {
            for config in &mut all {
                // As in allocator_stable.go, Allocate: no names mean all.
                if asks.clone().all(|ask| are_about(&config.requests, ask)) {
                    config.requests.clear();
                }
            }
        }
        all
    }

    /// The nodes on which the devices can be used; `None` for all. The error is for a selector with several terms.
    fn node_selector(&self, picks: &[Pick]) -> Result<Option<DeviceNodeSelector>, String> {
        let mut term = DeviceNodeTerm::default();
        for pick in picks {
            let (_, slice, device, _) = self.device(pick.place);
            let nodes = match &slice.slice.nodes {
                DeviceNodes::PerDevice => &device.nodes,
                nodes => nodes,
            };
            if device.binds_to_node || matches!(nodes, DeviceNodes::Node(_)) {
                return Ok(Some(DeviceNodeSelector::of_node(self.node.name)));
            }
            let DeviceNodes::Selected(selector) = nodes else { continue };
            match selector.terms() {
                [] => {}
                [one] => {
                    add_missing(&mut term.fields, &one.fields);
                    add_missing(&mut term.expressions, &one.expressions);
                }
                several => {
                    let count = several.len();
                    return Err(format!(
                        "unsupported ResourceSlice.NodeSelector with {count} terms"
                    ));
                }
            }
        }
        let is_empty = term.fields.is_empty() && term.expressions.is_empty();
        Ok((!is_empty).then(|| DeviceNodeSelector::of(vec![term])))
    }
}

/// Whether a request, or the alternative that was selected for it, is among these names.
fn are_about(names: &[Str], ask: &AskPlan<'_>) -> bool {
    names.iter().any(|name| *name == ask.request || *name == ask.full)
}

/// Adds the requirements that are not there yet. The order of values does not matter.
fn add_missing(all: &mut Vec<WrittenRequirement>, more: &[WrittenRequirement]) {
    for one in more {
        let is_equal = |known: &WrittenRequirement| {
            known.key == one.key
                && known.operator == one.operator
                && known.values.iter().all(|value| one.values.contains(value))
                && one.values.iter().all(|value| known.values.contains(value))
        };
        if !all.iter().any(is_equal) {
            all.push(one.clone());
        }
    }
}
