//! The steps of a [cycle](crate::cycle) in which extenders take part. Here they filter nodes and preemption
//! candidates.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plimsoll_api::Str;
use plimsoll_framework::{
    CandidateNode, Code, Columns, NodeRejection, PodInfo, Rejection, Row, View,
};
use smallvec::SmallVec;

use super::call::{
    ExtenderCandidate, ExtenderId, ExtenderQuestion, ExtenderReply, Filtered, KeptCandidate, Victim,
};
use super::consultation::{Consultation, ExtenderStage, QuestionState};
use super::rank::Ranks;
use super::{Extender, ExtenderVerb, Interest, REJECTOR};
use crate::cycle::{self, ExtenderSteps, FilterScope};
use crate::pick::Scores;

/// Why a cycle cannot go on.
pub(super) type Stop = cycle::Stop<Questions>;

/// Questions, each with the place in the cycle where it is asked.
pub(super) type Questions = Vec<(ExtenderStage, ExtenderQuestion)>;

/// The extenders of a pod, and their answers.
#[derive(Clone, Copy)]
pub(super) struct PodExtenders<'a> {
    pub(super) all: &'a [Extender],
    pub(super) interest: &'a Interest,
    pub(super) consultation: &'a Consultation,
}

impl<'a> PodExtenders<'a> {
    /// The extenders that are responsible for the pod and do this.
    pub(super) fn that(
        self,
        verb: ExtenderVerb,
    ) -> impl Iterator<Item = (ExtenderId, &'a Extender)> + use<'a> {
        let interested = self.interest.iter().map(move |id| (*id, &self.all[id.0]));
        interested.filter(move |(_, one)| one.does(verb))
    }

    /// Runs the filters of extenders on the nodes that passed, one after the other. Returns those that are
    /// left, and the rejections of the others, both by row. As in schedule_one.go,
    /// findNodesThatPassExtenders.
    pub(super) fn passing(
        self,
        stage: fn(ExtenderId) -> ExtenderStage,
        passed: &[Row],
        nodes: &Columns,
    ) -> Result<(Vec<Row>, Vec<NodeRejection>), Stop> {
        let mut why = BTreeMap::new();
        let mut feasible = passed.to_vec();
        for (id, extender) in self.that(ExtenderVerb::Filter) {
            if feasible.is_empty() {
                break;
            }
            let (stage, question) = (stage(id), ExtenderQuestion::Filter(names(nodes, &feasible)));
            let (reply, asked) = match self.consultation.said(stage, &question) {
                QuestionState::Nothing => return Err(Stop::Ask(vec![(stage, question)])),
                QuestionState::Failed(_) if extender.ignorable => continue,
                QuestionState::Failed(error) => return Err(Stop::Error(error.0.clone())),
                QuestionState::Answered(reply) => (reply, None),
                QuestionState::Stale(question, reply) => (reply, Some(question)),
            };
            let ExtenderReply::Filtered(filtered) = reply else { return Err(off_topic(extender)) };
            let left = pass(filtered, feasible.clone(), nodes, &mut why);
            // A node about which no extender was asked may still be feasible.
            if left.is_empty() && asked.is_some_and(|asked| !covers(asked, &feasible, nodes)) {
                return Err(Stop::Error(format!(
                    "feasible nodes changed faster than extender {:?} answered",
                    extender.name
                )));
            }
            feasible = left;
        }
        let gone = passed.iter().filter(|row| feasible.binary_search(row).is_err());
        let rejected = gone.map(|&row| NodeRejection {
            row,
            plugin: REJECTOR,
            rejection: why.remove(&row).unwrap_or_else(without_reason),
        });
        let rejected = rejected.collect();
        Ok((feasible, rejected))
    }

    /// Asks extenders about the candidate nodes and their victims. As in preemption.go, callExtenders.
    pub(super) fn keep_candidates(
        self,
        plugin: &'static str,
        candidates: &[CandidateNode],
        view: &View<'_>,
    ) -> Result<Vec<CandidateNode>, Stop> {
        let mut left = candidates.to_vec();
        for (id, extender) in self.that(ExtenderVerb::Preempt) {
            let stage = ExtenderStage::Preempt(plugin, id);
            let question = ExtenderQuestion::Preempt(left.iter().map(way).collect());
            let (reply, only) = match self.consultation.said(stage, &question) {
                QuestionState::Nothing => return Err(Stop::Ask(vec![(stage, question)])),
                QuestionState::Failed(_) if extender.ignorable => continue,
                QuestionState::Failed(error) => return Err(Stop::Error(error.0.clone())),
                QuestionState::Answered(reply) => (reply, None),
                QuestionState::Stale(asked, reply) => (reply, Some(as_before(asked, &question))),
            };
            let ExtenderReply::Preempting(kept) = reply else { return Err(off_topic(extender)) };
            match kept_of(extender, kept, only.as_ref(), view) {
                Ok(kept) => left = kept,
                Err(_) if extender.ignorable => {}
                Err(error) => return Err(Stop::Error(error)),
            }
            if left.is_empty() {
                break;
            }
        }
        Ok(left)
    }
}

impl<'a> ExtenderSteps for PodExtenders<'a> {
    type Questions = Questions;
    type Ranks = Ranks<'a>;

    fn filter(
        &self,
        scope: FilterScope,
        nodes: &Columns,
        feasible: &mut Vec<Row>,
        rejected: &mut Vec<NodeRejection>,
    ) -> Result<(), Stop> {
        let stage = match scope {
            FilterScope::NominatedNode => ExtenderStage::Nominated,
            FilterScope::AllNodes => ExtenderStage::Filter,
        };
        let (left, more) = self.passing(stage, feasible, nodes)?;
        *feasible = left;
        rejected.extend(more);
        rejected.sort_by_key(|node| node.row);
        Ok(())
    }

    fn narrow_candidates(&self) -> bool {
        self.that(ExtenderVerb::Preempt).next().is_some()
    }

    fn narrow(
        &self,
        plugin: &'static str,
        candidates: &[CandidateNode],
        view: &View<'_>,
    ) -> Result<Vec<CandidateNode>, Stop> {
        self.keep_candidates(plugin, candidates, view)
    }

    fn rank(&self, nodes: &Columns, feasible: &[Row]) -> Result<Ranks<'a>, Stop> {
        self.ranks(nodes, feasible)
    }

    fn best(
        &self,
        ranks: Ranks<'a>,
        most_points: i64,
        nodes: &Columns,
        feasible: &[Row],
        scores: &mut Scores,
    ) -> Vec<Row> {
        self.best_of(ranks, most_points, nodes, feasible, scores)
    }
}

/// The error if an extender's answer does not match the question.
pub(super) fn off_topic(extender: &Extender) -> Stop {
    Stop::Error(format!("extender {:?} answered what it was not asked", extender.name))
}

/// Whether a question includes all of `rows`.
fn covers(question: &ExtenderQuestion, rows: &[Row], nodes: &Columns) -> bool {
    let ExtenderQuestion::Filter(asked) = question else { return false };
    let asked: BTreeSet<&Str> = asked.iter().collect();
    rows.iter().all(|&row| asked.contains(nodes.name_of(row)))
}

/// The rows that passed, ascending, and the rejections of the others.
fn pass(
    filtered: &Filtered,
    mut rows: Vec<Row>,
    nodes: &Columns,
    why: &mut BTreeMap<Row, Rejection>,
) -> Vec<Row> {
    let passed: BTreeSet<&Str> = filtered.passed.iter().collect();
    let rejected: BTreeMap<&Str, &Rejection> =
        filtered.rejected.iter().map(|(node, why)| (node, why)).collect();
    rows.retain(|&row| {
        let name = nodes.name_of(row);
        if let Some(&rejection) = rejected.get(name) {
            why.insert(row, rejection.clone());
        }
        passed.contains(name)
    });
    rows
}

/// As in framework/types.go, NewDefaultNodeToStatus: a node that is not mentioned is rejected, and
/// preemption does not help there.
fn without_reason() -> Rejection {
    Rejection { code: Code::UnschedulableAndUnresolvable, reasons: SmallVec::new() }
}

/// The names of the nodes in `rows`.
pub(super) fn names(nodes: &Columns, rows: &[Row]) -> Arc<[Str]> {
    rows.iter().map(|&row| nodes.name_of(row).clone()).collect()
}

fn way(one: &CandidateNode) -> ExtenderCandidate {
    let victim = |pod: &PodInfo| Victim { key: pod.key.clone(), uid: pod.uid.clone() };
    ExtenderCandidate {
        node: one.node.clone(),
        victims: one.victims.iter().map(victim).collect(),
        broken_budgets: one.broken_budgets,
    }
}

/// The nodes for which `asked` is the same question as `now`.
fn as_before<'q>(asked: &'q ExtenderQuestion, now: &ExtenderQuestion) -> BTreeSet<&'q Str> {
    match (asked, now) {
        (ExtenderQuestion::Preempt(asked), ExtenderQuestion::Preempt(now)) => {
            asked.iter().filter(|way| now.contains(way)).map(|way| &way.node).collect()
        }
        _ => BTreeSet::new(),
    }
}

/// The candidates that an extender keeps, with the pods themselves. As in extender.go,
/// convertToVictims: unknown nodes and pods are errors. In an answer to an older question they are left
/// out, and so are all nodes that are not among `only`.
fn kept_of(
    extender: &Extender,
    kept: &[KeptCandidate],
    only: Option<&BTreeSet<&Str>>,
    view: &View<'_>,
) -> Result<Vec<CandidateNode>, String> {
    let rows: BTreeMap<&Str, Row> =
        view.nodes.rows().map(|row| (view.nodes.name_of(row), row)).collect();
    let mut candidate_nodes = Vec::new();
    'nodes: for KeptCandidate { node, victims: uids, broken_budgets } in kept {
        let is_wanted = only.is_none_or(|only| only.contains(node));
        let row = match rows.get(node) {
            Some(row) if is_wanted => *row,
            None if only.is_none() => {
                return Err(format!("nodeinfo not found for node name {node:?}"));
            }
            Some(_) | None => continue,
        };
        let mut victims = Vec::new();
        for uid in uids {
            match view.nodes.pods_on(row).iter().find(|pod| pod.uid == *uid) {
                Some(pod) => victims.push(pod.clone()),
                None if only.is_some() => continue 'nodes,
                None => {
                    return Err(format!(
                        "extender: {} claims to preempt pod (UID: &{{{uid}}}) on node: {node}, but the \
                         pod is not found on that node",
                        extender.name
                    ));
                }
            }
        }
        let (node, broken_budgets) = (node.clone(), *broken_budgets);
        if !victims.is_empty() {
            candidate_nodes.push(CandidateNode { node, victims, broken_budgets });
        } else if !extender.ignorable && only.is_none() {
            return Err(format!("expected at least one victim pod on node {node:?}"));
        }
    }
    Ok(candidate_nodes)
}
