//! The entries that are written together, by what they change: a pod that is tried and bound within one batch is written
//! once, and so is its attempt.

use std::collections::BTreeMap;

use plimsoll_api::{PodKey, Str};
use plimsoll_framework::Time;
use rustc_hash::FxHashMap;

use crate::entry::{AttemptEntry, Entry, GroupEntry};

/// An hour, in milliseconds.
pub(crate) const HOUR: i64 = 3_600_000;
/// A second, in milliseconds.
const SECOND: i64 = 1000;

/// A pod: its name and its uid.
pub(crate) type PodRef<'a> = (&'a PodKey, &'a Str);

/// The answer to the binding of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer<'a> {
    pub(crate) at: Time,
    pub(crate) error: Option<&'a str>,
}

/// What has changed of a pod. Times are in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PodChange {
    /// How often it was tried.
    pub(crate) attempts: i64,
    /// The number of its last attempt, 1 for the first one.
    pub(crate) number: u32,
    pub(crate) ready_at: Option<i64>,
    pub(crate) bound_at: Option<i64>,
}

impl PodChange {
    /// Whether the pod was tried again, or waited a second or longer until it was bound. Of all others the attempt says all.
    pub(crate) fn is_notable(&self) -> bool {
        let waited = self.bound_at.zip(self.ready_at).map(|(bound, ready)| bound - ready);
        1 < self.number || 1 < self.attempts || waited.is_some_and(|waited| SECOND <= waited)
    }
}

/// An attempt of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchAttempt<'a> {
    /// The place of its pod among those of the batch.
    pod: usize,
    pub(crate) entry: &'a AttemptEntry,
    /// The answer to its binding, if that is in the batch.
    pub(crate) answer: Option<Answer<'a>>,
}

/// The entries that are written together.
#[derive(Debug, Default)]
pub(crate) struct Batch<'a> {
    /// The pods that were tried, in the order of their first attempts here.
    pub(crate) pods: Vec<(PodRef<'a>, PodChange)>,
    /// The attempts in their order.
    pub(crate) attempts: Vec<BatchAttempt<'a>>,
    /// The answers to bindings of attempts that are in earlier batches.
    pub(crate) answers: Vec<(PodRef<'a>, Answer<'a>)>,
    /// The attempts to schedule groups, in their order.
    pub(crate) groups: Vec<&'a GroupEntry>,
    /// By hour and plugin: how many attempts got a node (no plugin), and how many a plugin rejected.
    pub(crate) hours: BTreeMap<(i64, &'a str), i64>,
}

impl<'a> Batch<'a> {
    pub(crate) fn of(entries: &'a [Entry]) -> Self {
        let mut batch = Batch::default();
        let mut places = FxHashMap::<PodRef<'a>, usize>::default();
        // By pod: the place of the attempt whose binding is not answered yet.
        let mut binding = FxHashMap::<PodRef<'a>, usize>::default();
        for entry in entries {
            match entry {
                Entry::Attempt(attempt) => {
                    let pod = (&attempt.pod, &attempt.uid);
                    let place = *places.entry(pod).or_insert(batch.pods.len());
                    if place == batch.pods.len() {
                        batch.pods.push((pod, PodChange::default()));
                    }
                    let change = &mut batch.pods[place].1;
                    change.attempts += 1;
                    change.number = attempt.number;
                    change.ready_at = change.ready_at.or(attempt.first_ready.map(Time::millis));
                    if attempt.node.is_some() {
                        binding.insert(pod, batch.attempts.len());
                    }
                    let attempt = BatchAttempt { pod: place, entry: attempt, answer: None };
                    batch.attempts.push(attempt);
                    batch.count(attempt.entry);
                }
                Entry::Group(group) => batch.groups.push(group),
                Entry::Bound { at, pod, uid, error } => {
                    let (pod, answer) = ((pod, uid), Answer { at: *at, error: error.as_deref() });
                    let Some(attempt) = binding.remove(&pod) else {
                        batch.answers.push((pod, answer));
                        continue;
                    };
                    let attempt = &mut batch.attempts[attempt];
                    attempt.answer = Some(answer);
                    if error.is_none() {
                        batch.pods[attempt.pod].1.bound_at = Some(at.millis());
                    }
                }
            }
        }
        batch
    }

    fn count(&mut self, attempt: &'a AttemptEntry) {
        let at = attempt.at.millis();
        let hour = at - at.rem_euclid(HOUR);
        let mut plugins: Vec<&str> = match attempt.result {
            "scheduled" => vec![""],
            _ => attempt.rejections.iter().map(|one| one.plugin.as_str()).collect(),
        };
        plugins.sort_unstable();
        plugins.dedup();
        for plugin in plugins {
            *self.hours.entry((hour, plugin)).or_default() += 1;
        }
    }
}
