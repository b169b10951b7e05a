//! Prints the summary of a simulation.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{self, Write};

use comfy_table::Cell;
use plimsoll_api::PodKey;
use plimsoll_engine::Outcome;

use super::style::{BAD, DOUBTFUL, GOOD, Screen, amount, bar, percent};
use plimsoll_sim::Utilisation;

use crate::report::Report;
use crate::wording::{count, some_of};

/// At most 3 pods are named for one reason.
const NAMES: usize = 3;

/// Prints how many pods were scheduled, and why the others were not, the most frequent reason first.
pub(crate) fn outcomes(out: &mut impl Write, report: &Report) -> io::Result<()> {
    let (mut scheduled, mut unschedulable, mut errors) = (0, Vec::new(), Vec::new());
    for placement in &report.placements {
        let pod = &placement.decision.pod;
        match &placement.decision.outcome {
            Outcome::Scheduled { .. } if report.preempted.contains_key(pod) => {}
            Outcome::Scheduled { .. } => scheduled += 1,
            Outcome::Unschedulable { message, .. } => unschedulable.push((message.as_str(), pod)),
            Outcome::Error { message } => errors.push((message.as_str(), pod)),
        }
    }
    let preempted: Vec<&PodKey> = report.preempted.keys().collect();
    let gated = report.gated.iter().map(|gated| (gated.why.as_str(), &gated.pod)).collect();
    let all = report.placements.len() + report.gated.len();
    let passed_over: Vec<_> = report.passed_over.describe().collect();
    if all == 0 && passed_over.is_empty() {
        return Ok(());
    }
    if 0 < all {
        writeln!(out, "{GOOD}Scheduled{GOOD:#} {scheduled} of {}", count(all, "pod"))?;
    }
    group(out, &format!("{BAD}Unschedulable{BAD:#}"), unschedulable)?;
    group(out, &format!("{BAD}Not judged{BAD:#}"), errors)?;
    if !preempted.is_empty() {
        let pods = count(preempted.len(), "pod");
        writeln!(out, "{BAD}Preempted{BAD:#} {pods} ({})", some_of(&preempted, NAMES))?;
    }
    group(out, &format!("{DOUBTFUL}Gated{DOUBTFUL:#}"), gated)?;
    for line in passed_over {
        writeln!(out, "{line}")?;
    }
    writeln!(out)
}

/// Prints a heading with the number of pods, and a line for each reason.
fn group(out: &mut impl Write, heading: &str, pods: Vec<(&str, &PodKey)>) -> io::Result<()> {
    if pods.is_empty() {
        return Ok(());
    }
    writeln!(out, "{heading} {}", count(pods.len(), "pod"))?;
    let mut reasons: BTreeMap<&str, Vec<&PodKey>> = BTreeMap::new();
    for (reason, pod) in pods {
        reasons.entry(reason).or_default().push(pod);
    }
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, pods)| Reverse(pods.len()));
    for (reason, pods) in reasons {
        writeln!(out, "  {}: {reason}", some_of(&pods, NAMES))?;
    }
    Ok(())
}

/// Prints how much of each resource is requested, before and after.
pub(crate) fn utilisation(
    out: &mut impl Write,
    before: &Utilisation,
    after: &Utilisation,
    screen: Screen,
) -> io::Result<()> {
    let resources = after.resources();
    if resources.is_empty() {
        return Ok(());
    }
    let headings = ["REQUESTED", ">BEFORE", ">", ">AFTER", ">", "", ">ALLOCATABLE"];
    let mut table = screen.table(&headings);
    for resource in resources {
        let whole = after.allocatable(&resource);
        let share = |utilisation: &Utilisation| percent(utilisation.requested(&resource), whole);
        let cells = [
            resource.to_string(),
            amount(&resource, before.requested(&resource)),
            format!("{}%", share(before)),
            amount(&resource, after.requested(&resource)),
            format!("{}%", share(after)),
            bar(share(after)),
            amount(&resource, whole),
        ];
        table.add_row(cells.map(Cell::new));
    }
    writeln!(out, "{}", table.trim_fmt())
}
