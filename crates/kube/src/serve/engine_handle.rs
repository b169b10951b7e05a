//! A handle that queries the engine, which runs on its own thread.

use std::collections::VecDeque;
use std::fmt;

use plimsoll_api::{ObjectKey, PodKey};
use plimsoll_engine::metrics::Family;
use plimsoll_engine::{ClusterSnapshot, PendingPod, Scheduler};
use plimsoll_framework::{GroupForest, GroupRef, PodGroupState, PodInfo, Time};
use plimsoll_ui::{ClusterAndQueue, CountedCluster, QueuedRow};
use tokio::sync::{mpsc, oneshot};

use super::scheduler_view::{Explained, Unresponsive};

/// At most this many queries wait for the engine. This is more than the number of concurrent requests.
const MAX_QUERIES: usize = 64;

/// The longest text about nodes, pods and the queue, in bytes: enough for 100,000 pods.
const DUMP_BYTES: usize = 16 * 1024 * 1024;

/// How many pods, nodes and other objects are read for a snapshot between two decisions. On a slow machine each takes 0.1 µs.
const MOST_IN_PART: usize = 8192;

/// A query of the engine, with the channel for its answer.
#[derive(Debug)]
pub struct EngineQuery(QueryKind);

#[derive(Debug)]
enum QueryKind {
    Metrics(oneshot::Sender<Vec<Family>>),
    ResetMetrics(oneshot::Sender<()>),
    Explain(PodKey, oneshot::Sender<Explained>),
    Dump(oneshot::Sender<String>),
    Snapshot(SnapshotQuery),
    Counts(oneshot::Sender<CountedCluster>),
    Read(Reading),
}

/// A snapshot, with what is known of a pod, of a group or of the whole queue at that moment.
#[derive(Debug)]
enum SnapshotQuery {
    Pod(Option<PodKey>, oneshot::Sender<(ClusterSnapshot, Option<PendingPod>)>),
    Group(ObjectKey, oneshot::Sender<(ClusterSnapshot, Vec<PendingPod>)>),
    Queue(oneshot::Sender<ClusterAndQueue>),
}

/// What is known of pods at the moment of a snapshot.
#[derive(Debug, Default)]
struct KnownPods {
    /// The pods that are asked about, if they are pending.
    pending: Vec<PendingPod>,
    /// All pods of the queue, if it is asked for.
    queue: Vec<QueuedRow>,
}

impl SnapshotQuery {
    /// Whether nobody waits for it any more.
    fn is_closed(&self) -> bool {
        match self {
            SnapshotQuery::Pod(_, to) => to.is_closed(),
            SnapshotQuery::Group(_, to) => to.is_closed(),
            SnapshotQuery::Queue(to) => to.is_closed(),
        }
    }

    /// What is known of the pod, of the pods of the group and of the others of its tree, or of the queue.
    fn known(&self, scheduler: &Scheduler) -> KnownPods {
        let mut known = KnownPods::default();
        match self {
            SnapshotQuery::Pod(pod, _) => {
                let pending = pod.iter().filter_map(|pod| scheduler.pending_state(pod));
                known.pending.extend(pending);
            }
            SnapshotQuery::Group(group, _) => {
                let stores = scheduler.view().stores;
                let forest = GroupForest::of(stores, scheduler.group_gates());
                let asked = match (stores.groups.get(group), forest.composite(group)) {
                    (None, Some(_)) => GroupRef::Composite(group.clone()),
                    (_, _) => GroupRef::Pods(group.clone()),
                };
                // All groups of a tree are decided together.
                let root = forest.chain(asked.clone()).ok().and_then(|mut chain| chain.pop());
                let leaves = forest.leaves(&root.unwrap_or(asked));
                let states = leaves.iter().filter_map(|leaf| stores.groups.get(leaf));
                let pods = states.flat_map(PodGroupState::pods);
                known.pending.extend(pods.filter_map(|pod| scheduler.pending_state(pod)));
            }
            SnapshotQuery::Queue(_) => known.queue = QueuedRow::all_of(scheduler),
        }
        known
    }

    fn answer(self, cluster: ClusterSnapshot, KnownPods { pending, queue }: KnownPods) {
        match self {
            SnapshotQuery::Pod(_, to) => drop(to.send((cluster, pending.into_iter().next()))),
            SnapshotQuery::Group(_, to) => drop(to.send((cluster, pending))),
            SnapshotQuery::Queue(to) => drop(to.send(ClusterAndQueue { cluster, queue })),
        }
    }
}

/// The snapshots that somebody waits for, which are taken in parts one after the other, so that decisions hardly wait.
#[derive(Debug, Default)]
pub(crate) struct SnapshotQueries {
    /// The one that is being taken, with what is known of the pods that it is about.
    begun: Option<(SnapshotQuery, KnownPods)>,
    waiting: VecDeque<SnapshotQuery>,
}

impl SnapshotQueries {
    /// Whether there is something to do.
    pub(crate) fn are_waiting(&self) -> bool {
        self.begun.is_some() || !self.waiting.is_empty()
    }

    /// Takes the next part of a snapshot, and answers if it is the last one.
    pub(crate) fn go_on(&mut self, now: Time, scheduler: &mut Scheduler) {
        if self.begun.as_ref().is_some_and(|(query, _)| query.is_closed()) {
            self.begun = None;
            scheduler.give_up_snapshot();
        }
        if self.begun.is_none() {
            self.waiting.retain(|query| !query.is_closed());
            self.begun = self.waiting.pop_front().map(|query| {
                scheduler.begin_snapshot(now);
                let known = query.known(scheduler);
                (query, known)
            });
        }
        if self.begun.is_some()
            && let Some(snapshot) = scheduler.go_on_with_snapshot(MOST_IN_PART)
            && let Some((query, known)) = self.begun.take()
        {
            query.answer(snapshot, known);
        }
    }
}

/// Reads something of the engine, and sends it.
struct Reading(Box<dyn FnOnce(&Scheduler) + Send>);

impl fmt::Debug for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reading").finish_non_exhaustive()
    }
}

impl EngineQuery {
    /// Answers the query between two decisions. A snapshot is only noted: it is taken in parts.
    pub(crate) fn answer_in_parts(
        self,
        now: Time,
        scheduler: &mut Scheduler,
        snapshots: &mut SnapshotQueries,
    ) {
        match self.0 {
            QueryKind::Snapshot(query) => snapshots.waiting.push_back(query),
            _ => self.answer(now, scheduler),
        }
    }

    /// Answers the query at once. This decides nothing, and changes nothing except counters. The client may
    /// already be gone.
    pub fn answer(self, now: Time, scheduler: &mut Scheduler) {
        match self.0 {
            QueryKind::Metrics(to) => drop(to.send(scheduler.metrics())),
            QueryKind::ResetMetrics(to) => {
                scheduler.reset_metrics();
                let _ = to.send(());
            }
            // The most expensive query: skip it if nobody waits for the answer any more.
            QueryKind::Explain(_, to) if to.is_closed() => {}
            QueryKind::Explain(pod, to) => drop(to.send(explain(scheduler, &pod))),
            QueryKind::Snapshot(query) if query.is_closed() => {}
            QueryKind::Snapshot(query) => {
                let known = query.known(scheduler);
                query.answer(scheduler.snapshot(now), known);
            }
            QueryKind::Counts(to) if to.is_closed() => {}
            QueryKind::Counts(to) => drop(to.send(CountedCluster::of(scheduler, now))),
            QueryKind::Read(Reading(read)) => read(scheduler),
            QueryKind::Dump(to) => drop(to.send(scheduler.dump(now, DUMP_BYTES))),
        }
    }
}

fn explain(scheduler: &Scheduler, pod: &PodKey) -> Explained {
    match scheduler.explain(pod) {
        Some(decision) => Explained::Decision(Box::new(decision)),
        None if scheduler.knows_pod(pod) => Explained::Placed,
        None => Explained::Unknown,
    }
}

/// Sends queries to the engine's thread, which answers each with [`EngineQuery::answer`].
#[derive(Clone, Debug)]
pub struct EngineHandle {
    queries: mpsc::Sender<EngineQuery>,
}

impl EngineHandle {
    /// A handle, and the receiver for the engine's thread.
    pub fn new() -> (Self, mpsc::Receiver<EngineQuery>) {
        let (queries, receiver) = mpsc::channel(MAX_QUERIES);
        (EngineHandle { queries }, receiver)
    }

    /// All metrics of the engine.
    pub async fn metrics(&self) -> Result<Vec<Family>, Unresponsive> {
        self.query(QueryKind::Metrics).await
    }

    /// Resets the metrics of the engine.
    pub async fn reset_metrics(&self) -> Result<(), Unresponsive> {
        self.query(QueryKind::ResetMetrics).await
    }

    /// What would be decided about a pending pod, and why.
    pub async fn explain(&self, pod: PodKey) -> Result<Explained, Unresponsive> {
        self.query(|to| QueryKind::Explain(pod, to)).await
    }

    /// All known pods.
    pub async fn pods(&self) -> Result<Vec<PodInfo>, Unresponsive> {
        self.snapshot(None).await.map(|(snapshot, _)| snapshot.pods)
    }

    /// The engine's view of the cluster, as text for people.
    pub async fn dump(&self) -> Result<String, Unresponsive> {
        self.query(QueryKind::Dump).await
    }

    /// The cluster at this moment, and what is known of `pod` if that is pending.
    pub async fn snapshot(
        &self,
        pod: Option<PodKey>,
    ) -> Result<(ClusterSnapshot, Option<PendingPod>), Unresponsive> {
        self.query(|to| QueryKind::Snapshot(SnapshotQuery::Pod(pod, to))).await
    }

    /// The cluster at this moment, and what is known of those pods of `group`, and of the other groups of its tree, that are
    /// pending.
    pub async fn snapshot_of_group(
        &self,
        group: ObjectKey,
    ) -> Result<(ClusterSnapshot, Vec<PendingPod>), Unresponsive> {
        self.query(|to| QueryKind::Snapshot(SnapshotQuery::Group(group, to))).await
    }

    /// The cluster at this moment, and its queue.
    pub async fn picture(&self) -> Result<ClusterAndQueue, Unresponsive> {
        self.query(|to| QueryKind::Snapshot(SnapshotQuery::Queue(to))).await
    }

    /// The nodes at this moment with what is on them, and how many pods there are.
    pub async fn counts(&self) -> Result<CountedCluster, Unresponsive> {
        self.query(QueryKind::Counts).await
    }

    /// What `read` finds. It runs on the engine's thread, so it should be quick.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Scheduler) -> T + Send + 'static,
    ) -> Result<T, Unresponsive> {
        self.query(|to| {
            QueryKind::Read(Reading(Box::new(move |scheduler: &Scheduler| {
                drop(to.send(read(scheduler)));
            })))
        })
        .await
    }

    async fn query<T>(
        &self,
        kind: impl FnOnce(oneshot::Sender<T>) -> QueryKind,
    ) -> Result<T, Unresponsive> {
        let (to, answer) = oneshot::channel();
        self.queries.send(EngineQuery(kind(to))).await.map_err(|_| Unresponsive)?;
        answer.await.map_err(|_| Unresponsive)
    }
}
