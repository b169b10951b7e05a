//! Prints why a pod is pending and what would change that, or why it is on its node.

use std::io::{self, Write};

use plimsoll_advisor::{Reference, Waiting, Why};

use super::explain::{self, Shown};
use super::style::{HEADING, Screen};
use super::why_group::remedy_table;
use crate::wording::{count, some_of};

/// At most so many events are named.
const EVENTS: usize = 6;
/// At most so many objects are named.
const OBJECTS: usize = 5;

/// Prints the answer.
pub(crate) fn answer(out: &mut impl Write, why: &Why, screen: Screen) -> io::Result<()> {
    if let Some(node) = &why.node {
        writeln!(out, "{} is on {node}.", why.pod)?;
        writeln!(out, "If it were pending now:\n")?;
    } else if why.state == "gated"
        && let Some(held) = why.waiting.as_ref().and_then(|waiting| waiting.held_by.as_ref())
    {
        writeln!(out, "{} is not tried: {} holds it back: {}.", why.pod, held.plugin, held.reason)?;
    }
    if why.group.as_ref().is_some_and(|group| group.result.is_some()) && why.state != "gated" {
        writeln!(out, "By itself, without its group:\n")?;
    }
    match &why.decision {
        Some(decision) if why.state != "gated" => {
            explain::decision(out, decision, Shown::Best, screen)?;
        }
        Some(_) => {}
        None => writeln!(out, "{} has a node: its state is {}.", why.pod, why.state)?,
    }
    group(out, why, screen)?;
    runner_up(out, why)?;
    remedies(out, why, screen)?;
    unknown_manifests(out, &why.unknown_manifests)?;
    nearest(out, why, screen)?;
    why.waiting.as_ref().map_or(Ok(()), |waiting| wakes(out, waiting))
}

/// The group that it is scheduled with, and what would let that be scheduled.
fn group(out: &mut impl Write, why: &Why, screen: Screen) -> io::Result<()> {
    let Some(group) = &why.group else { return Ok(()) };
    let name = &group.name;
    match (group.label, group.result) {
        (Some(label), _) => {
            writeln!(out, "\nIt belongs to the group {name} by its label {label}.")?;
        }
        (None, Some(result)) => writeln!(
            out,
            "\nIt belongs to the group {name}, which is decided as a whole and is {result} now: plimsoll why --group {name} says why."
        )?,
        (None, None) => {
            writeln!(out, "\nIt belongs to the group {name}, which is decided as a whole.")?;
        }
    }
    if let Some(why_not) = &group.not_tried {
        return writeln!(out, "No change was tried for the group: {why_not}.");
    }
    match group.remedies.as_slice() {
        [] if group.result == Some("scheduled") => Ok(()),
        [] => writeln!(out, "No single change that was tried would let the group be scheduled."),
        remedies => {
            writeln!(
                out,
                "\n{HEADING}The group would be scheduled with one of these changes{HEADING:#}, the smallest first:"
            )?;
            writeln!(out, "\n{}", remedy_table(remedies, screen).trim_fmt())
        }
    }
}

fn runner_up(out: &mut impl Write, why: &Why) -> io::Result<()> {
    let (Some(node), Some(second)) = (&why.node, &why.runner_up) else { return Ok(()) };
    let by = match second.decided_by.as_slice() {
        [] => String::new(),
        plugins => format!(", by {}", some_of(plugins, 3)),
    };
    match second.margin {
        0 => writeln!(out, "\n{node} and {} are equally good.", second.node),
        margin if 0 < margin => {
            writeln!(out, "\n{node} is better than {} by {margin}{by}.", second.node)
        }
        margin => {
            writeln!(out, "\nToday {} is better than {node} by {}{by}.", second.node, -margin)
        }
    }
}

fn remedies(out: &mut impl Write, why: &Why, screen: Screen) -> io::Result<()> {
    if why.node.is_some() || why.nearest.is_empty() && why.remedies.is_empty() {
        return Ok(());
    }
    if why.remedies.is_empty() {
        // What is tried for a group is said of the group.
        if why.group.is_some() {
            return Ok(());
        }
        return writeln!(
            out,
            "\nNo single change and no pair of changes that was tried would make it fit."
        );
    }
    writeln!(
        out,
        "\n{HEADING}It would fit with one of these changes{HEADING:#}, the smallest first:"
    )?;
    let mut table = screen.table(&["GOES TO", ">ALSO FITS", "CHANGE"]);
    for remedy in &why.remedies {
        table.add_row([remedy.node.clone(), also_fits(remedy.also_fits), remedy.text.clone()]);
    }
    writeln!(out, "\n{}", table.trim_fmt())
}

/// Says of which objects no change was tried.
pub(super) fn unknown_manifests(out: &mut impl Write, objects: &[Reference]) -> io::Result<()> {
    if objects.is_empty() {
        return Ok(());
    }
    let their = if objects.len() == 1 { "its manifest is" } else { "their manifests are" };
    let names = some_of(objects, OBJECTS);
    writeln!(out, "\nNo change of {names} was tried, because {their} not known here.")
}

/// Says to what the changes of a pod of a recording apply.
pub(crate) fn of_recording(out: &mut impl Write, differs: &[&str]) -> io::Result<()> {
    writeln!(
        out,
        "\nA recording holds what decisions read, and no manifests. Changes of the pod and its claims apply to the manifests that -o json has."
    )?;
    if !differs.is_empty() {
        let names = some_of(differs, differs.len());
        writeln!(
            out,
            "Not held as they were written, so that changes may miss something: {names}."
        )?;
    }
    Ok(())
}

fn also_fits(n_nodes: usize) -> String {
    if n_nodes == 0 { String::new() } else { count(n_nodes, "node") }
}

fn nearest(out: &mut impl Write, why: &Why, screen: Screen) -> io::Result<()> {
    if why.nearest.is_empty() {
        return Ok(());
    }
    let n_nodes = count(why.nearest.len(), "node");
    let miss = if why.nearest.len() == 1 { "misses" } else { "miss" };
    writeln!(
        out,
        "\n{HEADING}All that rejects it{HEADING:#} on the {n_nodes} that {miss} by least:"
    )?;
    let mut table = screen.table(&["NODE", "BY", "REASON"]);
    for node in &why.nearest {
        for (index, failure) in node.failures.iter().enumerate() {
            let name = if index == 0 { node.name.as_str() } else { "" };
            table.add_row([name, &failure.plugin, &failure.reasons.join(", ")]);
        }
    }
    writeln!(out, "\n{}", table.trim_fmt())
}

fn wakes(out: &mut impl Write, waiting: &Waiting) -> io::Result<()> {
    if waiting.woken_by.is_empty() {
        return Ok(());
    }
    let events = some_of(&waiting.woken_by, EVENTS);
    writeln!(
        out,
        "\nAs long as nothing changes, it is not tried again. Events that may help: {events}"
    )
}
