//! The points from Reserve to PostBind as the engine sees them, and the answers to writes.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::binding::{
    Bind, Binding, Handle, Permission, Permit, Placement, PostBind, PreBind, Readiness, Reserve,
};
use crate::pod_info::PodInfo;
use crate::status::Rejection;
use crate::view::View;
use crate::writes::{Answered, ObjectWrite, WriteError};

type AppliesFn = dyn Fn(&PodInfo) -> bool + Send + Sync;

/// The reservation of a plugin for a pod, with the plugin itself.
pub(crate) trait Hold: Send {
    fn unreserve(self: Box<Self>, at: &Placement<'_>, handle: &mut Handle<'_>);
    fn value(&self) -> &dyn Any;
}

/// The reservation of a plugin for one pod, held from Reserve to PostBind.
pub struct Held(Box<dyn Hold>);

impl Held {
    /// Gives it back.
    pub fn unreserve(self, at: &Placement<'_>, handle: &mut Handle<'_>) {
        self.0.unreserve(at, handle);
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Held")
    }
}

/// A reservation of a plugin.
struct Reserved<P: Reserve>(Arc<P>, P::Reservation);

impl<P: Reserve> Hold for Reserved<P> {
    fn unreserve(self: Box<Self>, at: &Placement<'_>, handle: &mut Handle<'_>) {
        self.0.unreserve(self.1, at, handle);
    }
    fn value(&self) -> &dyn Any {
        &self.1
    }
}

type ReserveFn = dyn Fn(&Placement<'_>, &mut Handle<'_>) -> Result<Held, Rejection> + Send + Sync;

/// A Reserve plugin of a profile.
pub struct ReservePoint {
    applies: Box<AppliesFn>,
    reserve: Box<ReserveFn>,
}

impl ReservePoint {
    pub(crate) fn new<P: Reserve>(plugin: Arc<P>) -> Self {
        let asked = plugin.clone();
        let applies = Box::new(move |pod: &PodInfo| asked.applies(pod));
        let reserve = Box::new(move |at: &Placement<'_>, handle: &mut Handle<'_>| {
            let held = plugin.reserve(at, handle)?;
            Ok(Held(Box::new(Reserved(plugin.clone(), held))))
        });
        ReservePoint { applies, reserve }
    }

    /// Whether there is anything to reserve for the pod.
    pub fn applies(&self, pod: &PodInfo) -> bool {
        (self.applies)(pod)
    }

    /// Reserves what the pod needs.
    pub fn reserve(&self, at: &Placement<'_>, handle: &mut Handle<'_>) -> Result<Held, Rejection> {
        (self.reserve)(at, handle)
    }
}

/// A PreBind plugin of a profile. If it also has Reserve, it is given its reservation.
pub struct PreBindPoint {
    plugin: Box<dyn ErasedPreBind>,
    /// Whether the plugin has Reserve. If so, it has nothing to do for a pod without a reservation.
    pub(crate) stands_at_reserve: bool,
    /// Whether it uses its reservation.
    needs_held: bool,
}

trait ErasedPreBind: Send + Sync {
    fn pre_bind(&self, held: &dyn Any, at: &Placement<'_>, handle: &mut Handle<'_>);
    fn ready(&self, held: &dyn Any, at: &Placement<'_>, handle: &mut Handle<'_>) -> Readiness;
    fn timeout(&self) -> Duration;
    fn timed_out(&self, held: &dyn Any) -> Rejection;
}

struct ByPreBind<P>(Arc<P>);

impl<P: PreBind> ByPreBind<P> {
    fn held(held: &dyn Any) -> &P::Held {
        held.downcast_ref().expect("the builder requires one type at Reserve and PreBind")
    }
}

impl<P: PreBind> ErasedPreBind for ByPreBind<P> {
    fn pre_bind(&self, held: &dyn Any, at: &Placement<'_>, handle: &mut Handle<'_>) {
        self.0.pre_bind(Self::held(held), at, handle);
    }
    fn ready(&self, held: &dyn Any, at: &Placement<'_>, handle: &mut Handle<'_>) -> Readiness {
        self.0.ready(Self::held(held), at, handle)
    }
    fn timeout(&self) -> Duration {
        self.0.timeout()
    }
    fn timed_out(&self, held: &dyn Any) -> Rejection {
        self.0.timed_out(Self::held(held))
    }
}

impl PreBindPoint {
    pub(crate) fn new<P: PreBind<Held = ()>>(plugin: Arc<P>) -> Self {
        PreBindPoint {
            plugin: Box::new(ByPreBind(plugin)),
            stands_at_reserve: false,
            needs_held: false,
        }
    }

    pub(crate) fn holding<P: PreBind<Held = P::Reservation> + Reserve>(plugin: Arc<P>) -> Self {
        PreBindPoint {
            plugin: Box::new(ByPreBind(plugin)),
            stands_at_reserve: true,
            needs_held: true,
        }
    }

    /// Whether there is anything to do for a pod with this reservation.
    pub fn applies(&self, held: Option<&Held>) -> bool {
        held.is_some() || !self.stands_at_reserve
    }

    /// Requests the writes before the pod is bound.
    pub fn pre_bind(&self, held: Option<&Held>, at: &Placement<'_>, handle: &mut Handle<'_>) {
        self.plugin.pre_bind(self.value(held), at, handle);
    }

    /// Whether the cluster is ready for the pod to be bound.
    pub fn ready(
        &self,
        held: Option<&Held>,
        at: &Placement<'_>,
        handle: &mut Handle<'_>,
    ) -> Readiness {
        self.plugin.ready(self.value(held), at, handle)
    }

    /// How long to wait for that.
    pub fn timeout(&self) -> Duration {
        self.plugin.timeout()
    }

    /// Why the pod is not bound once that time is over.
    pub fn timed_out(&self, held: Option<&Held>) -> Rejection {
        self.plugin.timed_out(self.value(held))
    }

    fn value<'a>(&self, held: Option<&'a Held>) -> &'a dyn Any {
        held.filter(|_| self.needs_held).map_or(&(), |held| held.0.value())
    }
}

/// Handles the answers to the writes of a plugin.
pub struct AnsweredPoint(Box<dyn ErasedAnswered>);

trait ErasedAnswered: Send + Sync {
    fn placed(
        &self,
        write: &ObjectWrite,
        answer: &Result<(), WriteError>,
        at: &Placement<'_>,
        handle: &mut Handle<'_>,
    ) -> Result<(), Rejection>;
    fn unplaced(
        &self,
        write: &ObjectWrite,
        answer: &Result<(), WriteError>,
        pod: &PodInfo,
        view: &View<'_>,
        handle: &mut Handle<'_>,
    ) -> Result<(), Rejection>;
}

struct ByAnswered<P>(Arc<P>);

impl<P: Answered> ErasedAnswered for ByAnswered<P> {
    fn placed(
        &self,
        write: &ObjectWrite,
        answer: &Result<(), WriteError>,
        at: &Placement<'_>,
        handle: &mut Handle<'_>,
    ) -> Result<(), Rejection> {
        self.0.answered(write, answer, at, handle)
    }
    fn unplaced(
        &self,
        write: &ObjectWrite,
        answer: &Result<(), WriteError>,
        pod: &PodInfo,
        view: &View<'_>,
        handle: &mut Handle<'_>,
    ) -> Result<(), Rejection> {
        self.0.answered_without_node(write, answer, pod, view, handle)
    }
}

impl AnsweredPoint {
    pub(crate) fn new<P: Answered>(plugin: Arc<P>) -> Self {
        AnsweredPoint(Box::new(ByAnswered(plugin)))
    }

    /// Handles one answer.
    pub fn answered(
        &self,
        write: &ObjectWrite,
        answer: &Result<(), WriteError>,
        at: &Placement<'_>,
        handle: &mut Handle<'_>,
    ) -> Result<(), Rejection> {
        self.0.placed(write, answer, at, handle)
    }

    /// A write of [`AfterPostFilter`](crate::AfterPostFilter) was answered.
    pub fn answered_without_node(
        &self,
        write: &ObjectWrite,
        answer: &Result<(), WriteError>,
        pod: &PodInfo,
        view: &View<'_>,
        handle: &mut Handle<'_>,
    ) -> Result<(), Rejection> {
        self.0.unplaced(write, answer, pod, view, handle)
    }
}

type PermitFn = dyn Fn(&Placement<'_>, &mut Handle<'_>) -> Permission + Send + Sync;

/// A Permit plugin of a profile.
pub struct PermitPoint {
    permit: Box<PermitFn>,
    waits_for: &'static str,
    looks_at_pods: bool,
    looks_at_node: bool,
}

impl PermitPoint {
    pub(crate) fn new<P: Permit>(plugin: Arc<P>) -> Self {
        PermitPoint {
            waits_for: plugin.waits_for(),
            looks_at_pods: plugin.looks_at_pods(),
            looks_at_node: plugin.looks_at_node(),
            permit: Box::new(move |at, handle| plugin.permit(at, handle)),
        }
    }

    /// Judges a pod.
    pub fn permit(&self, at: &Placement<'_>, handle: &mut Handle<'_>) -> Permission {
        (self.permit)(at, handle)
    }

    /// What a pod waits for, if it waits.
    pub fn waits_for(&self) -> &'static str {
        self.waits_for
    }

    /// Whether the answer depends on which pods are on nodes, apart from those of groups.
    pub fn looks_at_pods(&self) -> bool {
        self.looks_at_pods
    }

    /// Whether the answer depends on the node of the pod.
    pub fn looks_at_node(&self) -> bool {
        self.looks_at_node
    }
}

type BindFn = dyn Fn(&Placement<'_>, &mut Handle<'_>) -> Option<Binding> + Send + Sync;

/// A Bind plugin of a profile.
pub struct BindPoint(Box<BindFn>);

impl BindPoint {
    pub(crate) fn new<P: Bind>(plugin: Arc<P>) -> Self {
        BindPoint(Box::new(move |at, handle| plugin.bind(at, handle)))
    }

    /// The binding to write; `None` leaves the pod to the next plugin.
    pub fn bind(&self, at: &Placement<'_>, handle: &mut Handle<'_>) -> Option<Binding> {
        (self.0)(at, handle)
    }
}

type PostBindFn = dyn Fn(&Placement<'_>, &mut Handle<'_>) + Send + Sync;

/// A PostBind plugin of a profile.
pub struct PostBindPoint(Box<PostBindFn>);

impl PostBindPoint {
    pub(crate) fn new<P: PostBind>(plugin: Arc<P>) -> Self {
        PostBindPoint(Box::new(move |at, handle| plugin.post_bind(at, handle)))
    }

    /// Requests the writes after the pod is bound.
    pub fn post_bind(&self, at: &Placement<'_>, handle: &mut Handle<'_>) {
        (self.0)(at, handle);
    }
}
