//! The pods in backoff, in the order in which they are tried early if nothing else is ready.
//!
//! As with PopFromBackoffQ. Unlike there, if an equal pod has failed, a pod is skipped until something
//! changes or its backoff is over, since it would most likely fail, too. Otherwise a change that wakes
//! a thousand pods of which one fits would cause a thousand attempts.

use std::collections::BTreeSet;

use hashbrown::HashMap;
use plimsoll_framework::Time;
use rustc_hash::FxBuildHasher;

use super::shelves::ActiveKey;
use crate::names::PodId;
use crate::signature::QueueSignature;
use crate::sorted_pods::SortedPods;

/// The order of a pod among those in backoff.
pub(super) type BackoffKey = (Time, ActiveKey);

/// The pods that are tried early.
#[derive(Debug, Default)]
pub(super) struct Early {
    /// Pods without a known signature.
    single: SortedPods<BackoffKey>,
    /// The others, by signature.
    alike: HashMap<QueueSignature, SortedPods<BackoffKey>, FxBuildHasher>,
    /// The first pod of each signature that is not skipped.
    firsts: BTreeSet<(BackoffKey, QueueSignature)>,
    /// The skipped signatures.
    in_vain: BTreeSet<QueueSignature>,
}

impl Early {
    /// Inserts a pod.
    pub(super) fn put(&mut self, key: BackoffKey, signature: Option<QueueSignature>, pod: PodId) {
        match signature {
            None => self.single.insert(key, pod),
            Some(signature) => self.change(signature, |pods| pods.insert(key, pod)),
        }
    }

    /// Takes a pod out.
    pub(super) fn take(&mut self, key: &BackoffKey, signature: Option<QueueSignature>) {
        match signature {
            None => self.single.remove(key),
            Some(signature) => self.change(signature, |pods| pods.remove(key)),
        }
    }

    /// Skips a signature after one of its pods has failed.
    pub(super) fn pass_over(&mut self, signature: QueueSignature) {
        if self.in_vain.insert(signature)
            && let Some((first, _)) = self.alike.get(&signature).and_then(SortedPods::first)
        {
            self.firsts.remove(&(first.clone(), signature));
        }
    }

    /// Stops skipping signatures after a change.
    pub(super) fn pass_over_none(&mut self) {
        if self.in_vain.is_empty() {
            return;
        }
        for signature in std::mem::take(&mut self.in_vain) {
            if let Some((first, _)) = self.alike.get(&signature).and_then(SortedPods::first) {
                self.firsts.insert((first.clone(), signature));
            }
        }
    }

    /// The next pod to try.
    pub(super) fn first(&self) -> Option<PodId> {
        let alike =
            self.firsts.first().and_then(|(_, signature)| self.alike.get(signature)?.first());
        self.single.first().into_iter().chain(alike).min_by_key(|(key, _)| *key).map(|(_, pod)| pod)
    }

    /// Whether there is one.
    pub(super) fn has_any(&self) -> bool {
        !self.single.is_empty() || !self.firsts.is_empty()
    }

    fn change(&mut self, signature: QueueSignature, act: impl FnOnce(&mut SortedPods<BackoffKey>)) {
        let pods = self.alike.entry(signature).or_default();
        let first =
            |pods: &SortedPods<BackoffKey>| pods.first().map(|(key, pod)| (key.clone(), pod));
        let before = first(pods);
        act(pods);
        let after = first(pods);
        let is_empty = after.is_none();
        if before != after && !self.in_vain.contains(&signature) {
            if let Some((first, _)) = before {
                self.firsts.remove(&(first, signature));
            }
            self.firsts.extend(after.map(|(first, _)| (first, signature)));
        }
        if is_empty {
            self.alike.remove(&signature);
        }
    }
}
