//! Answers questions about a running cluster, on a copy of it.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use anyhow::{Context, Result};
use plimsoll_advisor::{Limits, Manifests, Subject, Why, WhyError};
use plimsoll_api::PodKey;
use plimsoll_config::{Configuration, DEFAULT_SCHEDULER};
use plimsoll_engine::{
    ClusterSnapshot, Decision, Detail, Options, PendingPod, Scheduler, TieBreak,
};
use plimsoll_framework::{FeatureGates, Prioritize, Registry, Time};
use plimsoll_journal::{JournalError, Reader};
use plimsoll_kube::serve::{AdviceError, Advisor, WhyQuestion};
use plimsoll_sim::what_if::Scenario;
use plimsoll_sim::{InitialCluster, ProfileRules};
use serde::Deserialize;
use serde_json::Value;

use super::files::history;
use super::request::{CapacityRequest, WhatIfRequest};
use super::{Deciders, capacity};
use crate::alternatives::alternatives;
use crate::canary::{Canaries, CanaryChoice, Picks};
use crate::input::read_pod;
use crate::options::Setup;
use crate::render;
use crate::render::canary::PlanWithCanaries;
use crate::render::style::plain;

/// Answers as the scheduler of this process decides.
pub(crate) struct Answers {
    registry: Arc<Registry>,
    present: RwLock<Arc<Present>>,
    journal: Option<PastDecisions>,
}

/// The journal that this process writes, to be read.
struct PastDecisions {
    path: PathBuf,
    /// It is opened when it is first asked for, and again after an error.
    reader: Mutex<Option<Reader>>,
}

impl PastDecisions {
    fn history(&self, pod: &PodKey) -> Result<Value, JournalError> {
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let open = match reader.take() {
            Some(open) => open,
            None => Reader::open(&self.path)?,
        };
        let answer = history(&open, pod)?;
        *reader = Some(open);
        Ok(answer)
    }
}

/// What decides in this process, to decide the same on a copy of the cluster.
#[derive(Clone)]
struct Present {
    registry: Arc<Registry>,
    configuration: Configuration,
    gates: FeatureGates,
    /// What ranks nodes in place of the scores of the profiles, if anything does.
    rankings: Vec<Arc<dyn Prioritize>>,
    /// The rules that let other profiles decide some pods.
    canaries: Option<Canaries>,
    options: Options,
}

impl Answers {
    /// Answers as a scheduler decides with this setup and these options.
    pub(crate) fn new(
        setup: &Setup,
        registry: Arc<Registry>,
        (rankings, canaries): (Vec<Arc<dyn Prioritize>>, Option<Canaries>),
        options: Options,
    ) -> Self {
        // The same question has the same answer, and nobody reads the metrics.
        let tie_break = TieBreak::First;
        let present = Present {
            registry: registry.clone(),
            configuration: setup.configuration.clone(),
            gates: setup.gates.clone(),
            rankings,
            canaries,
            options: Options { audit_every: 0, stopwatch: None, tie_break, ..options },
        };
        Answers { registry, present: RwLock::new(Arc::new(present)), journal: None }
    }

    /// The same with a journal, which this process writes.
    pub(crate) fn with_journal(self, path: Option<PathBuf>) -> Self {
        let journal = path.map(|path| PastDecisions { path, reader: Mutex::default() });
        Answers { journal, ..self }
    }

    /// The scheduler decides by this setup from now on.
    pub(crate) fn follow(
        &self,
        setup: &Setup,
        rankings: Vec<Arc<dyn Prioritize>>,
        canaries: Option<Canaries>,
    ) {
        let before = self.present();
        let options = Options { backoff: setup.options().backoff, ..before.options };
        let present = Present {
            registry: self.registry.clone(),
            configuration: setup.configuration.clone(),
            gates: setup.gates.clone(),
            rankings,
            canaries,
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

    /// A scheduler that knows what another one knew, and has decided nothing. A pod on a node may have another profile.
    fn copy(
        &self,
        snapshot: ClusterSnapshot,
        placed: Option<(&PodKey, &CanaryChoice)>,
    ) -> Result<Scheduler> {
        let taken = snapshot.taken;
        let mut scheduler = self.deciders().scheduler()?;
        let mut cluster = InitialCluster::from(snapshot);
        if let Some((key, choice)) = placed
            && let Some(pod) = cluster.pods.iter_mut().find(|pod| pod.key == *key)
        {
            pod.scheduler_name.clone_from(&choice.profile);
        }
        for event in cluster.into_events() {
            scheduler.observe(taken, event);
        }
        Ok(scheduler)
    }

    /// The rule that picks a pod, as its manifest is in the API server.
    fn choice(&self, manifest: &Value) -> Option<CanaryChoice> {
        self.canaries.as_ref()?.choice(&read_pod(manifest).ok()?)
    }

    /// The rules for a scenario. Those pods of the snapshot that are routed have their profile already.
    fn rules(&self, snapshot: &ClusterSnapshot, picks: &Picks) -> Option<ProfileRules> {
        let routed = snapshot.pods.iter().filter(|info| {
            info.seen().node_name.is_none() || info.seen().scheduling_group.is_some()
        });
        let decided = routed.map(|info| (info.key.clone(), info.uid.clone()));
        Some(picks.by(self.canaries.clone()?, decided.collect()))
    }

    fn try_why(&self, question: WhyQuestion) -> Result<Value> {
        let WhyQuestion { pod, manifest, snapshot, pending, remedies, nearest, with_text } =
            question;
        let taken = snapshot.taken;
        let profile = pending.as_ref().map(|pending| pending.info.pod.scheduler_name.clone());
        // What decides a pending pod is known. One on a node is decided again by what would decide it now.
        let canary = self.choice(&manifest);
        let canary =
            canary.filter(|one| profile.as_ref().is_none_or(|profile| *profile == one.profile));
        let placed = canary.as_ref().filter(|_| profile.is_none()).map(|choice| (&pod, choice));
        let mut scheduler = self.copy(snapshot, placed)?;
        let why = self.explain_why(
            (&mut scheduler, taken),
            (&pod, &manifest),
            (pending.as_ref(), profile.as_deref()),
            (remedies, nearest),
        )?;
        let mut answer = as_json(&why)?;
        if with_text {
            let text = plain(|out, screen| {
                render::canary::choice(out, &why.pod, canary.as_ref())?;
                render::why::answer(out, &why, screen)
            });
            answer["text"] = text.into();
        }
        if let Some(canary) = canary {
            answer["canary"] = serde_json::to_value(canary)?;
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
        let picks = Picks::default();
        let rules = present.rules(&snapshot, &picks);
        let cluster = InitialCluster::from(snapshot);
        let mut scenario = match rules {
            Some(rules) => Scenario::with_rules(scheduler, cluster, rules),
            None => Scenario::new(scheduler, cluster),
        };
        for (at, action) in actions.into_iter().enumerate() {
            let wrong = |error| AdviceError::Wrong(format!("actions[{at}]: {error}"));
            scenario.act(action).map_err(wrong)?;
        }
        let plan = scenario.run_at_most(MOST_DECISIONS);
        let plan = plan.ok_or_else(|| {
            AdviceError::Failed(format!("there would be more than {MOST_DECISIONS} decisions"))
        })?;
        let picked = picks.of(&plan);
        let whole = PlanWithCanaries { plan: &plan, canaries: &picked };
        let mut answer = serde_json::to_value(whole).map_err(failed)?;
        if with_text {
            let text = plain(|out, screen| {
                render::what_if::plan(out, &plan, screen)?;
                render::canary::picked(out, &picked)
            });
            answer["text"] = text.into();
            answer["leavesPodsPending"] = plan.leaves_pods_pending().into();
        }
        Ok(answer)
    }

    fn has_journal(&self) -> bool {
        self.journal.is_some()
    }

    fn history(&self, pod: &PodKey) -> Option<Result<Value, AdviceError>> {
        Some(self.journal.as_ref()?.history(pod).map_err(failed))
    }

    fn capacity(&self, snapshot: ClusterSnapshot, request: &Value) -> Result<Value, AdviceError> {
        let request: CapacityRequest = read(request)?;
        let mut shapes = request.shapes().map_err(AdviceError::Wrong)?;
        let limit = request.limit.unwrap_or(MOST_DECISIONS).min(MOST_DECISIONS);
        let limits = (limit, request.remedies.unwrap_or(REMEDIES));
        let cluster = InitialCluster::from(snapshot);
        let present = self.present();
        let chosen = capacity::choose_profiles(present.canaries.as_ref(), &mut shapes);
        let capacity = capacity::of_pods(present.deciders(), &cluster, &shapes, limits);
        let capacity = capacity.map_err(failed)?.with(chosen);
        let mut answer = serde_json::to_value(&capacity).map_err(failed)?;
        if request.text {
            let text = plain(|out, screen| render::capacity::answer(out, &capacity, screen));
            answer["text"] = text.into();
        }
        Ok(answer)
    }
}

/// The manifest of a pod that this profile decides: a canary decides pods of other scheduler names, too.
pub(crate) fn decided_by<'m>(manifest: &'m Value, profile: Option<&str>) -> Cow<'m, Value> {
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
