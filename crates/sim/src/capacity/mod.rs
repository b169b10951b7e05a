//! How many more pods of some shapes fit, or groups of pods, and what would let more in.

mod copies;
mod new_nodes;
mod pod_shape;

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_api::{Pod, PodGroup, ResourceClaim, Str};
use plimsoll_engine::{Scheduler, Transaction, TransactionError};
use plimsoll_framework::Time;
use serde::Serialize;

use self::copies::{Placed, copy_of_group, place_group, place_pod};
use self::new_nodes::ten_percent_more;
pub use self::pod_shape::PodShape;

/// What is placed again and again.
#[derive(Clone, Debug)]
pub enum Shape {
    /// A pod.
    Pod(Box<PodShape>),
    /// A group of pods. Either all of them are placed or none.
    Group(Box<GroupShape>),
}

/// A group with its pods.
#[derive(Clone, Debug)]
pub struct GroupShape {
    /// The group.
    pub group: PodGroup,
    /// Its pods.
    pub pods: Vec<Pod>,
}

/// How many copies of a pod or of a group fit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ShapeCapacity {
    /// How many copies fit.
    pub fits: usize,
    /// How many pods of the copies are on each node.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub by_node: BTreeMap<Str, usize>,
    /// How many copies of the group are in each domain, if each must be in one.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub by_placement: BTreeMap<Str, usize>,
    /// Why the next one does not fit; left out if the limit was reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<String>,
    /// The least number of new nodes that let a tenth more in, at least one copy; left out if no node of the cluster is a
    /// model for such nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ten_percent_more: Option<MoreNodes>,
}

/// New nodes, and how many more copies they let in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MoreNodes {
    /// How many nodes.
    pub nodes: usize,
    /// The node that they are like.
    pub like: Str,
    /// How many more copies.
    #[serde(flatten)]
    pub copies: MoreCopies,
}

/// How many more copies fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum MoreCopies {
    /// Of a pod.
    Pods(usize),
    /// Of a group.
    Groups(usize),
}

/// The copies that were placed.
#[derive(Clone, Debug, Default)]
pub struct Copies {
    /// The pods with their nodes.
    pub pods: Vec<PlacedCopy>,
    /// The groups.
    pub groups: Vec<PodGroup>,
    /// Their claims, with the devices that they use.
    pub claims: Vec<ResourceClaim>,
}

/// A copy, and its node.
pub type PlacedCopy = (Arc<Pod>, Str);

/// Places copies of the shapes in turn until none of them fits, or `limit` pods are placed in all. Nothing is evicted for
/// them. The scheduler is afterwards as it was. Returns a result for each shape, and the copies.
///
/// # Errors
/// If no profile has the name of a pod's scheduler.
pub fn capacity(
    scheduler: &mut Scheduler,
    now: Time,
    shapes: &[Shape],
    limit: usize,
) -> Result<(Vec<ShapeCapacity>, Copies), TransactionError> {
    scheduler.transaction(now, |transaction| {
        let mut results = vec![ShapeCapacity::default(); shapes.len()];
        let (mut copies, mut open): (Copies, Vec<usize>) =
            (Copies::default(), (0..shapes.len()).collect());
        while !open.is_empty() {
            let mut still_open = Vec::new();
            for at in open {
                let (shape, result) = (&shapes[at], &mut results[at]);
                if limit < copies.pods.len() + shape.n_pods() {
                    continue;
                }
                match shape.place(transaction, now, (at, result.fits))? {
                    Ok(placed) => {
                        result.add(&placed);
                        copies.pods.extend(placed.pods);
                        copies.groups.extend(placed.group);
                        still_open.push(at);
                    }
                    Err(message) => result.stopped_by = Some(message),
                }
            }
            open = still_open;
        }
        copies.claims = copies::claims_of(transaction.view(), &copies.pods);
        for (shape, result) in shapes.iter().zip(&mut results) {
            if result.stopped_by.is_some() {
                let fits = result.fits;
                result.ten_percent_more = ten_percent_more(transaction, now, shape, fits)?;
            }
        }
        Ok((results, copies))
    })
}

impl Shape {
    /// How many pods a copy has.
    fn n_pods(&self) -> usize {
        match self {
            Shape::Pod(_) => 1,
            Shape::Group(group) => group.pods.len(),
        }
    }

    /// Places a copy where it goes, or returns why it goes nowhere. `number` is that of the shape, and that of the copy.
    fn place(
        &self,
        transaction: &mut Transaction<'_>,
        now: Time,
        number: (usize, usize),
    ) -> Result<Result<Placed, String>, TransactionError> {
        match self {
            Shape::Pod(pod) => place_pod(transaction, pod, number),
            Shape::Group(group) => place_group(transaction, now, copy_of_group(group, number)),
        }
    }
}

impl ShapeCapacity {
    fn add(&mut self, placed: &Placed) {
        self.fits += 1;
        for (_, node) in &placed.pods {
            *self.by_node.entry(node.clone()).or_default() += 1;
        }
        if let Some(placement) = &placed.placement {
            *self.by_placement.entry(placement.clone()).or_default() += 1;
        }
    }
}
