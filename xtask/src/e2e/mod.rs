//! `cargo xtask e2e`: measures the cost of binding pods through an API server.

mod api;
mod binder;
mod objects;
mod process;
mod viewers;

use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::{Parser, ValueEnum};
use plimsoll_testserver::{Options, TestServer};

use self::api::Api;
use self::process::Cost;
use self::viewers::Viewers;

/// Bind pods through an API server, and print the cost
///
/// Creates nodes, and pods in a new namespace, then starts the scheduler and waits until every pod is bound and has an
/// event. Rate and cost are measured up to then; the rate of the bindings alone is printed, too. Everything that was
/// created is deleted at the end. The cluster must not have another scheduler for these pods, nor anything that taints
/// nodes without a kubelet.
#[derive(Debug, Parser)]
pub(crate) struct E2e {
    /// The API server; without it, an in-memory API server
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// How many nodes there are
    #[arg(long, value_name = "N", default_value_t = 5000)]
    nodes: usize,

    /// How many pods are bound
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pods: usize,

    /// What the pods are
    #[arg(long, value_enum, default_value_t = Workload::Basic)]
    workload: Workload,

    /// What binds them
    #[arg(long, value_enum, default_values_t = [Who::Plimsoll, Who::Binder])]
    who: Vec<Who>,

    /// The binary of Plimsoll; built if not given
    #[arg(long, value_name = "FILE")]
    plimsoll: Option<PathBuf>,

    /// How many people look at the page of Plimsoll meanwhile; with several numbers, such as 0,10, each is measured
    ///
    /// Each reads the stream of events, and asks for the overview, the map of nodes and the charts after each event, at most
    /// every two seconds, as the page does. Without --viewers nothing is served.
    #[arg(long, value_name = "N", value_delimiter = ',')]
    viewers: Vec<usize>,

    /// Whether Plimsoll writes a journal of its decisions, into a folder that is deleted; with off,on both are measured
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Journal::Off])]
    journal: Vec<Journal>,

    /// Go on for so many seconds after all pods are bound, so that pages are looked at for longer than binding takes
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    linger: u64,

    /// How many runs of each, in turn; medians are printed
    #[arg(long, value_name = "N", default_value_t = 1)]
    runs: usize,
}

/// What the pods are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Workload {
    /// Equal pods with requests
    Basic,
    /// Pods of 100 ReplicaSets, each with a Service, spread by default
    Deployments,
    /// The pods of basic in gangs of 1,000, as PodGroups of 1.37; the last has the rest
    Gangs,
}

/// What binds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Who {
    /// `plimsoll run`
    Plimsoll,
    /// A binder that makes no decisions: the next pod goes to the next node, with an event
    Binder,
}

/// Whether there is a journal of decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Journal {
    /// There is none
    Off,
    /// Every decision is written
    On,
}

/// How long it may take until all pods are bound, and after that until all have events.
const PATIENCE: Duration = Duration::from_mins(30);
const PATIENCE_WITH_EVENTS: Duration = Duration::from_mins(5);
/// How often to check the progress.
const LOOK_EVERY: Duration = Duration::from_millis(25);

pub(crate) fn run(task: &E2e) -> Result<()> {
    let plimsoll = match &task.plimsoll {
        Some(file) => file.clone(),
        None if task.who.contains(&Who::Plimsoll) => process::build()?,
        None => PathBuf::new(),
    };
    let mut measured: Vec<(Setting, Vec<Measured>)> =
        settings(task).into_iter().map(|setting| (setting, Vec::new())).collect();
    // In turn, so that other load on the machine affects all of them.
    for _ in 0..task.runs.max(1) {
        for (setting, all) in &mut measured {
            all.push(measure(task, *setting, &plimsoll)?);
        }
    }
    let mut out = std::io::stdout();
    writeln!(
        out,
        "{:<10} {:>7} {:>7} {:>9} {:>9} {:>16} {:>9} {:>10} {:>12} {:>8} {:>9}",
        "WHO",
        "VIEWERS",
        "JOURNAL",
        "PODS/S",
        "BOUND/S",
        "CPU S/1000 PODS",
        "CPU S",
        "PEAK MIB",
        "FIRST BIND",
        "ANSWERS",
        "SENT MIB"
    )?;
    for (Setting { who, viewers, journal }, all) in measured {
        let median = |of: fn(&Measured) -> f64| {
            let mut all: Vec<f64> = all.iter().map(of).collect();
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        };
        writeln!(
            out,
            "{:<10} {:>7} {:>7} {:>9.0} {:>9.0} {:>16.3} {:>9.2} {:>10.1} {:>10.2} s {:>8.0} {:>9.1}",
            named(&who),
            viewers.map_or_else(String::new, |viewers| viewers.to_string()),
            named(&journal),
            median(|one| one.pods_per_second),
            median(|one| one.bound_per_second),
            median(|one| one.cpu_per_thousand),
            median(|one| one.cpu),
            median(|one| one.peak_mib),
            median(|one| one.first_bind),
            median(|one| one.answers),
            median(|one| one.sent_mib),
        )?;
    }
    Ok(())
}

/// What is measured beside others.
#[derive(Clone, Copy)]
struct Setting {
    who: Who,
    /// How many people look at its page; `None` if it serves none.
    viewers: Option<usize>,
    journal: Journal,
}

fn settings(task: &E2e) -> Vec<Setting> {
    let viewers: Vec<_> = match task.viewers.as_slice() {
        [] => vec![None],
        numbers => numbers.iter().copied().map(Some).collect(),
    };
    let mut all = Vec::new();
    for &who in &task.who {
        match who {
            Who::Binder => all.push(Setting { who, viewers: None, journal: Journal::Off }),
            Who::Plimsoll => {
                for &viewers in &viewers {
                    let with = |&journal: &Journal| Setting { who, viewers, journal };
                    all.extend(task.journal.iter().map(with));
                }
            }
        }
    }
    all
}

fn named(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

struct Measured {
    /// The rate of pods that are bound and have an event.
    pods_per_second: f64,
    bound_per_second: f64,
    cpu_per_thousand: f64,
    /// The CPU seconds of the whole run, with the time after the last pod was bound.
    cpu: f64,
    peak_mib: f64,
    first_bind: f64,
    /// What the viewers of the page have had.
    answers: f64,
    sent_mib: f64,
}

fn measure(task: &E2e, setting: Setting, plimsoll: &std::path::Path) -> Result<Measured> {
    let Setting { who, viewers, journal } = setting;
    let own = task.kubeconfig.is_none().then(|| TestServer::start(test_server(task.workload)));
    let kubeconfig = match (&task.kubeconfig, &own) {
        (Some(file), _) => file.clone(),
        (None, Some(server)) => server.kubeconfig_file().context("cannot write a kubeconfig")?,
        (None, None) => anyhow::bail!("there is no API server"),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let namespace = api::fresh_namespace();
        let api = Api::connect(&kubeconfig, &namespace).await?;
        let scheduler_name = "plimsoll-e2e";
        api.make(task.nodes, task.pods, task.workload, scheduler_name).await?;
        let measured = async {
            match who {
                Who::Plimsoll => {
                    let port = viewers.map(|_| viewers::free_port()).transpose()?;
                    let place = (kubeconfig.as_path(), port);
                    let of = (scheduler_name, task.workload, journal);
                    let child = process::Child::plimsoll(plimsoll, place, of)?;
                    let open = match (viewers, port) {
                        (Some(number), Some(port)) if 0 < number => {
                            Some(Viewers::open(number, port).await?)
                        }
                        _ => None,
                    };
                    follow(&api, task, (child, open)).await
                }
                Who::Binder => {
                    let child = process::Child::binder(&kubeconfig, &namespace)?;
                    follow(&api, task, (child, None)).await
                }
            }
        };
        let measured = measured.await;
        if own.is_none() {
            api.clean(task.nodes).await?;
        }
        measured
    })
}

/// The in-memory API server. It has PodGroups only for gangs, so that nothing else changes.
fn test_server(workload: Workload) -> Options {
    match workload {
        Workload::Basic | Workload::Deployments => Options::default(),
        Workload::Gangs => Options {
            release: 37,
            also: vec![objects::GROUP_VERSION.to_owned()],
            ..Options::default()
        },
    }
}

/// Waits until all pods are bound and have an event, and as long as pages are to be looked at.
async fn follow(
    api: &Api,
    task: &E2e,
    (mut child, open): (process::Child, Option<Viewers>),
) -> Result<Measured> {
    let pods = task.pods;
    let begun = Instant::now();
    let mut first = None;
    let bound = loop {
        child.check()?;
        if first.is_none() && api.has_bound().await? {
            first = Some(begun.elapsed());
        }
        if first.is_some() && !api.has_unbound().await? {
            break begun.elapsed();
        }
        ensure!(begun.elapsed() < PATIENCE, "not all pods are bound after {PATIENCE:?}");
        tokio::time::sleep(LOOK_EVERY).await;
    };
    // The cost is read before the events are counted one by one, which takes time.
    let (told, Cost { cpu, .. }) = loop {
        child.check()?;
        let so_far = (begun.elapsed(), child.cost()?);
        let told = if api.has_events(pods).await? { api.told().await? } else { 0 };
        if pods <= told {
            break so_far;
        }
        let waited = begun.elapsed().saturating_sub(bound);
        ensure!(
            waited < PATIENCE_WITH_EVENTS,
            "not every pod has an event {PATIENCE_WITH_EVENTS:?} after all were bound"
        );
        tokio::time::sleep(LOOK_EVERY).await;
    };
    tokio::time::sleep(Duration::from_secs(task.linger)).await;
    let all = child.cost()?;
    let (answers, sent) = match open {
        Some(viewers) => viewers.close().await?,
        None => (0, 0),
    };
    child.stop().await;
    let first = first.unwrap_or(bound);
    #[expect(clippy::cast_precision_loss, reason = "there are fewer pods and bytes than that")]
    let (pods, answers, sent) = (pods as f64, answers as f64, sent as f64);
    let rate_until = |end: Duration| {
        pods / end.saturating_sub(first).max(Duration::from_millis(1)).as_secs_f64()
    };
    Ok(Measured {
        pods_per_second: rate_until(told),
        bound_per_second: rate_until(bound),
        cpu_per_thousand: cpu.as_secs_f64() / pods * 1000.0,
        cpu: all.cpu.as_secs_f64(),
        peak_mib: all.peak_mib,
        first_bind: first.as_secs_f64(),
        answers,
        sent_mib: sent / f64::from(1 << 20),
    })
}

/// Runs the binder, for which this program starts itself.
pub(crate) use binder::bind;
