//! What pods on nodes add to domain counts, by signature.

use plimsoll_framework::{Counting, PodInfo};

use super::by_label::{ByLabel, labels_of};
use super::counts_cache::CountsId;
use super::signatures::SignatureId;

/// The domain counts that count pods of one signature, and what is added to them.
type CountedBy = Vec<(CountsId, Counting)>;

/// For each signature of pods on nodes, once a pod has been added: which domain counts count it, and what is
/// added to them.
#[derive(Debug, Default)]
pub(super) struct Countings {
    of: Vec<Option<CountedBy>>,
    bytes: usize,
    /// The signatures of pods without affinity terms by their labels.
    pub(super) by_label: ByLabel<SignatureId>,
}

impl Countings {
    /// Adds a signature, which `pod` has.
    pub(super) fn add_signature(&mut self, pod: &PodInfo) {
        let signature = SignatureId::try_from(self.of.len()).expect("signatures have 32 bits");
        if pod.affinity.is_empty() {
            self.by_label.add(labels_of(&pod.labels), signature);
        }
        self.of.push(None);
    }

    /// Whether it is known which domain counts count pods of a signature.
    pub(super) fn has(&self, signature: SignatureId) -> bool {
        self.of[signature as usize].is_some()
    }

    pub(super) fn of(&self, signature: SignatureId) -> &[(CountsId, Counting)] {
        self.of[signature as usize].as_deref().unwrap_or_default()
    }

    pub(super) fn set(&mut self, signature: SignatureId, counted_by: CountedBy) {
        self.forget(signature);
        self.bytes += counted_by.iter().map(bytes).sum::<usize>();
        self.of[signature as usize] = Some(counted_by);
    }

    /// Adds domain counts that count pods of a signature, if the others are known.
    pub(super) fn add(
        &mut self,
        signature: SignatureId,
        domain_counts: CountsId,
        counting: Counting,
    ) {
        if let Some(counted_by) = &mut self.of[signature as usize] {
            let one = (domain_counts, counting);
            self.bytes += bytes(&one);
            counted_by.push(one);
        }
    }

    /// Forgets which domain counts count pods of a signature.
    pub(super) fn forget(&mut self, signature: SignatureId) {
        let gone = self.of[signature as usize].take();
        self.bytes -= gone.iter().flatten().map(bytes).sum::<usize>();
    }

    /// Removes domain counts.
    pub(super) fn remove(&mut self, id: CountsId) {
        for counted_by in self.of.iter_mut().flatten() {
            counted_by.retain(|one| {
                let stays = one.0 != id;
                self.bytes -= if stays { 0 } else { bytes(one) };
                stays
            });
        }
    }

    /// Forgets everything except how many signatures there are.
    pub(super) fn forget_all(&mut self) {
        self.of.iter_mut().for_each(|of| *of = None);
        self.bytes = 0;
    }

    /// Removes all signatures.
    pub(super) fn clear(&mut self) {
        *self = Countings::default();
    }

    /// The approximate size in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

fn bytes(one: &(CountsId, Counting)) -> usize {
    let elsewhere = if one.1.spilled() { one.1.len() * size_of::<(u32, i64)>() } else { 0 };
    size_of::<(CountsId, Counting)>() + elsewhere
}

#[cfg(test)]
mod tests {
    use plimsoll_api::Pod;
    use plimsoll_framework::{Columns, PodInfo, Stores, View};

    use super::super::arena::Arena;
    use super::super::by_label::PlainPods;
    use super::super::domain_counts::{CountPlan, DomainCounts};
    use super::super::name_order::NameOrder;
    use super::super::node_set::NodeSet;
    use super::super::nominations::Nominations;
    use super::*;

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

    fn counting(n: u32) -> Counting {
        (0..n).map(|term| (term, 1)).collect()
    }

    #[test]
    fn the_bytes_follow_every_change() {
        let mut ids: Arena<DomainCounts> = Arena::default();
        let [first, second] = [0, 1].map(|_| ids.insert(counts_of_nothing(), 0));
        let mut countings = Countings::default();
        let pod = PodInfo::from(Pod::default());
        countings.add_signature(&pod);
        countings.add_signature(&pod);
        countings.add(0, first, counting(1));
        assert_eq!((countings.bytes(), countings.has(0)), (0, false));
        countings.set(0, vec![(first, counting(1)), (second, counting(100))]);
        countings.set(1, Vec::new());
        let before = countings.bytes();
        assert!(1600 < before, "{before}");
        countings.add(1, second, counting(100));
        countings.remove(second);
        assert!(0 < countings.bytes() && countings.bytes() < 100);
        assert_eq!((countings.of(0).len(), countings.of(1).len()), (1, 0));
        countings.forget(0);
        assert_eq!(countings.bytes(), 0);
    }
}
