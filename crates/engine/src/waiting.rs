//! The pods that wait at Permit, and their verdicts.

use plimsoll_api::PodKey;
use plimsoll_framework::{Reason, Rejection, Time, WaitingDecision, WaitingPod};
use rustc_hash::FxHashMap;

use crate::binding::Unbound;
use crate::names::PodId;
use crate::profiles::Profiles;

/// The pods that wait at Permit, and the decisions about them.
#[derive(Debug, Default)]
pub(crate) struct WaitingAtPermit {
    pods: Vec<WaitingPod>,
    /// Their ids.
    ids: Vec<PodId>,
    /// The next timeout.
    next_timeout: Option<Time>,
}

/// The places of waiting pods. A gang is allowed as a whole, and its pods mostly wait in the order in which they are
/// allowed: they are not looked for one by one.
struct Places<'a> {
    pods: &'a [WaitingPod],
    /// The place after the one that was found last.
    next: usize,
    /// All places, once one was not the next.
    by_key: Option<FxHashMap<&'a PodKey, usize>>,
}

impl Places<'_> {
    fn of(&mut self, key: &PodKey) -> Option<usize> {
        let is_next = self.pods.get(self.next).is_some_and(|waiting| waiting.pod.key == *key);
        let place = if is_next {
            self.next
        } else {
            let all = || self.pods.iter().map(|waiting| &waiting.pod.key).zip(0..).collect();
            *self.by_key.get_or_insert_with(all).get(key)?
        };
        self.next = place + 1;
        Some(place)
    }
}

/// The verdicts on pods that waited at Permit.
pub(crate) type Verdicts = Vec<(PodId, Result<(), Unbound>)>;

/// The verdicts on all pods that wait, in the order of their arrival; `None` for one that waits on.
type VerdictsInOrder = Vec<Option<Result<(), Unbound>>>;

impl WaitingAtPermit {
    pub(crate) fn pods(&self) -> &[WaitingPod] {
        &self.pods
    }

    pub(crate) fn add(&mut self, id: PodId, pod: WaitingPod) {
        let timeouts = pod.pending.iter().map(|(_, until)| *until);
        self.next_timeout = self.next_timeout.into_iter().chain(timeouts).min();
        self.pods.push(pod);
        self.ids.push(id);
    }

    pub(crate) fn has(&self, id: PodId) -> bool {
        self.ids.contains(&id)
    }

    pub(crate) fn remove(&mut self, id: PodId) {
        if let Some(at) = self.ids.iter().position(|known| *known == id) {
            self.pods.remove(at);
            self.ids.remove(at);
            self.find_next_timeout();
        }
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
        let mut places = Places { pods: &self.pods, next: 0, by_key: None };
        let known = |decision: WaitingDecision| Some((places.of(decision.pod())?, decision));
        let decisions: Vec<_> = decisions.into_iter().filter_map(known).collect();
        let mut verdicts = self.no_verdicts();
        for (place, decision) in decisions {
            let verdict = &mut verdicts[place];
            match decision {
                WaitingDecision::Allow { plugin, .. } => {
                    let pending = &mut self.pods[place].pending;
                    pending.retain(|(name, _)| *name != plugin);
                    if pending.is_empty() {
                        verdict.get_or_insert(Ok(()));
                    }
                }
                WaitingDecision::Reject { plugin, reason, .. } => {
                    let plugin = profiles.rejector(&plugin);
                    let why = Rejection::unschedulable(reason);
                    verdict.get_or_insert(Err(Unbound::Rejected { plugin, why }));
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
        let mut verdicts = self.no_verdicts();
        for (waiting, verdict) in self.pods.iter().zip(&mut verdicts) {
            let over = waiting.pending.iter().filter(|(_, until)| *until <= now);
            let Some(&(plugin, until)) = over.min_by_key(|(_, until)| *until) else { continue };
            let span = plimsoll_framework::time::go_duration(until.since(waiting.since));
            let reason: Reason =
                format!("rejected due to timeout after waiting {span} at plugin {plugin}").into();
            let why = Rejection::unschedulable(reason);
            *verdict = Some(Err(Unbound::Rejected { plugin, why }));
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

    fn no_verdicts(&self) -> VerdictsInOrder {
        self.pods.iter().map(|_| None).collect()
    }

    /// Removes pods from the list in the order of their arrival.
    fn finish(&mut self, verdicts: VerdictsInOrder) -> Verdicts {
        let mut finished = Vec::new();
        let pods = std::mem::take(&mut self.pods).into_iter();
        let ids = std::mem::take(&mut self.ids).into_iter();
        for ((pod, id), verdict) in pods.zip(ids).zip(verdicts) {
            if let Some(verdict) = verdict {
                finished.push((id, verdict));
                continue;
            }
            self.pods.push(pod);
            self.ids.push(id);
        }
        self.find_next_timeout();
        finished
    }
}
