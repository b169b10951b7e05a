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
//! A decision compares groups of equal nodes, of which there are few, and takes the best node of the best
//! group. Everything here is derived: [`Memo::forget`] changes the cost of a decision and never its result.
//! The [cycle](crate::cycle) decides from scratch where a plugin judges nodes neither by themselves nor by
//! counts, and where not all nodes are judged.

mod account;
mod change_log;
mod choose;
mod choose_passing;
mod costs;
mod counted_values;
mod countings;
mod diagnosis_cache;
mod domain_counts;
mod learn;
mod measured;
mod name_index_set;
mod name_order;
mod node_diagnosis;
mod node_ranking;
mod nodes_by_score;
mod nominations;
mod pinned;
mod preemption;
mod profile_memo;
mod scan;
mod signature_diagnoses;
mod signatures;
mod sparse_domain_counts;
mod uncached_failure;
mod uncached_filters;

use std::collections::BTreeMap;

use hashbrown::HashMap;
use plimsoll_api::Node;
use plimsoll_framework::parts::{ClusterReads, NodeReads, PodReads};
use plimsoll_framework::{Neighbour, NominatedPods, PodInfo, Row, TopologyKey, View};
use rand::Rng;
use rustc_hash::FxBuildHasher;

use self::account::Account;
use self::change_log::ChangeLog;
use self::choose::{Chooser, GroupChoice};
use self::countings::Countings;
use self::diagnosis_cache::{DiagnosisCache, NominatedNodeVerdict};
use self::domain_counts::DomainCounts;
use self::name_index_set::NameIndex;
use self::name_order::{NameOrder, Topology};
use self::node_ranking::{ClusterView, NodeRanking};
use self::nominations::Nominations;
use self::profile_memo::ProfileMemo;
use self::scan::Scanner;
use self::signatures::{SignatureId, Signatures};
use self::sparse_domain_counts::SparseDomainCounts;
use crate::cache::{Changes, RowChange};
use crate::cycle::AttemptFailure;
use crate::metrics::{MeteredPoint, Phases};
use crate::pick::{TieBreak, pick};
use crate::profile::Profile;
use crate::scheduler::Scans;

/// What a plugin reads of the pods on nodes. See [`Neighbour`].
const NEIGHBOUR: PodReads =
    PodReads::NAMESPACE.union(PodReads::LABELS).union(PodReads::POD_AFFINITY);

/// The memory for domain counts, in bytes, including what pods on nodes add to them.
const DOMAIN_COUNTS_BUDGET: usize = 512 << 20;
/// The memory for sparse domain counts, in bytes. They are quickly made again.
const SPARSE_BUDGET: usize = 256 << 20;
/// The memory for the domains of topology keys, in bytes: with 5000 nodes about 2000 keys that nodes have.
/// There are rarely more than a hundred.
const TOPOLOGY_BUDGET: usize = 128 << 20;
/// At most this many topology keys are known at a time. Pods may name keys that no node has.
const MOST_KEYS: usize = 1 << 16;
/// At most this many sets of topology keys are known at a time. They are searched for each new signature.
const MOST_SETS: usize = 1 << 12;

type FastMap<K, V> = HashMap<K, V, FxBuildHasher>;

/// What is remembered of the cluster.
pub(crate) struct Memo {
    profiles: BTreeMap<String, ProfileMemo>,
    node_set: Option<NodeSet>,
    /// The pods on nodes have too many signatures. Until a node is added or removed, every decision is made
    /// from scratch.
    is_overfull: bool,
    neighbours: Signatures,
    /// The signatures of pods on nodes that have affinity terms.
    with_terms: Vec<SignatureId>,
    /// For each signature of pods on nodes: how many of them are on each node. Valid as long as `node_set`.
    placed: Vec<FastMap<NameIndex, u32>>,
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
    /// How often everything was derived from all nodes.
    #[cfg(test)]
    pub(crate) n_built: usize,
}

/// When something was last used: the number of the decision.
type Use = u64;

/// The nodes in the order of their names, and what is derived from that. It is made again when a node is
/// added or removed, or moves to another topology domain.
struct NodeSet {
    name_order: NameOrder,
    topologies: Vec<Topology>,
    by_key: BTreeMap<TopologyKey, usize>,
    /// Topologies that no node belongs to, one for labels and one for [`TopologyKey::NodeWith`]. Each serves
    /// all keys that no node has.
    without_nodes: [Option<usize>; 2],
    /// The approximate size of the topologies in bytes.
    topology_bytes: usize,
    /// Sets of topologies by index, each ascending.
    sets: Vec<Vec<usize>>,
    /// The changes of single nodes.
    changed: ChangeLog<(NameIndex, NodeReads)>,
    nominations: Nominations,
}

/// A decision from memory.
pub(crate) enum MemoAnswer {
    /// A node, and all equally good ones sorted by name, if they were requested.
    Found { row: Row, best: Vec<Row> },
    /// The only feasible node among those that were judged: the nominated node of the pod, or one that the
    /// pod names.
    Only { row: Row, n_judged: usize },
    /// No node is feasible, for these reasons.
    Failed(Box<AttemptFailure>),
    /// The decision must be made from scratch.
    Unclear,
}

/// Which of the best nodes are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// The first one by name.
    First,
    /// A random one; all are equally likely.
    Any,
    /// All.
    All,
}

impl MemoAnswer {
    /// Selects from the best nodes. There is at least one.
    fn found(best: Vec<Row>, want: Want, rng: &mut impl Rng) -> Self {
        match want {
            Want::First => MemoAnswer::Found { row: best[0], best: Vec::new() },
            Want::Any => {
                MemoAnswer::Found { row: pick(&best, TieBreak::Random, rng), best: Vec::new() }
            }
            Want::All => MemoAnswer::Found { row: best[0], best },
        }
    }
}

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

    /// Applies the changes since the last decision.
    pub(crate) fn follow(
        &mut self,
        view: View<'_>,
        changes: &mut Changes,
        nominated: &mut NominatedPods,
    ) {
        if changes.node_set_changed() {
            self.node_set = None;
        }
        let (stores, log) = changes.take();
        let renominated = nominated.changed();
        if self.node_set.is_none() || !log.is_empty() || !renominated.is_empty() {
            self.diagnoses.forget_signature_diagnoses();
        }
        if self.rankings_read.stores.intersects(stores) {
            self.forget_rankings();
        }
        if self.domain_counts_read.stores.intersects(stores) {
            self.forget_domain_counts();
        }
        if !stores.is_empty() {
            self.diagnoses.forget_stores(stores);
        }
        if self.node_set.is_some() {
            for change in log {
                self.follow_one(view, change);
            }
            for node in renominated {
                self.renominate(view, nominated, &node);
            }
        }
        if self.node_set.is_none() {
            self.build_node_set(view, nominated);
        }
    }

    fn build_node_set(&mut self, view: View<'_>, nominated: &NominatedPods) {
        #[cfg(test)]
        {
            self.n_built += 1;
        }
        self.forget_domain_counts();
        self.forget_rankings();
        let name_order = NameOrder::of(view.nodes);
        self.neighbours.begin();
        self.placed.clear();
        self.with_terms.clear();
        self.counted_by.clear();
        self.is_overfull = false;
        for (index, row) in name_order.rows() {
            for pod in view.nodes.pods_on(row).iter() {
                match self.neighbour(pod) {
                    Some(signature) => {
                        *self.placed[signature as usize].entry(index).or_default() += 1;
                    }
                    None => self.is_overfull = true,
                }
            }
        }
        let nominations = self.nominations(&name_order, view, nominated);
        self.neighbours.count_from_here();
        let changed = ChangeLog::new(name_order.len().max(1));
        let (topologies, by_key, sets) = (Vec::new(), BTreeMap::new(), Vec::new());
        let (without_nodes, topology_bytes) = ([None; 2], 0);
        self.node_set = Some(NodeSet {
            name_order,
            topologies,
            by_key,
            without_nodes,
            topology_bytes,
            sets,
            changed,
            nominations,
        });
        self.scanner.forget();
    }

    /// The signature of a pod on a node; `None` if there are too many signatures.
    fn neighbour(&mut self, pod: &PodInfo) -> Option<SignatureId> {
        let (signature, is_new) = self.neighbours.number(pod)?;
        if is_new {
            self.placed.push(FastMap::default());
            self.counted_by.add_signature();
            if !pod.affinity.is_empty() {
                self.with_terms.push(signature);
                if let Some(blank) = self.blank.take() {
                    self.drop_domain_counts(blank);
                }
            }
        }
        Some(signature)
    }

    fn follow_one(&mut self, view: View<'_>, change: RowChange) {
        match change {
            RowChange::Node(row, reads) => self.node_changed(row, reads),
            RowChange::Relabelled(row, reads, before) => {
                let now = view.nodes.node(row);
                match self.node_set.as_ref().is_some_and(|all| all.keeps_domains(&before, now)) {
                    true => self.node_changed(row, reads),
                    false => self.node_set = None,
                }
            }
            RowChange::Placed(row, pod) => {
                self.count(view, row, &pod, 1);
                self.note(row, NodeReads::BY_PLACEMENT);
            }
            RowChange::Displaced(row, pod) => {
                self.count(view, row, &pod, -1);
                self.note(row, NodeReads::BY_PLACEMENT);
            }
        }
    }

    /// A node has changed, but not its topology domains.
    fn node_changed(&mut self, row: Row, reads: NodeReads) {
        if self.rankings_read.nodes.intersects(reads) {
            self.forget_rankings();
        }
        if self.counted_nodes_read.intersects(reads) {
            self.forget_domain_counts();
        }
        self.note(row, reads);
    }

    fn note(&mut self, row: Row, reads: NodeReads) {
        if let Some(node_set) = &mut self.node_set {
            node_set.changed.push((node_set.name_order.index(row), reads));
        }
    }

    /// Adds a pod on a node to all domain counts that count it, or removes it.
    fn count(&mut self, view: View<'_>, row: Row, pod: &PodInfo, times: i64) {
        let Some(node_set) = &self.node_set else { return };
        let index = node_set.name_order.index(row);
        let Some(signature) = self.neighbour(pod) else {
            self.node_set = None;
            return;
        };
        let count = self.placed[signature as usize].entry(index).or_default();
        *count = count.saturating_add_signed(if times < 0 { -1 } else { 1 });
        if *count == 0 {
            self.placed[signature as usize].remove(&index);
            if self.has_given_up
                && !pod.affinity.is_empty()
                && self.placed[signature as usize].is_empty()
            {
                self.has_given_up = false;
                self.profiles.values_mut().for_each(ProfileMemo::forget_from_scratch);
            }
        }
        if !self.counted_by.has(signature) {
            self.find_counting(signature);
        }
        let Some(node_set) = &self.node_set else { return };
        let cluster = node_set.with(view);
        for (number, counting) in self.counted_by.of(signature) {
            if let Some((domain_counts, _)) = &mut self.domain_counts[*number] {
                let before = domain_counts.bytes();
                domain_counts.add(counting, times, (index, row), cluster);
                self.domain_count_bytes += domain_counts.bytes() - before;
            }
        }
    }

    /// Determines which domain counts count pods of a signature that is new on nodes.
    fn find_counting(&mut self, signature: SignatureId) {
        let example = self.neighbours.example(signature).clone();
        let other = Neighbour::from(&*example);
        let is_plain = other.affinity.is_empty();
        let (mut counted_by, mut outdated) = (Vec::new(), Vec::new());
        for (number, slot) in self.domain_counts.iter().enumerate() {
            let Some((domain_counts, _)) = slot else { continue };
            if is_plain && !domain_counts.counts_plain_pods {
                continue;
            }
            match domain_counts.counting(other) {
                None => outdated.push(number),
                Some(counting) if counting.is_empty() => {}
                Some(counting) => counted_by.push((number, counting)),
            }
        }
        self.counted_by.set(signature, counted_by);
        for number in outdated {
            self.drop_domain_counts(number);
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

    /// Decides a pod. [`Memo::follow`] must have been called after the last change.
    pub(crate) fn decide(
        &mut self,
        profile: &Profile,
        pod: &PodInfo,
        view: View<'_>,
        nominated: &NominatedPods,
        want: Want,
        rng: &mut impl Rng,
    ) -> MemoAnswer {
        self.n_decisions += 1;
        if self.is_overfull {
            return MemoAnswer::Unclear;
        }
        let Some(of_profile) = self.profiles.get_mut(&profile.scheduler_name) else {
            return MemoAnswer::Unclear;
        };
        if of_profile.is_full() || self.node_set.as_ref().is_some_and(NodeSet::is_full) {
            self.forget();
            return MemoAnswer::Unclear;
        }
        self.keep_within_bounds();
        let of_profile = self.profiles.get_mut(&profile.scheduler_name).expect("it was just found");
        let Some(signature) = of_profile.signature(profile, pod, &view) else {
            return MemoAnswer::Unclear;
        };
        self.phases.over(MeteredPoint::PreFilter);
        if of_profile.has_uncached_filter(profile, pod) {
            let cluster = (view, nominated);
            return self.decide_uncached(profile, signature, pod, cluster, want, rng);
        }
        let caches = match self.caches(profile, signature) {
            Some(caches) => Some(caches),
            None => match self.decide_pinned(profile, pod, None, view, nominated) {
                Some(answer) => return answer,
                None => self.learn(profile, signature, pod, view),
            },
        };
        let Some(mut caches) = caches else { return MemoAnswer::Unclear };
        if nominated.is_empty() && self.prefers_scan(profile, &caches) {
            if let Some(best) = self.scan(profile, (signature, caches), pod, None, view, want) {
                return MemoAnswer::found(best, want, rng);
            }
            // Making the base ranking may have dropped the other ranking.
            match self
                .caches(profile, signature)
                .or_else(|| self.learn(profile, signature, pod, view))
            {
                Some(still) => caches = still,
                None => return MemoAnswer::Unclear,
            }
        }
        let (ranking, domain_counts) =
            (self.ranking_of(profile, signature, pod, caches, view), caches.domain_counts);
        let Some(ranking) =
            self.behind_nominated(profile, pod, (ranking, domain_counts), view, nominated)
        else {
            return MemoAnswer::Unclear;
        };
        if !self.bring_up(profile, ranking, domain_counts, view) {
            return MemoAnswer::Unclear;
        }
        self.decided_by = Some((ranking, domain_counts));
        let own = match self.judge_nominated_node(pod, (ranking, domain_counts), view, nominated) {
            NominatedNodeVerdict::None => None,
            NominatedNodeVerdict::Takes(row) => return MemoAnswer::Only { row, n_judged: 1 },
            NominatedNodeVerdict::Unclear => return MemoAnswer::Unclear,
            NominatedNodeVerdict::Rejects(own) => Some(own),
        };
        let node_set = self.node_set.as_ref().expect("it was built when changes were followed");
        let chooser = Chooser {
            ranking: &self.rankings[ranking].as_ref().expect("it was just brought up").0,
            domain_counts: &self.domain_counts[domain_counts]
                .as_ref()
                .expect("it was just brought up")
                .0,
            sparse: &self.sparse_counts[&(ranking, domain_counts)],
            cluster: node_set.with(view),
        };
        let feasible = chooser.feasible_now();
        self.phases.over(MeteredPoint::Filter);
        self.phases.is_scored = 1 < feasible.len();
        match chooser.choose(&feasible) {
            GroupChoice::Nothing => self
                .failure(profile, pod, (ranking, domain_counts), own.as_ref(), view)
                .map_or(MemoAnswer::Unclear, |failure| MemoAnswer::Failed(Box::new(failure))),
            GroupChoice::Unclear => MemoAnswer::Unclear,
            GroupChoice::Best(best) => match want {
                Want::First => MemoAnswer::Found { row: chooser.first(&best), best: Vec::new() },
                Want::Any => MemoAnswer::Found { row: chooser.any(&best, rng), best: Vec::new() },
                Want::All => MemoAnswer::found(chooser.all(&best), want, rng),
            },
        }
    }
}

/// Signatures for pods on nodes: every pod needs one.
fn neighbours() -> Signatures {
    Signatures::new(NEIGHBOUR).by_deletion().of_any_size()
}

impl NodeSet {
    fn with<'a>(&'a self, view: View<'a>) -> ClusterView<'a> {
        let NodeSet { name_order, topologies, nominations, .. } = self;
        ClusterView { view, name_order, topologies, nominations }
    }

    /// Whether a node is in the same domains after a change of its labels, for all topology keys that are known.
    fn keeps_domains(&self, before: &Node, now: &Node) -> bool {
        self.by_key.keys().all(|key| {
            let (TopologyKey::Label(label) | TopologyKey::NodeWith(label)) = key;
            before.labels.get(label) == now.labels.get(label)
        })
    }

    /// Whether there are too many topologies, so that everything must be dropped.
    fn is_full(&self) -> bool {
        MOST_KEYS <= self.by_key.len()
            || MOST_SETS <= self.sets.len()
            || TOPOLOGY_BUDGET <= self.topology_bytes
    }

    /// The index of a topology, which is made if necessary.
    fn topology(&mut self, key: &TopologyKey, view: View<'_>) -> usize {
        if let Some(&known) = self.by_key.get(key) {
            return known;
        }
        let made = Topology::new(key.clone(), view.nodes, &self.name_order);
        let without_nodes =
            made.has_no_nodes().then(|| usize::from(matches!(key, TopologyKey::NodeWith(_))));
        let number = without_nodes.and_then(|sort| self.without_nodes[sort]).unwrap_or_else(|| {
            self.topology_bytes += made.bytes();
            self.topologies.push(made);
            self.topologies.len() - 1
        });
        if let Some(sort) = without_nodes {
            self.without_nodes[sort] = Some(number);
        }
        self.by_key.insert(key.clone(), number);
        number
    }
}
