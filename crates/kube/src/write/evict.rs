//! Evicts a pod for one of higher priority.

use std::sync::Arc;

use plimsoll_api::Pod;
use plimsoll_engine::Eviction;
use serde_json::json;
use tokio::time::Instant;

use super::sender::{self, RequestSender, RetryPolicy, is_gone, pod_path};
use super::status;
use crate::call::{ApiError, ApiRequest, STRATEGIC_MERGE_PATCH};
use crate::events::{EventObject, Occurrence};

impl RequestSender {
    /// Writes the reason into the status of the victim, deletes it, and records an event. As in
    /// executor.go, PreemptPod: a victim that is already deleted counts as success, and a terminating
    /// one is left alone.
    pub(super) async fn evict(
        &self,
        preemptor: &Arc<Pod>,
        eviction: &Eviction,
        deadline: Instant,
    ) -> Result<(), ApiError> {
        let victim = &eviction.victim;
        if victim.is_terminating() {
            return Ok(());
        }
        let path = pod_path(&victim.key);
        let why = status::disruption_target(victim, &eviction.message);
        let request = ApiRequest::patch(format!("{path}/status"), STRATEGIC_MERGE_PATCH, why);
        // Unlike in executor.go, a new pod with the name of the victim is left alone.
        let options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": { "uid": victim.uid },
        });
        let delete = ApiRequest::delete(path, sender::json(&options));
        for request in [request, delete] {
            match self.send(&request, RetryPolicy::IfIdempotent, deadline).await {
                Ok(()) => {}
                Err(failed) if is_gone(&failed) => return Ok(()),
                Err(failed) => return Err(failed),
            }
        }
        self.options().events.record(Occurrence {
            controller: preemptor.scheduler_name.clone(),
            regarding: EventObject::Pod(victim.clone()),
            related: Some(EventObject::Pod(preemptor.clone())),
            kind: "Normal",
            reason: "Preempted",
            action: "Preempting",
            note: eviction.note.clone(),
        });
        Ok(())
    }
}
