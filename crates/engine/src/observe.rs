//! Handles events.

use std::sync::Arc;

use plimsoll_api::{AnyVersions, CompositePodGroup, Node, ObjectKey, Pod, PodGroup, PodKey, Str};
use plimsoll_framework::events::{self, Object};
use plimsoll_framework::parts::NodeReads;
use plimsoll_framework::pod_groups::group_of;
use plimsoll_framework::{Action, Change, ClusterEvent, GroupRef, PodInfo, Release, Time};

use crate::binding::BindingCycle;
use crate::event::{Event, Observation};
use crate::metrics::EventLabel;
use crate::names::PodId;
use crate::queue::{Audience, QueuePlace, Surroundings};
use crate::scheduler::Scheduler;

/// The reason when a pod that waits at Permit is being deleted. As in waiting_pods_map.go.
const REMOVED: &str = "removed";

impl Scheduler {
    /// Handles one event. This is cheap and decides nothing.
    pub fn observe(&mut self, now: Time, event: Event) {
        for recorder in &mut self.recorders {
            recorder.observed(now, &event);
        }
        self.cache.set_now(now);
        let lap = self.counts.event_begins();
        self.take_in(now, event);
        self.counts.event_over(lap);
    }

    fn take_in(&mut self, now: Time, event: Event) {
        if !matches!(event, Event::Done(..) | Event::Extended(..)) {
            self.queue.hears();
        }
        match event {
            Event::Pod(seen) => match seen {
                Observation::Is(pod) if pod.phase == plimsoll_api::PodPhase::Ended => {
                    self.pod_gone(now, &pod.key);
                }
                Observation::Is(pod) => self.pod_is(now, pod),
                Observation::Gone(key) => self.pod_gone(now, &key),
            },
            Event::Node(seen) => match *seen {
                Observation::Is(node) => self.node_is(now, node),
                Observation::Gone(name) => self.node_gone(now, &name),
            },
            Event::Object(seen) => {
                let kind = match &seen {
                    Observation::Is(object) => object.kind(),
                    Observation::Gone((kind, _)) => *kind,
                };
                let change = match &seen {
                    Observation::Is(object) => {
                        let cache = &mut self.cache;
                        cache.change_object(kind, || object.key(), |all| all.set(object))
                    }
                    Observation::Gone((_, key)) => {
                        let cache = &mut self.cache;
                        cache.change_object(kind, || key.clone(), |all| all.remove(kind, key))
                    }
                };
                self.cache.objects_changed(kind);
                if let Some(change) = change.filter(|_| kind.wakes_pods()) {
                    let event = ClusterEvent::of_versions(&change);
                    self.changed(now, event, Object::Other(&change), Audience::All);
                    if let Some(left) = left_tree(&change) {
                        let with = Surroundings { profiles: &self.profiles, cache: &self.cache };
                        self.queue.left_tree(now, left, with);
                    }
                }
            }
            Event::Done(id, answer) => self.answers.push((id, answer)),
            Event::Extended(id, reply) => self.extenders.replies.push((id, reply)),
        }
    }

    /// A pod with what it requests according to its resources as a whole, if it has any; and without its group, if
    /// groups are off.
    pub(crate) fn reckoned(&self, mut pod: Arc<Pod>) -> Arc<Pod> {
        if pod.resources.is_some() {
            Arc::make_mut(&mut pod).reckon(self.options.gates.requests(self.options.release));
        }
        if pod.scheduling_group.is_some() && !self.options.gates.groups.generic_workload {
            Arc::make_mut(&mut pod).scheduling_group = None;
        }
        pod
    }

    fn pod_is(&mut self, now: Time, pod: Arc<Pod>) {
        let pod = self.reckoned(pod);
        let mut number = self.names.find(&pod.key);
        let is_another = |id: PodId| self.is_known(id) && self.names[id].uid != pod.uid;
        let has_lost_its_node = |id: PodId| {
            let seen = self.cache.seen(id).filter(|_| pod.node_name.is_none());
            seen.is_some_and(|seen| seen.edition.resource_version != pod.edition.resource_version)
        };
        // Either the deletion of a pod with this name was missed, or the API server has returned to a
        // state in which the pod was not bound, as after a restore.
        if number.is_some_and(|id| is_another(id) || has_lost_its_node(id)) {
            self.pod_gone(now, &pod.key);
            number = None;
        }
        if pod.node_name.is_none() && self.profiles.get(&pod.scheduler_name).is_none() {
            if let Some(id) = number {
                self.is_anothers(now, id);
            }
            return;
        }
        let id = match number {
            None => self.learn_pod(pod.clone()),
            Some(id) => {
                self.cache.pod_is_known(Some(&self.names[id]), &pod);
                self.names.update(id, pod.clone());
                id
            }
        };
        let pod = PodInfo::from(pod);
        if pod.node_name.is_some() {
            self.pod_is_on_its_node(now, id, &pod);
        } else if !self.is_known(id) {
            self.counts.hears(EventLabel::PENDING_POD_ADD);
            let with = Surroundings { profiles: &self.profiles, cache: &self.cache };
            self.queue.set(now, id, pod.clone(), with);
            self.member_comes(now, id, &pod);
            // Resources may have been reserved for it until now: it is not tried any more, since it is
            // being deleted. As in nominator.go, addNominatedPodUnlocked.
            let before = self.awaited(&pod.key);
            self.nominated.remove(&pod.key);
            if pod.nominated_node.is_some() && self.counts_when_new(id) {
                self.renominate(id, &pod);
            }
            self.nomination_changes(now, &pod.key, before);
        } else if self.queue.get(id).is_some() {
            self.counts.hears(EventLabel::PENDING_POD_UPDATE);
            if pod.is_terminating() && self.waiting.has(id) {
                self.reject_waiting_pod(&pod.key, "", REMOVED);
            }
            // As in eventhandlers.go, updatePodInSchedulingQueue: a pod that is assumed to be on its
            // node already uses its resources there, and is not woken by its own changes.
            let left = self.left_by(id, pod.nominated_node.as_ref());
            if self.cache.knows(id) {
                self.queue.refresh(id, pod);
                self.leaves_nomination(now, left);
                return;
            }
            if pod.nominated_node.is_none() {
                self.expected.remove(id);
            }
            // Resources may have been reserved for it on another node than it named. Report each node
            // only once.
            let left_node = left.as_ref().and_then(PodInfo::node);
            let before = self
                .awaited(&pod.key)
                .filter(|before| left.is_none() || before.node() != left_node);
            self.renominate(id, &pod);
            let with = Surroundings { profiles: &self.profiles, cache: &self.cache };
            let key = pod.key.clone();
            self.queue.set(now, id, pod, with);
            self.leaves_nomination(now, left);
            self.nomination_changes(now, &key, before);
        }
        // Otherwise it is assumed to be on a node, and this update was written before the binding, or
        // nothing is new. It must not be scheduled again.
    }

    /// Removes a pending pod that now belongs to another scheduler.
    pub(crate) fn is_anothers(&mut self, now: Time, id: PodId) {
        let group = group_of(&self.names[id]);
        self.extenders.leave(id);
        self.queue.remove(id);
        if !self.cache.knows(id) {
            self.forget_pod(id);
        }
        self.member_left(now, group);
    }

    /// A pod of a group has left the queue: it may have held the others back.
    fn member_left(&mut self, now: Time, group: Option<ObjectKey>) {
        if let Some(group) = group {
            let with = Surroundings { profiles: &self.profiles, cache: &self.cache };
            self.queue.member_left(now, &group, with);
        }
    }

    /// A pending pod as if on its former nominated node, if its nomination is now `now`.
    fn left_by(&self, id: PodId, now: Option<&Str>) -> Option<PodInfo> {
        let queued = self.queue.get(id).map(|info| &info.pod);
        // After the answer to the binding it is not queued any more, but may not have been observed on
        // its node yet.
        let pod = queued.or_else(|| self.cache.assumed(id))?;
        let node = pod.nominated_node.as_ref().filter(|node| Some(*node) != now)?;
        // Pods that wait for the resources of a pod with an expected node were woken when it left.
        let is_expected = self.expected.get(id) == Some(node);
        let is_counted = self.nominated.node_of(&pod.key).is_some();
        (!is_expected || is_counted).then(|| pod.placed_on(node.clone()))
    }

    /// The same for a pod that is not tried any more because it is being deleted: its resources stay
    /// reserved as long as it exists. As in eventhandlers.go, deletePodFromSchedulingQueue.
    fn left_untried(&self, id: PodId) -> Option<PodInfo> {
        let pod = (!self.is_known(id)).then(|| &self.names[id])?;
        let node = self.nominated.node_of(&pod.key).filter(|_| pod.node_name.is_none())?;
        Some(PodInfo::new(pod.clone()).placed_on(node.clone()))
    }

    /// Wakes others because resources are no longer reserved for a pod. As in eventhandlers.go,
    /// updatePodInSchedulingQueue: they were reserved only against pods of the same or lower priority.
    /// Unlike there, also if the pod was placed on another node.
    pub(crate) fn leaves_nomination(&mut self, now: Time, pod: Option<PodInfo>) {
        if let Some(pod) = pod {
            self.freed(now, &pod, Audience::UpTo(pod.priority));
        }
    }

    /// A nominated pod, as if on its node.
    fn awaited(&self, pod: &PodKey) -> Option<PodInfo> {
        let pod = self.nominated.get(pod)?;
        Some(pod.placed_on(self.nominated.node_of(&pod.key)?.clone()))
    }

    /// Wakes others if the reservation for a pod has begun, moved, changed with the pod, or ended.
    fn nomination_changes(&mut self, now: Time, pod: &PodKey, before: Option<PodInfo>) {
        match (before, self.awaited(pod)) {
            // In kube-scheduler others are not woken by this.
            (Some(before), Some(after)) if before.node() == after.node() => {
                self.counted_changes(now, &before, &after, Audience::UpTo(after.priority));
            }
            (before, after) => {
                self.leaves_nomination(now, before);
                self.enters_nomination(now, after);
            }
        }
    }

    /// Wakes others because a pod has begun to count on the node to which it is nominated. All that it needs is in the
    /// way of others, except its volumes: whoever uses the same ones needs no further slot for them. In kube-scheduler
    /// others are not woken by this.
    fn enters_nomination(&mut self, now: Time, pod: Option<PodInfo>) {
        if pod.is_some() {
            self.queue.nominates();
        }
        let Some(pod) = pod.filter(|pod| !pod.volumes.is_empty()) else { return };
        let row = pod.node().and_then(|node| self.cache.row(node));
        let object = Object::Assigned { before: None, after: Some(&pod), row };
        let event = ClusterEvent::of::<Pod>(Action::ADD);
        self.changed(now, event, object, Audience::UpTo(pod.priority));
    }

    /// Wakes others if a pod that already counted on its node has changed.
    fn counted_changes(
        &mut self,
        now: Time,
        before: &PodInfo,
        after: &PodInfo,
        audience: Audience,
    ) {
        let mut action = events::named_pod_actions(before, after);
        action.set(Action::UPDATE_OTHER, before.is_terminating() != after.is_terminating());
        if !action.is_empty() {
            let row = after.node().and_then(|node| self.cache.row(node));
            let object = Object::Assigned { before: Some(before), after: Some(after), row };
            self.changed(now, ClusterEvent::of::<Pod>(action), object, audience);
        }
    }

    /// Whether the nomination of a new pod counts. As in scheduling_queue.go, moveToActiveQ: before
    /// 1.37 not if a gate holds the pod back, until the pod changes.
    fn counts_when_new(&self, id: PodId) -> bool {
        let is_gated =
            || self.queue.get(id).is_none_or(|info| matches!(info.place, QueuePlace::Gated { .. }));
        Release::V1_37 <= self.options.release || !is_gated()
    }

    /// Records the nominated node in the status of a pending pod. As in nominator.go,
    /// UpdateNominatedPod: a pod without one in its status keeps our own nomination.
    fn renominate(&mut self, id: PodId, pod: &PodInfo) {
        let before = self.queue.get(id).and_then(|info| info.pod.nominated_node.clone());
        match (&pod.nominated_node, before) {
            (Some(node), _) => self.nominated.set(pod.clone(), node.clone()),
            (None, Some(_)) => {
                self.nominated.remove(&pod.key);
            }
            (None, None) => {
                if let Some(node) = self.nominated.node_of(&pod.key).cloned() {
                    self.nominated.set(pod.clone(), node);
                }
            }
        }
    }

    /// Handles a pod that was observed on its node: placed by us and now confirmed, or placed by
    /// something else.
    fn pod_is_on_its_node(&mut self, now: Time, id: PodId, pod: &PodInfo) {
        let Some(node) = &pod.node_name else { return };
        let left = self.left_by(id, Some(node));
        self.expected.remove(id);
        self.nominated.remove(&pod.key);
        // If the binding was written, its answer is still awaited, since PostBind depends on it.
        if !self.bindings.get(id).is_some_and(BindingCycle::is_binding) {
            self.cancel_binding(now, id, "the pod was bound by something else");
            self.extenders.leave(id);
            self.queue.remove(id);
        }
        let (assumed, seen) = match self.cache.set_pod(id, pod.clone()) {
            Some(before) if before.assumed => (Some(before.pod), None),
            before => (None, before.map(|before| before.pod)),
        };
        let elsewhere = |assumed: &&PodInfo| assumed.node() != pod.node();
        if let Some(assumed) = assumed.as_ref().filter(elsewhere) {
            // Something else has bound it: the resources that were reserved for it are free.
            self.freed(now, assumed, Audience::All);
        }
        let action = match &seen {
            None => Action::ADD,
            Some(before) => events::pod_actions(before, pod),
        };
        if !action.is_empty() {
            let row = self.cache.row_of(id);
            let object = Object::Assigned { before: seen.as_ref(), after: Some(pod), row };
            self.changed(now, ClusterEvent::of::<Pod>(action), object, Audience::All);
        }
        if let Some(before) = assumed.filter(|assumed| !elsewhere(&assumed)) {
            // It was changed while it was being bound. kube-scheduler handles this only as an addition.
            self.counted_changes(now, &before, pod, Audience::All);
        }
        self.member_left(now, group_of(pod));
        self.leaves_nomination(now, left);
    }

    pub(crate) fn pod_gone(&mut self, now: Time, key: &PodKey) {
        let Some(id) = self.names.find(key) else {
            self.counts.hears(EventLabel::PENDING_POD_DELETE);
            return;
        };
        let left = self.left_by(id, None).or_else(|| self.left_untried(id));
        self.expected.remove(id);
        self.cancel_binding(now, id, "the pod was deleted");
        self.nominated.remove(key);
        self.preemptor_gone(now, key);
        self.may_go(key);
        self.extenders.leave(id);
        self.queue.remove(id);
        match self.cache.remove_pod(id) {
            Some(before) => self.freed(now, &before, Audience::All),
            None => self.counts.hears(EventLabel::PENDING_POD_DELETE),
        }
        let group = group_of(&self.names[id]);
        self.forget_pod(id);
        self.member_left(now, group);
        self.leaves_nomination(now, left);
    }

    /// Wakes others because a pod is no longer on its node.
    pub(crate) fn freed(&mut self, now: Time, pod: &PodInfo, audience: Audience) {
        let row = pod.node().and_then(|node| self.cache.row(node));
        let object = Object::Assigned { before: Some(pod), after: None, row };
        self.changed(now, ClusterEvent::of::<Pod>(Action::DELETE), object, audience);
    }

    /// Ends the binding cycle of a pod that no longer needs one. `why` is told to recorders.
    fn cancel_binding(&mut self, now: Time, id: PodId, why: &str) {
        if let Some(mut cycle) = self.bindings.take(id) {
            self.binding_ended(now, &cycle, None, Some(why));
            self.waiting.remove(id);
            cycle.unreserve(&mut self.backing(now));
            // The pod stays in the cache until others have been woken by its deletion.
        }
    }

    fn node_is(&mut self, now: Time, node: Node) {
        let (name, cordoned) = (node.name.clone(), node.unschedulable);
        self.follow_changes();
        let change = self.cache.set_node(node);
        self.follow_changes();
        let mut action = match change.before {
            None => Action::ADD,
            Some(_) => events::node_actions(change.changed),
        };
        // As in framework/events.go, extractNodeSpecUnschedulableChange: cordoning a node helps no pod.
        if cordoned && !change.changed.intersects(NodeReads::TAINTS) {
            action.remove(Action::UPDATE_NODE_TAINT);
        }
        if !action.is_empty() {
            let after = self.cache.row(&name);
            let object = Object::Node { before: change.before.as_deref(), after };
            self.changed(now, ClusterEvent::of::<Node>(action), object, Audience::All);
        }
        if change.before.is_some() && change.changed.intersects(NodeReads::LABELS) {
            self.nominated_leave_domains(now, &name);
        }
    }

    /// Wakes others after the labels of a node change: the pods nominated to it are no longer in the
    /// domains where others counted them. Hints see only the pods on the node, not these.
    fn nominated_leave_domains(&mut self, now: Time, node: &Str) {
        let moved: Vec<PodInfo> =
            self.nominated.on(node).map(|pod| pod.placed_on(node.clone())).collect();
        for pod in moved {
            self.leaves_nomination(now, Some(pod));
        }
    }

    fn node_gone(&mut self, now: Time, name: &Str) {
        self.follow_changes();
        let before = self.cache.remove_node(name);
        self.follow_changes();
        if let Some(before) = before {
            let object = Object::Node { before: Some(&before), after: None };
            self.changed(now, ClusterEvent::of::<Node>(Action::DELETE), object, Audience::All);
        }
    }

    /// Applies the changes so far to what is remembered. This comes before and after each change of a node, which is
    /// followed alone: see [`Changes`](crate::cache::Changes).
    pub(crate) fn follow_changes(&mut self) {
        if let Some(memo) = &mut self.memo {
            let (view, changes) = self.cache.with_changes();
            memo.follow_changes(view, changes, &mut self.nominated);
        }
    }

    fn changed(&mut self, now: Time, event: ClusterEvent, object: Object<'_>, audience: Audience) {
        let with = Surroundings { profiles: &self.profiles, cache: &self.cache };
        let change = Change { event, object, view: self.cache.view() };
        self.counts.hears(EventLabel::of(&change));
        self.queue.on_change(now, &change, audience, with);
    }
}

/// A group that is no longer where it was in a tree of groups, or is gone, and the group above it until then.
fn left_tree(change: &AnyVersions) -> Option<(GroupRef, Option<GroupRef>)> {
    let left = |key: &ObjectKey, before: &Option<Str>, after: Option<&Option<Str>>| {
        let above = before.clone().map(|name| ObjectKey::new(key.namespace.clone(), name));
        (Some(before) != after).then(|| above.map(GroupRef::Composite))
    };
    if let Some(group) = change.of::<PodGroup>() {
        let (before, after) = (group.before?, group.after);
        let parent = left(&before.key, &before.parent, after.as_ref().map(|after| &after.parent))?;
        Some((GroupRef::Pods(before.key.clone()), parent))
    } else {
        let group = change.of::<CompositePodGroup>()?;
        let (before, after) = (group.before?, group.after);
        let parent = left(&before.key, &before.parent, after.as_ref().map(|after| &after.parent))?;
        Some((GroupRef::Composite(before.key.clone()), parent))
    }
}
