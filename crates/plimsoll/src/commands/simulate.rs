//! `plimsoll simulate`: places every pending pod of the files.

use std::io::{self, BufWriter, Write};
use std::mem::ManuallyDrop;
use std::path::Path;

use anyhow::Result;
use plimsoll_engine::{Detail, Options, QueuePlace, Scheduler};
use plimsoll_framework::Registry;
use plimsoll_sim::{
    InitialCluster, Lifecycle, RequestFaults, SimulatedCluster, Simulation, Utilisation,
};

use super::{Scene, swarm};
use crate::args::{Format, Simulate};
use crate::options::Setup;
use crate::progress::Progress;
use crate::render::style::Screen;
use crate::render::{record, summary, table};
use crate::report::{PassedOver, Report};
use crate::{audits, caveats, journals, notices, recordings};

/// Places every pending pod and prints each decision.
pub(crate) fn run(args: &Simulate, registry: &Registry) -> Result<()> {
    if let Some(n) = args.swarm {
        return swarm::run(args, registry, n);
    }
    let Scene { mut setup, cluster, .. } =
        Scene::read(&args.cluster, registry)?.with_canaries(&args.canary)?;
    if let Some(release) = args.ranking.by_priorities() {
        setup.rank_by_priorities(release, args.cluster.config.is_some())?;
    }
    let passed_over = passed_over(&cluster, &setup);
    let options = setup.options();
    let options = Options {
        engine: args.decisions.engine.into(),
        audit_every: args.decisions.audit,
        tie_break: args.tie_break.into(),
        detail: if args.explain { Detail::Nodes } else { Detail::Outcome },
        reservations: args.reservations.rule(options.gates.groups)?,
        ..options
    };
    let header = recordings::header("simulate", &setup, &options, args.seed);
    let mut scheduler = Scheduler::new(setup.profiles, options, args.seed)?;
    let journal = args.journal.as_deref().map(journals::of_simulation).transpose()?;
    let journal = journal.map(|(journal, recorder)| {
        scheduler.record_to(Box::new(recorder));
        journal
    });
    let recording = args.record.as_deref().map(|path| recordings::begin(path, header));
    let recording = recording.transpose()?;
    if let Some(recording) = &recording {
        scheduler.record_to(recording.recorder());
    }
    let lifecycle = Lifecycle { completion_after: args.completion_after, ..Lifecycle::default() };
    let world = SimulatedCluster::new(lifecycle, RequestFaults::default());
    // The process exits soon afterwards, so freeing the cluster piece by piece would be a waste of time.
    let mut simulation = ManuallyDrop::new(Simulation::within(world, scheduler, cluster));
    simulation.bind_in_turn();
    match args.output.format {
        Format::Json => stream(&mut simulation, &passed_over)?,
        Format::Table => summarise(&mut simulation, passed_over)?,
    }
    if let (Some(journal), Some(path)) = (journal, &args.journal) {
        journals::finish(path, journal);
    }
    let audit = simulation.decisions_audit();
    if let (Some(recording), Some(path)) = (recording, &args.record) {
        notices::note(format_args!(
            "{}: {}",
            path.display(),
            recordings::describe(recording.finish()?)
        ));
        if 0 < audit.differing {
            write_difference(path, registry)?;
        }
    } else if 0 < audit.differing {
        notices::note("add --record FILE to write the smallest recording that shows a difference");
    }
    audits::tell(audit, &circumstances(args));
    audits::check(audit)
}

/// Writes the smallest recording that shows a difference.
fn write_difference(recorded: &Path, registry: &Registry) -> Result<()> {
    let to = recordings::difference_path(recorded);
    let file = to.display();
    let effort = (usize::MAX, recordings::FULL_EFFORT);
    match recordings::write_smallest(recorded, &to, registry, effort)? {
        Some((difference, summary)) => {
            let recorded = recordings::describe(summary);
            notices::note(format_args!("{file}: {recorded}, which show that {difference}"));
        }
        None => notices::warning(format_args!(
            "the difference does not show up in a replay: a plugin depends on something that is not an event"
        )),
    }
    Ok(())
}

/// The options that affect decisions, as they can be typed.
fn circumstances(args: &Simulate) -> String {
    let config = args.cluster.config.as_ref();
    let config = config.map(|file| format!("--config {} ", file.display())).unwrap_or_default();
    let (release, scale) = (args.cluster.emulation.typed(), args.ranking.typed());
    let reserved = args.reservations.typed();
    format!(
        "{config}{release}{scale}{reserved}--seed {} --audit {}",
        args.seed, args.decisions.audit
    )
}

/// The pending pods that no profile tries.
fn passed_over(cluster: &InitialCluster, setup: &Setup) -> PassedOver {
    let mut passed_over = PassedOver::default();
    for pod in cluster.pods.iter().filter(|pod| caveats::is_pending(pod)) {
        if !setup.is_for(&pod.scheduler_name) {
            passed_over.foreign.push(pod.key.clone());
        } else if pod.is_terminating() {
            passed_over.terminating.push(pod.key.clone());
        }
    }
    passed_over
}

/// Prints each decision when it is made.
fn stream(simulation: &mut Simulation, passed_over: &PassedOver) -> Result<()> {
    passed_over.describe().for_each(notices::warning);
    let mut out = BufWriter::new(io::stdout().lock());
    // On a terminal the lines themselves show the progress.
    let is_seen = Screen::stdout().is_terminal;
    let mut progress =
        if is_seen { Progress::hidden() } else { Progress::shown(n_ready(simulation)) };
    while let Some(decisions) = simulation.advance() {
        for decision in &decisions {
            record::write_line(&mut out, decision, simulation.claims_of(&decision.pod))?;
            if decision.attempt == 1 {
                progress.step();
            }
        }
        for group in simulation.take_group_decisions() {
            record::write_group_line(&mut out, &group)?;
        }
    }
    for group in simulation.scheduler().waiting_groups() {
        record::write_group_line(&mut out, &group)?;
    }
    Ok(out.flush()?)
}

/// Prints where every pod went, and the resources before and after.
fn summarise(simulation: &mut Simulation, passed_over: PassedOver) -> Result<()> {
    let before = Utilisation::of(simulation.scheduler().view());
    let mut report = Report::new(passed_over);
    let mut progress = Progress::shown(n_ready(simulation));
    while let Some(decisions) = simulation.advance() {
        for decision in decisions {
            if decision.attempt == 1 {
                progress.step();
            }
            let claims = simulation.claims_of(&decision.pod);
            report.add(decision, claims);
        }
        for group in simulation.take_group_decisions() {
            report.add_group(group);
        }
    }
    drop(progress);
    report.finish(simulation.scheduler());
    let after = Utilisation::of(simulation.scheduler().view());
    let screen = Screen::stdout();
    let mut out = anstream::stdout();
    table::placements(&mut out, &report, screen)?;
    table::groups(&mut out, &report, screen)?;
    summary::outcomes(&mut out, &report)?;
    summary::utilisation(&mut out, &before, &after, screen)?;
    Ok(())
}

/// How many pods will be tried.
fn n_ready(simulation: &Simulation) -> usize {
    let is_ready = |place: &QueuePlace| !matches!(place, QueuePlace::Gated { .. });
    simulation.scheduler().pending().filter(|info| is_ready(&info.place)).count()
}
