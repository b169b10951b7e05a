//! A cache of answers. Concurrent requests for the same answer are merged.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ring::hmac;
use tokio::sync::OnceCell;
use tokio::time::Instant;

/// The key of a question: a keyed hash, whose key only this process has. The question itself, such as a
/// token, is not stored, and nobody can construct a question that collides with another one.
type Name = [u8; 32];

/// A bounded number of answers.
pub(super) struct AnswerCache<V> {
    key: hmac::Key,
    most: usize,
    slots: Mutex<CacheSlots<V>>,
}

struct CacheSlots<V> {
    by_name: HashMap<Name, (u64, Arc<CacheSlot<V>>)>,
    /// The keys in the order of the questions.
    by_age: BTreeMap<u64, Name>,
    next: u64,
}

/// One question: in progress, or answered until some time.
type CacheSlot<V> = OnceCell<(Instant, V)>;

/// There is no randomness, so the cache would not be safe.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the system gives no random numbers")]
pub(in crate::serve) struct NoChance;

impl<V: Clone> AnswerCache<V> {
    /// A cache of at most `most` answers.
    pub(super) fn new(most: usize) -> Result<Self, NoChance> {
        let chance = ring::rand::SystemRandom::new();
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &chance).map_err(|_| NoChance)?;
        let slots = CacheSlots { by_name: HashMap::new(), by_age: BTreeMap::new(), next: 0 };
        Ok(AnswerCache { key, most, slots: Mutex::new(slots) })
    }

    /// The answer to a question: a valid cached one, one in progress, or that of `compute`, which also returns
    /// how long it is valid. An answer that is not valid for any time is still given to those who wait
    /// for it.
    pub(super) async fn get<F>(&self, question: &[u8], compute: impl FnOnce() -> F) -> V
    where
        F: Future<Output = (Duration, V)>,
    {
        let slot = self.slot(question);
        let answered = slot.get_or_init(async || {
            let (holds, answer) = compute().await;
            (Instant::now() + holds, answer)
        });
        answered.await.1.clone()
    }

    /// The slot of a question, if its answer has not expired, or a new one.
    fn slot(&self, question: &[u8]) -> Arc<CacheSlot<V>> {
        let mut name = Name::default();
        name.copy_from_slice(hmac::sign(&self.key, question).as_ref());
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((age, slot)) = slots.by_name.get(&name) {
            let over = slot.get().is_some_and(|(until, _)| *until <= Instant::now());
            if !over {
                return slot.clone();
            }
            let age = *age;
            slots.by_age.remove(&age);
        } else if self.most <= slots.by_name.len()
            && let Some((_, oldest)) = slots.by_age.pop_first()
        {
            slots.by_name.remove(&oldest);
        }
        let (age, slot) = (slots.next, Arc::new(OnceCell::new()));
        slots.next += 1;
        slots.by_age.insert(age, name);
        slots.by_name.insert(name, (age, slot.clone()));
        slot
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    const WHILE: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn an_answer_holds_for_its_time() {
        let (cache, n_calls) = (AnswerCache::new(8).expect("chance"), AtomicU32::new(0));
        let compute = async || (WHILE, n_calls.fetch_add(1, Ordering::Relaxed));
        assert_eq!(cache.get(b"a", compute).await, 0);
        assert_eq!(cache.get(b"b", compute).await, 1);
        tokio::time::advance(Duration::from_millis(9_999)).await;
        assert_eq!(cache.get(b"a", compute).await, 0);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(cache.get(b"a", compute).await, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn who_asks_the_same_at_the_same_time_waits_for_one_answer() {
        let (cache, n_calls) = (AnswerCache::new(8).expect("chance"), AtomicU32::new(0));
        let compute = async || {
            tokio::time::sleep(Duration::from_secs(1)).await;
            // It is not cached, but those who wait for it get it.
            (Duration::ZERO, n_calls.fetch_add(1, Ordering::Relaxed))
        };
        let all = futures::future::join_all((0..5).map(|_| cache.get(b"a", compute))).await;
        assert_eq!(all, [0; 5]);
        assert_eq!(cache.get(b"a", compute).await, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_answers_make_room() {
        let (cache, n_calls) = (AnswerCache::new(2).expect("chance"), AtomicU32::new(0));
        let compute = async || (WHILE, n_calls.fetch_add(1, Ordering::Relaxed));
        for (question, answer) in [("a", 0), ("b", 1), ("c", 2), ("b", 1), ("a", 3)] {
            assert_eq!(cache.get(question.as_bytes(), compute).await, answer, "{question}");
        }
        let slots = cache.slots.lock().expect("nobody panicked");
        assert_eq!((slots.by_name.len(), slots.by_age.len()), (2, 2));
    }
}
