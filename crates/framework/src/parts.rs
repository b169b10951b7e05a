//! Parts: what a plugin may read. A plugin names a part in an associated type of a trait. It is then given the data,
//! and the engine knows that the plugin depends on it. A plugin cannot read what it has not named.

use std::collections::BTreeSet;
use std::marker::PhantomData;

use plimsoll_api::devices::ContainerDevices;
use plimsoll_api::requests::PodResourcesInput;
use plimsoll_api::{
    AvoidedController, Controller, CsiDriver, CsiNode, CsiStorageCapacity, HostPort, Kind, KindRef,
    Labels, Limits, Namespace, NodeImage, NodeSelection, NonZero, ObjectStores, PersistentVolume,
    PersistentVolumeClaim, PodAffinity, PodDevices, PodDisruptionBudget, PodImages, PodKey,
    PodResourceClaim, PodVolume, PreferredNodes, ReplicaSet, ReplicationController, Resources,
    Service, SpreadConstraint, StatefulSet, StorageClass, Store, Str, Taint, Toleration,
    VolumeAttachment,
};

use crate::columns::{Allocatable, Columns, NonZeroRequested, Requested, Row};
use crate::cycle_state::CycleState;
use crate::labelled_pods::LabelledPods;
use crate::pod_groups::PodGroupStates;
use crate::pod_info::PodInfo;
use crate::pod_set::PodSet;
pub use crate::reads::{ClusterReads, NodeReads, PodReads, Reads, StoreReads};
use crate::stores::{ImageStore, RefusedEvictions, SelectingStore, VolumeStore};
use crate::time::Time;
use crate::view::View;
use crate::volume_use::VolumesInUse;

mod sealed {
    /// Only this crate defines parts: a part from elsewhere could read more than it declares.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` is not a part, and only the framework defines parts",
        label = "not a part"
    )]
    pub trait Sealed {}
}
use sealed::Sealed;

/// Something a plugin may read.
#[diagnostic::on_unimplemented(message = "`{Self}` is not a part", label = "not a part")]
pub trait Part: Sealed + Sized + 'static {
    /// The type in which a plugin is given it.
    type Ref<'a>: Copy;
}

/// The type in which a plugin is given part `P`.
pub type Ref<'a, P> = <P as Part>::Ref<'a>;

/// A part of the pod that is being scheduled.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a part of a pod",
    label = "not a part of a pod",
    note = "write `type Pod = ();` if you read nothing of the pod"
)]
pub trait PodPart: Part {
    /// What is read.
    const READS: PodReads;
    /// The part of `pod`.
    fn of<'a>(pod: &'a PodInfo, shared: &'a CycleState) -> Ref<'a, Self>;
}

/// A part of a node.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a part of a node",
    label = "not a part of a node",
    note = "write `type Node = ();` if you read nothing of the node"
)]
pub trait NodePart: Part {
    /// What is read.
    const READS: NodeReads;
    /// The part of the node in `row`.
    fn at(nodes: &Columns, row: Row) -> Ref<'_, Self>;
}

/// A part of the cluster as a whole.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a part of the cluster",
    label = "not a part of the cluster",
    note = "to read every node, write `Nodes<{Self}>`; write `type Cluster = ();` if you read nothing else"
)]
pub trait ClusterPart: Part {
    /// What is read.
    const READS: ClusterReads;
    /// The part of the cluster in `view`.
    fn of<'a>(view: &View<'a>) -> Ref<'a, Self>;
    /// The kinds of objects that are read.
    fn kinds() -> Vec<KindRef> {
        Vec::new()
    }
}

macro_rules! pod_part {
    ($(#[$doc:meta])* new $part:ident as $ref:ty, $flag:ident, |$pod:ident, $shared:ident| $of:expr) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub enum $part {}
        impl Sealed for $part {}
        impl Part for $part { type Ref<'a> = $ref; }
        pod_part! { $part, $flag, |$pod, $shared| $of }
    };
    ($part:ident, $flag:ident, |$pod:ident, $shared:ident| $of:expr) => {
        impl PodPart for $part {
            const READS: PodReads = PodReads::$flag;
            #[inline]
            fn of<'a>($pod: &'a PodInfo, $shared: &'a CycleState) -> Ref<'a, Self> { $of }
        }
    };
}

macro_rules! node_part {
    ($(#[$doc:meta])* new $part:ident as $ref:ty, $flag:ident, |$nodes:ident, $row:ident| $of:expr) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub enum $part {}
        impl Sealed for $part {}
        impl Part for $part { type Ref<'a> = $ref; }
        node_part! { $part, $flag, |$nodes, $row| $of }
    };
    ($part:ident, $flag:ident, |$nodes:ident, $row:ident| $of:expr) => {
        impl NodePart for $part {
            const READS: NodeReads = NodeReads::$flag;
            #[inline]
            fn at($nodes: &Columns, $row: Row) -> Ref<'_, Self> { $of }
        }
    };
}

/// Parts that are given as a reference to themselves.
macro_rules! value_part {
    ($($part:ty),* $(,)?) => { $(
        impl Sealed for $part {}
        impl Part for $part { type Ref<'a> = &'a $part; }
    )* };
}

value_part!(
    PodKey,
    Labels,
    NodeSelection,
    PreferredNodes,
    PodAffinity,
    PodImages,
    Limits,
    Allocatable,
    Requested,
    NonZeroRequested,
);

pod_part! { PodKey, KEY, |pod, _shared| &pod.key }
pod_part! { Labels, LABELS, |pod, _shared| &pod.labels }
pod_part! { NodeSelection, NODE_SELECTION, |pod, _shared| &pod.node_selection }
pod_part! { PreferredNodes, PREFERRED_NODES, |pod, _shared| &pod.preferred_nodes }
pod_part! { PodAffinity, POD_AFFINITY, |pod, _shared| &pod.affinity }
pod_part! { PodImages, IMAGES, |pod, _shared| &pod.images }
pod_part! { Limits, LIMITS, |pod, _shared| &pod.asks.limits }
pod_part! {
    /// The namespace of the pod.
    new PodNamespace as &'a Str, NAMESPACE, |pod, _shared| &pod.key.namespace
}
pod_part! {
    /// The unique identity of the pod.
    new PodUid as &'a Str, UID, |pod, _shared| &pod.uid
}
pod_part! {
    /// The node that the pod asks for by name.
    new PinnedNode as Option<&'a Str>, PINNED_NODE, |pod, _shared| pod.node()
}
pod_part! {
    /// The tolerations of the pod.
    new Tolerations as &'a [Toleration], TOLERATIONS, |pod, _shared| &pod.tolerations
}
pod_part! {
    /// The topology spread constraints of the pod.
    new Spread as &'a [SpreadConstraint], SPREAD, |pod, _shared| &pod.spread
}
pod_part! {
    /// What the pod requests: it must fit on the node.
    new Requests as &'a Resources, REQUESTS, |pod, _shared| &pod.asks.fit
}
pod_part! {
    /// The resources of its containers and of the pod as a whole; `None` if what it requests depends neither on feature
    /// gates nor on its status.
    new ResourcesInput as Option<&'a PodResourcesInput>, REQUESTS, |pod, _shared| pod.resources.as_deref()
}
pod_part! {
    /// What the pod requests, as counted when the balance of a node is scored.
    new BalanceRequests as &'a Resources, REQUESTS, |pod, _shared| &pod.asks.balance
}
pod_part! {
    /// What the pod requests, as counted when the room on a node is scored.
    new RoomRequests as &'a Resources, REQUESTS, |pod, _shared| &pod.asks.room
}
pod_part! {
    /// The same for CPU and memory, with a default for containers that request nothing.
    new NonZeroRequests as &'a NonZero, REQUESTS, |pod, _shared| &pod.asks.room_non_zero
}
pod_part! {
        /// The CPU overhead of the pod, in thousandths of a core. All of these requests include it.
    new OverheadMilliCpu as i64, REQUESTS, |pod, _shared| pod.asks.overhead_milli_cpu
}
pod_part! {
    /// The host ports that the pod requests.
    new HostPorts as &'a [HostPort], HOST_PORTS, |pod, _shared| &pod.host_ports
}
pod_part! {
    /// The node features that the pod needs.
    new RequiredFeatures as &'a [Str], REQUIRED_FEATURES, |pod, _shared| &pod.required_features
}
pod_part! {
    /// The priority of the pod.
    new Priority as i32, PRIORITY, |pod, _shared| pod.priority
}
pod_part! {
    /// The gates that keep the pod from being scheduled.
    new SchedulingGates as &'a [Str], SCHEDULING_GATES, |pod, _shared| &pod.scheduling_gates
}
pod_part! {
    /// The name of the group of pods to which the pod belongs.
    new SchedulingGroup as Option<&'a Str>, SCHEDULING_GROUP, |pod, _shared| pod.scheduling_group.as_ref()
}
pod_part! {
    /// The controller that owns the pod.
    new Owner as Option<&'a Controller>, CONTROLLER, |pod, _shared| pod.controller.as_ref()
}
pod_part! {
    /// The volumes of the pod.
    new PodVolumes as &'a [PodVolume], VOLUMES, |pod, _shared| &pod.volumes
}
pod_part! {
    /// The resource claims of the pod.
    new ResourceClaims as &'a [PodResourceClaim], RESOURCE_CLAIMS, |pod, _shared| &pod.resource_claims
}
pod_part! {
    /// What the status of the pod says about claims on devices.
    new ClaimStatuses as Option<&'a PodDevices>, RESOURCE_CLAIMS, |pod, _shared| pod.devices.as_deref()
}
pod_part! {
    /// The claims on devices that each container uses.
    new PodContainers as &'a [ContainerDevices], RESOURCE_CLAIMS, |pod, _shared| &pod.container_devices
}
pod_part! {
    /// What plugins share in this cycle. A plugin that reads it is asked again in every cycle.
    new Shared as &'a CycleState, SHARED, |_pod, shared| shared
}

/// Annotations, of a pod or of a node.
#[derive(Debug)]
pub enum Annotations {}
impl Sealed for Annotations {}
impl Part for Annotations {
    type Ref<'a> = &'a Labels;
}
pod_part! { Annotations, ANNOTATIONS, |pod, _shared| &pod.annotations }
node_part! { Annotations, ANNOTATIONS, |nodes, row| nodes.annotations.at(row) }

node_part! { Labels, LABELS, |nodes, row| nodes.labels.at(row) }
node_part! { Allocatable, ALLOCATABLE, |nodes, row| nodes.allocatable.at(row) }
node_part! { Requested, REQUESTED, |nodes, row| nodes.requested.at(row) }
node_part! { NonZeroRequested, NON_ZERO_REQUESTED, |nodes, row| nodes.non_zero_requested.at(row) }
node_part! {
    /// The name of the node.
    new Name as &'a Str, NAME, |nodes, row| nodes.name.at(row)
}
node_part! {
    /// The controllers whose pods the node would rather not have, according to its annotation.
    new AvoidedControllers as &'a [AvoidedController], ANNOTATIONS, |nodes, row| nodes.avoided.at(row)
}
node_part! {
    /// The taints of the node.
    new Taints as &'a [Taint], TAINTS, |nodes, row| nodes.taints.at(row)
}
node_part! {
    /// Whether the node is cordoned.
    new Unschedulable as bool, UNSCHEDULABLE, |nodes, row| *nodes.unschedulable.at(row)
}
node_part! {
    /// The images on the node.
    new NodeImages as &'a [NodeImage], IMAGES, |nodes, row| nodes.images.at(row)
}
node_part! {
    /// The features that the node declares.
    new DeclaredFeatures as &'a [Str], FEATURES, |nodes, row| nodes.declared_features.at(row)
}
node_part! {
    /// The host ports that pods on the node use.
    new UsedPorts as &'a [HostPort], USED_PORTS, |nodes, row| nodes.used_ports.at(row)
}
node_part! {
    /// The pods on the node. All parts of these pods may be read.
    new Pods as &'a PodSet, PODS, |nodes, row| nodes.pods_on(row)
}

node_part! {
    /// The resources for which something else than a node [stands](crate::ProvidesResources); the same for all nodes.
    new ProvidedResources as &'a BTreeSet<Str>, ALLOCATABLE, |nodes, _row| nodes.provided()
}

/// All objects of one kind.
#[derive(Debug)]
pub struct Objects<K>(PhantomData<fn() -> K>);
impl<K: Kind> Sealed for Objects<K> {}
impl<K: Kind> Part for Objects<K> {
    type Ref<'a> = &'a Store<K>;
}
impl<K: Kind> ClusterPart for Objects<K> {
    const READS: ClusterReads =
        ClusterReads { nodes: NodeReads::empty(), stores: StoreReads::of::<K>() };
    #[inline]
    fn of<'a>(view: &View<'a>) -> Ref<'a, Self> {
        view.stores.objects.of()
    }
    fn kinds() -> Vec<KindRef> {
        vec![KindRef::of::<K>()]
    }
}

/// The namespaces with their labels.
pub type Namespaces = Objects<Namespace>;

/// PodDisruptionBudgets.
pub type DisruptionBudgets = Objects<PodDisruptionBudget>;

/// Objects of several kinds, and what is [derived](ObjectStores::derived) from them. `C` names the kinds.
#[derive(Debug)]
pub struct ObjectsOf<C>(PhantomData<fn() -> C>);
impl<C: ClusterPart> Sealed for ObjectsOf<C> {}
impl<C: ClusterPart> Part for ObjectsOf<C> {
    type Ref<'a> = &'a ObjectStores;
}
impl<C: ClusterPart> ClusterPart for ObjectsOf<C> {
    const READS: ClusterReads = C::READS;
    #[inline]
    fn of<'a>(view: &View<'a>) -> Ref<'a, Self> {
        &view.stores.objects
    }
    fn kinds() -> Vec<KindRef> {
        C::kinds()
    }
}

/// Services, ReplicationControllers, ReplicaSets and StatefulSets with their selectors.
#[derive(Debug)]
pub enum SelectingObjects {}
type Selecting =
    (Objects<Service>, Objects<ReplicationController>, Objects<ReplicaSet>, Objects<StatefulSet>);
impl Sealed for SelectingObjects {}
impl Part for SelectingObjects {
    type Ref<'a> = SelectingStore<'a>;
}
impl ClusterPart for SelectingObjects {
    const READS: ClusterReads = Selecting::READS;
    #[inline]
    fn of<'a>(view: &View<'a>) -> Ref<'a, Self> {
        SelectingStore::of(view.stores)
    }
    fn kinds() -> Vec<KindRef> {
        Selecting::kinds()
    }
}

/// Volumes, the claims on them, and what provides them. A state may keep them.
#[derive(Debug)]
pub enum Volumes {}
type OfVolumes = (
    (Objects<PersistentVolume>, Objects<PersistentVolumeClaim>, Objects<StorageClass>),
    (Objects<CsiNode>, Objects<CsiDriver>, Objects<CsiStorageCapacity>, Objects<VolumeAttachment>),
);
impl Sealed for Volumes {}
impl Part for Volumes {
    type Ref<'a> = VolumeStore<'a>;
}
impl ClusterPart for Volumes {
    const READS: ClusterReads = OfVolumes::READS;
    #[inline]
    fn of<'a>(view: &View<'a>) -> Ref<'a, Self> {
        VolumeStore::of(view.stores)
    }
    fn kinds() -> Vec<KindRef> {
        OfVolumes::kinds()
    }
}

impl Sealed for VolumesInUse {}
impl Part for VolumesInUse {
    type Ref<'a> = &'a VolumesInUse;
}
impl ClusterPart for VolumesInUse {
    const READS: ClusterReads = <Nodes<Pods> as ClusterPart>::READS;
    #[inline]
    fn of<'a>(view: &View<'a>) -> Ref<'a, Self> {
        &view.nodes.volumes_in_use
    }
}

/// The images, with the number of nodes that hold each.
#[derive(Debug)]
pub enum Images {}
impl Sealed for Images {}
impl Part for Images {
    type Ref<'a> = &'a ImageStore;
}
impl ClusterPart for Images {
    const READS: ClusterReads =
        ClusterReads { nodes: NodeReads::empty(), stores: StoreReads::IMAGES };
    #[inline]
    fn of<'a>(view: &View<'a>) -> Ref<'a, Self> {
        &view.stores.images
    }
}

impl Sealed for PodGroupStates {}
impl Part for PodGroupStates {
    type Ref<'a> = &'a PodGroupStates;
}
impl ClusterPart for PodGroupStates {
    const READS: ClusterReads =
        ClusterReads { nodes: NodeReads::empty(), stores: StoreReads::GROUPS };
    #[inline]
    fn of<'a>(view: &View<'a>) -> Ref<'a, Self> {
        &view.stores.groups
    }
}

impl Sealed for LabelledPods {}
impl Part for LabelledPods {
    type Ref<'a> = &'a LabelledPods;
}
impl ClusterPart for LabelledPods {
    const READS: ClusterReads =
        ClusterReads { nodes: NodeReads::empty(), stores: StoreReads::GROUPS };
    #[inline]
    fn of<'a>(view: &View<'a>) -> Ref<'a, Self> {
        &view.stores.labelled
    }
}

impl Sealed for RefusedEvictions {}
impl Part for RefusedEvictions {
    type Ref<'a> = &'a RefusedEvictions;
}
impl ClusterPart for RefusedEvictions {
    const READS: ClusterReads =
        ClusterReads { nodes: NodeReads::empty(), stores: StoreReads::REFUSED_EVICTIONS };
    #[inline]
    fn of<'a>(view: &View<'a>) -> Ref<'a, Self> {
        &view.stores.refused
    }
}

/// The current time of the scheduler; virtual time in a simulation. Its change alone wakes no pod: a plugin whose
/// answer changes with time only needs a [queueing hint](crate::Requeue) for what else changes.
#[derive(Debug)]
pub enum Now {}
impl Sealed for Now {}
impl Part for Now {
    type Ref<'a> = Time;
}
impl ClusterPart for Now {
    const READS: ClusterReads =
        ClusterReads { nodes: NodeReads::empty(), stores: StoreReads::empty() };
    #[inline]
    fn of<'a>(view: &View<'a>) -> Ref<'a, Self> {
        view.stores.now
    }
}

/// Every node: the part `N` of each.
#[derive(Debug)]
pub struct Nodes<N>(PhantomData<fn() -> N>);

/// Iterates over a part of every node.
#[derive(Debug)]
pub struct NodesRef<'a, N> {
    nodes: &'a Columns,
    part: PhantomData<fn() -> N>,
}

impl<N> Clone for NodesRef<'_, N> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<N> Copy for NodesRef<'_, N> {}

impl<'a, N: NodePart> NodesRef<'a, N> {
    /// The part of each node, in the order of their rows.
    pub fn iter(self) -> impl Iterator<Item = Ref<'a, N>> {
        self.nodes.rows().map(move |row| N::at(self.nodes, row))
    }

    /// Whether some pod on a node has an affinity or anti-affinity term. This takes no time. Only for a plugin that reads
    /// [`Pods`].
    pub fn has_pods_with_affinity(self) -> bool {
        self.nodes.has_pods_with_affinity()
    }

    /// How many nodes there are.
    pub fn len(self) -> usize {
        self.nodes.len()
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.nodes.is_empty()
    }
}

impl<N: NodePart> Sealed for Nodes<N> {}
impl<N: NodePart> Part for Nodes<N> {
    type Ref<'a> = NodesRef<'a, N>;
}
impl<N: NodePart> ClusterPart for Nodes<N> {
    // A row that is reused holds another node, so whoever reads nodes depends on their names.
    const READS: ClusterReads =
        ClusterReads { nodes: N::READS.union(NodeReads::NAME), stores: StoreReads::empty() };
    fn of<'a>(view: &View<'a>) -> Ref<'a, Self> {
        NodesRef { nodes: view.nodes, part: PhantomData }
    }
}

/// The feasible nodes of this cycle: the part `N` of each.
#[derive(Debug)]
pub struct Feasible<'a, N> {
    nodes: &'a Columns,
    rows: &'a [Row],
    part: PhantomData<fn() -> N>,
}

impl<N> Clone for Feasible<'_, N> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<N> Copy for Feasible<'_, N> {}

impl<'a, N: NodePart> Feasible<'a, N> {
    pub(crate) fn new(nodes: &'a Columns, rows: &'a [Row]) -> Self {
        Feasible { nodes, rows, part: PhantomData }
    }

    /// Each feasible node with its row.
    pub fn iter(self) -> impl Iterator<Item = (Row, Ref<'a, N>)> {
        self.rows.iter().map(move |&row| (row, N::at(self.nodes, row)))
    }

    /// How many there are.
    pub fn len(self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.rows.is_empty()
    }
}

// `()` is a part of everything: nothing is read.
impl Sealed for () {}
impl Part for () {
    type Ref<'a> = ();
}
impl PodPart for () {
    const READS: PodReads = PodReads::empty();
    fn of<'a>(_: &'a PodInfo, _: &'a CycleState) -> Ref<'a, Self> {}
}
impl NodePart for () {
    const READS: NodeReads = NodeReads::empty();
    fn at(_: &Columns, _: Row) -> Ref<'_, Self> {}
}
impl ClusterPart for () {
    const READS: ClusterReads = ClusterReads::EMPTY;
    fn of<'a>(_: &View<'a>) -> Ref<'a, Self> {}
}

macro_rules! tuples {
    ($($p:ident)*) => {
        impl<$($p: Part),*> Sealed for ($($p,)*) {}
        impl<$($p: Part),*> Part for ($($p,)*) {
            type Ref<'a> = ($(Ref<'a, $p>,)*);
        }
        impl<$($p: PodPart),*> PodPart for ($($p,)*) {
            const READS: PodReads = PodReads::empty()$(.union($p::READS))*;
            #[inline]
            fn of<'a>(pod: &'a PodInfo, shared: &'a CycleState) -> Ref<'a, Self> {
                ($($p::of(pod, shared),)*)
            }
        }
        impl<$($p: NodePart),*> NodePart for ($($p,)*) {
            const READS: NodeReads = NodeReads::empty()$(.union($p::READS))*;
            #[inline]
            fn at(nodes: &Columns, row: Row) -> Ref<'_, Self> {
                ($($p::at(nodes, row),)*)
            }
        }
        impl<$($p: ClusterPart),*> ClusterPart for ($($p,)*) {
            const READS: ClusterReads = ClusterReads::EMPTY$(.union($p::READS))*;
            #[inline]
            fn of<'a>(view: &View<'a>) -> Ref<'a, Self> {
                ($($p::of(view),)*)
            }
            fn kinds() -> Vec<KindRef> {
                let mut kinds = Vec::new();
                $(kinds.extend($p::kinds());)*
                kinds
            }
        }
    };
}

tuples!(A B);
tuples!(A B C);
tuples!(A B C D);
tuples!(A B C D E);
tuples!(A B C D E F);
