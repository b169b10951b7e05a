//! Judges the decisions of a part whose beginning is not recorded.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_api::{Pod, PodKey, Str};
use plimsoll_engine::{Event, Observation, Outcome, Scheduler};
use plimsoll_framework::Time;

use crate::decode::Entry;
use crate::effects::{RecordedEffect, What};

/// The reason of the condition of a pod that fits nowhere.
const UNSCHEDULABLE: &str = "Unschedulable";

/// Makes each recorded decision again on the cluster as it was at that time, each by itself.
///
/// A part in the middle of a recording begins with the objects that were known, but neither with the queue nor with the
/// state of the random generator. So the order of decisions is taken from the recording. A pod that was bound must fit
/// its node, and no other node may be better. A pod that was not scheduled must fit no node.
#[derive(Debug)]
pub struct Judge {
    scheduler: Scheduler,
    now: Time,
    pods: BTreeMap<PodKey, Arc<Pod>>,
    /// Pods that are being bound and were not observed on their nodes yet.
    assumed: BTreeMap<PodKey, Str>,
    verdicts: Verdicts,
}

/// What was judged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdicts {
    /// How many events were read.
    pub events: u64,
    /// How many decisions were made again.
    pub judged: u64,
    /// How many decisions could not be made again, since their pod was not pending or could not be judged.
    pub not_judged: u64,
    /// How many came out differently.
    pub differing: u64,
    /// The first of these: the time, the pod, and both outcomes.
    pub first: Option<(Time, PodKey, String)>,
    /// The times of the first event and of the last.
    pub span: Option<(Time, Time)>,
}

impl Judge {
    /// A judge with a scheduler that has observed nothing.
    pub fn new(scheduler: Scheduler) -> Self {
        Judge {
            scheduler,
            now: Time::ZERO,
            pods: BTreeMap::new(),
            assumed: BTreeMap::new(),
            verdicts: Verdicts::default(),
        }
    }

    /// What was judged up to now.
    pub fn verdicts(&self) -> &Verdicts {
        &self.verdicts
    }

    /// Takes in an entry, and judges its decisions. Pictures are needed.
    pub fn take(&mut self, entry: Entry) {
        match entry {
            Entry::Event(now, event) => {
                self.now = now;
                let first = self.verdicts.span.map_or(now, |(first, _)| first);
                self.verdicts.span = Some((first, now));
                self.verdicts.events += 1;
                self.observe(event);
            }
            Entry::Assumed(pod, node) => self.assume(&pod, node),
            Entry::Effects(effects, _) => {
                for effect in effects {
                    self.judge(effect);
                }
            }
            Entry::Steps(now, _) | Entry::WindUp(now) => self.now = now,
            Entry::Digest(_)
            | Entry::Waiting(_)
            | Entry::PictureBegins
            | Entry::PictureEnds
            | Entry::End
            | Entry::Continues
            | Entry::Dropped => {}
        }
    }

    fn observe(&mut self, event: Event) {
        match event {
            Event::Pod(Observation::Is(pod)) => {
                self.pods.insert(pod.key.clone(), pod.clone());
                if pod.node_name.is_some() {
                    self.assumed.remove(&pod.key);
                }
                self.show(&pod);
            }
            Event::Pod(Observation::Gone(key)) => {
                self.pods.remove(&key);
                self.assumed.remove(&key);
                self.scheduler.observe(self.now, Event::pod_gone(key));
            }
            // These answer what another scheduler wrote.
            Event::Done(..) | Event::Extended(..) => {}
            other => self.scheduler.observe(self.now, other),
        }
    }

    /// Shows a pod to the scheduler: on its node, if it is being bound.
    fn show(&mut self, pod: &Arc<Pod>) {
        let pod = match self.assumed.get(&pod.key) {
            Some(node) => Arc::new(Pod { node_name: Some(node.clone()), ..Pod::clone(pod) }),
            None => pod.clone(),
        };
        self.scheduler.observe(self.now, Event::pod(pod));
    }

    fn assume(&mut self, key: &PodKey, node: Str) {
        self.assumed.insert(key.clone(), node);
        if let Some(pod) = self.pods.get(key).cloned() {
            self.show(&pod);
        }
    }

    fn judge(&mut self, RecordedEffect { pod, what }: RecordedEffect) {
        match what {
            What::Bind(node) => {
                let outcome = self.scheduler.explain(&pod).map(|decision| decision.outcome);
                let is_same = |outcome: &Outcome| matches!(outcome, Outcome::Scheduled { best, .. } if best.contains(&node));
                self.count(&pod, outcome, &format!("bound to {node}"), is_same);
                self.assume(&pod, node);
            }
            // The binding failed, which is not a decision of the scheduling cycle.
            What::Condition(..) if self.assumed.remove(&pod).is_some() => {
                if let Some(known) = self.pods.get(&pod).cloned() {
                    self.scheduler.observe(self.now, Event::pod_gone(pod));
                    self.show(&known);
                }
            }
            What::Condition(reason, message) if reason == UNSCHEDULABLE => {
                let outcome = self.scheduler.explain(&pod).map(|decision| decision.outcome);
                let is_same = |outcome: &Outcome| matches!(outcome, Outcome::Unschedulable { .. });
                self.count(&pod, outcome, &message, is_same);
            }
            What::Nominate(node) => {
                if let Some(known) = self.pods.get(&pod).cloned() {
                    let known = Arc::new(Pod { nominated_node: node, ..Pod::clone(&known) });
                    self.pods.insert(pod, known.clone());
                    self.show(&known);
                }
            }
            What::Condition(..)
            | What::Write(_)
            | What::Evict(_)
            | What::Scheduled
            | What::Failed(_)
            | What::Event(..)
            | What::Ask(..) => {}
        }
    }

    fn count(
        &mut self,
        pod: &PodKey,
        outcome: Option<Outcome>,
        recorded: &str,
        is_same: impl Fn(&Outcome) -> bool,
    ) {
        let verdicts = &mut self.verdicts;
        let Some(outcome) = outcome.filter(|outcome| !matches!(outcome, Outcome::Error { .. }))
        else {
            verdicts.not_judged += 1;
            return;
        };
        verdicts.judged += 1;
        if is_same(&outcome) {
            return;
        }
        verdicts.differing += 1;
        let now = match outcome {
            Outcome::Scheduled { best, .. } => format!("fits, best on {}", best.join(", ")),
            Outcome::Unschedulable { message, .. } | Outcome::Error { message } => message,
        };
        let text = format!("recorded: {recorded}; judged by itself: {now}");
        verdicts.first.get_or_insert((self.now, pod.clone(), text));
    }
}
