//! Nodes that belong together, such as those of one zone.

use std::collections::BTreeMap;

use plimsoll_framework::prelude::SmallVec;
use plimsoll_framework::{Row, Scored, ScoredGroup};

/// Groups of scored nodes.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeGroups {
    /// The number of the group by the row of the node, counted from 0.
    of_row: Vec<Option<usize>>,
    len: usize,
}

impl NodeGroups {
    /// Nodes with equal keys belong together; those without a key belong to none.
    pub(super) fn by<K: Ord>(keys: impl Iterator<Item = (Row, Option<K>)>) -> Self {
        let mut numbers = BTreeMap::new();
        let mut of_row = Vec::new();
        for (row, key) in keys {
            let Some(key) = key else { continue };
            let next = numbers.len();
            let number = *numbers.entry(key).or_insert(next);
            if of_row.len() <= row.index() {
                of_row.resize(row.index() + 1, None);
            }
            of_row[row.index()] = Some(number);
        }
        NodeGroups { of_row, len: numbers.len() }
    }

    /// The group of a node.
    pub(super) fn of(&self, row: Row) -> Option<usize> {
        self.of_row.get(row.index()).copied().flatten()
    }

    /// The scores of each group, added up.
    pub(super) fn sums(&self, scores: &[Scored]) -> Vec<i64> {
        let mut sums = vec![0; self.len];
        for one in scores {
            if let Some(group) = self.of(one.row) {
                sums[group] += one.score;
            }
        }
        sums
    }
}

/// The raw scores of all nodes in the same domains, added up, for those domains that `has` holds for.
pub(super) fn sums(
    groups: &[ScoredGroup],
    has: impl Fn(&Domains) -> bool,
) -> BTreeMap<Domains, i64> {
    let mut sums = BTreeMap::new();
    for group in groups.iter().filter(|group| has(&group.domains)) {
        *sums.entry(group.domains.clone()).or_default() += group.score * group.len;
    }
    sums
}

/// The domains of a [`ScoredGroup`].
type Domains = SmallVec<[Option<u32>; 2]>;

/// The remaining fraction of the highest score, for a `count` of at most `most`. As in
/// selector_spread.go and service_affinity.go, NormalizeScore.
#[expect(clippy::cast_precision_loss, reason = "pods are far fewer than 2^53")]
pub(super) fn left_over(count: i64, most: i64) -> f64 {
    let highest = plimsoll_framework::MAX_NODE_SCORE as f64;
    if 0 < most { highest * ((most - count) as f64 / most as f64) } else { highest }
}
