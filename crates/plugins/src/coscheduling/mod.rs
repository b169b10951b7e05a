//! Coscheduling of scheduler-plugins: groups of pods by a label, in clusters without the PodGroup API.
//!
//! It works pod by pod. A pod of a group waits at Permit on the node that was chosen for it until enough others wait
//! there, too, or run. What was tried, and when, is kept with the group (`object.rs`), since a plugin keeps nothing.

mod args;
mod gap;
mod object;
mod post_filter;
#[cfg(test)]
mod tests;

use std::time::Duration;

use plimsoll_framework::prelude::*;

pub use self::args::CoschedulingArgs;
use self::gap::FreeRoom;
pub use self::object::CoschedulingGroup;
use self::object::Groups;

/// The label that names the group of a pod, which is in the same namespace.
pub const LABEL: &str = "scheduling.x-k8s.io/pod-group";

const NOT_FOUND: Reason = Reason::Text("PodGroup not found");
const REJECTED_IN_UNRESERVE: Reason = Reason::Text("rejection in Unreserve");

/// How long a pod waits if neither its group nor the args say it. As in podgroup.go, DefaultWaitTime.
const WAIT: Duration = Duration::from_mins(1);

/// How long a group that passed the check of its `minResources` is not checked again if the args say 0. As in go-cache,
/// whose zero means the default of the cache.
const PERMITTED: Duration = Duration::from_secs(3);

/// Binds the pods of a group once as many of them as its `minMember` have a node.
///
/// Pods of a group have the label `scheduling.x-k8s.io/pod-group`. The group is a PodGroup of
/// `scheduling.x-k8s.io/v1alpha1`, a custom resource. Training jobs need this in clusters whose API server has no
/// PodGroups of its own: some workers alone can only wait for the rest, and occupy their nodes meanwhile.
///
/// Example: a group has `minMember: 3`. Its first two pods wait at Permit. When the third one has a node, all three are
/// bound. If it fits nowhere, the first two are rejected, and their room is free again.
///
/// A pod that names a PodGroup of the API in `spec.schedulingGroup` has its group there. While the feature gate
/// `GenericWorkload` is on, the label of such a pod does not count, and neither does the pod among those with the label.
///
/// Differences from scheduler-plugins: for `minResources` nodes are visited in the order in which they came. Pods that are
/// pending for another scheduler do not count as members. A member counts as soon as it is on a node, whoever has bound it.
/// What is known of the failures of a group is forgotten when its object is deleted.
#[derive(Debug)]
pub struct Coscheduling(CoschedulingArgs);

impl Plugin for Coscheduling {
    const NAME: &'static str = "Coscheduling";
    type Args = CoschedulingArgs;

    fn new(args: CoschedulingArgs, _: &FeatureGates) -> Self {
        Coscheduling(args)
    }

    fn complete(args: &mut CoschedulingArgs, _: &FeatureGates) {
        args.complete();
    }

    fn validate(args: &CoschedulingArgs, _: &FeatureGates, faults: &mut ArgsFaults) {
        args.validate(faults);
    }
}

/// Registration.
pub fn entry() -> Entry {
    type Reads = (Objects<CoschedulingGroup>, LabelledPods);
    Entry::of::<Coscheduling>()
        .groups_pods_by(LABEL)
        .queue_sort_reading::<Objects<CoschedulingGroup>>()
        .pre_filter()
        // It looks at the group, never at a node.
        .not_at(Point::Filter)
        .post_filter_reading::<Reads>()
        .after_post_filter()
        .reserve()
        .permit()
        .requeue()
        .shows_args()
        .done()
}

/// The group of a pod, if it has one by the label.
fn group_of(pod: &Pod) -> Option<ObjectKey> {
    LabelledPods::group_of(pod, LABEL)
}

/// What a pod is sorted by: its priority, the time of its group or its own, and its name.
type SortedBy = (i64, i64, String);

/// As in coscheduling.go, Less. The time of a group is that of its last failure, so that a group that does not fit lets
/// others pass; without a failure it is that of its creation.
impl QueueSort for Coscheduling {
    type Key = SortedBy;

    fn key(&self, queued: &QueuedPod<'_>) -> SortedBy {
        sorted_by(queued, queued.first_ready.millis())
    }

    fn key_in(&self, queued: &QueuedPod<'_>, cluster: &View<'_>) -> SortedBy {
        let groups = Groups::of(cluster.stores);
        let group = group_of(queued.pod).and_then(|key| groups.get(&key));
        let time = group.map(|(group, history)| match (history.failed, group.created) {
            (Some(failed), _) => failed.millis(),
            (None, Some(created)) => created.as_millisecond(),
            // The zero time of Go is before all others.
            (None, None) => i64::MIN,
        });
        sorted_by(queued, time.unwrap_or(queued.first_ready.millis()))
    }
}

fn sorted_by(queued: &QueuedPod<'_>, time: i64) -> SortedBy {
    (-i64::from(queued.pod.priority), time, queued.pod.key.to_string())
}

impl PreFilter for Coscheduling {
    type Pod = (PodKey, Labels, SchedulingGroup);
    type Node = ();
    type Cluster =
        (Objects<CoschedulingGroup>, LabelledPods, Now, Nodes<(Allocatable, Requested, Pods)>);
    type State = ();

    fn applies(&self, (_, labels, group): (&PodKey, &Labels, Option<&Str>)) -> bool {
        group.is_none() && labels.get(LABEL).is_some_and(|value| !value.is_empty())
    }

    /// As in core.go, PreFilter.
    fn pre_filter(
        &self,
        (pod, labels, _): (&PodKey, &Labels, Option<&Str>),
        (groups, pods, now, nodes): (
            &Store<CoschedulingGroup>,
            &LabelledPods,
            Time,
            NodesRef<'_, (Allocatable, Requested, Pods)>,
        ),
    ) -> Result<Option<()>, Rejection> {
        let Some(name) = labels.get(LABEL) else { return Ok(None) };
        let key = ObjectKey::new(pod.namespace.clone(), name.clone());
        let Some((group, history)) = Groups(groups).get(&key) else { return Ok(None) };
        if history.is_backed_off(now) {
            return Err(Rejection::unresolvable(format!("podGroup {key} failed recently")));
        }
        let members = pods.get(LABEL, &key);
        let n_pods = members.map_or(0, LabelledGroup::n_pods);
        let (pod, least) = (&pod.name, group.min_member);
        if n_pods < in_usize(least) {
            return Err(Rejection::unresolvable(format!(
                "pre-filter pod {pod} cannot find enough sibling pods, current pods number: {n_pods}, \
                 minMember of group: {least}"
            )));
        }
        let n_gated = members.map_or(0, LabelledGroup::n_gated);
        // Of more pods than the group needs, some may be gated. The gap is looked at for each pod, so it matters only if
        // there is one.
        if 0 < n_pods && n_pods - n_gated < in_usize(least) {
            return Err(Rejection::unresolvable(format!(
                "pre-filter pod {pod} cannot proceed due to gated pods in the same PodGroup"
            )));
        }
        if history.is_permitted(now) {
            return Ok(None);
        }
        match &group.min_resources {
            Some(least_resources) => {
                let rooms = nodes.iter().map(|node| FreeRoom::on(node, &key));
                gap::check(least_resources, least, rooms).map_err(Rejection::unresolvable)?;
                Ok(None)
            }
            None => Ok(None),
        }
    }

    fn filter(&self, (): &(), (): ()) -> Verdict {
        Verdict::Pass
    }

    fn may_err(&self, (): &()) -> bool {
        false
    }
}

impl Reserve for Coscheduling {
    type Reservation = ();

    fn applies(&self, pod: &PodInfo) -> bool {
        group_of(pod).is_some()
    }

    /// Nothing is reserved. The pod has passed PreFilter: if that has checked the resources, it need not for some time.
    fn reserve(&self, at: &Placement<'_>, handle: &mut Handle<'_>) -> Result<(), Rejection> {
        self.passed(at.pod, &at.view, handle, || true);
        Ok(())
    }

    /// As in coscheduling.go, Unreserve.
    fn unreserve(&self, (): (), at: &Placement<'_>, handle: &mut Handle<'_>) {
        let groups = Groups::of(at.view.stores);
        let Some(key) = group_of(at.pod).filter(|key| groups.get(key).is_some()) else { return };
        reject_waiting(&key, &REJECTED_IN_UNRESERVE, handle);
        let failed = Some(handle.now);
        groups.change(&key, &mut handle.assume, |history| {
            (history.failed, history.permitted_until) = (failed, None);
        });
    }
}

impl Permit for Coscheduling {
    /// As in coscheduling.go, Permit.
    fn permit(&self, at: &Placement<'_>, handle: &mut Handle<'_>) -> Permission {
        let Some(key) = group_of(at.pod) else { return Permission::Approve };
        let groups = Groups::of(at.view.stores);
        let Some((group, _)) = groups.get(&key) else {
            return Permission::Deny(Rejection::unschedulable(NOT_FOUND));
        };
        let members = at.view.stores.labelled.get(LABEL, &key);
        // The pod is on its node already.
        let n_placed = members.map_or(0, |members| members.placed().len());
        if in_usize(group.min_member) <= n_placed {
            groups.change(&key, &mut handle.assume, |history| history.failed = None);
            for member in waiting(&key, handle) {
                handle.waiting.allow(member);
            }
            return Permission::Approve;
        }
        // Whatever made the first one fit may help its siblings, which wait for something else.
        if let Some(members) = members.filter(|_| n_placed == 1) {
            let siblings = members.pods().filter(|sibling| **sibling != at.pod.key);
            handle.shared.write(PodsToActivate(siblings.cloned().collect()));
        }
        Permission::Wait(self.wait(group))
    }
}

/// As in coscheduling.go, EventsToRegister: there are no hints.
impl Requeue for Coscheduling {
    fn events(&self) -> Vec<ClusterEvent> {
        let of_group = Action::ADD | Action::UPDATE;
        vec![ClusterEvent::of::<Pod>(Action::ADD), ClusterEvent::of::<CoschedulingGroup>(of_group)]
    }

    fn hint(&self, _: &PodInfo, _: &Change<'_>) -> Hint {
        Hint::Queue
    }
}

impl Coscheduling {
    /// How long a pod of the group waits. As in podgroup.go, GetWaitTimeDuration. A negative time is over at once.
    fn wait(&self, group: &CoschedulingGroup) -> Duration {
        let of_args = self.0.permit_waiting_time();
        match group.schedule_timeout_seconds {
            Some(0) => of_args,
            Some(seconds) => Duration::from_secs(u64::try_from(seconds).unwrap_or(0)),
            None if of_args.is_zero() => WAIT,
            None => of_args,
        }
    }

    /// Remembers that the resources of the group of a pod were found, if the pod `has_passed` PreFilter and this has looked
    /// for them.
    fn passed(
        &self,
        pod: &PodInfo,
        view: &View<'_>,
        handle: &mut Handle<'_>,
        has_passed: impl FnOnce() -> bool,
    ) {
        let (groups, now) = (Groups::of(view.stores), handle.now);
        let Some(key) = group_of(pod) else { return };
        let Some((group, history)) = groups.get(&key) else { return };
        if group.min_resources.is_none() || history.is_permitted(now) || !has_passed() {
            return;
        }
        let span = match self.0.permit_waiting_time() {
            Duration::ZERO => PERMITTED,
            span => span,
        };
        groups.change(&key, &mut handle.assume, |history| {
            history.permitted_until = Some(now + span);
        });
    }
}

/// The pods of a group that wait at Permit, in the order in which they began to.
fn waiting<'a, 'g>(
    group: &'g ObjectKey,
    handle: &Handle<'a>,
) -> impl Iterator<Item = &'a PodKey> + use<'a, 'g> {
    let members =
        handle.waiting.iter().filter(move |other| group_of(&other.pod).as_ref() == Some(group));
    members.map(|member| &member.pod.key)
}

/// Rejects the pods of a group that wait at Permit.
fn reject_waiting(group: &ObjectKey, why: &Reason, handle: &mut Handle<'_>) {
    for member in waiting(group, handle) {
        handle.waiting.reject(member, why.clone());
    }
}

fn in_usize(count: u32) -> usize {
    usize::try_from(count).expect("a count of pods fits")
}
