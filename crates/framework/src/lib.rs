//! The extension points of the scheduling framework. A plugin needs no other crate, except `serde` if it takes args.
//! The crate `plimsoll` exports this one as `plimsoll::framework`, for plugins that are built into their own scheduler.
//!
//! # Writing a plugin
//!
//! 1. Make a type and implement [`Plugin`]: its name, its args, and how it is made.
//! 2. Implement the extension points at which it decides something. There are two levels of filters:
//!    [`Filter`] judges a pod and a node, [`PreFilter`] a pod, a node and a state. There are two levels of
//!    scores in the same way: [`Score`] and [`PreScore`].
//! 3. Say in the associated types what it reads: a *part* of the pod, of the node, of the cluster,
//!    or a tuple of parts. The parts are handed to the methods; nothing else can be read.
//! 4. Say in [`Plugin::validate`] which args are valid, if serde cannot tell: the scheduler reports each fault
//!    with the file, the line and the field.
//! 5. List its points in an [`Entry`], and add the entry to a [`Registry`].
//! 6. If it is slow, state its rule as amounts or counts, too: see [`accelerate`]. This changes no decision.
//!
//! ```
//! use plimsoll_framework::prelude::*;
//!
//! /// Keeps pods off nodes that are being drained.
//! struct Drain;
//!
//! impl Plugin for Drain {
//!     const NAME: &'static str = "Drain";
//!     type Args = NoArgs;
//!     fn new(_: NoArgs, _: &FeatureGates) -> Self {
//!         Drain
//!     }
//! }
//!
//! impl Filter for Drain {
//!     type Pod = (); // reads nothing of the pod
//!     type Node = Labels; // asked again only about nodes whose labels change
//!     fn filter(&self, (): (), labels: &Labels) -> Verdict {
//!         match labels.get("example.com/drain") {
//!             Some(_) => Verdict::unresolvable("node(s) were being drained"),
//!             None => Verdict::Pass,
//!         }
//!     }
//! }
//!
//! let entry = Entry::of::<Drain>().filter().done();
//! assert_eq!(entry.name(), "Drain");
//! ```
//!
//! If a method's parameter does not fit the associated type, change the associated type: that is
//! what the plugin reads, whatever the compiler's help suggests.
//!
//! The engine derives from what a plugin reads when a pod that the plugin rejected is worth another attempt.
//! If that is not right for your plugin, implement [`Requeue`].
#![warn(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod accelerate;
pub mod args;
pub mod binding;
mod binding_points;
mod candidate_nodes;
pub mod columns;
pub mod cycle_state;
pub mod describe;
pub mod domains;
mod duration;
pub mod enqueue;
mod erased;
pub mod events;
pub mod filter;
mod group_points;
mod judging_points;
mod labelled_pods;
pub mod math;
pub mod metrics;
mod node_counts;
pub mod nominated;
pub mod parts;
pub mod plugin;
pub mod pod_events;
pub mod pod_groups;
pub mod pod_info;
pub mod pod_set;
mod point;
pub mod points;
pub mod post_filter;
mod post_filter_points;
pub mod prioritize;
mod profile_spec;
pub mod provide;
mod reads;
pub mod registry;
pub mod score;
mod sort_key;
pub mod status;
pub mod stores;
pub mod supply;
pub mod time;
mod verdict_key;
pub mod view;
pub mod volume_use;
pub mod writes;

pub use accelerate::{
    FilterByAmounts, FilterByCounts, FilterByKey, ScoreByAmounts, ScoreByCounts, ScoreByNode,
    ScoreOnDemand,
};
pub use args::{ArgsFault, ArgsFaults, ArgsField, ArgsForm};
pub use binding::{
    Assume, Assumption, Bind, Binding, Handle, Permission, Permit, Placement, PodsToActivate,
    PostBind, PreBind, Readiness, Reserve, WaitingDecision, WaitingPod, WaitingPods,
};
pub use candidate_nodes::CandidateNode;
pub use columns::{Allocatable, Columns, NonZeroRequested, Requested, Row, RowPods};
pub use cycle_state::CycleState;
pub use describe::{AttemptEnd, AttemptOutcome, Describe, Description, Scope};
pub use domains::{
    ByDomain, CountHistogram, CountedNodes, Counting, DomainCounter, DomainFilter, DomainScore,
    DomainTerm, Neighbour, Neighbours, NormalizeByGroup, ScoredGroup, TermCount, TermTotals,
    TopologyKey,
};
pub use duration::{DurationError, GoDuration};
pub use enqueue::{Gate, PreEnqueue, QueueSort, QueuedPod, Requeue};
pub use erased::{ByRow, OnDemand, Prepared, RowScore};
pub use events::{Action, Change, ClusterEvent, Hint};
pub use filter::{
    Candidates, Filter, LabelledNodes, PodChange, PreFilter, ShareFilterState, Update, Verdict,
};
pub use labelled_pods::{LabelledGroup, LabelledPods};
pub use metrics::{Counter, Gauge, Histogram, Metrics};
pub use node_counts::NodeCount;
pub use nominated::NominatedPods;
pub use parts::{
    Annotations, AvoidedControllers, BalanceRequests, ClaimStatuses, ClusterPart, DeclaredFeatures,
    DisruptionBudgets, Feasible, HostPorts, Images, Name, Namespaces, NodeImages, NodePart, Nodes,
    NodesRef, NonZeroRequests, Now, Objects, ObjectsOf, OverheadMilliCpu, Owner, Part, PinnedNode,
    PodContainers, PodNamespace, PodPart, PodUid, PodVolumes, Pods, Priority, ProvidedResources,
    Reads, Ref, Requests, RequiredFeatures, ResourceClaims, ResourcesInput, RoomRequests,
    SchedulingGates, SchedulingGroup, SelectingObjects, Shared, Spread, Taints, Tolerations,
    Unschedulable, UsedPorts, Volumes,
};
pub use plimsoll_api::{Release, ReleaseError};
pub use plugin::{FeatureGates, NoArgs, Plugin};
pub use pod_events::{EventRecorder, PodEvent, PodEventKind};
pub use pod_groups::{
    GroupDryRun, GroupForest, GroupGates, GroupInCycle, GroupMisfit, GroupPlacement,
    GroupPostFilter, GroupPostFilterAnswer, GroupRef, GroupRemedy, GroupRules,
    PlacementFeasibility, PlacementFeasible, PlacementGenerate, PlacementProgress, PlacementScore,
    PodGroupState, PodGroupStates, ProposedPlacement,
};
pub use pod_info::PodInfo;
pub use pod_set::{PodSet, Replicas};
pub use points::{ErasedByNode, Held, Point, Points, PreBindPoint};
pub use post_filter::{
    AfterPostFilter, DryRun, FoundPlaces, NodeDryRun, NodeRejection, Nomination, PostFilter,
    PostFilterAnswer, PostFilterByNode, PreemptionCandidate, PreemptionCandidates, PreemptionCost,
};
pub use prioritize::{Prioritize, Prioritized};
pub use profile_spec::ProfileSpec;
pub use provide::ProvidesResources;
pub use registry::{ArgsError, Builder, Entry, Registry};
pub use score::{MAX_NODE_SCORE, Normalize, PreScore, Score, Scored, ShareScoreState};
pub use sort_key::SortKey;
pub use status::{Code, Reason, Rejection};
pub use stores::{
    ImageStore, KeptVolumes, NamespaceStore, PdbStore, RefusedEvictions, SelectingStore, Stores,
    VolumeStore,
};
pub use supply::{NEVER, Needs, ScoreBound, Stock, Supply};
pub use time::Time;
pub use verdict_key::{ConcernPoint, ConcernedNodes, VerdictKey};
pub use view::View;
pub use volume_use::{VolumeNumbers, VolumesInUse};
pub use writes::{
    Answered, Json, ObjectWrite, WriteCause, WriteError, WriteVerb, WriteVerbs, Writes,
};

/// The rules for keys and values of labels.
pub use plimsoll_api::label_syntax;

/// Everything a plugin needs.
pub mod prelude {
    pub use crate::*;
    pub use plimsoll_api::wire::{Manifest, WireError};
    pub use plimsoll_api::{
        AccessModes, AffinityTerm, AnyObject, AnyVersions, Asks, Attached, AvoidedController,
        BindingMode, ClaimPhase, ClaimRef, Comparison, Comparisons, CompositePodGroup, Controller,
        CsiDriver, CsiNode, CsiNodeDriver, CsiStorageCapacity, DeviceClass, DeviceTaintRule,
        Effect, HostPort, KeyRef, Kind, KindRef, Labels, Limits, Namespace, Node, NodeImage,
        NodeSelection, NonZero, ObjectKey, ObjectMeta, PersistentVolume, PersistentVolumeClaim,
        Pod, PodAffinity, PodDevices, PodDisruptionBudget, PodGroup, PodImages, PodKey,
        PodResourceClaim, PodTemplate, PodVolume, PodVolumeKind, PreemptionPolicy, PreferredNodes,
        ReplicaSet, ReplicationController, Requirement, ResourceClaim, ResourceSlice, Resources,
        SelectingKind, Selector, Service, SpreadConstraint, StatefulSet, StorageClass, Store, Str,
        Taint, Test, Toleration, Versions, VolumeAttachment, VolumeMode, VolumePhase, VolumeSource,
        WeightedTerm, WhenUnsatisfiable,
    };
    pub use smallvec::{SmallVec, smallvec};
}
