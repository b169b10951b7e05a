//! Pods by name and uid, as the writer looks them up: several times for each attempt, so their hash is computed once.

use std::hash::{Hash, Hasher};

use hashbrown::{Equivalent, HashTable};
use plimsoll_api::{PodKey, Str};
use rustc_hash::FxHasher;
use slab::Slab;

/// A UUID as a text has so many bytes.
const UUID: usize = 36;
/// Ends a name: no text has this byte.
const END: u8 = 0xff;

/// A pod of an entry: its name and its uid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PodRef<'a> {
    pub(crate) hash: u64,
    pub(crate) key: &'a PodKey,
    pub(crate) uid: &'a Str,
}

impl<'a> PodRef<'a> {
    pub(crate) fn new(key: &'a PodKey, uid: &'a Str) -> Self {
        let mut pod = PodRef { hash: 0, key, uid };
        let mut hasher = FxHasher::default();
        pod.parts().iter().for_each(|part| hasher.write(part));
        pod.hash = hasher.finish();
        pod
    }

    fn parts(&self) -> [&'a [u8]; 3] {
        [self.key.namespace.as_bytes(), self.key.name.as_bytes(), self.uid.as_bytes()]
    }
}

/// A pod that is remembered longer than its entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pod {
    /// That of its namespace, name and uid.
    hash: u64,
    /// What it is told from others by, besides.
    names: Names,
}

/// What is remembered of the names of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Names {
    /// Its uid, if that is a UUID: no other pod has it. In files that somebody has written another may have, but not the same hash.
    Uuid([u8; UUID]),
    /// Its namespace, name and uid.
    All(Box<[u8]>),
}

impl Pod {
    pub(crate) fn new(key: &PodKey, uid: &Str) -> Self {
        PodRef::new(key, uid).into()
    }

    fn is(&self, pod: PodRef<'_>) -> bool {
        let [namespace, name, uid] = pod.parts();
        let is_named = |names: &[u8]| {
            let after_namespace = names.strip_prefix(namespace)?.strip_prefix(&[END])?;
            Some(after_namespace.strip_prefix(name)?.strip_prefix(&[END])? == uid)
        };
        self.hash == pod.hash
            && match &self.names {
                Names::Uuid(own) => uid == own,
                Names::All(names) => is_named(names) == Some(true),
            }
    }
}

impl From<PodRef<'_>> for Pod {
    fn from(pod: PodRef<'_>) -> Self {
        let [namespace, name, uid] = pod.parts();
        let names = match uid.try_into() {
            Ok(bytes) if is_uuid(&bytes) => Names::Uuid(bytes),
            _ => Names::All([namespace, &[END], name, &[END], uid].concat().into()),
        };
        Pod { hash: pod.hash, names }
    }
}

fn is_uuid(uid: &[u8; UUID]) -> bool {
    [8, 13, 18, 23].iter().all(|place| uid[*place] == b'-')
}

impl Hash for PodRef<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl Hash for Pod {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl Equivalent<Pod> for PodRef<'_> {
    fn equivalent(&self, pod: &Pod) -> bool {
        pod.is(*self)
    }
}

/// An attempt whose binding is not answered yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Awaited {
    pub(crate) id: i64,
    pub(crate) number: u32,
    /// When the pod was first ready to be tried.
    pub(crate) ready_at: Option<i64>,
}

/// The last attempt of each pod that waits for the answer to its binding.
///
/// The attempts are apart from the table of their pods: answers come about in the order of the attempts, so that those are mostly
/// still in a cache of the processor, which all of a table with the pods themselves would not be.
#[derive(Debug, Default)]
pub(crate) struct AwaitedAnswers {
    attempts: Slab<(Pod, Awaited)>,
    /// Their places.
    by_pod: HashTable<usize>,
}

impl AwaitedAnswers {
    /// Remembers the last attempt of a pod.
    pub(crate) fn insert(&mut self, pod: PodRef<'_>, attempt: Awaited) {
        let AwaitedAnswers { attempts, by_pod } = self;
        if let Some(&place) = by_pod.find(pod.hash, |&place| attempts[place].0.is(pod)) {
            attempts[place].1 = attempt;
            return;
        }
        let place = attempts.insert((pod.into(), attempt));
        by_pod.insert_unique(pod.hash, place, |&place| attempts[place].0.hash);
    }

    /// Forgets the attempt of a pod, and returns it.
    pub(crate) fn remove(&mut self, pod: PodRef<'_>) -> Option<Awaited> {
        let AwaitedAnswers { attempts, by_pod } = self;
        if attempts.is_empty() {
            return None;
        }
        let entry = by_pod.find_entry(pod.hash, |&place| attempts[place].0.is(pod));
        let (place, _) = entry.ok()?.remove();
        Some(attempts.remove(place).1)
    }

    /// Forgets attempts with a lower id.
    pub(crate) fn forget_before(&mut self, id: i64) {
        let AwaitedAnswers { attempts, by_pod } = self;
        by_pod.retain(|&mut place| id <= attempts[place].1.id);
        attempts.retain(|_, (_, attempt)| id <= attempt.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(id: i64) -> Awaited {
        Awaited { id, number: 1, ready_at: None }
    }

    #[test]
    fn the_last_attempt_of_each_pod_is_remembered_until_its_answer_or_its_end() {
        let keys: Vec<PodKey> = (0..100).map(|n| PodKey::new("shop", format!("web-{n}"))).collect();
        let uid = Str::from("no uid");
        let pod = |n: usize| PodRef::new(&keys[n], &uid);
        let mut awaited = AwaitedAnswers::default();
        for (n, id) in (0..100).zip(1000..) {
            awaited.insert(pod(n), attempt(id));
        }
        awaited.insert(pod(7), attempt(2000));
        assert_eq!(awaited.remove(pod(7)), Some(attempt(2000)));
        assert_eq!(awaited.remove(pod(7)), None);
        let other = Str::from("another");
        assert_eq!(awaited.remove(PodRef::new(&keys[50], &other)), None);
        awaited.forget_before(1050);
        assert_eq!(awaited.remove(pod(49)), None);
        assert_eq!(awaited.remove(pod(50)), Some(attempt(1050)));
        assert_eq!(awaited.attempts.len(), 49);
    }

    #[test]
    fn pods_are_told_apart_by_their_names_and_by_their_uids() {
        let first = "0b7a1c3e-52d4-4f6a-9c1b-2f3e4d5c6b7a";
        let second = "0b7a1c3e-52d4-4f6a-9c1b-2f3e4d5c6b7b";
        for uids in [[first, second], ["1", "2"]] {
            let [uid, other] = uids.map(Str::from);
            let key = PodKey::new("shop", "web");
            let pod = Pod::new(&key, &uid);
            assert!(pod.is(PodRef::new(&key, &uid)) && !pod.is(PodRef::new(&key, &other)));
            for key in [PodKey::new("shop", "web2"), PodKey::new("sho", "pweb")] {
                assert!(!pod.is(PodRef::new(&key, &uid)));
            }
        }
    }
}
