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

mod arena;
mod best_nodes;
mod budgets;
mod by_label;
mod by_profile;
mod change_log;
mod choose;
mod choose_passing;
mod costs;
mod counted_values;
mod countings;
mod counts_cache;
mod decide;
mod diagnosis_cache;
mod domain_counts;
mod follow;
mod kept_totals;
mod late_failure;
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
mod placed_pods;
mod preemption;
mod profile_memo;
mod rankings;
mod room;
mod sampled;
mod scan;
mod signature_diagnoses;
mod signatures;
mod sparse_domain_counts;
mod topology;
mod totals;
mod uncached_filters;
mod verdicts;
mod verify;

use hashbrown::HashMap;
use plimsoll_framework::parts::{ClusterReads, PodReads};
use rustc_hash::FxBuildHasher;

use self::arena::Use;
pub(crate) use self::budgets::Budgets;
use self::by_profile::ByProfile;
use self::counts_cache::{CountsCache, CountsId};
pub(crate) use self::decide::{Recognised, Remembered, Scanned, Want};
use self::diagnosis_cache::DiagnosisCache;
use self::node_set::NodeSet;
use self::placed_pods::PlacedPods;
use self::profile_memo::ProfileMemo;
use self::rankings::{RankingId, Rankings};
use self::scan::Scanner;
use self::signatures::{SignatureId, Signatures};
use crate::metrics::Phases;
use crate::profile::Profile;
use crate::scheduler::{Detail, Scans};

/// What a plugin reads of the pods on nodes. See [`Neighbour`].
const NEIGHBOUR: PodReads =
    PodReads::NAMESPACE.union(PodReads::LABELS).union(PodReads::POD_AFFINITY);

/// So many nodes are asked about, for which plugins would not be asked otherwise, to know by how much the chosen node is better than
/// others. Mostly the first one answers it. Few are, since it is for the journal only.
const MOST_ASKED_FOR_MARGIN: usize = 8;

type FastMap<K, V> = HashMap<K, V, FxBuildHasher>;

/// What is remembered of the cluster.
pub(crate) struct Memo {
    profiles: ByProfile<ProfileMemo>,
    node_set: Option<NodeSet>,
    /// The pods on nodes have too many signatures. Until a node changes, every decision is made from scratch.
    is_overfull: bool,
    neighbours: Signatures,
    /// The size of `neighbours` and `placed` when they were derived from the nodes, in bytes.
    neighbour_bytes_before: usize,
    /// The signatures of pods on nodes that have affinity terms.
    with_terms: Vec<SignatureId>,
    /// For each signature of pods on nodes: how many of them are on each node. Valid as long as `node_set`.
    placed: PlacedPods,
    rankings: Rankings,
    counts: CountsCache,
    budgets: Budgets,
    /// Some signature is decided from scratch, perhaps only because of the terms of pods on nodes.
    has_given_up: bool,
    diagnoses: DiagnosisCache,
    scanner: Scanner,
    scans: Scans,
    n_decisions: Use,
    /// The measurements of the current decision.
    pub(crate) phases: Phases,
    /// Whether somebody wants to know by how much the chosen node is better than others.
    notes_margins: bool,
    /// The ranking and the domain counts that were used for it.
    decided_by: Option<(RankingId, CountsId)>,
    /// What plugins read of the cluster, other than nodes one by one.
    rankings_read: ClusterReads,
    domain_counts_read: ClusterReads,
    /// The number of changes of what rankings read of the cluster, other than of single nodes.
    cluster_version: u64,
    /// How often everything was derived from all nodes.
    #[cfg(test)]
    pub(crate) n_built: usize,
    /// How often all nodes were judged for a ranking.
    #[cfg(test)]
    pub(crate) n_ranked: usize,
}

impl Memo {
    pub(crate) fn new<'a>(profiles: impl Iterator<Item = &'a Profile>, scans: Scans) -> Self {
        let mut memo = Memo {
            profiles: ByProfile::default(),
            node_set: None,
            is_overfull: false,
            neighbours: neighbours(),
            neighbour_bytes_before: 0,
            with_terms: Vec::new(),
            placed: PlacedPods::default(),
            rankings: Rankings::default(),
            counts: CountsCache::default(),
            budgets: Budgets::default(),
            has_given_up: false,
            diagnoses: DiagnosisCache::default(),
            scanner: Scanner::default(),
            scans,
            n_decisions: 0,
            phases: Phases::default(),
            notes_margins: false,
            decided_by: None,
            rankings_read: ClusterReads::EMPTY,
            domain_counts_read: ClusterReads::EMPTY,
            cluster_version: 0,
            #[cfg(test)]
            n_built: 0,
            #[cfg(test)]
            n_ranked: 0,
        };
        for profile in profiles {
            let of_profile = ProfileMemo::new(profile);
            memo.rankings_read = memo.rankings_read.union(of_profile.rankings_read);
            memo.domain_counts_read = memo.domain_counts_read.union(of_profile.domain_counts_read);
            memo.profiles.insert(profile, of_profile);
            memo.diagnoses.add(profile);
        }
        memo
    }

    /// Begins a decision with these measurements.
    pub(crate) fn begin(&mut self, phases: Phases, detail: Detail) {
        self.notes_margins = detail != Detail::None;
        self.phases = phases;
        self.decided_by = None;
    }

    /// How many nodes are asked about beside the best ones for the sake of the margin; `None` if nobody wants to know it.
    fn most_asked_for_margin(&self) -> Option<usize> {
        self.notes_margins.then_some(MOST_ASKED_FOR_MARGIN)
    }

    /// Drops everything.
    pub(crate) fn forget(&mut self) {
        self.node_set = None;
        self.neighbours = neighbours();
        self.placed.clear();
        self.with_terms.clear();
        self.counts.counted_by.clear();
        self.forget_domain_counts();
        self.forget_rankings();
        self.diagnoses.forget_signature_diagnoses();
        self.profiles.values_mut().for_each(ProfileMemo::forget);
    }

    fn forget_rankings(&mut self) {
        self.rankings.clear();
        self.profiles.values_mut().for_each(ProfileMemo::forget_rankings);
    }

    fn forget_domain_counts(&mut self) {
        self.counts.clear();
        self.rankings.forget_sparse();
        self.profiles.values_mut().for_each(ProfileMemo::forget_domain_counts);
    }

    /// Drops what has grown beyond its limit.
    fn keep_within_bounds(&mut self) {
        let [_, sparse, diagnoses] = self.rankings.bytes();
        if self.budgets.domain_counts < self.counts.bytes() {
            self.forget_domain_counts();
        }
        if self.budgets.sparse_counts < sparse {
            self.rankings.forget_sparse();
        }
        if self.budgets.diagnoses < diagnoses {
            self.rankings.forget_diagnoses();
        }
        if self.budgets.verdicts < self.verdict_bytes() {
            self.profiles.values_mut().for_each(|one| one.verdicts.clear());
        }
    }

    /// The size of the remembered verdicts in bytes.
    fn verdict_bytes(&self) -> usize {
        self.profiles.values().map(|one| one.verdicts.bytes()).sum()
    }

    /// What pods on nodes take beyond what they took when all was derived, in bytes.
    fn neighbour_bytes(&self) -> usize {
        self.all_neighbour_bytes().saturating_sub(self.neighbour_bytes_before)
    }

    fn all_neighbour_bytes(&self) -> usize {
        self.neighbours.bytes() + self.placed.bytes() + self.counts.counted_by.by_label.bytes()
    }

    fn drop_domain_counts(&mut self, id: CountsId) {
        self.counts.remove(id);
        self.rankings.forget_sparse_with(id);
    }

    /// What the caches take and what they may take, in bytes. Every field of the memo and of its budgets is named, so that a new
    /// one is not forgotten.
    #[cfg(test)]
    pub(crate) fn weights(&self) -> Vec<(&'static str, usize, usize)> {
        let Memo {
            profiles,
            node_set,
            is_overfull: _,
            neighbours: _,
            neighbour_bytes_before: _,
            with_terms: _,
            placed: _,
            rankings,
            counts,
            budgets,
            has_given_up: _,
            diagnoses,
            scanner,
            scans: _,
            n_decisions: _,
            phases: _,
            decided_by: _,
            rankings_read: _,
            domain_counts_read: _,
            notes_margins: _,
            cluster_version: _,
            n_built: _,
            n_ranked: _,
        } = self;
        let [of_rankings, sparse, of_nodes] = rankings.bytes();
        let mut weights = vec![
            ("rankings", of_rankings, budgets.rankings),
            ("sparse counts", sparse, budgets.sparse_counts),
            ("diagnoses", of_nodes, budgets.diagnoses),
            ("domain counts", counts.bytes(), budgets.domain_counts),
            ("neighbours", self.neighbour_bytes(), budgets.neighbours),
            ("scanner", scanner.bytes(), budgets.scanner),
            ("topologies", node_set.as_ref().map_or(0, NodeSet::bytes), budgets.topologies),
        ];
        weights.push(("verdicts", self.verdict_bytes(), budgets.verdicts));
        let kept_totals = profiles.values().map(|one| one.kept.bytes()).sum();
        weights.push(("kept totals", kept_totals, budgets.kept_totals));
        for profile in profiles.values() {
            weights.push(("signature tables", profile.table_bytes(), budgets.signature_tables));
            let signatures = profile.all_signatures();
            weights.extend(signatures.map(|one| ("signatures", one.bytes(), budgets.signatures)));
        }
        for diagnoses in diagnoses.by_signature() {
            let ([of_pods, own], bytes) = (diagnoses.all_signatures(), diagnoses.bytes());
            weights.push(("signature diagnoses", bytes, budgets.signature_diagnoses));
            weights.push(("signatures", of_pods.bytes(), budgets.signatures));
            weights.push(("signatures", own.bytes(), budgets.signatures));
        }
        weights
    }

    /// Changes the limits, and drops everything.
    #[cfg(test)]
    pub(crate) fn limit(&mut self, budgets: Budgets) {
        self.budgets = budgets;
        self.profiles.values_mut().for_each(|profile| profile.limit(budgets.signatures));
        self.diagnoses.limit(budgets.signature_diagnoses, budgets.signatures);
        self.forget();
    }
}

/// Signatures for pods on nodes: every pod needs one.
fn neighbours() -> Signatures {
    Signatures::new(NEIGHBOUR).by_deletion().of_any_size()
}
