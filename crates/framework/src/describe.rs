//! What plugins add to the decision record.

use std::collections::BTreeMap;

use plimsoll_api::Str;
use serde_json::{Map, Value};

use crate::columns::Row;
use crate::plugin::Plugin;
use crate::pod_info::PodInfo;
use crate::post_filter::NodeRejection;
use crate::view::View;

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// This node was chosen.
    Node(Row),
    /// No node was found.
    NoNode,
    /// The pod could not be judged.
    Error,
}

/// The end of an attempt, before anything is done about it.
#[derive(Clone, Copy, Debug)]
pub struct AttemptEnd<'a> {
    /// The pod.
    pub pod: &'a PodInfo,
    /// The cluster from which it was decided.
    pub view: View<'a>,
    /// How it ended.
    pub outcome: AttemptOutcome,
    /// The feasible nodes. Empty if the decision was not made node by node.
    pub feasible: &'a [Row],
    /// Why the other nodes were rejected; empty likewise.
    pub rejected: &'a [NodeRejection],
}

/// What plugins add to a decision record. Each has keys of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// Keys of the record.
    pub decision: Map<String, Value>,
    /// Keys of its nodes, by the name of the node.
    pub nodes: BTreeMap<Str, Map<String, Value>>,
    /// Lines for people, below what is said about nodes. The first line of a plugin is a heading.
    pub lines: Vec<String>,
}

impl Description {
    /// Adds a key to the record.
    pub fn add(&mut self, key: &str, value: impl Into<Value>) {
        self.decision.insert(key.to_owned(), value.into());
    }

    /// Adds a key to a node.
    pub fn add_to_node(&mut self, node: &Str, key: &str, value: impl Into<Value>) {
        let keys = self.nodes.entry(node.clone()).or_default();
        keys.insert(key.to_owned(), value.into());
    }
}

/// How much of an attempt to describe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The attempt as a whole.
    Decision,
    /// Each node, too.
    Nodes,
}

/// Says in the decision record what the plugin does in an attempt, such as which devices it allocates.
pub trait Describe: Plugin {
    /// Adds keys. Called before Reserve.
    fn describe(&self, end: &AttemptEnd<'_>, scope: Scope, to: &mut Description);
}
