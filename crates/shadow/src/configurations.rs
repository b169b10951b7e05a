//! Compares the decisions of two configurations with each other.

use std::collections::VecDeque;

use plimsoll_api::{PodKey, Str};
use serde::Serialize;

use crate::comparison::Comparison;

/// At most this many nodes are named of those that are equally good.
const NAMED: usize = 5;

/// How the decisions of two configurations about the same pods on the same states differ.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Differences {
    /// The pods that both have decided.
    pub compared: u64,
    /// The best nodes are the same ones, or both find none.
    pub same: u64,
    /// Some of the best nodes are the same ones.
    pub overlap: u64,
    /// None of the best nodes is the same.
    pub different: u64,
    /// Only one of them finds a node.
    pub one_finds_none: u64,
    /// The latest pods that are decided differently.
    pub examples: VecDeque<Difference>,
}

/// A pod that two configurations decide differently.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// The pod, as `namespace/name`.
    pub pod: String,
    /// When it was decided, in RFC 3339.
    pub at: String,
    /// The best nodes by the first configuration, the first few by name; empty if there is none.
    pub first: Vec<Str>,
    /// The same by the second one.
    pub second: Vec<Str>,
}

impl Differences {
    pub(crate) fn add(
        &mut self,
        (pod, at): (&PodKey, &str),
        (first, second): (&Comparison, &Comparison),
        most_kept: usize,
    ) {
        self.compared += 1;
        let (first, second) = (&first.best, &second.best);
        if first == second {
            self.same += 1;
            return;
        }
        if first.is_empty() || second.is_empty() {
            self.one_finds_none += 1;
        } else if first.iter().any(|node| second.contains(node)) {
            self.overlap += 1;
        } else {
            self.different += 1;
        }
        if self.examples.len() == most_kept {
            self.examples.pop_front();
        }
        let named = |nodes: &[Str]| nodes.iter().take(NAMED).cloned().collect();
        self.examples.push_back(Difference {
            pod: pod.to_string(),
            at: at.to_owned(),
            first: named(first),
            second: named(second),
        });
    }
}
