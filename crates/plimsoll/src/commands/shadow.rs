//! `plimsoll shadow`: compares the scheduler of a cluster with this one, and changes nothing.

mod archive;
mod judges;
mod metrics;
mod served;

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use plimsoll_api::{KindRef, Node, Pod};
use plimsoll_engine::{Event, Observation};
use plimsoll_framework::Registry;
use plimsoll_kube::client::{Access, RestMetrics, connect_read_only};
use plimsoll_kube::follow::{Followed, Following, ManifestTape};
use plimsoll_kube::server_release;
use plimsoll_kube::watch::Pace;
use plimsoll_shadow::{Report, Settings, Shadow};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep_until};

use self::archive::Directory;
use self::judges::{Judges, judges};
use self::metrics::ShadowMetrics;
use self::served::Desk;
use crate::args::{self, Format};
use crate::render::shadow as render;
use crate::render::shadow_page::page as render_page;
use crate::render::style::Screen;
use crate::{logs, notices};

/// The number of threads: one decides, the others watch and serve.
const WORKERS: usize = 3;
/// How often events whose window has passed are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Follows the cluster until it is stopped, and prints the report.
pub(crate) fn run(args: &args::Shadow, registry: &Arc<Registry>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .enable_all()
        .build()
        .context("cannot start the worker threads")?;
    // The future contains whole schedulers, which are too large for the stack.
    let report = runtime.block_on(Box::pin(follow(args, registry)))?;
    runtime.shutdown_background();
    match args.output.format {
        Format::Json => {
            let mut out = BufWriter::new(io::stdout().lock());
            serde_json::to_writer(&mut out, &report)?;
            writeln!(out)?;
            out.flush()?;
        }
        Format::Table => render::report(&mut anstream::stdout(), &report, Screen::stdout())?,
    }
    Ok(())
}

async fn follow(args: &args::Shadow, registry: &Arc<Registry>) -> Result<Report> {
    let verbosity = logs::begin("text", args.verbosity);
    let (kubeconfig, master) = (args.kubeconfig.clone(), args.master.clone());
    let access = Access { kubeconfig, master, ..Access::default() };
    let mut stop = Box::pin(stopped(args.duration)?);
    let release = if let Some(release) = args.emulated_version {
        release
    } else {
        tokio::select! {
            release = server_release(access.clone(), Pace::default()) => release?,
            () = &mut stop => bail!("stopped before the API server has said its release"),
        }
    };
    let judges = judges(args, release, registry)?;
    let Judges { first, second, limits, configurations, setup, own } = judges;
    // The connection has no client that can write.
    let connection = connect_read_only(access, Arc::new(RestMetrics::default())).await?;
    let metrics = {
        let names = std::iter::once(&first).chain(&second).map(|judge| judge.name.as_str());
        ShadowMetrics::new(names)?
    };
    let told = (verbosity, metrics.registry()?);
    let mut desk = Desk::open(args, (&setup, release), registry, told, &connection).await?;
    let mut kinds = first.scheduler.kinds();
    let more: BTreeSet<KindRef> =
        second.iter().flat_map(|second| second.scheduler.kinds()).collect();
    let more: Vec<KindRef> = more.into_iter().filter(|kind| !kinds.contains(kind)).collect();
    kinds.extend(more);
    let mut archive = Directory::open(args, release, &configurations)?;
    let tape = archive.is_open().then(|| Arc::new(ManifestTape::default()));
    let most_kept = usize::try_from(args.max_disagreements).unwrap_or(usize::MAX);
    let settings = Settings { window: args.window, most_kept, limits };
    let shadow = Shadow::new(first, second, settings);
    let mut shadow = match own {
        Some(own) => shadow.with_own_cluster(own),
        None => shadow,
    };
    let mut following = Following::start(&connection, kinds, tape.clone());
    tracing::info!(server = connection.host(), %release, "following; nothing is written to the cluster");
    let mut report_at = Instant::now() + args.report_every;
    let mut is_behind = false;
    loop {
        desk.turn();
        let wait = if is_behind { Duration::ZERO } else { LOOK_EVERY };
        let followed = tokio::select! {
            biased;
            () = &mut stop => break,
            () = sleep_until(report_at) => Followed::Quiet,
            asked = desk.next() => {
                asked.answer(following.now(), &mut shadow);
                continue;
            }
            followed = following.next(wait) => followed,
        };
        let now = following.now();
        match followed {
            Followed::Events(events) => {
                for event in events {
                    let kind = kind_that_exists(&event);
                    let manifest = tape.as_ref().zip(kind).and_then(|(tape, kind)| tape.take(kind));
                    shadow.take(now, event, manifest);
                }
            }
            Followed::Synced => {
                shadow.begin(now);
                desk.is_ready();
                tracing::info!("the whole cluster is known; bindings are compared from now on");
            }
            Followed::Quiet => {}
            Followed::Ended => {
                bail!("the watches have ended: a bug, please report it with the log")
            }
        }
        is_behind = shadow.advance(now, &mut archive);
        metrics.update(&shadow, now);
        if report_at <= Instant::now() {
            report_at = Instant::now() + args.report_every;
            log_progress(&shadow);
            if !args.report.is_empty() {
                write_reports(&args.report, &shadow.report(now))?;
            }
        }
    }
    desk.close().await;
    shadow.drain(&mut archive);
    archive.tell();
    let report = shadow.report(following.now());
    if report.began.is_none() {
        let unsynced = following.unsynced().into_iter().map(KindRef::plural);
        notices::warning(format_args!(
            "nothing was compared, since the cluster is not known completely: there is no list of {}; the log says why",
            unsynced.collect::<Vec<_>>().join(", ")
        ));
    }
    write_reports(&args.report, &report)?;
    Ok(report)
}

/// The kind of the object of an event, if it exists.
fn kind_that_exists(event: &Event) -> Option<KindRef> {
    match event {
        Event::Pod(Observation::Is(_)) => Some(KindRef::of::<Pod>()),
        Event::Node(node) => matches!(&**node, Observation::Is(_)).then(KindRef::of::<Node>),
        Event::Object(Observation::Is(object)) => Some(object.kind()),
        Event::Pod(_) | Event::Object(_) | Event::Done(..) | Event::Extended(..) => None,
    }
}

fn log_progress(shadow: &Shadow) {
    let counts = shadow.agreement();
    tracing::info!(
        compared = counts.compared,
        agreed = counts.agreed(),
        worse = counts.worse,
        infeasible = counts.infeasible + counts.unschedulable,
        "compared so far"
    );
}

/// Writes the report to each of the files.
fn write_reports(files: &[PathBuf], report: &Report) -> Result<()> {
    files.iter().try_for_each(|file| write_report(file, report))
}

/// Replaces the report, so that a reader never finds half of one. It is a page if the name of the file says so.
fn write_report(file: &Path, report: &Report) -> Result<()> {
    let name = file.display();
    let mut unfinished = file.as_os_str().to_owned();
    unfinished.push(".unfinished");
    let text = match file.extension() {
        Some(end) if end == "html" || end == "htm" => render_page(report),
        _ => serde_json::to_string_pretty(report)? + "\n",
    };
    fs::write(&unfinished, text)
        .and_then(|()| fs::rename(&unfinished, file))
        .with_context(|| format!("--report: {name}: cannot be written"))
}

/// Ends at SIGINT, SIGTERM, or after this time.
fn stopped(after: Option<Duration>) -> Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot handle SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot handle SIGINT")?;
    let end = after.map(|after| Instant::now() + after);
    Ok(async move {
        let over = async {
            match end {
                Some(end) => sleep_until(end).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            () = over => {}
        }
    })
}
