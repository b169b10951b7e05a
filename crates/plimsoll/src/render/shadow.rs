//! Prints the report of a shadow.

use std::collections::BTreeSet;
use std::io::{self, Write};

use comfy_table::Cell;
use plimsoll_shadow::{
    Agreement, Balance, Configuration, Differences, Disagreement, Durations, OurCluster, Report,
    Span, StillPending,
};

use super::style::{HEADING, Screen, bad, doubtful, good};
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
    let span = lasting(report.seconds);
    writeln!(out, "{HEADING}Followed{HEADING:#} {names} for {span}\n")?;
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

/// The rows with pods: the choice, how many, and what it means.
pub(crate) fn rows(pods: &Agreement) -> impl Iterator<Item = (&'static str, u64, &'static str)> {
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

/// How long pods were pending, in a sentence.
pub(crate) fn pending_times(times: &Durations) -> String {
    format!(
        "half of the pods at most {} s, 90 % {} s, 99 % {} s, all {} s",
        times.p50_seconds, times.p90_seconds, times.p99_seconds, times.max_seconds
    )
}

fn pending(out: &mut impl Write, report: &Report) -> io::Result<()> {
    let ours = report.our_cluster.as_ref().map(|ours| ("ours", &ours.pending_time));
    for (whose, times) in [("theirs", &report.pending_time)].into_iter().chain(ours) {
        if 0 < times.count {
            writeln!(out, "{HEADING}Pending{HEADING:#} {whose}: {}", pending_times(times))?;
        }
    }
    let still = &report.still_pending;
    writeln!(
        out,
        "{HEADING}Still pending{HEADING:#} {}, of which the other scheduler finds no node for {}, and {} are gated{}\n",
        still.pods,
        still.said_unschedulable,
        still.gated,
        gangs_in_part(still)
    )
}

/// The end of a sentence about pending pods that says how many gangs have too few pods on nodes, if there are any.
pub(crate) fn gangs_in_part(still: &StillPending) -> String {
    match still.gangs_in_part {
        0 => String::new(),
        1 => "; 1 gang has fewer pods on nodes than its minCount".to_owned(),
        n => format!("; {n} gangs have fewer pods on nodes than their minCount"),
    }
}

/// Prints how much is used, and how evenly.
fn usage(out: &mut impl Write, report: &Report, screen: Screen) -> io::Result<()> {
    let ours = report.our_cluster.as_ref();
    let headings = ["OF NODES: LEAST / MEDIAN / MOST", ">AS IT IS", ">OURS"];
    let mut table = screen.table(&headings[..2 + usize::from(ours.is_some())]);
    for (what, theirs, ours) in cluster_rows(report) {
        table.add_row([what, theirs].into_iter().chain(ours));
    }
    writeln!(out, "{}\n", table.trim_fmt())?;
    if let Some(ours) = ours {
        writeln!(out, "{}\n", our_placements(ours))?;
    }
    Ok(())
}

/// `6 d 23 h`, `3 h 5 min`, `4 min 0 s` or `12 s`.
pub(crate) fn lasting(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, _, _) => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

/// What our decisions would have led to, in a sentence.
pub(crate) fn our_placements(ours: &OurCluster) -> String {
    let placed = count(usize::try_from(ours.placed).unwrap_or(usize::MAX), "pod");
    format!(
        "Our decisions have placed {placed}, {} of them on another node; {} are pending, of which the other scheduler has placed {}.",
        ours.elsewhere, ours.still_pending, ours.pending_only_here
    )
}

/// What is used, and how evenly: of the cluster as it is, and as our decisions would have made it.
pub(crate) fn cluster_rows(report: &Report) -> Vec<(String, String, Option<String>)> {
    let ours = report.our_cluster.as_ref();
    let percent = |share: f64| format!("{:.0}%", share * 100.0);
    let whole = |n: f64| format!("{n:.0}");
    let spread = |span: Span, say: &dyn Fn(f64) -> String| {
        [span.min, span.median, span.max].map(say).join(" / ")
    };
    let mut rows = Vec::new();
    for (resource, share) in &report.utilisation {
        let of_ours = ours.map(|ours| ours.utilisation.get(resource).copied().unwrap_or_default());
        rows.push((format!("{resource} requested"), percent(*share), of_ours.map(percent)));
    }
    let mut add = |what: String, of: &dyn Fn(&Balance) -> String| {
        rows.push((what, of(&report.balance), ours.map(|ours| of(&ours.balance))));
    };
    add("pods of a node".to_owned(), &|one| spread(one.pods_per_node, &whole));
    add("cpu of a node".to_owned(), &|one| spread(one.cpu, &percent));
    add("memory of a node".to_owned(), &|one| spread(one.memory, &percent));
    add("nodes without a pod".to_owned(), &|one| format!("{} of {}", one.empty_nodes, one.nodes));
    let zones = report.balance.pods_by_zone.keys();
    let zones: BTreeSet<_> =
        zones.chain(ours.into_iter().flat_map(|ours| ours.balance.pods_by_zone.keys())).collect();
    for zone in zones {
        add(format!("pods in {zone}"), &|one| {
            one.pods_by_zone.get(zone).copied().unwrap_or_default().to_string()
        });
    }
    rows
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
pub(crate) fn share(part: u64, whole: u64) -> String {
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
    fn a_span_has_its_two_greatest_units() {
        for (seconds, expected) in [
            (0, "0 s"),
            (59, "59 s"),
            (240, "4 min 0 s"),
            (11_100, "3 h 5 min"),
            (7 * 86_400 - 1, "6 d 23 h"),
        ] {
            assert_eq!(lasting(seconds), expected);
        }
    }

    #[test]
    fn only_all_is_called_all() {
        assert_eq!(share(9_999, 10_000), "99.9%");
        assert_eq!(share(10_000, 10_000), "100%");
        assert_eq!(share(1, 3), "33.3%");
        assert_eq!(share(0, 3), "0%");
        assert_eq!(share(0, 0), "");
    }
}
