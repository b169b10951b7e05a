//! Recorders: they are shown everything that enters a scheduler, and what it does.

use std::fmt::Debug;

use plimsoll_api::PodKey;
use plimsoll_framework::{Time, WaitingDecision};

use crate::audit::Audit;
use crate::decision::Decision;
use crate::effect::Effect;
use crate::event::Event;
use crate::groups::GroupDecision;

/// Is shown everything that enters a [`Scheduler`](crate::Scheduler), in order, and the effects of every step. The same
/// calls on a new scheduler with the same profiles, options and seed have the same effects.
///
/// It runs on the thread of the scheduler, so it should be quick.
pub trait Recorder: Debug + Send {
    /// [`Scheduler::observe`](crate::Scheduler::observe) is called.
    fn observed(&mut self, now: Time, event: &Event);
    /// A pod was tried, with this decision. It is shown if decisions are [kept](crate::Options::detail), before the step
    /// has ended.
    fn decided(&mut self, _now: Time, _decision: &Decision) {}
    /// A group was tried as a whole, with this decision. Its members were [shown](Self::decided) before it, under the same
    /// conditions.
    fn decided_group(&mut self, _now: Time, _decision: &GroupDecision) {}
    /// The binding cycle of a pod has ended. It is shown before the step has ended, or the observation that ended it, if the
    /// attempt that began it was [shown](Self::decided).
    fn binding_ended(&mut self, _now: Time, _end: &BindingEnd<'_>) {}
    /// [`Scheduler::step`](crate::Scheduler::step) was called, had these effects, and audits have found this so far.
    fn stepped(&mut self, now: Time, effects: &[Effect], audit: &Audit);
    /// [`Scheduler::wind_up`](crate::Scheduler::wind_up) was called, and had these effects.
    fn wound_up(&mut self, now: Time, effects: &[Effect]);
    /// A pod that waits at Permit is allowed or rejected from outside.
    fn waiting_pod(&mut self, decision: &WaitingDecision);
}

/// How the binding cycle of a pod has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindingEnd<'a> {
    /// The pod.
    pub pod: &'a PodKey,
    /// Which attempt has placed the pod, by its [sequence](crate::AttemptContext::sequence).
    pub sequence: u64,
    /// The number of that attempt of the pod, starting with 1.
    pub attempt: u32,
    /// When the pod was first ready to be tried; `None` if that is not known, or the pod is gone.
    pub first_ready: Option<Time>,
    /// Why the pod is not bound; `None` if it is.
    pub error: Option<&'a str>,
}
