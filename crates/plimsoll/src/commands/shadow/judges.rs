//! The configurations that judge.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use plimsoll_engine::{Options, Profile, Scheduler};
use plimsoll_framework::{Registry, Release};
use plimsoll_legacy::config::rename_profile;
use plimsoll_shadow::Judge;

use crate::args::{self, Emulation};
use crate::deprecated::Deprecated;
use crate::options::Setup;
use crate::wording::some_of;

/// All nodes are scored: the other scheduler may have chosen any of them.
const ALL_NODES: i32 = 100;
/// Ties do not matter: all best nodes are compared.
const SEED: u64 = 0;
/// The name of the default configuration.
const DEFAULT: &str = "default";
/// At most this many names are shown.
const NAMES: usize = 5;

/// What judges.
pub(super) struct Judges {
    pub(super) first: Judge,
    pub(super) second: Option<Judge>,
    /// What they do not do, for the report.
    pub(super) limits: Vec<String>,
    /// The name and the text of each configuration, as it judges.
    pub(super) configurations: Vec<(String, String)>,
    /// What the first one was made from.
    pub(super) setup: Setup,
    /// What places pods in the cluster as our decisions would have made it.
    pub(super) own: Option<Scheduler>,
}

/// Sets up one configuration, or two.
pub(super) fn judges(args: &args::Shadow, release: Release, registry: &Registry) -> Result<Judges> {
    let mut limits = Vec::new();
    let mut configurations = Vec::new();
    let mut judge = |file: Option<&PathBuf>| {
        let name = file.map_or_else(|| DEFAULT.to_owned(), |file| file.display().to_string());
        let mut setup = set_up(args, file, release, registry)?;
        follow_name(&mut setup, args.scheduler_name.as_deref(), &name)?;
        if !setup.configuration.extenders.is_empty() {
            limits.push(format!(
                "the extenders of {name} are not called: their nodes and scores are missing"
            ));
        }
        let configuration = &mut setup.configuration;
        configuration.effective.percentage_of_nodes_to_score = Some(ALL_NODES);
        for profile in &mut configuration.effective.profiles {
            profile.percentage_of_nodes_to_score = None;
        }
        for profile in &mut configuration.profiles {
            profile.percentage_of_nodes_to_score = Some(ALL_NODES);
        }
        configurations.push((name.clone(), configuration.to_yaml()));
        let scheduler = scheduler(&setup, registry)?;
        anyhow::Ok((Judge { name, release: release.to_string(), scheduler }, setup))
    };
    let (first, setup) = judge(args.config.as_ref())?;
    let second = args.against.as_ref().map(|file| judge(Some(file))).transpose()?;
    let second = second.map(|(second, _)| second);
    let own = match args.no_own_cluster {
        true => None,
        false => Some(scheduler(&setup, registry)?),
    };
    Ok(Judges { first, second, limits, configurations, setup, own })
}

/// A scheduler that knows nothing yet.
fn scheduler(setup: &Setup, registry: &Registry) -> Result<Scheduler> {
    let specs = setup.configuration.profile_specs();
    let profiles = Profile::all_of(&specs, registry, &setup.gates)?;
    let options = Options { audit_every: 0, ..setup.options() };
    Ok(Scheduler::new(profiles, options, SEED)?)
}

fn set_up(
    args: &args::Shadow,
    file: Option<&PathBuf>,
    release: Release,
    registry: &Registry,
) -> Result<Setup> {
    let cluster = args::Cluster {
        files: Vec::new(),
        config: file.cloned(),
        emulation: Emulation { emulated_version: Some(release) },
        feature_gates: args.feature_gates.clone(),
        deprecated: Deprecated::default(),
    };
    Setup::choose(&cluster, &[], registry)
}

/// Makes the only profile decide the pods of this scheduler, or keeps only the profile that does.
fn follow_name(setup: &mut Setup, name: Option<&str>, file: &str) -> Result<()> {
    let Some(name) = name else { return Ok(()) };
    let configuration = &mut setup.configuration;
    let names: Vec<_> =
        configuration.profiles.iter().map(|profile| profile.scheduler_name.clone()).collect();
    if names.iter().any(|other| other == name) {
        let mut keeps = names.iter().map(|other| other == name);
        configuration.effective.profiles.retain(|_| keeps.next().unwrap_or(true));
        configuration.profiles.retain(|profile| profile.scheduler_name == name);
        return Ok(());
    }
    ensure!(
        names.len() == 1,
        "--scheduler-name={name}: no profile of {file} has this name (there is {}): name one of them",
        some_of(&names, NAMES)
    );
    rename_profile(configuration, name);
    Ok(())
}
