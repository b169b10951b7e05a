//! The keys of the pods by where they are, each shelf in the order in which it is emptied.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_api::PodKey;
use plimsoll_framework::{SortKey, Time};

use super::pod::{Place, QueuedPodInfo};

/// Where a pod stands among the ready ones.
type ActiveKey = (SortKey, u64, PodKey);
/// Where a pod stands among those in backoff.
type BackoffKey = (Time, SortKey, u64, PodKey);

/// The keys of the pods by where they are. Pods in flight are on no shelf.
#[derive(Debug, Default)]
pub(super) struct Shelves {
    active: BTreeSet<ActiveKey>,
    backoff: BTreeSet<BackoffKey>,
    error_backoff: BTreeSet<BackoffKey>,
    /// Pods that wait for a change, the longest first.
    unschedulable: BTreeSet<(Time, PodKey)>,
    /// Pods that wait for a change or an open gate, by each plugin that keeps them waiting: a change
    /// that a plugin does not hear of costs nothing, however many pods wait for it.
    waiting: BTreeMap<&'static str, BTreeSet<PodKey>>,
}

impl Shelves {
    /// Puts a pod where its place says; `sort` is where it stands among the ready ones.
    pub(super) fn put(&mut self, info: &QueuedPodInfo, sort: SortKey) {
        let key = info.pod.key.clone();
        match &info.place {
            Place::Active => {
                self.active.insert((sort, info.arrival, key));
            }
            &Place::Backoff { until } => {
                self.backoff.insert((until, sort, info.arrival, key));
            }
            &Place::ErrorBackoff { until } => {
                self.error_backoff.insert((until, sort, info.arrival, key));
            }
            Place::Unschedulable => {
                for plugin in &info.rejectors {
                    self.waiting.entry(plugin).or_default().insert(key.clone());
                }
                self.unschedulable.insert((info.queued, key));
            }
            Place::Gated { plugin, .. } => {
                self.waiting.entry(plugin).or_default().insert(key);
            }
            Place::InFlight => {}
        }
    }

    /// Takes a pod from where its place says.
    pub(super) fn take(&mut self, info: &QueuedPodInfo, sort: SortKey) {
        let key = info.pod.key.clone();
        match &info.place {
            Place::Active => {
                self.active.remove(&(sort, info.arrival, key));
            }
            &Place::Backoff { until } => {
                self.backoff.remove(&(until, sort, info.arrival, key));
            }
            &Place::ErrorBackoff { until } => {
                self.error_backoff.remove(&(until, sort, info.arrival, key));
            }
            Place::Unschedulable => {
                for plugin in &info.rejectors {
                    self.waits_no_more(plugin, &key);
                }
                self.unschedulable.remove(&(info.queued, key));
            }
            Place::Gated { plugin, .. } => self.waits_no_more(plugin, &key),
            Place::InFlight => {}
        }
    }

    fn waits_no_more(&mut self, plugin: &'static str, key: &PodKey) {
        if let Some(pods) = self.waiting.get_mut(plugin) {
            pods.remove(key);
            if pods.is_empty() {
                self.waiting.remove(plugin);
            }
        }
    }

    /// The pod to be tried next. As PopFromBackoffQ has it, one whose backoff has not ended is taken
    /// if nothing else is ready.
    pub(super) fn first(&self) -> Option<&PodKey> {
        let active = self.active.first().map(|(.., key)| key);
        active.or_else(|| self.backoff.first().map(|(.., key)| key))
    }

    /// The pods whose backoff is over.
    pub(super) fn backoff_over(&self, now: Time) -> Vec<PodKey> {
        let over = |shelf: &BTreeSet<BackoffKey>| -> Vec<PodKey> {
            shelf.iter().take_while(|key| key.0 <= now).map(|key| key.3.clone()).collect()
        };
        let mut keys = over(&self.backoff);
        keys.extend(over(&self.error_backoff));
        keys
    }

    /// When the next pod leaves backoff that is not tried earlier.
    pub(super) fn next_backoff_over(&self) -> Option<Time> {
        self.error_backoff.first().map(|key| key.0)
    }

    /// The pods that have waited for a change since before `time`.
    pub(super) fn waiting_since_before(&self, time: Time) -> Vec<PodKey> {
        let stale = self.unschedulable.iter().take_while(|(since, _)| *since < time);
        stale.map(|(_, key)| key.clone()).collect()
    }

    /// The pods that wait for a plugin that `hears` says to ask, by name.
    pub(super) fn waiting_for(&self, hears: impl Fn(&'static str) -> bool) -> BTreeSet<PodKey> {
        let asked = self.waiting.iter().filter(|(plugin, _)| hears(plugin));
        asked.flat_map(|(_, pods)| pods).cloned().collect()
    }

    /// Whether a pod can be tried now.
    pub(super) fn has_ready(&self) -> bool {
        !self.active.is_empty() || !self.backoff.is_empty()
    }

    /// Whether a pod waits for a change.
    pub(super) fn has_unschedulable(&self) -> bool {
        !self.unschedulable.is_empty()
    }
}
