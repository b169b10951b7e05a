//! Values that many nodes share, with the number of nodes.

use std::hash::Hash;

use super::FastMap;

/// The id of a value.
pub(crate) type ValueId = u32;

/// Values by id, each with its number of occurrences. A value keeps its id when its last occurrence is gone.
#[derive(Debug)]
pub(crate) struct CountedValues<T> {
    all: Vec<(T, usize)>,
    numbers: FastMap<T, ValueId>,
    /// The value that was added last: the next one is often the same.
    last: ValueId,
}

impl<T> Default for CountedValues<T> {
    fn default() -> Self {
        CountedValues { all: Vec::new(), numbers: FastMap::default(), last: 0 }
    }
}

impl<T: Clone + Eq + Hash> CountedValues<T> {
    /// Adds an occurrence of a value, and returns the id of the value.
    pub(crate) fn add(&mut self, value: T) -> ValueId {
        let is_last = |(last, _): &(T, usize)| *last == value;
        let known = match self.all.get(self.last as usize).is_some_and(is_last) {
            true => Some(self.last),
            false => self.numbers.get(&value).copied(),
        };
        if let Some(number) = known {
            self.all[number as usize].1 += 1;
            self.last = number;
            return number;
        }
        let number = ValueId::try_from(self.all.len()).expect("there are fewer values than nodes");
        self.all.push((value.clone(), 1));
        self.numbers.insert(value, number);
        self.last = number;
        number
    }

    /// Removes an occurrence.
    pub(crate) fn sub(&mut self, number: ValueId) {
        self.all[number as usize].1 -= 1;
    }

    pub(crate) fn value(&self, number: ValueId) -> &T {
        &self.all[number as usize].0
    }

    /// The number of ids.
    pub(crate) fn n_numbers(&self) -> usize {
        self.all.len()
    }

    /// The values that occur, with one occurrence less of `without`.
    pub(crate) fn iter(&self, without: Option<ValueId>) -> impl Iterator<Item = (&T, usize)> {
        let without = without.map_or(usize::MAX, |number| number as usize);
        self.all
            .iter()
            .enumerate()
            .map(move |(at, (value, n))| (value, n - usize::from(at == without)))
            .filter(|&(_, n)| 0 < n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_occurrence_can_be_left_out() {
        let mut counted = CountedValues::default();
        let (a, b) = (counted.add("a"), counted.add("b"));
        assert_eq!((counted.add("a"), counted.n_numbers()), (a, 2));
        let all = |counted: &CountedValues<&'static str>, without| -> Vec<(&str, usize)> {
            counted.iter(without).map(|(value, n)| (*value, n)).collect()
        };
        assert_eq!(all(&counted, None), [("a", 2), ("b", 1)]);
        assert_eq!(all(&counted, Some(b)), [("a", 2)]);
        counted.sub(b);
        assert_eq!(all(&counted, Some(a)), [("a", 1)]);
        assert_eq!((*counted.value(b), counted.add("b")), ("b", b));
    }
}
