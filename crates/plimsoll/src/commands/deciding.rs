//! Sets up what decides in a cluster, for the given release or else for that of the API server.

use std::path::Path;

use anyhow::{Result, ensure};
use plimsoll_config::GivenGates;
use plimsoll_framework::{Registry, Release};

use crate::args;
use crate::input::{STDIN, Source};
use crate::options::{self, Extenders, Setup};

/// The command line, as far as it affects decisions.
pub(super) struct Asked<'a> {
    /// The plugins that configurations may name.
    pub(super) registry: &'a Registry,
    pub(super) cluster: &'a args::Cluster,
    /// The Policy, if it is in a ConfigMap of the cluster.
    pub(super) policy: &'a [Source],
    pub(super) feature_gates: &'a [String],
    pub(super) election: &'a args::Election,
    pub(super) client: &'a args::Client,
}

/// The configuration and the feature gates that decide.
pub(super) struct Deciding {
    pub(super) gates: GivenGates,
    pub(super) setup: Setup,
}

impl Asked<'_> {
    /// Sets up for the given release; if none was given, for the newest that knows all given feature gates.
    pub(super) fn begin(&self) -> Result<Deciding> {
        if let Some(release) = self.cluster.emulation.emulated_version {
            return self.set_up(self.gates(release)?);
        }
        let mut releases = Release::ALL.into_iter().rev();
        let known = releases.find_map(|release| self.gates(release).ok());
        self.set_up(known.map_or_else(|| self.gates(Release::NEWEST), Ok)?)
    }

    /// Sets up again if the API server has another release.
    pub(super) fn follow(&self, deciding: Deciding, release: Release) -> Result<Deciding> {
        if deciding.gates.plugins.release() == release {
            return Ok(deciding);
        }
        ensure!(
            self.cluster.config.as_deref() != Some(Path::new(STDIN)),
            "the API server has release {release}, and standard input cannot be read a second time: add \
             --emulated-version={release}"
        );
        self.set_up(self.gates(release)?)
    }

    fn gates(&self, release: Release) -> Result<GivenGates> {
        options::given_gates(release, self.feature_gates)
    }

    /// Sets up with these gates.
    pub(super) fn set_up(&self, gates: GivenGates) -> Result<Deciding> {
        options::warn_of_gates(&gates);
        let with = (&gates, Extenders::Called);
        let mut setup = Setup::choose_under(self.cluster, self.policy, self.registry, with)?;
        self.election.apply(&mut setup.configuration)?;
        self.client.apply(&mut setup.configuration, self.cluster.config.is_some());
        Ok(Deciding { gates, setup })
    }
}
