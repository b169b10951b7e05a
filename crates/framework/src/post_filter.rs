//! After no node was found: PostFilter, and what a plugin may try there.

use plimsoll_api::{PodKey, Str};

use crate::columns::Row;
use crate::erased::Prepared;
use crate::filter::{PodChange, Verdict};
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
    /// The pods that must go.
    pub victims: Vec<PodKey>,
}

/// What a PostFilter plugin came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PostFilterAnswer {
    /// A node can be made to fit. No further plugin is asked.
    Nominated(Nomination),
    /// Nothing can be done; the next plugin is asked. The reasons of all plugins are joined by commas;
    /// an empty one says nothing.
    Unschedulable(Reason),
    /// Nothing can be done, and no further plugin is asked.
    Stop(Reason),
    /// It could not be judged. No further plugin is asked. The reason is told alone, and the pod is
    /// unschedulable all the same.
    Error(Reason),
}

/// The cluster as it would be without some pods: one node at a time, and never a copy of the cluster.
#[derive(Debug)]
pub struct WhatIf<'a> {
    pod: &'a PodInfo,
    filters: &'a [Prepared],
    view: View<'a>,
}

impl<'a> WhatIf<'a> {
    /// What-ifs for `pod`, whose `filters` have been prepared against `view`.
    pub fn new(pod: &'a PodInfo, filters: &'a [Prepared], view: View<'a>) -> Self {
        WhatIf { pod, filters, view }
    }

    /// The cluster as it is.
    pub fn view(&self) -> &View<'a> {
        &self.view
    }

    /// The verdict on `row` if the pods `without` were not there and the pods `with` were.
    pub fn judge(&self, row: Row, without: &[PodKey], with: &[PodInfo]) -> Verdict {
        let mut scratch = self.view.nodes.scratch(row);
        let only = Row::from_index(0);
        let mut filters = self.filters.to_vec();
        for key in without {
            if let Some(gone) = scratch.displace(only, key) {
                for filter in &mut filters {
                    filter.update(PodChange::Removed(&gone), &scratch, only);
                }
            }
        }
        for pod in with {
            scratch.place(only, pod);
            for filter in &mut filters {
                filter.update(PodChange::Added(pod), &scratch, only);
            }
        }
        let verdicts = filters.iter().map(|filter| filter.judge_one(self.pod, &scratch, only));
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
