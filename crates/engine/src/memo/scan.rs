//! Decides a pod by one pass over all nodes, for pods whose signature is rare.
//!
//! What does not change when pods are added or removed is known from a *base ranking*, to which only plugins
//! contribute that do not read the pods on a node. The other plugins state their rules as amounts: how much a
//! node must have left, and an upper bound of its score. These are evaluated for all nodes in a few passes
//! over arrays. Then the plugins judge the nodes with the highest bounds, until no other node can be better.
//! So the bounds determine the cost of a decision, and the plugins its result.
//!
//! The totals are [kept](super::kept_totals) for the next pod of the class. If few nodes have changed by then, only
//! these are computed.

use plimsoll_api::Str;
use plimsoll_framework::parts::NodeReads;
use plimsoll_framework::{
    ByRow, Columns, MAX_NODE_SCORE, NEVER, Needs, PodInfo, Point, Row, RowScore, ScoreBound,
    Supply, View,
};
use smallvec::SmallVec;

use super::Memo;
use super::change_log::ChangeLog;
use super::choose::Chooser;
use super::decide::Want;
use super::kept_totals::{KeptTotals, PART, RecentSupply};
use super::name_index_set::NameIndex;
use super::name_order::NameOrder;
use super::node_ranking::ClusterView;
use super::profile_memo::SignatureCaches;
use super::rankings::RankingId;
use super::signatures::SignatureId;
use super::totals::Totals;
use super::uncached_filters::UncachedFilters;
use crate::metrics::MeteredPoint;
use crate::profile::Profile;
use crate::sample::SampleOrder;

/// At most this many resources are tracked.
const MOST_RESOURCES: usize = 64;
/// Up to this number, integers are exact in 32-bit floats.
const MOST_TOTAL: i64 = 1 << 23;

/// The approximate size of what nodes have left, in bytes: what is left of a resource, what a unit of it is, what is requested
/// and what counts, for each node.
pub(super) fn bytes_of_supply(supply: &Supply) -> usize {
    supply.len() * supply.n_resources() * 4 * size_of::<f32>()
}

/// Whether adding and removing pods changes what is read.
pub(super) fn reads_placement(reads: NodeReads) -> bool {
    reads.intersects(NodeReads::BY_PLACEMENT)
}

/// What a node must have left for a pod, by the filters that read the pods on a node. `None` if one of them does not state its rule
/// as amounts.
pub(super) fn needs_of(
    profile: &Profile,
    pod: &PodInfo,
    nodes: &Columns,
) -> Option<SmallVec<[Needs; 2]>> {
    let filters = profile.at(Point::Filter).filter_map(|(plugin, _)| {
        let is_affected =
            plugin.points.filter_is_local && reads_placement(plugin.points.reads.node);
        plugin.points.filter.as_ref().filter(|filter| is_affected && filter.applies(pod))
    });
    filters.map(|filter| filter.needs(pod, nodes)).collect()
}

/// The plugins that read the pods on a node, prepared for one pod.
pub(super) struct PlacementPlugins {
    needs: SmallVec<[Needs; 2]>,
    scores: SmallVec<[PlacementScore; 4]>,
    /// What the scores read of a node.
    reads: NodeReads,
}

pub(super) struct PlacementScore {
    plugin: &'static str,
    weight: i64,
    bound: Box<dyn ScoreBound>,
    by_row: Box<dyn RowScore>,
}

impl PlacementPlugins {
    /// `None` if one of the plugins does not state its rule as amounts.
    fn of(profile: &Profile, pod: &PodInfo, view: View<'_>) -> Option<Self> {
        let mut placement = PlacementPlugins {
            needs: needs_of(profile, pod, view.nodes)?,
            scores: SmallVec::new(),
            reads: NodeReads::empty(),
        };
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

    /// The names of the plugins that score.
    pub(super) fn plugins(&self) -> impl Iterator<Item = &'static str> {
        self.scores.iter().map(|one| one.plugin)
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

impl PlacementScore {
    /// Adds its bounds. `own` are the parts of the score that depend only on the node.
    pub(super) fn add(&self, supply: &Supply, own: &[f32], out: &mut [f32]) {
        self.bound.add(supply, own, to_f32(self.weight), out);
    }
}

/// The bounds of the scores for one pod, each with the parts that depend only on the node.
pub(super) struct BoundsOf<'a>(SmallVec<[(&'a PlacementScore, &'a [f32]); 4]>);

impl<'a> BoundsOf<'a> {
    /// The scores, each with the parts by name index, which are empty if the score has no such part.
    pub(super) fn each(&self) -> impl Iterator<Item = (&'a PlacementScore, &'a [f32])> {
        self.0.iter().copied()
    }

    /// Excludes nodes that have too little left of `supply`. `row` is the row of a node by its place there.
    pub(super) fn exclude(
        placement: &PlacementPlugins,
        supply: &Supply,
        out: &mut [f32],
        nodes: &Columns,
        row: impl Fn(usize) -> Option<Row>,
    ) {
        for needs in &placement.needs {
            if needs.sieve(supply, out) {
                exclude_exactly(needs, supply, out, nodes, &row);
            }
        }
    }

    /// The same in a copy of `before`, which becomes `out`.
    fn copy_without(
        placement: &PlacementPlugins,
        supply: &Supply,
        (before, out): (&[f32], &mut Vec<f32>),
        nodes: &Columns,
        row: impl Fn(usize) -> Option<Row>,
    ) {
        let Some((first, others)) = placement.needs.split_first() else {
            return before.clone_into(out);
        };
        if first.sieve_copy(supply, before, out) {
            exclude_exactly(first, supply, out, nodes, &row);
        }
        for needs in others {
            if needs.sieve(supply, out) {
                exclude_exactly(needs, supply, out, nodes, &row);
            }
        }
    }
}

/// Excludes nodes that lack so little that rounding hides it.
fn exclude_exactly(
    needs: &Needs,
    supply: &Supply,
    out: &mut [f32],
    nodes: &Columns,
    row: &impl Fn(usize) -> Option<Row>,
) {
    needs.doubtful(supply, |at| {
        let row = row(at).filter(|_| NEVER < out[at]);
        if row.is_some_and(|row| !needs.are_met(nodes, row)) {
            out[at] = NEVER;
        }
    });
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
    /// An upper bound of the total of each node.
    pub(super) totals: Totals,
    /// What nodes that changed last have left.
    pub(super) recent: RecentSupply,
    /// By name index: the group of the base ranking, or the sparse group, whose numbers follow those of the
    /// ranking.
    groups: Vec<u32>,
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
        budget: usize,
    ) -> Option<()> {
        if MOST_RESOURCES < placement.n_needed() {
            return None;
        }
        let is_made = self.supply.len() == name_order.n_indices();
        if let Some(changes) = log.since(self.followed).filter(|_| is_made) {
            for (index, reads) in changes {
                let row = name_order.at(index);
                self.recent.push(index, row, view);
                if let Some(row) = row.filter(|_| changes_amounts(reads)) {
                    self.supply.look(index as usize, view.nodes, row);
                }
            }
        } else {
            self.supply = Supply::new(name_order.n_indices());
            self.recent = RecentSupply::new(name_order.n_indices(), log.end());
        }
        self.followed = log.end();
        for (resource, _) in placement.needs.iter().flat_map(|needs| &needs.0) {
            self.cover(resource, name_order, view);
        }
        for one in &placement.scores {
            let resources = one.bound.resources();
            for resource in &resources {
                self.cover(resource, name_order, view);
            }
            self.follow_node_parts(one, resources, log, name_order, view);
        }
        let n_most = self.supply.n_resources().max(self.node_parts.len());
        if MOST_RESOURCES < n_most || budget < self.bytes() {
            self.forget();
            return None;
        }
        Some(())
    }

    /// The approximate size in bytes.
    pub(super) fn bytes(&self) -> usize {
        let parts = self.node_parts.iter().map(|one| one.of.len() * size_of::<f32>());
        bytes_of_supply(&self.supply)
            + parts.sum::<usize>()
            + self.totals.bytes()
            + self.recent.bytes()
            + self.groups.len() * size_of::<u32>()
    }

    /// Tracks `resource` from now on, too.
    fn cover(&mut self, resource: &Str, name_order: &NameOrder, view: View<'_>) {
        if self.supply.stock(resource).is_none() {
            let places = name_order.rows().map(|(index, row)| (index as usize, row));
            self.supply.cover(resource, view.nodes, places);
            self.recent.cover(resource, name_order, view);
        }
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

    /// The bounds of the scores, which must have been followed.
    pub(super) fn bounds_of<'a>(&'a self, placement: &'a PlacementPlugins) -> BoundsOf<'a> {
        let with_parts = |one: &'a PlacementScore| {
            let resources = one.bound.resources();
            let parts = self.node_parts.iter().find(|parts| parts.is_of(one.plugin, &resources));
            (one, &*parts.expect("it was just brought up").of)
        };
        BoundsOf(placement.scores.iter().map(with_parts).collect())
    }

    /// The totals become those of the base ranking with the bounds of the scores. Nodes that have too little left are excluded.
    fn apply_bounds(
        &mut self,
        placement: &PlacementPlugins,
        base: &[f32],
        cluster: ClusterView<'_>,
    ) {
        let mut totals = std::mem::take(&mut self.totals);
        let row = |at| cluster.name_order.at(to_index(at));
        let out = (base, &mut totals.of);
        BoundsOf::copy_without(placement, &self.supply, out, cluster.view.nodes, row);
        for (one, parts) in self.bounds_of(placement).each() {
            one.add(&self.supply, parts, &mut totals.of);
        }
        self.totals = totals;
    }

    /// Brings the totals of the last scan up to date; `None` if they must be made again.
    fn bring_up(
        &self,
        mut kept: Box<KeptTotals>,
        made: (RankingId, u64),
        placement: &PlacementPlugins,
        chooser: &Chooser<'_>,
    ) -> Option<Box<KeptTotals>> {
        if !kept.follow(made, self, placement, chooser) {
            return None;
        }
        let Some(groups) = kept.groups.take() else { return Some(kept) };
        match GroupScores::of(chooser, groups.lens)? {
            GroupScores::ByGroup(now) if now.added == groups.added => {
                kept.groups = Some(now);
                Some(kept)
            }
            _ => None,
        }
    }

    /// Asks `uncached` filters about nodes until it is known which groups have a feasible node, or about all
    /// nodes if scores depend on their number. Excludes the nodes that are rejected.
    fn find_feasible_groups(&mut self, uncached: &mut UncachedFilters, chooser: &Chooser<'_>) {
        let mut is_feasible = vec![false; chooser.n_groups()];
        let asks_all = chooser.counts_feasible_nodes();
        for (at, (total, &group)) in self.totals.of.iter_mut().zip(&self.groups).enumerate() {
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
        for (index, of) in chooser.sparse.placed() {
            self.groups[index as usize] = to_index(n_groups + of);
        }
        if let Some(uncached) = uncached {
            self.find_feasible_groups(uncached, chooser);
        }
        let mut lens = vec![0; chooser.n_groups()];
        for (&group, &total) in self.groups.iter().zip(&self.totals.of) {
            if NEVER < total {
                lens[group as usize] += 1;
            }
        }
        let scores = GroupScores::of(chooser, lens)?;
        if let GroupScores::ByGroup(groups) = &scores {
            for (total, &group) in self.totals.of.iter_mut().zip(&self.groups) {
                *total += groups.score(group as usize);
            }
        }
        Some(scores)
    }
}

/// The scores of groups.
enum GroupScores {
    /// No node is feasible.
    NoNode,
    ByGroup(GroupTotals),
}

impl GroupScores {
    /// The scores if so many nodes of each group are left; `None` if the counts do not suffice.
    fn of(chooser: &Chooser<'_>, lens: Vec<usize>) -> Option<Self> {
        let n_groups = chooser.ranking.groups.len();
        let number_of = |sparse_group: Option<usize>, group: usize| {
            sparse_group.map_or(group, |sparse_group| n_groups + sparse_group)
        };
        let feasible = chooser.feasible(|group, sparse_group| lens[number_of(sparse_group, group)]);
        let scores = match feasible.len() {
            0 => return Some(GroupScores::NoNode),
            1 => None,
            _ => Some(chooser.scores(&feasible)?),
        };
        let mut added = vec![None; lens.len()];
        for (at, one) in feasible.candidates.iter().enumerate() {
            let score = scores.as_ref().map_or(0, |scores| scores[at]);
            added[number_of(one.sparse_group, one.group)] = Some(score);
        }
        let by_group = added.iter().map(|one| one.map_or(NEVER, to_f32)).collect();
        Some(GroupScores::ByGroup(GroupTotals { lens, added, by_group }))
    }
}

/// What is added to the totals of the nodes of each group.
pub(super) struct GroupTotals {
    /// How many nodes have enough left.
    lens: Vec<usize>,
    /// `None` if the nodes of the group are not feasible.
    added: Vec<Option<i64>>,
    /// The same; [`NEVER`] if they are not feasible.
    by_group: Vec<f32>,
}

impl GroupTotals {
    pub(super) fn score(&self, group: usize) -> f32 {
        self.by_group[group]
    }

    /// Notes whether a node of a group has enough left, and had before.
    pub(super) fn count(&mut self, group: usize, had: bool, has: bool) {
        self.lens[group] = self.lens[group] + usize::from(has) - usize::from(had);
    }

    /// The approximate size in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.lens.len() * (size_of::<usize>() + size_of::<Option<i64>>() + size_of::<f32>())
    }
}

/// The result of a scan.
pub(super) struct Scan {
    /// The best nodes, sorted by name; those that are not wanted may be missing. There is at least one.
    pub(super) best: Vec<Row>,
    /// How many nodes were judged.
    pub(super) n_judged: usize,
    /// How many of them were feasible, if that is known.
    pub(super) n_feasible: Option<usize>,
    /// By how much the best is better than the best of the others, if that is known.
    pub(super) margin: Option<i64>,
}

impl Memo {
    /// The best nodes for a pod. They also pass the `uncached` filters. `None` if a scan is not possible or no node is
    /// feasible.
    pub(super) fn scan(
        &mut self,
        profile: &Profile,
        (signature, caches): (SignatureId, SignatureCaches),
        pod: &PodInfo,
        mut uncached: Option<&mut UncachedFilters>,
        view: View<'_>,
        (want, order): (Want, Option<SampleOrder<'_>>),
    ) -> Option<Scan> {
        let most_asked = self.most_asked_for_margin();
        let placement = PlacementPlugins::of(profile, pod, view)?;
        let key = caches.ranking_key;
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
        let made = (base, self.rankings.get(base)?.n_made_again);
        let (scanner, budget) = (&mut self.scanner, self.budgets.scanner);
        scanner.follow(&placement, &node_set.changed, cluster.name_order, view, budget)?;
        // What other plugins or a sample have excluded must not be kept.
        let can_keep =
            uncached.is_none() && order.is_none() && chooser.domain_counts.n_terms() == 0;
        let end = node_set.changed.end();
        let most_changes = (cluster.name_order.n_indices() / PART) as u64;
        let kept_bytes: usize = self.profiles.values().map(|one| one.kept.bytes()).sum();
        let of_profile = self.profiles.get_mut(profile)?;
        let (last_end, kept) = match can_keep {
            true => of_profile.kept.take(key, end),
            false => (None, None),
        };
        let mut kept = kept.and_then(|kept| scanner.bring_up(kept, made, &placement, &chooser));
        let mut n_judged = view.nodes.len();
        let mut by_group = None;
        if kept.is_none() {
            scanner.apply_bounds(&placement, &chooser.ranking.totals, cluster);
            if let Some(uncached) = &mut uncached {
                uncached.find_errors(profile, chooser.asked()).ok()?;
                uncached.recall(chooser.asked());
            }
            if let Some(order) = order {
                n_judged = scanner.keep_sample(order, uncached.take(), &chooser);
            }
        }
        self.phases.over(MeteredPoint::Filter);
        if kept.is_none() {
            if chooser.tells_apart() {
                scanner.groups.clear();
                let groups = chooser.ranking.groups_of_nodes();
                scanner.groups.extend(groups.map(Option::unwrap_or_default));
                by_group = match scanner.add_group_scores(&chooser, uncached.as_deref_mut())? {
                    GroupScores::NoNode => return None,
                    GroupScores::ByGroup(groups) => Some(groups),
                };
            }
            scanner.totals.find_tops();
        }
        let totals = kept.as_mut().map_or(&mut scanner.totals, |kept| &mut kept.totals);
        // What `uncached` filters reject is not excluded if it need not be asked about.
        let n_left = most_asked.filter(|_| uncached.is_none()).map(|_| totals.n_left());
        let (totals, groups) = match &kept {
            Some(kept) => (&kept.totals, &kept.groups),
            None => (&scanner.totals, &by_group),
        };
        let mut passes = |index| {
            let row = cluster.name_order.row(index);
            uncached.as_deref_mut().is_none_or(|uncached| uncached.pass(row, chooser.asked()))
        };
        let left = totals.of.iter().enumerate().filter(|(_, total)| NEVER < **total);
        let mut feasible = left.filter(|&(at, _)| passes(to_index(at)));
        let is_scored = feasible.nth(1).is_some();
        self.phases.is_scored = is_scored;
        // If a bound is too high, it is so for many equal nodes, so the last score often applies again.
        let mut last: Option<(Row, i64)> = None;
        let (best, margin) = totals.best(want, most_asked.filter(|_| is_scored), |index| {
            if !passes(index) {
                return Some(None);
            }
            let (group, static_score) = chooser.ranking.entry(index)?;
            let beside = match groups {
                Some(groups) if kept.is_some() => groups.added[group as usize]?,
                Some(groups) => groups.added[scanner.groups[index as usize] as usize]?,
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
        })?;
        let best: Vec<Row> = best.into_iter().map(|index| cluster.name_order.row(index)).collect();
        if let Some(kept) = kept {
            of_profile.kept.put(key, kept);
        } else if last_end.is_some_and(|last_end| end - last_end <= most_changes) {
            let totals = (scanner.totals.clone(), by_group);
            let new = KeptTotals::new(made, end, &placement, &chooser, totals);
            match kept_bytes + new.bytes() <= self.budgets.kept_totals {
                true => of_profile.kept.put(key, Box::new(new)),
                false => of_profile.kept.sweep(end, most_changes),
            }
        }
        let n_feasible = if is_scored { n_left } else { Some(1) };
        (!best.is_empty()).then_some(Scan { best, n_judged, n_feasible, margin })
    }
}

/// Whether all totals are integers that 32-bit floats represent exactly.
pub(super) fn are_totals_exact(weights: impl Iterator<Item = i64>) -> bool {
    let sum = weights.fold(0_i64, |sum, weight| sum.saturating_add(weight.saturating_abs()));
    sum.saturating_mul(MAX_NODE_SCORE) <= MOST_TOTAL
}

pub(super) fn to_index(at: usize) -> NameIndex {
    NameIndex::try_from(at).expect("indices and groups have 32 bits")
}

#[expect(clippy::cast_precision_loss, reason = "totals are exact, see `are_totals_exact`")]
pub(super) fn to_f32(total: i64) -> f32 {
    total as f32
}

#[expect(clippy::cast_possible_truncation, reason = "totals are exact, see `are_totals_exact`")]
pub(super) fn to_i64(total: f32) -> i64 {
    total as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_exact_up_to_the_integers_that_floats_represent() {
        let most = MOST_TOTAL / MAX_NODE_SCORE;
        assert!(are_totals_exact([most].into_iter()));
        assert!(!are_totals_exact([most, 1].into_iter()));
        // What a negative weight takes away can be added before.
        assert!(!are_totals_exact([most, -1].into_iter()));
        assert!(!are_totals_exact([i64::MAX, i64::MIN].into_iter()));
        assert!(are_totals_exact(std::iter::empty()));
        assert_eq!(to_i64(to_f32(MOST_TOTAL)), MOST_TOTAL);
        assert_eq!(to_i64(to_f32(MOST_TOTAL - 1)), MOST_TOTAL - 1);
    }

    #[test]
    fn a_node_counts_in_its_group_while_it_has_enough_left() {
        let mut groups = GroupTotals {
            lens: vec![2, 0],
            added: vec![Some(3), None],
            by_group: vec![3.0, NEVER],
        };
        groups.count(0, true, false);
        groups.count(1, false, true);
        groups.count(1, true, true);
        groups.count(0, false, false);
        assert_eq!(groups.lens, [1, 1]);
        let scores = [0, 1].map(|group| groups.score(group).to_bits());
        assert_eq!(scores, [3.0_f32, NEVER].map(f32::to_bits));
    }

    #[test]
    fn arrays_that_would_take_too_much_are_not_made() {
        let mut nodes = Columns::default();
        for number in 0..100 {
            nodes.add(crate::tests::lab::node(&format!("n{number:02}"), &["cpu=4"]));
        }
        let objects = plimsoll_framework::Stores::default();
        let (view, name_order) = (View { nodes: &nodes, stores: &objects }, NameOrder::of(&nodes));
        let log = ChangeLog::new(name_order.n_indices());
        let needs = Needs([("cpu".into(), 1)].into_iter().collect());
        let (needs, scores) = (SmallVec::from_iter([needs]), SmallVec::new());
        let placement = PlacementPlugins { needs, scores, reads: NodeReads::empty() };
        let mut scanner = Scanner::default();
        let mut follow = |budget| {
            scanner.follow(&placement, &log, &name_order, view, budget).map(|()| scanner.bytes())
        };
        let bytes = follow(usize::MAX).expect("there is no limit");
        assert!(name_order.n_indices() * 16 <= bytes, "{bytes}");
        assert_eq!((follow(bytes), follow(bytes - 1)), (Some(bytes), None));
        assert_eq!(scanner.bytes(), 0, "they are dropped");
    }
}
