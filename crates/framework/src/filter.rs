//! Filters: on which nodes a pod may run. Two levels, each one sentence: [`Filter`] judges a pod and a node,
//! [`PreFilter`] a pod, a node and a state that it has prepared from the cluster. What makes either fast stands in
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
    /// Nodes with these names; a name that no node has counts for nothing.
    Only(BTreeSet<Str>),
}

/// Whether a pod may run on a node, judged from that pod and that node alone.
pub trait Filter: Plugin {
    /// What it reads of the pod.
    type Pod: PodPart;
    /// What it reads of the node.
    type Node: NodePart;
    /// `false`: every node passes, because of the pod.
    fn applies(&self, _pod: Ref<'_, Self::Pod>) -> bool {
        true
    }
    /// The only nodes worth asking, where the pod itself names them. An error rejects the pod for all
    /// nodes. Such a plugin also stands at PreFilter: [`Builder::at`](crate::Builder::at).
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

    /// By how much it changes a count of pods: 1 or -1.
    pub fn sign(self) -> i32 {
        match self {
            PodChange::Added(_) => 1,
            PodChange::Removed(_) => -1,
        }
    }
}

/// Whether a state is right after it was told of a pod that came or left. Decisions use it either way, as those of
/// kube-scheduler do; the laws of the test kit hold the plugin to what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// It is: it says of every node what a state that is made now would say.
    Exact,
    /// It may not be: it would have to be made anew.
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
    /// What it learnt from the cluster. It cannot borrow: clone or share what it keeps.
    type State: Clone + Send + Sync + 'static;
    /// `false`: every node passes, because of the pod.
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
    /// The only nodes worth asking.
    fn candidates(&self, _state: &Self::State) -> Candidates {
        Candidates::All
    }
    /// Judges one node, from nothing but the state and that node.
    fn filter(&self, state: &Self::State, node: Ref<'_, Self::Node>) -> Verdict;
    /// Keeps `state` exact after one pod came to, or left, a node (AddPod, RemovePod). The node is
    /// seen as it is now.
    fn update(
        &self,
        _state: &mut Self::State,
        _change: PodChange<'_>,
        _node: Ref<'_, Self::Node>,
    ) -> Update {
        Update::Rebuild
    }
}

/// A [`PreFilter`] that tells the other plugins of its cycle something: those that read
/// [`Shared`](crate::Shared), and from Reserve on all of them ([`Handle::shared`](crate::Handle::shared)).
pub trait ShareFilterState: PreFilter {
    /// Shares what it learnt. It may look at nothing else.
    fn share(&self, state: &Self::State, with: &mut CycleState);
}
