//! What pods on nodes count for, by kind.

use plimsoll_framework::Counting;

use super::kinds::Kind;

/// Which tallies count pods of one kind, and how much.
type CountedBy = Vec<(usize, Counting)>;

/// By kind of neighbour, once one is placed: which tallies count it, and how much.
#[derive(Debug, Default)]
pub(super) struct Countings {
    of: Vec<Option<CountedBy>>,
    bytes: usize,
}

impl Countings {
    /// There is one more kind.
    pub(super) fn add_kind(&mut self) {
        self.of.push(None);
    }

    /// Whether it is known which tallies count pods of a kind.
    pub(super) fn has(&self, kind: Kind) -> bool {
        self.of[kind as usize].is_some()
    }

    pub(super) fn of(&self, kind: Kind) -> &[(usize, Counting)] {
        self.of[kind as usize].as_deref().unwrap_or_default()
    }

    pub(super) fn set(&mut self, kind: Kind, counted_by: CountedBy) {
        self.forget(kind);
        self.bytes += counted_by.iter().map(bytes).sum::<usize>();
        self.of[kind as usize] = Some(counted_by);
    }

    /// Further tallies count pods of a kind, if it is known which do.
    pub(super) fn add(&mut self, kind: Kind, tallies: usize, counting: Counting) {
        if let Some(counted_by) = &mut self.of[kind as usize] {
            let one = (tallies, counting);
            self.bytes += bytes(&one);
            counted_by.push(one);
        }
    }

    /// It is not known any more which tallies count pods of a kind.
    pub(super) fn forget(&mut self, kind: Kind) {
        let gone = self.of[kind as usize].take();
        self.bytes -= gone.iter().flatten().map(bytes).sum::<usize>();
    }

    /// Some tallies are gone.
    pub(super) fn drop_tallies(&mut self, number: usize) {
        for counted_by in self.of.iter_mut().flatten() {
            counted_by.retain(|one| {
                let stays = one.0 != number;
                self.bytes -= if stays { 0 } else { bytes(one) };
                stays
            });
        }
    }

    /// It is known of no kind.
    pub(super) fn forget_all(&mut self) {
        self.of.iter_mut().for_each(|of| *of = None);
        self.bytes = 0;
    }

    /// There is no kind.
    pub(super) fn clear(&mut self) {
        *self = Countings::default();
    }

    /// About how many bytes all of it takes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

fn bytes(one: &(usize, Counting)) -> usize {
    let elsewhere = if one.1.spilled() { one.1.len() * size_of::<(u32, i64)>() } else { 0 };
    size_of::<(usize, Counting)>() + elsewhere
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counting(n: u32) -> Counting {
        (0..n).map(|term| (term, 1)).collect()
    }

    #[test]
    fn bytes_follow_what_is_kept() {
        let mut countings = Countings::default();
        countings.add_kind();
        countings.add_kind();
        countings.add(0, 1, counting(1));
        assert_eq!((countings.bytes(), countings.has(0)), (0, false));
        countings.set(0, vec![(1, counting(1)), (2, counting(100))]);
        countings.set(1, Vec::new());
        let before = countings.bytes();
        assert!(1600 < before, "{before}");
        countings.add(1, 2, counting(100));
        countings.drop_tallies(2);
        assert!(0 < countings.bytes() && countings.bytes() < 100);
        assert_eq!((countings.of(0).len(), countings.of(1).len()), (1, 0));
        countings.forget(0);
        assert_eq!(countings.bytes(), 0);
    }
}
