//! The rest of the cluster: it carries out the writes of the scheduler and reports their results.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_api::{
    AnyObject, KindRef, Labels, ObjectKey, Pod, PodGroup, PodKey, ResourceClaim,
    ResourceClaimTemplate, Str, Timestamp,
};
use plimsoll_engine::{
    Effect, EffectId, Event, Eviction, Observation, Write, WriteCause, WriteError,
};
use plimsoll_framework::{ObjectWrite, Time};
use rustc_hash::FxHashMap;

use crate::agenda::Agenda;
use crate::claims::{ClaimController, ClaimObjects, Preparation, patched_pod};
use crate::cluster::time_of;
use crate::faults::{Manner, RequestFaults, RequestVerb};
use crate::happening::Happening;
use crate::lifecycle::{self, Lifecycle};
use crate::objects::PluginObjects;
use crate::recreation::recreated;
use crate::volumes::{ProvisioningOrder, SimulatedVolumes, VolumeDelays};

/// The rest of the cluster: the API server, the nodes and the controllers.
#[derive(Debug, Default)]
pub struct SimulatedCluster {
    /// A hash map, since every change and every write looks pods up, and few questions are about all of them.
    pods: FxHashMap<PodKey, Arc<Pod>>,
    nodes: BTreeMap<Str, Labels>,
    /// How many pods are on each node that has any: most nodes that go have none, and need no search for orphans.
    n_on: FxHashMap<Str, usize>,
    /// When the last pod was started.
    last_start: Option<Timestamp>,
    /// When the pods of groups are started that have a node and are not bound to it yet.
    starts: FxHashMap<PodKey, Timestamp>,
    groups: BTreeMap<ObjectKey, PodGroup>,
    volumes: SimulatedVolumes,
    claims: ClaimObjects,
    claim_controller: ClaimController,
    pub(crate) objects: PluginObjects,
    /// Whether the controllers of volumes will look at them.
    volumes_noted: bool,
    /// Whether the controller of claims on devices will look at them.
    claims_noted: bool,
    agenda: Agenda<Due>,
    /// How pods end.
    pub lifecycle: Lifecycle,
    /// How long the volume controllers take.
    pub storage: VolumeDelays,
    /// How long the controller of claims on devices and the drivers of devices take.
    pub devices: DeviceDelays,
    /// The faults.
    pub faults: RequestFaults,
}

/// How long the controller of claims on devices and the drivers of devices take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceDelays {
    /// Until claims are made from templates, and until reservations end.
    pub claims_after: Duration,
    /// Until a driver reports the conditions of a device that was allocated.
    pub conditions_after: Duration,
}

/// A scheduled item.
#[derive(Debug)]
enum Due {
    /// A change of the cluster.
    Happens(Happening),
    /// A write of the scheduler arrives that was made for the pod with this uid.
    Arrives(Effect, Str),
    /// The state of a pod is observed.
    IsSeen(PodKey),
    /// The pod with this uid has completed.
    Completes(PodKey, Str),
    /// The pod with this uid has terminated.
    Ends(PodKey, Str),
    /// The volume controllers run.
    VolumesAreBound,
    /// A volume is provisioned.
    IsProvisioned(ProvisioningOrder),
    /// Provisioning a volume fails.
    IsNotProvisioned(ProvisioningOrder),
    /// The controller of claims on devices runs.
    ClaimsAreTidied,
    /// Drivers report about the devices of a claim.
    IsPrepared(Preparation),
    /// The pod with this uid is deleted if its node still does not exist.
    IsOrphaned(PodKey, Str),
}

impl SimulatedCluster {
    /// An empty cluster with this lifecycle and these faults.
    pub fn new(lifecycle: Lifecycle, faults: RequestFaults) -> Self {
        SimulatedCluster { lifecycle, faults, ..SimulatedCluster::default() }
    }

    /// Schedules a change at `at`.
    pub fn plan(&mut self, at: Time, what: Happening) {
        self.agenda.note(at, Due::Happens(what));
    }

    /// Applies a change of the cluster and schedules its consequences.
    pub(crate) fn happens(&mut self, now: Time, event: &Event) {
        match event {
            Event::Pod(seen) => match seen {
                Observation::Is(pod) => self.pod_is(now, pod),
                Observation::Gone(key) => {
                    self.starts.remove(key);
                    if let Some(pod) = self.pods.remove(key) {
                        self.count(pod.node_name.as_ref(), None);
                        self.claim_controller.pod_ends(&pod);
                        self.make_again(now, &pod);
                    }
                }
            },
            Event::Node(seen) => match seen.as_ref() {
                Observation::Is(node) => {
                    self.nodes.insert(node.name.clone(), node.labels.clone());
                }
                Observation::Gone(name) => self.node_gone(now, name),
            },
            Event::Object(seen) => {
                if self.volumes.happens(seen) && !self.volumes_noted {
                    self.volumes_noted = true;
                    self.agenda.note(now + self.storage.binding_after, Due::VolumesAreBound);
                }
                self.group_happens(seen);
                self.claim_happens(now, seen);
            }
            Event::Done(..) | Event::Extended(..) => {}
        }
        if self.claim_controller.is_busy() && !self.claims_noted {
            self.claims_noted = true;
            self.agenda.note(now + self.devices.claims_after, Due::ClaimsAreTidied);
        }
    }

    /// A ResourceClaimTemplate is there.
    pub(crate) fn add_claim_template(&mut self, template: &ResourceClaimTemplate) {
        self.claim_controller.add_template(template);
    }

    fn group_happens(&mut self, seen: &Observation<AnyObject, (KindRef, ObjectKey)>) {
        match seen {
            Observation::Is(object) => {
                if let Some(group) = object.get::<PodGroup>() {
                    self.groups.insert(group.key.clone(), group.clone());
                }
            }
            Observation::Gone((kind, key)) if kind.is::<PodGroup>() => {
                self.groups.remove(key);
            }
            Observation::Gone(_) => {}
        }
    }

    fn claim_happens(&mut self, now: Time, seen: &Observation<AnyObject, (KindRef, ObjectKey)>) {
        let before = self.claims.observe(seen);
        self.claim_controller.happens(before.as_ref(), seen);
        let Observation::Is(object) = seen else { return };
        let claim = object.get::<ResourceClaim>();
        let Some(mut preparation) = claim.and_then(|claim| Preparation::of(before.as_ref(), claim))
        else {
            return;
        };
        let span = self.devices.conditions_after;
        let span = match self.faults.manner(now, RequestVerb::Prepare) {
            Manner::Works => span,
            Manner::Late(more) | Manner::Unseen(more) => span + more,
            Manner::Refused => {
                preparation.succeeds = false;
                span
            }
            Manner::Unanswered | Manner::Lost => return,
        };
        self.agenda.note(now + span, Due::IsPrepared(preparation));
    }

    fn pod_is(&mut self, now: Time, pod: &Arc<Pod>) {
        let before = self.pods.insert(pod.key.clone(), pod.clone());
        let was_on = before.as_ref().and_then(|before| before.node_name.as_ref());
        self.count(was_on, pod.node_name.as_ref());
        if let Some(before) = before.as_ref().filter(|before| before.uid != pod.uid) {
            self.claim_controller.pod_ends(before);
        }
        self.claim_controller.pod_is(pod);
        self.last_start = self.last_start.max(pod.started);
        // Only a finalizer keeps a pod that is being deleted and has no node.
        let is_held = before.is_none() && pod.node_name.is_none();
        let before = before.filter(|before| before.uid == pod.uid);
        let was_terminating = before.as_ref().is_some_and(|before| before.is_terminating());
        if let Some(deletion) = pod.deletion.filter(|_| !was_terminating && !is_held) {
            self.terminates(now, pod, time_of(deletion));
        }
        let was_placed = before.is_some_and(|before| before.node_name.is_some());
        if let Some(span) = self.lifecycle.completion_after
            && pod.node_name.is_some()
            && !was_placed
        {
            self.agenda.note(now + span, Due::Completes(pod.key.clone(), pod.uid.clone()));
        }
    }

    /// Schedules the end of a terminating pod at `deletion`, or at once if that has passed.
    fn terminates(&mut self, now: Time, pod: &Pod, deletion: Time) {
        let at = match self.faults.manner(now, RequestVerb::Terminate) {
            Manner::Late(span) => deletion.max(now) + span,
            Manner::Works => deletion.max(now),
            Manner::Unseen(_) | Manner::Refused | Manner::Unanswered | Manner::Lost => return,
        };
        self.agenda.note(at, Due::Ends(pod.key.clone(), pod.uid.clone()));
    }

    /// The controller of a pod that is gone makes another one, if it does.
    fn make_again(&mut self, now: Time, pod: &Pod) {
        if self.lifecycle.recreates
            && pod.node_name.is_some()
            && let Some(again) = recreated(pod, now)
        {
            self.agenda.note(now, Due::Happens(Happening::Arrives(Box::new(again))));
        }
    }

    /// Counts a pod that was on one node and is on another.
    fn count(&mut self, before: Option<&Str>, after: Option<&Str>) {
        if before == after {
            return;
        }
        if let Some(node) = before
            && let Some(n) = self.n_on.get_mut(node)
        {
            *n -= 1;
            if *n == 0 {
                self.n_on.remove(node);
            }
        }
        if let Some(node) = after {
            *self.n_on.entry(node.clone()).or_default() += 1;
        }
    }

    fn node_gone(&mut self, now: Time, name: &Str) {
        self.nodes.remove(name);
        if !self.n_on.contains_key(name) {
            return;
        }
        let is_there = |pod: &&Pod| pod.node_name.as_ref() == Some(name);
        let orphans = self.pods_in_any_order().filter(is_there);
        let mut orphans: Vec<_> = orphans.map(|pod| (pod.key.clone(), pod.uid.clone())).collect();
        orphans.sort_unstable();
        for (pod, uid) in orphans {
            self.agenda.note(now + lifecycle::ORPHANS_AFTER, Due::IsOrphaned(pod, uid));
        }
    }

    /// Carries out a write of the scheduler, and returns the events that it observes now.
    pub(crate) fn perform(&mut self, now: Time, effect: Effect) -> Vec<Event> {
        let verb = match &effect.write {
            Write::Bind(_) => RequestVerb::Bind,
            Write::Object(_) => RequestVerb::Write,
            Write::Evict(_) => RequestVerb::Evict,
            // Nothing in a simulation reads conditions and events.
            Write::Condition(_) | Write::GroupCondition(_) | Write::Record(_) => return Vec::new(),
            // A simulation has no network, so its schedulers have no extenders.
            Write::Extender(_) => return Vec::new(),
            Write::Nominate(_) => return self.apply(now, effect).1,
        };
        let id = effect.id;
        match self.faults.manner(now, verb) {
            Manner::Works => self.answered(now, effect),
            Manner::Late(span) => {
                let uid = self.uid(&effect.pod.key);
                self.agenda.note(now + span, Due::Arrives(effect, uid));
                Vec::new()
            }
            Manner::Unseen(span) => {
                let (answer, events) = self.apply(now, effect);
                for pod in events.iter().filter_map(pod_of) {
                    self.agenda.note(now + span, Due::IsSeen(pod.clone()));
                }
                vec![Event::Done(id, answer)]
            }
            Manner::Refused => {
                vec![Event::Done(id, Err(WriteError::new(WriteCause::Refused, "refused")))]
            }
            Manner::Unanswered => self.apply(now, effect).1,
            Manner::Lost => Vec::new(),
        }
    }

    fn uid(&self, pod: &PodKey) -> Str {
        self.pods.get(pod).map(|pod| pod.uid.clone()).unwrap_or_default()
    }

    /// Carries out a write, and returns the answer followed by the results.
    fn answered(&mut self, now: Time, effect: Effect) -> Vec<Event> {
        let id: EffectId = effect.id;
        let (answer, events) = self.apply(now, effect);
        std::iter::once(Event::Done(id, answer)).chain(events).collect()
    }

    /// Carries out a write.
    fn apply(&mut self, now: Time, effect: Effect) -> (Result<(), WriteError>, Vec<Event>) {
        let done = match effect.write {
            Write::Bind(binding) => {
                self.bound(now, &effect.pod.key, &binding.node).map(|pod| vec![seen(pod)])
            }
            Write::Evict(eviction) => Ok(self.evicted(now, &eviction).into_iter().collect()),
            Write::Nominate(node) => {
                let pod = self.pod(&effect.pod.key).cloned();
                Ok(pod.map(|pod| seen(Pod { nominated_node: node, ..pod })).into_iter().collect())
            }
            Write::Object(write) => self.written(now, &write),
            Write::Condition(_)
            | Write::GroupCondition(_)
            | Write::Record(_)
            | Write::Extender(_) => Ok(Vec::new()),
        };
        match done {
            Ok(events) => {
                for event in &events {
                    self.happens(now, event);
                }
                (Ok(()), events)
            }
            Err(error) => (Err(error), Vec::new()),
        }
    }

    fn written(&mut self, now: Time, write: &ObjectWrite) -> Result<Vec<Event>, WriteError> {
        if write.kind.is::<ResourceClaim>() {
            return self.claims.written(now, write).map(|event| vec![event]);
        }
        if let Some(done) = patched_pod(self.pod(&write.key), write) {
            return done.map(|pod| vec![seen(pod)]);
        }
        match self.volumes.patched(write) {
            Some(done) => done.map(|object| vec![changed(object)]),
            None => self.objects.write(write).map(|event| event.into_iter().collect()),
        }
    }

    /// Notes that a pod of a group has a node. Whenever it is bound, it is started after those for which this was noted before, and
    /// after those that are bound by now. All other pods are started when they are bound.
    pub(crate) fn chosen(&mut self, now: Time, pod: &PodKey) {
        self.last_start = lifecycle::started_after(self.last_start, now);
        self.starts.extend(self.last_start.map(|start| (pod.clone(), start)));
    }

    fn bound(&mut self, now: Time, key: &PodKey, node: &Str) -> Result<Pod, WriteError> {
        let start = self.starts.remove(key);
        let Some(pod) = self.pod(key) else {
            let text = format!("pods {:?} not found", key.name);
            return Err(WriteError::new(WriteCause::NotFound, text));
        };
        if let Some(on) = &pod.node_name {
            let text = format!("pod {} is already assigned to node {on:?}", pod.key.name);
            return Err(WriteError::new(WriteCause::Conflict, text));
        }
        if pod.is_terminating() {
            let text = format!("pod {} is being deleted, cannot be assigned to a host", key.name);
            return Err(WriteError::new(WriteCause::Conflict, text));
        }
        let started = start.or_else(|| lifecycle::started_after(self.last_start, now));
        Ok(Pod { node_name: Some(node.clone()), started, ..pod.clone() })
    }

    fn evicted(&self, now: Time, eviction: &Eviction) -> Option<Event> {
        let pod = self.pod(&eviction.victim.key)?;
        if self.lifecycle.grace.is_zero() {
            return Some(gone(&pod.key));
        }
        let deletion = pod.deletion.or_else(|| lifecycle::timestamp(now + self.lifecycle.grace));
        Some(seen(Pod { deletion, preempted: true, ..pod.clone() }))
    }

    /// When something is due next.
    pub(crate) fn next(&self) -> Option<Time> {
        self.agenda.next()
    }

    /// Applies the next item that is due at `now`, and returns the events for the scheduler.
    pub(crate) fn take_due(&mut self, now: Time) -> Option<Vec<Event>> {
        let events: Vec<Event> = match self.agenda.take_due(now)? {
            Due::Happens(what) => {
                let pod = what.pod().and_then(|pod| self.pods.get(pod));
                let pod = pod.cloned();
                let claim = what.claim().and_then(|claim| self.claims.get(claim));
                let group = what.group().and_then(|group| self.groups.get(group));
                what.event(now, pod.as_deref(), (claim, group)).into_iter().collect()
            }
            Due::Arrives(effect, uid) => return Some(self.arrives(now, effect, &uid)),
            Due::IsSeen(key) => {
                let pod = self.pods.get(&key).cloned();
                return Some(vec![pod.map_or_else(|| gone(&key), Event::pod)]);
            }
            Due::Completes(pod, uid) => {
                self.same(&pod, &uid).map(lifecycle::completed).into_iter().collect()
            }
            Due::Ends(pod, uid) => {
                self.same(&pod, &uid).map(|pod| gone(&pod.key)).into_iter().collect()
            }
            Due::VolumesAreBound => {
                self.volumes_noted = false;
                let changes = self.volumes.bind();
                self.order_volumes(now);
                changes.into_iter().map(changed).collect()
            }
            Due::IsProvisioned(order) => {
                let node = order.node.as_ref().and_then(|node| self.nodes.get(node));
                self.volumes.provision(&order, node).map(changed).into_iter().collect()
            }
            Due::IsNotProvisioned(order) => {
                self.volumes.refuse(&order).map(changed).into_iter().collect()
            }
            Due::ClaimsAreTidied => {
                self.claims_noted = false;
                self.claim_controller.work(now, &self.pods, &mut self.claims)
            }
            Due::IsPrepared(preparation) => {
                let claim = preparation.done(&self.claims).map(AnyObject::new);
                claim.map(changed).into_iter().collect()
            }
            Due::IsOrphaned(pod, uid) => {
                let lost = |pod: &&Pod| {
                    pod.node_name.as_ref().is_some_and(|on| !self.nodes.contains_key(on))
                };
                self.same(&pod, &uid).filter(lost).map(|pod| gone(&pod.key)).into_iter().collect()
            }
        };
        for event in &events {
            self.happens(now, event);
        }
        Some(events)
    }

    fn order_volumes(&mut self, now: Time) {
        for order in self.volumes.orders() {
            let span = self.storage.provisioning_after;
            let (span, due) = match self.faults.manner(now, RequestVerb::Provision) {
                Manner::Works => (span, Due::IsProvisioned(order)),
                Manner::Late(more) | Manner::Unseen(more) => {
                    (span + more, Due::IsProvisioned(order))
                }
                Manner::Refused => (span, Due::IsNotProvisioned(order)),
                Manner::Unanswered | Manner::Lost => continue,
            };
            self.agenda.note(now + span, due);
        }
    }

    /// Carries out a delayed write. As with the preconditions of the API server, it does not affect a
    /// new pod with the same name.
    fn arrives(&mut self, now: Time, effect: Effect, uid: &Str) -> Vec<Event> {
        match self.pods.get(&effect.pod.key) {
            Some(pod) if pod.uid != *uid => {
                let text = format!(
                    "the UID in the precondition ({uid}) does not match the UID in record ({})",
                    pod.uid
                );
                vec![Event::Done(effect.id, Err(WriteError::new(WriteCause::Conflict, text)))]
            }
            _ => self.answered(now, effect),
        }
    }

    /// The pod with this uid, if it still exists.
    fn same(&self, key: &PodKey, uid: &Str) -> Option<&Pod> {
        self.pod(key).filter(|pod| pod.uid == *uid)
    }

    /// A pod.
    pub fn pod(&self, key: &PodKey) -> Option<&Pod> {
        self.pods.get(key).map(AsRef::as_ref)
    }

    /// All pods, by name.
    pub fn pods(&self) -> impl Iterator<Item = &Pod> {
        let mut all: Vec<&Pod> = self.pods_in_any_order().collect();
        all.sort_unstable_by_key(|pod| &pod.key);
        all.into_iter()
    }

    /// All pods, in no particular order.
    pub(crate) fn pods_in_any_order(&self) -> impl Iterator<Item = &Pod> {
        self.pods.values().map(AsRef::as_ref)
    }
}

fn seen(pod: Pod) -> Event {
    Event::pod(pod)
}

pub(crate) fn gone(key: &PodKey) -> Event {
    Event::pod_gone(key.clone())
}

fn pod_of(event: &Event) -> Option<&PodKey> {
    match event {
        Event::Pod(seen) => match seen {
            Observation::Is(pod) => Some(&pod.key),
            Observation::Gone(key) => Some(key),
        },
        _ => None,
    }
}

fn changed(object: AnyObject) -> Event {
    Event::object(object)
}
