//! The answer to "why": the decision, what would change it, and what the pod waits for.

use std::collections::BTreeSet;
use std::sync::Arc;

use plimsoll_api::PodKey;
use plimsoll_api::wire::WireError;
use plimsoll_engine::record::DecisionRecord;
use plimsoll_engine::{
    Decision, Outcome, PendingPod, QueuePlace, Scheduler, TransactionError, Verdicts,
};
use plimsoll_framework::{Row, Time};
use serde::{Serialize, Serializer};
use serde_json::Value;
use thiserror::Error;

use crate::change::{Reference, as_known, pod_of};
use crate::draft::{Manifests, Missed};
use crate::member::{GroupOfPod, group_of_pod};
use crate::nearest::{NearNode, by_distance, nearest};
use crate::placed::{RunnerUp, decide_again, runner_up};
use crate::remedy::Remedy;
use crate::search::{Alternative, Limits, Search};
use crate::waiting::Waiting;

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The pod.
    pub pod: &'a PodKey,
    /// Its manifest, on which changes are based.
    pub manifest: &'a Value,
    /// The manifests of other objects.
    pub manifests: Manifests<'a>,
    /// Other configurations that may be proposed.
    pub alternatives: &'a [Alternative],
    /// How far the search goes.
    pub limits: Limits,
    /// What another scheduler knows of the pod, of whose cluster this one has a copy; `None` to take it from this one.
    pub pending: Option<&'a PendingPod>,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Why {
    /// The pod, as `namespace/name`.
    pub pod: String,
    /// `scheduled`, `unschedulable`, `gated`, `backoff`, `waitingOnPermit`, `binding`, `preempting` or `error`.
    pub state: &'static str,
    /// The node that the pod is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The present decision about it. For a pod on a node it is decided as if it were pending.
    #[serde(rename = "record", serialize_with = "record", skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    /// What would make it fit, the smallest first; none for a pod whose group waits: see there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remedies: Vec<Remedy>,
    /// The nodes that miss by least.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nearest: Vec<NearNode>,
    /// For a pod on a node: the best other one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runner_up: Option<RunnerUp>,
    /// For a pending pod: what it waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
    /// For a pending pod that is scheduled with others: its group, and what would let that be scheduled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupOfPod>,
    /// Objects of which no change was tried, because their manifests are not known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown_manifests: Vec<Reference>,
}

/// A decision as a decision record.
#[expect(clippy::ref_option, reason = "serde passes a reference")]
fn record<S: Serializer>(decision: &Option<Decision>, serializer: S) -> Result<S::Ok, S::Error> {
    decision.as_ref().map(DecisionRecord::of).serialize(serializer)
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WhyError {
    /// The scheduler does not know the pod.
    #[error("pod {0} is neither pending nor on a node")]
    UnknownPod(PodKey),
    /// The manifest is wrong.
    #[error("pod {0}: {1}")]
    Manifest(PodKey, WireError),
    /// The pod cannot be decided.
    #[error(transparent)]
    Transaction(#[from] TransactionError),
}

/// Why a pod is where it is. The scheduler is afterwards as it was.
pub fn why(scheduler: &mut Scheduler, now: Time, subject: &Subject<'_>) -> Result<Why, WhyError> {
    let key = subject.pod;
    let known = subject.pending.cloned().or_else(|| scheduler.pending_state(key));
    match known {
        Some(known) if known.info.place == QueuePlace::InFlight => {
            let state = if known.at_permit.is_some() { "waitingOnPermit" } else { "binding" };
            let waiting = Some(Waiting::of(scheduler, &known, subject.pending.is_some(), &[]));
            Ok(Why { state, waiting, ..Why::about(key) })
        }
        Some(known) => pending(scheduler, now, subject, &known),
        None => placed(scheduler, now, key),
    }
}

fn pending(
    scheduler: &mut Scheduler,
    now: Time,
    subject: &Subject<'_>,
    known: &PendingPod,
) -> Result<Why, WhyError> {
    let (key, info) = (subject.pod, &known.info);
    let wrong = |error| WhyError::Manifest(key.clone(), error);
    let mut manifest = subject.manifest.clone();
    let is_gated_by_others = match &info.place {
        // Its gates are in its manifest, so the search can remove them.
        QueuePlace::Gated { plugin, .. } => *plugin != "SchedulingGates",
        _ => false,
    };
    crate::relaxations::remove_key(&mut manifest, "/spec", "schedulingGates");
    let pod = Arc::new(as_known(pod_of(&manifest).map_err(wrong)?, &info.pod));
    let decision = scheduler.explain(key);
    let limits = subject.limits;
    let judged = scheduler.transaction(now, |transaction| {
        let mut judge = transaction.judge(pod.clone())?;
        let verdicts = judge.verdicts();
        let rows = by_distance(judge.view(), &pod, &verdicts);
        let near = nearest(&judge, &rows, limits.nearest);
        Ok::<_, TransactionError>((verdicts, rows, near))
    });
    let (verdicts, rows, near): (Verdicts, Vec<Row>, _) = judged?;
    let is_gated = matches!(info.place, QueuePlace::Gated { .. });
    let fits = decision
        .as_ref()
        .is_some_and(|decision| !is_gated && matches!(decision.outcome, Outcome::Scheduled { .. }));
    let grouped = group_of_pod(scheduler, now, subject, known);
    let mut remedies = Vec::new();
    let missed = Missed::default();
    // With a change that lets it in alone, a pod need not fit together with those that its group needs.
    let is_alone = grouped.as_ref().is_none_or(|(group, _)| group.fits());
    if is_alone && !fits && !is_gated_by_others {
        let subject = Subject { manifests: subject.manifests.noting(&missed), ..*subject };
        let search = Search::new(scheduler, now, (&subject, &info.pod));
        remedies = search.run(&verdicts, &rows, subject.alternatives);
    }
    let is_rejected_everywhere = verdicts.feasible().next().is_none();
    let waiting = Waiting::of(scheduler, known, subject.pending.is_some(), &verdicts.rejectors());
    let (group, missed_of_group) = grouped.unzip();
    let missed = missed.into_inner().into_iter().chain(missed_of_group.into_iter().flatten());
    let unknown_manifests: BTreeSet<Reference> = missed.collect();
    // Of files it is not known since when a pod is ready; one that fits waits for nothing there.
    let is_held = !fits
        || group.as_ref().is_some_and(|group| !group.fits())
        || info.place != QueuePlace::Active
        || known.behind.is_some()
        || subject.pending.is_some();
    Ok(Why {
        state: state(known, decision.as_ref(), group.as_ref()),
        group,
        remedies,
        nearest: if is_rejected_everywhere { near } else { Vec::new() },
        waiting: is_held.then_some(waiting),
        decision,
        unknown_manifests: unknown_manifests.into_iter().collect(),
        ..Why::about(key)
    })
}

fn state(
    known: &PendingPod,
    decision: Option<&Decision>,
    group: Option<&GroupOfPod>,
) -> &'static str {
    let outcome = decision.map(|decision| &decision.outcome);
    let of_group = group.and_then(|group| group.result);
    match (&known.info.place, outcome) {
        (QueuePlace::Gated { .. }, _) => "gated",
        (_, Some(Outcome::Error { .. })) => "error",
        (QueuePlace::Backoff { .. } | QueuePlace::ErrorBackoff { .. }, _) => "backoff",
        _ if known.nominated_node.is_some() => "preempting",
        // A pod that fits by itself has no node before its group has some.
        (QueuePlace::Active, _) if of_group.is_some_and(|result| result != "scheduled") => {
            match of_group {
                Some("preempting") => "preempting",
                Some("error") => "error",
                _ => "unschedulable",
            }
        }
        (QueuePlace::Active, Some(Outcome::Scheduled { .. })) => "scheduled",
        _ => "unschedulable",
    }
}

fn placed(scheduler: &mut Scheduler, now: Time, key: &PodKey) -> Result<Why, WhyError> {
    let unknown = || WhyError::UnknownPod(key.clone());
    let pod = scheduler.pods().find(|pod| pod.key == *key).cloned().ok_or_else(unknown)?;
    let node = pod.node().ok_or_else(unknown)?.to_string();
    let decision = decide_again(scheduler, now, &pod)?;
    Ok(Why {
        state: "scheduled",
        runner_up: runner_up(&decision, &node),
        node: Some(node),
        decision: Some(decision),
        ..Why::about(key)
    })
}

impl Why {
    fn about(pod: &PodKey) -> Self {
        Why {
            pod: pod.to_string(),
            state: "unschedulable",
            node: None,
            decision: None,
            remedies: Vec::new(),
            nearest: Vec::new(),
            runner_up: None,
            waiting: None,
            group: None,
            unknown_manifests: Vec::new(),
        }
    }
}
