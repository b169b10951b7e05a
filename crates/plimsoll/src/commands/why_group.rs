//! `plimsoll why --group`: why a group of pods waits, and what would change that.

use std::io::{self, BufWriter, Write};

use anyhow::Result;
use plimsoll_advisor::{GroupSubject, Manifests, Reference, WhyGroup, why_group};
use plimsoll_api::{ObjectKey, Pod};
use plimsoll_engine::record::GroupRecord;
use plimsoll_engine::{Detail, GroupDecision, Options, Scheduler};
use plimsoll_framework::Registry;
use plimsoll_framework::pod_groups::group_of;
use plimsoll_sim::Simulation;
use serde::Serialize;

use super::Scene;
use super::explain_group::{check_known, check_on, waiting};
use crate::answers::decided_by;
use crate::args::{Format, Why};
use crate::input;
use crate::render::canary::{self, WithCanary};
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
    let scene = Scene::read(&args.cluster, registry)?;
    let is_member = |pod: &Pod| group_of(pod).as_ref() == Some(group);
    let (Scene { setup, cluster }, canary) = scene.asked_about(&args.canary, is_member)?;
    let options = Options { detail: Detail::Outcome, ..setup.options() };
    check_on(&options)?;
    check_known(&cluster, group)?;
    let sources = input::read(&args.cluster.files)?;
    let manifests = input::Manifests::of(&sources, &registry.kinds());
    let profile = canary.as_ref().map(|choice| choice.profile.as_str());
    let find = |object: &Reference| {
        let manifest = manifests.find(&object.to_string())?;
        let is_member = manifest["spec"]["schedulingGroup"]["podGroupName"] == group.name.as_str();
        Some(decided_by(&manifest, profile.filter(|_| is_member)).into_owned())
    };
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
            serde_json::to_writer(&mut out, &WithCanary { answer, canary: canary.as_ref() })?;
            writeln!(out)?;
            out.flush()?;
        }
        Format::Table => {
            let mut out = anstream::stdout();
            canary::choice(&mut out, &group.to_string(), canary.as_ref())?;
            render::answer(&mut out, &why, decision.as_ref(), Screen::stdout())?;
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
