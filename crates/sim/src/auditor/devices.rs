//! Checks claims on devices: no device, counter or capacity is given away twice, and pods are where their devices are.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_api::devices::{ClaimConsumer, ClaimSource, Device, DeviceNodeSelector, DeviceResult};
use plimsoll_api::{
    DeviceClass, Node, ObjectKey, Pod, PodResourceClaim, Quantity, ResourceClaim, ResourceSlice,
    Str,
};
use plimsoll_framework::pod_groups::group_of;

use super::ObservedCluster;

/// The resource that stands for a device of a class, without the name of the class.
const IMPLICIT: &str = "deviceclass.resource.kubernetes.io/";

/// The devices of the cluster, and the claims on them.
#[derive(Debug, Default)]
pub(super) struct ObservedDevices {
    pub(super) claims: BTreeMap<ObjectKey, ResourceClaim>,
    pub(super) slices: BTreeMap<Str, ResourceSlice>,
    /// The resources for which classes stand, or have stood.
    extended: BTreeSet<Str>,
}

/// Driver, pool and name of a device.
type DeviceId<'a> = (&'a str, &'a str, &'a str);

fn id(device: &DeviceResult) -> DeviceId<'_> {
    (&device.driver, &device.pool, &device.device)
}

impl ObservedDevices {
    pub(super) fn class_is(&mut self, class: &DeviceClass) {
        self.extended.insert(format!("{IMPLICIT}{}", class.name).into());
        self.extended.extend(class.extended_resource.clone());
    }

    /// Whether devices may stand for this resource of a node.
    pub(super) fn stand_for(&self, resource: &str, node: &Node) -> bool {
        node.allocatable.get(resource) <= 0 && self.extended.contains(resource)
    }

    /// Whether a pod claims devices, by name or by a resource.
    pub(super) fn are_claimed_by(&self, pod: &Pod) -> bool {
        let asked = &pod.asks.fit.scalar;
        !pod.resource_claims.is_empty() || asked.keys().any(|name| self.extended.contains(name))
    }

    /// All devices that are in use, each with the claim that uses it.
    fn used(&self) -> impl Iterator<Item = (&ObjectKey, &DeviceResult)> {
        self.claims.values().flat_map(|claim| {
            let devices = claim.allocation.iter().flat_map(|allocation| &allocation.devices);
            devices.filter(|device| !device.is_admin()).map(|device| (&claim.key, device))
        })
    }

    /// The slices of a pool in its newest generation.
    fn pool<'a>(
        &'a self,
        driver: &'a str,
        pool: &'a str,
    ) -> impl Iterator<Item = &'a ResourceSlice> {
        let of_pool = move |slice: &&ResourceSlice| slice.driver == driver && slice.pool == pool;
        let newest = self.slices.values().filter(of_pool).map(|slice| slice.generation).max();
        let slices = self.slices.values().filter(of_pool);
        slices.filter(move |slice| Some(slice.generation) == newest)
    }

    fn device<'a>(&'a self, (driver, pool, name): DeviceId<'a>) -> Option<&'a Device> {
        let mut devices = self.pool(driver, pool).flat_map(|slice| &slice.devices);
        devices.find(|device| device.name == name)
    }

    /// Whether each device of a claim is used as it may be.
    pub(super) fn are_exclusive(&self, claim: &ResourceClaim) -> Result<(), String> {
        for device in claim.allocation.iter().flat_map(|allocation| &allocation.devices) {
            let is_it = |(_, other): &(&ObjectKey, &DeviceResult)| id(other) == id(device);
            let uses: Vec<_> = self.used().filter(is_it).collect();
            let is_exclusive = uses.iter().any(|(_, one)| one.share_id.is_none());
            if !device.is_admin() && is_exclusive && 1 < uses.len() {
                let claims: Vec<String> = uses.iter().map(|(key, _)| key.to_string()).collect();
                return Err(format!("{:?} is used by {}", id(device), claims.join(" and ")));
            }
        }
        Ok(())
    }

    /// Whether there is enough of everything that the devices of a claim share with others.
    pub(super) fn suffice(&self, claim: &ResourceClaim) -> Result<(), String> {
        for device in claim.allocation.iter().flat_map(|allocation| &allocation.devices) {
            if !device.is_admin() {
                self.has_capacity(id(device))?;
                self.has_counters(&device.driver, &device.pool)?;
            }
        }
        Ok(())
    }

    fn has_capacity(&self, wanted: DeviceId<'_>) -> Result<(), String> {
        let Some(device) = self.device(wanted) else { return Ok(()) };
        for (name, capacity) in &device.capacity {
            let uses = self.used().filter(|(_, one)| id(one) == wanted);
            let amounts = uses.flat_map(|(_, one)| &one.consumed_capacity);
            let taken = sum(amounts.filter(|(other, _)| other == name).map(|(_, amount)| amount));
            if capacity.value < taken {
                let there = &capacity.value;
                return Err(format!("claims take {taken} {name} of {wanted:?}, which has {there}"));
            }
        }
        Ok(())
    }

    fn has_counters(&self, driver: &str, pool: &str) -> Result<(), String> {
        let of_pool =
            |(_, one): &(&ObjectKey, &DeviceResult)| one.driver == driver && one.pool == pool;
        let used: BTreeSet<&str> =
            self.used().filter(of_pool).map(|(_, one)| one.device.as_str()).collect();
        let devices = used.into_iter().filter_map(|name| self.device((driver, pool, name)));
        let devices: Vec<&Device> = devices.collect();
        for set in self.pool(driver, pool).flat_map(|slice| &slice.shared_counters) {
            for (name, value) in &set.counters {
                let consumed = devices.iter().flat_map(|device| &device.consumes_counters);
                let consumed = consumed.filter(|one| one.counter_set == set.name);
                let amounts = consumed.flat_map(|one| &one.counters);
                let taken =
                    sum(amounts.filter(|(other, _)| other == name).map(|(_, amount)| amount));
                if *value < taken {
                    let set = &set.name;
                    return Err(format!("devices of {pool} take {taken} {set}/{name} of {value}"));
                }
            }
        }
        Ok(())
    }

    /// Whether the devices of a claim can be used on a node.
    pub(super) fn reach(claim: &ResourceClaim, node: &Node) -> Result<(), String> {
        let selector = claim.allocation.as_ref().and_then(|one| one.node_selector.as_ref());
        let reached = selector.is_none_or(|one| one.matches(&node.name, &node.labels) == Ok(true));
        match reached {
            true => Ok(()),
            false => Err(format!("the devices of {} cannot be used there", claim.key)),
        }
    }
}

impl ObservedCluster {
    /// The claims of a pod must exist, and those that have devices must be usable on the node.
    pub(super) fn has_devices(&self, pod: &Pod, node: &Node) -> Result<(), String> {
        for claim in self.device_claims_of(pod) {
            let claim = claim?;
            if claim.is_terminating() {
                return Err(format!("its claim {} is being deleted", claim.key));
            }
            ObservedDevices::reach(claim, node)?;
        }
        Ok(())
    }

    /// Whether all claims of a pod that is bound now have devices and are reserved for it.
    pub(super) fn has_claimed(&self, pod: &Pod) -> Result<(), String> {
        for claim in self.device_claims_of(pod) {
            let claim = claim?;
            if claim.allocation.is_none() {
                return Err(format!("its claim {} has no devices", claim.key));
            }
            if !claim.is_reserved_for(pod) {
                self.is_reserved_for_group_of(pod, claim)?;
            }
        }
        Ok(())
    }

    /// Whether a claim is reserved for the group of a pod that is bound now, is one of the group, and can be used where the
    /// pod goes.
    fn is_reserved_for_group_of(&self, pod: &Pod, claim: &ResourceClaim) -> Result<(), String> {
        let group = group_of(pod).and_then(|key| self.groups.groups.get(&key));
        // The name is not enough: what is reserved for an earlier group of that name is about to be free.
        let group = group.filter(|group| {
            let is_it = |one: &ClaimConsumer| one.is_group() && one.uid == group.uid;
            claim.reserved_for.iter().any(is_it)
        });
        let Some(group) = group else {
            return Err(format!("its claim {} is not reserved for it", claim.key));
        };
        let is_it = |named: &&PodResourceClaim| match &named.source {
            ClaimSource::Claim(name) => *name == claim.key.name,
            // One that was made before the group was there is the pod's own.
            ClaimSource::Template(_) => {
                claim.is_made_for_group(&group.key.name) || claim.is_made_for(pod)
            }
            ClaimSource::Unknown => false,
        };
        // What the group names is reserved for it by others of its pods, and a pod that names it otherwise may use it, too.
        let named_by_group = |named: &PodResourceClaim| matches!(&named.source, ClaimSource::Claim(name) if *name == claim.key.name);
        let is_shared = pod.resource_claims.iter().filter(is_it).any(|named| group.shares(named));
        if !is_shared && !group.resource_claims.iter().any(named_by_group) {
            return Err(format!("its claim {} is not one of its group", claim.key));
        }
        let selector = claim.allocation.as_ref().and_then(|one| one.node_selector.as_ref());
        let names = selector.and_then(DeviceNodeSelector::names);
        match pod.node_name.as_ref().zip(names) {
            Some((node, names)) if !names.contains(node) => {
                Err(format!("the devices of {} cannot be used there", claim.key))
            }
            _ => Ok(()),
        }
    }

    /// The claims that a pod names, or whose templates it names.
    fn device_claims_of<'a>(
        &'a self,
        pod: &'a Pod,
    ) -> impl Iterator<Item = Result<&'a ResourceClaim, String>> {
        pod.resource_claims.iter().filter_map(|named| {
            let made = pod.devices.as_deref().map_or(&[][..], |said| &said.claims);
            let name = match &named.source {
                ClaimSource::Claim(name) => name,
                ClaimSource::Template(template) => {
                    match made.iter().find(|one| one.name == named.name) {
                        Some(one) => one.claim.as_ref()?,
                        None => return Some(Err(format!("no claim is made from {template}"))),
                    }
                }
                ClaimSource::Unknown => return Some(Err("it names no claim".to_owned())),
            };
            let key = ObjectKey::new(pod.key.namespace.clone(), name.clone());
            let claim = self.devices.claims.get(&key);
            Some(claim.ok_or_else(|| format!("there is no claim {key}")))
        })
    }
}

fn sum<'a>(amounts: impl Iterator<Item = &'a Quantity>) -> Quantity {
    let mut sum = Quantity::default();
    amounts.for_each(|amount| sum.add(amount));
    sum
}
