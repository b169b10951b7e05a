//! Pages of a list, as the kind was at one version.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use super::{State, Stored};
use crate::kinds::KindId;
use crate::selector::Selection;

/// Some objects of one kind, all as they were at `version`.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) items: Vec<Arc<Stored>>,
    pub(crate) version: u64,
    /// The key of the last item, if there may be more.
    pub(crate) last: Option<Arc<str>>,
    /// How many more there are; only known without selectors.
    pub(crate) remaining: Option<usize>,
}

impl State {
    /// What `selection` selects behind the key `after`, at most `limit` objects (0: all), as of `at` (`None`: now).
    /// `None` if the history since `at` has been forgotten.
    pub(crate) fn page(
        &self,
        id: KindId,
        selection: &Selection,
        at: Option<u64>,
        after: Option<&str>,
        limit: usize,
    ) -> Option<Page> {
        let version = at.unwrap_or(self.version());
        let undo = self.history(id).undo(version)?;
        let prefix = selection.namespace.as_ref().map(|namespace| format!("{namespace}/"));
        let prefix = prefix.unwrap_or_default();
        let from = match after {
            Some(key) => Bound::Excluded(key),
            None => Bound::Included(prefix.as_str()),
        };
        let objects = &self.tables[id.0].objects;
        let mut all = merged(objects, &undo, from).take_while(|(key, _)| key.starts_with(&prefix));
        let mut page = Page { items: Vec::new(), version, last: None, remaining: None };
        while let Some((key, object)) = all.next() {
            if !selection.matches(object) {
                continue;
            }
            page.items.push(Arc::clone(object));
            if page.items.len() == limit {
                let more = all.count();
                if 0 < more {
                    page.last = Some(Arc::clone(key));
                    page.remaining = (!selection.is_narrow()).then_some(more);
                }
                break;
            }
        }
        Some(page)
    }
}

type ObjectList = BTreeMap<Arc<str>, Arc<Stored>>;
type Undo = BTreeMap<Arc<str>, Option<Arc<Stored>>>;

/// The objects from a key on, sorted by key. Entries of `undo` replace the present objects.
fn merged<'a>(
    objects: &'a ObjectList,
    undo: &'a Undo,
    from: Bound<&'a str>,
) -> impl Iterator<Item = (&'a Arc<str>, &'a Arc<Stored>)> {
    let bounds = (from, Bound::Unbounded);
    let present = objects.range::<str, _>(bounds).filter(|(key, _)| !undo.contains_key(*key));
    let past = undo.range::<str, _>(bounds);
    let past = past.filter_map(|(key, object)| Some((key, object.as_ref()?)));
    let (mut present, mut past) = (present.peekable(), past.peekable());
    std::iter::from_fn(move || match (present.peek(), past.peek()) {
        (Some(a), Some(b)) if b.0 < a.0 => past.next(),
        (Some(_), _) => present.next(),
        (None, _) => past.next(),
    })
}
