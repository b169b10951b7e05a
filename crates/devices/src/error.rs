//! Why devices cannot be allocated on a node.

/// Why devices cannot be allocated on a node. That none are free is no error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AllocateError {
    /// No devices were found, and some pool that concerns the node is invalid. The node is rejected.
    #[error("invalid resource pools were encountered")]
    InvalidPools,
    /// The caller stopped the search.
    #[error("filter operation aborted")]
    Stopped,
    /// The node cannot be judged: then kube-scheduler fails the whole attempt.
    #[error("{0}")]
    Failed(String),
}

impl AllocateError {
    pub(crate) fn failed(text: impl Into<String>) -> Self {
        AllocateError::Failed(text.into())
    }
}
