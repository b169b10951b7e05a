//! Acceleration: what makes a rule fast. All of it is optional, and none of it is part of the rule.
//!
//! A plugin's rule is its [`Filter`], [`PreFilter`], [`Score`] or [`PreScore`]. Decisions made from scratch use nothing
//! else. The traits here state the same rule in a form that the engine can remember, or can apply to all nodes at once.
//! A plugin that implements none of them makes the same decisions, but takes longer.
//!
//! | trait | in addition to | the plugin also says | what the engine saves |
//! |---|---|---|---|
//! | [`FilterByAmounts`] | [`Filter`] | what a node must have left of each resource | asking about nodes that lack it |
//! | [`FilterByCounts`] | [`PreFilter`] | which pods it counts in topology domains | a look at every pod |
//! | [`FilterByKey`] | [`PreFilter`] | on what its verdicts depend | asking about nodes again |
//! | [`ScoreByAmounts`] | [`Score`] | how high scores can be | asking about nodes that cannot be the best |
//! | [`ScoreByCounts`] | [`PreScore`] | which pods it counts in topology domains | a look at every pod |
//! | [`ScoreByNode`] | [`PreScore`] | the state, without the feasible nodes | scoring unchanged nodes again |
//! | [`ScoreOnDemand`] | [`PreScore`] | the same, and the highest score there may be | scoring nodes that cannot be the best |
//!
//! The results of a [`Filter`] or a [`Score`] are remembered without any of these traits.
//!
//! Each trait is registered by the method of [`Builder`](crate::Builder) that has its name, after the point itself:
//!
//! ```
//! # use plimsoll_framework::prelude::*;
//! # struct Cpus;
//! # impl Plugin for Cpus {
//! #     const NAME: &'static str = "Cpus";
//! #     type Args = NoArgs;
//! #     fn new(_: NoArgs, _: &FeatureGates) -> Self {
//! #         Cpus
//! #     }
//! # }
//! impl Filter for Cpus {
//!     type Pod = Requests;
//!     type Node = (Allocatable, Requested);
//!     fn filter(&self, pod: &Resources, (all, taken): (&Allocatable, &Requested)) -> Verdict {
//!         match pod.milli_cpu <= all.0.milli_cpu.saturating_sub(taken.0.milli_cpu) {
//!             true => Verdict::Pass,
//!             false => Verdict::unschedulable("Insufficient cpu"),
//!         }
//!     }
//! }
//!
//! impl FilterByAmounts for Cpus {
//!     fn needs(&self, pod: &Resources) -> Option<Needs> {
//!         Some(Needs([("cpu".into(), pod.milli_cpu)].into_iter().collect()))
//!     }
//! }
//!
//! let entry = Entry::of::<Cpus>().filter().filter_by_amounts().done();
//! assert_eq!(entry.points().len(), 1);
//! ```
//!
//! The laws of the test kit compare each of these traits with the rule, for every plugin that registers it, in random
//! clusters. [`Entry::plain`](crate::Entry::plain) is the plugin without any of them.

use std::hash::Hash;

use plimsoll_api::AnyObject;

use crate::columns::Row;
use crate::domains::{ByDomain, DomainFilter, DomainScore, Neighbours};
use crate::filter::{Filter, PreFilter};
use crate::parts::{ClusterPart, Ref};
use crate::score::{Normalize, PreScore, Score};
use crate::supply::{Needs, ScoreBound};
use crate::verdict_key::ConcernedNodes;

/// A [`Filter`] that can state its rule as amounts.
pub trait FilterByAmounts: Filter {
    /// The rule as data: a node passes if, and only if, it has this left. `None` if the rule for this pod is a
    /// different one. Called only if the filter [applies](Filter::applies).
    fn needs(&self, pod: Ref<'_, Self::Pod>) -> Option<Needs>;
}

/// A [`PreFilter`] that can judge by counts, which the engine keeps up to date while pods come and go.
pub trait FilterByCounts: PreFilter {
    /// What it reads of the cluster to know what to count. It may read nothing of nodes: the engine counts there.
    type Objects: ClusterPart;
    /// What is counted for the pod, and the verdicts that follow. `neighbours` are pods on nodes. Called only if the
    /// filter [applies](PreFilter::applies).
    fn by_domain(
        &self,
        pod: Ref<'_, Self::Pod>,
        objects: Ref<'_, Self::Objects>,
        neighbours: Neighbours<'_>,
    ) -> ByDomain<dyn DomainFilter>;
}

/// A [`PreFilter`] that judges by the pod itself, such as by its claims, so that its verdicts cannot be remembered for equal
/// pods. They are remembered for states of equal keys: two such states give a node the same verdict, as long as neither the
/// parts of the node change that the filter reads, nor an object that [concerns](Self::concerns) the node.
///
/// A key is worth the memory if many pods have it: the zones of a volume are a good key, its name is none.
pub trait FilterByKey: PreFilter {
    /// What verdicts depend on beside the node.
    type Key: Eq + Hash + Send + Sync + 'static;
    /// The key of a state; `None` if nothing is remembered for it.
    fn key(&self, state: &Self::State, cluster: Ref<'_, Self::Cluster>) -> Option<Self::Key>;
    /// The approximate size of a key in bytes, with what it has elsewhere.
    fn key_bytes(&self, key: &Self::Key) -> usize;
    /// The nodes on which the verdict for this state may differ from those for others of its key.
    fn exceptions(&self, _state: &Self::State, _cluster: Ref<'_, Self::Cluster>) -> Vec<Row> {
        Vec::new()
    }
    /// `false`: a verdict on this node may depend on objects of which [`concerns`](Self::concerns) does not know it, so that it
    /// is not remembered.
    fn may_keep(&self, _state: &Self::State, _node: Ref<'_, Self::Node>) -> bool {
        true
    }
    /// The nodes on which the verdicts for some key may depend on this object. It is asked about an object as it was before a
    /// change, and as it is after it, after the change in both cases. Objects that are in the key concern no node.
    fn concerns(&self, object: &AnyObject, cluster: Ref<'_, Self::Cluster>) -> ConcernedNodes;
}

/// A [`Score`] that can bound the scores of all nodes at once. Its raw scores must be
/// [in range](crate::Normalize::None).
pub trait ScoreByAmounts: Score {
    /// An upper bound of the scores, computed from amounts. `None` if there is none for this pod. Called only if the
    /// score [applies](Score::applies).
    fn bound(&self, pod: Ref<'_, Self::Pod>) -> Option<Box<dyn ScoreBound>>;
}

/// A [`PreScore`] that can score by counts, which the engine keeps up to date while pods come and go.
pub trait ScoreByCounts: PreScore {
    /// What it reads of the cluster to know what to count. It may read nothing of nodes: the engine counts there.
    type Objects: ClusterPart;
    /// What is counted for the pod, and the scores that follow. `neighbours` are pods on nodes. Called only if the
    /// score [applies](PreScore::applies_in).
    fn by_domain(
        &self,
        pod: Ref<'_, Self::Pod>,
        objects: Ref<'_, Self::Objects>,
        neighbours: Neighbours<'_>,
    ) -> ByDomain<dyn DomainScore>;
}

/// A [`PreScore`] whose scores do not depend on which nodes are feasible: the score of a node is valid until something
/// that the plugin reads changes. Its raw scores must be in range, and it must share nothing with other plugins. Equal
/// states give equal scores; so when the cluster changes, nodes are scored again only if the state does.
pub trait ScoreByNode: PreScore<State: PartialEq> {
    /// The state that [`PreScore::pre_score`] makes, whichever nodes are feasible. `None`: the plugin gives no scores
    /// (Skip). Called only if the score [applies](PreScore::applies_in).
    fn state(
        &self,
        pod: Ref<'_, Self::Pod>,
        cluster: Ref<'_, Self::Cluster>,
    ) -> Option<Self::State>;
}

/// A [`PreScore`] whose scores do not depend on which nodes are feasible, but on objects of the pod itself, such as its
/// claims. So they cannot be remembered for equal pods. It is asked about the best nodes by all other scores, until no
/// node can be better. It must share nothing with other plugins.
pub trait ScoreOnDemand: PreScore {
    /// How raw scores become 0 to 100, as [`PreScore::normalize`] does it. A higher raw score may not become a lower one.
    const NORMALIZE: Normalize = Normalize::None;
    /// The state that [`PreScore::pre_score`] makes, whichever nodes are feasible. `None`: the plugin gives no scores
    /// (Skip). Called only if the score [applies](PreScore::applies_in).
    fn state(
        &self,
        pod: Ref<'_, Self::Pod>,
        cluster: Ref<'_, Self::Cluster>,
    ) -> Option<Self::State>;
    /// An upper bound of the raw scores. Where a node has it, worse nodes are not asked about.
    fn highest(&self, state: &Self::State) -> i64;
}
