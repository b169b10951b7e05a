//! GangScheduling: pods of a gang are bound once enough of them have a node.

use std::time::Duration;

use plimsoll_framework::events::Object;
use plimsoll_framework::pod_groups::group_of;
use plimsoll_framework::prelude::*;

const TO_APPEAR: &str = "waiting for minCount pods from a gang to appear in scheduling queue";

const TO_BE_SCHEDULED: &str = "waiting for minCount pods from a gang to be scheduled";

/// How long a pod waits for its gang. As in gangscheduling.go.
const WAIT: Duration = Duration::from_mins(5);

/// Holds the pods of a gang back until there are as many of them as its `minCount`, and binds none until as many have a
/// node.
///
/// Example: a group has the policy `gang: {minCount: 3}`. Its first two pods wait outside the queue. When the third one
/// comes, they are tried together. If only two of them fit, none is bound.
///
/// Pods that already run count. A group with the policy `basic` is not held back, and each of its pods that fits is bound.
#[derive(Clone, Copy, Debug)]
pub struct GangScheduling {
    gates: GroupGates,
}

impl Plugin for GangScheduling {
    const NAME: &'static str = "GangScheduling";
    type Args = NoArgs;
    fn new(_: NoArgs, gates: &FeatureGates) -> Self {
        GangScheduling { gates: GroupGates::of(gates) }
    }
}

impl PreEnqueue for GangScheduling {
    type Pod = (PodNamespace, SchedulingGroup);
    type Cluster = (Objects<PodGroup>, PodGroupStates);
    fn pre_enqueue(
        &self,
        (namespace, group): (&Str, Option<&Str>),
        (groups, states): (&Store<PodGroup>, &PodGroupStates),
    ) -> Gate {
        let Some(name) = group.filter(|_| self.gates.gang_scheduling) else { return Gate::Open };
        let key = ObjectKey::new(namespace.clone(), name.clone());
        let Some(group) = groups.get(&key) else {
            // "pod's pod" is upstream's wording.
            let text =
                format!("waiting for pods's pod group {name:?} to appear in scheduling queue");
            return Gate::Closed(Rejection::unresolvable(text));
        };
        let n_pods = states.get(&key).map_or(0, PodGroupState::n_pods);
        match group.min_count() {
            Some(min_count) if n_pods < in_usize(min_count) => {
                Gate::Closed(Rejection::unresolvable(TO_APPEAR))
            }
            _ => Gate::Open,
        }
    }
}

impl Requeue for GangScheduling {
    fn events(&self) -> Vec<ClusterEvent> {
        vec![ClusterEvent::of::<Pod>(Action::ADD), ClusterEvent::of::<PodGroup>(Action::ADD)]
    }
    fn hint(&self, pod: &PodInfo, change: &Change<'_>) -> Hint {
        let Some(group) = group_of(pod) else { return Hint::Skip };
        let helps = match change.object {
            Object::Assigned { after: Some(new), .. } => group_of(new) == Some(group),
            Object::Other(_) => change
                .of::<PodGroup>()
                .and_then(|versions| versions.after)
                .is_some_and(|new| new.key == group),
            _ => false,
        };
        if helps { Hint::Queue } else { Hint::Skip }
    }
}

impl Permit for GangScheduling {
    fn permit(&self, at: &Placement<'_>, handle: &mut Handle<'_>) -> Permission {
        let group = group_of(at.pod).filter(|_| self.gates.gang_scheduling);
        let Some(key) = group else { return Permission::Approve };
        let Some(group) = at.view.stores.of::<PodGroup>().get(&key) else {
            let text = format!("podgroup.scheduling.k8s.io {:?} not found", key.name);
            return Permission::Deny(Rejection::error(text));
        };
        let Some(min_count) = group.min_count() else { return Permission::Approve };
        let n_placed = at.view.stores.groups.get(&key).map_or(0, |state| state.placed().len());
        if n_placed < in_usize(min_count) {
            return Permission::Wait(WAIT);
        }
        let siblings =
            handle.waiting.iter().filter(|other| group_of(&other.pod) == Some(key.clone()));
        let siblings: Vec<PodKey> = siblings.map(|other| other.pod.key.clone()).collect();
        for sibling in &siblings {
            handle.waiting.allow(sibling);
        }
        Permission::Approve
    }

    fn waits_for(&self) -> &'static str {
        TO_BE_SCHEDULED
    }
}

/// Registration.
pub fn entry() -> Entry {
    Entry::of::<GangScheduling>()
        .pre_enqueue()
        .reads_if::<Objects<PodGroup>>(|plugin| plugin.gates.gang_scheduling)
        .permit()
        .requeue()
        .done()
}

fn in_usize(count: u32) -> usize {
    usize::try_from(count).expect("a count of pods fits")
}

#[cfg(test)]
mod tests {
    use plimsoll_api::pod_group::GroupPolicy;

    use super::*;

    const ON: GangScheduling = GangScheduling {
        gates: GroupGates {
            generic_workload: true,
            gang_scheduling: true,
            topology_aware: false,
            preemption: false,
        },
    };

    fn member(name: &str) -> Pod {
        let mut pod = Pod { key: PodKey::new("default", name), ..Pod::default() };
        pod.scheduling_group = Some("train".into());
        pod
    }

    fn gate(stores: &Stores) -> Gate {
        let (namespace, group) = (Str::from("default"), Str::from("train"));
        ON.pre_enqueue((&namespace, Some(&group)), (stores.of::<PodGroup>(), &stores.groups))
    }

    fn with_gang(min_count: u32) -> Stores {
        let mut stores = Stores::default();
        stores.keep(KindRef::of::<PodGroup>());
        let policy = GroupPolicy::Gang { min_count };
        let key = ObjectKey::new("default", "train");
        stores.set(&PodGroup { key, policy, ..PodGroup::default() }.into());
        stores
    }

    #[test]
    fn pods_wait_for_their_group_and_for_each_other() {
        let Gate::Closed(why) = gate(&Stores::default()) else { panic!("there is no group") };
        assert_eq!(
            why.to_string(),
            "waiting for pods's pod group \"train\" to appear in scheduling queue"
        );
        let mut stores = with_gang(2);
        stores.groups.is_known(&member("a"));
        assert_eq!(gate(&stores), Gate::Closed(Rejection::unresolvable(TO_APPEAR)));
        stores.groups.is_known(&member("b"));
        assert_eq!(gate(&stores), Gate::Open);
        stores.groups.is_gone(&member("a"));
        assert_eq!(gate(&stores), Gate::Closed(Rejection::unresolvable(TO_APPEAR)));
    }

    #[test]
    fn a_pod_is_permitted_once_enough_of_its_gang_have_a_node() {
        let mut stores = with_gang(2);
        let (nodes, node) = (Columns::default(), Str::from("n1"));
        let mut permit = |name: &str| {
            let pod = PodInfo::new(member(name)).placed_on(node.clone());
            stores.groups.is_placed(&pod);
            let view = View { nodes: &nodes, stores: &stores };
            let at = Placement { pod: &pod, node: &node, row: None, view };
            let mut parts = plimsoll_testkit::HandleParts::default();
            ON.permit(&at, &mut parts.handle(GangScheduling::NAME))
        };
        assert_eq!(permit("a"), Permission::Wait(WAIT));
        assert_eq!(permit("b"), Permission::Approve);
    }
}
