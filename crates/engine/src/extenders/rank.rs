//! The scores of extenders.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_api::Str;
use plimsoll_framework::{Columns, Row};

use super::call::{ExtenderQuestion, ExtenderReply};
use super::consultation::{ExtenderStage, QuestionState};
use super::narrow::{PodExtenders, Stop, names, off_topic};
use super::{Extender, ExtenderId, ExtenderVerb};
use crate::pick::{self, Scores};

/// The highest score of an extender. As in types.go, MaxExtenderPriority.
const MAX_EXTENDER_PRIORITY: i64 = 10;

/// The scores that extenders gave, by the names of nodes.
pub(super) type Ranks<'a> = Vec<(&'a Extender, &'a [(Str, i64)])>;

impl<'a> PodExtenders<'a> {
    /// Asks for the scores of several nodes. As in schedule_one.go, prioritizeNodes: all extenders are
    /// asked at once, and failures are ignored.
    pub(super) fn ranks(self, nodes: &Columns, feasible: &[Row]) -> Result<Ranks<'a>, Stop> {
        let (mut asks, mut ranks) = (Vec::new(), Vec::new());
        let mut question = None;
        for (id, extender) in self.that(ExtenderVerb::Prioritize) {
            let question = question
                .get_or_insert_with(|| ExtenderQuestion::Prioritize(names(nodes, feasible)));
            match self.consultation.said(ExtenderStage::Prioritize(id), question) {
                QuestionState::Nothing => {
                    asks.push((ExtenderStage::Prioritize(id), question.clone()));
                }
                QuestionState::Failed(_) => {}
                QuestionState::Answered(ExtenderReply::Prioritized(scores))
                | QuestionState::Stale(_, ExtenderReply::Prioritized(scores)) => {
                    ranks.push((extender, scores.as_slice()));
                }
                QuestionState::Answered(_) | QuestionState::Stale(..) => {
                    return Err(off_topic(extender));
                }
            }
        }
        if asks.is_empty() { Ok(ranks) } else { Err(Stop::Ask(asks)) }
    }

    /// Adds the scores of extenders to `scores`, and returns the best nodes, sorted by name.
    pub(super) fn best_of(
        self,
        ranks: Ranks<'_>,
        most_points: i64,
        nodes: &Columns,
        feasible: &[Row],
        scores: &mut Scores,
    ) -> Vec<Row> {
        let mut ranked = BTreeSet::new();
        for (extender, of_nodes) in ranks {
            let place = |(i, &row)| (nodes.name_of(row), i);
            let places: BTreeMap<_, _> = feasible.iter().enumerate().map(place).collect();
            let known =
                of_nodes.iter().filter_map(|(node, rank)| Some((*places.get(node)?, *rank)));
            let known: Vec<(usize, i64)> = known.collect();
            ranked.extend(known.iter().map(|(at, _)| feasible[*at]));
            add_ranks(scores, extender, most_points, &known);
        }
        let mut best = pick::best(nodes, feasible, &scores.totals);
        self.prefer_ranked(&ranked, &mut best);
        best
    }

    /// Among equally good nodes, those that some extender scored take precedence, whatever the score:
    /// only these get a Randomizer above 0. An extender that does not prioritize counts as having
    /// scored all. As in extender.go, Prioritize.
    fn prefer_ranked(self, ranked: &BTreeSet<Row>, best: &mut Vec<Row>) {
        let silent = |id: &ExtenderId| !self.all[id.0].does(ExtenderVerb::Prioritize);
        let all_are = self.interest.iter().any(silent);
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
