//! What is remembered between decisions. Decisions made from it are exact, and nodes that have not changed
//! are not looked at again.
//!
//! Pods that are equal in what plugins read of them have the same [signature](signatures::Signatures). For
//! each signature there are
//! * a [`NodeRanking`](node_ranking::NodeRanking): the verdict on each node by itself and its static score,
//!   updated node by node;
//! * [`DomainCounts`](domain_counts::DomainCounts): the pods counted in each topology domain, updated pod by
//!   pod;
//! * [`SparseDomainCounts`](sparse_domain_counts::SparseDomainCounts): the few nodes whose counts differ from
//!   those of most others.
//!
//! A decision (`decide.rs`) compares groups of equal nodes, of which there are few, and takes the best node of
//! the best group. Everything here is derived: [`Memo::forget`] changes the cost of a decision and never its result.
//! The [cycle](crate::cycle) decides from scratch where a plugin judges nodes neither by themselves nor by
//! counts.

mod account;
mod change_log;
mod choose;
mod choose_passing;
mod costs;
mod counted_values;
mod countings;
mod decide;
mod diagnosis_cache;
mod domain_counts;
mod follow;
mod learn;
mod measured;
mod name_index_set;
mod name_order;
mod node_diagnosis;
mod node_ranking;
mod node_set;
mod nodes_by_score;
mod nominations;
mod pinned;
mod preemption;
mod profile_memo;
mod sampled;
mod scan;
mod signature_diagnoses;
mod signatures;
mod sparse_domain_counts;
mod topology;
mod uncached_failure;
mod uncached_filters;

use std::collections::BTreeMap;

use hashbrown::HashMap;
use plimsoll_framework::Row;
use plimsoll_framework::parts::{ClusterReads, NodeReads, PodReads};
use rustc_hash::FxBuildHasher;

use self::account::Account;
use self::countings::Countings;
pub(crate) use self::decide::{Recognised, Remembered, Scanned, Want};
use self::diagnosis_cache::DiagnosisCache;
use self::domain_counts::DomainCounts;
use self::node_ranking::NodeRanking;
use self::node_set::NodeSet;
use self::profile_memo::ProfileMemo;
use self::scan::Scanner;
use self::signatures::{SignatureId, Signatures};
use self::sparse_domain_counts::SparseDomainCounts;
use crate::metrics::Phases;
use crate::profile::Profile;
use crate::scheduler::Scans;

/// What a plugin reads of the pods on nodes. See [`Neighbour`].
const NEIGHBOUR: PodReads =
    PodReads::NAMESPACE.union(PodReads::LABELS).union(PodReads::POD_AFFINITY);

/// The memory for domain counts, in bytes, including what pods on nodes add to them.
const DOMAIN_COUNTS_BUDGET: usize = 512 << 20;
/// The memory for sparse domain counts, in bytes. They are quickly made again.
const SPARSE_BUDGET: usize = 256 << 20;

type FastMap<K, V> = HashMap<K, V, FxBuildHasher>;

/// What is remembered of the cluster.
pub(crate) struct Memo {
    profiles: BTreeMap<String, ProfileMemo>,
    node_set: Option<NodeSet>,
    /// The pods on nodes have too many signatures. Until a node changes, every decision is made from scratch.
    is_overfull: bool,
    neighbours: Signatures,
    /// The signatures of pods on nodes that have affinity terms.
    with_terms: Vec<SignatureId>,
    /// For each signature of pods on nodes: how many of them are on each node. Valid as long as `node_set`.
    placed: Vec<FastMap<Row, u32>>,
    counted_by: Countings,
    rankings: Vec<Option<(NodeRanking, Use)>>,
    ranking_bytes: Account<usize>,
    domain_counts: Vec<Option<(DomainCounts, Use)>>,
    /// The approximate size of the domain counts in bytes.
    domain_count_bytes: usize,
    /// The parts of a node that decide whether its pods count in any of the domain counts.
    counted_nodes_read: NodeReads,
    /// The domain counts shared by all pods for which nothing is counted. They are dropped when a pod with
    /// affinity terms is added to a node, since its terms may apply to any pod.
    blank: Option<usize>,
    sparse_counts: FastMap<(usize, usize), SparseDomainCounts>,
    sparse_bytes: Account<(usize, usize)>,
    /// Some signature is decided from scratch, perhaps only because of the terms of pods on nodes.
    has_given_up: bool,
    diagnoses: DiagnosisCache,
    scanner: Scanner,
    scans: Scans,
    n_decisions: u64,
    /// The measurements of the current decision.
    pub(crate) phases: Phases,
    /// The ranking and the domain counts that were used for it.
    decided_by: Option<(usize, usize)>,
    /// What plugins read of the cluster, other than nodes one by one.
    rankings_read: ClusterReads,
    domain_counts_read: ClusterReads,
    /// The number of changes of what rankings read of the cluster, other than of single nodes.
    cluster_version: u64,
    /// How often everything was derived from all nodes.
    #[cfg(test)]
    pub(crate) n_built: usize,
}

/// When something was last used: the number of the decision.
type Use = u64;

impl Memo {
    pub(crate) fn new<'a>(profiles: impl Iterator<Item = &'a Profile>, scans: Scans) -> Self {
        let mut memo = Memo {
            profiles: BTreeMap::new(),
            node_set: None,
            is_overfull: false,
            neighbours: neighbours(),
            with_terms: Vec::new(),
            placed: Vec::new(),
            counted_by: Countings::default(),
            rankings: Vec::new(),
            ranking_bytes: Account::default(),
            domain_counts: Vec::new(),
            domain_count_bytes: 0,
            counted_nodes_read: NodeReads::empty(),
            blank: None,
            sparse_counts: FastMap::default(),
            sparse_bytes: Account::default(),
            has_given_up: false,
            diagnoses: DiagnosisCache::default(),
            scanner: Scanner::default(),
            scans,
            n_decisions: 0,
            phases: Phases::default(),
            decided_by: None,
            rankings_read: ClusterReads::EMPTY,
            domain_counts_read: ClusterReads::EMPTY,
            cluster_version: 0,
            #[cfg(test)]
            n_built: 0,
        };
        for profile in profiles {
            let of_profile = ProfileMemo::new(profile);
            memo.rankings_read = memo.rankings_read.union(of_profile.rankings_read);
            memo.domain_counts_read = memo.domain_counts_read.union(of_profile.domain_counts_read);
            memo.profiles.insert(profile.scheduler_name.clone(), of_profile);
            memo.diagnoses.add(profile);
        }
        memo
    }

    /// Begins a decision with these measurements.
    pub(crate) fn begin(&mut self, phases: Phases) {
        self.phases = phases;
        self.decided_by = None;
    }

    /// Drops everything.
    pub(crate) fn forget(&mut self) {
        self.node_set = None;
        self.neighbours = neighbours();
        self.placed.clear();
        self.with_terms.clear();
        self.counted_by.clear();
        self.forget_domain_counts();
        self.forget_rankings();
        self.diagnoses.forget_signature_diagnoses();
        self.profiles.values_mut().for_each(ProfileMemo::forget);
    }

    fn forget_rankings(&mut self) {
        self.rankings.clear();
        self.ranking_bytes.clear();
        self.forget_sparse_counts();
        self.diagnoses.forget_rankings();
        self.profiles.values_mut().for_each(ProfileMemo::forget_rankings);
    }

    fn forget_domain_counts(&mut self) {
        self.domain_counts.clear();
        self.domain_count_bytes = 0;
        self.counted_nodes_read = NodeReads::empty();
        self.blank = None;
        self.forget_sparse_counts();
        self.counted_by.forget_all();
        self.profiles.values_mut().for_each(ProfileMemo::forget_domain_counts);
    }

    fn forget_sparse_counts(&mut self) {
        self.sparse_counts.clear();
        self.sparse_bytes.clear();
    }

    /// Drops what has grown beyond its limit.
    fn keep_within_bounds(&mut self) {
        if DOMAIN_COUNTS_BUDGET < self.domain_count_bytes + self.counted_by.bytes() {
            self.forget_domain_counts();
        }
        if SPARSE_BUDGET < self.sparse_bytes.total() {
            self.forget_sparse_counts();
        }
    }

    fn drop_domain_counts(&mut self, number: usize) {
        let gone = self.domain_counts[number].take();
        self.domain_count_bytes -= gone.map_or(0, |(domain_counts, _)| domain_counts.bytes());
        self.sparse_counts.retain(|&(_, domain_counts), _| domain_counts != number);
        self.sparse_bytes.retain(|(_, domain_counts)| domain_counts != number);
        self.counted_by.drop_domain_counts(number);
        self.profiles.values_mut().for_each(|profile| profile.drop_domain_counts(number));
    }

    fn drop_ranking(&mut self, number: usize) {
        self.rankings[number] = None;
        self.ranking_bytes.drop(number);
        self.sparse_counts.retain(|&(ranking, _), _| ranking != number);
        self.sparse_bytes.retain(|(ranking, _)| ranking != number);
        self.diagnoses.drop_ranking(number);
        self.profiles.values_mut().for_each(|profile| profile.drop_ranking(number));
    }
}

/// Signatures for pods on nodes: every pod needs one.
fn neighbours() -> Signatures {
    Signatures::new(NEIGHBOUR).by_deletion().of_any_size()
}
