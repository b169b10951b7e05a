//! The command line of `plimsoll rebalance`.

use plimsoll_sim::{Objective, RebalanceOptions};
use serde_json::{Value, json};

use super::{Cluster, Output};
use crate::canary::CanaryFlags;

const EXAMPLES: &str = "\
Examples:
  # Which pods should move so that whole nodes can go?
  plimsoll rebalance -f cluster.json --free-nodes

  # Which pods should move so that those of one controller are spread evenly?
  plimsoll rebalance -f cluster.json --spread --max-moves 50 -o json";

/// How many pods may move if nothing is said.
pub(crate) const DEFAULT_MOVES: usize = 20;

/// Say which pods should move to free whole nodes or to spread pods evenly
///
/// Advice only: nothing is changed. A move is the eviction of a pod whose controller makes another one. Each was tried: the
/// pod was evicted, and the scheduler placed the new one on the node that is named. All moves together fit into what
/// PodDisruptionBudgets allow now. Pods that wait and fit are placed first.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Rebalance {
    #[command(flatten)]
    pub(crate) cluster: Cluster,

    #[command(flatten)]
    pub(crate) canary: CanaryFlags,

    #[command(flatten)]
    pub(crate) asked: Rebalancing,

    #[command(flatten)]
    pub(crate) output: Output,
}

/// What the moves are for.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("objective").required(true).multiple(true))]
pub(crate) struct Rebalancing {
    /// Free whole nodes: cordon them and move their pods to others that are in use
    #[arg(long, group = "objective")]
    free_nodes: bool,

    /// Spread the pods of each controller over the domains of their constraints, or else over zones and nodes
    #[arg(long, group = "objective")]
    spread: bool,

    /// Move no more pods than this
    #[arg(long, value_name = "N", default_value_t = DEFAULT_MOVES)]
    max_moves: usize,
}

impl Rebalancing {
    /// The same as `/api/v1/rebalance` takes it.
    pub(crate) fn requested(&self) -> Value {
        let free = self.free_nodes.then_some("freeNodes");
        let spread = self.spread.then_some("spread");
        let objectives: Vec<&str> = free.into_iter().chain(spread).collect();
        json!({ "objectives": objectives, "maxMoves": self.max_moves })
    }

    /// What is asked for. Nodes are freed first.
    pub(crate) fn options(&self) -> RebalanceOptions {
        let free = self.free_nodes.then_some(Objective::FreeNodes);
        let spread = self.spread.then_some(Objective::Spread);
        let objectives = free.into_iter().chain(spread).collect();
        RebalanceOptions { objectives, max_moves: self.max_moves }
    }
}
