//! The version of each object of one kind: enough to tell which objects are new, changed or deleted.

use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};

use plimsoll_api::ObjectKey;
use rustc_hash::FxHashMap;

use super::decode::PartialObjectMeta;

/// How an object differs from what was known of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delta {
    /// It is new.
    Added,
    /// It has another version, or is another object of the same name.
    Updated,
    /// It has the same version.
    Unchanged,
}

/// The versions of all objects of one kind, by namespace and name.
#[derive(Debug, Default)]
pub(super) struct ObjectVersions {
    objects: FxHashMap<Box<str>, VersionEntry>,
    /// The number of lists that have begun.
    lists: u32,
    /// A buffer for keys.
    key: String,
    /// The number of objects that cannot be read completely.
    n_unreadable: usize,
}

#[derive(Clone, Copy, Debug)]
struct VersionEntry {
    /// A hash of the uid and the version. Two versions of an object collide once in 2^64 changes.
    fingerprint: u64,
    /// The number of the list during which the object was observed last.
    list: u32,
    /// It cannot be read completely.
    is_unreadable: bool,
}

impl ObjectVersions {
    /// Records the version of an object.
    pub(super) fn observe(&mut self, meta: &PartialObjectMeta<'_>) -> Delta {
        let new =
            VersionEntry { fingerprint: fingerprint(meta), list: self.lists, is_unreadable: false };
        set_key(&mut self.key, meta);
        let Some(entry) = self.objects.get_mut(self.key.as_str()) else {
            self.objects.insert(self.key.as_str().into(), new);
            return Delta::Added;
        };
        if entry.fingerprint == new.fingerprint {
            entry.list = new.list;
            return Delta::Unchanged;
        }
        self.n_unreadable -= usize::from(entry.is_unreadable);
        *entry = new;
        Delta::Updated
    }

    /// Records that the observed version of an object cannot be read completely.
    pub(super) fn mark_unreadable(&mut self, meta: &PartialObjectMeta<'_>) {
        set_key(&mut self.key, meta);
        if let Some(entry) = self.objects.get_mut(self.key.as_str())
            && !entry.is_unreadable
        {
            entry.is_unreadable = true;
            self.n_unreadable += 1;
        }
    }

    /// The number of objects that cannot be read completely.
    pub(super) fn n_unreadable(&self) -> usize {
        self.n_unreadable
    }

    /// Removes a deleted object. Returns whether it was known.
    pub(super) fn remove(&mut self, meta: &PartialObjectMeta<'_>) -> bool {
        set_key(&mut self.key, meta);
        let removed = self.objects.remove(self.key.as_str());
        self.n_unreadable -= usize::from(removed.is_some_and(|entry| entry.is_unreadable));
        removed.is_some()
    }

    /// Whether another version of the object is known, or another object of its name.
    pub(super) fn has_other_version(&mut self, meta: &PartialObjectMeta<'_>) -> bool {
        set_key(&mut self.key, meta);
        self.objects
            .get(self.key.as_str())
            .is_some_and(|entry| entry.fingerprint != fingerprint(meta))
    }

    /// Begins a list. Objects that are not observed before its end have been deleted.
    pub(super) fn begin_list(&mut self) {
        self.lists = self.lists.wrapping_add(1);
    }

    /// Ends a list. Removes the objects that were not observed since it began, and returns their sorted
    /// keys.
    pub(super) fn end_list(&mut self) -> Vec<ObjectKey> {
        let list = self.lists;
        let (mut deleted, mut n_unreadable) = (Vec::new(), 0);
        for (key, entry) in self.objects.extract_if(|_, entry| entry.list != list) {
            n_unreadable += usize::from(entry.is_unreadable);
            deleted.push(object_key(&key));
        }
        self.n_unreadable -= n_unreadable;
        deleted.sort_unstable();
        self.objects.shrink_to_fit();
        deleted
    }

    /// The number of objects.
    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }
}

fn set_key(key: &mut String, meta: &PartialObjectMeta<'_>) {
    key.clear();
    let _ = write!(key, "{}/{}", meta.namespace, meta.name);
}

fn object_key(key: &str) -> ObjectKey {
    let (namespace, name) = key.split_once('/').unwrap_or(("", key));
    ObjectKey::new(namespace, name)
}

fn fingerprint(meta: &PartialObjectMeta<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&meta.uid, &meta.version).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta<'a>(name: &'a str, uid: &'a str, version: &'a str) -> PartialObjectMeta<'a> {
        PartialObjectMeta {
            namespace: "n".into(),
            name: name.into(),
            uid: uid.into(),
            version: version.into(),
        }
    }

    #[test]
    fn only_another_version_or_another_object_is_a_change() {
        let mut versions = ObjectVersions::default();
        let deltas = [("u", "1"), ("u", "1"), ("u", "2"), ("v", "2"), ("v", "2")]
            .map(|(uid, version)| versions.observe(&meta("a", uid, version)));
        assert_eq!(
            deltas,
            [Delta::Added, Delta::Unchanged, Delta::Updated, Delta::Updated, Delta::Unchanged]
        );
        assert!(versions.remove(&meta("a", "v", "3")));
        assert!(!versions.remove(&meta("a", "v", "3")));
        assert_eq!(versions.observe(&meta("a", "v", "2")), Delta::Added);
    }

    #[test]
    fn objects_that_a_list_lacks_are_deleted() {
        let mut versions = ObjectVersions::default();
        versions.begin_list();
        for name in ["c", "a", "b", "d"] {
            versions.observe(&meta(name, "u", "1"));
        }
        assert!(versions.end_list().is_empty());
        versions.begin_list();
        versions.observe(&meta("a", "u", "1"));
        // The list begins again: what it had listed before no longer counts.
        versions.begin_list();
        versions.observe(&meta("b", "u", "1"));
        versions.observe(&meta("e", "u", "1"));
        let deleted = versions.end_list();
        let deleted: Vec<String> = deleted.iter().map(ToString::to_string).collect();
        assert_eq!(deleted, ["n/a", "n/c", "n/d"]);
        assert_eq!(versions.len(), 2);
    }

    #[test]
    fn an_object_counts_as_unreadable_until_it_changes_or_is_deleted() {
        let mut versions = ObjectVersions::default();
        versions.begin_list();
        for name in ["a", "b", "c"] {
            versions.observe(&meta(name, "u", "1"));
            versions.mark_unreadable(&meta(name, "u", "1"));
            versions.mark_unreadable(&meta(name, "u", "1"));
        }
        versions.end_list();
        assert_eq!(versions.n_unreadable(), 3);
        versions.begin_list();
        assert_eq!(versions.observe(&meta("a", "u", "1")), Delta::Unchanged);
        assert_eq!(versions.observe(&meta("b", "u", "2")), Delta::Updated);
        assert_eq!(versions.n_unreadable(), 2);
        versions.end_list();
        assert_eq!(versions.n_unreadable(), 1, "the third is deleted");
        versions.remove(&meta("a", "u", "3"));
        assert_eq!(versions.n_unreadable(), 0);
    }
}
