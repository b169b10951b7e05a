//! Rules that let another profile decide some pods, as an instance on a cluster may have them.

use std::fmt;
use std::sync::Arc;

use plimsoll_api::{Pod, PodPhase, Str, Templates};
use plimsoll_engine::{Event, Observation};

/// The scheduler name of the profile that decides a pod, if it may be another one than its own.
type Rule = dyn Fn(&Pod) -> Option<Str> + Send + Sync;

/// Rules that let another profile decide some pods. The scheduler sees a pending pod with the scheduler name of the profile
/// that decides it, and a member of a group also on its node. The rest of the cluster sees the pod as it is.
pub struct ProfileRules {
    rule: Box<Rule>,
    /// Pods of one controller share their template.
    templates: Templates,
}

impl fmt::Debug for ProfileRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProfileRules").finish_non_exhaustive()
    }
}

impl ProfileRules {
    /// Those that `rule` says.
    pub fn new(rule: impl Fn(&Pod) -> Option<Str> + Send + Sync + 'static) -> Self {
        ProfileRules { rule: Box::new(rule), templates: Templates::default() }
    }

    /// An event as the scheduler is to see it.
    pub(crate) fn route(&mut self, event: Event) -> Event {
        match event {
            Event::Pod(Observation::Is(pod)) => Event::Pod(Observation::Is(self.routed(pod))),
            other => other,
        }
    }

    fn routed(&mut self, pod: Arc<Pod>) -> Arc<Pod> {
        let is_open = pod.node_name.is_none() || pod.scheduling_group.is_some();
        if !is_open || pod.phase == PodPhase::Ended {
            return pod;
        }
        match (self.rule)(&pod) {
            Some(name) if name != pod.scheduler_name => {
                let mut pod = Pod::clone(&pod);
                pod.scheduler_name = name;
                self.templates.share(&mut pod);
                Arc::new(pod)
            }
            _ => pod,
        }
    }
}
