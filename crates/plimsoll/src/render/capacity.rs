//! Prints how many more pods and groups of pods fit.

use std::io::{self, Write};

use plimsoll_sim::ShapeCapacity;

use super::style::{HEADING, Screen};
use super::{canary, why_group};
use crate::report::{CapacityAnswer, Copied, Remedies, Shape};
use crate::wording::{count, some_of};

/// At most so many nodes or domains are named for one pod or group.
const NODES: usize = 5;

/// Prints the answer.
pub(crate) fn answer(
    out: &mut impl Write,
    answer: &CapacityAnswer,
    screen: Screen,
) -> io::Result<()> {
    if answer.shapes.is_empty() {
        return writeln!(
            out,
            "Nothing can be counted: no pod here has both a controller (other than a DaemonSet) and a profile."
        );
    }
    let has_groups = answer.shapes.iter().any(|shape| shape.of.n_pods().is_some());
    let what = if has_groups { "POD OR GROUP" } else { "POD" };
    let mut table =
        screen.table(&[what, ">FITS", "ON", "A TENTH MORE WITH", "WHAT STOPS THE NEXT ONE"]);
    for shape in &answer.shapes {
        let capacity = &shape.capacity;
        let more = capacity.ten_percent_more.as_ref();
        let more = more.map(|more| format!("{} like {}", count(more.nodes, "node"), more.like));
        table.add_row([
            named(&shape.of),
            capacity.fits.to_string(),
            places(capacity),
            more.unwrap_or_default(),
            capacity.stopped_by.clone().unwrap_or_else(|| "the limit of --limit".to_owned()),
        ]);
    }
    writeln!(out, "{}", table.trim_fmt())?;
    for shape in answer.shapes.iter().filter(|shape| shape.canary.is_some()) {
        writeln!(out)?;
        canary::choice(out, shape.of.name(), shape.canary.as_ref())?;
    }
    for shape in answer.shapes.iter().filter(|shape| !shape.smaller_requests.is_empty()) {
        let texts: Vec<&str> = shape.smaller_requests.iter().map(|one| one.text.as_str()).collect();
        writeln!(
            out,
            "\nA tenth more of {} would also fit if it were to {}.",
            shape.of.name(),
            texts.join(", or ")
        )?;
    }
    answer.shapes.iter().try_for_each(|shape| remedies(out, shape, screen))
}

/// What would let one more in.
fn remedies(out: &mut impl Write, shape: &Shape, screen: Screen) -> io::Result<()> {
    if shape.remedies.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\n{HEADING}One more{HEADING:#} of {} would fit with one of these changes:\n",
        shape.of.name()
    )?;
    let table = match &shape.remedies {
        Remedies::Pod(remedies) => {
            let mut table = screen.table(&["GOES TO", "CHANGE"]);
            for remedy in remedies {
                table.add_row([&remedy.node, &remedy.text]);
            }
            table
        }
        Remedies::Group(remedies) => why_group::remedy_table(remedies, screen),
    };
    writeln!(out, "{}", table.trim_fmt())
}

/// The name of what is copied, and how many pods a group has.
fn named(of: &Copied) -> String {
    let name = of.name();
    match of.n_pods() {
        Some(pods) => format!("{name} ({})", count(pods, "pod")),
        None => name.to_owned(),
    }
}

/// Where the copies are: how many groups are in each domain, or how many pods on each node.
fn places(capacity: &ShapeCapacity) -> String {
    let domains = &capacity.by_placement;
    let places = if domains.is_empty() { &capacity.by_node } else { domains };
    let mut on: Vec<_> = places.iter().collect();
    on.sort_by_key(|(place, n)| (std::cmp::Reverse(**n), *place));
    let on: Vec<String> = on.into_iter().map(|(place, n)| format!("{place} {n}")).collect();
    some_of(&on, NODES)
}
