//! Tries a new configuration: recent and pending pods are decided under the present and under the new one.

use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use plimsoll_api::{PodKey, Str};
use plimsoll_engine::{Decision, Effect, Outcome, Profile, Scheduler, Write};
use plimsoll_framework::Time;

use super::{ReloadOutcome, ReloadRequest, Router};

/// At most this many recent and this many pending pods are tried.
const MOST: usize = 256;

/// A pod that was placed longer ago is not tried.
const RECENT: Duration = Duration::from_mins(5);

/// After a decision the trial rests for this many times as long, so that it takes at most a tenth of a core.
const REST: u32 = 9;

/// A trial ends after this time, with the pods tried so far: whoever changes a configuration waits for it.
const LONGEST: Duration = Duration::from_secs(10);

/// At most this many pods that are decided differently are named.
const EXAMPLES: usize = 10;

/// The pods that were placed last.
#[derive(Debug, Default)]
pub(crate) struct Recent(VecDeque<(Time, PodKey)>);

impl Recent {
    /// Remembers the pods that are being bound.
    pub(crate) fn note(&mut self, now: Time, effects: &[Effect]) {
        for effect in effects {
            if let Write::Bind(_) = effect.write {
                if self.0.len() == MOST {
                    self.0.pop_front();
                }
                self.0.push_back((now, effect.pod.key.clone()));
            }
        }
    }

    fn since(&self, time: Time) -> impl Iterator<Item = &PodKey> {
        self.0.iter().filter(move |(at, _)| time <= *at).map(|(_, pod)| pod)
    }
}

/// A trial that is under way.
pub(crate) struct Trial {
    pub(crate) request: ReloadRequest,
    /// The pods to be tried.
    pods: Vec<PodKey>,
    begun: Time,
    /// When the next pod is tried.
    next: Time,
    outcome: ReloadOutcome,
}

impl Trial {
    /// A trial with recent and pending pods.
    pub(crate) fn new(
        now: Time,
        request: ReloadRequest,
        recent: &Recent,
        scheduler: &Scheduler,
    ) -> Self {
        let pending: Vec<PodKey> = scheduler.pending().map(|info| info.pod.key.clone()).collect();
        let step = pending.len().div_ceil(MOST).max(1);
        let pods: BTreeSet<PodKey> =
            pending.into_iter().step_by(step).chain(recent.since(now - RECENT).cloned()).collect();
        Trial {
            request,
            pods: pods.into_iter().collect(),
            begun: now,
            next: now,
            outcome: ReloadOutcome::default(),
        }
    }

    /// How long it rests.
    pub(crate) fn rests(&self, now: Time) -> Duration {
        self.next.since(now)
    }

    /// Tries the next pod, if it is time. `true` once it is over.
    pub(crate) fn go_on(&mut self, now: Time, router: &Router, scheduler: &mut Scheduler) -> bool {
        if now < self.next {
            return false;
        }
        let begun = Instant::now();
        let Some(pod) = self.pods.pop().filter(|_| now.since(self.begun) < LONGEST) else {
            return true;
        };
        self.try_pod(now, &pod, router, scheduler);
        self.next = now + begun.elapsed() * REST;
        false
    }

    fn try_pod(&mut self, now: Time, pod: &PodKey, router: &Router, scheduler: &mut Scheduler) {
        let Some(known) = scheduler.known_pod(pod).map(|known| known.seen().clone()) else {
            return;
        };
        let new = &self.request.new;
        let names: BTreeSet<Str> =
            new.profiles.iter().map(|profile| profile.scheduler_name().into()).collect();
        let before = router.name_under(router.assign(), router.names(), &known);
        let after = router.name_under(new.assign.as_deref(), &names, &known);
        let before = scheduler.shared_profile(&before);
        let after = new.profiles.iter().find(|profile| profile.scheduler_name() == after.as_str());
        let profiles: [Option<&Profile>; 2] = [before.as_deref(), after];
        let Some([before, after]) = scheduler.decide_again(now, pod, profiles) else { return };
        self.outcome.tried += 1;
        if place(before.as_ref()) == place(after.as_ref()) {
            return;
        }
        self.outcome.different += 1;
        if self.outcome.examples.len() < EXAMPLES {
            let text = |decision: Option<Decision>| match decision.as_ref().map(|one| &one.outcome)
            {
                Some(Outcome::Scheduled { node, .. }) => format!("node {node}"),
                Some(Outcome::Unschedulable { .. }) => "unschedulable".to_owned(),
                Some(Outcome::Error { .. }) => "an error".to_owned(),
                None => "no profile".to_owned(),
            };
            let (before, after) = (text(before), text(after));
            self.outcome.examples.push(format!("pod {pod}: {before}, then {after}"));
        }
    }

    /// Its end: the request with the outcome.
    pub(crate) fn end(self) -> (ReloadRequest, ReloadOutcome) {
        (self.request, self.outcome)
    }
}

/// What a decision comes to: a node, none, an error, or that there is no profile.
fn place(decision: Option<&Decision>) -> Option<Result<Option<&Str>, ()>> {
    decision.map(|decision| match &decision.outcome {
        Outcome::Scheduled { node, .. } => Ok(Some(node)),
        Outcome::Unschedulable { .. } => Ok(None),
        Outcome::Error { .. } => Err(()),
    })
}
