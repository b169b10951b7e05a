//! Claims on devices.

use serde::{Deserialize, Serialize};

use super::{Allocation, DeviceToleration};
use crate::{Controller, ObjectKey, Pod, PodGroup, PodKey, Quantity, Str, Timestamp};

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
    /// The pods and groups of pods that may use it.
    pub reserved_for: Vec<ClaimConsumer>,
    /// What drivers report about the allocated devices.
    pub devices: Vec<DeviceStatus>,
    /// The uids of the pods for which the scheduler is about to write it, in the order in which they were placed; empty
    /// unless it is assumed.
    #[serde(skip)]
    pub holders: Vec<Str>,
    /// The uids of those that were given up while their write of the devices was on its way: it may take effect yet.
    #[serde(skip)]
    pub late_writers: Vec<Str>,
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

    /// Whether `pod` may use it. As in resourceclaim.go, IsReservedForPod, without groups.
    pub fn is_reserved_for(&self, pod: &Pod) -> bool {
        self.reserved_for.iter().any(|one| one.uid == pod.uid)
    }

    /// Whether all pods of the group of this name may use it, which is in its namespace. As in resourceclaim.go,
    /// IsReservedForPod: a pod does not know the uid of its group.
    pub fn is_reserved_for_group(&self, name: &str) -> bool {
        self.reserved_for.iter().any(|one| one.is_group() && one.name == name)
    }

    /// Whether it was made for `pod`. As in resourceclaim.go, IsForPod, without groups.
    pub fn is_made_for(&self, pod: &Pod) -> bool {
        self.key.namespace == pod.key.namespace
            && self.controller.as_ref().is_some_and(|owner| owner.uid == pod.uid)
    }

    /// Whether it was made for the group of this name, which is in its namespace. As in resourceclaim.go,
    /// isForPodGroupByPod: the version of the owner does not matter.
    pub fn is_made_for_group(&self, name: &str) -> bool {
        let group = format!("{GROUPS}/");
        self.controller.as_ref().is_some_and(|owner| {
            owner.name == name && owner.kind == "PodGroup" && owner.api_version.starts_with(&group)
        })
    }
}

/// The API group of groups of pods.
const GROUPS: &str = "scheduling.k8s.io";

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

impl ClaimConsumer {
    /// A pod.
    pub fn pod(key: &PodKey, uid: &Str) -> Self {
        ClaimConsumer {
            api_group: Str::default(),
            resource: Str::const_new("pods"),
            name: key.name.clone(),
            uid: uid.clone(),
        }
    }

    /// All pods of a group.
    pub fn group(group: &PodGroup) -> Self {
        ClaimConsumer {
            api_group: Str::const_new(GROUPS),
            resource: Str::const_new("podgroups"),
            name: group.key.name.clone(),
            uid: group.uid.clone(),
        }
    }

    /// Whether it is a group of pods.
    pub fn is_group(&self) -> bool {
        self.api_group == GROUPS && self.resource == "podgroups"
    }
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

    #[test]
    fn a_pod_knows_the_claims_of_its_group_by_name() {
        let owner = |api_version: &str, kind: &str| Controller {
            api_version: api_version.into(),
            kind: kind.into(),
            name: "train".into(),
            uid: "g".into(),
        };
        let made = |api_version: &str, kind: &str| {
            let controller = Some(owner(api_version, kind));
            ResourceClaim { controller, ..ResourceClaim::default() }
        };
        for version in ["scheduling.k8s.io/v1alpha2", "scheduling.k8s.io/v1beta1"] {
            let claim = made(version, "PodGroup");
            assert!(claim.is_made_for_group("train") && !claim.is_made_for_group("other"));
        }
        assert!(!made("scheduling.k8s.io/v1beta1", "Workload").is_made_for_group("train"));
        assert!(!made("scheduling.x-k8s.io/v1alpha1", "PodGroup").is_made_for_group("train"));
        let key = ObjectKey::new("a", "train");
        let group = PodGroup { key, uid: "g".into(), ..PodGroup::default() };
        let reserved_for = vec![ClaimConsumer::group(&group)];
        let claim = ResourceClaim { reserved_for, ..ResourceClaim::default() };
        assert!(claim.is_reserved_for_group("train") && !claim.is_reserved_for_group("other"));
        let pod = ClaimConsumer::pod(&PodKey::new("a", "train"), &"p".into());
        let claim = ResourceClaim { reserved_for: vec![pod], ..ResourceClaim::default() };
        assert!(!claim.is_reserved_for_group("train"));
    }
}
