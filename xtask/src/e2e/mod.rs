//! `cargo xtask e2e`: what it costs to bind pods through an API server.

mod api;
mod binder;
mod objects;
mod process;

use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::{Parser, ValueEnum};
use plimsoll_testserver::{Options, TestServer};

use self::api::Api;
use self::process::Cost;

/// Bind pods through an API server, and print what that costs
///
/// Makes nodes and pods in a namespace of their own, then starts the scheduler and waits until every pod
/// is bound. Everything that was made is deleted at the end. The API server must not have a scheduler of
/// its own that takes these pods, nor anything that puts taints on nodes without a kubelet.
#[derive(Debug, Parser)]
pub(crate) struct E2e {
    /// The API server; without one, an API server in memory
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

    /// Who binds them
    #[arg(long, value_enum, default_values_t = [Who::Plimsoll, Who::Binder])]
    who: Vec<Who>,

    /// The binary of Plimsoll; built if it is not given
    #[arg(long, value_name = "FILE")]
    plimsoll: Option<PathBuf>,

    /// How often; medians are printed
    #[arg(long, value_name = "N", default_value_t = 1)]
    runs: usize,
}

/// What the pods are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Workload {
    /// Alike, with requests
    Basic,
    /// Of 100 ReplicaSets with a Service each, spread as by default
    Deployments,
}

/// Who binds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Who {
    /// `plimsoll run`
    Plimsoll,
    /// A binder that decides nothing: the next pod goes to the next node, with an event
    Binder,
}

/// How long it may take until all pods are bound.
const PATIENCE: Duration = Duration::from_mins(30);

pub(crate) fn run(task: &E2e) -> Result<()> {
    let plimsoll = match &task.plimsoll {
        Some(file) => file.clone(),
        None => process::build()?,
    };
    let mut out = std::io::stdout();
    writeln!(
        out,
        "{:<10} {:>9} {:>16} {:>10} {:>12}",
        "WHO", "PODS/S", "CPU S/1000 PODS", "PEAK MIB", "FIRST BIND"
    )?;
    for &who in &task.who {
        let mut measured = Vec::new();
        for _ in 0..task.runs.max(1) {
            measured.push(measure(task, who, &plimsoll)?);
        }
        let median = |of: fn(&Measured) -> f64| {
            let mut all: Vec<f64> = measured.iter().map(of).collect();
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        };
        writeln!(
            out,
            "{:<10} {:>9.0} {:>16.3} {:>10.1} {:>10.2} s",
            who.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned()),
            median(|one| one.pods_per_second),
            median(|one| one.cpu_per_thousand),
            median(|one| one.peak_mib),
            median(|one| one.first_bind),
        )?;
    }
    Ok(())
}

struct Measured {
    pods_per_second: f64,
    cpu_per_thousand: f64,
    peak_mib: f64,
    first_bind: f64,
}

fn measure(task: &E2e, who: Who, plimsoll: &std::path::Path) -> Result<Measured> {
    let own = task.kubeconfig.is_none().then(|| TestServer::start(Options::default()));
    let kubeconfig = match (&task.kubeconfig, &own) {
        (Some(file), _) => file.clone(),
        (None, Some(server)) => server.kubeconfig_file().context("no kubeconfig can be written")?,
        (None, None) => anyhow::bail!("there is no API server"),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let api = Api::connect(&kubeconfig).await?;
        let scheduler_name = "plimsoll-e2e";
        api.make(task.nodes, task.pods, task.workload, scheduler_name).await?;
        let measured = async {
            match who {
                Who::Plimsoll => {
                    let child = process::Child::plimsoll(plimsoll, &kubeconfig, scheduler_name)?;
                    follow(&api, task.pods, child).await
                }
                Who::Binder => {
                    let child = process::Child::binder(&kubeconfig)?;
                    follow(&api, task.pods, child).await
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

/// Waits until all pods are bound.
async fn follow(api: &Api, pods: usize, mut child: process::Child) -> Result<Measured> {
    let begun = Instant::now();
    let mut first = None;
    loop {
        child.check()?;
        if first.is_none() && api.has_bound().await? {
            first = Some(begun.elapsed());
        }
        if first.is_some() && !api.has_unbound().await? {
            break;
        }
        ensure!(begun.elapsed() < PATIENCE, "not all pods are bound after {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let all = begun.elapsed();
    let Cost { cpu, peak_mib } = child.cost()?;
    child.stop().await;
    let first = first.unwrap_or(all);
    #[expect(clippy::cast_precision_loss, reason = "there are fewer pods than that")]
    let pods = pods as f64;
    Ok(Measured {
        pods_per_second: pods
            / all.saturating_sub(first).max(Duration::from_millis(1)).as_secs_f64(),
        cpu_per_thousand: cpu.as_secs_f64() / pods * 1000.0,
        peak_mib,
        first_bind: first.as_secs_f64(),
    })
}

/// What the binder does when this program is started for it.
pub(crate) use binder::bind;
