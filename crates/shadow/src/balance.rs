//! How evenly the pods are spread.

use std::collections::BTreeMap;

use plimsoll_api::Str;
use plimsoll_api::resources::{CPU, MEMORY};
use plimsoll_framework::View;
use serde::Serialize;

/// The label with the zone of a node.
const ZONE: &str = "topology.kubernetes.io/zone";

/// How evenly the nodes are used.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Balance {
    /// How many nodes there are.
    pub nodes: usize,
    /// The nodes without a pod.
    pub empty_nodes: usize,
    /// The pods of a node.
    pub pods_per_node: Span,
    /// The share of a node's CPU that its pods request.
    pub cpu: Span,
    /// The share of a node's memory that its pods request.
    pub memory: Span,
    /// How many pods there are in each zone, by the label of nodes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub pods_by_zone: BTreeMap<Str, usize>,
}

/// From the least to the most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Span {
    /// The least.
    pub min: f64,
    /// The one in the middle.
    pub median: f64,
    /// The most.
    pub max: f64,
}

impl Balance {
    /// The balance of a cluster.
    pub fn of(view: View<'_>) -> Self {
        let (mut pods, mut cpu, mut memory) = (Vec::new(), Vec::new(), Vec::new());
        let mut balance = Balance::default();
        for row in view.nodes.rows() {
            let n_pods = view.nodes.pods_on(row).len();
            let (node, requested) = (view.nodes.node(row), view.nodes.requested_of(row));
            pods.push(whole(n_pods));
            cpu.push(share(requested.get(CPU), node.allocatable.get(CPU)));
            memory.push(share(requested.get(MEMORY), node.allocatable.get(MEMORY)));
            balance.nodes += 1;
            balance.empty_nodes += usize::from(n_pods == 0);
            if let Some(zone) = node.labels.get(ZONE) {
                *balance.pods_by_zone.entry(zone.clone()).or_default() += n_pods;
            }
        }
        Balance {
            pods_per_node: Span::of(pods),
            cpu: Span::of(cpu),
            memory: Span::of(memory),
            ..balance
        }
    }
}

impl Span {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |index: usize| values.get(index).copied().unwrap_or_default();
        Span { min: at(0), median: at(values.len() / 2), max: at(values.len().saturating_sub(1)) }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a node has few pods")]
fn whole(n: usize) -> f64 {
    n as f64
}

/// More than four digits would say nothing.
#[expect(clippy::cast_precision_loss, reason = "it is a share")]
fn share(uses: i64, has: i64) -> f64 {
    let share = if has == 0 { 0.0 } else { uses as f64 / has as f64 };
    (share * 10_000.0).round() / 10_000.0
}
