//! `plimsoll what-if`: what would happen if the cluster changed.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use plimsoll_api::wire::Object;
use plimsoll_api::{Kinds, Node};
use plimsoll_engine::{Detail, Options, Scheduler};
use plimsoll_framework::Registry;
use plimsoll_sim::what_if::{Action, Model, Scenario, Target};

use super::Scene;
use crate::args::{Format, GivenAction, ObjectName, WhatIf};
use crate::canary::{Canaries, Picks};
use crate::input::{self, Source};
use crate::options::Setup;
use crate::recorded::Recorded;
use crate::render::canary::{self, PlanWithCanaries};
use crate::render::style::Screen;
use crate::render::what_if as render;

/// Ties are broken by name.
const SEED: u64 = 0;

/// The exit status of `--fail-if-pending`.
pub(super) const PENDING: u8 = 3;

/// Changes the cluster and prints what comes of it.
pub(crate) fn run(mut args: WhatIf, registry: &Registry) -> Result<ExitCode> {
    if let Some(config) = args.with_config.take() {
        args.cluster.config = Some(config);
    }
    let kinds = registry.kinds();
    let mut applied = Vec::new();
    let actions = args.actions.0.into_iter().map(|given| resolve(given, &kinds, &mut applied));
    let actions: Vec<(String, Vec<Action>)> = actions.collect::<Result<_>>()?;
    // As a running instance answers: an audit of every thousandth decision would take most of the time.
    let with_choice = |options: Options| Options {
        engine: args.engine.into(),
        audit_every: 0,
        detail: Detail::Choice,
        ..options
    };
    let picks = Picks::default();
    let (scheduler, cluster, canaries) = match &args.recording {
        None => {
            let scene = Scene::read_beside(&args.cluster, &applied, registry)?;
            let Scene { setup, cluster, .. } = scene;
            let canaries = Canaries::new(&args.canary, &setup)?;
            let options = with_choice(setup.options());
            (Scheduler::new(setup.profiles, options, SEED)?, cluster, canaries)
        }
        Some(path) => {
            let recorded = Recorded::read(path, args.at, registry)?;
            let (scheduler, canaries) = if args.cluster.config.is_some() {
                let setup = Setup::choose(&args.cluster, &[], registry)?;
                let canaries = Canaries::new(&args.canary, &setup)?;
                let options = with_choice(setup.options());
                (Scheduler::new(setup.profiles, options, SEED)?, canaries)
            } else {
                ensure!(
                    args.canary.canary.is_empty(),
                    "--canary with --recording: add --config FILE with the profiles that the rules name"
                );
                (recorded.scheduler(path, registry, with_choice)?, None)
            };
            (scheduler, recorded.cluster, canaries)
        }
    };
    let mut scenario = match canaries {
        Some(canaries) => {
            let rules = picks.by(canaries, BTreeMap::new());
            Scenario::with_rules(scheduler, cluster, rules)
        }
        None => Scenario::new(scheduler, cluster),
    };
    for (typed, actions) in actions {
        for action in actions {
            scenario.act(action).with_context(|| typed.clone())?;
        }
    }
    let plan = scenario.run();
    let picked = picks.of(&plan);
    match args.output.format {
        Format::Json => {
            let mut out = BufWriter::new(io::stdout().lock());
            serde_json::to_writer(&mut out, &PlanWithCanaries { plan: &plan, canaries: &picked })?;
            writeln!(out)?;
            out.flush()?;
        }
        Format::Table => {
            let mut out = anstream::stdout();
            render::plan(&mut out, &plan, Screen::stdout())?;
            canary::picked(&mut out, &picked)?;
        }
    }
    let fails = args.fail_if_pending && plan.leaves_pods_pending();
    Ok(if fails { ExitCode::from(PENDING) } else { ExitCode::SUCCESS })
}

/// What a flag means, and the flag for errors. Files with objects that are applied are added to `read`.
fn resolve(
    given: GivenAction,
    kinds: &Kinds,
    read: &mut Vec<Source>,
) -> Result<(String, Vec<Action>)> {
    Ok(match given {
        GivenAction::Apply(file) => {
            let typed = format!("--apply {}", file.display());
            let actions = applied(&file, kinds, read).with_context(|| typed.clone())?;
            (typed, actions)
        }
        GivenAction::Delete(name) => {
            let typed = format!("--delete {}/{}", name.kind, name.key);
            let target = target(&name, kinds).with_context(|| typed.clone())?;
            (typed, vec![Action::Delete(target)])
        }
        GivenAction::DeletePods(pods) => {
            let typed = format!("--delete-pods {}/...", pods.namespace);
            let (namespace, labels) = (pods.namespace, pods.labels);
            (typed, vec![Action::DeletePods { namespace, labels }])
        }
        GivenAction::Scale(scaled) => {
            let typed = format!("--scale {}={}", scaled.key, scaled.number);
            let replicas = usize::try_from(scaled.number).unwrap_or(0);
            (typed, vec![Action::Scale { controller: scaled.key, replicas }])
        }
        GivenAction::Drain(nodes) => (format!("--drain {nodes}"), vec![Action::Drain(nodes)]),
        GivenAction::Cordon(nodes) => (format!("--cordon {nodes}"), vec![Action::Cordon(nodes)]),
        GivenAction::Uncordon(nodes) => {
            (format!("--uncordon {nodes}"), vec![Action::Uncordon(nodes)])
        }
        GivenAction::Lose(nodes) => (format!("--lose {nodes}"), vec![Action::Lose(nodes)]),
        GivenAction::Taint(tainted) => {
            let typed = format!("--taint {}=...", tainted.nodes);
            (typed, vec![Action::Taint(tainted.nodes, tainted.taint)])
        }
        GivenAction::AddNodes { n, like } => {
            let typed = format!("--add-nodes {n} --like {like}");
            let like = model(&like, kinds).with_context(|| typed.clone())?;
            (typed, vec![Action::AddNodes { n, like }])
        }
        GivenAction::Priority(given) => {
            let typed = format!("--priority {}={}", given.key, given.number);
            let priority = i32::try_from(given.number)?;
            (typed, vec![Action::Priority { of: given.key, priority }])
        }
    })
}

/// The objects of files, which are added to `read`, and the pods of the workloads in them.
fn applied(file: &Path, kinds: &Kinds, read: &mut Vec<Source>) -> Result<Vec<Action>> {
    let sources = input::read(&[file.to_owned()])?;
    let given = input::applied(&sources, kinds)?;
    read.extend(sources);
    let rollouts = given
        .workloads
        .into_iter()
        .map(|workload| Action::Rollout { controller: workload.controller, pods: workload.pods });
    Ok([Action::Apply(given.objects)].into_iter().chain(rollouts).collect())
}

/// The object that is to be deleted.
pub(crate) fn target(name: &ObjectName, kinds: &Kinds) -> Result<Target> {
    let ObjectName { kind, key } = name;
    let is = |other: &str| {
        kind.eq_ignore_ascii_case(other) || kind.eq_ignore_ascii_case(&format!("{other}s"))
    };
    if is("Pod") {
        ensure!(!key.namespace.is_empty(), "a pod has a namespace: write pod/NAMESPACE/NAME");
        return Ok(Target::Pod(key.clone()));
    }
    if is("Node") {
        ensure!(key.namespace.is_empty(), "a node has no namespace: write node/NAME");
        return Ok(Target::Node(key.name.clone()));
    }
    match kinds.iter().find(|other| is(other.as_str())) {
        Some(kind) => Ok(Target::Other(kind, key.clone())),
        None => bail!("decisions do not depend on objects of kind {kind}"),
    }
}

/// A node of the cluster, or one in a file.
fn model(like: &str, kinds: &Kinds) -> Result<Model> {
    let file = Path::new(like);
    if !file.is_file() {
        return Ok(Model::Existing(like.into()));
    }
    let sources = input::read(&[file.to_owned()])?;
    let mut nodes = input::applied(&sources, kinds)?.objects.into_iter().filter_map(node_of);
    match (nodes.next(), nodes.next()) {
        (Some(node), None) => Ok(Model::Given(node)),
        (None, _) => bail!("{like}: contains no node"),
        (Some(_), Some(_)) => bail!("{like}: contains more than one node"),
    }
}

fn node_of(object: Object) -> Option<Box<Node>> {
    match object {
        Object::Node(node) => Some(node),
        _ => None,
    }
}
