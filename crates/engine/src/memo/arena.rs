//! Values by ids that say what they are of and are never given again.
//!
//! What depends on a value keeps its id. After the value is dropped, the id finds nothing, so that nobody has to be
//! told.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::num::NonZeroU64;

/// When something was last used: the number of the decision.
pub(super) type Use = u64;

/// The id of a value in an [`Arena`].
pub(crate) struct Id<T> {
    slot: u32,
    /// Which of the values that were ever added it is.
    number: NonZeroU64,
    of: PhantomData<fn() -> T>,
}

impl<T> Id<T> {
    /// A number that no other value of the arena ever has. Later values have higher ones.
    pub(super) fn number(self) -> NonZeroU64 {
        self.number
    }
}

impl<T> Clone for Id<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Id<T> {}

#[cfg(test)]
impl<T> Id<T> {
    /// An id that finds nothing.
    pub(super) fn made_up(number: u64) -> Self {
        let number = NonZeroU64::new(number).expect("numbers begin with 1");
        Id { slot: u32::MAX, number, of: PhantomData }
    }
}

impl<T> PartialEq for Id<T> {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl<T> Eq for Id<T> {}

impl<T> Hash for Id<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number.hash(state);
    }
}

impl<T> fmt::Debug for Id<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Id({})", self.number)
    }
}

/// Values by id.
pub(super) struct Arena<T> {
    slots: Vec<Option<Kept<T>>>,
    free: Vec<u32>,
    n_added: u64,
}

struct Kept<T> {
    id: Id<T>,
    used: Use,
    value: T,
}

impl<T> Default for Arena<T> {
    fn default() -> Self {
        Arena { slots: Vec::new(), free: Vec::new(), n_added: 0 }
    }
}

impl<T> Arena<T> {
    /// Adds a value.
    pub(super) fn insert(&mut self, value: T, used: Use) -> Id<T> {
        self.n_added += 1;
        let number = NonZeroU64::new(self.n_added).expect("it was just increased");
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            u32::try_from(self.slots.len() - 1).expect("there are fewer than 2^32 values")
        });
        let id = Id { slot, number, of: PhantomData };
        self.slots[slot as usize] = Some(Kept { id, used, value });
        id
    }

    /// The value, if it is still there.
    pub(super) fn get(&self, id: Id<T>) -> Option<&T> {
        let kept = self.slots.get(id.slot as usize)?.as_ref()?;
        (kept.id == id).then_some(&kept.value)
    }

    /// The same, to be changed.
    pub(super) fn get_mut(&mut self, id: Id<T>) -> Option<&mut T> {
        self.kept(id).map(|kept| &mut kept.value)
    }

    /// The same, and notes that it is used.
    pub(super) fn using(&mut self, id: Id<T>, now: Use) -> Option<&mut T> {
        let kept = self.kept(id)?;
        kept.used = now;
        Some(&mut kept.value)
    }

    fn kept(&mut self, id: Id<T>) -> Option<&mut Kept<T>> {
        self.slots.get_mut(id.slot as usize)?.as_mut().filter(|kept| kept.id == id)
    }

    /// Whether the value is still there.
    pub(super) fn has(&self, id: Id<T>) -> bool {
        self.get(id).is_some()
    }

    /// Drops a value.
    pub(super) fn remove(&mut self, id: Id<T>) -> Option<T> {
        let kept = self.slots.get_mut(id.slot as usize)?.take_if(|kept| kept.id == id)?;
        self.free.push(id.slot);
        Some(kept.value)
    }

    /// Drops all values.
    pub(super) fn clear(&mut self) {
        self.slots.clear();
        self.free.clear();
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// All values.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Id<T>, &T)> {
        self.slots.iter().flatten().map(|kept| (kept.id, &kept.value))
    }

    /// The same, to be changed.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().flatten().map(|kept| &mut kept.value)
    }

    /// The value that has not been used for the longest time.
    pub(super) fn least_recently_used(&self) -> Option<Id<T>> {
        self.slots.iter().flatten().min_by_key(|kept| kept.used).map(|kept| kept.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_finds_nothing_after_its_value_was_dropped() {
        let mut arena = Arena::default();
        let (a, b) = (arena.insert("a", 1), arena.insert("b", 2));
        assert_eq!((arena.get(a), arena.get(b), arena.len()), (Some(&"a"), Some(&"b"), 2));
        assert_eq!((arena.remove(a), arena.remove(a)), (Some("a"), None));
        let c = arena.insert("c", 3);
        assert_eq!((arena.get(a), arena.get(c), arena.len()), (None, Some(&"c"), 2));
        arena.clear();
        let d = arena.insert("d", 4);
        assert_eq!((arena.get(b), arena.get(c), arena.get(d)), (None, None, Some(&"d")));
        assert!(!arena.has(b) && arena.has(d) && arena.len() == 1);
    }

    #[test]
    fn what_is_used_stays() {
        let mut arena = Arena::default();
        let (a, b) = (arena.insert("a", 1), arena.insert("b", 2));
        assert_eq!(arena.least_recently_used(), Some(a));
        *arena.using(a, 3).expect("it is there") = "A";
        assert_eq!((arena.least_recently_used(), arena.get(a)), (Some(b), Some(&"A")));
        arena.remove(b);
        assert_eq!(arena.using(b, 4), None);
        assert_eq!(arena.iter().collect::<Vec<_>>(), [(a, &"A")]);
    }
}
