//! Extended resources of a pod for which device classes stand. As in extendeddynamicresources.go.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_api::ObjectStores;
use plimsoll_api::devices::{
    AllocationMode, ClaimSpec, ContainerDevices, ContainerRun, DeviceAsk, DeviceRequest,
    ExtendedRequest, RequestKind,
};
use plimsoll_framework::prelude::*;

use super::claims::ClaimingPod;
use crate::devices::ExtendedResources;

/// The name of the claim before it is written. No object can have it.
pub(super) const IN_MEMORY: &str = "<extended-resources>";

const LEFT_OVER: &str = "cannot schedule extended resource claim";
const NOT_OFFERED: &str = "cannot fit resource";

/// The extended resources of a pod, of which a class stands for at least one.
#[derive(Clone, Debug)]
pub(super) struct ExtendedClaim {
    /// The claim that an earlier attempt has left; otherwise one that is not written yet, without requests.
    pub(super) claim: Arc<ResourceClaim>,
    /// Whether an earlier attempt has left it.
    pub(super) is_left_over: bool,
    containers: Arc<[ContainerDevices]>,
}

/// What the claim for extended resources is on one node.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OnNode {
    /// The claim with its requests.
    pub(super) claim: ResourceClaim,
    /// Which request each resource of a container uses: container, resource and request.
    pub(super) mappings: Vec<(Str, Str, Str)>,
}

impl ExtendedClaim {
    /// The claim of a pod; `None` if it needs none.
    pub(super) fn of(
        pod: ClaimingPod<'_>,
        containers: &[ContainerDevices],
        classes: &ExtendedResources,
        objects: &ObjectStores,
    ) -> Option<Self> {
        let mut requests = containers.iter().flat_map(|container| &container.extended);
        requests.find(|request| classes.class_of(&request.resource).is_some())?;
        let containers: Arc<[ContainerDevices]> = containers.into();
        let is_own = |claim: &&Arc<ResourceClaim>| {
            let owner = claim.controller.as_ref();
            claim.is_extended
                && owner.is_some_and(|one| one.name == pod.key.name && one.uid == *pod.uid)
        };
        let store = objects.of::<ResourceClaim>();
        if let Some(claim) = store.iter().find(is_own) {
            return Some(ExtendedClaim { claim: claim.clone(), is_left_over: true, containers });
        }
        let claim = ResourceClaim {
            key: ObjectKey::new(pod.key.namespace.clone(), IN_MEMORY),
            is_extended: true,
            controller: Some(Controller {
                api_version: "v1".into(),
                kind: "Pod".into(),
                name: pod.key.name.clone(),
                uid: pod.uid.clone(),
            }),
            ..ResourceClaim::default()
        };
        Some(ExtendedClaim { claim: Arc::new(claim), is_left_over: false, containers })
    }

    /// What it is on a node. `None` if nothing is to be allocated there. As in extendeddynamicresources.go,
    /// filterExtendedResources.
    pub(super) fn on_node(
        &self,
        classes: &ExtendedResources,
        allocatable: &Resources,
        has_user_claims: bool,
    ) -> Result<Option<OnNode>, Rejection> {
        if self.is_left_over && !self.claim.spec.requests.is_empty() {
            return Err(Rejection::unresolvable(LEFT_OVER));
        }
        let all = Requests::of(&self.containers, classes, allocatable)?;
        let is_settled = self.is_left_over && self.claim.allocation.is_some();
        if is_settled || all.requests.is_empty() && !has_user_claims {
            return Ok(None);
        }
        let requests = all.requests.into_iter().map(|one| DeviceRequest {
            name: one.name,
            kind: RequestKind::Exactly {
                ask: DeviceAsk {
                    class: one.class,
                    mode: AllocationMode::ExactCount(one.count),
                    ..DeviceAsk::default()
                },
                admin_access: None,
            },
        });
        let spec = ClaimSpec { requests: requests.collect(), ..ClaimSpec::default() };
        let claim = ResourceClaim { spec, ..ResourceClaim::clone(&self.claim) };
        Ok(Some(OnNode { claim, mappings: all.mappings }))
    }
}

/// The requests of a claim, and who uses them.
#[derive(Default)]
struct Requests {
    requests: Vec<NamedRequest>,
    mappings: Vec<(Str, Str, Str)>,
}

/// A request of one container.
#[derive(Clone)]
struct NamedRequest {
    name: Str,
    class: Str,
    count: i64,
    /// The place of the container among all.
    container: u32,
}

/// Which request each resource of a container uses on a node: container, resource and request.
pub(super) fn mappings(
    containers: &[ContainerDevices],
    classes: &ExtendedResources,
    allocatable: &Resources,
) -> Vec<(Str, Str, Str)> {
    Requests::of(containers, classes, allocatable).map_or_else(|_| Vec::new(), |all| all.mappings)
}

impl Requests {
    /// Those for the resources that a node does not offer itself.
    fn of(
        containers: &[ContainerDevices],
        classes: &ExtendedResources,
        allocatable: &Resources,
    ) -> Result<Self, Rejection> {
        let mut by_devices: BTreeMap<&Str, &DeviceClass> = BTreeMap::new();
        for request in containers.iter().flat_map(|container| &container.extended) {
            let offered = allocatable.scalar.get(&request.resource);
            match classes.class_of(&request.resource) {
                Some(class) if offered.is_none_or(|amount| *amount == 0) => {
                    by_devices.insert(&request.resource, class);
                }
                _ if offered.is_none() => return Err(Rejection::unresolvable(NOT_OFFERED)),
                _ => {}
            }
        }
        let mut all = Requests::default();
        for (resource, class) in by_devices {
            all.add(resource, &class.name, containers);
        }
        all.requests.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(all)
    }

    /// Adds those for one resource. As in extendeddynamicresources.go, createRequestsAndMappings: an init container that
    /// ends uses the requests of those that begin later and keep running. Of what such containers need beyond that, the
    /// largest request is enough, since they run one after the other.
    fn add(&mut self, resource: &Str, class: &Str, containers: &[ContainerDevices]) {
        let requesting = |is_init: bool| {
            let those =
                containers.iter().filter(move |one| (one.runs == ContainerRun::Init) == is_init);
            those.filter_map(|container| {
                let requests = &container.extended;
                Some((container, requests.iter().find(|one| one.resource == *resource)?))
            })
        };
        let mut lasting: Vec<NamedRequest> = Vec::new();
        for (container, request) in requesting(false) {
            let named = NamedRequest::of(container, request, class, request.amount);
            self.mappings.push((container.container.clone(), resource.clone(), named.name.clone()));
            lasting.push(named);
        }
        let mut largest: Option<NamedRequest> = None;
        let (mut short_names, mut short_mappings) = (Vec::new(), Vec::new());
        for (container, request) in requesting(true) {
            let mapped = |name: &Str| (container.container.clone(), resource.clone(), name.clone());
            let mut sum = 0;
            for later in lasting.iter().filter(|later| container.index <= later.container) {
                if request.amount <= sum {
                    break;
                }
                sum += later.count;
                short_mappings.push(mapped(&later.name));
            }
            if request.amount <= sum {
                continue;
            }
            let named = NamedRequest::of(container, request, class, request.amount - sum);
            short_mappings.push(mapped(&named.name));
            short_names.push(named.name.clone());
            if largest.as_ref().is_none_or(|largest| largest.count < named.count) {
                largest = Some(named);
            }
        }
        if let Some(largest) = &largest {
            for (_, _, name) in &mut short_mappings {
                if short_names.contains(name) {
                    name.clone_from(&largest.name);
                }
            }
        }
        self.mappings.append(&mut short_mappings);
        self.requests.extend(largest);
        self.requests.append(&mut lasting);
    }
}

impl NamedRequest {
    fn of(
        container: &ContainerDevices,
        request: &ExtendedRequest,
        class: &Str,
        count: i64,
    ) -> Self {
        let name = Str::from(format!("container-{}-request-{}", container.index, request.index));
        NamedRequest { name, class: class.clone(), count, container: container.index }
    }
}
