//! `plimsoll why --recording`: why a pod was pending at some time of a recording, and what would have changed that.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::{Result, bail};
use plimsoll_advisor::{Limits, Manifests, RebuiltPod, Subject, Why};
use plimsoll_api::{Pod, PodKey, PodPhase};
use plimsoll_engine::{Detail, Options, Scheduler};
use plimsoll_framework::Registry;
use plimsoll_sim::Simulation;
use serde::Serialize;
use serde_json::Value;

use super::explain::offer;
use crate::alternatives::alternatives;
use crate::args::{self, Format};
use crate::options::Setup;
use crate::recorded::Recorded;
use crate::render::style::Screen;
use crate::render::why as render;

/// Ties are broken by name.
const SEED: u64 = 0;

/// The answer with the manifest to which the changes of the pod apply.
#[derive(Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    why: &'a Why,
    #[serde(skip_serializing_if = "Option::is_none")]
    manifest: Option<&'a Value>,
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
    let recorded = Recorded::read(recording, args.at, registry)?;
    let Some(pod) = recorded.cluster.pods.iter().find(|pod| pod.key == *key).cloned() else {
        bail!("pod {key} is not in the recording at that time{}", offer(&recorded.cluster, key));
    };
    if pod.phase == PodPhase::Ended {
        bail!("pod {key} has ended at that time, and needs no node");
    }
    // The recorded profiles are known, but not where they are in a configuration.
    let mut others = Vec::new();
    let scheduler = if args.cluster.config.is_some() {
        let setup = Setup::choose(&args.cluster, &[], registry)?;
        if pod.node_name.is_none() && setup.is_for(&pod.scheduler_name) {
            let made_from = (registry, &setup.gates);
            others = alternatives(&setup.configuration, made_from, &pod.scheduler_name)?;
        }
        let options = setup.options();
        Scheduler::new(setup.profiles, options, SEED)?
    } else {
        let detail = |options| Options { detail: Detail::Nodes, ..options };
        recorded.scheduler(recording, registry, detail)?
    };
    if !scheduler.profile_names().iter().any(|name| **name == *pod.scheduler_name) {
        bail!(
            "pod {key} belongs to scheduler {}, and no profile has that name",
            pod.scheduler_name
        );
    }
    let mut simulation = Simulation::new(scheduler, recorded.cluster);
    let now = simulation.now();
    let RebuiltPod { manifest, differs } = RebuiltPod::of(&pod);
    let limits = Limits { remedies: args.remedies, nearest: args.nearest, ..Limits::default() };
    let subject = Subject {
        pod: key,
        manifest: &manifest,
        manifests: Manifests::none(),
        alternatives: &others,
        limits,
        pending: None,
    };
    let why = plimsoll_advisor::why(simulation.scheduler_mut(), now, &subject)?;
    print(&why, (&pod, &manifest, &differs), args.output.format)
}

fn print(
    why: &Why,
    (pod, manifest, differs): (&Pod, &Value, &[&'static str]),
    format: Format,
) -> Result<()> {
    // Nothing is changed of a pod that has a node.
    let is_pending = pod.node_name.is_none();
    let (manifest, differs) =
        if is_pending { (Some(manifest), differs) } else { (None, &[] as &[_]) };
    match format {
        Format::Json => {
            let mut out = BufWriter::new(io::stdout().lock());
            serde_json::to_writer(&mut out, &Answer { why, manifest, differs })?;
            writeln!(out)?;
            out.flush()?;
        }
        Format::Table => {
            let mut out = anstream::stdout();
            render::answer(&mut out, why, Screen::stdout())?;
            if is_pending && !why.remedies.is_empty() {
                render::of_recording(&mut out, differs)?;
            }
        }
    }
    Ok(())
}
