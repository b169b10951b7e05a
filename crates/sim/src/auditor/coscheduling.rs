//! Checks gangs of Coscheduling: none is bound in part, and none keeps nodes for longer than its pods may wait.

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_api::{AnyObject, KindRef, ObjectKey, Pod, PodKey};
use plimsoll_engine::Observation;
use plimsoll_framework::Time;

use super::Auditor;
use crate::workload::coscheduling::LABEL;
use crate::workload::{GangArgs, GangKind, GangSpec};

/// How long a pod waits if neither its group nor the args say it.
const USUAL_WAIT: Duration = Duration::from_mins(1);

/// The gangs of the cluster.
#[derive(Debug)]
pub(crate) struct ObservedGangs {
    kind: GangKind,
    args: GangArgs,
    specs: BTreeMap<ObjectKey, GangSpec>,
    /// How many nodes were chosen for pods of gangs.
    n_chosen: u64,
    /// For each pod, when a node was chosen for it last.
    chosen: BTreeMap<PodKey, Choice>,
    /// For each gang, how many nodes were chosen when enough of its pods had one last.
    complete_at: BTreeMap<ObjectKey, u64>,
}

/// A node was chosen for a pod of a gang.
#[derive(Clone, Copy, Debug)]
struct Choice {
    /// How many were chosen by then, with this one.
    number: u64,
    /// Until when it may wait there for others.
    until: Time,
}

impl ObservedGangs {
    pub(crate) fn new(kind: GangKind, args: GangArgs) -> Self {
        ObservedGangs {
            kind,
            args,
            specs: BTreeMap::new(),
            n_chosen: 0,
            chosen: BTreeMap::new(),
            complete_at: BTreeMap::new(),
        }
    }

    pub(super) fn observe(&mut self, seen: &Observation<AnyObject, (KindRef, ObjectKey)>) {
        match seen {
            Observation::Is(object) => {
                if let Some(spec) = (self.kind.read)(object) {
                    self.specs.insert(object.key(), spec);
                }
            }
            Observation::Gone((kind, key)) if *kind == self.kind.kind => {
                self.specs.remove(key);
            }
            Observation::Gone(_) => {}
        }
    }

    /// How long a pod of a gang may wait for others.
    fn wait(&self, spec: GangSpec) -> Duration {
        let of_group = i64::from(spec.timeout_seconds.unwrap_or(0));
        let seconds = match of_group {
            0 => self.args.permit_waiting_time_seconds,
            _ => of_group,
        };
        match u64::try_from(seconds) {
            Ok(0) => USUAL_WAIT,
            seconds => Duration::from_secs(seconds.unwrap_or(0)),
        }
    }

    /// Whether enough pods of a gang had a node at some time since one was chosen for this pod.
    fn was_complete(&self, gang: &ObjectKey, pod: &PodKey) -> bool {
        let chosen = self.chosen.get(pod).map(|choice| choice.number);
        chosen <= self.complete_at.get(gang).copied()
    }
}

impl Auditor {
    /// From now on, also checks these gangs.
    pub(crate) fn with_gangs(mut self, gangs: ObservedGangs) -> Self {
        self.gangs = Some(gangs);
        self
    }

    /// The gang of a pod. A group of the API comes first.
    pub(super) fn gang_of(&self, pod: &Pod) -> Option<ObjectKey> {
        self.gangs.as_ref()?;
        let name = pod.labels.get(LABEL).filter(|name| !name.is_empty())?;
        let is_free = !self.known.is_member(pod);
        is_free.then(|| ObjectKey::new(pod.key.namespace.clone(), name.clone()))
    }

    fn n_placed_of(&self, gang: &ObjectKey) -> usize {
        let is_of = |pod: &Pod| self.gang_of(pod).as_ref() == Some(gang);
        self.known.placed().filter(|(pod, _)| is_of(pod)).count()
    }

    /// Whether enough pods of a gang are on nodes.
    fn is_gang_complete(&self, gang: &ObjectKey) -> bool {
        let spec = self.gangs.as_ref().and_then(|gangs| gangs.specs.get(gang));
        let least = spec.and_then(|spec| usize::try_from(spec.min_member).ok());
        least.is_some_and(|least| least <= self.n_placed_of(gang))
    }

    /// Notes that a node was chosen for a pod.
    pub(super) fn note_gang(&mut self, key: &PodKey) {
        let Some(gang) = self.known.pods.get(key).and_then(|pod| self.gang_of(pod)) else { return };
        let (is_complete, now) = (self.is_gang_complete(&gang), self.now);
        let Some(gangs) = &mut self.gangs else { return };
        let wait = gangs.specs.get(&gang).map_or(Duration::ZERO, |spec| gangs.wait(*spec));
        gangs.n_chosen += 1;
        let number = gangs.n_chosen;
        gangs.chosen.insert(key.clone(), Choice { number, until: now + wait });
        if is_complete {
            gangs.complete_at.insert(gang, number);
        }
    }

    /// Checks that enough pods of the gang of a pod that is bound had a node at some time since one was chosen for it.
    pub(super) fn may_be_bound(&self, pod: &Pod) -> Result<(), String> {
        let (Some(gangs), Some(gang)) = (&self.gangs, self.gang_of(pod)) else { return Ok(()) };
        match gangs.was_complete(&gang, &pod.key) {
            true => Ok(()),
            false => Err(format!("too few pods of its group {gang} have a node")),
        }
    }

    /// Checks that no pod of an incomplete gang keeps its node for longer than it may wait.
    pub(super) fn audit_waits(&mut self) {
        let Some(gangs) = &self.gangs else { return };
        let waits_on = self.known.chosen.values().filter_map(|(pod, node)| {
            let gang = self.gang_of(pod)?;
            let choice = gangs.chosen.get(&pod.key)?;
            let is_over = choice.until < self.now && !gangs.was_complete(&gang, &pod.key);
            is_over
                .then(|| format!("{} of {gang} still keeps {node}, but its time is over", pod.key))
        });
        for what in waits_on.collect::<Vec<_>>() {
            self.violated(self.now, what);
        }
    }

    /// Whether a pod need not be tried although it would get a node: the others of its gang need not get one, or what stops
    /// it ends without an event.
    pub(super) fn may_wait_for_others(&self, pod: &PodKey) -> bool {
        let pod = self.known.pods.get(pod);
        let gang = pod.and_then(|pod| self.gang_of(pod));
        gang.is_some_and(|gang| !self.wakes(&gang) || !self.is_gang_complete(&gang))
    }

    /// Whether all that stops the pods of a gang ends with an event: neither a backoff nor a lack of resources in all does.
    fn wakes(&self, gang: &ObjectKey) -> bool {
        let Some(gangs) = &self.gangs else { return false };
        let is_backed_off = 0 < gangs.args.pod_group_backoff_seconds;
        let spec = gangs.specs.get(gang);
        !is_backed_off && spec.is_some_and(|spec| !spec.has_min_resources)
    }

    /// The gangs without a pod on a node, each with the pods that may be tried and how many of them must get a node. If so many
    /// do, the gang need not sleep. The pods of each are alike, so that their order makes no difference, and have neither volumes
    /// nor devices: placing them one by one does not say who gets which.
    pub(crate) fn pending_gangs(&self) -> Vec<(ObjectKey, Vec<Pod>, usize)> {
        let mut members = BTreeMap::<ObjectKey, Vec<&Pod>>::new();
        for pod in self.known.pods.values() {
            if let Some(gang) = self.gang_of(pod) {
                members.entry(gang).or_default().push(pod);
            }
        }
        let pending = members.into_iter().filter_map(|(gang, members)| {
            let spec = self.gangs.as_ref()?.specs.get(&gang)?;
            // Without a count each pod is bound by itself.
            let least = usize::try_from(spec.min_member).ok()?.max(1);
            let may_be_tried = |pod: &&&Pod| {
                pod.scheduling_gates.is_empty()
                    && !pod.is_terminating()
                    && self.schedulers.contains(pod.scheduler_name.as_str())
            };
            let tried: Vec<Pod> =
                members.iter().filter(may_be_tried).map(|pod| Pod::clone(pod)).collect();
            let devices = &self.known.devices;
            let are_plain = tried.iter().all(|pod| {
                pod.template == tried[0].template
                    && pod.volumes.is_empty()
                    && !devices.are_claimed_by(pod)
            });
            let is_pending = members.iter().all(|pod| self.known.place(pod).is_none());
            let may_sleep = !are_plain || !is_pending || !self.wakes(&gang) || tried.len() < least;
            (!may_sleep).then_some((gang, tried, least))
        });
        pending.collect()
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_api::{PodGroup, PodTemplate};
    use plimsoll_engine::Event;

    use super::*;

    /// The groups of the API stand for those of the plugin.
    const KIND: GangKind = GangKind {
        kind: KindRef::of::<PodGroup>(),
        read: |object| {
            let group = object.get::<PodGroup>()?;
            let min_member = group.min_count().unwrap_or(0);
            Some(GangSpec { min_member, timeout_seconds: Some(5), has_min_resources: false })
        },
    };

    const ARGS: GangArgs = GangArgs {
        permit_waiting_time_seconds: 60,
        pod_group_backoff_seconds: 0,
        pod_group_reject_percentage: 10,
    };

    fn pod(name: &str) -> Pod {
        let labels = [(LABEL, "g")].into_iter().collect();
        let template = PodTemplate { labels, scheduler_name: "s".into(), ..PodTemplate::default() };
        Pod::new(PodKey::new("default", name), template)
    }

    /// An auditor that knows a gang of two of these pods.
    fn auditor(pods: &[&str]) -> Auditor {
        let mut auditor = Auditor::default().with_gangs(ObservedGangs::new(KIND, ARGS));
        auditor.schedulers.insert("s".to_owned());
        let policy = plimsoll_api::pod_group::GroupPolicy::Gang { min_count: 2 };
        let key = ObjectKey::new("default", "g");
        auditor.observe(&Event::object(PodGroup { key, policy, ..PodGroup::default() }));
        for name in pods {
            auditor.observe(&Event::pod(pod(name)));
        }
        auditor
    }

    fn choose(auditor: &mut Auditor, name: &str) {
        auditor.known.chosen.insert(pod(name).key, (pod(name), "n".into()));
        auditor.note_gang(&pod(name).key);
    }

    #[test]
    fn a_pod_is_bound_when_enough_of_its_gang_have_a_node() {
        let mut auditor = auditor(&["a", "b"]);
        choose(&mut auditor, "a");
        let wrong = auditor.may_be_bound(&pod("a")).expect_err("b has no node");
        assert_eq!(wrong, "too few pods of its group default/g have a node");
        choose(&mut auditor, "b");
        assert_eq!(auditor.may_be_bound(&pod("a")), Ok(()));
        // What was enough once is enough for those that had a node then.
        auditor.observe(&Event::Pod(Observation::Gone(pod("b").key)));
        assert_eq!(auditor.may_be_bound(&pod("a")), Ok(()));
        choose(&mut auditor, "a");
        assert!(auditor.may_be_bound(&pod("a")).is_err(), "it was chosen anew");
    }

    #[test]
    fn a_pod_of_an_incomplete_gang_keeps_its_node_no_longer_than_it_may_wait() {
        let found = |mut auditor: Auditor, seconds| {
            auditor.rests(Time::ZERO + Duration::from_secs(seconds));
            auditor.violations().iter().map(|one| one.what.clone()).collect::<Vec<_>>()
        };
        let waits = || {
            let mut auditor = auditor(&["a", "b"]);
            choose(&mut auditor, "a");
            auditor
        };
        assert_eq!(found(waits(), 5), [""; 0]);
        assert_eq!(
            found(waits(), 6),
            ["default/a of default/g still keeps n, but its time is over"]
        );
        let mut complete = waits();
        choose(&mut complete, "b");
        assert_eq!(found(complete, 6), [""; 0]);
    }

    #[test]
    fn a_gang_of_equal_pods_without_a_node_need_not_sleep() {
        let pending = |auditor: &Auditor| {
            let gangs = auditor.pending_gangs().into_iter();
            gangs.map(|(_, pods, least)| (pods.len(), least)).collect::<Vec<_>>()
        };
        assert_eq!(pending(&auditor(&["a", "b", "c"])), [(3, 2)]);
        assert_eq!(pending(&auditor(&["a"])), [], "there are too few");
        let mut other = auditor(&["a", "b"]);
        choose(&mut other, "a");
        assert_eq!(pending(&other), [], "one has a node");
        let mut other = auditor(&["a"]);
        let mut large = pod("b");
        large.requests.milli_cpu = 1;
        other.observe(&Event::pod(large));
        assert_eq!(pending(&other), [], "they are not alike");
        let mut without_count = auditor(&["a", "b"]);
        let key = ObjectKey::new("default", "g");
        without_count.observe(&Event::object(PodGroup { key, ..PodGroup::default() }));
        assert_eq!(pending(&without_count), [(2, 1)]);
    }
}
