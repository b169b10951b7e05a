//! The scores of the feasible nodes.

use plimsoll_framework::{PodInfo, Point, View};

use super::Cycle;
use crate::metrics::{Lap, MeteredPoint, Status};
use crate::pick::Scores;
use crate::profile::Profile;
use crate::unit::Member;

/// The scores of the feasible nodes of `cycle` for a member.
pub(super) fn scored(
    member: Member<'_>,
    view: View<'_>,
    cycle: &mut Cycle,
) -> Result<Scores, String> {
    if !member.profile.scores() {
        return Ok(Scores::all_equal(cycle.feasible.len()));
    }
    let lap = cycle.meter.start();
    let scores = score(member, view, cycle);
    let status = if scores.is_ok() { Status::Success } else { Status::Error };
    cycle.meter.all_scored(status, lap);
    scores
}

fn score(member: Member<'_>, view: View<'_>, cycle: &mut Cycle) -> Result<Scores, String> {
    let Member { profile, pod } = member;
    if let Some(error) = score_error(profile, pod) {
        return Err(error);
    }
    let mut scores = Scores::new(cycle.feasible.len());
    if let Some(ranking) = profile.ranking() {
        for one in ranking.prioritize(pod, view, &cycle.feasible) {
            scores.add_prioritized(one, ranking.most())?;
        }
        return Ok(scores);
    }
    for (plugin, weight) in profile.at(Point::Score) {
        let Some(point) = &plugin.points.score else { continue };
        let Cycle { meter, shared, feasible, .. } = cycle;
        let (began, mut prepared) = (meter.start(), Lap::default());
        let is_prepared = &mut || prepared = meter.start();
        if let Some(scored) = point.score_in_steps(pod, shared, &view, feasible, is_prepared) {
            let n_nodes = cycle.feasible.len();
            cycle.meter.scored(plugin.name, (began, prepared), n_nodes);
            cycle.meter.evaluated(plugin.name, MeteredPoint::Score, n_nodes);
            if profile.at(Point::PreScore).any(|(other, _)| other.name == plugin.name) {
                cycle.meter.evaluated(plugin.name, MeteredPoint::PreScore, 1);
            }
            scores.add(plugin.name, weight, &scored)?;
        }
    }
    Ok(scores)
}

/// The error that prevents scoring of a pod on any node. As in runtime/framework.go, RunPreScorePlugins
/// and RunScorePlugins: the first error counts.
pub(crate) fn score_error(profile: &Profile, pod: &PodInfo) -> Option<String> {
    let at = |point| {
        profile.at(point).find_map(|(plugin, _)| {
            let error = plugin.points.score.as_ref()?.error(pod)?;
            Some((plugin.name, error))
        })
    };
    match at(Point::PreScore) {
        Some((name, error)) => Some(format!("running PreScore plugin {name:?}: {error}")),
        None => at(Point::Score).map(|(name, error)| {
            format!("running Score plugins: plugin {name:?} failed with: {error}")
        }),
    }
}
