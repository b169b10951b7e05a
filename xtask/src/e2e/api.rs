//! Requests to the API server.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use http::{Method, Request};
use kube::client::Body;
use plimsoll_kube::client::{Access, RestMetrics, connect};
use plimsoll_kube::limit::Rate;
use serde_json::{Value, json};

use super::{Workload, objects};

/// At most 64 requests are in flight at once.
pub(super) const AT_ONCE: usize = 64;
/// Events are listed in pages of 2,000.
const PAGE: usize = 2000;
/// How long deleted pods may take to disappear, and how often to check.
const PATIENCE: Duration = Duration::from_mins(5);
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The API server, and the namespace of the pods.
#[derive(Clone)]
pub(super) struct Api {
    client: kube::Client,
    pub(super) namespace: String,
}

/// A new name for the namespace: the last one may still be terminating, and nothing can be created in it.
pub(super) fn fresh_namespace() -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("plimsoll-e2e-{:x}", now.as_nanos())
}

impl Api {
    pub(super) async fn connect(kubeconfig: &Path, namespace: &str) -> Result<Self> {
        let access = Access { kubeconfig: Some(kubeconfig.to_owned()), ..Access::default() };
        let connection = connect(access, Arc::new(RestMetrics::default())).await?;
        let client = connection.client("e2e", Rate::UNLIMITED);
        Ok(Api { client, namespace: namespace.to_owned() })
    }

    /// The path of the pods.
    pub(super) fn pods(&self) -> String {
        format!("/api/v1/namespaces/{}/pods", self.namespace)
    }

    /// The path of the events.
    pub(super) fn events(&self) -> String {
        format!("/apis/events.k8s.io/v1/namespaces/{}/events", self.namespace)
    }

    /// Sends a request and returns the answer. A conflict is not an error: the object exists already.
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

    /// Creates nodes, pods, and their Services and ReplicaSets, or PodGroups.
    pub(super) async fn make(
        &self,
        nodes: usize,
        pods: usize,
        workload: Workload,
        scheduler_name: &str,
    ) -> Result<()> {
        let name = self.namespace.as_str();
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.create_all("/api/v1/namespaces", std::iter::once(namespace)).await?;
        self.create_all("/api/v1/nodes", (0..nodes).map(objects::node)).await?;
        if workload == Workload::Deployments {
            let services = (0..objects::DEPLOYMENTS).map(|number| objects::service(name, number));
            self.create_all(&self.services(), services).await?;
            let sets = (0..objects::DEPLOYMENTS).map(|number| objects::replica_set(name, number));
            self.create_all(&self.replica_sets(), sets).await?;
        }
        if workload == Workload::Gangs {
            let groups =
                (0..objects::gangs(pods)).map(|number| objects::pod_group(name, number, pods));
            self.create_all(&self.pod_groups(), groups).await?;
        }
        let pod = |number| objects::pod(name, number, workload, scheduler_name);
        self.create_all(&self.pods(), (0..pods).map(pod)).await
    }

    fn services(&self) -> String {
        format!("/api/v1/namespaces/{}/services", self.namespace)
    }

    fn replica_sets(&self) -> String {
        format!("/apis/apps/v1/namespaces/{}/replicasets", self.namespace)
    }

    fn pod_groups(&self) -> String {
        format!("/apis/{}/namespaces/{}/podgroups", objects::GROUP_VERSION, self.namespace)
    }

    /// Deletes everything. The namespace may still be terminating afterwards, but it is empty: remaining pods would use
    /// resources on the nodes of the next run.
    pub(super) async fn clean(&self, nodes: usize) -> Result<()> {
        // Nothing runs in these pods, so they need no grace period.
        let at_once = json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0});
        for path in [self.pods(), self.events(), self.replica_sets()] {
            self.send(Method::DELETE, &path, Some(&at_once)).await?;
        }
        let begun = Instant::now();
        while self.is_any("").await? {
            ensure!(begun.elapsed() < PATIENCE, "deleted pods still exist after {PATIENCE:?}");
            tokio::time::sleep(LOOK_EVERY).await;
        }
        let paths =
            (0..nodes).map(|number| format!("/api/v1/nodes/{}", objects::node_name(number)));
        let gone = stream::iter(paths)
            .map(|path| async move { self.send(Method::DELETE, &path, None).await });
        gone.buffer_unordered(AT_ONCE).try_for_each(|_| async { Ok(()) }).await?;
        let path = format!("/api/v1/namespaces/{}", self.namespace);
        self.send(Method::DELETE, &path, None).await?;
        Ok(())
    }

    /// Whether some pod is bound.
    pub(super) async fn has_bound(&self) -> Result<bool> {
        self.is_any("&fieldSelector=spec.nodeName!%3D").await
    }

    /// Whether some pod is not bound.
    pub(super) async fn has_unbound(&self) -> Result<bool> {
        self.is_any("&fieldSelector=spec.nodeName%3D").await
    }

    async fn is_any(&self, selection: &str) -> Result<bool> {
        let path = format!("{}?limit=1{selection}", self.pods());
        let list = self.send(Method::GET, &path, None).await?;
        Ok(list["items"].as_array().is_some_and(|items| !items.is_empty()))
    }

    /// Whether there are at least `wanted` events. This is cheap, since the measured process needs the API server, too.
    pub(super) async fn has_events(&self, wanted: usize) -> Result<bool> {
        let list = self.send(Method::GET, &format!("{}?limit=1", self.events()), None).await?;
        let items = list["items"].as_array().map_or(0, Vec::len);
        let more = list["metadata"]["remainingItemCount"].as_u64().unwrap_or(0);
        Ok(wanted <= items.saturating_add(usize::try_from(more)?))
    }

    /// How many pods have an event that says they were scheduled.
    pub(super) async fn told(&self) -> Result<usize> {
        let mut pods = BTreeSet::new();
        let mut proceed = String::new();
        loop {
            let path = format!("{}?limit={PAGE}&continue={proceed}", self.events());
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
