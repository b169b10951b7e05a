//! Why each node rejects pods of one signature.
//!
//! A [`NodeRanking`] knows which nodes pass. If none does, the message to the pod says how many nodes reject
//! it for which reasons. So the reasons are remembered as well, and are determined again only for nodes that
//! have changed.

use plimsoll_framework::parts::{NodeReads, StoreReads};
use plimsoll_framework::points::PostFilterPoint;
use plimsoll_framework::{
    Code, ErasedByNode, PodInfo, Point, PostFilterAnswer, Prepared, Rejection, Row,
};

use super::change_log::ChangeLog;
use super::counted_values::{CountedValues, ValueId};
use super::diagnosis_cache::OnlyFromScratch;
use super::name_index_set::NameIndex;
use super::node_ranking::{ClusterView, NodeRanking};
use super::preemption::{BYTES_PER_REASON, CandidateCache, CandidateSearch};
use crate::cycle::{AttemptFailure, PostFilterRun};
use crate::diagnosis;
use crate::metrics::CycleMeter;
use crate::unit::Member;

/// In place of a reason: the node passes.
const PASSES: ValueId = ValueId::MAX;
/// No node has the index.
const NO_NODE: ValueId = ValueId::MAX - 1;
/// Beyond this many different reasons for each node the diagnosis is made again, since old reasons keep their
/// memory.
const MOST_REASONS_PER_NODE: usize = 8;

/// The reasons why nodes reject pods of one ranking and one priority, and the preemption candidates.
pub(crate) struct NodeDiagnosis {
    /// The positions in the change log of nodes, and in that of rows whose node has come or gone.
    followed: (u64, u64),
    reasons: CountedValues<(&'static str, Rejection)>,
    /// By name index.
    reason_of: Vec<ValueId>,
    n_passing: usize,
    /// The rows of the nodes on which evictions could help, ascending.
    places: Vec<Row>,
    /// Whether `places` is out of date.
    has_moved: bool,
    /// The candidates of each PostFilter plugin that looks at nodes one by one.
    candidates: Vec<(&'static str, CandidateCache)>,
}

/// Why a pod's nominated node rejects the pod. For all other pods the node counts as if the pod were on it.
pub(crate) struct NominatedNodeRejection {
    pub(crate) index: NameIndex,
    pub(crate) plugin: &'static str,
    pub(crate) why: Rejection,
}

impl NodeDiagnosis {
    /// Judges all nodes.
    pub(crate) fn new(
        ranking: &mut NodeRanking,
        followed: (u64, u64),
        cluster: ClusterView<'_>,
    ) -> Self {
        let n_indices = cluster.name_order.n_indices();
        let mut diagnosis = NodeDiagnosis {
            followed,
            reasons: CountedValues::default(),
            reason_of: vec![NO_NODE; n_indices],
            n_passing: 0,
            places: Vec::new(),
            has_moved: true,
            candidates: Vec::new(),
        };
        for (index, _) in cluster.name_order.rows() {
            diagnosis.look(index, ranking, cluster);
        }
        diagnosis
    }

    /// Applies the changes of nodes. Returns `false` if the change log no longer holds all of them.
    pub(crate) fn follow(
        &mut self,
        ranking: &mut NodeRanking,
        log: &ChangeLog<(NameIndex, NodeReads)>,
        came_or_gone: &ChangeLog<Row>,
        cluster: ClusterView<'_>,
    ) -> bool {
        let most = MOST_REASONS_PER_NODE * self.reason_of.len();
        let is_small = self.reasons.n_numbers() <= most
            && self.candidates.iter().all(|(_, candidates)| candidates.n_reasons() <= most);
        let changes = log.of_nodes_since(self.followed.0).zip(came_or_gone.since(self.followed.1));
        let Some((changes, rows)) = changes.filter(|_| is_small) else { return false };
        self.followed = (log.end(), came_or_gone.end());
        for row in rows {
            self.has_moved = true;
            self.candidates.iter_mut().for_each(|(_, candidates)| candidates.forget(row));
        }
        for (index, _) in changes {
            self.look(index, ranking, cluster);
        }
        true
    }

    fn look(&mut self, index: NameIndex, ranking: &mut NodeRanking, cluster: ClusterView<'_>) {
        let row = cluster.name_order.at(index);
        for (_, candidates) in &mut self.candidates {
            if let Some(row) = row {
                candidates.forget(row);
            }
        }
        let reason = match row.map(|row| ranking.why(index, row, cluster)) {
            Some(Some((at, why))) => self.reasons.add((ranking.plugin(at), why)),
            Some(None) => PASSES,
            None => NO_NODE,
        };
        let before = std::mem::replace(&mut self.reason_of[index as usize], reason);
        self.has_moved |= self.could_help(before) != self.could_help(reason);
        if before < NO_NODE {
            self.reasons.sub(before);
        }
        self.n_passing += usize::from(reason == PASSES);
        self.n_passing -= usize::from(before == PASSES);
    }

    /// How it differs from the same diagnosis made anew, without its candidates.
    pub(super) fn difference(
        &mut self,
        anew: &NodeDiagnosis,
        cluster: ClusterView<'_>,
    ) -> Option<String> {
        for at in 0..self.reason_of.len().max(anew.reason_of.len()) {
            let reason = |of: &NodeDiagnosis| match of.reason_of[at] {
                reason if reason < NO_NODE => Ok(of.reasons.value(reason).clone()),
                none => Err(none),
            };
            let (known, anew) = (reason(self), reason(anew));
            if known != anew {
                return Some(format!("reason of {at}: {known:?}, anew {anew:?}"));
            }
        }
        let could_help = |&(index, _): &(NameIndex, Row)| self.could_help(self.reason(index));
        let rows = cluster.name_order.rows().filter(could_help).map(|(_, row)| row);
        let mut places: Vec<Row> = rows.collect();
        places.sort_unstable();
        let numbers = (self.n_passing, self.reasons.iter(None).map(|(_, n)| n).sum::<usize>());
        let anew = (anew.n_passing, anew.reasons.iter(None).map(|(_, n)| n).sum::<usize>());
        if numbers != anew {
            return Some(format!("passing and rejected nodes: {numbers:?}, anew {anew:?}"));
        }
        let known = self.places(cluster);
        let what = format!("places: {known:?}, anew {places:?}");
        (known != places).then_some(what)
    }

    /// How its candidates differ from those that are found anew, for a pod of its priority with these filters.
    pub(super) fn difference_of_candidates<'p>(
        &self,
        pod: &PodInfo,
        filters: &[Prepared],
        plugin: impl Fn(&str) -> Option<&'p dyn ErasedByNode>,
        cluster: ClusterView<'_>,
    ) -> Option<String> {
        let mut candidates = self.candidates.iter();
        candidates.find_map(|(name, known)| known.difference(plugin(name)?, pod, filters, cluster))
    }

    /// Its approximate size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.reason_of.len() * (size_of::<ValueId>() + size_of::<Row>())
            + self.reasons.n_numbers() * BYTES_PER_REASON
            + self.candidates.iter().map(|(_, candidates)| candidates.bytes()).sum::<usize>()
    }

    /// Whether evictions could help against a reason.
    fn could_help(&self, reason: ValueId) -> bool {
        reason < NO_NODE && self.reasons.value(reason).1.code == Code::Unschedulable
    }

    /// Forgets candidates that were derived from stores that have changed.
    pub(crate) fn forget_stores(&mut self, stores: StoreReads) {
        self.candidates.retain(|(_, candidates)| !candidates.reads().intersects(stores));
    }

    /// Why a pod cannot be placed, with the answers of the PostFilter plugins; `None` if this can only be
    /// found from scratch.
    pub(crate) fn failure(
        &mut self,
        member: Member<'_>,
        ranking: &mut NodeRanking,
        own: Option<&NominatedNodeRejection>,
        cluster: ClusterView<'_>,
    ) -> Option<AttemptFailure> {
        let passing = usize::from(own.is_some_and(|own| self.reason(own.index) == PASSES));
        if self.n_passing != passing || own.is_some_and(|own| !self.agrees(own)) {
            return None;
        }
        let mut run = PostFilterRun::new(self.rejected_by_all(own, cluster.name_order.len())?);
        if !member.profile.asks_post_filter(member.pod) {
            return Some(run.unasked());
        }
        // Its duration is measured as a phase of the decision.
        let meter = &mut CycleMeter::default();
        let ask = |name: &'static str, point: &PostFilterPoint| {
            self.answer((name, point), member, ranking, own, cluster).ok_or(OnlyFromScratch)
        };
        run.go_on(member.profile, meter, ask).ok()
    }

    /// The answer of one PostFilter plugin; `None` if it can only be found from scratch.
    fn answer(
        &mut self,
        (name, point): (&'static str, &PostFilterPoint),
        member: Member<'_>,
        ranking: &mut NodeRanking,
        own: Option<&NominatedNodeRejection>,
        cluster: ClusterView<'_>,
    ) -> Option<PostFilterAnswer> {
        // Since all nodes were judged, every filter has looked at the pod.
        let Member { profile, pod } = member;
        let mut filters = profile.at(Point::PreFilter).chain(profile.at(Point::Filter));
        let has_looked =
            filters.any(|(filter, _)| filter.name == name && filter.points.filter.is_some());
        if let Some(answer) = point.without_nodes(pod, has_looked) {
            return Some(answer);
        }
        let by_node = point.by_node_on(&cluster.view)?;
        let nominated = self.nominated(pod, own, cluster);
        match by_node.without_dry_run(pod, nominated, &cluster.view) {
            Some(answer) => Some(answer),
            None => self.choose_candidate(name, by_node, pod, ranking, own, cluster),
        }
    }

    /// The rejection by all nodes, without PostFilter; `None` if some node could not be judged.
    fn rejected_by_all(
        &self,
        own: Option<&NominatedNodeRejection>,
        n_nodes: usize,
    ) -> Option<AttemptFailure> {
        let counted = self.counted(own).chain(own.map(|own| (own.plugin, &own.why, 1)));
        diagnosis::rejected_by_nodes(n_nodes, counted)
    }

    fn reason(&self, index: NameIndex) -> ValueId {
        self.reason_of[index as usize]
    }

    /// Whether evictions on the nominated node could help the pod exactly if they could help all others.
    fn agrees(&self, own: &NominatedNodeRejection) -> bool {
        self.could_help(self.reason(own.index)) == (own.why.code == Code::Unschedulable)
    }

    /// The row of the nominated node in the pod's status, and the code of its rejection.
    fn nominated(
        &self,
        pod: &PodInfo,
        own: Option<&NominatedNodeRejection>,
        cluster: ClusterView<'_>,
    ) -> Option<(Row, Code)> {
        let name = pod.nominated_node.as_ref()?;
        let index = cluster.name_order.find(name)?;
        let code = match own.filter(|own| own.index == index) {
            Some(own) => own.why.code,
            None => self.reasons.value(self.reason(index)).1.code,
        };
        Some((cluster.name_order.row(index), code))
    }

    fn choose_candidate(
        &mut self,
        name: &'static str,
        plugin: &dyn ErasedByNode,
        pod: &PodInfo,
        ranking: &mut NodeRanking,
        own: Option<&NominatedNodeRejection>,
        cluster: ClusterView<'_>,
    ) -> Option<PostFilterAnswer> {
        self.places(cluster);
        let places = std::mem::take(&mut self.places);
        let candidates = self.candidates(name, plugin);
        let own = own.map(|own| cluster.name_order.row(own.index));
        let filters = &ranking.prepared;
        let mut search =
            CandidateSearch::new(plugin, pod, filters, &places, own, candidates, cluster);
        let answer = plugin.choose(pod, &mut search);
        self.places = places;
        answer
    }

    /// The candidates that a plugin has found.
    pub(super) fn candidates(
        &mut self,
        name: &'static str,
        plugin: &dyn ErasedByNode,
    ) -> &mut CandidateCache {
        let known = self.candidates.iter().position(|(known, _)| *known == name);
        let at = known.unwrap_or_else(|| {
            self.candidates.push((name, CandidateCache::new(plugin.reads())));
            self.candidates.len() - 1
        });
        &mut self.candidates[at].1
    }

    /// The rows of the nodes on which evictions could help, ascending.
    pub(super) fn places(&mut self, cluster: ClusterView<'_>) -> &[Row] {
        if self.has_moved {
            let rows = cluster.name_order.rows();
            let could_help = rows.filter(|&(index, _)| self.could_help(self.reason(index)));
            self.places = could_help.map(|(_, row)| row).collect();
            self.places.sort_unstable();
            self.has_moved = false;
        }
        &self.places
    }

    /// The nodes that pass.
    pub(super) fn passing(&self) -> impl Iterator<Item = NameIndex> {
        let all = (0..).zip(&self.reason_of).filter(|_| 0 < self.n_passing);
        all.filter(|&(_, &reason)| reason == PASSES).map(|(index, _)| index)
    }

    /// Whether a node passes.
    pub(super) fn passes(&self, index: NameIndex) -> bool {
        self.reason(index) == PASSES
    }

    /// The code of the rejection by a node that does not pass.
    pub(super) fn code(&self, index: NameIndex) -> Code {
        self.reasons.value(self.reason(index)).1.code
    }

    /// How many nodes have each reason, without the nominated node of the pod.
    pub(super) fn counted(
        &self,
        own: Option<&NominatedNodeRejection>,
    ) -> impl Iterator<Item = (&'static str, &Rejection, usize)> {
        let without = own.map(|own| self.reason(own.index)).filter(|&reason| reason != PASSES);
        self.reasons.iter(without).map(|((plugin, why), n)| (*plugin, why, n))
    }
}
