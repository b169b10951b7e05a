//! The diagnoses of failed attempts. They are repeated for equal pods until something changes.

use plimsoll_api::{PreemptionPolicy, Str};
use plimsoll_framework::PodInfo;
use plimsoll_framework::parts::PodReads;
use plimsoll_framework::{Point, PostFilterAnswer};

use super::signatures::{SignatureId, Signatures};
use super::{Budgets, FastMap};
use crate::cycle::{AttemptFailure, Cycle, CycleResult};
use crate::profile::{PluginIndex, Profile};
use crate::signature::OWN_PARTS;

/// Beyond this many signatures they are dropped at the next change.
const MOST_SIGNATURES: usize = 1 << 12;

/// The approximate size of a diagnosis without its message, in bytes.
const BYTES_PER_DIAGNOSIS: usize = 512;

/// Pods with equal keys fail in the same way.
#[derive(Debug, PartialEq, Eq, Hash)]
struct DiagnosisKey {
    signature: SignatureId,
    /// Whether the signature is one of `own_signatures`.
    is_own: bool,
    priority: i32,
    policy: PreemptionPolicy,
    /// Whether it may evict others: pods of groups may not by themselves, and their message does not speak of it.
    asks_post_filter: bool,
    nominated: Option<Str>,
}

/// The diagnoses of one profile since the last change.
#[derive(Debug)]
pub(crate) struct SignatureDiagnoses {
    /// By what filters read of all pods.
    signatures: Signatures,
    /// By what filters read of pods to which a filter in `of_own` applies.
    own_signatures: Signatures,
    n_signatures: usize,
    /// Filters that read individual fields of a pod, such as its name. Most of them apply to few pods; all
    /// other equal pods fail in the same way.
    of_own: Vec<PluginIndex>,
    known: FastMap<DiagnosisKey, (AttemptFailure, usize)>,
    /// The approximate size of `known` in bytes.
    bytes: usize,
    /// Its limit.
    most_bytes: usize,
}

impl SignatureDiagnoses {
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
        SignatureDiagnoses {
            signatures: Signatures::new(of_all),
            own_signatures: Signatures::new(of_any),
            n_signatures: 0,
            of_own,
            known: FastMap::default(),
            bytes: 0,
            most_bytes: Budgets::default().signature_diagnoses,
        }
    }

    /// The approximate size of the diagnoses, in bytes.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The signatures of each use.
    #[cfg(test)]
    pub(super) fn all_signatures(&self) -> [&Signatures; 2] {
        [&self.signatures, &self.own_signatures]
    }

    /// Changes the memory for diagnoses and for example pods, in bytes.
    #[cfg(test)]
    pub(super) fn limit(&mut self, diagnoses: usize, signatures: usize) {
        self.most_bytes = diagnoses;
        self.signatures.limit(signatures);
        self.own_signatures.limit(signatures);
    }

    /// Whether no new signature can be added.
    fn is_full(&self) -> bool {
        self.signatures.is_full() || self.own_signatures.is_full()
    }

    /// Drops all diagnoses after a change.
    pub(crate) fn forget(&mut self) {
        self.known.clear();
        self.bytes = 0;
        if MOST_SIGNATURES < self.n_signatures || self.is_full() {
            self.signatures.clear();
            self.own_signatures.clear();
            self.n_signatures = 0;
        }
    }

    /// The diagnosis of an equal pod, and how many nodes were judged for it.
    pub(crate) fn find(
        &mut self,
        profile: &Profile,
        pod: &PodInfo,
    ) -> Option<(AttemptFailure, usize)> {
        if self.known.is_empty() {
            return None;
        }
        let key = self.key(profile, pod)?;
        self.known.get(&key).cloned()
    }

    /// Records the result of an attempt. Only what holds for all equal pods is kept: no nomination, and
    /// nothing that may depend on the name of the pod.
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
            if self.most_bytes < self.bytes || self.is_full() {
                self.forget();
            }
            let Some(key) = self.key(profile, pod) else { return };
            self.bytes +=
                BYTES_PER_DIAGNOSIS + failure.message.len() + size_of_val(&*failure.counted);
            self.known.insert(key, (failure.as_ref().clone(), cycle.n_judged));
        }
    }

    fn key(&mut self, profile: &Profile, pod: &PodInfo) -> Option<DiagnosisKey> {
        let has_something_to_say = |&index: &PluginIndex| {
            let filter = &profile.get(index).points.filter;
            filter.as_ref().is_some_and(|filter| filter.applies(pod))
        };
        let is_own = self.of_own.iter().any(has_something_to_say);
        let signatures = if is_own { &mut self.own_signatures } else { &mut self.signatures };
        let (signature, is_new) = signatures.number(pod)?;
        self.n_signatures += usize::from(is_new);
        let (priority, policy) = (pod.priority, pod.preemption_policy);
        Some(DiagnosisKey {
            signature,
            is_own,
            priority,
            policy,
            asks_post_filter: profile.asks_post_filter(pod),
            nominated: pod.nominated_node.clone(),
        })
    }
}
