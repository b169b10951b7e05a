//! Tries a group on the cluster, and takes everything back.

use plimsoll_api::{PodKey, Str};
use plimsoll_framework::{PodInfo, Row, Time};

use super::{GroupCycle, Scheduler};
use crate::binding::{Backing, BindingCycle, Unbound};
use crate::cycle::{self, AttemptFailure, Cycle, CycleResult};
use crate::effect::Effect;
use crate::metrics::PluginMetrics;
use crate::names::PodId;
use crate::queue::Attempt;

/// A trial of a group on one placement.
pub(super) struct Trial {
    pub(super) result: TrialResult,
    /// What it came to for each member, in their order.
    pub(super) members: Vec<MemberTrial>,
    /// The members that got a node.
    pub(super) proposed: Vec<(PodInfo, Row)>,
    /// What the members wait for that fit, if the group does not.
    pub(super) waits_for: String,
}

/// What a trial came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TrialResult {
    /// The group fits.
    Success,
    /// It will fit once the victims of some members are gone.
    WaitsOnPreemption,
    /// It does not fit.
    Unschedulable,
    /// It could not be judged.
    Error(String),
}

/// What a trial came to for one member.
pub(super) enum MemberTrial {
    /// It fits.
    Fits { row: Row, cycle: Box<Cycle> },
    /// It fits once its victims are gone.
    NeedsPreemption { failure: Box<AttemptFailure>, cycle: Box<Cycle> },
    /// It does not fit.
    Unfit { failure: Box<AttemptFailure>, cycle: Box<Cycle> },
    /// It could not be judged.
    Error(String),
    /// It was not tried.
    Untried,
}

/// A member that was placed for trial.
struct Placed {
    id: PodId,
    binding: Box<BindingCycle>,
    /// Its nomination, which counted no longer.
    nomination: Option<(PodInfo, Str)>,
}

impl Trial {
    /// A trial in which no member was tried.
    pub(super) fn untried(group: &GroupCycle, result: TrialResult) -> Self {
        let members = group.attempts.iter().map(|_| MemberTrial::Untried).collect();
        Trial { result, members, proposed: Vec::new(), waits_for: String::new() }
    }

    /// The victims of members that evict by themselves.
    pub(super) fn victims(&self) -> impl Iterator<Item = &PodKey> {
        let failures = self.members.iter().filter_map(|member| match member {
            MemberTrial::NeedsPreemption { failure, .. } => failure.nomination.as_ref(),
            _ => None,
        });
        failures.flat_map(|nomination| &nomination.victims)
    }
}

impl Scheduler {
    /// Tries all members in their order, each on the cluster with those before it. As in schedule_one_podgroup.go,
    /// podGroupSchedulingDefaultAlgorithm. Without `effects` PostFilter plugins are not asked.
    pub(super) fn try_group(
        &mut self,
        now: Time,
        group: &GroupCycle,
        within: Option<&[Row]>,
        mut effects: Option<&mut Vec<Effect>>,
    ) -> Trial {
        let within = within.filter(|rows| rows.len() < self.cache.view().nodes.len());
        let mut trial = Trial::untried(group, TrialResult::Unschedulable);
        let (mut placed, mut is_permitted, mut preempts) = (Vec::new(), false, false);
        for (place, attempt) in group.attempts.iter().enumerate() {
            let mut cycle = match effects {
                Some(_) if within.is_none() => {
                    let lap = self.counts.start();
                    self.decide(&attempt.pod, lap)
                }
                _ => self.decide_within(&attempt.pod, within, effects.is_some()),
            };
            let result = std::mem::replace(&mut cycle.result, CycleResult::Error(String::new()));
            let (row, failure) = match result {
                CycleResult::Found { row, best } => {
                    cycle.result = CycleResult::Found { row, best };
                    (row, None)
                }
                CycleResult::Unschedulable(failure) => {
                    let cleared = failure.nomination.as_ref();
                    let cleared = cleared.and_then(|nomination| self.cache.row(&nomination.node));
                    let Some(row) = cleared else {
                        trial.members[place] =
                            MemberTrial::Unfit { failure, cycle: Box::new(cycle) };
                        continue;
                    };
                    if let (Some(effects), Some(nomination)) = (&mut effects, &failure.nomination) {
                        let plugin = failure.nominated_by;
                        self.clear_way(now, attempt, nomination, plugin, effects);
                    }
                    (row, Some(failure))
                }
                CycleResult::Error(error) => {
                    trial.members[place] = MemberTrial::Error(error.clone());
                    trial.result = failed(&error);
                    break;
                }
            };
            let waits_for = match self.place_on_trial(now, attempt, row, &cycle, &mut placed) {
                Ok(waits_for) => waits_for,
                Err(Unbound::Rejected { plugin, why }) => {
                    let failure = Box::new(cycle::rejected_on_its_node(plugin, &why));
                    trial.members[place] = MemberTrial::Unfit { failure, cycle: Box::new(cycle) };
                    continue;
                }
                Err(Unbound::TooLate(why)) => {
                    trial.members[place] = MemberTrial::Error(why.to_string());
                    trial.result = failed(&why.to_string());
                    break;
                }
                Err(Unbound::Error(error)) => {
                    trial.members[place] = MemberTrial::Error(error.clone());
                    trial.result = failed(&error);
                    break;
                }
            };
            trial.proposed.push((attempt.pod.clone(), row));
            match waits_for {
                None => is_permitted = true,
                Some(waits_for) => trial.waits_for = waits_for,
            }
            preempts |= failure.is_some();
            trial.members[place] = match failure {
                None => MemberTrial::Fits { row, cycle: Box::new(cycle) },
                Some(failure) => MemberTrial::NeedsPreemption { failure, cycle: Box::new(cycle) },
            };
        }
        if is_permitted && trial.result == TrialResult::Unschedulable {
            trial.result = match preempts {
                false => TrialResult::Success,
                true => TrialResult::WaitsOnPreemption,
            };
        }
        for one in placed.into_iter().rev() {
            self.take_back_from_trial(now, one);
        }
        trial
    }

    /// Assumes a member on its node, and runs Reserve and Permit. Returns what it waits for, if it waits.
    fn place_on_trial(
        &mut self,
        now: Time,
        attempt: &Attempt,
        row: Row,
        cycle: &Cycle,
        placed: &mut Vec<Placed>,
    ) -> Result<Option<String>, Unbound> {
        let node = self.cache.view().nodes.name_of(row).clone();
        let assumed = attempt.pod.placed_on(node);
        self.cache.assume(attempt.id, assumed.clone(), row);
        let key = &attempt.pod.key;
        let pod = self.nominated.get(key).cloned();
        let nomination = pod.and_then(|pod| Some((pod, self.nominated.remove(key)?)));
        let name = &attempt.pod.scheduler_name;
        let profile = self.profiles.shared(name).expect("it was just used");
        let on_trial = Attempt { pod: assumed, ..attempt.clone() };
        // What plugins say on trial has no effect, beside what they assume of objects.
        let (mut decisions, mut said, mut events) = (Vec::new(), Vec::new(), Vec::new());
        let mut metrics = PluginMetrics::default();
        let mut backing = Backing {
            now,
            cache: &mut self.cache,
            waiting: self.waiting.pods(),
            decisions: &mut decisions,
            said: &mut said,
            metrics: &mut metrics,
            events: &mut events,
        };
        let reserved =
            BindingCycle::reserve(on_trial, cycle.shared.clone(), &profile, &mut backing);
        let permitted =
            reserved.and_then(|mut binding| match binding.permit(&profile, &mut backing) {
                Ok(pending) => Ok((binding, pending)),
                Err(why) => {
                    binding.unreserve(&mut backing);
                    Err(why)
                }
            });
        match permitted {
            Ok((binding, pending)) => {
                let reasons = pending.iter().filter_map(|(plugin, _)| {
                    let point = profile.named(plugin)?.points.permit.as_ref()?;
                    Some(point.waits_for()).filter(|text| !text.is_empty())
                });
                let reasons: Vec<&str> = reasons.collect();
                let waits_for = (!pending.is_empty()).then(|| reasons.join(", "));
                placed.push(Placed { id: attempt.id, binding, nomination });
                Ok(waits_for)
            }
            Err(why) => {
                self.cache.forget(attempt.id);
                self.nominate_again(nomination);
                Err(why)
            }
        }
    }

    /// Takes back what [`Self::place_on_trial`] has done.
    fn take_back_from_trial(&mut self, now: Time, placed: Placed) {
        let Placed { id, mut binding, nomination } = placed;
        let (mut decisions, mut said, mut events) = (Vec::new(), Vec::new(), Vec::new());
        let mut metrics = PluginMetrics::default();
        binding.unreserve(&mut Backing {
            now,
            cache: &mut self.cache,
            waiting: self.waiting.pods(),
            decisions: &mut decisions,
            said: &mut said,
            metrics: &mut metrics,
            events: &mut events,
        });
        self.cache.forget(id);
        self.nominate_again(nomination);
    }

    fn nominate_again(&mut self, nomination: Option<(PodInfo, Str)>) {
        if let Some((pod, node)) = nomination {
            self.nominated.set(pod, node);
        }
    }
}

fn failed(error: &str) -> TrialResult {
    TrialResult::Error(format!("failed to schedule other pod from a pod group: {error}"))
}
