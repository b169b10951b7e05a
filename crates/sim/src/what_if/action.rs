//! What can be changed in a scenario.

use std::fmt;

use plimsoll_api::wire::Object;
use plimsoll_api::{KindRef, Labels, Node, ObjectKey, Pod, PodKey, Str, Taint};

/// One change of the cluster.
#[derive(Clone, Debug)]
pub enum Action {
    /// These objects are there. One that exists is replaced.
    Apply(Vec<Object>),
    /// This object is gone, for good: a pod is not made again.
    Delete(Target),
    /// Pods with these labels are gone, for good.
    DeletePods {
        /// Their namespace.
        namespace: Str,
        /// All of these labels.
        labels: Labels,
    },
    /// A controller has so many pods.
    Scale {
        /// The controller. A Deployment stands for the pods of its ReplicaSets.
        controller: ObjectKey,
        /// How many pods.
        replicas: usize,
    },
    /// A controller has these pods, and no others: the end of a rollout.
    Rollout {
        /// The controller.
        controller: ObjectKey,
        /// Its pods.
        pods: Vec<Pod>,
    },
    /// Nodes are cordoned, and their pods evicted.
    Drain(NodeChoice),
    /// Nodes are cordoned.
    Cordon(NodeChoice),
    /// Nodes are not cordoned any more.
    Uncordon(NodeChoice),
    /// Nodes are gone.
    Lose(NodeChoice),
    /// Nodes get a taint. With the effect `NoExecute` the pods that do not tolerate it are evicted.
    Taint(NodeChoice, Taint),
    /// New nodes come.
    AddNodes {
        /// How many.
        n: usize,
        /// What they are like.
        like: Model,
    },
    /// A pod, or the pods of a controller, have this priority.
    Priority {
        /// The pod or the controller.
        of: ObjectKey,
        /// The priority.
        priority: i32,
    },
}

/// An object to be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A pod.
    Pod(PodKey),
    /// A node.
    Node(Str),
    /// Anything else.
    Other(KindRef, ObjectKey),
}

/// Some nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeChoice {
    /// The node of this name.
    Name(Str),
    /// All nodes with this label.
    Label(Str, Str),
}

impl fmt::Display for NodeChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeChoice::Name(name) => f.write_str(name),
            NodeChoice::Label(key, value) => write!(f, "{key}={value}"),
        }
    }
}

/// What new nodes are like.
#[derive(Clone, Debug)]
pub enum Model {
    /// A node of the cluster. What belongs to a node comes with them: the pods of DaemonSets, drivers and devices.
    Existing(Str),
    /// This node.
    Given(Box<Node>),
}

/// Why a change cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ActionError {
    /// No node is meant.
    #[error("no node {}; {offer}", match .choice {
        NodeChoice::Name(name) => format!("is named {name}"),
        NodeChoice::Label(key, value) => format!("has the label {key}={value}"),
    })]
    NoNode {
        /// What was asked for.
        choice: NodeChoice,
        /// What there is.
        offer: String,
    },
    /// There is no such object.
    #[error("there is no {0}")]
    NoObject(String),
    /// A controller has no pods, so it is not known what another one would be like.
    #[error("no pod belongs to a controller {0}: apply manifests of its pods instead")]
    NoPods(ObjectKey),
    /// Neither a pod nor a controller has this name.
    #[error("{0} is neither a pod nor the controller of one")]
    NeitherPodNorController(ObjectKey),
    /// No pod has these labels.
    #[error("no pod in namespace {0} has all of these labels")]
    NoSuchPods(Str),
    /// A node that is added exists.
    #[error("node {0} exists already: give the new one another name")]
    NodeExists(Str),
}
