//! The node rankings, with all that depends on them.

use plimsoll_framework::parts::StoreReads;

use super::FastMap;
use super::arena::{Arena, Id, Use};
use super::counts_cache::CountsId;
use super::name_order::NameOrder;
use super::node_diagnosis::NodeDiagnosis;
use super::node_ranking::{ClusterView, NodeRanking};
use super::node_set::NodeSet;
use super::sparse_domain_counts::SparseDomainCounts;

/// So many priorities may have had a ranking of their own, before those are forgotten whose ranking is gone.
const FEW_PRIORITIES: usize = 64;

/// The approximate size of a new ranking for each name index, in bytes.
const BYTES_PER_INDEX: usize = 40;

/// The id of a node ranking.
pub(crate) type RankingId = Id<RankingEntry>;

/// A node ranking, and what is dropped with it.
pub(crate) struct RankingEntry {
    pub(super) ranking: NodeRanking,
    bytes: usize,
    /// How often it was made again.
    pub(super) n_made_again: u64,
    /// With their sizes in bytes.
    sparse: FastMap<CountsId, (SparseDomainCounts, usize)>,
    /// By priority: the ranking for pods of this priority that also leaves room for nominated pods.
    pub(super) behind: FastMap<i32, RankingId>,
    /// By priority, with their sizes in bytes.
    diagnoses: FastMap<i32, (NodeDiagnosis, usize)>,
}

impl RankingEntry {
    /// The sparse counts of the ranking with domain counts, if they are known.
    pub(super) fn sparse(&self, counts: CountsId) -> Option<&SparseDomainCounts> {
        self.sparse.get(&counts).map(|(sparse, _)| sparse)
    }

    /// The domain counts with which it has sparse counts.
    pub(super) fn sparse_ids(&self) -> impl Iterator<Item = CountsId> {
        self.sparse.keys().copied()
    }

    /// The ranking, and its diagnoses by priority.
    pub(super) fn with_diagnoses(
        &mut self,
    ) -> (&mut NodeRanking, impl Iterator<Item = (i32, &mut NodeDiagnosis)>) {
        let diagnoses = self.diagnoses.iter_mut();
        let diagnoses = diagnoses.map(|(&priority, (diagnosis, _))| (priority, diagnosis));
        (&mut self.ranking, diagnoses)
    }

    /// The ranking, its sparse counts and the diagnosis for pods of a priority, which is up to date. The others must
    /// be, too.
    pub(super) fn diagnose(
        &mut self,
        counts: CountsId,
        priority: i32,
        node_set: &NodeSet,
        cluster: ClusterView<'_>,
    ) -> Option<(&mut NodeRanking, &SparseDomainCounts, &mut NodeDiagnosis)> {
        let RankingEntry { ranking, sparse, diagnoses, .. } = self;
        let ends = (node_set.changed.end(), node_set.came_or_gone.end());
        let known = diagnoses.entry(priority);
        let (diagnosis, _) =
            known.or_insert_with(|| (NodeDiagnosis::new(ranking, ends, cluster), 0));
        if !diagnosis.follow(ranking, &node_set.changed, &node_set.came_or_gone, cluster) {
            *diagnosis = NodeDiagnosis::new(ranking, ends, cluster);
        }
        Some((ranking, &sparse.get(&counts)?.0, diagnosis))
    }
}

/// The node rankings.
#[derive(Default)]
pub(super) struct Rankings {
    all: Arena<RankingEntry>,
    /// The size of the rankings themselves, in bytes.
    bytes: usize,
    sparse_bytes: usize,
    diagnosis_bytes: usize,
}

impl Rankings {
    pub(super) fn get(&self, id: RankingId) -> Option<&RankingEntry> {
        self.all.get(id)
    }

    pub(super) fn get_mut(&mut self, id: RankingId) -> Option<&mut RankingEntry> {
        self.all.get_mut(id)
    }

    /// The same, and notes that it is used.
    pub(super) fn using(&mut self, id: RankingId, now: Use) -> Option<&mut RankingEntry> {
        self.all.using(id, now)
    }

    pub(super) fn has(&self, id: RankingId) -> bool {
        self.all.has(id)
    }

    pub(super) fn insert(&mut self, ranking: NodeRanking, now: Use) -> RankingId {
        let bytes = ranking.bytes();
        self.bytes += bytes;
        let entry = RankingEntry {
            ranking,
            bytes,
            n_made_again: 0,
            sparse: FastMap::default(),
            behind: FastMap::default(),
            diagnoses: FastMap::default(),
        };
        self.all.insert(entry, now)
    }

    /// Drops a ranking and all that depends on it.
    pub(super) fn remove(&mut self, id: RankingId) {
        let Some(entry) = self.all.remove(id) else { return };
        self.bytes -= entry.bytes;
        self.sparse_bytes -= entry.sparse.values().map(|(_, bytes)| bytes).sum::<usize>();
        self.diagnosis_bytes -= entry.diagnoses.values().map(|(_, bytes)| bytes).sum::<usize>();
    }

    /// Drops the least recently used rankings until a new one fits into `budget`, in bytes.
    pub(super) fn make_room(&mut self, budget: usize, name_order: &NameOrder) {
        let one = BYTES_PER_INDEX * name_order.n_indices();
        while budget < self.bytes + one && 2 <= self.all.len() {
            let Some(last) = self.all.least_recently_used() else { return };
            self.remove(last);
        }
    }

    /// Drops everything.
    pub(super) fn clear(&mut self) {
        *self = Rankings { all: std::mem::take(&mut self.all), ..Rankings::default() };
        self.all.clear();
    }

    /// Notes the size of a ranking that has changed.
    pub(super) fn weigh(&mut self, id: RankingId) {
        if let Some(entry) = self.all.get_mut(id) {
            let bytes = entry.ranking.bytes();
            self.bytes = self.bytes + bytes - std::mem::replace(&mut entry.bytes, bytes);
        }
    }

    /// Brings the sparse counts of a ranking with domain counts up to date; both must be. `follow` returns `false` if
    /// they must be made again, which `make` does.
    pub(super) fn bring_up_sparse(
        &mut self,
        id: RankingId,
        counts: CountsId,
        mut follow: impl FnMut(&mut SparseDomainCounts, &NodeRanking) -> bool,
        make: impl Fn(&NodeRanking) -> SparseDomainCounts,
    ) {
        let Some(RankingEntry { ranking, sparse, .. }) = self.all.get_mut(id) else { return };
        let (one, bytes) = sparse.entry(counts).or_insert_with(|| (make(ranking), 0));
        if !follow(one, ranking) {
            *one = make(ranking);
        }
        let now = one.bytes();
        self.sparse_bytes = self.sparse_bytes + now - std::mem::replace(bytes, now);
    }

    /// Notes which ranking leaves room for the nominated pods of a priority.
    pub(super) fn set_behind(&mut self, id: RankingId, priority: i32, behind: RankingId) {
        let Rankings { all, .. } = self;
        let Some(entry) = all.get(id) else { return };
        // There are billions of priorities, and rankings for few of them are left.
        let is_crowded = FEW_PRIORITIES <= entry.behind.len();
        let gone: Vec<i32> = match is_crowded {
            true => {
                let gone = entry.behind.iter().filter(|&(_, &id)| !all.has(id));
                gone.map(|(&priority, _)| priority).collect()
            }
            false => Vec::new(),
        };
        let Some(entry) = all.get_mut(id) else { return };
        for priority in gone {
            entry.behind.remove(&priority);
        }
        entry.behind.insert(priority, behind);
    }

    /// Notes the size of a diagnosis that has changed.
    pub(super) fn weigh_diagnosis(&mut self, id: RankingId, priority: i32) {
        let Some(entry) = self.all.get_mut(id) else { return };
        let Some((diagnosis, bytes)) = entry.diagnoses.get_mut(&priority) else { return };
        let now = diagnosis.bytes();
        self.diagnosis_bytes = self.diagnosis_bytes + now - std::mem::replace(bytes, now);
    }

    /// Notes that a ranking was made again, and drops its sparse counts.
    pub(super) fn made_again(&mut self, id: RankingId) {
        if let Some(entry) = self.all.get_mut(id) {
            entry.n_made_again += 1;
            let gone = entry.sparse.drain().map(|(_, (_, bytes))| bytes);
            self.sparse_bytes -= gone.sum::<usize>();
        }
    }

    /// Drops the sparse counts with domain counts that are gone.
    pub(super) fn forget_sparse_with(&mut self, counts: CountsId) {
        let gone = self.all.iter_mut().filter_map(|entry| entry.sparse.remove(&counts));
        self.sparse_bytes -= gone.map(|(_, bytes)| bytes).sum::<usize>();
    }

    /// Drops all sparse counts.
    pub(super) fn forget_sparse(&mut self) {
        self.all.iter_mut().for_each(|entry| entry.sparse.clear());
        self.sparse_bytes = 0;
    }

    /// Drops all diagnoses.
    pub(super) fn forget_diagnoses(&mut self) {
        self.all.iter_mut().for_each(|entry| entry.diagnoses.clear());
        self.diagnosis_bytes = 0;
    }

    /// Forgets what was derived from stores that have changed.
    pub(super) fn forget_stores(&mut self, stores: StoreReads) {
        for entry in self.all.iter_mut() {
            entry.diagnoses.values_mut().for_each(|(diagnosis, _)| diagnosis.forget_stores(stores));
        }
    }

    /// The size of the rankings, of the sparse counts and of the diagnoses, in bytes.
    pub(super) fn bytes(&self) -> [usize; 3] {
        [self.bytes, self.sparse_bytes, self.diagnosis_bytes]
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_framework::{PodInfo, Stores, View};

    use super::super::by_label::PlainPods;
    use super::super::domain_counts::{CountPlan, DomainCounts};
    use super::super::node_ranking::RankingPlugins;
    use super::super::nominations::Nominations;
    use super::*;
    use crate::tests::lab;

    /// Nodes `a` and `b`, and rankings of them.
    struct Bench {
        nodes: plimsoll_framework::Columns,
        stores: Stores,
        node_set: NodeSet,
        profile: crate::profile::Profile,
        counts: Arena<DomainCounts>,
        rankings: Rankings,
    }

    impl Bench {
        fn new() -> Self {
            let mut nodes = plimsoll_framework::Columns::default();
            nodes.add(lab::node("a", &["cpu=4"]));
            nodes.add(lab::node("b", &["cpu=2"]));
            Bench {
                node_set: NodeSet::new(NameOrder::of(&nodes), Nominations::default()),
                nodes,
                stores: Stores::default(),
                profile: lab::profile("lab", None, |_| true),
                counts: Arena::default(),
                rankings: Rankings::default(),
            }
        }

        fn cluster(&self) -> ClusterView<'_> {
            self.node_set.with(View { nodes: &self.nodes, stores: &self.stores })
        }

        /// Adds the ranking of a pod that requests so many CPUs.
        fn add(&mut self, cpu: &str, now: Use) -> RankingId {
            let pod = PodInfo::from(lab::pod("p", &[cpu]));
            let plugins = RankingPlugins::All;
            let cluster = self.cluster();
            let ranking =
                NodeRanking::new(&self.profile, &pod, plugins, Vec::new(), None, (0, 0), cluster);
            self.rankings.insert(ranking, now)
        }

        /// Adds domain counts that count nothing.
        fn add_counts(&mut self) -> CountsId {
            let pod = PodInfo::from(lab::pod("p", &[]));
            let counts =
                CountPlan::default().domain_counts(&pod, &[], PlainPods::None, self.cluster());
            self.counts.insert(counts, 0)
        }

        /// Makes the sparse counts of a ranking.
        fn add_sparse(&mut self, id: RankingId, counts: CountsId) {
            let Bench { nodes, stores, node_set, rankings, .. } = self;
            let cluster = node_set.with(View { nodes, stores });
            let of = self.counts.get(counts).expect("they were just added");
            let make = |ranking: &NodeRanking| SparseDomainCounts::new(ranking, of, cluster);
            rankings.bring_up_sparse(id, counts, |_, _| true, make);
        }

        /// Makes the diagnosis of a ranking.
        fn diagnose(&mut self, id: RankingId, counts: CountsId) {
            let Bench { nodes, stores, node_set, rankings, .. } = self;
            let cluster = node_set.with(View { nodes, stores });
            let entry = rankings.get_mut(id).expect("it is there");
            assert!(entry.diagnose(counts, 0, node_set, cluster).is_some());
            rankings.weigh_diagnosis(id, 0);
        }
    }

    #[test]
    fn what_depends_on_a_ranking_goes_with_it() {
        let mut bench = Bench::new();
        let (one, two) = (bench.add("cpu=1", 1), bench.add("cpu=3", 1));
        let counts = bench.add_counts();
        let alone = bench.rankings.bytes();
        for id in [one, two] {
            bench.add_sparse(id, counts);
            bench.diagnose(id, counts);
        }
        let [_, sparse, diagnoses] = bench.rankings.bytes();
        assert!(alone[1] < sparse && alone[2] < diagnoses, "{sparse} {diagnoses}");
        bench.rankings.remove(one);
        assert!(!bench.rankings.has(one) && bench.rankings.has(two));
        let left = bench.rankings.bytes();
        assert!(left[0] < alone[0] && left[1] < sparse && left[2] < diagnoses, "{left:?}");
        bench.rankings.remove(two);
        assert_eq!(bench.rankings.bytes(), [0; 3]);
        // It is dropped once.
        bench.rankings.remove(two);
        assert_eq!(bench.rankings.bytes(), [0; 3]);
    }

    #[test]
    fn priorities_whose_rankings_are_gone_do_not_pile_up() {
        let mut bench = Bench::new();
        let id = bench.add("cpu=1", 1);
        let stays = bench.add("cpu=1", 1);
        bench.rankings.set_behind(id, -1, stays);
        for priority in 0..1000 {
            let behind = bench.add("cpu=1", 1);
            bench.rankings.set_behind(id, priority, behind);
            bench.rankings.remove(behind);
        }
        let behind = &bench.rankings.get(id).expect("it stays").behind;
        assert!(behind.len() <= FEW_PRIORITIES && behind.get(&-1) == Some(&stays));
        assert!(behind.contains_key(&999), "the last one was just made");
    }

    #[test]
    fn sparse_counts_go_with_the_domain_counts() {
        let mut bench = Bench::new();
        let id = bench.add("cpu=1", 1);
        let (gone, stays) = (bench.add_counts(), bench.add_counts());
        bench.add_sparse(id, stays);
        let [_, sparse, _] = bench.rankings.bytes();
        bench.add_sparse(id, gone);
        bench.rankings.forget_sparse_with(gone);
        assert_eq!(bench.rankings.bytes()[1], sparse);
        let entry = bench.rankings.get(id).expect("it stays");
        assert!(entry.sparse(gone).is_none() && entry.sparse(stays).is_some());
        bench.rankings.made_again(id);
        let entry = bench.rankings.get(id).expect("it stays");
        assert!(entry.sparse(stays).is_none() && entry.n_made_again == 1);
        assert_eq!(bench.rankings.bytes()[1], 0);
    }

    #[test]
    fn the_ranking_that_was_not_used_for_the_longest_time_makes_room() {
        let mut bench = Bench::new();
        let (old, used) = (bench.add("cpu=1", 1), bench.add("cpu=2", 2));
        let newest = bench.add("cpu=3", 3);
        assert!(bench.rankings.using(old, 4).is_some());
        let one = BYTES_PER_INDEX * bench.node_set.name_order.n_indices();
        let [bytes, ..] = bench.rankings.bytes();
        bench.rankings.make_room(bytes + one, &bench.node_set.name_order);
        assert!([old, used, newest].iter().all(|&id| bench.rankings.has(id)));
        bench.rankings.make_room(bytes + one - 1, &bench.node_set.name_order);
        let left = [old, used, newest].map(|id| bench.rankings.has(id));
        assert_eq!(left, [true, false, true]);
        // The last one stays, even if it alone is too large.
        bench.rankings.make_room(0, &bench.node_set.name_order);
        assert_eq!([old, newest].map(|id| bench.rankings.has(id)), [true, false]);
    }
}
