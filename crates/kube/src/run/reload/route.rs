//! Which profile decides a pod: that of its scheduler name, or another one that a rule assigns.
//!
//! The engine sees an assigned pod with the scheduler name of the profile that decides it, as long as it is pending. A
//! member of a group keeps that name on its node, since all members of a group must have the same. The pod itself is not
//! changed.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use plimsoll_api::{Pod, PodKey, PodPhase, Str, Templates};
use plimsoll_engine::{Event, Observation, Scheduler};
use rustc_hash::FxHashMap;

/// Assigns pods to profiles.
pub trait AssignProfile: Send + Sync {
    /// The scheduler name of the profile that decides a pending pod, if it is another one than its own. The same pod has
    /// always the same profile.
    fn profile_of(&self, pod: &Pod) -> Option<Str>;
}

/// At most this many pods are kept that another profile decides or that none does. Beyond that, a reload does not find the
/// pods of a new scheduler name before they change.
const KEPT: usize = 100_000;

/// Routes pods to profiles.
pub(crate) struct Router {
    assign: Option<Arc<dyn AssignProfile>>,
    /// Whether pods are kept for a reload.
    keeps: bool,
    /// The scheduler names of the profiles.
    names: BTreeSet<Str>,
    /// Pending pods and members of groups, as observed, that the engine does not have like this.
    kept: FxHashMap<PodKey, Arc<Pod>>,
    /// Assigned pods of one controller share their template.
    templates: Templates,
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router").field("names", &self.names).finish_non_exhaustive()
    }
}

impl Router {
    /// A router to the profiles of `scheduler`; `keeps` says whether they can be replaced.
    pub(crate) fn new(
        assign: Option<Arc<dyn AssignProfile>>,
        keeps: bool,
        scheduler: &Scheduler,
    ) -> Self {
        let (kept, templates) = (FxHashMap::default(), Templates::default());
        let mut router = Router { assign, keeps, names: BTreeSet::new(), kept, templates };
        router.follow(scheduler);
        router
    }

    fn follow(&mut self, scheduler: &Scheduler) {
        self.names = scheduler.profile_names().into_iter().map(Str::from).collect();
    }

    /// An event as the engine is to see it.
    pub(crate) fn route(&mut self, event: Event) -> Event {
        if self.assign.is_none() && !self.keeps {
            return event;
        }
        match event {
            Event::Pod(Observation::Is(pod)) if is_routed(&pod) => {
                Event::Pod(Observation::Is(self.routed(pod)))
            }
            Event::Pod(observation) => {
                let key = match &observation {
                    Observation::Is(pod) => &pod.key,
                    Observation::Gone(key) => key,
                };
                self.kept.remove(key);
                Event::Pod(observation)
            }
            other => other,
        }
    }

    /// A pending pod, or a member of a group, as the engine is to see it.
    fn routed(&mut self, pod: Arc<Pod>) -> Arc<Pod> {
        let assigned = assigned_to(self.assign.as_deref(), &self.names, &pod);
        let is_ours = assigned.is_some() || self.names.contains(&pod.scheduler_name);
        if assigned.is_none() && (is_ours || pod.node_name.is_some()) {
            self.kept.remove(&pod.key);
            return pod;
        }
        if self.keeps && (self.kept.len() < KEPT || self.kept.contains_key(&pod.key)) {
            self.kept.insert(pod.key.clone(), pod.clone());
        }
        let Some(name) = assigned else { return pod };
        let mut pod = Pod::clone(&pod);
        pod.scheduler_name = name;
        self.templates.share(&mut pod);
        Arc::new(pod)
    }

    /// A pod as it was observed.
    pub(crate) fn original<'a>(&'a self, pod: &'a Arc<Pod>) -> &'a Arc<Pod> {
        self.kept.get(&pod.key).filter(|kept| kept.uid == pod.uid).unwrap_or(pod)
    }

    /// Which profile of those with `names` would decide a pod under other rules.
    pub(crate) fn name_under(
        &self,
        assign: Option<&dyn AssignProfile>,
        names: &BTreeSet<Str>,
        pod: &Arc<Pod>,
    ) -> Str {
        let original = self.original(pod);
        let assigned = assigned_to(assign, names, original);
        assigned.unwrap_or_else(|| original.scheduler_name.clone())
    }

    /// The present rules.
    pub(crate) fn assign(&self) -> Option<&dyn AssignProfile> {
        self.assign.as_deref()
    }

    /// The scheduler names of the present profiles.
    pub(crate) fn names(&self) -> &BTreeSet<Str> {
        &self.names
    }

    /// The profiles of `scheduler` were replaced, and these rules apply now. `orphans` are pods that have left it. Returns
    /// the events that tell it of the pods that have another profile now.
    pub(crate) fn replace(
        &mut self,
        assign: Option<Arc<dyn AssignProfile>>,
        scheduler: &Scheduler,
        orphans: Vec<Arc<Pod>>,
    ) -> Vec<Event> {
        self.keep(orphans);
        self.assign = assign;
        self.follow(scheduler);
        let pending: Vec<Arc<Pod>> =
            scheduler.pending().map(|info| info.pod.seen().clone()).collect();
        let mut events = Vec::new();
        for pod in &pending {
            let original = self.original(pod).clone();
            let routed = self.routed(original);
            if routed.scheduler_name != pod.scheduler_name {
                events.push(Event::Pod(Observation::Is(routed)));
            }
        }
        let mut others: Vec<Arc<Pod>> = self.kept.values().cloned().collect();
        others.retain(|pod| pending.binary_search_by(|one| one.key.cmp(&pod.key)).is_err());
        others.sort_by(|a, b| a.key.cmp(&b.key));
        for pod in others {
            let routed = self.routed(pod);
            if self.names.contains(&routed.scheduler_name) {
                events.push(Event::Pod(Observation::Is(routed)));
            }
        }
        events
    }

    /// Keeps pods that no profile places any more.
    pub(crate) fn keep(&mut self, orphans: Vec<Arc<Pod>>) {
        for pod in orphans {
            // One that was assigned to a profile is kept as it was observed.
            if self.kept.len() < KEPT {
                self.kept.entry(pod.key.clone()).or_insert(pod);
            }
        }
    }
}

/// Whether it matters which profile a pod has.
fn is_routed(pod: &Pod) -> bool {
    pod.phase != PodPhase::Ended && (pod.node_name.is_none() || pod.scheduling_group.is_some())
}

/// The profile to which a pod of our profiles is assigned, if it is another one than its own. A rule that names no profile
/// of `names` has no effect.
fn assigned_to(
    assign: Option<&dyn AssignProfile>,
    names: &BTreeSet<Str>,
    pod: &Pod,
) -> Option<Str> {
    let assign = assign.filter(|_| names.contains(&pod.scheduler_name))?;
    let name = assign.profile_of(pod)?;
    (name != pod.scheduler_name && names.contains(&name)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct ToCanary;

    impl AssignProfile for ToCanary {
        fn profile_of(&self, _: &Pod) -> Option<Str> {
            Some("canary".into())
        }
    }

    #[test]
    fn a_member_of_a_group_keeps_its_profile_on_its_node() {
        let mut router = Router {
            assign: Some(Arc::new(ToCanary)),
            keeps: true,
            names: BTreeSet::from(["own", "canary"].map(Str::from)),
            kept: FxHashMap::default(),
            templates: Templates::default(),
        };
        let mut profile = |node: Option<&str>, group: Option<&str>| {
            let mut pod = Pod { key: PodKey::new("default", "p"), ..Pod::default() };
            pod.scheduler_name = "own".into();
            pod.node_name = node.map(Str::from);
            pod.scheduling_group = group.map(Str::from);
            match router.route(Event::Pod(Observation::Is(Arc::new(pod)))) {
                Event::Pod(Observation::Is(pod)) => pod.scheduler_name.to_string(),
                other => panic!("{other:?} is no pod"),
            }
        };
        assert_eq!(profile(None, None), "canary");
        assert_eq!(profile(Some("n"), None), "own");
        assert_eq!(profile(Some("n"), Some("gang")), "canary");
    }
}
