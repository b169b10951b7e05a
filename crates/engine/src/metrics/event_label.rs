//! Labels of events that move pods through the queue, as in kube-scheduler.

use plimsoll_framework::events::Object;
use plimsoll_framework::{Action, Change, ClusterEvent, Release, Resource};

/// The label of an event: a small number, which is used as an index of counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EventLabel(usize);

/// Events of pods that are not changes of the cluster. As in framework/events.go.
const SPECIAL: [&str; 6] = [
    "ScheduleAttemptFailure",
    "BackoffComplete",
    "PopFromBackoffQ",
    "ForceActivate",
    "UnschedulableTimeout",
    "PodPopped",
];

/// The kinds of objects. As in the EventResource constants of kube-scheduler/framework/types.go; it
/// knows no events of namespaces and workloads. The name for pending pods depends on the release.
const OBJECTS: [&str; 12] = [
    "AssignedPod",
    UNSCHEDULED_POD,
    "Node",
    "Namespace",
    "Workload",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "storage.k8s.io/StorageClass",
    "storage.k8s.io/CSINode",
    "storage.k8s.io/CSIDriver",
    "storage.k8s.io/CSIStorageCapacity",
    "storage.k8s.io/VolumeAttachment",
];

/// The actions on objects, in the order of the bits of [`Action`]. As in ActionType.String.
const ACTIONS: [&str; 12] = [
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
    "Update",
];

const PENDING_POD: usize = 1;
const UNSCHEDULED_POD: &str = "UnscheduledPod";

/// The name of a kind of objects in `release`.
fn object(at: usize, release: Release) -> &'static str {
    match release {
        Release::V1_36 if at == PENDING_POD => "UnschedulablePod",
        Release::V1_36 | Release::V1_37 => OBJECTS[at],
    }
}

impl EventLabel {
    /// How many there are.
    pub(crate) const COUNT: usize = SPECIAL.len() + OBJECTS.len() * ACTIONS.len();

    pub(crate) const ATTEMPT_FAILURE: Self = EventLabel(0);
    pub(crate) const BACKOFF_COMPLETE: Self = EventLabel(1);
    pub(crate) const POP_FROM_BACKOFF: Self = EventLabel(2);
    pub(crate) const FORCE_ACTIVATE: Self = EventLabel(3);
    pub(crate) const UNSCHEDULABLE_TIMEOUT: Self = EventLabel(4);
    pub(crate) const POD_POPPED: Self = EventLabel(5);
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

    /// The label of an event about an object that is not a pending pod.
    pub(crate) const fn of_event(event: ClusterEvent) -> Self {
        let object = match event.resource {
            Resource::Pod => 0,
            Resource::Node => 2,
            Resource::Namespace => 3,
            Resource::Workload => 4,
            Resource::PersistentVolume => 5,
            Resource::PersistentVolumeClaim => 6,
            Resource::StorageClass => 7,
            Resource::CsiNode => 8,
            Resource::CsiDriver => 9,
            Resource::CsiStorageCapacity => 10,
            Resource::VolumeAttachment => 11,
        };
        Self::new(object, event.action)
    }

    /// The label of an event about a pending pod.
    pub(crate) const fn pending_pod(action: Action) -> Self {
        Self::new(PENDING_POD, action)
    }

    /// kube-scheduler handles several changes of one object one after the other, and the first that
    /// helps moves a pod. Therefore the first of several actions counts.
    const fn new(object: usize, action: Action) -> Self {
        let first = action.bits().trailing_zeros() as usize;
        // Without any action only the fact of a change is known.
        let action = if first < ACTIONS.len() { first } else { ACTIONS.len() - 1 };
        EventLabel(SPECIAL.len() + object * ACTIONS.len() + action)
    }

    /// Its index, below [`EventLabel::COUNT`].
    pub(crate) fn index(self) -> usize {
        self.0
    }

    /// All of them, in the order of their indices.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT).map(EventLabel)
    }

    /// The value of the label in a release, such as `NodeAdd`.
    pub(crate) fn name(self, release: Release) -> String {
        match self.index().checked_sub(SPECIAL.len()) {
            None => SPECIAL[self.index()].to_owned(),
            Some(at) => [object(at / ACTIONS.len(), release), ACTIONS[at % ACTIONS.len()]].concat(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn events_are_called_as_kube_scheduler_calls_them() {
        for (resource, action, name) in [
            (Resource::Pod, Action::ADD, "AssignedPodAdd"),
            (Resource::Pod, Action::UPDATE_POD_SCALE_DOWN, "AssignedPodUpdatePodScaleDown"),
            (Resource::Node, Action::ADD, "NodeAdd"),
            (Resource::Node, Action::UPDATE_NODE_TAINT, "NodeUpdateNodeTaint"),
            (Resource::PersistentVolumeClaim, Action::UPDATE_OTHER, "PersistentVolumeClaimUpdate"),
            (Resource::CsiNode, Action::DELETE, "storage.k8s.io/CSINodeDelete"),
        ] {
            let label = EventLabel::of_event(ClusterEvent::new(resource, action));
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
        for resource in Resource::ALL {
            for action in Action::all().iter() {
                let label = EventLabel::of_event(ClusterEvent::new(resource, action));
                names.insert(label.name(Release::NEWEST));
            }
        }
        assert_eq!(names.len(), Resource::ALL.len() * ACTIONS.len());
        let all: BTreeSet<_> = EventLabel::all().map(|label| label.name(Release::NEWEST)).collect();
        assert_eq!(all.len(), EventLabel::COUNT);
        assert!(names.is_subset(&all));
    }

    #[test]
    fn of_several_changes_at_once_the_first_is_named() {
        let action = Action::UPDATE_NODE_TAINT | Action::UPDATE_NODE_ALLOCATABLE;
        let event = ClusterEvent::new(Resource::Node, action);
        assert_eq!(EventLabel::of_event(event).name(Release::NEWEST), "NodeUpdateNodeAllocatable");
        let nothing = ClusterEvent::new(Resource::Node, Action::empty());
        assert_eq!(EventLabel::of_event(nothing).name(Release::NEWEST), "NodeUpdate");
    }
}
