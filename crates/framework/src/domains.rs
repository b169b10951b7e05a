//! Plugins whose answers depend on how pods are spread over topology domains.
//!
//! Such a plugin says what it counts: for each *term* the topology key that makes the domains, the
//! nodes on which pods count, and how much one pod counts. The engine keeps the counts exact while
//! pods come and go, and asks the plugin for a verdict or a raw score from the counts alone. So a
//! placement touches a few counters, and nodes with equal counts are judged once.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use plimsoll_api::{Labels, Pod, PodAffinity, Str};
use smallvec::SmallVec;

use crate::columns::{Columns, Row};
use crate::filter::Verdict;
use crate::parts::{NodePart, NodeReads, Ref};
use crate::score::Scored;

/// What makes the domains of a term.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TopologyKey {
    /// Nodes with the same value of this label are one domain.
    Label(Str),
    /// Every node is a domain of its own, whatever the value of this label; a node without it is
    /// [missing](TermCount::present).
    NodeWith(Str),
}

type NodeCondition = dyn Fn(&Columns, Row) -> bool + Send + Sync;

/// The nodes on which pods count for a term: all nodes, or those that meet conditions of the plugin.
///
/// ```
/// use plimsoll_framework::CountedNodes;
/// use plimsoll_framework::prelude::*;
///
/// let nodes = CountedNodes::all()
///     .that::<Labels>(|labels| labels.contains_key("rack"))
///     .that::<Unschedulable>(|is_unschedulable| !is_unschedulable);
/// ```
///
/// Each condition names the part of the node that it reads, and the engine counts again when that changes. What a
/// condition keeps of the pod is of a part of the pod that the plugin reads as a filter or score: pods that are equal
/// in those share their counts.
#[derive(Clone, Default)]
pub struct CountedNodes {
    conditions: SmallVec<[Arc<NodeCondition>; 2]>,
    reads: NodeReads,
}

impl CountedNodes {
    /// All nodes.
    pub fn all() -> Self {
        CountedNodes::default()
    }

    /// Of these nodes those that meet `condition`, too. Pods that come to a node or leave it do not change the part
    /// `N`: with another one this does not compile.
    #[must_use]
    pub fn that<N: NodePart>(
        mut self,
        condition: impl for<'a> Fn(Ref<'a, N>) -> bool + Send + Sync + 'static,
    ) -> Self {
        const { assert!(!N::READS.intersects(NodeReads::BY_PLACEMENT), "pods change this part") };
        self.conditions.push(Arc::new(move |nodes, row| condition(N::at(nodes, row))));
        self.reads |= N::READS;
        self
    }

    /// Whether the node in `row` is one of them.
    pub fn has(&self, nodes: &Columns, row: Row) -> bool {
        self.conditions.iter().all(|condition| condition(nodes, row))
    }

    /// What the conditions read of a node.
    pub fn reads(&self) -> NodeReads {
        self.reads
    }
}

impl fmt::Debug for CountedNodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CountedNodes").field("reads", &self.reads).finish_non_exhaustive()
    }
}

/// How many domains have each count. The least count is at hand while counts change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountHistogram(BTreeMap<i64, usize>);

impl CountHistogram {
    /// One more domain has this count.
    pub fn insert(&mut self, count: i64) {
        *self.0.entry(count).or_default() += 1;
    }

    /// One domain less has this count.
    ///
    /// # Panics
    /// If none has it.
    pub fn remove(&mut self, count: i64) {
        let left = self.0.get_mut(&count).expect("a count that is removed was inserted");
        *left -= 1;
        if *left == 0 {
            self.0.remove(&count);
        }
    }

    /// The least count of all; `None` if there is no domain.
    pub fn least(&self) -> Option<i64> {
        self.0.first_key_value().map(|(&least, _)| least)
    }
}

/// One thing that is counted by domain.
#[derive(Clone, Debug)]
pub struct DomainTerm {
    /// What makes the domains.
    pub key: TopologyKey,
    /// On which nodes pods count. A domain without such a node is not
    /// [in play](TermTotals::domains).
    pub nodes: CountedNodes,
}

/// A pod on a node, as far as it may decide what it counts for.
#[derive(Clone, Copy, Debug)]
pub struct Neighbour<'a> {
    /// Its namespace.
    pub namespace: &'a Str,
    /// Its labels.
    pub labels: &'a Labels,
    /// Its own terms.
    pub affinity: &'a PodAffinity,
    /// Whether it is being deleted.
    pub terminating: bool,
}

impl<'a> From<&'a Pod> for Neighbour<'a> {
    fn from(pod: &'a Pod) -> Self {
        Neighbour {
            namespace: &pod.key.namespace,
            labels: &pod.labels,
            affinity: &pod.affinity,
            terminating: pod.is_terminating(),
        }
    }
}

/// How much a pod counts: numbers of terms, each with what is added to it.
pub type Counting = SmallVec<[(u32, i64); 2]>;

/// How a node stands to one term.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TermCount {
    /// Whether the node has the label of the term's key.
    pub present: bool,
    /// What is counted in its domain; 0 where it is in none.
    pub count: i64,
}

/// What one term comes to in the whole cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TermTotals {
    /// How many domains have a node on which pods count.
    pub domains: usize,
    /// The least count among those; 0 if there is none.
    pub least: i64,
    /// The sum of all counts.
    pub total: i64,
}

/// A pod about which more is counted than this is judged from scratch: every term costs a count by domain, and a
/// look at each decision. Pods that people write have a handful. A plugin that finds more may stop there.
pub const MOST_TERMS: usize = 64;

/// What a plugin counts for one pod, and for all that are equal to it.
pub trait DomainCounter: Send + Sync {
    /// The terms. A pod on a node without the label of a term's key is not counted for it.
    fn terms(&self) -> &[DomainTerm];
    /// Whether a pod that has no affinity terms of its own may count for anything.
    fn counts_plain_pods(&self) -> bool;
    /// What `other` counts for. `None`: the terms have to be made anew, since they know nothing of pods
    /// like it.
    fn count(&self, other: Neighbour<'_>) -> Option<Counting>;
}

/// A filter that judges by counts.
pub trait DomainFilter: DomainCounter {
    /// Whether [`verdict`](Self::verdict) reads how many domains there are and the least count of all; if
    /// not, both are 0.
    fn compares_domains(&self) -> bool;
    /// Judges nodes that stand so to each term.
    fn verdict(&self, term_counts: &[TermCount], totals: &[TermTotals]) -> Verdict;
    /// Whether the filter may say something else once it is [told](crate::PreFilter::update) that `other`
    /// came to a node or left it, as happens in thought: for nominated pods, and for preemptions. Most
    /// filters count those of whom they are told as they count all others.
    fn is_moved_by(&self, other: Neighbour<'_>) -> bool {
        self.count(other).is_none_or(|counting| !counting.is_empty())
    }
}

/// A score that judges by counts.
pub trait DomainScore: DomainCounter {
    /// Whether nodes that stand so to each term are told apart by their domains at all: those that are
    /// not count for no [`domains`](Self::raw).
    fn is_ranked(&self, term_counts: &[TermCount]) -> bool;
    /// Whether [`raw`](Self::raw) reads how many domains there are; if not, it is given none.
    fn reads_domains(&self) -> bool;
    /// The raw score of nodes that stand so to each term. `domains`: for each term, how many domains have
    /// a feasible node that is [ranked](Self::is_ranked), where the nodes without the label are one
    /// domain; for [`TopologyKey::NodeWith`] it is the number of such nodes.
    fn raw(&self, term_counts: &[TermCount], domains: &[usize]) -> i64;
    /// Brings raw scores into range. What becomes of one depends on the set of all raw scores, not on
    /// how often each is there.
    fn normalize(&self, scores: &mut [Scored]);
}

/// The pods on nodes that have affinity terms of their own, one of each kind that [`Neighbour`] tells
/// apart.
pub type Neighbours<'a> = &'a [Neighbour<'a>];

/// Whether a plugin judges a pod by counts.
pub enum ByDomain<T: ?Sized> {
    /// It does not.
    Unsupported,
    /// It has nothing to say about the pod, whatever pods come and go, as long as its other reads stay.
    Skips,
    /// It does.
    Counts(Box<T>),
}
