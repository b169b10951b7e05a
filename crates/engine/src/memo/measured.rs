//! What the plugins take that judge by counts: they can only be asked with what is remembered.

use plimsoll_framework::{Row, Verdict, View};
use smallvec::SmallVec;

use super::Memo;
use super::choose::Chooser;
use crate::metrics::{Meter, MeteredPoint, Status, Went};

impl Memo {
    /// Asks a plugin about one node, if it judges by counts, as the last decision asked it about many, and
    /// takes note of how long that takes.
    pub(crate) fn measure_counted(
        &self,
        plugin: &str,
        view: View<'_>,
        row: Row,
        went: &Went,
        meter: &mut Meter,
    ) {
        let (Some((shape, tallies)), Some(grounds)) = (self.decided_by, &self.ground) else {
            return;
        };
        let (Some(Some((shape_of, _))), Some(Some((tallies_of, _)))) =
            (self.shapes.get(shape), self.tallies.get(tallies))
        else {
            return;
        };
        let is_meant = |name: &&str| *name == plugin;
        if !tallies_of.judged_by.iter().chain(&tallies_of.ranked_by).any(is_meant) {
            return;
        }
        let Some(overlay) = self.overlays.get(&(shape, tallies)) else { return };
        let ground = grounds.with(view);
        let chooser = Chooser { shape: shape_of, tallies: tallies_of, overlay, ground };
        let Some(own) = chooser.standings_of(ground.ranks.rank(row)) else { return };
        let totals = tallies_of.totals();
        let judges = tallies_of.judges.iter().zip(&tallies_of.judged_by);
        for ((judge, range), &name) in judges.filter(|(_, name)| is_meant(name)) {
            let lap = meter.start_plugin();
            let status = match judge.verdict(&own[range.clone()], &totals[range.clone()]) {
                Verdict::Pass => Status::Success,
                Verdict::Fail(why) => why.code.into(),
            };
            meter.plugin(name, MeteredPoint::Filter, status, lap, 1);
        }
        if !went.iter().any(|&(phase, _)| phase == MeteredPoint::Score) {
            return;
        }
        let rankers = tallies_of.rankers.iter().zip(&tallies_of.ranked_by);
        for ((_, ranker, range), &name) in rankers.filter(|(_, name)| is_meant(name)) {
            // One node is in one domain of each term.
            let domains: SmallVec<[usize; 4]> = range.clone().map(|_| 1).collect();
            let lap = meter.start_plugin();
            ranker.raw(&own[range.clone()], &domains);
            meter.plugin(name, MeteredPoint::Score, Status::Success, lap, 1);
        }
    }
}
