//! Answers questions about a running cluster, on a copy of it.

use std::borrow::Cow;
use std::sync::{Arc, PoisonError, RwLock};

use anyhow::{Context, Result};
use plimsoll_advisor::{Limits, Manifests, Subject, Why, WhyError};
use plimsoll_api::PodKey;
use plimsoll_config::{Configuration, DEFAULT_SCHEDULER};
use plimsoll_engine::{
    ClusterSnapshot, Decision, Detail, Options, PendingPod, Scheduler, TieBreak,
};
use plimsoll_framework::{FeatureGates, Prioritize, Registry, Time};
use plimsoll_kube::serve::{AdviceError, Advisor, WhyQuestion};
use plimsoll_sim::InitialCluster;
use plimsoll_sim::what_if::Scenario;
use serde::Deserialize;
use serde_json::Value;

use super::request::{CapacityRequest, WhatIfRequest};
use super::{Deciders, capacity};
use crate::alternatives::alternatives;
use crate::options::Setup;
use crate::render;
use crate::render::style::plain;

/// Answers as the scheduler of this process decides.
pub(crate) struct Answers {
    registry: Arc<Registry>,
    present: RwLock<Arc<Present>>,
}

/// What decides in this process, to decide the same on a copy of the cluster.
#[derive(Clone)]
struct Present {
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
        let present = Present {
            registry: registry.clone(),
            configuration: setup.configuration.clone(),
            gates: setup.gates.clone(),
            rankings,
            options: Options { audit_every: 0, stopwatch: None, tie_break, ..options },
        };
        Answers { registry, present: RwLock::new(Arc::new(present)) }
    }

    /// The scheduler decides by this setup from now on.
    pub(crate) fn follow(&self, setup: &Setup, rankings: Vec<Arc<dyn Prioritize>>) {
        let before = self.present();
        let options = Options { backoff: setup.options().backoff, ..before.options };
        let present = Present {
            registry: self.registry.clone(),
            configuration: setup.configuration.clone(),
            gates: setup.gates.clone(),
            rankings,
            options,
        };
        *self.present.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(present);
    }

    /// Answers about a pod on a scheduler that is not copied. It is afterwards as it was.
    pub(crate) fn why_on(
        &self,
        on: (&mut Scheduler, Time),
        about: (&PodKey, &Value),
        wanted: (Option<usize>, Option<usize>),
    ) -> Result<Value> {
        self.present().why_on(on, about, wanted)
    }

    fn present(&self) -> Arc<Present> {
        self.present.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Present {
    fn deciders(&self) -> Deciders<'_> {
        Deciders {
            registry: &self.registry,
            configuration: &self.configuration,
            gates: &self.gates,
            rankings: &self.rankings,
            options: self.options,
        }
    }

    /// A scheduler that knows what another one knew, and has decided nothing.
    fn copy(&self, snapshot: ClusterSnapshot) -> Result<Scheduler> {
        let taken = snapshot.taken;
        let mut scheduler = self.deciders().scheduler()?;
        for event in InitialCluster::from(snapshot).into_events() {
            scheduler.observe(taken, event);
        }
        Ok(scheduler)
    }

    fn try_why(&self, question: WhyQuestion) -> Result<Value> {
        let WhyQuestion { pod, manifest, snapshot, pending, remedies, nearest, with_text } =
            question;
        let taken = snapshot.taken;
        let mut scheduler = self.copy(snapshot)?;
        let profile = pending.as_ref().map(|pending| pending.info.pod.scheduler_name.clone());
        let why = self.explain_why(
            (&mut scheduler, taken),
            (&pod, &manifest),
            (pending.as_ref(), profile.as_deref()),
            (remedies, nearest),
        )?;
        let mut answer = as_json(&why)?;
        if with_text {
            answer["text"] = plain(|out, screen| render::why::answer(out, &why, screen)).into();
        }
        Ok(answer)
    }

    fn why_on(
        &self,
        (scheduler, now): (&mut Scheduler, Time),
        (pod, manifest): (&PodKey, &Value),
        wanted: (Option<usize>, Option<usize>),
    ) -> Result<Value> {
        let pending = scheduler.pending_state(pod);
        let profile = pending.map(|pending| pending.info.pod.scheduler_name.clone());
        let profile = (None, profile.as_deref());
        as_json(&self.explain_why((scheduler, now), (pod, manifest), profile, wanted)?)
    }

    /// Answers about a pod. `pending` is what another scheduler knows of it, and `profile` the name of its scheduler if it is
    /// pending.
    fn explain_why(
        &self,
        (scheduler, now): (&mut Scheduler, Time),
        (pod, manifest): (&PodKey, &Value),
        (pending, profile): (Option<&PendingPod>, Option<&str>),
        (remedies, nearest): (Option<usize>, Option<usize>),
    ) -> Result<Why> {
        let alternatives = match profile {
            Some(profile) => {
                alternatives(&self.configuration, (&self.registry, &self.gates), profile)?
            }
            None => Vec::new(),
        };
        let manifest = decided_by(manifest, profile);
        let defaults = Limits::default();
        let limits = Limits {
            remedies: remedies.unwrap_or(defaults.remedies),
            nearest: nearest.unwrap_or(defaults.nearest),
            ..defaults
        };
        let subject = Subject {
            pod,
            manifest: &manifest,
            manifests: Manifests::none(),
            alternatives: &alternatives,
            limits,
            pending,
        };
        Ok(plimsoll_advisor::why(scheduler, now, &subject)?)
    }
}

impl Advisor for Answers {
    fn why(&self, question: WhyQuestion) -> Result<Value, AdviceError> {
        let pod = question.pod.clone();
        self.present().try_why(question).map_err(|error| match error.downcast_ref() {
            Some(WhyError::UnknownPod(_)) => AdviceError::Unknown(format!(
                "pod {pod} is not known: another scheduler is to place it, or it has ended"
            )),
            _ => failed(error),
        })
    }

    fn decision_text(&self, decision: &Decision) -> String {
        let shown = render::explain::Shown::Best;
        plain(|out, screen| render::explain::decision(out, decision, shown, screen))
    }

    fn what_if(&self, snapshot: ClusterSnapshot, request: &Value) -> Result<Value, AdviceError> {
        let request: WhatIfRequest = read(request)?;
        let with_text = request.text;
        let actions = request.actions(&self.registry.kinds()).map_err(AdviceError::Wrong)?;
        let present = self.present();
        let options = Options { detail: Detail::Choice, ..present.options };
        let deciders = Deciders { options, ..present.deciders() };
        let scheduler = deciders.scheduler().map_err(failed)?;
        let mut scenario = Scenario::new(scheduler, InitialCluster::from(snapshot));
        for (at, action) in actions.into_iter().enumerate() {
            let wrong = |error| AdviceError::Wrong(format!("actions[{at}]: {error}"));
            scenario.act(action).map_err(wrong)?;
        }
        let plan = scenario.run_at_most(MOST_DECISIONS);
        let plan = plan.ok_or_else(|| {
            AdviceError::Failed(format!("there would be more than {MOST_DECISIONS} decisions"))
        })?;
        let mut answer = serde_json::to_value(&plan).map_err(failed)?;
        if with_text {
            answer["text"] = plain(|out, screen| render::what_if::plan(out, &plan, screen)).into();
            answer["leavesPodsPending"] = plan.leaves_pods_pending().into();
        }
        Ok(answer)
    }

    fn capacity(&self, snapshot: ClusterSnapshot, request: &Value) -> Result<Value, AdviceError> {
        let request: CapacityRequest = read(request)?;
        let shapes = request.shapes().map_err(AdviceError::Wrong)?;
        let limit = request.limit.unwrap_or(MOST_DECISIONS).min(MOST_DECISIONS);
        let limits = (limit, request.remedies.unwrap_or(REMEDIES));
        let cluster = InitialCluster::from(snapshot);
        let present = self.present();
        let capacity = capacity::of_pods(present.deciders(), &cluster, &shapes, limits);
        let capacity = capacity.map_err(failed)?;
        let mut answer = serde_json::to_value(&capacity).map_err(failed)?;
        if request.text {
            let text = plain(|out, screen| render::capacity::answer(out, &capacity, screen));
            answer["text"] = text.into();
        }
        Ok(answer)
    }
}

/// The manifest of a pod that this profile decides, if it is pending: a canary decides pods of other scheduler names, too.
fn decided_by<'m>(manifest: &'m Value, profile: Option<&str>) -> Cow<'m, Value> {
    let own = manifest["spec"]["schedulerName"].as_str().unwrap_or(DEFAULT_SCHEDULER);
    match profile {
        Some(profile) if profile != own && manifest["spec"].is_object() => {
            let mut decided = manifest.clone();
            decided["spec"]["schedulerName"] = profile.into();
            Cow::Owned(decided)
        }
        _ => Cow::Borrowed(manifest),
    }
}

/// At most so many decisions are made for one question.
const MOST_DECISIONS: usize = 1_000_000;
/// How many changes are returned if nothing is said.
const REMEDIES: usize = 3;

fn read<T: for<'a> Deserialize<'a>>(request: &Value) -> Result<T, AdviceError> {
    T::deserialize(request).map_err(|error| AdviceError::Wrong(error.to_string()))
}

fn failed(error: impl Into<anyhow::Error>) -> AdviceError {
    let error = error.into();
    AdviceError::Failed(format!("{error:#}"))
}

fn as_json(why: &Why) -> Result<Value> {
    serde_json::to_value(why).context("cannot write the answer as JSON")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_of_a_canary_is_judged_by_the_profile_that_decides_it() {
        let name = |manifest: &Value, profile| {
            let decided = decided_by(manifest, profile);
            decided["spec"]["schedulerName"].as_str().map(str::to_owned)
        };
        let own = json!({"spec": {"schedulerName": "own"}});
        assert_eq!(name(&own, Some("canary")).as_deref(), Some("canary"));
        assert_eq!(name(&own, None).as_deref(), Some("own"));
        let silent = json!({"spec": {}});
        assert_eq!(name(&silent, Some("default-scheduler")), None);
        assert_eq!(name(&Value::Null, Some("canary")), None);
    }
}
