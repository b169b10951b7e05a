//! Makes rankings and domain counts for new signatures, and updates those of known ones.

use plimsoll_framework::{Counting, Neighbour, PodInfo, View};
use smallvec::SmallVec;

use super::Memo;
use super::by_label::PlainPods;
use super::counts_cache::CountsId;
use super::domain_counts::CountPlan;
use super::node_ranking::{NodeRanking, RankingPlugins};
use super::profile_memo::{SignatureCaches, SignatureEntry, TopologySet};
use super::rankings::RankingId;
use super::signatures::SignatureId;
use super::sparse_domain_counts::SparseDomainCounts;
use crate::cycle;
use crate::profile::Profile;

impl Memo {
    /// One pod for each signature of pods on nodes and of nominated pods that have affinity terms.
    pub(super) fn neighbours_with_terms(&self) -> Vec<Neighbour<'_>> {
        let is_there = |signature: &&SignatureId| {
            self.placed.has(**signature)
                || self.node_set.as_ref().is_some_and(|one| one.nominations.have(**signature))
        };
        let signatures = self.with_terms.iter().filter(is_there);
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
        match self.profiles[profile].entry(signature) {
            SignatureEntry::Cached(caches) if self.counts.has(caches.domain_counts) => {
                let known = |id: &RankingId| self.rankings.has(*id);
                let (ranking, base) = (caches.ranking.filter(known), caches.base.filter(known));
                Some(SignatureCaches { ranking, base, ..caches })
            }
            _ => None,
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
        if matches!(self.profiles[profile].entry(signature), SignatureEntry::FromScratch) {
            return None;
        }
        let of_profile = self.profiles.get_mut(profile).expect("it was just used");
        if cycle::score_error(profile, pod).is_some() {
            of_profile.learn(signature, SignatureEntry::FromScratch);
            return None;
        }
        let [ranking, base, counts] = of_profile.signatures(pod)?;
        let known = of_profile.domain_counts_of(counts).filter(|&id| self.counts.has(id));
        let domain_counts = if let Some(domain_counts) = known {
            domain_counts
        } else {
            let made = self.make_domain_counts(profile, pod, view);
            let of_profile = self.profiles.get_mut(profile).expect("it was just used");
            if made.is_none() {
                of_profile.learn(signature, SignatureEntry::FromScratch);
                self.has_given_up = true;
            }
            made?
        };
        let set = self.topology_set(domain_counts);
        let of_profile = self.profiles.get_mut(profile).expect("it was just used");
        of_profile.set_domain_counts(counts, domain_counts);
        let caches = of_profile.caches_for((ranking, set), (base, set), domain_counts);
        of_profile.learn(signature, SignatureEntry::Cached(caches));
        Some(caches)
    }

    /// The topologies of domain counts.
    pub(super) fn topology_set(&mut self, domain_counts: CountsId) -> TopologySet {
        let domain_counts = self.counts.get(domain_counts).expect("they are there");
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
    ) -> RankingId {
        if let Some(ranking) = caches.ranking {
            return ranking;
        }
        let known = self.profiles[profile].ranking_of(caches.ranking_key);
        let ranking = match known.filter(|&id| self.rankings.has(id)) {
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
        let of_profile = self.profiles.get_mut(profile).expect("it was just used");
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
    ) -> RankingId {
        if let Some(base) = caches.base {
            return base;
        }
        let known = self.profiles[profile].base_of(caches.base_key);
        let base = match known.filter(|&id| self.rankings.has(id)) {
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
        let of_profile = self.profiles.get_mut(profile).expect("it was just used");
        of_profile.set_base(signature, caches, base);
        base
    }

    fn make_domain_counts(
        &mut self,
        profile: &Profile,
        pod: &PodInfo,
        view: View<'_>,
    ) -> Option<CountsId> {
        let uncached = &self.profiles[profile].uncached;
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
        let mut countings: Vec<(SignatureId, Counting)> = Vec::new();
        let by_label = &self.counts.counted_by.by_label;
        let plain_pods = plan.plain_pods(|label| by_label.of(label).len());
        let signatures: Vec<SignatureId> = match &plain_pods {
            PlainPods::None => self.with_terms.clone(),
            PlainPods::With(labels) => {
                let labelled = labels.iter().flat_map(|&label| by_label.of(label));
                let mut all: Vec<_> = self.with_terms.iter().chain(labelled).copied().collect();
                all.sort_unstable();
                all.dedup();
                all
            }
            PlainPods::All => (0..self.placed.n_signatures()).collect(),
        };
        for signature in signatures {
            if !self.placed.has(signature) && !self.counts.counted_by.has(signature) {
                continue;
            }
            match plan.count(Neighbour::from(&**self.neighbours.example(signature))) {
                Some(counting) => countings.push((signature, counting)),
                // No pod of this signature is left on a node. It is asked about again when one is added.
                None => self.counts.counted_by.forget(signature),
            }
        }
        let mut domain_counts = plan.domain_counts(pod, &numbers, plain_pods, cluster);
        countings.retain(|(_, counting)| !counting.is_empty());
        for (signature, counting) in &countings {
            for (row, times) in self.placed.rows(*signature) {
                let node = (view.nodes, row);
                domain_counts.add(counting, i64::from(times), row, node, cluster.places());
            }
        }
        let id = self.counts.insert(domain_counts, self.n_decisions);
        for (signature, counting) in countings {
            self.counts.counted_by.add(signature, id, counting);
        }
        Some(id)
    }

    /// The domain counts shared by all pods for which nothing is counted.
    fn blank_domain_counts(&mut self, pod: &PodInfo, view: View<'_>) -> CountsId {
        if let Some(blank) = self.counts.blank {
            return blank;
        }
        self.make_room_for_domain_counts();
        let node_set = self.node_set.as_ref().expect("it was built when changes were followed");
        let cluster = node_set.with(view);
        let domain_counts = CountPlan::default().domain_counts(pod, &[], PlainPods::None, cluster);
        let id = self.counts.insert(domain_counts, self.n_decisions);
        self.counts.blank = Some(id);
        id
    }

    pub(super) fn make_ranking(
        &mut self,
        profile: &Profile,
        pod: &PodInfo,
        plugins: RankingPlugins,
        set: TopologySet,
        behind: Option<i32>,
        view: View<'_>,
    ) -> RankingId {
        #[cfg(test)]
        {
            self.n_ranked += 1;
        }
        let node_set = self.node_set.as_ref().expect("it was built when changes were followed");
        self.rankings.make_room(self.budgets.rankings, &node_set.name_order);
        let followed = (node_set.changed.end(), self.cluster_version);
        let cluster = node_set.with(view);
        let topologies = node_set.sets[set].clone();
        let ranking =
            NodeRanking::new(profile, pod, plugins, topologies, behind, followed, cluster);
        self.rankings.insert(ranking, self.n_decisions)
    }

    /// Updates a ranking, domain counts and their sparse counts. Returns `false` if the pod must be decided
    /// from scratch.
    pub(super) fn bring_up(
        &mut self,
        profile: &Profile,
        ranking: RankingId,
        domain_counts: CountsId,
        view: View<'_>,
    ) -> bool {
        if !self.bring_up_ranking(profile, ranking, view) {
            return false;
        }
        let node_set = self.node_set.as_ref().expect("it was built when changes were followed");
        let cluster = node_set.with(view);
        let counts = self.counts.using(domain_counts, self.n_decisions);
        let counts = counts.expect("known signatures have their counts");
        let follow = |sparse: &mut SparseDomainCounts, one: &NodeRanking| {
            sparse.follow(one, counts, cluster)
        };
        let make = |one: &NodeRanking| SparseDomainCounts::new(one, counts, cluster);
        self.rankings.bring_up_sparse(ranking, domain_counts, follow, make);
        true
    }

    /// Updates a ranking. Returns `false` if its pods must be decided from scratch.
    pub(super) fn bring_up_ranking(
        &mut self,
        profile: &Profile,
        ranking: RankingId,
        view: View<'_>,
    ) -> bool {
        let node_set = self.node_set.as_ref().expect("it was built when changes were followed");
        let cluster = node_set.with(view);
        let entry = self.rankings.using(ranking, self.n_decisions);
        let one = &mut entry.expect("known signatures have their rankings").ranking;
        let followed = one.followed;
        one.followed = node_set.changed.end();
        let changes = node_set.changed.of_nodes_since(followed);
        let is_followed = changes.is_some();
        for (index, reads) in changes.into_iter().flatten() {
            one.follow(index, reads, cluster);
        }
        let is_followed = is_followed && one.follow_cluster(profile, self.cluster_version, cluster);
        if !is_followed {
            *one = one.again(profile, (node_set.changed.end(), self.cluster_version), cluster);
        }
        let is_broken = one.is_broken;
        if !is_followed {
            self.rankings.made_again(ranking);
            #[cfg(test)]
            {
                self.n_ranked += 1;
            }
        }
        self.rankings.weigh(ranking);
        !is_broken
    }

    /// Drops all domain counts if there are too many. Those in use are quickly made again.
    fn make_room_for_domain_counts(&mut self) {
        if self.counts.is_full() {
            self.forget_domain_counts();
        }
    }
}
