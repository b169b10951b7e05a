//! Prints where every pod went.

use std::io::{self, Write};

use comfy_table::{Cell, Row};
use plimsoll_api::PodKey;
use plimsoll_engine::{GroupDecision, GroupResult, MemberDecision, MemberResult, Outcome};
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

/// Prints a row for each group of pods, if there are any.
pub(crate) fn groups(out: &mut impl Write, report: &Report, screen: Screen) -> io::Result<()> {
    if report.groups.is_empty() {
        return Ok(());
    }
    let mut headings = vec!["GROUP", "RESULT", ">PLACED"];
    let has_placements = report.groups.values().any(|group| group.placement.is_some());
    if has_placements {
        headings.push("PLACEMENT");
    }
    headings.push("NOTE");
    let mut table = screen.table(&headings);
    for group in report.groups.values() {
        let result = result(group.result);
        let is_placed =
            |one: &&MemberDecision| matches!(one.result, MemberResult::Scheduled { .. });
        let n_placed = group.pods.iter().filter(is_placed).count();
        let mut row = Row::new();
        row.add_cell(Cell::new(&group.group)).add_cell(result);
        row.add_cell(Cell::new(format!("{n_placed}/{}", group.pods.len())));
        if has_placements {
            row.add_cell(Cell::new(group.placement.as_deref().unwrap_or_default()));
        }
        row.add_cell(Cell::new(note(group)));
        row.max_height(1);
        table.add_row(row);
    }
    writeln!(out, "{}\n", table.trim_fmt())
}

/// Prints a decision about a group of pods: the placements, its members, and what becomes of it.
pub(crate) fn group(
    out: &mut impl Write,
    decision: &GroupDecision,
    screen: Screen,
) -> io::Result<()> {
    let on = decision.placement.as_ref().map(|name| format!(" in {name}")).unwrap_or_default();
    let is_placed = |one: &&MemberDecision| matches!(one.result, MemberResult::Scheduled { .. });
    let n_placed = decision.pods.iter().filter(is_placed).count();
    writeln!(out, "Group {}: {}{on}", decision.group, decision.result.as_str())?;
    if !note(decision).is_empty() {
        writeln!(out, "  {}", note(decision))?;
    }
    if !decision.placements.is_empty() {
        let has_notes = decision.placements.iter().any(|one| !one.notes.is_empty());
        let headings = ["PLACEMENT", ">SCORE", "SCORES", "NOTE"];
        let mut table = screen.table(&headings[..if has_notes { 4 } else { 3 }]);
        for placement in &decision.placements {
            let score = placement.score.map(|score| score.to_string()).unwrap_or_default();
            let of_plugin = |(plugin, score): &(&str, i64)| format!("{plugin} {score}");
            let scores: Vec<String> = placement.scores.iter().map(of_plugin).collect();
            let mut row = vec![placement.name.to_string(), score, scores.join(", ")];
            if has_notes {
                let notes: Vec<&str> =
                    placement.notes.iter().map(|(_, note)| note.as_str()).collect();
                row.push(notes.join("; "));
            }
            table.add_row(row);
        }
        writeln!(out, "\n{}", table.trim_fmt())?;
    }
    if !decision.groups.is_empty() {
        let mut table = screen.table(&["GROUP", "RESULT", "IN", "NOTE"]);
        for part in &decision.groups {
            let mut row = Row::new();
            row.add_cell(Cell::new(&part.group)).add_cell(result(part.result));
            row.add_cell(Cell::new(part.placement.as_deref().unwrap_or_default()));
            row.add_cell(Cell::new(part.message.chars().take(REMARK).collect::<String>()));
            row.max_height(1);
            table.add_row(row);
        }
        writeln!(out, "\n{}", table.trim_fmt())?;
    }
    if !decision.pods.is_empty() {
        let mut table = screen.table(&["POD", "NODE", "NOTE"]);
        for member in &decision.pods {
            let (node, remark) = match &member.result {
                MemberResult::Scheduled { node, best } => (good(node), tie(best.len())),
                MemberResult::Unschedulable { message, nominated: None } => {
                    (bad(NONE), message.clone())
                }
                MemberResult::Unschedulable { message, nominated: Some(node) } => {
                    (doubtful(NONE), format!("nominated to {node}; {message}"))
                }
                MemberResult::Error { message } => (bad(NONE), format!("error: {message}")),
                MemberResult::Skipped => (doubtful(NONE), "it is being deleted".to_owned()),
            };
            let mut row = Row::new();
            row.add_cell(Cell::new(&member.pod)).add_cell(node);
            row.add_cell(Cell::new(remark.chars().take(REMARK).collect::<String>()));
            row.max_height(1);
            table.add_row(row);
        }
        writeln!(out, "\n{}", table.trim_fmt())?;
        writeln!(out, "\n{n_placed} of {} placed", count(decision.pods.len(), "pod"))?;
    }
    if !decision.victims.is_empty() {
        writeln!(out, "Evicted for it: {}", some_of(&decision.victims, VICTIMS))?;
    }
    Ok(())
}

/// The result of a group in its color.
fn result(of: GroupResult) -> Cell {
    match of {
        GroupResult::Scheduled => good(of.as_str()),
        GroupResult::Preempting | GroupResult::Waiting => doubtful(of.as_str()),
        GroupResult::Unschedulable | GroupResult::Error => bad(of.as_str()),
    }
}

/// Why a group waits or does not fit.
fn note(group: &GroupDecision) -> &str {
    let condition = group.condition.as_ref().map_or("", |condition| condition.message.as_str());
    match (&group.message, group.result) {
        (Some(message), _) => message,
        (None, GroupResult::Scheduled) => "",
        _ => condition,
    }
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
    match &preemption.node {
        Some(node) => format!("preempted by {} on {node}", preemption.by),
        None => format!("preempted by group {}", preemption.by),
    }
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
