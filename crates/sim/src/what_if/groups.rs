//! Groups of pods in a scenario: they are decided as a whole.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_api::{ObjectKey, PodKey, Str};
use plimsoll_engine::{GroupDecision, GroupResult, MemberDecision, Outcome};
use plimsoll_framework::{GroupForest, GroupRef};
use serde::Serialize;

use super::{EvictedPod, LostPod, Scenario};

/// A group of pods that was decided in a scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupInPlan {
    /// The group, as `namespace/name`.
    pub group: String,
    /// The result of its last decision, such as `scheduled`, `unschedulable` or `waiting`.
    pub result: &'static str,
    /// How many of its pods are on nodes in the end.
    pub placed: usize,
    /// Of how many.
    pub pods: usize,
    /// The domain that was chosen for it, if it must be in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<Str>,
    /// Why pods of it have no node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl Scenario {
    /// Keeps what was decided about a group: what became of its pods, and whom it evicted.
    pub(super) fn note_group(
        &mut self,
        group: &GroupDecision,
        (single, on_nodes): (&BTreeSet<PodKey>, &BTreeMap<PodKey, Str>),
        (last, evicted): (&mut BTreeMap<PodKey, Outcome>, &mut Vec<EvictedPod>),
    ) {
        let decisions = group.pods.iter().filter_map(MemberDecision::as_decision);
        last.extend(decisions.map(|decision| (decision.pod, decision.outcome)));
        for victim in &group.victims {
            evicted.push(EvictedPod { pod: victim.clone(), for_pod: group.group.clone() });
            let from = on_nodes.get(victim).cloned().unwrap_or_default();
            if single.contains(victim) {
                self.lost.push(LostPod { pod: victim.clone(), from });
            } else {
                self.lost_node.entry(victim.clone()).or_insert(from);
            }
        }
    }

    /// The pods that groups could evict, with their nodes.
    pub(super) fn pods_on_nodes(&self) -> BTreeMap<PodKey, Str> {
        if !self.simulation.scheduler().schedules_groups() {
            return BTreeMap::new();
        }
        let pods = self.simulation.world().pods_in_any_order();
        pods.filter_map(|pod| Some((pod.key.clone(), pod.node_name.clone()?))).collect()
    }

    /// The groups that were decided, and those that wait for more pods, by name.
    pub(super) fn groups_in_plan(
        &self,
        mut decided: BTreeMap<ObjectKey, GroupDecision>,
    ) -> Vec<GroupInPlan> {
        let scheduler = self.simulation.scheduler();
        for waiting in scheduler.waiting_groups() {
            decided.entry(waiting.group.clone()).or_insert(waiting);
        }
        let stores = scheduler.view().stores;
        let forest = GroupForest::of(stores, scheduler.group_gates());
        let in_plan = decided.into_values().map(|decision| {
            let leaves = match decision.is_composite {
                true => forest.leaves(&GroupRef::Composite(decision.group.clone())),
                false => vec![decision.group.clone()],
            };
            let states = leaves.iter().filter_map(|leaf| stores.groups.get(leaf));
            let (placed, pods) = states.fold((0, 0), |(placed, pods), state| {
                (placed + state.n_placed(), pods + state.n_pods())
            });
            let condition = decision.condition.map(|condition| condition.message);
            let message = decision.message.or(condition).filter(|text| !text.is_empty());
            let is_placed = decision.result == GroupResult::Scheduled && pods <= placed;
            GroupInPlan {
                group: decision.group.to_string(),
                result: decision.result.as_str(),
                placed,
                pods,
                placement: decision.placement,
                message: message.filter(|_| !is_placed),
            }
        });
        in_plan.collect()
    }
}
