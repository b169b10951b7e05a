//! The binding cycle as a state machine: Permit, writes of plugins before binding, Bind, PostBind.
//!
//! Every step can fail, and every step that waits has a deadline. No thread waits: a cycle advances
//! when an answer arrives, when the cluster changes, or at its deadline.

mod extender;

use std::collections::BTreeSet;
use std::time::Duration;

use plimsoll_api::Str;
use plimsoll_framework::{
    Assume, Code, CycleState, Handle, Held, Permission, Placement, PodInfo, Point, Readiness,
    Rejection, Time, WaitingDecision, WaitingPod, WaitingPods, binding::PERMIT_TIMEOUT_MAX,
};

use crate::cache::Cache;
use crate::effect::{Effect, EffectId, Write};
use crate::event::WriteError;
use crate::extenders::{ExtenderId, Extenders};
use crate::metrics::{Counts, Lap, MeteredPoint, Status};
use crate::names::PodId;
use crate::profile::Profile;
use crate::queue::Attempt;

/// Why a pod that had a node was not bound.
#[derive(Clone, Debug)]
pub(crate) enum Unbound {
    /// A plugin rejected it.
    Rejected { plugin: &'static str, why: Rejection },
    /// A plugin rejected it after Permit, when that no longer makes it unschedulable.
    TooLate(Rejection),
    /// Something went wrong.
    Error(String),
}

impl Unbound {
    /// The status of the extension point for metrics.
    pub(crate) fn status(&self) -> Status {
        match self {
            Unbound::Rejected { why, .. } | Unbound::TooLate(why) => why.code.into(),
            Unbound::Error(_) => Status::Error,
        }
    }
}

/// The stage of a binding cycle.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    /// Waits for plugins at Permit.
    Permit,
    /// Waits for the answers to the writes of the plugin at `at` in the PreBind order.
    Writing { at: usize, awaited: BTreeSet<EffectId> },
    /// Waits until the cluster is in the state that this plugin requires.
    Settling { at: usize },
    /// Waits for the answer to the binding.
    Binding { plugin: &'static str, effect: EffectId },
    /// Waits for an extender to bind.
    Extender { extender: ExtenderId, effect: EffectId },
}

/// The binding cycle of one pod.
#[derive(Debug)]
pub(crate) struct BindingCycle {
    pub(crate) id: PodId,
    /// The pod, on its node.
    pub(crate) pod: PodInfo,
    pub(crate) attempt: u32,
    /// Whether the expected node of the pod was written.
    pub(crate) says_node: bool,
    /// When it started to wait at Permit, if it did.
    pub(crate) permit_began: Time,
    /// When the current extension point began.
    lap: Lap,
    held: Vec<(&'static str, Held)>,
    shared: CycleState,
    stage: Stage,
    deadline: Option<Time>,
}

/// The result of a step of a binding cycle.
pub(crate) enum Moved {
    /// It waits.
    Waits,
    /// The pod is bound.
    Bound,
    /// The pod will not be bound.
    Failed(Unbound),
}

/// The data behind the handles of plugins.
pub(crate) struct Backing<'a> {
    pub(crate) now: Time,
    pub(crate) cache: &'a mut Cache,
    /// The pods that wait at Permit, and the decisions about them.
    pub(crate) waiting: &'a [WaitingPod],
    pub(crate) decisions: &'a mut Vec<WaitingDecision>,
}

/// What a binding cycle needs from the scheduler.
pub(crate) struct Desk<'a> {
    pub(crate) backing: Backing<'a>,
    pub(crate) profile: &'a Profile,
    pub(crate) extenders: &'a Extenders,
    pub(crate) effects: &'a mut Vec<Effect>,
    pub(crate) next_effect: &'a mut u64,
    /// How long to wait for the answer to a write.
    pub(crate) write_timeout: Duration,
    pub(crate) counts: &'a mut Counts,
}

impl Desk<'_> {
    /// Records that an extension point has ended, and returns the start of the next one.
    fn stage_over(&mut self, stage: MeteredPoint, status: Status, lap: Lap) -> Lap {
        self.counts.stage(self.profile.index, stage, status, lap)
    }

    pub(crate) fn write(&mut self, pod: &PodInfo, write: Write) -> EffectId {
        let id = EffectId(*self.next_effect);
        *self.next_effect += 1;
        self.effects.push(Effect { id, pod: pod.seen().clone(), write });
        id
    }
}

impl BindingCycle {
    /// Runs Reserve. On failure all reservations are undone.
    pub(crate) fn reserve(
        attempt: Attempt,
        shared: CycleState,
        profile: &Profile,
        backing: &mut Backing<'_>,
    ) -> Result<Box<Self>, Unbound> {
        let mut cycle = Box::new(BindingCycle {
            id: attempt.id,
            pod: attempt.pod,
            attempt: attempt.number,
            says_node: false,
            permit_began: Time::ZERO,
            lap: Lap::default(),
            held: Vec::new(),
            shared,
            stage: Stage::Permit,
            deadline: None,
        });
        for (plugin, _) in profile.at(Point::Reserve) {
            let point = plugin.points.reserve.as_ref();
            let Some(point) = point.filter(|point| point.applies(&cycle.pod)) else { continue };
            let reserve =
                |_: &Self, at: &Placement<'_>, handle: &mut Handle<'_>| point.reserve(at, handle);
            match cycle.ask(plugin.name, backing, reserve, Result::is_ok) {
                Ok(held) => cycle.held.push((plugin.name, held)),
                Err(why) => {
                    cycle.unreserve(backing);
                    return Err(rejected("Reserve", plugin.name, why));
                }
            }
        }
        Ok(cycle)
    }

    /// Runs Permit, and returns the plugins for which the pod has to wait, each with its deadline. If
    /// there are none, it may be bound now.
    pub(crate) fn permit(
        &mut self,
        profile: &Profile,
        backing: &mut Backing<'_>,
    ) -> Result<Vec<(&'static str, Time)>, Unbound> {
        let mut pending = Vec::new();
        for (plugin, _) in profile.at(Point::Permit) {
            let Some(point) = &plugin.points.permit else { continue };
            let permit =
                |_: &Self, at: &Placement<'_>, handle: &mut Handle<'_>| point.permit(at, handle);
            let allows = |said: &Permission| !matches!(said, Permission::Deny(_));
            match self.ask(plugin.name, backing, permit, allows) {
                Permission::Approve => {}
                Permission::Deny(why) => {
                    return Err(rejected("Permit", plugin.name, why));
                }
                Permission::Wait(span) => {
                    pending.push((plugin.name, backing.now + span.min(PERMIT_TIMEOUT_MAX)));
                }
            }
        }
        Ok(pending)
    }

    /// Whether something has to be done or awaited before it can be bound.
    pub(crate) fn has_to_prepare(
        &self,
        now: Time,
        profile: &Profile,
        cache: &Cache,
        waiting: &[WaitingPod],
    ) -> bool {
        let at = self.placement(cache);
        self.pre_bind_order(profile).into_iter().any(|place| {
            let (plugin, held) = &self.held[place];
            // This is only a preview: what the plugin does here has no effect.
            let (mut shared, mut said, mut decided) = (self.shared.clone(), Vec::new(), Vec::new());
            let waiting = WaitingPods::new(plugin, waiting, &mut decided);
            let (shared, assume) = (&mut shared, Assume::new(&mut said));
            let mut handle = Handle { now, shared, assume, waiting };
            !held.writes(&at, &mut handle).is_empty()
                || matches!(held.ready(&at, &mut handle), Readiness::Waiting)
        })
    }

    /// Continues after Permit, with the work before binding.
    pub(crate) fn proceed(&mut self, desk: &mut Desk<'_>) -> Moved {
        self.lap = desk.counts.start();
        self.pre_bind(0, desk)
    }

    /// Handles the answer to a write that this cycle [awaits](Self::awaited).
    pub(crate) fn answered(
        &mut self,
        id: EffectId,
        answer: Result<(), WriteError>,
        desk: &mut Desk<'_>,
    ) -> Moved {
        match &mut self.stage {
            Stage::Writing { at, awaited } => {
                let at = *at;
                awaited.remove(&id);
                let done = awaited.is_empty();
                match answer {
                    Err(error) => {
                        let plugin = self.pre_bind_plugin(at, desk.profile);
                        let text = format!("running PreBind plugin {plugin:?}: {error}");
                        Moved::Failed(Unbound::Error(text))
                    }
                    Ok(()) if done => self.settle(at, desk),
                    Ok(()) => Moved::Waits,
                }
            }
            Stage::Binding { plugin, .. } => match answer {
                Ok(()) => self.bound(desk),
                Err(error) => {
                    let text = format!("running Bind plugin {plugin:?}: {error}");
                    Moved::Failed(Unbound::Error(text))
                }
            },
            Stage::Extender { extender, .. } => {
                let extender = *extender;
                match answer {
                    Ok(()) => self.bound(desk),
                    Err(error) => self.bind_without(extender, error.0, desk),
                }
            }
            Stage::Permit | Stage::Settling { .. } => Moved::Waits,
        }
    }

    /// Checks after a change of the cluster or the time whether the awaited state is reached, or the
    /// deadline has passed.
    pub(crate) fn look(&mut self, desk: &mut Desk<'_>) -> Moved {
        if let Stage::Settling { at } = self.stage
            && let moved @ (Moved::Bound | Moved::Failed(_)) = self.check(at, desk)
        {
            return moved;
        }
        match self.deadline {
            Some(deadline) if deadline <= desk.backing.now => self.timed_out(desk),
            _ => Moved::Waits,
        }
    }

    /// The chosen node.
    pub(crate) fn node(&self) -> &Str {
        self.pod.node().expect("the pod was placed on it")
    }

    /// Its deadline, if it waits for anything except Permit.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.deadline
    }

    /// The writes whose answers it awaits.
    pub(crate) fn awaited(&self) -> impl Iterator<Item = EffectId> {
        let (writes, binding) = match &self.stage {
            Stage::Writing { awaited, .. } => (Some(awaited), None),
            Stage::Binding { effect, .. } | Stage::Extender { effect, .. } => (None, Some(*effect)),
            Stage::Permit | Stage::Settling { .. } => (None, None),
        };
        writes.into_iter().flatten().copied().chain(binding)
    }

    /// Whether it waits for a state of the cluster.
    pub(crate) fn is_settling(&self) -> bool {
        matches!(self.stage, Stage::Settling { .. })
    }

    /// The current extension point, and when it began; none at Permit.
    pub(crate) fn stands_at(&self) -> Option<(MeteredPoint, Lap)> {
        match self.stage {
            // As in schedule_one.go, bind: binding by extenders does not count as Bind.
            Stage::Permit | Stage::Extender { .. } => None,
            Stage::Writing { .. } | Stage::Settling { .. } => {
                Some((MeteredPoint::PreBind, self.lap))
            }
            Stage::Binding { .. } => Some((MeteredPoint::Bind, self.lap)),
        }
    }

    /// Whether the binding was written but not answered yet.
    pub(crate) fn is_binding(&self) -> bool {
        matches!(self.stage, Stage::Binding { .. } | Stage::Extender { .. })
    }

    /// Undoes the reservations in reverse order.
    pub(crate) fn unreserve(&mut self, backing: &mut Backing<'_>) {
        for (plugin, held) in std::mem::take(&mut self.held).into_iter().rev() {
            self.ask(plugin, backing, |_, at, handle| held.unreserve(at, handle), |()| true);
        }
    }

    /// Calls a plugin with the node of the pod and a handle. Its assumptions are applied only if its
    /// answer `succeeds`.
    fn ask<T>(
        &mut self,
        plugin: &'static str,
        backing: &mut Backing<'_>,
        ask: impl FnOnce(&Self, &Placement<'_>, &mut Handle<'_>) -> T,
        succeeds: impl FnOnce(&T) -> bool,
    ) -> T {
        let mut shared = std::mem::take(&mut self.shared);
        let mut said = Vec::new();
        let mut handle = Handle {
            now: backing.now,
            shared: &mut shared,
            assume: Assume::new(&mut said),
            waiting: WaitingPods::new(plugin, backing.waiting, backing.decisions),
        };
        let answer = ask(self, &self.placement(backing.cache), &mut handle);
        self.shared = shared;
        if succeeds(&answer) {
            backing.cache.assume_volumes(said);
        }
        answer
    }

    fn pre_bind_plugin(&self, at: usize, profile: &Profile) -> &'static str {
        self.pre_bind_order(profile).get(at).map_or("", |&i| self.held[i].0)
    }

    /// The indices in `held` of the plugins at PreBind, in the order of that point.
    fn pre_bind_order(&self, profile: &Profile) -> Vec<usize> {
        let place = |name| self.held.iter().position(|(held, _)| *held == name);
        profile.at(Point::PreBind).filter_map(|(plugin, _)| place(plugin.name)).collect()
    }

    fn pre_bind(&mut self, at: usize, desk: &mut Desk<'_>) -> Moved {
        if self.held.is_empty() {
            return self.bind(desk);
        }
        let order = self.pre_bind_order(desk.profile);
        let Some(&place) = order.get(at) else { return self.bind(desk) };
        let plugin = self.held[place].0;
        let writes = |cycle: &Self, at: &Placement<'_>, handle: &mut Handle<'_>| {
            cycle.held[place].1.writes(at, handle)
        };
        let patches = self.ask(plugin, &mut desk.backing, writes, |_| true);
        if patches.is_empty() {
            return self.settle(at, desk);
        }
        let write = |patch| desk.write(&self.pod, Write::Patch(patch));
        let awaited = patches.into_iter().map(write).collect();
        self.stage = Stage::Writing { at, awaited };
        self.deadline = Some(desk.backing.now + desk.write_timeout);
        Moved::Waits
    }

    fn settle(&mut self, at: usize, desk: &mut Desk<'_>) -> Moved {
        let place = self.pre_bind_order(desk.profile)[at];
        self.stage = Stage::Settling { at };
        self.deadline = Some(desk.backing.now + self.held[place].1.timeout());
        self.check(at, desk)
    }

    fn check(&mut self, at: usize, desk: &mut Desk<'_>) -> Moved {
        let place = self.pre_bind_order(desk.profile)[at];
        let plugin = self.held[place].0;
        let ready = |cycle: &Self, at: &Placement<'_>, handle: &mut Handle<'_>| {
            cycle.held[place].1.ready(at, handle)
        };
        let goes_on = |said: &Readiness| !matches!(said, Readiness::Failed(_));
        match self.ask(plugin, &mut desk.backing, ready, goes_on) {
            Readiness::Ready => self.pre_bind(at + 1, desk),
            Readiness::Waiting => Moved::Waits,
            Readiness::Failed(why) => Moved::Failed(rejected_at_pre_bind(plugin, why)),
        }
    }

    fn bind_by_plugin(&mut self, desk: &mut Desk<'_>) -> Moved {
        let profile = desk.profile;
        let binding = profile.at(Point::Bind).find_map(|(plugin, _)| {
            let point = plugin.points.bind.as_ref()?;
            let bind =
                |_: &Self, at: &Placement<'_>, handle: &mut Handle<'_>| point.bind(at, handle);
            let binding = self.ask(plugin.name, &mut desk.backing, bind, Option::is_some)?;
            Some((plugin.name, binding))
        });
        let Some((plugin, binding)) = binding else {
            return Moved::Failed(Unbound::Error("all bind plugins skipped the pod".to_owned()));
        };
        let effect = desk.write(&self.pod, Write::Bind(binding));
        self.stage = Stage::Binding { plugin, effect };
        self.deadline = Some(desk.backing.now + desk.write_timeout);
        Moved::Waits
    }

    fn bound(&mut self, desk: &mut Desk<'_>) -> Moved {
        let lap = match self.stage {
            Stage::Extender { .. } => desk.counts.start(),
            _ => desk.stage_over(MeteredPoint::Bind, Status::Success, self.lap),
        };
        let mut patches = Vec::new();
        for (plugin, _) in desk.profile.at(Point::PostBind) {
            let Some(point) = &plugin.points.post_bind else { continue };
            let post_bind =
                |_: &Self, at: &Placement<'_>, handle: &mut Handle<'_>| point.post_bind(at, handle);
            patches.extend(self.ask(plugin.name, &mut desk.backing, post_bind, |_| true));
        }
        for patch in patches {
            desk.write(&self.pod, Write::Patch(patch));
        }
        desk.stage_over(MeteredPoint::PostBind, Status::Success, lap);
        Moved::Bound
    }

    fn timed_out(&mut self, desk: &mut Desk<'_>) -> Moved {
        let text = match &self.stage {
            Stage::Permit => return Moved::Waits,
            Stage::Writing { at, .. } => {
                let plugin = self.pre_bind_plugin(*at, desk.profile);
                format!("running PreBind plugin {plugin:?}: timed out waiting for a write")
            }
            Stage::Settling { at } => {
                let place = self.pre_bind_order(desk.profile)[*at];
                let (plugin, held) = &self.held[place];
                return Moved::Failed(rejected_at_pre_bind(plugin, held.timed_out()));
            }
            Stage::Binding { plugin, .. } => {
                format!("running Bind plugin {plugin:?}: timed out waiting for the binding")
            }
            &Stage::Extender { extender, .. } => {
                let why = desk.extenders.silent(extender).0;
                return self.bind_without(extender, why, desk);
            }
        };
        Moved::Failed(Unbound::Error(text))
    }

    fn placement<'a>(&'a self, cache: &'a Cache) -> Placement<'a> {
        Placement {
            pod: &self.pod,
            node: self.node(),
            row: cache.row(self.node()),
            view: cache.view(),
        }
    }
}

fn rejected(point: &str, plugin: &'static str, why: Rejection) -> Unbound {
    match why.code {
        Code::Error => Unbound::Error(format!("running {point} plugin {plugin:?}: {why}")),
        _ => Unbound::Rejected { plugin, why },
    }
}

/// A rejection after Permit no longer makes the pod unschedulable.
fn rejected_at_pre_bind(plugin: &'static str, why: Rejection) -> Unbound {
    match rejected("PreBind", plugin, why) {
        Unbound::Rejected { why, .. } => Unbound::TooLate(why),
        other => other,
    }
}
