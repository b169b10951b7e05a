//! Attempts that failed, to be repeated for equal pods as long as nothing has changed.

use plimsoll_api::{PreemptionPolicy, Str};
use plimsoll_framework::PodInfo;
use plimsoll_framework::parts::PodReads;
use plimsoll_framework::{Point, PostFilterAnswer};

use super::FastMap;
use super::kinds::{Kind, Kinds};
use crate::cycle::{Cycle, CycleResult, Failure};
use crate::profile::Profile;

/// More kinds of pods than this are not kept after a change.
const MOST_KINDS: usize = 1 << 12;

/// What tells failures apart beside what filters read.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    kind: Kind,
    priority: i32,
    policy: PreemptionPolicy,
    nominated: Option<Str>,
}

/// The failures of pods of one profile since the last change.
#[derive(Debug)]
pub(crate) struct Failures {
    kinds: Kinds,
    n_kinds: usize,
    known: FastMap<Key, (Failure, usize)>,
}

impl Failures {
    pub(crate) fn new(profile: &Profile) -> Self {
        let points = [Point::PreFilter, Point::Filter].into_iter();
        let filters = points.flat_map(|point| profile.at(point)).map(|(plugin, _)| &plugin.points);
        let reads = filters.filter(|points| points.filter.is_some()).map(|points| points.reads.pod);
        let kinds = Kinds::new(reads.fold(PodReads::empty(), PodReads::union));
        Failures { kinds, n_kinds: 0, known: FastMap::default() }
    }

    /// Something has changed.
    pub(crate) fn forget(&mut self) {
        self.known.clear();
        if MOST_KINDS < self.n_kinds {
            self.kinds.clear();
            self.n_kinds = 0;
        }
    }

    /// How an attempt at an equal pod failed, and how many nodes it looked at.
    pub(crate) fn find(&mut self, pod: &PodInfo) -> Option<(Failure, usize)> {
        if self.known.is_empty() {
            return None;
        }
        let key = self.key(pod)?;
        self.known.get(&key).cloned()
    }

    /// Takes note of how an attempt came out. Only what holds for all equal pods is remembered: no
    /// nomination, and nothing that may depend on what the pod is called.
    pub(crate) fn note(&mut self, profile: &Profile, pod: &PodInfo, cycle: &Cycle) {
        let CycleResult::Unschedulable(failure) = &cycle.result else { return };
        let holds_for_all = profile.at(Point::PostFilter).all(|(plugin, _)| {
            plugin.points.post_filter.as_ref().is_none_or(|point| {
                let answer = point.without_nodes(pod, true);
                point.by_node().is_some()
                    || answer
                        .is_some_and(|answer| !matches!(answer, PostFilterAnswer::Nominated(_)))
            })
        });
        if failure.nomination.is_none()
            && failure.record.is_none()
            && holds_for_all
            && let Some(key) = self.key(pod)
        {
            self.known.insert(key, (failure.as_ref().clone(), cycle.n_judged));
        }
    }

    fn key(&mut self, pod: &PodInfo) -> Option<Key> {
        let (kind, is_new) = self.kinds.number(pod)?;
        self.n_kinds += usize::from(is_new);
        let (priority, policy) = (pod.priority, pod.preemption_policy);
        Some(Key { kind, priority, policy, nominated: pod.nominated_node.clone() })
    }
}
