//! The memory of what is remembered.
//!
//! Only the API server limits the size of a pod, and nothing limits the number of pods. So everything that is
//! remembered has a limit in bytes. The sizes are approximate; what matters is that they grow with what they
//! stand for.

use std::hash::Hash;

use super::FastMap;

/// The size of each item, and of all together, in bytes.
#[derive(Debug)]
pub(super) struct Account<K> {
    of: FastMap<K, usize>,
    total: usize,
}

impl<K> Default for Account<K> {
    fn default() -> Self {
        Account { of: FastMap::default(), total: 0 }
    }
}

impl<K: Copy + Eq + Hash> Account<K> {
    /// Sets the size of an item.
    pub(super) fn set(&mut self, key: K, bytes: usize) {
        self.total += bytes;
        self.total -= self.of.insert(key, bytes).unwrap_or(0);
    }

    /// Removes an item.
    pub(super) fn drop(&mut self, key: K) {
        self.total -= self.of.remove(&key).unwrap_or(0);
    }

    /// Keeps only the items for which `stays` is true.
    pub(super) fn retain(&mut self, stays: impl Fn(K) -> bool) {
        self.of.retain(|&key, _| stays(key));
        self.total = self.of.values().sum();
    }

    /// Removes all items.
    pub(super) fn clear(&mut self) {
        self.of.clear();
        self.total = 0;
    }

    /// The size of all items.
    pub(super) fn total(&self) -> usize {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_follows_every_change() {
        let mut account = Account::default();
        for (key, bytes, total) in [(1, 10, 10), (2, 5, 15), (1, 3, 8), (3, 7, 15)] {
            account.set(key, bytes);
            assert_eq!(account.total(), total);
        }
        account.drop(2);
        account.drop(2);
        assert_eq!(account.total(), 10);
        account.retain(|key| key == 3);
        assert_eq!(account.total(), 7);
        account.clear();
        assert_eq!(account.total(), 0);
    }
}
