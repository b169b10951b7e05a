//! Replaces the profiles of a running scheduler.
//!
//! The queue, the pods that wait at Permit, nominations and bindings survive. A binding cycle finishes with the profile
//! that has placed its pod. Every decision is made by the profiles before or by those after, since they are replaced as
//! a whole between two steps.

use std::collections::BTreeSet;
use std::sync::Arc;

use plimsoll_api::{KindRef, Pod, PodKey};
use plimsoll_framework::{PodInfo, Time};

use crate::decision::Decision;
use crate::memo::Memo;
use crate::names::PodId;
use crate::profile::{Profile, ProfileError};
use crate::profiles::Profiles;
use crate::queue::{Backoff, Surroundings};
use crate::scheduler::Scheduler;

impl Scheduler {
    /// Replaces all profiles and the backoff, between two steps. If the profiles do not fit together, or are of another
    /// release, nothing changes.
    ///
    /// Pods whose profile has changed are tried again after their backoff, since they may fit now. Pods that no profile
    /// places any more leave the queue: see [`take_orphans`](Self::take_orphans). Pods of a new scheduler name must be
    /// observed again.
    ///
    /// The caller provides the objects of [all kinds](Self::kinds_of) that the new profiles read. Recorders are not shown
    /// this, so a recording cannot be replayed after it.
    pub fn replace_profiles(
        &mut self,
        now: Time,
        profiles: Vec<Profile>,
        backoff: Backoff,
    ) -> Result<(), ProfileError> {
        let release = self.options.release;
        let profiles = Profiles::following(self.profiles.names(), profiles, release)?;
        if profiles.queue_sort_plugin() != self.profiles.queue_sort_plugin() {
            // The keys of two plugins cannot be compared.
            let message = "the queue sort plugin cannot change while pods are queued";
            return Err(ProfileError::Incomplete { profile: profiles.first_name(), message });
        }
        self.cache.set_now(now);
        self.queue.hears();
        // Under the profiles before, which all other pods still have.
        for pod in self.pods_without(&profiles) {
            self.pod_gone(now, &pod.key);
            self.orphans.push(pod.seen().clone());
        }
        let before = |name: &str| self.profiles.get(name).map(Profile::fingerprint);
        let is_new =
            |profile: &&Profile| before(&profile.scheduler_name) != Some(profile.fingerprint());
        let changed: BTreeSet<String> =
            profiles.iter().filter(is_new).map(|profile| profile.scheduler_name.clone()).collect();
        for profile in self.profiles.iter() {
            self.counts.forget_indices(profile);
        }
        self.counts.count_profiles(profiles.names().len());
        self.plugin_metrics.add(profiles.iter().flat_map(Profile::metrics));
        for kind in profiles.iter().flat_map(Profile::kinds) {
            self.cache.keep(kind);
        }
        let plugins = profiles.iter().flat_map(Profile::plugins);
        let providers = plugins.filter_map(|one| one.points.provide.clone()).collect();
        self.cache.replace_providers(providers);
        self.cache.set_order_reads(profiles.order_reads());
        for plugin in profiles.iter().flat_map(Profile::plugins) {
            plugin.points.labels.iter().for_each(|label| self.cache.group_pods_by(label));
        }
        if profiles.iter().flat_map(Profile::plugins).any(|one| !one.points.labels.is_empty()) {
            // By a label that no plugin has asked for until now, nothing is known yet of the pods that are there.
            self.cache.regroup_pods(self.names.pods());
        }
        if self.memo.is_some() {
            self.memo = Some(Memo::new(profiles.iter(), self.options.scans));
            self.cache.keep_changes();
        }
        self.profiles = profiles;
        self.options.backoff = backoff;
        let with = Surroundings { profiles: &self.profiles, cache: &self.cache };
        let is_changed = |pod: &PodInfo| changed.contains(pod.scheduler_name.as_str());
        self.queue.refit(now, backoff, is_changed, with);
        Ok(())
    }

    /// The kinds of objects that these profiles read, pods and nodes first.
    pub fn kinds_of(&self, profiles: &[Profile]) -> Vec<KindRef> {
        self.kinds_read_by(profiles.iter())
    }

    /// The fingerprints of all profiles, by scheduler name.
    pub fn fingerprints(&self) -> Vec<(String, u64)> {
        let of = |profile: &Profile| (profile.scheduler_name.clone(), profile.fingerprint());
        self.profiles.iter().map(of).collect()
    }

    /// The pods since the last call that have left the queue because no profile has their scheduler name any more.
    pub fn take_orphans(&mut self) -> Vec<Arc<Pod>> {
        std::mem::take(&mut self.orphans)
    }

    /// The pending pods that none of these profiles would place, by name. Those that are being bound finish first.
    fn pods_without(&self, profiles: &Profiles) -> Vec<PodInfo> {
        let all = self.queue.iter_in_any_order();
        let stay = |id: PodId| self.bindings.get(id).is_some();
        let mut without: Vec<PodInfo> = all
            .filter(|(id, info)| profiles.get(&info.pod.scheduler_name).is_none() && !stay(*id))
            .map(|(_, info)| info.pod.clone())
            .collect();
        without.sort_by(|a, b| a.key.cmp(&b.key));
        without
    }

    /// A pod whose binding has failed, and which no profile places any more.
    pub(crate) fn is_orphaned(&mut self, now: Time, id: PodId, pod: &PodInfo) {
        let is_placed = self.cache.knows(id);
        self.is_anothers(now, id);
        if !is_placed {
            self.orphans.push(pod.seen().clone());
        }
    }

    /// Decides a pod that was decided before, once by each of these profiles, as if it were pending: its place on a node
    /// does not count. A decision is `None` without a profile; both are if the pod is gone.
    pub fn decide_again(
        &mut self,
        now: Time,
        pod: &PodKey,
        profiles: [Option<&Profile>; 2],
    ) -> Option<[Option<Decision>; 2]> {
        let known = self.known_pod(pod)?;
        let is_placed = self.names.find(pod).is_some_and(|id| self.cache.knows(id));
        let mut pending = Pod::clone(known.seen());
        pending.node_name = None;
        let pending = Arc::new(pending);
        self.cache.set_now(now);
        self.transaction(now, |transaction| {
            if is_placed {
                // It was just found on a node.
                transaction.evict(pod).ok()?;
            }
            Some(profiles.map(|profile| {
                profile.map(|profile| transaction.decide_under(profile, pending.clone()))
            }))
        })
    }

    /// A pod that is on a node or pending.
    pub fn known_pod(&self, pod: &PodKey) -> Option<&PodInfo> {
        let id = self.names.find(pod)?;
        self.cache.pod(id).or_else(|| self.queue.get(id).map(|info| &info.pod))
    }

    /// The profile that places the pods with this scheduler name, to be kept.
    pub fn shared_profile(&self, scheduler_name: &str) -> Option<Arc<Profile>> {
        self.profiles.shared(scheduler_name)
    }
}
