//! Values by index as they were at one moment, which are read a few at a time while they change.

use rustc_hash::FxHashMap;

/// Keeps the values that change before they are read. Nothing is kept while nobody reads.
#[derive(Debug)]
pub(crate) struct AsTheyWere<T> {
    reading: Option<Reading<T>>,
}

#[derive(Debug)]
struct Reading<T> {
    /// Those before it have been read.
    next: usize,
    /// What changed since and is not read yet: as it was, or `None` if it was not there.
    before: FxHashMap<usize, Option<T>>,
}

impl<T> Default for AsTheyWere<T> {
    fn default() -> Self {
        AsTheyWere { reading: None }
    }
}

impl<T> AsTheyWere<T> {
    /// From now on values are read as they are at this moment.
    pub(crate) fn begin(&mut self) {
        self.reading = Some(Reading { next: 0, before: FxHashMap::default() });
    }

    /// No more is read.
    pub(crate) fn end(&mut self) {
        self.reading = None;
    }

    /// How many values are kept.
    #[cfg(test)]
    pub(crate) fn n_kept(&self) -> usize {
        self.reading.as_ref().map_or(0, |reading| reading.before.len())
    }

    /// A value is about to change, and is `now` what it was before.
    pub(crate) fn changes(&mut self, index: usize, now: impl FnOnce() -> Option<T>) {
        if let Some(reading) = &mut self.reading
            && reading.next <= index
        {
            reading.before.entry(index).or_insert_with(now);
        }
    }

    /// Reads a value; those before it must have been read. It is as `now` if it has not changed since the beginning.
    pub(crate) fn read(&mut self, index: usize, now: impl FnOnce() -> Option<T>) -> Option<T> {
        let Some(reading) = &mut self.reading else { return now() };
        reading.next = index + 1;
        reading.before.remove(&index).unwrap_or_else(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_they_were_in_the_beginning() {
        let mut values = vec![Some('a'), None, Some('c'), Some('d')];
        let mut kept = AsTheyWere::default();
        let set = |values: &mut Vec<Option<char>>, kept: &mut AsTheyWere<char>, at: usize, to| {
            kept.changes(at, || values[at]);
            values[at] = to;
        };
        set(&mut values, &mut kept, 0, Some('b'));
        kept.begin();
        set(&mut values, &mut kept, 2, None);
        assert_eq!(kept.read(0, || values[0]), Some('b'));
        set(&mut values, &mut kept, 0, None);
        set(&mut values, &mut kept, 1, Some('x'));
        set(&mut values, &mut kept, 2, Some('y'));
        assert_eq!(kept.read(1, || values[1]), None);
        assert_eq!(kept.read(2, || values[2]), Some('c'));
        assert_eq!(kept.read(3, || values[3]), Some('d'));
        kept.end();
        assert_eq!(kept.read(2, || values[2]), Some('y'));
    }
}
