//! The claims of a pod, and the devices for them on a node.

use std::sync::Arc;

use plimsoll_api::devices::{
    Allocation, DeviceNodeSelector, NodeAllocatableClaimStatus, SubRequest,
};
use plimsoll_api::{MemoCell, ObjectStores};
use plimsoll_devices::{
    Account, AllocateError, Allocator, CycleMemory, NodeRef as DeviceNode, Selectors,
};
use plimsoll_framework::prelude::*;

use super::claims::{FoundClaim, WholePod, check_classes};
use super::conditions::{Conditions, conditions_of, has_conditions, is_timed_out};
use super::extended::{ExtendedClaim, OnNode};
use super::node_allocatable::{NodeRoom, RequestingPod, check_sharing, uses_of};
use super::score::points;
use super::{DynamicResources, NodeParts};
use crate::devices::{DeviceGates, Devices, ListId};

const NOT_ENOUGH: &str = "cannot allocate all claims";
/// Why a node is rejected that an allocated claim cannot be used on.
pub(super) const UNAVAILABLE: &str = "resourceclaim not available on the node";

/// The claims of a pod, with what is needed to find devices for them.
#[derive(Clone, Debug)]
pub struct PreparedClaims(pub(super) Arc<Prepared>);

#[derive(Debug)]
pub(super) struct Prepared {
    /// The claims that the pod names, in order.
    named: Vec<FoundClaim>,
    /// The claim for extended resources.
    pub(super) extended: Option<ExtendedClaim>,
    pub(super) devices: Arc<Devices>,
    classes: Arc<Store<DeviceClass>>,
    slices: Arc<Store<ResourceSlice>>,
    memory: MemoCell<CycleMemory>,
    /// What the claims ask for, once that was looked up.
    pub(super) list: MemoCell<Option<ListId>>,
    uid: Str,
    /// What the pod requests, if devices can stand for resources of the node.
    pub(super) requesting: Option<RequestingPod>,
    now: Time,
}

/// What the claims of a pod get on a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct NodeAllocations {
    /// The claims that have no devices before, in the order of the pod, that for extended resources last.
    pub(super) allocations: Vec<(Arc<ResourceClaim>, Allocation)>,
    /// The claim for extended resources, if it takes part.
    pub(super) extended: Option<OnNode>,
    /// The resources of the node that devices stand for.
    pub(super) node_allocatable: Vec<NodeAllocatableClaimStatus>,
}

impl NodeAllocations {
    /// How early the alternatives are that were chosen.
    pub(super) fn points(&self) -> i64 {
        self.allocations.iter().map(|(claim, allocation)| points(claim, allocation)).sum()
    }
}

impl PreparedClaims {
    /// The claims that the pod names.
    pub(super) fn named(&self) -> &[FoundClaim] {
        &self.0.named
    }

    /// The claim for extended resources.
    pub(super) fn extended(&self) -> Option<&ExtendedClaim> {
        self.0.extended.as_ref()
    }

    /// Whether the pod has no claims.
    pub(super) fn are_none(&self) -> bool {
        self.0.named.is_empty() && self.0.extended.is_none()
    }

    /// Whether some claim that the pod names has no devices yet, and shares none.
    pub(super) fn need_devices(&self) -> bool {
        self.wanting().next().is_some()
    }

    /// The claims that the pod names which have no devices yet, and share none.
    pub(super) fn wanting(&self) -> impl Iterator<Item = &Arc<ResourceClaim>> + Clone {
        let without = self.0.named.iter().filter(|one| one.allocation().is_none());
        without.map(|one| &one.claim)
    }

    /// Whether devices can be looked for on every node without an error.
    pub(super) fn cannot_err(&self, most_steps: Option<u64>) -> bool {
        let Prepared { named, extended, devices, classes, .. } = &*self.0;
        let mut sound = devices.sound.open();
        let mut selectors = devices.selectors.open();
        let mut is_sound = |claim: &ResourceClaim| {
            let class_of = |name: &str| classes.get(name).map(Arc::as_ref);
            sound.cannot_err(claim, class_of, &devices.inventory, &mut selectors, most_steps)
        };
        // On a node that offers no resource itself, it has the most requests.
        let most = extended.as_ref().map(|extended| {
            extended.on_node(&devices.extended, &Resources::default(), !named.is_empty())
        });
        let wanting = named.iter().filter(|one| one.allocation().is_none());
        // Claims are searched for together.
        let wanting: Vec<&ResourceClaim> = wanting.map(|one| &*one.claim).collect();
        match (wanting.as_slice(), &most) {
            ([], None) => true,
            ([one], None) => is_sound(one),
            ([], Some(Ok(Some(on_node)))) => is_sound(&on_node.claim),
            (several, most) => {
                let mut all = ResourceClaim::default();
                let mut add = |claim: &ResourceClaim| {
                    all.spec.requests.extend(claim.spec.requests.iter().cloned());
                    all.spec.constraints.extend(claim.spec.constraints.iter().cloned());
                };
                for claim in several {
                    add(claim);
                }
                match most {
                    None => {}
                    Some(Ok(Some(on_node))) => add(&on_node.claim),
                    Some(Ok(None) | Err(_)) => return false,
                }
                is_sound(&all)
            }
        }
    }

    /// Whether the cluster has enough devices for an alternative, in use or not.
    pub(super) fn may_be_chosen(&self, one: &SubRequest) -> bool {
        let Prepared { devices, classes, .. } = &*self.0;
        let (mut sound, mut selectors) = (devices.sound.open(), devices.selectors.open());
        classes.get(&one.ask.class).is_none_or(|class| {
            sound.may_be_found(class, &one.ask, &devices.inventory, &mut selectors)
        })
    }

    /// Why no node is worth a look. As in dynamicresources.go, PreFilter.
    pub(super) fn check(&self, gates: &DeviceGates) -> Result<(), Rejection> {
        for one in &self.0.named {
            let claim = &one.claim;
            match one.allocation() {
                Some(allocation) => {
                    let selector = allocation.node_selector.as_ref();
                    let parsed =
                        selector.map_or(Ok(false), |one| one.matches("", &Labels::default()));
                    parsed.map_err(|error| Rejection::error(error.to_string()))?;
                }
                None if one.is_in_flight => {
                    let why = format!(
                        "resource claim {} is in the process of being allocated",
                        claim.key
                    );
                    return Err(Rejection::unresolvable(why));
                }
                None => check_classes(claim, &self.0.classes, gates.features.prioritized_list)?,
            }
        }
        Ok(())
    }

    /// The names of the only nodes on which a claim that has devices can be used.
    pub(super) fn only_nodes(&self) -> Option<Vec<Str>> {
        let allocated = self.0.named.iter().filter_map(FoundClaim::allocation);
        allocated.filter_map(|one| one.node_selector.as_ref()).find_map(DeviceNodeSelector::names)
    }

    /// Which of the claims that the pod names cannot be used on a node.
    pub(super) fn unavailable(
        &self,
        plugin: &DynamicResources,
        name: &str,
        labels: &Labels,
    ) -> Vec<usize> {
        let Prepared { named, now, .. } = &*self.0;
        let is_unavailable = |one: &FoundClaim| {
            let Some(allocation) = one.allocation() else { return false };
            let claim = &one.claim;
            let selector = allocation.node_selector.as_ref();
            if selector.is_some_and(|selector| selector.matches(name, labels) != Ok(true)) {
                return true;
            }
            plugin.gates.features.binding_conditions
                && has_conditions(claim)
                && match conditions_of(claim) {
                    Conditions::Met => false,
                    Conditions::Failed { .. } => true,
                    Conditions::Awaited => is_timed_out(claim, plugin.binding_timeout, *now),
                }
        };
        let claims = named.iter().enumerate();
        claims.filter(|(_, one)| is_unavailable(one)).map(|(index, _)| index).collect()
    }
}

impl DynamicResources {
    /// The claims of a pod; the error is the rejection for all nodes.
    pub(super) fn prepare(
        &self,
        pod: WholePod<'_>,
        objects: &ObjectStores,
        now: Time,
    ) -> Result<PreparedClaims, Rejection> {
        let WholePod { claiming, containers, fit, input } = pod;
        let named = claiming.find(objects).map_err(Rejection::unresolvable)?;
        // As in dynamicresources.go, podResourceClaimBindings.
        claiming.group_object(objects).map_err(Rejection::unresolvable)?;
        let devices = self.gates.devices(objects);
        let extended = match self.gates.extended_resources {
            true => ExtendedClaim::of(claiming, containers, &devices.extended, objects),
            false => None,
        };
        Ok(PreparedClaims(Arc::new(Prepared {
            named,
            extended,
            devices,
            classes: objects.of().clone(),
            slices: objects.of().clone(),
            memory: MemoCell::default(),
            list: MemoCell::default(),
            uid: claiming.uid.clone(),
            requesting: self.gates.node_allocatable.then(|| RequestingPod {
                fit: fit.clone(),
                input: input.cloned().map(Box::new),
                gates: self.gates.requests,
                claims: claiming.claims.to_vec(),
                statuses: claiming.statuses.cloned(),
                containers: containers.to_vec(),
            }),
            now,
        })))
    }

    /// What the claims of a pod get on a node. As in dynamicresources.go, Filter.
    pub(super) fn on_node(
        &self,
        claims: &PreparedClaims,
        ((name, labels), (Allocatable(allocatable), Requested(requested), pods)): Ref<
            '_,
            NodeParts,
        >,
    ) -> Result<NodeAllocations, Rejection> {
        let Prepared { named, extended, devices, requesting, .. } = &*claims.0;
        let extended = match extended {
            None => None,
            Some(extended) => {
                let on_node =
                    extended.on_node(&devices.extended, allocatable, !named.is_empty())?;
                if on_node.is_none() && named.is_empty() {
                    return Ok(NodeAllocations::default());
                }
                on_node
            }
        };
        let unavailable = claims.unavailable(self, name, labels);
        if requesting.is_some() {
            let usable = named.iter().enumerate().filter(|(index, one)| {
                one.claim.allocation.is_some() && !unavailable.contains(index)
            });
            for (_, one) in usable {
                check_sharing(&one.claim, &claims.0.uid, pods)?;
            }
        }
        let node = DeviceNode { name, labels };
        let found = match extended {
            None if claims.need_devices() => self.found_before(claims, node),
            _ => None,
        };
        let mut allocated = match found {
            Some(found) => found,
            None => found_or_why(self.search(claims, extended, node), node)?,
        };
        let shared = named.iter().filter(|one| one.shared.is_some());
        let is_new = !allocated.allocations.is_empty() || shared.clone().next().is_some();
        if let Some(requesting) = requesting.as_ref().filter(|_| is_new) {
            let new =
                allocated.allocations.iter().map(|(claim, allocation)| (&**claim, allocation));
            let shared = shared.filter_map(|one| Some((&*one.claim, one.allocation()?)));
            let (all, room) = (new.chain(shared), NodeRoom { allocatable, requested });
            allocated.node_allocatable = uses_of(requesting, all, &claims.0.slices, room)?;
        }
        if !unavailable.is_empty() {
            return Err(Rejection::unresolvable(UNAVAILABLE));
        }
        Ok(allocated)
    }

    /// Why devices of a node are picked or not; `None` if none are looked for.
    pub(super) fn account(
        &self,
        claims: &PreparedClaims,
        ((name, labels), (Allocatable(allocatable), ..)): Ref<'_, NodeParts>,
    ) -> Option<Account> {
        let Prepared { named, extended, devices, .. } = &*claims.0;
        let extended = extended.as_ref().and_then(|extended| {
            extended.on_node(&devices.extended, allocatable, !named.is_empty()).ok()?
        });
        let mut wanting: Vec<&ResourceClaim> = claims.wanting().map(Arc::as_ref).collect();
        wanting.extend(extended.as_ref().map(|extended| &extended.claim));
        let node = DeviceNode { name, labels };
        (!wanting.is_empty()).then(|| {
            self.ask(claims, &wanting, |allocator, memory, selectors, go_on| {
                allocator.account(node, memory, selectors, go_on)
            })
        })
    }

    /// Finds devices for the claims that have none; `None` if there are too few.
    pub(super) fn search(
        &self,
        claims: &PreparedClaims,
        extended: Option<OnNode>,
        node: DeviceNode<'_>,
    ) -> Result<Option<NodeAllocations>, AllocateError> {
        let mut wanting: Vec<Arc<ResourceClaim>> = claims.wanting().cloned().collect();
        wanting.extend(extended.as_ref().map(|extended| Arc::new(extended.claim.clone())));
        if wanting.is_empty() {
            return Ok(Some(NodeAllocations::default()));
        }
        let all: Vec<&ResourceClaim> = wanting.iter().map(Arc::as_ref).collect();
        let found = self.ask(claims, &all, |allocator, memory, selectors, go_on| {
            allocator.allocate(node, memory, selectors, go_on)
        })?;
        Ok(found.map(|found| NodeAllocations {
            allocations: wanting.into_iter().zip(found).collect(),
            extended,
            node_allocatable: Vec::new(),
        }))
    }

    /// Asks the allocator about claims of the pod, in their order. It stops after as many steps as the search may take.
    fn ask<T>(
        &self,
        claims: &PreparedClaims,
        wanting: &[&ResourceClaim],
        ask: impl FnOnce(
            &Allocator<'_>,
            &mut CycleMemory,
            &mut dyn Selectors,
            &mut dyn FnMut() -> bool,
        ) -> T,
    ) -> T {
        let Prepared { devices, classes, memory, .. } = &*claims.0;
        let class_of = |name: &str| classes.get(name).map(Arc::as_ref);
        let allocator = Allocator::new(&devices.inventory, &devices.allocated, wanting, class_of);
        let mut steps = 0;
        let mut go_on = || {
            steps += 1;
            self.most_steps.is_none_or(|most| steps <= most)
        };
        ask(&allocator, &mut memory.open(), &mut *devices.selectors.open(), &mut go_on)
    }
}

/// What a search has found, or why a node is rejected.
pub(super) fn found_or_why<T>(
    found: Result<Option<T>, AllocateError>,
    node: DeviceNode<'_>,
) -> Result<T, Rejection> {
    match found {
        Ok(Some(found)) => Ok(found),
        Ok(None) => Err(Rejection::unresolvable(NOT_ENOUGH)),
        Err(error @ AllocateError::InvalidPools) => Err(Rejection::unresolvable(error.to_string())),
        Err(AllocateError::Stopped) => Err(Rejection::error(format!(
            "node {}: timed out trying to allocate devices",
            node.name
        ))),
        Err(error @ AllocateError::Failed(_)) => Err(Rejection::error(error.to_string())),
    }
}
