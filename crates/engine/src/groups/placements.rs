//! The placements of a group: which there are, and which is the best.

use plimsoll_framework::{
    GroupInCycle, GroupPlacement, MAX_NODE_SCORE, PodInfo, Point, ProposedPlacement, Row,
};

use super::decision::PlacementDecision;
use crate::scheduler::{Detail, Scheduler};

/// The scores of a placement, times weight, by plugin.
type PlacementScores = Vec<(&'static str, i64)>;

/// A placement on which the group fits, with the members that got a node there.
pub(super) struct FeasiblePlacement<'a> {
    /// Its index among all placements.
    pub(super) at: usize,
    pub(super) placement: &'a GroupPlacement,
    pub(super) members: &'a [(PodInfo, Row)],
}

impl FeasiblePlacement<'_> {
    fn proposed(&self) -> ProposedPlacement<'_> {
        ProposedPlacement { placement: self.placement, members: self.members }
    }
}

/// Whether a placement need not be tried: the group fits on one of a lower level. `tried` are the placements before it, and
/// `fits` says whether the group fits on one of them.
pub(super) fn is_needless(
    placement: &GroupPlacement,
    tried: Option<&GroupPlacement>,
    fits: bool,
) -> bool {
    fits && tried.is_some_and(|last| last.level < placement.level)
}

impl Scheduler {
    /// The placements that the plugin of the profile generates among the nodes `all`, by level and then by name; `None` for
    /// that of all of them. `first` is a pod of the group.
    pub(super) fn placements_of(
        &self,
        first: &PodInfo,
        group: &GroupInCycle<'_>,
        all: &[Row],
    ) -> Result<Option<Vec<GroupPlacement>>, String> {
        let view = self.cache.view();
        let mut points = self.profile_of(first).at(Point::PlacementGenerate);
        let point = points.find_map(|(plugin, _)| plugin.points.placement_generate.as_ref());
        let Some(point) = point else { return Ok(None) };
        let placements = point.placements(group, all, &view);
        let mut placements = placements.map_err(|error| error.to_string())?;
        if let Some(placements) = &mut placements {
            placements.sort_by(|a, b| (a.level, &a.name).cmp(&(b.level, &b.name)));
        }
        Ok(placements)
    }

    /// The index of the best placement: that with the highest score, and of several the one with the nodes that are given, or
    /// else the first by name. Scores are noted in `decisions`. A single one is not scored.
    pub(super) fn best_placement(
        &self,
        first: &PodInfo,
        group: &GroupInCycle<'_>,
        feasible: &[FeasiblePlacement<'_>],
        decisions: &mut [PlacementDecision],
    ) -> Result<Option<usize>, String> {
        if self.options.detail == Detail::Nodes {
            for one in feasible {
                decisions[one.at].notes = self.describe_placement(first, group, one);
            }
        }
        if let [] | [_] = feasible {
            return Ok(feasible.first().map(|only| only.at));
        }
        let mut best = (feasible[0].at, i64::MIN);
        for (one, scores) in feasible.iter().zip(self.score_placements(first, group, feasible)?) {
            let score = scores.iter().map(|(_, score)| score).sum();
            decisions[one.at].score = Some(score);
            if self.options.detail == Detail::Nodes || !self.given.is_empty() {
                decisions[one.at].scores = scores;
            }
            let has_given = |at: usize| decisions[at].holds_given;
            let is_given = best.1 == score && has_given(one.at) && !has_given(best.0);
            if best.1 < score || is_given {
                best = (one.at, score);
            }
        }
        Ok(Some(best.0))
    }

    /// What plugins say about a placement.
    fn describe_placement(
        &self,
        first: &PodInfo,
        group: &GroupInCycle<'_>,
        one: &FeasiblePlacement<'_>,
    ) -> Vec<(&'static str, String)> {
        let view = self.cache.view();
        let points = self.profile_of(first).at(Point::PlacementScore);
        let proposed = one.proposed();
        let notes = points.filter_map(|(plugin, _)| {
            let point = plugin.points.placement_score.as_ref()?;
            Some((plugin.name, point.describe(group, &proposed, &view)?))
        });
        notes.collect()
    }

    /// The scores of placements, times weight, by plugin.
    fn score_placements(
        &self,
        first: &PodInfo,
        group: &GroupInCycle<'_>,
        proposed: &[FeasiblePlacement<'_>],
    ) -> Result<Vec<PlacementScores>, String> {
        let view = self.cache.view();
        let profile = self.profile_of(first);
        let mut all = vec![PlacementScores::new(); proposed.len()];
        for (plugin, weight) in profile.at(Point::PlacementScore) {
            let Some(point) = &plugin.points.placement_score else { continue };
            let failed =
                |error| format!("running PlacementScore plugin {:?}: {error}", plugin.name);
            let score = |one: &FeasiblePlacement<'_>| point.score(group, &one.proposed(), &view);
            let scores: Result<Vec<i64>, _> = proposed.iter().map(score).collect();
            let mut scores = scores.map_err(failed)?;
            point.normalize(&mut scores).map_err(failed)?;
            let is_outside = |score: &&i64| !(0..=MAX_NODE_SCORE).contains(*score);
            if let Some(score) = scores.iter().find(is_outside) {
                let text = format!(
                    "invalid score {score}, it should be in the range of [0, {MAX_NODE_SCORE}]"
                );
                return Err(failed(text.into()));
            }
            for (of_placement, score) in all.iter_mut().zip(scores) {
                of_placement.push((plugin.name, score * weight));
            }
        }
        Ok(all)
    }
}
