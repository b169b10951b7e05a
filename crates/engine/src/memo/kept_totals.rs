//! The totals of a [scan](super::scan), which are kept for the next pod of the same class.
//!
//! If few nodes have changed since, only these are computed again. Their amounts lie side by side in the order of the
//! changes, so that several of them are computed at a time, as in a scan.

use plimsoll_api::Str;
use plimsoll_framework::{NEVER, Row, Supply, View};
use smallvec::SmallVec;

use super::FastMap;
use super::choose::Chooser;
use super::name_index_set::NameIndex;
use super::name_order::NameOrder;
use super::profile_memo::TopologySet;
use super::rankings::RankingId;
use super::scan::{BoundsOf, GroupTotals, PlacementPlugins, Scanner};
use super::signatures::SignatureId;
use super::totals::Totals;

/// Totals are kept if at most this part of the nodes changes from one pod of the class to the next. A change costs
/// about as much as this many nodes of a scan.
pub(super) const PART: usize = 8;
/// So many changes lie side by side.
const CHUNK: usize = 64;

/// What nodes that changed last have left, in the order of the change log of nodes.
#[derive(Debug, Default)]
pub(super) struct RecentSupply {
    /// A ring.
    chunks: Vec<RecentChunk>,
    /// The position of the first change that is known; older ones may have been overwritten, too.
    since: u64,
    end: u64,
}

/// As many changes as are computed at a time.
#[derive(Debug)]
struct RecentChunk {
    indices: [NameIndex; CHUNK],
    /// By place in the chunk.
    supply: Supply,
}

impl RecentSupply {
    /// Without any change, for the changes from position `end` of the log.
    pub(super) fn new(n_indices: usize, end: u64) -> Self {
        let n_chunks = n_indices.div_ceil(PART).div_ceil(CHUNK) + 1;
        let chunk = || RecentChunk { indices: [0; CHUNK], supply: Supply::new(CHUNK) };
        let chunks = std::iter::repeat_with(chunk).take(n_chunks).collect();
        RecentSupply { chunks, since: end, end }
    }

    /// The approximate size in bytes.
    pub(super) fn bytes(&self) -> usize {
        let of = |chunk: &RecentChunk| {
            size_of::<RecentChunk>() + super::scan::bytes_of_supply(&chunk.supply)
        };
        self.chunks.first().map_or(0, of) * self.chunks.len()
    }

    /// Tracks `resource` from now on, too.
    pub(super) fn cover(&mut self, resource: &Str, name_order: &NameOrder, view: View<'_>) {
        for chunk in &mut self.chunks {
            let rows = chunk.indices.iter().map(|&index| name_order.at(index));
            let places = rows.enumerate().filter_map(|(at, row)| Some((at, row?)));
            chunk.supply.cover(resource, view.nodes, places);
        }
    }

    /// Adds the next change, which is of this index.
    pub(super) fn push(&mut self, index: NameIndex, row: Option<Row>, view: View<'_>) {
        let (chunk, at) = self.place(self.end);
        let chunk = &mut self.chunks[chunk];
        chunk.indices[at] = index;
        if let Some(row) = row {
            chunk.supply.look(at, view.nodes, row);
        }
        self.end += 1;
    }

    /// The chunk of a position, and the place in it.
    fn place(&self, position: u64) -> (usize, usize) {
        let chunk = position / CHUNK as u64 % self.chunks.len() as u64;
        (to_usize(chunk), to_usize(position % CHUNK as u64))
    }

    /// The changes from `position` on, in order: the indices, the supply of their chunk, and the first place in it.
    /// `None` if some of them are not known any more.
    fn from(
        &self,
        mut position: u64,
    ) -> Option<impl Iterator<Item = (usize, &[NameIndex], &Supply)>> {
        let n_known = (self.chunks.len() - 1) * CHUNK;
        if position < self.since || position + (n_known as u64) < self.end {
            return None;
        }
        Some(std::iter::from_fn(move || {
            if position == self.end {
                return None;
            }
            let (chunk, first) = self.place(position);
            let n = (CHUNK - first).min(to_usize(self.end - position));
            position += n as u64;
            let chunk = &self.chunks[chunk];
            Some((first, &chunk.indices[..first + n], &chunk.supply))
        }))
    }
}

/// The totals of the last scan for pods of one class.
pub(super) struct KeptTotals {
    /// The base ranking that they were made from, how often it was made, and how often one of its nodes moved.
    base: (RankingId, u64, u64),
    /// The plugins whose bounds they contain.
    plugins: SmallVec<[&'static str; 4]>,
    /// The position in the change log of nodes.
    followed: u64,
    pub(super) totals: Totals,
    /// The scores of groups that they contain; `None` if nodes differ in nothing else.
    pub(super) groups: Option<GroupTotals>,
}

impl KeptTotals {
    /// Keeps the totals of a scan. `made` says how often the base ranking was made.
    pub(super) fn new(
        (base, made): (RankingId, u64),
        followed: u64,
        placement: &PlacementPlugins,
        chooser: &Chooser<'_>,
        (totals, groups): (Totals, Option<GroupTotals>),
    ) -> Self {
        let base = (base, made, chooser.ranking.n_moves);
        let plugins = placement.plugins().collect();
        KeptTotals { base, plugins, followed, totals, groups }
    }

    /// The approximate size in bytes.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + self.totals.bytes() + self.groups.as_ref().map_or(0, GroupTotals::bytes)
    }

    /// Computes the totals of nodes that have changed. Returns `false` if everything must be computed.
    pub(super) fn follow(
        &mut self,
        (base, made): (RankingId, u64),
        scanner: &Scanner,
        placement: &PlacementPlugins,
        chooser: &Chooser<'_>,
    ) -> bool {
        if self.base != (base, made, chooser.ranking.n_moves)
            || !placement.plugins().eq(self.plugins.iter().copied())
        {
            return false;
        }
        let Some(chunks) = scanner.recent.from(self.followed) else { return false };
        let cluster = chooser.cluster;
        let bounds = scanner.bounds_of(placement);
        let (mut out, mut own) = ([NEVER; CHUNK], [0.0; CHUNK]);
        for (first, indices, supply) in chunks {
            let out = &mut out[..indices.len()];
            for (out, &index) in out.iter_mut().zip(indices).skip(first) {
                *out = chooser.ranking.totals[index as usize];
            }
            // They belong to other changes.
            out[..first].fill(NEVER);
            let row = |at: usize| indices.get(at).and_then(|&index| cluster.name_order.at(index));
            BoundsOf::exclude(placement, supply, out, cluster.view.nodes, row);
            for (one, parts) in bounds.each() {
                let own = &mut own[..if parts.is_empty() { 0 } else { indices.len() }];
                for (own, &index) in own.iter_mut().zip(indices).skip(first) {
                    *own = parts[index as usize];
                }
                one.add(supply, own, out);
            }
            for (&bound, &index) in out.iter().zip(indices).skip(first) {
                match &mut self.groups {
                    None => drop(self.totals.set(index, bound)),
                    Some(groups) => {
                        let group = chooser.ranking.entry(index).map(|(group, _)| group as usize);
                        let beside = group.map_or(0.0, |group| groups.score(group));
                        let before = self.totals.set(index, bound + beside);
                        if let Some(group) = group {
                            groups.count(group, NEVER < before, NEVER < bound);
                        }
                    }
                }
            }
        }
        self.totals.settle();
        self.followed = scanner.recent.end;
        true
    }
}

/// The last scan for pods of one class.
#[derive(Default)]
struct KeptScan {
    /// The position in the change log of nodes.
    scanned: u64,
    totals: Option<Box<KeptTotals>>,
}

/// The last scans for pods of one profile, by the key of their rankings.
#[derive(Default)]
pub(super) struct KeptScans {
    scans: FastMap<(SignatureId, TopologySet), KeptScan>,
    bytes: usize,
    /// The position in the change log of nodes when totals that are too old were dropped.
    swept: u64,
}

impl KeptScans {
    /// What the totals take, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The approximate size of everything else, in bytes.
    pub(super) fn table_bytes(&self) -> usize {
        self.scans.capacity() * (size_of::<((SignatureId, TopologySet), KeptScan)>() + 1)
    }

    /// The position in the change log of nodes of the totals that are kept for a class.
    pub(super) fn followed(&self, key: (SignatureId, TopologySet)) -> Option<u64> {
        Some(self.scans.get(&key)?.totals.as_ref()?.followed)
    }

    /// Notes a scan at position `end` of the log. Returns the position of the last one, and its totals.
    pub(super) fn take(
        &mut self,
        key: (SignatureId, TopologySet),
        end: u64,
    ) -> (Option<u64>, Option<Box<KeptTotals>>) {
        match self.scans.entry(key) {
            hashbrown::hash_map::Entry::Vacant(free) => {
                free.insert(KeptScan { scanned: end, totals: None });
                (None, None)
            }
            hashbrown::hash_map::Entry::Occupied(mut known) => {
                let known = known.get_mut();
                let totals = known.totals.take();
                self.bytes -= totals.as_ref().map_or(0, |totals| totals.bytes());
                (Some(std::mem::replace(&mut known.scanned, end)), totals)
            }
        }
    }

    /// Keeps the totals of a class for the next scan.
    pub(super) fn put(&mut self, key: (SignatureId, TopologySet), totals: Box<KeptTotals>) {
        if let Some(known) = self.scans.get_mut(&key) {
            self.bytes += totals.bytes();
            known.totals = Some(totals);
        }
    }

    /// Drops totals that nothing will be computed from any more. `most` is the number of changes that are known.
    pub(super) fn sweep(&mut self, end: u64, most: u64) {
        if end < self.swept + most {
            return;
        }
        self.swept = end;
        for known in self.scans.values_mut() {
            if let Some(totals) = known.totals.take_if(|totals| totals.followed + most < end) {
                self.bytes -= totals.bytes();
            }
        }
    }

    /// Drops everything.
    pub(super) fn clear(&mut self) {
        *self = KeptScans::default();
    }
}

fn to_usize(number: u64) -> usize {
    usize::try_from(number).expect("the log lies in memory")
}

#[cfg(test)]
mod tests {
    use plimsoll_framework::{Columns, Stores};

    use super::*;

    /// The indices of the changes from a position on; `None` if they are not known any more.
    fn from(recent: &RecentSupply, position: u64) -> Option<Vec<NameIndex>> {
        let chunks = recent.from(position)?;
        Some(chunks.flat_map(|(first, indices, _)| indices[first..].to_vec()).collect())
    }

    /// After changes of the indices `0..n`.
    fn after(n_indices: usize, begins: u64, n: NameIndex) -> RecentSupply {
        let (nodes, stores) = (Columns::default(), Stores::default());
        let mut recent = RecentSupply::new(n_indices, begins);
        let view = View { nodes: &nodes, stores: &stores };
        (0..n).for_each(|index| recent.push(index, None, view));
        recent
    }

    #[test]
    fn changes_are_known_in_order_across_chunks() {
        // It begins in the middle of a chunk.
        let recent = after(1000, 50, 100);
        assert_eq!(from(&recent, 50), Some((0..100).collect()));
        assert_eq!(from(&recent, 113), Some((63..100).collect()));
        assert_eq!(from(&recent, 114), Some((64..100).collect()));
        assert_eq!(from(&recent, 150), Some(vec![]));
        assert_eq!(from(&recent, 49), None, "what was before is not known");
    }

    #[test]
    fn changes_that_were_overwritten_are_not_known() {
        // Three chunks, of which one is always being overwritten.
        let recent = after(1000, 0, 1000);
        let n_known = u64::try_from((recent.chunks.len() - 1) * CHUNK).expect("few");
        let first = 1000 - n_known;
        let known = from(&recent, first).expect("so many are known");
        assert_eq!(known.first().copied().map(u64::from), Some(first));
        assert_eq!((known.len() as u64, known.last().copied()), (n_known, Some(999)));
        assert_eq!(from(&recent, first - 1), None);
    }

    /// Totals that were followed up to a position.
    fn totals(followed: u64) -> Box<KeptTotals> {
        Box::new(KeptTotals {
            base: (RankingId::made_up(1), 0, 0),
            plugins: SmallVec::new(),
            followed,
            totals: Totals::default(),
            groups: None,
        })
    }

    #[test]
    fn totals_are_taken_out_until_they_are_put_back() {
        let (mut kept, key) = (KeptScans::default(), (1, 2));
        // There was no scan yet. Totals are kept only for classes that were scanned for.
        kept.put(key, totals(4));
        assert_eq!((kept.bytes(), kept.followed(key)), (0, None));
        assert!(matches!(kept.take(key, 5), (None, None)));
        kept.put(key, totals(5));
        assert_eq!((kept.bytes(), kept.followed(key)), (totals(5).bytes(), Some(5)));
        let (last, taken) = kept.take(key, 9);
        assert_eq!((last, taken.map(|one| one.followed)), (Some(5), Some(5)));
        assert_eq!((kept.bytes(), kept.followed(key)), (0, None));
        assert!(matches!(kept.take(key, 11), (Some(9), None)));
    }

    #[test]
    fn totals_that_are_too_old_are_swept_from_time_to_time() {
        let mut kept = KeptScans::default();
        for (class, followed) in [(1, 10), (2, 95)] {
            kept.take((class, 0), followed);
            kept.put((class, 0), totals(followed));
        }
        let left = |kept: &KeptScans| [1, 2].map(|class| kept.followed((class, 0)).is_some());
        // It is not worth to look before as many changes as are known.
        kept.sweep(49, 50);
        assert_eq!(left(&kept), [true, true]);
        kept.sweep(100, 50);
        assert_eq!((left(&kept), kept.bytes()), ([false, true], totals(95).bytes()));
        kept.sweep(149, 50);
        assert_eq!(left(&kept), [false, true]);
        kept.sweep(150, 50);
        assert_eq!((left(&kept), kept.bytes()), ([false, false], 0));
        assert_ne!(kept.table_bytes(), 0);
        kept.clear();
        assert_eq!(kept.table_bytes(), 0);
    }
}
