//! `plimsoll bench`: how fast pods are placed.

mod meter;
mod runs;

use std::io::Write;
use std::path::Path;

use anyhow::{Result, ensure};
use plimsoll_engine::Audit;
use plimsoll_framework::Registry;
use plimsoll_sim::perf::{Sizes, Workload, WorkloadGroups};

use self::runs::Conditions;
use crate::args::{Bench, Engine, Format};
use crate::input::STDIN;
use crate::measured::Record;
use crate::progress::Progress;
use crate::render::bench as render;
use crate::render::style::Screen;
use crate::{audits, notices};

/// If more nodes or pods than this are measured, only the first [`AUDITED_PODS`] are audited: the time of a decision
/// from scratch grows with the number of nodes.
const MANY: u32 = 20_000;
const AUDITED_PODS: u32 = 2_000;

/// Measures each workload that was named, or lists all.
pub(crate) fn run(args: &Bench, registry: &Registry) -> Result<()> {
    if args.list {
        return list(args.output.format);
    }
    let mut out = anstream::stdout();
    let sizes: Vec<Sizes> =
        args.workloads.iter().map(|workload| sizes(workload, args)).collect::<Result<_>>()?;
    let n_measured = args.workloads.len() * args.runs as usize * args.engine.each().len();
    let from_stdin = args.config.as_deref() == Some(Path::new(STDIN));
    ensure!(
        n_measured == 1 || !from_stdin,
        "only a single run can read its configuration from standard input"
    );
    // Errors in the configuration are reported once here, not by each run.
    let setup = runs::setup(args, registry)?;
    let conditions = Conditions { args, registry, setup: &setup };
    let n_audited = if is_audited(args) { args.workloads.len() } else { 0 };
    let mut progress = Progress::shown(n_measured + n_audited);
    if cfg!(debug_assertions) {
        notices::warning("this is not a release build: its measurements say little");
    }
    let (mut records, mut found) = (Vec::new(), Audit::default());
    for (workload, sizes) in args.workloads.iter().zip(sizes) {
        let mut told = measure(workload, sizes, conditions, n_measured, &mut progress)?;
        if is_audited(args) {
            let audit = runs::audit(workload, of_audit(sizes, args), conditions)?;
            progress.step();
            audits::tell(&audit, &format!("{} --seed {}", workload.name, args.seed));
            told[0].audit(&audit);
            found.audited += audit.audited;
            found.differing += audit.differing;
        }
        if args.output.format == Format::Json {
            for record in &told {
                serde_json::to_writer(&mut out, record)?;
                writeln!(out)?;
            }
        }
        records.append(&mut told);
    }
    drop(progress);
    if args.output.format == Format::Table {
        render::table(&mut out, &records, Screen::stdout())?;
    }
    audits::check(&found)
}

/// Measures one workload: a record for each engine.
fn measure(
    workload: &Workload,
    sizes: Sizes,
    conditions: Conditions<'_>,
    n_measured: usize,
    progress: &mut Progress,
) -> Result<Vec<Record>> {
    let args = conditions.args;
    let engines = args.engine.each();
    let mut runs: Vec<Vec<Record>> = vec![Vec::new(); engines.len()];
    for _ in 0..args.runs {
        // In turn, so that a disturbance affects both.
        for (runs, &engine) in runs.iter_mut().zip(engines) {
            runs.push(match n_measured {
                1 => runs::measure(workload, sizes, engine, conditions)?,
                _ => runs::measure_apart(workload, engine, args)?,
            });
            progress.step();
        }
    }
    let mut records: Vec<Record> =
        runs.iter().map(|runs| Record::medians(runs)).collect::<Result<_>>()?;
    records.iter().for_each(warn_of_disturbance);
    if let [fast, reference] = records.as_mut_slice() {
        fast.compare(reference)?;
    }
    Ok(records)
}

fn warn_of_disturbance(record: &Record) {
    let seconds = record.total.seconds;
    if let Some(cpu) = record.cpu_seconds.filter(|cpu| is_disturbed(*cpu, seconds)) {
        notices::warning(format_args!(
            "{}: other programs used the processor for much of the time ({cpu:.2} of {seconds:.2} seconds \
             were spent on this run): compare CPU and P50, not TIME",
            record.workload
        ));
    }
}

/// Whether the processor did something else for much of the time.
fn is_disturbed(cpu: f64, seconds: f64) -> bool {
    // The clocks are too coarse for shorter times.
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

/// Whether there is anything to audit: with the reference engine there is nothing to compare.
fn is_audited(args: &Bench) -> bool {
    0 < args.audit && args.engine.each().contains(&Engine::Fast)
}

/// The sizes of the audited run.
fn of_audit(sizes: Sizes, args: &Bench) -> Sizes {
    let is_large = MANY < sizes.nodes.max(sizes.pods);
    let most = args.audit_pods.unwrap_or(if is_large { AUDITED_PODS } else { sizes.pods });
    Sizes { pods: sizes.pods.min(most), ..sizes }
}

/// The sizes of a workload, with those that were given on the command line.
fn sizes(workload: &Workload, args: &Bench) -> Result<Sizes> {
    let default = workload.sizes;
    let (name, groups) = (workload.name, workload.groups);
    ensure!(
        args.deployments.is_none() || groups == WorkloadGroups::Deployments,
        "{name} has no Deployments: leave out --deployments"
    );
    ensure!(
        args.classes.is_none() || groups == WorkloadGroups::Classes,
        "{name} has no classes of pods: leave out --classes"
    );
    ensure!(
        args.pod_groups.is_none() || has_pod_groups(groups),
        "{name} has no PodGroups: leave out --pod-groups"
    );
    Ok(Sizes {
        nodes: args.nodes.unwrap_or(default.nodes),
        init_pods: args.init_pods.unwrap_or(default.init_pods),
        pods: args.pods.unwrap_or(default.pods),
        groups: args.deployments.or(args.classes).or(args.pod_groups).unwrap_or(default.groups),
    })
}

fn has_pod_groups(groups: WorkloadGroups) -> bool {
    matches!(groups, WorkloadGroups::PodGroups | WorkloadGroups::PodGroupsInRacks)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Args, Command};

    #[test]
    fn a_run_disturbed_by_other_programs_is_recognized() {
        assert!(is_disturbed(0.5, 1.0));
        assert!(!is_disturbed(0.9, 1.0));
        assert!(!is_disturbed(1.8, 1.0), "several threads worked");
        assert!(!is_disturbed(0.001, 0.01), "too short to tell");
    }

    /// How many pods are audited for the options `line` of `plimsoll bench Scale`; none without an audit.
    fn audited_pods(line: &str) -> Option<u32> {
        let words = ["plimsoll", "bench", "Scale"].into_iter().chain(line.split_whitespace());
        let Command::Bench(args) = Args::try_parse_from(words).expect("it is right").command else {
            unreachable!("bench was typed")
        };
        let sizes = sizes(&args.workloads[0], &args).expect("Scale has sizes");
        is_audited(&args).then(|| of_audit(sizes, &args).pods)
    }

    #[test]
    fn large_workloads_are_audited_in_part() {
        assert_eq!(audited_pods("--nodes 20000 --pods 20000"), Some(20_000));
        assert_eq!(audited_pods("--nodes 20001 --pods 20000"), Some(2_000));
        assert_eq!(audited_pods("--nodes 5 --pods 20001"), Some(2_000));
        assert_eq!(audited_pods("--nodes 20001 --pods 7"), Some(7));
        assert_eq!(audited_pods("--audit-pods 5000"), Some(5_000));
        assert_eq!(audited_pods("--pods 10 --audit-pods 5000"), Some(10));
    }

    #[test]
    fn decisions_from_scratch_are_not_audited() {
        assert_eq!(audited_pods("--engine both"), Some(2_000));
        assert_eq!(audited_pods("--engine reference"), None);
        assert_eq!(audited_pods("--audit 0"), None);
    }
}
