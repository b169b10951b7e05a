//! A search for candidate nodes, from scratch.

use std::collections::BTreeMap;
use std::ops::Range;

use plimsoll_framework::prelude::*;

use super::units::Elsewhere;
use super::{DefaultPreemption, Victims, cost, staying};

/// A search without results of earlier ones.
pub(super) struct Search<'a> {
    plugin: &'a DefaultPreemption,
    /// The groups that are evicted as a whole.
    elsewhere: Elsewhere<'a>,
    dry_run: &'a DryRun<'a>,
    rows: Vec<Row>,
    cleared: BTreeMap<usize, Victims>,
    rejected: Vec<Rejection>,
    pub(super) last_error: Option<Rejection>,
}

impl<'a> Search<'a> {
    /// A search among the nodes where evictions could help.
    pub(super) fn new(
        plugin: &'a DefaultPreemption,
        rejected: &[NodeRejection],
        dry_run: &'a DryRun<'a>,
    ) -> Self {
        let resolvable = |node: &&NodeRejection| node.rejection.code == Code::Unschedulable;
        let rows = rejected.iter().filter(resolvable).map(|node| node.row).collect();
        let (cleared, rejected, last_error) = (BTreeMap::new(), Vec::new(), None);
        let elsewhere = plugin.elsewhere(*dry_run.view());
        Search { plugin, elsewhere, dry_run, rows, cleared, rejected, last_error }
    }

    /// All candidates that it found, by index.
    pub(super) fn into_candidate_nodes(self) -> Vec<CandidateNode> {
        let nodes = self.dry_run.view().nodes;
        let of = |(place, victims): (usize, Victims)| CandidateNode {
            node: nodes.name_of(self.rows[place]).clone(),
            victims: victims.pods,
            broken_budgets: victims.broken_budgets,
        };
        self.cleared.into_iter().map(of).collect()
    }
}

impl PreemptionCandidates for Search<'_> {
    fn n_nodes(&self) -> usize {
        self.dry_run.view().nodes.len()
    }
    fn n_places(&self) -> usize {
        self.rows.len()
    }
    fn next(&mut self, places: Range<usize>) -> Option<(usize, PreemptionCost)> {
        let dry_run = self.dry_run;
        for place in places {
            let row = self.rows[place];
            // Preparing a dry run takes longer than checking the priorities of the pods.
            let on_node = dry_run.view().nodes.pods_on(row);
            if let Some(why) = self.plugin.early_rejection(dry_run.pod(), on_node) {
                self.rejected.push(why);
                continue;
            }
            let mut node = dry_run.node(row);
            let around = (dry_run.view().stores, &self.elsewhere);
            match self.plugin.victims(dry_run.pod(), &mut node, around) {
                Ok(victims) => {
                    let cost = cost(victims.broken_budgets, &victims.pods);
                    self.cleared.insert(place, victims);
                    return Some((place, cost));
                }
                Err(why) => {
                    if why.code == Code::Error {
                        self.last_error = Some(why.clone());
                    }
                    self.rejected.push(why);
                }
            }
        }
        None
    }
    fn node(&self, place: usize) -> &Str {
        self.dry_run.view().nodes.name_of(self.rows[place])
    }
    fn victims(&self, place: usize) -> Vec<PodKey> {
        staying(&self.cleared[&place].pods).collect()
    }
    fn rejections(&self) -> Vec<(&Rejection, usize)> {
        self.rejected.iter().map(|why| (why, 1)).collect()
    }
}
