//! Objects of one kind by their names.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::hash::Hash;
use std::sync::Arc;

use hashbrown::{Equivalent, HashMap};
use plimsoll_api::{
    CsiDriver, CsiNode, CsiStorageCapacity, ObjectKey, PersistentVolume, PersistentVolumeClaim,
    PodDisruptionBudget, StorageClass, Str, VolumeAttachment,
};
use rustc_hash::FxBuildHasher;

/// An object that can be kept by its name.
pub trait Named: PartialEq {
    /// The name, with the namespace where the kind has one.
    type Key: Clone + Ord + Hash;
    /// The name of this object.
    fn key(&self) -> &Self::Key;
}

/// The key of an object by its parts, to look it up without a copy.
#[derive(Clone, Copy, Debug, Hash)]
pub struct KeyRef<'a> {
    /// The namespace.
    pub namespace: &'a str,
    /// The name.
    pub name: &'a str,
}

impl Equivalent<ObjectKey> for KeyRef<'_> {
    fn equivalent(&self, key: &ObjectKey) -> bool {
        self.name == key.name && self.namespace == key.namespace
    }
}

macro_rules! named {
    ($($kind:ty, $key:ty, $field:ident;)*) => { $(
        impl Named for $kind {
            type Key = $key;
            fn key(&self) -> &$key {
                &self.$field
            }
        }
    )* };
}

named! {
    PersistentVolume, Str, name;
    PersistentVolumeClaim, ObjectKey, key;
    StorageClass, Str, name;
    CsiNode, Str, name;
    CsiDriver, Str, name;
    CsiStorageCapacity, ObjectKey, key;
    VolumeAttachment, Str, name;
    PodDisruptionBudget, ObjectKey, key;
}

/// An object that came, changed or went: as it was and as it is. One of both may be missing.
#[derive(Debug, PartialEq, Eq)]
pub struct Versions<T> {
    /// As it was.
    pub before: Option<Arc<T>>,
    /// As it is.
    pub after: Option<Arc<T>>,
}

impl<T> Clone for Versions<T> {
    fn clone(&self) -> Self {
        Versions { before: self.before.clone(), after: self.after.clone() }
    }
}

/// Objects of one kind by their names.
#[derive(Clone, Debug)]
pub struct ObjectStore<T: Named> {
    in_order: BTreeMap<T::Key, Arc<T>>,
    /// The same: filters look for one on every node.
    by_key: HashMap<T::Key, Arc<T>, FxBuildHasher>,
}

impl<T: Named> Default for ObjectStore<T> {
    fn default() -> Self {
        ObjectStore { in_order: BTreeMap::new(), by_key: HashMap::default() }
    }
}

impl<T: Named> ObjectStore<T> {
    /// Takes in an object; `None` if it is as it was.
    pub fn set(&mut self, object: T) -> Option<Versions<T>> {
        if self.get(object.key()).is_some_and(|known| **known == object) {
            return None;
        }
        let object = Arc::new(object);
        let before = self.by_key.insert(object.key().clone(), object.clone());
        self.in_order.insert(object.key().clone(), object.clone());
        Some(Versions { before, after: Some(object) })
    }

    /// Forgets an object; `None` if it was not known.
    pub fn remove<Q: Ord + Hash + ?Sized>(&mut self, key: &Q) -> Option<Versions<T>>
    where
        T::Key: Borrow<Q>,
    {
        let before = self.by_key.remove(key)?;
        self.in_order.remove(key);
        Some(Versions { before: Some(before), after: None })
    }

    /// The object of this name.
    pub fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&Arc<T>>
    where
        T::Key: Borrow<Q>,
    {
        self.by_key.get(key)
    }

    /// All of them in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.in_order.values()
    }
}

impl ObjectStore<PodDisruptionBudget> {
    /// All budgets of one namespace in the order of their names.
    pub fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = &Arc<PodDisruptionBudget>> {
        self.in_order
            .range(ObjectKey::new(namespace, "")..)
            .take_while(move |(key, _)| key.namespace == namespace)
            .map(|(_, budget)| budget)
    }
}

#[cfg(test)]
mod key_tests {
    use std::hash::BuildHasher;

    use super::*;

    #[test]
    fn a_key_by_its_parts_finds_the_object_of_that_key() {
        let (key, by_parts) =
            (ObjectKey::new("team", "data"), KeyRef { namespace: "team", name: "data" });
        let hasher = FxBuildHasher;
        assert_eq!(hasher.hash_one(&key), hasher.hash_one(by_parts));
        assert!(by_parts.equivalent(&key));
        assert!(!by_parts.equivalent(&ObjectKey::new("data", "team")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_that_is_as_it_was_is_no_change() {
        let mut classes = ObjectStore::default();
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
        let gone = classes.remove("fast").expect("it is known");
        assert_eq!((gone.before.as_deref(), gone.after), (Some(&other), None));
        assert_eq!(classes.remove("fast"), None);
    }

    #[test]
    fn budgets_are_found_by_namespace() {
        let mut budgets = ObjectStore::default();
        for (namespace, name) in [("a", "x"), ("b", "y"), ("b", "x"), ("c", "x")] {
            let key = ObjectKey::new(namespace, name);
            budgets.set(PodDisruptionBudget { key, ..PodDisruptionBudget::default() });
        }
        let keys: Vec<_> = budgets.in_namespace("b").map(|one| one.key.to_string()).collect();
        assert_eq!(keys, ["b/x", "b/y"]);
        assert_eq!(budgets.in_namespace("").count(), 0);
    }
}
