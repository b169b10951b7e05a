//! Counts of verdicts.

use std::collections::BTreeMap;

use plimsoll_api::Str;

use crate::comparison::{Comparison, Verdict};
use crate::groups::OF_GROUP;
use crate::histogram::Histogram;
use crate::report::{Agreement, InfeasibleBy, WorseBy};

/// At most this many different rejections are counted each by itself: reasons can name objects.
const MOST_REJECTIONS: usize = 1000;

/// The verdicts of one configuration.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) counts: Agreement,
    margins: Histogram,
    /// By the plugin that made most of the difference: pods, and the sum of its points.
    worse_by: BTreeMap<Str, (u64, i64)>,
    /// By plugin and reasons.
    infeasible_by: BTreeMap<(Str, String), u64>,
}

impl Tally {
    /// Counts the comparison of a pod on a node.
    pub(crate) fn add(&mut self, comparison: &Comparison) {
        let counts = &mut self.counts;
        counts.compared += 1;
        counts.reordered += u64::from(0 < comparison.moved);
        match &comparison.verdict {
            Verdict::Same => counts.same += 1,
            Verdict::Tie { .. } => counts.tie += 1,
            Verdict::Worse { margin, points, .. } => {
                counts.worse += 1;
                self.margins.add(u64::try_from(*margin).unwrap_or_default());
                if let Some(first) = points.first() {
                    let (pods, sum) = self.worse_by.entry(first.plugin.clone()).or_default();
                    *pods += 1;
                    *sum += first.points;
                }
            }
            Verdict::Infeasible { plugin, reasons, ours } => {
                match ours {
                    Some(_) => counts.infeasible += 1,
                    None => counts.unschedulable += 1,
                }
                self.add_rejection(plugin.clone(), reasons.join(", "));
            }
            Verdict::GroupUnfit { why } => {
                counts.unschedulable += 1;
                self.add_rejection(Str::const_new(OF_GROUP), why.clone());
            }
            Verdict::Unjudged { .. } => counts.unjudged += 1,
        }
    }

    fn add_rejection(&mut self, plugin: Str, reasons: String) {
        let mut key = (plugin, reasons);
        if MOST_REJECTIONS <= self.infeasible_by.len() && !self.infeasible_by.contains_key(&key) {
            "other reasons".clone_into(&mut key.1);
        }
        *self.infeasible_by.entry(key).or_default() += 1;
    }

    /// The plugins that made nodes worse, the most frequent first.
    pub(crate) fn worse_by(&self) -> Vec<WorseBy> {
        let all = self.worse_by.iter().map(|(plugin, &(pods, sum))| WorseBy {
            plugin: plugin.clone(),
            pods,
            mean_points: sum / i64::try_from(pods).unwrap_or(1).max(1),
        });
        let mut all: Vec<_> = all.collect();
        all.sort_by(|a, b| (b.pods, &a.plugin).cmp(&(a.pods, &b.plugin)));
        all
    }

    /// The rules by which nodes were infeasible, the most frequent first.
    pub(crate) fn infeasible_by(&self) -> Vec<InfeasibleBy> {
        let all = self.infeasible_by.iter().map(|((plugin, reason), &pods)| InfeasibleBy {
            plugin: plugin.clone(),
            reason: reason.clone(),
            pods,
        });
        let mut all: Vec<_> = all.collect();
        all.sort_by(|a, b| (b.pods, &a.plugin, &a.reason).cmp(&(a.pods, &b.plugin, &b.reason)));
        all
    }

    /// The median of the margins by which nodes were worse, and the largest.
    pub(crate) fn margins(&self) -> Option<(u64, u64)> {
        (0 < self.margins.count()).then(|| (self.margins.percentile(50), self.margins.max()))
    }
}
