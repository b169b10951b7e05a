//! Compares what the engine knows with what the API server has: one node with its pods, and one page of pods without a
//! node, at a time.
//!
//! The requests are served from the watch cache of the API server. Since the watches of this instance may be a moment
//! behind, or ahead, only a difference that stays over several looks counts.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_api::wire::Object;
use plimsoll_api::{Kind, KindRef, Node, Pod, Str};
use plimsoll_engine::{Scheduler, ViewDifference};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::watch;

use super::SelfAudit;
use super::metrics::SelfAuditMetrics;
use crate::request::{GetError, get, whole};
use crate::serve::{EngineHandle, Unresponsive};
use crate::watch::encode;

/// The timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The largest response: a node has at most some hundred pods.
const LIMIT: usize = 32 << 20;
/// The number of pods without a node on a page.
const PAGE: usize = 100;
/// A difference counts if it is found in this many looks in a row.
const LOOKS: usize = 3;
/// At most this many differences are remembered, so that each is logged once. Further ones are counted only.
const REMEMBERED: usize = 1000;

/// Compares the engine with the API server.
pub(crate) struct ViewAudit {
    client: kube::Client,
    engine: EngineHandle,
    settings: SelfAudit,
    metrics: SelfAuditMetrics,
    /// The place of the next node.
    node: usize,
    /// Where the next page of pods without a node begins; empty for the first.
    next_page: String,
    /// The differences that were logged.
    logged: BTreeSet<ViewDifference>,
}

/// Why a look has failed.
#[derive(Debug, thiserror::Error)]
enum LookError {
    #[error(transparent)]
    Get(#[from] GetError),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Engine(#[from] Unresponsive),
}

/// A list, as far as it is read.
#[derive(Deserialize)]
struct List<'a> {
    #[serde(default)]
    metadata: ListMeta,
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
struct ListMeta {
    #[serde(default, rename = "continue")]
    next: Option<String>,
}

/// What is looked at.
#[derive(Clone, Debug)]
enum Subject {
    Node(Str),
    /// The page of pods without a node that begins there.
    Pending(String),
}

impl ViewAudit {
    pub(crate) fn new(
        client: kube::Client,
        engine: EngineHandle,
        settings: SelfAudit,
        metrics: SelfAuditMetrics,
    ) -> Self {
        let (node, next_page, logged) = (0, String::new(), BTreeSet::new());
        ViewAudit { client, engine, settings, metrics, node, next_page, logged }
    }

    /// Looks again and again, once `is_ready`. Ends with the engine.
    pub(crate) async fn run(mut self, mut is_ready: watch::Receiver<bool>) {
        if is_ready.wait_for(|is_ready| *is_ready).await.is_err() {
            return;
        }
        loop {
            tokio::time::sleep(self.settings.period).await;
            match self.look().await {
                Ok(()) => {}
                Err(LookError::Engine(_)) => return,
                Err(error) => {
                    tracing::debug!(%error, "could not compare the engine with the API server; it is tried again");
                }
            }
        }
    }

    async fn look(&mut self) -> Result<(), LookError> {
        let place = self.node;
        let node = self.engine.read(move |scheduler| scheduler.node_at(place)).await?;
        let Some(node) = node else {
            self.node = 0;
            return Ok(());
        };
        self.node += 1;
        self.compare(Subject::Node(node)).await?;
        self.metrics.checked("node_view", 1);
        let page = std::mem::take(&mut self.next_page);
        let compared = self.compare(Subject::Pending(page)).await;
        if matches!(&compared, Err(LookError::Get(error)) if error.code() == Some(410)) {
            // The page has expired: the next look begins with the first one.
            self.next_page.clear();
            return Ok(());
        }
        self.metrics.checked("pending_view", 1);
        compared
    }

    /// Counts what differs in several looks in a row.
    async fn compare(&mut self, subject: Subject) -> Result<(), LookError> {
        let mut stay = self.differences(&subject).await?;
        for _ in 1..LOOKS {
            if stay.is_empty() {
                return Ok(());
            }
            tokio::time::sleep(self.settings.settle).await;
            let again = self.differences(&subject).await?;
            stay.retain(|one| again.contains(one));
        }
        for difference in stay {
            self.metrics.differs(difference.kind);
            if REMEMBERED <= self.logged.len() || !self.logged.insert(difference.clone()) {
                continue;
            }
            let ViewDifference { kind, object, what } = &difference;
            tracing::error!(
                kind, %object, what,
                "an object is not known as the API server has it, so decisions may be wrong; delete the scheduler's pod to \
                 make it read the cluster again, and please report it"
            );
        }
        Ok(())
    }

    async fn differences(&mut self, subject: &Subject) -> Result<Vec<ViewDifference>, LookError> {
        match subject {
            Subject::Node(name) => {
                let path = |resource: &str, field: &str| {
                    format!("/api/v1/{resource}?fieldSelector={field}%3D{name}&resourceVersion=0")
                };
                let (nodes, _) = self.list::<Node>(&path("nodes", "metadata.name")).await?;
                let path = path("pods", "spec.nodeName");
                let (pods, _) = self.list::<Pod>(&path).await?;
                let pods = pods.into_iter().filter_map(pod_of).collect();
                let node = nodes.into_iter().find_map(|object| match object {
                    Object::Node(node) => Some(*node),
                    _ => None,
                });
                let Some(node) = node else {
                    let (kind, what) = ("Node", "is known, but does not exist");
                    let (object, name) = (name.to_string(), name.clone());
                    let knows = move |scheduler: &Scheduler| scheduler.knows_node(&name);
                    let is_known = self.engine.read(knows).await?;
                    let difference = ViewDifference { kind, object, what };
                    return Ok(is_known.then_some(difference).into_iter().collect());
                };
                let differ = move |scheduler: &Scheduler| scheduler.differences_on(&node, pods);
                Ok(self.engine.read(differ).await?)
            }
            Subject::Pending(page) => {
                let mut path = format!(
                    "/api/v1/pods?fieldSelector=spec.nodeName%3D%2Cstatus.phase%3DPending&limit={PAGE}"
                );
                if !page.is_empty() {
                    path.push_str("&continue=");
                    encode(page, &mut path);
                }
                let (pods, next) = self.list::<Pod>(&path).await?;
                self.next_page = next;
                let pods: Vec<_> = pods.into_iter().filter_map(pod_of).collect();
                Ok(self.engine.read(move |scheduler| scheduler.unknown_of(&pods)).await?)
            }
        }
    }

    /// The objects of a list that can be read, in whole or in part, and where the next page begins.
    async fn list<K: Kind>(&self, path: &str) -> Result<(Vec<Object>, String), LookError> {
        let response = get(&self.client, path, TIMEOUT).await?;
        let body = whole(response.into_body(), LIMIT).await?;
        let list: List<'_> = serde_json::from_slice(&body)?;
        let reader = KindRef::of::<K>().reader("v1").expect("pods and nodes are read in v1");
        let read = |item: &&RawValue| {
            let whole = reader.read(item.get()).ok();
            whole.or_else(|| reader.salvage(item.get()).ok().map(|salvaged| salvaged.object))
        };
        let objects = list.items.iter().flatten().filter_map(read).collect();
        Ok((objects, list.metadata.next.unwrap_or_default()))
    }
}

fn pod_of(object: Object) -> Option<Arc<Pod>> {
    match object {
        Object::Pod(pod) => Some(Arc::from(pod)),
        _ => None,
    }
}
