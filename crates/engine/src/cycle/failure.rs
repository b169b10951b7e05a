//! Why an attempt failed.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use plimsoll_framework::{
    Code, NodeRejection, Nomination, Point, PostFilterAnswer, Rejection, Row,
};

use crate::decision::RejectionCount;
use crate::diagnosis::{self, FitErrorCause};
use crate::filters::Filters;
use crate::profile::Profile;

/// The reason in the condition of a pod that could not be scheduled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FailureReason {
    #[default]
    Unschedulable,
    SchedulerError,
}

impl FailureReason {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            FailureReason::Unschedulable => "Unschedulable",
            FailureReason::SchedulerError => "SchedulerError",
        }
    }
}

/// Why an attempt failed. Without rejectors it is tried again after a backoff, whatever happens.
#[derive(Clone, Debug, Default)]
pub(crate) struct AttemptFailure {
    pub(crate) reason: FailureReason,
    pub(crate) message: String,
    /// The text of decision records, if it differs from the message; see [`PostFilterRun`].
    pub(crate) record: Option<String>,
    pub(crate) pre_filter: Option<(&'static str, Rejection)>,
    pub(crate) nomination: Option<Nomination>,
    /// The PostFilter plugin that made the nomination.
    pub(crate) nominated_by: &'static str,
    /// The PostFilter plugin after which no other was asked, because it nominated a node, stopped or failed; empty if all were
    /// asked.
    pub(crate) post_filter_ended_by: &'static str,
    /// Whether an earlier nomination is no longer of use. As in schedule_one.go, schedulingCycle: if
    /// there is no node at all, after an error, and if there is no PostFilter plugin that could confirm
    /// it.
    pub(crate) hopeless: bool,
    /// The plugins that rejected some node or all nodes.
    pub(crate) rejectors: BTreeSet<&'static str>,
    /// Those of them that wait for an external change.
    pub(crate) pending: BTreeSet<&'static str>,
    /// Why nodes rejected the pod, for recorders.
    pub(crate) counted: Arc<[RejectionCount]>,
}

/// The rejector of a pod when there is no node at all: only a new node can help. kube-scheduler retries
/// such a pod after each backoff, in vain.
pub(crate) const NO_NODE_REJECTOR: &str = "";

/// The rejector of a pod that cannot be read: only a change of the pod itself can help.
pub(crate) const UNREADABLE_REJECTOR: &str = "Unreadable";

/// If a part of a pod cannot be read, it is unknown on which node it belongs. No plugin is called, so
/// no pods are evicted and no nodes are added for it.
pub(super) fn unreadable(why: &str) -> AttemptFailure {
    AttemptFailure {
        reason: FailureReason::SchedulerError,
        message: format!("the pod cannot be read: {why}; correct the field, or delete the pod"),
        hopeless: true,
        rejectors: BTreeSet::from([UNREADABLE_REJECTOR]),
        ..AttemptFailure::default()
    }
}

/// A plugin rejected the pod after its node was chosen (Reserve, Permit, PreBind). As in
/// schedule_one.go, the message names only that one node.
pub(crate) fn rejected_on_its_node(plugin: &'static str, why: &Rejection) -> AttemptFailure {
    let node = NodeRejection { row: Row::from_index(0), plugin, rejection: why.clone() };
    let mut failure = AttemptFailure {
        message: diagnosis::fit_error(1, &FitErrorCause::Nodes(&[node])),
        ..AttemptFailure::default()
    };
    failure.blame(plugin, why.code);
    failure
}

pub(super) fn no_nodes() -> AttemptFailure {
    AttemptFailure {
        message: diagnosis::NO_NODES.to_owned(),
        rejectors: BTreeSet::from([NO_NODE_REJECTOR]),
        hopeless: true,
        ..AttemptFailure::default()
    }
}

pub(super) fn no_node_fits(
    n_nodes: usize,
    filters: &Filters,
    rejected: &[NodeRejection],
) -> AttemptFailure {
    let mut failure = AttemptFailure {
        message: diagnosis::fit_error(n_nodes, &FitErrorCause::Nodes(rejected)),
        rejectors: filters.narrowed_by().clone(),
        counted: diagnosis::counted(rejected.iter().map(|node| (node.plugin, &node.rejection, 1))),
        ..AttemptFailure::default()
    };
    for node in rejected {
        failure.blame(node.plugin, node.rejection.code);
    }
    failure
}

impl AttemptFailure {
    /// A failure because of an error.
    pub(crate) fn error(message: String) -> Self {
        let reason = FailureReason::SchedulerError;
        AttemptFailure { reason, message, hopeless: true, ..AttemptFailure::default() }
    }

    pub(crate) fn blame(&mut self, plugin: &'static str, code: Code) {
        self.rejectors.insert(plugin);
        if code == Code::Pending {
            self.pending.insert(plugin);
        }
    }

    /// Records the answer of a PostFilter plugin, and returns whether to call the next one.
    pub(super) fn take_in(
        &mut self,
        plugin: &'static str,
        answer: PostFilterAnswer,
        said: &mut Vec<String>,
    ) -> ControlFlow<()> {
        let goes_on =
            matches!(answer, PostFilterAnswer::Unschedulable(_) | PostFilterAnswer::Hopeless(_));
        if !goes_on {
            self.post_filter_ended_by = plugin;
        }
        match answer {
            PostFilterAnswer::Nominated(nomination) => {
                *said = vec![nomination.says.to_string()];
                self.nomination = Some(nomination);
                self.nominated_by = plugin;
                return ControlFlow::Break(());
            }
            PostFilterAnswer::Unschedulable(reason) => said.push(reason.to_string()),
            PostFilterAnswer::Hopeless(reason) => {
                self.hopeless = true;
                said.push(reason.to_string());
            }
            // As in schedule_one.go, schedulingCycle: the error is reported, but the pod still counts
            // as unschedulable because no node is feasible.
            PostFilterAnswer::Error(reason) => {
                self.record = Some(format!("postfilter error: {reason}"));
                self.hopeless = false;
                *said = vec![reason.to_string()];
                return ControlFlow::Break(());
            }
            PostFilterAnswer::Stop(reason) => {
                self.hopeless = false;
                *said = vec![reason.to_string()];
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    /// Adds the messages of the PostFilter plugins of `profile`.
    pub(super) fn conclude(&mut self, profile: &Profile, mut said: Vec<String>) {
        self.hopeless |= profile.at(Point::PostFilter).next().is_none();
        said.retain(|text| !text.is_empty());
        let message = std::mem::take(&mut self.message);
        self.message = diagnosis::with_post_filter(message, &said.join(", "));
    }
}
