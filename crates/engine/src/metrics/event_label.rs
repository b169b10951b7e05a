//! Labels of events that move pods through the queue, as in kube-scheduler.

use std::sync::LazyLock;

use plimsoll_api::{
    CompositePodGroup, CsiDriver, CsiNode, CsiStorageCapacity, DeviceClass, DeviceTaintRule,
    KindRef, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, PodGroup, ReplicaSet,
    ReplicationController, ResourceClaim, ResourceSlice, Service, StatefulSet, StorageClass, Str,
    VolumeAttachment,
};
use plimsoll_framework::events::Object;
use plimsoll_framework::{Action, Change, ClusterEvent, Release};

/// Something that moves pods or happens in the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EventLabel {
    /// One of those that every scheduler knows: a small number, so that it is counted in a fixed place.
    Known(usize),
    /// Something happened to an object of a kind that a plugin brings: the place of the action among [`ACTIONS`].
    Brought(KindRef, usize),
}

/// Events of pods that are not changes of the cluster. As in framework/events.go.
const SPECIAL: [&str; 6] = [
    "ScheduleAttemptFailure",
    "BackoffComplete",
    "PopFromBackoffQ",
    "ForceActivate",
    "UnschedulableTimeout",
    "PodPopped",
];

/// What pods are called, and how many kinds of Kubernetes there are. As in the EventResource constants of
/// kube-scheduler/framework/types.go; it knows no events of namespaces and workloads. What pending pods are called
/// depends on the release.
const PODS: [&str; 2] = ["AssignedPod", UNSCHEDULED_POD];
const OBJECTS: usize = PODS.len() + KINDS.len();

/// The other kinds of Kubernetes whose changes move pods.
const KINDS: [KindRef; 19] = [
    KindRef::of::<Node>(),
    KindRef::of::<Namespace>(),
    KindRef::of::<Service>(),
    KindRef::of::<ReplicationController>(),
    KindRef::of::<ReplicaSet>(),
    KindRef::of::<StatefulSet>(),
    KindRef::of::<PersistentVolume>(),
    KindRef::of::<PersistentVolumeClaim>(),
    KindRef::of::<StorageClass>(),
    KindRef::of::<CsiNode>(),
    KindRef::of::<CsiDriver>(),
    KindRef::of::<CsiStorageCapacity>(),
    KindRef::of::<VolumeAttachment>(),
    KindRef::of::<ResourceClaim>(),
    KindRef::of::<ResourceSlice>(),
    KindRef::of::<DeviceClass>(),
    KindRef::of::<DeviceTaintRule>(),
    KindRef::of::<PodGroup>(),
    KindRef::of::<CompositePodGroup>(),
];

/// The actions on objects, in the order of the bits of [`Action`]. As in ActionType.String.
const ACTIONS: [&str; 13] = [
    "Add",
    "Delete",
    "UpdateNodeAllocatable",
    "UpdateNodeLabel",
    "UpdateNodeTaint",
    "UpdateNodeAnnotation",
    "UpdateNodeDeclaredFeature",
    "UpdatePodLabel",
    "UpdatePodScaleDown",
    "UpdatePodToleration",
    "UpdatePodSchedulingGatesEliminated",
    "UpdatePodGeneratedResourceClaim",
    "Update",
];

const ASSIGNED_POD: usize = 0;
const PENDING_POD: usize = 1;
const UNSCHEDULED_POD: &str = "UnscheduledPod";

/// The kind of an object as `release` calls it.
fn object(at: usize, release: Release) -> Str {
    match (release, at.checked_sub(PODS.len())) {
        (_, Some(kind)) => kind_name(KINDS[kind]),
        (Release::V1_36, None) if at == PENDING_POD => "UnschedulablePod".into(),
        (Release::V1_36 | Release::V1_37, None) => PODS[at].into(),
    }
}

/// As in the EventResource constants: kinds of older groups by their name, and those that somebody else brings as
/// `foos.v1.example.com`.
fn kind_name(kind: KindRef) -> Str {
    let group = kind.group();
    if !group.contains('.') {
        return kind.as_str().into();
    }
    if group.ends_with(".k8s.io") {
        return format!("{group}/{kind}").into();
    }
    let version = kind.versions().first().and_then(|version| version.split_once('/'));
    format!("{}.{}.{group}", kind.plural(), version.map_or("", |(_, version)| version)).into()
}

impl EventLabel {
    /// How many there are that every scheduler knows.
    pub(crate) const COUNT: usize = SPECIAL.len() + OBJECTS * ACTIONS.len();

    pub(crate) const ATTEMPT_FAILURE: Self = EventLabel::Known(0);
    pub(crate) const BACKOFF_COMPLETE: Self = EventLabel::Known(1);
    pub(crate) const POP_FROM_BACKOFF: Self = EventLabel::Known(2);
    pub(crate) const FORCE_ACTIVATE: Self = EventLabel::Known(3);
    pub(crate) const UNSCHEDULABLE_TIMEOUT: Self = EventLabel::Known(4);
    pub(crate) const POD_POPPED: Self = EventLabel::Known(5);
    pub(crate) const PENDING_POD_ADD: Self = Self::pending_pod(Action::ADD);
    pub(crate) const PENDING_POD_UPDATE: Self = Self::pending_pod(Action::UPDATE_OTHER);
    pub(crate) const PENDING_POD_DELETE: Self = Self::pending_pod(Action::DELETE);

    /// The label of a change of an object in the cluster.
    pub(crate) fn of(change: &Change<'_>) -> Self {
        match change.object {
            Object::Itself { .. } => Self::pending_pod(change.event.action),
            _ => Self::of_event(change.event),
        }
    }

    /// Something that happened to an object that is no pending pod.
    pub(crate) fn of_event(event: ClusterEvent) -> Self {
        if event.kind.is::<Pod>() {
            return Self::new(ASSIGNED_POD, event.action);
        }
        match KINDS.iter().position(|kind| *kind == event.kind) {
            Some(kind) => Self::new(PODS.len() + kind, event.action),
            None => EventLabel::Brought(event.kind, first_of(event.action)),
        }
    }

    /// The label of an event about a pending pod.
    pub(crate) const fn pending_pod(action: Action) -> Self {
        Self::new(PENDING_POD, action)
    }

    const fn new(object: usize, action: Action) -> Self {
        EventLabel::Known(SPECIAL.len() + object * ACTIONS.len() + first_of(action))
    }

    /// Its place among [`EventLabel::COUNT`], if it has one.
    pub(crate) fn index(self) -> Option<usize> {
        match self {
            EventLabel::Known(index) => Some(index),
            EventLabel::Brought(..) => None,
        }
    }

    /// All that have a place, in the order of their places.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT).map(EventLabel::Known)
    }

    /// The value of the label in a release, such as `NodeAdd`.
    pub(crate) fn name(self, release: Release) -> Str {
        match self {
            EventLabel::Brought(kind, action) => kind_name(kind) + ACTIONS[action],
            EventLabel::Known(index) => NAMES[release as usize][index].clone(),
        }
    }
}

/// The names of the labels that every scheduler knows, by release. Each attempt has the name of what woke its pod.
static NAMES: LazyLock<[Vec<Str>; Release::ALL.len()]> = LazyLock::new(|| {
    Release::ALL.map(|release| (0..EventLabel::COUNT).map(|index| known(index, release)).collect())
});

fn known(index: usize, release: Release) -> Str {
    match index.checked_sub(SPECIAL.len()) {
        None => SPECIAL[index].into(),
        Some(at) => object(at / ACTIONS.len(), release) + ACTIONS[at % ACTIONS.len()],
    }
}

/// kube-scheduler hears of several changes of one object one after the other, and the first that
/// helps moves a pod: of several actions the first counts.
const fn first_of(action: Action) -> usize {
    let first = action.bits().trailing_zeros() as usize;
    // Without any action nothing is known but that it changed.
    if first < ACTIONS.len() { first } else { ACTIONS.len() - 1 }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use plimsoll_api::Kinds;

    use super::*;

    #[test]
    fn events_are_called_as_kube_scheduler_calls_them() {
        for (event, name) in [
            (ClusterEvent::of::<Pod>(Action::ADD), "AssignedPodAdd"),
            (
                ClusterEvent::of::<Pod>(Action::UPDATE_POD_SCALE_DOWN),
                "AssignedPodUpdatePodScaleDown",
            ),
            (ClusterEvent::of::<Node>(Action::ADD), "NodeAdd"),
            (ClusterEvent::of::<Node>(Action::UPDATE_NODE_TAINT), "NodeUpdateNodeTaint"),
            (
                ClusterEvent::of::<PersistentVolumeClaim>(Action::UPDATE_OTHER),
                "PersistentVolumeClaimUpdate",
            ),
            (ClusterEvent::of::<CsiNode>(Action::DELETE), "storage.k8s.io/CSINodeDelete"),
        ] {
            let label = EventLabel::of_event(event);
            assert_eq!(Release::ALL.map(|release| label.name(release)), [name; 2]);
        }
        let names = |label: EventLabel| Release::ALL.map(|release| label.name(release));
        assert_eq!(
            names(EventLabel::PENDING_POD_ADD),
            ["UnschedulablePodAdd", "UnscheduledPodAdd"]
        );
        assert_eq!(names(EventLabel::UNSCHEDULABLE_TIMEOUT), ["UnschedulableTimeout"; 2]);
    }

    #[test]
    fn every_event_has_a_place_and_a_name_of_its_own() {
        let mut names = BTreeSet::new();
        let kinds: Vec<KindRef> =
            Kinds::built_in().iter().filter(|kind| kind.wakes_pods()).collect();
        for &kind in &kinds {
            for action in Action::all().iter() {
                let label = EventLabel::of_event(ClusterEvent::new(kind, action));
                assert!(label.index().is_some(), "{kind} has a place");
                names.insert(label.name(Release::NEWEST));
            }
        }
        assert_eq!(names.len(), kinds.len() * ACTIONS.len());
        let all: BTreeSet<_> = EventLabel::all().map(|label| label.name(Release::NEWEST)).collect();
        assert_eq!(all.len(), EventLabel::COUNT);
        assert!(names.is_subset(&all));
    }

    #[test]
    fn of_several_changes_at_once_the_first_is_named() {
        let action = Action::UPDATE_NODE_TAINT | Action::UPDATE_NODE_ALLOCATABLE;
        let event = ClusterEvent::of::<Node>(action);
        assert_eq!(EventLabel::of_event(event).name(Release::NEWEST), "NodeUpdateNodeAllocatable");
        let nothing = ClusterEvent::of::<Node>(Action::empty());
        assert_eq!(EventLabel::of_event(nothing).name(Release::NEWEST), "NodeUpdate");
    }
}
