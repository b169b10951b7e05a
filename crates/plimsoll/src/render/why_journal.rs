//! Prints what a journal knows of a pod.

use std::io::{self, Write};

use super::style::{BAD, GOOD, HEADING, Screen};
use crate::commands::JournalWhy;
use crate::wording::{count, some_of};

/// At most so many victims are named.
const NAMES: usize = 5;

/// Prints the answer.
pub(crate) fn answer(out: &mut impl Write, why: &JournalWhy, screen: Screen) -> io::Result<()> {
    let (pod, at) = (&why.pod, &why.as_of);
    let node = why.record.node.as_deref().unwrap_or_default();
    match why.state {
        "scheduled" => {
            writeln!(out, "{GOOD}{pod} was bound to {node}{GOOD:#}, as decided at {at}.")?;
        }
        "binding" => writeln!(
            out,
            "At {at} {pod} was to go to {node}; the journal does not have the answer to the binding."
        )?,
        state => {
            let attempts = why.waiting.as_ref().map_or(1, |waiting| waiting.attempts);
            let attempts = count(usize::try_from(attempts).unwrap_or(1), "attempt");
            writeln!(
                out,
                "{BAD}{pod} had no node{BAD:#} after {attempts}, the last at {at}: {state}."
            )?;
        }
    }
    if let Some(second) = &why.runner_up {
        let (margin, second) = (second.margin, &second.node);
        writeln!(out, "\n{node} was better than {second} by {margin}.")?;
    }
    rejections(out, why, screen)?;
    if let Some(nomination) = &why.record.nomination {
        let (node, victims) = (&nomination.node, some_of(&nomination.victims, NAMES));
        writeln!(out, "\nPreemption makes room on {node} by evicting {victims}.")?;
    }
    if let Some(message) = &why.record.message {
        writeln!(out, "\n{message}")?;
    }
    if let Some(waiting) = &why.waiting {
        if let Some(since) = &waiting.since {
            writeln!(out, "\nIt was first ready to be tried at {since}.")?;
        }
        if let Some(event) = &waiting.last_woken_by {
            writeln!(out, "The last attempt was made because of {event}.")?;
        }
    }
    if let Some(evicted) = &why.evicted {
        let (at, preemptor) = (&evicted.at, &evicted.preemptor);
        writeln!(
            out,
            "\n{BAD}Evicted:{BAD:#} at {at} it was chosen to make room for {preemptor}."
        )?;
    }
    if 0 < why.lost {
        writeln!(out, "\nThe journal lacks {} entries, so there may be later attempts.", why.lost)?;
    }
    writeln!(
        out,
        "\nA journal has decisions but no objects: it cannot say what would have to change. For that, ask the scheduler \
         (kubectl plimsoll why {pod}) or files (plimsoll why -f FILE... {pod})."
    )
}

fn rejections(out: &mut impl Write, why: &JournalWhy, screen: Screen) -> io::Result<()> {
    if why.rejections.is_empty() {
        return Ok(());
    }
    if why.rejections.iter().all(|one| one.reason.is_none() && one.nodes.is_none()) {
        let plugins: Vec<&str> = why.rejections.iter().map(|one| one.plugin.as_str()).collect();
        return writeln!(out, "\n{HEADING}Rejected by{HEADING:#} {}.", some_of(&plugins, NAMES));
    }
    let mut table = screen.table(&[">REJECTED", "BY", "REASON"]);
    for one in &why.rejections {
        let nodes = one.nodes.map(|n| n.to_string()).unwrap_or_default();
        table.add_row([nodes, one.plugin.clone(), one.reason.clone().unwrap_or_default()]);
    }
    writeln!(out, "\n{}", table.trim_fmt())
}
