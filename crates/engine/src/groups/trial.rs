//! Places members of a group on the cluster for trial, and takes them back.

use std::sync::Arc;

use plimsoll_api::{HostPort, ObjectKey, Str};
use plimsoll_framework::parts::StoreReads;
use plimsoll_framework::points::PermitPoint;
use plimsoll_framework::{CycleState, PodInfo, Point, Row, Time};

use crate::binding::{Backing, BindingCycle, Unbound};
use crate::cycle::{AttemptFailure, Cycle, CycleResult};
use crate::extenders::MemberScope;
use crate::metrics::PluginMetrics;
use crate::names::PodId;
use crate::queue::Attempt;
use crate::scheduler::{Detail, Scheduler};

/// What a trial came to for one member.
pub(super) enum MemberTrial {
    /// It fits.
    Fits {
        row: Row,
        cycle: Arc<Cycle>,
        /// Its binding cycle, if it [stays](Scheduler::stay) on its node.
        stays: Option<Box<BindingCycle>>,
    },
    /// It fits once its victims are gone.
    NeedsPreemption { failure: Box<AttemptFailure>, cycle: Arc<Cycle> },
    /// It does not fit.
    Unfit { failure: Box<AttemptFailure>, cycle: Arc<Cycle> },
    /// It could not be judged.
    Error(String),
    /// It was not tried.
    Untried,
}

/// What was decided about a member.
pub(super) enum MemberChoice {
    /// This node.
    Node(Row),
    /// There is no node.
    Nowhere(Box<AttemptFailure>),
    /// It could not be judged.
    Error(String),
}

impl MemberChoice {
    /// What a cycle has decided. A failure is taken out of the cycle if nobody else has that.
    fn of(cycle: &mut Arc<Cycle>) -> Self {
        if let CycleResult::Found { row, .. } = &cycle.result {
            return MemberChoice::Node(*row);
        }
        let result = match Arc::get_mut(cycle) {
            Some(own) => std::mem::replace(&mut own.result, CycleResult::Error(String::new())),
            None => cycle.result.clone(),
        };
        match result {
            CycleResult::Found { row, .. } => MemberChoice::Node(row),
            CycleResult::Unschedulable(failure) => MemberChoice::Nowhere(failure),
            CycleResult::Error(error) => MemberChoice::Error(error),
        }
    }
}

/// What a trial is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The group has its turn.
    Cycle,
    /// It is asked what would be decided.
    Question,
    /// It is part of a dry run, which what is remembered does not follow.
    DryRun,
}

/// Whether Permit is asked on trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Permits {
    /// It is, as in 1.36.
    Asked,
    /// It is not.
    Unasked,
}

/// A member that was placed for trial.
pub(super) struct Placed {
    id: PodId,
    binding: Box<BindingCycle>,
    /// What plugins had shared before Permit was asked on trial, if it was.
    shared_before: Option<CycleState>,
    /// Its nomination, which counted no longer.
    nomination: Option<(PodInfo, Str)>,
    /// Those of its host ports that were in use on its node before.
    ports: Vec<HostPort>,
}

impl Scheduler {
    /// Decides a member on the cluster with those before it. `asks_post_filter` says whether PostFilter plugins are asked
    /// about it on a placement, or in a dry run.
    pub(super) fn decide_on_trial(
        &mut self,
        attempt: &Attempt,
        purpose: Purpose,
        within: Option<&[Row]>,
        asks_post_filter: bool,
    ) -> (MemberChoice, Arc<Cycle>) {
        let has_turn = within.is_none() && purpose == Purpose::Cycle;
        let plainly = |scheduler: &mut Scheduler| match (purpose, within) {
            (Purpose::Cycle, None) => {
                let lap = scheduler.counts.start();
                scheduler.decide(&attempt.pod, lap)
            }
            (Purpose::Cycle, Some(rows)) => {
                scheduler.decide_within(&attempt.pod, rows, asks_post_filter)
            }
            // Preemption may be asked for, but nothing comes of it.
            (Purpose::Question, None) => scheduler.decide_alone(&attempt.pod),
            _ => scheduler.decide_within_from_scratch(&attempt.pod, within, asks_post_filter),
        };
        let asks_post_filter = has_turn || asks_post_filter;
        let scope = MemberScope { within, asks_post_filter, is_measured: has_turn };
        let usual = self.options.detail;
        if purpose == Purpose::Question && self.given.is_in_detail(attempt.id) {
            self.options.detail = Detail::Nodes;
        }
        let mut cycle = self.decide_consulting(attempt, scope, plainly);
        self.options.detail = usual;
        let given = match purpose {
            Purpose::Question => self.given_row(attempt, within, &cycle),
            Purpose::Cycle | Purpose::DryRun => None,
        };
        match given {
            Some(row) => (MemberChoice::Node(row), cycle),
            None => (MemberChoice::of(&mut cycle), cycle),
        }
    }

    /// Asks plugins that reserve. What they say on trial has no effect, beside what they assume of objects.
    pub(crate) fn ask_on_trial<T>(
        &mut self,
        now: Time,
        ask: impl FnOnce(&mut Backing<'_>) -> T,
    ) -> T {
        let (mut decisions, mut said, mut events) = (Vec::new(), Vec::new(), Vec::new());
        ask(&mut Backing {
            now,
            cache: &mut self.cache,
            waiting: self.waiting.pods(),
            decisions: &mut decisions,
            said: &mut said,
            metrics: &mut PluginMetrics::default(),
            events: &mut events,
        })
    }

    /// Assumes a member on its node, and runs Reserve and, if it is asked, Permit. `shared` is what plugins shared in its
    /// cycle. Returns what it waits for, if it waits.
    pub(super) fn place_on_trial(
        &mut self,
        now: Time,
        attempt: &Attempt,
        (row, shared): (Row, CycleState),
        permits: Permits,
        placed: &mut Vec<Placed>,
    ) -> Result<Option<String>, Unbound> {
        let node = self.cache.view().nodes.name_of(row).clone();
        let assumed = attempt.pod.placed_on(node);
        let ports = self.cache.assume_on_trial(attempt.id, assumed.clone(), row);
        let key = &attempt.pod.key;
        let pod = self.nominated.get(key).cloned();
        let nomination = pod.and_then(|pod| Some((pod, self.nominated.remove(key)?)));
        let name = &attempt.pod.scheduler_name;
        let profile = self.profiles.shared(name).expect("it was just used");
        let on_trial = Attempt { pod: assumed, ..attempt.clone() };
        let permitted = self.ask_on_trial(now, |backing| {
            let mut binding = BindingCycle::reserve(on_trial, shared, &profile, backing)?;
            let (shared_before, pending) = match permits {
                Permits::Asked => {
                    let before = binding.shared.clone();
                    (Some(before), binding.permit(&profile, backing))
                }
                Permits::Unasked => (None, Ok(Vec::new())),
            };
            match pending {
                Ok(pending) => Ok((binding, shared_before, pending)),
                Err(why) => {
                    binding.unreserve(backing);
                    Err(why)
                }
            }
        });
        match permitted {
            Ok((binding, shared_before, pending)) => {
                let reasons = pending.iter().filter_map(|(plugin, _)| {
                    let point = profile.named(plugin)?.points.permit.as_ref()?;
                    Some(point.waits_for()).filter(|text| !text.is_empty())
                });
                let reasons: Vec<&str> = reasons.collect();
                let waits_for = (!pending.is_empty()).then(|| reasons.join(", "));
                let id = attempt.id;
                placed.push(Placed { id, binding, shared_before, nomination, ports });
                Ok(waits_for)
            }
            Err(why) => {
                self.cache.take_back(attempt.id, &ports);
                self.nominate_again(nomination);
                Err(why)
            }
        }
    }

    /// Whether the members of a group, which were all placed for trial, may stay on their nodes until each is bound. It makes no
    /// difference if no Reserve plugin holds anything for them, and no Permit plugin looks at pods on nodes.
    pub(super) fn may_stay(&self, members: &[Attempt], placed: &[Placed]) -> bool {
        let is_placed = members.iter().map(|member| member.id).eq(placed.iter().map(|one| one.id));
        let looks = |one: &Placed| {
            let mut permits = one.binding.profile.at(Point::Permit);
            permits.any(|(plugin, _)| {
                plugin.points.permit.as_ref().is_some_and(PermitPoint::looks_at_pods)
            })
        };
        // Members of a group have the same profile.
        is_placed
            && self.options.detail <= Detail::Choice
            && !placed.first().is_some_and(looks)
            && placed.iter().all(|one| one.binding.holds_nothing())
    }

    /// Leaves members on their nodes until they are bound. For their groups each is placed only then.
    pub(super) fn stay(
        &mut self,
        groups: &[ObjectKey],
        placed: Vec<Placed>,
    ) -> impl Iterator<Item = Box<BindingCycle>> + use<> {
        let states = &mut self.cache.stores_mut(StoreReads::GROUPS).groups;
        for group in groups {
            states.stay(group);
        }
        placed.into_iter().map(|placed| {
            let Placed { mut binding, shared_before, .. } = placed;
            // Permit is asked again, and does not know that it was asked on trial.
            if let Some(before) = shared_before {
                binding.shared = before;
            }
            binding
        })
    }

    /// Takes members back, the last one first.
    pub(super) fn take_all_back(&mut self, now: Time, placed: Vec<Placed>) {
        for one in placed.into_iter().rev() {
            self.take_back_from_trial(now, one);
        }
    }

    /// Takes back what [`Self::place_on_trial`] has done.
    fn take_back_from_trial(&mut self, now: Time, placed: Placed) {
        let Placed { id, mut binding, nomination, ports, .. } = placed;
        self.ask_on_trial(now, |backing| binding.unreserve(backing));
        self.cache.take_back(id, &ports);
        self.nominate_again(nomination);
    }

    fn nominate_again(&mut self, nomination: Option<(PodInfo, Str)>) {
        if let Some((pod, node)) = nomination {
            self.nominated.set(pod, node);
        }
    }
}
