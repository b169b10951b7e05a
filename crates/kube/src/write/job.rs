//! The write for one effect, and how waiting writes are merged.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use plimsoll_api::{KindRef, Pod, PodGroup, PodKey, Str};
use plimsoll_engine::{Condition, Effect, EffectId, Eviction, GroupConditionWrite, Write};
use plimsoll_framework::{ObjectWrite, WriteVerb};
use serde_json::json;
use tokio::time::Instant;

use crate::events::{EventObject, Occurrence};
use crate::wire_time;

/// A write to the API server.
#[derive(Debug)]
pub(super) struct WriteJob {
    /// The pod for which it is done, as last observed.
    pub(super) pod: Arc<Pod>,
    /// The kind of write.
    pub(super) task: WriteTask,
    /// When the answer is no longer awaited.
    pub(super) deadline: Instant,
}

/// The kind of write.
#[derive(Debug)]
pub(super) enum WriteTask {
    /// Bind the pod to a node.
    Bind(EffectId, Str),
    /// Write an object for a plugin.
    Object(EffectId, ObjectWrite),
    /// Evict another pod for it.
    Evict(EffectId, Eviction),
    /// Change the status of the pod. The engine does not await an answer.
    Status(StatusChange),
}

/// Changes to the status of a pod.
#[derive(Debug, Default)]
pub(super) struct StatusChange {
    /// The condition `PodScheduled=False`.
    pub(super) condition: Option<Condition>,
    /// The nominated node.
    pub(super) nominated: NominationChange,
}

/// A change of the nominated node.
#[derive(Debug, Default)]
pub(super) enum NominationChange {
    /// No change.
    #[default]
    AsItWas,
    /// Remove the nomination.
    No,
    /// Nominate this node.
    On(Str),
}

impl From<Option<Str>> for NominationChange {
    fn from(node: Option<Str>) -> Self {
        node.map_or(NominationChange::No, NominationChange::On)
    }
}

/// How an effect is carried out.
pub(super) enum EffectAction {
    /// By a write to the API server, which is queued.
    Write(WriteJob),
    /// By an event, which is recorded at once.
    Event(Box<Occurrence>),
    /// By a question to an extender, which is done by [`HttpExtenders`](crate::extender::Extenders).
    Elsewhere,
}

impl EffectAction {
    /// How to carry out `effect`. Its answer is awaited for `patience`.
    pub(super) fn of(effect: Effect, patience: Duration) -> Self {
        let Effect { id, pod, write } = effect;
        let task = match write {
            Write::Bind(binding) => WriteTask::Bind(id, binding.node),
            Write::Object(write) => WriteTask::Object(id, write),
            Write::Evict(eviction) => WriteTask::Evict(id, eviction),
            Write::Nominate(node) => {
                WriteTask::Status(StatusChange { nominated: node.into(), condition: None })
            }
            Write::Condition(condition) => WriteTask::Status(StatusChange {
                condition: Some(condition),
                ..StatusChange::default()
            }),
            Write::GroupCondition(write) => WriteTask::Object(id, condition_patch(&write)),
            Write::Record(record) => {
                return EffectAction::Event(Box::new(Occurrence {
                    controller: pod.scheduler_name.clone(),
                    regarding: EventObject::Pod(pod),
                    related: None,
                    kind: record.kind,
                    reason: record.reason,
                    action: record.action,
                    note: record.note,
                }));
            }
            Write::Extender(_) => return EffectAction::Elsewhere,
        };
        EffectAction::Write(WriteJob { pod, task, deadline: Instant::now() + patience })
    }
}

/// The patch of the status of a group. It replaces all conditions, of which the scheduler writes the only one.
fn condition_patch(write: &GroupConditionWrite) -> ObjectWrite {
    let GroupConditionWrite { group, kind, generation, condition } = write;
    let merge = json!({"status": {"conditions": [{
        "type": kind,
        "status": if condition.is_true { "True" } else { "False" },
        "observedGeneration": generation,
        "lastTransitionTime": wire_time::seconds(Timestamp::now()),
        "reason": condition.reason,
        "message": condition.message,
    }]}});
    let verb = WriteVerb::Patch { subresource: Some("status".into()), merge: merge.into() };
    ObjectWrite { kind: KindRef::of::<PodGroup>(), key: group.clone(), verb, purpose: 0 }
}

impl WriteJob {
    /// The pod that is written: writes to one pod are done in order.
    pub(super) fn about(&self) -> &PodKey {
        match &self.task {
            WriteTask::Evict(_, eviction) => &eviction.victim.key,
            WriteTask::Bind(..) | WriteTask::Object(..) | WriteTask::Status(_) => &self.pod.key,
        }
    }

    /// The effect whose answer is awaited.
    pub(super) fn awaited(&self) -> Option<EffectId> {
        match self.task {
            WriteTask::Bind(id, _) | WriteTask::Object(id, _) | WriteTask::Evict(id, _) => Some(id),
            WriteTask::Status(_) => None,
        }
    }

    /// Merges `later` into this job, if one request can do both: the newest status counts. Otherwise
    /// returns it.
    pub(super) fn absorb(&mut self, later: WriteJob) -> Option<WriteJob> {
        let (WriteTask::Status(status), WriteTask::Status(_)) = (&mut self.task, &later.task)
        else {
            return Some(later);
        };
        let WriteTask::Status(newer) = later.task else { return None };
        if newer.condition.is_some() {
            status.condition = newer.condition;
        }
        if !matches!(newer.nominated, NominationChange::AsItWas) {
            status.nominated = newer.nominated;
        }
        self.pod = later.pod;
        self.deadline = later.deadline;
        None
    }
}

impl WriteTask {
    /// Its name, for logs.
    pub(super) fn name(&self) -> &'static str {
        match self {
            WriteTask::Bind(..) => "binding",
            WriteTask::Object(_, write) => write.verb.as_str(),
            WriteTask::Evict(..) => "eviction",
            WriteTask::Status(_) => "status",
        }
    }
}
