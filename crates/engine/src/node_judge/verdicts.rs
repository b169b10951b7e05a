//! Which filters reject which nodes.
//!
//! What one filter says of all nodes is a [`Column`] of bits, one for each node. So the time and memory for a table do not
//! depend on how many filters reject a node, tables share the columns in which they are equal, and questions about all nodes
//! take one step for 64 of them.

use std::sync::Arc;

use plimsoll_framework::{Candidates, Code, Columns, PodInfo, Prepared, Row, Verdict};

/// Which filters reject which nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdicts {
    filters: Vec<&'static str>,
    /// The nodes. Their indices may have gaps, where nodes have gone.
    nodes: RowSet,
    /// What each filter says.
    columns: Vec<Arc<Column>>,
}

/// What one filter says of all nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Column {
    /// The nodes that it rejects.
    rejected: RowSet,
    /// Those of them for which it says that evicting pods cannot help.
    unresolvable: RowSet,
    /// Whether it could not judge one of them.
    errs: bool,
}

/// A set of rows, as bits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct RowSet(Vec<u64>);

impl RowSet {
    /// The rows that hold a node.
    fn of_nodes(nodes: &Columns) -> Self {
        let word = |live: &[bool]| live.iter().rev().fold(0, |word, is| word << 1 | u64::from(*is));
        RowSet(nodes.live_rows().chunks(64).map(word).collect())
    }

    fn insert(&mut self, row: Row) {
        self.0[row.index() / 64] |= 1 << (row.index() % 64);
    }

    fn remove(&mut self, row: Row) {
        self.0[row.index() / 64] &= !(1 << (row.index() % 64));
    }

    fn contains(&self, row: Row) -> bool {
        self.0.get(row.index() / 64).is_some_and(|word| word >> (row.index() % 64) & 1 != 0)
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// Ascending.
    fn iter(&self) -> impl Iterator<Item = Row> + '_ {
        self.0.iter().enumerate().flat_map(|(at, &word)| {
            let mut left = word;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros())?;
                left &= left - 1;
                Some(Row::from_index(at * 64 + bit as usize))
            })
        })
    }
}

impl Column {
    /// Asks a filter about all nodes.
    pub(super) fn of(filter: &Prepared, pod: &PodInfo, nodes: &Columns) -> Self {
        let rows: Vec<Row> = nodes.rows().collect();
        let mut column = Column::default();
        column.make_room(nodes);
        column.judge(filter, pod, nodes, &rows);
        column
    }

    /// The same, where the filter was asked before, and may say something else only of `rows`.
    pub(super) fn judged_again(
        &self,
        filter: &Prepared,
        pod: &PodInfo,
        nodes: &Columns,
        rows: &[Row],
    ) -> Self {
        let mut column = self.clone();
        column.make_room(nodes);
        for &row in rows {
            column.rejected.remove(row);
            column.unresolvable.remove(row);
        }
        column.judge(filter, pod, nodes, rows);
        column
    }

    /// Whether the filter could not judge one of the nodes.
    pub(super) fn errs(&self) -> bool {
        self.errs
    }

    fn make_room(&mut self, nodes: &Columns) {
        let n_words = nodes.live_rows().len().div_ceil(64);
        for set in [&mut self.rejected, &mut self.unresolvable] {
            set.0.resize(n_words.max(set.0.len()), 0);
        }
    }

    fn judge(&mut self, filter: &Prepared, pod: &PodInfo, nodes: &Columns, rows: &[Row]) {
        if let Some(why) = filter.rejection() {
            for &row in rows {
                self.reject(row, why.code);
            }
            return;
        }
        if let Candidates::Only(names) = filter.candidates() {
            for &row in rows.iter().filter(|row| !names.contains(nodes.name_of(**row))) {
                self.reject(row, Code::UnschedulableAndUnresolvable);
            }
        }
        if !filter.skips() {
            filter.judge(pod, nodes, rows, &mut |row, verdict| {
                if let Verdict::Fail(why) = verdict {
                    self.reject(row, why.code);
                }
            });
        }
    }

    fn reject(&mut self, row: Row, code: Code) {
        self.rejected.insert(row);
        if !matches!(code, Code::Unschedulable) {
            self.unresolvable.insert(row);
        }
        self.errs |= code == Code::Error;
    }
}

impl Verdicts {
    /// What `filters` say, each in its column.
    pub(super) fn new(
        filters: Vec<&'static str>,
        columns: Vec<Arc<Column>>,
        nodes: &Columns,
    ) -> Self {
        Verdicts { filters, nodes: RowSet::of_nodes(nodes), columns }
    }

    /// Notes that the filter at `filter` rejects a node.
    pub(super) fn reject(&mut self, row: Row, filter: usize, code: Code) {
        Arc::make_mut(&mut self.columns[filter]).reject(row, code);
    }

    /// The feasible nodes, ascending.
    pub fn feasible(&self) -> impl Iterator<Item = Row> + '_ {
        let mut feasible = self.nodes.clone();
        for column in &self.columns {
            let words = feasible.0.iter_mut().zip(&column.rejected.0);
            words.for_each(|(word, rejected)| *word &= !rejected);
        }
        let rows: Vec<Row> = feasible.iter().collect();
        rows.into_iter()
    }

    /// The node to which the pod goes, if that is sure: it is the only feasible one, so that it is not scored, and every filter
    /// could judge all nodes.
    pub fn sure_choice(&self) -> Option<Row> {
        let mut feasible = self.feasible();
        let first = feasible.next()?;
        let is_sure = feasible.next().is_none() && self.columns.iter().all(|one| !one.errs());
        is_sure.then_some(first)
    }

    /// All nodes.
    pub fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        self.nodes.iter()
    }

    /// How many filters reject the node.
    pub fn count(&self, row: Row) -> u32 {
        self.columns.iter().map(|column| u32::from(column.rejected.contains(row))).sum()
    }

    /// The nodes with the number of filters that reject each.
    pub fn counts(&self) -> impl Iterator<Item = (Row, u32)> + '_ {
        let mut counts = vec![0; self.nodes.0.len() * 64];
        for column in &self.columns {
            column.rejected.iter().for_each(|row| counts[row.index()] += 1);
        }
        self.rows().map(move |row| (row, counts[row.index()]))
    }

    /// Whether evicting pods from the node might make it feasible.
    pub fn is_resolvable(&self, row: Row) -> bool {
        self.columns.iter().all(|column| !column.unresolvable.contains(row))
    }

    /// The filters that reject the node, in the order of the profile.
    pub fn rejected_by(&self, row: Row) -> impl Iterator<Item = &'static str> + '_ {
        self.named(move |column| column.rejected.contains(row))
    }

    /// The filters that reject at least one node, in the order of the profile.
    pub fn rejectors(&self) -> Vec<&'static str> {
        self.named(|column| !column.rejected.is_empty()).collect()
    }

    fn named(&self, is_meant: impl Fn(&Column) -> bool) -> impl Iterator<Item = &'static str> {
        let named = self.filters.iter().zip(&self.columns);
        named.filter(move |(_, column)| is_meant(column)).map(|(name, _)| *name)
    }

    /// Whether some node is rejected by no filter both here and in `other`, which was made with the same nodes and filters.
    /// Two changes of a pod can make it fit together only if this holds, unless one undoes what the other does.
    pub fn may_fit_with(&self, other: &Verdicts) -> bool {
        if (&self.nodes, &self.filters) != (&other.nodes, &other.filters) {
            return true;
        }
        let mut left = self.nodes.clone();
        for (one, other) in self.columns.iter().zip(&other.columns) {
            let in_both = one.rejected.0.iter().zip(&other.rejected.0);
            let words = left.0.iter_mut().zip(in_both);
            words.for_each(|(word, (one, other))| *word &= !(one & other));
        }
        !left.is_empty()
    }
}
