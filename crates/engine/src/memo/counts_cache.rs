//! The domain counts, with what pods on nodes add to them.

use plimsoll_api::Labels;
use plimsoll_framework::Counting;
use plimsoll_framework::parts::NodeReads;

use super::arena::{Arena, Id, Use};
use super::by_label::{ByLabel, PlainPods, labels_of};
use super::countings::Countings;
use super::domain_counts::DomainCounts;

/// At most this many domain counts are kept. Each of them is asked about every new signature of pods on
/// nodes.
const MOST: usize = 1 << 16;

/// The id of domain counts.
pub(crate) type CountsId = Id<DomainCounts>;

/// The domain counts.
#[derive(Default)]
pub(super) struct CountsCache {
    all: Arena<DomainCounts>,
    /// Their approximate size in bytes.
    bytes: usize,
    /// Those that may count any pod without affinity terms.
    of_all_pods: Vec<CountsId>,
    /// Those that count such a pod only if it has one of these labels.
    by_label: ByLabel<CountsId>,
    /// What pods of each signature add to them.
    pub(super) counted_by: Countings,
    /// The parts of a node that decide whether its pods count in any of them.
    pub(super) nodes_read: NodeReads,
    /// Those shared by all pods for which nothing is counted. They are dropped when a pod with affinity terms is added
    /// to a node, since its terms may apply to any pod.
    pub(super) blank: Option<CountsId>,
}

impl CountsCache {
    pub(super) fn get(&self, id: CountsId) -> Option<&DomainCounts> {
        self.all.get(id)
    }

    /// The same, and notes that it is used.
    pub(super) fn using(&mut self, id: CountsId, now: Use) -> Option<&mut DomainCounts> {
        self.all.using(id, now)
    }

    pub(super) fn has(&self, id: CountsId) -> bool {
        self.all.has(id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (CountsId, &DomainCounts)> {
        self.all.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut DomainCounts> {
        self.all.iter_mut()
    }

    pub(super) fn insert(&mut self, counts: DomainCounts, now: Use) -> CountsId {
        self.bytes += counts.bytes();
        self.nodes_read |= counts.reads();
        let plain_pods = counts.plain_pods.clone();
        let id = self.all.insert(counts, now);
        match plain_pods {
            PlainPods::None => {}
            PlainPods::With(labels) => self.by_label.add(labels, id),
            PlainPods::All => self.of_all_pods.push(id),
        }
        id
    }

    /// Those that may count a pod without affinity terms that has these labels.
    pub(super) fn that_may_count(&self, labels: &Labels) -> Vec<CountsId> {
        let labelled = labels_of(labels).flat_map(|label| self.by_label.of(label));
        let mut all: Vec<CountsId> = self.of_all_pods.iter().chain(labelled).copied().collect();
        all.sort_unstable_by_key(|id| id.number());
        all.dedup();
        all
    }

    /// Drops domain counts. What depends on them finds nothing any more.
    pub(super) fn remove(&mut self, id: CountsId) {
        let Some(gone) = self.all.remove(id) else { return };
        self.bytes -= gone.bytes();
        match gone.plain_pods {
            PlainPods::None => {}
            PlainPods::With(labels) => self.by_label.remove(labels, id),
            PlainPods::All => self.of_all_pods.retain(|other| *other != id),
        }
        self.counted_by.remove(id);
        self.blank = self.blank.filter(|&blank| blank != id);
    }

    /// Drops all domain counts.
    pub(super) fn clear(&mut self) {
        self.all.clear();
        self.bytes = 0;
        self.of_all_pods.clear();
        self.by_label.clear();
        self.counted_by.forget_all();
        self.nodes_read = NodeReads::empty();
        self.blank = None;
    }

    /// Whether there is no room for more.
    pub(super) fn is_full(&self) -> bool {
        MOST <= self.all.len()
    }

    /// Applies `add` to all domain counts that count pods of a signature, with what such a pod adds to them.
    pub(super) fn count(
        &mut self,
        signature: super::signatures::SignatureId,
        mut add: impl FnMut(&mut DomainCounts, &Counting),
    ) {
        for (id, counting) in self.counted_by.of(signature) {
            if let Some(counts) = self.all.get_mut(*id) {
                let before = counts.bytes();
                add(counts, counting);
                self.bytes += counts.bytes() - before;
            }
        }
    }

    /// How their accounted size differs from the sum of their sizes.
    pub(super) fn bytes_differ(&self) -> Option<String> {
        let anew: usize = self.all.iter().map(|(_, counts)| counts.bytes()).sum();
        let differ = format!("domain counts take {anew} bytes, and not {}", self.bytes);
        (anew != self.bytes).then_some(differ)
    }

    /// Their approximate size in bytes, with what pods on nodes add to them.
    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.counted_by.bytes() + self.by_label.bytes()
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_api::Pod;
    use plimsoll_framework::{Columns, PodInfo, Stores, View};
    use smallvec::smallvec;

    use super::super::domain_counts::CountPlan;
    use super::super::name_order::NameOrder;
    use super::super::node_set::NodeSet;
    use super::super::nominations::Nominations;
    use super::*;

    /// Domain counts that count nothing.
    fn counts_of_nothing() -> DomainCounts {
        let (nodes, stores) = (Columns::default(), Stores::default());
        let node_set = NodeSet::new(NameOrder::of(&nodes), Nominations::default());
        let cluster = node_set.with(View { nodes: &nodes, stores: &stores });
        CountPlan::default().domain_counts(
            &PodInfo::from(Pod::default()),
            &[],
            PlainPods::None,
            cluster,
        )
    }

    /// How many domain counts count a pod of a signature.
    fn n_counting(cache: &mut CountsCache, signature: u32) -> usize {
        let mut n = 0;
        cache.count(signature, |_, _| n += 1);
        n
    }

    #[test]
    fn pods_are_counted_by_what_is_still_there() {
        let mut cache = CountsCache::default();
        cache.counted_by.add_signature(&PodInfo::from(Pod::default()));
        let [one, two] = [1, 2].map(|now| cache.insert(counts_of_nothing(), now));
        let counting: Counting = smallvec![(0, 1)];
        cache.counted_by.set(0, vec![(one, counting.clone()), (two, counting)]);
        assert_eq!(n_counting(&mut cache, 0), 2);
        cache.remove(one);
        assert_eq!(n_counting(&mut cache, 0), 1);
        assert!(!cache.has(one) && cache.get(two).is_some());
        cache.clear();
        assert_eq!(n_counting(&mut cache, 0), 0);
        assert!(!cache.counted_by.has(0), "it is asked again");
    }

    #[test]
    fn the_bytes_are_those_of_what_is_there() {
        let mut cache = CountsCache::default();
        cache.counted_by.add_signature(&PodInfo::from(Pod::default()));
        let one = cache.insert(counts_of_nothing(), 1);
        let bytes = cache.bytes();
        assert!(0 < bytes);
        let two = cache.insert(counts_of_nothing(), 2);
        cache.counted_by.set(0, vec![(two, smallvec![(0, 1)])]);
        assert!(2 * bytes < cache.bytes());
        cache.remove(two);
        // It is dropped once.
        cache.remove(two);
        assert_eq!(cache.bytes(), bytes);
        cache.remove(one);
        assert_eq!(cache.bytes(), 0);
    }

    #[test]
    fn the_blank_counts_are_given_up_when_they_are_dropped() {
        let mut cache = CountsCache::default();
        let [blank, other] = [1, 2].map(|now| cache.insert(counts_of_nothing(), now));
        cache.blank = Some(blank);
        cache.remove(other);
        assert_eq!(cache.blank, Some(blank));
        cache.remove(blank);
        assert_eq!(cache.blank, None);
    }
}
