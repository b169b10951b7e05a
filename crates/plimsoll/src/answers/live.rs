//! Answers questions about a running cluster, on a copy of it.

mod capacity;
mod other_configuration;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use anyhow::{Context, Result};
use plimsoll_advisor::{
    GroupSubject, Limits, Manifests, Reference, Subject, Why, WhyError, WhyGroupError,
};
use plimsoll_api::{ObjectKey, Pod, PodKey, Str};
use plimsoll_config::{Configuration, DEFAULT_SCHEDULER};
use plimsoll_engine::{
    ClusterSnapshot, Decision, Detail, Options, PendingPod, Scheduler, TieBreak,
};
use plimsoll_framework::{FeatureGates, Prioritize, Registry, Time};
use plimsoll_journal::{JournalError, Reader};
use plimsoll_kube::serve::{
    AdviceError, Advisor, CapacityQuestion, ManifestSource, WhyGroupQuestion, WhyQuestion,
};
use plimsoll_sim::what_if::Scenario;
use plimsoll_sim::{InitialCluster, ProfileRules};
use serde::Deserialize;
use serde_json::Value;

use super::files::history;
use super::groups::GroupAnswer;
use super::request::{RebalanceRequest, WhatIfRequest};
use super::{Deciders, rebalance};
use crate::alternatives::alternatives;
use crate::canary::{Canaries, CanaryChoice, Picks};
use crate::input::read_pod;
use crate::options::Setup;
use crate::render;
use crate::render::canary::{PlanWithCanaries, WithCanary};
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

    /// Answers about a pod on a scheduler that is not copied. It is afterwards as it was. The answer names the rule that has
    /// chosen the profile of the pod, and has a text for people if that is asked for.
    pub(crate) fn why_on(
        &self,
        on: (&mut Scheduler, Time),
        about: (&PodKey, &Value, Manifests<'_>),
        wanted: (Option<usize>, Option<usize>),
        (choice, with_text): (Option<&CanaryChoice>, bool),
    ) -> Result<Value> {
        told(&self.present().why_on(on, about, wanted)?, choice, with_text)
    }

    /// The same about a pod on a node that a rule of a canary picks: on a copy in which the profile of the rule decides it.
    pub(crate) fn why_by_canary(
        &self,
        snapshot: ClusterSnapshot,
        choice: &CanaryChoice,
        about: (&PodKey, &Value, Manifests<'_>),
        wanted: (Option<usize>, Option<usize>),
        with_text: bool,
    ) -> Result<Value> {
        let (present, taken) = (self.present(), snapshot.taken);
        let mut scheduler = present.copy(snapshot, present.options, Some((about.0, choice)))?;
        let why = present.why_on((&mut scheduler, taken), about, wanted)?;
        told(&why, Some(choice), with_text)
    }

    /// Answers about a group of a cluster that is not running, on a copy. `choice` is the rule that picks its pods.
    pub(crate) fn why_group_on(
        &self,
        snapshot: ClusterSnapshot,
        group: &ObjectKey,
        find: &dyn Fn(&Reference) -> Option<Value>,
        (remedies, choice, with_text): (Option<usize>, Option<&CanaryChoice>, bool),
    ) -> Result<Value, AdviceError> {
        let (present, taken) = (self.present(), snapshot.taken);
        if !present.options.gates.groups.generic_workload {
            return Err(AdviceError::Wrong(
                "groups of pods are off: add --feature-gates GenericWorkload=true".to_owned(),
            ));
        }
        // The rules have been asked about all pods already, also about those of other groups of the tree.
        let profiles = profiles_of(snapshot.pods.iter().map(|info| &**info));
        let find = |object: &Reference| {
            let manifest = find(object)?;
            let profile = profiles.get(object).map(Str::as_str);
            Some(decided_by(&manifest, profile).into_owned())
        };
        let mut scheduler = present.copy_for_groups(snapshot)?;
        let subject = GroupSubject {
            group,
            manifests: Manifests::by(&find),
            remedies: remedies.unwrap_or(Limits::default().remedies),
            pending: None,
        };
        explain_why_group((&mut scheduler, taken), &subject, choice, with_text)
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
        options: Options,
        placed: Option<(&PodKey, &CanaryChoice)>,
    ) -> Result<Scheduler> {
        let taken = snapshot.taken;
        let mut scheduler = Deciders { options, ..self.deciders() }.scheduler()?;
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

    /// A copy that decides groups of pods.
    fn copy_for_groups(&self, snapshot: ClusterSnapshot) -> Result<Scheduler, AdviceError> {
        let options = Options { detail: Detail::Outcome, ..self.options };
        self.copy(snapshot, options, None).map_err(failed)
    }

    /// The rule that picks a pod, as its manifest is in the API server.
    fn choice(&self, manifest: &Value) -> Option<CanaryChoice> {
        self.canaries.as_ref()?.choice(&read_pod(manifest).ok()?)
    }

    /// The rules for a scenario. Those pods of the snapshot that are routed have their profile already.
    fn rules(&self, snapshot: &ClusterSnapshot, picks: &Picks) -> Option<ProfileRules> {
        let routed = snapshot.pods.iter().filter(|info| is_routed(info.seen()));
        let decided = routed.map(|info| (info.key.clone(), info.uid.clone()));
        Some(picks.by(self.canaries.clone()?, decided.collect()))
    }

    /// The cluster in which each pod has the profile that decides it once it is evicted: a pod that moves is made again, and the
    /// rules are asked about it then.
    fn cluster_to_move(&self, snapshot: ClusterSnapshot) -> InitialCluster {
        let Some(canaries) = &self.canaries else { return InitialCluster::from(snapshot) };
        let placed = snapshot.pods.iter().filter(|info| !is_routed(info.seen()));
        let placed: BTreeSet<PodKey> = placed.map(|info| info.key.clone()).collect();
        let mut cluster = InitialCluster::from(snapshot);
        for pod in cluster.pods.iter_mut().filter(|pod| placed.contains(&pod.key)) {
            canaries.assign_to(pod);
        }
        cluster
    }

    fn try_why(&self, question: WhyQuestion) -> Result<Value> {
        let WhyQuestion {
            pod,
            manifest,
            manifests,
            snapshot,
            pending,
            remedies,
            nearest,
            with_text,
        } = question;
        let find = |object: &Reference| read_manifest(&*manifests, object);
        let taken = snapshot.taken;
        let profile = pending.as_ref().map(|pending| pending.info.pod.scheduler_name.clone());
        // What decides a pending pod is known. One on a node is decided again by what would decide it now.
        let canary = self.choice(&manifest);
        let canary =
            canary.filter(|one| profile.as_ref().is_none_or(|profile| *profile == one.profile));
        let placed = canary.as_ref().filter(|_| profile.is_none()).map(|choice| (&pod, choice));
        let mut scheduler = self.copy(snapshot, self.options, placed)?;
        let why = self.explain_why(
            (&mut scheduler, taken),
            (&pod, &manifest, Manifests::by(&find)),
            (pending.as_ref(), profile.as_deref()),
            (remedies, nearest),
        )?;
        told(&why, canary.as_ref(), with_text)
    }

    fn try_why_group(&self, question: WhyGroupQuestion) -> Result<Value, AdviceError> {
        let kind = question.kind();
        let WhyGroupQuestion { group, manifests, snapshot, pending, remedies, with_text } =
            question;
        if !self.options.gates.groups.generic_workload {
            return Err(AdviceError::Wrong(GROUPS_ARE_OFF.to_owned()));
        }
        // A group without a PodGroup is one thing, and one whose PodGroup cannot be read another.
        manifests.read(kind.as_str(), &group).map_err(failed)?;
        // Their manifests have another scheduler name if a canary decides them.
        let profiles = profiles_of(pending.iter().map(|pending| &*pending.info.pod));
        let find = |object: &Reference| {
            let manifest = read_manifest(&*manifests, object)?;
            let profile = profiles.get(object).map(Str::as_str);
            Some(decided_by(&manifest, profile).into_owned())
        };
        // One profile decides all groups of a tree.
        let canary = profiles.first_key_value().and_then(|(first, profile)| {
            let choice = self.choice(&read_manifest(&*manifests, first)?)?;
            (choice.profile == *profile).then_some(choice)
        });
        let taken = snapshot.taken;
        let mut scheduler = self.copy_for_groups(snapshot)?;
        let subject = GroupSubject {
            group: &group,
            manifests: Manifests::by(&find),
            remedies: remedies.unwrap_or(Limits::default().remedies),
            pending: Some(&pending),
        };
        explain_why_group((&mut scheduler, taken), &subject, canary.as_ref(), with_text)
    }

    fn why_on(
        &self,
        (scheduler, now): (&mut Scheduler, Time),
        (pod, manifest, manifests): (&PodKey, &Value, Manifests<'_>),
        wanted: (Option<usize>, Option<usize>),
    ) -> Result<Why> {
        let pending = scheduler.pending_state(pod);
        let profile = pending.map(|pending| pending.info.pod.scheduler_name.clone());
        let profile = (None, profile.as_deref());
        let about = (pod, manifest, manifests);
        self.explain_why((scheduler, now), about, profile, wanted)
    }

    /// Answers about a pod. `pending` is what another scheduler knows of it, and `profile` the name of its scheduler if it is
    /// pending.
    fn explain_why(
        &self,
        (scheduler, now): (&mut Scheduler, Time),
        (pod, manifest, manifests): (&PodKey, &Value, Manifests<'_>),
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
            manifests,
            alternatives: &alternatives,
            limits,
            pending,
        };
        Ok(plimsoll_advisor::why(scheduler, now, &subject)?)
    }
}

/// The profiles that decide these pods.
pub(crate) fn profiles_of<'p>(pods: impl Iterator<Item = &'p Pod>) -> BTreeMap<Reference, Str> {
    pods.filter(|pod| pod.scheduling_group.is_some())
        .map(|pod| (Reference::pod(&pod.key), pod.scheduler_name.clone()))
        .collect()
}

/// The answer about a pod, with the rule that has chosen its profile.
fn told(why: &Why, canary: Option<&CanaryChoice>, with_text: bool) -> Result<Value> {
    let mut answer = as_json(why)?;
    if with_text {
        let text = plain(|out, screen| {
            render::canary::choice(out, &why.pod, canary)?;
            render::why::answer(out, why, screen)
        });
        answer["text"] = text.into();
    }
    if let Some(canary) = canary {
        answer["canary"] = serde_json::to_value(canary)?;
    }
    Ok(answer)
}

/// Answers about a group. The scheduler is not needed any more afterwards.
fn explain_why_group(
    (scheduler, now): (&mut Scheduler, Time),
    subject: &GroupSubject<'_>,
    canary: Option<&CanaryChoice>,
    with_text: bool,
) -> Result<Value, AdviceError> {
    let answer = GroupAnswer::of(scheduler, now, subject);
    let answer = answer.map_err(|error| match error.downcast_ref() {
        Some(unknown @ WhyGroupError::Unknown(_)) => AdviceError::Unknown(unknown.to_string()),
        _ => failed(error),
    })?;
    let written = WithCanary { answer: answer.written(), canary };
    let mut json = serde_json::to_value(written).map_err(failed)?;
    if with_text {
        let text = plain(|out, screen| {
            render::canary::choice(out, &subject.group.to_string(), canary)?;
            render::why_group::answer(out, &answer, screen)
        });
        json["text"] = text.into();
    }
    Ok(json)
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

    fn why_group(&self, question: WhyGroupQuestion) -> Result<Value, AdviceError> {
        self.present().try_why_group(question)
    }

    fn decision_text(&self, decision: &Decision) -> String {
        let shown = render::explain::Shown::Best;
        plain(|out, screen| render::explain::decision(out, decision, shown, screen))
    }

    fn what_if(&self, snapshot: ClusterSnapshot, request: &Value) -> Result<Value, AdviceError> {
        let mut request: WhatIfRequest = read(request)?;
        let with_text = request.text;
        let (mut present, mut warnings) = (self.present(), Vec::new());
        if let Some(given) = request.configuration.take() {
            let other = present.with_configuration(&given)?;
            (present, warnings) = (Arc::new(other.present), other.warnings);
        }
        let actions = request.actions(&self.registry.kinds()).map_err(AdviceError::Wrong)?;
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
        if !warnings.is_empty() {
            answer["warnings"] = warnings.into();
        }
        Ok(answer)
    }

    fn has_journal(&self) -> bool {
        self.journal.is_some()
    }

    fn history(&self, pod: &PodKey) -> Option<Result<Value, AdviceError>> {
        Some(self.journal.as_ref()?.history(pod).map_err(failed))
    }

    fn capacity(&self, question: CapacityQuestion) -> Result<Value, AdviceError> {
        let CapacityQuestion { request, snapshot, manifests, hidden } = question;
        let find = |object: &Reference| read_manifest(&*manifests, object);
        self.capacity_of(&request, (snapshot, &find), &hidden)
    }

    fn rebalance(&self, snapshot: ClusterSnapshot, request: &Value) -> Result<Value, AdviceError> {
        let request: RebalanceRequest = read(request)?;
        let options = request.options().map_err(AdviceError::Wrong)?;
        let present = self.present();
        let cluster = present.cluster_to_move(snapshot);
        let plan = rebalance::of_cluster(present.deciders(), cluster, &options, MOST_DECISIONS);
        let plan = plan.map_err(failed)?;
        let mut answer = serde_json::to_value(&plan).map_err(failed)?;
        if request.text {
            let text = plain(|out, screen| render::rebalance::plan(out, &plan, screen));
            answer["text"] = text.into();
        }
        Ok(answer)
    }
}

/// Whether the engine has been told the profile that decides a pod, rather than what its manifest says.
fn is_routed(pod: &Pod) -> bool {
    pod.node_name.is_none() || pod.scheduling_group.is_some()
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
/// Why nothing is said of groups.
const GROUPS_ARE_OFF: &str =
    "groups of pods are off: this instance runs without the feature gate GenericWorkload";

fn read<T: for<'a> Deserialize<'a>>(request: &Value) -> Result<T, AdviceError> {
    T::deserialize(request).map_err(|error| AdviceError::Wrong(error.to_string()))
}

fn failed(error: impl Into<anyhow::Error>) -> AdviceError {
    let error = error.into();
    AdviceError::Failed(format!("{error:#}"))
}

/// The manifest of an object; `None` also if it cannot be read.
fn read_manifest(manifests: &dyn ManifestSource, object: &Reference) -> Option<Value> {
    let namespace = object.namespace.as_deref().unwrap_or_default();
    let key = ObjectKey::new(namespace, object.name.as_str());
    match manifests.read(&object.kind, &key) {
        Ok(manifest) => manifest,
        Err(error) => {
            tracing::debug!(%object, %error, "no change of an object is tried");
            None
        }
    }
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
