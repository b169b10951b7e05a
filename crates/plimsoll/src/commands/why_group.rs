//! `plimsoll why --group`: why a group of pods waits, and what would change that.

use std::io::{self, BufWriter, Write};

use anyhow::Result;
use plimsoll_advisor::{GroupSubject, Manifests, Reference};
use plimsoll_api::ObjectKey;
use plimsoll_engine::{Detail, Options, Scheduler};
use plimsoll_framework::Registry;
use plimsoll_sim::Simulation;

use super::Scene;
use super::explain_group::{check_known, check_on};
use crate::answers::groups::GroupAnswer;
use crate::args::{Format, Why};
use crate::input;
use crate::render::style::Screen;
use crate::render::why_group as render;

/// Ties are broken by name.
const SEED: u64 = 0;

/// Answers for one group.
pub(crate) fn run(args: &Why, group: &ObjectKey, registry: &Registry) -> Result<()> {
    let Scene { setup, cluster, sources } = Scene::read(&args.cluster, registry)?;
    let options = Options { detail: Detail::Outcome, ..setup.options() };
    check_on(&options)?;
    check_known(&cluster, group)?;
    let manifests = input::Manifests::of(&sources, &registry.kinds());
    let find = |object: &Reference| manifests.find(&object.to_string());
    let scheduler = Scheduler::new(setup.profiles, options, SEED)?;
    let mut simulation = Simulation::new(scheduler, cluster);
    let now = simulation.now();
    let subject = GroupSubject {
        group,
        manifests: Manifests::by(&find),
        remedies: args.remedies,
        pending: None,
    };
    let answer = GroupAnswer::of(simulation.scheduler_mut(), now, &subject)?;
    match args.output.format {
        Format::Json => {
            let mut out = BufWriter::new(io::stdout().lock());
            serde_json::to_writer(&mut out, &answer.written())?;
            writeln!(out)?;
            out.flush()?;
        }
        Format::Table => render::answer(&mut anstream::stdout(), &answer, Screen::stdout())?,
    }
    Ok(())
}
