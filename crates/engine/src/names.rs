//! The known pods, by name. Each has an id for fast lookups.

use std::hash::{Hash, Hasher};
use std::ops::Index;
use std::sync::Arc;

use hashbrown::HashTable;
use plimsoll_api::{Pod, PodKey};
use rustc_hash::FxHasher;

/// The id of a known pod. It is reused after the pod is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PodId(u32);

impl PodId {
    /// The largest id.
    pub(crate) const LAST: PodId = PodId(u32::MAX);

    /// The id of the pod at this index.
    ///
    /// # Panics
    /// Beyond 2³² pods.
    pub(crate) fn from_index(index: usize) -> Self {
        PodId(u32::try_from(index).expect("fewer than 2^32 pods are known"))
    }

    /// Its index.
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// The known pods. Finding one by name takes constant time and is done once for each event; everything
/// else uses the id.
///
/// The order of ids has no meaning; code that needs an order uses names.
#[derive(Debug, Default)]
pub(crate) struct PodNames {
    /// Each as last observed, by id.
    pods: Vec<Option<Arc<Pod>>>,
    free: Vec<PodId>,
    /// Ids by the hash of the name. The hash is stored as well, so that a growing table need not access
    /// pods.
    index: HashTable<(Digest, PodId)>,
}

impl PodNames {
    /// Adds an unknown pod.
    pub(crate) fn insert(&mut self, pod: Arc<Pod>) -> PodId {
        let digest = Digest::of(&pod.key);
        debug_assert!(self.find(&pod.key).is_none(), "a pod has one number");
        let id = self.free.pop().unwrap_or_else(|| {
            self.pods.push(None);
            PodId::from_index(self.pods.len() - 1)
        });
        self.pods[id.index()] = Some(pod);
        self.index.insert_unique(digest.hash(), (digest, id), |(digest, _)| digest.hash());
        id
    }

    /// Updates a pod.
    pub(crate) fn update(&mut self, id: PodId, pod: Arc<Pod>) {
        debug_assert!(self[id].key == pod.key, "a pod keeps its name");
        self.pods[id.index()] = Some(pod);
    }

    /// Removes a pod.
    pub(crate) fn forget(&mut self, id: PodId) {
        let pod = self.pods[id.index()].take().expect(KNOWN);
        let hash = Digest::of(&pod.key).hash();
        let entry = self.index.find_entry(hash, |(_, known)| *known == id);
        entry.expect("every pod is in the index").remove();
        self.free.push(id);
    }

    /// How many ids there are, with those that no pod has now.
    pub(crate) fn n_ids(&self) -> usize {
        self.pods.len()
    }

    /// All known pods, in no particular order.
    pub(crate) fn pods(&self) -> impl Iterator<Item = &Pod> {
        self.pods.iter().flatten().map(|pod| &**pod)
    }

    /// The id of the pod named `key`.
    pub(crate) fn find(&self, key: &PodKey) -> Option<PodId> {
        if self.index.is_empty() {
            return None;
        }
        let wanted = Digest::of(key);
        let is_it = |&(digest, id): &(Digest, PodId)| digest == wanted && self[id].key == *key;
        self.index.find(wanted.hash(), is_it).map(|&(_, id)| id)
    }
}

const KNOWN: &str = "a number is used as long as its pod is known";

impl Index<PodId> for PodNames {
    type Output = Pod;
    fn index(&self, id: PodId) -> &Pod {
        self.pods[id.index()].as_ref().expect(KNOWN)
    }
}

/// A hash of a name, of half the usual size, so that the index of a million pods is more compact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Digest(u32);

impl Digest {
    fn of(key: &PodKey) -> Self {
        let mut hasher = FxHasher::default();
        key.hash(&mut hasher);
        let hash = hasher.finish();
        let folded = (hash ^ hash >> u32::BITS) & u64::from(u32::MAX);
        Digest(u32::try_from(folded).expect("it was cut to 32 bits"))
    }

    /// The table uses both ends of a hash.
    fn hash(self) -> u64 {
        u64::from(self.0) << u32::BITS | u64::from(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(namespace: &str, name: &str) -> Arc<Pod> {
        Arc::new(Pod { key: PodKey::new(namespace, name), ..Pod::default() })
    }

    #[test]
    fn a_pod_is_found_by_name_until_it_is_forgotten() {
        let mut names = PodNames::default();
        let [_, id, other] = ["b", "c", "a"].map(|name| names.insert(pod("default", name)));
        assert_eq!(names.find(&PodKey::new("default", "c")), Some(id));
        names.forget(id);
        assert_eq!(names.find(&PodKey::new("default", "c")), None);
        assert_eq!(names.find(&PodKey::new("default", "a")), Some(other));
    }

    #[test]
    fn a_number_is_given_again_to_another_pod() {
        let mut names = PodNames::default();
        let id = names.insert(pod("default", "a"));
        names.forget(id);
        assert_eq!(names.insert(pod("default", "b")), id);
        assert!(names.find(&PodKey::new("default", "a")).is_none());
        assert_eq!(names[id].key.name, "b");
    }

    #[test]
    fn namespaces_tell_pods_of_one_name_apart() {
        let mut names = PodNames::default();
        names.insert(pod("x", "p"));
        assert!(names.find(&PodKey::new("y", "p")).is_none());
        assert!(names.find(&PodKey::new("xp", "")).is_none());
    }
}
