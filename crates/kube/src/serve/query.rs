//! What several paths read from a query.

use plimsoll_api::PodKey;

/// A pod as `NAMESPACE/NAME`.
pub(super) fn pod_key(text: &str) -> Option<PodKey> {
    let (namespace, name) = text.split_once('/')?;
    let is_key = !namespace.is_empty() && !name.is_empty() && !name.contains('/');
    is_key.then(|| PodKey::new(namespace, name))
}
