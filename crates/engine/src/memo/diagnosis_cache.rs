//! What is remembered for pods that fit nowhere, and for pods that must leave room for nominated ones.

use plimsoll_api::Str;
use plimsoll_framework::parts::NodeReads;
use plimsoll_framework::{Code, Neighbour, NominatedPods, PodInfo, View};

use super::by_profile::ByProfile;
use super::counts_cache::CountsId;
use super::decide::RankedBy;
use super::domain_counts::DomainCounts;
use super::name_index_set::NameIndex;
use super::name_order::NameOrder;
use super::node_diagnosis::NominatedNodeRejection;
use super::node_ranking::{ClusterView, NodeRanking, RankingPlugins};
use super::nominations::Nominations;
use super::rankings::RankingId;
use super::signature_diagnoses::SignatureDiagnoses;
use super::uncached_filters::UncachedFilters;
use super::{Memo, nominations};
use crate::cycle::{AttemptFailure, Cycle};
use crate::nominated_node::{NominatedNode, NominatedNodeJudge, try_nominated_node};
use crate::profile::Profile;
use crate::unit::{Member, Snapshot};

/// The pod must be decided from scratch.
pub(crate) struct OnlyFromScratch;

/// What is remembered for pods that were not placed.
#[derive(Default)]
pub(super) struct DiagnosisCache {
    /// By profile.
    by_signature: ByProfile<SignatureDiagnoses>,
}

impl DiagnosisCache {
    pub(super) fn add(&mut self, profile: &Profile) {
        self.by_signature.insert(profile, SignatureDiagnoses::new(profile));
    }

    /// Those of each profile.
    #[cfg(test)]
    pub(super) fn by_signature(&self) -> impl Iterator<Item = &SignatureDiagnoses> {
        self.by_signature.values()
    }

    /// Changes the memory for diagnoses and for example pods, in bytes.
    #[cfg(test)]
    pub(super) fn limit(&mut self, diagnoses: usize, signatures: usize) {
        self.by_signature.values_mut().for_each(|one| one.limit(diagnoses, signatures));
    }

    /// Forgets the diagnoses that hold only until the next change.
    pub(super) fn forget_signature_diagnoses(&mut self) {
        self.by_signature.values_mut().for_each(SignatureDiagnoses::forget);
    }
}

impl Memo {
    /// The result of an equal pod's attempt, if nothing has changed since.
    pub(crate) fn failed_alike(&mut self, profile: &Profile, pod: &PodInfo) -> Option<Cycle> {
        let diagnoses = self.diagnoses.by_signature.get_mut(profile)?;
        let (failure, n_judged) = diagnoses.find(profile, pod)?;
        Some(Cycle::failed(failure, n_judged))
    }

    /// Records the diagnosis of an attempt.
    pub(crate) fn note_diagnosis(&mut self, profile: &Profile, pod: &PodInfo, cycle: &Cycle) {
        if let Some(diagnoses) = self.diagnoses.by_signature.get_mut(profile) {
            diagnoses.note(profile, pod, cycle);
        }
    }

    /// The ranking that leaves room for nominated pods, and whether one of these moves a filter by counts. It is the
    /// same ranking if no nominated pod has the pod's priority or a higher one. `None` if the pod must be decided
    /// from scratch.
    pub(super) fn behind_nominated(
        &mut self,
        profile: &Profile,
        pod: &PodInfo,
        (ranking, domain_counts): (RankingId, CountsId),
        view: View<'_>,
        nominated: &NominatedPods,
    ) -> Option<(RankingId, bool)> {
        if nominated.highest().is_none_or(|highest| highest < pod.priority) {
            return Some((ranking, false));
        }
        let node_set = self.node_set.as_ref()?;
        let counts = self.counts.get(domain_counts)?;
        let mut is_moved = false;
        if !counts.filters.is_empty() {
            for signature in node_set.nominations.signatures_ahead(pod.priority) {
                let other = Neighbour::from(&**self.neighbours.example(signature));
                is_moved |= counts.are_moved_by(other).ok()?;
            }
        }
        let known = self.rankings.using(ranking, self.n_decisions)?.behind.get(&pod.priority);
        if let Some(behind) = known.copied().filter(|&behind| self.rankings.has(behind)) {
            return Some((behind, is_moved));
        }
        let set = self.topology_set(domain_counts);
        let behind =
            self.make_ranking(profile, pod, RankingPlugins::All, set, Some(pod.priority), view);
        // Making the new ranking may have dropped this one.
        self.rankings.set_behind(ranking, pod.priority, behind);
        Some((behind, is_moved))
    }

    /// Tries the nominated node of a pod.
    pub(super) fn try_nominated_node(
        &mut self,
        pod: &PodInfo,
        (ranking, domain_counts): (RankingId, CountsId),
        on: Snapshot<'_>,
    ) -> Result<NominatedNode<NominatedNodeRejection>, OnlyFromScratch> {
        try_nominated_node(pod, on.nominated, || ByRanking {
            pod,
            ranking: &mut self.rankings.get_mut(ranking).expect("it was just brought up").ranking,
            domain_counts: self.counts.get(domain_counts).expect("they were just brought up"),
            cluster: self
                .node_set
                .as_ref()
                .expect("it was built when changes were followed")
                .with(on.view),
        })
    }

    /// Why no node is feasible; `None` if this can only be found from scratch.
    pub(super) fn failure(
        &mut self,
        member: Member<'_>,
        with: (RankingId, CountsId),
        own: Option<&NominatedNodeRejection>,
        view: View<'_>,
    ) -> Option<AttemptFailure> {
        if self.counts.get(with.1)?.judge_nodes() {
            let none = &mut UncachedFilters::none(member.pod);
            let ranked_by = RankedBy { with, is_moved: false };
            return self.late_failure(member, ranked_by, none, own, view);
        }
        let node_set = self.node_set.as_ref()?;
        let (entry, priority) = (self.rankings.get_mut(with.0)?, member.pod.priority);
        if !entry.ranking.judges_all_nodes() {
            return None;
        }
        let cluster = node_set.with(view);
        let (ranking, _, diagnosis) = entry.diagnose(with.1, priority, node_set, cluster)?;
        let failure = diagnosis.failure(member, ranking, own, cluster);
        self.rankings.weigh_diagnosis(with.0, priority);
        failure
    }

    /// The nominated pods of all nodes.
    pub(super) fn nominations(
        &mut self,
        name_order: &NameOrder,
        view: View<'_>,
        nominated: &NominatedPods,
    ) -> Nominations {
        let mut nominations = Nominations::default();
        for (_, row) in name_order.rows().filter(|_| !nominated.is_empty()) {
            let pods = nominations::on(nominated, view.nodes, row);
            let known = nominations.set(row, &pods, |pod| self.neighbour(pod));
            self.is_overfull |= known.is_none();
        }
        nominations
    }

    /// Drops the domain counts that do not cover nominated pods.
    pub(super) fn count_nominated(&mut self, pods: &[PodInfo]) {
        for pod in pods {
            let signature = self.neighbour(pod);
            if let Some(signature) = signature.filter(|&one| !self.counts.counted_by.has(one)) {
                self.find_counting(signature);
            }
        }
    }

    /// Updates the nominated pods of one node.
    pub(super) fn renominate(&mut self, view: View<'_>, nominated: &NominatedPods, node: &str) {
        let Some(mut node_set) = self.node_set.take() else { return };
        if let Some(index) = node_set.name_order.find(node) {
            let row = node_set.name_order.row(index);
            let pods = nominations::on(nominated, view.nodes, row);
            let known = node_set.nominations.set(row, &pods, |pod| self.neighbour(pod));
            if known.is_none() {
                return;
            }
            self.count_nominated(&pods);
            node_set.changed.push((index, NodeReads::all()));
        }
        self.node_set = Some(node_set);
    }
}

/// Judges the nominated node of a pod from a node ranking.
struct ByRanking<'a> {
    pod: &'a PodInfo,
    ranking: &'a mut NodeRanking,
    domain_counts: &'a DomainCounts,
    cluster: ClusterView<'a>,
}

impl NominatedNodeJudge for ByRanking<'_> {
    type Node = NameIndex;
    type Rejection = NominatedNodeRejection;
    type Error = OnlyFromScratch;

    fn find(&self, name: &Str) -> Option<NameIndex> {
        self.cluster.name_order.find(name)
    }

    fn judge(
        &mut self,
        index: NameIndex,
    ) -> Result<NominatedNode<NominatedNodeRejection>, OnlyFromScratch> {
        let (cluster, row) = (self.cluster, self.cluster.name_order.row(index));
        match self.ranking.first(row, Some(self.pod), cluster) {
            None => Ok(match self.domain_counts.rejection(row, cluster) {
                None => NominatedNode::Passes(row),
                Some((plugin, why)) => {
                    NominatedNode::Rejected(NominatedNodeRejection { index, plugin, why })
                }
            }),
            // With the pod on it the node should reject it all the more.
            Some(_) if self.ranking.entry(index).is_some() => Err(OnlyFromScratch),
            Some((_, why)) if why.code == Code::Error => Err(OnlyFromScratch),
            Some((at, why)) => Ok(NominatedNode::Rejected(NominatedNodeRejection {
                index,
                plugin: self.ranking.plugin(at),
                why,
            })),
        }
    }
}
