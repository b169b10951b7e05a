//! The pods that have their history in short.

use std::cmp::Reverse;
use std::hash::{Hash, Hasher};

use hashbrown::{Equivalent, HashMap, HashSet};
use plimsoll_api::Str;
use plimsoll_framework::Time;
use rusqlite::Connection;
use rustc_hash::FxBuildHasher;

use crate::entry::Attempt;

/// At most so many pods that were left are remembered.
const MOST_LEFT: i64 = 200_000;
/// A second, in milliseconds.
const SECOND: i64 = 1000;
/// Of the pods that are bound together at their first attempts, so many that waited longest have their history in short. The slowest
/// of the whole journal are then among them, and no page shows more.
const MOST_SLOW: usize = 200;

/// A pod of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PodRef<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) uid: &'a str,
}

impl<'a> From<&Attempt<'a>> for PodRef<'a> {
    fn from(attempt: &Attempt<'a>) -> Self {
        let Attempt { namespace, name, uid, .. } = *attempt;
        PodRef { namespace, name, uid }
    }
}

/// A pod that is remembered longer than its attempts.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pod {
    namespace: Str,
    name: Str,
    uid: Str,
}

impl Pod {
    fn as_ref(&self) -> PodRef<'_> {
        PodRef { namespace: &self.namespace, name: &self.name, uid: &self.uid }
    }
}

impl Hash for Pod {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_ref().hash(state);
    }
}

impl Equivalent<Pod> for PodRef<'_> {
    fn equivalent(&self, pod: &Pod) -> bool {
        *self == pod.as_ref()
    }
}

/// The pods without a node that earlier schedulers have left in `pods`. This one counts their attempts from 1 again.
#[derive(Debug)]
pub(crate) struct LeftPods(HashSet<Pod, FxBuildHasher>);

impl LeftPods {
    /// Finds them in a journal.
    pub(crate) fn load(on: &Connection) -> rusqlite::Result<Self> {
        let mut query = on.prepare(
            "SELECT namespace, name, uid FROM pods WHERE bound_at IS NULL ORDER BY id DESC LIMIT ?1",
        )?;
        let pods = query.query_map([MOST_LEFT], |row| {
            let text = |column| row.get::<_, String>(column).map(Str::from);
            Ok(Pod { namespace: text(0)?, name: text(1)?, uid: text(2)? })
        })?;
        Ok(LeftPods(pods.collect::<Result<_, _>>()?))
    }

    /// Whether the pod of an attempt is one of them.
    pub(crate) fn has(&self, attempt: &Attempt<'_>) -> bool {
        !self.0.is_empty() && self.0.contains(&PodRef::from(attempt))
    }
}

/// What has changed of a pod by its attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PodChange {
    /// How often it was tried.
    pub(crate) attempts: i64,
    /// The number of its last attempt, 1 for the first one.
    pub(crate) number: u32,
    /// When it was first ready to be tried.
    pub(crate) ready_at: Option<i64>,
    /// The id of its last attempt.
    pub(crate) last: i64,
}

/// What has changed of pods by attempts that are written together: each has one change.
#[derive(Debug, Default)]
pub(crate) struct PodChanges<'a> {
    changes: Vec<(PodRef<'a>, PodChange)>,
    places: HashMap<PodRef<'a>, usize, FxBuildHasher>,
}

impl<'a> PodChanges<'a> {
    /// Adds an attempt.
    pub(crate) fn add(&mut self, id: i64, attempt: &Attempt<'a>) {
        let pod = PodRef::from(attempt);
        let new = self.changes.len();
        let place = *self.places.entry(pod).or_insert(new);
        let (number, ready_at) =
            (attempt.entry.number, attempt.entry.first_ready.map(Time::millis));
        if place == new {
            self.changes.push((pod, PodChange { attempts: 0, number, ready_at, last: id }));
        }
        let change = &mut self.changes[place].1;
        change.attempts += 1;
        (change.number, change.last) = (number, id);
        change.ready_at = change.ready_at.or(ready_at);
    }

    /// The changes, in the order of the first attempts.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (PodRef<'a>, PodChange)> {
        self.changes.iter().copied()
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

    /// Adds a pod that waited for so many milliseconds.
    pub(crate) fn add(&mut self, waited: i64, pod: T) {
        if waited < SECOND {
            return;
        }
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
