//! Decides a pod by one pass over all nodes, for pods whose signature is rare.
//!
//! What does not change when pods are added or removed is known from a *base ranking*, to which only plugins
//! contribute that do not read the pods on a node. The other plugins state their rules as amounts: how much a
//! node must have left, and an upper bound of its score. These are evaluated for all nodes in a few passes
//! over arrays. Then the plugins judge the nodes with the highest bounds, until no other node can be better.
//! So the bounds determine the cost of a decision, and the plugins its result.

use plimsoll_api::Str;
use plimsoll_framework::parts::NodeReads;
use plimsoll_framework::{
    ByRow, MAX_NODE_SCORE, NEVER, Needs, PodInfo, Point, Row, RowScore, ScoreBound, Supply, View,
};
use smallvec::SmallVec;

use super::Memo;
use super::change_log::ChangeLog;
use super::choose::Chooser;
use super::decide::Want;
use super::name_index_set::NameIndex;
use super::name_order::NameOrder;
use super::node_ranking::ClusterView;
use super::profile_memo::SignatureCaches;
use super::signatures::SignatureId;
use super::uncached_filters::UncachedFilters;
use crate::metrics::MeteredPoint;
use crate::profile::Profile;
use crate::sample::SampleOrder;

/// The size of the blocks of nodes whose highest total is stored, so that most blocks are skipped.
const BLOCK: usize = 64;
/// At most this many resources are tracked.
const MOST_RESOURCES: usize = 64;
/// Up to this number, integers are exact in 32-bit floats.
const MOST_TOTAL: i64 = 1 << 23;

/// Whether adding and removing pods changes what is read.
pub(super) fn reads_placement(reads: NodeReads) -> bool {
    reads.intersects(NodeReads::BY_PLACEMENT)
}

/// The plugins that read the pods on a node, prepared for one pod.
struct PlacementPlugins {
    needs: SmallVec<[Needs; 2]>,
    scores: SmallVec<[PlacementScore; 4]>,
    /// What the scores read of a node.
    reads: NodeReads,
}

struct PlacementScore {
    plugin: &'static str,
    weight: i64,
    bound: Box<dyn ScoreBound>,
    by_row: Box<dyn RowScore>,
}

impl PlacementPlugins {
    /// `None` if one of the plugins does not state its rule as amounts.
    fn of(profile: &Profile, pod: &PodInfo, view: View<'_>) -> Option<Self> {
        let mut placement = PlacementPlugins {
            needs: SmallVec::new(),
            scores: SmallVec::new(),
            reads: NodeReads::empty(),
        };
        for (plugin, _) in profile.at(Point::Filter) {
            let Some(filter) = &plugin.points.filter else { continue };
            let is_affected =
                plugin.points.filter_is_local && reads_placement(plugin.points.reads.node);
            if is_affected && filter.applies(pod) {
                placement.needs.push(filter.needs(pod)?);
            }
        }
        for (plugin, weight) in profile.at(Point::Score) {
            let Some(score) = &plugin.points.score else { continue };
            if score.is_by_row()
                && reads_placement(score.reads().node)
                && score.applies_in(pod, &view)
            {
                let bound = score.bound(pod)?;
                let ByRow::Scores(by_row, _) = score.by_row(pod, &view) else { return None };
                placement.scores.push(PlacementScore {
                    plugin: plugin.name,
                    weight,
                    bound,
                    by_row,
                });
                placement.reads |= score.reads().node;
            }
        }
        Some(placement)
    }

    /// How many resources the pod needs: each costs a pass over all nodes.
    fn n_needed(&self) -> usize {
        self.needs.iter().map(|needs| needs.0.len()).sum()
    }

    /// The weighted scores of a node; `None` if one is out of range.
    fn score(&self, pod: &PodInfo, view: View<'_>, row: Row) -> Option<i64> {
        let weighted = self.scores.iter().map(|one| {
            let score = one.by_row.raw(pod, view.nodes, row);
            (0..=MAX_NODE_SCORE).contains(&score).then_some(score * one.weight)
        });
        weighted.sum()
    }
}

/// The part of a plugin's score that depends only on the node.
struct NodeScoreParts {
    plugin: &'static str,
    resources: SmallVec<[Str; 4]>,
    /// The position in the change log of nodes.
    followed: u64,
    /// By name index; empty if the score has no such part.
    of: Vec<f32>,
}

impl NodeScoreParts {
    fn is_of(&self, plugin: &str, resources: &[Str]) -> bool {
        self.plugin == plugin && *self.resources == *resources
    }
}

/// Whether a change of a node changes what it has or what is left of it.
fn changes_amounts(reads: NodeReads) -> bool {
    reads.intersects(NodeReads::BY_PLACEMENT | NodeReads::ALLOCATABLE)
}

/// The arrays for scans.
#[derive(Default)]
pub(super) struct Scanner {
    /// By name index: what nodes have left.
    supply: Supply,
    /// The position in the change log of nodes.
    followed: u64,
    node_parts: Vec<NodeScoreParts>,
    /// By name index: an upper bound of the total of each node.
    pub(super) totals: Vec<f32>,
    /// By name index: the group of the base ranking, or the sparse group, whose numbers follow those of the
    /// ranking.
    groups: Vec<u32>,
    /// The highest total of each block.
    tops: Vec<f32>,
}

impl Scanner {
    /// Drops everything, since there are other nodes.
    pub(super) fn forget(&mut self) {
        *self = Scanner::default();
    }

    /// Updates what nodes have left of all resources that the pod needs; `None` if there are too many
    /// resources.
    fn follow(
        &mut self,
        placement: &PlacementPlugins,
        log: &ChangeLog<(NameIndex, NodeReads)>,
        name_order: &NameOrder,
        view: View<'_>,
    ) -> Option<()> {
        if MOST_RESOURCES < placement.n_needed() {
            return None;
        }
        match log.since(self.followed).filter(|_| self.supply.len() == name_order.n_indices()) {
            Some(changes) => {
                for (index, _) in changes.filter(|&(_, reads)| changes_amounts(reads)) {
                    if let Some(row) = name_order.at(index) {
                        self.supply.look(index as usize, view.nodes, row);
                    }
                }
            }
            None => self.supply = Supply::new(name_order.n_indices()),
        }
        self.followed = log.end();
        let places = || name_order.rows().map(|(index, row)| (index as usize, row));
        for (resource, _) in placement.needs.iter().flat_map(|needs| &needs.0) {
            self.supply.cover(resource, view.nodes, places());
        }
        for one in &placement.scores {
            let resources = one.bound.resources();
            for resource in &resources {
                self.supply.cover(resource, view.nodes, places());
            }
            self.follow_node_parts(one, resources, log, name_order, view);
        }
        if MOST_RESOURCES < self.supply.n_resources() || MOST_RESOURCES < self.node_parts.len() {
            self.forget();
            return None;
        }
        Some(())
    }

    fn follow_node_parts(
        &mut self,
        score: &PlacementScore,
        resources: SmallVec<[Str; 4]>,
        log: &ChangeLog<(NameIndex, NodeReads)>,
        name_order: &NameOrder,
        view: View<'_>,
    ) {
        let own = |row| score.bound.own(view.nodes, row);
        let known = self.node_parts.iter().position(|one| one.is_of(score.plugin, &resources));
        let at = known.unwrap_or(self.node_parts.len());
        let changes = known.and_then(|at| log.since(self.node_parts[at].followed));
        let Some(changes) = changes else {
            let mut of = vec![0.0; name_order.n_indices()];
            for (index, row) in name_order.rows() {
                let Some(part) = own(row) else {
                    of.clear();
                    break;
                };
                of[index as usize] = part;
            }
            self.node_parts.truncate(at);
            self.node_parts.push(NodeScoreParts {
                plugin: score.plugin,
                resources,
                followed: log.end(),
                of,
            });
            return;
        };
        let one = &mut self.node_parts[at];
        one.followed = log.end();
        if one.of.is_empty() {
            return;
        }
        for (index, _) in changes.filter(|&(_, reads)| changes_amounts(reads)) {
            one.of[index as usize] = name_order.at(index).and_then(own).unwrap_or(0.0);
        }
    }

    /// Excludes nodes that have too little left, and adds the bounds of the scores to the totals of the
    /// others.
    fn apply_bounds(&mut self, placement: &PlacementPlugins, cluster: ClusterView<'_>) {
        for needs in &placement.needs {
            if !needs.sieve(&self.supply, &mut self.totals) {
                continue;
            }
            let view = cluster.view;
            needs.doubtful(&self.supply, |at| {
                let row = cluster.name_order.at(to_index(at)).filter(|_| NEVER < self.totals[at]);
                if row.is_some_and(|row| !needs.are_met(view.nodes, row)) {
                    self.totals[at] = NEVER;
                }
            });
        }
        for one in &placement.scores {
            let resources = one.bound.resources();
            let own = self.node_parts.iter().find(|own| own.is_of(one.plugin, &resources));
            let own = own.expect("it was just brought up");
            one.bound.add(&self.supply, &own.of, to_f32(one.weight), &mut self.totals);
        }
    }

    /// Asks `uncached` filters about nodes until it is known which groups have a feasible node, or about all
    /// nodes if scores depend on their number. Excludes the nodes that are rejected.
    fn find_feasible_groups(&mut self, uncached: &mut UncachedFilters, chooser: &Chooser<'_>) {
        let mut is_feasible = vec![false; chooser.n_groups()];
        let asks_all = chooser.counts_feasible_nodes();
        for (at, (total, &group)) in self.totals.iter_mut().zip(&self.groups).enumerate() {
            if NEVER < *total && (asks_all || !is_feasible[group as usize]) {
                let row = chooser.cluster.name_order.row(to_index(at));
                match uncached.pass(row, chooser.asked()) {
                    true => is_feasible[group as usize] = true,
                    false => *total = NEVER,
                }
            }
        }
    }

    /// Adds to each node the score of its group; `None` if the counts do not suffice.
    fn add_group_scores(
        &mut self,
        chooser: &Chooser<'_>,
        uncached: Option<&mut UncachedFilters>,
    ) -> Option<GroupScores> {
        let n_groups = chooser.ranking.groups.len();
        let n_all_groups = chooser.n_groups();
        let number_of = |sparse_group: Option<usize>, group: usize| {
            sparse_group.map_or(group, |sparse_group| n_groups + sparse_group)
        };
        for (index, of) in chooser.sparse.placed() {
            self.groups[index as usize] = to_index(n_groups + of);
        }
        if let Some(uncached) = uncached {
            self.find_feasible_groups(uncached, chooser);
        }
        let mut lens = vec![0; n_all_groups];
        for (&group, &total) in self.groups.iter().zip(&self.totals) {
            if NEVER < total {
                lens[group as usize] += 1;
            }
        }
        let feasible = chooser.feasible(|group, sparse_group| lens[number_of(sparse_group, group)]);
        let scores = match feasible.len() {
            0 => return Some(GroupScores::NoNode),
            1 => None,
            _ => Some(chooser.scores(&feasible)?),
        };
        let mut added = vec![None; n_all_groups];
        for (at, one) in feasible.candidates.iter().enumerate() {
            let score = scores.as_ref().map_or(0, |scores| scores[at]);
            added[number_of(one.sparse_group, one.group)] = Some(score);
        }
        let by_group: Vec<f32> = added.iter().map(|one| one.map_or(NEVER, to_f32)).collect();
        for (total, &group) in self.totals.iter_mut().zip(&self.groups) {
            *total += by_group[group as usize];
        }
        Some(GroupScores::ByGroup(added))
    }

    /// The nodes with the highest total, ascending; if only the first one is wanted, the others may be
    /// missing. `exact` computes the real total of a node, which is at most its bound; `Some(None)` if the node
    /// is rejected. `None` if it cannot be computed.
    fn best(
        &mut self,
        want: Want,
        mut exact: impl FnMut(NameIndex) -> Option<Option<i64>>,
    ) -> Option<Vec<NameIndex>> {
        self.tops.clear();
        self.tops.extend(self.totals.chunks(BLOCK).map(highest));
        let mut best: Vec<NameIndex> = Vec::new();
        let mut highest_yet = i64::MIN;
        let mut bar = self.next_below(f32::INFINITY);
        while NEVER < bar && highest_yet <= to_i64(bar) {
            for index in self.at(bar) {
                let Some(total) = exact(index)? else { continue };
                if highest_yet < total {
                    highest_yet = total;
                    best.clear();
                }
                if highest_yet == total {
                    best.push(index);
                }
                // No other node can be better, and equally good ones follow.
                if want == Want::First && total == to_i64(bar) && best.len() == 1 {
                    return Some(best);
                }
            }
            if highest_yet == to_i64(bar) {
                break;
            }
            bar = self.next_below(bar);
        }
        best.sort_unstable();
        Some(best)
    }

    /// The highest total below `above`.
    fn next_below(&self, above: f32) -> f32 {
        let blocks = self.tops.iter().zip(self.totals.chunks(BLOCK));
        blocks.fold(NEVER, |next, (&top, block)| {
            let found = match top {
                _ if top <= next => NEVER,
                _ if top < above => top,
                _ => block.iter().copied().filter(|&one| one < above).fold(NEVER, f32::max),
            };
            found.max(next)
        })
    }

    /// The nodes with this bound, ascending.
    fn at(&self, bar: f32) -> impl Iterator<Item = NameIndex> + '_ {
        let blocks = self.tops.iter().zip(self.totals.chunks(BLOCK)).enumerate();
        let blocks = blocks.filter(move |(_, (top, _))| bar <= **top);
        blocks.flat_map(move |(number, (_, block))| {
            let at = block.iter().enumerate().filter(move |&(_, &one)| bar <= one && one <= bar);
            at.map(move |(at, _)| to_index(number * BLOCK + at))
        })
    }
}

/// The scores of groups.
enum GroupScores {
    /// No node is feasible.
    NoNode,
    /// By group; `None` if its nodes are not feasible.
    ByGroup(Vec<Option<i64>>),
}

impl Memo {
    /// The best nodes for a pod, sorted by name, and how many nodes were judged; those that are not wanted
    /// may be missing. They also pass the `uncached` filters. `None` if a scan is not possible or no node is
    /// feasible.
    pub(super) fn scan(
        &mut self,
        profile: &Profile,
        (signature, caches): (SignatureId, SignatureCaches),
        pod: &PodInfo,
        mut uncached: Option<&mut UncachedFilters>,
        view: View<'_>,
        (want, order): (Want, Option<SampleOrder<'_>>),
    ) -> Option<(Vec<Row>, usize)> {
        let placement = PlacementPlugins::of(profile, pod, view)?;
        let (base, domain_counts) =
            (self.base_of(profile, signature, pod, caches, view), caches.domain_counts);
        if !self.bring_up(profile, base, domain_counts, view) {
            return None;
        }
        self.decided_by = Some((base, domain_counts));
        let node_set = self.node_set.as_ref().expect("it was built when changes were followed");
        let cluster = node_set.with(view);
        let (caches, with) = ((&self.rankings, &self.counts), (base, domain_counts));
        let chooser = Chooser::of(caches, with, cluster)?;
        let scanner = &mut self.scanner;
        scanner.follow(&placement, &node_set.changed, cluster.name_order, view)?;
        scanner.totals.clone_from(&chooser.ranking.totals);
        scanner.apply_bounds(&placement, cluster);
        if let Some(uncached) = &mut uncached {
            uncached.find_errors(profile, chooser.asked()).ok()?;
        }
        let n_judged = match order {
            Some(order) => scanner.keep_sample(order, uncached.take(), &chooser),
            None => view.nodes.len(),
        };
        self.phases.over(MeteredPoint::Filter);
        let by_group = if chooser.tells_apart() {
            scanner.groups.clear();
            let groups = chooser.ranking.groups_of_nodes();
            scanner.groups.extend(groups.map(Option::unwrap_or_default));
            match scanner.add_group_scores(&chooser, uncached.as_deref_mut())? {
                GroupScores::NoNode => return None,
                GroupScores::ByGroup(added) => Some(added),
            }
        } else {
            None
        };
        let mut passes = |index| {
            let row = cluster.name_order.row(index);
            uncached.as_deref_mut().is_none_or(|uncached| uncached.pass(row, chooser.asked()))
        };
        let left = scanner.totals.iter().enumerate().filter(|(_, total)| NEVER < **total);
        let mut feasible = left.filter(|&(at, _)| passes(to_index(at)));
        self.phases.is_scored = feasible.nth(1).is_some();
        let groups = std::mem::take(&mut scanner.groups);
        // If a bound is too high, it is so for many equal nodes, so the last score often applies again.
        let mut last: Option<(Row, i64)> = None;
        let best = scanner.best(want, |index| {
            if !passes(index) {
                return Some(None);
            }
            let (_, static_score) = chooser.ranking.entry(index)?;
            let beside = match &by_group {
                Some(added) => added[groups[index as usize] as usize]?,
                None => 0,
            };
            let row = cluster.name_order.row(index);
            let same =
                last.filter(|&(other, _)| view.nodes.have_alike(other, row, placement.reads));
            let score = match same {
                Some((_, score)) => score,
                None => placement.score(pod, view, row)?,
            };
            last = Some((row, score));
            Some(Some(static_score + beside + score))
        });
        scanner.groups = groups;
        let best: Vec<Row> = best?.into_iter().map(|index| cluster.name_order.row(index)).collect();
        (!best.is_empty()).then_some((best, n_judged))
    }
}

/// Whether all totals are integers that 32-bit floats represent exactly.
pub(super) fn are_totals_exact(weights: impl Iterator<Item = i64>) -> bool {
    let sum = weights.fold(0_i64, |sum, weight| sum.saturating_add(weight.saturating_abs()));
    sum.saturating_mul(MAX_NODE_SCORE) <= MOST_TOTAL
}

/// The highest number. Several are compared at a time.
fn highest(block: &[f32]) -> f32 {
    const LANES: usize = 8;
    let (chunks, rest) = block.as_chunks::<LANES>();
    let mut lanes = [NEVER; LANES];
    for chunk in chunks {
        for at in 0..LANES {
            lanes[at] = if lanes[at] < chunk[at] { chunk[at] } else { lanes[at] };
        }
    }
    rest.iter().chain(&lanes).copied().fold(NEVER, f32::max)
}

fn to_index(at: usize) -> NameIndex {
    NameIndex::try_from(at).expect("indices and groups have 32 bits")
}

#[expect(clippy::cast_precision_loss, reason = "totals are exact, see `are_totals_exact`")]
pub(super) fn to_f32(total: i64) -> f32 {
    total as f32
}

#[expect(clippy::cast_possible_truncation, reason = "totals are exact, see `are_totals_exact`")]
fn to_i64(total: f32) -> i64 {
    total as i64
}
