//! The entries that are written together, by what they change: a pod that is tried and bound within one batch is written
//! once, and so is its attempt.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use hashbrown::HashTable;
use plimsoll_framework::Time;

use crate::entry::{AttemptEntry, Entry, GroupEntry};
use crate::pods::PodRef;

/// An hour, in milliseconds.
pub(crate) const HOUR: i64 = 3_600_000;
/// A second, in milliseconds.
const SECOND: i64 = 1000;
/// Of the pods of a batch that are bound at their first attempt, so many that waited longest have their history in short. The
/// slowest of the whole journal are then among them, and no page shows more.
const MOST_SLOW: usize = 200;

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
    /// Its last attempt.
    pub(crate) last: i64,
    /// Whether it is one of those that [waited longest](Slowest).
    pub(crate) is_slow: bool,
}

impl PodChange {
    /// Whether the pod was tried again, or was one of the slowest. Of all others the attempt says all.
    pub(crate) fn is_notable(&self) -> bool {
        1 < self.number || 1 < self.attempts || self.is_slow
    }

    /// From when it was first ready until it was bound.
    pub(crate) fn waited(&self) -> Option<i64> {
        self.bound_at.zip(self.ready_at).map(|(bound, ready)| bound - ready)
    }
}

/// Of pods that are bound together, those that waited longest, if they waited a second or longer.
#[derive(Debug)]
pub(crate) struct Slowest<T> {
    /// How long each waited. A few more than are wanted, so that they need not be sorted out one by one.
    pods: Vec<(i64, T)>,
}

impl<T> Slowest<T> {
    pub(crate) fn new() -> Self {
        Slowest { pods: Vec::new() }
    }

    pub(crate) fn add(&mut self, waited: Option<i64>, pod: T) {
        let Some(waited) = waited.filter(|waited| SECOND <= *waited) else { return };
        self.pods.push((waited, pod));
        if 4 * MOST_SLOW <= self.pods.len() {
            self.cut();
        }
    }

    pub(crate) fn into_pods(mut self) -> impl Iterator<Item = T> {
        self.cut();
        self.pods.into_iter().map(|(_, pod)| pod)
    }

    fn cut(&mut self) {
        if MOST_SLOW < self.pods.len() {
            self.pods.select_nth_unstable_by_key(MOST_SLOW, |(waited, _)| Reverse(*waited));
            self.pods.truncate(MOST_SLOW);
        }
    }
}

/// An attempt of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchAttempt<'a> {
    pub(crate) id: i64,
    /// The place of its pod among those of the batch.
    place: usize,
    pub(crate) pod: PodRef<'a>,
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

/// The pods of a batch by name and uid.
#[derive(Default)]
struct Places {
    /// Their places among those of the batch.
    by_pod: HashTable<usize>,
    /// The last attempt of each whose binding is not answered yet.
    binding: Vec<Option<usize>>,
}

impl Places {
    fn reserve(&mut self, n: usize) {
        // There is no place yet whose hash would be asked for.
        self.by_pod = HashTable::with_capacity(n);
        self.binding.reserve_exact(n);
    }

    fn find(&self, batch: &Batch<'_>, pod: PodRef<'_>) -> Option<usize> {
        self.by_pod.find(pod.hash, |&place| batch.pods[place].0 == pod).copied()
    }

    /// The place of a pod, which is added if it is not there.
    fn get<'a>(&mut self, batch: &mut Batch<'a>, pod: PodRef<'a>) -> usize {
        if let Some(place) = self.find(batch, pod) {
            return place;
        }
        let place = batch.pods.len();
        batch.pods.push((pod, PodChange::default()));
        self.binding.push(None);
        self.by_pod.insert_unique(pod.hash, place, |&place| batch.pods[place].0.hash);
        place
    }
}

impl<'a> Batch<'a> {
    /// Gathers entries. The attempts are numbered from the first one.
    pub(crate) fn of(entries: &'a [Entry], first: i64) -> Self {
        let mut batch = Batch::default();
        let mut places = Places::default();
        let n = entries.iter().filter(|entry| matches!(entry, Entry::Attempt(_))).count();
        batch.pods.reserve_exact(n);
        batch.attempts.reserve_exact(n);
        places.reserve(n);
        let mut ids = first..;
        for entry in entries {
            match entry {
                Entry::Attempt(attempt) => {
                    let id = ids.next().expect("there are fewer than an i64 can count");
                    batch.attempt(&mut places, id, attempt);
                }
                Entry::Group(group) => batch.groups.push(group),
                Entry::Bound { at, pod, uid, error } => {
                    let answer = Answer { at: *at, error: error.as_deref() };
                    batch.answer(&mut places, PodRef::new(pod, uid), answer);
                }
            }
        }
        let mut slowest = Slowest::new();
        for (place, (_, change)) in batch.pods.iter().enumerate() {
            slowest.add(change.waited(), place);
        }
        slowest.into_pods().for_each(|place| batch.pods[place].1.is_slow = true);
        batch
    }

    fn attempt(&mut self, places: &mut Places, id: i64, entry: &'a AttemptEntry) {
        let pod = PodRef::new(&entry.pod, &entry.uid);
        let place = places.get(self, pod);
        let change = &mut self.pods[place].1;
        change.attempts += 1;
        change.number = entry.number;
        change.last = id;
        change.ready_at = change.ready_at.or(entry.first_ready.map(Time::millis));
        if entry.node.is_some() {
            places.binding[place] = Some(self.attempts.len());
        }
        self.attempts.push(BatchAttempt { id, place, pod, entry, answer: None });
        self.count(entry);
    }

    fn answer(&mut self, places: &mut Places, pod: PodRef<'a>, answer: Answer<'a>) {
        let place = places.find(self, pod);
        let Some(attempt) = place.and_then(|place| places.binding[place].take()) else {
            self.answers.push((pod, answer));
            return;
        };
        let attempt = &mut self.attempts[attempt];
        attempt.answer = Some(answer);
        if answer.error.is_none() {
            self.pods[attempt.place].1.bound_at = Some(answer.at.millis());
        }
    }

    fn count(&mut self, attempt: &'a AttemptEntry) {
        let at = attempt.at.millis();
        let hour = at - at.rem_euclid(HOUR);
        if attempt.result == "scheduled" {
            *self.hours.entry((hour, "")).or_default() += 1;
            return;
        }
        let mut plugins: Vec<&str> =
            attempt.rejections.iter().map(|one| one.plugin.as_str()).collect();
        plugins.sort_unstable();
        plugins.dedup();
        for plugin in plugins {
            *self.hours.entry((hour, plugin)).or_default() += 1;
        }
    }
}
