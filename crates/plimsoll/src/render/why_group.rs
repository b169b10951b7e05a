//! Prints why a group of pods waits and what would change that.

use std::io::{self, Write};

use comfy_table::Table;
use plimsoll_advisor::{GroupRemedy, WhyGroup};

use super::style::{HEADING, Screen};
use super::table;
use super::why::{history, unknown_manifests};
use crate::answers::groups::GroupAnswer;
use crate::wording::{count, some_of};

/// At most so many events are named.
const EVENTS: usize = 6;

/// Prints the answer, with the decision about the group if a pod of it is pending.
pub(crate) fn answer(out: &mut impl Write, answer: &GroupAnswer, screen: Screen) -> io::Result<()> {
    let GroupAnswer { why, decision } = answer;
    let Some(decision) = decision else {
        let pods = count(why.running, "pod");
        writeln!(out, "Group {}: all {pods} are on nodes", why.group)?;
        if let Some(seconds) = why.scheduled_after_seconds {
            writeln!(out, "From the first pod until the last one had started: {seconds} s")?;
        }
        return Ok(());
    };
    table::group(out, decision, screen)?;
    let min_count = match (why.min_count, why.min_group_count) {
        (Some(n), _) => format!("; minCount is {n}"),
        (None, Some(n)) => format!("; minGroupCount is {n}"),
        (None, None) => String::new(),
    };
    writeln!(out, "\n{} on nodes, {} pending{min_count}", count(why.running, "pod"), why.pending)?;
    remedies(out, why, screen)?;
    unknown_manifests(out, &why.unknown_manifests)?;
    let Some(waiting) = &why.waiting else { return Ok(()) };
    if let Some(since) = &waiting.since {
        writeln!(out, "\nIts first pending pod is there since {since}.")?;
    }
    history(out, &waiting.first)?;
    if !waiting.first.woken_by.is_empty() && why.state != "scheduled" {
        let events = some_of(&waiting.first.woken_by, EVENTS);
        writeln!(out, "\nEvents that may help: {events}")?;
    }
    Ok(())
}

fn remedies(out: &mut impl Write, why: &WhyGroup, screen: Screen) -> io::Result<()> {
    if why.state == "scheduled" && why.remedies.is_empty() {
        return Ok(());
    }
    if why.remedies.is_empty() {
        return writeln!(out, "\nNo change that was tried would let it be scheduled.");
    }
    writeln!(
        out,
        "\n{HEADING}It would be scheduled with one of these changes{HEADING:#}, the smallest first:"
    )?;
    writeln!(out, "\n{}", remedy_table(&why.remedies, screen).trim_fmt())
}

/// Changes that let a group in.
pub(super) fn remedy_table(remedies: &[GroupRemedy], screen: Screen) -> Table {
    let has_placement = remedies.iter().any(|remedy| remedy.placement.is_some());
    let mut headings = vec![">PLACED"];
    if has_placement {
        headings.push("IN");
    }
    headings.push("CHANGE");
    let mut table = screen.table(&headings);
    for remedy in remedies {
        let mut row = vec![format!("{}/{}", remedy.placed, remedy.pods)];
        if has_placement {
            row.push(remedy.placement.clone().unwrap_or_default());
        }
        row.push(remedy.text.clone());
        table.add_row(row);
    }
    table
}
