//! Pods, nodes and related objects, with the fields that scheduling reads.
//!
//! The types are plain values. [`wire`] parses, defaults and sorts everything once; no other code
//! checks a value again.
//!
//! Their serde form is for recordings, in a binary format. It is not the form of objects on the wire.
#![warn(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod devices;
pub mod edition;
pub mod features;
mod footprint;
pub mod images;
pub mod kind;
pub mod label_syntax;
pub mod labels;
mod memo_cell;
pub mod node;
pub mod node_selector;
mod object_meta;
pub mod object_stores;
pub mod pod;
pub mod pod_affinity;
pub mod pod_group;
pub mod pod_template;
pub mod ports;
pub mod quantity;
pub mod release;
pub mod requests;
pub mod resources;
pub mod scalars;
pub mod storage;
pub mod store;
pub mod taints;
pub mod templates;
mod timestamp;
mod topology_spread;
pub mod volume_source;
pub mod volumes;
pub mod wire;
pub mod workload;

pub use devices::{
    DeviceClass, DeviceTaintRule, PodDevices, PodResourceClaim, ResourceClaim,
    ResourceClaimTemplate, ResourceSlice,
};
pub use edition::{Edition, Unscheduled};
pub use images::{NodeImage, PodImages, normalized_image_name};
pub use jiff::Timestamp;
pub use kind::{AnyObject, Kind, KindRef, Kinds};
pub use labels::{Labels, Requirement, Selector, Test};
pub use memo_cell::MemoCell;
pub use node::{AvoidedController, Node};
pub use node_selector::{NodeSelection, NodeSelectorTerm, PreferredNodes};
pub use object_meta::ObjectMeta;
pub use object_stores::{Derived, Histories, ObjectStores};
pub use pod::{Pod, PodKey, PodPhase};
pub use pod_affinity::{AffinityTerm, PodAffinity, WeightedTerm};
pub use pod_group::{CompositePodGroup, PodGroup};
pub use pod_template::{Controller, PodTemplate, PreemptionPolicy};
pub use ports::HostPort;
pub use quantity::{Quantity, QuantityError};
pub use release::{Release, ReleaseError};
pub use requests::{Asks, Limits, NonZero};
pub use resources::Resources;
pub use scalars::Scalars;
pub use storage::{
    Attached, BindingMode, CsiDriver, CsiNode, CsiNodeDriver, CsiStorageCapacity, StorageClass,
    VolumeAttachment,
};
pub use store::{AnyEntry, AnyVersions, KeyRef, Store, StoreEntry, Versions};
pub use taints::{Comparison, Comparisons, Effect, Taint, Toleration};
pub use templates::Templates;
pub use topology_spread::{SpreadConstraint, WhenUnsatisfiable};
pub use volume_source::{PodVolume, PodVolumeKind, VolumeSource};
pub use volumes::{
    AccessModes, ClaimPhase, ClaimRef, PersistentVolume, PersistentVolumeClaim, VolumeMode,
    VolumePhase,
};
pub use workload::{
    Namespace, ObjectKey, PodDisruptionBudget, ReplicaSet, ReplicationController, SelectingKind,
    Service, StatefulSet,
};

/// A short string: names, label keys and values. Up to 24 bytes live inline.
pub type Str = compact_str::CompactString;
