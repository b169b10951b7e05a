//! Prints why a pod goes to a node, or to none.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

use comfy_table::{Cell, Row};
use plimsoll_api::{PodKey, Str};
use plimsoll_engine::{Decision, NodeDecision, NodeVerdict, Outcome};
use plimsoll_framework::Rejection;

use super::old_scale;
use super::style::{BAD, DOUBTFUL, GOOD, HEADING, Screen, good};
use crate::old_scale::OldScale;
use crate::wording::{count, some_of};

/// At most 20 feasible nodes are shown, unless `--all` is given.
pub(super) const MAX_ROWS: usize = 20;
/// At most 5 nodes are named for one reason.
pub(super) const NAMES: usize = 5;

/// How many of the feasible nodes are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// The best of them.
    Best,
    /// All of them.
    All,
}

/// Prints a decision: the verdict, the feasible nodes with their scores, the rejected ones with their reasons, and the
/// event.
pub(crate) fn decision(
    out: &mut impl Write,
    decision: &Decision,
    shown: Shown,
    screen: Screen,
) -> io::Result<()> {
    writeln!(out, "{}", verdict(decision))?;
    feasible(out, decision, shown, screen)?;
    rejected(out, decision, screen)?;
    for (index, line) in decision.described.lines.iter().enumerate() {
        match index {
            0 => writeln!(out, "\n{HEADING}{line}{HEADING:#}")?,
            _ => writeln!(out, "{line}")?,
        }
    }
    writeln!(out, "\n{}", event(decision))
}

/// The same for a decision on the scale of 10.
pub(crate) fn decision_on_old_scale(
    out: &mut impl Write,
    decision: &Decision,
    old: &OldScale,
    shown: Shown,
    screen: Screen,
) -> io::Result<()> {
    writeln!(out, "{}", verdict(decision))?;
    old_scale::ranking(out, decision, old, shown, screen)?;
    writeln!(out, "\n{}", event(decision))
}

/// Prints why a pod is kept out of the queue: no node was looked at.
pub(crate) fn gated(
    out: &mut impl Write,
    pod: &PodKey,
    plugin: &str,
    why: &Rejection,
) -> io::Result<()> {
    writeln!(
        out,
        "{DOUBTFUL}{pod} is not tried{DOUBTFUL:#}: {plugin} keeps it out of the queue: {why}."
    )
}

fn verdict(decision: &Decision) -> String {
    let pod = &decision.pod;
    let nodes = decision.nodes.len();
    let feasible = decision.nodes.iter().filter(|node| is_feasible(node)).count();
    let of_nodes = format!("{feasible} of {}", count(nodes, "node"));
    match &decision.outcome {
        Outcome::Scheduled { node, best } => {
            let why = match best.as_slice() {
                _ if feasible == 1 => "the only one".to_owned(),
                [_] => "the best".to_owned(),
                _ => {
                    let others: Vec<_> = best.iter().filter(|other| *other != node).collect();
                    format!("as good as {} and first by name", some_of(&others, NAMES))
                }
            };
            format!("{GOOD}{pod} fits {of_nodes}{GOOD:#} and goes to {node}, {why}.")
        }
        Outcome::Unschedulable { pre_filter: Some((plugin, why)), .. } => {
            format!("{BAD}{pod} fits no node{BAD:#}: {plugin} rejects it for all nodes: {why}.")
        }
        Outcome::Unschedulable { nomination: Some(nomination), .. } => {
            let node = &nomination.node;
            let how = match nomination.victims.as_slice() {
                // The pods in its way are already being deleted.
                [] => {
                    format!("it would fit on {node} once the pods that are being deleted are gone")
                }
                victims => {
                    let victims = some_of(victims, NAMES);
                    format!("it would fit on {node} after the eviction of {victims}")
                }
            };
            format!("{DOUBTFUL}{pod} fits no node yet{DOUBTFUL:#}; {how}.")
        }
        Outcome::Unschedulable { message, .. } if nodes == 0 => {
            format!("{BAD}{pod} is not scheduled{BAD:#}: {message}")
        }
        Outcome::Unschedulable { .. } => format!("{BAD}{pod} fits {of_nodes}{BAD:#}."),
        Outcome::Error { message } => {
            format!("{BAD}{pod} could not be judged{BAD:#}: {message}")
        }
    }
}

fn is_feasible(node: &NodeDecision) -> bool {
    !matches!(node.verdict, NodeVerdict::Rejected { .. })
}

/// Name, scores and total of a node.
type Scored<'a> = (&'a Str, &'a [(Arc<str>, i64)], i64);

/// Prints the feasible nodes with their scores, the best first. A plugin that gave all nodes the same score has no
/// column.
fn feasible(
    out: &mut impl Write,
    decision: &Decision,
    shown: Shown,
    screen: Screen,
) -> io::Result<()> {
    let mut nodes: Vec<Scored<'_>> = decision.nodes.iter().filter_map(scored).collect();
    let Some(&(_, first, _)) = nodes.first() else {
        return Ok(());
    };
    let is_alike = |plugin: usize| nodes.iter().all(|node| node.1[plugin].1 == first[plugin].1);
    let (alike, telling): (Vec<_>, Vec<_>) = (0..first.len()).partition(|plugin| is_alike(*plugin));
    let headings: Vec<_> = telling.iter().map(|&plugin| format!(">{}", first[plugin].0)).collect();
    let headings = headings.iter().map(String::as_str);
    let headings: Vec<_> = ["", "NODE", ">TOTAL"].into_iter().chain(headings).collect();
    let mut table = screen.table(&headings);
    let chosen = match &decision.outcome {
        Outcome::Scheduled { node, .. } => Some(node),
        Outcome::Unschedulable { .. } | Outcome::Error { .. } => None,
    };
    nodes.sort_by_key(|&(name, _, total)| (Reverse(total), Some(name) != chosen, name));
    let limit = if shown == Shown::All { nodes.len() } else { MAX_ROWS };
    for &(name, scores, total) in nodes.iter().take(limit) {
        let mut row = if chosen == Some(name) {
            Row::from([good("→"), good(name), good(total)])
        } else {
            Row::from([Cell::new(""), Cell::new(name), Cell::new(total)])
        };
        for &plugin in &telling {
            row.add_cell(Cell::new(scores[plugin].1));
        }
        table.add_row(row);
    }
    writeln!(out, "\n{}", table.trim_fmt())?;
    if limit < nodes.len() {
        writeln!(out, "... and {} more; --all shows them", nodes.len() - limit)?;
    }
    if !alike.is_empty() {
        let alike = alike.iter().map(|&plugin| format!("{} {}", first[plugin].0, first[plugin].1));
        writeln!(out, "Each node got the same from {}", alike.collect::<Vec<_>>().join(", "))?;
    }
    Ok(())
}

fn scored(node: &NodeDecision) -> Option<Scored<'_>> {
    match &node.verdict {
        NodeVerdict::Scored { scores, total } => Some((&node.name, scores, *total)),
        NodeVerdict::NotJudged | NodeVerdict::Only | NodeVerdict::Rejected { .. } => None,
    }
}

/// Prints the rejected nodes by plugin and reason, the most frequent first.
fn rejected(out: &mut impl Write, decision: &Decision, screen: Screen) -> io::Result<()> {
    let mut reasons: BTreeMap<(&Str, String), Vec<&Str>> = BTreeMap::new();
    for node in &decision.nodes {
        if let NodeVerdict::Rejected { plugin, reasons: why, .. } = &node.verdict {
            for reason in why {
                reasons.entry((plugin, reason.to_string())).or_default().push(&node.name);
            }
        }
    }
    if reasons.is_empty() {
        return Ok(());
    }
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, nodes)| Reverse(nodes.len()));
    let mut table = screen.table(&[">REJECTED", "BY", "REASON", "NODES"]);
    for ((plugin, reason), nodes) in reasons {
        let names = some_of(&nodes, NAMES);
        table.add_row([nodes.len().to_string(), plugin.to_string(), reason, names]);
    }
    writeln!(out, "\n{}", table.trim_fmt())
}

/// The event that kube-scheduler would write. As in schedule_one.go, bindingCycle and
/// handleSchedulingFailure.
fn event(decision: &Decision) -> String {
    let (reason, note) = match &decision.outcome {
        Outcome::Scheduled { node, .. } => {
            ("Scheduled", format!("Successfully assigned {} to {node}", decision.pod))
        }
        Outcome::Unschedulable { message, .. } | Outcome::Error { message } => {
            ("FailedScheduling", message.clone())
        }
    };
    format!("{HEADING}{reason}{HEADING:#}: {note}")
}
