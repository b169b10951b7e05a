//! Answers questions about a running cluster, on a copy of it.

use std::sync::Arc;

use anyhow::{Context, Result};
use plimsoll_advisor::{Limits, Subject, WhyError};
use plimsoll_config::Configuration;
use plimsoll_engine::{ClusterSnapshot, Options, Profile, Scheduler, TieBreak};
use plimsoll_framework::{FeatureGates, Prioritize, Registry};
use plimsoll_kube::serve::{AdviceError, Advisor, WhyQuestion};
use plimsoll_sim::InitialCluster;
use serde_json::Value;

use crate::alternatives::alternatives;
use crate::options::Setup;

/// Ties are broken by name.
const SEED: u64 = 0;

/// What decides in this process, to decide the same on a copy of the cluster.
pub(crate) struct Answers {
    registry: Arc<Registry>,
    configuration: Configuration,
    gates: FeatureGates,
    /// What ranks nodes in place of the scores of the profiles, if anything does.
    rankings: Vec<Arc<dyn Prioritize>>,
    options: Options,
}

impl Answers {
    /// Answers as a scheduler decides with this setup and these options.
    pub(crate) fn new(
        setup: &Setup,
        registry: Arc<Registry>,
        rankings: Vec<Arc<dyn Prioritize>>,
        options: Options,
    ) -> Self {
        // The same question has the same answer, and nobody reads the metrics.
        let tie_break = TieBreak::First;
        Answers {
            registry,
            configuration: setup.configuration.clone(),
            gates: setup.gates.clone(),
            rankings,
            options: Options { audit_every: 0, stopwatch: None, tie_break, ..options },
        }
    }

    /// A scheduler that knows what another one knew, and has decided nothing.
    fn copy(&self, snapshot: ClusterSnapshot) -> Result<Scheduler> {
        let taken = snapshot.taken;
        let specs = self.configuration.profile_specs();
        let mut profiles = Profile::all_of(&specs, &self.registry, &self.gates)?;
        if !self.rankings.is_empty() {
            let ranked = profiles.into_iter().zip(&self.rankings);
            profiles = ranked.map(|(profile, by)| profile.ranked_by(by.clone())).collect();
        }
        let mut scheduler = Scheduler::new(profiles, self.options, SEED)?;
        for event in InitialCluster::from(snapshot).into_events() {
            scheduler.observe(taken, event);
        }
        Ok(scheduler)
    }

    fn try_why(&self, question: WhyQuestion) -> Result<Value> {
        let WhyQuestion { pod, manifest, snapshot, pending, remedies, nearest } = question;
        let alternatives = match &pending {
            Some(pending) => alternatives(
                &self.configuration,
                (&self.registry, &self.gates),
                &pending.info.pod.scheduler_name,
            )?,
            None => Vec::new(),
        };
        let defaults = Limits::default();
        let limits = Limits {
            remedies: remedies.unwrap_or(defaults.remedies),
            nearest: nearest.unwrap_or(defaults.nearest),
            ..defaults
        };
        let taken = snapshot.taken;
        let mut scheduler = self.copy(snapshot)?;
        let subject = Subject {
            pod: &pod,
            manifest: &manifest,
            alternatives: &alternatives,
            limits,
            pending: pending.as_ref(),
        };
        let why = plimsoll_advisor::why(&mut scheduler, taken, &subject)?;
        serde_json::to_value(&why).context("cannot write the answer as JSON")
    }
}

impl Advisor for Answers {
    fn why(&self, question: WhyQuestion) -> Result<Value, AdviceError> {
        let pod = question.pod.clone();
        self.try_why(question).map_err(|error| match error.downcast_ref() {
            Some(WhyError::UnknownPod(_)) => AdviceError::Unknown(format!(
                "pod {pod} is not known: another scheduler is to place it, or it has ended"
            )),
            _ => AdviceError::Failed(format!("{error:#}")),
        })
    }
}
