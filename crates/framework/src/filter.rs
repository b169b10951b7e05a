//! Filters decide on which nodes a pod may run. There are two levels: [`Filter`] judges a pod and a node,
//! [`PreFilter`] a pod, a node and a state that it has prepared from the cluster. What makes them fast is in
//! [`accelerate`](crate::accelerate).

use std::collections::BTreeSet;

use plimsoll_api::Str;

use crate::cycle_state::CycleState;
use crate::parts::{ClusterPart, NodePart, PodPart, Ref};
use crate::plugin::Plugin;
use crate::pod_info::PodInfo;
use crate::status::{Reason, Rejection};

/// Whether a pod may run on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may.
    Pass,
    /// It may not.
    Fail(Rejection),
}

impl Verdict {
    /// It may not; evicting other pods might help.
    #[cold]
    pub fn unschedulable(reason: impl Into<Reason>) -> Self {
        Verdict::Fail(Rejection::unschedulable(reason))
    }

    /// It may not, and evicting other pods cannot help.
    #[cold]
    pub fn unresolvable(reason: impl Into<Reason>) -> Self {
        Verdict::Fail(Rejection::unresolvable(reason))
    }

    /// Whether it may.
    pub fn passes(&self) -> bool {
        matches!(self, Verdict::Pass)
    }
}

/// The only nodes worth judging (`PreFilterResult` in kube-scheduler).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Candidates {
    /// All nodes.
    #[default]
    All,
    /// Nodes with these names. Names that no node has are ignored.
    Only(BTreeSet<Str>),
}

/// Nodes whose label has one of some values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelledNodes {
    /// The label.
    pub label: Str,
    /// The values.
    pub values: Vec<Str>,
}

/// Whether a pod may run on a node, judged from that pod and that node alone.
pub trait Filter: Plugin {
    /// What it reads of the pod.
    type Pod: PodPart;
    /// What it reads of the node.
    type Node: NodePart;
    /// `false`: every node passes, whatever the node.
    fn applies(&self, _pod: Ref<'_, Self::Pod>) -> bool {
        true
    }
    /// The only nodes worth judging, if the pod itself names them. An error rejects the pod for all nodes. A plugin
    /// that implements this must also register PreFilter: [`Builder::at`](crate::Builder::at).
    fn candidates(&self, _pod: Ref<'_, Self::Pod>) -> Result<Candidates, Rejection> {
        Ok(Candidates::All)
    }
    /// Judges one node.
    fn filter(&self, pod: Ref<'_, Self::Pod>, node: Ref<'_, Self::Node>) -> Verdict;
}

/// A pod came to a node, or left it.
#[derive(Clone, Copy, Debug)]
pub enum PodChange<'a> {
    /// It came (AddPod).
    Added(&'a PodInfo),
    /// It left (RemovePod).
    Removed(&'a PodInfo),
}

impl<'a> PodChange<'a> {
    /// The pod that came or left.
    pub fn pod(self) -> &'a PodInfo {
        match self {
            PodChange::Added(pod) | PodChange::Removed(pod) => pod,
        }
    }

    /// The change in a count of pods: 1 or -1.
    pub fn sign(self) -> i32 {
        match self {
            PodChange::Added(_) => 1,
            PodChange::Removed(_) => -1,
        }
    }
}

/// Whether a state is still exact after a pod came or left. Decisions use the state in both cases, as kube-scheduler
/// does. The laws of the test kit check that a plugin that says `Exact` is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// It is: it gives every node the verdict that a new state would give.
    Exact,
    /// It may not be: only a new state would be exact.
    Rebuild,
}

/// A filter that must first look at the rest of the cluster.
pub trait PreFilter: Plugin {
    /// What it reads of the pod.
    type Pod: PodPart;
    /// What it reads of the node it judges.
    type Node: NodePart;
    /// What it reads of everything else.
    type Cluster: ClusterPart;
    /// What it has learnt from the cluster. It cannot borrow: clone or share what it keeps.
    type State: Clone + Send + Sync + 'static;
    /// `false`: every node passes, whatever the node.
    fn applies(&self, _pod: Ref<'_, Self::Pod>) -> bool {
        true
    }
    /// Looks at the cluster. `Ok(None)`: every node passes (Skip). An error rejects the pod for all
    /// nodes.
    fn pre_filter(
        &self,
        pod: Ref<'_, Self::Pod>,
        cluster: Ref<'_, Self::Cluster>,
    ) -> Result<Option<Self::State>, Rejection>;
    /// The only nodes worth judging.
    fn candidates(&self, _state: &Self::State) -> Candidates {
        Candidates::All
    }
    /// Judges one node by the state and that node alone.
    fn filter(&self, state: &Self::State, node: Ref<'_, Self::Node>) -> Verdict;
    /// Whether [`filter`](Self::filter) may answer with an [error](crate::Code::Error) for some node. An error on any
    /// node ends the attempt. So if this is `true`, each decision asks about every node; otherwise it asks only about
    /// the nodes that may be chosen. The laws of the test kit check that a plugin that says `false` is right.
    fn may_err(&self, _state: &Self::State) -> bool {
        true
    }
    /// The names of nodes outside of which [`filter`](Self::filter) rejects every node, so that it need not be asked there;
    /// `None` if it must be asked everywhere. Unlike [`candidates`](Self::candidates) this changes no decision: the other
    /// nodes count as judged. The laws of the test kit check it.
    fn passes_only_on(&self, _state: &Self::State) -> Option<Vec<Str>> {
        None
    }
    /// Labels that a node must have so that it may pass, each with one of its values. Like
    /// [`passes_only_on`](Self::passes_only_on), this changes no decision.
    fn passes_only_with(&self, _state: &Self::State) -> Vec<LabelledNodes> {
        Vec::new()
    }
    /// Updates `state` after a pod came to a node or left it (AddPod, RemovePod). `node` is the node after that
    /// change.
    fn update(
        &self,
        _state: &mut Self::State,
        _change: PodChange<'_>,
        _node: Ref<'_, Self::Node>,
    ) -> Update {
        Update::Rebuild
    }
}

/// A [`PreFilter`] that shares something with the other plugins in its cycle: those that read
/// [`Shared`](crate::Shared), and from Reserve on all of them ([`Handle::shared`](crate::Handle::shared)).
pub trait ShareFilterState: PreFilter {
    /// Shares what it learnt. It may look at nothing else.
    fn share(&self, state: &Self::State, with: &mut CycleState);
}
