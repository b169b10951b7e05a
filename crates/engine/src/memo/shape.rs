//! What the nodes are to pods that are equal in all that plugins read which judge node by node.
//!
//! A shape knows of every node whether those plugins pass it, its level (the sum of the weighted
//! scores that it has by itself), and its cell: everything that the other scores are made of and that
//! does not change while pods come and go. It is patched node by node.

use hashbrown::HashTable;
use plimsoll_framework::parts::NodeReads;
use plimsoll_framework::{
    ByRow, Candidates, Code, Columns, MAX_NODE_SCORE, NEVER, Normalize, PodInfo, Point, Prepared,
    Rejection, Row, RowScore, Verdict, View,
};
use smallvec::SmallVec;

use super::levels::Levels;
use super::nominations::{Nominations, OnScratch};
use super::rank_set::Rank;
use super::ranks::{NO_DOMAIN, Ranks, Topology};
use super::scan;
use super::trail::Trail;
use crate::profile::Profile;

/// About what a cell takes beside its key, with the sets of its nodes, in bytes.
const BYTES_PER_CELL: usize = 512;
/// No filter rejects the node.
const PASSES: u8 = u8::MAX;
/// The cell of nodes that are rejected.
const NOWHERE: u32 = u32::MAX;

/// A filter that judges node by node.
pub(super) struct RowFilter {
    plugin: &'static str,
    reads: NodeReads,
}

/// A score that a node has by itself, with its weight.
struct Weighted {
    reads: NodeReads,
    weight: i64,
    score: Box<dyn RowScore>,
    /// By rank, of the nodes that pass.
    scores: Vec<u8>,
}

/// A score that is set in relation to those of all feasible nodes.
pub(crate) struct Related {
    reads: NodeReads,
    pub(crate) weight: i64,
    score: Box<dyn RowScore>,
    pub(crate) normalize: Normalize,
}

/// Nodes that differ in nothing but their levels.
pub(crate) struct Cell {
    /// The raw scores of the [related](Related) ones; then for each topology the domain, or for a fine
    /// one whether there is one.
    pub(crate) key: Box<[i64]>,
    pub(crate) levels: Levels,
}

#[derive(Clone, Copy)]
struct Place {
    cell: u32,
    level: i64,
}

/// Which of the plugins that judge node by node make a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MadeBy {
    /// All of them.
    All,
    /// Those to which it is of no account what is on a node: it is the base of a [scan](super::scan).
    Unmoved,
}

impl MadeBy {
    fn counts(self, reads: NodeReads) -> bool {
        self == MadeBy::All || !scan::moves(reads)
    }
}

/// What the nodes are to pods of one kind.
pub(crate) struct Shape {
    pod: PodInfo,
    /// Which plugins made it.
    made_by: MadeBy,
    /// With this priority, nodes must hold the nominated pods that are ahead of the pods, too.
    pub(crate) behind: Option<i32>,
    filters: Vec<RowFilter>,
    /// What the filters hold for the pods, in the same order.
    pub(crate) prepared: Vec<Prepared>,
    scratch: Columns,
    weighted: Vec<Weighted>,
    pub(crate) related: Vec<Related>,
    /// Numbers of topologies, ascending.
    pub(crate) topologies: Vec<usize>,
    /// By rank: which filter rejects.
    verdicts: Vec<u8>,
    places: Vec<Place>,
    /// By rank, for scans: the level, or [`NEVER`] for a node that is rejected.
    pub(super) totals: Vec<f32>,
    pub(crate) cells: Vec<Cell>,
    by_key: HashTable<u32>,
    /// The cell that was last looked for.
    last_cell: u32,
    /// How far the changes of nodes have been followed.
    pub(crate) followed: u64,
    /// The nodes whose cell or level has changed.
    pub(crate) moved: Trail<Rank>,
    /// Some score was out of range, or some filter could not judge a node: such pods are judged from
    /// scratch.
    pub(crate) is_broken: bool,
}

/// What a shape needs to look at nodes.
#[derive(Clone, Copy)]
pub(crate) struct Ground<'a> {
    pub(crate) view: View<'a>,
    pub(crate) ranks: &'a Ranks,
    pub(crate) topologies: &'a [Topology],
    pub(crate) nominations: &'a Nominations,
}

impl Shape {
    /// Looks at all nodes for pods like `pod`.
    pub(crate) fn new(
        profile: &Profile,
        pod: &PodInfo,
        made_by: MadeBy,
        topologies: Vec<usize>,
        behind: Option<i32>,
        followed: u64,
        ground: Ground<'_>,
    ) -> Self {
        let n_nodes = ground.ranks.len();
        let (filters, prepared) = filters(profile, pod, made_by, &ground.view);
        let mut shape = Shape {
            pod: pod.clone(),
            made_by,
            behind,
            filters,
            prepared,
            scratch: Columns::default(),
            weighted: Vec::new(),
            related: Vec::new(),
            topologies,
            verdicts: vec![0; n_nodes],
            places: vec![Place { cell: NOWHERE, level: 0 }; n_nodes],
            totals: if made_by == MadeBy::Unmoved { vec![NEVER; n_nodes] } else { Vec::new() },
            cells: Vec::new(),
            by_key: HashTable::new(),
            last_cell: 0,
            followed,
            moved: Trail::new(n_nodes.max(1)),
            is_broken: false,
        };
        for (plugin, weight) in profile.at(Point::Score) {
            let Some(point) = plugin.points.score.as_ref().filter(|point| point.applies(pod))
            else {
                continue;
            };
            let reads = point.reads().node;
            if !made_by.counts(reads) {
                continue;
            }
            match point.by_row(pod, &ground.view) {
                ByRow::Scores(score, Normalize::None) => {
                    let scores = vec![0; n_nodes];
                    shape.weighted.push(Weighted { reads, weight, score, scores });
                }
                ByRow::Scores(score, normalize) => {
                    shape.related.push(Related { reads, weight, score, normalize });
                }
                ByRow::Skips | ByRow::Unsupported => {}
            }
        }
        for (rank, row) in ground.ranks.rows() {
            shape.look(rank, row, NodeReads::all(), ground);
        }
        shape
    }

    /// Follows a change of `reads` of one node.
    pub(crate) fn look(&mut self, rank: Rank, row: Row, reads: NodeReads, ground: Ground<'_>) {
        let at = rank as usize;
        let before = self.verdicts[at];
        let verdict = self.judge(rank, row, reads, ground);
        if verdict != PASSES {
            self.verdicts[at] = verdict;
            self.put(rank, Place { cell: NOWHERE, level: 0 });
            return;
        }
        let was_away = before != PASSES || self.places[at].cell == NOWHERE;
        let reads = if was_away { NodeReads::all() } else { reads };
        self.verdicts[at] = PASSES;
        let level = self.level(at, row, reads, ground);
        let is_moved = was_away || self.related.iter().any(|one| one.reads.intersects(reads));
        let cell = if is_moved { self.cell(rank, row, ground) } else { self.places[at].cell };
        self.put(rank, Place { cell, level });
    }

    /// The first filter that rejects the node. Those before the first that reads what changed pass it as
    /// they did, unless one of them rejected it.
    fn judge(&mut self, rank: Rank, row: Row, reads: NodeReads, ground: Ground<'_>) -> u8 {
        let before = self.verdicts[rank as usize];
        let nodes = ground.view.nodes;
        let has_some_ahead =
            self.behind.is_some_and(|priority| ground.nominations.has_ahead(rank, priority));
        if has_some_ahead {
            let first = self.first(rank, row, None, ground);
            self.is_broken |= first.as_ref().is_some_and(|(_, why)| why.code == Code::Error);
            return first.map_or(PASSES, |(at, _)| to_u8(at));
        }
        if reads == NodeReads::all() {
            let mut filters = self.prepared.iter();
            let mut has_erred = false;
            let rejects = |one: &Prepared| rejects(one, &self.pod, nodes, row, &mut has_erred);
            let first = filters.position(rejects);
            self.is_broken |= has_erred;
            return first.map_or(PASSES, to_u8);
        }
        let Some(first) = self.filters.iter().position(|one| one.reads.intersects(reads)) else {
            return before;
        };
        if to_u8(first) > before {
            return before;
        }
        for (at, one) in self.filters.iter().enumerate().skip(first) {
            let stands = before == PASSES && !one.reads.intersects(reads);
            let mut has_erred = false;
            let one = &self.prepared[at];
            if !stands && rejects(one, &self.pod, nodes, row, &mut has_erred) {
                self.is_broken |= has_erred;
                return to_u8(at);
            }
        }
        PASSES
    }

    /// The first filter that rejects a node, and why: with the nominated pods that are ahead of the
    /// pods, where this is a shape that knows of them, or else without. `own` is not ahead of itself.
    pub(crate) fn first(
        &mut self,
        rank: Rank,
        row: Row,
        own: Option<&PodInfo>,
        ground: Ground<'_>,
    ) -> Option<(usize, Rejection)> {
        let ahead = self.behind.map(|priority| ground.nominations.ahead(rank, priority, own));
        let mut scratch = std::mem::take(&mut self.scratch);
        let on_scratch = OnScratch { scratch: &mut scratch, nodes: ground.view.nodes, row };
        let with = ahead.filter(|ahead| !ahead.is_empty()).and_then(|ahead| {
            let (nodes, only) = on_scratch.with(&ahead);
            self.rejection(nodes, only)
        });
        self.scratch = scratch;
        with.or_else(|| self.rejection(ground.view.nodes, row))
    }

    /// The same without an `own`, for a shape that has followed all changes: which filter it is, is known.
    pub(crate) fn why(
        &mut self,
        rank: Rank,
        row: Row,
        ground: Ground<'_>,
    ) -> Option<(usize, Rejection)> {
        let at = match self.verdicts[rank as usize] {
            PASSES => return None,
            at => usize::from(at),
        };
        let is_ahead = |priority| ground.nominations.has_ahead(rank, priority);
        if !self.behind.is_some_and(is_ahead)
            && let Verdict::Fail(why) =
                self.prepared[at].judge_one(&self.pod, ground.view.nodes, row)
        {
            return Some((at, why));
        }
        self.first(rank, row, None, ground)
    }

    fn rejection(&self, nodes: &Columns, row: Row) -> Option<(usize, Rejection)> {
        let judged = self.prepared.iter().map(|one| one.judge_one(&self.pod, nodes, row));
        judged.enumerate().find_map(|(at, verdict)| match verdict {
            Verdict::Pass => None,
            Verdict::Fail(why) => Some((at, why)),
        })
    }

    /// Made anew, with all changes up to `followed`.
    pub(crate) fn again(&self, profile: &Profile, followed: u64, ground: Ground<'_>) -> Self {
        let (pod, topologies) = (&self.pod, self.topologies.clone());
        Shape::new(profile, pod, self.made_by, topologies, self.behind, followed, ground)
    }

    /// About how many bytes it takes.
    pub(crate) fn bytes(&self) -> usize {
        let n_nodes = self.verdicts.len();
        let per_node =
            size_of::<u8>() + size_of::<Place>() + size_of::<Rank>() + self.weighted.len();
        let per_cell =
            BYTES_PER_CELL + (self.related.len() + self.topologies.len()) * size_of::<i64>();
        self.pod.bytes()
            + n_nodes * per_node
            + self.totals.len() * size_of::<f32>()
            + self.cells.len() * per_cell
    }

    /// The name of the plugin of the filter at `at`.
    pub(crate) fn plugin(&self, at: usize) -> &'static str {
        self.filters[at].plugin
    }

    /// Whether nodes are judged at all: no filter rejects the pods as such, or names their nodes.
    pub(crate) fn judges_all_nodes(&self) -> bool {
        let of_all = |one: &Prepared| {
            one.rejection().is_none() && matches!(one.candidates(), Candidates::All)
        };
        self.prepared.iter().all(of_all)
    }

    fn level(&mut self, at: usize, row: Row, reads: NodeReads, ground: Ground<'_>) -> i64 {
        let mut level = 0;
        for one in &mut self.weighted {
            if one.reads.intersects(reads) || reads == NodeReads::all() {
                let score = one.score.raw(&self.pod, ground.view.nodes, row);
                self.is_broken |= !(0..=MAX_NODE_SCORE).contains(&score);
                one.scores[at] = u8::try_from(score).unwrap_or(0);
            }
            level += i64::from(one.scores[at]) * one.weight;
        }
        level
    }

    fn cell(&mut self, rank: Rank, row: Row, ground: Ground<'_>) -> u32 {
        let raw = |one: &Related| one.score.raw(&self.pod, ground.view.nodes, row);
        let domain = |&topology: &usize| {
            let topology = &ground.topologies[topology];
            match topology.domain(rank) {
                NO_DOMAIN => -1,
                _ if topology.is_fine() => 0,
                domain => i64::from(domain),
            }
        };
        let raws = self.related.iter().map(raw);
        let key: SmallVec<[i64; 8]> = raws.chain(self.topologies.iter().map(domain)).collect();
        let cells = &self.cells;
        // Nodes that follow each other are often alike.
        let last = self.last_cell;
        if cells.get(last as usize).is_some_and(|cell| *cell.key == *key) {
            return last;
        }
        let hash = hash(&key);
        if let Some(&cell) = self.by_key.find(hash, |&cell| *cells[cell as usize].key == *key) {
            self.last_cell = cell;
            return cell;
        }
        let cell = u32::try_from(self.cells.len()).expect("there are fewer cells than nodes");
        self.cells.push(Cell { key: key.into_boxed_slice(), levels: Levels::default() });
        let cells = &self.cells;
        self.by_key.insert_unique(hash, cell, |&cell| self::hash(&cells[cell as usize].key));
        cell
    }

    fn put(&mut self, rank: Rank, place: Place) {
        let before = std::mem::replace(&mut self.places[rank as usize], place);
        if (before.cell, before.level) == (place.cell, place.level) {
            return;
        }
        if before.cell != NOWHERE {
            self.cells[before.cell as usize].levels.remove(before.level, rank);
        }
        if let Some(total) = self.totals.get_mut(rank as usize) {
            *total = if place.cell == NOWHERE { NEVER } else { scan::to_f32(place.level) };
        }
        if place.cell != NOWHERE {
            let n_ranks = self.places.len();
            self.cells[place.cell as usize].levels.insert(place.level, rank, n_ranks);
        }
        self.moved.push(rank);
    }

    /// The cell of every node, by rank; none for those that are rejected.
    pub(super) fn cells_of_nodes(&self) -> impl Iterator<Item = Option<u32>> {
        self.places.iter().map(|place| (place.cell != NOWHERE).then_some(place.cell))
    }

    /// The cell and the level of a node, if it is feasible.
    pub(crate) fn place(&self, rank: Rank) -> Option<(u32, i64)> {
        let place = self.places[rank as usize];
        (place.cell != NOWHERE).then_some((place.cell, place.level))
    }

    /// The domain part of a cell's key for the topology numbered `topology`.
    pub(crate) fn domain_in(&self, cell: &Cell, topology: usize) -> i64 {
        let at = self.topologies.iter().position(|&one| one == topology);
        cell.key[self.related.len() + at.expect("the shape was made for these topologies")]
    }
}

/// The filters that judge node by node and have something to say about `pod`, in their order.
pub(super) fn filters(
    profile: &Profile,
    pod: &PodInfo,
    made_by: MadeBy,
    view: &View<'_>,
) -> (Vec<RowFilter>, Vec<Prepared>) {
    let mut shared = plimsoll_framework::CycleState::new();
    let (mut filters, mut all) = (Vec::new(), Vec::new());
    for (plugin, _) in profile.at(Point::Filter) {
        let Some(filter) = &plugin.points.filter else { continue };
        let counts = plugin.points.filter_is_local && made_by.counts(plugin.points.reads.node);
        if counts && filter.applies(pod) {
            all.push(filter.prepare(pod, &mut shared, view));
            filters.push(RowFilter { plugin: plugin.name, reads: plugin.points.reads.node });
        }
    }
    (filters, all)
}

fn to_u8(at: usize) -> u8 {
    u8::try_from(at).ok().filter(|&at| at != PASSES).expect("a profile has fewer than 255 plugins")
}

/// Whether a filter rejects a node, or cannot judge it.
fn rejects(
    filter: &Prepared,
    pod: &PodInfo,
    nodes: &Columns,
    row: Row,
    has_erred: &mut bool,
) -> bool {
    match filter.judge_one(pod, nodes, row) {
        Verdict::Pass => false,
        Verdict::Fail(why) => {
            *has_erred |= why.code == Code::Error;
            true
        }
    }
}

fn hash(key: &[i64]) -> u64 {
    use std::hash::BuildHasher;
    rustc_hash::FxBuildHasher.hash_one(key)
}
