//! Events in the cluster that may make an unschedulable pod schedulable.

use std::fmt;

use bitflags::bitflags;
use plimsoll_api::{AnyVersions, Kind, KindRef, Node, Pod, Versions};

use crate::columns::Row;
use crate::parts::{NodeReads, PodReads, Reads};
use crate::pod_info::PodInfo;
use crate::view::View;

bitflags! {
    /// What happened to an object.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct Action: u32 {
        /// It was created. For a pod: it came to a node.
        const ADD = 1 << 0;
        /// It is gone.
        const DELETE = 1 << 1;
        /// `status.allocatable` of a node changed.
        const UPDATE_NODE_ALLOCATABLE = 1 << 2;
        /// Labels of a node changed.
        const UPDATE_NODE_LABEL = 1 << 3;
        /// Taints of a node, or `spec.unschedulable`, changed.
        const UPDATE_NODE_TAINT = 1 << 4;
        /// Annotations of a node changed.
        const UPDATE_NODE_ANNOTATION = 1 << 5;
        /// Declared features of a node changed.
        const UPDATE_NODE_DECLARED_FEATURE = 1 << 6;
        /// Labels of a pod changed.
        const UPDATE_POD_LABEL = 1 << 7;
        /// A pod requests less than before.
        const UPDATE_POD_SCALE_DOWN = 1 << 8;
        /// Tolerations of a pod changed.
        const UPDATE_POD_TOLERATION = 1 << 9;
        /// The last scheduling gate of a pod is gone.
        const UPDATE_POD_SCHEDULING_GATES_ELIMINATED = 1 << 10;
        /// A ResourceClaim was made for a pod, or its status says so.
        const UPDATE_POD_GENERATED_RESOURCE_CLAIM = 1 << 11;
        /// Anything else of an object changed.
        const UPDATE_OTHER = 1 << 12;
    }
}

impl Action {
    /// Any change of an existing object.
    pub const UPDATE: Action = Action::all().difference(Action::ADD).difference(Action::DELETE);
}

/// A kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterEvent {
    /// The kind of the object. For pods these are the pods that are assigned to a node, and the pending pod itself.
    pub kind: KindRef,
    /// What happened to it.
    pub action: Action,
}

impl ClusterEvent {
    /// `action` happened to an object of kind `K`.
    pub const fn of<K: Kind>(action: Action) -> Self {
        ClusterEvent::new(KindRef::of::<K>(), action)
    }

    /// `action` happened to an object of `kind`.
    pub const fn new(kind: KindRef, action: Action) -> Self {
        ClusterEvent { kind, action }
    }

    /// The event for an object that is neither a pod nor a node.
    pub fn of_versions(of: &AnyVersions) -> Self {
        let action = match (&of.before, &of.after) {
            (None, _) => Action::ADD,
            (Some(_), Some(_)) => Action::UPDATE_OTHER,
            (Some(_), None) => Action::DELETE,
        };
        ClusterEvent::new(of.kind, action)
    }

    /// Whether a plugin that waits for `self` is told of `happened`.
    pub fn covers(self, happened: ClusterEvent) -> bool {
        self.action.intersects(happened.action) && self.kind == happened.kind
    }
}

/// `Node/UPDATE_NODE_TAINT`.
impl fmt::Display for ClusterEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/", self.kind)?;
        bitflags::parser::to_writer(&self.action, f)
    }
}

/// The object to which it happened.
#[derive(Clone, Copy, Debug)]
pub enum Object<'a> {
    /// A node. `before` or `after` may be missing.
    Node {
        /// The node as it was.
        before: Option<&'a Node>,
        /// Its row now.
        after: Option<Row>,
    },
    /// A pod on a node. `before` or `after` may be missing.
    Assigned {
        /// As it was.
        before: Option<&'a PodInfo>,
        /// As it is.
        after: Option<&'a PodInfo>,
        /// The row of its node, where the node is known.
        row: Option<Row>,
    },
    /// The pending pod itself. As it is now, it is the pod of the hint.
    Itself {
        /// As it was.
        before: &'a PodInfo,
    },
    /// An object of another kind, as observed and not as assumed.
    Other(&'a AnyVersions),
}

/// An event with its object.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// The kind of event.
    pub event: ClusterEvent,
    /// The object to which it happened.
    pub object: Object<'a>,
    /// The cluster after it.
    pub view: View<'a>,
}

impl Change<'_> {
    /// The object before and after the event, if it is of kind `K`. Not for pods and nodes.
    pub fn of<K: Kind>(&self) -> Option<Versions<K>> {
        match self.object {
            Object::Other(versions) => versions.of(),
            _ => None,
        }
    }
}

/// Whether a pod is worth another attempt after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// It is.
    Queue,
    /// It is not: the change cannot help.
    Skip,
}

/// What happened to a node whose columns `changed`.
pub fn node_actions(changed: NodeReads) -> Action {
    let mut action = Action::empty();
    action.set(Action::UPDATE_NODE_ALLOCATABLE, changed.intersects(NodeReads::ALLOCATABLE));
    action.set(Action::UPDATE_NODE_LABEL, changed.intersects(NodeReads::LABELS));
    let taint = NodeReads::TAINTS.union(NodeReads::UNSCHEDULABLE);
    action.set(Action::UPDATE_NODE_TAINT, changed.intersects(taint));
    action.set(Action::UPDATE_NODE_ANNOTATION, changed.intersects(NodeReads::ANNOTATIONS));
    action.set(Action::UPDATE_NODE_DECLARED_FEATURE, changed.intersects(NodeReads::FEATURES));
    action.set(Action::UPDATE_OTHER, changed.intersects(NodeReads::IMAGES));
    action
}

/// What happened to a pod that was `before` and is `after`.
pub fn pod_actions(before: &PodInfo, after: &PodInfo) -> Action {
    let action = named_pod_actions(before, after);
    if action.is_empty() && **before != **after { Action::UPDATE_OTHER } else { action }
}

/// The same without [`Action::UPDATE_OTHER`], for which the pods would have to be compared as a whole.
pub fn named_pod_actions(before: &PodInfo, after: &PodInfo) -> Action {
    let mut action = Action::empty();
    action.set(Action::UPDATE_POD_LABEL, before.labels != after.labels);
    action.set(Action::UPDATE_POD_SCALE_DOWN, asks_less(before, after));
    action.set(Action::UPDATE_POD_TOLERATION, before.tolerations != after.tolerations);
    let gates = !before.scheduling_gates.is_empty() && after.scheduling_gates.is_empty();
    action.set(Action::UPDATE_POD_SCHEDULING_GATES_ELIMINATED, gates);
    let claims = |pod: &PodInfo| {
        pod.devices.as_ref().map(|said| (said.claims.clone(), said.extended.clone()))
    };
    let made = before.devices != after.devices && claims(before) != claims(after);
    action.set(Action::UPDATE_POD_GENERATED_RESOURCE_CLAIM, made);
    action
}

fn asks_less(before: &PodInfo, after: &PodInfo) -> bool {
    let (old, new) = (&before.requests, &after.requests);
    new.milli_cpu < old.milli_cpu
        || new.memory < old.memory
        || new.ephemeral_storage < old.ephemeral_storage
        || old
            .scalar
            .iter()
            .any(|(name, amount)| new.scalar.get(name).is_none_or(|now| now < amount))
}

/// The events that may change the verdict of a plugin with these reads, which include objects of `kinds`.
///
/// A plugin that reads every node also waits for nodes that are deleted: pods may be spread evenly over fewer domains.
pub fn derived(reads: Reads, kinds: &[KindRef]) -> Vec<ClusterEvent> {
    let columns = reads.node.union(reads.cluster.nodes);
    let mut node = Action::ADD | node_actions(columns);
    if !reads.cluster.nodes.is_empty() {
        node |= Action::DELETE;
    }
    let mut events = vec![ClusterEvent::of::<Node>(node)];
    let mut pod = own_actions(reads.pod);
    if columns.intersects(NodeReads::BY_PLACEMENT) {
        pod |= Action::DELETE | Action::UPDATE_POD_SCALE_DOWN;
    }
    if reads.cluster.nodes.intersects(NodeReads::PODS) {
        pod |= Action::ADD | Action::UPDATE_POD_LABEL;
    }
    if !pod.is_empty() {
        events.push(ClusterEvent::of::<Pod>(pod));
    }
    let others = kinds.iter().filter(|kind| kind.wakes_pods());
    events.extend(others.map(|&kind| ClusterEvent::new(kind, Action::all())));
    events
}

fn own_actions(reads: PodReads) -> Action {
    let mut action = Action::empty();
    action.set(Action::UPDATE_POD_LABEL, reads.intersects(PodReads::LABELS));
    action.set(Action::UPDATE_POD_SCALE_DOWN, reads.intersects(PodReads::REQUESTS));
    action.set(Action::UPDATE_POD_TOLERATION, reads.intersects(PodReads::TOLERATIONS));
    let gates = reads.intersects(PodReads::SCHEDULING_GATES);
    action.set(Action::UPDATE_POD_SCHEDULING_GATES_ELIMINATED, gates);
    let claims = reads.intersects(PodReads::RESOURCE_CLAIMS);
    action.set(Action::UPDATE_POD_GENERATED_RESOURCE_CLAIM, claims);
    let others = PodReads::all()
        .difference(PodReads::RESOURCE_CLAIMS)
        .difference(PodReads::LABELS)
        .difference(PodReads::REQUESTS)
        .difference(PodReads::TOLERATIONS)
        .difference(PodReads::SCHEDULING_GATES);
    action.set(Action::UPDATE_OTHER, reads.intersects(others));
    action
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::{ClusterPart, DisruptionBudgets, Volumes};

    #[test]
    fn a_reader_of_volumes_waits_for_all_their_kinds_and_nobody_waits_for_budgets() {
        fn waits_for<C: ClusterPart>() -> Vec<KindRef> {
            let reads = Reads { cluster: C::READS, ..Reads::default() };
            derived(reads, &C::kinds()).into_iter().map(|event| event.kind).collect()
        }
        let (all, nothing) = (waits_for::<Volumes>(), waits_for::<()>());
        assert!(Volumes::kinds().iter().all(|kind| all.contains(kind)));
        assert_eq!(Volumes::kinds().len(), 7);
        assert_eq!(waits_for::<DisruptionBudgets>(), nothing);
    }
}
