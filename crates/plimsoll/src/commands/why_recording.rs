//! `plimsoll why --recording`: why a pod was pending at some time of a recording, and what would have changed that.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::{Result, bail};
use plimsoll_advisor::{
    Change, Limits, Manifests, RebuiltPod, Reference, Subject, Why, rebuilt_claim,
};
use plimsoll_api::{Pod, PodKey, PodPhase};
use plimsoll_engine::{Detail, Options, Scheduler};
use plimsoll_framework::Registry;
use plimsoll_sim::{InitialCluster, Simulation};
use serde::Serialize;
use serde_json::Value;

use super::explain::offer;
use crate::alternatives::alternatives;
use crate::answers::decided_by;
use crate::args::{self, Format};
use crate::canary::{Canaries, CanaryChoice};
use crate::notices;
use crate::options::Setup;
use crate::recorded::Recorded;
use crate::render::canary::{self, WithCanary};
use crate::render::style::Screen;
use crate::render::why as render;

/// Ties are broken by name.
const SEED: u64 = 0;

/// The answer with the manifests to which the changes of the pod and its claims apply.
#[derive(Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    why: &'a Why,
    #[serde(skip_serializing_if = "Option::is_none")]
    manifest: Option<&'a Value>,
    /// Those of the claims that changes are about, as they were written anew.
    #[serde(rename = "claimManifests", skip_serializing_if = "<[_]>::is_empty")]
    claims: &'a [Value],
    /// What the pod had and this manifest has not.
    #[serde(rename = "notInManifest", skip_serializing_if = "<[_]>::is_empty")]
    differs: &'a [&'static str],
}

/// Answers for one pod.
pub(super) fn run(
    args: &args::Why,
    recording: &Path,
    key: &PodKey,
    registry: &Registry,
) -> Result<()> {
    let mut recorded = Recorded::read(recording, args.at, registry)?;
    let Some(pod) = recorded.cluster.pods.iter().find(|pod| pod.key == *key).cloned() else {
        bail!("pod {key} is not in the recording at that time{}", offer(&recorded.cluster, key));
    };
    if pod.phase == PodPhase::Ended {
        bail!("pod {key} has ended at that time, and needs no node");
    }
    let (scheduler, made_from) = if args.cluster.config.is_some() {
        let setup = Setup::choose(&args.cluster, &[], registry)?;
        let (options, made_from) = (setup.options(), (setup.configuration, setup.gates));
        (Scheduler::new(setup.profiles, options, SEED)?, Some(made_from))
    } else {
        let detail = |options| Options { detail: Detail::Nodes, ..options };
        (recorded.scheduler(recording, registry, detail)?, None)
    };
    let names = scheduler.profile_names();
    let canaries = {
        let names = names.iter().map(String::as_str).collect();
        Canaries::among(&args.canary, names, scheduler.group_gates())?
    };
    let canary = canaries.and_then(|canaries| choose(&canaries, &mut recorded.cluster, &pod));
    let profile = canary.as_ref().map_or(&pod.scheduler_name, |choice| &choice.profile);
    if !names.iter().any(|name| **name == **profile) {
        bail!(
            "pod {key} belongs to scheduler {}, and no profile has that name",
            pod.scheduler_name
        );
    }
    // The recorded profiles are known, but not where they are in a configuration.
    let others = match &made_from {
        Some((configuration, gates)) if pod.node_name.is_none() => {
            alternatives(configuration, (registry, gates), profile)?
        }
        _ => Vec::new(),
    };
    let objects = recorded.cluster.objects.clone();
    let mut simulation = Simulation::new(scheduler, recorded.cluster);
    let now = simulation.now();
    let RebuiltPod { manifest, differs } = RebuiltPod::of(&pod);
    let decided = decided_by(&manifest, Some(profile.as_str()));
    let find = |object: &Reference| rebuilt_claim(&pod, &objects, object);
    let limits = Limits { remedies: args.remedies, nearest: args.nearest, ..Limits::default() };
    let subject = Subject {
        pod: key,
        manifest: &decided,
        manifests: Manifests::by(&find),
        alternatives: &others,
        limits,
        pending: None,
    };
    let why = plimsoll_advisor::why(simulation.scheduler_mut(), now, &subject)?;
    let claims: Vec<Value> = changed(&why).into_values().filter_map(find).collect();
    let rebuilt = (&manifest, claims.as_slice(), differs.as_slice());
    print(&why, &pod, rebuilt, canary.as_ref(), args.output.format)
}

/// Lets the rules choose the profiles of pods, and returns the choice for this pod, also if it is on a node.
fn choose(canaries: &Canaries, cluster: &mut InitialCluster, pod: &Pod) -> Option<CanaryChoice> {
    canaries.unasked(pod).into_iter().for_each(notices::note);
    canaries.assign(cluster);
    let choice = canaries.choice(pod)?;
    for known in cluster.pods.iter_mut().filter(|known| known.key == pod.key) {
        known.scheduler_name.clone_from(&choice.profile);
    }
    Some(choice)
}

/// The objects that changes patch, by name.
fn changed(why: &Why) -> BTreeMap<String, &Reference> {
    let changes = why.remedies.iter().flat_map(|remedy| &remedy.changes);
    let patched = changes.filter_map(|change| match change {
        Change::Patch { patch, .. } => Some((patch.to_string(), patch)),
        _ => None,
    });
    patched.collect()
}

fn print(
    why: &Why,
    pod: &Pod,
    (manifest, claims, differs): (&Value, &[Value], &[&'static str]),
    canary: Option<&CanaryChoice>,
    format: Format,
) -> Result<()> {
    // Nothing is changed of a pod that has a node.
    let is_pending = pod.node_name.is_none();
    let (manifest, differs) =
        if is_pending { (Some(manifest), differs) } else { (None, &[] as &[_]) };
    match format {
        Format::Json => {
            let mut out = BufWriter::new(io::stdout().lock());
            let answer = Answer { why, manifest, claims, differs };
            serde_json::to_writer(&mut out, &WithCanary { answer, canary })?;
            writeln!(out)?;
            out.flush()?;
        }
        Format::Table => {
            let mut out = anstream::stdout();
            canary::choice(&mut out, &pod.key.to_string(), canary)?;
            render::answer(&mut out, why, Screen::stdout())?;
            if is_pending && !why.remedies.is_empty() {
                render::of_recording(&mut out, differs)?;
            }
        }
    }
    Ok(())
}
