//! Scores say which of the feasible nodes a pod prefers. Implement [`Score`] if pod and node suffice, [`PreScore`] if
//! you need the rest of the cluster. What makes them fast is in [`accelerate`](crate::accelerate).

use crate::columns::Row;
use crate::cycle_state::CycleState;
use crate::parts::{ClusterPart, Feasible, NodePart, PodPart, Ref};
use crate::plugin::Plugin;

/// The highest score a plugin may give, before its weight.
pub const MAX_NODE_SCORE: i64 = 100;

/// How raw scores become 0 to [`MAX_NODE_SCORE`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Normalize {
    /// They are in that range already.
    #[default]
    None,
    /// They are scaled in proportion to the highest.
    Max {
        /// If so, the highest raw score becomes 0, and 0 becomes [`MAX_NODE_SCORE`].
        reverse: bool,
    },
}

impl Normalize {
    /// Brings raw scores into range. As in helper/normalize_score.go, DefaultNormalizeScore: if the highest raw score
    /// is 0, every node gets 0, or [`MAX_NODE_SCORE`] if reversed.
    pub fn apply(self, scores: &mut [Scored]) {
        let Normalize::Max { reverse } = self else { return };
        let max = scores.iter().map(|one| one.score).max().unwrap_or(0);
        for one in scores {
            let share = if max == 0 { 0 } else { MAX_NODE_SCORE * one.score / max };
            one.score = if reverse { MAX_NODE_SCORE - share } else { share };
        }
    }
}

/// The score of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scored {
    /// Which node.
    pub row: Row,
    /// Its score: raw first, then 0 to [`MAX_NODE_SCORE`].
    pub score: i64,
}

/// How much a pod prefers a node, judged from that pod and that node alone.
pub trait Score: Plugin {
    /// What it reads of the pod.
    type Pod: PodPart;
    /// What it reads of the node.
    type Node: NodePart;
    /// How raw scores become 0 to 100. It is data, so that the engine can follow changes of the highest raw score.
    const NORMALIZE: Normalize = Normalize::None;
    /// `false`: the plugin gives this pod no scores (Skip).
    fn applies(&self, _pod: Ref<'_, Self::Pod>) -> bool {
        true
    }
    /// Why the pod cannot be scored, whatever the nodes: an error at PreScore. It ends the attempt if nodes are scored,
    /// which happens if more than one is feasible.
    fn error(&self, _pod: Ref<'_, Self::Pod>) -> Option<String> {
        None
    }
    /// The raw score of one node.
    fn score(&self, pod: Ref<'_, Self::Pod>, node: Ref<'_, Self::Node>) -> i64;
}

/// A score that must first look at the feasible nodes or the rest of the cluster.
pub trait PreScore: Plugin {
    /// What it reads of the pod.
    type Pod: PodPart;
    /// What it reads of the nodes it scores.
    type Node: NodePart;
    /// What it reads of everything else.
    type Cluster: ClusterPart;
    /// What it has learnt. It cannot borrow: clone or share what it keeps.
    type State: Clone + Send + Sync + 'static;
    /// `false`: the plugin gives this pod no scores (Skip), whatever the cluster.
    fn applies(&self, _pod: Ref<'_, Self::Pod>) -> bool {
        true
    }
    /// `false`: the plugin gives this pod no scores (Skip), whatever the nodes. Of `cluster`, only what is not of nodes
    /// may be read. Called only if the score [applies](Self::applies).
    fn applies_in(&self, _pod: Ref<'_, Self::Pod>, _cluster: Ref<'_, Self::Cluster>) -> bool {
        true
    }
    /// `true`: the plugin gives every node the same score, whatever the nodes, so that it has no influence on the choice.
    /// Of `cluster`, only what is not of nodes may be read. Called only if the score [applies](Self::applies).
    fn is_constant(&self, _pod: Ref<'_, Self::Pod>, _cluster: Ref<'_, Self::Cluster>) -> bool {
        false
    }
    /// Looks at the feasible nodes and the cluster. `None`: the plugin gives no scores (Skip).
    fn pre_score(
        &self,
        pod: Ref<'_, Self::Pod>,
        feasible: Feasible<'_, Self::Node>,
        cluster: Ref<'_, Self::Cluster>,
    ) -> Option<Self::State>;
    /// The raw score of one node.
    fn score(&self, state: &Self::State, row: Row, node: Ref<'_, Self::Node>) -> i64;
    /// Brings raw scores into 0 to [`MAX_NODE_SCORE`] (NormalizeScore).
    fn normalize(&self, _state: &Self::State, _scores: &mut [Scored]) {}
}

/// A [`PreScore`] that shares something with the other plugins in its cycle: those that read
/// [`Shared`](crate::Shared), and from Reserve on all of them ([`Handle::shared`](crate::Handle::shared)). Its pods are
/// decided from scratch. Where there is only one feasible node no plugin scores, and nothing is shared.
pub trait ShareScoreState: PreScore {
    /// Shares what it learnt.
    fn share(&self, state: &Self::State, with: &mut CycleState);
}
