//! Prints what would happen if the cluster changed.

use std::io::{self, Write};

use plimsoll_sim::what_if::{BeforeAndAfter, Plan};

use super::style::{BAD, GOOD, HEADING, Screen};
use crate::wording::{count, some_of};

/// At most so many pods are named in one line.
const NAMES: usize = 5;

/// Prints the plan.
pub(crate) fn plan(out: &mut impl Write, plan: &Plan, screen: Screen) -> io::Result<()> {
    moves(out, plan, screen)?;
    pending(out, plan, screen)?;
    if !plan.lost.is_empty() {
        let pods: Vec<_> = plan.lost.iter().map(|lost| &lost.pod).collect();
        let n = count(pods.len(), "pod");
        writeln!(
            out,
            "{BAD}Lost{BAD:#} {n} without a controller that makes it again ({})\n",
            some_of(&pods, NAMES)
        )?;
    }
    if !plan.evicted.is_empty() {
        let evicted: Vec<_> =
            plan.evicted.iter().map(|one| format!("{} for {}", one.pod, one.for_pod)).collect();
        let n = count(evicted.len(), "pod");
        writeln!(out, "{BAD}Evicted{BAD:#} {n} for others ({})\n", some_of(&evicted, NAMES))?;
    }
    groups(out, plan, screen)?;
    for broken in &plan.broken_budgets {
        writeln!(
            out,
            "{BAD}Budget{BAD:#} {} allows {} now, not {}: draining would have to wait\n",
            broken.budget,
            count(broken.allowed, "eviction"),
            broken.evicted
        )?;
    }
    utilisation(out, plan, screen)?;
    zones(out, &plan.pods_by_zone, screen)?;
    writeln!(out, "{}", count(plan.decisions, "decision"))
}

fn moves(out: &mut impl Write, plan: &Plan, screen: Screen) -> io::Result<()> {
    let (waited, moved): (Vec<_>, Vec<_>) = plan.placed.iter().partition(|pod| pod.waited);
    if moved.is_empty() {
        writeln!(out, "No pod goes to another node.\n")?;
    } else {
        let (total, shown) = (moved.len(), screen.shown(moved.len()));
        let mut table = screen.table(&["POD", "FROM", "TO"]);
        for placed in moved.into_iter().take(shown) {
            let from = placed.from.as_deref().unwrap_or("<none>");
            table.add_row([placed.pod.to_string().as_str(), from, &placed.to]);
        }
        writeln!(out, "{GOOD}Placed{GOOD:#} {}\n\n{}", count(total, "pod"), table.trim_fmt())?;
        more(out, total - shown)?;
    }
    if !waited.is_empty() {
        let names: Vec<_> = waited.iter().map(|placed| &placed.pod).collect();
        let n = count(names.len(), "pod");
        writeln!(out, "{n} that waited before: placed ({})\n", some_of(&names, NAMES))?;
    }
    Ok(())
}

fn pending(out: &mut impl Write, plan: &Plan, screen: Screen) -> io::Result<()> {
    let (required, waited): (Vec<_>, Vec<_>) = plan.pending.iter().partition(|pod| pod.is_required);
    if !required.is_empty() {
        let (total, shown) = (required.len(), screen.shown(required.len()));
        // Of several the first blocker is marked, which `-o json` names.
        let marks = 1 < total;
        let mark: &[&str] = if marks { &[""] } else { &[] };
        let mut table = screen.table(&[mark, &["POD", "FROM", "WHY"]].concat());
        for pod in required.into_iter().take(shown) {
            let is_first = plan.first_blocker.as_ref().is_some_and(|first| first.pod == pod.pod);
            let mark = marks.then_some(if is_first { "→" } else { "" });
            let from = pod.from.as_deref().unwrap_or("<none>");
            let (name, why) = (pod.pod.to_string(), pod.message.as_str());
            table.add_row(mark.into_iter().chain([name.as_str(), from, why]));
        }
        writeln!(
            out,
            "{BAD}Without a node{BAD:#} {}\n\n{}",
            count(total, "pod"),
            table.trim_fmt()
        )?;
        more(out, total - shown)?;
    } else if plan.lost.is_empty() {
        writeln!(out, "Every pod that had a node, or was applied, has one.\n")?;
    }
    if !waited.is_empty() {
        let names: Vec<_> = waited.iter().map(|pod| &pod.pod).collect();
        let n = count(names.len(), "pod");
        writeln!(out, "{n} that waited before: still without a node ({})", some_of(&names, NAMES))?;
        // It stands in no table.
        let first = plan.first_blocker.as_ref().filter(|first| !first.is_required);
        match first {
            Some(first) => writeln!(out, "The first of them, {}: {}\n", first.pod, first.message)?,
            None => writeln!(out)?,
        }
    }
    Ok(())
}

fn groups(out: &mut impl Write, plan: &Plan, screen: Screen) -> io::Result<()> {
    if plan.groups.is_empty() {
        return Ok(());
    }
    let has_placements = plan.groups.iter().any(|group| group.placement.is_some());
    let mut headings = vec!["GROUP", "RESULT", ">PLACED"];
    headings.extend(has_placements.then_some("IN"));
    headings.push("WHY");
    let (total, shown) = (plan.groups.len(), screen.shown(plan.groups.len()));
    let mut table = screen.table(&headings);
    for group in plan.groups.iter().take(shown) {
        let placed = format!("{}/{}", group.placed, group.pods);
        let mut row = vec![group.group.clone(), group.result.to_owned(), placed];
        if has_placements {
            row.push(group.placement.clone().unwrap_or_default().to_string());
        }
        row.push(group.message.clone().unwrap_or_default());
        table.add_row(row);
    }
    writeln!(out, "{HEADING}Groups{HEADING:#}\n\n{}", table.trim_fmt())?;
    more(out, total - shown)
}

fn more(out: &mut impl Write, left: usize) -> io::Result<()> {
    if 0 < left {
        writeln!(out, "... and {left} more; -o json prints all")?;
    }
    writeln!(out)
}

fn utilisation(out: &mut impl Write, plan: &Plan, screen: Screen) -> io::Result<()> {
    let BeforeAndAfter { before, after } = &plan.utilisation;
    let mut table = screen.table(&["REQUESTED", ">BEFORE", ">AFTER"]);
    let mut names: Vec<_> = before.keys().chain(after.keys()).collect();
    names.sort();
    names.dedup();
    let percent = |share: Option<&f64>| format!("{:.1} %", share.unwrap_or(&0.0) * 100.0);
    for name in names {
        table.add_row([name.to_string(), percent(before.get(name)), percent(after.get(name))]);
    }
    writeln!(out, "{HEADING}Utilisation{HEADING:#}\n\n{}\n", table.trim_fmt())
}

fn zones(out: &mut impl Write, zones: &BeforeAndAfter<usize>, screen: Screen) -> io::Result<()> {
    let BeforeAndAfter { before, after } = zones;
    let mut names: Vec<_> = before.keys().chain(after.keys()).collect();
    names.sort();
    names.dedup();
    if names.is_empty() {
        return Ok(());
    }
    let mut table = screen.table(&["ZONE", ">BEFORE", ">AFTER"]);
    let number = |n: Option<&usize>| n.copied().unwrap_or(0).to_string();
    for name in names {
        table.add_row([name.to_string(), number(before.get(name)), number(after.get(name))]);
    }
    writeln!(out, "{HEADING}Pods by zone{HEADING:#}\n\n{}\n", table.trim_fmt())
}
