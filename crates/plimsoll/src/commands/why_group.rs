//! `plimsoll why --group`: why a group of pods waits, and what would change that.

use std::io::{self, BufWriter, Write};

use anyhow::Result;
use plimsoll_advisor::{GroupSubject, Manifests, Reference, WhyGroup, why_group};
use plimsoll_api::ObjectKey;
use plimsoll_engine::record::GroupRecord;
use plimsoll_engine::{Detail, GroupDecision, Options, Scheduler};
use plimsoll_framework::Registry;
use plimsoll_sim::Simulation;
use serde::Serialize;

use super::Scene;
use super::explain_group::{check_known, check_on, waiting};
use crate::args::{Format, Why};
use crate::input;
use crate::render::style::Screen;
use crate::render::why_group as render;

/// Ties are broken by name.
const SEED: u64 = 0;

/// The answer with the record of the decision.
#[derive(Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    why: &'a WhyGroup,
    #[serde(skip_serializing_if = "Option::is_none")]
    record: Option<GroupRecord<'a>>,
}

/// Answers for one group.
pub(crate) fn run(args: &Why, group: &ObjectKey, registry: &Registry) -> Result<()> {
    let Scene { setup, cluster } = Scene::read(&args.cluster, registry)?;
    let options = Options { detail: Detail::Outcome, ..setup.options() };
    check_on(&options)?;
    check_known(&cluster, group)?;
    let sources = input::read(&args.cluster.files)?;
    let manifests = input::Manifests::of(&sources, &registry.kinds());
    let find = |object: &Reference| manifests.find(&object.to_string());
    let scheduler = Scheduler::new(setup.profiles, options, SEED)?;
    let mut simulation = Simulation::new(scheduler, cluster);
    let now = simulation.now();
    let subject = GroupSubject { group, manifests: Manifests::by(&find), remedies: args.remedies };
    let why = why_group(simulation.scheduler_mut(), now, &subject)?;
    let decision = decision(&mut simulation, group, why.pending)?;
    match args.output.format {
        Format::Json => {
            let mut out = BufWriter::new(io::stdout().lock());
            let answer = Answer { why: &why, record: decision.as_ref().map(GroupRecord::of) };
            serde_json::to_writer(&mut out, &answer)?;
            writeln!(out)?;
            out.flush()?;
        }
        Format::Table => {
            render::answer(&mut anstream::stdout(), &why, decision.as_ref(), Screen::stdout())?;
        }
    }
    Ok(())
}

/// The decision about the group, as `explain --group` makes it. This scheduler is not needed any more.
fn decision(
    simulation: &mut Simulation,
    group: &ObjectKey,
    pending: usize,
) -> Result<Option<GroupDecision>> {
    if pending == 0 {
        return Ok(None);
    }
    let (now, scheduler) = (simulation.now(), simulation.scheduler_mut());
    match scheduler.try_group_now(now, group, &mut Vec::new()) {
        Some(decision) => Ok(Some(decision)),
        None => waiting(scheduler, group).map(Some),
    }
}
