//! What is to be done for one effect, and how effects that wait become one.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_api::{Pod, PodKey, Str};
use plimsoll_engine::{Condition, Effect, EffectId, Eviction, Write};
use plimsoll_framework::ObjectWrite;
use tokio::time::Instant;

use crate::events::{Occurrence, Subject};

/// Something to do at the API server.
#[derive(Debug)]
pub(super) struct Job {
    /// The pod for which it is done, as it was last seen.
    pub(super) pod: Arc<Pod>,
    /// What to do.
    pub(super) task: Task,
    /// When the answer is no longer awaited.
    pub(super) deadline: Instant,
}

/// What to do.
#[derive(Debug)]
pub(super) enum Task {
    /// Bind the pod to a node.
    Bind(EffectId, Str),
    /// Write an object for a plugin.
    Object(EffectId, ObjectWrite),
    /// Evict another pod for it.
    Evict(EffectId, Eviction),
    /// Change its status. Nobody awaits an answer.
    Status(Status),
}

/// What is to change in the status of a pod.
#[derive(Debug, Default)]
pub(super) struct Status {
    /// The condition `PodScheduled=False`.
    pub(super) condition: Option<Condition>,
    /// The node that was cleared for the pod.
    pub(super) nominated: Nominated,
}

/// What is to become of the node that was cleared for a pod.
#[derive(Debug, Default)]
pub(super) enum Nominated {
    /// It stays as it is.
    #[default]
    AsItWas,
    /// It is no longer kept for the pod.
    No,
    /// It is this one.
    On(Str),
}

impl From<Option<Str>> for Nominated {
    fn from(node: Option<Str>) -> Self {
        node.map_or(Nominated::No, Nominated::On)
    }
}

/// What an effect comes down to.
pub(super) enum Work {
    /// Something to do at the API server, in its turn.
    Job(Job),
    /// An event to be told, at once.
    Event(Box<Occurrence>),
    /// A question to an extender, which is for [`Extenders`](crate::extender::Extenders).
    Elsewhere,
}

impl Work {
    /// What `effect` comes down to. Its answer is awaited for `patience`.
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
    /// The pod that it is about: what is done about one pod is done in order.
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

    /// Takes in what is to be done after this, where one request does for both: of a status the newest
    /// counts. Otherwise it comes back.
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
    /// What it is, for logs.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Task::Bind(..) => "binding",
            Task::Object(_, write) => write.verb.as_str(),
            Task::Evict(..) => "eviction",
            Task::Status(_) => "status",
        }
    }
}
