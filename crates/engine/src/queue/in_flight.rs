//! Events during the attempts of pods in flight.
//!
//! A pod that fails must be checked against every event during its attempt. Otherwise it could miss the
//! change that it waits for.

use std::collections::VecDeque;
use std::sync::Arc;

use plimsoll_api::{AnyVersions, Node, Str};
use plimsoll_framework::events::Object;
use plimsoll_framework::{Change, ClusterEvent, PodInfo};

use crate::cache::Cache;
use crate::metrics::EventLabel;
use crate::names::PodId;

/// A change, kept with its objects.
#[derive(Clone, Debug)]
pub(crate) struct KeptChange {
    event: ClusterEvent,
    object: KeptObject,
}

#[derive(Clone, Debug)]
enum KeptObject {
    Node { before: Option<Arc<Node>>, after: Option<Str> },
    Assigned { before: Option<PodInfo>, after: Option<PodInfo> },
    Itself { before: PodInfo },
    Other(AnyVersions),
}

impl KeptChange {
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
            Object::Other(change) => KeptObject::Other(change.clone()),
        };
        KeptChange { event: change.event, object }
    }

    /// The label for metrics.
    fn label(&self) -> EventLabel {
        match self.object {
            KeptObject::Itself { .. } => EventLabel::pending_pod(self.event.action),
            _ => EventLabel::of_event(self.event),
        }
    }

    /// The change with the present state of the cluster.
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
            KeptObject::Other(change) => Object::Other(change),
        };
        Change { event: self.event, object, view: cache.view() }
    }
}

/// The events since the earliest attempt in flight began.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    /// How many attempts began before each change, earliest first. The first number is never 0.
    begun: VecDeque<(Since, usize)>,
    /// The changes, numbered consecutively up to `next`.
    log: VecDeque<(Option<PodId>, KeptChange)>,
    next: Since,
}

/// The number of the first change after the start of an attempt.
pub(crate) type Since = u64;

impl InFlight {
    /// Begins an attempt. The returned value must be passed to [`InFlight::end`].
    pub(crate) fn begin(&mut self) -> Since {
        match self.begun.back_mut() {
            Some((since, count)) if *since == self.next => *count += 1,
            _ => self.begun.push_back((self.next, 1)),
        }
        self.next
    }

    /// Records an event, for all pods in flight or only for one.
    pub(crate) fn record(&mut self, only: Option<PodId>, change: &Change<'_>) {
        if !self.begun.is_empty() {
            self.log.push_back((only, KeptChange::new(change)));
            self.next += 1;
        }
    }

    /// Ends the attempt of `pod` that began at `since`, and returns the events since then.
    pub(crate) fn end(&mut self, pod: PodId, since: Since) -> Vec<KeptChange> {
        let n_heard = usize::try_from(self.next - since).expect("the log lies in memory");
        let heard = self.log.range(self.log.len() - n_heard..);
        let heard = heard.filter(|(only, _)| only.is_none_or(|only| only == pod));
        let heard = heard.map(|(_, kept)| kept.clone()).collect();
        self.forget(since);
        heard
    }

    /// Ends an attempt that began at `since`, without its events.
    pub(crate) fn forget(&mut self, since: Since) {
        let at = self.begun.binary_search_by_key(&since, |(since, _)| *since);
        let at = at.expect("it began then");
        self.begun[at].1 -= 1;
        while self.begun.pop_front_if(|(_, count)| *count == 0).is_some() {}
        self.prune();
    }

    /// The number of pods in flight, and the events kept for them.
    pub(crate) fn kept(&self) -> (usize, impl Iterator<Item = EventLabel>) {
        let n_pods = self.begun.iter().map(|(_, count)| count).sum();
        (n_pods, self.log.iter().map(|(_, kept)| kept.label()))
    }

    /// Drops events that no attempt in flight needs.
    fn prune(&mut self) {
        let oldest = self.begun.front().map_or(self.next, |(since, _)| *since);
        let n_unheard = usize::try_from(self.next - oldest).expect("the log lies in memory");
        self.log.drain(..self.log.len() - n_unheard);
    }
}
