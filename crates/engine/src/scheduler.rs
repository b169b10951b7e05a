//! The scheduler: handles events, and returns effects step by step.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_api::{CompositePodGroup, KindRef, Kinds, Pod, PodGroup, PodKey, Str};
use plimsoll_framework::pod_groups::group_of;
use plimsoll_framework::{
    GroupForest, GroupGates, NominatedPods, PodEvent, PodInfo, Point, Release, Time, View,
    WaitingDecision, WaitingPod, WriteError,
};
use rand::SeedableRng;
use rand_pcg::Pcg64;

use crate::audit::Audit;
use crate::bindings::Bindings;
use crate::by_pod::ByPod;
use crate::cache::Cache;
use crate::decision::Decision;
use crate::effect::Effect;
use crate::extenders::{Extenders, GroupConsultation};
use crate::gates::Gates;
use crate::groups::{GivenRows, GroupDecision, Groups, Reservation, Reservations};
use crate::memo::Memo;
use crate::metrics::{PluginMetrics, SchedulerCounters, Stopwatch};
use crate::names::{PodId, PodNames};
use crate::node_judge::PreparedFilters;
use crate::pauses::Pauses;
use crate::pick::TieBreak;
use crate::preemption::{CancelledBinding, Evictions};
use crate::profile::{Profile, ProfileError};
use crate::profiles::Profiles;
use crate::queue::{Backoff, Queue, QueuedPodInfo, Ready, Surroundings};
use crate::recorder::Recorder;
use crate::refusals::Refusals;
use crate::snapshot::SnapshotInParts;
use crate::waiting::WaitingAtPermit;
use crate::writes::{RequestedWrite, SentWrites};

/// How much detail of a decision is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// Nothing: decisions are not kept.
    #[default]
    None,
    /// The outcome, with the chosen node but without the nodes that are as good.
    Choice,
    /// The outcome.
    Outcome,
    /// The outcome and every node.
    Nodes,
}

/// How decisions are made. Both engines make the same decisions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// From remembered results, where possible.
    #[default]
    Fast,
    /// From scratch.
    Reference,
}

/// When [`Engine::Fast`] scans all nodes, instead of only those that have changed since an equal pod
/// was decided. The decisions are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scans {
    /// If it costs less.
    #[default]
    WhereCheaper,
    /// Whenever possible.
    Always,
    /// Never.
    Never,
}

/// Options in addition to the profiles.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The release that decides, which all profiles must have.
    pub release: Release,
    /// How decisions are made.
    pub engine: Engine,
    /// When all nodes are scanned.
    pub scans: Scans,
    /// Every n-th decision of [`Engine::Fast`] is also made from scratch and compared; 0 for none.
    pub audit_every: u32,
    /// The feature gates.
    pub gates: Gates,
    /// How one of several equally good nodes is chosen.
    pub tie_break: TieBreak,
    /// How much detail of a decision is kept for [`Scheduler::take_decisions`].
    pub detail: Detail,
    /// How long pods wait after failures.
    pub backoff: Backoff,
    /// How long a pod may wait for a change before it is tried anyway
    /// (`--pod-max-in-unschedulable-pods-duration`).
    pub max_in_unschedulable: Duration,
    /// How long to wait for the answer to a write.
    pub write_timeout: Duration,
    /// When room is reserved for groups that wait for too long; `None` for never, as in kube-scheduler.
    pub reservations: Option<Reservations>,
    /// The clock for [`Scheduler::metrics`]; it does not influence decisions. Without one no durations
    /// are measured.
    pub stopwatch: Option<Stopwatch>,
}

impl Default for Options {
    /// As in the newest kube-scheduler, except that the smallest name wins among equally good nodes.
    /// The write timeout is a minute, and one decision in 1,000 is audited.
    fn default() -> Self {
        Options {
            release: Release::NEWEST,
            engine: Engine::Fast,
            scans: Scans::WhereCheaper,
            audit_every: 1000,
            gates: Gates::default(),
            tie_break: TieBreak::First,
            detail: Detail::None,
            backoff: Backoff::default(),
            max_in_unschedulable: Duration::from_mins(5),
            write_timeout: Duration::from_mins(1),
            reservations: None,
            stopwatch: None,
        }
    }
}

/// When to call [`Scheduler::step`] next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// There is more to do now.
    Again,
    /// Nothing before this time, unless there is an event.
    At(Time),
    /// Nothing, unless there is an event.
    Idle,
}

/// A scheduler: a fold over events. It reads no clock, does no IO and takes randomness only from its
/// seed, so the same events at the same times give the same effects.
pub struct Scheduler {
    pub(crate) profiles: Profiles,
    pub(crate) options: Options,
    pub(crate) rng: Pcg64,
    pub(crate) names: PodNames,
    pub(crate) cache: Cache,
    pub(crate) queue: Queue,
    pub(crate) bindings: Bindings,
    pub(crate) extenders: Extenders,
    /// The group whose cycle runs with the answers of extenders.
    pub(crate) consulting: Option<Box<GroupConsultation>>,
    pub(crate) waiting: WaitingAtPermit,
    pub(crate) nominated: NominatedPods,
    pub(crate) evictions: Evictions,
    pub(crate) refusals: Refusals,
    /// Pods that wait, and for which a write of a PostFilter plugin has failed.
    pub(crate) unhelped: Pauses,
    /// Pods whose expected node was written, until that is observed or withdrawn. No resources are
    /// reserved for them, since they are assumed to be there.
    pub(crate) expected: ByPod<Str>,
    /// The pods that have come to wait at Permit in this step, and whose expected node is not written.
    pub(crate) unsaid: Vec<PodId>,
    /// Decisions about waiting pods since the last step.
    pub(crate) waiting_decisions: Vec<WaitingDecision>,
    /// Pods that were preempted since the last step and before their binding was sent.
    pub(crate) cancelled: Vec<CancelledBinding>,
    pub(crate) answers: Vec<(crate::EffectId, Result<(), WriteError>)>,
    /// The writes that plugins have requested, and those that were sent.
    pub(crate) said_writes: Vec<RequestedWrite>,
    /// The events that plugins have recorded in this step, with the pods that they are about.
    pub(crate) said_events: Vec<(PodInfo, PodEvent)>,
    pub(crate) sent_writes: SentWrites,
    pub(crate) next_effect: u64,
    /// Where the last cycle that did not judge all nodes ended.
    pub(crate) next_start: usize,
    pub(crate) decisions: Vec<Decision>,
    pub(crate) group_decisions: Vec<GroupDecision>,
    /// What is known of groups beside their objects and pods.
    pub(crate) groups: Groups,
    /// Nodes that are given for the question about a group that is being answered.
    pub(crate) given: GivenRows,
    /// The group for which others wait.
    pub(crate) reservation: Option<Reservation>,
    /// Filters that were prepared to [judge](crate::Transaction::judge) pods.
    pub(crate) prepared_filters: PreparedFilters,
    /// The remembered results; none for [`Engine::Reference`].
    pub(crate) memo: Option<Memo>,
    pub(crate) audit: Audit,
    pub(crate) counts: SchedulerCounters,
    pub(crate) plugin_metrics: PluginMetrics,
    /// Pods that have left the queue because their profile was removed.
    pub(crate) orphans: Vec<Arc<Pod>>,
    /// The [sequence](crate::AttemptContext::sequence) of the last attempt that was kept.
    pub(crate) last_attempt: u64,
    /// They are shown everything that enters.
    pub(crate) recorders: Vec<Box<dyn Recorder>>,
    /// The snapshot that is being taken in parts.
    pub(crate) snapshot_in_parts: Option<Box<SnapshotInParts>>,
}

impl std::fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scheduler")
            .field("profiles", &self.profiles)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Scheduler {
    /// A scheduler with these profiles. `seed` determines all random choices.
    pub fn new(profiles: Vec<Profile>, options: Options, seed: u64) -> Result<Self, ProfileError> {
        let profiles = Profiles::new(profiles, options.release)?;
        let counts = SchedulerCounters::new(profiles.iter().count(), options.stopwatch);
        let plugin_metrics = PluginMetrics::new(profiles.iter().flat_map(Profile::metrics));
        let (mut cache, mut nominated) = (Cache::default(), NominatedPods::default());
        for kind in profiles.iter().flat_map(Profile::kinds) {
            cache.keep(kind);
        }
        for kind in group_kinds(options.gates.groups) {
            cache.keep(kind);
        }
        cache.set_order_reads(profiles.order_reads());
        for plugin in profiles.iter().flat_map(Profile::plugins) {
            plugin.points.labels.iter().for_each(|label| cache.group_pods_by(label));
        }
        let plugins = profiles.iter().flat_map(Profile::plugins);
        cache.set_providers(plugins.filter_map(|one| one.points.provide.clone()).collect());
        let memo = (options.engine == Engine::Fast).then(|| {
            cache.keep_changes();
            nominated.keep_changes();
            Memo::new(profiles.iter(), options.scans)
        });
        Ok(Scheduler {
            profiles,
            memo,
            audit: Audit::new(options.audit_every),
            counts,
            plugin_metrics,
            options,
            rng: Pcg64::seed_from_u64(seed),
            names: PodNames::default(),
            cache,
            queue: Queue::new(options.backoff, options.max_in_unschedulable, options.stopwatch)
                .with_groups(options.gates.groups),
            bindings: Bindings::default(),
            extenders: Extenders::default(),
            consulting: None,
            waiting: WaitingAtPermit::default(),
            nominated,
            evictions: Evictions::new(),
            refusals: Refusals::default(),
            unhelped: Pauses::default(),
            expected: ByPod::default(),
            unsaid: Vec::new(),
            waiting_decisions: Vec::new(),
            cancelled: Vec::new(),
            answers: Vec::new(),
            said_writes: Vec::new(),
            said_events: Vec::new(),
            sent_writes: SentWrites::default(),
            next_effect: 0,
            next_start: 0,
            decisions: Vec::new(),
            group_decisions: Vec::new(),
            groups: Groups::default(),
            given: GivenRows::default(),
            reservation: None,
            orphans: Vec::new(),
            prepared_filters: PreparedFilters::default(),
            last_attempt: 0,
            recorders: Vec::new(),
            snapshot_in_parts: None,
        })
    }

    /// Shows `recorder`, too, everything that enters from now on, and every effect. To replay it, this must be called before the
    /// first event.
    pub fn record_to(&mut self, recorder: Box<dyn Recorder>) {
        self.recorders.push(recorder);
    }

    /// Does one unit of work and appends its effects: advances binding cycles, or decides one pod.
    pub fn step(&mut self, now: Time, effects: &mut Vec<Effect>) -> Next {
        let before = effects.len();
        self.cache.set_now(now);
        let next = self.advance(now, effects);
        self.write_events(effects);
        for recorder in &mut self.recorders {
            recorder.stepped(now, &effects[before..], &self.audit);
        }
        next
    }

    fn advance(&mut self, now: Time, effects: &mut Vec<Effect>) -> Next {
        self.end_overdue_reservation(now);
        self.carry_on(now, effects);
        if !self.take_turn(now, effects) {
            self.try_next(now, effects);
        }
        self.settle_waiting(now, effects);
        self.next(now)
    }

    /// Tries the next pod, with the others of its group if it has one.
    fn try_next(&mut self, now: Time, effects: &mut Vec<Effect>) {
        let with = Surroundings { profiles: &self.profiles, cache: &self.cache };
        let next = match &self.reservation {
            None => self.queue.pop(now, self.ready(), with),
            Some(reservation) => {
                let gates = self.options.gates.groups;
                let forest = GroupForest::of(self.cache.view().stores, gates);
                let admits = |pod: &PodInfo| reservation.admits(pod, forest, gates);
                self.queue.pop_admitted(now, with, admits)
            }
        };
        if let Some(attempt) = next {
            match group_of(&attempt.pod) {
                Some(group) => self.attempt_group(now, &group, attempt, effects),
                None => self.attempt(now, &attempt, effects),
            }
        }
    }

    /// Advances binding cycles but decides no more pods. This is for shutdown, to finish what was
    /// started.
    pub fn wind_up(&mut self, now: Time, effects: &mut Vec<Effect>) {
        let before = effects.len();
        self.carry_on(now, effects);
        self.write_events(effects);
        for recorder in &mut self.recorders {
            recorder.wound_up(now, &effects[before..]);
        }
    }

    fn next(&self, now: Time) -> Next {
        let ready = self.ready();
        let work = self.queue.has_ready(ready)
            || self.extenders.has_work()
            || !self.waiting_decisions.is_empty()
            || !self.cancelled.is_empty()
            || !self.answers.is_empty()
            || !self.said_writes.is_empty();
        if work {
            return Next::Again;
        }
        let timers = [
            self.queue.next_ready(),
            self.queue.next_flush(),
            self.waiting.next_timeout(),
            self.bindings.next_deadline(),
            self.sent_writes.next_deadline(),
            self.next_eviction_deadline(),
            self.refusals.next_end(),
            self.unhelped.next_end(),
            self.extenders.next_deadline(),
            self.reservation_end(),
        ];
        match timers.into_iter().flatten().min() {
            Some(time) if time <= now => Next::Again,
            Some(time) => Next::At(time),
            None => Next::Idle,
        }
    }

    /// The plugins that filter in every profile.
    pub fn filters(&self) -> BTreeSet<&'static str> {
        let of = |profile: &Profile| -> BTreeSet<_> {
            profile.at(Point::Filter).map(|(plugin, _)| plugin.name).collect()
        };
        let common = self.profiles.iter().map(of).reduce(|some, others| &some & &others);
        common.unwrap_or_default()
    }

    /// The kinds of objects that the plugins of all profiles read, pods and nodes first. Of other objects no event is
    /// needed.
    pub fn kinds(&self) -> Vec<KindRef> {
        self.kinds_read_by(self.profiles.iter())
    }

    /// The kinds that these profiles read.
    pub(crate) fn kinds_read_by<'p>(
        &self,
        profiles: impl Iterator<Item = &'p Profile>,
    ) -> Vec<KindRef> {
        let mut read = profiles.fold(BTreeSet::new(), |all, profile| &all | &profile.kinds());
        read.extend(group_kinds(self.options.gates.groups));
        let mut kinds = Kinds::built_in();
        for &kind in &read {
            kinds.add(kind);
        }
        let needed = |kind: &KindRef| kind.without().is_none() || read.contains(kind);
        kinds.iter().filter(needed).collect()
    }

    /// Sets how much detail of decisions is kept, and returns how much it was. Everything except [`Detail::None`] has a cost,
    /// but does not change decisions.
    pub fn set_detail(&mut self, detail: Detail) -> Detail {
        std::mem::replace(&mut self.options.detail, detail)
    }

    /// The decisions since the last call, in order, with the detail of [`Options::detail`].
    pub fn take_decisions(&mut self) -> Vec<Decision> {
        std::mem::take(&mut self.decisions)
    }

    /// The decisions about groups of pods since the last call, in order. One step decides a pod or a group.
    pub fn take_group_decisions(&mut self) -> Vec<GroupDecision> {
        std::mem::take(&mut self.group_decisions)
    }

    /// Forgets the decisions so far, of pods and of groups, as to [take](Self::take_decisions) them does. It takes less time, since
    /// the next ones have their place.
    pub fn forget_decisions(&mut self) {
        self.decisions.clear();
        self.group_decisions.clear();
    }

    /// The results of audits so far.
    pub fn audit(&self) -> &Audit {
        &self.audit
    }

    /// Drops everything that is derived from the cluster. The next decisions are the same, but cost
    /// more.
    pub fn forget_derived(&mut self) {
        self.prepared_filters = PreparedFilters::default();
        if let Some(memo) = &mut self.memo {
            memo.forget();
            self.cache.keep_changes();
        }
    }

    /// Whether no work is in progress: every remaining pod waits for a change of the cluster, is held
    /// back by a gate, or fails with an error again and again while nothing changes. Only flushes of
    /// the queue and retries of errors are still to come, and they cannot succeed unless the cluster
    /// changes.
    pub fn is_settled(&self) -> bool {
        self.bindings.is_empty()
            && self.extenders.is_idle()
            && self.evictions.is_empty()
            && self.answers.is_empty()
            && self.waiting_decisions.is_empty()
            && self.cancelled.is_empty()
            && self.said_writes.is_empty()
            && self.sent_writes.is_empty()
            && self.unhelped.next_end().is_none()
            && !self.queue.has_ready(Ready::Early)
            && !self.queue.has_hope_aside()
            && !self.queue.has_backoff()
            && !self.queue.mends()
    }

    /// Which pods may be tried: pods that wait for extenders, or for a group, take precedence over those in backoff.
    fn ready(&self) -> Ready {
        let is_free = !self.extenders.has_line() && self.reservation.is_none();
        match self.options.gates.pops_from_backoff && is_free {
            true => Ready::Early,
            false => Ready::Due,
        }
    }

    /// The pods that are not bound yet, by name, with their place in the queue.
    pub fn pending(&self) -> impl Iterator<Item = &QueuedPodInfo> {
        self.queue.iter()
    }

    /// The pods that are not bound yet, in no particular order: each as it is assumed on its node, if it is, and with its
    /// place in the queue.
    pub fn pending_in_any_order(&self) -> impl Iterator<Item = (&PodInfo, &QueuedPodInfo)> {
        let queued = self.queue.iter_in_any_order();
        queued.map(|(id, info)| (self.cache.pod(id).unwrap_or(&info.pod), info))
    }

    /// The pods that are bound, in no particular order.
    pub fn bound(&self) -> impl Iterator<Item = &PodInfo> {
        self.cache.pods_of(|id| self.queue.get(id).is_none())
    }

    /// How often a pod that is not bound yet has waited at Permit and was rejected there.
    pub fn vain_waits(&self, pod: &PodKey) -> u32 {
        let info = self.names.find(pod).and_then(|id| self.queue.get(id));
        info.map_or(0, |info| info.vain_waits)
    }

    /// The order in which a pod came that is not bound yet, among all of them.
    pub fn arrival(&self, pod: &PodKey) -> Option<u64> {
        let info = self.names.find(pod).and_then(|id| self.queue.get(id));
        info.map(QueuedPodInfo::arrival)
    }

    /// All known pods, both on nodes and pending, in no particular order.
    pub fn pods(&self) -> impl Iterator<Item = &PodInfo> {
        let pending = self.queue.iter_in_any_order().filter(|(id, _)| !self.cache.knows(*id));
        self.cache.pods().chain(pending.map(|(_, info)| &info.pod))
    }

    /// Whether a pod is known: it is on a node, or pending for one of our profiles.
    pub fn knows_pod(&self, pod: &PodKey) -> bool {
        self.names.find(pod).is_some_and(|id| self.is_known(id))
    }

    /// Whether a pod is on a node, or in the queue. It is neither if it only has an id because its
    /// deletion has not been observed yet.
    pub(crate) fn is_known(&self, id: PodId) -> bool {
        self.cache.knows(id) || self.queue.get(id).is_some()
    }

    /// The present cluster, including assumed pods.
    pub fn view(&self) -> View<'_> {
        self.cache.view()
    }

    /// The pods that wait at Permit, in the order of their arrival.
    pub fn waiting_pods(&self) -> &[WaitingPod] {
        self.waiting.pods()
    }

    /// Allows a pod that waits at Permit, on behalf of `plugin`.
    pub fn allow_waiting_pod(&mut self, pod: &PodKey, plugin: &str) {
        let plugin = plugin.into();
        self.decide_waiting_pod(WaitingDecision::Allow { pod: pod.clone(), plugin });
    }

    /// Rejects a pod that waits at Permit. It is tried again after an event for which `plugin` is
    /// registered; after any event if no profile has a plugin of that name.
    pub fn reject_waiting_pod(
        &mut self,
        pod: &PodKey,
        plugin: &str,
        reason: impl Into<plimsoll_framework::Reason>,
    ) {
        let (plugin, reason) = (plugin.into(), reason.into());
        self.decide_waiting_pod(WaitingDecision::Reject { pod: pod.clone(), plugin, reason });
    }

    /// Allows or rejects a pod that waits at Permit, as a recording says.
    pub fn decide_waiting_pod(&mut self, decision: WaitingDecision) {
        for recorder in &mut self.recorders {
            recorder.waiting_pod(&decision);
        }
        self.waiting_decisions.push(decision);
    }
}

/// The kinds of groups that are read.
fn group_kinds(gates: GroupGates) -> impl Iterator<Item = KindRef> {
    let pods = gates.generic_workload.then(KindRef::of::<PodGroup>);
    let composite = gates.composite.then(KindRef::of::<CompositePodGroup>);
    pods.into_iter().chain(composite)
}
