//! Pods for which there is no node, and pods that make room for others that wait for theirs.

use std::collections::BTreeMap;

use plimsoll_framework::parts::{NodeReads, StoreReads};
use plimsoll_framework::{Neighbour, NominatedPods, PodInfo, Row, View};

use super::account::Account;
use super::name_order::NameOrder;
use super::node_diagnosis::{NodeDiagnosis, NominatedNodeRejection};
use super::node_ranking::RankingPlugins;
use super::nominations::Nominations;
use super::signature_diagnoses::SignatureDiagnoses;
use super::signatures::SignatureId;
use super::{FastMap, Memo, nominations};
use crate::cycle::{AttemptFailure, Cycle};
use crate::profile::Profile;

/// The memory that node_diagnoses may take, in bytes.
const NODE_DIAGNOSIS_BUDGET: usize = 512 << 20;

/// What the node says that was cleared for a pod.
pub(super) enum NominatedNodeVerdict {
    /// There is none, or it is like any other.
    None,
    /// It takes the pod.
    Takes(Row),
    /// It does not.
    Rejects(NominatedNodeRejection),
    /// The pod has to be judged from scratch.
    Unclear,
}

/// What is remembered of pods that are not placed.
#[derive(Default)]
pub(super) struct DiagnosisCache {
    /// By ranking and priority: the ranking of pods that make room for nominated pods.
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

    /// Something has changed.
    pub(super) fn forget_signature_diagnoses(&mut self) {
        self.by_signature.values_mut().for_each(SignatureDiagnoses::forget);
    }

    /// Some stores have changed.
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

    pub(super) fn drop_ranking(&mut self, number: usize) {
        self.behind.retain(|&(ranking, _), behind| ranking != number && *behind != number);
        self.node_diagnoses.retain(|&(ranking, _), _| ranking != number);
        self.node_diagnosis_bytes.retain(|(ranking, _)| ranking != number);
    }
}

impl Memo {
    /// How an attempt at an equal pod failed, if nothing has changed since.
    pub(crate) fn failed_alike(&mut self, profile: &Profile, pod: &PodInfo) -> Option<Cycle> {
        let diagnoses = self.diagnoses.by_signature.get_mut(&profile.scheduler_name)?;
        let (failure, n_judged) = diagnoses.find(profile, pod)?;
        Some(Cycle::failed(failure, n_judged))
    }

    /// Takes note of a decision that was made from scratch.
    pub(crate) fn note_diagnosis(&mut self, profile: &Profile, pod: &PodInfo, cycle: &Cycle) {
        if let Some(diagnoses) = self.diagnoses.by_signature.get_mut(&profile.scheduler_name) {
            diagnoses.note(profile, pod, cycle);
        }
    }

    /// The ranking of pods that make room for those that are nominated: the same one where there is nobody
    /// ahead. `None` if that has to be judged from scratch.
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
        // A filter that a nominated pod moves would have to judge twice: with the pod there and without.
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
        // To make room, the very ranking may have been dropped.
        if self.rankings[ranking].is_some() && behind != ranking {
            self.diagnoses.behind.insert((ranking, pod.priority), behind);
        }
        Some(behind)
    }

    /// Judges the node that was cleared for a pod, if there is one: it is looked at first.
    pub(super) fn judge_nominated_node(
        &mut self,
        pod: &PodInfo,
        (ranking, domain_counts): (usize, usize),
        view: View<'_>,
        nominated: &NominatedPods,
    ) -> NominatedNodeVerdict {
        let Some(name) = nominated.node_of(&pod.key) else { return NominatedNodeVerdict::None };
        let node_set = self.node_set.as_ref().expect("it was built when changes were followed");
        let cluster = node_set.with(view);
        let Some(index) = nominations::find(name, cluster.name_order, view.nodes) else {
            return NominatedNodeVerdict::None;
        };
        let row = cluster.name_order.row(index);
        let (ranking, _) = self.rankings[ranking].as_mut().expect("it was just brought up");
        let (domain_counts, _) =
            self.domain_counts[domain_counts].as_ref().expect("it was just brought up");
        match ranking.first(index, row, Some(pod), cluster) {
            None if domain_counts.pass(index, cluster) => NominatedNodeVerdict::Takes(row),
            // What counts say of the node holds for all pods of the signature.
            None => NominatedNodeVerdict::None,
            // With the pod on it, too, the node should reject it all the more.
            Some(_) if ranking.entry(index).is_some() => NominatedNodeVerdict::Unclear,
            Some((at, why)) => NominatedNodeVerdict::Rejects(NominatedNodeRejection {
                index,
                plugin: ranking.plugin(at),
                why,
            }),
        }
    }

    /// Why no node takes the pod. `None` if that can only be told from scratch.
    pub(super) fn failure(
        &mut self,
        profile: &Profile,
        pod: &PodInfo,
        (ranking, domain_counts): (usize, usize),
        own: Option<&NominatedNodeRejection>,
        view: View<'_>,
    ) -> Option<AttemptFailure> {
        let node_set = self.node_set.as_ref()?;
        let cluster = node_set.with(view);
        let (counts, _) = self.domain_counts[domain_counts].as_ref()?;
        let (one, _) = self.rankings[ranking].as_mut()?;
        if counts.judge_nodes() || profile.run_all_filters || !one.judges_all_nodes() {
            return None;
        }
        let key = (ranking, pod.priority);
        if NODE_DIAGNOSIS_BUDGET < self.diagnoses.node_diagnosis_bytes.total() {
            self.diagnoses.forget_node_diagnoses();
        }
        let end = node_set.changed.end();
        let diagnosis = self
            .diagnoses
            .node_diagnoses
            .entry(key)
            .or_insert_with(|| NodeDiagnosis::new(one, end, cluster));
        if !diagnosis.follow(one, &node_set.changed, cluster) {
            *diagnosis = NodeDiagnosis::new(one, end, cluster);
        }
        let failure = diagnosis.failure(profile, pod, one, own, cluster);
        self.diagnoses.node_diagnosis_bytes.set(key, diagnosis.bytes());
        failure
    }

    /// The nominations to all nodes.
    pub(super) fn nominations(
        &mut self,
        name_order: &NameOrder,
        view: View<'_>,
        nominated: &NominatedPods,
    ) -> Nominations {
        let mut nominations = Nominations::default();
        for (index, row) in name_order.rows().filter(|_| !nominated.is_empty()) {
            let pods = nominations::on(nominated, view.nodes, row);
            let known = nominations.set(index, &pods, |pod| self.neighbour(pod));
            self.is_overfull |= known.is_none();
        }
        nominations
    }

    /// Follows a change of the pods that are nominated to a node.
    pub(super) fn renominate(&mut self, view: View<'_>, nominated: &NominatedPods, node: &str) {
        let Some(mut node_set) = self.node_set.take() else { return };
        if let Some(index) = nominations::find(node, &node_set.name_order, view.nodes) {
            let pods = nominations::on(nominated, view.nodes, node_set.name_order.row(index));
            let known = node_set.nominations.set(index, &pods, |pod| self.neighbour(pod));
            if known.is_none() {
                return;
            }
            node_set.changed.push((index, NodeReads::all()));
        }
        self.node_set = Some(node_set);
    }
}
