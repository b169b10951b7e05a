//! Amounts of every resource, in the units of the scheduler.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Str;
use crate::quantity::Quantity;
use crate::scalars::Scalars;

/// Quantities by resource name, as objects carry them.
pub type ResourceList = BTreeMap<Str, Quantity>;

/// Name of the CPU resource.
pub const CPU: &str = "cpu";
/// Name of the memory resource.
pub const MEMORY: &str = "memory";
/// Name of the resource for local disk.
pub const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
/// Name of the resource that limits the number of pods on a node.
pub const PODS: &str = "pods";
/// What the names of huge pages begin with; the page size follows.
pub const HUGE_PAGES_PREFIX: &str = "hugepages-";

const ATTACHABLE_VOLUMES_PREFIX: &str = "attachable-volumes-";
const QUOTA_REQUESTS_PREFIX: &str = "requests.";
const NATIVE_NAMESPACE: &str = "kubernetes.io/";

/// Amounts of every resource: what a node has, or what pods request.
///
/// Sums saturate at the bounds of 64 bits. In kube-scheduler they wrap around, and a node whose pods
/// request more than it has looks empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Resources {
    /// CPU in thousandths of a core.
    pub milli_cpu: i64,
    /// Memory in bytes.
    pub memory: i64,
    /// Local disk in bytes.
    pub ephemeral_storage: i64,
    /// The number of pods that a node accepts. It is 0 in requests: each pod counts as one.
    pub pods: i64,
    /// Every other resource the scheduler counts, see [`is_scalar_resource_name`].
    pub scalar: Scalars,
}

impl Resources {
    /// The amounts in a list, such as a node's `status.allocatable`.
    ///
    /// CPU is counted in thousandths, the rest in whole units, and fractions are rounded up; names that
    /// the scheduler does not count are left out. As in types.go, Resource.Add.
    pub fn from_list(list: &ResourceList) -> Self {
        let mut resources = Self::default();
        for (name, quantity) in list {
            if let Some(amount) = resources.entry(name) {
                *amount = amount_in(quantity, name);
            }
        }
        resources
    }

    /// Raises every amount to that in the list, except `pods`. As in types.go, SetMaxResource.
    pub fn raise_to(&mut self, list: &ResourceList) {
        for (name, quantity) in list.iter().filter(|(name, _)| *name != PODS) {
            if let Some(amount) = self.entry(name) {
                *amount = (*amount).max(amount_in(quantity, name));
            }
        }
    }

    /// Adds every amount of `other`.
    pub fn add(&mut self, other: &Self) {
        self.combine(other, i64::saturating_add);
    }

    /// Subtracts every amount of `other`. That undoes adding it, unless the sum [is
    /// full](Self::is_full).
    pub fn sub(&mut self, other: &Self) {
        self.combine(other, i64::saturating_sub);
    }

    /// Whether some amount is saturated, so that subtracting one of the added amounts would give a
    /// wrong result.
    pub fn is_full(&self) -> bool {
        let own = [self.milli_cpu, self.memory, self.ephemeral_storage, self.pods];
        own.into_iter().chain(self.scalar.iter().map(|(_, &amount)| amount)).any(is_full)
    }

    /// The amount of a resource by its name; 0 if it is missing.
    pub fn get(&self, name: &str) -> i64 {
        match name {
            CPU => self.milli_cpu,
            MEMORY => self.memory,
            EPHEMERAL_STORAGE => self.ephemeral_storage,
            PODS => self.pods,
            _ => self.scalar.get(name).copied().unwrap_or(0),
        }
    }

    /// The entry of a resource, inserted if missing; none for a name that is not counted.
    fn entry(&mut self, name: &Str) -> Option<&mut i64> {
        match name.as_str() {
            CPU => Some(&mut self.milli_cpu),
            MEMORY => Some(&mut self.memory),
            EPHEMERAL_STORAGE => Some(&mut self.ephemeral_storage),
            PODS => Some(&mut self.pods),
            scalar if is_scalar_resource_name(scalar) => Some(self.scalar.or_default(name)),
            _ => None,
        }
    }

    /// An entry that becomes 0 is dropped, so that adding and subtracting restores the original.
    fn combine(&mut self, other: &Self, operation: fn(i64, i64) -> i64) {
        self.milli_cpu = operation(self.milli_cpu, other.milli_cpu);
        self.memory = operation(self.memory, other.memory);
        self.ephemeral_storage = operation(self.ephemeral_storage, other.ephemeral_storage);
        self.pods = operation(self.pods, other.pods);
        for (name, amount) in other.scalar.iter() {
            let total = operation(self.get(name), *amount);
            if total == 0 {
                self.scalar.remove(name);
            } else {
                self.scalar.insert(name.clone(), total);
            }
        }
    }
}

/// Whether an amount is saturated.
pub(crate) fn is_full(amount: i64) -> bool {
    amount == i64::MAX || amount == i64::MIN
}

/// A quantity of a resource in its unit: thousandths for CPU, else whole units. It saturates at the
/// bounds of 64 bits.
pub fn amount_in(quantity: &Quantity, name: &str) -> i64 {
    if name == CPU { quantity.at_most_milli_value() } else { quantity.at_most_value() }
}

/// Whether the scheduler counts a resource by its name, in addition to CPU, memory, local disk and
/// pods: extended resources, huge pages, names under `kubernetes.io/`, and attachable volumes.
///
/// As in utils.go of the scheduler, IsScalarResourceName.
pub fn is_scalar_resource_name(name: &str) -> bool {
    is_extended_resource_name(name)
        || name.starts_with(HUGE_PAGES_PREFIX)
        || name.contains(NATIVE_NAMESPACE)
        || name.starts_with(ATTACHABLE_VOLUMES_PREFIX)
}

/// Begins the name of the resource that every device class stands for; the name of the class follows.
pub const DEVICE_CLASS_PREFIX: &str = "deviceclass.resource.kubernetes.io/";

/// Whether a resource is an extended resource, such as `nvidia.com/gpu`: its name has a domain other
/// than `kubernetes.io`, and can also be used in a quota.
///
/// As in helpers.go of core/v1, IsExtendedResourceName.
pub fn is_extended_resource_name(name: &str) -> bool {
    let Some((domain, rest)) = name.split_once('/') else {
        return false;
    };
    !name.contains(NATIVE_NAMESPACE)
        && !name.starts_with(QUOTA_REQUESTS_PREFIX)
        && is_subdomain(domain, MAX_SUBDOMAIN - QUOTA_REQUESTS_PREFIX.len())
        && is_qualified(rest)
}

/// Whether a device class can stand for a resource. As in pkg/scheduler/util, IsDRAExtendedResourceName.
pub fn is_for_devices(name: &str) -> bool {
    is_extended_resource_name(name) || name.starts_with(DEVICE_CLASS_PREFIX)
}

/// The longest domain name, in bytes.
const MAX_SUBDOMAIN: usize = 253;
/// The longest name after the domain, in bytes.
const MAX_QUALIFIED: usize = 63;

/// Lower-case labels joined by dots. As in validation.go, IsDNS1123Subdomain.
fn is_subdomain(text: &str, limit: usize) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.len() <= limit
        && text.split('.').all(|label| {
            !label.is_empty()
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.bytes().all(|byte| is_inner(byte) || byte == b'-')
        })
}

/// Letters and digits, with `-`, `_` and `.` between them. As in validation.go, IsQualifiedName.
fn is_qualified(text: &str) -> bool {
    let is_outer = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.len() <= MAX_QUALIFIED
        && is_outer(bytes.first())
        && is_outer(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[(&str, &str)]) -> ResourceList {
        let parse = |text| Quantity::parse(text).unwrap();
        entries.iter().map(|(name, text)| (Str::from(*name), parse(text))).collect()
    }

    #[test]
    fn a_list_is_counted_in_the_units_of_each_resource() {
        let resources = Resources::from_list(&list(&[
            ("cpu", "1500100u"),
            ("memory", "1500m"),
            ("ephemeral-storage", "1Ki"),
            ("pods", "110"),
            ("nvidia.com/gpu", "3"),
            ("hugepages-2Mi", "4Mi"),
            ("storage", "1Gi"),
        ]));
        let scalar = [("nvidia.com/gpu".into(), 3), ("hugepages-2Mi".into(), 4 << 20)];
        assert_eq!(
            resources,
            Resources {
                milli_cpu: 1501,
                memory: 2,
                ephemeral_storage: 1024,
                pods: 110,
                scalar: scalar.into(),
            }
        );
        for (name, amount) in [("cpu", 1501), ("pods", 110), ("nvidia.com/gpu", 3), ("a/b", 0)] {
            assert_eq!(resources.get(name), amount, "{name}");
        }
    }

    #[test]
    fn raising_takes_the_larger_amount_and_leaves_pods_alone() {
        let mut resources = Resources::from_list(&list(&[("cpu", "2"), ("memory", "1")]));
        resources.raise_to(&list(&[
            ("cpu", "1"),
            ("memory", "3"),
            ("pods", "5"),
            ("example.com/a", "-1"),
            ("example.com/b", "0"),
        ]));
        let scalar = [("example.com/a".into(), 0), ("example.com/b".into(), 0)];
        let expected =
            Resources { milli_cpu: 2000, memory: 3, scalar: scalar.into(), ..Resources::default() };
        assert_eq!(resources, expected);
    }

    #[test]
    fn subtraction_undoes_addition() {
        let start = Resources::from_list(&list(&[("cpu", "9"), ("example.com/a", "1")]));
        let pod =
            Resources::from_list(&list(&[("cpu", "9"), ("memory", "-1"), ("example.com/b", "2")]));
        let mut node = start.clone();
        node.add(&pod);
        assert_eq!(node.get("example.com/b"), 2);
        assert_ne!(node, start);
        node.sub(&pod);
        assert_eq!(node, start);
    }

    #[test]
    fn what_64_bits_cannot_hold_is_the_largest_number_that_they_hold() {
        let all = [("cpu", "9300T"), ("memory", "13800P"), ("pods", "10E"), ("a.com/b", "1e30")];
        let resources = Resources::from_list(&list(&all));
        for (name, _) in all {
            assert_eq!(resources.get(name), i64::MAX, "{name}");
        }
        let cpu = |text| Resources::from_list(&list(&[("cpu", text)])).milli_cpu;
        assert_eq!(
            (cpu("9200T"), cpu("9.2E"), cpu("-9.3E")),
            (9_200_000_000_000_000_000, i64::MAX, i64::MIN)
        );
    }

    #[test]
    fn a_sum_that_is_too_large_stays_at_the_largest_number() {
        let pod = Resources::from_list(&list(&[("memory", "6900P"), ("a.com/b", "6900P")]));
        let mut node = Resources::default();
        node.add(&pod);
        assert!(!node.is_full());
        node.add(&pod);
        assert_eq!((node.memory, node.get("a.com/b"), node.is_full()), (i64::MAX, i64::MAX, true));
    }

    #[test]
    fn a_name_is_counted_if_it_is_extended_or_native_with_a_prefix() {
        let long = format!("a.com/{}", "x".repeat(63));
        let cases = [
            // name, extended, counted
            ("nvidia.com/gpu", true, true),
            ("example.com/Dongle_2.x", true, true),
            (long.as_str(), true, true),
            ("pod.alpha.kubernetes.io/opaque", false, true),
            ("kubernetes.io/batch-cpu", false, true),
            ("hugepages-1Gi", false, true),
            ("attachable-volumes-aws-ebs", false, true),
            ("cpu", false, false),
            ("storage", false, false),
            ("gpu", false, false),
            ("", false, false),
            ("/gpu", false, false),
            ("nvidia.com/", false, false),
            ("requests.nvidia.com/gpu", false, false),
            ("Nvidia.com/gpu", false, false),
            ("-a.com/gpu", false, false),
            ("a..com/gpu", false, false),
            ("a.com/gpu-", false, false),
            ("a.com/b/c", false, false),
        ];
        for (name, extended, counted) in cases {
            assert_eq!(is_extended_resource_name(name), extended, "{name}");
            assert_eq!(is_scalar_resource_name(name), counted, "{name}");
        }
        assert!(!is_extended_resource_name(&format!("{long}x")));
        assert!(is_extended_resource_name(&format!("{}/b", "a".repeat(244))));
        assert!(!is_extended_resource_name(&format!("{}/b", "a".repeat(245))));
    }
}
