//! What was seen of each object of one kind: enough to tell what is new and what is gone, and no more.

use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};

use plimsoll_api::ObjectKey;
use rustc_hash::FxHashMap;

use super::head::Head;

/// Whether an object has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sight {
    /// It was not there before.
    New,
    /// It is another version, or another object of the same name.
    Changed,
    /// It is what it was.
    Same,
}

/// All objects of one kind, by namespace and name.
#[derive(Debug, Default)]
pub(super) struct Known {
    objects: FxHashMap<Box<str>, Seen>,
    /// How many lists were begun.
    lists: u32,
    /// The key that is looked up.
    key: String,
    /// How many objects cannot be read, in whole or in part.
    n_unreadable: usize,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    /// Stands for the identity and the version. That two of one object are equal by accident happens once
    /// in 2^64 changes.
    print: u64,
    /// The list that was under way.
    list: u32,
    /// It cannot be read, in whole or in part.
    is_unreadable: bool,
}

impl Known {
    /// Takes note of an object.
    pub(super) fn see(&mut self, head: &Head<'_>) -> Sight {
        let seen = Seen { print: print(head), list: self.lists, is_unreadable: false };
        set_key(&mut self.key, head);
        let Some(before) = self.objects.get_mut(self.key.as_str()) else {
            self.objects.insert(self.key.as_str().into(), seen);
            return Sight::New;
        };
        if before.print == seen.print {
            before.list = seen.list;
            return Sight::Same;
        }
        self.n_unreadable -= usize::from(before.is_unreadable);
        *before = seen;
        Sight::Changed
    }

    /// An object that was just seen cannot be read, in whole or in part, until it changes.
    pub(super) fn mark_unreadable(&mut self, head: &Head<'_>) {
        set_key(&mut self.key, head);
        if let Some(seen) = self.objects.get_mut(self.key.as_str()).filter(|one| !one.is_unreadable)
        {
            seen.is_unreadable = true;
            self.n_unreadable += 1;
        }
    }

    /// How many objects cannot be read, in whole or in part.
    pub(super) fn n_unreadable(&self) -> usize {
        self.n_unreadable
    }

    /// An object is gone; whether it was there.
    pub(super) fn remove(&mut self, head: &Head<'_>) -> bool {
        set_key(&mut self.key, head);
        let seen = self.objects.remove(self.key.as_str());
        self.n_unreadable -= usize::from(seen.is_some_and(|seen| seen.is_unreadable));
        seen.is_some()
    }

    /// Whether there is another version of the object, or another object of its name.
    pub(super) fn has_other(&mut self, head: &Head<'_>) -> bool {
        set_key(&mut self.key, head);
        self.objects.get(self.key.as_str()).is_some_and(|seen| seen.print != print(head))
    }

    /// A list begins: what is not seen before its end is gone.
    pub(super) fn begin_list(&mut self) {
        self.lists = self.lists.wrapping_add(1);
    }

    /// A list ends. Forgets what was not seen since it began, and says what that is, in order.
    pub(super) fn end_list(&mut self) -> Vec<ObjectKey> {
        let list = self.lists;
        let (mut gone, mut n_unreadable) = (Vec::new(), 0);
        for (key, seen) in self.objects.extract_if(|_, seen| seen.list != list) {
            n_unreadable += usize::from(seen.is_unreadable);
            gone.push(object_key(&key));
        }
        self.n_unreadable -= n_unreadable;
        gone.sort_unstable();
        self.objects.shrink_to_fit();
        gone
    }

    /// How many objects there are.
    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }
}

fn set_key(key: &mut String, head: &Head<'_>) {
    key.clear();
    let _ = write!(key, "{}/{}", head.namespace, head.name);
}

fn object_key(key: &str) -> ObjectKey {
    let (namespace, name) = key.split_once('/').unwrap_or(("", key));
    ObjectKey::new(namespace, name)
}

fn print(head: &Head<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&head.uid, &head.version).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head<'a>(name: &'a str, uid: &'a str, version: &'a str) -> Head<'a> {
        Head { namespace: "n".into(), name: name.into(), uid: uid.into(), version: version.into() }
    }

    #[test]
    fn only_another_version_or_another_object_is_a_change() {
        let mut known = Known::default();
        let sights = [("u", "1"), ("u", "1"), ("u", "2"), ("v", "2"), ("v", "2")]
            .map(|(uid, version)| known.see(&head("a", uid, version)));
        assert_eq!(sights, [Sight::New, Sight::Same, Sight::Changed, Sight::Changed, Sight::Same]);
        assert!(known.remove(&head("a", "v", "3")));
        assert!(!known.remove(&head("a", "v", "3")));
        assert_eq!(known.see(&head("a", "v", "2")), Sight::New);
    }

    #[test]
    fn what_a_list_does_not_repeat_is_gone() {
        let mut known = Known::default();
        known.begin_list();
        for name in ["c", "a", "b", "d"] {
            known.see(&head(name, "u", "1"));
        }
        assert!(known.end_list().is_empty());
        known.begin_list();
        known.see(&head("a", "u", "1"));
        // The list is begun again: what it had told before counts no more.
        known.begin_list();
        known.see(&head("b", "u", "1"));
        known.see(&head("e", "u", "1"));
        let gone = known.end_list();
        let gone: Vec<String> = gone.iter().map(ToString::to_string).collect();
        assert_eq!(gone, ["n/a", "n/c", "n/d"]);
        assert_eq!(known.len(), 2);
    }

    #[test]
    fn an_object_counts_as_unreadable_until_it_changes_or_is_gone() {
        let mut known = Known::default();
        known.begin_list();
        for name in ["a", "b", "c"] {
            known.see(&head(name, "u", "1"));
            known.mark_unreadable(&head(name, "u", "1"));
            known.mark_unreadable(&head(name, "u", "1"));
        }
        known.end_list();
        assert_eq!(known.n_unreadable(), 3);
        known.begin_list();
        assert_eq!(known.see(&head("a", "u", "1")), Sight::Same);
        assert_eq!(known.see(&head("b", "u", "2")), Sight::Changed);
        assert_eq!(known.n_unreadable(), 2);
        known.end_list();
        assert_eq!(known.n_unreadable(), 1, "the third is gone");
        known.remove(&head("a", "u", "3"));
        assert_eq!(known.n_unreadable(), 0);
    }
}
