//! Whether a pod may enter the queue, and whether a change helps a waiting one.

use plimsoll_framework::{Change, Gate, PodInfo, Point, SortKey};

use super::groups::WaitReason;
use super::pod::{AttemptVerdict, QueuePlace, QueuedPodInfo};
use crate::cache::Cache;
use crate::metrics::{Hints, QueueCounts, Status};
use crate::names::PodId;
use crate::profile::{Profile, ProfilePlugin};
use crate::profiles::Profiles;

/// The effect of a change on a pod that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum QueueingStrategy {
    /// None.
    Skip,
    /// It is tried again after its backoff.
    AfterBackoff,
    /// It is tried again at once.
    Immediately,
}

/// Which pods a change can help at all.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Audience {
    /// Any.
    All,
    /// All except the one that caused it.
    AllBut(PodId),
    /// Those with this priority or a lower one.
    UpTo(i32),
}

impl Audience {
    pub(super) fn has(self, id: PodId, info: &QueuedPodInfo) -> bool {
        match self {
            Audience::All => true,
            Audience::AllBut(other) => id != other,
            Audience::UpTo(priority) => info.pod.priority <= priority,
        }
    }
}

/// What the queue needs from the scheduler.
#[derive(Clone, Copy)]
pub(crate) struct Surroundings<'a> {
    pub(crate) profiles: &'a Profiles,
    pub(crate) cache: &'a Cache,
}

impl Surroundings<'_> {
    /// The sort key of a pod.
    pub(super) fn key(&self, info: &QueuedPodInfo) -> SortKey {
        self.profiles.sort_key(&info.in_queue(), &self.cache.view())
    }

    /// The first gate that holds a pod back.
    pub(super) fn gate(&self, pod: &PodInfo, counts: &mut QueueCounts) -> Option<QueuePlace> {
        let profile = self.profile(pod);
        let lap = counts.start();
        let gate = profile.at(Point::PreEnqueue).find_map(|(plugin, _)| {
            let point = plugin.points.pre_enqueue.as_ref()?;
            match point.pre_enqueue(pod, &self.cache.view()) {
                Gate::Open => None,
                Gate::Closed(why) => Some(QueuePlace::Gated { plugin: plugin.name, why }),
            }
        });
        let status = match &gate {
            Some(QueuePlace::Gated { why, .. }) => Status::from(why.code),
            _ => Status::Success,
        };
        counts.gated(profile.index, status, lap);
        gate
    }

    /// The effect of a change on a waiting pod. As in scheduling_queue.go, isPodWorthRequeuing.
    pub(super) fn worth(
        &self,
        info: &QueuedPodInfo,
        change: &Change<'_>,
        hints: &mut Hints,
    ) -> QueueingStrategy {
        match info.place {
            QueuePlace::Gated { plugin, .. } => self.may_open(info, plugin, change, hints),
            _ => self.may_help(info, change, hints),
        }
    }

    /// Whether a change may open the gate that `plugin` closed.
    fn may_open(
        &self,
        info: &QueuedPodInfo,
        plugin: &'static str,
        change: &Change<'_>,
        hints: &mut Hints,
    ) -> QueueingStrategy {
        match self.profile(&info.pod).helps(plugin, &info.pod, change, hints) {
            true => QueueingStrategy::AfterBackoff,
            false => QueueingStrategy::Skip,
        }
    }

    fn may_help(
        &self,
        info: &QueuedPodInfo,
        change: &Change<'_>,
        hints: &mut Hints,
    ) -> QueueingStrategy {
        let Some(verdict) = &info.verdict else { return QueueingStrategy::AfterBackoff };
        let profile = self.profile(&info.pod);
        let helps = profile.hint(&verdict.rejectors, &info.pod, change, hints);
        if helps.iter().any(|plugin| verdict.pending.contains(*plugin)) {
            QueueingStrategy::Immediately
        } else if helps.is_empty() {
            QueueingStrategy::Skip
        } else {
            QueueingStrategy::AfterBackoff
        }
    }

    /// Whether equal pods can be checked once for all: no plugin for which `pod` waits, and none that
    /// could gate it, reads its individual fields.
    pub(super) fn asks_as_one(&self, pod: &PodInfo, wait: &WaitReason) -> bool {
        let profile = self.profile(pod);
        let may_gate = |plugin: &ProfilePlugin| {
            plugin.points.pre_enqueue.as_ref().is_some_and(|point| point.applies(pod))
        };
        let mut gates = profile.at(Point::PreEnqueue).map(|(plugin, _)| plugin);
        let mut waits = wait.plugins().filter_map(|name| profile.named(name));
        gates.all(|plugin| plugin.has_one_answer_for_a_signature() || !may_gate(plugin))
            && waits.all(ProfilePlugin::has_one_answer_for_a_signature)
    }

    /// Whether equal pods most likely fail like `pod`: no plugin that rejected it reads its individual
    /// fields, except because of its volumes.
    pub(super) fn fail_alike(&self, pod: &PodInfo, verdict: &AttemptVerdict) -> bool {
        let profile = self.profile(pod);
        let mut rejectors = verdict.rejectors.iter().filter_map(|name| profile.named(name));
        rejectors.all(|plugin| plugin.has_one_answer_for_a_signature() || plugin.reads_volumes())
    }

    fn profile(&self, pod: &PodInfo) -> &Profile {
        self.profiles.get(&pod.scheduler_name).expect("only pods of our profiles are queued")
    }
}
