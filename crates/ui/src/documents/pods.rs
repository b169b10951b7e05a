//! A part of the list of pods, and one pod.

use std::collections::BTreeMap;

use plimsoll_api::resources::{CPU, EPHEMERAL_STORAGE, MEMORY};
use plimsoll_api::{PodKey, Resources, Str};
use serde::Serialize;

use super::nodes::labels;
use crate::picture::{KnownDecision, Picture, PicturePod, PodState, text_of};
use crate::question::{Failure, PodsQuestion};

/// A part of the list of pods.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PodList {
    as_of: String,
    /// How many pods are in the list.
    total: usize,
    /// The number of the first one here.
    from: usize,
    /// How many pods there are in each state, in any of the states that were asked for or not.
    states: BTreeMap<&'static str, usize>,
    pods: Vec<PodRow>,
}

/// A pod in a list.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PodRow {
    pod: String,
    state: PodState,
    /// The node that it is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<Str>,
    priority: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    created: Option<String>,
    /// How often it was tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<u32>,
    /// The plugins that rejected it, or hold it back.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rejected_by: Vec<&'static str>,
    /// Why it is pending.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// The node to which it would go as the next pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    fits_on: Option<Str>,
}

/// A pod.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OnePod {
    as_of: String,
    #[serde(flatten)]
    row: PodRow,
    scheduler: Str,
    #[serde(skip_serializing_if = "Str::is_empty")]
    uid: Str,
    labels: BTreeMap<Str, Str>,
    requests: BTreeMap<Str, i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    controller: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<Str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    scheduling_gates: Vec<Str>,
    /// When it was added to the queue, or returned to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    queued_at: Option<String>,
}

impl PodRow {
    /// The row of a pod.
    pub(crate) fn of(pod: PicturePod<'_>) -> Self {
        let PicturePod { info, queued, .. } = pod;
        let gate = queued.and_then(|queued| queued.gate.clone()).map(String::from);
        let decision = queued.and_then(|queued| queued.decision.as_deref());
        let (message, fits_on) = match decision {
            Some(KnownDecision::Fits(node)) => (gate, Some(node.clone())),
            Some(KnownDecision::Rejected(message)) => (Some(message.clone()), None),
            None => (gate, None),
        };
        PodRow {
            pod: info.key.to_string(),
            state: pod.state,
            node: info.node().cloned(),
            priority: info.priority,
            created: info.created.map(|created| created.to_string()),
            attempts: queued.map(|queued| queued.attempts),
            rejected_by: queued.map(|queued| queued.rejectors.to_vec()).unwrap_or_default(),
            message,
            fits_on,
        }
    }
}

/// The part of the list that is asked for.
pub(crate) fn pods(
    picture: &Picture,
    asked: &PodsQuestion,
    shows: &dyn Fn(&str) -> bool,
) -> PodList {
    let is_listed = |pod: &PicturePod<'_>| {
        let key = &pod.info.key;
        let is_in = asked.namespace.as_ref().is_none_or(|name| *name == *key.namespace);
        let is_named =
            || asked.search.as_ref().is_none_or(|text| key.to_string().contains(text.as_str()));
        is_in && shows(&key.namespace) && is_named()
    };
    let mut states: BTreeMap<&'static str, usize> =
        PodState::ALL.into_iter().map(|state| (state.as_str(), 0)).collect();
    let (mut total, mut rows) = (0, Vec::new());
    for pod in picture.pods().filter(is_listed) {
        *states.entry(pod.state.as_str()).or_default() += 1;
        if !asked.states.is_empty() && !asked.states.contains(&pod.state) {
            continue;
        }
        if asked.from <= total && rows.len() < asked.limit {
            rows.push(PodRow::of(pod));
        }
        total += 1;
    }
    PodList { as_of: picture.as_of(), total, from: asked.from, states, pods: rows }
}

/// A pod of a cluster.
pub(crate) fn pod(
    picture: &Picture,
    key: &PodKey,
    shows: &dyn Fn(&str) -> bool,
) -> Result<OnePod, Failure> {
    let pod = picture.pod(key).filter(|_| shows(&key.namespace));
    let Some(pod) = pod else {
        return Err(Failure::NotFound(format!("pods {:?} not found", key.name.as_str())));
    };
    let info = pod.info;
    let controller = info.controller.as_ref();
    Ok(OnePod {
        as_of: picture.as_of(),
        row: PodRow::of(pod),
        scheduler: info.scheduler_name.clone(),
        uid: info.uid.clone(),
        labels: labels(&info.labels),
        requests: amounts(&info.requests),
        controller: controller.map(|controller| format!("{} {}", controller.kind, controller.name)),
        group: info.scheduling_group.clone(),
        scheduling_gates: info.scheduling_gates.clone(),
        queued_at: pod.queued.map(|queued| text_of(queued.since)),
    })
}

/// Amounts by the name of their resource; those that are 0 are left out.
pub(super) fn amounts(resources: &Resources) -> BTreeMap<Str, i64> {
    let common =
        [CPU, MEMORY, EPHEMERAL_STORAGE].map(|name| (Str::from(name), resources.get(name)));
    let others = resources.scalar.iter().map(|(name, amount)| (name.clone(), *amount));
    common.into_iter().chain(others).filter(|(_, amount)| *amount != 0).collect()
}
