//! The storage of the server: every object as JSON at its resource version, and the last changes of
//! every kind.
//!
//! One lock guards everything, so that resource versions grow in the order of the changes. No slow work
//! is done under the lock: lists and watches take shared references and serialize them afterwards.

mod delete;
mod direct;
mod history;
mod list;
mod object;
mod update;

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde_json::Value;
use tokio::sync::watch;

use crate::counts::{Applied, Ledger, RequestOrigin};
use crate::kinds::{KINDS, KindId, MOST_CUSTOM};
use crate::options::{Options, Terminating};

pub(crate) use delete::{DeleteOptions, Deleted};
pub use direct::ObjectStore;
pub(crate) use history::{History, Op, StoreChange};
pub(crate) use list::Page;
pub(crate) use object::Stored;
pub(crate) use object::{field_object, key_of, metadata, text};
pub(crate) use update::{UpdateMode, precondition_failed};

/// What requests, tests and watches share.
#[derive(Debug)]
pub(crate) struct SharedStore {
    state: Mutex<State>,
    pub(crate) options: Options,
    /// Says that an object is to be removed later.
    pub(crate) dying: tokio::sync::Notify,
}

impl SharedStore {
    pub(crate) fn new(options: Options) -> Self {
        let state = Mutex::new(State::new(&options));
        Self { state, options, dying: tokio::sync::Notify::new() }
    }

    /// The state. A test that panics while it holds the lock leaves a consistent state, since every
    /// change is applied at the end.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All objects of one kind.
#[derive(Debug)]
struct ObjectTable {
    objects: BTreeMap<Arc<str>, Arc<Stored>>,
    history: History,
    /// Wakes the watches.
    wake: watch::Sender<Signal>,
}

/// What a watch is woken for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Signal {
    /// Grows with every change.
    pub(crate) changes: u64,
    /// Grows when all streams are to end.
    pub(crate) breaks: u64,
    /// How they are to end.
    pub(crate) how: Break,
}

/// How a watch stream ends on demand.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Break {
    /// As after `timeoutSeconds`: the answer ends.
    #[default]
    Clean,
    /// In the middle of an event, by closing the connection (on HTTP/2 the stream).
    Torn,
    /// With an event of type ERROR that says 410.
    Expired,
}

/// Everything under the lock.
#[derive(Debug)]
pub(crate) struct State {
    version: u64,
    tables: Vec<ObjectTable>,
    pub(crate) ledger: Ledger,
    chance: Pcg64Mcg,
    terminating: Terminating,
    terminating_namespaces: Terminating,
    dying: Vec<delete::Dying>,
}

impl State {
    fn new(options: &Options) -> Self {
        let table = || ObjectTable {
            objects: BTreeMap::new(),
            history: History::new(options.history),
            wake: watch::Sender::new(Signal::default()),
        };
        let seed = options.seed.unwrap_or_else(|| RandomState::new().hash_one("seed"));
        Self {
            version: 1,
            tables: (0..KINDS.len() + MOST_CUSTOM).map(|_| table()).collect(),
            ledger: Ledger::new(options.log),
            chance: Pcg64Mcg::seed_from_u64(seed),
            terminating: options.terminating,
            terminating_namespaces: options.terminating_namespaces,
            dying: Vec::new(),
        }
    }

    /// The newest resource version.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn get(&self, id: KindId, key: &str) -> Option<&Arc<Stored>> {
        self.tables[id.0].objects.get(key)
    }

    pub(crate) fn objects(&self, id: KindId) -> impl Iterator<Item = &Arc<Stored>> {
        self.tables[id.0].objects.values()
    }

    pub(crate) fn len(&self, id: KindId) -> usize {
        self.tables[id.0].objects.len()
    }

    pub(crate) fn history(&self, id: KindId) -> &History {
        &self.tables[id.0].history
    }

    pub(crate) fn subscribe(&self, id: KindId) -> watch::Receiver<Signal> {
        self.tables[id.0].wake.subscribe()
    }

    /// Stores `object` under its name, as a new one or in place of the present one.
    pub(crate) fn put(&mut self, id: KindId, object: Value, origin: &RequestOrigin) -> Arc<Stored> {
        self.version += 1;
        let stored = Arc::new(Stored::new(id.kind(), object, self.version));
        let table = &mut self.tables[id.0];
        let previous = table.objects.insert(Arc::clone(&stored.key), Arc::clone(&stored));
        let op = if previous.is_some() { Op::Modified } else { Op::Added };
        self.record(id, StoreChange::new(op, Arc::clone(&stored), previous), origin);
        stored
    }

    /// Takes an object away; watches see it as it was last.
    fn remove(&mut self, id: KindId, key: &str, origin: &RequestOrigin) -> Option<Arc<Stored>> {
        let previous = self.tables[id.0].objects.remove(key)?;
        self.version += 1;
        let last = Arc::new(Stored::new(id.kind(), previous.value(), self.version));
        self.record(id, StoreChange::new(Op::Deleted, Arc::clone(&last), Some(previous)), origin);
        Some(last)
    }

    fn record(&mut self, id: KindId, change: StoreChange, origin: &RequestOrigin) {
        let object = &change.object;
        self.ledger.applied(Applied {
            version: object.version,
            verb: origin.verb,
            resource: origin.resource_of(id.kind()),
            namespace: object.namespace.clone(),
            name: object.name.clone(),
            uid: object.uid.clone(),
            node: origin.node.clone(),
        });
        let table = &mut self.tables[id.0];
        table.history.push(change);
        table.wake.send_modify(|signal| signal.changes += 1);
    }

    /// Ends the watches of a kind.
    pub(crate) fn break_watches(&mut self, id: KindId, how: Break) {
        self.tables[id.0].wake.send_modify(|signal| {
            signal.breaks += 1;
            signal.how = how;
        });
    }

    /// Drops the history of every kind: a watch that starts from an earlier version gets an error that
    /// it is gone.
    pub(crate) fn compact(&mut self) {
        self.version += 1;
        for table in &mut self.tables {
            table.history.compact(self.version);
        }
    }

    pub(crate) fn hold(&mut self, id: KindId) {
        self.tables[id.0].history.hold();
    }

    pub(crate) fn release(&mut self, id: KindId) {
        self.with_history(id, History::release);
    }

    pub(crate) fn delay(&mut self, id: KindId, delay: Duration) {
        self.with_history(id, |history| history.set_delay(delay));
    }

    fn with_history(&mut self, id: KindId, change: impl FnOnce(&mut History)) {
        let table = &mut self.tables[id.0];
        change(&mut table.history);
        table.wake.send_modify(|signal| signal.changes += 1);
    }

    /// A random identifier in the form of a UUID of version 4.
    pub(crate) fn new_uid(&mut self) -> String {
        let bits: u128 = self.chance.random();
        let bits = (bits & !(0xf << 76) & !(0x3 << 62)) | (0x4 << 76) | (0x2 << 62);
        let hex = format!("{bits:032x}");
        let part = |from: usize, to: usize| &hex[from..to];
        [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-")
    }

    /// Five characters for `generateName`, of those that kube-apiserver takes.
    pub(crate) fn new_suffix(&mut self) -> String {
        const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        let mut letter = || char::from(LETTERS[self.chance.random_range(0..LETTERS.len())]);
        (0..5).map(|_| letter()).collect()
    }
}

/// The present time as `metadata.creationTimestamp` has it.
pub(crate) fn now() -> String {
    after(Duration::ZERO)
}

/// The time after `wait`, in whole seconds.
pub(crate) fn after(wait: Duration) -> String {
    let seconds = jiff::Timestamp::now().as_second();
    let wait = i64::try_from(wait.as_secs()).unwrap_or(i64::MAX);
    let then = jiff::Timestamp::from_second(seconds.saturating_add(wait));
    then.unwrap_or(jiff::Timestamp::MAX).to_string()
}
