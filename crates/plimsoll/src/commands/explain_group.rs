//! `plimsoll explain --group`: why a group of pods is scheduled or not.

use std::io::{self, BufWriter, Write};

use anyhow::{Result, bail};
use plimsoll_api::{CompositePodGroup, ObjectKey, Pod, PodGroup};
use plimsoll_engine::{Detail, Options, Scheduler};
use plimsoll_framework::Registry;
use plimsoll_framework::pod_groups::group_of;
use plimsoll_sim::{InitialCluster, Simulation};

use super::Scene;
use crate::answers::groups::{check_on, leaves_in, tried};
use crate::args::{Explain, Format};
use crate::render::style::Screen;
use crate::render::{canary as render, record, table};
use crate::wording::some_of;

/// An error suggests at most 5 other groups.
const NAMES: usize = 5;
/// The seed has no effect: ties are broken by name.
const SEED: u64 = 0;

/// Tries a group as if it had its turn now, and prints what came of it.
pub(crate) fn run(args: &Explain, group: &ObjectKey, registry: &Registry) -> Result<()> {
    let scene = Scene::read(&args.cluster, registry)?;
    let leaves = leaves_in(&scene.cluster, group);
    let is_member = |pod: &Pod| group_of(pod).is_some_and(|group| leaves.contains(&group));
    let (Scene { setup, cluster, .. }, canary) = scene.asked_about(&args.canary, is_member)?;
    let options = Options { detail: Detail::Nodes, ..setup.options() };
    check_on(&options)?;
    check_known(&cluster, group)?;
    let scheduler = Scheduler::new(setup.profiles, options, SEED)?;
    let mut simulation = Simulation::new(scheduler, cluster);
    let (now, scheduler) = (simulation.now(), simulation.scheduler_mut());
    let decision = tried(scheduler, now, group)?;
    match args.output.format {
        Format::Json => {
            let mut out = BufWriter::new(io::stdout().lock());
            record::write_asked_group_line(&mut out, &decision, canary.as_ref())?;
            out.flush()?;
        }
        Format::Table => {
            let mut out = anstream::stdout();
            render::choice(&mut out, &group.to_string(), canary.as_ref())?;
            table::group(&mut out, &decision, Screen::stdout())?;
        }
    }
    Ok(())
}

/// Fails, with advice, if neither the group nor a pod of it is in the files.
pub(super) fn check_known(cluster: &InitialCluster, group: &ObjectKey) -> Result<()> {
    let of_pods = cluster.pods.iter().filter_map(group_of);
    let groups = cluster.objects.iter().filter_map(|object| object.get::<PodGroup>());
    let composites = cluster.objects.iter().filter_map(|object| object.get::<CompositePodGroup>());
    let mut known: Vec<ObjectKey> = of_pods.collect();
    known.extend(groups.map(|group| group.key.clone()));
    known.extend(composites.map(|composite| composite.key.clone()));
    known.sort();
    known.dedup();
    if known.is_empty() {
        bail!("group {group} is not in the files, and no pod in them belongs to a group");
    }
    if !known.contains(group) {
        bail!("group {group} is not in the files; the groups are {}", some_of(&known, NAMES));
    }
    Ok(())
}
