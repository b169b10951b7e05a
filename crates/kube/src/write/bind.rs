//! Binds pods. A binding is sent once. If its answer is lost, the pod is read to learn the result.
//! Since 1.37 it is sent again if the pod has no node after a transient failure.

use std::time::Duration;

use http::StatusCode;
use plimsoll_api::{Pod, Str};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::backoff::RetryBackoff;
use super::sender::{
    RequestSender, RetryPolicy, WriteFailure, earlier, is_deleted_or_terminating, json,
    may_have_taken_effect, pod_path,
};
use crate::call::{ApiError, ApiRequest};

/// How often a pod is read, and the timeout of each read.
const READS: u32 = 4;
const READ_TIMEOUT: Duration = Duration::from_secs(3);
/// The pause between reads, and the total time of all reads.
const PAUSE: Duration = Duration::from_millis(300);
const PAUSE_MAX: Duration = Duration::from_secs(1);
const READING_MAX: Duration = Duration::from_secs(17);

/// A pod counts as unbound after this many reads without a node. A write whose connection broke may
/// still take effect a moment later.
const READS_TO_BELIEVE: u32 = 2;

/// The pause before a binding is sent again, as in retry.DefaultBackoff of client-go.
const RETRY_PAUSE: Duration = Duration::from_millis(10);
const RETRY_PAUSE_MAX: Duration = Duration::from_millis(500);

/// The observed state of a pod whose binding failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ObservedBinding {
    /// It is on its node.
    Bound,
    /// It is on no node.
    Unbound,
    /// It is on another node, deleted, or unknown.
    Otherwise,
}

/// Whether a retry may help. As in scheduler/util/utils.go, Retriable. A request that could not connect
/// is retried elsewhere.
fn is_transient(failed: &ApiError) -> bool {
    let codes =
        [StatusCode::INTERNAL_SERVER_ERROR, StatusCode::SERVICE_UNAVAILABLE, StatusCode::CONFLICT];
    matches!(failed, ApiError::Status(status) if codes.contains(&status.code))
}

/// v1 Binding. As in default_binder.go.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WireBinding<'a> {
    api_version: &'a str,
    kind: &'a str,
    metadata: BindingMetadata<'a>,
    target: BindingTarget<'a>,
}

#[derive(Serialize)]
struct BindingMetadata<'a> {
    namespace: &'a str,
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    uid: &'a str,
}

#[derive(Serialize)]
struct BindingTarget<'a> {
    kind: &'a str,
    name: &'a str,
}

/// v1 Pod, reduced to its identity and node.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ObservedPod {
    metadata: ObservedMetadata,
    spec: ObservedSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ObservedMetadata {
    uid: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ObservedSpec {
    node_name: Option<String>,
}

impl RequestSender {
    /// Binds `pod` to `node`.
    pub(super) async fn bind(
        &self,
        pod: &Pod,
        node: &Str,
        deadline: Instant,
    ) -> Result<(), WriteFailure> {
        let binding = WireBinding {
            api_version: "v1",
            kind: "Binding",
            metadata: BindingMetadata {
                namespace: &pod.key.namespace,
                name: &pod.key.name,
                uid: &pod.uid,
            },
            target: BindingTarget { kind: "Node", name: node },
        };
        let request = ApiRequest::post(format!("{}/binding", pod_path(&pod.key)), json(&binding));
        let deadline = earlier(deadline, READING_MAX);
        let retries = self.options().binding_retries;
        let mut backoff = RetryBackoff::new(RETRY_PAUSE, RETRY_PAUSE_MAX, retries);
        loop {
            let result = self.send(&request, RetryPolicy::IfNotProcessed, deadline).await;
            let Err(failed) = result else { return Ok(()) };
            let reads = match &failed {
                failed if is_deleted_or_terminating(failed) => {
                    return Err(WriteFailure::PodDeleted(failed.to_string()));
                }
                // The pod is already bound, perhaps by an earlier request of ours whose answer was
                // lost.
                ApiError::Status(status) if status.code == StatusCode::CONFLICT => 1,
                failed if may_have_taken_effect(failed) => READS_TO_BELIEVE,
                _ => return Err(failed.into()),
            };
            match self.read_binding(pod, node, reads).await {
                ObservedBinding::Bound => {
                    tracing::info!(pod = %pod.key, %node, error = %failed, "the binding request failed, but the pod is bound");
                    return Ok(());
                }
                ObservedBinding::Unbound if is_transient(&failed) => match backoff.next(None) {
                    Some(pause) if Instant::now() + pause < deadline => {
                        tracing::debug!(pod = %pod.key, error = %failed, "sending the binding again");
                        tokio::time::sleep(pause).await;
                    }
                    _ => return Err(failed.into()),
                },
                ObservedBinding::Unbound | ObservedBinding::Otherwise => return Err(failed.into()),
            }
        }
    }

    /// Reads whether this pod, with the same uid, is bound to `node`.
    async fn read_binding(&self, pod: &Pod, node: &Str, reads_to_believe: u32) -> ObservedBinding {
        let mut backoff = RetryBackoff::new(PAUSE, PAUSE_MAX, READS - 1);
        let mut n_unbound = 0;
        loop {
            let failed = match self.read(pod_path(&pod.key), READ_TIMEOUT).await {
                Ok(body) => {
                    let observed: ObservedPod = serde_json::from_slice(&body).unwrap_or_default();
                    match observed.spec.node_name.as_deref() {
                        _ if observed.metadata.uid != pod.uid.as_str() => {
                            return ObservedBinding::Otherwise;
                        }
                        None | Some("") => n_unbound += 1,
                        Some(bound_to) if bound_to == node.as_str() => {
                            return ObservedBinding::Bound;
                        }
                        Some(_) => return ObservedBinding::Otherwise,
                    }
                    if reads_to_believe <= n_unbound {
                        return ObservedBinding::Unbound;
                    }
                    None
                }
                Err(failed) if failed.is_not_found() => return ObservedBinding::Otherwise,
                Err(failed) => {
                    tracing::debug!(pod = %pod.key, error = %failed, "could not read the pod after a failed binding");
                    Some(failed)
                }
            };
            let Some(pause) = backoff.next(None) else { return ObservedBinding::Otherwise };
            match &failed {
                // When the process ends, an unreachable API server is not waited for.
                Some(failed) if !self.pause(pause, failed).await => {
                    return ObservedBinding::Otherwise;
                }
                Some(_) => {}
                None => tokio::time::sleep(pause).await,
            }
        }
    }
}
