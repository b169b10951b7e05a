//! Chooses one of the best nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_framework::{Columns, MAX_NODE_SCORE, Prioritized, Row, Scored};
use rand::{Rng, RngExt};

/// How one of several equally good nodes is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TieBreak {
    /// The one with the smallest name.
    #[default]
    First,
    /// A random one, by the seeded generator.
    Random,
}

/// How to choose among equally good nodes.
pub(crate) struct TieBreaker<'a, R> {
    pub(crate) tie_break: TieBreak,
    pub(crate) rng: &'a mut R,
}

/// The scores of the feasible nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scores {
    /// Normalised scores times weight, by plugin in the order of the profile; each in the order of
    /// the feasible rows.
    pub(crate) plugins: Vec<(Arc<str>, Vec<i64>)>,
    /// Their sums, in the order of the feasible rows.
    pub(crate) totals: Vec<i64>,
}

impl Scores {
    /// No plugin has scored yet.
    pub(crate) fn new(n_rows: usize) -> Self {
        Scores { plugins: Vec::new(), totals: vec![0; n_rows] }
    }

    /// Adds the scores of one plugin. As in runtime/framework.go, RunScorePlugins, a score out of range
    /// is an error. Sums cannot overflow, since weights are checked when a profile is created.
    pub(crate) fn add(
        &mut self,
        plugin: &str,
        weight: i64,
        scored: &[Scored],
    ) -> Result<(), String> {
        let wrong = scored.iter().find(|one| !(0..=MAX_NODE_SCORE).contains(&one.score));
        if let Some(Scored { score, .. }) = wrong {
            return Err(format!(
                "applying score defaultWeights on Score plugins: plugin {plugin:?} returns an invalid \
                 score {score}, it should in the range of [0, {MAX_NODE_SCORE}] after normalizing"
            ));
        }
        let weighted: Vec<i64> = scored.iter().map(|one| one.score * weight).collect();
        for (total, score) in self.totals.iter_mut().zip(&weighted) {
            *total += score;
        }
        self.plugins.push((plugin.into(), weighted));
        Ok(())
    }

    /// Adds the points of one rule of a ranking, which are at most `most`. Sums saturate, since these
    /// weights are not checked.
    pub(crate) fn add_prioritized(
        &mut self,
        prioritized: Prioritized,
        most: i64,
    ) -> Result<(), String> {
        let Prioritized { name, weight, points } = prioritized;
        if let Some(wrong) = points.iter().find(|points| !(0..=most).contains(*points)) {
            return Err(format!(
                "priority {name:?} gives {wrong} points, it should give 0 to {most} after reducing"
            ));
        }
        let weighted: Vec<i64> = points.iter().map(|one| one.saturating_mul(weight)).collect();
        for (total, points) in self.totals.iter_mut().zip(&weighted) {
            *total = total.saturating_add(*points);
        }
        self.plugins.push((name, weighted));
        Ok(())
    }

    /// As in schedule_one.go, prioritizeNodes: without any Score plugin all nodes are equal.
    pub(crate) fn all_equal(n_rows: usize) -> Self {
        Scores { plugins: Vec::new(), totals: vec![1; n_rows] }
    }
}

/// The rows with the highest total, sorted by the names of their nodes.
pub(crate) fn best(nodes: &Columns, rows: &[Row], totals: &[i64]) -> Vec<Row> {
    let Some(max) = totals.iter().max() else { return rows.to_vec() };
    let by_name: BTreeMap<_, _> = rows
        .iter()
        .zip(totals)
        .filter(|(_, total)| *total == max)
        .map(|(&row, _)| (nodes.name_of(row), row))
        .collect();
    by_name.into_values().collect()
}

/// By how much the highest total is higher than the next one; `None` if there is no other.
pub(crate) fn margin(totals: impl Iterator<Item = i64>) -> Option<i64> {
    let (mut highest, mut second) = (None, None);
    for total in totals {
        let lower = highest.min(Some(total));
        highest = highest.max(Some(total));
        second = second.max(lower);
    }
    Some(highest? - second?)
}

/// One of `best`, which is sorted by name and not empty.
pub(crate) fn pick(best: &[Row], tie_break: TieBreak, rng: &mut impl Rng) -> Row {
    match tie_break {
        TieBreak::First => best[0],
        // A single node needs no random choice: the generator is not used.
        TieBreak::Random if best.len() == 1 => best[0],
        TieBreak::Random => best[rng.random_range(0..best.len())],
    }
}
