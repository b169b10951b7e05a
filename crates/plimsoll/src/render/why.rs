//! Prints why a pod is pending and what would change that, or why it is on its node.

use std::io::{self, Write};

use plimsoll_advisor::{AwaitedPermit, Reference, Waiting, Why};

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
        None => {
            let waiting = why.waiting.as_ref();
            let told = waiting.map_or_else(String::new, |waiting| in_flight(&why.pod, waiting));
            writeln!(out, "{told}")?;
        }
    }
    group(out, why, screen)?;
    runner_up(out, why)?;
    remedies(out, why, screen)?;
    unknown_manifests(out, &why.unknown_manifests)?;
    nearest(out, why, screen)?;
    let Some(waiting) = &why.waiting else { return Ok(()) };
    if why.decision.is_some() {
        history(out, waiting)?;
        next(out, waiting, why.state)?;
    }
    Ok(())
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
        [] => writeln!(out, "No change that was tried would let the group be scheduled."),
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

/// What a pod waits for whose node is chosen.
fn in_flight(pod: &str, waiting: &Waiting) -> String {
    let Some(node) = &waiting.node else { return format!("{pod} is being tried now.") };
    if waiting.permits.is_empty() {
        return format!("{pod} is being bound to {node}.");
    }
    let until = |permit: &AwaitedPermit| match &permit.until {
        Some(until) => format!("{} until {until}", permit.plugin),
        None => permit.plugin.clone(),
    };
    let permits: Vec<String> = waiting.permits.iter().map(until).collect();
    let waits = match &waiting.since {
        Some(since) => format!("has waited since {since}"),
        None => "waits".to_owned(),
    };
    format!("{pod} has the node {node}, and {waits} to be allowed by {}.", permits.join(", "))
}

/// How often a pod was tried, since when it waits, and whether others have the room. Files know nothing of that.
pub(super) fn history(out: &mut impl Write, waiting: &Waiting) -> io::Result<()> {
    let mut sentences = Vec::new();
    let tried = match waiting.attempts {
        1 => "once".to_owned(),
        n => format!("{n} times"),
    };
    match (waiting.attempts, &waiting.since) {
        (0, None) => {}
        (0, Some(since)) => {
            sentences.push(format!("It has waited since {since}, and has not been tried yet."));
        }
        (_, None) => sentences.push(format!("It was tried {tried}.")),
        (_, Some(since)) => {
            sentences.push(format!("It was tried {tried}, and has waited again since {since}."));
        }
    }
    if let Some(room) = &waiting.reservation {
        let until = room.until.as_ref().map(|until| format!(", until {until} at the latest"));
        sentences.push(format!(
            "It is not tried while room is reserved for {} ({}){}.",
            room.group,
            room.kind,
            until.unwrap_or_default()
        ));
    } else if let ("backoff", Some(next)) = (waiting.place, &waiting.next_attempt) {
        sentences.push(format!("It is in backoff, and is tried again at {next} at the latest."));
    } else if waiting.place == "active" && waiting.since.is_some() {
        sentences.push("It is ready, and is tried when its turn comes.".to_owned());
    }
    if sentences.is_empty() { Ok(()) } else { writeln!(out, "\n{}", sentences.join(" ")) }
}

/// When a pod is tried next, and what may help it.
fn next(out: &mut impl Write, waiting: &Waiting, state: &str) -> io::Result<()> {
    // It is tried without any change.
    let has_turn = waiting.place == "backoff"
        || waiting.place == "active" && waiting.since.is_some()
        || waiting.reservation.is_some();
    let mut sentences = Vec::new();
    match &waiting.next_attempt {
        _ if has_turn => {}
        Some(next) => {
            sentences.push(format!("Without a change that may help, it is tried again at {next}."));
        }
        None if waiting.woken_by.is_empty() => {}
        None => sentences.push("As long as nothing changes, it is not tried again.".to_owned()),
    }
    if !waiting.woken_by.is_empty() && state != "scheduled" {
        let events = some_of(&waiting.woken_by, EVENTS);
        sentences.push(format!("Events that may help: {events}"));
    }
    if sentences.is_empty() { Ok(()) } else { writeln!(out, "\n{}", sentences.join(" ")) }
}

#[cfg(test)]
mod tests {
    use plimsoll_advisor::RoomForGroup;

    use super::*;

    fn waiting(place: &'static str, attempts: u32, next: Option<&str>) -> Waiting {
        Waiting {
            place,
            attempts,
            since: Some("09:00".to_owned()),
            next_attempt: next.map(str::to_owned),
            woken_by: vec!["Node/Add".to_owned()],
            ..Waiting::default()
        }
    }

    fn text(waiting: &Waiting, state: &str) -> String {
        let mut out = Vec::new();
        history(&mut out, waiting).expect("there is room");
        next(&mut out, waiting, state).expect("there is room");
        String::from_utf8(out).expect("it is text")
    }

    #[test]
    fn a_pod_that_waits_for_a_change_is_told_when_it_is_tried_without_one() {
        let told = text(&waiting("unschedulable", 3, Some("09:05")), "unschedulable");
        let expected = "
It was tried 3 times, and has waited again since 09:00.

Without a change that may help, it is tried again at 09:05. Events that may help: Node/Add
";
        assert_eq!(told, expected);
        let of_files = Waiting { since: None, ..waiting("active", 0, None) };
        let expected = "
As long as nothing changes, it is not tried again. Events that may help: Node/Add
";
        assert_eq!(text(&of_files, "unschedulable"), expected);
    }

    #[test]
    fn a_pod_with_a_turn_is_not_told_to_wait_for_a_change() {
        let told = text(&waiting("backoff", 1, Some("09:01")), "backoff");
        let expected = "
It was tried once, and has waited again since 09:00. It is in backoff, and is tried again at 09:01 at the latest.

Events that may help: Node/Add
";
        assert_eq!(told, expected);
        let expected = "
It has waited since 09:00, and has not been tried yet. It is ready, and is tried when its turn comes.
";
        assert_eq!(text(&waiting("active", 0, None), "scheduled"), expected);
    }

    #[test]
    fn a_pod_behind_a_reservation_is_told_the_group() {
        let room = RoomForGroup {
            kind: "PodGroup",
            group: "ml/train".to_owned(),
            until: Some("09:10".to_owned()),
        };
        let behind = Waiting { reservation: Some(room), ..waiting("active", 0, Some("09:10")) };
        let expected = "
It has waited since 09:00, and has not been tried yet. It is not tried while room is reserved for ml/train (PodGroup), until 09:10 at the latest.
";
        assert_eq!(text(&behind, "scheduled"), expected);
    }

    #[test]
    fn a_pod_with_a_node_is_told_what_it_waits_for_there() {
        let mut waiting = Waiting { node: Some("n1".to_owned()), ..waiting("inFlight", 1, None) };
        assert_eq!(in_flight("a/p", &waiting), "a/p is being bound to n1.");
        let permit = |plugin: &str, until: &str| AwaitedPermit {
            plugin: plugin.to_owned(),
            until: Some(until.to_owned()),
        };
        waiting.permits = vec![permit("Coscheduling", "09:01"), permit("Quota", "09:05")];
        let expected = "a/p has the node n1, and has waited since 09:00 to be allowed by Coscheduling until 09:01, Quota until 09:05.";
        assert_eq!(in_flight("a/p", &waiting), expected);
        waiting.node = None;
        assert_eq!(in_flight("a/p", &waiting), "a/p is being tried now.");
    }
}
