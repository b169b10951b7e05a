//! The keys by which the queue is sorted, without their types.

use std::any::{Any, TypeId};
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// A key of any type. Only keys of one type are compared, because one plugin orders the queue.
trait AnyKey: Send + Sync {
    fn compare(&self, other: &dyn AnyKey) -> Ordering;
    fn as_any(&self) -> &dyn Any;
}

impl<K: Any + Ord + Send + Sync> AnyKey for K {
    fn compare(&self, other: &dyn AnyKey) -> Ordering {
        match other.as_any().downcast_ref::<K>() {
            Some(other) => self.cmp(other),
            // This does not happen, but the order should be total in any case.
            None => TypeId::of::<K>().cmp(&other.as_any().type_id()),
        }
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The key of a pod in the queue: the [`Key`](crate::QueueSort::Key) of the QueueSort plugin, without its type.
///
/// The pod with the smaller key goes first; if keys are equal, the one that arrived earlier. A key `(i64, i64)` is
/// stored inline and compared without a call. Any other key is behind an [`Arc`].
#[derive(Clone)]
pub struct SortKey(StoredKey);

#[derive(Clone)]
enum StoredKey {
    Pair(i64, i64),
    Other(Arc<dyn AnyKey>),
}

impl SortKey {
    /// Erases the type of `key`.
    pub fn new<K: Any + Ord + Send + Sync>(key: K) -> Self {
        // The compiler decides this for each `K`.
        match (&key as &dyn Any).downcast_ref::<(i64, i64)>() {
            Some(&(first, second)) => SortKey(StoredKey::Pair(first, second)),
            None => SortKey(StoredKey::Other(Arc::new(key))),
        }
    }
}

impl Ord for SortKey {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.0, &other.0) {
            (StoredKey::Pair(first, second), StoredKey::Pair(other_first, other_second)) => {
                first.cmp(other_first).then_with(|| second.cmp(other_second))
            }
            (StoredKey::Other(key), StoredKey::Other(other)) => {
                key.as_ref().compare(other.as_ref())
            }
            (StoredKey::Pair(..), StoredKey::Other(_)) => Ordering::Less,
            (StoredKey::Other(_), StoredKey::Pair(..)) => Ordering::Greater,
        }
    }
}

impl PartialOrd for SortKey {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for SortKey {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for SortKey {}

impl fmt::Debug for SortKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            StoredKey::Pair(first, second) => write!(f, "SortKey({first}, {second})"),
            StoredKey::Other(_) => f.write_str("SortKey(..)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;

    use super::*;

    /// Checks that erased keys have the same order as the keys themselves.
    fn check<K: Any + Ord + Clone + Send + Sync>(keys: &[K]) {
        for one in keys {
            for other in keys {
                let erased = SortKey::new(one.clone()).cmp(&SortKey::new(other.clone()));
                assert_eq!(erased, one.cmp(other));
            }
        }
    }

    #[test]
    fn keys_keep_the_order_of_their_type() {
        check(&[(0_i64, 5_i64), (0, -5), (-1, 9), (i64::MIN, i64::MAX), (0, 5)]);
        check(&["b".to_owned(), String::new(), "a".to_owned(), "b".to_owned()]);
        check(&[(Reverse(1), "x"), (Reverse(2), "y"), (Reverse(1), "a")]);
    }

    #[test]
    fn keys_of_two_types_have_a_total_order() {
        let keys = [SortKey::new((1_i64, 1_i64)), SortKey::new(1_u8), SortKey::new("a")];
        for one in &keys {
            for other in &keys {
                assert_eq!(one.cmp(other), other.cmp(one).reverse());
            }
        }
    }
}
