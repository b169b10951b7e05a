//! Plugins whose verdicts or scores depend on how pods are spread over topology domains.
//!
//! Such a plugin says what it counts: for each *term* the topology key that defines the domains, the
//! nodes on which pods count, and how much one pod counts. The engine keeps the counts up to date while
//! pods come and go, and asks the plugin for a verdict or a raw score by the counts alone. A placement
//! therefore changes only a few counters, and nodes with equal counts are judged once.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use plimsoll_api::{Labels, Node, Pod, PodAffinity, Selector, Str};
use smallvec::SmallVec;

use crate::columns::{Columns, Row};
use crate::filter::Verdict;
use crate::parts::{NodePart, NodeReads, Ref};
use crate::score::Scored;

/// How nodes are grouped into the domains of a term.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TopologyKey {
    /// Nodes with the same value of this label are one domain.
    Label(Str),
    /// Nodes with the same value of the first of these labels that they have are one domain. An empty value counts
    /// as no domain. For labels that have an older name.
    EitherLabel(Str, Str),
    /// Every node is a domain of its own, whatever the value of this label. A node without the label is not
    /// [present](TermCount::present).
    NodeWith(Str),
    /// Every node is a domain of its own.
    Node,
}

impl TopologyKey {
    /// What all nodes of the domain of `node` have in common, and no others: the value of a label, or the name of
    /// the node. `None` if the node is in no domain.
    pub fn domain<'a>(&self, node: &'a Node) -> Option<&'a Str> {
        let value = |label: &Str| node.labels.get(label);
        match self {
            TopologyKey::Label(label) => value(label),
            TopologyKey::EitherLabel(first, second) => {
                value(first).or_else(|| value(second)).filter(|value| !value.is_empty())
            }
            TopologyKey::NodeWith(label) => value(label).map(|_| &node.name),
            TopologyKey::Node => Some(&node.name),
        }
    }

    /// Whether every node is a domain of its own.
    pub fn is_by_node(&self) -> bool {
        matches!(self, TopologyKey::NodeWith(_) | TopologyKey::Node)
    }
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
/// Each condition names the part of the node that it reads, and the engine counts again when that part changes. A
/// condition may keep data of the pod, but only from parts that the plugin reads as a filter or score, because pods
/// that are equal in those parts share their counts.
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

    /// Keeps only the nodes that meet `condition`, too. Pods that come to a node or leave it must not change the part
    /// `N`; this is checked at compile time.
    #[must_use]
    pub fn that<N: NodePart>(
        mut self,
        condition: impl for<'a> Fn(Ref<'a, N>) -> bool + Send + Sync + 'static,
    ) -> Self {
        const { assert!(!N::READS.intersects(NodeReads::BY_PLACEMENT), "placements change this part") };
        self.conditions.push(Arc::new(move |nodes, row| condition(N::at(nodes, row))));
        self.reads |= N::READS;
        self
    }

    /// Whether the node in `row` is one of them.
    #[inline]
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

/// How many domains have each count. It gives the lowest count while counts change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountHistogram(BTreeMap<i64, usize>);

impl CountHistogram {
    /// Adds a domain with this count.
    pub fn insert(&mut self, count: i64) {
        *self.0.entry(count).or_default() += 1;
    }

    /// Removes a domain with this count.
    ///
    /// # Panics
    /// If no domain has this count.
    pub fn remove(&mut self, count: i64) {
        let left = self.0.get_mut(&count).expect("a count that is removed was inserted");
        *left -= 1;
        if *left == 0 {
            self.0.remove(&count);
        }
    }

    /// The lowest count; `None` if there is no domain.
    pub fn least(&self) -> Option<i64> {
        self.0.first_key_value().map(|(&least, _)| least)
    }

    /// The lowest count of all domains but one, which has this count.
    pub fn least_without(&self, count: i64) -> Option<i64> {
        let mut others = self.0.iter().filter(|&(&other, &n)| other != count || 1 < n);
        others.next().map(|(&least, _)| least)
    }
}

/// One thing that is counted by domain.
#[derive(Clone, Debug)]
pub struct DomainTerm {
    /// The key that defines the domains.
    pub key: TopologyKey,
    /// The nodes on which pods count. A domain without such a node is not [counted](TermTotals::domains).
    pub nodes: CountedNodes,
}

/// The properties of a pod on a node by which a plugin counts it.
#[derive(Clone, Copy, Debug)]
pub struct Neighbour<'a> {
    /// Its namespace.
    pub namespace: &'a Str,
    /// Its labels.
    pub labels: &'a Labels,
    /// Its own affinity terms.
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

/// What a pod counts for: indexes of terms, each with the number to add.
pub type Counting = SmallVec<[(u32, i64); 2]>;

/// The state of a node for one term.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TermCount {
    /// Whether the node has the label of the term's key.
    pub present: bool,
    /// The count in its domain; 0 if it is in none.
    pub count: i64,
    /// Whether the [first node](DomainFilter::first_of) of the filter is in the same domain.
    pub with_first: bool,
}

/// The totals of one term in the whole cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TermTotals {
    /// The number of domains with a node on which pods count.
    pub domains: usize,
    /// The lowest count of these domains; 0 if there is none.
    pub least: i64,
    /// The sum of all counts.
    pub total: i64,
    /// Whether there is a [first node](DomainFilter::first_of), and it has the label of the term's key.
    pub first_present: bool,
}

/// A pod with more terms than this is judged from scratch, because every term costs a counter in each domain and work
/// in each decision. Pods in practice have a handful. A plugin that finds more may stop there.
pub const MOST_TERMS: usize = 64;

/// What a plugin counts for pods that are equal in all that it reads.
pub trait DomainCounter: Send + Sync {
    /// The terms. A pod on a node without the label of a term's key is not counted for it.
    fn terms(&self) -> &[DomainTerm];
    /// Whether a pod without affinity terms of its own may count for anything.
    fn counts_plain_pods(&self) -> bool;
    /// Label selectors: a pod without affinity terms of its own counts for something only if one of them selects its
    /// labels. The engine then looks for such pods by the labels that the selectors ask for, which matters if there are thousands of
    /// Deployments. `None` if no selectors say so.
    fn plain_pod_selectors(&self) -> Option<Vec<&Selector>> {
        None
    }
    /// What `other` counts for. `None`: the terms must be made again, because they do not cover pods
    /// like it.
    fn count(&self, other: Neighbour<'_>) -> Option<Counting>;
}

/// A filter that judges by counts.
pub trait DomainFilter: DomainCounter {
    /// Whether [`verdict`](Self::verdict) reads the number of domains and the lowest count. If not, both are given
    /// as 0.
    fn compares_domains(&self) -> bool;
    /// The term whose *first node* matters, if one does: the node with the smallest name on which the term counts
    /// any pod. The [key](DomainTerm::key) of the term is [`TopologyKey::Node`]. Then
    /// [`with_first`](TermCount::with_first) and [`first_present`](TermTotals::first_present) are given for all
    /// terms of the filter; otherwise both are `false`. If a key has too many domains, the pod is judged from scratch.
    fn first_of(&self) -> Option<usize> {
        None
    }
    /// Judges nodes by their standing for each term.
    fn verdict(&self, term_counts: &[TermCount], totals: &[TermTotals]) -> Verdict;
    /// Whether [`count_in_dry_run`](Self::count_in_dry_run) says what an [update](crate::PreFilter::update) of the rule
    /// does. If not, a pod is judged from scratch where that matters.
    fn follows_dry_runs(&self) -> bool {
        false
    }
    /// Whether the rule skips the pod with these totals. Then it judges no node and follows no dry run, whatever pods
    /// come there. Needed only if the filter follows dry runs.
    fn skips(&self, _totals: &[TermTotals]) -> bool {
        false
    }
    /// What `other` counts for in an update of the rule. Such updates come from dry runs, for nominated pods and
    /// preemption. By default it is what `other` [counts for](DomainCounter::count).
    fn count_in_dry_run(&self, other: Neighbour<'_>) -> Option<Counting> {
        self.count(other)
    }
}

/// A score that judges by counts.
pub trait DomainScore: DomainCounter {
    /// Whether nodes with this standing for each term are ranked by their domains. Nodes that are not are left out of
    /// the number of [domains](Self::weight).
    fn is_ranked(&self, term_counts: &[TermCount]) -> bool;
    /// Whether [`raw`](Self::raw) reads the weights of terms. If not, it is given none.
    fn reads_domains(&self) -> bool;
    /// The weight of a term for [`raw`](Self::raw), which is asked for once for all nodes. `domains` is the number of domains
    /// with a feasible node that is [ranked](Self::is_ranked); the nodes without the label form one domain. For
    /// [`TopologyKey::NodeWith`] it is the number of such nodes.
    fn weight(&self, _domains: usize) -> f64 {
        0.0
    }
    /// The raw score of nodes with this standing for each term. `weights` has the [weight](Self::weight) of each.
    fn raw(&self, term_counts: &[TermCount], weights: &[f64]) -> i64;
    /// Brings raw scores into range. The result for a score may depend on the set of all raw scores, but not on
    /// how often each occurs. By default they stay as they are.
    fn normalize(&self, _: &mut [Scored]) {}
    /// Brings raw scores into range in place of [`normalize`](Self::normalize), if that takes more than the scores.
    fn by_group(&self) -> Option<&dyn NormalizeByGroup> {
        None
    }
}

/// Feasible nodes with the same raw score that are in the same domains.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScoredGroup {
    /// Their raw score, and after normalizing their score.
    pub score: i64,
    /// How many they are; at least one.
    pub len: i64,
    /// The number of their domain for each of the [terms](NormalizeByGroup::terms); `None` if they are in none. Of
    /// a term, equal numbers are equal domains, and say nothing else.
    pub domains: SmallVec<[Option<u32>; 2]>,
}

/// Brings scores into range that depend on how many nodes have each raw score, in the whole cluster or in a domain.
pub trait NormalizeByGroup {
    /// The terms whose domains are needed, as indexes of [`DomainCounter::terms`]. If a key has too many domains, the
    /// pod is judged from scratch.
    fn terms(&self) -> &[usize];
    /// Normalises the scores of all feasible nodes. There may be several groups with the same score and domains.
    fn normalize(&self, groups: &mut [ScoredGroup]);
}

/// The pods on nodes that have affinity terms of their own, without duplicates: no two are equal as a
/// [`Neighbour`].
pub type Neighbours<'a> = &'a [Neighbour<'a>];

/// Whether a plugin judges a pod by counts.
pub enum ByDomain<T: ?Sized> {
    /// It cannot.
    Unsupported,
    /// It does not apply to the pod. Pods that come and go do not change this, only what else it reads may.
    Skips,
    /// It can, with these counts.
    Counts(Box<T>),
}
