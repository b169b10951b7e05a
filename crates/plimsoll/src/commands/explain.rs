//! `plimsoll explain`: why one pod fits each node or not.

use std::io::{self, BufWriter, Write};

use anyhow::{Context, Result, bail};
use plimsoll_api::{Pod, PodKey, PodPhase, Str};
use plimsoll_config::{Configuration, ResolvedProfile};
use plimsoll_engine::{Decision, Profile, QueuePlace, Scheduler};
use plimsoll_framework::{FeatureGates, Registry, Rejection};
use plimsoll_sim::{InitialCluster, Simulation};

use super::{Scene, explain_group};
use crate::args::{Explain, Format};
use crate::caveats;
use crate::old_scale::{self, Decider, OldRanking, OldScale};
use crate::options::Setup;
use crate::render::style::Screen;
use crate::render::{canary as render, explain, record};
use crate::wording::some_of;

/// An error suggests at most 5 other pods.
const NAMES: usize = 5;
/// The seed has no effect: ties are broken by name.
const SEED: u64 = 0;

/// Decides one pod and prints the verdict of every node.
pub(crate) fn run(args: &Explain, registry: &Registry) -> Result<()> {
    if let Some(group) = &args.group {
        return explain_group::run(args, group, registry);
    }
    let pod = args.pod.as_ref().context("give --pod or --group")?;
    let scene = Scene::read(&args.cluster, registry)?;
    let (Scene { mut setup, cluster, .. }, canary) =
        scene.asked_about(&args.canary, |one| one.key == *pod)?;
    let canary = canary.as_ref();
    check_pending(&cluster, pod, &setup)?;
    let options = setup.options();
    let is_given = args.cluster.config.is_some();
    let rankings = args.ranking.by_priorities();
    let rankings = rankings.map(|release| setup.rankings(release, is_given)).transpose()?;
    if let Some(rankings) = &rankings {
        setup.profiles = old_scale::ranked(setup.profiles, rankings);
    }
    let scheduler = Scheduler::new(setup.profiles, options, SEED)?;
    let simulation = Simulation::new(scheduler, cluster);
    let scheduler = simulation.scheduler();
    let Some(decision) = scheduler.explain(pod) else {
        bail!("pod {pod} is not waiting for a node");
    };
    let gate = gate(scheduler, pod);
    // A pod that is kept out of the queue has no nodes to rank.
    let rankings = rankings.filter(|_| gate.is_none());
    let made_from = (&setup.configuration, registry, &setup.gates);
    let old = rankings.map(|rankings| on_old_scale(scheduler, made_from, &rankings, &decision));
    let old = old.transpose()?;
    match args.output.format {
        Format::Json => {
            let mut out = BufWriter::new(io::stdout().lock());
            match &old {
                Some(old) => record::write_line_on_both_scales(&mut out, &decision, old, canary)?,
                None => record::write_asked_line(&mut out, &decision, &[], canary)?,
            }
            out.flush()?;
        }
        Format::Table => {
            let (mut out, screen) = (anstream::stdout(), Screen::stdout());
            render::choice(&mut out, &pod.to_string(), canary)?;
            let shown = if args.all { explain::Shown::All } else { explain::Shown::Best };
            match (gate, &old) {
                (Some((plugin, why)), _) => {
                    explain::gated(&mut out, pod, plugin, why)?;
                    if decision.pre_enqueue.is_some() && !decision.nodes.is_empty() {
                        explain::decision(&mut out, &decision, shown, screen)?;
                    }
                }
                (None, Some(old)) => {
                    explain::decision_on_old_scale(&mut out, &decision, old, shown, screen)?;
                }
                (None, None) => explain::decision(&mut out, &decision, shown, screen)?,
            }
        }
    }
    Ok(())
}

/// The ranking by the priorities of the profile that made `decision`, and the choice of today's scores.
fn on_old_scale(
    scheduler: &Scheduler,
    (configuration, registry, gates): (&Configuration, &Registry, &FeatureGates),
    rankings: &[OldRanking],
    decision: &Decision,
) -> Result<OldScale> {
    let pod = scheduler.pending().find(|info| info.pod.key == decision.pod).map(|info| &info.pod);
    let is_its = |profile: &ResolvedProfile| {
        pod.is_some_and(|pod| pod.scheduler_name == profile.scheduler_name)
    };
    let index = configuration.profiles.iter().position(is_its);
    let index = index.context("no profile schedules the pod")?;
    let today = Profile::all_of(&configuration.profile_specs(), registry, gates)?;
    let decider = Decider {
        profile: &configuration.profiles[index],
        made_from: (registry, gates),
        ranking: &rankings[index],
        today: &today[index],
    };
    OldScale::of(scheduler, &decider, decision)
}

/// The plugin that keeps a pod out of the queue, and why.
fn gate<'a>(scheduler: &'a Scheduler, key: &PodKey) -> Option<(&'static str, &'a Rejection)> {
    let info = scheduler.pending().find(|info| info.pod.key == *key)?;
    match &info.place {
        QueuePlace::Gated { plugin, why } => Some((plugin, why)),
        _ => None,
    }
}

/// Fails, with advice, unless a profile would decide the pod.
fn check_pending(cluster: &InitialCluster, key: &PodKey, setup: &Setup) -> Result<()> {
    let Some(pod) = cluster.pods.iter().find(|pod| pod.key == *key) else {
        bail!("pod {key} is not in the files{}", offer(cluster, key));
    };
    if pod.phase == PodPhase::Ended {
        bail!("pod {key} has ended, and needs no node");
    }
    if let Some(node) = &pod.node_name {
        bail!(
            "pod {key} is on node {node} already: to see where it would go now, remove its \
             spec.nodeName"
        );
    }
    if pod.is_terminating() {
        bail!("pod {key} is being deleted: schedulers skip it");
    }
    if !setup.is_for(&pod.scheduler_name) {
        let profiles = &setup.configuration.profiles;
        let names: Vec<_> = profiles.iter().map(|profile| &profile.scheduler_name).collect();
        bail!(
            "pod {key} belongs to scheduler {}, and no profile has that name (there is {})",
            pod.scheduler_name,
            some_of(&names, NAMES),
        );
    }
    Ok(())
}

/// Suggests the same name in other namespaces, or else pending pods.
pub(super) fn offer(cluster: &InitialCluster, key: &PodKey) -> String {
    let keys_of = |wanted: &dyn Fn(&Pod) -> bool| {
        let pods = cluster.pods.iter().filter(|pod| wanted(pod));
        pods.map(|pod| pod.key.clone()).collect::<Vec<_>>()
    };
    let namesakes = keys_of(&|pod| pod.key.name == key.name);
    if !namesakes.is_empty() {
        return format!(": did you mean {}?", some_of(&namesakes, NAMES));
    }
    let pending = keys_of(&caveats::is_pending);
    if pending.is_empty() {
        return ", and no pod in them is pending".to_owned();
    }
    let begins_alike = |pod: &PodKey| alike(&pod.name, &key.name);
    let (mut offered, others): (Vec<_>, Vec<_>) = pending.into_iter().partition(begins_alike);
    offered.extend(others);
    format!("; the pending pods are {}", some_of(&offered, NAMES))
}

/// Whether two names begin with the same word.
fn alike(one: &Str, other: &Str) -> bool {
    let word = |name: &Str| name.split(['-', '.']).next().map(ToOwned::to_owned);
    word(one) == word(other)
}
