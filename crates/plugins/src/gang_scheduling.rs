//! GangScheduling: pods of a gang are bound once enough of them have a node.

use std::time::Duration;

use plimsoll_framework::events::Object;
use plimsoll_framework::pod_groups::group_key_of;
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
///
/// Since 1.37 a group is tried only as long as it can still fit: a gang of three with two pods left, of which none has a node,
/// is given up. `minCount` may change, and pods that wait are tried again if it becomes less. With the feature gate
/// `CompositePodGroup` a group may be part of a group of groups, which needs as many of these as its `minGroupCount`: its pods
/// wait until enough groups are complete, and none is bound until enough of them fit.
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

impl GangScheduling {
    /// The gate of a pod whose group may be part of a group of groups. As in preEnqueueWithHierarchies.
    fn gate_in_tree(forest: GroupForest<'_>, group: &ObjectKey, states: &PodGroupStates) -> Gate {
        let root = match forest.root(group) {
            Ok(root) => root,
            Err(missing) => {
                let text = format!("failed to build hierarchy snapshot: {missing}");
                return Gate::Closed(Rejection::unresolvable(text));
            }
        };
        if forest.is_ready(&root, states, PodGroupState::n_pods) {
            return Gate::Open;
        }
        Gate::Closed(match root {
            GroupRef::Pods(_) => Rejection::unresolvable(TO_APPEAR),
            GroupRef::Composite(key) => Rejection::unresolvable(quorum(&key.name)),
        })
    }

    /// Permits a pod of a tree once enough pods of the whole tree have a node. As in permitPodForHierarchy.
    fn permit_in_tree(root: &GroupRef, forest: GroupForest<'_>, states: &PodGroupStates) -> bool {
        forest.is_ready(root, states, PodGroupState::n_placed)
    }
}

/// What the pods of a tree wait for.
fn quorum(root: &str) -> String {
    format!("waiting for composite pod group {root:?} tree to meet quorum")
}

impl PreEnqueue for GangScheduling {
    type Pod = (PodNamespace, SchedulingGroup);
    type Cluster = ((Objects<PodGroup>, Objects<CompositePodGroup>), PodGroupStates);
    fn pre_enqueue(
        &self,
        (namespace, group): (&Str, Option<&Str>),
        ((groups, composites), states): (
            (&Store<PodGroup>, &Store<CompositePodGroup>),
            &PodGroupStates,
        ),
    ) -> Gate {
        let Some(name) = group.filter(|_| self.gates.gang_scheduling) else { return Gate::Open };
        if self.gates.composite {
            let key = ObjectKey::new(namespace.clone(), name.clone());
            let forest = GroupForest::new(groups, Some(composites));
            return Self::gate_in_tree(forest, &key, states);
        }
        let key = KeyRef { namespace, name };
        let Some(group) = groups.get(key) else {
            // "pod's pod" is upstream's wording.
            let text =
                format!("waiting for pods's pod group {name:?} to appear in scheduling queue");
            return Gate::Closed(Rejection::unresolvable(text));
        };
        let n_pods = states.get(key).map_or(0, PodGroupState::n_pods);
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
        let mut events =
            vec![ClusterEvent::of::<Pod>(Action::ADD), ClusterEvent::of::<PodGroup>(Action::ADD)];
        if GroupRules::V1_37 <= self.gates.rules {
            events.push(ClusterEvent::of::<PodGroup>(Action::UPDATE_OTHER));
        }
        if self.gates.composite {
            events.push(ClusterEvent::of::<CompositePodGroup>(Action::ADD));
        }
        events
    }
    fn hint(&self, pod: &PodInfo, change: &Change<'_>) -> Hint {
        let Some(group) = group_key_of(pod) else { return Hint::Skip };
        let helps = match change.object {
            Object::Assigned { after: Some(new), .. } => {
                group_key_of(new).is_some_and(|new| self.are_related(group, new, change))
            }
            Object::Other(_) => self.is_helped_by_object(group, change),
            _ => false,
        };
        if helps { Hint::Queue } else { Hint::Skip }
    }
}

impl GangScheduling {
    /// Whether an object that came or has changed helps the pods of a group. As in isSchedulableAfterPodGroupUpdated: a gang
    /// is helped by a smaller count.
    fn is_helped_by_object(self, group: KeyRef<'_>, change: &Change<'_>) -> bool {
        if let Some(versions) = change.of::<PodGroup>() {
            let Some(new) = versions.after else { return false };
            let needs_less = match versions.before.as_ref().map(|old| old.min_count()) {
                None => true,
                Some(before) => match (before, new.min_count()) {
                    (Some(before), Some(after)) => after < before,
                    _ => true,
                },
            };
            return needs_less && self.are_related(group, &new.key, change);
        }
        let composite = change.of::<CompositePodGroup>().and_then(|versions| versions.after);
        composite.is_some_and(|new| {
            self.are_in_one_tree(group, GroupRef::Composite(new.key.clone()), change)
        })
    }

    /// Whether two PodGroups are the same, or parts of one tree. As in areSameHierarchy.
    fn are_related<'k>(
        self,
        group: KeyRef<'_>,
        other: impl Into<KeyRef<'k>>,
        change: &Change<'_>,
    ) -> bool {
        let other = other.into();
        match self.gates.composite {
            false => group == other,
            true => self.are_in_one_tree(group, GroupRef::Pods(ObjectKey::from(other)), change),
        }
    }

    fn are_in_one_tree(self, group: KeyRef<'_>, other: GroupRef, change: &Change<'_>) -> bool {
        if !self.gates.composite {
            return false;
        }
        let forest = GroupForest::of(change.view.stores, self.gates);
        let root = |group| forest.chain(group).ok().and_then(|chain| chain.into_iter().next_back());
        let of_group = root(GroupRef::Pods(ObjectKey::from(group)));
        of_group.is_some() && of_group == root(other)
    }
}

impl Permit for GangScheduling {
    fn permit(&self, at: &Placement<'_>, handle: &mut Handle<'_>) -> Permission {
        let group = group_key_of(at.pod).filter(|_| self.gates.gang_scheduling);
        let Some(key) = group else { return Permission::Approve };
        let (stores, states) = (at.view.stores, &at.view.stores.groups);
        let Some(group) = stores.of::<PodGroup>().get(key) else {
            let text = format!("podgroup.scheduling.k8s.io {:?} not found", key.name);
            return Permission::Deny(Rejection::error(text));
        };
        let leaves = if self.gates.composite && group.parent.is_some() {
            let forest = GroupForest::of(stores, self.gates);
            let root = match forest.root(&ObjectKey::from(key)) {
                Ok(root) => root,
                Err(missing) => {
                    let text = format!("failed to build hierarchy snapshot: {missing}");
                    return Permission::Deny(Rejection::error(text));
                }
            };
            if !Self::permit_in_tree(&root, forest, states) {
                return Permission::Wait(WAIT);
            }
            forest.leaves(&root)
        } else {
            let Some(min_count) = group.min_count() else { return Permission::Approve };
            let n_placed = states.get(key).map_or(0, PodGroupState::n_placed);
            if n_placed < in_usize(min_count) {
                return Permission::Wait(WAIT);
            }
            vec![ObjectKey::from(key)]
        };
        let is_one_of_them = |group| leaves.iter().any(|leaf| KeyRef::from(leaf) == group);
        for other in handle.waiting.iter() {
            if group_key_of(&other.pod).is_some_and(is_one_of_them) {
                handle.waiting.allow(&other.pod.key);
            }
        }
        Permission::Approve
    }

    fn waits_for(&self) -> &'static str {
        TO_BE_SCHEDULED
    }

    fn looks_at_pods(&self) -> bool {
        false
    }

    fn looks_at_node(&self) -> bool {
        false
    }
}

impl PlacementFeasible for GangScheduling {
    fn may_still_fit(
        &self,
        group: &GroupInCycle<'_>,
        PlacementProgress { scheduled, remaining }: PlacementProgress,
    ) -> bool {
        in_usize(group.policy().min_count().unwrap_or(1)) <= scheduled + remaining
    }

    fn placement_feasible(
        &self,
        group: &GroupInCycle<'_>,
        PlacementProgress { scheduled, remaining }: PlacementProgress,
    ) -> PlacementFeasibility {
        let least = in_usize(group.policy().min_count().unwrap_or(1));
        let so_far = format!("{scheduled} scheduled, {remaining} remaining");
        if scheduled + remaining < least {
            let text = format!("minCount ({least}) cannot be satisfied: {so_far}");
            PlacementFeasibility::Infeasible(text.into())
        } else if scheduled < least {
            let text = format!("minCount ({least}) is not yet satisfied: {so_far}");
            PlacementFeasibility::NotYet(text.into())
        } else {
            PlacementFeasibility::Feasible
        }
    }
}

/// Registration.
pub fn entry() -> Entry {
    Entry::of::<GangScheduling>()
        .pre_enqueue()
        .reads_if::<Objects<PodGroup>>(|plugin| plugin.gates.gang_scheduling)
        .reads_if::<Objects<CompositePodGroup>>(|plugin| plugin.gates.composite)
        .placement_feasible()
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
            composite: false,
            preemption_policy: false,
            rules: GroupRules::V1_36,
        },
    };

    fn member(name: &str) -> Pod {
        let mut pod = Pod { key: PodKey::new("default", name), ..Pod::default() };
        pod.scheduling_group = Some("train".into());
        pod
    }

    fn gate(stores: &Stores) -> Gate {
        let (namespace, group) = (Str::from("default"), Str::from("train"));
        let objects = (&**stores.of::<PodGroup>(), &**stores.of::<CompositePodGroup>());
        ON.pre_enqueue((&namespace, Some(&group)), (objects, &stores.groups))
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
