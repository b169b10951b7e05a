//! Pods that are equal in what is read of them, by number.

use hashbrown::HashTable;
use plimsoll_framework::PodInfo;
use plimsoll_framework::parts::PodReads;

use crate::class;

/// A kind of pods: its number.
pub(crate) type Kind = u32;

/// More kinds than this are not told apart by number: a cluster whose pods are all different gains
/// nothing from it.
const MOST: usize = 1 << 20;
/// The memory that the pods of one sort of kinds may take, in bytes. A kind costs as much as a pod, also when
/// the last pod of it is gone.
const MOST_BYTES: usize = 256 << 20;
/// A pod that takes more bytes than this is of no kind: hardly another one will be like it, and there are
/// pods of more than a megabyte.
const LARGEST: usize = 64 << 10;

/// Numbers for pods that are equal in some of their parts, in the order in which they were met.
#[derive(Debug)]
pub(crate) struct Kinds {
    reads: PodReads,
    /// Whether pods that are being deleted are of another kind.
    by_deletion: bool,
    /// The most bytes of a pod that is of some kind.
    largest: usize,
    /// One pod of each kind.
    pods: Vec<PodInfo>,
    /// About how many bytes they take.
    bytes: usize,
    /// How many they may take.
    most_bytes: usize,
    table: HashTable<(u64, Kind)>,
    /// The last one met: pods often come in rows of the same kind.
    last: Option<Kind>,
}

impl Kinds {
    /// Pods are of one kind if they are equal in `reads`.
    pub(crate) fn new(reads: PodReads) -> Self {
        Kinds {
            reads,
            by_deletion: false,
            largest: LARGEST,
            pods: Vec::new(),
            bytes: 0,
            most_bytes: MOST_BYTES,
            table: HashTable::new(),
            last: None,
        }
    }

    /// The same, but pods that are being deleted are of another kind than those that are not.
    pub(crate) fn by_deletion(self) -> Self {
        Kinds { by_deletion: true, ..self }
    }

    /// The same, but every pod is of some kind, however large it is.
    pub(crate) fn of_any_size(self) -> Self {
        Kinds { largest: usize::MAX, ..self }
    }

    /// The pods that are known now are there in any case, so that they take no memory here: only those that
    /// come count from now on. Until then there is no limit.
    pub(crate) fn count_from_here(&mut self) {
        self.most_bytes = self.bytes.saturating_add(MOST_BYTES);
    }

    /// The kind of `pod`, and whether it is new. `None` if there are too many kinds, or the pod is too large.
    pub(crate) fn number(&mut self, pod: &PodInfo) -> Option<(Kind, bool)> {
        if let Some(last) = self.last.filter(|&last| self.are_equal(&self.pods[last as usize], pod))
        {
            return Some((last, false));
        }
        let hash = class::parts_hash(self.reads, pod);
        let is_same = |&(other, kind): &(u64, Kind)| {
            other == hash && self.are_equal(&self.pods[kind as usize], pod)
        };
        if let Some(&(_, kind)) = self.table.find(hash, is_same) {
            self.last = Some(kind);
            return Some((kind, false));
        }
        let bytes = pod.bytes();
        if self.is_full() || self.largest < bytes {
            return None;
        }
        self.bytes += bytes;
        let kind = Kind::try_from(self.pods.len()).expect("there are fewer than 2^32 kinds");
        self.pods.push(pod.clone());
        self.table.insert_unique(hash, (hash, kind), |&(hash, _)| hash);
        self.last = Some(kind);
        Some((kind, true))
    }

    /// Forgets all kinds, and has no limit in bytes until [`count_from_here`](Self::count_from_here).
    pub(crate) fn begin(&mut self) {
        self.clear();
        self.most_bytes = usize::MAX;
    }

    /// Forgets all kinds.
    pub(crate) fn clear(&mut self) {
        self.pods.clear();
        self.bytes = 0;
        self.table.clear();
        self.last = None;
    }

    /// Whether no further kind can be told from others.
    pub(crate) fn is_full(&self) -> bool {
        self.pods.len() == MOST || self.most_bytes <= self.bytes
    }

    /// A pod of this kind.
    pub(crate) fn example(&self, kind: Kind) -> &PodInfo {
        &self.pods[kind as usize]
    }

    fn are_equal(&self, one: &PodInfo, other: &PodInfo) -> bool {
        (!self.by_deletion || one.is_terminating() == other.is_terminating())
            && class::parts_are_alike(self.reads, one, other)
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_api::{Pod, PodKey};

    use super::*;

    fn pod(name: &str, app: &str, milli_cpu: i64) -> PodInfo {
        let mut pod = Pod { key: PodKey::new("default", name), ..Pod::default() };
        pod.labels = [("app", app)].into_iter().collect();
        pod.asks.fit.milli_cpu = milli_cpu;
        PodInfo::new(pod)
    }

    #[test]
    fn pods_are_of_one_kind_if_they_are_equal_in_what_is_read() {
        let mut kinds = Kinds::new(PodReads::LABELS | PodReads::REQUESTS);
        let mut kind = |name, app, cpu| kinds.number(&pod(name, app, cpu));
        assert_eq!(kind("a", "web", 1), Some((0, true)));
        assert_eq!(kind("b", "web", 1), Some((0, false)));
        assert_eq!(kind("c", "db", 1), Some((1, true)));
        assert_eq!(kind("d", "web", 2), Some((2, true)));
        assert_eq!(kind("e", "web", 1), Some((0, false)));
    }

    #[test]
    fn requests_differ_although_their_hashes_do_not() {
        let mut kinds = Kinds::new(PodReads::REQUESTS);
        let (one, mut other) = (pod("a", "web", 1), Pod::clone(&pod("a", "web", 1)));
        other.asks.fit.scalar.insert("example.com/gpu".into(), 1);
        assert_eq!(kinds.number(&one), Some((0, true)));
        assert_eq!(kinds.number(&PodInfo::new(other)), Some((1, true)));
    }

    /// A pod of about so many bytes, like no other.
    fn large(name: &str, bytes: usize) -> PodInfo {
        let mut pod = Pod::clone(&pod(name, name, 1));
        pod.annotations = [("a", "x".repeat(bytes))].into_iter().collect();
        PodInfo::new(pod)
    }

    #[test]
    fn a_very_large_pod_is_of_no_kind_unless_every_pod_is_of_some() {
        let mut kinds = Kinds::new(PodReads::LABELS);
        assert_eq!(kinds.number(&large("a", 2 * LARGEST)), None);
        assert_eq!(kinds.number(&large("b", LARGEST / 2)), Some((0, true)));
        let mut kinds = Kinds::new(PodReads::LABELS).of_any_size();
        assert_eq!(kinds.number(&large("a", 2 * LARGEST)), Some((0, true)));
    }

    #[test]
    fn kinds_are_full_by_the_bytes_of_their_pods() {
        let mut kinds = Kinds::new(PodReads::LABELS).of_any_size();
        kinds.begin();
        assert!(kinds.number(&large("a", 1 << 20)).is_some());
        kinds.count_from_here();
        kinds.most_bytes = kinds.bytes + 12_000;
        assert_eq!(kinds.number(&large("b", 8_000)), Some((1, true)));
        assert!(!kinds.is_full());
        assert_eq!(kinds.number(&large("c", 8_000)), Some((2, true)));
        assert!(kinds.is_full());
        assert_eq!(kinds.number(&large("d", 8_000)), None);
        assert_eq!(kinds.number(&large("b", 8_000)), Some((1, false)));
        kinds.clear();
        assert!(!kinds.is_full());
    }

    #[test]
    fn pods_that_are_being_deleted_may_be_another_kind() {
        let mut kinds = Kinds::new(PodReads::LABELS).by_deletion();
        let (one, mut other) = (pod("a", "web", 1), Pod::clone(&pod("a", "web", 1)));
        other.deletion = Some(plimsoll_api::Timestamp::UNIX_EPOCH);
        assert_eq!(kinds.number(&one), Some((0, true)));
        assert_eq!(kinds.number(&PodInfo::new(other)), Some((1, true)));
    }
}
