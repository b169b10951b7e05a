//! Measures plugins in decisions from memory, which hardly call any.
//!
//! After one of ten such decisions, every plugin that does not skip the pod counts as called once by
//! each of the ten. One plugin, in turn, is run again for one node, and that is measured: a plugin that
//! judges node by node at all its points, a plugin that judges by counts with the remembered counts
//! ([`Memo::measure_counted`](crate::memo::Memo::measure_counted)), but not at PreFilter and PreScore,
//! for which it would have to read the whole cluster.

use plimsoll_framework::{ByRow, CycleState, PodInfo, Point, Row, Verdict, View};

use super::counts::{Evaluations, SAMPLED};
use super::meter::{CycleMeter, MeteredPoint, Status};
use super::phases::Went;
use crate::profile::{PluginIndex, Profile, ProfilePlugin};

/// One sampled decision.
pub(crate) struct Sampled<'a> {
    pub(crate) profile: &'a Profile,
    pub(crate) pod: &'a PodInfo,
    pub(crate) view: View<'a>,
    /// The chosen node, or any node if there is none.
    pub(crate) row: Row,
    /// Its phases.
    pub(crate) went: &'a Went,
}

impl<'a> Sampled<'a> {
    /// Counts the plugins that do not skip the pod, each as often as this sample represents decisions.
    pub(crate) fn count(&self, evaluations: &mut Evaluations) {
        for (phase, point) in [
            (MeteredPoint::PreFilter, Point::PreFilter),
            (MeteredPoint::Filter, Point::Filter),
            (MeteredPoint::PreScore, Point::PreScore),
            (MeteredPoint::Score, Point::Score),
        ] {
            if !self.went_through(phase) {
                continue;
            }
            for (index, _) in self.profile.indices(point) {
                if self.has_a_say(self.profile.get(index), phase) {
                    evaluations.add(index, phase, SAMPLED as u64);
                }
            }
        }
    }

    /// The plugin whose turn it is, among those that do not skip the pod.
    pub(crate) fn plugin(&self, turn: u64) -> Option<&'a ProfilePlugin> {
        let at = |point, phase| self.profile.indices(point).map(move |(index, _)| (index, phase));
        let all = || {
            let filters = at(Point::Filter, MeteredPoint::Filter);
            filters.chain(at(Point::Score, MeteredPoint::Score))
        };
        let has_a_say = |&(index, phase): &(PluginIndex, MeteredPoint)| {
            self.went_through(phase) && self.has_a_say(self.profile.get(index), phase)
        };
        let n_having = all().filter(has_a_say).count() as u64;
        let at = usize::try_from(turn.checked_rem(n_having)?).ok()?;
        let (index, _) = all().filter(has_a_say).nth(at)?;
        Some(self.profile.get(index))
    }

    /// Runs a plugin, as far as it judges node by node, and records the duration.
    pub(crate) fn measure(&self, plugin: &ProfilePlugin, meter: &mut CycleMeter) {
        if plugin.points.filter_is_local && self.went_through(MeteredPoint::Filter) {
            self.filter(plugin, meter);
        }
        if self.went_through(MeteredPoint::Score) {
            self.score(plugin, meter);
        }
    }

    /// Whether it had a phase.
    fn went_through(&self, phase: MeteredPoint) -> bool {
        self.went.iter().any(|&(one, _)| one == phase)
    }

    fn has_a_say(&self, plugin: &ProfilePlugin, phase: MeteredPoint) -> bool {
        let points = &plugin.points;
        match phase {
            MeteredPoint::PreFilter | MeteredPoint::Filter => {
                points.filter.as_ref().is_some_and(|filter| filter.applies(self.pod))
            }
            _ => {
                let score = points.score.as_ref();
                score.is_some_and(|score| score.applies_in(self.pod, &self.view))
            }
        }
    }

    fn stands_at(&self, plugin: &ProfilePlugin, point: Point) -> bool {
        self.profile.at(point).any(|(other, _)| other.name == plugin.name)
    }

    /// Runs a plugin at PreFilter and Filter.
    fn filter(&self, plugin: &ProfilePlugin, meter: &mut CycleMeter) {
        let Some(filter) = plugin.points.filter.as_ref().filter(|one| one.applies(self.pod)) else {
            return;
        };
        let lap = meter.start_plugin();
        let prepared = filter.prepare(self.pod, &mut CycleState::new(), &self.view);
        if prepared.skips() {
            return;
        }
        let why = prepared.rejection();
        if self.stands_at(plugin, Point::PreFilter) {
            let status = why.map_or(Status::Success, |why| why.code.into());
            meter.plugin(plugin.name, MeteredPoint::PreFilter, status, lap, 1);
        }
        if why.is_none() && self.stands_at(plugin, Point::Filter) {
            let lap = meter.start_plugin();
            let status = match prepared.judge_one(self.pod, self.view.nodes, self.row) {
                Verdict::Pass => Status::Success,
                Verdict::Fail(why) => why.code.into(),
            };
            meter.plugin(plugin.name, MeteredPoint::Filter, status, lap, 1);
        }
    }

    /// Runs a plugin at PreScore and Score.
    fn score(&self, plugin: &ProfilePlugin, meter: &mut CycleMeter) {
        let score = plugin.points.score.as_ref();
        let score = score.filter(|score| score.is_by_row() && score.applies(self.pod));
        let Some(score) = score.filter(|_| self.stands_at(plugin, Point::Score)) else { return };
        let lap = meter.start_plugin();
        let ByRow::Scores(by_row, _) = score.by_row(self.pod, &self.view) else { return };
        if self.stands_at(plugin, Point::PreScore) {
            meter.plugin(plugin.name, MeteredPoint::PreScore, Status::Success, lap, 1);
        }
        let lap = meter.start_plugin();
        by_row.raw(self.pod, self.view.nodes, self.row);
        meter.plugin(plugin.name, MeteredPoint::Score, Status::Success, lap, 1);
    }
}
