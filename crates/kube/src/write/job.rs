//! The write for one effect, and how waiting writes are merged.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_api::{Pod, PodKey, Str};
use plimsoll_engine::{Condition, Effect, EffectId, Eviction, Write};
use plimsoll_framework::ObjectWrite;
use tokio::time::Instant;

use crate::events::{Occurrence, Subject};

/// A write to the API server.
#[derive(Debug)]
pub(super) struct Job {
    /// The pod for which it is done, as last observed.
    pub(super) pod: Arc<Pod>,
    /// The kind of write.
    pub(super) task: Task,
    /// When the answer is no longer awaited.
    pub(super) deadline: Instant,
}

/// The kind of write.
#[derive(Debug)]
pub(super) enum Task {
    /// Bind the pod to a node.
    Bind(EffectId, Str),
    /// Write an object for a plugin.
    Object(EffectId, ObjectWrite),
    /// Evict another pod for it.
    Evict(EffectId, Eviction),
    /// Change the status of the pod. The engine does not await an answer.
    Status(Status),
}

/// Changes to the status of a pod.
#[derive(Debug, Default)]
pub(super) struct Status {
    /// The condition `PodScheduled=False`.
    pub(super) condition: Option<Condition>,
    /// The nominated node.
    pub(super) nominated: Nominated,
}

/// A change of the nominated node.
#[derive(Debug, Default)]
pub(super) enum Nominated {
    /// No change.
    #[default]
    AsItWas,
    /// Remove the nomination.
    No,
    /// Nominate this node.
    On(Str),
}

impl From<Option<Str>> for Nominated {
    fn from(node: Option<Str>) -> Self {
        node.map_or(Nominated::No, Nominated::On)
    }
}

/// How an effect is carried out.
pub(super) enum Work {
    /// By a write to the API server, which is queued.
    Job(Job),
    /// By an event, which is recorded at once.
    Event(Box<Occurrence>),
    /// By a question to an extender, which is done by [`Extenders`](crate::extender::Extenders).
    Elsewhere,
}

impl Work {
    /// How to carry out `effect`. Its answer is awaited for `patience`.
    pub(super) fn of(effect: Effect, patience: Duration) -> Self {
        let Effect { id, pod, write } = effect;
        let task = match write {
            Write::Bind(binding) => Task::Bind(id, binding.node),
            Write::Object(write) => Task::Object(id, write),
            Write::Evict(eviction) => Task::Evict(id, eviction),
            Write::Nominate(node) => {
                Task::Status(Status { nominated: node.into(), condition: None })
            }
            Write::Condition(condition) => {
                Task::Status(Status { condition: Some(condition), ..Status::default() })
            }
            Write::Record(record) => {
                return Work::Event(Box::new(Occurrence {
                    controller: pod.scheduler_name.clone(),
                    regarding: Subject::Pod(pod),
                    related: None,
                    kind: record.kind,
                    reason: record.reason,
                    action: record.action,
                    note: record.note,
                }));
            }
            Write::Extender(_) => return Work::Elsewhere,
        };
        Work::Job(Job { pod, task, deadline: Instant::now() + patience })
    }
}

impl Job {
    /// The pod that is written: writes to one pod are done in order.
    pub(super) fn about(&self) -> &PodKey {
        match &self.task {
            Task::Evict(_, eviction) => &eviction.victim.key,
            Task::Bind(..) | Task::Object(..) | Task::Status(_) => &self.pod.key,
        }
    }

    /// The effect whose answer is awaited.
    pub(super) fn awaited(&self) -> Option<EffectId> {
        match self.task {
            Task::Bind(id, _) | Task::Object(id, _) | Task::Evict(id, _) => Some(id),
            Task::Status(_) => None,
        }
    }

    /// Merges `later` into this job, if one request can do both: the newest status counts. Otherwise
    /// returns it.
    pub(super) fn absorb(&mut self, later: Job) -> Option<Job> {
        let (Task::Status(status), Task::Status(_)) = (&mut self.task, &later.task) else {
            return Some(later);
        };
        let Task::Status(newer) = later.task else { return None };
        if newer.condition.is_some() {
            status.condition = newer.condition;
        }
        if !matches!(newer.nominated, Nominated::AsItWas) {
            status.nominated = newer.nominated;
        }
        self.pod = later.pod;
        self.deadline = later.deadline;
        None
    }
}

impl Task {
    /// Its name, for logs.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Task::Bind(..) => "binding",
            Task::Object(_, write) => write.verb.as_str(),
            Task::Evict(..) => "eviction",
            Task::Status(_) => "status",
        }
    }
}
