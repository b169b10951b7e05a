//! `plimsoll config check`: validates a configuration and shows what it resolves to.

use std::collections::BTreeMap;
use std::io::{self, Write};

use anyhow::Result;
use plimsoll_config::{Configuration, Form, Point, ResolvedProfile};
use plimsoll_framework::Registry;
use plimsoll_legacy::config::{self, Migration, Note};
use serde::Serialize;
use serde_json::Value;

use crate::args::{Check, Format};
use crate::options::{self, Setup};
use crate::render::style::{DOUBTFUL, HEADING, Screen};

/// Validates a configuration and prints what it resolves to.
pub(crate) fn check(args: &Check, registry: &Registry) -> Result<()> {
    let gates = args.emulation.gates();
    let setup = Setup::of(&args.subject, registry, &gates)?;
    let configuration = &setup.configuration;
    let notes = Migration::of(configuration, &options::catalogue(registry, &gates)).notes;
    match args.output.format {
        Format::Json => {
            let mut out = io::stdout().lock();
            serde_json::to_writer_pretty(&mut out, &Resolved::of(configuration, &notes))?;
            writeln!(out)?;
        }
        Format::Table => {
            let mut out = anstream::stdout();
            for profile in &configuration.profiles {
                describe(&mut out, profile, Screen::stdout())?;
            }
            writeln!(out, "{}", backoff(configuration))?;
            if configuration.origin.form == Form::V1 {
                extensions(&mut out, &config::extensions(configuration))?;
            } else {
                changes(&mut out, configuration.origin.form, &notes)?;
            }
        }
    }
    Ok(())
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Resolved<'a> {
    pod_initial_backoff_seconds: i64,
    pod_max_backoff_seconds: i64,
    profiles: Vec<ProfileShape<'a>>,
    /// The form in which the configuration is written.
    form: String,
    /// What is different in version v1.
    #[serde(skip_serializing_if = "<[Note]>::is_empty")]
    notes: &'a [Note],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ProfileShape<'a> {
    scheduler_name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    percentage_of_nodes_to_score: Option<i32>,
    /// By extension point, in order.
    points: BTreeMap<&'static str, Vec<Plugin<'a>>>,
    args: &'a BTreeMap<String, Value>,
    /// Enabled, but not available yet.
    unavailable: &'a [String],
    /// Whether every filter is asked about a node, even after one rejected it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    run_all_filters: bool,
}

#[derive(Serialize)]
struct Plugin<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    weight: Option<i64>,
}

impl<'a> Resolved<'a> {
    fn of(configuration: &'a Configuration, notes: &'a [Note]) -> Self {
        Resolved {
            pod_initial_backoff_seconds: configuration.pod_initial_backoff_seconds,
            pod_max_backoff_seconds: configuration.pod_max_backoff_seconds,
            profiles: configuration.profiles.iter().map(ProfileShape::of).collect(),
            form: configuration.origin.form.to_string(),
            notes,
        }
    }
}

impl<'a> ProfileShape<'a> {
    fn of(profile: &'a ResolvedProfile) -> Self {
        let points = profile.points.iter().map(|(point, plugins)| {
            let plugins = plugins.iter().map(|plugin| Plugin {
                name: plugin.name,
                weight: point.is_weighed().then_some(plugin.weight),
            });
            (point.key(), plugins.collect())
        });
        ProfileShape {
            scheduler_name: &profile.scheduler_name,
            percentage_of_nodes_to_score: profile.percentage_of_nodes_to_score,
            points: points.collect(),
            args: &profile.args,
            unavailable: &profile.unavailable,
            run_all_filters: profile.run_all_filters,
        }
    }
}

/// Prints a profile.
fn describe(out: &mut impl Write, profile: &ResolvedProfile, screen: Screen) -> io::Result<()> {
    let nodes = match profile.percentage_of_nodes_to_score {
        None | Some(100) => "looks at all nodes".to_owned(),
        Some(0) => "looks at a share of the nodes that adapts to their number".to_owned(),
        Some(percentage) => format!("searches until {percentage}% of all nodes are feasible"),
    };
    let filters = if profile.run_all_filters { ", and runs all filters on each" } else { "" };
    let name = &profile.scheduler_name;
    writeln!(out, "{HEADING}profile {name}{HEADING:#}: {nodes}{filters}")?;
    let mut table = screen.table(&["  POINT", "PLUGINS"]);
    for point in Point::ALL {
        let plugins: Vec<_> = profile.points[&point]
            .iter()
            .map(|plugin| {
                let weight =
                    if point.is_weighed() { format!("={}", plugin.weight) } else { String::new() };
                format!("{}{weight}", plugin.name)
            })
            .collect();
        if !plugins.is_empty() {
            table.add_row([format!("  {}", point.key()), plugins.join(" ")]);
        }
    }
    writeln!(out, "{}", table.trim_fmt())?;
    if !profile.unavailable.is_empty() {
        let names = profile.unavailable.join(", ");
        writeln!(out, "  {DOUBTFUL}enabled, but not available yet{DOUBTFUL:#}: {names}")?;
    }
    writeln!(out)
}

/// Prints what changes when a configuration of this form is converted to version v1.
fn changes(out: &mut impl Write, form: Form, notes: &[Note]) -> io::Result<()> {
    writeln!(
        out,
        "\n{HEADING}from {form} to v1{HEADING:#} (`plimsoll config migrate` writes the file)"
    )?;
    notes.iter().try_for_each(|note| writeln!(out, "- {note}"))
}

/// Prints what kube-scheduler would refuse.
fn extensions(out: &mut impl Write, notes: &[Note]) -> io::Result<()> {
    if notes.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{HEADING}not for kube-scheduler 1.36, which refuses it{HEADING:#}")?;
    notes.iter().try_for_each(|note| writeln!(out, "- {note}"))
}

fn backoff(configuration: &Configuration) -> String {
    let (initial, max) =
        (configuration.pod_initial_backoff_seconds, configuration.pod_max_backoff_seconds);
    format!("A pod that failed waits {initial} s before it is tried again, and {max} s at most.")
}
