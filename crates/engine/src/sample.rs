//! How many nodes are judged: `percentageOfNodesToScore`.

use std::sync::Arc;

use plimsoll_framework::Row;

use crate::cache::Cache;
use crate::profile::Profile;

/// In clusters with fewer nodes all are judged, and at least this many feasible nodes are searched for.
/// As in schedule_one.go, minFeasibleNodesToFind.
const MIN_NODES: usize = 100;
/// The smallest adaptive percentage.
const MIN_PERCENTAGE: usize = 5;

/// Which nodes a cycle judges.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    /// Percent of nodes, where 0 is adaptive; `None` for all.
    pub(crate) percentage: Option<u8>,
    /// Whether nodes are scored; otherwise the first feasible one is taken.
    pub(crate) scored: bool,
    /// Every row, zones in turn; empty if all are judged.
    pub(crate) rows: Arc<[Row]>,
    /// Where the last cycle ended.
    pub(crate) start: usize,
}

/// From where samples are taken.
#[derive(Clone, Copy)]
pub(crate) struct Samples<'a> {
    pub(crate) cache: &'a Cache,
    /// Whether extenders filter or rank nodes.
    pub(crate) extenders_judge: bool,
    /// Where the next sample begins.
    pub(crate) start: usize,
}

impl Samples<'_> {
    /// The next sample for a profile.
    pub(crate) fn sample(&self, profile: &Profile) -> Sample {
        let percentage = profile.percentage_of_nodes_to_score;
        let rows = percentage.map_or_else(Arc::default, |_| self.cache.rows_by_zone());
        let scored = profile.scores() || self.extenders_judge;
        Sample { percentage, scored, rows, start: self.start }
    }
}

/// The order in which nodes are judged, and where to stop.
#[derive(Clone, Copy)]
pub(crate) struct SampleOrder<'a> {
    pub(crate) rows: &'a [Row],
    pub(crate) start: usize,
    /// How many feasible nodes are enough.
    pub(crate) limit: usize,
}

impl Sample {
    /// The order for `n_candidates` nodes; `None` if all are judged.
    pub(crate) fn order(&self, n_candidates: usize) -> Option<SampleOrder<'_>> {
        let limit = match (self.percentage?, self.scored) {
            (percentage, true) => enough(n_candidates, percentage),
            // As in schedule_one.go, findNodesThatPassFilters.
            (_, false) => 1,
        };
        Some(SampleOrder { rows: &self.rows, start: self.start, limit })
    }
}

/// How many feasible nodes are enough among `n_nodes`. As in schedule_one.go, numFeasibleNodesToFind.
fn enough(n_nodes: usize, percentage: u8) -> usize {
    if n_nodes < MIN_NODES {
        return n_nodes;
    }
    let percentage = match usize::from(percentage) {
        0 => 50_usize.saturating_sub(n_nodes / 125).max(MIN_PERCENTAGE),
        set => set,
    };
    (n_nodes * percentage / 100).max(MIN_NODES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_nodes_follows_the_formula_of_kube_scheduler() {
        for (n_nodes, percentage, expected) in [
            (10, 0, 10),
            (99, 5, 99),
            (100, 5, 100),
            (1000, 0, 420),
            (6000, 0, 300),
            (5000, 40, 2000),
            (5000, 100, 5000),
            (1000, 1, 100),
        ] {
            assert_eq!(enough(n_nodes, percentage), expected, "{n_nodes} nodes, {percentage} %");
        }
    }
}
