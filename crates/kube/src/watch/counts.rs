//! Counts what happens in watches.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll_api::KindRef;

/// What has happened in the watch of one kind since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchCounts {
    /// Objects that were new or had changed.
    pub changed: u64,
    /// Objects that were deleted.
    pub deleted: u64,
    /// Objects that arrived without a change.
    pub unchanged: u64,
    /// Objects that could not be read completely.
    pub unreadable: u64,
    /// Bookmarks.
    pub bookmarks: u64,
    /// Completed lists of all objects.
    pub lists: u64,
    /// Watches that were started or resumed.
    pub watches: u64,
    /// Requests that failed, and streams that broke.
    pub failures: u64,
    /// Objects that exist now.
    pub objects: u64,
}

macro_rules! counters {
    ($($name:ident),*) => {
        /// The counters behind [`WatchCounts`].
        #[derive(Debug, Default)]
        pub(super) struct WatchCounters { $(pub(super) $name: Counter,)* }

        impl WatchCounters {
            fn read(&self) -> WatchCounts {
                WatchCounts { $($name: self.$name.0.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counters!(changed, deleted, unchanged, unreadable, bookmarks, lists, watches, failures, objects);

/// A counter or gauge.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add_one(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn set(&self, value: usize) {
        self.0.store(value as u64, Ordering::Relaxed);
    }
}

/// The counters of all kinds.
#[derive(Debug)]
pub(super) struct AllWatchCounters(BTreeMap<KindRef, WatchCounters>);

impl AllWatchCounters {
    pub(super) fn new(kinds: &[KindRef]) -> Self {
        AllWatchCounters(kinds.iter().map(|&kind| (kind, WatchCounters::default())).collect())
    }

    pub(super) fn of(&self, kind: KindRef) -> &WatchCounters {
        &self.0[&kind]
    }

    pub(super) fn read(&self) -> BTreeMap<KindRef, WatchCounts> {
        self.0.iter().map(|(&kind, counters)| (kind, counters.read())).collect()
    }
}
