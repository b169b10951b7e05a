//! `plimsoll why --group`: why a group of pods waits, and what would change that.

use std::io::{self, BufWriter, Write};

use anyhow::Result;
use plimsoll_advisor::{GroupSubject, Manifests, Reference};
use plimsoll_api::{ObjectKey, Pod, Str};
use plimsoll_engine::{Detail, Options, Scheduler};
use plimsoll_framework::Registry;
use plimsoll_framework::pod_groups::group_of;
use plimsoll_sim::Simulation;

use super::Scene;
use super::explain_group::check_known;
use crate::answers::groups::{GroupAnswer, check_on, leaves_in};
use crate::answers::{decided_by, profiles_of};
use crate::args::{Format, Why};
use crate::input;
use crate::render::canary::{self, WithCanary};
use crate::render::style::Screen;
use crate::render::why_group as render;

/// Ties are broken by name.
const SEED: u64 = 0;

/// Answers for one group.
pub(crate) fn run(args: &Why, group: &ObjectKey, registry: &Registry) -> Result<()> {
    let scene = Scene::read(&args.cluster, registry)?;
    let leaves = leaves_in(&scene.cluster, group);
    let is_member = |pod: &Pod| group_of(pod).is_some_and(|group| leaves.contains(&group));
    let (Scene { setup, cluster, sources }, canary) = scene.asked_about(&args.canary, is_member)?;
    let options = Options { detail: Detail::Outcome, ..setup.options() };
    check_on(&options)?;
    check_known(&cluster, group)?;
    let manifests = input::Manifests::of(&sources, &registry.kinds());
    // The rules have been asked about all pods already, also about those of other groups of the tree.
    let profiles = profiles_of(cluster.pods.iter());
    let find = |object: &Reference| {
        let manifest = manifests.find(&object.to_string())?;
        Some(decided_by(&manifest, profiles.get(object).map(Str::as_str)).into_owned())
    };
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
            let answer = WithCanary { answer: answer.written(), canary: canary.as_ref() };
            serde_json::to_writer(&mut out, &answer)?;
            writeln!(out)?;
            out.flush()?;
        }
        Format::Table => {
            let mut out = anstream::stdout();
            canary::choice(&mut out, &group.to_string(), canary.as_ref())?;
            render::answer(&mut out, &answer, Screen::stdout())?;
        }
    }
    Ok(())
}
