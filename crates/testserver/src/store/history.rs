//! The last changes of one kind, in order: what watches are fed from and what lists of the past are made of.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Stored;

/// What happened to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Added,
    Modified,
    Deleted,
}

/// One write: the object after it (of a deletion: as it was last, at the version of the deletion) and before it.
#[derive(Debug)]
pub(crate) struct StoreChange {
    pub(crate) op: Op,
    pub(crate) object: Arc<Stored>,
    pub(crate) previous: Option<Arc<Stored>>,
    at: Instant,
}

impl StoreChange {
    pub(crate) fn new(op: Op, object: Arc<Stored>, previous: Option<Arc<Stored>>) -> Self {
        Self { op, object, previous, at: Instant::now() }
    }
}

/// A bounded queue of changes. Each has a number that never changes, so that watches remember how far they are.
#[derive(Debug)]
pub(crate) struct History {
    changes: VecDeque<Arc<StoreChange>>,
    /// The number of the first change that is kept.
    first: u64,
    /// How many are kept.
    limit: usize,
    /// Changes up to this version are no longer kept.
    compacted: u64,
    /// Watches see nothing from this number on.
    held_from: Option<u64>,
    /// Watches see changes this much later.
    delay: Duration,
}

/// What a watch finds when it looks for news.
#[derive(Debug)]
pub(crate) struct NewChanges {
    pub(crate) changes: Vec<Arc<StoreChange>>,
    /// The number to continue with.
    pub(crate) next: u64,
    /// If it has seen all there is to see: the version it is at, for bookmarks.
    pub(crate) caught_up: Option<u64>,
    /// When the next change that is held back becomes visible.
    pub(crate) due: Option<Instant>,
}

impl History {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            changes: VecDeque::new(),
            first: 0,
            limit: limit.max(1),
            compacted: 0,
            held_from: None,
            delay: Duration::ZERO,
        }
    }

    pub(super) fn push(&mut self, change: StoreChange) {
        if self.limit <= self.changes.len()
            && let Some(oldest) = self.changes.pop_front()
        {
            self.first += 1;
            self.compacted = self.compacted.max(oldest.object.version);
        }
        self.changes.push_back(Arc::new(change));
    }

    /// Forgets everything up to `version`, which is the newest.
    pub(super) fn compact(&mut self, version: u64) {
        self.first = self.end();
        self.changes.clear();
        self.compacted = version;
        self.held_from = self.held_from.map(|_| self.first);
    }

    /// Holds back all changes from now on.
    pub(super) fn hold(&mut self) {
        self.held_from.get_or_insert(self.first + self.changes.len() as u64);
    }

    pub(super) fn release(&mut self) {
        self.held_from = None;
    }

    pub(super) fn set_delay(&mut self, delay: Duration) {
        self.delay = delay;
    }

    /// The number that the next change will get.
    pub(crate) fn end(&self) -> u64 {
        self.first + self.changes.len() as u64
    }

    /// The oldest version from which a watch can start.
    pub(crate) fn compacted(&self) -> u64 {
        self.compacted
    }

    /// The number of the first change after `version`; `None` if changes after it have been forgotten.
    pub(crate) fn after(&self, version: u64) -> Option<u64> {
        (self.compacted <= version).then(|| self.first + self.place_after(version) as u64)
    }

    fn place_after(&self, version: u64) -> usize {
        self.changes.partition_point(|change| change.object.version <= version)
    }

    /// Up to `most` visible changes from number `from` on; `None` if some of them have been forgotten. `version` is
    /// the newest of the store.
    pub(crate) fn news(&self, from: u64, most: usize, version: u64) -> Option<NewChanges> {
        let skipped = usize::try_from(from.checked_sub(self.first)?).ok()?;
        let mut news = NewChanges { changes: Vec::new(), next: from, caught_up: None, due: None };
        let now = Instant::now();
        for change in self.changes.iter().skip(skipped) {
            let visible_at = change.at + self.delay;
            let is_held = self.held_from.is_some_and(|held| held <= news.next);
            if is_held || now < visible_at {
                news.due = (!is_held).then_some(visible_at);
                news.caught_up = Some(change.object.version - 1);
                return Some(news);
            }
            if news.changes.len() == most {
                return Some(news);
            }
            news.changes.push(Arc::clone(change));
            news.next += 1;
        }
        news.caught_up = Some(version);
        Some(news)
    }

    /// How to restore the objects as of `version`: for each changed object, its state before the first
    /// later change (`None` if it did not exist). `None` if these changes are no longer kept.
    pub(crate) fn undo(&self, version: u64) -> Option<BTreeMap<Arc<str>, Option<Arc<Stored>>>> {
        if version < self.compacted {
            return None;
        }
        let mut before = BTreeMap::new();
        for change in self.changes.iter().skip(self.place_after(version)) {
            let key = Arc::clone(&change.object.key);
            before.entry(key).or_insert_with(|| change.previous.clone());
        }
        Some(before)
    }
}
