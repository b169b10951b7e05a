//! Objects of one kind by their keys: as they were observed, and as they are assumed to be.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use hashbrown::{Equivalent, HashMap};
use rustc_hash::FxBuildHasher;
use slab::Slab;

use crate::kind::key_of;
use crate::{AnyObject, Kind, KindRef, Labels, Namespace, ObjectKey, Str};

/// The key of an object by its parts, to look it up without a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyRef<'a> {
    /// The namespace; empty for a cluster-wide object.
    pub namespace: &'a str,
    /// The name.
    pub name: &'a str,
}

impl Equivalent<ObjectKey> for KeyRef<'_> {
    fn equivalent(&self, key: &ObjectKey) -> bool {
        self.name == key.name && self.namespace == key.namespace
    }
}

/// The name of a cluster-wide object.
impl<'a> From<&'a str> for KeyRef<'a> {
    fn from(name: &'a str) -> Self {
        KeyRef { namespace: "", name }
    }
}

/// The name of a cluster-wide object.
impl<'a> From<&'a Str> for KeyRef<'a> {
    fn from(name: &'a Str) -> Self {
        KeyRef { namespace: "", name }
    }
}

/// Namespace and name.
impl<'a> From<(&'a str, &'a str)> for KeyRef<'a> {
    fn from((namespace, name): (&'a str, &'a str)) -> Self {
        KeyRef { namespace, name }
    }
}

impl<'a> From<&'a ObjectKey> for KeyRef<'a> {
    fn from(key: &'a ObjectKey) -> Self {
        KeyRef { namespace: &key.namespace, name: &key.name }
    }
}

/// The name as a copy.
impl From<KeyRef<'_>> for ObjectKey {
    fn from(key: KeyRef<'_>) -> Self {
        ObjectKey::new(key.namespace, key.name)
    }
}

/// An object before and after a change. `before` is missing if it was added, `after` if it was deleted.
#[derive(Debug, PartialEq, Eq)]
pub struct Versions<K> {
    /// As it was.
    pub before: Option<Arc<K>>,
    /// As it is.
    pub after: Option<Arc<K>>,
    /// What it was assumed to be until then, if the change has ended that.
    pub dropped: Option<Arc<K>>,
}

impl<K> Clone for Versions<K> {
    fn clone(&self) -> Self {
        let Versions { before, after, dropped } = self;
        Versions { before: before.clone(), after: after.clone(), dropped: dropped.clone() }
    }
}

/// [`Versions`] of an object of any kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnyVersions {
    /// Its kind.
    pub kind: KindRef,
    /// As it was.
    pub before: Option<AnyObject>,
    /// As it is.
    pub after: Option<AnyObject>,
    /// What it was assumed to be until then, if the change has ended that.
    pub dropped: Option<AnyObject>,
}

impl AnyVersions {
    /// The versions, if the object is of kind `K`.
    pub fn of<K: Kind>(&self) -> Option<Versions<K>> {
        let shared = |object: &Option<AnyObject>| object.as_ref().and_then(AnyObject::shared);
        self.kind.is::<K>().then(|| Versions {
            before: shared(&self.before),
            after: shared(&self.after),
            dropped: shared(&self.dropped),
        })
    }
}

impl<K: Kind> From<Versions<K>> for AnyVersions {
    fn from(of: Versions<K>) -> Self {
        let any = |object: Option<Arc<K>>| object.map(AnyObject::from);
        AnyVersions {
            kind: KindRef::of::<K>(),
            before: any(of.before),
            after: any(of.after),
            dropped: any(of.dropped),
        }
    }
}

/// All that a store holds of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnyEntry {
    /// As it was observed; `None` for one that is only assumed.
    pub observed: Option<AnyObject>,
    /// What it is assumed to be, if that differs.
    pub assumed: Option<AnyObject>,
    /// Whether that stays assumed, whatever is observed: the number of the cycle in which it was [held](Store::hold).
    pub held_in: Option<u64>,
}

/// All that a store holds of one object. It was observed, or it is held.
#[derive(Debug)]
pub struct StoreEntry<K> {
    observed: Option<Arc<K>>,
    /// What it is assumed to be, if that differs from what was observed.
    assumed: Option<Arc<K>>,
    /// Whether that stays assumed, whatever is observed: the number of the cycle in which it was held.
    held_in: Option<u64>,
}

impl<K> StoreEntry<K> {
    /// The object as it was observed; `None` if it is only held.
    pub fn observed(&self) -> Option<&Arc<K>> {
        self.observed.as_ref()
    }

    /// What it is assumed to be, if there is an assumption.
    pub fn assumed(&self) -> Option<&Arc<K>> {
        self.assumed.as_ref()
    }

    /// What it is assumed to be, if the assumption is [held](Store::hold).
    pub fn held(&self) -> Option<&Arc<K>> {
        self.assumed.as_ref().filter(|_| self.held_in.is_some())
    }

    /// The number of the cycle in which the assumption was [held](Store::hold), if it still is.
    pub fn held_in(&self) -> Option<u64> {
        self.held_in
    }

    /// The object, as it is assumed to be.
    pub fn latest(&self) -> &Arc<K> {
        let latest = self.assumed.as_ref().or(self.observed.as_ref());
        latest.expect("an object was observed, or it is held")
    }
}

impl<K> Clone for StoreEntry<K> {
    fn clone(&self) -> Self {
        let StoreEntry { observed, assumed, held_in } = self;
        StoreEntry { observed: observed.clone(), assumed: assumed.clone(), held_in: *held_in }
    }
}

/// Objects of one kind by their keys: as they were observed, and as they are assumed to be because of pods that
/// have a node.
///
/// # Which of the two is used
///
/// An assumption is used until a different state of the object is observed. It is then dropped, whatever the new
/// state is. If the same state is reported again, as in a relist, the assumption remains. As in
/// passive_assume_cache.go, mayExpire: an object of an API server has a version, so no two of its states are equal. A
/// watch never goes back in time, so a state that differs is newer. A kind can say of a state that the assumed one
/// [may follow](Kind::may_follow) it.
///
/// An assumption that is [held](Store::hold) is used until it is dropped, whatever is observed.
pub struct Store<K> {
    /// The objects. The maps have their places in it, so that a change of an object changes no map.
    entries: Slab<StoreEntry<K>>,
    /// A hash map, because filters look up objects for every node.
    by_key: HashMap<ObjectKey, usize, FxBuildHasher>,
    /// The objects in the order of their keys.
    in_order: BTreeMap<ObjectKey, usize>,
    /// The same by [`Kind::index`] of what they are assumed to be. Each value has at least one object.
    by_index: BTreeMap<Str, BTreeMap<ObjectKey, usize>>,
}

impl<K> Default for Store<K> {
    fn default() -> Self {
        Store {
            entries: Slab::new(),
            by_key: HashMap::default(),
            in_order: BTreeMap::new(),
            by_index: BTreeMap::new(),
        }
    }
}

impl<K> Clone for Store<K> {
    fn clone(&self) -> Self {
        Store {
            entries: self.entries.clone(),
            by_key: self.by_key.clone(),
            in_order: self.in_order.clone(),
            by_index: self.by_index.clone(),
        }
    }
}

impl<K: fmt::Debug> fmt::Debug for Store<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.in_order.iter().map(|(key, &at)| (key, self.entries[at].latest()));
        f.debug_map().entries(all).finish()
    }
}

/// The objects of one namespace, by their names.
fn in_namespace(
    objects: &BTreeMap<ObjectKey, usize>,
    namespace: Str,
) -> impl Iterator<Item = (&Str, usize)> {
    let from_here = objects.range(ObjectKey::new(namespace.clone(), "")..);
    from_here
        .take_while(move |(key, _)| key.namespace == namespace)
        .map(|(key, at)| (&key.name, *at))
}

impl<K: Kind> Store<K> {
    /// Stores an object as it was observed. Returns the observed states before and now, and an assumed one that this has
    /// ended; `None` if the observed states are equal.
    pub fn set(&mut self, object: impl Into<Arc<K>>) -> Option<Versions<K>> {
        let object = object.into();
        let key = key_of(&*object);
        let Some(&at) = self.by_key.get(&key) else {
            let observed = Some(object.clone());
            self.enter(key, StoreEntry { observed, assumed: None, held_in: None });
            return Some(Versions { before: None, after: Some(object), dropped: None });
        };
        let entry = &self.entries[at];
        let is_seen = |seen: &Arc<K>| Arc::ptr_eq(seen, &object) || **seen == *object;
        if entry.observed.as_ref().is_some_and(is_seen) {
            return None;
        }
        let may_follow = |assumed: &Arc<K>| assumed.may_follow(&object);
        let remains = entry.held_in.is_some() || entry.assumed.as_ref().is_some_and(may_follow);
        Some(self.change(at, &key, |entry| {
            let before = entry.observed.replace(object.clone());
            let dropped = entry.assumed.take_if(|_| !remains);
            Versions { before, after: Some(object), dropped }
        }))
    }

    /// Removes an object, with what is assumed about it. `None` if it was not observed.
    pub fn remove(&mut self, key: &ObjectKey) -> Option<Versions<K>> {
        self.entry(key)?.observed.as_ref()?;
        let StoreEntry { observed, assumed, .. } = self.leave(key)?;
        Some(Versions { before: observed, after: None, dropped: assumed })
    }

    /// Assumes that an object is as given. Returns whether it could: an object that was never observed, or that is
    /// gone, cannot be assumed.
    pub fn assume(&mut self, object: impl Into<Arc<K>>) -> bool {
        let object = object.into();
        let key = key_of(&*object);
        let known = self.by_key.get(&key).filter(|at| self.entries[**at].observed.is_some());
        let Some(&at) = known else { return false };
        self.change(at, &key, |entry| {
            (entry.assumed, entry.held_in) = (Some(object), None);
        });
        true
    }

    /// Assumes that an object is as given until this is [dropped](Self::restore), replaced, or the object is deleted. The
    /// object need not have been observed. `cycle` is the number of the [cycle of a group](crate::ObjectStores::cycle), 0
    /// without one.
    pub fn hold(&mut self, object: impl Into<Arc<K>>, cycle: u64) {
        let object = object.into();
        let key = key_of(&*object);
        if let Some(&at) = self.by_key.get(&key) {
            self.change(at, &key, |entry| {
                (entry.assumed, entry.held_in) = (Some(object), Some(cycle));
            });
        } else {
            let held_in = Some(cycle);
            self.enter(key, StoreEntry { observed: None, assumed: Some(object), held_in });
        }
    }

    /// Drops the assumption about an object, if there is one.
    pub fn restore(&mut self, key: &ObjectKey) {
        let Some(&at) = self.by_key.get(key) else { return };
        let entry = &self.entries[at];
        match (&entry.observed, &entry.assumed) {
            (_, None) => {}
            (None, Some(_)) => _ = self.leave(key),
            (Some(_), Some(_)) => self.change(at, key, |entry| {
                (entry.assumed, entry.held_in) = (None, None);
            }),
        }
    }

    /// All that is held of the object of this key.
    pub fn entry<'a>(&self, key: impl Into<KeyRef<'a>>) -> Option<&StoreEntry<K>> {
        self.by_key.get(&key.into()).map(|&at| &self.entries[at])
    }

    /// The object of this key, as it is assumed to be.
    pub fn get<'a>(&self, key: impl Into<KeyRef<'a>>) -> Option<&Arc<K>> {
        self.entry(key).map(StoreEntry::latest)
    }

    /// The object of this key, as it was observed.
    pub fn observed<'a>(&self, key: impl Into<KeyRef<'a>>) -> Option<&Arc<K>> {
        self.entry(key)?.observed()
    }

    /// Whether there is an assumption about the object.
    pub fn is_assumed<'a>(&self, key: impl Into<KeyRef<'a>>) -> bool {
        self.entry(key).is_some_and(|entry| entry.assumed.is_some())
    }

    /// Whether an assumption about the object is [held](Self::hold).
    pub fn is_held<'a>(&self, key: impl Into<KeyRef<'a>>) -> bool {
        self.held_in(key).is_some()
    }

    /// The number of the cycle in which an assumption about the object was [held](Self::hold), if it still is.
    pub fn held_in<'a>(&self, key: impl Into<KeyRef<'a>>) -> Option<u64> {
        self.entry(key)?.held_in
    }

    /// All objects as they are assumed to be, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<K>> {
        self.in_order.values().map(|&at| self.entries[at].latest())
    }

    /// The objects of one namespace with their names, in the order of the names.
    pub fn in_namespace<'a>(
        &'a self,
        namespace: &str,
    ) -> impl Iterator<Item = (&'a Str, &'a Arc<K>)> + use<'a, K> {
        let all = in_namespace(&self.in_order, namespace.into());
        all.map(|(name, at)| (name, self.entries[at].latest()))
    }

    /// The objects with this [`Kind::index`], in the order of their keys.
    pub fn by_index(&self, value: &str) -> impl Iterator<Item = &Arc<K>> {
        let all = self.by_index.get(value).into_iter().flat_map(BTreeMap::values);
        all.map(|&at| self.entries[at].latest())
    }

    /// The objects of one namespace with this [`Kind::index`], with their names, in the order of the names.
    pub fn by_index_in_namespace<'a>(
        &'a self,
        namespace: &str,
        value: &str,
    ) -> impl Iterator<Item = (&'a Str, &'a Arc<K>)> + use<'a, K> {
        let namespace = Str::from(namespace);
        let all = self.by_index.get(value).into_iter();
        all.flat_map(move |objects| in_namespace(objects, namespace.clone()))
            .map(|(name, at)| (name, self.entries[at].latest()))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.in_order.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.in_order.is_empty()
    }

    /// A new object.
    fn enter(&mut self, key: ObjectKey, entry: StoreEntry<K>) {
        let latest = entry.latest().clone();
        let at = self.entries.insert(entry);
        self.add_to_index(latest.index(), &key, at);
        self.in_order.insert(key.clone(), at);
        self.by_key.insert(key, at);
    }

    /// An object is gone; `None` if there was none.
    fn leave(&mut self, key: &ObjectKey) -> Option<StoreEntry<K>> {
        let at = self.by_key.remove(key)?;
        self.in_order.remove(key);
        let gone = self.entries.remove(at);
        self.remove_from_index(gone.latest().index(), key);
        Some(gone)
    }

    /// Changes an object that remains.
    fn change<T>(
        &mut self,
        at: usize,
        key: &ObjectKey,
        change: impl FnOnce(&mut StoreEntry<K>) -> T,
    ) -> T {
        let entry = &mut self.entries[at];
        let before = entry.latest().clone();
        let result = change(entry);
        let after = entry.latest().clone();
        if before.index() != after.index() {
            self.remove_from_index(before.index(), key);
            self.add_to_index(after.index(), key, at);
        }
        result
    }

    fn add_to_index(&mut self, value: Option<&str>, key: &ObjectKey, at: usize) {
        if let Some(value) = value {
            self.by_index.entry(value.into()).or_default().insert(key.clone(), at);
        }
    }

    fn remove_from_index(&mut self, value: Option<&str>, key: &ObjectKey) {
        if let Some(value) = value
            && let Some(objects) = self.by_index.get_mut(value)
        {
            objects.remove(key);
            if objects.is_empty() {
                self.by_index.remove(value);
            }
        }
    }
}

impl Store<Namespace> {
    /// The labels of namespace `name`; none if it is unknown.
    pub fn labels(&self, name: &str) -> &Labels {
        static NONE: Labels = Labels::empty();
        self.get(name).map_or(&NONE, |namespace| &namespace.labels)
    }
}

/// The store of one kind, without its type. It is shared: plugins may keep snapshots of it.
pub(crate) trait ErasedStore: Any + fmt::Debug + Send + Sync {
    fn kind(&self) -> KindRef;
    fn set(&mut self, object: &AnyObject) -> Option<AnyVersions>;
    fn remove(&mut self, key: &ObjectKey) -> Option<AnyVersions>;
    fn assume(&mut self, object: &AnyObject);
    fn hold(&mut self, object: &AnyObject, cycle: u64);
    fn restore(&mut self, key: &ObjectKey);
    fn entry(&self, key: &ObjectKey) -> Option<AnyEntry>;
    fn latest(&self, key: &ObjectKey) -> Option<AnyObject>;
    fn all(&self) -> Box<dyn Iterator<Item = AnyObject> + '_>;
    /// The objects after this key, in the order of their keys, at most so many.
    fn some_after(&self, key: Option<&ObjectKey>, most: usize) -> Vec<(ObjectKey, AnyObject)>;
    fn clone_box(&self) -> Box<dyn ErasedStore>;
}

impl<K: Kind> ErasedStore for Arc<Store<K>> {
    fn kind(&self) -> KindRef {
        KindRef::of::<K>()
    }
    fn set(&mut self, object: &AnyObject) -> Option<AnyVersions> {
        Arc::make_mut(self).set(object.shared()?).map(AnyVersions::from)
    }
    fn remove(&mut self, key: &ObjectKey) -> Option<AnyVersions> {
        Arc::make_mut(self).remove(key).map(AnyVersions::from)
    }
    fn assume(&mut self, object: &AnyObject) {
        if let Some(object) = object.shared::<K>() {
            Arc::make_mut(self).assume(object);
        }
    }
    fn hold(&mut self, object: &AnyObject, cycle: u64) {
        if let Some(object) = object.shared::<K>() {
            Arc::make_mut(self).hold(object, cycle);
        }
    }
    fn restore(&mut self, key: &ObjectKey) {
        Arc::make_mut(self).restore(key);
    }
    fn entry(&self, key: &ObjectKey) -> Option<AnyEntry> {
        let entry = Store::entry(self, key)?;
        let any = |object: &Option<Arc<K>>| object.clone().map(AnyObject::from);
        let (observed, assumed) = (any(&entry.observed), any(&entry.assumed));
        Some(AnyEntry { observed, assumed, held_in: entry.held_in })
    }
    fn latest(&self, key: &ObjectKey) -> Option<AnyObject> {
        self.get(key).map(|object| AnyObject::from(object.clone()))
    }
    fn all(&self) -> Box<dyn Iterator<Item = AnyObject> + '_> {
        Box::new(self.iter().map(|object| AnyObject::from(object.clone())))
    }
    fn some_after(&self, key: Option<&ObjectKey>, most: usize) -> Vec<(ObjectKey, AnyObject)> {
        let from = key.map_or(Bound::Unbounded, Bound::Excluded);
        let after = self.in_order.range((from, Bound::Unbounded)).take(most);
        let object = |at: usize| AnyObject::from(self.entries[at].latest().clone());
        after.map(|(key, at)| (key.clone(), object(*at))).collect()
    }
    fn clone_box(&self) -> Box<dyn ErasedStore> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher;

    use super::*;
    use crate::devices::Allocation;
    use crate::{
        ClaimRef, PersistentVolume, PodDisruptionBudget, ResourceClaim, StorageClass, VolumePhase,
    };

    #[test]
    fn an_object_is_found_by_the_parts_of_its_key() {
        let (key, by_parts) = (ObjectKey::new("team", "data"), KeyRef::from(("team", "data")));
        let hasher = FxBuildHasher;
        assert_eq!(hasher.hash_one(&key), hasher.hash_one(by_parts));
        assert!(by_parts.equivalent(&key));
        assert!(!by_parts.equivalent(&ObjectKey::new("data", "team")));
    }

    #[test]
    fn an_equal_object_is_no_change() {
        let mut classes = Store::default();
        let class = StorageClass { name: "fast".into(), ..StorageClass::default() };
        let came = classes.set(class.clone()).expect("it is new");
        assert_eq!((came.before, came.after.as_deref()), (None, Some(&class)));
        assert_eq!(classes.set(class.clone()), None);
        let other = StorageClass { is_default: true, ..class.clone() };
        let changed = classes.set(other.clone()).expect("it differs");
        assert_eq!(
            (changed.before.as_deref(), changed.after.as_deref()),
            (Some(&class), Some(&other))
        );
        let gone = classes.remove(&ObjectKey::new("", "fast")).expect("it is known");
        assert_eq!((gone.before.as_deref(), gone.after), (Some(&other), None));
        assert_eq!(classes.remove(&ObjectKey::new("", "fast")), None);
    }

    #[test]
    fn an_assumption_that_is_held_stays_until_it_is_dropped_or_the_object_is_gone() {
        let mut store = Store::default();
        store.set(volume());
        store.hold(claimed(), 0);
        let released = PersistentVolume { phase: VolumePhase::Released, ..volume() };
        let change = store.set(released.clone()).expect("it differs from what was seen");
        assert_eq!((change.before.as_deref(), change.dropped), (Some(&volume()), None));
        assert_eq!(store.get("pv").map(|one| &**one), Some(&claimed()));
        assert_eq!(store.observed("pv").map(|one| &**one), Some(&released));
        assert!(store.is_held("pv"));
        store.restore(&key());
        assert_eq!(store.get("pv").map(|one| &**one), Some(&released));
        store.hold(claimed(), 0);
        let gone = store.remove(&key()).expect("it was seen");
        assert_eq!((gone.before.as_deref(), gone.after), (Some(&released), None));
        assert_eq!(gone.dropped.as_deref(), Some(&claimed()));
        assert_eq!(store.get("pv"), None);
    }

    #[test]
    fn an_object_that_was_never_observed_can_be_held() {
        let mut store = Store::default();
        store.hold(claimed(), 0);
        assert_eq!(store.get("pv").map(|one| &**one), Some(&claimed()));
        assert_eq!((store.observed("pv"), store.iter().count()), (None, 1));
        assert_eq!(store.remove(&key()), None);
        store.restore(&key());
        assert_eq!((store.get("pv"), store.iter().count()), (None, 0));
    }

    #[test]
    fn an_object_that_comes_after_another_one_is_gone_is_not_taken_for_it() {
        let volume = |name: &str, class: &str| PersistentVolume {
            name: name.into(),
            class: class.into(),
            ..PersistentVolume::default()
        };
        let mut store = Store::default();
        for name in ["b", "c"] {
            store.set(volume(name, "x"));
        }
        let snapshot = store.clone();
        store.remove(&ObjectKey::new("", "b"));
        store.set(volume("d", "x"));
        store.hold(volume("a", "y"), 0);
        let names = |store: &Store<PersistentVolume>| -> Vec<String> {
            store.iter().map(|one| one.name.to_string()).collect()
        };
        assert_eq!(names(&store), ["a", "c", "d"]);
        assert_eq!(store.get("d").map(|one| one.name.as_str()), Some("d"));
        assert_eq!((store.get("b"), store.len()), (None, 3));
        let in_class = store.by_index("x").map(|one| one.name.as_str());
        assert_eq!(in_class.collect::<Vec<_>>(), ["c", "d"]);
        assert_eq!(names(&snapshot), ["b", "c"]);
    }

    #[test]
    fn all_that_is_held_of_an_object_is_in_its_entry() {
        let states = |store: &Store<PersistentVolume>| {
            let entry = store.entry("pv")?;
            let is_claimed =
                |one: Option<&Arc<PersistentVolume>>| one.map(|one| one.claim.is_some());
            let held = (is_claimed(entry.held()), entry.held_in());
            Some((
                is_claimed(entry.observed()),
                is_claimed(entry.assumed()),
                held,
                entry.latest().claim.is_some(),
            ))
        };
        let mut store = Store::default();
        assert_eq!(states(&store), None);
        store.hold(claimed(), 7);
        assert_eq!(states(&store), Some((None, Some(true), (Some(true), Some(7)), true)));
        store.set(volume());
        assert_eq!(states(&store), Some((Some(false), Some(true), (Some(true), Some(7)), true)));
        store.assume(claimed());
        assert_eq!(states(&store), Some((Some(false), Some(true), (None, None), true)));
        store.restore(&key());
        assert_eq!(states(&store), Some((Some(false), None, (None, None), false)));
    }

    #[test]
    fn budgets_are_found_by_namespace() {
        let mut budgets = Store::default();
        for (namespace, name) in [("a", "x"), ("b", "y"), ("b", "x"), ("c", "x")] {
            let key = ObjectKey::new(namespace, name);
            budgets.set(PodDisruptionBudget { key, ..PodDisruptionBudget::default() });
        }
        let keys: Vec<_> = budgets.in_namespace("b").map(|(_, one)| one.key.to_string()).collect();
        assert_eq!(keys, ["b/x", "b/y"]);
        assert_eq!(budgets.in_namespace("").count(), 0);
    }

    fn key() -> ObjectKey {
        ObjectKey::new("", "pv")
    }

    fn volume() -> PersistentVolume {
        PersistentVolume { name: "pv".into(), ..PersistentVolume::default() }
    }

    fn claimed() -> PersistentVolume {
        let claim = ClaimRef { key: ObjectKey::default(), uid: "c".into() };
        PersistentVolume { claim: Some(claim), ..volume() }
    }

    fn store() -> Store<PersistentVolume> {
        let mut store = Store::default();
        store.set(volume());
        assert!(store.assume(claimed()));
        store
    }

    #[test]
    fn an_assumption_is_used_and_the_observed_object_is_kept() {
        let store = store();
        assert_eq!(store.get("pv").map(|one| &**one), Some(&claimed()));
        assert_eq!(store.observed("pv").map(|one| &**one), Some(&volume()));
        assert_eq!(store.iter().count(), 1);
        assert!(store.is_assumed("pv"));
    }

    #[test]
    fn an_assumption_remains_if_the_same_state_is_reported_again() {
        let mut store = store();
        assert_eq!(store.set(volume()), None);
        assert!(store.is_assumed("pv"));
    }

    #[test]
    fn any_new_state_ends_the_assumption() {
        for seen in [claimed(), PersistentVolume { phase: VolumePhase::Released, ..volume() }] {
            let mut store = store();
            let change = store.set(seen.clone()).expect("it differs from what was seen");
            assert_eq!(change.before.as_deref(), Some(&volume()));
            assert_eq!(change.after.as_deref(), Some(&seen));
            assert_eq!(change.dropped.as_deref(), Some(&claimed()));
            assert_eq!(store.get("pv").map(|one| &**one), Some(&seen));
            assert!(!store.is_assumed("pv"));
        }
    }

    #[test]
    fn devices_of_a_claim_stay_assumed_while_it_gets_its_finalizer() {
        let new = ResourceClaim { key: ObjectKey::new("team", "gpu"), ..ResourceClaim::default() };
        let finalizers = vec![Str::const_new(ResourceClaim::FINALIZER)];
        let protected = ResourceClaim { finalizers, ..new.clone() };
        let allocated =
            ResourceClaim { allocation: Some(Allocation::default()), ..protected.clone() };
        let freed = ResourceClaim { resource_version: "9".into(), ..new.clone() };
        for (seen, remains) in [(&protected, true), (&allocated, false), (&freed, false)] {
            let mut store = Store::default();
            store.set(new.clone());
            store.assume(allocated.clone());
            store.set(seen.clone());
            assert_eq!(store.is_assumed(&new.key), remains, "after {seen:?}");
        }
    }

    #[test]
    fn an_assumption_can_be_dropped() {
        let mut store = store();
        store.restore(&key());
        assert_eq!(store.get("pv").map(|one| &**one), Some(&volume()));
        store.assume(claimed());
        store.set(claimed());
        store.restore(&key());
        assert_eq!(store.get("pv").map(|one| &**one), Some(&claimed()));
    }

    #[test]
    fn a_missing_object_cannot_be_assumed() {
        let mut store = store();
        store.remove(&key());
        assert_eq!(store.get("pv"), None);
        assert!(!store.assume(claimed()));
        store.restore(&key());
        assert_eq!(store.get("pv"), None);
    }

    #[test]
    fn volumes_are_found_by_their_assumed_class_or_claim() {
        let volume = |name: &str, class: &str| PersistentVolume {
            name: name.into(),
            class: class.into(),
            ..PersistentVolume::default()
        };
        let mut store = Store::default();
        for (name, class) in [("b", "x"), ("a", "x"), ("c", "y"), ("d", "")] {
            store.set(volume(name, class));
        }
        store.assume(volume("c", "x"));
        let names = |store: &Store<PersistentVolume>| -> Vec<String> {
            store.by_index("x").map(|one| one.name.to_string()).collect()
        };
        assert_eq!(names(&store), ["a", "b", "c"]);
        store.restore(&ObjectKey::new("", "c"));
        assert_eq!(names(&store), ["a", "b"]);
        store.assume(volume("a", "y"));
        store.assume(volume("unknown", "x"));
        assert_eq!(names(&store), ["b"]);
        let seen = PersistentVolume { phase: VolumePhase::Released, ..volume("a", "x") };
        store.set(seen.clone());
        assert_eq!(store.by_index("x").next().map(|one| &**one), Some(&seen));
        for name in ["a", "b"] {
            store.remove(&ObjectKey::new("", name));
        }
        assert_eq!(names(&store), [""; 0]);
        assert_eq!(store.by_index("").count(), 1);
        let claim = Some(ClaimRef { key: ObjectKey::new("default", "x"), uid: "".into() });
        store.assume(PersistentVolume { claim, ..volume("c", "y") });
        assert_eq!(names(&store), ["c"]);
        assert_eq!(store.by_index("y").count(), 0);
    }
}
