//! What is asked of the API server.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use futures::{StreamExt, TryStreamExt, stream};
use http::{Method, Request};
use kube::client::Body;
use plimsoll_kube::client::{Access, RestMetrics, connect};
use plimsoll_kube::limit::Rate;
use serde_json::{Value, json};

use super::{Workload, objects};

/// So many requests are under way at once.
pub(super) const AT_ONCE: usize = 64;
/// Where the pods are.
pub(super) const NAMESPACE: &str = "plimsoll-e2e";

/// Where the events are.
const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/plimsoll-e2e/events";
/// So many are read at once.
const PAGE: usize = 2000;

/// The API server.
#[derive(Clone)]
pub(super) struct Api {
    client: kube::Client,
}

impl Api {
    pub(super) async fn connect(kubeconfig: &Path) -> Result<Self> {
        let access = Access { kubeconfig: Some(kubeconfig.to_owned()), ..Access::default() };
        let connection = connect(access, Arc::new(RestMetrics::default())).await?;
        Ok(Api { client: connection.client("e2e", Rate::UNLIMITED) })
    }

    /// Sends a request; the answer, unless it is refused. What is there already is no error.
    pub(super) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value> {
        let bytes = body.map(serde_json::to_vec).transpose()?.unwrap_or_default();
        let request = Request::builder()
            .method(method.clone())
            .uri(path)
            .header("content-type", "application/json")
            .header("accept", "application/json")
            .body(Body::from(bytes))?;
        let answer = self.client.send(request).await.with_context(|| format!("{method} {path}"))?;
        let status = answer.status();
        let bytes = answer.into_body().collect_bytes().await?;
        if !status.is_success() && status != http::StatusCode::CONFLICT {
            bail!("{method} {path}: {status}: {}", String::from_utf8_lossy(&bytes));
        }
        Ok(serde_json::from_slice(&bytes)?)
    }

    async fn create_all(&self, path: &str, all: impl Iterator<Item = Value>) -> Result<()> {
        let made = stream::iter(all)
            .map(|object| async move { self.send(Method::POST, path, Some(&object)).await });
        made.buffer_unordered(AT_ONCE).try_for_each(|_| async { Ok(()) }).await
    }

    /// Makes nodes, pods and what they belong to.
    pub(super) async fn make(
        &self,
        nodes: usize,
        pods: usize,
        workload: Workload,
        scheduler_name: &str,
    ) -> Result<()> {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        self.create_all("/api/v1/namespaces", std::iter::once(namespace)).await?;
        self.create_all("/api/v1/nodes", (0..nodes).map(objects::node)).await?;
        if workload == Workload::Deployments {
            let path = format!("/api/v1/namespaces/{NAMESPACE}/services");
            self.create_all(&path, (0..objects::DEPLOYMENTS).map(objects::service)).await?;
            let path = format!("/apis/apps/v1/namespaces/{NAMESPACE}/replicasets");
            self.create_all(&path, (0..objects::DEPLOYMENTS).map(objects::replica_set)).await?;
        }
        let path = format!("/api/v1/namespaces/{NAMESPACE}/pods");
        let pod = |number| objects::pod(number, workload, scheduler_name);
        self.create_all(&path, (0..pods).map(pod)).await
    }

    /// Deletes all of it.
    pub(super) async fn clean(&self, nodes: usize) -> Result<()> {
        for path in [
            format!("/api/v1/namespaces/{NAMESPACE}/pods"),
            EVENTS.to_owned(),
            format!("/apis/apps/v1/namespaces/{NAMESPACE}/replicasets"),
        ] {
            self.send(Method::DELETE, &path, None).await?;
        }
        let paths =
            (0..nodes).map(|number| format!("/api/v1/nodes/{}", objects::node_name(number)));
        let gone = stream::iter(paths)
            .map(|path| async move { self.send(Method::DELETE, &path, None).await });
        gone.buffer_unordered(AT_ONCE).try_for_each(|_| async { Ok(()) }).await?;
        self.send(Method::DELETE, &format!("/api/v1/namespaces/{NAMESPACE}"), None).await?;
        Ok(())
    }

    /// Whether some pod is bound.
    pub(super) async fn has_bound(&self) -> Result<bool> {
        self.has("spec.nodeName!%3D").await
    }

    /// Whether some pod is not.
    pub(super) async fn has_unbound(&self) -> Result<bool> {
        self.has("spec.nodeName%3D").await
    }

    async fn has(&self, selector: &str) -> Result<bool> {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/pods?limit=1&fieldSelector={selector}");
        let list = self.send(Method::GET, &path, None).await?;
        Ok(list["items"].as_array().is_some_and(|items| !items.is_empty()))
    }

    /// Whether there are so many events. As cheap as may be: what is measured needs the API server, too.
    pub(super) async fn has_events(&self, wanted: usize) -> Result<bool> {
        let list = self.send(Method::GET, &format!("{EVENTS}?limit=1"), None).await?;
        let items = list["items"].as_array().map_or(0, Vec::len);
        let more = list["metadata"]["remainingItemCount"].as_u64().unwrap_or(0);
        Ok(wanted <= items.saturating_add(usize::try_from(more)?))
    }

    /// Of how many pods events say that they were scheduled.
    pub(super) async fn told(&self) -> Result<usize> {
        let mut pods = BTreeSet::new();
        let mut proceed = String::new();
        loop {
            let path = format!("{EVENTS}?limit={PAGE}&continue={proceed}");
            let mut list = self.send(Method::GET, &path, None).await?;
            let events = list["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
            pods.extend(
                events.into_iter().filter(|event| event["reason"] == "Scheduled").filter_map(
                    |mut event| match event["regarding"]["name"].take() {
                        Value::String(pod) => Some(pod),
                        _ => None,
                    },
                ),
            );
            match list["metadata"]["continue"].as_str().filter(|token| !token.is_empty()) {
                Some(token) => token.clone_into(&mut proceed),
                None => return Ok(pods.len()),
            }
        }
    }

    /// The names of all objects at `path`.
    pub(super) async fn names(&self, path: &str) -> Result<Vec<(String, String)>> {
        let list = self.send(Method::GET, path, None).await?;
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let name = |item: &Value| (text(&item["metadata"]["name"]), text(&item["metadata"]["uid"]));
        Ok(items.iter().map(name).collect())
    }
}
