//! Prints where every pod went.

use std::io::{self, Write};

use comfy_table::{Cell, Row};
use plimsoll_api::PodKey;
use plimsoll_engine::Outcome;
use plimsoll_framework::Nomination;
use plimsoll_sim::ClaimBinding;

use super::style::{Screen, bad, doubtful, good};
use crate::report::{Choice, Gated, Placement, Preemption, Report};
use crate::wording::{count, some_of};

/// The node of a pod that has none.
const NONE: &str = "<none>";
/// At most 3 victims are named.
const VICTIMS: usize = 3;
/// At most 3 claims are named.
const CLAIMS: usize = 3;
/// At most 1,024 characters of a remark are shown, as in the note of an event. A pod with many requests can have a
/// remark of megabytes, and all rows of a table are as wide as the widest.
const REMARK: usize = 1024;

/// Prints a row for each pod: its node, or why it has none.
pub(crate) fn placements(out: &mut impl Write, report: &Report, screen: Screen) -> io::Result<()> {
    let columns = Columns {
        attempts: report.placements.iter().any(|placement| 1 < placement.decision.attempt),
        choice: report.placements.iter().any(|placement| placement.choice.is_some()),
    };
    // Victims that were on nodes from the beginning have no decision of their own.
    let others = report.preempted.iter().filter(|(pod, _)| !report.was_tried(pod));
    let rows: Vec<Row> = report
        .placements
        .iter()
        .map(|placement| columns.placed(placement, report.preempted.get(&placement.decision.pod)))
        .chain(others.map(|(pod, preemption)| columns.preempted(pod, preemption)))
        .chain(report.gated.iter().map(|gated| columns.gated(gated)))
        .collect();
    let total = rows.len();
    if total == 0 {
        return writeln!(out, "No pod is waiting for a node.\n");
    }
    let shown = screen.shown(total);
    let mut table = screen.table(&columns.headings());
    for mut row in rows.into_iter().take(shown) {
        row.max_height(1);
        table.add_row(row);
    }
    writeln!(out, "{}", table.trim_fmt())?;
    if shown < total {
        writeln!(out, "... and {} more; -o json prints all", total - shown)?;
    }
    writeln!(out)
}

/// Which optional columns are shown.
#[derive(Clone, Copy)]
struct Columns {
    attempts: bool,
    choice: bool,
}

impl Columns {
    fn headings(self) -> Vec<&'static str> {
        let mut headings = vec!["POD", "NODE"];
        if self.attempts {
            headings.push(">ATTEMPTS");
        }
        if self.choice {
            headings.extend([">FEASIBLE", ">SCORE"]);
        }
        headings.push("NOTE");
        headings
    }

    fn placed(self, placement: &Placement, preemption: Option<&Preemption>) -> Row {
        let decision = &placement.decision;
        let (node, remark) = match (&decision.outcome, preemption) {
            (Outcome::Scheduled { .. }, Some(preemption)) => (bad(NONE), preempted(preemption)),
            (outcome, _) => Self::outcome(outcome, &placement.claims),
        };
        let attempts = decision.attempt.to_string();
        self.row(decision.pod.to_string(), node, &attempts, placement.choice, remark)
    }

    /// The node and the remark.
    fn outcome(outcome: &Outcome, claims: &[ClaimBinding]) -> (Cell, String) {
        match outcome {
            Outcome::Scheduled { node, best } => {
                let remarks = [tie(best.len()), volumes(claims)];
                let remarks: Vec<String> =
                    remarks.into_iter().filter(|remark| !remark.is_empty()).collect();
                (good(node), remarks.join("; "))
            }
            Outcome::Unschedulable { message, nomination: None, .. } => {
                (bad(NONE), message.clone())
            }
            Outcome::Unschedulable { nomination: Some(nomination), .. } => {
                (doubtful(NONE), nominated(nomination))
            }
            Outcome::Error { message } => (bad(NONE), format!("error: {message}")),
        }
    }

    fn preempted(self, pod: &PodKey, preemption: &Preemption) -> Row {
        self.row(pod.to_string(), bad(NONE), "", None, preempted(preemption))
    }

    fn gated(self, gated: &Gated) -> Row {
        self.row(gated.pod.to_string(), doubtful(NONE), "", None, gated.why.clone())
    }

    fn row(
        self,
        pod: String,
        node: Cell,
        attempts: &str,
        choice: Option<Choice>,
        remark: String,
    ) -> Row {
        let mut row = Row::from([Cell::new(pod), node]);
        if self.attempts {
            row.add_cell(Cell::new(attempts));
        }
        if self.choice {
            let feasible = choice.map(|choice| format!("{}/{}", choice.feasible, choice.judged));
            let score = choice.and_then(|choice| choice.total).map(|total| total.to_string());
            row.add_cell(Cell::new(feasible.unwrap_or_default()));
            row.add_cell(Cell::new(score.unwrap_or_default()));
        }
        row.add_cell(Cell::new(shortened(remark)));
        row
    }
}

/// What is shown of a remark.
fn shortened(mut remark: String) -> String {
    if let Some((end, _)) = remark.char_indices().nth(REMARK) {
        remark.truncate(end);
        remark.push_str(" ...");
    }
    remark
}

fn tie(best: usize) -> String {
    match best {
        0 | 1 => String::new(),
        n => format!("tied with {}", count(n - 1, "other")),
    }
}

fn preempted(preemption: &Preemption) -> String {
    format!("preempted by {} on {}", preemption.by, preemption.node)
}

fn volumes(claims: &[ClaimBinding]) -> String {
    let claims = claims.iter().map(|binding| match &binding.volume {
        Some(volume) => format!("{} bound to {volume}", binding.claim.name),
        None => format!("{} provisioned", binding.claim.name),
    });
    some_of(&claims.collect::<Vec<_>>(), CLAIMS)
}

fn nominated(nomination: &Nomination) -> String {
    let node = &nomination.node;
    match nomination.victims.as_slice() {
        [] => format!("nominated to {node}"),
        victims => format!("nominated to {node}, evicting {}", some_of(victims, VICTIMS)),
    }
}
