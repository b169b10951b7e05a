//! Single runs, in this process or in a separate one.

use std::env;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use plimsoll_engine::{Audit, Options, Profile, Scheduler};
use plimsoll_framework::Registry;
use plimsoll_sim::perf::{Measurement, Sizes, Workload};

use super::meter::{Clocks, peak_memory};
use crate::args::{Bench, Engine};
use crate::measured::Record;
use crate::options::{Setup, given_gates};

/// The `schedulerName` of the pods of all workloads.
const SCHEDULER: &str = "default-scheduler";
/// A measured run is not audited.
const NO_AUDIT: u32 = 0;

/// What all runs have in common.
#[derive(Clone, Copy)]
pub(super) struct Conditions<'a> {
    pub(super) args: &'a Bench,
    pub(super) registry: &'a Registry,
    pub(super) setup: &'a Setup,
}

/// The configuration that decides.
pub(super) fn setup(args: &Bench, registry: &Registry) -> Result<Setup> {
    let gates = args.emulation.gates();
    let setup = match &args.config {
        Some(file) => Setup::load(file, registry, &gates)?,
        None => Setup::default_for(registry, &gates)?,
    };
    ensure!(
        setup.is_for(SCHEDULER),
        "no profile of the configuration has the schedulerName {SCHEDULER}, which all pods have"
    );
    Ok(setup)
}

/// What decides a workload that has a configuration or needs feature gates. A configuration that was given replaces its
/// own.
fn own_setup(workload: &Workload, args: &Bench, registry: &Registry) -> Result<Option<Setup>> {
    let release = args.emulation.release();
    let gates = workload.gates(release);
    let needs_gates = !gates.is_empty();
    let gates: Vec<String> = gates.iter().map(|gate| format!("{gate}=true")).collect();
    let gates = given_gates(release, &gates)?;
    match (&args.config, workload.configuration) {
        (None, Some(text)) => Setup::of_text(workload.name, text, registry, &gates).map(Some),
        (Some(file), _) if needs_gates => Setup::load(file, registry, &gates).map(Some),
        (None, None) if needs_gates => Setup::default_for(registry, &gates).map(Some),
        _ => Ok(None),
    }
}

/// A run in this process.
pub(super) fn measure(
    workload: &Workload,
    sizes: Sizes,
    engine: Engine,
    conditions: Conditions<'_>,
) -> Result<Record> {
    let (measurement, _) = place(workload, sizes, engine, NO_AUDIT, conditions)?;
    Ok(Record::new(workload, engine, sizes, conditions.args.seed, &measurement, peak_memory()))
}

/// A run in which decisions are audited but nothing is measured.
pub(super) fn audit(
    workload: &Workload,
    sizes: Sizes,
    conditions: Conditions<'_>,
) -> Result<Audit> {
    let (_, scheduler) = place(workload, sizes, Engine::Fast, conditions.args.audit, conditions)?;
    Ok(scheduler.audit().clone())
}

fn place(
    workload: &Workload,
    sizes: Sizes,
    engine: Engine,
    audit_every: u32,
    conditions: Conditions<'_>,
) -> Result<(Measurement, Scheduler)> {
    let Conditions { args, registry, setup } = conditions;
    let own = own_setup(workload, args, registry)?;
    let setup = own.as_ref().unwrap_or(setup);
    let options = Options { engine: engine.into(), audit_every, ..setup.options() };
    let profiles = Profile::all_of(&setup.configuration.profile_specs(), registry, &setup.gates);
    let profiles = profiles.expect("they were made before");
    let mut scheduler = Scheduler::new(profiles, options, args.seed)?;
    let measurement = workload.measure(sizes, args.seed, &mut scheduler, &Clocks::new());
    Ok((measurement, scheduler))
}

/// A run in a separate process, so that memory is in the same state for each run.
pub(super) fn measure_apart(workload: &Workload, engine: Engine, args: &Bench) -> Result<Record> {
    let program = env::current_exe().context("cannot find the file of this program")?;
    let mut command = Command::new(program);
    command.args(["bench", workload.name, "--output", "json", "--audit", "0"]);
    let engine = engine.to_possible_value().expect("no engine is hidden");
    command.arg("--engine").arg(engine.get_name());
    command.arg("--seed").arg(args.seed.to_string());
    for (option, number) in [
        ("--nodes", args.nodes),
        ("--init-pods", args.init_pods),
        ("--pods", args.pods),
        ("--deployments", args.deployments),
        ("--classes", args.classes),
        ("--pod-groups", args.pod_groups),
    ] {
        if let Some(number) = number {
            command.arg(option).arg(number.to_string());
        }
    }
    command.args(args.emulation.typed().split_whitespace());
    if let Some(file) = &args.config {
        command.arg("--config").arg(file);
    }
    let run = command.output().with_context(|| format!("cannot run {}", workload.name))?;
    if !run.status.success() {
        let why = String::from_utf8_lossy(&run.stderr);
        bail!("{}: the run failed ({})\n{}", workload.name, run.status, why.trim_end());
    }
    serde_json::from_slice(&run.stdout)
        .with_context(|| format!("{}: the run printed no record", workload.name))
}
