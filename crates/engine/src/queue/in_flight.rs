//! What happened while pods were being scheduled.
//!
//! A pod that fails must hear of everything that happened during its attempt, or it would sleep
//! through the very change it waits for.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use plimsoll_api::{Node, PodKey, Str};
use plimsoll_framework::events::Object;
use plimsoll_framework::{Change, ClusterEvent, PodInfo, VolumeChange};

use crate::cache::Cache;

/// A change, kept with its objects.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    event: ClusterEvent,
    object: KeptObject,
}

#[derive(Clone, Debug)]
enum KeptObject {
    Node { before: Option<Arc<Node>>, after: Option<Str> },
    Assigned { before: Option<PodInfo>, after: Option<PodInfo> },
    Itself { before: PodInfo },
    Volume(VolumeChange),
    Other,
}

impl Kept {
    /// Keeps `change`.
    pub(crate) fn new(change: &Change<'_>) -> Self {
        let object = match change.object {
            Object::Node { before, after } => KeptObject::Node {
                before: before.cloned().map(Arc::new),
                after: after.map(|row| change.view.nodes.name_of(row).clone()),
            },
            Object::Assigned { before, after, .. } => {
                KeptObject::Assigned { before: before.cloned(), after: after.cloned() }
            }
            Object::Itself { before } => KeptObject::Itself { before: before.clone() },
            Object::Volume(change) => KeptObject::Volume(change.clone()),
            Object::Other => KeptObject::Other,
        };
        Kept { event: change.event, object }
    }

    /// The change as it looks now.
    pub(crate) fn replay<'a>(&'a self, cache: &'a Cache) -> Change<'a> {
        let object = match &self.object {
            KeptObject::Node { before, after } => Object::Node {
                before: before.as_deref(),
                after: after.as_ref().and_then(|name| cache.row(name)),
            },
            KeptObject::Assigned { before, after } => {
                let pod = after.as_ref().or(before.as_ref());
                let node = pod.and_then(PodInfo::node);
                Object::Assigned {
                    before: before.as_ref(),
                    after: after.as_ref(),
                    row: node.and_then(|node| cache.row(node)),
                }
            }
            KeptObject::Itself { before } => Object::Itself { before },
            KeptObject::Volume(change) => Object::Volume(change),
            KeptObject::Other => Object::Other,
        };
        Change { event: self.event, object, view: cache.view() }
    }
}

/// The pods being scheduled, and what happened since each began.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    /// The number of the first change that the pod has not seen.
    pods: BTreeMap<PodKey, u64>,
    /// The same, the earliest first.
    begun: BTreeSet<(u64, PodKey)>,
    /// The changes, numbered without a gap up to `next`.
    log: VecDeque<(Option<PodKey>, Kept)>,
    next: u64,
}

impl InFlight {
    /// An attempt of `pod` begins.
    pub(crate) fn begin(&mut self, pod: PodKey) {
        self.begun.insert((self.next, pod.clone()));
        self.pods.insert(pod, self.next);
    }

    /// Something happened: to everyone, or to one pod only.
    pub(crate) fn record(&mut self, only: Option<&PodKey>, change: &Change<'_>) {
        let heard = match only {
            Some(pod) => self.pods.contains_key(pod),
            None => !self.pods.is_empty(),
        };
        if heard {
            self.log.push_back((only.cloned(), Kept::new(change)));
            self.next += 1;
        }
    }

    /// The attempt of `pod` has ended: what happened since it began.
    pub(crate) fn end(&mut self, pod: &PodKey) -> Vec<Kept> {
        let Some(&since) = self.pods.get(pod) else { return Vec::new() };
        let n_heard = usize::try_from(self.next - since).expect("the log lies in memory");
        let concerns = |only: &Option<PodKey>| only.as_ref().is_none_or(|only| only == pod);
        let heard = self.log.range(self.log.len() - n_heard..);
        let heard = heard.filter(|(only, _)| concerns(only)).map(|(_, kept)| kept.clone());
        let heard = heard.collect();
        self.forget(pod);
        heard
    }

    /// The attempt of `pod` has ended, and it need not hear of what happened.
    pub(crate) fn forget(&mut self, pod: &PodKey) {
        let Some(since) = self.pods.remove(pod) else { return };
        self.begun.remove(&(since, pod.clone()));
        self.prune();
    }

    /// Drops what every pod in flight has heard.
    fn prune(&mut self) {
        let oldest = self.begun.first().map_or(self.next, |(since, _)| *since);
        let n_unheard = usize::try_from(self.next - oldest).expect("the log lies in memory");
        self.log.drain(..self.log.len() - n_unheard);
    }
}
