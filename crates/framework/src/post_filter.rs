//! After no node was found: PostFilter, and what a plugin may try there.

use std::collections::BTreeSet;

use plimsoll_api::{PodKey, Str};

use crate::columns::{Columns, Row};
use crate::erased::Prepared;
use crate::filter::{PodChange, Verdict};
use crate::nominated::NominatedPods;
use crate::plugin::Plugin;
use crate::pod_info::PodInfo;
use crate::status::{Reason, Rejection};
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
pub struct WhatIf<'a> {
    pod: &'a PodInfo,
    filters: &'a [Prepared],
    looked: &'a BTreeSet<&'static str>,
    nominated: &'a NominatedPods,
    view: View<'a>,
}

impl<'a> WhatIf<'a> {
    /// What-ifs for `pod`, whose `filters` have been prepared against `view`; `looked` names the plugins
    /// that looked at the pod at PreFilter.
    pub fn new(
        pod: &'a PodInfo,
        filters: &'a [Prepared],
        looked: &'a BTreeSet<&'static str>,
        nominated: &'a NominatedPods,
        view: View<'a>,
    ) -> Self {
        WhatIf { pod, filters, looked, nominated, view }
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
    pub fn node(&self, row: Row) -> NodeWhatIf<'a> {
        NodeWhatIf {
            pod: self.pod,
            ahead: self.nominated.ahead_of(self.pod, self.view.nodes.name_of(row)),
            scratch: self.view.nodes.scratch(row),
            filters: self.filters.to_vec(),
        }
    }
}

/// One node as it would be with other pods on it.
#[derive(Clone, Debug)]
pub struct NodeWhatIf<'a> {
    pod: &'a PodInfo,
    /// Nominated pods that must fit too.
    ahead: Vec<PodInfo>,
    /// The node alone.
    scratch: Columns,
    filters: Vec<Prepared>,
}

/// The only row of a scratch.
const ONLY: Row = Row::FIRST;

impl NodeWhatIf<'_> {
    /// The pods on the node.
    pub fn pods(&self) -> impl ExactSizeIterator<Item = &PodInfo> {
        self.scratch.pods_on(ONLY).iter()
    }

    /// Takes a pod off the node; whether it was there.
    pub fn remove(&mut self, pod: &PodKey) -> bool {
        let Some(gone) = self.scratch.displace(ONLY, pod) else { return false };
        for filter in &mut self.filters {
            filter.update(PodChange::Removed(&gone), &self.scratch, ONLY);
        }
        true
    }

    /// Puts a pod onto the node.
    pub fn add(&mut self, pod: &PodInfo) {
        self.scratch.place(ONLY, pod);
        for filter in &mut self.filters {
            filter.update(PodChange::Added(pod), &self.scratch, ONLY);
        }
    }

    /// Whether the pod may run on the node as it is now: with the nominated pods that are ahead of it,
    /// and without them, since they may never come. As in runtime/framework.go,
    /// RunFilterPluginsWithNominatedPods.
    pub fn verdict(&self) -> Verdict {
        if !self.ahead.is_empty() {
            let mut with = self.clone();
            for pod in &self.ahead {
                with.add(pod);
            }
            let verdict = with.verdict_as_it_is();
            if !verdict.passes() {
                return verdict;
            }
        }
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
    /// Looks for a way. `rejected` has an entry for every node that was judged.
    fn post_filter(
        &self,
        pod: &PodInfo,
        rejected: &[NodeRejection],
        what_if: &WhatIf<'_>,
    ) -> PostFilterAnswer;
}
