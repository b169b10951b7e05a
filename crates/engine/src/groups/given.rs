//! Nodes that are given for members of a group: what a group decision would say along the way that another scheduler took.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_api::{PodKey, Str};
use plimsoll_framework::{GroupPlacement, Row};

use super::decision::PlacementDecision;
use crate::cycle::{Cycle, CycleResult};
use crate::names::PodId;
use crate::queue::Attempt;
use crate::scheduler::Scheduler;

/// Nodes that another scheduler has chosen for members of a group.
///
/// In a [decision](crate::Transaction::decide_group_with) about the group, each of them that passes the filters on its node goes
/// there after it was decided, so that the members after it are decided with it on that node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GivenNodes {
    /// The node of each of these members.
    pub nodes: BTreeMap<PodKey, Str>,
    /// The members for which the verdict on every node is wanted.
    pub in_detail: BTreeSet<PodKey>,
}

/// The same as the engine knows pods and nodes. Empty unless such a question is being answered.
#[derive(Debug, Default)]
pub(crate) struct GivenRows {
    rows: BTreeMap<PodId, Row>,
    in_detail: BTreeSet<PodId>,
}

impl GivenRows {
    /// Whether nothing is given.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Whether the verdict on every node is wanted for a member.
    pub(super) fn is_in_detail(&self, member: PodId) -> bool {
        self.in_detail.contains(&member)
    }
}

impl Scheduler {
    /// The given nodes that exist, for pods that are known.
    pub(crate) fn rows_of(&self, given: &GivenNodes) -> GivenRows {
        let rows = given.nodes.iter();
        let rows =
            rows.filter_map(|(pod, node)| Some((self.names.find(pod)?, self.cache.row(node)?)));
        let in_detail = given.in_detail.iter().filter_map(|pod| self.names.find(pod));
        GivenRows { rows: rows.collect(), in_detail: in_detail.collect() }
    }

    /// The node that is given for a member that fits, among the nodes `within`, if the member passes the filters there.
    pub(super) fn given_row(
        &self,
        attempt: &Attempt,
        within: Option<&[Row]>,
        cycle: &Cycle,
    ) -> Option<Row> {
        let row = *self.given.rows.get(&attempt.id)?;
        let CycleResult::Found { best, .. } = &cycle.result else { return None };
        let is_within = within.is_none_or(|rows| rows.contains(&row));
        let passes = || best.contains(&row) || self.passes_on(&attempt.pod, row);
        (is_within && passes()).then_some(row)
    }

    /// The record of a placement that is tried for these members.
    pub(super) fn placement_decision(
        &self,
        placement: &GroupPlacement,
        members: &[Attempt],
    ) -> PlacementDecision {
        let given: Vec<Row> =
            members.iter().filter_map(|one| self.given.rows.get(&one.id).copied()).collect();
        let holds_given = !given.is_empty() && given.iter().all(|row| placement.rows.contains(row));
        PlacementDecision { holds_given, ..PlacementDecision::new(placement.name.clone()) }
    }
}
