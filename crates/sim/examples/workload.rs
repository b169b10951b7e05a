//! Runs a workload once, for those who count instructions or look for what takes time: it is built with far fewer
//! libraries than `plimsoll bench`, and does nothing else.
//!
//! ```sh
//! cargo run --release -p plimsoll-sim --example workload -- SchedulingBasic 500 0 1000 [groups] [reference | journal]
//! ```
//! The numbers are those of nodes, of pods that are there before, of pods that are measured, and, if the workload has any, of
//! its Deployments, classes or groups. With `journal` decisions are kept, as for a journal.

#[allow(dead_code, reason = "the tests use the other profiles")]
#[path = "../tests/it/profiles.rs"]
mod profiles;

use std::env;
use std::error::Error;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use plimsoll_engine::{Detail, Engine, Gates, Options, Scheduler};
use plimsoll_sim::perf::{MeasurementClock, Sizes, Workload};

use profiles::{gates_for, profiles_for};

/// The time since it was made.
struct SinceStart(Instant);

impl MeasurementClock for SinceStart {
    fn wall(&self) -> Duration {
        self.0.elapsed()
    }

    fn cpu(&self) -> Option<Duration> {
        None
    }
}

const USAGE: &str = "usage: workload NAME NODES INIT_PODS PODS [GROUPS] [reference | journal]";

fn main() -> Result<(), Box<dyn Error>> {
    let mut words: Vec<String> = env::args().skip(1).collect();
    let (engine, detail) = match words.last().map(String::as_str) {
        Some("reference") => (Engine::Reference, Detail::None),
        Some("journal") => (Engine::Fast, Detail::Choice),
        _ => (Engine::Fast, Detail::None),
    };
    if engine == Engine::Reference || detail == Detail::Choice {
        words.pop();
    }
    let [name, nodes, init_pods, pods, groups @ ..] = words.as_slice() else {
        return Err(USAGE.into());
    };
    let workload = Workload::named(name).ok_or_else(|| format!("no workload is named {name}"))?;
    let (nodes, init_pods, pods) = (nodes.parse()?, init_pods.parse()?, pods.parse()?);
    let groups = match groups {
        [] => workload.sizes.groups,
        [groups] => groups.parse()?,
        _ => return Err(USAGE.into()),
    };
    let sizes = Sizes { nodes, init_pods, pods, groups };
    let gates = Gates::of(&gates_for(&workload));
    // What is counted is the engine, not its audits.
    let options = Options { gates, engine, detail, audit_every: 0, ..Options::default() };
    let mut scheduler = Scheduler::new(profiles_for(&workload), options, 1)?;
    let total = workload.measure(sizes, 1, &mut scheduler, &SinceStart(Instant::now())).total();
    writeln!(io::stdout(), "{} pods, {} placed in {:?}", total.pods, total.scheduled, total.wall)?;
    Ok(())
}
