//! The limits of what is remembered.
//!
//! Only the API server limits the size of a pod, and nothing limits the number of pods. So everything that is
//! remembered has a limit in bytes. The sizes are approximate; what matters is that they grow with what they
//! stand for. What exceeds its limit is dropped, and made again when it is needed.

/// The memory for each part of what is remembered, in bytes. A part may exceed its limit by what one decision adds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budgets {
    /// Node rankings. The least recently used one is dropped, but two always stay, since a decision needs up to two.
    pub(crate) rankings: usize,
    /// Sparse domain counts. They are quickly made again.
    pub(crate) sparse_counts: usize,
    /// Node diagnoses with their preemption candidates.
    pub(crate) diagnoses: usize,
    /// The totals of scans. If they take more, those of further classes are not kept.
    pub(crate) kept_totals: usize,
    /// Domain counts, with what pods on nodes add to them.
    pub(crate) domain_counts: usize,
    /// The domains of topology keys: with 5000 nodes about 500 keys that nodes have. There are rarely more than a
    /// hundred.
    pub(crate) topologies: usize,
    /// The verdicts of uncached filters, by what they depend on: some 1.25 bytes for each node and key.
    pub(crate) verdicts: usize,
    /// The example pods of the signatures of one use. A signature takes as much memory as a pod, even after its last
    /// pod is gone.
    pub(crate) signatures: usize,
    /// What is known of each signature of a profile beside its example pod.
    pub(crate) signature_tables: usize,
    /// The signatures of pods on nodes, and how many pods of each are on each node, beyond what they took when all was derived
    /// from the nodes. Beyond that all is derived again, since signatures outlive their pods.
    pub(crate) neighbours: usize,
    /// The arrays for scans: some 16 bytes for each node and resource. Where they take more, nothing is scanned.
    pub(crate) scanner: usize,
    /// The diagnoses of one profile that hold until the next change, without example pods. Most of it is for messages.
    pub(crate) signature_diagnoses: usize,
    /// Filters that were prepared to judge pods outside of decisions, with what they say of the nodes.
    pub(crate) prepared_filters: usize,
}

impl Default for Budgets {
    fn default() -> Self {
        Budgets {
            rankings: 1 << 30,
            sparse_counts: 256 << 20,
            diagnoses: 512 << 20,
            kept_totals: 256 << 20,
            domain_counts: 512 << 20,
            topologies: 128 << 20,
            verdicts: 64 << 20,
            signatures: 256 << 20,
            signature_tables: 128 << 20,
            neighbours: 256 << 20,
            scanner: 256 << 20,
            signature_diagnoses: 64 << 20,
            prepared_filters: 128 << 20,
        }
    }
}
