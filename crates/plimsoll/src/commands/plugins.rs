//! `plimsoll plugins`: lists the plugins, and those that are not available yet.

use std::io::{self, Write};

use anyhow::Result;
use plimsoll_config::{GivenGates, Known};
use plimsoll_framework::{Entry, Registry, Release};
use plimsoll_plugins::ON_REQUEST;
use serde::Serialize;

use crate::args::{Format, Plugins};
use crate::commands::rbac;
use crate::options::{self, Setup};
use crate::render::style::{DOUBTFUL, Screen, give_way};

/// Lists the plugins that configurations may name.
pub(crate) fn run(args: &Plugins, registry: &Registry) -> Result<()> {
    if args.rbac {
        return print_rbac(args, registry);
    }
    let catalogue = options::catalogue(registry, &GivenGates::of(Release::NEWEST));
    let rows: Vec<_> = catalogue.plugins().iter().map(|known| Row::of(known, registry)).collect();
    match args.output.format {
        Format::Json => {
            let mut out = io::stdout().lock();
            serde_json::to_writer_pretty(&mut out, &rows)?;
            writeln!(out)?;
        }
        Format::Table => table(&mut anstream::stdout(), &rows, Screen::stdout())?,
    }
    Ok(())
}

/// Prints the permissions of the plugins that the given configuration enables; without one, of all plugins except those
/// that need a configuration.
fn print_rbac(args: &Plugins, registry: &Registry) -> Result<()> {
    let setup = args.config.as_deref();
    let setup = setup.map(|file| Setup::load(file, registry, &GivenGates::of(Release::NEWEST)));
    let specs = setup.transpose()?.map(|setup| setup.configuration.profile_specs());
    let is_enabled = |name: &str| match &specs {
        None => !ON_REQUEST.contains(&name),
        Some(specs) => {
            let mut all = specs.iter().flat_map(|spec| spec.points.values().flatten());
            all.any(|(enabled, _)| enabled == name)
        }
    };
    let entries: Vec<&Entry> = registry.iter().filter(|entry| is_enabled(entry.name())).collect();
    Ok(rbac::print(&mut io::stdout().lock(), &entries)?)
}

/// A plugin as it is printed.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    name: &'static str,
    /// Its extension points, in the order of a scheduling cycle.
    points: Vec<String>,
    /// Its weight in the default profile, if it scores.
    #[serde(skip_serializing_if = "Option::is_none")]
    weight: Option<i32>,
    /// Whether the default profile enables it.
    by_default: bool,
    /// Whether it is available.
    available: bool,
    /// What it reads, in words.
    reads: String,
    /// The metrics of its own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    metrics: Vec<&'static str>,
}

impl Row {
    fn of(known: &Known, registry: &Registry) -> Self {
        let entry = registry.get(known.name);
        let metrics = entry.map_or(&[][..], Entry::metrics);
        let scores = known.points.iter().any(plimsoll_config::Point::is_weighed);
        Row {
            name: known.name,
            points: known.points.iter().map(|point| point.key().to_owned()).collect(),
            // As in runtime/framework.go, a plugin without a weight has weight 1.
            weight: scores.then_some(known.weight.max(1)),
            by_default: known.by_default,
            available: known.available,
            reads: entry.map_or_else(String::new, Entry::describe_reads),
            metrics: metrics.iter().map(|metric| metric.name).collect(),
        }
    }
}

fn table(out: &mut impl Write, rows: &[Row], screen: Screen) -> io::Result<()> {
    let mut table = screen.table(&["PLUGIN", ">WEIGHT", "POINTS", "READS"]);
    if let Some(points) = table.column_mut(2) {
        // Some plugins have so many points that this column must be able to shrink, too.
        give_way(points, "POINTS");
    }
    for row in rows.iter().filter(|row| row.available) {
        let weight = row.weight.map_or_else(String::new, |weight| weight.to_string());
        table.add_row([row.name, &weight, &row.points.join(" "), &row.reads]);
    }
    writeln!(out, "{}", table.trim_fmt())?;
    let missing = |by_default: bool| {
        let missing = rows.iter().filter(|row| !row.available && row.by_default == by_default);
        missing.map(|row| row.name).collect::<Vec<_>>().join(", ")
    };
    for (which, names) in [
        ("Of the default profile of 1.36, these are not available yet", missing(true)),
        ("Of the other plugins of 1.36, these are not available yet", missing(false)),
    ] {
        if !names.is_empty() {
            writeln!(out, "\n{DOUBTFUL}{which}{DOUBTFUL:#}: {names}")?;
        }
    }
    Ok(())
}
