//! Measures plugins that count by domain, which need the remembered counts.

use plimsoll_framework::{Row, Verdict, View};
use smallvec::SmallVec;

use super::Memo;
use super::choose::Chooser;
use crate::metrics::{CycleMeter, MeteredPoint, Status, Went};

impl Memo {
    /// Asks a plugin that counts by domain about one node, as the last decision did for groups of nodes, and
    /// records the duration.
    pub(crate) fn measure_counted(
        &self,
        plugin: &str,
        view: View<'_>,
        row: Row,
        went: &Went,
        meter: &mut CycleMeter,
    ) {
        let (Some(with), Some(node_set)) = (self.decided_by, &self.node_set) else { return };
        let caches = (&self.rankings, &self.counts);
        let Some(chooser) = Chooser::of(caches, with, node_set.with(view)) else { return };
        let Chooser { domain_counts: counts, cluster, .. } = chooser;
        let is_meant = |name: &&str| *name == plugin;
        if !counts.filter_names.iter().chain(&counts.score_names).any(is_meant) {
            return;
        }
        let Some(own) = chooser.term_counts_of(cluster.name_order.index(row)) else { return };
        let totals = counts.totals(cluster);
        let filters = counts.filters.iter().zip(&counts.filter_names);
        for ((judge, range), &name) in filters.filter(|(_, name)| is_meant(name)) {
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
        let scores = counts.scores.iter().zip(&counts.score_names);
        for ((_, ranker, range), &name) in scores.filter(|(_, name)| is_meant(name)) {
            let lap = meter.start_plugin();
            // A single node is in one domain of each term.
            let weights: SmallVec<[f64; 4]> = range.clone().map(|_| ranker.weight(1)).collect();
            ranker.raw(&own[range.clone()], &weights);
            meter.plugin(name, MeteredPoint::Score, Status::Success, lap, 1);
        }
    }
}
