//! Transactions: changes of the cluster that are tried, and then rolled back exactly or committed.
//!
//! Within a transaction decisions are made about the cluster as it would be. A change costs what it changes, and rolling
//! it back costs the same, since what is remembered follows both.

use std::fmt;
use std::sync::Arc;

use plimsoll_api::{AnyObject, KindRef, Node, ObjectKey, Pod, PodKey, Str};
use plimsoll_framework::{PodInfo, Time, View};
use rand_pcg::Pcg64;

use crate::binding::BindingCycle;
use crate::cache::Savepoint;
use crate::cycle::{self, Cycle, CycleResult};
use crate::decide::DeciderKind;
use crate::decision::{Decision, Outcome};
use crate::event::Event;
use crate::explain::decision;
use crate::groups::{GivenNodes, GivenRows, GroupDecision};
use crate::metrics::{CycleMeter, Phases};
use crate::names::PodId;
use crate::node_judge::{ChangedPod, ClusterChanges, NodeJudge};
use crate::pick::TieBreaker;
use crate::profile::Profile;
use crate::queue::Attempt;
use crate::scheduler::{Detail, Scheduler};
use crate::unit::{Member, Snapshot};

/// Changes of the cluster that are rolled back unless they are [committed](Self::commit).
///
/// ```
/// # use plimsoll_api::{Node, Pod, PodKey};
/// # use plimsoll_engine::{Event, Observation, Outcome, Scheduler, TransactionError};
/// # use plimsoll_framework::Time;
/// # fn f(scheduler: &mut Scheduler, pod: Pod, node: Node) -> Result<(), TransactionError> {
/// // Would the pod fit if there were one more node?
/// let decision = scheduler.transaction(Time::ZERO, |transaction| {
///     transaction.set_node(node);
///     transaction.decide(pod)
/// })?;
/// # Ok(()) }
/// ```
pub struct Transaction<'a> {
    scheduler: &'a mut Scheduler,
    savepoint: Savepoint,
    is_committed: bool,
    /// The changes as events, to be observed if the outermost transaction is committed.
    events: Vec<Event>,
    /// The pods that were unknown before.
    new_pods: Vec<PodId>,
    /// The nominations that ended, and their nodes.
    nominations: Vec<(PodInfo, Str)>,
    nominated_revision: u64,
    rng: Pcg64,
    next_start: usize,
    /// The pods and nodes that have changed; `None` once something else has.
    changes: Option<ClusterChanges>,
}

/// Why a change is not possible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionError {
    /// There is no such node.
    UnknownNode(Str),
    /// The pod is on no node.
    NotOnNode(PodKey),
    /// The pod is already on this node. Evict it first.
    OnNode(PodKey, Str),
    /// No profile has the scheduler name of the pod.
    NoProfile(PodKey, Str),
}

impl fmt::Display for TransactionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TransactionError::UnknownNode(node) => {
                write!(f, "node {node:?} does not exist; add it first")
            }
            TransactionError::NotOnNode(pod) => write!(f, "pod {pod} is on no node"),
            TransactionError::OnNode(pod, node) => {
                write!(f, "pod {pod} is on node {node:?}; evict it first")
            }
            TransactionError::NoProfile(pod, name) => {
                write!(f, "pod {pod} has the schedulerName {name:?}, which no profile has")
            }
        }
    }
}

impl std::error::Error for TransactionError {}

impl fmt::Debug for Transaction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").field("events", &self.events).finish_non_exhaustive()
    }
}

impl Scheduler {
    /// Begins a transaction, and ends it after `work`. Rolled back, the scheduler is as if there had been no
    /// transaction. Committed, it is as if all changes had been observed at `now`, in their order.
    pub fn transaction<T>(&mut self, now: Time, work: impl FnOnce(&mut Transaction<'_>) -> T) -> T {
        self.cache.set_now(now);
        let mut transaction = Transaction::begin(self);
        let result = work(&mut transaction);
        let is_committed = transaction.is_committed;
        let events = transaction.roll_back();
        for event in events.into_iter().filter(|_| is_committed) {
            self.observe(now, event);
        }
        result
    }
}

impl<'a> Transaction<'a> {
    fn begin(scheduler: &'a mut Scheduler) -> Self {
        Transaction {
            changes: Some(ClusterChanges {
                since: scheduler.cache.revision(),
                pods: Vec::new(),
                nodes: Vec::new(),
            }),
            savepoint: scheduler.cache.savepoint(),
            is_committed: false,
            events: Vec::new(),
            new_pods: Vec::new(),
            nominations: Vec::new(),
            nominated_revision: scheduler.nominated.revision(),
            rng: scheduler.rng.clone(),
            next_start: scheduler.next_start,
            scheduler,
        }
    }

    /// Undoes everything, and returns the changes.
    fn roll_back(self) -> Vec<Event> {
        let Transaction { scheduler, savepoint, new_pods, nominations, nominated_revision, .. } =
            self;
        while let Some(is_of_node) = scheduler.cache.next_undo_is_of_node(&savepoint) {
            if is_of_node {
                scheduler.follow_changes();
            }
            scheduler.cache.undo_last();
            if is_of_node {
                scheduler.follow_changes();
            }
        }
        scheduler.cache.is_rolled_back(savepoint);
        scheduler.prepared_filters.forget_after(scheduler.cache.revision());
        for pod in new_pods.into_iter().rev() {
            scheduler.unlearn_pod(pod);
        }
        for (pod, node) in nominations.into_iter().rev() {
            scheduler.nominated.set(pod, node);
        }
        scheduler.nominated.changes_are_undone(nominated_revision);
        (scheduler.rng, scheduler.next_start) = (self.rng, self.next_start);
        self.events
    }

    /// Keeps the changes so far and those to come when the transaction ends.
    pub fn commit(&mut self) {
        self.is_committed = true;
    }

    /// A transaction within this one. Committed, its changes belong to this one; otherwise they are rolled back.
    pub fn transaction<T>(&mut self, work: impl FnOnce(&mut Transaction<'_>) -> T) -> T {
        let mut inner = Transaction::begin(self.scheduler);
        let result = work(&mut inner);
        if !inner.is_committed {
            inner.roll_back();
            return result;
        }
        let Transaction {
            scheduler,
            savepoint,
            mut events,
            mut new_pods,
            mut nominations,
            changes,
            ..
        } = inner;
        match (&mut self.changes, changes) {
            (Some(all), Some(mut inner)) => {
                all.pods.append(&mut inner.pods);
                all.nodes.append(&mut inner.nodes);
            }
            _ => self.changes = None,
        }
        scheduler.cache.commit(savepoint);
        self.events.append(&mut events);
        self.new_pods.append(&mut new_pods);
        self.nominations.append(&mut nominations);
        result
    }

    /// The cluster with the changes so far.
    pub fn view(&self) -> View<'_> {
        self.scheduler.view()
    }

    /// All known pods, both on nodes and pending, in no particular order.
    pub fn pods(&self) -> impl Iterator<Item = &PodInfo> {
        self.scheduler.pods()
    }

    /// Places a pod on a node: a pending one, or one that does not exist. Whether it fits is not asked.
    pub fn place(&mut self, pod: impl Into<Arc<Pod>>, node: &str) -> Result<(), TransactionError> {
        let scheduler = &mut *self.scheduler;
        let pod = scheduler.reckoned(pod.into());
        let Some(row) = scheduler.cache.row(node) else {
            return Err(TransactionError::UnknownNode(node.into()));
        };
        let known = scheduler.names.find(&pod.key);
        if let Some(on) = known.and_then(|id| scheduler.cache.pod(id)) {
            let node = on.node().cloned().unwrap_or_default();
            return Err(TransactionError::OnNode(pod.key.clone(), node));
        }
        let id = known.unwrap_or_else(|| {
            let id = scheduler.learn_pod(pod.clone());
            self.new_pods.push(id);
            id
        });
        if let Some(nominated) = scheduler.nominated.get(&pod.key).cloned()
            && let Some(node) = scheduler.nominated.remove(&pod.key)
        {
            self.nominations.push((nominated, node));
        }
        let mut bound = pod.clone();
        Arc::make_mut(&mut bound).node_name = Some(node.into());
        self.events.push(Event::pod(bound));
        let placed = PodInfo::from(pod).placed_on(node.into());
        note(&mut self.changes, ChangedPod::Added(placed.clone(), row));
        scheduler.cache.assume(id, placed, row);
        Ok(())
    }

    /// Removes a pod from its node.
    pub fn evict(&mut self, pod: &PodKey) -> Result<(), TransactionError> {
        let scheduler = &mut *self.scheduler;
        let id = scheduler.names.find(pod).filter(|&id| scheduler.cache.knows(id));
        let Some(id) = id else { return Err(TransactionError::NotOnNode(pod.clone())) };
        let row = scheduler.cache.row_of(id);
        let gone = scheduler.cache.remove_pod(id);
        match gone.zip(row) {
            Some((gone, row)) => note(&mut self.changes, ChangedPod::Removed(gone, row)),
            None => self.changes = None,
        }
        self.events.push(Event::pod_gone(pod.clone()));
        Ok(())
    }

    /// Adds a node, or changes the one of this name.
    pub fn set_node(&mut self, node: Node) {
        self.scheduler.follow_changes();
        self.scheduler.cache.set_node(node.clone());
        self.scheduler.follow_changes();
        if let Some((changes, row)) =
            self.changes.as_mut().zip(self.scheduler.cache.row(&node.name))
        {
            changes.nodes.push(row);
        }
        self.events.push(Event::Node(Box::new(crate::Observation::Is(node))));
    }

    /// Removes a node. Its pods stay, but count nowhere.
    pub fn remove_node(&mut self, name: &str) -> Result<(), TransactionError> {
        let name = Str::from(name);
        self.changes = None;
        self.scheduler.follow_changes();
        if self.scheduler.cache.remove_node(&name).is_none() {
            return Err(TransactionError::UnknownNode(name));
        }
        self.scheduler.follow_changes();
        self.events.push(Event::Node(Box::new(crate::Observation::Gone(name))));
        Ok(())
    }

    /// Adds or changes an object that is neither a pod nor a node.
    pub fn set_object(&mut self, object: impl Into<AnyObject>) {
        let object = object.into();
        self.changes = None;
        let kind = object.kind();
        let cache = &mut self.scheduler.cache;
        cache.change_object(kind, || object.key(), |stores| stores.set(&object));
        cache.objects_changed(kind);
        self.events.push(Event::object(object));
    }

    /// Removes such an object, if there is one.
    pub fn remove_object(&mut self, kind: KindRef, key: ObjectKey) {
        self.changes = None;
        let cache = &mut self.scheduler.cache;
        cache.change_object(kind, || key.clone(), |stores| stores.remove(kind, &key));
        cache.objects_changed(kind);
        self.events.push(Event::gone(kind, key));
    }

    /// Decides a pod, which may be pending, on a node, or not exist, as if it were tried now. The decision is not
    /// carried out; use [`place`](Self::place). Extenders are not called.
    pub fn decide(&mut self, pod: impl Into<Arc<Pod>>) -> Result<Decision, TransactionError> {
        self.decide_in_detail(pod, Detail::Outcome)
    }

    /// The same, with this much detail. With [`Detail::Nodes`] the decision is made from scratch.
    pub fn decide_in_detail(
        &mut self,
        pod: impl Into<Arc<Pod>>,
        detail: Detail,
    ) -> Result<Decision, TransactionError> {
        let pod = self.with_profile(pod.into())?;
        Ok(self.decide_with_cycle(&pod, detail).0)
    }

    /// Decides a pod, places it on its node, and runs Reserve there. What plugins then assume of objects, such as the devices of
    /// its claims, counts for the decisions that follow. If Reserve fails, the pod is placed nowhere, and the outcome is an error.
    /// If the transaction is committed, the pod is observed on its node, and nothing is reserved for it.
    pub fn decide_and_reserve(
        &mut self,
        pod: impl Into<Arc<Pod>>,
        detail: Detail,
    ) -> Result<Decision, TransactionError> {
        let pod = self.with_profile(pod.into())?;
        let (mut decision, cycle) = self.decide_with_cycle(&pod, detail);
        let CycleResult::Found { row, .. } = cycle.result else { return Ok(decision) };
        let node = self.scheduler.cache.view().nodes.name_of(row).clone();
        self.place(pod.seen().clone(), &node)?;
        let scheduler = &mut *self.scheduler;
        let id = scheduler.names.find(&pod.key).expect("it was just placed");
        let profile = scheduler.profiles.shared(&pod.scheduler_name).expect("it was just used");
        let attempt = Attempt { id, pod: pod.placed_on(node), number: decision.attempt };
        let now = scheduler.cache.view().stores.now;
        let reserved = scheduler.ask_on_trial(now, |backing| {
            BindingCycle::reserve(attempt, cycle.shared, &profile, backing)
        });
        if let Err(why) = reserved {
            self.evict(&pod.key)?;
            decision.outcome = Outcome::Error { message: why.message() };
        }
        Ok(decision)
    }

    fn decide_with_cycle(&mut self, pod: &PodInfo, detail: Detail) -> (Decision, Cycle) {
        let scheduler = &mut *self.scheduler;
        let usual = std::mem::replace(&mut scheduler.options.detail, detail);
        let cycle = scheduler.decide_alone(pod);
        scheduler.options.detail = usual;
        let view = scheduler.cache.view();
        let tried = scheduler.names.find(&pod.key).and_then(|id| scheduler.queue.get(id));
        let attempt = tried.map_or(0, |info| info.attempts) + 1;
        (decision(&pod.key, attempt, &cycle, view, detail), cycle)
    }

    /// Decides a pod from scratch as if it belonged to `profile`, which need not be a profile of this scheduler.
    pub fn decide_under(&self, profile: &Profile, pod: impl Into<Arc<Pod>>) -> Decision {
        let scheduler = &*self.scheduler;
        let pod = PodInfo::from(scheduler.reckoned(pod.into()));
        let (view, mut rng) = (scheduler.cache.view(), scheduler.rng.clone());
        let chance = &mut TieBreaker { tie_break: scheduler.options.tie_break, rng: &mut rng };
        let sample = scheduler.sample(profile);
        let on = Snapshot::of(view, &scheduler.nominated);
        let member = Member { profile, pod: &pod };
        let cycle = cycle::schedule(member, on, &sample, chance, CycleMeter::default());
        decision(&pod.key, 1, &cycle, view, Detail::Outcome)
    }

    /// Decides a group whose pending pods are `members`, which may be other than the scheduler knows them, or not exist.
    /// The decision is not carried out, and no member evicts others by itself. Extenders are not called. By the rules of 1.37
    /// it is that about the whole tree of groups: the pending pods of its other groups are tried as they are known.
    pub fn decide_group(
        &mut self,
        now: Time,
        group: &ObjectKey,
        members: impl IntoIterator<Item = Arc<Pod>>,
    ) -> Result<GroupDecision, TransactionError> {
        let pods = self.learn_members(members)?;
        Ok(self.scheduler.decide_group_alone(now, group, pods))
    }

    /// The same, with the best nodes of each member, along the way that another scheduler took: members of the group or of its
    /// tree for which nodes are `given` stand there when those after them are decided. Of several placements that are equally
    /// good, the one with these nodes is chosen.
    pub fn decide_group_with(
        &mut self,
        now: Time,
        group: &ObjectKey,
        members: impl IntoIterator<Item = Arc<Pod>>,
        given: &GivenNodes,
    ) -> Result<GroupDecision, TransactionError> {
        let pods = self.learn_members(members)?;
        let scheduler = &mut *self.scheduler;
        scheduler.given = scheduler.rows_of(given);
        let usual = std::mem::replace(&mut scheduler.options.detail, Detail::Outcome);
        let decision = scheduler.decide_group_alone(now, group, pods);
        scheduler.options.detail = usual;
        scheduler.given = GivenRows::default();
        Ok(decision)
    }

    /// Prepares the filters for a pod, to ask each of them about nodes. The pod may be pending, on a node, or not exist.
    pub fn judge(&mut self, pod: impl Into<Arc<Pod>>) -> Result<NodeJudge<'_>, TransactionError> {
        let pod = self.with_profile(pod.into())?;
        Ok(self.scheduler.judge(pod, self.changes.as_ref()))
    }

    /// The same, prepared without what earlier questions have left behind. It is slower, and says the same.
    pub fn judge_from_scratch(
        &self,
        pod: impl Into<Arc<Pod>>,
    ) -> Result<NodeJudge<'_>, TransactionError> {
        let pod = self.with_profile(pod.into())?;
        Ok(self.scheduler.judge_from_scratch(pod))
    }

    /// Members of a group as they are decided. Those that are unknown get names until the transaction is rolled back.
    fn learn_members(
        &mut self,
        members: impl IntoIterator<Item = Arc<Pod>>,
    ) -> Result<Vec<(PodId, PodInfo)>, TransactionError> {
        let mut pods = Vec::new();
        for pod in members {
            let pod = self.with_profile(pod)?;
            let known = self.scheduler.names.find(&pod.key);
            let id = known.unwrap_or_else(|| {
                let id = self.scheduler.learn_pod(pod.seen().clone());
                self.new_pods.push(id);
                id
            });
            if let Some(on) = self.scheduler.cache.pod(id) {
                let node = on.node().cloned().unwrap_or_default();
                return Err(TransactionError::OnNode(pod.key.clone(), node));
            }
            pods.push((id, pod));
        }
        Ok(pods)
    }

    /// The pod as it is decided, if some profile has its scheduler name.
    fn with_profile(&self, pod: Arc<Pod>) -> Result<PodInfo, TransactionError> {
        let pod = PodInfo::from(self.scheduler.reckoned(pod));
        if self.scheduler.profiles.get(&pod.scheduler_name).is_none() {
            let name = pod.scheduler_name.clone();
            return Err(TransactionError::NoProfile(pod.key.clone(), name));
        }
        Ok(pod)
    }
}

/// Notes that a pod came or went. With a pod of a group the group changes, too.
fn note(changes: &mut Option<ClusterChanges>, one: ChangedPod) {
    let (ChangedPod::Added(pod, _) | ChangedPod::Removed(pod, _)) = &one;
    match changes {
        Some(changes) if pod.scheduling_group.is_none() => changes.pods.push(one),
        _ => *changes = None,
    }
}

impl Scheduler {
    /// Decides a pod, and does and counts nothing else.
    pub(crate) fn decide_alone(&mut self, pod: &PodInfo) -> Cycle {
        if let Some(memo) = &mut self.memo {
            memo.begin(Phases::default(), Detail::None);
        }
        self.refresh_memo();
        let (kind, cycle) = self.decide_in_order(pod);
        if kind == DeciderKind::FromScratch {
            self.note_diagnosis(pod, &cycle);
        }
        cycle
    }
}
