//! Filters that judge by counts, on one node in dry runs.

use std::sync::Arc;

use crate::columns::{Columns, Row};
use crate::domains::{DomainFilter, Neighbour, TermCount, TermTotals};
use crate::erased::{Judge, Prepared};
use crate::filter::{Candidates, PodChange, Update, Verdict};
use crate::pod_info::PodInfo;

/// The standing of one node for one term of a filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeCount {
    /// The count in the domain of the node.
    pub here: TermCount,
    /// The totals of the term.
    pub totals: TermTotals,
    /// The lowest count of the [domains](TermTotals::domains) other than that of the node; `None` if there is none.
    pub least_elsewhere: Option<i64>,
}

impl NodeCount {
    fn add(&mut self, by: i64, compares_domains: bool) {
        self.here.count += by;
        self.totals.total += by;
        if compares_domains {
            let elsewhere = self.least_elsewhere.unwrap_or(self.here.count);
            self.totals.least = elsewhere.min(self.here.count);
        }
    }
}

struct CountedJudge {
    filter: Arc<dyn DomainFilter>,
    counts: Vec<NodeCount>,
}

impl Prepared {
    /// A filter that judges one node by counts, given for each of its terms. Its [updates](Prepared::update) are
    /// [`DomainFilter::count_in_dry_run`], so that no other pod has to be looked at.
    pub fn by_counts(filter: Arc<dyn DomainFilter>, counts: Vec<NodeCount>) -> Self {
        Prepared::judging_by(Box::new(CountedJudge { filter, counts }))
    }
}

impl Judge for CountedJudge {
    fn judge(&self, _: &PodInfo, _: &Columns, rows: &[Row], out: &mut dyn FnMut(Row, Verdict)) {
        let here: Vec<TermCount> = self.counts.iter().map(|one| one.here).collect();
        let totals: Vec<TermTotals> = self.counts.iter().map(|one| one.totals).collect();
        for &row in rows {
            out(row, self.filter.verdict(&here, &totals));
        }
    }

    fn update(&mut self, change: PodChange<'_>, nodes: &Columns, row: Row) -> Update {
        let (other, times) = match change {
            PodChange::Added(other) => (other, 1),
            PodChange::Removed(other) => (other, -1),
        };
        let Some(counting) = self.filter.count_in_dry_run(Neighbour::from(&**other)) else {
            return Update::Rebuild;
        };
        for (term, by) in counting {
            let one = &mut self.counts[term as usize];
            if one.here.present && self.filter.terms()[term as usize].nodes.has(nodes, row) {
                one.add(by * times, self.filter.compares_domains());
            }
        }
        Update::Exact
    }

    fn candidates(&self) -> Candidates {
        Candidates::All
    }

    fn may_err(&self) -> bool {
        false
    }

    fn clone_box(&self) -> Box<dyn Judge> {
        Box::new(CountedJudge { filter: self.filter.clone(), counts: self.counts.clone() })
    }
}
