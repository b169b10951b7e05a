//! How many new nodes let more copies in.

use plimsoll_api::{Pod, Str};
use plimsoll_engine::{Transaction, TransactionError};
use plimsoll_framework::{Row, Time, View};

use super::{MoreCopies, MoreNodes, Shape};
use crate::what_if::{NewNode, free_name, with_all_of};

/// At most so many different nodes are tried as models of new ones.
const MOST_MODELS: usize = 8;
/// At most so many new nodes are tried.
const MOST_NEW_NODES: usize = 1000;

/// The number of the copies that are tried on new nodes, in place of that of their shape.
const ON_NEW_NODES: usize = usize::MAX - 1;

/// What is to be placed on new nodes.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    shape: &'a Shape,
    /// How many copies fit without new nodes.
    fits: usize,
    /// How many more are wanted.
    more: usize,
}

/// The fewest nodes that let a tenth more in, if so many copies of the shape fit.
pub(super) fn ten_percent_more(
    transaction: &mut Transaction<'_>,
    now: Time,
    shape: &Shape,
    fits: usize,
) -> Result<Option<MoreNodes>, TransactionError> {
    let wanted = Wanted { shape, fits, more: fits.div_ceil(10).max(1) };
    let mut best: Option<MoreNodes> = None;
    for model in models(transaction.view()) {
        let most = best.as_ref().map_or(MOST_NEW_NODES, |best| best.nodes - 1);
        let more = match shape {
            Shape::Pod(_) => transaction
                .transaction(|transaction| fill_new(transaction, now, wanted, (&model, most)))?,
            Shape::Group(group) => {
                // Each of the fewest nodes has at least one pod.
                let most = most.min(wanted.more.saturating_mul(group.pods.len()));
                fewest(transaction, now, wanted, (&model, most))?
            }
        };
        best = more.or(best);
    }
    Ok(best)
}

/// Adds nodes like `model`, at most `most`, until as many more copies fit as are wanted.
fn fill_new(
    transaction: &mut Transaction<'_>,
    now: Time,
    wanted: Wanted<'_>,
    (model, most): (&Str, usize),
) -> Result<Option<MoreNodes>, TransactionError> {
    let mut n = 0;
    for nodes in 1..=most {
        let before = n;
        if !add_node(transaction, model)? {
            return Ok(None);
        }
        n = place_more(transaction, now, wanted, n)?;
        if wanted.more <= n {
            return Ok(Some(wanted.on(nodes, model)));
        }
        // Another node like this one would not help either.
        if n == before {
            return Ok(None);
        }
    }
    Ok(None)
}

/// The fewest nodes like `model`, at most `most`, with which as many more copies fit as are wanted. One node may have room for
/// a part of a copy only, so numbers of nodes are tried: first each twice the one before, and then those between.
fn fewest(
    transaction: &mut Transaction<'_>,
    now: Time,
    wanted: Wanted<'_>,
    (model, most): (&Str, usize),
) -> Result<Option<MoreNodes>, TransactionError> {
    let mut is_enough = |nodes: usize| {
        transaction.transaction(|trial| {
            for _ in 0..nodes {
                if !add_node(trial, model)? {
                    return Ok(false);
                }
            }
            Ok(wanted.more <= place_more(trial, now, wanted, 0)?)
        })
    };
    let (mut too_few, mut enough) = (0, 1.min(most));
    loop {
        if enough == too_few {
            return Ok(None);
        }
        if is_enough(enough)? {
            break;
        }
        (too_few, enough) = (enough, enough.saturating_mul(2).min(most));
    }
    while 1 < enough - too_few {
        let middle = too_few + (enough - too_few) / 2;
        if is_enough(middle)? {
            enough = middle;
        } else {
            too_few = middle;
        }
    }
    Ok(Some(wanted.on(enough, model)))
}

/// Places more copies until as many as are wanted are placed, or one does not fit. Returns how many are placed; `n` are already.
fn place_more(
    transaction: &mut Transaction<'_>,
    now: Time,
    wanted: Wanted<'_>,
    mut n: usize,
) -> Result<usize, TransactionError> {
    while n < wanted.more {
        let number = (ON_NEW_NODES, wanted.fits + n);
        if wanted.shape.place(transaction, now, number)?.is_err() {
            break;
        }
        n += 1;
    }
    Ok(n)
}

impl Wanted<'_> {
    /// So many nodes like `model` let in what is wanted.
    fn on(self, nodes: usize, model: &Str) -> MoreNodes {
        let copies = match self.shape {
            Shape::Pod(_) => MoreCopies::Pods(self.more),
            Shape::Group(_) => MoreCopies::Groups(self.more),
        };
        MoreNodes { nodes, like: model.clone(), copies }
    }
}

/// Adds a node like `model` with what belongs to it. `false` if there is no such node.
fn add_node(transaction: &mut Transaction<'_>, model: &Str) -> Result<bool, TransactionError> {
    let nodes = transaction.view().nodes;
    let is_taken = |name: &str| nodes.rows().any(|row| nodes.name_of(row) == name);
    let name = free_name(model, is_taken);
    let Some(NewNode { node, pods, objects }) = with_all_of(transaction.view(), model, &name)
    else {
        return Ok(false);
    };
    transaction.set_node(node);
    for object in objects {
        transaction.set_object(object);
    }
    for pod in pods {
        let pending = Pod { node_name: None, ..pod };
        transaction.place(pending, &name)?;
    }
    Ok(true)
}

/// One node of each sort, by name. Nodes that differ only in their name and hostname are of one sort.
fn models(view: View<'_>) -> Vec<Str> {
    let nodes = view.nodes;
    let mut rows: Vec<Row> = nodes.rows().collect();
    rows.sort_by_key(|row| nodes.name_of(*row));
    let (mut seen, mut models) = (Vec::new(), Vec::new());
    for row in rows {
        let node = nodes.node(row);
        let labels = node.labels.iter().filter(|(key, _)| *key != "kubernetes.io/hostname");
        let labels: Vec<_> = labels.collect();
        let taints: Vec<_> =
            node.taints.iter().filter(|one| !one.key.starts_with("node.kubernetes.io/")).collect();
        let sort = (labels, taints, &node.allocatable);
        if !seen.contains(&sort) {
            seen.push(sort);
            models.push(node.name.clone());
        }
        if MOST_MODELS <= models.len() {
            break;
        }
    }
    models
}
