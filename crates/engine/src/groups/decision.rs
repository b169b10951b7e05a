//! A decision about a group with its reasons: the decision record as a value.

use plimsoll_api::pod_group::GroupCondition;
use plimsoll_api::{ObjectKey, PodKey, Str};
use plimsoll_framework::GroupRef;
use rustc_hash::FxHashMap;

use crate::decision::{Decision, NodeDecision, Outcome};

/// One decision about a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupDecision {
    /// The group.
    pub group: ObjectKey,
    /// Whether it is a CompositePodGroup: a group of groups.
    pub is_composite: bool,
    /// The number of its cycle, starting with 1.
    pub attempt: u32,
    /// The result.
    pub result: GroupResult,
    /// Why it waits, if it never had a cycle.
    pub message: Option<String>,
    /// The placement that was chosen, if it has a name.
    pub placement: Option<Str>,
    /// The placements that were tried and have names: by level, then by name.
    pub placements: Vec<PlacementDecision>,
    /// The members that left the queue, in the order in which they were tried.
    pub pods: Vec<MemberDecision>,
    /// The pods that were evicted for the group or one of its members, by name.
    pub victims: Vec<PodKey>,
    /// How many of these evictions violate a PodDisruptionBudget; `None` if that was not counted, as by the rules of 1.36.
    pub broken_budgets: Option<i64>,
    /// The condition of the group after the cycle. A composite group has none.
    pub condition: Option<GroupCondition>,
    /// The groups of a composite group on all levels, each before its own.
    pub groups: Vec<SubgroupDecision>,
}

/// What was decided about a group that is part of a composite one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubgroupDecision {
    /// The group.
    pub group: ObjectKey,
    /// Whether it is a CompositePodGroup.
    pub is_composite: bool,
    /// The result.
    pub result: GroupResult,
    /// Why it does not fit; empty if it does.
    pub message: String,
    /// The placement that was chosen, if it has a name.
    pub placement: Option<Str>,
    /// The placements that were tried and have names: by level, then by name.
    pub placements: Vec<PlacementDecision>,
    /// The condition of a PodGroup after the cycle.
    pub condition: Option<GroupCondition>,
}

/// The result of a decision about a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupResult {
    /// At least one member goes to a node now.
    Scheduled,
    /// None does, and the group waits for its victims to go.
    Preempting,
    /// None does.
    Unschedulable,
    /// It could not be judged.
    Error,
    /// It never had a cycle, since no member may enter the queue.
    Waiting,
}

/// A placement of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacementDecision {
    /// Its name.
    pub name: Str,
    /// The weighted sum of its scores; `None` if none were needed.
    pub score: Option<i64>,
    /// Normalised score times weight, by plugin in the order of the profile; empty unless requested.
    pub scores: Vec<(&'static str, i64)>,
    /// What plugins say about it, if the group fits on it; empty unless requested.
    pub notes: Vec<(&'static str, String)>,
    /// Whether all [given nodes](crate::GivenNodes) of the members are in it; `false` if none are given.
    pub holds_given: bool,
}

/// The decision about one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberDecision {
    /// The pod.
    pub pod: PodKey,
    /// What was decided.
    pub result: MemberResult,
    /// Every node that was judged for it in the placement that was chosen, or in the first one, by name; empty unless
    /// requested.
    pub nodes: Vec<NodeDecision>,
}

/// What was decided about a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberResult {
    /// It goes to a node.
    Scheduled {
        /// The node.
        node: Str,
        /// All nodes with the highest total when it was tried, by name.
        best: Vec<Str>,
    },
    /// It does not.
    Unschedulable {
        /// The complete message for events and conditions.
        message: String,
        /// The node to which it is nominated.
        nominated: Option<Str>,
    },
    /// It could not be judged.
    Error {
        /// Why.
        message: String,
    },
    /// It is being deleted.
    Skipped,
}

impl GroupDecision {
    pub(super) fn new(group: &GroupRef, attempt: u32, result: GroupResult) -> Self {
        GroupDecision {
            group: group.key().clone(),
            is_composite: matches!(group, GroupRef::Composite(_)),
            attempt,
            result,
            message: None,
            placement: None,
            placements: Vec::new(),
            pods: Vec::new(),
            victims: Vec::new(),
            broken_budgets: None,
            condition: None,
            groups: Vec::new(),
        }
    }

    /// The group.
    pub(super) fn as_ref(&self) -> GroupRef {
        match self.is_composite {
            true => GroupRef::Composite(self.group.clone()),
            false => GroupRef::Pods(self.group.clone()),
        }
    }

    /// Replaces what is said about these members.
    pub(super) fn tell(&mut self, members: Vec<MemberDecision>) {
        if self.pods.iter().map(|known| &known.pod).eq(members.iter().map(|member| &member.pod)) {
            self.pods = members;
            return;
        }
        let mut told: FxHashMap<PodKey, MemberDecision> =
            members.into_iter().map(|member| (member.pod.clone(), member)).collect();
        for known in &mut self.pods {
            if let Some(member) = told.remove(&known.pod) {
                *known = member;
            }
        }
    }
}

impl GroupResult {
    /// As records name it.
    pub fn as_str(self) -> &'static str {
        match self {
            GroupResult::Scheduled => "scheduled",
            GroupResult::Preempting => "preempting",
            GroupResult::Unschedulable => "unschedulable",
            GroupResult::Error => "error",
            GroupResult::Waiting => "waiting",
        }
    }
}

impl PlacementDecision {
    pub(super) fn new(name: Str) -> Self {
        PlacementDecision {
            name,
            score: None,
            scores: Vec::new(),
            notes: Vec::new(),
            holds_given: false,
        }
    }
}

impl MemberDecision {
    pub(super) fn error(pod: PodKey, message: String) -> Self {
        MemberDecision { pod, result: MemberResult::Error { message }, nodes: Vec::new() }
    }

    /// The same as the decision about a pod by itself; `None` if it was skipped.
    pub fn as_decision(&self) -> Option<Decision> {
        let outcome = match &self.result {
            MemberResult::Scheduled { node, best } => {
                Outcome::Scheduled { node: node.clone(), best: best.clone() }
            }
            MemberResult::Unschedulable { message, .. } => Outcome::Unschedulable {
                message: message.clone(),
                pre_filter: None,
                nomination: None,
            },
            MemberResult::Error { message } => Outcome::Error { message: message.clone() },
            MemberResult::Skipped => return None,
        };
        Some(Decision::of_pod(self.pod.clone(), 1, outcome))
    }

    pub(super) fn skipped(pod: PodKey) -> Self {
        MemberDecision { pod, result: MemberResult::Skipped, nodes: Vec::new() }
    }
}
