//! The signatures of the pods of one profile, and the caches that belong to them.

use plimsoll_framework::parts::{ClusterReads, PodReads, StoreReads};
use plimsoll_framework::{ConcernPoint, ConcernedNodes, CycleState, PodInfo, Point, View};

use super::costs::Costs;
use super::counts_cache::CountsId;
use super::kept_totals::KeptScans;
use super::node_ranking::ClusterView;
use super::rankings::RankingId;
use super::signatures::{SignatureId, Signatures};
use super::verdicts::VerdictCache;
use super::{FastMap, scan};
use crate::cache::ObjectChanges;
use crate::profile::{PluginIndex, Profile};

/// What is known about a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignatureEntry {
    Unknown,
    /// Pods are decided from these caches.
    Cached(SignatureCaches),
    /// Pods are decided from scratch, because of some plugin.
    FromScratch,
}

/// The caches from which pods of a signature are decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SignatureCaches {
    /// The node ranking, if it was made.
    pub(crate) ranking: Option<RankingId>,
    /// The base ranking for scans, if it was made.
    pub(crate) base: Option<RankingId>,
    pub(crate) domain_counts: CountsId,
    /// The key of the ranking: the signature for plugins that judge each node by itself, and the topologies
    /// of the domain counts.
    pub(crate) ranking_key: (SignatureId, TopologySet),
    /// The key of the base ranking: the same for those of these plugins that do not read the pods on a node.
    pub(crate) base_key: (SignatureId, TopologySet),
}

/// The index of a set of topologies.
pub(crate) type TopologySet = usize;

/// The signatures and caches of one profile.
pub(crate) struct ProfileMemo {
    /// Plugins that cannot use caches. Pods to which one of them applies are decided from scratch.
    from_scratch: Vec<(PluginIndex, Point)>,
    /// Plugins that stand at PreFilter but not at Filter. They may reject a pod for all nodes, and are asked each time.
    gates: Vec<PluginIndex>,
    /// [Uncached filters](super::uncached_filters), in the order of the profile.
    pub(super) uncached: Vec<PluginIndex>,
    /// For those of them whose verdicts can be remembered: on which nodes these depend on objects.
    concerns: Vec<(PluginIndex, ConcernPoint)>,
    /// What is remembered of their verdicts.
    pub(super) verdicts: VerdictCache,
    /// Scores [on demand](plimsoll_framework::ScoreOnDemand) with their weights.
    pub(super) on_demand: Vec<(PluginIndex, i64)>,
    signatures: Signatures,
    entries: Vec<SignatureEntry>,
    ranking_signatures: Signatures,
    rankings: FastMap<(SignatureId, TopologySet), RankingId>,
    base_signatures: Signatures,
    bases: FastMap<(SignatureId, TopologySet), RankingId>,
    /// By the key of the ranking: the costs of rankings and of scans.
    pub(super) costs: FastMap<(SignatureId, TopologySet), Costs>,
    /// By the same key: the last scans.
    pub(super) kept: KeptScans,
    count_signatures: Signatures,
    domain_counts: FastMap<SignatureId, CountsId>,
    /// Whether the totals of its scores are exact in scans.
    pub(super) can_scan: bool,
    /// What plugins that judge each node by itself read, other than the node.
    pub(crate) rankings_read: ClusterReads,
    /// What plugins that count by domain read, other than nodes and pods.
    pub(crate) domain_counts_read: ClusterReads,
}

impl ProfileMemo {
    pub(crate) fn new(profile: &Profile) -> Self {
        let (mut by_row, mut by_count) = (PodReads::empty(), PodReads::empty());
        let mut ignoring_pods = PodReads::empty();
        let (mut rankings_read, mut domain_counts_read) =
            (ClusterReads::EMPTY, ClusterReads::EMPTY);
        let (mut from_scratch, mut uncached) = (Vec::new(), Vec::new());
        let looks = |index| profile.indices(Point::PreFilter).any(|(other, _)| other == index);
        for (index, _) in profile.indices(Point::Filter) {
            let points = &profile.get(index).points;
            let Some(filter) = &points.filter else { continue };
            let reads = points.reads;
            let shares = reads.pod.contains(PodReads::SHARED);
            if points.filter_is_local && !shares {
                by_row |= reads.pod;
                if !scan::reads_placement(reads.node) {
                    ignoring_pods |= reads.pod;
                }
            } else if let Some(objects) = filter.counts_by().filter(|_| !shares) {
                by_count |= reads.pod;
                domain_counts_read = domain_counts_read.union(objects);
            } else {
                match !shares && looks(index) {
                    true => uncached.push(index),
                    false => from_scratch.push((index, Point::Filter)),
                }
            }
        }
        let concerns = uncached.iter().filter_map(|&index| {
            let filter = profile.get(index).points.filter.as_ref()?;
            Some((index, filter.concerns()?.clone()))
        });
        let concerns = concerns.collect();
        let mut gates = Vec::new();
        let judges = |index| profile.indices(Point::Filter).any(|(other, _)| other == index);
        for (index, _) in profile.indices(Point::PreFilter) {
            let points = &profile.get(index).points;
            if points.filter.is_none() || judges(index) {
                continue;
            }
            match points.reads.pod.contains(PodReads::SHARED) {
                true => from_scratch.push((index, Point::Filter)),
                false => gates.push(index),
            }
        }
        let mut on_demand = Vec::new();
        for (index, weight) in profile.indices(Point::Score) {
            let Some(score) = &profile.get(index).points.score else { continue };
            let reads = score.reads();
            let shares = reads.pod.contains(PodReads::SHARED) || score.shares_state();
            if !shares && score.is_by_row() {
                by_row |= reads.pod;
                if !scan::reads_placement(reads.node) {
                    ignoring_pods |= reads.pod;
                }
                rankings_read = rankings_read.union(reads.cluster);
            } else if let Some(objects) = score.counts_by().filter(|_| !shares) {
                by_count |= reads.pod;
                domain_counts_read = domain_counts_read.union(objects);
            } else if !shares && score.is_on_demand() {
                on_demand.push((index, weight));
            } else {
                from_scratch.push((index, Point::Score));
            }
        }
        ProfileMemo {
            from_scratch,
            gates,
            uncached,
            concerns,
            verdicts: VerdictCache::default(),
            on_demand,
            signatures: Signatures::new(by_row | by_count),
            entries: Vec::new(),
            ranking_signatures: Signatures::new(by_row),
            rankings: FastMap::default(),
            base_signatures: Signatures::new(ignoring_pods),
            bases: FastMap::default(),
            costs: FastMap::default(),
            kept: KeptScans::default(),
            can_scan: scan::are_totals_exact(profile.at(Point::Score).map(|(_, weight)| weight)),
            count_signatures: Signatures::new(by_count),
            domain_counts: FastMap::default(),
            rankings_read,
            domain_counts_read,
        }
    }

    /// The signature of a pod; `None` if the pod must be decided from scratch.
    pub(crate) fn signature(
        &mut self,
        profile: &Profile,
        pod: &PodInfo,
        view: &View<'_>,
    ) -> Option<SignatureId> {
        let has_something_to_say = |&(index, point): &(PluginIndex, Point)| {
            let points = &profile.get(index).points;
            match point {
                Point::Filter => points.filter.as_ref().is_some_and(|one| one.applies(pod)),
                _ => points.score.as_ref().is_some_and(|one| one.matters_in(pod, view)),
            }
        };
        // Whoever keeps a state may limit the nodes, so only a plugin that skips the pod makes no difference.
        let may_reject = |&index: &PluginIndex| {
            let filter = profile.get(index).points.filter.as_ref();
            filter.is_some_and(|one| {
                one.applies(pod) && !one.prepare(pod, &mut CycleState::new(), view).skips()
            })
        };
        if self.from_scratch.iter().any(has_something_to_say) || self.gates.iter().any(may_reject) {
            return None;
        }
        let applies = |&&(index, _): &&(PluginIndex, i64)| {
            let score = profile.get(index).points.score.as_ref();
            score.is_some_and(|score| score.applies(pod))
        };
        let on_demand = self.on_demand.iter().filter(applies);
        let on_demand = on_demand.map(|&(index, _)| (index, Point::Score));
        // That a score applies to a pod is known at once, unlike whether it matters.
        if 1 < on_demand.clone().count() && 1 < on_demand.filter(has_something_to_say).count() {
            return None;
        }
        let (signature, is_new) = self.signatures.number(pod)?;
        if is_new {
            self.entries.push(SignatureEntry::Unknown);
        }
        Some(signature)
    }

    /// Whether there are too many signatures, so that everything must be dropped. `budget` is the memory for what is known of
    /// each of them beside its example pod, in bytes.
    pub(crate) fn is_full(&self, budget: usize) -> bool {
        budget < self.table_bytes()
            || [
                &self.signatures,
                &self.ranking_signatures,
                &self.base_signatures,
                &self.count_signatures,
            ]
            .into_iter()
            .any(Signatures::is_full)
    }

    /// The approximate size of what is known of signatures beside their example pods, in bytes.
    pub(crate) fn table_bytes(&self) -> usize {
        type Key = (SignatureId, TopologySet);
        self.entries.capacity() * size_of::<SignatureEntry>()
            + (self.rankings.capacity() + self.bases.capacity())
                * (size_of::<(Key, RankingId)>() + 1)
            + self.costs.capacity() * (size_of::<(Key, Costs)>() + 1)
            + self.domain_counts.capacity() * (size_of::<(SignatureId, CountsId)>() + 1)
            + self.kept.table_bytes()
    }

    /// Forgets the verdicts that depend on objects that have changed. `stores` are all that have.
    pub(super) fn follow_objects(
        &mut self,
        stores: StoreReads,
        objects: &ObjectChanges,
        cluster: ClusterView<'_>,
    ) {
        if self.verdicts.is_empty() {
            return;
        }
        for (plugin, point) in &self.concerns {
            if !self.verdicts.has(*plugin) {
                continue;
            }
            let Some(known) = objects.known(stores, point.reads) else {
                self.verdicts.forget_of(*plugin);
                continue;
            };
            for object in known {
                match point.nodes(object, &cluster.view) {
                    ConcernedNodes::All => self.verdicts.forget_of(*plugin),
                    ConcernedNodes::Named(name) => {
                        if let Some(index) = cluster.name_order.find(&name) {
                            self.verdicts.forget_on(*plugin, index);
                        }
                    }
                    ConcernedNodes::Rows(rows) => {
                        for row in rows {
                            self.verdicts.forget_on(*plugin, cluster.name_order.index(row));
                        }
                    }
                }
            }
        }
    }

    /// The objects on which remembered verdicts may depend.
    pub(super) fn objects_of_verdicts(&self) -> StoreReads {
        let points = self.concerns.iter().filter(|(plugin, _)| self.verdicts.has(*plugin));
        points.fold(StoreReads::empty(), |reads, (_, point)| reads | point.reads)
    }

    /// The signatures of each use.
    #[cfg(test)]
    pub(super) fn all_signatures(&self) -> [&Signatures; 4] {
        [&self.signatures, &self.ranking_signatures, &self.base_signatures, &self.count_signatures]
    }

    /// Changes the memory for each of them, in bytes.
    #[cfg(test)]
    pub(super) fn limit(&mut self, most_bytes: usize) {
        for signatures in [
            &mut self.signatures,
            &mut self.ranking_signatures,
            &mut self.base_signatures,
            &mut self.count_signatures,
        ] {
            signatures.limit(most_bytes);
        }
    }

    pub(crate) fn entry(&self, signature: SignatureId) -> SignatureEntry {
        self.entries[signature as usize]
    }

    pub(crate) fn learn(&mut self, signature: SignatureId, what: SignatureEntry) {
        self.entries[signature as usize] = what;
    }

    /// The signatures of a pod for its ranking, its base ranking and its domain counts.
    pub(crate) fn signatures(&mut self, pod: &PodInfo) -> Option<[SignatureId; 3]> {
        let signatures =
            [&mut self.ranking_signatures, &mut self.base_signatures, &mut self.count_signatures];
        let [ranking, base, counts] = signatures.map(|signatures| Some(signatures.number(pod)?.0));
        Some([ranking?, base?, counts?])
    }

    /// The caches for these keys.
    pub(crate) fn caches_for(
        &self,
        ranking_key: (SignatureId, TopologySet),
        base_key: (SignatureId, TopologySet),
        domain_counts: CountsId,
    ) -> SignatureCaches {
        let (ranking, base) = (self.ranking_of(ranking_key), self.base_of(base_key));
        SignatureCaches { ranking, base, domain_counts, ranking_key, base_key }
    }

    /// The rankings and the base rankings of all signatures.
    pub(super) fn ranking_ids(&self) -> impl Iterator<Item = RankingId> {
        self.rankings.values().chain(self.bases.values()).copied()
    }

    pub(crate) fn ranking_of(&self, ranking_key: (SignatureId, TopologySet)) -> Option<RankingId> {
        self.rankings.get(&ranking_key).copied()
    }

    pub(crate) fn base_of(&self, base_key: (SignatureId, TopologySet)) -> Option<RankingId> {
        self.bases.get(&base_key).copied()
    }

    pub(crate) fn set_ranking(
        &mut self,
        signature: SignatureId,
        caches: SignatureCaches,
        ranking: RankingId,
    ) {
        self.rankings.insert(caches.ranking_key, ranking);
        self.learn(
            signature,
            SignatureEntry::Cached(SignatureCaches { ranking: Some(ranking), ..caches }),
        );
    }

    pub(crate) fn set_base(
        &mut self,
        signature: SignatureId,
        caches: SignatureCaches,
        base: RankingId,
    ) {
        self.bases.insert(caches.base_key, base);
        self.learn(
            signature,
            SignatureEntry::Cached(SignatureCaches { base: Some(base), ..caches }),
        );
    }

    pub(crate) fn domain_counts_of(&self, count_signature: SignatureId) -> Option<CountsId> {
        self.domain_counts.get(&count_signature).copied()
    }

    pub(crate) fn set_domain_counts(
        &mut self,
        count_signature: SignatureId,
        domain_counts: CountsId,
    ) {
        self.domain_counts.insert(count_signature, domain_counts);
    }

    pub(crate) fn forget(&mut self) {
        for signatures in [
            &mut self.signatures,
            &mut self.ranking_signatures,
            &mut self.base_signatures,
            &mut self.count_signatures,
        ] {
            signatures.clear();
        }
        // They keep their memory otherwise.
        self.entries = Vec::new();
        (self.rankings, self.bases) = (FastMap::default(), FastMap::default());
        (self.costs, self.domain_counts) = (FastMap::default(), FastMap::default());
        self.kept.clear();
    }

    pub(crate) fn forget_rankings(&mut self) {
        self.rankings.clear();
        self.bases.clear();
        self.costs.clear();
        self.kept.clear();
        self.verdicts.clear();
        self.entries.fill(SignatureEntry::Unknown);
    }

    pub(crate) fn forget_domain_counts(&mut self) {
        self.domain_counts.clear();
        self.entries.fill(SignatureEntry::Unknown);
    }

    /// Forgets which signatures had to be decided from scratch, since this may have changed.
    pub(crate) fn forget_from_scratch(&mut self) {
        for signature in &mut self.entries {
            if *signature == SignatureEntry::FromScratch {
                *signature = SignatureEntry::Unknown;
            }
        }
    }
}
