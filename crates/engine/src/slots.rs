//! Values by number. A number is given again after its value was removed.

use std::ops::{Index, IndexMut};

/// Values by number.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    all: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Slots { all: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slots<T> {
    /// Adds a value, and returns its number.
    pub(crate) fn insert(&mut self, value: T) -> usize {
        let number = self.free.pop().unwrap_or_else(|| {
            self.all.push(None);
            self.all.len() - 1
        });
        self.all[number] = Some(value);
        number
    }

    /// Removes a value.
    pub(crate) fn remove(&mut self, number: usize) -> T {
        self.free.push(number);
        self.all[number].take().expect(KNOWN)
    }

    /// A value, if there is one of this number.
    pub(crate) fn get(&self, number: usize) -> Option<&T> {
        self.all.get(number)?.as_ref()
    }

    /// All values, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.all.iter().flatten()
    }
}

const KNOWN: &str = "a number is used as long as its value is there";

impl<T> Index<usize> for Slots<T> {
    type Output = T;
    fn index(&self, number: usize) -> &T {
        self.all[number].as_ref().expect(KNOWN)
    }
}

impl<T> IndexMut<usize> for Slots<T> {
    fn index_mut(&mut self, number: usize) -> &mut T {
        self.all[number].as_mut().expect(KNOWN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_given_again_after_its_value_was_removed() {
        let mut slots = Slots::default();
        let (a, b) = (slots.insert("a"), slots.insert("b"));
        assert_eq!((slots[a], slots[b]), ("a", "b"));
        assert_eq!((slots.remove(a), slots.get(a), slots.get(7)), ("a", None, None));
        assert_eq!(slots.insert("c"), a);
        slots[b] = "d";
        assert_eq!(slots.iter().collect::<Vec<_>>(), [&"c", &"d"]);
    }
}
