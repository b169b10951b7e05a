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
        let (Some((ranking, domain_counts)), Some(node_set)) = (self.decided_by, &self.node_set)
        else {
            return;
        };
        let (Some(Some((ranking_of, _))), Some(Some((domain_counts_of, _)))) =
            (self.rankings.get(ranking), self.domain_counts.get(domain_counts))
        else {
            return;
        };
        let is_meant = |name: &&str| *name == plugin;
        if !domain_counts_of.filter_names.iter().chain(&domain_counts_of.score_names).any(is_meant)
        {
            return;
        }
        let Some(sparse) = self.sparse_counts.get(&(ranking, domain_counts)) else { return };
        let cluster = node_set.with(view);
        let chooser =
            Chooser { ranking: ranking_of, domain_counts: domain_counts_of, sparse, cluster };
        let Some(own) = chooser.term_counts_of(cluster.name_order.index(row)) else { return };
        let totals = domain_counts_of.totals(cluster);
        let filters = domain_counts_of.filters.iter().zip(&domain_counts_of.filter_names);
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
        let scores = domain_counts_of.scores.iter().zip(&domain_counts_of.score_names);
        for ((_, ranker, range), &name) in scores.filter(|(_, name)| is_meant(name)) {
            // A single node is in one domain of each term.
            let domains: SmallVec<[usize; 4]> = range.clone().map(|_| 1).collect();
            let lap = meter.start_plugin();
            ranker.raw(&own[range.clone()], &domains);
            meter.plugin(name, MeteredPoint::Score, Status::Success, lap, 1);
        }
    }
}
