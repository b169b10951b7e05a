//! The commands, one a module.

mod bench;
mod capacity;
mod completions;
mod config;
mod deciding;
mod explain;
mod explain_group;
mod flags;
mod journal;
mod kubectl;
mod migrate;
mod new_plugin;
mod plugins;
mod rbac;
mod rebalance;
mod reloading;
mod replay;
mod run;
mod serve;
mod serving;
mod shadow;
mod simulate;
mod snapshot;
mod swarm;
mod what_if;
mod why;
mod why_group;
mod why_journal;
mod why_recording;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Result, ensure};
use plimsoll_api::Pod;
use plimsoll_framework::Registry;
use plimsoll_sim::InitialCluster;

pub(crate) use self::reloading::ReloadFlag;
pub(crate) use self::run::{span, with_dashes};
pub(crate) use self::what_if::target;
pub(crate) use self::why_journal::JournalWhy;
use crate::args::{self, Args, Command, Config};
use crate::canary::{Canaries, CanaryChoice, CanaryFlags};
use crate::input::{STDIN, Source};
use crate::options::Setup;
use crate::{caveats, input, notices};

/// Runs a command and prints its answer. The exit code says whether it found what it was to find.
pub(crate) fn run(args: Args, registry: Registry) -> Result<ExitCode> {
    let registry = &Arc::new(registry);
    let done = match args.command {
        Command::WhatIf(args) => return what_if::run(*args, registry),
        Command::Kubectl(args) => return kubectl::run(*args),
        Command::Run(args) => run::run(*args, registry),
        Command::Simulate(args) => simulate::run(&args, registry),
        Command::Explain(args) => explain::run(&args, registry),
        Command::Why(args) => why::run(*args, registry),
        Command::Capacity(args) => capacity::run(&args, registry),
        Command::Serve(args) => serve::run(&args, registry),
        Command::Rebalance(args) => rebalance::run(&args, registry),
        Command::Shadow(args) => shadow::run(&args, registry),
        Command::Snapshot(args) => snapshot::run(&args, registry),
        Command::Journal(args) => journal::run(&args),
        Command::Replay(args) => replay::run(&args, registry),
        Command::Plugins(args) => plugins::run(&args, registry),
        Command::Config(Config::Check(args)) => config::check(&args, registry),
        Command::Config(Config::Migrate(args)) => migrate::run(&args, registry),
        Command::Bench(args) => bench::run(&args, registry),
        Command::NewPlugin(args) => new_plugin::run(&args, registry),
        Command::Completions(args) => completions::run(&args),
    };
    done.map(|()| ExitCode::SUCCESS)
}

/// What a decision needs: the configuration and the cluster, with the files that describe it.
struct Scene {
    setup: Setup,
    cluster: InitialCluster,
    sources: Vec<Source>,
}

impl Scene {
    /// Reads all given files, and warns of what has no effect.
    fn read(args: &args::Cluster, registry: &Registry) -> Result<Self> {
        Scene::read_beside(args, &[], registry)
    }

    /// The same. `also` is what else is asked about: its groups have a say in the release that decides.
    fn read_beside(args: &args::Cluster, also: &[Source], registry: &Registry) -> Result<Self> {
        let stdin = Path::new(STDIN);
        let configured = [&args.config, &args.deprecated.policy_config_file];
        let configured = configured.into_iter().filter(|file| file.as_deref() == Some(stdin));
        let described = args.files.iter().any(|file| file == stdin);
        ensure!(
            configured.count() + usize::from(described) <= 1,
            "standard input can hold the cluster or the configuration, not both"
        );
        let sources = input::read(&args.files)?;
        let setup = Setup::choose_beside(args, &sources, also, registry)?;
        let (policy, kinds) = (setup.config_map.as_ref(), registry.kinds());
        let cluster = input::load(&sources, policy, &kinds, &setup.gates)?;
        caveats::before(&cluster);
        Ok(Scene { setup, cluster, sources })
    }

    /// The same, with other profiles for the pods that these rules pick.
    fn with_canaries(mut self, flags: &CanaryFlags) -> Result<Self> {
        if let Some(canaries) = Canaries::new(flags, &self.setup)? {
            canaries.assign(&mut self.cluster);
        }
        Ok(self)
    }

    /// The same, with the rule that has chosen the profile of the first pod that `is_meant`, also if it is on a node.
    fn asked_about(
        mut self,
        flags: &CanaryFlags,
        is_meant: impl Fn(&Pod) -> bool,
    ) -> Result<(Self, Option<CanaryChoice>)> {
        let Some(canaries) = Canaries::new(flags, &self.setup)? else { return Ok((self, None)) };
        let at = self.cluster.pods.iter().position(is_meant);
        let choice = at.and_then(|at| {
            let pod = &self.cluster.pods[at];
            canaries.unasked(pod).into_iter().for_each(notices::note);
            Some((at, canaries.choice(pod)?))
        });
        canaries.assign(&mut self.cluster);
        if let Some((at, choice)) = &choice {
            self.cluster.pods[*at].scheduler_name.clone_from(&choice.profile);
        }
        Ok((self, choice.map(|(_, choice)| choice)))
    }
}
