//! Prints how a release before 1.17 would have ranked the nodes, as a table and as JSON.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{self, Write};

use comfy_table::{Cell, Row};
use plimsoll_api::Str;
use plimsoll_engine::{Decision, Outcome};
use serde::Serialize;

use super::explain::{MAX_ROWS, NAMES, Shown};
use super::style::{DOUBTFUL, Screen, good};
use crate::old_scale::{Failed, OldScale, Ranked, Score};
use crate::wording::some_of;

/// Prints which node today's scores would choose, the points of the feasible nodes, and the predicates that the others
/// fail.
pub(crate) fn ranking(
    out: &mut impl Write,
    decision: &Decision,
    old: &OldScale,
    shown: Shown,
    screen: Screen,
) -> io::Result<()> {
    if let Some(compared) = compared(decision, old) {
        writeln!(out, "{compared}")?;
    }
    feasible(out, old, shown, screen)?;
    failed(out, old, screen)
}

/// Whether today's scores agree with the decision; none if no node was chosen.
fn compared(decision: &Decision, old: &OldScale) -> Option<String> {
    let Outcome::Scheduled { node, .. } = &decision.outcome else { return None };
    let today = old.today.as_ref()?;
    Some(if today == node {
        format!("On the scale of 100 it is {node}, too.")
    } else if old.best.contains(today) {
        format!("On the scale of 100 it is {today}, which is as good here.")
    } else {
        let (total, of_today) = (old.total_of(node)?, old.total_of(today)?);
        format!(
            "{DOUBTFUL}On the scale of 100 it would go to {today}, not to {node}{DOUBTFUL:#}: here {today} has \
             {of_today} in all, and {node} {total}."
        )
    })
}

/// Prints the feasible nodes with raw values and points, the best first. A priority that gave all nodes the same has no
/// column.
fn feasible(out: &mut impl Write, old: &OldScale, shown: Shown, screen: Screen) -> io::Result<()> {
    let mut nodes: Vec<&Ranked> = old.nodes.iter().collect();
    let Some(&first) = nodes.first() else { return Ok(()) };
    let is_alike = |at: usize| nodes.iter().all(|node| node.scores[at] == first.scores[at]);
    let (alike, telling): (Vec<_>, Vec<_>) =
        (0..first.scores.len()).partition(|&at| 1 < nodes.len() && is_alike(at));
    let headings = telling.iter().map(|&at| format!(">{}", heading(&first.scores[at])));
    let headings: Vec<String> = headings.collect();
    let headings = headings.iter().map(String::as_str);
    let headings: Vec<_> = ["", "NODE", ">TOTAL"].into_iter().chain(headings).collect();
    let mut table = screen.table(&headings);
    nodes.sort_by_key(|node| (Reverse(node.total), &node.name));
    let limit = if shown == Shown::All { nodes.len() } else { MAX_ROWS };
    for &node in nodes.iter().take(limit) {
        let mut row = if old.best.contains(&node.name) {
            Row::from([good("→"), good(&node.name), good(node.total)])
        } else {
            Row::from([Cell::new(""), Cell::new(&node.name), Cell::new(node.total)])
        };
        for &at in &telling {
            row.add_cell(Cell::new(steps(&node.scores[at])));
        }
        table.add_row(row);
    }
    writeln!(out, "\n{}", table.trim_fmt())?;
    if limit < nodes.len() {
        writeln!(out, "... and {} more; --all shows them", nodes.len() - limit)?;
    }
    let told =
        |at: &usize| format!("{} {}", heading(&first.scores[*at]), steps(&first.scores[*at]));
    if !alike.is_empty() {
        let alike: Vec<_> = alike.iter().map(told).collect();
        writeln!(out, "Each node got the same from {}", alike.join(", "))?;
    }
    writeln!(out, "raw value → points; the total is the sum of points ×weight")?;
    if !old.without.is_empty() {
        writeln!(
            out,
            "Score plugins that have no priority and are ignored: {}",
            old.without.join(", ")
        )?;
    }
    Ok(())
}

/// The name of a priority, with its weight unless that is 1.
fn heading(score: &Score) -> String {
    match score.weight {
        1 => score.priority.clone(),
        weight => format!("{} ×{weight}", score.priority),
    }
}

fn steps(score: &Score) -> String {
    format!("{} → {}", score.raw, score.points)
}

/// Prints the predicates that nodes fail, in the order of evaluation, by reason.
fn failed(out: &mut impl Write, old: &OldScale, screen: Screen) -> io::Result<()> {
    let mut reasons: BTreeMap<(usize, &str, &str), Vec<&Str>> = BTreeMap::new();
    for (node, failed) in &old.failed {
        for Failed { place, predicate, reasons: all } in failed {
            for reason in all {
                reasons.entry((*place, predicate, reason)).or_default().push(node);
            }
        }
    }
    if reasons.is_empty() {
        return Ok(());
    }
    let mut table = screen.table(&[">REJECTED", "BY PREDICATE", "REASON", "NODES"]);
    for ((_, predicate, reason), nodes) in reasons {
        let names = some_of(&nodes, NAMES);
        table.add_row([&nodes.len().to_string(), predicate, reason, &names]);
    }
    writeln!(out, "\n{}", table.trim_fmt())
}

/// The old scale in the record of a decision.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Scale10<'a> {
    /// The nodes with the highest total, by name.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    best: &'a [Str],
    /// The node that today's scores choose.
    #[serde(skip_serializing_if = "Option::is_none")]
    today: Option<&'a Str>,
    /// Whether that is one of the best.
    #[serde(skip_serializing_if = "Option::is_none")]
    same_node: Option<bool>,
    /// The score plugins that have no priority.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    without: &'a [String],
    nodes: Vec<Node<'a>>,
}

#[derive(Serialize)]
struct Node<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    predicates: Vec<Predicate<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    priorities: Vec<Priority<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<i64>,
}

#[derive(Serialize)]
struct Predicate<'a> {
    name: &'a str,
    reasons: &'a [String],
}

#[derive(Serialize)]
struct Priority<'a> {
    name: &'a str,
    weight: i64,
    raw: i64,
    points: i64,
}

impl<'a> Scale10<'a> {
    pub(super) fn of(old: &'a OldScale) -> Self {
        let mut nodes: BTreeMap<&str, Node<'a>> = BTreeMap::new();
        for (name, failed) in &old.failed {
            let predicate =
                |one: &'a Failed| Predicate { name: &one.predicate, reasons: &one.reasons };
            let predicates = failed.iter().map(predicate).collect();
            nodes.insert(name, Node { name, predicates, priorities: Vec::new(), total: None });
        }
        for Ranked { name, scores, total } in &old.nodes {
            let priority = |score: &'a Score| Priority {
                name: &score.priority,
                weight: score.weight,
                raw: score.raw,
                points: score.points,
            };
            let priorities = scores.iter().map(priority).collect();
            let node = Node { name, predicates: Vec::new(), priorities, total: Some(*total) };
            nodes.insert(name, node);
        }
        Scale10 {
            best: &old.best,
            today: old.today.as_ref(),
            same_node: old.agrees(),
            without: &old.without,
            nodes: nodes.into_values().collect(),
        }
    }
}
