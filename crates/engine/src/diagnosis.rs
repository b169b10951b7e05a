//! Why no node was found, and the message for that (FitError).

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use plimsoll_framework::{Code, NodeRejection, Reason, Rejection};

use crate::cycle::AttemptFailure;
use crate::decision::RejectionCount;

/// The message if there is no node at all.
pub const NO_NODES: &str = "no nodes available to schedule pods";

/// Why the nodes were rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FitErrorCause<'a> {
    /// All at once, by a plugin at PreFilter.
    PreFilter(&'a Rejection),
    /// Each by itself.
    Nodes(&'a [NodeRejection]),
    /// Each by itself: the rejections with their plugins, each with its number of nodes.
    Counted(&'a [(&'static str, &'a Rejection, usize)]),
}

/// The message for events and conditions, without the part of PostFilter. As in framework/types.go,
/// FitError.Error: `0/3 nodes are available: 1 Too many pods, 2 Insufficient cpu.`, the parts sorted as
/// text.
pub(crate) fn fit_error(n_nodes: usize, cause: &FitErrorCause<'_>) -> String {
    let mut message = format!("0/{n_nodes} nodes are available:");
    match cause {
        FitErrorCause::PreFilter(rejection) => {
            write!(message, " {rejection}.").expect("a text can grow");
        }
        FitErrorCause::Nodes(rejected) => {
            add_parts(&mut message, rejected.iter().map(|node| (&node.rejection, 1)));
        }
        FitErrorCause::Counted(rejected) => {
            add_parts(&mut message, rejected.iter().map(|&(_, why, n)| (why, n)));
        }
    }
    message
}

/// The failure of a pod that each of `n_nodes` nodes has rejected by itself, without PostFilter. `None` if some node could not
/// be judged.
pub(crate) fn rejected_by_nodes<'a>(
    n_nodes: usize,
    rejections: impl Iterator<Item = (&'static str, &'a Rejection, usize)>,
) -> Option<AttemptFailure> {
    let mut failure = AttemptFailure::default();
    let mut all = Vec::new();
    for (plugin, why, n) in rejections {
        if why.code == Code::Error {
            return None;
        }
        failure.blame(plugin, why.code);
        all.push((plugin, why, n));
    }
    failure.message = fit_error(n_nodes, &FitErrorCause::Counted(&all));
    failure.counted = counted(all.into_iter());
    Some(failure)
}

/// At most so many reasons are kept for recorders: a plugin may have one of its own for each node.
const MOST_COUNTED: usize = 32;

/// How many nodes each plugin rejected for each reason, the most frequent ones first.
pub(crate) fn counted<'a>(
    rejections: impl Iterator<Item = (&'static str, &'a Rejection, usize)>,
) -> Arc<[RejectionCount]> {
    let mut counts: BTreeMap<(&'static str, &Reason), usize> = BTreeMap::new();
    for (plugin, why, n) in rejections {
        for reason in &why.reasons {
            *counts.entry((plugin, reason)).or_default() += n;
        }
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, nodes)| Reverse(*nodes));
    let kept = counts.into_iter().take(MOST_COUNTED);
    kept.map(|((plugin, reason), nodes)| RejectionCount { plugin, reason: reason.clone(), nodes })
        .collect()
}

fn add_parts<'a>(message: &mut String, rejected: impl Iterator<Item = (&'a Rejection, usize)>) {
    let parts = histogram(rejected);
    if !parts.is_empty() {
        write!(message, " {}.", parts.join(", ")).expect("a text can grow");
    }
}

/// Adds the message of the PostFilter plugins.
pub(crate) fn with_post_filter(mut message: String, post_filter: &str) -> String {
    if !post_filter.is_empty() {
        message.push(' ');
        message += post_filter;
    }
    message
}

fn histogram<'a>(rejected: impl Iterator<Item = (&'a Rejection, usize)>) -> Vec<String> {
    let mut counts = BTreeMap::new();
    for (rejection, n) in rejected {
        for reason in &rejection.reasons {
            *counts.entry(reason).or_insert(0_usize) += n;
        }
    }
    // Different reasons may have the same text: they are counted by text.
    let mut by_text = BTreeMap::new();
    for (reason, count) in counts {
        *by_text.entry(reason.to_string()).or_insert(0_usize) += count;
    }
    let mut parts: Vec<String> =
        by_text.into_iter().map(|(text, count)| format!("{count} {text}")).collect();
    parts.sort_unstable();
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_framework::Row;

    fn rejected(reasons: &[&'static str]) -> Vec<NodeRejection> {
        let node = |(i, &reason)| NodeRejection {
            row: Row::from_index(i),
            plugin: "P",
            rejection: Rejection::unschedulable(reason),
        };
        reasons.iter().enumerate().map(node).collect()
    }

    #[test]
    fn reasons_are_counted_and_sorted_as_texts_with_their_numbers() {
        let mut reasons = vec!["b"; 10];
        reasons.extend(["a", "c", "c"]);
        let message = fit_error(13, &FitErrorCause::Nodes(&rejected(&reasons)));
        assert_eq!(message, "0/13 nodes are available: 1 a, 10 b, 2 c.");
    }

    #[test]
    fn a_rejection_for_all_nodes_stands_alone_and_post_filter_follows() {
        let why = Rejection::unresolvable("pod affinity terms conflict");
        let message = fit_error(3, &FitErrorCause::PreFilter(&why));
        assert_eq!(message, "0/3 nodes are available: pod affinity terms conflict.");
        let whole = with_post_filter(message, "no new claims to deallocate");
        assert!(whole.ends_with("conflict. no new claims to deallocate"));
    }
}
