//! The nodes in the order of their names.

use std::cmp::Ordering;
use std::ops::Range;

use plimsoll_api::Str;
use plimsoll_framework::{Columns, Row};

use super::name_index_set::NameIndex;

/// Up to this many nodes there is a free index after every [`RUN`] nodes, beyond that after every [`LONG_RUN`], to
/// save memory: everything that is remembered of each node has a place for each index.
const FEW_NODES: usize = 1 << 17;
const RUN: usize = 4;
const LONG_RUN: usize = 16;
/// At least this many indices after the last node are free. The names of new nodes often follow those of all others.
const LEAST_AT_END: usize = 64;
/// A free index that is this near is used: the nodes on the way to it move.
const NEAR: usize = 8;
/// At least this many indices share what is free among them if none is near. New nodes often have names that follow
/// each other, and need more room in the same place.
const LEAST_SPREAD: usize = 64;
/// A free index that is farther away than this is not used, since every node on the way to it would have to move.
const FARTHEST: usize = 64;

/// The nodes in the order of their names. Each node has a [`NameIndex`]; a smaller name has a smaller index. Some
/// indices are free, so that a new node seldom moves others. The names are kept here, because a row may hold another
/// node by the time a change is looked at.
#[derive(Debug, Default)]
pub(crate) struct NameOrder {
    /// The rows, by name.
    sorted: Vec<Row>,
    /// By name index; `None` where the index is free.
    row_of: Vec<Option<Row>>,
    /// By the index of the row; of rows with a node.
    index_of: Vec<NameIndex>,
    /// The same.
    names: Vec<Str>,
}

impl NameOrder {
    pub(crate) fn of(nodes: &Columns) -> Self {
        let mut sorted: Vec<Row> = nodes.rows().collect();
        sorted.sort_by(|&one, &other| nodes.name_of(one).cmp(nodes.name_of(other)));
        let mut order = NameOrder { sorted, ..NameOrder::default() };
        let run = if order.sorted.len() <= FEW_NODES { RUN } else { LONG_RUN };
        for (at, &row) in order.sorted.iter().enumerate() {
            if 0 < at && at % run == 0 {
                order.row_of.push(None);
            }
            grow(&mut order.index_of, row);
            grow(&mut order.names, row);
            order.index_of[row.index()] = to_index(order.row_of.len());
            order.names[row.index()].clone_from(nodes.name_of(row));
            order.row_of.push(Some(row));
        }
        let at_end = LEAST_AT_END.max(order.sorted.len() / LONG_RUN);
        order.row_of.resize(order.row_of.len() + at_end, None);
        order
    }

    /// The number of nodes.
    pub(crate) fn len(&self) -> usize {
        self.sorted.len()
    }

    /// The number of indices, free ones included. It never changes.
    pub(crate) fn n_indices(&self) -> usize {
        self.row_of.len()
    }

    /// The row of the node with this index.
    ///
    /// # Panics
    /// If the index is free.
    pub(crate) fn row(&self, index: NameIndex) -> Row {
        self.at(index).expect("only indices of nodes are used")
    }

    /// The same; `None` if the index is free.
    pub(crate) fn at(&self, index: NameIndex) -> Option<Row> {
        self.row_of[index as usize]
    }

    /// All nodes in the order of their names.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (NameIndex, Row)> {
        self.sorted.iter().map(|&row| (self.index(row), row))
    }

    /// The index of the node named `name`.
    pub(crate) fn find(&self, name: &str) -> Option<NameIndex> {
        let at = self.place_of(name).ok()?;
        Some(self.index(self.sorted[at]))
    }

    pub(crate) fn index(&self, row: Row) -> NameIndex {
        self.index_of[row.index()]
    }

    /// Adds the node named `name`, which is in `row`. `moved` gets every index that now has another node or none,
    /// including that of the new node. Returns `false` if there is no free index nearby; then nothing has changed,
    /// and the order must be made again.
    pub(crate) fn insert(
        &mut self,
        row: Row,
        name: &Str,
        mut moved: impl FnMut(NameIndex),
    ) -> bool {
        let Err(at) = self.place_of(name) else { return false };
        let index_at = |at: usize| self.index(self.sorted[at]) as usize;
        let before = at.checked_sub(1).map(index_at);
        let after = (at < self.sorted.len()).then(|| index_at(at));
        let first = before.map_or(0, |before| before + 1);
        let index = match after {
            // Further names that follow all others are likely, and need the rest.
            None => first + usize::from(first + 1 < self.row_of.len()),
            Some(after) => usize::midpoint(first, after.saturating_sub(1).max(first)),
        };
        let is_free = after.map_or(index < self.row_of.len(), |after| first < after);
        let index = match is_free {
            true => Some(index),
            false => self
                .make_room(first, NEAR, &mut moved)
                .or_else(|| self.spread(first, &mut moved))
                .or_else(|| self.make_room(first, FARTHEST, &mut moved)),
        };
        let Some(index) = index else { return false };
        self.sorted.insert(at, row);
        grow(&mut self.names, row);
        self.names[row.index()].clone_from(name);
        self.put(row, index);
        moved(to_index(index));
        true
    }

    /// Removes the node in `row`, and returns its index, which is free now.
    pub(crate) fn remove(&mut self, row: Row) -> NameIndex {
        let at = self.place_of(&self.names[row.index()]).expect("the node is there");
        self.sorted.remove(at);
        let index = self.index(row);
        self.row_of[index as usize] = None;
        self.names[row.index()] = Str::default();
        index
    }

    /// Frees an index for a node that belongs just before the one with the index `next`, by moving those up to the
    /// nearest free index, which is at most `farthest` away.
    fn make_room(
        &mut self,
        next: usize,
        farthest: usize,
        moved: &mut impl FnMut(NameIndex),
    ) -> Option<usize> {
        let is_free = |&index: &usize| self.row_of[index].is_none();
        let above = (next..self.row_of.len().min(next + farthest)).find(is_free);
        let below = (next.saturating_sub(farthest)..next).rev().find(is_free);
        match (below, above) {
            (Some(below), above) if above.is_none_or(|above| next - below <= above - next) => {
                for index in below + 1..next {
                    self.shift(index, index - 1);
                    moved(to_index(index - 1));
                }
                Some(next - 1)
            }
            (_, Some(above)) => {
                for index in (next..above).rev() {
                    self.shift(index, index + 1);
                    moved(to_index(index + 1));
                }
                Some(next)
            }
            (_, None) => None,
        }
    }

    /// The same, by moving the nodes around it apart. So many take part that a good share of their indices is free. Most
    /// of what is free comes to lie beside the new node, since the names of the next ones are often near, and the rest
    /// evenly between the others.
    fn spread(&mut self, next: usize, moved: &mut impl FnMut(NameIndex)) -> Option<usize> {
        let n_free = |window: &Range<usize>| {
            self.row_of[window.clone()].iter().filter(|row| row.is_none()).count()
        };
        // Half of what is free on average.
        let n_indices = self.row_of.len();
        let needed = |len: usize| 1 + len * (n_indices - self.sorted.len()) / n_indices / 2;
        let lens = std::iter::successors(Some(LEAST_SPREAD), |len| Some(len * 2));
        let windows = lens.take_while(|len| *len <= n_indices).map(|len| {
            let first = next.saturating_sub(len / 2).min(n_indices - len);
            first..first + len
        });
        let window = { windows }.find(|window| needed(window.len()) <= n_free(window))?;
        let beside = (n_free(&window) - 1) * 3 / 4;

        let before = self.row_of[window.clone()].to_vec();
        self.row_of[window.clone()].fill(None);
        let n_ahead = before[..next - window.start].iter().flatten().count();
        let n_nodes = before.iter().flatten().count() + 1;
        let index_of = |at: usize| {
            let evenly = (2 * at + 1) * (window.len() - beside) / (2 * n_nodes);
            window.start
                + evenly
                + match at.cmp(&n_ahead) {
                    Ordering::Less => 0,
                    Ordering::Equal => beside / 2,
                    Ordering::Greater => beside,
                }
        };
        for (at, &row) in before.iter().flatten().enumerate() {
            self.put(row, index_of(at + usize::from(n_ahead <= at)));
        }
        for (index, before) in window.clone().zip(before) {
            if self.row_of[index] != before {
                moved(to_index(index));
            }
        }
        Some(index_of(n_ahead))
    }

    fn shift(&mut self, from: usize, to: usize) {
        if let Some(row) = self.row_of[from].take() {
            self.put(row, to);
        }
    }

    fn put(&mut self, row: Row, index: usize) {
        grow(&mut self.index_of, row);
        self.index_of[row.index()] = to_index(index);
        self.row_of[index] = Some(row);
    }

    fn place_of(&self, name: &str) -> Result<usize, usize> {
        self.sorted.binary_search_by(|&row| self.names[row.index()].as_str().cmp(name))
    }
}

/// Makes `rows` long enough for `row`.
fn grow<T: Default + Clone>(rows: &mut Vec<T>, row: Row) {
    if rows.len() <= row.index() {
        rows.resize(row.index() + 1, T::default());
    }
}

fn to_index(at: usize) -> NameIndex {
    NameIndex::try_from(at).expect("indices have 32 bits")
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use plimsoll_api::Node;
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64;

    use super::*;

    fn nodes(names: impl Iterator<Item = String>) -> Columns {
        let mut nodes = Columns::default();
        for name in names {
            nodes.add(Node { name: name.into(), ..Node::default() });
        }
        nodes
    }

    /// The rows by name, as the order has them, which must agree with itself.
    fn all(order: &NameOrder) -> Vec<(String, Row)> {
        let mut last = None;
        let all = order.rows().map(|(index, row)| {
            assert!(last < Some(index), "indices ascend with names");
            last = Some(index);
            assert_eq!((order.at(index), order.index(row)), (Some(row), index));
            (order.names[row.index()].to_string(), row)
        });
        let all: Vec<_> = all.collect();
        let n_taken = (0..order.n_indices()).filter(|&at| order.row_of[at].is_some()).count();
        assert_eq!((n_taken, order.len()), (all.len(), all.len()));
        all
    }

    #[test]
    fn the_order_follows_nodes_that_come_and_go() {
        for seed in 0..20 {
            let mut rng = Pcg64::seed_from_u64(seed);
            let n_names: u32 = rng.random_range(1..2000);
            let mut name = || format!("n{}", rng.random_range(0..n_names));
            let first: BTreeSet<String> = (0..n_names / 2).map(|_| name()).collect();
            let columns = nodes(first.iter().cloned());
            let mut expected: BTreeMap<String, Row> =
                columns.rows().map(|row| (columns.name_of(row).to_string(), row)).collect();
            let mut order = NameOrder::of(&columns);
            let mut free: Vec<Row> = Vec::new();
            for _ in 0..500 {
                let name = name();
                if let Some(row) = expected.remove(&name) {
                    let before = order.index(row);
                    assert_eq!((order.remove(row), order.at(before)), (before, None));
                    free.push(row);
                    continue;
                }
                let row = free.pop().unwrap_or(Row::from_index(expected.len()));
                let before = order.row_of.clone();
                let mut moved = BTreeSet::new();
                if !order.insert(row, &Str::from(name.clone()), |index| _ = moved.insert(index)) {
                    assert_eq!(order.row_of, before, "nothing has changed");
                    free.push(row);
                    continue;
                }
                expected.insert(name, row);
                for at in (0..before.len()).filter(|&at| before[at] != order.row_of[at]) {
                    let index = to_index(at);
                    assert!(moved.contains(&index), "index {at} has changed");
                }
            }
            assert!(all(&order).into_iter().eq(expected.clone()), "seed {seed}");
            for (name, row) in expected {
                assert_eq!(order.find(&name).map(|index| order.row(index)), Some(row));
            }
        }
    }

    #[test]
    fn names_that_follow_all_others_move_no_node() {
        let mut order = NameOrder::of(&nodes((0..1000).map(|at| format!("a{at:04}"))));
        for at in 0..LEAST_AT_END / 2 {
            let (row, name) = (Row::from_index(1000 + at), Str::from(format!("b{at:04}")));
            let mut moved = Vec::new();
            assert!(order.insert(row, &name, |index| moved.push(index)));
            assert_eq!(moved, [order.index(row)]);
        }
    }

    /// How many nodes can be added, and how many of them and of others change their indices for each.
    fn added(order: &mut NameOrder, names: impl Iterator<Item = String>) -> (usize, usize) {
        let (mut n_added, mut n_moved) = (0, 0);
        for name in names {
            let row = Row::from_index(order.len());
            if !order.insert(row, &Str::from(name), |_| n_moved += 1) {
                break;
            }
            n_added += 1;
        }
        assert_eq!(all(order).len(), order.len());
        (n_added, n_moved / n_added)
    }

    #[test]
    fn names_in_one_place_use_half_of_what_is_free() {
        let mut order = NameOrder::of(&nodes((0..1000).map(|at| format!("a{at:04}"))));
        let n_free = order.n_indices() - order.len();
        let (n_added, moved) = added(&mut order, (0..n_free).map(|at| format!("a0500-{at:04}")));
        assert!(n_free / 2 <= n_added, "{n_added} of {n_free}");
        assert!(moved <= 32, "{moved}");
    }

    #[test]
    fn numbers_that_follow_are_names_near_each_other() {
        let mut order = NameOrder::of(&nodes((0..5000).map(|at| format!("node-{at}"))));
        let (n_added, moved) = added(&mut order, (5000..5500).map(|at| format!("node-{at}")));
        assert_eq!(n_added, 500);
        assert!(moved <= 32, "{moved}");
    }
}
