//! Which signatures of pods have a label, and which domain counts count only pods with one.
//!
//! Each Deployment has a signature and domain counts of its own. If each of the domain counts were asked about each
//! signature, the time for both would grow with the square of the number of Deployments. But most domain counts count pods
//! with a certain label, so that they are asked about the few signatures that have it.

use std::hash::BuildHasher;

use plimsoll_api::{Labels, Requirement, Selector, Test};
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;

use super::FastMap;

/// A requirement with more values than this is not used to find pods.
const MOST_VALUES: usize = 16;

/// The hash of the key and the value of a label. If two labels have the same, somebody is asked in vain.
type LabelHash = u64;

fn hash(key: &str, value: &str) -> LabelHash {
    FxBuildHasher.hash_one((key, value))
}

/// Lists by label.
#[derive(Debug)]
pub(super) struct ByLabel<T> {
    lists: FastMap<LabelHash, SmallVec<[T; 2]>>,
    /// How many entries there are in all lists.
    len: usize,
}

impl<T> Default for ByLabel<T> {
    fn default() -> Self {
        ByLabel { lists: FastMap::default(), len: 0 }
    }
}

impl<T: Copy + PartialEq> ByLabel<T> {
    /// Adds `one` to the lists of these labels.
    pub(super) fn add(&mut self, labels: impl IntoIterator<Item = LabelHash>, one: T) {
        for label in labels {
            self.lists.entry(label).or_default().push(one);
            self.len += 1;
        }
    }

    /// Removes `one` from the lists of these labels.
    pub(super) fn remove(&mut self, labels: impl IntoIterator<Item = LabelHash>, one: T) {
        for label in labels {
            let Some(list) = self.lists.get_mut(&label) else { continue };
            let before = list.len();
            list.retain(|other| *other != one);
            self.len -= before - list.len();
            if list.is_empty() {
                self.lists.remove(&label);
            }
        }
    }

    /// What was added to the list of a label.
    pub(super) fn of(&self, label: LabelHash) -> &[T] {
        self.lists.get(&label).map_or(&[], |list| list.as_slice())
    }

    pub(super) fn clear(&mut self) {
        *self = ByLabel::default();
    }

    /// The approximate size in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.lists.len() * size_of::<(LabelHash, SmallVec<[T; 2]>)>() + self.len * size_of::<T>()
    }
}

/// The labels of a pod.
pub(super) fn labels_of(labels: &Labels) -> impl Iterator<Item = LabelHash> {
    labels.iter().map(|(key, value)| hash(key, value))
}

/// Which pods without affinity terms may count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum PlainPods {
    /// None.
    #[default]
    None,
    /// Only those with one of these labels.
    With(SmallVec<[LabelHash; 2]>),
    /// All.
    All,
}

impl PlainPods {
    /// Those that one of the `selectors` may select. Of the labels that a selector asks for, `n_pods` tells how many
    /// signatures have them; the rarest are taken.
    pub(super) fn selected_by<'a>(
        selectors: impl IntoIterator<Item = &'a Selector>,
        n_pods: impl Fn(LabelHash) -> usize,
    ) -> Self {
        let mut all = SmallVec::new();
        for selector in selectors {
            let Selector::All(requirements) = selector else { continue };
            let values = requirements.iter().filter_map(|Requirement { key, test }| match test {
                Test::In(values) if values.len() <= MOST_VALUES => {
                    Some(values.iter().map(|value| hash(key, value)).collect())
                }
                _ => None,
            });
            let n_with = |labels: &SmallVec<[LabelHash; 2]>| -> usize {
                labels.iter().map(|&label| n_pods(label)).sum()
            };
            let Some(rarest) = values.min_by_key(n_with) else { return PlainPods::All };
            all.extend(rarest);
        }
        all.sort_unstable();
        all.dedup();
        if all.is_empty() { PlainPods::None } else { PlainPods::With(all) }
    }

    /// Those and others.
    pub(super) fn or(self, other: PlainPods) -> Self {
        match (self, other) {
            (PlainPods::None, one) | (one, PlainPods::None) => one,
            (PlainPods::All, _) | (_, PlainPods::All) => PlainPods::All,
            (PlainPods::With(mut all), PlainPods::With(more)) => {
                all.extend(more);
                all.sort_unstable();
                all.dedup();
                PlainPods::With(all)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selector(requirements: &[(&str, &[&str])]) -> Selector {
        let requirement = |&(key, values): &(&str, &[&str])| Requirement {
            key: key.into(),
            test: Test::In(values.iter().map(|&value| value.into()).collect()),
        };
        Selector::All(requirements.iter().map(requirement).collect())
    }

    fn with(labels: &[(&str, &str)]) -> PlainPods {
        let mut labels: SmallVec<_> = labels.iter().map(|&(key, value)| hash(key, value)).collect();
        labels.sort_unstable();
        PlainPods::With(labels)
    }

    #[test]
    fn entries_are_found_by_label_until_they_are_removed() {
        let mut all = ByLabel::default();
        let [web, db] = [hash("app", "web"), hash("app", "db")];
        all.add([web, db], 1);
        all.add([web], 2);
        assert_eq!((all.of(web), all.of(db)), (&[1, 2][..], &[1][..]));
        let bytes = all.bytes();
        all.remove([web, db], 1);
        assert_eq!((all.of(web), all.of(db)), (&[2][..], &[][..]));
        assert!(all.bytes() < bytes);
        all.remove([web], 2);
        assert_eq!(all.bytes(), 0);
    }

    #[test]
    fn of_the_labels_that_a_selector_asks_for_the_rarest_is_taken() {
        let one = selector(&[("tier", &["front"]), ("app", &["web"])]);
        let tiers_are_rare = |label| if label == hash("tier", "front") { 1 } else { 2 };
        assert_eq!(PlainPods::selected_by([&one], tiers_are_rare), with(&[("tier", "front")]));
        let apps_are_rare = |label| if label == hash("app", "web") { 1 } else { 2 };
        assert_eq!(PlainPods::selected_by([&one], apps_are_rare), with(&[("app", "web")]));
    }

    #[test]
    fn each_value_and_each_selector_may_select_a_pod() {
        let several = selector(&[("app", &["web", "db"])]);
        let other = selector(&[("tier", &["front"])]);
        let expected = with(&[("app", "web"), ("app", "db"), ("tier", "front")]);
        assert_eq!(PlainPods::selected_by([&several, &other], |_| 0), expected);
        let [one, two] = [&several, &other].map(|one| PlainPods::selected_by([one], |_| 0));
        assert_eq!(one.clone().or(two), expected);
        assert_eq!(one.clone().or(PlainPods::None), one);
        assert_eq!(one.or(PlainPods::All), PlainPods::All);
    }

    #[test]
    fn selectors_without_values_may_select_all_pods_and_missing_ones_select_none() {
        let exists = Requirement { key: "app".into(), test: Test::Exists };
        for selector in [Selector::everything(), Selector::All(vec![exists])] {
            assert_eq!(PlainPods::selected_by([&selector], |_| 0), PlainPods::All);
        }
        assert_eq!(PlainPods::selected_by([&Selector::Nothing], |_| 0), PlainPods::None);
        // No value is one of none.
        assert_eq!(PlainPods::selected_by([&selector(&[("app", &[])])], |_| 0), PlainPods::None);
    }
}
