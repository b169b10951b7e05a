//! PostFilter, which runs after no node was found, and the dry runs that its plugins may use.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use plimsoll_api::{PodKey, Str};

use crate::binding::Handle;
use crate::candidate_nodes::{CandidateNode, NO_CANDIDATE};
use crate::columns::{Columns, Row};
use crate::cycle_state::{CycleState, NOTHING_SHARED};
use crate::erased::Prepared;
use crate::filter::{PodChange, Verdict};
use crate::nominated::NominatedPods;
use crate::parts::ClusterPart;
use crate::plugin::Plugin;
use crate::pod_info::PodInfo;
use crate::pod_set::PodSet;
use crate::status::{Code, Reason, Rejection};
use crate::stores::Stores;
use crate::view::View;

/// Why one node was rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRejection {
    /// The node.
    pub row: Row,
    /// The first plugin that rejected it, in the order of the profile.
    pub plugin: &'static str,
    /// Its rejection.
    pub rejection: Rejection,
}

/// A node that is to be cleared for a pod, and the pods that must go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nomination {
    /// The name of the node.
    pub node: Str,
    /// The pods to evict, the most important first. Pods that are terminating already are not
    /// among them.
    pub victims: Vec<PodKey>,
    /// How many of the evictions violate a PodDisruptionBudget. It is negative only if an extender said so.
    pub broken_budgets: i64,
    /// Added to the pod's message after the reasons why no node was found; empty for nothing.
    pub says: Reason,
}

/// The answer of a PostFilter plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PostFilterAnswer {
    /// Room can be made on a node. No further plugin is asked.
    Nominated(Nomination),
    /// Nothing can be done now; the next plugin is asked. The reasons of all plugins are joined by commas. An empty
    /// reason is left out.
    Unschedulable(Reason),
    /// Nothing can be done, and a node that was cleared for the pod earlier is of no use either; the
    /// next plugin is asked.
    Hopeless(Reason),
    /// Nothing can be done, and no further plugin is asked.
    Stop(Reason),
    /// The plugin failed. No further plugin is asked. Its reason is reported alone, and the pod is still
    /// unschedulable.
    Error(Reason),
}

/// Answers what would happen with other pods on one node. It copies only that node, never the cluster.
#[derive(Clone, Copy, Debug)]
pub struct DryRun<'a> {
    pod: &'a PodInfo,
    filters: &'a [Prepared],
    looked: &'a BTreeSet<&'static str>,
    nominated: &'a NominatedPods,
    view: View<'a>,
    shared: &'a CycleState,
}

impl<'a> DryRun<'a> {
    /// Dry runs for `pod`. Its `filters` have been prepared with `view`. `looked` are the plugins that ran for it at
    /// PreFilter. Nothing is shared.
    pub fn new(
        pod: &'a PodInfo,
        filters: &'a [Prepared],
        looked: &'a BTreeSet<&'static str>,
        nominated: &'a NominatedPods,
        view: View<'a>,
    ) -> Self {
        DryRun { pod, filters, looked, nominated, view, shared: &NOTHING_SHARED }
    }

    /// The same with what plugins have shared in this cycle.
    #[must_use]
    pub fn sharing(self, shared: &'a CycleState) -> Self {
        DryRun { shared, ..self }
    }

    /// What plugins have shared in this cycle.
    pub fn shared(&self) -> &'a CycleState {
        self.shared
    }

    /// The pod for which there is no node.
    pub fn pod(&self) -> &'a PodInfo {
        self.pod
    }

    /// Whether the plugin named `plugin` ran at PreFilter for the pod. It did not if an earlier plugin rejected the
    /// pod there.
    pub fn has_looked(&self, plugin: &str) -> bool {
        self.looked.contains(plugin)
    }

    /// The cluster as it is.
    pub fn view(&self) -> &View<'a> {
        &self.view
    }

    /// A copy of the node in `row`, to be changed.
    pub fn node(&self, row: Row) -> NodeDryRun<'a> {
        let ahead = self.nominated.ahead_of(self.pod, self.view.nodes.name_of(row));
        NodeDryRun::new(self.pod, self.filters, ahead, self.view.nodes.scratch(row))
    }
}

/// One node as it would be with other pods on it.
#[derive(Clone, Debug)]
pub struct NodeDryRun<'a> {
    pod: &'a PodInfo,
    /// The nominated pods for which it must have room, too.
    ahead: Vec<PodInfo>,
    /// The columns of this node alone.
    scratch: Columns,
    /// Owned if some filter has a state that follows pods that come and go.
    filters: Cow<'a, [Prepared]>,
}

/// The only row of a scratch.
const ONLY: Row = Row::FIRST;

impl<'a> NodeDryRun<'a> {
    /// The only node of `scratch`, judged by `filters`. It must have room for the pods `ahead` besides `pod`.
    pub fn new(
        pod: &'a PodInfo,
        filters: &'a [Prepared],
        ahead: Vec<PodInfo>,
        scratch: Columns,
    ) -> Self {
        let filters = match filters.iter().any(Prepared::follows) {
            true => Cow::Owned(filters.to_vec()),
            false => Cow::Borrowed(filters),
        };
        NodeDryRun { pod, ahead, scratch, filters }
    }

    /// Returns the memory, to be reused for the next node.
    pub fn into_scratch(self) -> Columns {
        self.scratch
    }

    /// The name of the node.
    pub fn name(&self) -> &Str {
        self.scratch.name_of(ONLY)
    }

    /// The pods on the node.
    pub fn pods(&self) -> impl ExactSizeIterator<Item = &PodInfo> {
        self.scratch.pods_on(ONLY).iter()
    }

    /// Removes a pod from the node. Returns whether it was there.
    pub fn remove(&mut self, pod: &PodKey) -> bool {
        let Some(gone) = self.scratch.displace(ONLY, pod) else { return false };
        self.follow(PodChange::Removed(&gone));
        true
    }

    /// Places a pod on the node.
    pub fn add(&mut self, pod: &PodInfo) {
        self.scratch.place(ONLY, pod);
        self.follow(PodChange::Added(pod));
    }

    /// A pod on another node comes or goes: the filters that look beyond one node follow. The columns of that node, in `row`
    /// of `nodes`, stay as they are.
    pub fn follow_elsewhere(&mut self, change: PodChange<'_>, nodes: &Columns, row: Row) {
        if let Cow::Owned(filters) = &mut self.filters {
            for filter in filters {
                filter.update(change, nodes, row);
            }
        }
    }

    fn follow(&mut self, change: PodChange<'_>) {
        if let Cow::Owned(filters) = &mut self.filters {
            for filter in filters {
                filter.update(change, &self.scratch, ONLY);
            }
        }
    }

    /// Whether the pod may run on the node as it is now. It must fit with the nominated pods ahead of it, and also
    /// without them, because they may never come. As in runtime/framework.go, RunFilterPluginsWithNominatedPods.
    pub fn verdict(&mut self) -> Verdict {
        if !self.ahead.is_empty() {
            let verdict = if matches!(self.filters, Cow::Owned(_)) {
                // Adding and removing a pod need not restore the state of a filter, so a copy is judged.
                self.clone().verdict_with_those_ahead()
            } else {
                let n_pods = self.pods().len();
                let verdict = self.verdict_with_those_ahead();
                for at in (n_pods..n_pods + self.ahead.len()).rev() {
                    self.scratch.displace_at(ONLY, at);
                }
                verdict
            };
            if !verdict.passes() {
                return verdict;
            }
        }
        self.verdict_as_it_is()
    }

    fn verdict_with_those_ahead(&mut self) -> Verdict {
        let ahead = std::mem::take(&mut self.ahead);
        for pod in &ahead {
            self.add(pod);
        }
        self.ahead = ahead;
        self.verdict_as_it_is()
    }

    fn verdict_as_it_is(&self) -> Verdict {
        let judge = |filter: &Prepared| filter.judge_one(self.pod, &self.scratch, ONLY);
        let verdicts = self.filters.iter().map(judge);
        verdicts.into_iter().find(|verdict| !verdict.passes()).unwrap_or(Verdict::Pass)
    }
}

/// Tries to make room for a pod for which no node was found.
pub trait PostFilter: Plugin {
    /// The answer, if it depends neither on nodes nor on the name of the pod. `has_looked`: whether this plugin ran at
    /// PreFilter for the pod.
    fn without_nodes(&self, _pod: &PodInfo, _has_looked: bool) -> Option<PostFilterAnswer> {
        None
    }
    /// The answer, if it does not depend on why nodes were rejected. Then it is found without asking every node again.
    /// It may depend on the pod and on objects.
    fn without_rejections(&self, _pod: &PodInfo, _view: &View<'_>) -> Option<PostFilterAnswer> {
        None
    }
    /// Looks for a way to make room. `rejected` has an entry for every node that was judged.
    fn post_filter(
        &self,
        pod: &PodInfo,
        rejected: &[NodeRejection],
        dry_run: &DryRun<'_>,
    ) -> PostFilterAnswer;
    /// The nodes among which [`post_filter`](Self::post_filter) would choose, at least one. Extenders may then remove
    /// some. `Err` is the answer if extenders have no say in it.
    fn candidate_nodes(
        &self,
        pod: &PodInfo,
        rejected: &[NodeRejection],
        dry_run: &DryRun<'_>,
    ) -> Result<Vec<CandidateNode>, PostFilterAnswer> {
        Err(self.post_filter(pod, rejected, dry_run))
    }
    /// Chooses among the nodes that extenders have left, if any. If `left` is an error, an extender failed with that
    /// message. By default the node with the smallest name is chosen.
    fn choose_candidate_node(
        &self,
        _pod: &PodInfo,
        left: Result<&[CandidateNode], &str>,
    ) -> PostFilterAnswer {
        match left.map(|left| left.iter().min_by_key(|one| &one.node)) {
            Ok(Some(first)) => PostFilterAnswer::Nominated(first.nomination()),
            Ok(None) => PostFilterAnswer::Unschedulable(NO_CANDIDATE.into()),
            Err(error) => PostFilterAnswer::Error(error.to_owned().into()),
        }
    }
}

/// A PostFilter plugin that does something about a pod without a node, such as asking for one: it writes.
pub trait AfterPostFilter: PostFilter {
    /// No node was found for `pod`, and the PostFilter plugins came to this; `nomination` may be that of another plugin.
    /// `rejected` is what [`PostFilter::post_filter`] was given; it is empty if the answer was remembered. Called once in each attempt that ends so, whether the answers were remembered or not, unless there is no node at
    /// all. The answers to what is written come to
    /// [`Answered::answered_without_node`](crate::Answered::answered_without_node).
    fn after_post_filter(
        &self,
        pod: &PodInfo,
        nomination: Option<&Nomination>,
        rejected: &[NodeRejection],
        view: &View<'_>,
        handle: &mut Handle<'_>,
    );
    /// Whether this is only for attempts in which its own PostFilter ran: a plugin before it that nominates a node, stops or
    /// fails ends the run.
    fn only_if_asked(&self) -> bool {
        false
    }
}

/// The cost of clearing a node, compared number by number; lower is better. The plugin decides what the
/// numbers mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PreemptionCost(pub [i64; 5]);

/// What it takes to clear a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreemptionCandidate {
    /// The cost.
    pub cost: PreemptionCost,
    /// The pods to evict, the most important first.
    pub victims: Arc<[PodKey]>,
}

/// What a search among places comes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FoundPlaces {
    /// How many nodes were found that can be cleared.
    pub n_found: usize,
    /// The one of them with the lowest cost, which it has. Of several it is the first by name.
    pub best: Option<(usize, PreemptionCost)>,
    /// The place where the search goes on.
    pub end: usize,
}

impl FoundPlaces {
    /// Adds what a search among further places comes to. The search goes on where that one ended. `precedes` says whether the name
    /// of the node at a place comes before that of the node at another one.
    pub fn add(&mut self, more: &FoundPlaces, precedes: impl FnOnce(usize, usize) -> bool) {
        self.n_found += more.n_found;
        self.end = more.end;
        let Some((place, cost)) = more.best else { return };
        let is_better = self.best.is_none_or(|(other, least)| match cost.cmp(&least) {
            Ordering::Equal => precedes(place, other),
            order => order == Ordering::Less,
        });
        if is_better {
            self.best = more.best;
        }
    }
}

/// The nodes whose rejection of a pod evictions might resolve, ordered by row, with what it takes to clear each. Places
/// are counted from 0. Nothing is computed for a node before it is asked for.
pub trait PreemptionCandidates {
    /// The number of nodes in the cluster.
    fn n_nodes(&self) -> usize;
    /// The number of places.
    fn n_places(&self) -> usize;
    /// The first place in a range whose node can be cleared, with its cost.
    fn next(&mut self, places: Range<usize>) -> Option<(usize, PreemptionCost)>;
    /// Searches a range until `most` nodes are found that can be cleared. Whoever remembers what it has found need not look
    /// at each node.
    fn find(&mut self, places: Range<usize>, most: usize) -> FoundPlaces {
        let mut found = FoundPlaces { end: places.start, ..FoundPlaces::default() };
        while found.n_found < most {
            let next = self.next(found.end..places.end);
            let Some((place, _)) = next else { return FoundPlaces { end: places.end, ..found } };
            let more = FoundPlaces { n_found: 1, best: next, end: place + 1 };
            found.add(&more, |place, other| self.precedes(place, other));
        }
        found
    }
    /// The name of the node at a place.
    fn node(&self, place: usize) -> &Str;
    /// Whether the name of the node at a place comes before that of the node at another one.
    fn precedes(&self, place: usize, other: usize) -> bool {
        self.node(place) < self.node(other)
    }
    /// The pods to evict from the node at a place. It must be a node that can be cleared.
    fn victims(&self, place: usize) -> Vec<PodKey>;
    /// Why the nodes that were asked for so far cannot be cleared: each reason with its number of nodes.
    fn rejections(&self) -> Vec<(&Rejection, usize)>;
}

/// A [`PostFilter`] that looks at nodes one by one, so that its results can be remembered until the node changes. It
/// must give the same answer as [`PostFilter::post_filter`].
pub trait PostFilterByNode: PostFilter {
    /// What [`select_victims`](Self::select_victims) reads besides pod and node.
    type Cluster: ClusterPart;
    /// Whether what it takes to clear a node depends on the pods of no other node. If it does depend on them, as where pods on
    /// several nodes must go together, nothing is remembered, and [`PostFilter::post_filter`] is asked.
    fn looks_at_one_node(&self, _view: &View<'_>) -> bool {
        true
    }
    /// The answer, if it can be given without a dry run on any node. `nominated`: the node that was cleared for
    /// the pod, if it is known, and why it rejects the pod.
    fn without_dry_run(
        &self,
        pod: &PodInfo,
        nominated: Option<(Row, Code)>,
        view: &View<'_>,
    ) -> Option<PostFilterAnswer>;
    /// Why [`select_victims`](Self::select_victims) would fail, if the pods on the node suffice to tell. This saves the dry run. Of the
    /// pod only the priority may be read.
    fn early_rejection(&self, _pod: &PodInfo, _on_node: &PodSet) -> Option<Rejection> {
        None
    }
    /// What it takes to clear a node. Of the pod only the priority may be read, because the result is used for all
    /// pods of that priority that filters treat alike.
    fn select_victims(
        &self,
        pod: &PodInfo,
        node: &mut NodeDryRun<'_>,
        stores: &Stores,
    ) -> Result<PreemptionCandidate, Rejection>;
    /// Chooses a node, or says why there is none. That reason must not depend on the name of the pod.
    /// `None` if only [`PostFilter::post_filter`] can give the answer.
    fn choose(
        &self,
        pod: &PodInfo,
        nodes: &mut dyn PreemptionCandidates,
    ) -> Option<PostFilterAnswer>;
}
