//! Objects that may be taken to be other than they were last seen.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::hash::Hash;
use std::sync::Arc;

use hashbrown::{Equivalent, HashMap};
use rustc_hash::FxBuildHasher;

use crate::object_store::{Named, Versions};

/// One object.
#[derive(Clone, Debug)]
struct Entry<T> {
    observed: Arc<T>,
    /// What it is taken to be, where that is not what was seen.
    assumed: Option<Arc<T>>,
}

impl<T> Entry<T> {
    fn latest(&self) -> &Arc<T> {
        self.assumed.as_ref().unwrap_or(&self.observed)
    }
}

/// Objects of one kind by their names: as they were seen, and as they are taken to be, since a pod
/// that has its node needs them so.
///
/// # Which of both counts
///
/// What is assumed counts until the object is seen to be other than it was when last seen; then that
/// counts, whatever it is, and the assumption is dropped. An object that is told again as it was, as a
/// relist does, leaves the assumption standing. As in passive_assume_cache.go, mayExpire: an object of an
/// API server has a version, so that no two of its states are equal. A watch never goes back in time, so
/// a value that differs is newer.
#[derive(Clone, Debug)]
pub struct AssumeStore<T: Named> {
    in_order: BTreeSet<T::Key>,
    /// Filters look for one for each volume on every node.
    by_key: HashMap<T::Key, Entry<T>, FxBuildHasher>,
}

impl<T: Named> Default for AssumeStore<T> {
    fn default() -> Self {
        AssumeStore { in_order: BTreeSet::new(), by_key: HashMap::default() }
    }
}

impl<T: Named> AssumeStore<T> {
    /// Takes in an object as it was seen; `None` if it was seen so before. What is told is what was
    /// seen before and now, and never what was assumed.
    pub fn set(&mut self, object: T) -> Option<Versions<T>> {
        let known = self.by_key.get(object.key());
        if known.is_some_and(|entry| *entry.observed == object) {
            return None;
        }
        let observed = Arc::new(object);
        let entry = Entry { observed: observed.clone(), assumed: None };
        let before = self.by_key.insert(observed.key().clone(), entry);
        if before.is_none() {
            self.in_order.insert(observed.key().clone());
        }
        Some(Versions { before: before.map(|entry| entry.observed), after: Some(observed) })
    }

    /// Forgets an object that is gone, and what was assumed of it; `None` if it was not known.
    pub fn remove<Q: Ord + Hash + ?Sized>(&mut self, key: &Q) -> Option<Versions<T>>
    where
        T::Key: Borrow<Q>,
    {
        let entry = self.by_key.remove(key)?;
        self.in_order.remove(key);
        Some(Versions { before: Some(entry.observed), after: None })
    }

    /// Takes it that an object is so. One that was never seen, or is gone, cannot be assumed; whether
    /// it could.
    pub fn assume(&mut self, object: T) -> bool {
        let Some(entry) = self.by_key.get_mut(object.key()) else { return false };
        entry.assumed = Some(Arc::new(object));
        true
    }

    /// Takes back what was assumed of an object, if anything still is.
    pub fn restore<Q: Eq + Hash + ?Sized>(&mut self, key: &Q)
    where
        T::Key: Borrow<Q>,
    {
        if let Some(entry) = self.by_key.get_mut(key) {
            entry.assumed = None;
        }
    }

    /// The object of this name, as it is taken to be.
    pub fn get<Q: Hash + Equivalent<T::Key> + ?Sized>(&self, key: &Q) -> Option<&Arc<T>> {
        self.by_key.get(key).map(Entry::latest)
    }

    /// The object of this name, as it was seen.
    pub fn observed<Q: Hash + Equivalent<T::Key> + ?Sized>(&self, key: &Q) -> Option<&Arc<T>> {
        self.by_key.get(key).map(|entry| &entry.observed)
    }

    /// Whether something is assumed of the object that was not yet seen.
    pub fn is_assumed<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> bool
    where
        T::Key: Borrow<Q>,
    {
        self.by_key.get(key).is_some_and(|entry| entry.assumed.is_some())
    }

    /// All objects as they are taken to be, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.in_order.iter().filter_map(|key| self.get(key))
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_api::{ClaimRef, ObjectKey, PersistentVolume, VolumePhase};

    use super::*;

    fn volume() -> PersistentVolume {
        PersistentVolume { name: "pv".into(), ..PersistentVolume::default() }
    }

    fn claimed() -> PersistentVolume {
        let claim = ClaimRef { key: ObjectKey::default(), uid: "c".into() };
        PersistentVolume { claim: Some(claim), ..volume() }
    }

    fn store() -> AssumeStore<PersistentVolume> {
        let mut store = AssumeStore::default();
        store.set(volume());
        assert!(store.assume(claimed()));
        store
    }

    #[test]
    fn what_is_assumed_counts_and_what_was_seen_is_kept() {
        let store = store();
        assert_eq!(store.get("pv").map(|one| &**one), Some(&claimed()));
        assert_eq!(store.observed("pv").map(|one| &**one), Some(&volume()));
        assert_eq!(store.iter().count(), 1);
        assert!(store.is_assumed("pv"));
    }

    #[test]
    fn what_is_told_again_leaves_the_assumption_standing() {
        let mut store = store();
        assert_eq!(store.set(volume()), None);
        assert!(store.is_assumed("pv"));
    }

    #[test]
    fn what_is_seen_to_differ_ends_the_assumption_whether_it_is_so_or_not() {
        for seen in [claimed(), PersistentVolume { phase: VolumePhase::Released, ..volume() }] {
            let mut store = store();
            let change = store.set(seen.clone()).expect("it differs from what was seen");
            assert_eq!(change.before.as_deref(), Some(&volume()));
            assert_eq!(change.after.as_deref(), Some(&seen));
            assert_eq!(store.get("pv").map(|one| &**one), Some(&seen));
            assert!(!store.is_assumed("pv"));
        }
    }

    #[test]
    fn an_assumption_can_be_taken_back_until_it_is_seen() {
        let mut store = store();
        store.restore("pv");
        assert_eq!(store.get("pv").map(|one| &**one), Some(&volume()));
        store.assume(claimed());
        store.set(claimed());
        store.restore("pv");
        assert_eq!(store.get("pv").map(|one| &**one), Some(&claimed()));
    }

    #[test]
    fn nothing_is_assumed_of_what_is_not_there() {
        let mut store = store();
        store.remove("pv");
        assert_eq!(store.get("pv"), None);
        assert!(!store.assume(claimed()));
        store.restore("pv");
        assert_eq!(store.get("pv"), None);
    }
}
