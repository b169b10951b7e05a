//! Prints the report of a shadow.

use std::io::{self, Write};
use std::time::Duration;

use comfy_table::Cell;
use plimsoll_shadow::{Agreement, Configuration, Differences, Disagreement, Report, Span};

use super::style::{HEADING, Screen, bad, bar, doubtful, good};
use crate::wording::{count, some_of};

/// At most this many disagreements are shown, the latest; the report as JSON has more.
const SHOWN: usize = 10;
/// At most this many rows of plugins are shown.
const PLUGINS: usize = 10;
/// At most this many names are shown.
const NAMES: usize = 3;

/// Prints a report.
pub(crate) fn report(out: &mut impl Write, report: &Report, screen: Screen) -> io::Result<()> {
    let names = some_of(&report.scheduler_names, NAMES);
    let span = Duration::from_secs(report.seconds);
    writeln!(out, "{HEADING}Followed{HEADING:#} {names} for {span:?}\n")?;
    for configuration in &report.configurations {
        agreement(out, configuration, screen)?;
    }
    if let Some(between) = &report.between_configurations {
        differences(out, between, screen)?;
    }
    pending(out, report)?;
    usage(out, report, screen)?;
    disagreements(out, report, screen)?;
    writeln!(out, "{HEADING}How far this can be trusted{HEADING:#}")?;
    for limit in &report.limits {
        writeln!(out, "- {limit}")?;
    }
    Ok(())
}

/// Prints how many choices agree, and what makes the others worse.
fn agreement(
    out: &mut impl Write,
    configuration: &Configuration,
    screen: Screen,
) -> io::Result<()> {
    let Configuration { name, release, pods, worse_by, infeasible_by, .. } = configuration;
    let agreed = share(pods.agreed(), pods.judged());
    let compared = count(usize::try_from(pods.compared).unwrap_or(usize::MAX), "pod");
    writeln!(
        out,
        "{HEADING}Agreement{HEADING:#} {agreed} of {compared} with {name}, as release {release} decides"
    )?;
    let mut table = screen.table(&["CHOICE", ">PODS", ">", "MEANING"]);
    for (choice, n, meaning) in rows(pods) {
        let choice = match choice {
            "same node" | "tie" | "both pending" => good(choice),
            "not judged" => doubtful(choice),
            choice => bad(choice),
        };
        let of = share(n, pods.compared);
        table.add_row([choice, Cell::new(n), Cell::new(of), Cell::new(meaning)]);
    }
    writeln!(out, "{}\n", table.trim_fmt())?;
    if !worse_by.is_empty() {
        let mut table = screen.table(&["WORSE BY", ">PODS", ">MEAN POINTS"]);
        for one in worse_by.iter().take(PLUGINS) {
            table.add_row([
                one.plugin.to_string(),
                one.pods.to_string(),
                one.mean_points.to_string(),
            ]);
        }
        writeln!(out, "{}\n", table.trim_fmt())?;
    }
    if !infeasible_by.is_empty() {
        let mut table = screen.table(&["INFEASIBLE BY", ">PODS", "REASON"]);
        for one in infeasible_by.iter().take(PLUGINS) {
            table.add_row([one.plugin.to_string(), one.pods.to_string(), one.reason.clone()]);
        }
        writeln!(out, "{}\n", table.trim_fmt())?;
    }
    Ok(())
}

/// The rows with pods.
fn rows(pods: &Agreement) -> impl Iterator<Item = (&'static str, u64, &'static str)> {
    let rows = [
        ("same node", pods.same, "it is the best one"),
        ("tie", pods.tie, "it is one of several that are equally good"),
        ("worse", pods.worse, "another node has a higher score"),
        ("infeasible", pods.infeasible, "a plugin rejects the node; another one would be chosen"),
        ("unschedulable", pods.unschedulable, "a plugin rejects the node, and no other one fits"),
        ("not judged", pods.unjudged, "the node was not known, or an error prevented it"),
        ("both pending", pods.both_pending, "times that both find no node"),
        (
            "pending although it fits",
            pods.pending_although_fits,
            "times that only the other scheduler finds no node",
        ),
    ];
    rows.into_iter().filter(|(_, n, _)| 0 < *n)
}

/// Prints how two configurations differ.
fn differences(out: &mut impl Write, between: &Differences, screen: Screen) -> io::Result<()> {
    let Differences { compared, same, overlap, different, one_finds_none, examples } = between;
    writeln!(
        out,
        "{HEADING}Between the configurations{HEADING:#} {compared} pods on the same states"
    )?;
    let mut table = screen.table(&["BEST NODES", ">PODS", ">"]);
    for (what, n) in [
        ("the same", same),
        ("partly the same", overlap),
        ("different", different),
        ("only one finds any", one_finds_none),
    ] {
        table.add_row([what.to_owned(), n.to_string(), share(*n, *compared)]);
    }
    writeln!(out, "{}\n", table.trim_fmt())?;
    if !examples.is_empty() {
        let mut table = screen.table(&["POD", "FIRST", "SECOND"]);
        for one in examples.iter().rev().take(SHOWN) {
            let nodes = [&one.first, &one.second].map(|nodes| match nodes.as_slice() {
                [] => "<none>".to_owned(),
                nodes => some_of(nodes, NAMES),
            });
            let [first, second] = nodes;
            table.add_row([one.pod.clone(), first, second]);
        }
        writeln!(out, "{}\n", table.trim_fmt())?;
    }
    Ok(())
}

fn pending(out: &mut impl Write, report: &Report) -> io::Result<()> {
    let times = &report.pending_time;
    if 0 < times.count {
        writeln!(
            out,
            "{HEADING}Pending{HEADING:#} until the binding: half of the pods at most {} s, 90 % {} s, 99 % {} s, all {} s",
            times.p50_seconds, times.p90_seconds, times.p99_seconds, times.max_seconds
        )?;
    }
    let still = &report.still_pending;
    writeln!(
        out,
        "{HEADING}Still pending{HEADING:#} {}, of which the other scheduler finds no node for {}, and {} are gated\n",
        still.pods, still.said_unschedulable, still.gated
    )
}

/// Prints how much is used, and how evenly.
fn usage(out: &mut impl Write, report: &Report, screen: Screen) -> io::Result<()> {
    let mut table = screen.table(&["REQUESTED", ">", ""]);
    for (resource, share) in &report.utilisation {
        #[expect(clippy::cast_possible_truncation, reason = "it is a share")]
        let percent = (share * 100.0).round() as i64;
        table.add_row([resource.to_string(), format!("{percent}%"), bar(percent.into())]);
    }
    if !report.utilisation.is_empty() {
        writeln!(out, "{}\n", table.trim_fmt())?;
    }
    let balance = &report.balance;
    let mut table = screen.table(&["OF A NODE", ">MIN", ">MEDIAN", ">MAX"]);
    let percents =
        |span: Span| [span.min, span.median, span.max].map(|one| format!("{:.0}%", one * 100.0));
    let pods = balance.pods_per_node;
    let pods = [pods.min, pods.median, pods.max].map(|one| format!("{one:.0}"));
    for (what, [min, median, max]) in
        [("pods", pods), ("cpu", percents(balance.cpu)), ("memory", percents(balance.memory))]
    {
        table.add_row([what.to_owned(), min, median, max]);
    }
    writeln!(out, "{}", table.trim_fmt())?;
    writeln!(out, "{} of {} empty\n", balance.empty_nodes, count(balance.nodes, "node"))
}

fn disagreements(out: &mut impl Write, report: &Report, screen: Screen) -> io::Result<()> {
    let all = u64::try_from(report.disagreements.len()).unwrap_or(u64::MAX)
        + report.disagreements_dropped;
    if all == 0 {
        return Ok(());
    }
    writeln!(out, "{HEADING}Disagreements{HEADING:#} {all}, the latest first")?;
    let mut table = screen.table(&[">", "POD", "THEIRS", "OURS", "WHY"]);
    for one in report.disagreements.iter().rev().take(SHOWN) {
        let Disagreement { number, pod, theirs, ours, why, .. } = one;
        let theirs = theirs.as_ref().map_or("<none>", |node| node.as_str());
        let ours = if ours.is_empty() { "<none>".to_owned() } else { some_of(ours, NAMES) };
        table.add_row([number.to_string().as_str(), pod, theirs, &ours, why]);
    }
    writeln!(out, "{}\n", table.trim_fmt())?;
    let mut reproducible = report.disagreements.iter().rev();
    if let Some(one) = reproducible.find_map(|one| one.reproduction.as_ref()) {
        writeln!(out, "One of them again: {}\n", one.command)?;
    }
    Ok(())
}

/// `37%` or `99.9%`, rounded down: all of them is said only if it is so.
fn share(part: u64, whole: u64) -> String {
    match u128::from(whole) {
        0 => String::new(),
        whole => {
            let tenths = u128::from(part) * 1000 / whole;
            match tenths % 10 {
                0 => format!("{}%", tenths / 10),
                tenth => format!("{}.{tenth}%", tenths / 10),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_all_is_called_all() {
        assert_eq!(share(9_999, 10_000), "99.9%");
        assert_eq!(share(10_000, 10_000), "100%");
        assert_eq!(share(1, 3), "33.3%");
        assert_eq!(share(0, 3), "0%");
        assert_eq!(share(0, 0), "");
    }
}
