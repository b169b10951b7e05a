//! Objects of many kinds, and what is derived from them.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use crate::memo_cell::MemoCell;
use crate::store::{ErasedStore, Store};
use crate::{AnyEntry, AnyObject, AnyVersions, Kind, KindRef, ObjectKey};

/// What is computed from objects of some kinds, such as an index of them, and follows their changes one by one. See
/// [`ObjectStores::derived`].
pub trait Derived: Any + Clone + Send + Sync {
    /// An object was added, changed or deleted. Both are as it was and is assumed to be. The kind can be any.
    fn change(&mut self, change: &AnyVersions);

    /// What of it depends on the order in which objects of a kind have changed, and not only on what they are. It is
    /// [put back](Self::restore) when changes of such objects are undone.
    fn history(&self, _: KindRef) -> Option<Box<dyn Any + Send + Sync>> {
        None
    }

    /// Puts back what [`history`](Self::history) gave.
    fn restore(&mut self, _: &(dyn Any + Send + Sync)) {}
}

/// Any [`Derived`].
trait ErasedDerived: Any + Send + Sync {
    fn change(self: Arc<Self>, change: &AnyVersions) -> Arc<dyn ErasedDerived>;
    fn of(&self) -> TypeId;
    fn history(&self, kind: KindRef) -> Option<Box<dyn Any + Send + Sync>>;
    fn restore(self: Arc<Self>, history: &(dyn Any + Send + Sync)) -> Arc<dyn ErasedDerived>;
    fn any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

impl<D: Derived> ErasedDerived for D {
    fn change(mut self: Arc<Self>, change: &AnyVersions) -> Arc<dyn ErasedDerived> {
        Derived::change(Arc::make_mut(&mut self), change);
        self
    }
    fn of(&self) -> TypeId {
        TypeId::of::<D>()
    }
    fn history(&self, kind: KindRef) -> Option<Box<dyn Any + Send + Sync>> {
        Derived::history(self, kind)
    }
    fn restore(mut self: Arc<Self>, history: &(dyn Any + Send + Sync)) -> Arc<dyn ErasedDerived> {
        Derived::restore(Arc::make_mut(&mut self), history);
        self
    }
    fn any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

/// What of derived values depends on the order of changes. See [`ObjectStores::histories`].
pub struct Histories(Vec<(TypeId, Box<dyn Any + Send + Sync>)>);

impl fmt::Debug for Histories {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Histories({})", self.0.len())
    }
}

/// Objects of many kinds.
pub struct ObjectStores {
    stores: Vec<KindStore>,
    /// The place of each among them, by the type of the store: plugins look for their stores in every decision.
    places: HashMap<TypeId, usize, FxBuildHasher>,
    /// The number of the cycle of a group; 0 outside of one.
    cycle: u64,
    /// What was asked for.
    derived: MemoCell<Vec<Arc<dyn ErasedDerived>>>,
    /// The list that is being made, if there is one.
    listing: Option<Listing>,
}

/// A list of all objects as they were at one moment, which is made a few objects at a time while they change.
#[derive(Debug, Default)]
struct Listing {
    /// The store that is listed, and the key up to which it is.
    at: usize,
    up_to: Option<ObjectKey>,
    /// What changed since and is not listed yet, by store: as it was, or `None` if it was not there.
    before: BTreeMap<(usize, ObjectKey), Option<AnyObject>>,
}

impl Listing {
    /// An object is about to change, and is `now` what it was before.
    fn changes(&mut self, store: usize, key: &ObjectKey, now: impl FnOnce() -> Option<AnyObject>) {
        let is_listed = store < self.at || store == self.at && Some(key) <= self.up_to.as_ref();
        if !is_listed {
            self.before.entry((store, key.clone())).or_insert_with(now);
        }
    }

    /// Adds the objects that come next to a list: it reads at most `most`, and as many that have changed. Returns how many it
    /// has read.
    fn go_on(&mut self, store: &dyn ErasedStore, most: usize, list: &mut Vec<AnyObject>) -> usize {
        let mut present = store.some_after(self.up_to.as_ref(), most);
        let is_full = present.len() == most;
        let mut end = present.last().filter(|_| is_full).map(|(key, _)| key.clone());
        let first = self.up_to.clone().map_or_else(
            || Bound::Included((self.at, ObjectKey::default())),
            |key| Bound::Excluded((self.at, key)),
        );
        let until = match end.clone() {
            Some(key) => Bound::Included((self.at, key)),
            None => Bound::Excluded((self.at + 1, ObjectKey::default())),
        };
        let changed = self.before.range((first, until)).take(most);
        let changed: Vec<(usize, ObjectKey)> = changed.map(|(key, _)| key.clone()).collect();
        let n_read = present.len().max(changed.len());
        if changed.len() == most
            && let Some((_, key)) = changed.last()
        {
            // There may be more of them.
            present.retain(|(other, _)| other <= key);
            end = Some(key.clone());
        }
        let mut objects: BTreeMap<ObjectKey, AnyObject> = present.into_iter().collect();
        for key in changed {
            match self.before.remove(&key).flatten() {
                Some(before) => _ = objects.insert(key.1, before),
                None => _ = objects.remove(&key.1),
            }
        }
        list.extend(objects.into_values());
        self.at += usize::from(end.is_none());
        self.up_to = end;
        n_read
    }
}

impl fmt::Debug for ObjectStores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.stores).finish()
    }
}

/// The store of one kind.
#[derive(Debug)]
struct KindStore {
    store: Box<dyn ErasedStore>,
}

impl Default for ObjectStores {
    /// Empty stores for the kinds of Kubernetes.
    fn default() -> Self {
        ObjectStores::new(&crate::Kinds::built_in())
    }
}

impl Clone for ObjectStores {
    fn clone(&self) -> Self {
        let clone = |one: &KindStore| KindStore { store: one.store.clone_box() };
        let derived = MemoCell::new(self.derived.open().clone());
        let stores = self.stores.iter().map(clone).collect();
        let places = self.places.clone();
        ObjectStores { stores, places, cycle: self.cycle, derived, listing: None }
    }
}

impl ObjectStores {
    /// Empty stores for these kinds.
    pub fn new(kinds: &crate::Kinds) -> Self {
        let mut all = ObjectStores {
            stores: Vec::new(),
            places: HashMap::default(),
            cycle: 0,
            derived: MemoCell::default(),
            listing: None,
        };
        kinds.iter().for_each(|kind| all.add(kind));
        all
    }

    fn add(&mut self, kind: KindRef) {
        let store = kind.new_store();
        let any: &dyn Any = &*store;
        self.places.insert(any.type_id(), self.stores.len());
        self.stores.push(KindStore { store });
    }

    /// Adds a store for `kind`, if there is none.
    pub fn keep(&mut self, kind: KindRef) {
        if self.store(kind).is_none() {
            self.add(kind);
        }
    }

    /// The store of kind `K`. A clone is a snapshot, which later changes do not affect.
    ///
    /// # Panics
    /// If there is no store for this kind, because no plugin declares that it reads it.
    #[track_caller]
    pub fn of<K: Kind>(&self) -> &Arc<Store<K>> {
        let place = self.places.get(&TypeId::of::<Arc<Store<K>>>());
        let store = place.and_then(|&place| {
            let any: &dyn Any = &*self.stores[place].store;
            any.downcast_ref()
        });
        store.unwrap_or_else(|| panic!("no plugin says that it reads objects of kind {}", K::NAME))
    }

    /// The store of kind `K`, to be changed. Neither snapshots nor what is [derived](Self::derived) follow.
    #[track_caller]
    pub fn of_mut<K: Kind>(&mut self) -> &mut Store<K> {
        let place = self.places.get(&TypeId::of::<Arc<Store<K>>>());
        let store = place.and_then(|&place| {
            let any: &mut dyn Any = &mut *self.stores[place].store;
            any.downcast_mut::<Arc<Store<K>>>()
        });
        let store = store.unwrap_or_else(|| panic!("objects of kind {} are not kept", K::NAME));
        Arc::make_mut(store)
    }

    /// What is derived from the objects. It is made when it is first asked for, and then follows each change. Of each
    /// type there is one. A plugin that keeps it after its call makes the next change copy it.
    pub fn derived<D: Derived>(&self, make: impl FnOnce(&Self) -> D) -> Arc<D> {
        let known = |one: &Arc<dyn ErasedDerived>| one.clone().any().downcast::<D>().ok();
        let found = self.derived.open().iter().find_map(known);
        found.unwrap_or_else(|| {
            let new = Arc::new(make(self));
            self.derived.open().push(new.clone());
            new
        })
    }

    /// Stores an object as it was observed. `None` if it has not changed, or if there is no store for its kind.
    pub fn set(&mut self, object: &AnyObject) -> Option<AnyVersions> {
        self.change(object.kind(), &object.key(), |store| store.set(object))?
    }

    /// Removes an object; `None` if there was none.
    pub fn remove(&mut self, kind: KindRef, key: &ObjectKey) -> Option<AnyVersions> {
        self.change(kind, key, |store| store.remove(key))?
    }

    /// Assumes that an object is as given, if there is one.
    pub fn assume(&mut self, object: &AnyObject) {
        self.change(object.kind(), &object.key(), |store| store.assume(object));
    }

    /// Assumes that an object is as given, whatever is observed. See [`Store::hold`].
    pub fn hold(&mut self, object: &AnyObject) {
        let cycle = self.cycle;
        self.change(object.kind(), &object.key(), |store| store.hold(object, cycle));
    }

    /// The number of the cycle in which a group of pods is decided; 0 outside of one.
    pub fn cycle(&self) -> u64 {
        self.cycle
    }

    /// A group of pods is decided from now on, in the cycle of this number. With 0 its cycle is over.
    pub fn set_cycle(&mut self, cycle: u64) {
        self.cycle = cycle;
    }

    /// Whether an assumption that was [held in](crate::StoreEntry::held_in) the cycle of this number was so in the cycle of
    /// the group that is being decided: for another pod of the group.
    pub fn is_in_cycle(&self, held_in: Option<u64>) -> bool {
        self.cycle != 0 && held_in == Some(self.cycle)
    }

    /// Drops the assumption about an object, if there is one.
    pub fn restore(&mut self, kind: KindRef, key: &ObjectKey) {
        self.change(kind, key, |store| store.restore(key));
    }

    /// All objects of all kinds, as they are assumed to be.
    pub fn all(&self) -> impl Iterator<Item = AnyObject> {
        self.stores.iter().flat_map(|one| one.store.all())
    }

    /// From now on all objects can be [listed](Self::list_more) as they are assumed to be at this moment. A list that is not
    /// complete is given up.
    pub fn begin_list(&mut self) {
        self.listing = Some(Listing::default());
    }

    /// Adds the next objects to a list that was [begun](Self::begin_list), in the order of [`all`](Self::all): each as it was
    /// then, however it has changed meanwhile. At most `most` objects are looked at, and as many that have changed. Returns how
    /// many were looked at, with those that were not there then; `None` if the list is complete.
    ///
    /// # Panics
    /// If `most` is 0.
    pub fn list_more(&mut self, most: usize, list: &mut Vec<AnyObject>) -> Option<usize> {
        assert!(0 < most, "a list grows");
        let listing = self.listing.as_mut()?;
        let store = self.stores.get(listing.at);
        let n_read = store.map_or(0, |one| listing.go_on(&*one.store, most, list));
        if self.stores.len() <= listing.at {
            self.listing = None;
            return None;
        }
        Some(n_read)
    }

    /// Gives up a list that is not complete. Nothing is kept for it any more.
    pub fn end_list(&mut self) {
        self.listing = None;
    }

    /// All that is held of an object; `None` if there is none.
    pub fn entry(&self, kind: KindRef, key: &ObjectKey) -> Option<AnyEntry> {
        self.stores.iter().find(|one| one.store.kind() == kind)?.store.entry(key)
    }

    /// Makes an object what it was when [`entry`](Self::entry) gave this.
    pub fn put_back(&mut self, kind: KindRef, key: &ObjectKey, entry: Option<&AnyEntry>) {
        self.change(kind, key, |store| {
            store.restore(key);
            match entry.and_then(|entry| entry.observed.as_ref()) {
                None => _ = store.remove(key),
                Some(observed) => _ = store.set(observed),
            }
            let Some(entry) = entry else { return };
            match (&entry.assumed, entry.held_in) {
                (Some(assumed), Some(cycle)) => store.hold(assumed, cycle),
                (Some(assumed), None) => store.assume(assumed),
                (None, _) => {}
            }
        });
    }

    /// What of everything that is [derived](Self::derived) depends on the order in which objects of a kind have changed.
    pub fn histories(&self, kind: KindRef) -> Histories {
        let derived = self.derived.open();
        let histories = derived.iter().filter_map(|one| Some((one.of(), one.history(kind)?)));
        Histories(histories.collect())
    }

    /// Puts it back, after a change of an object of this kind was undone. What was derived since then is made anew.
    pub fn put_back_histories(&mut self, kind: KindRef, histories: &Histories) {
        let derived = self.derived.get_mut();
        for one in std::mem::take(derived) {
            match histories.0.iter().find(|(of, _)| *of == one.of()) {
                Some((_, history)) => derived.push(one.restore(&**history)),
                None if one.history(kind).is_some() => {}
                None => derived.push(one),
            }
        }
    }

    /// Changes an object, and what is derived from it. `None` if there is no store for its kind.
    fn change<T>(
        &mut self,
        kind: KindRef,
        key: &ObjectKey,
        change: impl FnOnce(&mut dyn ErasedStore) -> T,
    ) -> Option<T> {
        let is_followed = !self.derived.open().is_empty();
        if let Some(listing) = &mut self.listing
            && let Some(at) = self.stores.iter().position(|one| one.store.kind() == kind)
        {
            listing.changes(at, key, || self.stores[at].store.latest(key));
        }
        let store = self.store(kind)?;
        if !is_followed {
            return Some(change(&mut **store));
        }
        let before = store.latest(key);
        let result = change(&mut **store);
        let after = store.latest(key);
        if before != after {
            let versions = AnyVersions { kind, before, after, dropped: None };
            let derived = self.derived.get_mut();
            *derived =
                std::mem::take(derived).into_iter().map(|one| one.change(&versions)).collect();
        }
        Some(result)
    }

    fn store(&mut self, kind: KindRef) -> Option<&mut Box<dyn ErasedStore>> {
        let mut stores = self.stores.iter_mut().map(|one| &mut one.store);
        stores.find(|store| store.kind() == kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PersistentVolume, Service, StorageClass, Str, VolumePhase};

    #[test]
    fn what_was_held_is_put_back() {
        let mut stores = ObjectStores::default();
        let kind = KindRef::of::<PersistentVolume>();
        let key = ObjectKey::new("", "pv");
        let volume = PersistentVolume { name: "pv".into(), ..PersistentVolume::default() };
        let released = PersistentVolume { phase: VolumePhase::Released, ..volume.clone() };
        let is_in_cycle = |stores: &ObjectStores| {
            stores.is_in_cycle(stores.of::<PersistentVolume>().held_in("pv"))
        };
        stores.set_cycle(7);
        stores.hold(&AnyObject::from(released));
        assert!(is_in_cycle(&stores));
        stores.set_cycle(0);
        let before = stores.entry(kind, &key);
        stores.restore(kind, &key);
        stores.set(&AnyObject::from(volume));
        stores.put_back(kind, &key, before.as_ref());
        assert_eq!(stores.entry(kind, &key), before);
        assert_eq!(stores.of::<PersistentVolume>().held_in("pv"), Some(7));
        // Outside of a cycle nothing is held for another pod of the group.
        assert!(!is_in_cycle(&stores));
        stores.set_cycle(8);
        assert!(!is_in_cycle(&stores));
    }

    /// The names of all volumes.
    #[derive(Clone, Debug, Default, PartialEq)]
    struct Names(Vec<Str>);

    impl Names {
        fn of(stores: &ObjectStores) -> Self {
            let names = stores.of::<PersistentVolume>().iter().map(|one| one.name.clone());
            Names(names.collect())
        }
    }

    impl Derived for Names {
        fn change(&mut self, change: &AnyVersions) {
            let Some(change) = change.of::<PersistentVolume>() else { return };
            self.0.retain(|name| change.before.as_ref().is_none_or(|one| one.name != *name));
            self.0.extend(change.after.map(|after| after.name.clone()));
        }

        /// The order of the names is that of the changes.
        fn history(&self, kind: KindRef) -> Option<Box<dyn Any + Send + Sync>> {
            kind.is::<PersistentVolume>().then(|| Box::new(self.clone()) as Box<_>)
        }

        fn restore(&mut self, history: &(dyn Any + Send + Sync)) {
            self.clone_from(history.downcast_ref().expect("it is its own"));
        }
    }

    #[test]
    fn what_depends_on_the_order_of_changes_is_put_back_with_them() {
        let (mut stores, kind) = (ObjectStores::default(), KindRef::of::<PersistentVolume>());
        let object = |name: &str| {
            AnyObject::from(PersistentVolume { name: name.into(), ..PersistentVolume::default() })
        };
        stores.derived(Names::of);
        for name in ["z", "y"] {
            stores.set(&object(name));
        }
        let undo =
            |stores: &mut ObjectStores, key: &ObjectKey, change: &dyn Fn(&mut ObjectStores)| {
                let (before, histories) = (stores.entry(kind, key), stores.histories(kind));
                change(stores);
                stores.put_back(kind, key, before.as_ref());
                stores.put_back_histories(kind, &histories);
            };
        let z = ObjectKey::new("", "z");
        undo(&mut stores, &z, &|stores| _ = stores.remove(kind, &z));
        assert_eq!(stores.derived(Names::of).0, ["z", "y"], "it is not the last one now");
        // What was made in between has no history before that.
        let mut stores = ObjectStores::default();
        for name in ["z", "y"] {
            stores.set(&object(name));
        }
        undo(&mut stores, &z, &|stores| {
            stores.remove(kind, &z);
            assert_eq!(stores.derived(Names::of).0, ["y"]);
        });
        assert_eq!(stores.derived(Names::of).0, ["y", "z"], "it is made anew");
    }

    #[test]
    fn what_is_derived_follows_the_changes_and_a_snapshot_does_not() {
        let mut stores = ObjectStores::default();
        let object = |name: &str| {
            AnyObject::from(PersistentVolume { name: name.into(), ..PersistentVolume::default() })
        };
        stores.set(&object("x"));
        let first = stores.derived(Names::of);
        let snapshot = stores.clone();
        stores.set(&object("y"));
        stores.hold(&object("z"));
        stores.remove(KindRef::of::<PersistentVolume>(), &ObjectKey::new("", "x"));
        assert_eq!(stores.derived(Names::of).0, ["y", "z"]);
        assert_eq!(first.0, ["x"]);
        assert_eq!(snapshot.derived(Names::of).0, ["x"]);
        stores.restore(KindRef::of::<PersistentVolume>(), &ObjectKey::new("", "z"));
        assert_eq!(stores.derived(Names::of).0, ["y"]);
    }

    #[test]
    fn each_kind_has_its_own_store_and_snapshots_do_not_change() {
        let mut objects = ObjectStores::default();
        let class = AnyObject::from(StorageClass { name: "a".into(), ..StorageClass::default() });
        let came = objects.set(&class).expect("it is new");
        assert!(came.before.is_none() && came.after == Some(class.clone()));
        assert_eq!(objects.set(&class), None);
        assert!(objects.of::<Service>().is_empty());
        let kept = objects.of::<StorageClass>().clone();
        let gone = objects.remove(class.kind(), &class.key()).expect("it is known");
        assert!(gone.before == Some(class.clone()) && gone.of::<Service>().is_none());
        assert!(gone.of::<StorageClass>().is_some_and(|of| of.after.is_none()));
        assert_eq!((objects.of::<StorageClass>().len(), kept.len()), (0, 1));
        assert_eq!(objects.remove(class.kind(), &class.key()), None);
    }
}
