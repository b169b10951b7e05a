//! Bindings that may have come in another order than that in which they were seen.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use plimsoll_api::{Pod, PodKey, Str};
use plimsoll_engine::{Event, Observation};
use plimsoll_framework::Time;

use crate::comparison::Reordering;
use crate::shadow::{Arrived, RecentBinding, Waiting};

/// The next binding, and the one before, are moved if the order of the queue does not explain a choice. With each state that is
/// tried, more choices agree by chance.
const MOST_MOVED: usize = 1;
/// At most this many events that wait are searched for bindings.
const MOST_SEARCHED: usize = 10_000;

/// Bindings that may have come in another order than that in which they were seen.
pub(crate) struct Candidates {
    /// Those that come after the present one, in order.
    after: Vec<(Arc<Pod>, Str, Waiting)>,
    /// Those before it, the latest first.
    before: Vec<(PodKey, Waiting)>,
}

impl Candidates {
    pub(crate) fn of(
        (arrived, until): (&VecDeque<Arrived>, Time),
        pending: &BTreeMap<PodKey, Waiting>,
        recent: &VecDeque<RecentBinding>,
        own: &PodKey,
    ) -> Self {
        let mut after: Vec<(Arc<Pod>, Str, Waiting)> = Vec::new();
        let mut found = BTreeSet::from([own]);
        let soon = arrived.iter().take_while(|arrived| arrived.at <= until);
        for arrived in soon.take(MOST_SEARCHED) {
            let Event::Pod(Observation::Is(pod)) = &arrived.event else { continue };
            let Some(node) = &pod.node_name else { continue };
            // Later events about the same pod say nothing new.
            if let Some(waiting) = pending.get(&pod.key).filter(|_| found.insert(&pod.key)) {
                let mut before = (**pod).clone();
                before.node_name = None;
                after.push((Arc::new(before), node.clone(), waiting.clone()));
            }
        }
        let before = recent.iter().rev();
        let before = before.map(|recent| (recent.pod.clone(), recent.waiting.clone()));
        Candidates { after, before: before.collect() }
    }

    /// The nodes of the pods of a group that are bound next.
    pub(crate) fn nodes_of(&self, pods: &BTreeSet<PodKey>) -> BTreeMap<PodKey, Str> {
        let members = self.after.iter().filter(|(pod, ..)| pods.contains(&pod.key));
        members.map(|(pod, node, _)| (pod.key.clone(), node.clone())).collect()
    }

    /// The same without these pods.
    pub(crate) fn without(mut self, pods: &BTreeSet<PodKey>) -> Self {
        self.after.retain(|(pod, ..)| !pods.contains(&pod.key));
        self.before.retain(|(pod, _)| !pods.contains(pod));
        self
    }

    /// The states to try, the likeliest first: as the queue orders pods; then with the next binding; then without the
    /// last one.
    pub(crate) fn reorderings(&self, own: &Waiting) -> Vec<Reordering> {
        let Candidates { after, before } = self;
        let place = |(pod, node, _): &(Arc<Pod>, Str, Waiting)| (pod.clone(), node.clone());
        let earlier = after.iter().filter(|(.., waiting)| waiting.place() < own.place());
        let later = before.iter().filter(|(_, waiting)| own.place() < waiting.place());
        let mut all = vec![Reordering {
            earlier: earlier.map(place).collect(),
            later: later.map(|(pod, _)| pod.clone()).collect(),
        }];
        for n in 1..=MOST_MOVED.min(after.len()) {
            let earlier = after[..n].iter().map(place).collect();
            all.push(Reordering { earlier, later: Vec::new() });
        }
        for n in 1..=MOST_MOVED.min(before.len()) {
            let later = before[..n].iter().map(|(pod, _)| pod.clone()).collect();
            all.push(Reordering { earlier: Vec::new(), later });
        }
        all.retain(|reordering| !reordering.is_empty());
        all.dedup();
        all
    }
}
