//! Devices as amounts of the extended resources for which their classes stand, for scores.

use std::borrow::Cow;
use std::sync::Arc;

use plimsoll_api::ObjectStores;
use plimsoll_devices::{NodeRef as DeviceNode, Selectors};
use plimsoll_framework::prelude::*;

use super::{DeviceGates, Devices};

/// The extended resources that count in scores and for which classes stand.
#[derive(Clone, Debug)]
pub struct CountedDevices {
    devices: Arc<Devices>,
    classes: Vec<(Str, Arc<DeviceClass>)>,
}

impl CountedDevices {
    /// Those among the `named` resources.
    pub(crate) fn of<'a>(
        gates: &DeviceGates,
        named: impl Iterator<Item = &'a Str>,
        objects: &ObjectStores,
    ) -> Self {
        let devices = gates.devices(objects);
        let class_of =
            |name: &'a Str| Some((name.clone(), devices.extended.class_of(name)?.clone()));
        let classes = named.filter_map(class_of).collect();
        CountedDevices { devices, classes }
    }

    /// What a node offers and what is requested there, with the devices of classes in place of resources that it does
    /// not offer itself. As in resource_allocation.go, calculateDRAExtendedResourceAllocatableRequest: all devices that
    /// can be reached and match count, and those of them that claims hold.
    pub(crate) fn count<'a>(
        &self,
        name: &str,
        labels: &Labels,
        allocatable: &'a Resources,
        requested: &'a Resources,
    ) -> (Cow<'a, Resources>, Cow<'a, Resources>) {
        let (mut allocatable, mut requested) =
            (Cow::Borrowed(allocatable), Cow::Borrowed(requested));
        for (resource, class) in &self.classes {
            if allocatable.get(resource) != 0 {
                continue;
            }
            let (all, held) = self.devices_of(class, DeviceNode { name, labels }).unwrap_or((0, 0));
            allocatable.to_mut().scalar.insert(resource.clone(), all);
            requested.to_mut().scalar.insert(resource.clone(), held);
        }
        (allocatable, requested)
    }

    /// How many devices of a class can be reached from a node, and how many of them claims hold. `None` if a selector
    /// fails.
    fn devices_of(&self, class: &DeviceClass, node: DeviceNode<'_>) -> Option<(i64, i64)> {
        let selectors = &self.devices.score_selectors;
        let mut selectors = selectors.open();
        let (mut all, mut held) = (0, 0);
        for device in self.devices.inventory.reachable(node) {
            let mut matches = true;
            for expression in &class.selectors {
                matches &= selectors.matches(expression.as_ref()?, device).ok()?;
                if !matches {
                    break;
                }
            }
            if matches {
                all += 1;
                held += i64::from(self.devices.allocated.is_allocated(device.id));
            }
        }
        Some((all, held))
    }
}
