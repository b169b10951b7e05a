//! Claims on devices.

use serde::{Deserialize, Serialize};

use super::{Allocation, DeviceToleration};
use crate::{Controller, ObjectKey, Pod, Quantity, Str, Timestamp};

/// resource.k8s.io ResourceClaim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceClaim {
    /// Namespace and name.
    pub key: ObjectKey,
    /// Its unique identity.
    pub uid: Str,
    /// Its `metadata.resourceVersion`; empty if it does not come from an API server.
    pub resource_version: Str,
    /// When it must be gone.
    #[serde(with = "crate::timestamp")]
    pub deletion: Option<Timestamp>,
    /// Whether the scheduler made it for the extended resources of a pod (annotation
    /// `resource.kubernetes.io/extended-resource-claim`).
    pub is_extended: bool,
    /// The controller that owns it: the pod, if it was made from a template.
    pub controller: Option<Controller>,
    /// Who must agree before the object is gone.
    pub finalizers: Vec<Str>,
    /// What is claimed.
    pub spec: ClaimSpec,
    /// The devices that are allocated; `None` before.
    pub allocation: Option<Allocation>,
    /// The pods that may use it.
    pub reserved_for: Vec<ClaimConsumer>,
    /// What drivers report about the allocated devices.
    pub devices: Vec<DeviceStatus>,
}

impl ResourceClaim {
    /// The finalizer of a claim that has an allocation.
    pub const FINALIZER: &str = "resource.kubernetes.io/delete-protection";

    /// Whether it is being deleted.
    pub fn is_terminating(&self) -> bool {
        self.deletion.is_some()
    }

    /// Whether it has the finalizer of the scheduler.
    pub fn has_finalizer(&self) -> bool {
        self.finalizers.iter().any(|name| name == ResourceClaim::FINALIZER)
    }

    /// Whether `pod` may use it. As in resourceclaim.go, IsReservedForPod.
    pub fn is_reserved_for(&self, pod: &Pod) -> bool {
        self.reserved_for.iter().any(|one| one.uid == pod.uid)
    }

    /// Whether it was made for `pod`. As in resourceclaim.go, IsForPod.
    pub fn is_made_for(&self, pod: &Pod) -> bool {
        self.key.namespace == pod.key.namespace
            && self.controller.as_ref().is_some_and(|owner| owner.uid == pod.uid)
    }
}

/// resource.k8s.io ResourceClaimTemplate: from it a controller makes a claim for each pod that names it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceClaimTemplate {
    /// Namespace and name.
    pub key: ObjectKey,
    /// What the claims claim.
    pub spec: ClaimSpec,
}

/// Who may use a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimConsumer {
    /// The API group of the consumer; empty for pods.
    pub api_group: Str,
    /// Its kind in the plural, such as `pods`.
    pub resource: Str,
    /// Its name.
    pub name: Str,
    /// Its unique identity.
    pub uid: Str,
}

/// What a claim claims (`spec.devices`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimSpec {
    /// The requests, in their order.
    pub requests: Vec<DeviceRequest>,
    /// Conditions on the devices together.
    pub constraints: Vec<Constraint>,
    /// Configurations for drivers.
    pub config: Vec<DeviceConfig>,
}

/// A request for devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceRequest {
    /// Its name, unique in the claim.
    pub name: Str,
    /// What is requested.
    pub kind: RequestKind,
}

/// What is requested.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RequestKind {
    /// Nothing that is known.
    #[default]
    Unknown,
    /// Some devices.
    Exactly {
        /// Which devices.
        ask: DeviceAsk,
        /// Whether they are for monitoring: they may be in use, and stay available. `None` if not given.
        admin_access: Option<bool>,
    },
    /// The first of these that is available (`firstAvailable`).
    FirstAvailable(Vec<SubRequest>),
}

/// One of the alternatives of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubRequest {
    /// Its name, unique in the request.
    pub name: Str,
    /// Which devices.
    pub ask: DeviceAsk,
}

/// Which devices are requested, and how many.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceAsk {
    /// The name of their class. It is required, but may be empty in an object of another release.
    pub class: Str,
    /// CEL expressions that a device must all meet. `None` for a selector of an unknown kind.
    pub selectors: Vec<Option<Str>>,
    /// How many.
    pub mode: AllocationMode,
    /// The taints that are tolerated.
    pub tolerations: Vec<DeviceToleration>,
    /// How much capacity is needed of each device, sorted by name. `None` if nothing is said about it.
    pub capacity: Option<Vec<(Str, Quantity)>>,
}

/// How many devices are requested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AllocationMode {
    /// This many.
    ExactCount(i64),
    /// All that match.
    All,
    /// A word of a later release.
    Other(Str),
}

impl Default for AllocationMode {
    fn default() -> Self {
        AllocationMode::ExactCount(1)
    }
}

/// A condition on devices together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Constraint {
    /// The requests that it is about, as `REQUEST` or `REQUEST/SUBREQUEST`; empty for all.
    pub requests: Vec<Str>,
    /// The condition.
    pub kind: ConstraintKind,
}

/// A condition on devices together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConstraintKind {
    /// None that is known.
    #[default]
    Unknown,
    /// All have the same value of this attribute, whose name has a domain.
    MatchAttribute(Str),
    /// All have different values of this attribute.
    DistinctAttribute(Str),
}

/// A configuration for a driver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceConfig {
    /// The requests that it is for, as `REQUEST` or `REQUEST/SUBREQUEST`; empty for all.
    pub requests: Vec<Str>,
    /// The configuration; `None` for one of an unknown kind.
    pub opaque: Option<OpaqueConfig>,
}

/// A configuration that only the driver understands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpaqueConfig {
    /// The driver.
    pub driver: Str,
    /// The parameters as JSON.
    pub parameters: Box<str>,
}

/// What a driver reports about an allocated device (`status.devices`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceStatus {
    /// The driver.
    pub driver: Str,
    /// The pool.
    pub pool: Str,
    /// The name of the device.
    pub device: Str,
    /// Its conditions.
    pub conditions: Vec<DeviceCondition>,
}

/// A condition of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceCondition {
    /// What it is about.
    pub name: Str,
    /// Whether it is true; `False` and `Unknown` are not.
    pub is_true: bool,
    /// Why.
    pub reason: Str,
    /// Why, for a person.
    pub message: Str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_made_for_the_pod_that_is_its_controller() {
        let owner = |uid: &str| Controller {
            api_version: "v1".into(),
            kind: "Pod".into(),
            name: "p".into(),
            uid: uid.into(),
        };
        let claim = ResourceClaim {
            key: ObjectKey::new("a", "c"),
            controller: Some(owner("u")),
            reserved_for: vec![ClaimConsumer { uid: "v".into(), ..ClaimConsumer::default() }],
            ..ResourceClaim::default()
        };
        let pod = |namespace: &str, uid: &str| Pod {
            key: ObjectKey::new(namespace, "p"),
            uid: uid.into(),
            ..Pod::default()
        };
        assert!(claim.is_made_for(&pod("a", "u")));
        assert!(!claim.is_made_for(&pod("a", "v")) && !claim.is_made_for(&pod("b", "u")));
        assert!(claim.is_reserved_for(&pod("a", "v")) && !claim.is_reserved_for(&pod("a", "u")));
    }
}
