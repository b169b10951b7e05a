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
use crate::class::ClassId;
use crate::lane::Lane;
use crate::names::PodId;

/// The order of a pod among those in backoff.
pub(super) type BackoffKey = (Time, ActiveKey);

/// The pods that are tried early.
#[derive(Debug, Default)]
pub(super) struct Early {
    /// Pods without a known class.
    single: Lane<BackoffKey>,
    /// The others, by class.
    alike: HashMap<ClassId, Lane<BackoffKey>, FxBuildHasher>,
    /// The first pod of each class that is not skipped.
    firsts: BTreeSet<(BackoffKey, ClassId)>,
    /// The skipped classes.
    in_vain: BTreeSet<ClassId>,
}

impl Early {
    /// Inserts a pod.
    pub(super) fn put(&mut self, key: BackoffKey, class: Option<ClassId>, pod: PodId) {
        match class {
            None => self.single.insert(key, pod),
            Some(class) => self.change(class, |lane| lane.insert(key, pod)),
        }
    }

    /// Takes a pod out.
    pub(super) fn take(&mut self, key: &BackoffKey, class: Option<ClassId>) {
        match class {
            None => self.single.remove(key),
            Some(class) => self.change(class, |lane| lane.remove(key)),
        }
    }

    /// Skips a class after one of its pods has failed.
    pub(super) fn pass_over(&mut self, class: ClassId) {
        if self.in_vain.insert(class)
            && let Some((first, _)) = self.alike.get(&class).and_then(Lane::first)
        {
            self.firsts.remove(&(first.clone(), class));
        }
    }

    /// Stops skipping classes after a change.
    pub(super) fn pass_over_none(&mut self) {
        for class in std::mem::take(&mut self.in_vain) {
            if let Some((first, _)) = self.alike.get(&class).and_then(Lane::first) {
                self.firsts.insert((first.clone(), class));
            }
        }
    }

    /// The next pod to try.
    pub(super) fn first(&self) -> Option<PodId> {
        let alike = self.firsts.first().and_then(|(_, class)| self.alike.get(class)?.first());
        self.single.first().into_iter().chain(alike).min_by_key(|(key, _)| *key).map(|(_, pod)| pod)
    }

    /// Whether there is one.
    pub(super) fn has_any(&self) -> bool {
        !self.single.is_empty() || !self.firsts.is_empty()
    }

    fn change(&mut self, class: ClassId, act: impl FnOnce(&mut Lane<BackoffKey>)) {
        let lane = self.alike.entry(class).or_default();
        let first = |lane: &Lane<BackoffKey>| lane.first().map(|(key, pod)| (key.clone(), pod));
        let before = first(lane);
        act(lane);
        let after = first(lane);
        let is_empty = after.is_none();
        if before != after && !self.in_vain.contains(&class) {
            if let Some((first, _)) = before {
                self.firsts.remove(&(first, class));
            }
            self.firsts.extend(after.map(|(first, _)| (first, class)));
        }
        if is_empty {
            self.alike.remove(&class);
        }
    }
}
