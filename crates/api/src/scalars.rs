//! Amounts by name, for few names.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Str;

/// Amounts of resources by their names, sorted by name. A node or a pod has few of them, so a linear
/// search is fastest.
#[derive(Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Scalars(Vec<(Str, i64)>);

impl Scalars {
    /// The amount of `name`.
    pub fn get(&self, name: &str) -> Option<&i64> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, amount)| amount)
    }

    /// The amount of `name`, inserted as 0 if it is missing.
    pub fn or_default(&mut self, name: &Str) -> &mut i64 {
        let at = match self.place(name) {
            Ok(at) => at,
            Err(at) => {
                self.0.insert(at, (name.clone(), 0));
                at
            }
        };
        &mut self.0[at].1
    }

    /// Sets the amount of `name`, and returns the previous one.
    pub fn insert(&mut self, name: Str, amount: i64) -> Option<i64> {
        match self.place(&name) {
            Ok(at) => Some(std::mem::replace(&mut self.0[at].1, amount)),
            Err(at) => {
                self.0.insert(at, (name, amount));
                None
            }
        }
    }

    /// Removes `name`, and returns its amount.
    pub fn remove(&mut self, name: &str) -> Option<i64> {
        let at = self.place(name).ok()?;
        Some(self.0.remove(at).1)
    }

    /// All of them in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&Str, &i64)> {
        self.0.iter().map(|(name, amount)| (name, amount))
    }

    /// The names in their order.
    pub fn keys(&self) -> impl Iterator<Item = &Str> {
        self.0.iter().map(|(name, _)| name)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn place(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(other, _)| other.as_str().cmp(name))
    }
}

impl fmt::Debug for Scalars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// Of two amounts with the same name the later one counts.
impl FromIterator<(Str, i64)> for Scalars {
    fn from_iter<I: IntoIterator<Item = (Str, i64)>>(amounts: I) -> Self {
        let mut all = Scalars::default();
        for (name, amount) in amounts {
            all.insert(name, amount);
        }
        all
    }
}

impl<const N: usize> From<[(Str, i64); N]> for Scalars {
    fn from(amounts: [(Str, i64); N]) -> Self {
        amounts.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_sorted_by_name_and_found_by_it() {
        let mut scalars = Scalars::from([("b".into(), 1), ("a".into(), 2), ("b".into(), 3)]);
        assert_eq!(format!("{scalars:?}"), r#"{"a": 2, "b": 3}"#);
        *scalars.or_default(&"c".into()) += 5;
        *scalars.or_default(&"a".into()) += 5;
        assert_eq!(
            ["a", "b", "c", "d"].map(|name| scalars.get(name).copied()),
            [Some(7), Some(3), Some(5), None]
        );
        assert_eq!((scalars.insert("b".into(), 4), scalars.remove("b")), (Some(3), Some(4)));
        assert_eq!((scalars.remove("b"), scalars.is_empty()), (None, false));
        assert!(scalars.keys().eq(["a", "c"]));
        assert_eq!(scalars, Scalars::from([("c".into(), 5), ("a".into(), 7)]));
    }
}
