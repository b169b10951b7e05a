//! What is remembered for pods that fit nowhere, and for pods that must leave room for nominated ones.

use std::collections::BTreeMap;

use plimsoll_api::Str;
use plimsoll_framework::parts::{NodeReads, StoreReads};
use plimsoll_framework::{Code, Neighbour, NominatedPods, PodInfo, View};

use super::account::Account;
use super::domain_counts::DomainCounts;
use super::name_index_set::NameIndex;
use super::name_order::NameOrder;
use super::node_diagnosis::{NodeDiagnosis, NominatedNodeRejection};
use super::node_ranking::{ClusterView, NodeRanking, RankingPlugins};
use super::nominations::Nominations;
use super::signature_diagnoses::SignatureDiagnoses;
use super::signatures::SignatureId;
use super::{FastMap, Memo, NodeSet, nominations};
use crate::cycle::{AttemptFailure, Cycle};
use crate::nominated_node::{NominatedNode, NominatedNodeJudge, try_nominated_node};
use crate::profile::Profile;
use crate::unit::{Member, Snapshot};

/// The memory for node diagnoses, in bytes.
const NODE_DIAGNOSIS_BUDGET: usize = 512 << 20;

/// The pod must be decided from scratch.
pub(super) struct OnlyFromScratch;

/// What is remembered for pods that were not placed.
#[derive(Default)]
pub(super) struct DiagnosisCache {
    /// By ranking and priority: the ranking for pods of this priority that also leaves room for nominated
    /// pods.
    behind: FastMap<(usize, i32), usize>,
    /// By ranking and priority.
    node_diagnoses: FastMap<(usize, i32), NodeDiagnosis>,
    node_diagnosis_bytes: Account<(usize, i32)>,
    /// By profile.
    by_signature: BTreeMap<String, SignatureDiagnoses>,
}

impl DiagnosisCache {
    pub(super) fn add(&mut self, profile: &Profile) {
        self.by_signature.insert(profile.scheduler_name.clone(), SignatureDiagnoses::new(profile));
    }

    /// Forgets the diagnoses that hold only until the next change.
    pub(super) fn forget_signature_diagnoses(&mut self) {
        self.by_signature.values_mut().for_each(SignatureDiagnoses::forget);
    }

    /// Forgets what was derived from stores that have changed.
    pub(super) fn forget_stores(&mut self, stores: StoreReads) {
        self.forget_signature_diagnoses();
        self.node_diagnoses.values_mut().for_each(|diagnosis| diagnosis.forget_stores(stores));
    }

    pub(super) fn forget_rankings(&mut self) {
        self.behind.clear();
        self.forget_node_diagnoses();
    }

    fn forget_node_diagnoses(&mut self) {
        self.node_diagnoses.clear();
        self.node_diagnosis_bytes.clear();
    }

    /// The diagnosis of a ranking and a priority, which is up to date. The ranking must be, too.
    pub(super) fn node_diagnosis(
        &mut self,
        key: (usize, i32),
        ranking: &mut NodeRanking,
        node_set: &NodeSet,
        cluster: ClusterView<'_>,
    ) -> &mut NodeDiagnosis {
        if NODE_DIAGNOSIS_BUDGET < self.node_diagnosis_bytes.total() {
            self.forget_node_diagnoses();
        }
        let ends = (node_set.changed.end(), node_set.came_or_gone.end());
        let known = self.node_diagnoses.entry(key);
        let diagnosis = known.or_insert_with(|| NodeDiagnosis::new(ranking, ends, cluster));
        if !diagnosis.follow(ranking, &node_set.changed, &node_set.came_or_gone, cluster) {
            *diagnosis = NodeDiagnosis::new(ranking, ends, cluster);
        }
        diagnosis
    }

    /// Records the size of a diagnosis.
    pub(super) fn note_bytes(&mut self, key: (usize, i32), bytes: usize) {
        self.node_diagnosis_bytes.set(key, bytes);
    }

    pub(super) fn drop_ranking(&mut self, number: usize) {
        self.behind.retain(|&(ranking, _), behind| ranking != number && *behind != number);
        self.node_diagnoses.retain(|&(ranking, _), _| ranking != number);
        self.node_diagnosis_bytes.retain(|(ranking, _)| ranking != number);
    }
}

impl Memo {
    /// The result of an equal pod's attempt, if nothing has changed since.
    pub(crate) fn failed_alike(&mut self, profile: &Profile, pod: &PodInfo) -> Option<Cycle> {
        let diagnoses = self.diagnoses.by_signature.get_mut(&profile.scheduler_name)?;
        let (failure, n_judged) = diagnoses.find(profile, pod)?;
        Some(Cycle::failed(failure, n_judged))
    }

    /// Records the diagnosis of an attempt.
    pub(crate) fn note_diagnosis(&mut self, profile: &Profile, pod: &PodInfo, cycle: &Cycle) {
        if let Some(diagnoses) = self.diagnoses.by_signature.get_mut(&profile.scheduler_name) {
            diagnoses.note(profile, pod, cycle);
        }
    }

    /// The ranking that leaves room for nominated pods. It is the same one if no nominated pod has the pod's
    /// priority or a higher one. `None` if the pod must be decided from scratch.
    pub(super) fn behind_nominated(
        &mut self,
        profile: &Profile,
        pod: &PodInfo,
        (ranking, domain_counts): (usize, usize),
        view: View<'_>,
        nominated: &NominatedPods,
    ) -> Option<usize> {
        if nominated.highest().is_none_or(|highest| highest < pod.priority) {
            return Some(ranking);
        }
        let node_set = self.node_set.as_ref()?;
        let (counts, _) = self.domain_counts[domain_counts].as_ref()?;
        // If a nominated pod affects a filter that counts by domain, that filter would have to judge each
        // node with the nominated pod and without it.
        let is_moved = |signature: SignatureId| {
            let other = Neighbour::from(&**self.neighbours.example(signature));
            counts.are_moved_by(other)
        };
        if !counts.filters.is_empty()
            && node_set.nominations.signatures_ahead(pod.priority).any(is_moved)
        {
            return None;
        }
        let (_, used) = self.rankings[ranking].as_mut()?;
        *used = self.n_decisions;
        if let Some(&behind) = self.diagnoses.behind.get(&(ranking, pod.priority)) {
            return Some(behind);
        }
        let set = self.topology_set(domain_counts);
        let behind =
            self.make_ranking(profile, pod, RankingPlugins::All, set, Some(pod.priority), view);
        // Making the new ranking may have dropped this one.
        if self.rankings[ranking].is_some() && behind != ranking {
            self.diagnoses.behind.insert((ranking, pod.priority), behind);
        }
        Some(behind)
    }

    /// Tries the nominated node of a pod.
    pub(super) fn try_nominated_node(
        &mut self,
        pod: &PodInfo,
        (ranking, domain_counts): (usize, usize),
        on: Snapshot<'_>,
    ) -> Result<NominatedNode<NominatedNodeRejection>, OnlyFromScratch> {
        try_nominated_node(pod, on.nominated, || ByRanking {
            pod,
            ranking: &mut self.rankings[ranking].as_mut().expect("it was just brought up").0,
            domain_counts: &self.domain_counts[domain_counts]
                .as_ref()
                .expect("it was just brought up")
                .0,
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
        (ranking, domain_counts): (usize, usize),
        own: Option<&NominatedNodeRejection>,
        view: View<'_>,
    ) -> Option<AttemptFailure> {
        let node_set = self.node_set.as_ref()?;
        let cluster = node_set.with(view);
        let (counts, _) = self.domain_counts[domain_counts].as_ref()?;
        let (one, _) = self.rankings[ranking].as_mut()?;
        if counts.judge_nodes() || !one.judges_all_nodes() {
            return None;
        }
        let key = (ranking, member.pod.priority);
        let diagnosis = self.diagnoses.node_diagnosis(key, one, node_set, cluster);
        let failure = diagnosis.failure(member, one, own, cluster);
        let bytes = diagnosis.bytes();
        self.diagnoses.note_bytes(key, bytes);
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
            None if self.domain_counts.pass(row, cluster) => Ok(NominatedNode::Passes(row)),
            // The verdict by counts is the same for all pods of the signature.
            None => Ok(NominatedNode::None),
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
