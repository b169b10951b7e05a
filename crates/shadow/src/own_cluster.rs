//! The cluster as it would be if our decisions had placed its pods.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use plimsoll_api::{Pod, PodKey, PodPhase, Str};
use plimsoll_engine::{
    Detail, Event, GivenNodes, MemberResult, Observation, Outcome, QueuePlace, Scheduler,
};
use plimsoll_framework::Time;
use plimsoll_sim::Utilisation;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use crate::balance::Balance;
use crate::comparison::Reordering;
use crate::groups::PendingGroup;
use crate::histogram::{Durations, Histogram};
use crate::report::OurCluster;
use crate::shadow::{created, millis};

/// Which of several equally good nodes is chosen depends on this alone.
const SEED: u64 = 0;
/// At most so many pods are tried at a time, so that questions are answered meanwhile.
const MOST_TRIED: usize = 100;
/// A pod that fits nowhere is tried again after this time if something has changed: half of the longest backoff of
/// kube-scheduler.
const TRY_AGAIN: Duration = Duration::from_secs(5);

/// A cluster in which our placements stand. It has the same nodes and objects as the cluster that is followed, and the same pods,
/// which come and go when they do there; but pods that were seen pending are on the nodes that we chose.
#[derive(Debug)]
pub(crate) struct OwnCluster {
    scheduler: Scheduler,
    /// The pods that were seen pending.
    pods: BTreeMap<PodKey, OwnPod>,
    /// Those that are to be tried, in the order of the queue. As in priority_sort.go: by priority, then by age.
    untried: BTreeMap<(Reverse<i32>, u64), PodKey>,
    /// Those that fit nowhere, the one that was tried first in front.
    failed: VecDeque<Failed>,
    next_order: u64,
    /// Grows when something has changed that may help a pod.
    changes: u64,
    /// Whether the whole cluster is known.
    has_begun: bool,
    placed: u64,
    pending_times: Histogram,
    rng: Pcg64,
}

/// A pod that was seen pending.
#[derive(Debug)]
struct OwnPod {
    /// As it was last seen in the cluster that is followed.
    seen: Arc<Pod>,
    /// The first pod that was seen has the lowest.
    order: u64,
    since: Time,
    /// Our node.
    node: Option<Str>,
}

#[derive(Debug)]
struct Failed {
    at: Time,
    /// What had changed until then.
    changes: u64,
    order: u64,
    pod: PodKey,
}

impl OwnCluster {
    /// An empty cluster. The scheduler must not have observed anything.
    pub(crate) fn new(scheduler: Scheduler) -> Self {
        OwnCluster {
            scheduler,
            pods: BTreeMap::new(),
            untried: BTreeMap::new(),
            failed: VecDeque::new(),
            next_order: 0,
            changes: 0,
            has_begun: false,
            placed: 0,
            pending_times: Histogram::default(),
            rng: Pcg64::seed_from_u64(SEED),
        }
    }

    /// The whole cluster is known: from now on pods are placed.
    pub(crate) fn begin(&mut self) {
        self.has_begun = true;
    }

    /// Takes in what was seen of the cluster that is followed.
    pub(crate) fn observe(&mut self, at: Time, event: Event) {
        match event {
            Event::Pod(Observation::Is(pod)) => self.observe_pod(at, pod),
            Event::Pod(Observation::Gone(key)) => {
                self.forget(&key);
                self.tell(at, Event::pod_gone(key));
            }
            Event::Node(node) => {
                if let Observation::Gone(name) = &*node {
                    self.lose_node(at, &name.clone());
                }
                self.tell(at, Event::Node(node));
            }
            other => self.tell(at, other),
        }
    }

    fn observe_pod(&mut self, at: Time, pod: Arc<Pod>) {
        let key = pod.key.clone();
        // Its controller may have made it again under the same name.
        if self.pods.get(&key).is_some_and(|own| own.seen.uid != pod.uid) {
            self.forget(&key);
            self.tell(at, Event::pod_gone(key.clone()));
        }
        let has_ended = pod.phase == PodPhase::Ended;
        if let Some(own) = self.pods.get_mut(&key) {
            own.seen = pod.clone();
            let node = own.node.clone();
            if has_ended {
                self.forget(&key);
            }
            let event = match node {
                None if has_ended => Event::pod_gone(key),
                node => Event::pod(on(&pod, node)),
            };
            // A label of a pod on a node may have changed.
            return self.tell(at, event);
        }
        self.tell(at, Event::pod(on(&pod, pod.node_name.clone())));
        if self.scheduler.queued_pod(&key).is_some() {
            let order = self.next_order;
            self.next_order += 1;
            self.untried.insert((Reverse(pod.priority), order), key.clone());
            // When a pod was made is known only to the second.
            let made = if self.has_begun { None } else { created(&pod) };
            let since = made.unwrap_or(at);
            self.pods.insert(key, OwnPod { seen: pod, order, since, node: None });
        }
    }

    /// Our pods on a node that is gone are pending again, as pods that their controllers make anew.
    fn lose_node(&mut self, at: Time, name: &Str) {
        let lost = self.pods.iter_mut().filter(|(_, own)| own.node.as_ref() == Some(name));
        let mut events = Vec::new();
        for (key, own) in lost {
            own.node = None;
            own.since = at;
            self.untried.insert((Reverse(own.seen.priority), own.order), key.clone());
            // A scheduler does not believe that a pod has left its node if the pod has not changed.
            events.extend([Event::pod_gone(key.clone()), Event::pod(on(&own.seen, None))]);
        }
        for event in events {
            self.tell(at, event);
        }
    }

    fn forget(&mut self, key: &PodKey) {
        if let Some(own) = self.pods.remove(key) {
            self.untried.remove(&(Reverse(own.seen.priority), own.order));
        }
    }

    fn tell(&mut self, at: Time, event: Event) {
        self.changes += 1;
        self.scheduler.observe(at, event);
    }

    /// Places the pods that can be placed now, or the first ones of them if there are many.
    pub(crate) fn place_pods(&mut self, now: Time) {
        if !self.has_begun {
            return;
        }
        self.try_again(now);
        for _ in 0..MOST_TRIED {
            let Some((_, pod)) = self.untried.pop_first() else { return };
            self.place(now, pod);
        }
    }

    /// Lets pods that fit nowhere be tried again if something has changed.
    fn try_again(&mut self, now: Time) {
        for _ in 0..self.failed.len() {
            if self.failed.front().is_none_or(|first| now < first.at + TRY_AGAIN) {
                return;
            }
            let Some(failed) = self.failed.pop_front() else { return };
            let own = self.pods.get(&failed.pod);
            let own = own.filter(|own| own.order == failed.order && own.node.is_none());
            match own {
                None => {}
                Some(own) if failed.changes < self.changes => {
                    self.untried.insert((Reverse(own.seen.priority), own.order), failed.pod);
                }
                Some(_) => self.failed.push_back(Failed { at: now, ..failed }),
            }
        }
    }

    fn place(&mut self, now: Time, key: PodKey) {
        if self.pods.get(&key).is_none_or(|own| own.node.is_some()) {
            return;
        }
        if let Some(group) = PendingGroup::of(&self.scheduler, &key) {
            return self.place_group(now, &group, &key);
        }
        match self.choose(now, &key) {
            Some(node) => self.stands_on(now, &key, node),
            None => self.is_left(now, key),
        }
    }

    /// Places a pod of a group with the others of it that are pending.
    fn place_group(&mut self, now: Time, group: &PendingGroup, first: &PodKey) {
        let none = (Reordering::default(), GivenNodes::default());
        let decision = group.decide(&mut self.scheduler, now, &none.0, &none.1);
        for member in decision.into_iter().flat_map(|decision| decision.pods) {
            if let MemberResult::Scheduled { node, .. } = member.result {
                self.stands_on(now, &member.pod, node);
            }
        }
        // The first one has left the pods that are to be tried already.
        for pod in &group.pods {
            let Some(own) = self.pods.get(pod).filter(|own| own.node.is_none()) else { continue };
            let place = (Reverse(own.seen.priority), own.order);
            if self.untried.remove(&place).is_some() || pod == first {
                self.is_left(now, pod.clone());
            }
        }
    }

    /// A pod is on one of our nodes from now on.
    fn stands_on(&mut self, now: Time, key: &PodKey, node: Str) {
        let Some(own) = self.pods.get_mut(key).filter(|own| own.node.is_none()) else { return };
        own.node = Some(node.clone());
        let (seen, since) = (own.seen.clone(), own.since);
        self.untried.remove(&(Reverse(seen.priority), own.order));
        self.pending_times.add(millis(now.since(since)));
        self.placed += 1;
        self.tell(now, Event::pod(on(&seen, Some(node))));
    }

    /// A pod fits nowhere.
    fn is_left(&mut self, now: Time, key: PodKey) {
        if let Some(own) = self.pods.get(&key) {
            let (changes, order) = (self.changes, own.order);
            self.failed.push_back(Failed { at: now, changes, order, pod: key });
        }
    }

    /// One of the best nodes for a pod.
    fn choose(&mut self, now: Time, key: &PodKey) -> Option<Str> {
        let info = self.scheduler.queued_pod(key)?;
        if matches!(info.place, QueuePlace::Gated { .. }) {
            return None;
        }
        let pod = info.pod.seen().clone();
        let decision = self
            .scheduler
            .transaction(now, |transaction| transaction.decide_in_detail(pod, Detail::Outcome));
        match decision.ok()?.outcome {
            Outcome::Scheduled { best, .. } if best.len() < 2 => best.into_iter().next(),
            Outcome::Scheduled { best, .. } => {
                Some(best[self.rng.random_range(0..best.len())].clone())
            }
            Outcome::Unschedulable { .. } | Outcome::Error { .. } => None,
        }
    }

    /// The cluster now.
    pub(crate) fn report(&self) -> OurCluster {
        let view = self.scheduler.view();
        let (mut elsewhere, mut still_pending, mut pending_only_here) = (0, 0, 0);
        for own in self.pods.values() {
            match (&own.node, &own.seen.node_name) {
                (Some(ours), Some(theirs)) => elsewhere += u64::from(ours != theirs),
                (Some(_), None) => {}
                (None, theirs) => {
                    still_pending += 1;
                    pending_only_here += u64::from(theirs.is_some());
                }
            }
        }
        OurCluster {
            placed: self.placed,
            elsewhere,
            still_pending,
            pending_only_here,
            pending_time: Durations::of(&self.pending_times),
            utilisation: Utilisation::of(view).shares(),
            balance: Balance::of(view),
        }
    }
}

/// A pod on this node. What the other scheduler nominates has no meaning here.
fn on(pod: &Arc<Pod>, node: Option<Str>) -> Arc<Pod> {
    if pod.node_name == node && pod.nominated_node.is_none() {
        return pod.clone();
    }
    Arc::new(Pod { node_name: node, nominated_node: None, ..(**pod).clone() })
}
