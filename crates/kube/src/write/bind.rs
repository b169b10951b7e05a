//! Binds pods. A binding is sent once. If its answer is lost, the pod is read to learn the result.
//! Since 1.37 it is sent again if the pod has no node after a transient failure.

use std::time::Duration;

use http::StatusCode;
use plimsoll_api::{Pod, Str};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::backoff::Backoff;
use super::courier::{
    Again, Courier, Unwritten, earlier, is_about_deleted, json, may_be_done, pod_path,
};
use crate::call::{Ask, Failed};

/// How often a pod is read, and the timeout of each read.
const LOOKS: u32 = 4;
const LOOK_TIMEOUT: Duration = Duration::from_secs(3);
/// The pause between reads, and the total time of all reads.
const PAUSE: Duration = Duration::from_millis(300);
const PAUSE_MAX: Duration = Duration::from_secs(1);
const LOOKING_MAX: Duration = Duration::from_secs(17);

/// A pod counts as unbound after this many reads without a node. A write whose connection broke may
/// still take effect a moment later.
const LOOKS_TO_BELIEVE: u32 = 2;

/// The pause before a binding is sent again, as in retry.DefaultBackoff of client-go.
const AGAIN_PAUSE: Duration = Duration::from_millis(10);
const AGAIN_PAUSE_MAX: Duration = Duration::from_millis(500);

/// The observed state of a pod whose binding failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// It is on its node.
    Bound,
    /// It is on no node.
    Unbound,
    /// It is on another node, deleted, or unknown.
    Otherwise,
}

/// Whether a retry may help. As in scheduler/util/utils.go, Retriable. A request that could not connect
/// is retried elsewhere.
fn is_passing(failed: &Failed) -> bool {
    let codes =
        [StatusCode::INTERNAL_SERVER_ERROR, StatusCode::SERVICE_UNAVAILABLE, StatusCode::CONFLICT];
    matches!(failed, Failed::Refused(refusal) if codes.contains(&refusal.code))
}

/// v1 Binding. As in default_binder.go.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WireBinding<'a> {
    api_version: &'a str,
    kind: &'a str,
    metadata: Metadata<'a>,
    target: Target<'a>,
}

#[derive(Serialize)]
struct Metadata<'a> {
    namespace: &'a str,
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    uid: &'a str,
}

#[derive(Serialize)]
struct Target<'a> {
    kind: &'a str,
    name: &'a str,
}

/// v1 Pod, reduced to its identity and node.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WirePod {
    metadata: PodMetadata,
    spec: Spec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PodMetadata {
    uid: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    node_name: Option<String>,
}

impl Courier {
    /// Binds `pod` to `node`.
    pub(super) async fn bind(
        &self,
        pod: &Pod,
        node: &Str,
        deadline: Instant,
    ) -> Result<(), Unwritten> {
        let binding = WireBinding {
            api_version: "v1",
            kind: "Binding",
            metadata: Metadata {
                namespace: &pod.key.namespace,
                name: &pod.key.name,
                uid: &pod.uid,
            },
            target: Target { kind: "Node", name: node },
        };
        let ask = Ask::post(format!("{}/binding", pod_path(&pod.key)), json(&binding));
        let deadline = earlier(deadline, LOOKING_MAX);
        let again = self.options().bindings_again;
        let mut again = Backoff::new(AGAIN_PAUSE, AGAIN_PAUSE_MAX, again);
        loop {
            let answered = self.deliver(&ask, Again::IfNotTaken, deadline).await;
            let Err(failed) = answered else { return Ok(()) };
            let text = failed.to_string();
            let looks = match &failed {
                failed if is_about_deleted(failed) => return Err(Unwritten::PodDeleted(text)),
                // The pod is already bound, perhaps by an earlier request of ours whose answer was
                // lost.
                Failed::Refused(refusal) if refusal.code == StatusCode::CONFLICT => 1,
                failed if may_be_done(failed) => LOOKS_TO_BELIEVE,
                _ => return Err(text.into()),
            };
            match self.look(pod, node, looks).await {
                Seen::Bound => {
                    tracing::info!(pod = %pod.key, %node, error = %failed, "the request failed, but the pod is bound");
                    return Ok(());
                }
                Seen::Unbound if is_passing(&failed) => match again.next(None) {
                    Some(pause) if Instant::now() + pause < deadline => {
                        tracing::debug!(pod = %pod.key, error = %failed, "sending the binding again");
                        tokio::time::sleep(pause).await;
                    }
                    _ => return Err(text.into()),
                },
                Seen::Unbound | Seen::Otherwise => return Err(text.into()),
            }
        }
    }

    /// Reads whether this pod, with the same uid, is bound to `node`.
    async fn look(&self, pod: &Pod, node: &Str, looks_to_believe: u32) -> Seen {
        let mut backoff = Backoff::new(PAUSE, PAUSE_MAX, LOOKS - 1);
        let mut looked_unbound = 0;
        loop {
            let failed = match self.read(pod_path(&pod.key), LOOK_TIMEOUT).await {
                Ok(body) => {
                    let seen: WirePod = serde_json::from_slice(&body).unwrap_or_default();
                    match seen.spec.node_name.as_deref() {
                        _ if seen.metadata.uid != pod.uid.as_str() => return Seen::Otherwise,
                        None | Some("") => looked_unbound += 1,
                        Some(bound_to) if bound_to == node.as_str() => return Seen::Bound,
                        Some(_) => return Seen::Otherwise,
                    }
                    if looks_to_believe <= looked_unbound {
                        return Seen::Unbound;
                    }
                    None
                }
                Err(failed) if failed.is_not_found() => return Seen::Otherwise,
                Err(failed) => {
                    tracing::debug!(pod = %pod.key, error = %failed, "could not read the pod after a failed binding");
                    Some(failed)
                }
            };
            let Some(pause) = backoff.next(None) else { return Seen::Otherwise };
            match &failed {
                // When the process ends, an unreachable API server is not waited for.
                Some(failed) if !self.rest(pause, failed).await => return Seen::Otherwise,
                Some(_) => {}
                None => tokio::time::sleep(pause).await,
            }
        }
    }
}
