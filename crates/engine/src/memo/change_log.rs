//! A log of changes for several readers, each with its own position.

use std::collections::VecDeque;

/// A log of limited length. A reader that comes too late must read the whole state instead.
#[derive(Clone, Debug)]
pub(crate) struct ChangeLog<T> {
    entries: VecDeque<T>,
    /// How many entries were dropped, which is the position of the first one that is left.
    dropped: u64,
    most: usize,
}

impl<T: Copy> ChangeLog<T> {
    /// A log that keeps the last `most` entries.
    pub(crate) fn new(most: usize) -> Self {
        ChangeLog { entries: VecDeque::new(), dropped: 0, most }
    }

    pub(crate) fn push(&mut self, entry: T) {
        if self.entries.len() == self.most {
            self.entries.pop_front();
            self.dropped += 1;
        }
        self.entries.push_back(entry);
    }

    /// Whether it has reached its limit, so that it takes no more memory.
    pub(crate) fn is_full(&self) -> bool {
        self.entries.len() == self.most
    }

    /// The position after the last entry.
    pub(crate) fn end(&self) -> u64 {
        self.dropped + self.entries.len() as u64
    }

    /// The entries since `position`; `None` if some of them were dropped.
    pub(crate) fn since(&self, position: u64) -> Option<impl ExactSizeIterator<Item = T> + '_> {
        let from = position.checked_sub(self.dropped)?;
        let from = usize::try_from(from).expect("the log lies in memory");
        Some(self.entries.range(from..).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_within_the_limit_sees_every_entry() {
        let mut log = ChangeLog::new(3);
        let start = log.end();
        (0..3).for_each(|entry| log.push(entry));
        assert_eq!(log.since(start).map(Iterator::collect), Some(vec![0, 1, 2]));
        let later = log.end();
        log.push(3);
        assert!(log.since(start).is_none());
        assert_eq!(log.since(later).map(Iterator::collect), Some(vec![3]));
        assert_eq!(log.since(log.end()).map(Iterator::collect), Some(vec![]));
    }
}
