//! From the choice of a node to the bound pod: Reserve, Permit, PreBind, Bind and PostBind.
//!
//! Plugins do no IO. A plugin requests [writes](crate::Writes), is told the answers, and says when the pod can be
//! bound.

use std::time::Duration;

use plimsoll_api::{AnyObject, Kind, KindRef, ObjectKey, PodKey, Str};

use crate::columns::Row;
use crate::cycle_state::CycleState;
use crate::metrics::Metrics;
use crate::plugin::Plugin;
use crate::pod_events::EventRecorder;
use crate::pod_info::PodInfo;
use crate::status::{Reason, Rejection};
use crate::time::Time;
use crate::view::View;
use crate::writes::Writes;

/// The longest that a pod may wait at Permit, whatever a plugin asks for.
pub const PERMIT_TIMEOUT_MAX: Duration = Duration::from_mins(15);

/// The reason if a plugin waits too long and gives no reason of its own.
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

/// What a plugin assumes about an object before it is observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Assumption {
    /// The object is as given.
    Is(AnyObject),
    /// The object is as given, whatever is observed.
    Held(AnyObject),
    /// The object is as it was observed.
    AsSeen(KindRef, ObjectKey),
}

/// With this a plugin makes assumptions about objects.
///
/// They take effect when the call that was given this returns. The plugins after it see them, and so do all later
/// scheduling cycles, until the object is [observed to have changed](plimsoll_api::Store). If the call fails, they
/// have no effect.
#[derive(Debug)]
pub struct Assume<'a>(&'a mut Vec<Assumption>);

impl<'a> Assume<'a> {
    /// Assumptions are added to `said`, in order.
    pub fn new(said: &'a mut Vec<Assumption>) -> Self {
        Assume(said)
    }

    /// Assumes that the object of this kind and key is as given. This has no effect if there is no such object.
    pub fn is(&mut self, object: impl Into<AnyObject>) {
        self.0.push(Assumption::Is(object.into()));
    }

    /// Assumes that the object of this kind and key is as given, whatever is observed, until it is deleted or a later
    /// assumption says otherwise. There need not be such an object. Whoever holds it must let it go once the pod is
    /// bound or given up.
    pub fn hold(&mut self, object: impl Into<AnyObject>) {
        self.0.push(Assumption::Held(object.into()));
    }

    /// Drops what is assumed about the object: it is as it was observed.
    pub fn as_seen<K: Kind>(&mut self, key: &ObjectKey) {
        self.0.push(Assumption::AsSeen(KindRef::of::<K>(), key.clone()));
    }
}

/// What a plugin may use once a node is chosen, or once there is none (`Handle` in kube-scheduler).
#[derive(Debug)]
pub struct Handle<'a> {
    /// The current time of the scheduler; virtual time in a simulation.
    pub now: Time,
    /// What plugins share in this cycle.
    pub shared: &'a mut CycleState,
    /// Assumptions about objects, before they are observed.
    pub assume: Assume<'a>,
    /// The pods that wait at Permit, to be allowed or rejected.
    pub waiting: WaitingPods<'a>,
    /// Writes to request. If the pod is yet to be bound, the next step waits for the answers.
    pub writes: Writes<'a>,
    /// What the plugin measures.
    pub metrics: Metrics<'a>,
    /// Events about the pod.
    pub events: EventRecorder<'a>,
}

/// Reserves something for a pod, from the choice of its node until it is bound.
pub trait Reserve: Plugin {
    /// What is reserved; `()` for a plugin that has nothing to remember.
    type Reservation: Send + 'static;
    /// `false`: whatever the node, there is nothing to reserve for this pod and nothing to do before it is bound.
    fn applies(&self, _pod: &PodInfo) -> bool {
        true
    }
    /// Reserves it. If it fails it must leave nothing behind, because Unreserve is not called for it.
    fn reserve(
        &self,
        at: &Placement<'_>,
        handle: &mut Handle<'_>,
    ) -> Result<Self::Reservation, Rejection>;
    /// Gives it back, because a later step failed. Called in the reverse order of Reserve.
    fn unreserve(&self, _held: Self::Reservation, _at: &Placement<'_>, _handle: &mut Handle<'_>) {}
}

/// The decision of a Permit plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permission {
    /// The pod may be bound.
    Approve,
    /// It may not.
    Deny(Rejection),
    /// It waits until it is allowed or rejected. After this time it is rejected. The time is at most
    /// [`PERMIT_TIMEOUT_MAX`].
    Wait(Duration),
}

/// Pods that a plugin wants to be tried now, without waiting for a change or for the end of their backoff. What is
/// [shared](Handle::shared) under this type after Permit, unless a plugin denied the pod, counts (`PodsToActivate` in
/// kube-scheduler). Gates still hold pods back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodsToActivate(pub Vec<PodKey>);

/// A pod that waits at Permit.
#[derive(Clone, Debug)]
pub struct WaitingPod {
    /// The pod.
    pub pod: PodInfo,
    /// The node that was chosen for it.
    pub node: Str,
    /// When it began to wait.
    pub since: Time,
    /// The plugins it waits for, each with its deadline.
    pub pending: Vec<(&'static str, Time)>,
}

/// A plugin's decision about a waiting pod.
#[derive(Clone, Debug)]
pub enum WaitingDecision {
    /// The plugin allows it.
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
        /// The plugin that rejects it. If no profile has this plugin, every event can bring the pod back.
        plugin: Str,
        /// Why.
        reason: Reason,
    },
}

impl WaitingDecision {
    /// The pod that is decided about.
    pub fn pod(&self) -> &PodKey {
        match self {
            WaitingDecision::Allow { pod, .. } | WaitingDecision::Reject { pod, .. } => pod,
        }
    }
}

/// The pods that wait at Permit, and what a plugin decides about them.
#[derive(Debug)]
pub struct WaitingPods<'a> {
    plugin: &'static str,
    pods: &'a [WaitingPod],
    decisions: &'a mut Vec<WaitingDecision>,
}

impl<'a> WaitingPods<'a> {
    /// The `pods` for plugin `plugin`. Its decisions are added to `decisions`.
    pub fn new(
        plugin: &'static str,
        pods: &'a [WaitingPod],
        decisions: &'a mut Vec<WaitingDecision>,
    ) -> Self {
        WaitingPods { plugin, pods, decisions }
    }

    /// The pods that wait, in the order in which they began to.
    pub fn iter(&self) -> impl Iterator<Item = &'a WaitingPod> + use<'a> {
        self.pods.iter()
    }

    /// Allows `pod` on behalf of this plugin. It is bound once all plugins that it waits for have allowed it.
    pub fn allow(&mut self, pod: &PodKey) {
        self.allow_as(self.plugin, pod);
    }

    /// Allows `pod` on behalf of another plugin.
    pub fn allow_as(&mut self, plugin: impl Into<Str>, pod: &PodKey) {
        self.decisions.push(WaitingDecision::Allow { pod: pod.clone(), plugin: plugin.into() });
    }

    /// Rejects `pod`: it is not bound.
    pub fn reject(&mut self, pod: &PodKey, reason: impl Into<Reason>) {
        self.reject_as(self.plugin, pod, reason);
    }

    /// Rejects `pod` on behalf of another plugin, whose events can then bring the pod back.
    pub fn reject_as(&mut self, plugin: impl Into<Str>, pod: &PodKey, reason: impl Into<Reason>) {
        let (pod, plugin, reason) = (pod.clone(), plugin.into(), reason.into());
        self.decisions.push(WaitingDecision::Reject { pod, plugin, reason });
    }
}

/// Approves, denies or delays the binding of a pod.
pub trait Permit: Plugin {
    /// Judges a pod whose node has been chosen and reserved.
    fn permit(&self, at: &Placement<'_>, handle: &mut Handle<'_>) -> Permission;
    /// What a pod waits for, if [`permit`](Self::permit) lets it wait.
    fn waits_for(&self) -> &'static str {
        ""
    }
    /// Whether the answer depends on which pods are on nodes, apart from what [`PodGroupStates`] says. If not, the pods of a
    /// group stay on the nodes on which they were tried while Permit is asked about one after the other. Otherwise only
    /// those that were asked about before, and the pod itself, are there.
    ///
    /// [`PodGroupStates`]: crate::PodGroupStates
    fn looks_at_pods(&self) -> bool {
        true
    }
    /// Whether the answer depends on the node on which the pod is placed. If it depends neither on that nor on
    /// [other pods](Self::looks_at_pods), equal pods of a group get the same answers on each placement: by the rules of 1.36 it
    /// is then counted how many of them fit there, and they are placed only on the one that is chosen.
    fn looks_at_node(&self) -> bool {
        true
    }
}

/// Whether the cluster is ready for the pod to be bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It is.
    Ready,
    /// Not yet: the plugin is asked again after the next change.
    Waiting,
    /// It never will be.
    Failed(Rejection),
}

/// What must be done before a pod is bound, such as binding its volumes.
pub trait PreBind: Plugin {
    /// What the plugin has reserved for the pod: its [`Reserve::Reservation`], or `()` for a plugin without
    /// [`Reserve`].
    type Held: Send + 'static;
    /// Requests the writes that do it. It is also called in advance, to learn whether there is anything to write
    /// (PreBindPreFlight); what it then does with the handle has no effect.
    fn pre_bind(&self, held: &Self::Held, at: &Placement<'_>, handle: &mut Handle<'_>);
    /// Whether the pod can be bound. Called once everything is written, and then after every change. It is also called
    /// in advance, like [`PreBind::pre_bind`].
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
    /// Why the pod is not bound once that time is over.
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
    /// Requests the writes that do it. The pod stays bound even if they fail.
    fn post_bind(&self, at: &Placement<'_>, handle: &mut Handle<'_>);
}
