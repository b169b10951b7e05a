//! `plimsoll why`: why a pod is pending and what would change that, or why it is on its node.

use std::io::{self, BufWriter, Write};

use anyhow::{Context, Result, bail};
use plimsoll_advisor::{Limits, Manifests, Reference, Subject};
use plimsoll_api::{Pod, PodKey, PodPhase};
use plimsoll_engine::Scheduler;
use plimsoll_framework::Registry;
use plimsoll_sim::{InitialCluster, Simulation};

use super::explain::offer;
use super::{Scene, why_group, why_journal, why_recording};
use crate::alternatives::alternatives;
use crate::answers::decided_by;
use crate::args::{Asked, Format, Why};
use crate::input;
use crate::options::Setup;
use crate::render::canary::{self, WithCanary};
use crate::render::style::Screen;
use crate::render::why as render;

/// Ties are broken by name.
const SEED: u64 = 0;

/// Answers for one pod.
pub(crate) fn run(args: Why, registry: &Registry) -> Result<()> {
    let (args, asked) = args.settle().unwrap_or_else(|error| error.exit());
    let key = match asked {
        Asked::Pod(pod) => pod,
        Asked::Group(group) => return why_group::run(&args, &group, registry),
    };
    if let Some(journal) = &args.journal {
        return why_journal::run(journal, &key, args.output.format);
    }
    if let Some(recording) = &args.recording {
        return why_recording::run(&args, recording, &key, registry);
    }
    let scene = Scene::read(&args.cluster, registry)?;
    let (Scene { setup, cluster, sources }, canary) =
        scene.asked_about(&args.canary, |one| one.key == key)?;
    let pod = subject(&cluster, &key, &setup)?;
    let alternatives = match pod.node_name {
        Some(_) => Vec::new(),
        None => alternatives(&setup.configuration, (registry, &setup.gates), &pod.scheduler_name)?,
    };
    let manifests = input::Manifests::of(&sources, &registry.kinds());
    let manifest = manifests.find(&format!("Pod {key}"));
    let manifest =
        manifest.with_context(|| format!("the manifest of pod {key} could not be read again"))?;
    let profile = canary.as_ref().map(|choice| choice.profile.as_str());
    let manifest = decided_by(&manifest, profile);
    let find = |object: &Reference| manifests.find(&object.to_string());
    let options = setup.options();
    let scheduler = Scheduler::new(setup.profiles, options, SEED)?;
    let mut simulation = Simulation::new(scheduler, cluster);
    let now = simulation.now();
    let limits = Limits { remedies: args.remedies, nearest: args.nearest, ..Limits::default() };
    let subject = Subject {
        pod: &key,
        manifest: &manifest,
        manifests: Manifests::by(&find),
        alternatives: &alternatives,
        limits,
        pending: None,
    };
    let why = plimsoll_advisor::why(simulation.scheduler_mut(), now, &subject)?;
    match args.output.format {
        Format::Json => {
            let mut out = BufWriter::new(io::stdout().lock());
            let canary = canary.as_ref();
            serde_json::to_writer(&mut out, &WithCanary { answer: &why, canary })?;
            writeln!(out)?;
            out.flush()?;
        }
        Format::Table => {
            let mut out = anstream::stdout();
            canary::choice(&mut out, &key.to_string(), canary.as_ref())?;
            render::answer(&mut out, &why, Screen::stdout())?;
        }
    }
    Ok(())
}

/// The pod, if it can be asked about.
fn subject<'a>(cluster: &'a InitialCluster, key: &PodKey, setup: &Setup) -> Result<&'a Pod> {
    let Some(pod) = cluster.pods.iter().find(|pod| pod.key == *key) else {
        bail!("pod {key} is not in the files{}", offer(cluster, key));
    };
    if pod.phase == PodPhase::Ended {
        bail!("pod {key} has ended, and needs no node");
    }
    if pod.is_terminating() && pod.node_name.is_none() {
        bail!("pod {key} is being deleted: schedulers skip it");
    }
    if !setup.is_for(&pod.scheduler_name) {
        let profiles = &setup.configuration.profiles;
        let names: Vec<_> = profiles.iter().map(|profile| &profile.scheduler_name).collect();
        let there_is = crate::wording::some_of(&names, 5);
        bail!(
            "pod {key} belongs to scheduler {}, and no profile has that name (there is {there_is})",
            pod.scheduler_name,
        );
    }
    Ok(pod)
}
