//! Prints how many more pods fit.

use std::io::{self, Write};

use super::canary;
use super::style::{HEADING, Screen};
use crate::report::CapacityAnswer;
use crate::wording::{count, some_of};

/// At most so many nodes are named for one pod.
const NODES: usize = 5;

/// Prints the answer.
pub(crate) fn answer(
    out: &mut impl Write,
    answer: &CapacityAnswer,
    screen: Screen,
) -> io::Result<()> {
    if answer.shapes.is_empty() {
        return writeln!(out, "No pod of the files has a controller.");
    }
    let mut table =
        screen.table(&["POD", ">FITS", "ON", "A TENTH MORE WITH", "WHAT STOPS THE NEXT ONE"]);
    for shape in &answer.shapes {
        let capacity = &shape.capacity;
        let mut on: Vec<_> = capacity.by_node.iter().collect();
        on.sort_by_key(|(node, n)| (std::cmp::Reverse(**n), *node));
        let on: Vec<String> = on.into_iter().map(|(node, n)| format!("{node} {n}")).collect();
        let more = capacity.ten_percent_more.as_ref();
        let more = more.map(|more| format!("{} like {}", count(more.nodes, "node"), more.like));
        table.add_row([
            capacity.pod.clone(),
            capacity.fits.to_string(),
            some_of(&on, NODES),
            more.unwrap_or_default(),
            capacity.stopped_by.clone().unwrap_or_else(|| "the limit of --limit".to_owned()),
        ]);
    }
    writeln!(out, "{}", table.trim_fmt())?;
    for shape in answer.shapes.iter().filter(|shape| shape.canary.is_some()) {
        writeln!(out)?;
        canary::choice(out, &shape.capacity.pod, shape.canary.as_ref())?;
    }
    for shape in answer.shapes.iter().filter(|shape| !shape.smaller_requests.is_empty()) {
        let texts: Vec<&str> = shape.smaller_requests.iter().map(|one| one.text.as_str()).collect();
        writeln!(
            out,
            "\nA tenth more of {} would also fit if it were to {}.",
            shape.capacity.pod,
            texts.join(", or ")
        )?;
    }
    for shape in answer.shapes.iter().filter(|shape| !shape.remedies.is_empty()) {
        writeln!(
            out,
            "\n{HEADING}One more{HEADING:#} of {} would fit with one of these changes:\n",
            shape.capacity.pod
        )?;
        let mut table = screen.table(&["GOES TO", "CHANGE"]);
        for remedy in &shape.remedies {
            table.add_row([&remedy.node, &remedy.text]);
        }
        writeln!(out, "{}", table.trim_fmt())?;
    }
    Ok(())
}
