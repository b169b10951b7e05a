//! `plimsoll bench`: how fast pods are placed.

mod meter;

use std::env;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use plimsoll_engine::Scheduler;
use plimsoll_plugins::in_tree;
use plimsoll_sim::perf::{Groups, Sizes, Workload};

use crate::args::{Bench, Format};
use crate::input::STDIN;
use crate::measured::Record;
use crate::notices;
use crate::options::Setup;
use crate::progress::Progress;
use crate::render::bench as render;
use crate::render::style::Screen;
use meter::{Clocks, peak_memory};

/// The scheduler that the pods of all workloads ask for.
const SCHEDULER: &str = "default-scheduler";

/// Measures each workload that was named, or lists all.
pub(crate) fn run(args: &Bench) -> Result<()> {
    if args.list {
        return list(args.output.format);
    }
    let mut out = anstream::stdout();
    let sizes: Vec<Sizes> =
        args.workloads.iter().map(|workload| sizes(workload, args)).collect::<Result<_>>()?;
    let n_runs = args.workloads.len() * args.runs as usize;
    let mut progress = Progress::shown(n_runs);
    let mut records = Vec::new();
    if 1 < n_runs {
        let from_stdin = args.config.as_deref() == Some(Path::new(STDIN));
        ensure!(!from_stdin, "only a single run can read its configuration from standard input");
        // What is wrong with the configuration is told once, not by each run.
        setup(args)?;
    }
    if cfg!(debug_assertions) {
        notices::warning("this is not a release build: what it measures says little");
    }
    for (workload, sizes) in args.workloads.iter().zip(sizes) {
        let mut runs = Vec::new();
        for _ in 0..args.runs {
            runs.push(match n_runs {
                1 => measure(workload, sizes, args)?,
                _ => measure_apart(workload, args)?,
            });
            progress.step();
        }
        let record = Record::medians(&runs)?;
        if let Some(cpu) = record.cpu_seconds.filter(|cpu| is_disturbed(*cpu, record.total.seconds))
        {
            notices::warning(format_args!(
                "{}: other programs had the processor for much of the time ({cpu:.2} of {:.2} seconds were \
                 worked): compare CPU and P50, not TIME",
                workload.name, record.total.seconds
            ));
        }
        if args.output.format == Format::Json {
            serde_json::to_writer(&mut out, &record)?;
            writeln!(out)?;
        }
        records.push(record);
    }
    drop(progress);
    if args.output.format == Format::Table {
        render::table(&mut out, &records, Screen::stdout())?;
    }
    Ok(())
}

/// Whether the clock ran on while the processor did something else.
fn is_disturbed(cpu: f64, seconds: f64) -> bool {
    // Less cannot be told from the coarseness of the clocks.
    const LEAST_SECONDS: f64 = 0.1;
    const SHARE: f64 = 0.8;
    LEAST_SECONDS < seconds && cpu < SHARE * seconds
}

fn list(format: Format) -> Result<()> {
    let all: Vec<Workload> = Workload::all().collect();
    let mut out = anstream::stdout();
    match format {
        Format::Table => render::list(&mut out, &all, Screen::stdout())?,
        Format::Json => render::list_json(&mut out, &all)?,
    }
    Ok(())
}

/// The sizes of a workload, as far as they were typed.
fn sizes(workload: &Workload, args: &Bench) -> Result<Sizes> {
    let default = workload.sizes;
    let (name, groups) = (workload.name, workload.groups);
    ensure!(
        args.deployments.is_none() || groups == Groups::Deployments,
        "{name} has no Deployments: leave out --deployments"
    );
    ensure!(
        args.classes.is_none() || groups == Groups::Classes,
        "the pods of {name} are not of classes: leave out --classes"
    );
    Ok(Sizes {
        nodes: args.nodes.unwrap_or(default.nodes),
        init_pods: args.init_pods.unwrap_or(default.init_pods),
        pods: args.pods.unwrap_or(default.pods),
        groups: args.deployments.or(args.classes).unwrap_or(default.groups),
    })
}

/// What decides about the pods.
fn setup(args: &Bench) -> Result<Setup> {
    let setup = match &args.config {
        Some(file) => Setup::load(file, &in_tree())?,
        None => Setup::default_for(&in_tree())?,
    };
    ensure!(
        setup.is_for(SCHEDULER),
        "no profile of the configuration has the schedulerName {SCHEDULER}, which is that of all pods"
    );
    Ok(setup)
}

/// A run in this process.
fn measure(workload: &Workload, sizes: Sizes, args: &Bench) -> Result<Record> {
    let setup = setup(args)?;
    let options = setup.options();
    let mut scheduler = Scheduler::new(setup.profiles, options, args.seed)?;
    let measurement = workload.measure(sizes, args.seed, &mut scheduler, &Clocks::new());
    Ok(Record::new(workload, sizes, args.seed, &measurement, peak_memory()))
}

/// A run in a process of its own, so that it finds the memory as the first one did.
fn measure_apart(workload: &Workload, args: &Bench) -> Result<Record> {
    let program = env::current_exe().context("cannot find the program that is to be run")?;
    let mut command = Command::new(program);
    command.args(["bench", workload.name, "--output", "json"]);
    command.arg("--seed").arg(args.seed.to_string());
    for (option, number) in [
        ("--nodes", args.nodes),
        ("--init-pods", args.init_pods),
        ("--pods", args.pods),
        ("--deployments", args.deployments),
        ("--classes", args.classes),
    ] {
        if let Some(number) = number {
            command.arg(option).arg(number.to_string());
        }
    }
    if let Some(file) = &args.config {
        command.arg("--config").arg(file);
    }
    let run = command.output().with_context(|| format!("cannot run {}", workload.name))?;
    if !run.status.success() {
        let why = String::from_utf8_lossy(&run.stderr);
        bail!("{}: the run has failed ({})\n{}", workload.name, run.status, why.trim_end());
    }
    serde_json::from_slice(&run.stdout)
        .with_context(|| format!("{}: the run has not printed a record", workload.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_beside_other_programs_is_told_from_a_quiet_one() {
        assert!(is_disturbed(0.5, 1.0));
        assert!(!is_disturbed(0.9, 1.0));
        assert!(!is_disturbed(1.8, 1.0), "several threads worked");
        assert!(!is_disturbed(0.001, 0.01), "too short to tell");
    }
}
