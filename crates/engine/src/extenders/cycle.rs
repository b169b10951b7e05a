//! The scheduling cycle of a pod with extenders.
//!
//! It makes the same steps as [`crate::cycle`], from scratch, and stops if an answer is missing.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_framework::points::PostFilterPoint;
use plimsoll_framework::{DryRun, NodeRejection, NominatedPods, PodInfo, Row, View};
use rand::Rng;

use super::call::{ExtenderQuestion, ExtenderReply};
use super::narrow::{Stop, Voices, names, off_topic};
use super::talk::{ExtenderStage, QuestionState};
use super::{Extender, ExtenderVerb};
use crate::cycle::{self, AttemptFailure, Cycle, CycleResult};
use crate::filters::{Filters, PreFilterStop};
use crate::metrics::CycleMeter;
use crate::pick::{self, Scores, TieBreaker};
use crate::profile::Profile;
use crate::sample::Sample;

/// The highest score of an extender. As in types.go, MaxExtenderPriority.
const MAX_EXTENDER_PRIORITY: i64 = 10;

/// The inputs for deciding a pod.
pub(super) struct ExtenderCycle<'a> {
    pub(super) profile: &'a Profile,
    pub(super) view: View<'a>,
    pub(super) nominated: &'a NominatedPods,
    pub(super) sample: &'a Sample,
    pub(super) voices: Voices<'a>,
}

/// The progress of a cycle.
pub(super) enum ExtenderCycleProgress {
    /// It is finished.
    Decided(Cycle),
    /// These questions have to be answered first.
    Asks {
        questions: Vec<(ExtenderStage, ExtenderQuestion)>,
        /// How many nodes were judged.
        n_judged: usize,
    },
}

impl ExtenderCycle<'_> {
    /// Runs PreFilter, Filter, PostFilter and Score for a pod, as far as answers allow.
    pub(super) fn decide(
        &self,
        pod: &PodInfo,
        chance: &mut TieBreaker<'_, impl Rng>,
        meter: CycleMeter,
    ) -> ExtenderCycleProgress {
        let mut cycle = Cycle { meter, ..Cycle::new() };
        match self.result(pod, &mut cycle, chance) {
            Ok(result) => ExtenderCycleProgress::Decided(Cycle { result, ..cycle }),
            Err(Stop::Error(error)) => {
                ExtenderCycleProgress::Decided(Cycle { result: CycleResult::Error(error), ..cycle })
            }
            Err(Stop::Ask(questions)) => {
                ExtenderCycleProgress::Asks { questions, n_judged: cycle.n_judged }
            }
        }
    }

    fn result(
        &self,
        pod: &PodInfo,
        cycle: &mut Cycle,
        chance: &mut TieBreaker<'_, impl Rng>,
    ) -> Result<CycleResult, Stop> {
        let &ExtenderCycle { profile, view, nominated, .. } = self;
        if view.nodes.is_empty() {
            return Ok(CycleResult::Unschedulable(Box::new(cycle::no_nodes())));
        }
        let filters = match cycle.prepare(profile, pod, &view) {
            Ok(filters) => filters,
            Err(PreFilterStop::Error(error)) => return Ok(CycleResult::Error(error)),
            Err(PreFilterStop::Rejected(stopped)) => {
                let (failure, filters) = *stopped;
                return self.post_filter(pod, failure, &filters, cycle);
            }
        };
        let own = match self.cleared(pod, &filters)? {
            Some(Ok(row)) => {
                (cycle.feasible, cycle.n_judged) = (vec![row], 1);
                return Ok(CycleResult::Found { row, best: vec![row] });
            }
            Some(Err(rejection)) => Some(rejection),
            None => None,
        };
        let lap = cycle.meter.start();
        filters.judge_all_nodes(pod, view.nodes, (nominated, own), self.sample, cycle);
        cycle.filtered(lap);
        if let Some(error) = cycle::error_of(&cycle.rejected) {
            return Ok(CycleResult::Error(error));
        }
        let passed = std::mem::take(&mut cycle.feasible);
        cycle.feasible =
            self.voices.filter(ExtenderStage::Filter, passed, view.nodes, &mut cycle.rejected)?;
        cycle.rejected.sort_by_key(|node| node.row);
        match cycle.feasible.as_slice() {
            [] => {
                let failure = cycle::no_node_fits(view.nodes.len(), &filters, &cycle.rejected);
                self.post_filter(pod, failure, &filters, cycle)
            }
            &[row] => Ok(CycleResult::Found { row, best: vec![row] }),
            _ => self.rank(pod, cycle, chance),
        }
    }

    /// Judges the nominated node of the pod, if there is one. If it is feasible, no other node is
    /// judged; otherwise returns why it is not. As in schedule_one.go, evaluateNominatedNode: an error
    /// here is not an error of the pod.
    fn cleared(
        &self,
        pod: &PodInfo,
        filters: &Filters,
    ) -> Result<Option<Result<Row, NodeRejection>>, Stop> {
        let nodes = self.view.nodes;
        let row = match filters.nominated_node(pod, nodes, self.nominated) {
            Some(Ok(row)) => row,
            rejected_or_none => return Ok(rejected_or_none),
        };
        let mut rejected = Vec::new();
        match self.voices.filter(ExtenderStage::Nominated, vec![row], nodes, &mut rejected) {
            Ok(left) => Ok(left.first().copied().map(Ok).or(rejected.pop().map(Err))),
            Err(Stop::Error(_)) => Ok(None),
            Err(ask @ Stop::Ask(_)) => Err(ask),
        }
    }

    /// Runs the PostFilter plugins, and asks extenders about their candidates before they choose one.
    fn post_filter(
        &self,
        pod: &PodInfo,
        failure: AttemptFailure,
        filters: &Filters,
        cycle: &mut Cycle,
    ) -> Result<CycleResult, Stop> {
        let (prepared, looked) = (filters.in_order(), filters.looked(self.profile));
        let shared = std::mem::take(&mut cycle.shared);
        let dry_run = DryRun::new(pod, &prepared, &looked, self.nominated, self.view);
        let dry_run = dry_run.sharing(&shared);
        let have_a_say = self.voices.that(ExtenderVerb::Preempt).next().is_some();
        let ask = |plugin, point: &PostFilterPoint, rejected: &[NodeRejection]| {
            if !have_a_say {
                return Ok(point.post_filter(pod, rejected, &dry_run));
            }
            let candidate_nodes = match point.candidate_nodes(pod, rejected, &dry_run) {
                Ok(candidate_nodes) => candidate_nodes,
                Err(answer) => return Ok(answer),
            };
            match self.voices.narrow(plugin, candidate_nodes, dry_run.view()) {
                Ok(left) => Ok(point.choose_candidate_node(pod, Ok(&left))),
                Err(Stop::Error(error)) => Ok(point.choose_candidate_node(pod, Err(&error))),
                Err(ask @ Stop::Ask(_)) => Err(ask),
            }
        };
        let result = cycle::post_filter_by(self.profile, failure, cycle, &dry_run, ask);
        cycle.shared = shared;
        result
    }

    /// Chooses among several nodes. As in schedule_one.go, prioritizeNodes: all extenders are asked at
    /// once, and failures are ignored.
    fn rank(
        &self,
        pod: &PodInfo,
        cycle: &mut Cycle,
        chance: &mut TieBreaker<'_, impl Rng>,
    ) -> Result<CycleResult, Stop> {
        let nodes = self.view.nodes;
        let question = ExtenderQuestion::Prioritize(names(nodes, &cycle.feasible));
        let (mut asks, mut ranks) = (Vec::new(), Vec::new());
        for (id, extender) in self.voices.that(ExtenderVerb::Prioritize) {
            match self.voices.talk.said(ExtenderStage::Prioritize(id), &question) {
                QuestionState::Nothing => {
                    asks.push((ExtenderStage::Prioritize(id), question.clone()));
                }
                QuestionState::Failed(_) => {}
                QuestionState::Answered(ExtenderReply::Prioritized(scores))
                | QuestionState::Stale(_, ExtenderReply::Prioritized(scores)) => {
                    ranks.push((extender, scores));
                }
                QuestionState::Answered(_) | QuestionState::Stale(..) => {
                    return Err(off_topic(extender));
                }
            }
        }
        if !asks.is_empty() {
            return Err(Stop::Ask(asks));
        }
        let mut scores = match cycle::scored(self.profile, pod, cycle, &self.view) {
            Ok(scores) => scores,
            Err(error) => return Ok(CycleResult::Error(error)),
        };
        let mut ranked = BTreeSet::new();
        for (extender, of_nodes) in ranks {
            let place = |(i, &row)| (nodes.name_of(row), i);
            let places: BTreeMap<_, _> = cycle.feasible.iter().enumerate().map(place).collect();
            let known =
                of_nodes.iter().filter_map(|(node, rank)| Some((*places.get(node)?, *rank)));
            let known: Vec<(usize, i64)> = known.collect();
            ranked.extend(known.iter().map(|(at, _)| cycle.feasible[*at]));
            add_ranks(&mut scores, extender, self.profile.most_points(), &known);
        }
        let mut best = pick::best(nodes, &cycle.feasible, &scores.totals);
        self.prefer_ranked(&ranked, &mut best);
        cycle.scores = Some(scores);
        Ok(CycleResult::Found { row: pick::pick(&best, chance.tie_break, chance.rng), best })
    }

    /// Among equally good nodes, those that some extender scored take precedence, whatever the score:
    /// only these get a Randomizer above 0. An extender that does not prioritize counts as having
    /// scored all. As in extender.go, Prioritize.
    fn prefer_ranked(&self, ranked: &BTreeSet<Row>, best: &mut Vec<Row>) {
        let silent = |id: &super::ExtenderId| !self.voices.all[id.0].does(ExtenderVerb::Prioritize);
        let all_are = self.voices.interest.iter().any(silent);
        if !all_are && best.iter().any(|row| ranked.contains(row)) {
            best.retain(|row| ranked.contains(row));
        }
    }
}

/// Adds the scores of an extender, by index among the feasible nodes, scaled to the range 0 to `most`
/// of other scores. Sums saturate.
fn add_ranks(scores: &mut Scores, extender: &Extender, most: i64, ranks: &[(usize, i64)]) {
    let factor = extender.weight.saturating_mul(most / MAX_EXTENDER_PRIORITY);
    let mut weighted = vec![0_i64; scores.totals.len()];
    for &(at, rank) in ranks {
        weighted[at] = weighted[at].saturating_add(rank.saturating_mul(factor));
    }
    for (total, rank) in scores.totals.iter_mut().zip(&weighted) {
        *total = total.saturating_add(*rank);
    }
    scores.plugins.push((extender.name.as_str().into(), weighted));
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn ranks_are_brought_to_the_scale_on_which_the_others_rank() {
        let extender = Extender {
            name: "e".into(),
            verbs: BTreeSet::from([ExtenderVerb::Prioritize]),
            weight: 2,
            ignorable: false,
            managed_resources: BTreeSet::new(),
            timeout: Duration::from_secs(5),
        };
        let totals = |most| {
            let mut scores = Scores::new(2);
            add_ranks(&mut scores, &extender, most, &[(0, 3)]);
            scores.totals
        };
        assert_eq!(totals(100), [60, 0]);
        assert_eq!(totals(10), [6, 0]);
    }
}
