//! From the choice of a node to the bound pod: Reserve, Permit, PreBind, Bind and PostBind.
//!
//! Nothing here does IO: a plugin says what to [write](crate::Writes), is told what became of it, and says whether the
//! world has caught up.

use std::time::Duration;

use plimsoll_api::{AnyObject, Kind, KindRef, ObjectKey, PodKey, Str};

use crate::columns::Row;
use crate::cycle_state::CycleState;
use crate::metrics::Metrics;
use crate::plugin::Plugin;
use crate::pod_info::PodInfo;
use crate::status::{Reason, Rejection};
use crate::time::Time;
use crate::view::View;
use crate::writes::Writes;

/// The longest that a pod may wait at Permit, whatever a plugin asks for.
pub const PERMIT_TIMEOUT_MAX: Duration = Duration::from_mins(15);

/// What is said where a plugin waits in vain and has no text of its own.
pub(crate) const TIMED_OUT: &str = "timed out waiting for the condition";

/// A pod and the node that was chosen for it.
#[derive(Clone, Copy, Debug)]
pub struct Placement<'a> {
    /// The pod.
    pub pod: &'a PodInfo,
    /// The name of the node.
    pub node: &'a Str,
    /// The row of the node; `None` once the node is gone.
    pub row: Option<Row>,
    /// The cluster, with the pod on its node.
    pub view: View<'a>,
}

/// What a plugin takes to be so, before it is seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Assumption {
    /// An object is so.
    Is(AnyObject),
    /// An object is as it was seen.
    AsSeen(KindRef, ObjectKey),
}

/// Where a plugin says what it takes to be so.
///
/// It counts as soon as the call that was given this returns: the plugins after it see it, and so does
/// every later scheduling cycle, until the object is [seen to be other than it
/// was](plimsoll_api::Store). If the call fails, nothing of it counts.
#[derive(Debug)]
pub struct Assume<'a>(&'a mut Vec<Assumption>);

impl<'a> Assume<'a> {
    /// What is said is added to `said`, in order.
    pub fn new(said: &'a mut Vec<Assumption>) -> Self {
        Assume(said)
    }

    /// The object of this kind and key is so. Nothing is assumed of an object that is not there.
    pub fn is<K: Kind>(&mut self, object: K) {
        self.0.push(Assumption::Is(object.into()));
    }

    /// Nothing is assumed of the object any more: it is as it was seen.
    pub fn as_seen<K: Kind>(&mut self, key: &ObjectKey) {
        self.0.push(Assumption::AsSeen(KindRef::of::<K>(), key.clone()));
    }
}

/// What a plugin may use once a node is chosen, or once there is none (`Handle` in kube-scheduler).
#[derive(Debug)]
pub struct Handle<'a> {
    /// Now, by the clock of the scheduler: virtual time in a simulation.
    pub now: Time,
    /// What the plugins tell each other in this cycle.
    pub shared: &'a mut CycleState,
    /// What is taken to be so before it is seen.
    pub assume: Assume<'a>,
    /// The pods that wait at Permit, to be allowed or rejected.
    pub waiting: WaitingPods<'a>,
    /// What is to be written. Where the pod still has to be bound, the next step waits for the answers.
    pub writes: Writes<'a>,
    /// What the plugin measures.
    pub metrics: Metrics<'a>,
}

/// Holds something for a pod from the choice of its node until it is bound.
pub trait Reserve: Plugin {
    /// What is held; `()` where the plugin keeps no account of its own.
    type Reservation: Send + 'static;
    /// `false`: nothing is to be held for this pod, nor done before it is bound, wherever it goes.
    fn applies(&self, _pod: &PodInfo) -> bool {
        true
    }
    /// Holds it. Where it fails, it must leave nothing behind: it is not asked to give it back.
    fn reserve(
        &self,
        at: &Placement<'_>,
        handle: &mut Handle<'_>,
    ) -> Result<Self::Reservation, Rejection>;
    /// Gives it back: a later step failed. Called in the reverse order of Reserve.
    fn unreserve(&self, _held: Self::Reservation, _at: &Placement<'_>, _handle: &mut Handle<'_>) {}
}

/// What Permit says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permission {
    /// The pod may be bound.
    Approve,
    /// It may not.
    Deny(Rejection),
    /// It waits until it is allowed, rejected, or this span is over (then it is rejected). At most
    /// [`PERMIT_TIMEOUT_MAX`].
    Wait(Duration),
}

/// A pod that waits at Permit.
#[derive(Clone, Debug)]
pub struct WaitingPod {
    /// The pod.
    pub pod: PodInfo,
    /// The node that was chosen for it.
    pub node: Str,
    /// Since when it waits.
    pub since: Time,
    /// The plugins it waits for, each with the end of its patience.
    pub pending: Vec<(&'static str, Time)>,
}

/// What plugins decided about waiting pods.
#[derive(Clone, Debug)]
pub enum WaitingDecision {
    /// The plugin has nothing more against it.
    Allow {
        /// The pod.
        pod: PodKey,
        /// The plugin that allows it.
        plugin: Str,
    },
    /// It must not be bound.
    Reject {
        /// The pod.
        pod: PodKey,
        /// The plugin that rejects it. One that no profile has waits for every event.
        plugin: Str,
        /// Why.
        reason: Reason,
    },
}

/// The pods that wait at Permit, and what a plugin decides about them.
#[derive(Debug)]
pub struct WaitingPods<'a> {
    plugin: &'static str,
    pods: &'a [WaitingPod],
    decisions: &'a mut Vec<WaitingDecision>,
}

impl<'a> WaitingPods<'a> {
    /// What plugin `plugin` sees of `pods`; what it decides is added to `decisions`.
    pub fn new(
        plugin: &'static str,
        pods: &'a [WaitingPod],
        decisions: &'a mut Vec<WaitingDecision>,
    ) -> Self {
        WaitingPods { plugin, pods, decisions }
    }

    /// The pods that wait, in the order in which they came.
    pub fn iter(&self) -> impl Iterator<Item = &WaitingPod> {
        self.pods.iter()
    }

    /// This plugin has nothing more against `pod`. It is bound once no plugin has.
    pub fn allow(&mut self, pod: &PodKey) {
        self.allow_as(self.plugin, pod);
    }

    /// The same in the name of another plugin.
    pub fn allow_as(&mut self, plugin: impl Into<Str>, pod: &PodKey) {
        self.decisions.push(WaitingDecision::Allow { pod: pod.clone(), plugin: plugin.into() });
    }

    /// `pod` must not be bound.
    pub fn reject(&mut self, pod: &PodKey, reason: impl Into<Reason>) {
        self.reject_as(self.plugin, pod, reason);
    }

    /// The same in the name of another plugin. The events of that one can bring the pod back.
    pub fn reject_as(&mut self, plugin: impl Into<Str>, pod: &PodKey, reason: impl Into<Reason>) {
        let (pod, plugin, reason) = (pod.clone(), plugin.into(), reason.into());
        self.decisions.push(WaitingDecision::Reject { pod, plugin, reason });
    }
}

/// Approves, denies or delays the binding of a pod.
pub trait Permit: Plugin {
    /// Judges a pod whose node has been chosen and reserved.
    fn permit(&self, at: &Placement<'_>, handle: &mut Handle<'_>) -> Permission;
}

/// Whether the world has caught up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It has: the pod may be bound.
    Ready,
    /// Not yet; asked again after the next change.
    Waiting,
    /// It never will.
    Failed(Rejection),
}

/// What must be done before a pod is bound, such as binding its volumes.
pub trait PreBind: Plugin {
    /// What the plugin holds for the pod since [`Reserve`]: its [`Reserve::Reservation`], or `()` for a plugin that does
    /// not stand there.
    type Held: Send + 'static;
    /// Does it, by what it writes. It is also asked in advance, whether there is anything to write
    /// (PreBindPreFlight): what it does with the handle has no effect then.
    fn pre_bind(&self, held: &Self::Held, at: &Placement<'_>, handle: &mut Handle<'_>);
    /// Whether the world has caught up. Asked once everything is written, and then after every change. Also asked
    /// in advance, as [`PreBind::pre_bind`].
    fn ready(
        &self,
        _held: &Self::Held,
        _at: &Placement<'_>,
        _handle: &mut Handle<'_>,
    ) -> Readiness {
        Readiness::Ready
    }
    /// How long to wait for [`PreBind::ready`].
    fn timeout(&self) -> Duration {
        Duration::from_mins(10)
    }
    /// Why the pod is not bound where that time is over.
    fn timed_out(&self, _held: &Self::Held) -> Rejection {
        Rejection::error(TIMED_OUT)
    }
}

/// The binding of a pod to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The name of the node.
    pub node: Str,
}

/// Binds pods.
pub trait Bind: Plugin {
    /// The binding to write; `None` leaves the pod to the next Bind plugin (Skip).
    fn bind(&self, at: &Placement<'_>, handle: &mut Handle<'_>) -> Option<Binding>;
}

/// What is to be done once a pod is bound.
pub trait PostBind: Plugin {
    /// Does it, by what it writes. The pod is bound whatever becomes of that.
    fn post_bind(&self, at: &Placement<'_>, handle: &mut Handle<'_>);
}
