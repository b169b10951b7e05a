//! After no node was found: PostFilter, and what a plugin may try there.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use plimsoll_api::{PodKey, Str};

use crate::candidate_nodes::{CandidateNode, NO_CANDIDATE};
use crate::columns::{Columns, PodSet, Row};
use crate::erased::Prepared;
use crate::filter::{PodChange, Verdict};
use crate::nominated::NominatedPods;
use crate::parts::ClusterPart;
use crate::plugin::Plugin;
use crate::pod_info::PodInfo;
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

/// A node cleared for a pod, and the pods that must go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nomination {
    /// The name of the node.
    pub node: Str,
    /// The pods that must be told to go, the most important first. Pods that are going already are not
    /// among them.
    pub victims: Vec<PodKey>,
    /// What the pod is told of it, behind why no node was found; empty for nothing.
    pub says: Reason,
}

/// What a PostFilter plugin came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PostFilterAnswer {
    /// A node can be made to fit. No further plugin is asked.
    Nominated(Nomination),
    /// Nothing can be done now; the next plugin is asked. The reasons of all plugins are joined by commas;
    /// an empty one says nothing.
    Unschedulable(Reason),
    /// Nothing can be done, and a node that was cleared for the pod earlier is of no use either; the
    /// next plugin is asked.
    Hopeless(Reason),
    /// Nothing can be done, and no further plugin is asked.
    Stop(Reason),
    /// It could not be judged. No further plugin is asked. The reason is told alone, and the pod is
    /// unschedulable all the same.
    Error(Reason),
}

/// The cluster as it would be with other pods on one node: never a copy of the cluster.
#[derive(Clone, Copy, Debug)]
pub struct DryRun<'a> {
    pod: &'a PodInfo,
    filters: &'a [Prepared],
    looked: &'a BTreeSet<&'static str>,
    nominated: &'a NominatedPods,
    view: View<'a>,
}

impl<'a> DryRun<'a> {
    /// Dry runs for `pod`, whose `filters` have been prepared against `view`; `looked` names the plugins
    /// that looked at the pod at PreFilter.
    pub fn new(
        pod: &'a PodInfo,
        filters: &'a [Prepared],
        looked: &'a BTreeSet<&'static str>,
        nominated: &'a NominatedPods,
        view: View<'a>,
    ) -> Self {
        DryRun { pod, filters, looked, nominated, view }
    }

    /// The pod for which there is no node.
    pub fn pod(&self) -> &'a PodInfo {
        self.pod
    }

    /// Whether the plugin named `plugin` has looked at the pod at PreFilter: the rejection of an earlier
    /// one ends that.
    pub fn has_looked(&self, plugin: &str) -> bool {
        self.looked.contains(plugin)
    }

    /// The cluster as it is.
    pub fn view(&self) -> &View<'a> {
        &self.view
    }

    /// The node in `row`, to be changed.
    pub fn node(&self, row: Row) -> NodeDryRun<'a> {
        let ahead = self.nominated.ahead_of(self.pod, self.view.nodes.name_of(row));
        NodeDryRun::new(self.pod, self.filters, ahead, self.view.nodes.scratch(row))
    }
}

/// One node as it would be with other pods on it.
#[derive(Clone, Debug)]
pub struct NodeDryRun<'a> {
    pod: &'a PodInfo,
    /// Nominated pods that must fit too.
    ahead: Vec<PodInfo>,
    /// The node alone.
    scratch: Columns,
    /// A copy of its own where some filter follows pods that come and go.
    filters: Cow<'a, [Prepared]>,
}

/// The only row of a scratch.
const ONLY: Row = Row::FIRST;

impl<'a> NodeDryRun<'a> {
    /// The only node of `scratch`, judged by `filters`, where `pod` has to make room for the pods
    /// `ahead`.
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

    /// The memory of the node, to be used for the next one.
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

    /// Takes a pod off the node; whether it was there.
    pub fn remove(&mut self, pod: &PodKey) -> bool {
        let Some(gone) = self.scratch.displace(ONLY, pod) else { return false };
        self.follow(PodChange::Removed(&gone));
        true
    }

    /// Puts a pod onto the node.
    pub fn add(&mut self, pod: &PodInfo) {
        self.scratch.place(ONLY, pod);
        self.follow(PodChange::Added(pod));
    }

    fn follow(&mut self, change: PodChange<'_>) {
        if let Cow::Owned(filters) = &mut self.filters {
            for filter in filters {
                filter.update(change, &self.scratch, ONLY);
            }
        }
    }

    /// Whether the pod may run on the node as it is now: with the nominated pods that are ahead of it,
    /// and without them, since they may never come. As in runtime/framework.go,
    /// RunFilterPluginsWithNominatedPods.
    pub fn verdict(&mut self) -> Verdict {
        if !self.ahead.is_empty() {
            let verdict = if matches!(self.filters, Cow::Owned(_)) {
                // What filters have followed need not be as before after an equal step back.
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
    /// The answer where it depends neither on nodes nor on what the pod is called. `has_looked`: whether
    /// this plugin has looked at the pod at PreFilter.
    fn without_nodes(&self, _pod: &PodInfo, _has_looked: bool) -> Option<PostFilterAnswer> {
        None
    }
    /// Looks for a way. `rejected` has an entry for every node that was judged.
    fn post_filter(
        &self,
        pod: &PodInfo,
        rejected: &[NodeRejection],
        dry_run: &DryRun<'_>,
    ) -> PostFilterAnswer;
    /// The nodes among which [`post_filter`](Self::post_filter) would choose, for extenders to narrow
    /// down; at least one. Otherwise its answer, in which extenders have no say.
    fn candidate_nodes(
        &self,
        pod: &PodInfo,
        rejected: &[NodeRejection],
        dry_run: &DryRun<'_>,
    ) -> Result<Vec<CandidateNode>, PostFilterAnswer> {
        Err(self.post_filter(pod, rejected, dry_run))
    }
    /// Chooses among the nodes that extenders have left; there may be none. Otherwise says that an
    /// extender failed, and why. By default the node with the smallest name is taken.
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

/// The cost of clearing a node: compared number by number, the less the better. What the
/// numbers mean is for the plugin to say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PreemptionCost(pub [i64; 5]);

/// What it takes to clear a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreemptionCandidate {
    /// What that costs.
    pub cost: PreemptionCost,
    /// The pods that must be told to go, the most important first.
    pub victims: Arc<[PodKey]>,
}

/// The nodes that rejected a pod for something that evictions could change, by row, and what each comes
/// to. Their places are counted from 0. Nothing is found out about a node before it is asked for.
pub trait PreemptionCandidates {
    /// How many nodes there are in all.
    fn n_nodes(&self) -> usize;
    /// How many of them are here.
    fn n_places(&self) -> usize;
    /// The first place in a range whose node can be cleared.
    fn next(&mut self, places: Range<usize>) -> Option<(usize, PreemptionCost)>;
    /// The name of the node at a place.
    fn node(&self, place: usize) -> &Str;
    /// The pods that must be told to go from the node at a place that can be cleared.
    fn victims(&self, place: usize) -> Vec<PodKey>;
    /// Why nodes that were asked for cannot be cleared, each reason with the number of nodes.
    fn rejections(&self) -> Vec<(&Rejection, usize)>;
}

/// A [`PostFilter`] that looks at one node after the other, so that what it finds can be remembered
/// until something changes on the node. It must come to the same as [`PostFilter::post_filter`].
pub trait PostFilterByNode: PostFilter {
    /// What [`select_victims`](Self::select_victims) reads beside pod and node.
    type Cluster: ClusterPart;
    /// The answer where no node has to be cleared in thought. `nominated`: the node that was cleared for
    /// the pod, if it is known, and why it rejects the pod.
    fn without_dry_run(
        &self,
        pod: &PodInfo,
        nominated: Option<(Row, Code)>,
        view: &View<'_>,
    ) -> Option<PostFilterAnswer>;
    /// Why [`select_victims`](Self::select_victims) would say that the node cannot be cleared, as far as the pods on it tell
    /// that by themselves: it need not be changed in thought then. Of the pod the priority may be read.
    fn early_rejection(&self, _pod: &PodInfo, _on_node: &PodSet) -> Option<Rejection> {
        None
    }
    /// What it takes to clear a node. Of the pod nothing but the priority may be read: the answer holds
    /// for all pods of that priority that filters do not tell apart.
    fn select_victims(
        &self,
        pod: &PodInfo,
        node: &mut NodeDryRun<'_>,
        stores: &Stores,
    ) -> Result<PreemptionCandidate, Rejection>;
    /// Chooses a node, or says why there is none; the latter must not depend on the name of the pod.
    /// `None` if it can only be told by [`PostFilter::post_filter`].
    fn choose(
        &self,
        pod: &PodInfo,
        nodes: &mut dyn PreemptionCandidates,
    ) -> Option<PostFilterAnswer>;
}
