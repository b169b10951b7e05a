//! `plimsoll explain`: one pod and all nodes.

use std::io::{self, BufWriter, Write};

use anyhow::{Context, Result, bail};
use plimsoll_api::{Pod, PodKey, PodPhase, Str};
use plimsoll_config::{Configuration, Form, ResolvedProfile};
use plimsoll_engine::{Place, Scheduler};
use plimsoll_framework::Rejection;
use plimsoll_plugins::in_tree;
use plimsoll_sim::{Cluster, Simulation};

use super::Scene;
use crate::args::{Explain, Format, Scale};
use crate::caveats;
use crate::old_scale::{OldScale, Priorities};
use crate::options::Setup;
use crate::render::style::Screen;
use crate::render::{explain, record};
use crate::wording::some_of;

/// How many names of other pods are offered.
const NAMES: usize = 5;
/// Where chance comes from: nothing is left to it.
const SEED: u64 = 0;

/// Decides one pod and prints what was found of every node.
pub(crate) fn run(args: &Explain) -> Result<()> {
    let Scene { setup, cluster } = Scene::read(&args.cluster)?;
    check_pending(&cluster, &args.pod, &setup)?;
    let options = setup.options();
    let scheduler = Scheduler::new(setup.profiles, options, SEED)?;
    let simulation = Simulation::new(scheduler, cluster);
    let scheduler = simulation.scheduler();
    let Some(decision) = scheduler.explain(&args.pod) else {
        bail!("pod {} does not wait for a node", args.pod);
    };
    let gate = gate(scheduler, &args.pod);
    // A pod that is kept out of the queue has no node to be ranked.
    let old = match args.scale {
        Scale::Ten if gate.is_none() => {
            let profile = profile_of(scheduler, &setup.configuration, &args.pod)?;
            let priorities = match setup.configuration.origin.form {
                Form::Policy => Priorities::OfPolicy(&setup.configuration.origin.priorities),
                Form::V1 if args.cluster.config.is_none() => Priorities::Default,
                _ => Priorities::OfProfile,
            };
            Some(OldScale::of(
                scheduler,
                profile,
                (&in_tree(), &setup.gates),
                priorities,
                &decision,
            )?)
        }
        Scale::Ten | Scale::Hundred => None,
    };
    match args.output.format {
        Format::Json => {
            let mut out = BufWriter::new(io::stdout().lock());
            match &old {
                Some(old) => record::write_line_on_both_scales(&mut out, &decision, old)?,
                None => record::write_line(&mut out, &decision, &[])?,
            }
            out.flush()?;
        }
        Format::Table => {
            let (mut out, screen) = (anstream::stdout(), Screen::stdout());
            let shown = if args.all { explain::Shown::All } else { explain::Shown::Best };
            match (gate, &old) {
                (Some((plugin, why)), _) => explain::gated(&mut out, &args.pod, plugin, why)?,
                (None, Some(old)) => {
                    explain::decision_on_old_scale(&mut out, &decision, old, shown, screen)?;
                }
                (None, None) => explain::decision(&mut out, &decision, shown, screen)?,
            }
        }
    }
    Ok(())
}

/// The profile that decides a pod.
fn profile_of<'a>(
    scheduler: &Scheduler,
    configuration: &'a Configuration,
    key: &PodKey,
) -> Result<&'a ResolvedProfile> {
    let pod = scheduler.pending().find(|info| info.pod.key == *key).map(|info| &info.pod);
    let is_its = |profile: &&ResolvedProfile| {
        pod.is_some_and(|pod| pod.scheduler_name == profile.scheduler_name)
    };
    configuration.profiles.iter().find(is_its).context("no profile is for the pod")
}

/// The plugin that keeps a pod out of the queue, and why.
fn gate<'a>(scheduler: &'a Scheduler, key: &PodKey) -> Option<(&'static str, &'a Rejection)> {
    let info = scheduler.pending().find(|info| info.pod.key == *key)?;
    match &info.place {
        Place::Gated { plugin, why } => Some((plugin, why)),
        _ => None,
    }
}

/// An error that says what to do, unless a profile would decide the pod.
fn check_pending(cluster: &Cluster, key: &PodKey, setup: &Setup) -> Result<()> {
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
        bail!("pod {key} is being deleted: schedulers pass it over");
    }
    if !setup.is_for(&pod.scheduler_name) {
        let profiles = &setup.configuration.profiles;
        let names: Vec<_> = profiles.iter().map(|profile| &profile.scheduler_name).collect();
        bail!(
            "pod {key} belongs to scheduler {}, and no profile is for that (there is {})",
            pod.scheduler_name,
            some_of(&names, NAMES),
        );
    }
    Ok(())
}

/// Names that may have been meant: the same in other namespaces, or pods that are pending.
fn offer(cluster: &Cluster, key: &PodKey) -> String {
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
    format!("; pending are {}", some_of(&offered, NAMES))
}

/// Whether two names begin with the same word.
fn alike(one: &Str, other: &Str) -> bool {
    let word = |name: &Str| name.split(['-', '.']).next().map(ToOwned::to_owned);
    word(one) == word(other)
}
