//! How many more pods of some shapes fit, and what would let more in.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_api::{ObjectKey, Pod, Str};
use plimsoll_engine::{Detail, Outcome, Scheduler, Transaction, TransactionError};
use plimsoll_framework::{Row, Time, View};
use serde::Serialize;

use crate::what_if::{NewNode, free_name, with_all_of};

/// At most so many different nodes are tried as models of new ones.
const MOST_MODELS: usize = 8;
/// At most so many new nodes are tried.
const MOST_NEW_NODES: usize = 1000;

/// How many copies of a pod fit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ShapeCapacity {
    /// The pod, as `namespace/name`.
    pub pod: String,
    /// How many copies fit.
    pub fits: usize,
    /// How many of them are on each node.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub by_node: BTreeMap<Str, usize>,
    /// Why the next one does not fit; left out if the limit was reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<String>,
    /// The least number of new nodes that let a tenth more in, at least one pod; left out if no node of the cluster is a
    /// model for such nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ten_percent_more: Option<MoreNodes>,
}

/// New nodes, and how many more copies they let in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct MoreNodes {
    /// How many nodes.
    pub nodes: usize,
    /// The node that they are like.
    pub like: Str,
    /// How many more copies.
    pub pods: usize,
}

/// A copy, and its node.
pub type PlacedCopy = (Arc<Pod>, Str);

/// Places copies of the pods in turn until none of them fits, or `limit` are placed in all. Nothing is evicted for them. The
/// scheduler is afterwards as it was. Returns a result for each pod, and the copies.
///
/// # Errors
/// If no profile has the name of a pod's scheduler.
pub fn capacity(
    scheduler: &mut Scheduler,
    now: Time,
    shapes: &[Pod],
    limit: usize,
) -> Result<(Vec<ShapeCapacity>, Vec<PlacedCopy>), TransactionError> {
    scheduler.transaction(now, |transaction| {
        let mut results: Vec<ShapeCapacity> = shapes.iter().map(ShapeCapacity::none).collect();
        let (mut copies, mut open): (Vec<PlacedCopy>, Vec<usize>) =
            (Vec::new(), (0..shapes.len()).collect());
        while !open.is_empty() && copies.len() < limit {
            let mut still_open = Vec::new();
            for at in open {
                if limit <= copies.len() {
                    break;
                }
                let result = &mut results[at];
                let copy = Arc::new(copy_of(&shapes[at], at, result.fits));
                match place(transaction, &copy)? {
                    Ok(node) => {
                        result.fits += 1;
                        *result.by_node.entry(node.clone()).or_default() += 1;
                        copies.push((copy, node));
                        still_open.push(at);
                    }
                    Err(message) => result.stopped_by = Some(message),
                }
            }
            open = still_open;
        }
        for (at, shape) in shapes.iter().enumerate() {
            if results[at].stopped_by.is_some() {
                results[at].ten_percent_more = ten_percent_more(transaction, shape, &results[at])?;
            }
        }
        Ok((results, copies))
    })
}

impl ShapeCapacity {
    fn none(pod: &Pod) -> Self {
        ShapeCapacity {
            pod: pod.key.to_string(),
            fits: 0,
            by_node: BTreeMap::new(),
            stopped_by: None,
            ten_percent_more: None,
        }
    }
}

/// Places a pod where it goes, or returns why it goes nowhere.
fn place(
    transaction: &mut Transaction<'_>,
    pod: &Arc<Pod>,
) -> Result<Result<Str, String>, TransactionError> {
    match transaction.decide_in_detail(pod.clone(), Detail::Choice)?.outcome {
        Outcome::Scheduled { node, .. } => {
            transaction.place(pod.clone(), &node)?;
            Ok(Ok(node))
        }
        Outcome::Unschedulable { message, .. } | Outcome::Error { message } => Ok(Err(message)),
    }
}

/// A copy of a pod that has no node yet. `shape` and `number` make its name.
fn copy_of(pod: &Pod, shape: usize, number: usize) -> Pod {
    let name = format!("{}-copy{}-{}", pod.key.name, shape + 1, number + 1);
    Pod {
        uid: name.as_str().into(),
        key: ObjectKey::new(pod.key.namespace.clone(), name),
        created: None,
        deletion: None,
        started: None,
        phase: <_>::default(),
        preempted: false,
        node_name: None,
        nominated_node: None,
        ..pod.clone()
    }
}

/// The fewest nodes that let a tenth more in.
fn ten_percent_more(
    transaction: &mut Transaction<'_>,
    shape: &Pod,
    so_far: &ShapeCapacity,
) -> Result<Option<MoreNodes>, TransactionError> {
    let wanted = so_far.fits.div_ceil(10).max(1);
    let mut best: Option<MoreNodes> = None;
    for model in models(transaction.view()) {
        let most = best.as_ref().map_or(MOST_NEW_NODES, |best| best.nodes - 1);
        let more = transaction.transaction(|transaction| {
            fill_new(transaction, shape, so_far.fits, (&model, most, wanted))
        })?;
        best = more.or(best);
    }
    Ok(best)
}

/// Adds nodes like `model`, at most `most`, until `wanted` more copies fit.
fn fill_new(
    transaction: &mut Transaction<'_>,
    shape: &Pod,
    from: usize,
    (model, most, wanted): (&Str, usize, usize),
) -> Result<Option<MoreNodes>, TransactionError> {
    let mut pods = 0;
    for nodes in 1..=most {
        let before = pods;
        if !add_node(transaction, model)? {
            return Ok(None);
        }
        while pods < wanted {
            let copy = Arc::new(copy_of(shape, usize::MAX - 1, from + pods));
            if place(transaction, &copy)?.is_err() {
                break;
            }
            pods += 1;
        }
        if wanted <= pods {
            return Ok(Some(MoreNodes { nodes, like: model.clone(), pods }));
        }
        // Another node like this one would not help either.
        if pods == before {
            return Ok(None);
        }
    }
    Ok(None)
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
