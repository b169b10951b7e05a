//! All nodes by column, and one node with its pods.

use std::collections::BTreeMap;

use plimsoll_api::{Labels, Str, Taint};
use serde::Serialize;

use super::overview::Usage;
use super::pods::{PodRow, amounts};
use crate::counts::{CountedNode, Counts};
use crate::picture::Picture;
use crate::question::Failure;

/// All nodes. The lists by node have the order of `names`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Nodes {
    as_of: String,
    names: Vec<Str>,
    /// The zones of the nodes.
    zones: Vec<Str>,
    /// For each node the index of its zone.
    zone: Vec<usize>,
    /// How many pods each node has.
    pods: Vec<usize>,
    resources: Vec<Column>,
    /// The taints that nodes have.
    taints: Vec<String>,
    /// For each node with taints, their indexes.
    taints_of: BTreeMap<usize, Vec<usize>>,
    /// The nodes that are cordoned.
    unschedulable: Vec<usize>,
}

/// A resource of all nodes.
#[derive(Debug, Serialize)]
struct Column {
    name: Str,
    allocatable: Vec<i64>,
    requested: Vec<i64>,
}

/// A node with its pods.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OneNode {
    as_of: String,
    name: Str,
    #[serde(skip_serializing_if = "Option::is_none")]
    zone: Option<Str>,
    unschedulable: bool,
    labels: BTreeMap<Str, Str>,
    taints: Vec<String>,
    resources: Vec<Usage>,
    pods: Vec<PodOnNode>,
    /// How many more pods it has, which the user may not list.
    #[serde(skip_serializing_if = "is_zero")]
    withheld: usize,
}

#[derive(Debug, Serialize)]
struct PodOnNode {
    #[serde(flatten)]
    row: PodRow,
    /// What it requests.
    requests: BTreeMap<Str, i64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(n: &usize) -> bool {
    *n == 0
}

/// All nodes of a cluster.
pub(crate) fn nodes(counts: &Counts) -> Nodes {
    let (mut zones, mut taints) = (Numbers::default(), Numbers::default());
    let (mut zone, mut taints_of, mut unschedulable) = (Vec::new(), BTreeMap::new(), Vec::new());
    for (at, node) in counts.nodes.iter().enumerate() {
        zone.push(zones.number(node.zone().map(Str::as_str).unwrap_or_default()));
        let own = node.node.taints.iter().map(|taint| taints.number(&text(taint)));
        let own: Vec<usize> = own.collect();
        if !own.is_empty() {
            taints_of.insert(at, own);
        }
        if node.node.unschedulable {
            unschedulable.push(at);
        }
    }
    let column = |name: &Str| Column {
        name: name.clone(),
        allocatable: all(counts, |node| node.node.allocatable.get(name)),
        requested: all(counts, |node| node.requested.get(name)),
    };
    Nodes {
        as_of: counts.as_of(),
        names: all(counts, |node| node.node.name.clone()),
        zones: zones.names.into_iter().map(Str::from).collect(),
        zone,
        pods: all(counts, |node| node.n_pods),
        resources: counts.resources.iter().map(column).collect(),
        taints: taints.names,
        taints_of,
        unschedulable,
    }
}

/// A node of a cluster.
pub(crate) fn node(
    picture: &Picture,
    name: &str,
    shows: &dyn Fn(&str) -> bool,
) -> Result<OneNode, Failure> {
    let Some((found, own)) = picture.node(name) else {
        return Err(Failure::NotFound(format!("nodes {name:?} not found")));
    };
    let CountedNode { node, requested, .. } = found;
    let named: Vec<_> = own.filter(|pod| shows(&pod.info.key.namespace)).collect();
    Ok(OneNode {
        as_of: picture.as_of(),
        name: node.name.clone(),
        zone: found.zone().cloned(),
        unschedulable: node.unschedulable,
        labels: labels(&node.labels),
        taints: node.taints.iter().map(text).collect(),
        resources: Usage::of(&picture.counts.resources, &node.allocatable, requested),
        withheld: found.n_pods - named.len(),
        pods: named
            .into_iter()
            .map(|pod| PodOnNode { row: PodRow::of(pod), requests: amounts(&pod.info.requests) })
            .collect(),
    })
}

/// Labels as a document has them.
pub(super) fn labels(labels: &Labels) -> BTreeMap<Str, Str> {
    labels.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn all<T>(counts: &Counts, of: impl Fn(&CountedNode) -> T) -> Vec<T> {
    counts.nodes.iter().map(of).collect()
}

/// A taint as `kubectl taint` writes it.
fn text(taint: &Taint) -> String {
    let Taint { key, value, effect } = taint;
    let value = if value.is_empty() { String::new() } else { format!("={value}") };
    format!("{key}{value}:{}", effect.as_str())
}

/// Gives the same number to equal texts.
#[derive(Default)]
struct Numbers {
    names: Vec<String>,
    numbers: BTreeMap<String, usize>,
}

impl Numbers {
    fn number(&mut self, name: &str) -> usize {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let number = self.names.len();
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        number
    }
}
