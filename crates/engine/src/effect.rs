//! Effects: what the IO layer must do.

use std::sync::Arc;

use plimsoll_api::pod_group::GroupCondition;
use plimsoll_api::{ObjectKey, Pod, PodKey, Str};
use plimsoll_framework::{Binding, ObjectWrite, PodEvent, PodEventKind, PodInfo, Point};

use crate::extenders::Call;
use crate::writes::RequestedWrite;

/// The id of a write, which its answer refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EffectId(pub u64);

/// Something that the IO layer must do.
#[derive(Clone, Debug, PartialEq)]
pub struct Effect {
    /// Its id.
    pub id: EffectId,
    /// The pod for which it is done, as last observed.
    pub pod: Arc<Pod>,
    /// What to do.
    pub write: Write,
}

/// What to write.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// Bind the pod. Answered with [`Event::Done`](crate::Event::Done).
    Bind(Binding),
    /// Write an object for a plugin. Answered with [`Event::Done`](crate::Event::Done).
    Object(ObjectWrite),
    /// Evict another pod. Answered with [`Event::Done`](crate::Event::Done).
    Evict(Eviction),
    /// Set `status.nominatedNodeName` of the pod, or clear it. No answer is awaited.
    Nominate(Option<Str>),
    /// Set the condition `PodScheduled=False` of the pod. No answer is awaited.
    Condition(Condition),
    /// Record an event about the pod. No answer is awaited.
    Record(EventRecord),
    /// Set the condition of a group of pods. No answer is awaited.
    GroupCondition(GroupConditionWrite),
    /// Ask an extender. Answered with [`Event::Extended`](crate::Event::Extended).
    Extender(Call),
}

/// The eviction of a pod for one of higher priority: the victim gets the condition
/// `DisruptionTarget=True` with reason `PreemptionByScheduler`, and is deleted; then an event is recorded
/// about it (`Normal`, reason `Preempted`, action `Preempting`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// The pod to evict, as last observed.
    pub victim: Arc<Pod>,
    /// The message of the condition.
    pub message: String,
    /// The note of the event.
    pub note: String,
    /// Whether it is for a whole group of pods.
    pub for_group: bool,
}

impl Eviction {
    /// `victim` must leave its node for a group. As in executor.go, actuatePodGroupPreemption.
    pub(crate) fn for_group(victim: &PodInfo, scheduler_name: &str, group_uid: &str) -> Self {
        Eviction {
            victim: victim.seen().clone(),
            message: format!(
                "{scheduler_name}: preempting to accommodate a higher priority podgroup"
            ),
            note: format!("Preempted by podgroup {group_uid} on node cluster"),
            for_group: true,
        }
    }

    /// `victim` must leave `node` for `preemptor`. As in preemption.go, PreemptPod.
    pub(crate) fn new(victim: &PodInfo, preemptor: &PodInfo, node: &str) -> Self {
        let scheduler = &preemptor.scheduler_name;
        Eviction {
            victim: victim.seen().clone(),
            message: format!("{scheduler}: preempting to accommodate a higher priority pod"),
            note: format!("Preempted by pod {} on node {node}", preemptor.uid),
            for_group: false,
        }
    }
}

/// The condition `PodGroupScheduled` of a group of pods; since 1.37 it is called `PodGroupInitiallyScheduled`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupConditionWrite {
    /// The group.
    pub group: ObjectKey,
    /// The type of the condition: `PodGroupScheduled`; since 1.37 `PodGroupInitiallyScheduled`.
    pub kind: &'static str,
    /// The generation of the group that it is about.
    pub generation: i64,
    /// The condition.
    pub condition: GroupCondition,
}

/// The condition `PodScheduled=False` of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// `Unschedulable` or `SchedulerError`.
    pub reason: &'static str,
    /// The complete message, never truncated.
    pub message: String,
}

/// An event about a pod, for `kubectl describe`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRecord {
    /// `Normal` or `Warning`.
    pub kind: &'static str,
    /// Such as `FailedScheduling`.
    pub reason: &'static str,
    /// Such as `Scheduling`.
    pub action: &'static str,
    /// The text, cut to [`NOTE_LENGTH_LIMIT`] bytes.
    pub note: String,
}

/// The longest note that the API server accepts, in bytes.
pub const NOTE_LENGTH_LIMIT: usize = 1024;

impl EventRecord {
    /// The pod was bound.
    pub(crate) fn scheduled(pod: &PodKey, node: &str) -> Self {
        const SAID: &str = "Successfully assigned ";
        let (namespace, name) = (&pod.namespace, &pod.name);
        // Every bound pod has this note, and `format!` costs several times as much.
        let mut text =
            String::with_capacity(SAID.len() + namespace.len() + name.len() + node.len() + 5);
        text.push_str(SAID);
        if !namespace.is_empty() {
            text.push_str(namespace);
            text.push('/');
        }
        text.push_str(name);
        text.push_str(" to ");
        text.push_str(node);
        EventRecord { kind: "Normal", reason: "Scheduled", action: "Binding", note: truncate(text) }
    }

    /// A pod was preempted that was not bound yet, so that it is not deleted. As in preemption.go, PreemptPod.
    pub(crate) fn preempted_in_memory(eviction: &Eviction) -> Self {
        let note = truncate(format!("{} (in kube-scheduler memory).", eviction.note));
        EventRecord { kind: "Normal", reason: "Preempted", action: "Preempting", note }
    }

    /// A plugin has recorded it.
    pub(crate) fn of_plugin(PodEvent { kind, reason, action, note }: PodEvent) -> Self {
        let kind = match kind {
            PodEventKind::Normal => "Normal",
            PodEventKind::Warning => "Warning",
        };
        EventRecord { kind, reason, action, note: truncate(note) }
    }

    /// A plugin could not write an object for the pod, after it was bound or given up.
    pub(crate) fn unwritten(said: &RequestedWrite, why: &str) -> Self {
        let ObjectWrite { kind, key, verb, .. } = &said.write;
        let action = if said.point == Point::PostBind { "PostBind" } else { "Unreserve" };
        let plugin = said.plugin;
        let note = format!("plugin {plugin}: could not {} {kind} {key}: {why}", verb.as_str());
        EventRecord { kind: "Warning", reason: "FailedWrite", action, note: truncate(note) }
    }

    /// The pod could not be scheduled.
    pub(crate) fn failed(message: &str) -> Self {
        EventRecord {
            kind: "Warning",
            reason: "FailedScheduling",
            action: "Scheduling",
            note: truncate(message.to_owned()),
        }
    }
}

/// As in schedule_one.go, truncateMessage: a truncated text ends with ` ...`.
fn truncate(mut message: String) -> String {
    const SUFFIX: &str = " ...";
    if message.len() <= NOTE_LENGTH_LIMIT {
        return message;
    }
    let end = message.floor_char_boundary(NOTE_LENGTH_LIMIT - SUFFIX.len());
    message.truncate(end);
    message + SUFFIX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_note_of_a_bound_pod_names_it_and_its_node() {
        for pod in [PodKey::new("team", "web"), PodKey::new("", "web")] {
            let expected = format!("Successfully assigned {pod} to node-1");
            assert_eq!(EventRecord::scheduled(&pod, "node-1").note, expected);
        }
    }

    #[test]
    fn a_note_that_is_too_long_is_cut_and_says_so() {
        assert_eq!(EventRecord::failed("short").note, "short");
        let cut = EventRecord::failed(&"é".repeat(1000)).note;
        assert!(cut.len() <= NOTE_LENGTH_LIMIT && cut.ends_with("é ..."), "{}", cut.len());
    }
}
