//! Values by pod, found by name or by a number that costs nothing to look up.

use std::hash::{Hash, Hasher};
use std::ops::{Index, IndexMut};

use hashbrown::HashTable;
use plimsoll_api::PodKey;
use rustc_hash::FxHasher;

/// Something that belongs to one pod.
pub(crate) trait Keyed {
    /// The pod.
    fn key(&self) -> &PodKey;
}

/// The place of a value in a [`Table`]; used again once the value is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Slot(u32);

impl Slot {
    fn index(self) -> usize {
        self.0 as usize
    }
}

/// Values by pod, at most one for each. Finding one by name costs the same however many there are.
///
/// The order of slots says nothing; whoever needs an order asks for it by name.
#[derive(Debug)]
pub(crate) struct Table<T> {
    /// Each with the hash of its pod.
    slots: Vec<Option<(u64, T)>>,
    free: Vec<Slot>,
    /// Slots by the hash of the pod, which stands there too: a table that grows need not look at values.
    index: HashTable<(u64, Slot)>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Table { slots: Vec::new(), free: Vec::new(), index: HashTable::new() }
    }
}

impl<T: Keyed> Table<T> {
    /// Takes in the value of a pod that has none.
    pub(crate) fn insert(&mut self, value: T) -> Slot {
        let hash = hash_of(value.key());
        debug_assert!(self.find(value.key()).is_none(), "a pod has one value");
        let slot = self.free.pop().unwrap_or_else(|| {
            let index = u32::try_from(self.slots.len()).expect("fewer than 2^32 pods are known");
            self.slots.push(None);
            Slot(index)
        });
        self.slots[slot.index()] = Some((hash, value));
        self.index.insert_unique(hash, (hash, slot), |(hash, _)| *hash);
        slot
    }

    /// Takes the value in `slot` out.
    pub(crate) fn remove(&mut self, slot: Slot) -> T {
        let (hash, value) = self.slots[slot.index()].take().expect(TAKEN);
        let entry = self.index.find_entry(hash, |(_, known)| *known == slot);
        entry.expect("every value is in the index").remove();
        self.free.push(slot);
        value
    }

    /// Where the value of a pod is.
    pub(crate) fn find(&self, key: &PodKey) -> Option<Slot> {
        if self.index.is_empty() {
            return None;
        }
        let wanted = hash_of(key);
        let same = |&(hash, slot): &(u64, Slot)| hash == wanted && *self[slot].key() == *key;
        self.index.find(wanted, same).map(|&(_, slot)| slot)
    }

    /// The value of a pod.
    pub(crate) fn get(&self, key: &PodKey) -> Option<&T> {
        self.find(key).map(|slot| &self[slot])
    }

    /// Whether there is no value.
    pub(crate) fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// How many values there are.
    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    /// All values, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().flatten().map(|(_, value)| value)
    }

    /// All values, in the order of the names of their pods.
    pub(crate) fn iter_by_name(&self) -> impl Iterator<Item = &T> {
        let mut all: Vec<&T> = self.iter().collect();
        all.sort_unstable_by(|a, b| a.key().cmp(b.key()));
        all.into_iter()
    }
}

const TAKEN: &str = "a slot is used as long as it holds a value";

impl<T> Index<Slot> for Table<T> {
    type Output = T;
    fn index(&self, slot: Slot) -> &T {
        &self.slots[slot.index()].as_ref().expect(TAKEN).1
    }
}

impl<T> IndexMut<Slot> for Table<T> {
    fn index_mut(&mut self, slot: Slot) -> &mut T {
        &mut self.slots[slot.index()].as_mut().expect(TAKEN).1
    }
}

fn hash_of(key: &PodKey) -> u64 {
    let mut hasher = FxHasher::default();
    key.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Keyed for PodKey {
        fn key(&self) -> &PodKey {
            self
        }
    }

    fn key(name: &str) -> PodKey {
        PodKey::new("default", name)
    }

    #[test]
    fn a_value_is_found_by_name_until_it_is_taken_out() {
        let mut table = Table::default();
        for name in ["b", "c", "a"] {
            table.insert(key(name));
        }
        let slot = table.find(&key("c")).expect("it was put in");
        assert_eq!(table.remove(slot), key("c"));
        assert_eq!(table.get(&key("c")), None);
        let names: Vec<_> = table.iter_by_name().map(|key| key.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
    }

    #[test]
    fn a_slot_is_used_again_for_another_pod() {
        let mut table = Table::default();
        let slot = table.insert(key("a"));
        table.remove(slot);
        assert_eq!(table.insert(key("b")), slot);
        assert!(table.find(&key("a")).is_none());
        assert_eq!(table[slot], key("b"));
    }

    #[test]
    fn namespaces_tell_pods_of_one_name_apart() {
        let mut table = Table::default();
        table.insert(PodKey::new("x", "p"));
        assert!(table.get(&PodKey::new("y", "p")).is_none());
        assert!(table.get(&PodKey::new("xp", "")).is_none());
    }
}
