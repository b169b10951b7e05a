//! Attempts that failed, to be repeated for equal pods as long as nothing has changed.

use plimsoll_api::{PreemptionPolicy, Str};
use plimsoll_framework::PodInfo;
use plimsoll_framework::parts::PodReads;
use plimsoll_framework::{Point, PostFilterAnswer};

use super::FastMap;
use super::signatures::{SignatureId, Signatures};
use crate::cycle::{AttemptFailure, Cycle, CycleResult};
use crate::profile::{PluginIndex, Profile};
use crate::signature::OWN_PARTS;

/// More signatures of pods than this are not kept after a change.
const MOST_SIGNATURES: usize = 1 << 12;

/// The memory that failures may take, in bytes: the pods aside, mostly their messages.
const MOST_BYTES: usize = 64 << 20;
/// About what a failure takes beside its message, in bytes.
const BYTES_PER_DIAGNOSIS: usize = 512;

/// What tells failures apart beside what filters read.
#[derive(Debug, PartialEq, Eq, Hash)]
struct DiagnosisKey {
    signature: SignatureId,
    /// Whether it is a signature of pods of which some filter reads what is their own.
    is_own: bool,
    priority: i32,
    policy: PreemptionPolicy,
    nominated: Option<Str>,
}

/// The failures of pods of one profile since the last change.
#[derive(Debug)]
pub(crate) struct SignatureDiagnoses {
    /// What filters read of all pods.
    signatures: Signatures,
    /// What filters read of pods about which one of `of_own` has something to say.
    own_signatures: Signatures,
    n_signatures: usize,
    /// Filters that read what a pod has for itself, such as its name. Most of them have something to say
    /// about few pods; others that are alike fail alike.
    of_own: Vec<PluginIndex>,
    known: FastMap<DiagnosisKey, (AttemptFailure, usize)>,
    /// About how many bytes `known` takes.
    bytes: usize,
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
        }
    }

    /// Whether no further signature can be told from others.
    fn is_full(&self) -> bool {
        self.signatures.is_full() || self.own_signatures.is_full()
    }

    /// Something has changed.
    pub(crate) fn forget(&mut self) {
        self.known.clear();
        self.bytes = 0;
        if MOST_SIGNATURES < self.n_signatures || self.is_full() {
            self.signatures.clear();
            self.own_signatures.clear();
            self.n_signatures = 0;
        }
    }

    /// How an attempt at an equal pod failed, and how many nodes it looked at.
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
            self.bytes += BYTES_PER_DIAGNOSIS + failure.message.len();
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
            nominated: pod.nominated_node.clone(),
        })
    }
}
