//! The nodes as all pods of one signature see them, according to plugins that judge each node by itself.
//!
//! For each node a ranking holds whether it passes the filters, its static score (the weighted sum of scores
//! that need no normalizing) and its group. The nodes of a group are equal in everything else that scores
//! depend on. A change of a node updates the entry of that node.

use hashbrown::HashTable;
use plimsoll_framework::parts::{ClusterReads, NodeReads};
use plimsoll_framework::{
    ByRow, Candidates, Code, Columns, MAX_NODE_SCORE, NEVER, Normalize, PodInfo, Point, Prepared,
    Rejection, Row, RowScore, Verdict, View,
};
use smallvec::SmallVec;

use super::change_log::ChangeLog;
use super::name_index_set::NameIndex;
use super::name_order::NameOrder;
use super::nodes_by_score::NodesByScore;
use super::nominations::{Nominations, OnScratch};
use super::scan;
use super::topology::{NO_DOMAIN, Topology};
use crate::filters::merge;
use crate::profile::Profile;

/// The approximate size of a group without its key but with its sets of nodes, in bytes.
const BYTES_PER_GROUP: usize = 512;
/// No filter rejects the node.
const PASSES: u8 = u8::MAX;
/// No node has the index.
const NO_NODE: u8 = u8::MAX - 1;
/// In place of a group, for rejected nodes and free indices.
const NO_GROUP: u32 = u32::MAX;

/// A filter that judges each node by itself.
pub(super) struct RowFilter {
    plugin: &'static str,
    reads: NodeReads,
}

/// A score that needs no normalizing, with its weight.
struct StaticScore {
    reads: NodeReads,
    weight: i64,
    score: Box<dyn RowScore>,
    /// By name index, for nodes that pass.
    scores: Vec<u8>,
}

/// A score that is normalized over all feasible nodes.
pub(crate) struct NormalizedScore {
    reads: NodeReads,
    pub(crate) weight: i64,
    score: Box<dyn RowScore>,
    pub(crate) normalize: Normalize,
}

/// Nodes that are equal except for their static scores.
pub(crate) struct NodeGroup {
    /// The raw scores that are [normalized](NormalizedScore), and then for each topology the domain; for a
    /// fine topology, whether there is one.
    pub(crate) key: Box<[i64]>,
    pub(crate) nodes: NodesByScore,
}

#[derive(Clone, Copy)]
struct NodeEntry {
    group: u32,
    static_score: i64,
}

/// Which of the plugins that judge each node by itself contribute to a ranking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RankingPlugins {
    /// All.
    All,
    /// Those that do not read the pods on a node. This makes the base ranking of a [scan](super::scan).
    IgnoringPods,
}

impl RankingPlugins {
    fn includes(self, reads: NodeReads) -> bool {
        self == RankingPlugins::All || !scan::reads_placement(reads)
    }
}

/// The nodes as pods of one signature see them.
pub(crate) struct NodeRanking {
    pod: PodInfo,
    /// The size of the pod.
    pod_bytes: usize,
    /// Which plugins contribute.
    plugins: RankingPlugins,
    /// If set, nodes must also pass with the nominated pods of this priority or a higher one.
    pub(crate) behind: Option<i32>,
    /// Whether all filters run on a node even if one rejects it.
    runs_all: bool,
    filters: Vec<RowFilter>,
    /// The prepared filters, in the same order.
    pub(crate) prepared: Vec<Prepared>,
    /// A node with nominated pods on it; none while it is in use.
    scratch: Option<Columns>,
    static_scores: Vec<StaticScore>,
    pub(crate) normalized: Vec<NormalizedScore>,
    /// Indices of topologies, ascending.
    pub(crate) topologies: Vec<usize>,
    /// By name index: the first filter that rejects the node, [`PASSES`] or [`NO_NODE`].
    verdicts: Vec<u8>,
    entries: Vec<NodeEntry>,
    /// For scans, by name index: the static score, or [`NEVER`] for a rejected node and for a free index.
    pub(super) totals: Vec<f32>,
    pub(crate) groups: Vec<NodeGroup>,
    by_key: HashTable<u32>,
    /// The group that was found last.
    last_group: u32,
    /// The position in the change log of nodes.
    pub(crate) followed: u64,
    /// The nodes whose group has changed, among them those that have become feasible or infeasible.
    pub(crate) regrouped: ChangeLog<NameIndex>,
    /// How often the group or the static score of a node has changed.
    pub(crate) n_moves: u64,
    /// The indices that may have another node than before, or none.
    pub(crate) arrived: ChangeLog<NameIndex>,
    /// Whether some of its scores read more of the cluster than the node.
    reads_cluster: bool,
    /// The number of changes of the cluster, other than of single nodes, that it knows.
    pub(crate) cluster_version: u64,
    /// A score was out of range, or a filter could not judge a node. Such pods are decided from scratch.
    pub(crate) is_broken: bool,
}

/// The cluster with its nodes in name order.
#[derive(Clone, Copy)]
pub(crate) struct ClusterView<'a> {
    pub(crate) view: View<'a>,
    pub(crate) name_order: &'a NameOrder,
    pub(crate) topologies: &'a [Topology],
    pub(crate) nominations: &'a Nominations,
    /// The changes of single nodes.
    pub(crate) changes: &'a ChangeLog<(NameIndex, NodeReads)>,
}

impl NodeRanking {
    /// Judges and scores all nodes for pods like `pod`.
    pub(crate) fn new(
        profile: &Profile,
        pod: &PodInfo,
        plugins: RankingPlugins,
        topologies: Vec<usize>,
        behind: Option<i32>,
        (followed, cluster_version): (u64, u64),
        cluster: ClusterView<'_>,
    ) -> Self {
        let n_indices = cluster.name_order.n_indices();
        let (filters, prepared) = filters(profile, pod, plugins, &cluster.view);
        let scores = RankingScores::new(profile, pod, plugins, cluster);
        let mut ranking = NodeRanking {
            pod: pod.clone(),
            pod_bytes: pod.bytes(),
            plugins,
            behind,
            runs_all: profile.run_all_filters,
            filters,
            prepared,
            scratch: None,
            static_scores: scores.fixed,
            normalized: scores.normalized,
            topologies,
            verdicts: vec![NO_NODE; n_indices],
            entries: vec![NodeEntry { group: NO_GROUP, static_score: 0 }; n_indices],
            totals: if plugins == RankingPlugins::IgnoringPods {
                vec![NEVER; n_indices]
            } else {
                Vec::new()
            },
            groups: Vec::new(),
            by_key: HashTable::new(),
            last_group: 0,
            followed,
            regrouped: ChangeLog::new(n_indices),
            n_moves: 0,
            arrived: ChangeLog::new(n_indices),
            reads_cluster: scores.read_cluster,
            cluster_version,
            is_broken: false,
        };
        for (index, row) in cluster.name_order.rows() {
            ranking.look(index, row, NodeReads::all(), cluster);
        }
        ranking
    }

    /// Updates an index. `reads` have changed of its node, or it has another node or none if that is everything.
    pub(crate) fn follow(&mut self, index: NameIndex, reads: NodeReads, cluster: ClusterView<'_>) {
        if let Some(row) = cluster.name_order.at(index) {
            self.look(index, row, reads, cluster);
        } else {
            self.verdicts[index as usize] = NO_NODE;
            self.put(index, NodeEntry { group: NO_GROUP, static_score: 0 });
        }
        if reads == NodeReads::all() {
            self.arrived.push(index);
        }
    }

    /// Scores the nodes again if a score has changed because of the cluster as a whole. Returns `false` if the ranking
    /// must be made again.
    pub(crate) fn follow_cluster(
        &mut self,
        profile: &Profile,
        version: u64,
        cluster: ClusterView<'_>,
    ) -> bool {
        let is_known = std::mem::replace(&mut self.cluster_version, version) == version;
        if is_known || !self.reads_cluster {
            return true;
        }
        let scores = RankingScores::new(profile, &self.pod, self.plugins, cluster);
        let Some(reads) = scores.reads_that_differ(&self.static_scores, &self.normalized) else {
            return false;
        };
        if reads.is_empty() {
            return true;
        }
        let known = std::mem::replace(&mut self.static_scores, scores.fixed);
        for (score, known) in self.static_scores.iter_mut().zip(known) {
            score.scores = known.scores;
        }
        self.normalized = scores.normalized;
        for (index, row) in cluster.name_order.rows() {
            self.look(index, row, reads, cluster);
        }
        true
    }

    fn look(&mut self, index: NameIndex, row: Row, reads: NodeReads, cluster: ClusterView<'_>) {
        let at = index as usize;
        let before = self.verdicts[at];
        let verdict = self.judge(index, row, reads, cluster);
        if verdict != PASSES {
            if self.runs_all {
                let why = self.rejection(cluster.view.nodes, row);
                self.is_broken |= why.is_some_and(|(_, why)| why.code == Code::Error);
            }
            self.verdicts[at] = verdict;
            self.put(index, NodeEntry { group: NO_GROUP, static_score: 0 });
            return;
        }
        let was_away = before != PASSES || self.entries[at].group == NO_GROUP;
        let reads = if was_away { NodeReads::all() } else { reads };
        self.verdicts[at] = PASSES;
        let static_score = self.static_score(at, row, reads, cluster);
        let is_moved = was_away
            || reads == NodeReads::all()
            || self.normalized.iter().any(|one| one.reads.intersects(reads));
        let group = if is_moved { self.group(row, cluster) } else { self.entries[at].group };
        self.put(index, NodeEntry { group, static_score });
    }

    /// The first filter that rejects the node. Filters before the first one that reads what has changed are
    /// not asked again, unless one of them rejected the node.
    fn judge(
        &mut self,
        index: NameIndex,
        row: Row,
        reads: NodeReads,
        cluster: ClusterView<'_>,
    ) -> u8 {
        let before = self.verdicts[index as usize];
        let nodes = cluster.view.nodes;
        let has_some_ahead =
            self.behind.is_some_and(|priority| cluster.nominations.has_ahead(row, priority));
        if has_some_ahead {
            let first = self.first(row, None, cluster);
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

    /// The first filter that rejects a node, and its reason; if all filters run, the one with the most severe
    /// reason, and all reasons. A ranking with `behind` first judges the node with the nominated pods. `own`
    /// is left out of these.
    pub(crate) fn first(
        &mut self,
        row: Row,
        own: Option<&PodInfo>,
        cluster: ClusterView<'_>,
    ) -> Option<(usize, Rejection)> {
        let ahead = self.behind.map(|priority| cluster.nominations.ahead(row, priority, own));
        let mut scratch = self.scratch.take().unwrap_or_default();
        let on_scratch = OnScratch { scratch: &mut scratch, nodes: cluster.view.nodes, row };
        let with = ahead.filter(|ahead| !ahead.is_empty()).and_then(|ahead| {
            let (nodes, only) = on_scratch.with(&ahead);
            self.rejection(nodes, only)
        });
        self.scratch = Some(scratch);
        with.or_else(|| self.rejection(cluster.view.nodes, row))
    }

    /// As [`first`](Self::first) without an `own`. The ranking must be up to date, so that the filter is
    /// already known.
    pub(crate) fn why(
        &mut self,
        index: NameIndex,
        row: Row,
        cluster: ClusterView<'_>,
    ) -> Option<(usize, Rejection)> {
        let at = match self.verdicts[index as usize] {
            PASSES => return None,
            at => usize::from(at),
        };
        let is_ahead = |priority| cluster.nominations.has_ahead(row, priority);
        if !self.runs_all
            && !self.behind.is_some_and(is_ahead)
            && let Verdict::Fail(why) =
                self.prepared[at].judge_one(&self.pod, cluster.view.nodes, row)
        {
            return Some((at, why));
        }
        self.first(row, None, cluster)
    }

    fn rejection(&self, nodes: &Columns, row: Row) -> Option<(usize, Rejection)> {
        let judged = self.prepared.iter().map(|one| one.judge_one(&self.pod, nodes, row));
        let mut rejections = judged.enumerate().filter_map(|(at, verdict)| match verdict {
            Verdict::Pass => None,
            Verdict::Fail(why) => Some((at, why)),
        });
        let first = rejections.next()?;
        Some(if self.runs_all { rejections.fold(first, merge) } else { first })
    }

    /// The same ranking, made again with all changes up to `followed`: the position in the change log of nodes, and
    /// the number of changes of the cluster.
    pub(crate) fn again(
        &self,
        profile: &Profile,
        followed: (u64, u64),
        cluster: ClusterView<'_>,
    ) -> Self {
        let (pod, topologies) = (&self.pod, self.topologies.clone());
        NodeRanking::new(profile, pod, self.plugins, topologies, self.behind, followed, cluster)
    }

    /// How it differs from the same ranking made anew.
    pub(super) fn difference(&self, anew: &NodeRanking) -> Option<String> {
        if anew.is_broken {
            return None;
        }
        let place = |of: &NodeRanking, at: usize| {
            let entry = of.entries[at];
            let key = of.groups.get(entry.group as usize).map(|group| group.key.clone());
            (of.verdicts[at], entry.static_score, key, of.totals.get(at).copied())
        };
        for at in 0..self.entries.len().max(anew.entries.len()) {
            let (known, anew) = (place(self, at), place(anew, at));
            if known != anew {
                return Some(format!("node at {at}: {known:?}, anew {anew:?}"));
            }
        }
        let mut n_in_groups = 0;
        for (number, group) in (0..).zip(&self.groups) {
            for (static_score, nodes) in group.nodes.highest_first() {
                for index in nodes.iter() {
                    n_in_groups += 1;
                    let entry = self.entries[index as usize];
                    if (entry.group, entry.static_score) != (number, static_score) {
                        return Some(format!("node at {index} is also in group {number}"));
                    }
                }
            }
        }
        let n_feasible = self.entries.iter().filter(|entry| entry.group != NO_GROUP).count();
        let what = format!("groups have {n_in_groups} nodes, and {n_feasible} are feasible");
        (n_in_groups != n_feasible).then_some(what)
    }

    /// A pod that it ranks nodes for, with this priority.
    pub(super) fn pod_of_priority(&self, priority: i32) -> PodInfo {
        let mut pod = self.pod.seen().clone();
        std::sync::Arc::make_mut(&mut std::sync::Arc::make_mut(&mut pod).template).priority =
            priority;
        PodInfo::from(pod)
    }

    /// Its approximate size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let n_indices = self.verdicts.len();
        let per_index = size_of::<u8>()
            + size_of::<NodeEntry>()
            + size_of::<NameIndex>()
            + self.static_scores.len();
        let per_group =
            BYTES_PER_GROUP + (self.normalized.len() + self.topologies.len()) * size_of::<i64>();
        self.pod_bytes
            + n_indices * per_index
            + self.totals.len() * size_of::<f32>()
            + self.arrived.len() * size_of::<NameIndex>()
            + self.groups.len() * per_group
    }

    /// The names of the plugins of all filters, in the order of the profile.
    pub(crate) fn plugins(&self) -> impl Iterator<Item = &'static str> {
        self.filters.iter().map(|filter| filter.plugin)
    }

    /// The name of the plugin of a filter.
    pub(crate) fn plugin(&self, at: usize) -> &'static str {
        self.filters[at].plugin
    }

    /// Whether all nodes are judged: no filter rejects the pod for all nodes or limits the nodes.
    pub(crate) fn judges_all_nodes(&self) -> bool {
        let of_all = |one: &Prepared| {
            one.rejection().is_none() && matches!(one.candidates(), Candidates::All)
        };
        self.prepared.iter().all(of_all)
    }

    fn static_score(
        &mut self,
        at: usize,
        row: Row,
        reads: NodeReads,
        cluster: ClusterView<'_>,
    ) -> i64 {
        let mut static_score = 0;
        for one in &mut self.static_scores {
            if one.reads.intersects(reads) || reads == NodeReads::all() {
                let score = one.score.raw(&self.pod, cluster.view.nodes, row);
                self.is_broken |= !(0..=MAX_NODE_SCORE).contains(&score);
                one.scores[at] = u8::try_from(score).unwrap_or(0);
            }
            static_score += i64::from(one.scores[at]) * one.weight;
        }
        static_score
    }

    fn group(&mut self, row: Row, cluster: ClusterView<'_>) -> u32 {
        let raw = |one: &NormalizedScore| one.score.raw(&self.pod, cluster.view.nodes, row);
        let domain = |&topology: &usize| {
            let topology = &cluster.topologies[topology];
            match topology.domain(row) {
                NO_DOMAIN => -1,
                _ if topology.is_fine() => 0,
                domain => i64::from(domain),
            }
        };
        let raws = self.normalized.iter().map(raw);
        let key: SmallVec<[i64; 8]> = raws.chain(self.topologies.iter().map(domain)).collect();
        let groups = &self.groups;
        // Consecutive nodes are often equal.
        let last = self.last_group;
        if groups.get(last as usize).is_some_and(|group| *group.key == *key) {
            return last;
        }
        let hash = hash(&key);
        if let Some(&group) = self.by_key.find(hash, |&group| *groups[group as usize].key == *key) {
            self.last_group = group;
            return group;
        }
        let group = u32::try_from(self.groups.len()).expect("there are fewer groups than nodes");
        self.groups.push(NodeGroup { key: key.into_boxed_slice(), nodes: NodesByScore::default() });
        let groups = &self.groups;
        self.by_key.insert_unique(hash, group, |&group| self::hash(&groups[group as usize].key));
        group
    }

    fn put(&mut self, index: NameIndex, entry: NodeEntry) {
        let before = std::mem::replace(&mut self.entries[index as usize], entry);
        if (before.group, before.static_score) == (entry.group, entry.static_score) {
            return;
        }
        if before.group != NO_GROUP {
            self.groups[before.group as usize].nodes.remove(before.static_score, index);
        }
        if let Some(total) = self.totals.get_mut(index as usize) {
            *total = if entry.group == NO_GROUP { NEVER } else { scan::to_f32(entry.static_score) };
        }
        if entry.group != NO_GROUP {
            let n_indices = self.entries.len();
            self.groups[entry.group as usize].nodes.insert(entry.static_score, index, n_indices);
        }
        self.n_moves += 1;
        if before.group != entry.group {
            self.regrouped.push(index);
        }
    }

    /// The group of each node by name index; `None` for rejected nodes.
    pub(super) fn groups_of_nodes(&self) -> impl Iterator<Item = Option<u32>> {
        self.entries.iter().map(|entry| (entry.group != NO_GROUP).then_some(entry.group))
    }

    /// The group and the static score of a feasible node.
    pub(crate) fn entry(&self, index: NameIndex) -> Option<(u32, i64)> {
        let entry = self.entries[index as usize];
        (entry.group != NO_GROUP).then_some((entry.group, entry.static_score))
    }

    /// The domain in the key of a group for a topology.
    pub(crate) fn domain_in(&self, group: &NodeGroup, topology: usize) -> i64 {
        group.key[self.place_in_key(topology)]
    }

    /// The place of the domain of a topology in the keys of groups.
    pub(crate) fn place_in_key(&self, topology: usize) -> usize {
        let at = self.topologies.iter().position(|&one| one == topology);
        self.normalized.len() + at.expect("the ranking was made for these topologies")
    }
}

/// The scores that judge each node by itself and apply to a pod.
struct RankingScores {
    fixed: Vec<StaticScore>,
    normalized: Vec<NormalizedScore>,
    /// Whether one of them reads more of the cluster than the node, or gives no scores because of what it has read.
    read_cluster: bool,
}

impl RankingScores {
    fn new(
        profile: &Profile,
        pod: &PodInfo,
        plugins: RankingPlugins,
        cluster: ClusterView<'_>,
    ) -> Self {
        let mut scores =
            RankingScores { fixed: Vec::new(), normalized: Vec::new(), read_cluster: false };
        for (plugin, weight) in profile.at(Point::Score) {
            let Some(point) = plugin.points.score.as_ref().filter(|point| point.applies(pod))
            else {
                continue;
            };
            let reads = point.reads().node;
            if !plugins.includes(reads) {
                continue;
            }
            scores.read_cluster |=
                point.is_by_row() && point.reads().cluster != ClusterReads::EMPTY;
            match point.by_row(pod, &cluster.view) {
                ByRow::Scores(score, Normalize::None) => {
                    let of_nodes = vec![0; cluster.name_order.n_indices()];
                    scores.fixed.push(StaticScore { reads, weight, score, scores: of_nodes });
                }
                ByRow::Scores(score, normalize) => {
                    scores.normalized.push(NormalizedScore { reads, weight, score, normalize });
                }
                ByRow::Skips | ByRow::Unsupported => {}
            }
        }
        scores
    }

    /// What the scores read of nodes that differ from known ones; `None` if they are not of the same plugins.
    fn reads_that_differ(
        &self,
        fixed: &[StaticScore],
        normalized: &[NormalizedScore],
    ) -> Option<NodeReads> {
        let fixed_pairs = self.fixed.iter().map(|one| (one.reads, &one.score));
        let known_fixed = fixed.iter().map(|one| (one.reads, &one.score));
        let pairs = self.normalized.iter().map(|one| (one.reads, &one.score));
        let known = normalized.iter().map(|one| (one.reads, &one.score));
        if (self.fixed.len(), self.normalized.len()) != (fixed.len(), normalized.len()) {
            return None;
        }
        let mut differing = NodeReads::empty();
        for ((reads, one), (_, other)) in fixed_pairs.zip(known_fixed).chain(pairs.zip(known)) {
            match one.is_equal(other.as_ref()) {
                Some(true) => {}
                Some(false) => differing |= reads,
                None => return None,
            }
        }
        Some(differing)
    }
}

/// The filters that judge each node by itself and apply to `pod`, in the order of the profile.
pub(super) fn filters(
    profile: &Profile,
    pod: &PodInfo,
    plugins: RankingPlugins,
    view: &View<'_>,
) -> (Vec<RowFilter>, Vec<Prepared>) {
    let mut shared = plimsoll_framework::CycleState::new();
    let (mut filters, mut all) = (Vec::new(), Vec::new());
    for (plugin, _) in profile.at(Point::Filter) {
        let Some(filter) = &plugin.points.filter else { continue };
        let is_included =
            plugin.points.filter_is_local && plugins.includes(plugin.points.reads.node);
        if is_included && filter.applies(pod) {
            all.push(filter.prepare(pod, &mut shared, view));
            filters.push(RowFilter { plugin: plugin.name, reads: plugin.points.reads.node });
        }
    }
    (filters, all)
}

fn to_u8(at: usize) -> u8 {
    u8::try_from(at).ok().filter(|&at| at < NO_NODE).expect("a profile has fewer than 254 plugins")
}

/// Whether a filter rejects a node or cannot judge it.
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
