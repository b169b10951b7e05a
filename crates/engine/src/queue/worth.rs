//! Whether a pod may enter the queue, and what a change is worth to one that waits.

use std::collections::BTreeSet;

use plimsoll_framework::{Change, Gate, PodInfo, Point, QueuedPod, SortKey};

use super::groups::Wait;
use super::pod::{Place, QueuedPodInfo};
use crate::cache::Cache;
use crate::profile::{Profile, ProfilePlugin};
use crate::profiles::Profiles;

/// What a change means for a pod that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Strategy {
    /// Nothing.
    Skip,
    /// It is tried again, but not before its backoff is over.
    AfterBackoff,
    /// It is tried again at once.
    Immediately,
}

/// What the queue must know of the rest to work.
#[derive(Clone, Copy)]
pub(crate) struct Surroundings<'a> {
    pub(crate) profiles: &'a Profiles,
    pub(crate) cache: &'a Cache,
}

impl Surroundings<'_> {
    /// Where a pod stands among the ready ones.
    pub(super) fn key(&self, info: &QueuedPodInfo) -> SortKey {
        self.profiles.sort_key(&QueuedPod { pod: &info.pod, queued: info.queued })
    }

    /// The first gate that keeps a pod out.
    pub(super) fn gate(&self, pod: &PodInfo) -> Option<Place> {
        self.profile(pod).at(Point::PreEnqueue).find_map(|(plugin, _)| {
            let point = plugin.points.pre_enqueue.as_ref()?;
            match point.pre_enqueue(pod, &self.cache.view()) {
                Gate::Open => None,
                Gate::Closed(why) => Some(Place::Gated { plugin: plugin.name, why }),
            }
        })
    }

    /// What a change is worth to a pod that waits. As in scheduling_queue.go, isPodWorthRequeuing.
    pub(super) fn worth(&self, info: &QueuedPodInfo, change: &Change<'_>) -> Strategy {
        match info.place {
            Place::Gated { plugin, .. } => self.may_open(info, plugin, change),
            _ => self.may_help(info, change),
        }
    }

    /// Whether a change may open the gate that `plugin` closed.
    fn may_open(
        &self,
        info: &QueuedPodInfo,
        plugin: &'static str,
        change: &Change<'_>,
    ) -> Strategy {
        let gate = BTreeSet::from([plugin]);
        match self.profile(&info.pod).hint(&gate, &info.pod, change).is_empty() {
            true => Strategy::Skip,
            false => Strategy::AfterBackoff,
        }
    }

    fn may_help(&self, info: &QueuedPodInfo, change: &Change<'_>) -> Strategy {
        let Some(verdict) = &info.verdict else { return Strategy::AfterBackoff };
        let helps = self.profile(&info.pod).hint(&verdict.rejectors, &info.pod, change);
        if helps.iter().any(|plugin| verdict.pending.contains(*plugin)) {
            Strategy::Immediately
        } else if helps.is_empty() {
            Strategy::Skip
        } else {
            Strategy::AfterBackoff
        }
    }

    /// Whether pods like `pod` may be asked as one: no plugin of those that keep it waiting, and none that
    /// could gate it, reads what is its own.
    pub(super) fn asks_as_one(&self, pod: &PodInfo, wait: &Wait) -> bool {
        let profile = self.profile(pod);
        let mut gates = profile.at(Point::PreEnqueue).map(|(plugin, _)| plugin);
        let mut waits = wait.plugins().filter_map(|name| profile.named(name));
        gates.all(ProfilePlugin::has_one_answer_for_a_class)
            && waits.all(ProfilePlugin::has_one_answer_for_a_class)
    }

    fn profile(&self, pod: &PodInfo) -> &Profile {
        self.profiles.get(&pod.scheduler_name).expect("only pods of our profiles are queued")
    }
}
