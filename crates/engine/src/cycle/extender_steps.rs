//! The steps of a cycle in which extenders take part.

use std::convert::Infallible;

use plimsoll_framework::{CandidateNode, Columns, NodeRejection, Row, View};

use crate::pick::{self, Scores};

/// Why a cycle cannot go on.
pub(crate) enum Stop<Q> {
    /// These questions have to be answered first.
    Ask(Q),
    /// An extender that is not ignorable failed.
    Error(String),
}

/// Which nodes are filtered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FilterScope {
    /// The nominated node of the pod, before all others.
    NominatedNode,
    /// All nodes.
    AllNodes,
}

/// The extenders of a member, with the answers that they have given so far. If an answer is missing, a
/// step stops with the questions and changes nothing, so that it can be made again with the answers.
pub(crate) trait ExtenderSteps {
    /// The questions that stop a cycle.
    type Questions;
    /// The answers about the scores of nodes.
    type Ranks;

    /// Leaves in `feasible`, which is ascending, the nodes that no extender rejects. The others are added
    /// to `rejected`, which stays sorted by row.
    fn filter(
        &self,
        scope: FilterScope,
        nodes: &Columns,
        feasible: &mut Vec<Row>,
        rejected: &mut Vec<NodeRejection>,
    ) -> Result<(), Stop<Self::Questions>>;

    /// Whether extenders take part in preemption.
    fn narrow_candidates(&self) -> bool;

    /// The candidate nodes of a PostFilter plugin that extenders leave.
    fn narrow(
        &self,
        plugin: &'static str,
        candidates: &[CandidateNode],
        view: &View<'_>,
    ) -> Result<Vec<CandidateNode>, Stop<Self::Questions>>;

    /// What extenders say about the scores of the `feasible` nodes, of which there are several.
    fn rank(&self, nodes: &Columns, feasible: &[Row])
    -> Result<Self::Ranks, Stop<Self::Questions>>;

    /// Adds the scores of extenders to those of the plugins, and returns the best of the `feasible` nodes,
    /// sorted by name. `most_points` is the highest score of a plugin before its weight.
    fn best(
        &self,
        ranks: Self::Ranks,
        most_points: i64,
        nodes: &Columns,
        feasible: &[Row],
        scores: &mut Scores,
    ) -> Vec<Row>;
}

/// Without extenders a cycle never stops.
pub(crate) struct NoExtenders;

impl ExtenderSteps for NoExtenders {
    type Questions = Infallible;
    type Ranks = ();

    fn filter(
        &self,
        _: FilterScope,
        _: &Columns,
        _: &mut Vec<Row>,
        _: &mut Vec<NodeRejection>,
    ) -> Result<(), Stop<Infallible>> {
        Ok(())
    }

    fn narrow_candidates(&self) -> bool {
        false
    }

    fn narrow(
        &self,
        _: &'static str,
        candidates: &[CandidateNode],
        _: &View<'_>,
    ) -> Result<Vec<CandidateNode>, Stop<Infallible>> {
        Ok(candidates.to_vec())
    }

    fn rank(&self, _: &Columns, _: &[Row]) -> Result<(), Stop<Infallible>> {
        Ok(())
    }

    fn best(
        &self,
        (): (),
        _: i64,
        nodes: &Columns,
        feasible: &[Row],
        scores: &mut Scores,
    ) -> Vec<Row> {
        pick::best(nodes, feasible, &scores.totals)
    }
}
