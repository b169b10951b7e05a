//! The entries that are written together, by what they change: a pod that is tried and bound within one batch is written
//! once, and so is its attempt.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use plimsoll_api::{PodKey, Str};
use plimsoll_framework::Time;
use rustc_hash::FxHashMap;

use crate::entry::{AttemptEntry, Entry, GroupEntry};

/// An hour, in milliseconds.
pub(crate) const HOUR: i64 = 3_600_000;
/// A second, in milliseconds.
const SECOND: i64 = 1000;
/// Of the pods of a batch that are bound at their first attempt, so many that waited longest have their history in short. The
/// slowest of the whole journal are then among them, and no page shows more.
const MOST_SLOW: usize = 200;

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
    /// Whether it is one of those that [waited longest](mark_slowest).
    pub(crate) is_slow: bool,
}

impl PodChange {
    /// Whether the pod was tried again, or was one of the slowest. Of all others the attempt says all.
    pub(crate) fn is_notable(&self) -> bool {
        1 < self.number || 1 < self.attempts || self.is_slow
    }

    fn waited(&self) -> Option<i64> {
        self.bound_at.zip(self.ready_at).map(|(bound, ready)| bound - ready)
    }
}

/// Marks the pods that waited longest until they were bound, of those that waited a second or longer.
pub(crate) fn mark_slowest<'a>(pods: impl Iterator<Item = &'a mut PodChange>) {
    let waited = |pod: &mut PodChange| pod.waited().filter(|waited| SECOND <= *waited);
    let mut slow: Vec<_> = pods.filter_map(|pod| Some((waited(pod)?, pod))).collect();
    if MOST_SLOW < slow.len() {
        slow.select_nth_unstable_by_key(MOST_SLOW, |(waited, _)| Reverse(*waited));
        slow.truncate(MOST_SLOW);
    }
    for (_, pod) in slow {
        pod.is_slow = true;
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

/// Where a pod stands in a batch.
struct Place {
    /// Among its pods.
    pod: usize,
    /// The attempt whose binding is not answered yet.
    binding: Option<usize>,
}

impl<'a> Batch<'a> {
    pub(crate) fn of(entries: &'a [Entry]) -> Self {
        let mut batch = Batch::default();
        let mut places = FxHashMap::<PodRef<'a>, Place>::default();
        for entry in entries {
            match entry {
                Entry::Attempt(attempt) => {
                    let pod = (&attempt.pod, &attempt.uid);
                    let place = places.entry(pod).or_insert_with(|| {
                        batch.pods.push((pod, PodChange::default()));
                        Place { pod: batch.pods.len() - 1, binding: None }
                    });
                    let change = &mut batch.pods[place.pod].1;
                    change.attempts += 1;
                    change.number = attempt.number;
                    change.ready_at = change.ready_at.or(attempt.first_ready.map(Time::millis));
                    if attempt.node.is_some() {
                        place.binding = Some(batch.attempts.len());
                    }
                    let attempt = BatchAttempt { pod: place.pod, entry: attempt, answer: None };
                    batch.attempts.push(attempt);
                    batch.count(attempt.entry);
                }
                Entry::Group(group) => batch.groups.push(group),
                Entry::Bound { at, pod, uid, error } => {
                    let (pod, answer) = ((pod, uid), Answer { at: *at, error: error.as_deref() });
                    let awaited = places.get_mut(&pod).and_then(|place| place.binding.take());
                    let Some(attempt) = awaited else {
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
        mark_slowest(batch.pods.iter_mut().map(|(_, change)| change));
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
