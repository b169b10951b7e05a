//! The domains of a topology key, by number.

use plimsoll_framework::prelude::*;

/// The values of one node label, numbered from 0 in the order of their first occurrence.
///
/// Each decision looks up the value of every node, so a hash table is used: it takes a comparison or
/// two, while a search among sorted host names takes a dozen. The table is never iterated, so the order
/// of the hashes has no effect.
#[derive(Clone, Debug)]
pub(super) struct Domains {
    values: Vec<Str>,
    /// Numbers of values, each in the first free slot after its hash. The length is a power of two, and
    /// at least a third of the slots are free.
    places: Vec<u32>,
}

/// A free slot.
const FREE: u32 = u32::MAX;
/// The smallest number of slots.
const FEWEST: usize = 16;

impl Default for Domains {
    fn default() -> Self {
        Domains { values: Vec::new(), places: vec![FREE; FEWEST] }
    }
}

impl Domains {
    /// The number of `value`, assigned if it has none yet.
    pub(super) fn number(&mut self, value: &str) -> usize {
        match self.place(value) {
            Ok(number) => number,
            Err(place) => self.append(value, place),
        }
    }

    /// The number of `value`, if it has one.
    pub(super) fn find(&self, value: &str) -> Option<usize> {
        self.place(value).ok()
    }

    /// How many values there are.
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// The number of `value`, or its free slot.
    fn place(&self, value: &str) -> Result<usize, usize> {
        let last = self.places.len() - 1;
        let mut place = hash(value) & last;
        loop {
            let number = self.places[place];
            if number == FREE {
                return Err(place);
            }
            if self.values[number as usize] == value {
                return Ok(number as usize);
            }
            place = (place + 1) & last;
        }
    }

    fn append(&mut self, value: &str, place: usize) -> usize {
        let number = self.values.len();
        self.values.push(value.into());
        self.places[place] = u32::try_from(number).expect("there are fewer than 2^32 nodes");
        if self.places.len() * 2 < self.values.len() * 3 {
            self.grow();
        }
        number
    }

    fn grow(&mut self) {
        self.places = vec![FREE; self.places.len() * 2];
        for (number, value) in (0..).zip(&self.values) {
            let place = self.place(value).expect_err("a value comes once");
            self.places[place] = number;
        }
    }
}

/// Hashes eight bytes at a time. The slot is taken from bits that depend on every byte.
fn hash(value: &str) -> usize {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = value.len() as u64;
    for chunk in value.as_bytes().chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        hash = (hash.rotate_left(5) ^ u64::from_le_bytes(word)).wrapping_mul(ODD);
    }
    let mixed = (hash ^ (hash >> 32)).wrapping_mul(ODD) >> 32;
    usize::try_from(mixed).expect("half a word fits")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_keeps_its_number_however_many_come_after_it() {
        let mut domains = Domains::default();
        let name = |n: usize| format!("node-{n:04}.example.com");
        for n in 0..3_000 {
            assert_eq!(domains.number(&name(n)), n);
            assert_eq!(domains.number(&name(n / 2)), n / 2);
        }
        assert_eq!(domains.len(), 3_000);
        assert!((0..3_000).all(|n| domains.find(&name(n)) == Some(n)));
        assert_eq!(domains.find(&name(3_000)), None);
    }

    #[test]
    fn the_empty_value_is_a_value() {
        let mut domains = Domains::default();
        assert_eq!(domains.find(""), None);
        assert_eq!(domains.number("a"), 0);
        assert_eq!(domains.number(""), 1);
        assert_eq!(domains.find(""), Some(1));
    }
}
