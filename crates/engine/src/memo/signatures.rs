//! Signatures: ids of pods that are equal in what is read of them.

use std::sync::Arc;

use hashbrown::HashTable;
use plimsoll_api::PodTemplate;
use plimsoll_framework::PodInfo;
use plimsoll_framework::parts::PodReads;

use super::Budgets;
use crate::signature;

/// The id of a signature.
pub(crate) type SignatureId = u32;

/// The most signatures. If all pods of a cluster differ, remembering more does not help.
const MOST: usize = 1 << 20;
/// Pods larger than this have no signature, in bytes. It is unlikely that another pod is equal, and pods can
/// exceed a megabyte.
const LARGEST: usize = 64 << 10;

/// Assigns ids to signatures, in the order in which they appear.
#[derive(Debug)]
pub(crate) struct Signatures {
    reads: PodReads,
    /// Whether pods that are being deleted have another signature.
    by_deletion: bool,
    /// The largest pod that gets a signature, in bytes.
    largest: usize,
    /// An example pod of each signature.
    pods: Vec<PodInfo>,
    /// Their approximate size in bytes.
    bytes: usize,
    /// The limit of `bytes`.
    most_bytes: usize,
    table: HashTable<(u64, SignatureId)>,
    /// The last signature that was found. Consecutive pods are often equal.
    last: Option<SignatureId>,
    /// The template of the last pod that had it, which need not be compared again.
    last_template: Option<Arc<PodTemplate>>,
}

impl Signatures {
    /// Pods have the same signature if they are equal in `reads`.
    pub(crate) fn new(reads: PodReads) -> Self {
        Signatures {
            reads,
            by_deletion: false,
            largest: LARGEST,
            pods: Vec::new(),
            bytes: 0,
            most_bytes: Budgets::default().signatures,
            table: HashTable::new(),
            last: None,
            last_template: None,
        }
    }

    /// The same, but pods that are being deleted have another signature than those that are not.
    pub(crate) fn by_deletion(self) -> Self {
        Signatures { by_deletion: true, ..self }
    }

    /// The same, but pods of any size have a signature.
    pub(crate) fn of_any_size(self) -> Self {
        Signatures { largest: usize::MAX, ..self }
    }

    /// Applies this memory limit in bytes from now on, and only to signatures that are added later. The cluster holds
    /// the pods known so far in any case, so that they take no additional memory here.
    pub(crate) fn count_from_here(&mut self, most_bytes: usize) {
        self.most_bytes = self.bytes.saturating_add(most_bytes);
    }

    /// The signature of `pod`, and whether it is new. `None` if there are too many signatures or the pod is
    /// too large.
    pub(crate) fn number(&mut self, pod: &PodInfo) -> Option<(SignatureId, bool)> {
        if let Some(last) = self.last
            && self.is_as_last(last, pod)
        {
            return Some((last, false));
        }
        let hash = signature::parts_hash(self.reads, pod);
        let is_same = |&(other, signature): &(u64, SignatureId)| {
            other == hash && self.are_equal(&self.pods[signature as usize], pod)
        };
        if let Some(&(_, signature)) = self.table.find(hash, is_same) {
            self.found(Some(signature));
            return Some((signature, false));
        }
        let bytes = pod.bytes();
        if self.is_full() || self.largest < bytes {
            return None;
        }
        self.bytes += bytes + size_of::<(u64, SignatureId, PodInfo)>();
        let signature =
            SignatureId::try_from(self.pods.len()).expect("there are fewer than 2^32 signatures");
        self.pods.push(pod.clone());
        self.table.insert_unique(hash, (hash, signature), |&(hash, _)| hash);
        self.found(Some(signature));
        Some((signature, true))
    }

    /// Forgets all signatures, and lifts the memory limit until [`count_from_here`](Self::count_from_here).
    pub(crate) fn begin(&mut self) {
        self.clear();
        self.most_bytes = usize::MAX;
    }

    /// Forgets all signatures.
    pub(crate) fn clear(&mut self) {
        self.pods.clear();
        self.bytes = 0;
        self.table.clear();
        self.found(None);
    }

    /// Notes which signature was found last.
    fn found(&mut self, last: Option<SignatureId>) {
        (self.last, self.last_template) = (last, None);
    }

    /// The size of the example pods, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Changes the memory limit, in bytes.
    #[cfg(test)]
    pub(super) fn limit(&mut self, most_bytes: usize) {
        self.most_bytes = most_bytes;
    }

    /// Whether no new signature can be added.
    pub(crate) fn is_full(&self) -> bool {
        self.pods.len() == MOST || self.most_bytes <= self.bytes
    }

    /// A pod with this signature.
    pub(crate) fn example(&self, signature: SignatureId) -> &PodInfo {
        &self.pods[signature as usize]
    }

    /// Whether a pod has the signature that was found last.
    fn is_as_last(&mut self, last: SignatureId, pod: &PodInfo) -> bool {
        let example = &self.pods[last as usize];
        let of_last = self.last_template.as_ref();
        if of_last.is_some_and(|template| Arc::ptr_eq(template, &pod.template)) {
            return self.are_equal_but_for_templates(example, pod);
        }
        let is_equal = self.are_equal(example, pod);
        if is_equal {
            self.last_template = Some(pod.template.clone());
        }
        is_equal
    }

    fn are_equal_but_for_templates(&self, one: &PodInfo, other: &PodInfo) -> bool {
        (!self.by_deletion || one.is_terminating() == other.is_terminating())
            && signature::parts_of_pods_are_alike(self.reads, one, other)
    }

    fn are_equal(&self, one: &PodInfo, other: &PodInfo) -> bool {
        self.are_equal_but_for_templates(one, other)
            && signature::templates_are_alike(self.reads, &one.template, &other.template)
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
    fn pods_that_are_equal_in_what_is_read_have_the_same_signature() {
        let mut signatures = Signatures::new(PodReads::LABELS | PodReads::REQUESTS);
        let mut signature = |name, app, cpu| signatures.number(&pod(name, app, cpu));
        assert_eq!(signature("a", "web", 1), Some((0, true)));
        assert_eq!(signature("b", "web", 1), Some((0, false)));
        assert_eq!(signature("c", "db", 1), Some((1, true)));
        assert_eq!(signature("d", "web", 2), Some((2, true)));
        assert_eq!(signature("e", "web", 1), Some((0, false)));
    }

    #[test]
    fn requests_with_equal_hashes_are_told_apart() {
        let mut signatures = Signatures::new(PodReads::REQUESTS);
        let (one, mut other) = (pod("a", "web", 1), Pod::clone(&pod("a", "web", 1)));
        other.asks.fit.scalar.insert("example.com/gpu".into(), 1);
        assert_eq!(signatures.number(&one), Some((0, true)));
        assert_eq!(signatures.number(&PodInfo::new(other)), Some((1, true)));
    }

    /// A pod of about this size, unlike any other.
    fn large(name: &str, bytes: usize) -> PodInfo {
        let mut pod = Pod::clone(&pod(name, name, 1));
        pod.annotations = [("a", "x".repeat(bytes))].into_iter().collect();
        PodInfo::new(pod)
    }

    #[test]
    fn a_very_large_pod_has_no_signature_unless_pods_of_any_size_have_one() {
        let mut signatures = Signatures::new(PodReads::LABELS);
        assert_eq!(signatures.number(&large("a", 2 * LARGEST)), None);
        assert_eq!(signatures.number(&large("b", LARGEST / 2)), Some((0, true)));
        let mut signatures = Signatures::new(PodReads::LABELS).of_any_size();
        assert_eq!(signatures.number(&large("a", 2 * LARGEST)), Some((0, true)));
    }

    #[test]
    fn the_bytes_of_example_pods_limit_the_signatures() {
        let mut signatures = Signatures::new(PodReads::LABELS).of_any_size();
        signatures.begin();
        assert!(signatures.number(&large("a", 1 << 20)).is_some());
        signatures.count_from_here(1 << 30);
        signatures.most_bytes = signatures.bytes + 12_000;
        assert_eq!(signatures.number(&large("b", 8_000)), Some((1, true)));
        assert!(!signatures.is_full());
        assert_eq!(signatures.number(&large("c", 8_000)), Some((2, true)));
        assert!(signatures.is_full());
        assert_eq!(signatures.number(&large("d", 8_000)), None);
        assert_eq!(signatures.number(&large("b", 8_000)), Some((1, false)));
        signatures.clear();
        assert!(!signatures.is_full());
    }

    #[test]
    fn pods_that_are_being_deleted_may_have_another_signature() {
        let mut signatures = Signatures::new(PodReads::LABELS).by_deletion();
        let (one, mut other) = (pod("a", "web", 1), Pod::clone(&pod("a", "web", 1)));
        other.deletion = Some(plimsoll_api::Timestamp::UNIX_EPOCH);
        assert_eq!(signatures.number(&one), Some((0, true)));
        assert_eq!(signatures.number(&PodInfo::new(other)), Some((1, true)));
    }
}
