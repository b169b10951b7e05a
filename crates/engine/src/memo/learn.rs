//! Makes rankings and domain counts for new signatures, and updates those of known ones.

use hashbrown::hash_map::Entry;
use plimsoll_framework::{Counting, Neighbour, PodInfo, View};
use smallvec::SmallVec;

use super::Memo;
use super::domain_counts::CountPlan;
use super::node_ranking::{NodeRanking, RankingPlugins};
use super::profile_memo::{SignatureCaches, SignatureEntry, TopologySet};
use super::signatures::SignatureId;
use super::sparse_domain_counts::SparseDomainCounts;
use crate::cycle;
use crate::profile::Profile;

/// The memory for rankings, in bytes.
const RANKING_BUDGET: usize = 1 << 30;
/// The approximate size of a new ranking for each name index, in bytes.
const RANKING_BYTES_PER_INDEX: usize = 40;
/// At most this many domain counts are kept. Each of them is asked about every new signature of pods on
/// nodes.
const MOST_DOMAIN_COUNTS: usize = 1 << 16;

impl Memo {
    /// One pod for each signature of pods on nodes that have affinity terms.
    pub(super) fn neighbours_with_terms(&self) -> Vec<Neighbour<'_>> {
        let placed = |signature: &&SignatureId| !self.placed[**signature as usize].is_empty();
        let signatures = self.with_terms.iter().filter(placed);
        signatures
            .map(|&signature| Neighbour::from(&**self.neighbours.example(signature)))
            .collect()
    }

    /// The caches of a signature, if they are known.
    pub(super) fn caches(
        &self,
        profile: &Profile,
        signature: SignatureId,
    ) -> Option<SignatureCaches> {
        match self.profiles[&profile.scheduler_name].entry(signature) {
            SignatureEntry::Cached(caches) => Some(caches),
            SignatureEntry::Unknown | SignatureEntry::FromScratch => None,
        }
    }

    /// Determines how pods of a signature are decided, and finds or makes their domain counts.
    pub(super) fn learn(
        &mut self,
        profile: &Profile,
        signature: SignatureId,
        pod: &PodInfo,
        view: View<'_>,
    ) -> Option<SignatureCaches> {
        let name = &profile.scheduler_name;
        if matches!(self.profiles[name].entry(signature), SignatureEntry::FromScratch) {
            return None;
        }
        let of_profile = self.profiles.get_mut(name).expect("it was just used");
        if cycle::score_error(profile, pod).is_some() {
            of_profile.learn(signature, SignatureEntry::FromScratch);
            return None;
        }
        let [ranking, base, counts] = of_profile.signatures(pod)?;
        let domain_counts = if let Some(domain_counts) = of_profile.domain_counts_of(counts) {
            domain_counts
        } else {
            let made = self.make_domain_counts(profile, pod, view);
            let of_profile = self.profiles.get_mut(name).expect("it was just used");
            if made.is_none() {
                of_profile.learn(signature, SignatureEntry::FromScratch);
                self.has_given_up = true;
            }
            made?
        };
        let set = self.topology_set(domain_counts);
        let of_profile = self.profiles.get_mut(name).expect("it was just used");
        of_profile.set_domain_counts(counts, domain_counts);
        let caches = of_profile.caches_for((ranking, set), (base, set), domain_counts);
        of_profile.learn(signature, SignatureEntry::Cached(caches));
        Some(caches)
    }

    /// The topologies of domain counts.
    pub(super) fn topology_set(&mut self, domain_counts: usize) -> TopologySet {
        let (domain_counts, _) = self.domain_counts[domain_counts].as_ref().expect("it is there");
        let mut topologies: SmallVec<[usize; 4]> =
            (0..domain_counts.n_terms()).map(|term| domain_counts.topology(term)).collect();
        topologies.sort_unstable();
        topologies.dedup();
        let node_set = self.node_set.as_mut().expect("it was built when changes were followed");
        node_set.set_of(&topologies)
    }

    /// The ranking of a signature, which is made if necessary.
    pub(super) fn ranking_of(
        &mut self,
        profile: &Profile,
        signature: SignatureId,
        pod: &PodInfo,
        caches: SignatureCaches,
        view: View<'_>,
    ) -> usize {
        if let Some(ranking) = caches.ranking {
            return ranking;
        }
        let ranking = match self.profiles[&profile.scheduler_name].ranking_of(caches.ranking_key) {
            Some(ranking) => ranking,
            None => self.make_ranking(
                profile,
                pod,
                RankingPlugins::All,
                caches.ranking_key.1,
                None,
                view,
            ),
        };
        let of_profile = self.profiles.get_mut(&profile.scheduler_name).expect("it was just used");
        of_profile.set_ranking(signature, caches, ranking);
        ranking
    }

    /// The base ranking of a signature for scans, which is made if necessary.
    pub(super) fn base_of(
        &mut self,
        profile: &Profile,
        signature: SignatureId,
        pod: &PodInfo,
        caches: SignatureCaches,
        view: View<'_>,
    ) -> usize {
        if let Some(base) = caches.base {
            return base;
        }
        let base = match self.profiles[&profile.scheduler_name].base_of(caches.base_key) {
            Some(base) => base,
            None => self.make_ranking(
                profile,
                pod,
                RankingPlugins::IgnoringPods,
                caches.base_key.1,
                None,
                view,
            ),
        };
        let of_profile = self.profiles.get_mut(&profile.scheduler_name).expect("it was just used");
        of_profile.set_base(signature, caches, base);
        base
    }

    fn make_domain_counts(
        &mut self,
        profile: &Profile,
        pod: &PodInfo,
        view: View<'_>,
    ) -> Option<usize> {
        let uncached = &self.profiles[&profile.scheduler_name].uncached;
        let plan = CountPlan::new(profile, uncached, pod, &view, &self.neighbours_with_terms())?;
        if plan.is_blank() && self.with_terms.is_empty() {
            return Some(self.blank_domain_counts(pod, view));
        }
        self.make_room_for_domain_counts();
        let node_set = self.node_set.as_mut().expect("it was built when changes were followed");
        let numbers: Vec<usize> = plan.keys().map(|key| node_set.topology(key, view)).collect();
        let cluster = node_set.with(view);
        if plan.told_apart().any(|term| cluster.topologies[numbers[term]].is_fine()) {
            return None;
        }
        let number = free(&mut self.domain_counts);
        let mut countings: Vec<(SignatureId, Counting)> = Vec::new();
        let n_signatures =
            SignatureId::try_from(self.placed.len()).expect("signatures have 32 bits");
        let signatures: Vec<SignatureId> = match plan.counts_plain_pods() {
            true => (0..n_signatures).collect(),
            false => self.with_terms.clone(),
        };
        for signature in signatures {
            let is_placed = !self.placed[signature as usize].is_empty();
            if !is_placed && !self.counted_by.has(signature) {
                continue;
            }
            match plan.count(Neighbour::from(&**self.neighbours.example(signature))) {
                Some(counting) => countings.push((signature, counting)),
                // No pod of this signature is left on a node. It is asked about again when one is added.
                None => self.counted_by.forget(signature),
            }
        }
        let mut domain_counts = plan.domain_counts(pod, &numbers, cluster);
        for (signature, counting) in
            countings.into_iter().filter(|(_, counting)| !counting.is_empty())
        {
            for (&row, &times) in &self.placed[signature as usize] {
                let node = (view.nodes, row);
                domain_counts.add(&counting, i64::from(times), row, node, cluster.places());
            }
            self.counted_by.add(signature, number, counting);
        }
        self.domain_count_bytes += domain_counts.bytes();
        self.counted_nodes_read |= domain_counts.reads();
        self.domain_counts[number] = Some((domain_counts, self.n_decisions));
        Some(number)
    }

    /// The domain counts shared by all pods for which nothing is counted.
    fn blank_domain_counts(&mut self, pod: &PodInfo, view: View<'_>) -> usize {
        if let Some(blank) = self.blank {
            return blank;
        }
        self.make_room_for_domain_counts();
        let node_set = self.node_set.as_ref().expect("it was built when changes were followed");
        let domain_counts = CountPlan::default().domain_counts(pod, &[], node_set.with(view));
        let number = free(&mut self.domain_counts);
        self.domain_count_bytes += domain_counts.bytes();
        self.domain_counts[number] = Some((domain_counts, self.n_decisions));
        self.blank = Some(number);
        number
    }

    pub(super) fn make_ranking(
        &mut self,
        profile: &Profile,
        pod: &PodInfo,
        plugins: RankingPlugins,
        set: TopologySet,
        behind: Option<i32>,
        view: View<'_>,
    ) -> usize {
        self.make_room_for_ranking();
        let node_set = self.node_set.as_ref().expect("it was built when changes were followed");
        let followed = (node_set.changed.end(), self.cluster_version);
        let cluster = node_set.with(view);
        let topologies = node_set.sets[set].clone();
        let ranking =
            NodeRanking::new(profile, pod, plugins, topologies, behind, followed, cluster);
        let number = free(&mut self.rankings);
        self.ranking_bytes.set(number, ranking.bytes());
        self.rankings[number] = Some((ranking, self.n_decisions));
        number
    }

    /// Updates a ranking, domain counts and their sparse counts. Returns `false` if the pod must be decided
    /// from scratch.
    pub(super) fn bring_up(
        &mut self,
        profile: &Profile,
        ranking: usize,
        domain_counts: usize,
        view: View<'_>,
    ) -> bool {
        let node_set = self.node_set.as_ref().expect("it was built when changes were followed");
        let cluster = node_set.with(view);
        let (one, used) =
            self.rankings[ranking].as_mut().expect("known signatures have their rankings");
        *used = self.n_decisions;
        let followed = one.followed;
        one.followed = node_set.changed.end();
        let changes = node_set.changed.since(followed);
        let is_followed = changes.is_some();
        for (index, reads) in changes.into_iter().flatten() {
            one.follow(index, reads, cluster);
        }
        if !is_followed || !one.follow_cluster(profile, self.cluster_version, cluster) {
            *one = one.again(profile, (node_set.changed.end(), self.cluster_version), cluster);
            self.sparse_counts.retain(|&(other, _), _| other != ranking);
            self.sparse_bytes.retain(|(other, _)| other != ranking);
        }
        self.ranking_bytes.set(ranking, one.bytes());
        if one.is_broken {
            return false;
        }
        let (counts, used) =
            self.domain_counts[domain_counts].as_mut().expect("known signatures have their counts");
        *used = self.n_decisions;
        let key = (ranking, domain_counts);
        let sparse = match self.sparse_counts.entry(key) {
            Entry::Occupied(known) => {
                let sparse = known.into_mut();
                if !sparse.follow(one, counts, cluster) {
                    *sparse = SparseDomainCounts::new(one, counts, cluster);
                }
                sparse
            }
            Entry::Vacant(place) => place.insert(SparseDomainCounts::new(one, counts, cluster)),
        };
        self.sparse_bytes.set(key, sparse.bytes());
        true
    }

    /// Drops the least recently used rankings until a new one fits. Two always stay, since a decision needs
    /// up to two.
    fn make_room_for_ranking(&mut self) {
        let node_set = self.node_set.as_ref().expect("it was built when changes were followed");
        let one = RANKING_BYTES_PER_INDEX * node_set.name_order.n_indices();
        while RANKING_BUDGET < self.ranking_bytes.total() + one {
            let kept = self.rankings.iter().enumerate();
            let kept = kept.filter_map(|(at, slot)| Some((slot.as_ref()?.1, at)));
            let n_kept = kept.clone().count();
            let Some((_, number)) = kept.min().filter(|_| 2 <= n_kept) else { return };
            self.drop_ranking(number);
        }
    }

    /// Drops all domain counts if there are too many. Those in use are quickly made again.
    fn make_room_for_domain_counts(&mut self) {
        if self.domain_counts.len() == MOST_DOMAIN_COUNTS
            && self.domain_counts.iter().all(Option::is_some)
        {
            self.forget_domain_counts();
        }
    }
}

/// The index of a free slot.
fn free<T>(slots: &mut Vec<Option<T>>) -> usize {
    let free = slots.iter().position(Option::is_none);
    free.unwrap_or_else(|| {
        slots.push(None);
        slots.len() - 1
    })
}
