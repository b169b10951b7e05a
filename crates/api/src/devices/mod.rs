//! Devices and claims on them: the objects of `resource.k8s.io` (dynamic resource allocation).
//!
//! A claim, a class or a slice may say something that this release does not know, such as an allocation mode of a
//! later one. That is a matter of the pods that need the object. So such a value is kept as it is written, and whoever
//! allocates devices reports it.

mod allocation;
mod claim;
mod class;
mod node_selector;
mod pod;
mod slice;
mod taint;

pub use allocation::{Allocation, AllocationConfig, ConfigSource, DeviceResult};
pub use claim::{
    AllocationMode, ClaimConsumer, ClaimSpec, Constraint, ConstraintKind, DeviceAsk,
    DeviceCondition, DeviceConfig, DeviceRequest, DeviceStatus, OpaqueConfig, RequestKind,
    ResourceClaim, ResourceClaimTemplate, SubRequest,
};
pub use class::DeviceClass;
pub use node_selector::{DeviceNodeSelector, DeviceNodeTerm, WrittenRequirement};
pub use pod::{
    ClaimSource, ContainerDevices, ContainerResourceClaim, ContainerRun, ExtendedClaimStatus,
    ExtendedRequest, NodeAllocatableClaimStatus, PodClaimStatus, PodDevices, PodResourceClaim,
};
pub use slice::{
    AttributeValue, CapacityPolicy, CapacityRange, CounterConsumption, CounterSet, Device,
    DeviceCapacity, DeviceNodes, NodeAllocatableMapping, ResourceSlice,
};
pub use taint::{DeviceTaint, DeviceTaintRule, DeviceToleration, TolerationOperator};
