//! Writes the status of a pod: conditions and the nominated node.

use jiff::Timestamp;
use plimsoll_api::{Pod, Unscheduled};
use plimsoll_engine::Condition;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::job::{NominationChange, StatusChange};
use super::sender::{self, RequestSender, RetryPolicy, is_gone, pod_path};
use crate::call::{ApiError, ApiRequest, STRATEGIC_MERGE_PATCH};
use crate::wire_time;

impl RequestSender {
    /// Writes a condition and a nomination. Writes nothing if the pod already has them.
    pub(super) async fn set_status(
        &self,
        pod: &Pod,
        status: &StatusChange,
    ) -> Result<(), ApiError> {
        let Some(change) = patch(pod, status, Timestamp::now()) else { return Ok(()) };
        let path = format!("{}/status", pod_path(&pod.key));
        let request = ApiRequest::patch(path, STRATEGIC_MERGE_PATCH, change);
        let deadline = Instant::now() + self.options().patience;
        match self.send(&request, RetryPolicy::IfIdempotent, deadline).await {
            Err(failed) if !is_gone(&failed) => Err(failed),
            _ => Ok(()),
        }
    }
}

/// The patch for this status. As in schedule_one.go, updatePod.
fn patch(pod: &Pod, status: &StatusChange, now: Timestamp) -> Option<Vec<u8>> {
    let mut fields = Map::new();
    if let Some(condition) = &status.condition
        && let Some(condition) = pod_scheduled(pod, condition, now)
    {
        fields.insert("conditions".to_owned(), json!([condition]));
    }
    let node = match &status.nominated {
        NominationChange::AsItWas => None,
        // Removes it.
        NominationChange::No => Some(Value::Null),
        NominationChange::On(node) => Some(json!(node)),
    };
    fields.extend(node.map(|node| ("nominatedNodeName".to_owned(), node)));
    (!fields.is_empty()).then(|| of_status(pod, &fields))
}

/// The condition `PodScheduled=False`, unless the pod already has it with this text. As in podutil,
/// UpdatePodCondition: the transition time changes only with the status, which may already be `False`.
fn pod_scheduled(pod: &Pod, condition: &Condition, now: Timestamp) -> Option<Value> {
    let generation = pod.edition.generation;
    let current = pod.edition.unscheduled.as_deref();
    let new = Unscheduled::new(generation, condition.reason, &condition.message);
    if current == Some(&new) {
        return None;
    }
    let transition = current.is_none().then_some(now);
    Some(condition_of(
        "PodScheduled",
        "False",
        condition.reason,
        &condition.message,
        generation,
        transition,
    ))
}

/// The patch that says why a pod is evicted.
pub(super) fn disruption_target(victim: &Pod, message: &str) -> Vec<u8> {
    let transition = (!victim.preempted).then(Timestamp::now);
    let condition = condition_of(
        "DisruptionTarget",
        "True",
        "PreemptionByScheduler",
        message,
        victim.edition.generation,
        transition,
    );
    of_status(victim, &Map::from_iter([("conditions".to_owned(), json!([condition]))]))
}

fn condition_of(
    kind: &str,
    status: &str,
    reason: &str,
    message: &str,
    generation: i64,
    transition: Option<Timestamp>,
) -> Value {
    let mut condition = json!({
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastProbeTime": null,
    });
    if generation != 0 {
        condition["observedGeneration"] = json!(generation);
    }
    // An existing condition keeps the fields that a patch does not name.
    if let Some(time) = transition {
        condition["lastTransitionTime"] = json!(wire_time::seconds(time));
    }
    condition
}

/// A patch of the status of this pod, with its uid.
fn of_status(pod: &Pod, fields: &Map<String, Value>) -> Vec<u8> {
    sender::json(&json!({ "metadata": { "uid": pod.uid }, "status": fields }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_api::{Edition, PodKey};

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn condition(message: &str) -> Condition {
        Condition { reason: "Unschedulable", message: message.to_owned() }
    }

    fn pod(generation: i64, current: Option<Unscheduled>) -> Pod {
        let unscheduled = current.map(Box::new);
        let edition = Edition { generation, unscheduled, ..Edition::default() };
        Pod { key: PodKey::new("ns", "p"), uid: "u".into(), edition, ..Pod::default() }
    }

    #[track_caller]
    fn check(pod: &Pod, status: &StatusChange, expected: Option<&Value>) {
        let patch = patch(pod, status, NOW);
        let patch = patch.map(|patch| serde_json::from_slice::<Value>(&patch).expect("it is JSON"));
        assert_eq!(patch.as_ref(), expected);
    }

    #[test]
    fn a_new_condition_has_a_transition_time() {
        let status =
            StatusChange { condition: Some(condition("no room")), ..StatusChange::default() };
        let expected = json!({
            "metadata": { "uid": "u" },
            "status": { "conditions": [{
                "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                "message": "no room", "lastProbeTime": null, "observedGeneration": 4,
                "lastTransitionTime": "1970-01-01T00:00:00Z",
            }] },
        });
        check(&pod(4, None), &status, Some(&expected));
    }

    #[test]
    fn a_condition_with_another_message_keeps_its_transition_time() {
        let current = Some(Unscheduled::new(0, "Unschedulable", "no node"));
        let status =
            StatusChange { condition: Some(condition("no room")), ..StatusChange::default() };
        let expected = json!({
            "metadata": { "uid": "u" },
            "status": { "conditions": [{
                "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                "message": "no room", "lastProbeTime": null,
            }] },
        });
        check(&pod(0, current), &status, Some(&expected));
    }

    #[test]
    fn an_equal_condition_is_not_written_again() {
        let current = Unscheduled::new(2, "Unschedulable", "no room");
        let mut status =
            StatusChange { condition: Some(condition("no room")), ..StatusChange::default() };
        check(&pod(2, Some(current)), &status, None);
        status.nominated = NominationChange::On("n".into());
        let expected =
            json!({ "metadata": { "uid": "u" }, "status": { "nominatedNodeName": "n" } });
        check(&pod(2, Some(current)), &status, Some(&expected));
    }

    #[test]
    fn a_nomination_is_removed_by_null() {
        let status = StatusChange { condition: None, nominated: NominationChange::No };
        let expected =
            json!({ "metadata": { "uid": "u" }, "status": { "nominatedNodeName": null } });
        check(&pod(0, None), &status, Some(&expected));
    }
}
