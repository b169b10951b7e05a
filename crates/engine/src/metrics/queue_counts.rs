//! What the scheduling queue counts.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Stopwatch;
use super::event_label::EventLabel;
use super::histogram::Histogram;
use super::inventory;
use super::meter::{Lap, Status, Watch};

/// The queues, as metrics know them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum QueueName {
    Active,
    Backoff,
    Unschedulable,
}

impl QueueName {
    /// All of them, in their order.
    pub(super) const ALL: [QueueName; 3] =
        [QueueName::Active, QueueName::Backoff, QueueName::Unschedulable];

    /// The value of the label `queue`. As in backend/queue.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            QueueName::Active => "active",
            QueueName::Backoff => "backoff",
            QueueName::Unschedulable => "unschedulable",
        }
    }
}

/// How many came into which queue for what.
#[derive(Debug)]
struct Incoming {
    counts: Box<[[u64; EventLabel::COUNT]; 3]>,
    /// The same for what has no place of its own there.
    of_others: BTreeMap<(QueueName, EventLabel), u64>,
}

impl Default for Incoming {
    fn default() -> Self {
        Incoming { counts: Box::new([[0; EventLabel::COUNT]; 3]), of_others: BTreeMap::new() }
    }
}

impl Incoming {
    fn came(&mut self, queue: QueueName, event: EventLabel) {
        match event.index() {
            Some(index) => self.counts[queue as usize][index] += 1,
            None => *self.of_others.entry((queue, event)).or_default() += 1,
        }
    }

    fn of(&self, queue: QueueName, event: EventLabel) -> u64 {
        match event.index() {
            Some(index) => self.counts[queue as usize][index],
            None => self.of_others.get(&(queue, event)).copied().unwrap_or(0),
        }
    }

    /// All counts; those of what never happened are left out.
    fn iter(&self) -> impl Iterator<Item = (QueueName, EventLabel, u64)> {
        let known = QueueName::ALL.into_iter().flat_map(|queue| {
            let counts = EventLabel::all().zip(&self.counts[queue as usize]);
            counts
                .filter(|(_, count)| **count != 0)
                .map(move |(event, count)| (queue, event, *count))
        });
        let others = self.of_others.iter();
        known.chain(others.map(|(&(queue, event), &count)| (queue, event, count)))
    }
}

/// What the scheduling queue counts.
#[derive(Debug)]
pub(crate) struct QueueCounts {
    /// Pods.
    incoming: Incoming,
    /// Those of them that are members of entries.
    members: Incoming,
    /// Groups, each as one entry.
    groups: Incoming,
    pub(crate) hints: Hints,
    /// How long gates took, by the number of the profile.
    gates: BTreeMap<(usize, Status), Histogram>,
}

impl QueueCounts {
    pub(crate) fn new(stopwatch: Option<Stopwatch>) -> Self {
        QueueCounts {
            incoming: Incoming::default(),
            members: Incoming::default(),
            groups: Incoming::default(),
            hints: Hints { watch: Watch::new(stopwatch), took: BTreeMap::new() },
            gates: BTreeMap::new(),
        }
    }

    /// Counts a pod that was added to a queue.
    pub(crate) fn came(&mut self, queue: QueueName, event: EventLabel) {
        self.incoming.came(queue, event);
    }

    /// Says of the pod that was counted last that it came as a member of an entry; `is_first` is true for one of its members.
    pub(crate) fn came_in_entry(&mut self, queue: QueueName, event: EventLabel, is_first: bool) {
        self.members.came(queue, event);
        if is_first {
            self.groups.came(queue, event);
        }
    }

    /// Starts a measurement.
    pub(crate) fn start(&self) -> Lap {
        self.hints.watch.start()
    }

    /// The duration since `lap`.
    pub(crate) fn since(&self, lap: Lap) -> Option<Duration> {
        self.hints.watch.since(lap)
    }

    /// Records a run of the gates of a profile.
    pub(crate) fn gated(&mut self, profile: usize, status: Status, lap: Lap) {
        if let Some(span) = self.since(lap) {
            let buckets = inventory::EXTENSION_POINT_BUCKETS;
            let took = self.gates.entry((profile, status));
            took.or_insert_with(|| Histogram::new(buckets)).observe_span(span);
        }
    }

    /// How many pods came into which queue for what; those that never happened are left out.
    pub(super) fn incoming(&self) -> impl Iterator<Item = (QueueName, EventLabel, u64)> {
        self.incoming.iter()
    }

    /// How many groups came into which queue for what, each as one entry.
    pub(super) fn incoming_groups(&self) -> impl Iterator<Item = (QueueName, EventLabel, u64)> {
        self.groups.iter()
    }

    /// How many pods came into a queue for something as members of entries.
    pub(super) fn incoming_members(&self, queue: QueueName, event: EventLabel) -> u64 {
        self.members.of(queue, event)
    }

    /// How long gates took, by the number of the profile.
    pub(crate) fn gates(&self) -> impl Iterator<Item = (usize, Status, &Histogram)> {
        self.gates.iter().map(|(&(profile, status), took)| (profile, status, took))
    }
}

/// The durations of queueing hints.
#[derive(Debug, Default)]
pub(crate) struct Hints {
    watch: Watch,
    took: BTreeMap<(&'static str, EventLabel, HintResult), Histogram>,
}

/// The result of a hint. As in metrics.go; hints cannot fail here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum HintResult {
    Queue,
    Skip,
}

impl HintResult {
    /// The value of the label `hint`.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            HintResult::Queue => "Queue",
            HintResult::Skip => "QueueSkip",
        }
    }
}

impl Hints {
    /// Starts a hint.
    pub(crate) fn start(&self) -> Lap {
        self.watch.start()
    }

    /// Records the result of a hint.
    pub(crate) fn said(&mut self, plugin: &'static str, event: EventLabel, queue: bool, lap: Lap) {
        if let Some(span) = self.watch.since(lap) {
            let worth = if queue { HintResult::Queue } else { HintResult::Skip };
            let took = self.took.entry((plugin, event, worth));
            took.or_insert_with(|| Histogram::new(inventory::PLUGIN_BUCKETS)).observe_span(span);
        }
    }

    /// All measurements.
    pub(super) fn iter(
        &self,
    ) -> impl Iterator<Item = (&'static str, EventLabel, HintResult, &Histogram)> {
        self.took.iter().map(|(&(plugin, event, worth), took)| (plugin, event, worth, took))
    }
}
