//! Verdicts of [uncached filters](super::uncached_filters), remembered by [what they depend
//! on](plimsoll_framework::FilterByKey).
//!
//! Each pod with volumes has claims of its own, but thousands of pods need one more slot of the same driver, or volumes that
//! the same nodes reach. For each such key there is a bit for each node that was asked about since it last changed. So a node
//! that rejects pods of a key is passed over, and not asked again.

use plimsoll_framework::parts::NodeReads;
use plimsoll_framework::{Rejection, VerdictKey};

use super::FastMap;
use super::change_log::ChangeLog;
use super::name_index_set::{NameIndex, NameIndexBits};
use super::node_ranking::ClusterView;
use crate::profile::PluginIndex;

/// What the verdicts of one key are found by.
pub(super) type VerdictsId = usize;

/// Nodes with further reasons are asked again: filters by key have few.
const MOST_REASONS: usize = u8::MAX as usize;

/// The verdicts of one filter by one key.
#[derive(Debug)]
struct Verdicts {
    plugin: PluginIndex,
    /// What the filter reads of a node.
    reads: NodeReads,
    /// The position in the change log of nodes.
    followed: u64,
    /// The nodes whose verdict is known.
    known: NameIndexBits,
    /// Those of them that are rejected.
    rejecting: NameIndexBits,
    /// By name index, for rejected nodes: the place of the reason.
    reason_of: Vec<u8>,
    reasons: Vec<Rejection>,
}

impl Verdicts {
    fn follow(&mut self, log: &ChangeLog<(NameIndex, NodeReads)>) {
        match log.of_nodes_since(self.followed) {
            Some(changes) => {
                for (index, reads) in changes {
                    if self.reads.intersects(reads) {
                        self.forget_on(index);
                    }
                }
            }
            None => self.forget(),
        }
        self.followed = log.end();
    }

    fn forget(&mut self) {
        self.known.clear();
        self.rejecting.clear();
        self.reasons.clear();
    }

    fn forget_on(&mut self, index: NameIndex) {
        self.known.remove(index);
        self.rejecting.remove(index);
    }

    /// The approximate size of one in bytes, in a cluster with so many name indices.
    fn bytes(n_indices: usize) -> usize {
        size_of::<Self>() + n_indices + n_indices / 4
    }
}

/// The verdicts of the filters of one profile.
#[derive(Debug, Default)]
pub(super) struct VerdictCache {
    ids: FastMap<(PluginIndex, VerdictKey), VerdictsId>,
    all: Vec<Verdicts>,
    /// The approximate size in bytes.
    bytes: usize,
}

impl VerdictCache {
    /// The verdicts of a filter by this key, if there are any, brought up to date.
    pub(super) fn find(
        &mut self,
        plugin: PluginIndex,
        key: &VerdictKey,
        cluster: ClusterView<'_>,
    ) -> Option<VerdictsId> {
        let id = *self.ids.get(&(plugin, key.clone()))?;
        self.all[id].follow(cluster.changes);
        Some(id)
    }

    /// A place for the verdicts of a filter by this key, which has none.
    pub(super) fn make(
        &mut self,
        (plugin, reads): (PluginIndex, NodeReads),
        key: &VerdictKey,
        cluster: ClusterView<'_>,
    ) -> VerdictsId {
        let n_indices = cluster.name_order.n_indices();
        let entry = size_of::<((PluginIndex, VerdictKey), VerdictsId)>();
        self.bytes += Verdicts::bytes(n_indices) + entry + key.bytes();
        self.all.push(Verdicts {
            plugin,
            reads,
            followed: cluster.changes.end(),
            known: NameIndexBits::none(n_indices),
            rejecting: NameIndexBits::none(n_indices),
            reason_of: vec![0; n_indices],
            reasons: Vec::new(),
        });
        let id = self.all.len() - 1;
        self.ids.insert((plugin, key.clone()), id);
        id
    }

    /// Remembers a verdict: why a node is rejected, or `None` if it passes.
    pub(super) fn note(&mut self, id: VerdictsId, index: NameIndex, why: Option<&Rejection>) {
        let verdicts = &mut self.all[id];
        if let Some(why) = why {
            let known = verdicts.reasons.iter().position(|one| one == why);
            let at = known.unwrap_or(verdicts.reasons.len());
            if at == MOST_REASONS {
                return;
            }
            if known.is_none() {
                verdicts.reasons.push(why.clone());
            }
            verdicts.reason_of[index as usize] = u8::try_from(at).expect("it is below the limit");
            verdicts.rejecting.insert(index);
        }
        verdicts.known.insert(index);
    }

    /// The verdict on a node, if it is known. The error is why the node is rejected.
    pub(super) fn verdict(
        &self,
        id: VerdictsId,
        index: NameIndex,
    ) -> Option<Result<(), &Rejection>> {
        let verdicts = &self.all[id];
        if !verdicts.known.has(index) {
            return None;
        }
        Some(match verdicts.rejecting.has(index) {
            true => Err(&verdicts.reasons[verdicts.reason_of[index as usize] as usize]),
            false => Ok(()),
        })
    }

    /// The nodes that are known to be rejected.
    pub(super) fn rejecting(&self, id: VerdictsId) -> &NameIndexBits {
        &self.all[id].rejecting
    }

    /// Whether there are verdicts of a filter.
    pub(super) fn has(&self, plugin: PluginIndex) -> bool {
        self.all.iter().any(|one| one.plugin == plugin)
    }

    /// Whether nothing is remembered.
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Forgets the verdicts of a filter.
    pub(super) fn forget_of(&mut self, plugin: PluginIndex) {
        self.of(plugin).for_each(Verdicts::forget);
    }

    /// Forgets the verdicts of a filter on one node.
    pub(super) fn forget_on(&mut self, plugin: PluginIndex, index: NameIndex) {
        self.of(plugin).for_each(|one| one.forget_on(index));
    }

    fn of(&mut self, plugin: PluginIndex) -> impl Iterator<Item = &mut Verdicts> {
        self.all.iter_mut().filter(move |one| one.plugin == plugin)
    }

    /// Drops everything.
    pub(super) fn clear(&mut self) {
        *self = VerdictCache::default();
    }

    /// The approximate size in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}
