//! What watches have come to, in numbers.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll_api::KindRef;

/// What has happened to the watch of one kind since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Objects that were new or had changed.
    pub changed: u64,
    /// Objects that were gone.
    pub gone: u64,
    /// Objects that were told again as they were.
    pub unchanged: u64,
    /// Objects that could not be read.
    pub unreadable: u64,
    /// Bookmarks.
    pub bookmarks: u64,
    /// Times that all objects were told anew, the first time included.
    pub lists: u64,
    /// Times that a watch was begun or resumed.
    pub watches: u64,
    /// Requests that failed, and streams that broke.
    pub failures: u64,
    /// Objects that there are now.
    pub objects: u64,
}

macro_rules! cells {
    ($($name:ident),*) => {
        /// The same, being counted.
        #[derive(Debug, Default)]
        pub(super) struct Cells { $(pub(super) $name: Cell,)* }

        impl Cells {
            fn read(&self) -> Counts {
                Counts { $($name: self.$name.0.load(Ordering::Relaxed),)* }
            }
        }
    };
}

cells!(changed, gone, unchanged, unreadable, bookmarks, lists, watches, failures, objects);

/// One number.
#[derive(Debug, Default)]
pub(super) struct Cell(AtomicU64);

impl Cell {
    pub(super) fn add_one(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn set(&self, value: usize) {
        self.0.store(value as u64, Ordering::Relaxed);
    }
}

/// The numbers of all kinds.
#[derive(Debug)]
pub(super) struct AllCells(BTreeMap<KindRef, Cells>);

impl AllCells {
    pub(super) fn new(kinds: &[KindRef]) -> Self {
        AllCells(kinds.iter().map(|&kind| (kind, Cells::default())).collect())
    }

    pub(super) fn of(&self, kind: KindRef) -> &Cells {
        &self.0[&kind]
    }

    pub(super) fn read(&self) -> BTreeMap<KindRef, Counts> {
        self.0.iter().map(|(&kind, cells)| (kind, cells.read())).collect()
    }
}
