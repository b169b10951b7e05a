//! Labels, and the selectors that match them.

use serde::{Deserialize, Serialize};

use crate::Str;

/// Up to this many keys a linear search is faster, since most keys already differ in length.
const FEW: usize = 24;

/// Keys of Kubernetes that many objects have and that do not fit into a [`Str`]. All labels share their texts: no text is kept
/// for them, and whoever compares the keys of many nodes finds them in one place of the memory.
const SHARED_KEYS: [&str; 20] = [
    "app.kubernetes.io/component",
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/part-of",
    "app.kubernetes.io/version",
    "apps.kubernetes.io/pod-index",
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-completion-index",
    "batch.kubernetes.io/job-name",
    "beta.kubernetes.io/instance-type",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "kubernetes.io/metadata.name",
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
    "node.kubernetes.io/instance-type",
    "node.kubernetes.io/windows-build",
    "statefulset.kubernetes.io/pod-name",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];

/// The key, with the shared text if it has one.
fn shared(key: Str) -> Str {
    if !key.is_heap_allocated() {
        return key;
    }
    match SHARED_KEYS.binary_search(&key.as_str()) {
        Ok(at) => Str::const_new(SHARED_KEYS[at]),
        Err(_) => key,
    }
}

/// A set of labels, sorted by key.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "Vec<(Str, Str)>")]
pub struct Labels(Vec<(Str, Str)>);

/// Labels that are read are sorted: they may have been written in any order.
impl From<Vec<(Str, Str)>> for Labels {
    fn from(labels: Vec<(Str, Str)>) -> Self {
        Labels::from_iter(labels)
    }
}

impl Labels {
    /// No labels.
    pub const fn empty() -> Self {
        Labels(Vec::new())
    }

    /// The value of label `key`.
    pub fn get(&self, key: &str) -> Option<&Str> {
        if self.0.len() <= FEW {
            return self.0.iter().find(|(k, _)| k == key).map(|(_, value)| value);
        }
        let at = self.0.binary_search_by(|(k, _)| k.as_str().cmp(key)).ok()?;
        Some(&self.0[at].1)
    }

    /// Whether there is a label `key`.
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// All labels in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&Str, &Str)> {
        self.0.iter().map(|(key, value)| (key, value))
    }

    /// Whether there are no labels at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Of two labels with the same key the later one counts.
impl<K: Into<Str>, V: Into<Str>> FromIterator<(K, V)> for Labels {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(labels: I) -> Self {
        let mut all: Vec<(Str, Str)> =
            labels.into_iter().map(|(key, value)| (shared(key.into()), value.into())).collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all.reverse();
        all.dedup_by(|a, b| a.0 == b.0);
        all.reverse();
        Labels(all)
    }
}

/// The condition of a requirement on the value of its key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Test {
    /// The label exists and its value is one of these.
    In(Vec<Str>),
    /// The label is absent, or its value is none of these.
    NotIn(Vec<Str>),
    /// The label exists.
    Exists,
    /// The label is absent.
    DoesNotExist,
    /// The label is an integer greater than this (node selectors only).
    Gt(i64),
    /// The label is an integer less than this (node selectors only).
    Lt(i64),
}

/// One condition on one label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Requirement {
    /// The key of the label.
    pub key: Str,
    /// What is asked of it.
    pub test: Test,
}

impl Requirement {
    /// The requirement that `key` has exactly `value`.
    pub fn equals(key: impl Into<Str>, value: impl Into<Str>) -> Self {
        Requirement { key: key.into(), test: Test::In(vec![value.into()]) }
    }

    /// The value that the label must have, if it is asked for one value.
    fn only_value(&self) -> Option<&str> {
        match &self.test {
            Test::In(values) if values.len() == 1 => Some(&values[0]),
            _ => None,
        }
    }

    /// Whether `labels` meet this requirement. As in apimachinery's labels.Requirement, a value that
    /// is not a decimal 64-bit integer is neither greater nor less than anything.
    pub fn matches(&self, labels: &Labels) -> bool {
        let value = labels.get(&self.key);
        let integer = || value.and_then(|value| value.parse::<i64>().ok());
        match &self.test {
            Test::In(values) => value.is_some_and(|value| values.contains(value)),
            Test::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            Test::Exists => value.is_some(),
            Test::DoesNotExist => value.is_none(),
            Test::Gt(bound) => integer().is_some_and(|value| *bound < value),
            Test::Lt(bound) => integer().is_some_and(|value| value < *bound),
        }
    }
}

/// A label selector. In Kubernetes a missing selector selects nothing, and an empty one selects
/// everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Selector {
    /// Selects nothing: the selector is missing.
    #[default]
    Nothing,
    /// Selects what meets all requirements; with none, everything.
    All(Vec<Requirement>),
}

impl Selector {
    /// Selects everything.
    pub fn everything() -> Self {
        Selector::All(Vec::new())
    }

    /// Whether `labels` are selected.
    pub fn matches(&self, labels: &Labels) -> bool {
        match self {
            Selector::Nothing => false,
            Selector::All(requirements) => requirements.iter().all(|one| one.matches(labels)),
        }
    }

    /// A value by which stores index selectors: one of the labels of every selected set has it. Empty if no requirement
    /// asks for one value; `None` if nothing is selected.
    pub fn index(&self) -> Option<&str> {
        let Selector::All(requirements) = self else { return None };
        Some(requirements.iter().find_map(Requirement::only_value).unwrap_or_default())
    }

    /// Whether every set of labels is selected.
    pub fn is_everything(&self) -> bool {
        matches!(self, Selector::All(requirements) if requirements.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels() -> Labels {
        [("app", "web"), ("gen", "07"), ("word", "x")].into_iter().collect()
    }

    #[test]
    fn a_label_is_found_by_its_key_and_a_later_one_replaces_an_earlier() {
        let labels: Labels = [("b", "1"), ("a", "2"), ("b", "3")].into_iter().collect();
        assert_eq!(labels.get("b").map(Str::as_str), Some("3"));
        assert_eq!(labels.iter().count(), 2);
        assert!(!labels.contains_key("c"));
    }

    #[test]
    fn long_keys_of_kubernetes_share_their_texts() {
        assert!(SHARED_KEYS.is_sorted());
        for key in SHARED_KEYS {
            assert!(Str::new(key).is_heap_allocated(), "{key} fits without a shared text");
            let labels: Labels =
                [(key, "value"), ("own.example.com/a-key-that-is-long", "x")].into_iter().collect();
            let own = |(found, _): &(&Str, &Str)| found.is_heap_allocated();
            assert_eq!(labels.iter().filter(own).count(), 1, "{key}");
            assert_eq!(labels.get(key).map(Str::as_str), Some("value"));
            let written = serde_json::to_string(&labels).expect("it is text");
            let read: Labels = serde_json::from_str(&written).expect("it was just written");
            assert_eq!(read, labels);
            assert_eq!(read.iter().filter(own).count(), 1, "{key} when it was read");
        }
    }

    #[test]
    fn requirements_judge_absent_keys_and_integers_as_apimachinery_does() {
        let cases = [
            ("app", Test::In(vec!["web".into(), "db".into()]), true),
            ("none", Test::In(vec!["web".into()]), false),
            ("none", Test::NotIn(vec!["web".into()]), true),
            ("app", Test::NotIn(vec!["web".into()]), false),
            ("app", Test::Exists, true),
            ("app", Test::DoesNotExist, false),
            ("gen", Test::Gt(6), true),
            ("gen", Test::Gt(7), false),
            ("gen", Test::Lt(8), true),
            ("word", Test::Lt(8), false),
            ("none", Test::Gt(0), false),
        ];
        for (key, test, expected) in cases {
            let requirement = Requirement { key: key.into(), test };
            assert_eq!(requirement.matches(&labels()), expected, "{requirement:?}");
        }
    }

    #[test]
    fn an_absent_selector_selects_nothing_and_an_empty_one_everything() {
        assert!(!Selector::Nothing.matches(&labels()));
        assert!(Selector::everything().matches(&labels()));
        assert!(Selector::everything().is_everything());
    }

    #[test]
    fn selectors_are_indexed_by_a_value_that_all_selected_labels_have() {
        let one = |key: &str, test: Test| Requirement { key: key.into(), test };
        let either = || one("app", Test::In(vec!["web".into(), "db".into()]));
        let without_a_value = Selector::All(vec![either(), one("gen", Test::Exists)]);
        let with_one = Selector::All(vec![either(), Requirement::equals("gen", "07")]);
        assert_eq!(Selector::Nothing.index(), None);
        assert_eq!(Selector::everything().index(), Some(""));
        assert_eq!(without_a_value.index(), Some(""));
        assert_eq!(with_one.index(), Some("07"));
    }
}
