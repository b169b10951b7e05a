//! Attempts that failed, to be repeated for equal pods as long as nothing has changed.

use plimsoll_api::{PreemptionPolicy, Str};
use plimsoll_framework::PodInfo;
use plimsoll_framework::parts::PodReads;
use plimsoll_framework::{Point, PostFilterAnswer};

use super::FastMap;
use super::kinds::{Kind, Kinds};
use crate::class::OWN_PARTS;
use crate::cycle::{Cycle, CycleResult, Failure};
use crate::profile::{PluginIndex, Profile};

/// More kinds of pods than this are not kept after a change.
const MOST_KINDS: usize = 1 << 12;

/// The memory that failures may take, in bytes: the pods aside, mostly their messages.
const MOST_BYTES: usize = 64 << 20;
/// About what a failure takes beside its message, in bytes.
const BYTES_PER_FAILURE: usize = 512;

/// What tells failures apart beside what filters read.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    kind: Kind,
    /// Whether it is a kind of pods of which some filter reads what is their own.
    is_own: bool,
    priority: i32,
    policy: PreemptionPolicy,
    nominated: Option<Str>,
}

/// The failures of pods of one profile since the last change.
#[derive(Debug)]
pub(crate) struct Failures {
    /// What filters read of all pods.
    kinds: Kinds,
    /// What filters read of pods about which one of `of_own` has something to say.
    own_kinds: Kinds,
    n_kinds: usize,
    /// Filters that read what a pod has for itself, such as its name. Most of them have something to say
    /// about few pods; others that are alike fail alike.
    of_own: Vec<PluginIndex>,
    known: FastMap<Key, (Failure, usize)>,
    /// About how many bytes `known` takes.
    bytes: usize,
}

impl Failures {
    pub(crate) fn new(profile: &Profile) -> Self {
        let points = [Point::PreFilter, Point::Filter].into_iter();
        let (mut of_all, mut of_any, mut of_own) = (PodReads::empty(), PodReads::empty(), vec![]);
        for (index, _) in points.flat_map(|point| profile.indices(point)) {
            let points = &profile.get(index).points;
            if points.filter.is_none() {
                continue;
            }
            of_any |= points.reads.pod;
            if points.reads.pod.intersects(OWN_PARTS) {
                of_own.push(index);
            } else {
                of_all |= points.reads.pod;
            }
        }
        Failures {
            kinds: Kinds::new(of_all),
            own_kinds: Kinds::new(of_any),
            n_kinds: 0,
            of_own,
            known: FastMap::default(),
            bytes: 0,
        }
    }

    /// Whether no further kind can be told from others.
    fn is_full(&self) -> bool {
        self.kinds.is_full() || self.own_kinds.is_full()
    }

    /// Something has changed.
    pub(crate) fn forget(&mut self) {
        self.known.clear();
        self.bytes = 0;
        if MOST_KINDS < self.n_kinds || self.is_full() {
            self.kinds.clear();
            self.own_kinds.clear();
            self.n_kinds = 0;
        }
    }

    /// How an attempt at an equal pod failed, and how many nodes it looked at.
    pub(crate) fn find(&mut self, profile: &Profile, pod: &PodInfo) -> Option<(Failure, usize)> {
        if self.known.is_empty() {
            return None;
        }
        let key = self.key(profile, pod)?;
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
        if failure.nomination.is_none() && failure.record.is_none() && holds_for_all {
            if MOST_BYTES < self.bytes || self.is_full() {
                self.forget();
            }
            let Some(key) = self.key(profile, pod) else { return };
            self.bytes += BYTES_PER_FAILURE + failure.message.len();
            self.known.insert(key, (failure.as_ref().clone(), cycle.n_judged));
        }
    }

    fn key(&mut self, profile: &Profile, pod: &PodInfo) -> Option<Key> {
        let has_something_to_say = |&index: &PluginIndex| {
            let filter = &profile.get(index).points.filter;
            filter.as_ref().is_some_and(|filter| filter.applies(pod))
        };
        let is_own = self.of_own.iter().any(has_something_to_say);
        let kinds = if is_own { &mut self.own_kinds } else { &mut self.kinds };
        let (kind, is_new) = kinds.number(pod)?;
        self.n_kinds += usize::from(is_new);
        let (priority, policy) = (pod.priority, pod.preemption_policy);
        Some(Key { kind, is_own, priority, policy, nominated: pod.nominated_node.clone() })
    }
}
