//! A log of changes for several readers, each with its own position.

use std::collections::VecDeque;

use plimsoll_framework::parts::NodeReads;

use super::name_index_set::NameIndex;

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

    /// How many entries it keeps.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
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

impl ChangeLog<(NameIndex, NodeReads)> {
    /// The changes of nodes since `position`; `None` if some of them were dropped. Those of one node that follow one another,
    /// such as when several pods leave it, are one.
    pub(crate) fn of_nodes_since(
        &self,
        position: u64,
    ) -> Option<impl Iterator<Item = (NameIndex, NodeReads)> + '_> {
        let mut changes = self.since(position)?.peekable();
        Some(std::iter::from_fn(move || {
            let (index, mut reads) = changes.next()?;
            while let Some((_, more)) = changes.next_if(|&(next, _)| next == index) {
                reads |= more;
            }
            Some((index, reads))
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_a_node_that_follow_one_another_are_one() {
        let mut log = ChangeLog::new(9);
        let (pods, labels) = (NodeReads::PODS, NodeReads::LABELS);
        for change in [(1, pods), (1, labels), (2, pods), (1, pods), (1, pods)] {
            log.push(change);
        }
        let since = |position| log.of_nodes_since(position).map(Iterator::collect::<Vec<_>>);
        assert_eq!(since(0), Some(vec![(1, pods | labels), (2, pods), (1, pods)]));
        assert_eq!(since(1), Some(vec![(1, labels), (2, pods), (1, pods)]));
        assert_eq!(since(5), Some(vec![]));
    }

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
