//! Which pods should move: advice that was tried move by move.
//!
//! Kubernetes does not move pods. A move is the eviction of a pod whose controller makes another one, which the scheduler
//! then places. Each move is tried in a transaction: the pod is evicted, the new one is decided and placed. It is kept only
//! if the new pod goes to a node at once, where the objective wants it.

mod budgets;
mod free_nodes;
mod spread;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plimsoll_api::{Effect, Node, Pod, PodKey, Str, Taint};
use plimsoll_engine::{Detail, Outcome, Scheduler, Transaction};
use plimsoll_framework::{PodInfo, Row, Time, View};
use serde::{Serialize, Serializer};

use self::budgets::Budgets;
pub use self::budgets::UsedBudget;
pub use self::spread::SkewChange;
use crate::recreation::{Fate, recreated};

const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// Pods of at least this priority keep the cluster running, and are not moved (`system-cluster-critical`).
const CRITICAL: i32 = 2_000_000_000;
/// Whoever writes this annotation with `false` does not want the pod to be evicted by a program.
const SAFE_TO_EVICT: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict";

/// What the moves are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Objective {
    /// Nodes that run no pods beside those that belong to nodes.
    FreeNodes,
    /// Pods of one controller that are spread evenly.
    Spread,
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RebalanceOptions {
    /// What the moves are for, in this order.
    pub objectives: Vec<Objective>,
    /// How many pods may move.
    pub max_moves: usize,
}

/// A list of moves, and what they come to. A key whose value would be empty is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RebalancePlan {
    /// What is to be done, in this order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<RebalanceStep>,
    /// The nodes that are then free, in the order in which they are freed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub freed: Vec<Str>,
    /// The controllers whose pods were spread unevenly, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub spread: Vec<SkewChange>,
    /// The budgets that the moves use, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub budgets: Vec<UsedBudget>,
    /// How many pods are pending; none of them was on a node.
    #[serde(skip_serializing_if = "is_zero")]
    pub pending: usize,
    /// How many decisions were made.
    pub decisions: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// One step of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum RebalanceStep {
    /// A node takes no new pods from now on.
    Cordon {
        /// The node.
        cordon: Str,
    },
    /// A pod is evicted, and the one that its controller makes goes elsewhere.
    Move(PodMove),
}

/// A pod that moves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PodMove {
    /// The pod.
    #[serde(serialize_with = "name")]
    pub pod: PodKey,
    /// Its node.
    pub from: Str,
    /// The node to which the new pod goes.
    pub to: Str,
    /// What it is good for.
    pub why: String,
}

fn name<S: Serializer>(pod: &PodKey, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(pod)
}

impl RebalancePlan {
    /// The moves, in order.
    pub fn moves(&self) -> impl Iterator<Item = &PodMove> {
        self.steps.iter().filter_map(|step| match step {
            RebalanceStep::Move(one) => Some(one),
            RebalanceStep::Cordon { .. } => None,
        })
    }
}

/// Looks for moves. The scheduler is afterwards as it was.
pub fn rebalance(
    scheduler: &mut Scheduler,
    now: Time,
    options: &RebalanceOptions,
) -> RebalancePlan {
    let pending = scheduler.pending().count();
    let profiles = scheduler.profile_names();
    let has_groups = scheduler.schedules_groups();
    scheduler.transaction(now, |transaction| {
        let view = transaction.view();
        let rows = view.nodes.rows().map(|row| (view.nodes.name_of(row).clone(), row)).collect();
        let mut planner = Planner {
            now,
            profiles,
            has_groups,
            rows,
            budgets: Budgets::of(view),
            moved: BTreeSet::new(),
            left: options.max_moves,
            plan: RebalancePlan { pending, ..RebalancePlan::default() },
        };
        for objective in &options.objectives {
            match objective {
                Objective::FreeNodes => free_nodes::run(transaction, &mut planner),
                Objective::Spread => spread::run(transaction, &mut planner),
            }
        }
        let Planner { plan, budgets, .. } = planner;
        RebalancePlan { budgets: budgets.used(), ..plan }
    })
}

/// What is known while a plan is made.
struct Planner {
    now: Time,
    profiles: Vec<String>,
    /// Whether groups of pods are scheduled as a whole.
    has_groups: bool,
    /// The rows of nodes; no node comes or goes.
    rows: BTreeMap<Str, Row>,
    budgets: Budgets,
    /// No pod moves twice.
    moved: BTreeSet<PodKey>,
    left: usize,
    plan: RebalancePlan,
}

impl Planner {
    /// Whether a pod may move. The budgets are asked separately.
    fn is_movable(&self, pod: &PodInfo) -> bool {
        let may_go = pod.annotations.get(SAFE_TO_EVICT).is_none_or(|value| value != "false");
        Fate::of(pod) == Fate::Recreated
            && may_go
            && pod.priority < CRITICAL
            && pod.resource_claims.is_empty()
            && !(self.has_groups && pod.scheduling_group.is_some())
            && self.profiles.iter().any(|name| *name == *pod.scheduler_name)
            && !self.moved.contains(&pod.key)
    }

    /// Evicts a pod, and places the one that its controller makes. Returns its node; `None` if it would be pending.
    fn try_move(&mut self, transaction: &mut Transaction<'_>, pod: &PodInfo) -> Option<Str> {
        let new: Pod = recreated(pod.seen(), self.now)?;
        transaction.evict(&pod.key).ok()?;
        self.plan.decisions += 1;
        let new = Arc::new(new);
        let decision = transaction.decide_in_detail(new.clone(), Detail::Choice).ok()?;
        let Outcome::Scheduled { node, .. } = decision.outcome else { return None };
        transaction.place(new, &node).ok()?;
        Some(node)
    }

    /// Keeps a move that was made.
    fn keep(&mut self, one: PodMove) {
        self.left = self.left.saturating_sub(1);
        self.moved.insert(one.pod.clone());
        self.plan.steps.push(RebalanceStep::Move(one));
    }
}

/// The pods on a node that do not belong to it.
fn guests(view: View<'_>, row: Row) -> Vec<PodInfo> {
    let stays = |pod: &PodInfo| matches!(Fate::of(pod), Fate::GoesWithItsNode | Fate::Ends);
    view.nodes.pods_on(row).iter().filter(|pod| !stays(pod)).cloned().collect()
}

/// Whether a node takes no new pods.
fn is_cordoned(node: &Node) -> bool {
    node.unschedulable || node.taints.iter().any(|taint| taint.key == UNSCHEDULABLE)
}

/// As the controller of node lifecycles does: a node that is cordoned also has a taint.
fn cordoned(node: &Node) -> Node {
    let mut node = node.clone();
    node.unschedulable = true;
    let key = UNSCHEDULABLE.into();
    node.taints.push(Taint { key, value: Str::default(), effect: Effect::NoSchedule });
    node
}
