//! Prints measurements as tables.

use std::io::{self, Write};

use plimsoll_sim::perf::{Workload, WorkloadGroups};
use serde_json::json;

use super::style::{Screen, amount};
use crate::args::Engine;
use crate::measured::{Figures, Record};

/// The placeholder for an unknown figure.
const UNKNOWN: &str = "-";

/// All workloads with their sizes.
pub(crate) fn list(out: &mut impl Write, all: &[Workload], screen: Screen) -> io::Result<()> {
    let headings = ["WORKLOAD", ">NODES", ">INIT PODS", ">PODS", "GROUPS", "WHAT IS MEASURED"];
    let mut table = screen.table(&headings);
    for workload in all {
        let sizes = workload.sizes;
        let groups = match workload.groups {
            WorkloadGroups::None => UNKNOWN.to_owned(),
            WorkloadGroups::Deployments => format!("{} Deployments", sizes.groups),
            WorkloadGroups::Classes => format!("{} classes", sizes.groups),
            WorkloadGroups::PodGroups | WorkloadGroups::PodGroupsInRacks => {
                format!("{} PodGroups", sizes.groups)
            }
        };
        let [nodes, init_pods, pods] =
            [sizes.nodes, sizes.init_pods, sizes.pods].map(|n| n.to_string());
        let about = workload.about;
        table.add_row([workload.name, &nodes, &init_pods, &pods, &groups, about]);
    }
    writeln!(out, "{}", table.trim_fmt())
}

/// The same as JSON.
pub(crate) fn list_json(out: &mut impl Write, all: &[Workload]) -> io::Result<()> {
    let records: Vec<_> = all
        .iter()
        .map(|workload| {
            let sizes = workload.sizes;
            let groups = |groups| (workload.groups == groups).then_some(sizes.groups);
            json!({
                "workload": workload.name,
                "about": workload.about,
                "nodes": sizes.nodes,
                "initPods": sizes.init_pods,
                "pods": sizes.pods,
                "deployments": groups(WorkloadGroups::Deployments),
                "classes": groups(WorkloadGroups::Classes),
                "podGroups": groups(WorkloadGroups::PodGroups)
                    .or(groups(WorkloadGroups::PodGroupsInRacks)),
            })
        })
        .collect();
    serde_json::to_writer_pretty(&mut *out, &records)?;
    writeln!(out)
}

/// Prints a line for each workload, and one for each of its parts if it has several. The columns of audits and
/// comparisons appear only if there were any.
pub(crate) fn table(out: &mut impl Write, records: &[Record], screen: Screen) -> io::Result<()> {
    let audits = records.iter().any(|record| record.audited.is_some());
    let compares = records.iter().any(|record| record.reference_ratio.is_some());
    let mut headings = vec!["WORKLOAD", ">NODES", ">INIT PODS", ">SET-UP"];
    headings.extend([
        ">PODS",
        ">SCHEDULED",
        ">UNSCHEDULABLE",
        ">DECISIONS",
        ">TIME",
        ">PER SECOND",
    ]);
    headings.extend([">P50", ">P99", ">MAX", ">CPU", ">MEMORY"]);
    if compares {
        headings.push(">REFERENCE");
    }
    if audits {
        headings.extend([">AUDITED", ">DIFFERING"]);
    }
    let mut table = screen.table(&headings);
    for record in records {
        let mut row = vec![
            name(record),
            record.nodes.to_string(),
            record.init_pods.to_string(),
            span(record.set_up_seconds),
        ];
        row.extend(figures(&record.total, &record.unschedulable.to_string()));
        row.push(record.cpu_seconds.map_or_else(|| UNKNOWN.to_owned(), span));
        row.push(record.peak_memory_bytes.map_or_else(|| UNKNOWN.to_owned(), memory));
        if compares {
            row.push(record.reference_ratio.map_or_else(String::new, times));
        }
        if audits {
            let known = |n: Option<u64>| n.map_or_else(|| UNKNOWN.to_owned(), |n| n.to_string());
            row.extend([known(record.audited), known(record.differing)]);
        }
        table.add_row(row);
        for phase in &record.phases {
            let mut row = vec![format!("  {}", phase.phase)];
            row.extend([const { String::new() }; 3]);
            row.extend(figures(&phase.figures, ""));
            table.add_row(row);
        }
    }
    writeln!(out, "{}", table.trim_fmt())
}

/// The name of a workload, with what no other column shows.
fn name(record: &Record) -> String {
    let groups = [
        (record.deployments, "Deployments"),
        (record.classes, "classes"),
        (record.pod_groups, "PodGroups"),
    ];
    let groups = groups.iter().filter_map(|(n, what)| n.map(|n| format!("{n} {what}")));
    let engine = (record.engine == Engine::Reference).then(|| "from scratch".to_owned());
    let runs = (1 < record.runs).then(|| format!("median of {}", record.runs));
    let notes: Vec<String> = groups.chain(engine).chain(runs).collect();
    match notes.is_empty() {
        true => record.workload.clone(),
        false => format!("{} ({})", record.workload, notes.join(", ")),
    }
}

fn figures(figures: &Figures, unschedulable: &str) -> [String; 9] {
    [
        figures.pods.to_string(),
        figures.scheduled.to_string(),
        unschedulable.to_owned(),
        figures.decisions.to_string(),
        span(figures.seconds),
        format!("{:.0}", figures.decisions_per_second),
        span(figures.p50_seconds),
        span(figures.p99_seconds),
        span(figures.max_seconds),
    ]
}

/// A ratio to three digits.
fn times(ratio: f64) -> String {
    to_three_digits(ratio) + "x"
}

fn to_three_digits(number: f64) -> String {
    let digits = if number < 9.995 { 2 } else { usize::from(number < 99.95) };
    format!("{number:.digits$}")
}

/// A duration to three digits, in a suitable unit.
fn span(seconds: f64) -> String {
    let units = [(1.0, "s"), (1e-3, "ms"), (1e-6, "µs")];
    let (unit, name) = units.into_iter().find(|(unit, _)| *unit <= seconds).unwrap_or((1e-9, "ns"));
    to_three_digits(seconds / unit) + name
}

fn memory(bytes: u64) -> String {
    amount(plimsoll_api::resources::MEMORY, i64::try_from(bytes).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_three_digits() {
        for (seconds, expected) in [
            (0.0, "0.00ns"),
            (1.234e-7, "123ns"),
            (9.999e-6, "10.0µs"),
            (0.012_345, "12.3ms"),
            (1.0, "1.00s"),
            (61.27, "61.3s"),
            (3600.4, "3600s"),
        ] {
            assert_eq!(span(seconds), expected, "{seconds}");
        }
    }

    #[test]
    fn audits_and_comparisons_have_columns_only_if_there_were_any() {
        let record = |audited: Option<u64>, ratio: Option<f64>| {
            let record = json!({
                "workload": "Scale", "engine": "fast", "placements": "", "nodes": 1, "initPods": 0, "seed": 0, "runs": 1,
                "setUpSeconds": 1.0, "pods": 2, "seconds": 1.0, "decisions": 2,
                "decisionsPerSecond": 2.0, "p50Seconds": 1.0, "p99Seconds": 1.0,
                "maxSeconds": 1.0, "scheduled": 2, "failed": 0, "evicted": 0,
                "secondsRange": [1.0, 1.0], "unschedulable": 0,
                "audited": audited, "differing": audited.map(|_| 0), "referenceRatio": ratio,
            });
            serde_json::from_value(record).expect("it is a record")
        };
        let shown = |audited, ratio| {
            let mut out = Vec::new();
            let screen = Screen { is_terminal: false, has_colours: false };
            table(&mut out, &[record(audited, ratio)], screen).expect("a vector takes all");
            String::from_utf8(out).expect("it is text")
        };
        let text = shown(None, None);
        assert!(!text.contains("AUDITED") && !text.contains("REFERENCE"), "{text}");
        let text = shown(None, Some(12.34));
        assert!(text.contains("REFERENCE") && text.trim_end().ends_with("12.3x"), "{text}");
        let text = shown(Some(7), None);
        assert!(text.contains("AUDITED  DIFFERING"), "{text}");
        assert!(text.trim_end().ends_with("7          0"), "{text}");
    }
}
