//! What the verdicts of a [`FilterByKey`] depend on, and how it is hidden from the engine.

use std::any::Any;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use plimsoll_api::{AnyObject, Str};
use rustc_hash::FxHasher;
use smallvec::SmallVec;

use crate::accelerate::FilterByKey;
use crate::columns::{Columns, Row};
use crate::filter::PreFilter;
use crate::parts::{ClusterPart, NodePart, StoreReads};
use crate::view::View;

/// The nodes on which verdicts may depend on an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConcernedNodes {
    /// Those in these rows.
    Rows(SmallVec<[Row; 1]>),
    /// The node of this name, if there is one.
    Named(Str),
    /// Any.
    All,
}

impl ConcernedNodes {
    /// No node.
    pub fn none() -> Self {
        ConcernedNodes::Rows(SmallVec::new())
    }
}

/// A [key](FilterByKey::Key), whatever its type.
#[derive(Clone)]
pub struct VerdictKey {
    hash: u64,
    key: Arc<dyn ErasedKey>,
    bytes: usize,
}

impl VerdictKey {
    fn of<K: Hash + Eq + Send + Sync + 'static>(key: K, bytes: usize) -> Self {
        let mut hasher = FxHasher::default();
        key.hash(&mut hasher);
        VerdictKey { hash: hasher.finish(), key: Arc::new(key), bytes }
    }

    /// Its approximate size in bytes.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.bytes
    }
}

impl fmt::Debug for VerdictKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VerdictKey({:x})", self.hash)
    }
}

impl PartialEq for VerdictKey {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.key.equals(&*other.key)
    }
}

impl Eq for VerdictKey {}

impl Hash for VerdictKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.hash.hash(state);
    }
}

trait ErasedKey: Any + Send + Sync {
    fn equals(&self, other: &dyn ErasedKey) -> bool;
}

impl<K: Eq + Send + Sync + 'static> ErasedKey for K {
    fn equals(&self, other: &dyn ErasedKey) -> bool {
        let other: &dyn Any = other;
        other.downcast_ref::<K>().is_some_and(|other| self == other)
    }
}

/// How a prepared filter tells its key.
pub(crate) struct ByKey<P: PreFilter> {
    pub(crate) key: fn(&P, &P::State, &View<'_>) -> Option<VerdictKey>,
    pub(crate) exceptions: fn(&P, &P::State, &View<'_>) -> Vec<Row>,
    pub(crate) may_keep: fn(&P, &P::State, &Columns, Row) -> bool,
}

impl<P: PreFilter> Clone for ByKey<P> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<P: PreFilter> Copy for ByKey<P> {}

impl<P: FilterByKey> ByKey<P> {
    pub(crate) fn new() -> Self {
        ByKey {
            key: |plugin, state, view| {
                let key = plugin.key(state, P::Cluster::of(view))?;
                let bytes = plugin.key_bytes(&key);
                Some(VerdictKey::of(key, bytes))
            },
            exceptions: |plugin, state, view| plugin.exceptions(state, P::Cluster::of(view)),
            may_keep: |plugin, state, nodes, row| plugin.may_keep(state, P::Node::at(nodes, row)),
        }
    }
}

type ConcernsFn = dyn Fn(&AnyObject, &View<'_>) -> ConcernedNodes + Send + Sync;

/// On which nodes the verdicts of a [`FilterByKey`] depend on an object.
#[derive(Clone)]
pub struct ConcernPoint {
    concerns: Arc<ConcernsFn>,
    /// The objects that it reads.
    pub reads: StoreReads,
}

impl ConcernPoint {
    pub(crate) fn new<P: FilterByKey>(plugin: Arc<P>) -> Self {
        let concerns = move |object: &AnyObject, view: &View<'_>| {
            plugin.concerns(object, P::Cluster::of(view))
        };
        ConcernPoint { concerns: Arc::new(concerns), reads: P::Cluster::READS.stores }
    }

    /// The nodes on which verdicts may depend on this object, as it was or is.
    pub fn nodes(&self, object: &AnyObject, view: &View<'_>) -> ConcernedNodes {
        (self.concerns)(object, view)
    }
}
