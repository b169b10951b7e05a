//! The queue of pods and groups whose extenders are busy.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_framework::SortKey;

use super::call::ExtenderId;
use super::{Interest, Subject};

/// The order of a pod, or of the first pod of a group: its sort key in the scheduling queue, and then its arrival.
type QueueOrder = (SortKey, u64);

/// The waiting pods, by the set of extenders that they need. There are few different sets, however many
/// pods.
#[derive(Debug, Default)]
pub(super) struct ExtenderQueue {
    by_interest: BTreeMap<Interest, BTreeMap<QueueOrder, Subject>>,
    turns: BTreeMap<Subject, (Interest, QueueOrder)>,
    arrivals: u64,
}

impl ExtenderQueue {
    /// Adds a pod or a group, which must not be in the line yet.
    pub(super) fn push(&mut self, subject: Subject, sort: SortKey, interest: Interest) {
        self.arrivals += 1;
        let turn = (sort, self.arrivals);
        self.by_interest.entry(interest.clone()).or_default().insert(turn.clone(), subject);
        self.turns.insert(subject, (interest, turn));
    }

    /// Removes a pod or a group, and returns its extenders if it was in the line.
    pub(super) fn remove(&mut self, subject: Subject) -> Option<Interest> {
        let (interest, turn) = self.turns.remove(&subject)?;
        let alike = self.by_interest.get_mut(&interest).expect("it was put there, too");
        alike.remove(&turn);
        if alike.is_empty() {
            self.by_interest.remove(&interest);
        }
        Some(interest)
    }

    /// The first that needs neither a busy extender nor one that somebody before it needs.
    pub(super) fn first(&self, mut busy: BTreeSet<ExtenderId>) -> Option<Subject> {
        // Of those who need the same extenders only the first matters.
        let heads = self.by_interest.iter().filter_map(|(interest, alike)| {
            alike.first_key_value().map(|(turn, subject)| (turn, interest, *subject))
        });
        let mut heads: Vec<_> = heads.collect();
        heads.sort_unstable_by_key(|(turn, ..)| *turn);
        heads.into_iter().find_map(|(_, interest, subject)| {
            let free = interest.iter().all(|extender| !busy.contains(extender));
            busy.extend(interest);
            free.then_some(subject)
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::PodNames;
    use plimsoll_api::{Pod, PodKey};

    /// Pods by name, in the order of their arrival.
    struct Pods(ExtenderQueue, PodNames);

    impl Pods {
        fn new(pods: &[(&str, i64, &[usize])]) -> Self {
            let (mut line, mut names) = (ExtenderQueue::default(), PodNames::default());
            for (name, sort, needs) in pods {
                let pod = Pod { key: PodKey::new("", *name), ..Pod::default() };
                let interest = needs.iter().copied().map(ExtenderId).collect();
                line.push(
                    Subject::Pod(names.insert(pod.into())),
                    SortKey::new((*sort, 0_i64)),
                    interest,
                );
            }
            Pods(line, names)
        }

        fn first(&self, busy: &[usize]) -> Option<&str> {
            let first = self.0.first(busy.iter().copied().map(ExtenderId).collect())?;
            let Subject::Pod(id) = first else { panic!("there are only pods") };
            Some(self.1[id].key.name.as_str())
        }
    }

    #[test]
    fn pods_go_in_the_order_of_the_queue_past_those_whose_extenders_are_busy() {
        let pods = Pods::new(&[("late", 2, &[0]), ("early", 1, &[0]), ("other", 3, &[1])]);
        assert_eq!(pods.first(&[]), Some("early"));
        assert_eq!(pods.first(&[0]), Some("other"));
        assert_eq!(pods.first(&[0, 1]), None);
    }

    #[test]
    fn nobody_overtakes_a_pod_that_needs_the_same_extender_and_another_that_is_busy() {
        let mut pods = Pods::new(&[("both", 1, &[0, 1]), ("one", 2, &[1])]);
        assert_eq!(pods.first(&[0]), None);
        let both = pods.1.find(&PodKey::new("", "both")).expect("it is known");
        assert_eq!(pods.0.remove(Subject::Pod(both)), Some(vec![ExtenderId(0), ExtenderId(1)]));
        assert_eq!(pods.first(&[0]), Some("one"));
    }
}
