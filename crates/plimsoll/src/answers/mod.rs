//! Answers that files and a running instance have in common.

pub(crate) mod all_shapes;
pub(crate) mod capacity;
mod files;
pub(crate) mod groups;
mod live;
pub(crate) mod rebalance;
mod request;
pub(crate) mod shapes;

use std::sync::Arc;

use anyhow::Result;
use plimsoll_config::Configuration;
use plimsoll_engine::{Options, Profile, Scheduler};
use plimsoll_framework::{FeatureGates, Prioritize, Registry};

pub(crate) use self::files::FilesSource;
pub(crate) use self::live::{Answers, decided_by, profiles_of};
use crate::options::Setup;

/// Ties are broken by name.
const SEED: u64 = 0;

/// What decides, to make schedulers that all decide alike.
#[derive(Clone, Copy)]
pub(crate) struct Deciders<'a> {
    pub(crate) registry: &'a Registry,
    pub(crate) configuration: &'a Configuration,
    pub(crate) gates: &'a FeatureGates,
    /// What ranks nodes in place of the scores of the profiles, if anything does.
    pub(crate) rankings: &'a [Arc<dyn Prioritize>],
    pub(crate) options: Options,
}

impl<'a> Deciders<'a> {
    /// Those of files.
    pub(crate) fn of(setup: &'a Setup, registry: &'a Registry) -> Self {
        Deciders {
            registry,
            configuration: &setup.configuration,
            gates: &setup.gates,
            rankings: &[],
            // Nobody has asked for audits, which take longer than the answers.
            options: Options { audit_every: 0, ..setup.options() },
        }
    }

    /// A scheduler that knows nothing yet.
    pub(crate) fn scheduler(&self) -> Result<Scheduler> {
        let specs = self.configuration.profile_specs();
        let mut profiles = Profile::all_of(&specs, self.registry, self.gates)?;
        if !self.rankings.is_empty() {
            let ranked = profiles.into_iter().zip(self.rankings);
            profiles = ranked.map(|(profile, by)| profile.ranked_by(by.clone())).collect();
        }
        Ok(Scheduler::new(profiles, self.options, SEED)?)
    }

    /// Whether some profile schedules the pods of this scheduler.
    pub(crate) fn is_for(&self, scheduler_name: &str) -> bool {
        let mut profiles = self.configuration.profiles.iter();
        profiles.any(|profile| profile.scheduler_name == scheduler_name)
    }
}
