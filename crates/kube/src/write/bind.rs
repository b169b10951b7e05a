//! Binding: a pod gets its node. Sent once, and looked after where the answer was lost.

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

/// How often a pod is looked at, and how long each look may take.
const LOOKS: u32 = 4;
const LOOK_TIMEOUT: Duration = Duration::from_secs(3);
/// Pauses between looks, and how long all of it takes at most.
const PAUSE: Duration = Duration::from_millis(300);
const PAUSE_MAX: Duration = Duration::from_secs(1);
const LOOKING_MAX: Duration = Duration::from_secs(17);

/// A pod must look unbound so often before we believe that it is. A write whose connection broke may be
/// done a moment later.
const LOOKS_TO_BELIEVE: u32 = 2;

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

/// v1 Pod, as far as it says where it is.
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
        let answered = self.deliver(&ask, Again::IfNotTaken, earlier(deadline, LOOKING_MAX)).await;
        let Err(failed) = answered else { return Ok(()) };
        let text = failed.to_string();
        let looks = match &failed {
            failed if is_about_deleted(failed) => return Err(Unwritten::PodDeleted(text)),
            // Somebody has bound it: perhaps we, by a request that was thought to be lost.
            Failed::Refused(refusal) if refusal.code == StatusCode::CONFLICT => 1,
            failed if may_be_done(failed) => LOOKS_TO_BELIEVE,
            _ => return Err(text.into()),
        };
        if self.is_bound(pod, node, looks).await {
            tracing::info!(pod = %pod.key, %node, error = %failed, "it is bound all the same");
            return Ok(());
        }
        Err(text.into())
    }

    /// Whether this very pod is bound to `node`, as far as can be learnt.
    async fn is_bound(&self, pod: &Pod, node: &Str, looks_to_believe: u32) -> bool {
        let mut backoff = Backoff::new(PAUSE, PAUSE_MAX, LOOKS - 1);
        let mut looked_unbound = 0;
        loop {
            match self.read(pod_path(&pod.key), LOOK_TIMEOUT).await {
                Ok(body) => {
                    let seen: WirePod = serde_json::from_slice(&body).unwrap_or_default();
                    match seen.spec.node_name.as_deref() {
                        _ if seen.metadata.uid != pod.uid.as_str() => return false,
                        None | Some("") => looked_unbound += 1,
                        Some(bound_to) => return bound_to == node.as_str(),
                    }
                    if looks_to_believe <= looked_unbound {
                        return false;
                    }
                }
                Err(failed) if failed.is_not_found() => return false,
                Err(error) => {
                    tracing::debug!(pod = %pod.key, %error, "could not look at the pod");
                }
            }
            match backoff.next(None) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return false,
            }
        }
    }
}
