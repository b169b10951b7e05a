//! A binder that makes no decisions. It shows how fast the API server can bind.

use std::path::Path;

use anyhow::Result;
use futures::{StreamExt, TryStreamExt, stream};
use http::Method;
use serde_json::json;

use super::api::{AT_ONCE, Api};

/// Binds each pod to the next node and writes an event, until all are bound; then waits to be killed.
pub(crate) fn bind(kubeconfig: &Path, namespace: &str) -> Result<()> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let api = &Api::connect(kubeconfig, namespace).await?;
        let nodes = &api.names("/api/v1/nodes").await?;
        let pods = api.names(&api.pods()).await?;
        let bound = stream::iter(pods.into_iter().enumerate()).map(|(number, (pod, uid))| async move {
            let (node, _) = &nodes[number % nodes.len()];
            let binding = json!({
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": pod, "namespace": namespace, "uid": uid},
                "target": {"kind": "Node", "name": node},
            });
            let path = format!("{}/{pod}/binding", api.pods());
            api.send(Method::POST, &path, Some(&binding)).await?;
            let event = json!({
                "apiVersion": "events.k8s.io/v1",
                "kind": "Event",
                "metadata": {"name": format!("{pod}.{number:x}"), "namespace": namespace},
                "eventTime": "2026-01-01T00:00:00.000000Z",
                "reportingController": "binder",
                "reportingInstance": "binder-0",
                "action": "Binding",
                "reason": "Scheduled",
                "type": "Normal",
                "note": format!("Successfully assigned {namespace}/{pod} to {node}"),
                "regarding": {"kind": "Pod", "namespace": namespace, "name": pod, "uid": uid, "apiVersion": "v1"},
            });
            api.send(Method::POST, &api.events(), Some(&event)).await
        });
        bound.buffer_unordered(AT_ONCE).try_for_each(|_| async { Ok(()) }).await?;
        // The cost is read while the process is still running.
        std::future::pending().await
    })
}
