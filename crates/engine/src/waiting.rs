//! The pods that wait at Permit, and their verdicts.

use std::collections::BTreeMap;

use plimsoll_api::PodKey;
use plimsoll_framework::{Reason, Rejection, Time, WaitingDecision, WaitingPod};

use crate::binding::Unbound;
use crate::profiles::Profiles;

/// The pods that wait at Permit, and the decisions about them.
#[derive(Debug, Default)]
pub(crate) struct WaitingAtPermit {
    pods: Vec<WaitingPod>,
    /// The next timeout.
    next_timeout: Option<Time>,
}

/// The verdicts on pods that waited at Permit.
pub(crate) type Verdicts = Vec<(PodKey, Result<(), Unbound>)>;

impl WaitingAtPermit {
    pub(crate) fn pods(&self) -> &[WaitingPod] {
        &self.pods
    }

    pub(crate) fn add(&mut self, pod: WaitingPod) {
        let timeouts = pod.pending.iter().map(|(_, until)| *until);
        self.next_timeout = self.next_timeout.into_iter().chain(timeouts).min();
        self.pods.push(pod);
    }

    pub(crate) fn has(&self, key: &PodKey) -> bool {
        self.pods.iter().any(|waiting| waiting.pod.key == *key)
    }

    pub(crate) fn remove(&mut self, key: &PodKey) {
        self.pods.retain(|waiting| waiting.pod.key != *key);
        self.find_next_timeout();
    }

    /// Carries out decisions in their order. The first one that settles a pod counts. A pod that all
    /// plugins have allowed continues.
    pub(crate) fn decide(
        &mut self,
        decisions: Vec<WaitingDecision>,
        profiles: &Profiles,
    ) -> Verdicts {
        if decisions.is_empty() {
            return Verdicts::new();
        }
        let mut verdicts = BTreeMap::new();
        for decision in decisions {
            match decision {
                WaitingDecision::Allow { pod, plugin } => {
                    let waiting = self.pods.iter_mut().find(|waiting| waiting.pod.key == pod);
                    let Some(waiting) = waiting else { continue };
                    waiting.pending.retain(|(name, _)| *name != plugin);
                    if waiting.pending.is_empty() {
                        verdicts.entry(pod).or_insert(Ok(()));
                    }
                }
                WaitingDecision::Reject { pod, plugin, reason } => {
                    let plugin = profiles.rejector(&plugin);
                    let why = Rejection::unschedulable(reason);
                    verdicts.entry(pod).or_insert(Err(Unbound::Rejected { plugin, why }));
                }
            }
        }
        self.finish(verdicts)
    }

    /// Rejects pods that have waited too long. As in waiting_pods_map.go, the message names the span
    /// and the plugin.
    pub(crate) fn expire(&mut self, now: Time) -> Verdicts {
        if self.next_timeout.is_none_or(|next| now < next) {
            return Verdicts::new();
        }
        let mut verdicts = BTreeMap::new();
        for waiting in &self.pods {
            let over = waiting.pending.iter().filter(|(_, until)| *until <= now);
            let Some(&(plugin, until)) = over.min_by_key(|(_, until)| *until) else { continue };
            let span = plimsoll_framework::time::go_duration(until.since(waiting.since));
            let reason: Reason =
                format!("rejected due to timeout after waiting {span} at plugin {plugin}").into();
            let why = Rejection::unschedulable(reason);
            verdicts.insert(waiting.pod.key.clone(), Err(Unbound::Rejected { plugin, why }));
        }
        self.finish(verdicts)
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.next_timeout
    }

    fn find_next_timeout(&mut self) {
        let pending = self.pods.iter().flat_map(|waiting| &waiting.pending);
        self.next_timeout = pending.map(|(_, until)| *until).min();
    }

    /// Removes pods from the list in the order of their arrival.
    fn finish(&mut self, mut verdicts: BTreeMap<PodKey, Result<(), Unbound>>) -> Verdicts {
        let mut finished = Vec::new();
        self.pods.retain(|waiting| match verdicts.remove(&waiting.pod.key) {
            Some(verdict) => {
                finished.push((waiting.pod.key.clone(), verdict));
                false
            }
            None => true,
        });
        self.find_next_timeout();
        finished
    }
}
