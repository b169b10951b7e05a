//! The binding cycle as a state machine: Permit, writes of plugins before binding, Bind, PostBind.
//!
//! Every step can fail, and every step that waits has a deadline. No thread waits: a cycle advances
//! when an answer arrives, when the cluster changes, or at its deadline.

mod extender;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_api::{PodKey, Str};
use plimsoll_framework::{
    Binding, Code, CycleState, Handle, Held, Permission, Placement, PodEvent, PodInfo,
    PodsToActivate, Point, PreBindPoint, Readiness, Rejection, Time, WaitingDecision, WaitingPod,
    WriteError, binding::PERMIT_TIMEOUT_MAX,
};

use crate::cache::Cache;
use crate::effect::{Effect, EffectId, Write};
use crate::extenders::{ExtenderId, Extenders};
use crate::handle_output::HandleOutput;
use crate::metrics::{Lap, MeteredPoint, PluginMetrics, SchedulerCounters, Status};
use crate::names::PodId;
use crate::profile::Profile;
use crate::queue::Attempt;
use crate::writes::{RequestedWrite, SentWrites};

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
    /// What is said of it.
    pub(crate) fn message(&self) -> String {
        match self {
            Unbound::Rejected { why, .. } | Unbound::TooLate(why) => why.to_string(),
            Unbound::Error(message) => message.clone(),
        }
    }

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
enum BindingStage {
    /// Waits for plugins at Permit.
    Permit,
    /// Waits for the answers to what plugins have written.
    Writing(Then),
    /// Waits until the world has caught up with what the plugin at `at` of the PreBind order wanted.
    Settling { at: usize },
    /// Waits for the answer to the binding.
    Binding { plugin: &'static str, effect: EffectId },
    /// Waits for an extender to bind.
    Extender { extender: ExtenderId, effect: EffectId },
}

/// What comes once all that plugins have written is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Then {
    /// The plugin at this place of the PreBind order begins.
    PreBind(usize),
    /// The world has to catch up with what it wanted.
    Settle(usize),
    /// The pod is bound as this plugin says.
    Bind(&'static str, Binding),
}

/// The binding cycle of one pod.
#[derive(Debug)]
pub(crate) struct BindingCycle {
    pub(crate) id: PodId,
    /// The pod, on its node.
    pub(crate) pod: PodInfo,
    pub(crate) attempt: u32,
    /// The [sequence](crate::AttemptContext::sequence) of the attempt; `None` if that was not kept.
    pub(crate) sequence: Option<u64>,
    /// The profile that placed it. It goes on with this one even if the profile is replaced.
    pub(crate) profile: Arc<Profile>,
    /// When the pod was given its node.
    pub(crate) began: Time,
    /// Whether the expected node of the pod was written.
    pub(crate) says_node: bool,
    /// When it started to wait at Permit, if it did.
    pub(crate) permit_began: Time,
    /// When the current extension point began.
    lap: Lap,
    held: Vec<(&'static str, Held)>,
    pub(crate) shared: CycleState,
    /// What plugins have written, as far as it is not answered.
    writes: BTreeSet<EffectId>,
    stage: BindingStage,
    deadline: Option<Time>,
}

/// The result of a step of a binding cycle.
pub(crate) enum BindingProgress {
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
    /// The writes that plugins have requested.
    pub(crate) said: &'a mut Vec<RequestedWrite>,
    /// What plugins have measured.
    pub(crate) metrics: &'a mut PluginMetrics,
    /// The events that plugins have recorded, with the pods that they are about.
    pub(crate) events: &'a mut Vec<(PodInfo, PodEvent)>,
}

/// What a binding cycle needs from the scheduler.
pub(crate) struct BindingHandle<'a> {
    pub(crate) backing: Backing<'a>,
    pub(crate) profile: &'a Profile,
    pub(crate) extenders: &'a Extenders,
    pub(crate) effects: &'a mut Vec<Effect>,
    pub(crate) next_effect: &'a mut u64,
    pub(crate) sent: &'a mut SentWrites,
    /// How long to wait for the answer to a write.
    pub(crate) write_timeout: Duration,
    pub(crate) counts: &'a mut SchedulerCounters,
}

impl BindingHandle<'_> {
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

    /// Sends the writes that plugins have requested.
    pub(crate) fn send(&mut self) -> Vec<EffectId> {
        let deadline = self.backing.now + self.write_timeout;
        let mut ids = Vec::new();
        for said in std::mem::take(self.backing.said) {
            let id = self.write(&said.pod, Write::Object(said.write.clone()));
            self.sent.add(id, said, deadline);
            ids.push(id);
        }
        ids
    }
}

impl BindingCycle {
    /// Runs Reserve. On failure all reservations are undone.
    pub(crate) fn reserve(
        attempt: Attempt,
        shared: CycleState,
        profile: &Arc<Profile>,
        backing: &mut Backing<'_>,
    ) -> Result<Box<Self>, Unbound> {
        let mut cycle = Box::new(BindingCycle {
            id: attempt.id,
            profile: profile.clone(),
            pod: attempt.pod,
            attempt: attempt.number,
            sequence: None,
            began: backing.now,
            says_node: false,
            permit_began: Time::ZERO,
            lap: Lap::default(),
            held: Vec::new(),
            shared,
            writes: BTreeSet::new(),
            stage: BindingStage::Permit,
            deadline: None,
        });
        for (plugin, _) in profile.at(Point::Reserve) {
            let point = plugin.points.reserve.as_ref();
            let Some(point) = point.filter(|point| point.applies(&cycle.pod)) else { continue };
            let reserve =
                |_: &Self, at: &Placement<'_>, handle: &mut Handle<'_>| point.reserve(at, handle);
            match cycle.ask((plugin.name, Point::Reserve), backing, reserve, Result::is_ok) {
                Ok(held) => cycle.held.push((plugin.name, held)),
                Err(why) => {
                    cycle.unreserve(backing);
                    return Err(rejected(Point::Reserve, plugin.name, why));
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
            match self.ask((plugin.name, Point::Permit), backing, permit, allows) {
                Permission::Approve => {}
                Permission::Deny(why) => {
                    return Err(rejected(Point::Permit, plugin.name, why));
                }
                Permission::Wait(span) => {
                    pending.push((plugin.name, backing.now + span.min(PERMIT_TIMEOUT_MAX)));
                }
            }
        }
        Ok(pending)
    }

    /// Whether no plugin holds anything for it.
    pub(crate) fn holds_nothing(&self) -> bool {
        self.held.is_empty()
    }

    /// The pods that plugins want to be tried now.
    pub(crate) fn take_activated(&mut self) -> Vec<PodKey> {
        let activated = self.shared.read::<PodsToActivate>().map(|pods| pods.0.clone());
        self.shared.delete::<PodsToActivate>();
        activated.unwrap_or_default()
    }

    /// Whether something has to be done or awaited before it can be bound.
    pub(crate) fn has_to_prepare(&self, now: Time, cache: &Cache, waiting: &[WaitingPod]) -> bool {
        self.profile.at(Point::PreBind).any(|(plugin, _)| {
            let held = self.held_by(plugin.name);
            let point = plugin.points.pre_bind.as_ref().filter(|point| point.applies(held));
            let Some(point) = point else { return false };
            let at = self.placement(cache);
            // It is only asked in advance: what it does has no effect.
            let (mut output, mut decided) = (HandleOutput::default(), Vec::new());
            let mut shared = self.shared.clone();
            let mut handle = output.handle(plugin.name, now, &mut shared, waiting, &mut decided);
            point.pre_bind(held, &at, &mut handle);
            if !output.written.is_empty() {
                return true;
            }
            let mut handle = output.handle(plugin.name, now, &mut shared, waiting, &mut decided);
            let waits = matches!(point.ready(held, &at, &mut handle), Readiness::Waiting);
            waits || !output.written.is_empty()
        })
    }

    /// Continues after Permit, with the work before binding.
    pub(crate) fn proceed(&mut self, engine: &mut BindingHandle<'_>) -> BindingProgress {
        self.lap = engine.counts.start();
        self.once_written(Then::PreBind(0), engine)
    }

    /// Sends the writes that plugins have requested. The cycle continues with `then` once all of them are answered.
    fn once_written(&mut self, then: Then, engine: &mut BindingHandle<'_>) -> BindingProgress {
        self.deadline = None;
        if !engine.backing.said.is_empty() || !self.writes.is_empty() {
            self.writes.extend(engine.send());
            self.stage = BindingStage::Writing(then);
            return BindingProgress::Waits;
        }
        match then {
            Then::PreBind(at) => self.pre_bind(at, engine),
            Then::Settle(at) => self.settle(at, engine),
            Then::Bind(plugin, binding) => {
                let effect = engine.write(&self.pod, Write::Bind(binding));
                self.stage = BindingStage::Binding { plugin, effect };
                self.deadline = Some(engine.backing.now + engine.write_timeout);
                BindingProgress::Waits
            }
        }
    }

    /// The write of a plugin that this cycle has [awaited](Self::awaited) was answered.
    pub(crate) fn object_answered(
        &mut self,
        id: EffectId,
        said: &RequestedWrite,
        answer: Result<(), WriteError>,
        engine: &mut BindingHandle<'_>,
    ) -> BindingProgress {
        self.writes.remove(&id);
        let (plugin, point) = (said.plugin, said.point);
        let asked = engine.profile.named(plugin).and_then(|plugin| plugin.points.answered.as_ref());
        let outcome = match asked.filter(|_| answer.is_ok() || said.may_be_tried_again()) {
            Some(asked) => {
                let answered = |_: &Self, at: &Placement<'_>, handle: &mut Handle<'_>| {
                    asked.answered(&said.write, &answer, at, handle)
                };
                let outcome =
                    self.ask((plugin, point), &mut engine.backing, answered, Result::is_ok);
                for again in engine.backing.said.iter_mut() {
                    again.tries = said.tries + 1;
                }
                outcome
            }
            None => answer.map_err(|error| Rejection::error(error.message)),
        };
        if let Err(why) = outcome {
            return BindingProgress::Failed(match self.stage {
                BindingStage::Permit => rejected(point, plugin, why),
                _ => rejected_late(point, plugin, why),
            });
        }
        if let BindingStage::Writing(then) = &self.stage {
            return self.once_written(then.clone(), engine);
        }
        self.send(engine)
    }

    /// Sends what plugins have said at Reserve and Permit. The answers are awaited before PreBind.
    pub(crate) fn send(&mut self, engine: &mut BindingHandle<'_>) -> BindingProgress {
        self.writes.extend(engine.send());
        BindingProgress::Waits
    }

    /// The binding that this cycle has [awaited](Self::awaited) was answered.
    pub(crate) fn answered(
        &mut self,
        answer: Result<(), WriteError>,
        engine: &mut BindingHandle<'_>,
    ) -> BindingProgress {
        match &mut self.stage {
            BindingStage::Binding { plugin, .. } => match answer {
                Ok(()) => self.bound(engine),
                Err(error) => {
                    let text = format!("running Bind plugin {plugin:?}: {error}");
                    BindingProgress::Failed(Unbound::Error(text))
                }
            },
            BindingStage::Extender { extender, .. } => {
                let extender = *extender;
                match answer {
                    Ok(()) => self.bound(engine),
                    Err(error) => self.bind_without(extender, error.message, engine),
                }
            }
            BindingStage::Permit | BindingStage::Writing(_) | BindingStage::Settling { .. } => {
                BindingProgress::Waits
            }
        }
    }

    /// Checks after a change of the cluster or the time whether the awaited state is reached, or the
    /// deadline has passed.
    pub(crate) fn look(&mut self, engine: &mut BindingHandle<'_>) -> BindingProgress {
        if let BindingStage::Settling { at } = self.stage
            && let moved @ (BindingProgress::Bound | BindingProgress::Failed(_)) =
                self.check(at, engine)
        {
            return moved;
        }
        match self.deadline {
            Some(deadline) if deadline <= engine.backing.now => self.timed_out(engine),
            _ => BindingProgress::Waits,
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
        let binding = match &self.stage {
            BindingStage::Binding { effect, .. } | BindingStage::Extender { effect, .. } => {
                Some(*effect)
            }
            BindingStage::Permit | BindingStage::Writing(_) | BindingStage::Settling { .. } => None,
        };
        self.writes.iter().copied().chain(binding)
    }

    /// Whether it waits for a state of the cluster.
    pub(crate) fn is_settling(&self) -> bool {
        matches!(self.stage, BindingStage::Settling { .. })
    }

    /// The current extension point, and when it began; none at Permit.
    pub(crate) fn stands_at(&self) -> Option<(MeteredPoint, Lap)> {
        match self.stage {
            // As in schedule_one.go, bind: binding by extenders does not count as Bind.
            BindingStage::Permit | BindingStage::Extender { .. } => None,
            BindingStage::Writing(Then::PreBind(_) | Then::Settle(_))
            | BindingStage::Settling { .. } => Some((MeteredPoint::PreBind, self.lap)),
            BindingStage::Writing(Then::Bind(..)) | BindingStage::Binding { .. } => {
                Some((MeteredPoint::Bind, self.lap))
            }
        }
    }

    /// Whether it waits at Permit.
    pub(crate) fn waits_at_permit(&self) -> bool {
        self.stage == BindingStage::Permit
    }

    /// The extension point at which it waits.
    pub(crate) fn point(&self) -> Point {
        match self.stage {
            BindingStage::Permit => Point::Permit,
            BindingStage::Writing(Then::PreBind(_) | Then::Settle(_))
            | BindingStage::Settling { .. } => Point::PreBind,
            BindingStage::Writing(Then::Bind(..))
            | BindingStage::Binding { .. }
            | BindingStage::Extender { .. } => Point::Bind,
        }
    }

    /// Whether it prepares the binding, which was not sent yet.
    pub(crate) fn is_in_pre_bind(&self) -> bool {
        self.point() == Point::PreBind
    }

    /// Why it fails in PreBind if the pod is preempted by a plugin.
    pub(crate) fn preempted(&self, by: &str) -> Unbound {
        let at = match self.stage {
            BindingStage::Writing(Then::PreBind(at) | Then::Settle(at))
            | BindingStage::Settling { at } => at,
            _ => 0,
        };
        let plugin = self.pre_binder(at, &self.profile).map_or("", |(plugin, _)| plugin);
        Unbound::Error(format!("running PreBind plugin {plugin:?}: preempted by {by}"))
    }

    /// Whether the binding was written but not answered yet.
    pub(crate) fn is_binding(&self) -> bool {
        matches!(self.stage, BindingStage::Binding { .. } | BindingStage::Extender { .. })
    }

    /// Undoes the reservations in reverse order.
    pub(crate) fn unreserve(&mut self, backing: &mut Backing<'_>) {
        for (plugin, held) in std::mem::take(&mut self.held).into_iter().rev() {
            let by = (plugin, Point::Reserve);
            self.ask(by, backing, |_, at, handle| held.unreserve(at, handle), |()| true);
        }
        self.writes.clear();
    }

    /// Asks a plugin, with a handle. What it takes to be so, and what it writes, counts where its answer `succeeds`.
    fn ask<T>(
        &mut self,
        (plugin, point): (&'static str, Point),
        backing: &mut Backing<'_>,
        ask: impl FnOnce(&Self, &Placement<'_>, &mut Handle<'_>) -> T,
        succeeds: impl FnOnce(&T) -> bool,
    ) -> T {
        let mut shared = std::mem::take(&mut self.shared);
        let mut output = HandleOutput::default();
        let Backing { now, waiting, .. } = *backing;
        let mut handle = output.handle(plugin, now, &mut shared, waiting, backing.decisions);
        let answer = ask(self, &self.placement(backing.cache), &mut handle);
        self.shared = shared;
        if !output.measured.is_empty() {
            backing.metrics.record(output.measured);
        }
        backing.events.extend(output.events.into_iter().map(|event| (self.pod.clone(), event)));
        if succeeds(&answer) {
            backing.cache.assume_objects(output.assumed);
            for write in output.written {
                let pod = self.pod.clone();
                backing.said.push(RequestedWrite { plugin, point, pod, write, tries: 1 });
            }
        }
        answer
    }

    /// What a plugin holds for the pod since Reserve.
    fn held_by(&self, plugin: &str) -> Option<&Held> {
        self.held.iter().find(|(name, _)| *name == plugin).map(|(_, held)| held)
    }

    /// The plugin at place `at` of those that have something to do before the pod is bound.
    fn pre_binder<'p>(
        &self,
        at: usize,
        profile: &'p Profile,
    ) -> Option<(&'static str, &'p PreBindPoint)> {
        let mut all = profile.at(Point::PreBind).filter_map(|(plugin, _)| {
            let point = plugin.points.pre_bind.as_ref()?;
            point.applies(self.held_by(plugin.name)).then_some((plugin.name, point))
        });
        all.nth(at)
    }

    fn pre_bind(&mut self, at: usize, engine: &mut BindingHandle<'_>) -> BindingProgress {
        let Some((plugin, point)) = self.pre_binder(at, engine.profile) else {
            return self.bind(engine);
        };
        let pre_bind = |cycle: &Self, at: &Placement<'_>, handle: &mut Handle<'_>| {
            point.pre_bind(cycle.held_by(plugin), at, handle);
        };
        self.ask((plugin, Point::PreBind), &mut engine.backing, pre_bind, |()| true);
        self.once_written(Then::Settle(at), engine)
    }

    fn settle(&mut self, at: usize, engine: &mut BindingHandle<'_>) -> BindingProgress {
        self.stage = BindingStage::Settling { at };
        let patience = self.pre_binder(at, engine.profile).map(|(_, point)| point.timeout());
        self.deadline = Some(engine.backing.now + patience.unwrap_or_default());
        self.check(at, engine)
    }

    fn check(&mut self, at: usize, engine: &mut BindingHandle<'_>) -> BindingProgress {
        let Some((plugin, point)) = self.pre_binder(at, engine.profile) else {
            return self.bind(engine);
        };
        let ready = |cycle: &Self, at: &Placement<'_>, handle: &mut Handle<'_>| {
            point.ready(cycle.held_by(plugin), at, handle)
        };
        let goes_on = |said: &Readiness| !matches!(said, Readiness::Failed(_));
        match self.ask((plugin, Point::PreBind), &mut engine.backing, ready, goes_on) {
            Readiness::Ready => self.once_written(Then::PreBind(at + 1), engine),
            Readiness::Waiting => self.send(engine),
            Readiness::Failed(why) => {
                BindingProgress::Failed(rejected_late(Point::PreBind, plugin, why))
            }
        }
    }

    fn bind_by_plugin(&mut self, engine: &mut BindingHandle<'_>) -> BindingProgress {
        let profile = engine.profile;
        let binding = profile.at(Point::Bind).find_map(|(plugin, _)| {
            let point = plugin.points.bind.as_ref()?;
            let bind =
                |_: &Self, at: &Placement<'_>, handle: &mut Handle<'_>| point.bind(at, handle);
            let by = (plugin.name, Point::Bind);
            let binding = self.ask(by, &mut engine.backing, bind, Option::is_some)?;
            Some((plugin.name, binding))
        });
        let Some((plugin, binding)) = binding else {
            return BindingProgress::Failed(Unbound::Error(
                "all bind plugins skipped the pod".to_owned(),
            ));
        };
        self.once_written(Then::Bind(plugin, binding), engine)
    }

    fn bound(&mut self, engine: &mut BindingHandle<'_>) -> BindingProgress {
        let lap = match self.stage {
            BindingStage::Extender { .. } => engine.counts.start(),
            _ => engine.stage_over(MeteredPoint::Bind, Status::Success, self.lap),
        };
        for (plugin, _) in engine.profile.at(Point::PostBind) {
            let Some(point) = &plugin.points.post_bind else { continue };
            let post_bind =
                |_: &Self, at: &Placement<'_>, handle: &mut Handle<'_>| point.post_bind(at, handle);
            self.ask((plugin.name, Point::PostBind), &mut engine.backing, post_bind, |()| true);
        }
        engine.send();
        engine.stage_over(MeteredPoint::PostBind, Status::Success, lap);
        BindingProgress::Bound
    }

    fn timed_out(&mut self, engine: &mut BindingHandle<'_>) -> BindingProgress {
        let text = match &self.stage {
            BindingStage::Permit | BindingStage::Writing(_) => return BindingProgress::Waits,
            BindingStage::Settling { at } => {
                let Some((plugin, point)) = self.pre_binder(*at, engine.profile) else {
                    return BindingProgress::Waits;
                };
                let why = point.timed_out(self.held_by(plugin));
                return BindingProgress::Failed(rejected_late(Point::PreBind, plugin, why));
            }
            BindingStage::Binding { plugin, .. } => {
                format!("running Bind plugin {plugin:?}: timed out waiting for the binding")
            }
            &BindingStage::Extender { extender, .. } => {
                let why = engine.extenders.silent(extender).0;
                return self.bind_without(extender, why, engine);
            }
        };
        BindingProgress::Failed(Unbound::Error(text))
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

fn rejected(point: Point, plugin: &'static str, why: Rejection) -> Unbound {
    match why.code {
        Code::Error => {
            Unbound::Error(format!("running {} plugin {plugin:?}: {why}", point.as_str()))
        }
        _ => Unbound::Rejected { plugin, why },
    }
}

/// A rejection after Permit no longer makes the pod unschedulable.
fn rejected_late(point: Point, plugin: &'static str, why: Rejection) -> Unbound {
    match rejected(point, plugin, why) {
        Unbound::Rejected { why, .. } => Unbound::TooLate(why),
        other => other,
    }
}
