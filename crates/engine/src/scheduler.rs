//! The scheduler: takes events in, and says step by step what the world must now do.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use plimsoll_api::{KindRef, Kinds, PodKey, Str};
use plimsoll_framework::{
    NominatedPods, PodInfo, Point, Release, Time, View, WaitingDecision, WaitingPod, WriteError,
};
use rand::SeedableRng;
use rand_pcg::Pcg64;

use crate::audit::Audit;
use crate::bindings::Bindings;
use crate::cache::Cache;
use crate::decision::Decision;
use crate::effect::Effect;
use crate::extenders::Extenders;
use crate::gates::Gates;
use crate::memo::Memo;
use crate::metrics::{Counts, Stopwatch};
use crate::names::{Names, PodId};
use crate::pick::TieBreak;
use crate::preemption::Evictions;
use crate::profile::{Profile, ProfileError};
use crate::profiles::Profiles;
use crate::queue::{Backoff, Queue, QueuedPodInfo, Ready, Surroundings};
use crate::refusals::Refusals;
use crate::waiting::Waiting;
use crate::writes::{Said, SentWrites};

/// How much of a decision is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// Nothing: decisions are not kept.
    #[default]
    None,
    /// What came out.
    Outcome,
    /// And every node.
    Nodes,
}

/// How decisions are made. Both ways make the same ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// From what is remembered of the cluster, where that can be done.
    #[default]
    Fast,
    /// From scratch.
    Reference,
}

/// When [`Engine::Fast`] looks at all nodes at once, rather than at those that have changed since a pod like
/// this was decided. The decisions are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scans {
    /// Where that costs less.
    #[default]
    WhereCheaper,
    /// Wherever it can be done.
    Always,
    /// Not at all.
    Never,
}

/// What can be set beside the profiles.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The release as which it decides: that of all its profiles.
    pub release: Release,
    /// How decisions are made.
    pub engine: Engine,
    /// When all nodes are looked at at once.
    pub scans: Scans,
    /// Each so-manieth decision of [`Engine::Fast`] is made from scratch, too, and compared; 0 for none.
    pub audit_every: u32,
    /// What feature gates change.
    pub gates: Gates,
    /// How one of several equally good nodes is chosen.
    pub tie_break: TieBreak,
    /// How much of a decision is kept for [`Scheduler::take_decisions`].
    pub detail: Detail,
    /// How long pods wait after failures.
    pub backoff: Backoff,
    /// How long a pod may wait for a change before it is tried all the same
    /// (`--pod-max-in-unschedulable-pods-duration`).
    pub max_in_unschedulable: Duration,
    /// How long to wait for the answer to a write.
    pub write_timeout: Duration,
    /// Measures for [`Scheduler::metrics`], and decides nothing. Without one nothing is measured that
    /// takes time.
    pub stopwatch: Option<Stopwatch>,
}

impl Default for Options {
    /// As the newest kube-scheduler, with the smallest name among equals; a minute for a write; one decision in
    /// 1,000 is audited.
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
            stopwatch: None,
        }
    }
}

/// What [`Scheduler::step`] should be called for next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// There is more to do now.
    Again,
    /// Nothing before this time, unless an event comes.
    At(Time),
    /// Nothing, unless an event comes.
    Idle,
}

/// A scheduler: a fold over events. It reads no clock, does no IO and takes chance only from its seed,
/// so the same events at the same times give the same effects.
pub struct Scheduler {
    pub(crate) profiles: Profiles,
    pub(crate) options: Options,
    pub(crate) rng: Pcg64,
    pub(crate) names: Names,
    pub(crate) cache: Cache,
    pub(crate) queue: Queue,
    pub(crate) bindings: Bindings,
    pub(crate) extenders: Extenders,
    pub(crate) waiting: Waiting,
    pub(crate) nominated: NominatedPods,
    pub(crate) evictions: Evictions,
    pub(crate) refusals: Refusals,
    /// Pods that were made to say on which node they will be, until that is seen or taken back: nobody makes
    /// room for them, since they are assumed to be there.
    pub(crate) expected: BTreeMap<PodId, Str>,
    /// What was decided about waiting pods since the last step.
    pub(crate) waiting_decisions: Vec<WaitingDecision>,
    pub(crate) answers: Vec<(crate::EffectId, Result<(), WriteError>)>,
    /// What plugins want to be written, and what they have written.
    pub(crate) said_writes: Vec<Said>,
    pub(crate) sent_writes: SentWrites,
    pub(crate) next_effect: u64,
    /// Where the last cycle ended that did not look at all nodes.
    pub(crate) next_start: usize,
    pub(crate) decisions: Vec<Decision>,
    /// What the next decisions are made from; none for [`Engine::Reference`].
    pub(crate) memo: Option<Memo>,
    pub(crate) audit: Audit,
    pub(crate) counts: Counts,
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
    /// A scheduler with these profiles. `seed` is where all chance comes from.
    pub fn new(profiles: Vec<Profile>, options: Options, seed: u64) -> Result<Self, ProfileError> {
        let profiles = Profiles::new(profiles, options.release)?;
        let counts = Counts::new(profiles.iter().count(), options.stopwatch);
        let (mut cache, mut nominated) = (Cache::default(), NominatedPods::default());
        for kind in profiles.iter().flat_map(Profile::kinds) {
            cache.keep(kind);
        }
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
            options,
            rng: Pcg64::seed_from_u64(seed),
            names: Names::default(),
            cache,
            queue: Queue::new(options.backoff, options.max_in_unschedulable, options.stopwatch),
            bindings: Bindings::default(),
            extenders: Extenders::default(),
            waiting: Waiting::default(),
            nominated,
            evictions: Evictions::new(),
            refusals: Refusals::default(),
            expected: BTreeMap::new(),
            waiting_decisions: Vec::new(),
            answers: Vec::new(),
            said_writes: Vec::new(),
            sent_writes: SentWrites::default(),
            next_effect: 0,
            next_start: 0,
            decisions: Vec::new(),
        })
    }

    /// Does one unit of work and appends what the world must now do: carries binding cycles on, or
    /// decides one pod.
    pub fn step(&mut self, now: Time, effects: &mut Vec<Effect>) -> Next {
        self.carry_on(now, effects);
        if self.take_turn(now, effects) {
            return self.next(now);
        }
        let with = Surroundings { profiles: &self.profiles, cache: &self.cache };
        if let Some(attempt) = self.queue.pop(now, self.ready(), with) {
            self.attempt(now, &attempt, effects);
        }
        self.next(now)
    }

    /// Carries binding cycles on and decides nothing more: for the end, when what was begun is finished.
    pub fn wind_up(&mut self, now: Time, effects: &mut Vec<Effect>) {
        self.carry_on(now, effects);
    }

    fn next(&self, now: Time) -> Next {
        let ready = self.ready();
        let work = self.queue.has_ready(ready)
            || self.extenders.has_work()
            || !self.waiting_decisions.is_empty()
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
            self.extenders.next_deadline(),
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
        let read =
            self.profiles.iter().fold(BTreeSet::new(), |all, profile| &all | &profile.kinds());
        let mut kinds = Kinds::built_in();
        read.iter().for_each(|&kind| kinds.add(kind));
        let needed = |kind: &KindRef| kind.without().is_none() || read.contains(kind);
        kinds.iter().filter(needed).collect()
    }

    /// Says how much of decisions is kept from now on. All but [`Detail::None`] costs something, and changes no
    /// decision.
    pub fn set_detail(&mut self, detail: Detail) {
        self.options.detail = detail;
    }

    /// What was decided since the last call, in order; kept as [`Options::detail`] says.
    pub fn take_decisions(&mut self) -> Vec<Decision> {
        std::mem::take(&mut self.decisions)
    }

    /// What audits of decisions have found so far.
    pub fn audit(&self) -> &Audit {
        &self.audit
    }

    /// Forgets everything that is derived from the cluster. The next decisions cost more, and are the
    /// same.
    pub fn forget_derived(&mut self) {
        if let Some(memo) = &mut self.memo {
            memo.forget();
            self.cache.keep_changes();
        }
    }

    /// Whether nothing is under way: every pod that is left waits for a change in the cluster, is kept out
    /// by a gate, or errs again and again while nothing changes. Only the regular look at pods that wait
    /// too long and retries of errors are still to come, and they cannot bring anything new unless the
    /// cluster changes.
    pub fn is_settled(&self) -> bool {
        self.bindings.is_empty()
            && self.extenders.is_idle()
            && self.evictions.is_empty()
            && self.answers.is_empty()
            && self.waiting_decisions.is_empty()
            && self.said_writes.is_empty()
            && self.sent_writes.is_empty()
            && !self.queue.has_ready(Ready::Early)
            && !self.queue.has_backoff()
            && !self.queue.mends()
    }

    /// Which pods may be tried: pods that wait for extenders go before those in backoff.
    fn ready(&self) -> Ready {
        match self.options.gates.pops_from_backoff && !self.extenders.has_line() {
            true => Ready::Early,
            false => Ready::Due,
        }
    }

    /// The pods that are not bound yet, by name, with where they are.
    pub fn pending(&self) -> impl Iterator<Item = &QueuedPodInfo> {
        self.queue.iter()
    }

    /// Every pod that is known: those on nodes, and the pending ones; in no particular order.
    pub fn pods(&self) -> impl Iterator<Item = &PodInfo> {
        let pending = self.queue.iter_in_any_order().filter(|(id, _)| !self.cache.knows(*id));
        self.cache.pods().chain(pending.map(|(_, info)| &info.pod))
    }

    /// Whether a pod is known: it is on a node, or pending and ours to place.
    pub fn knows_pod(&self, pod: &PodKey) -> bool {
        self.names.find(pod).is_some_and(|id| self.is_known(id))
    }

    /// Whether a pod is on a node, or in the queue. It is neither when it has a number only because its
    /// end is still to be seen.
    pub(crate) fn is_known(&self, id: PodId) -> bool {
        self.cache.knows(id) || self.queue.get(id).is_some()
    }

    /// The cluster as it stands, with the pods that are assumed to be on their nodes.
    pub fn view(&self) -> View<'_> {
        self.cache.view()
    }

    /// The pods that wait at Permit, in the order in which they came.
    pub fn waiting_pods(&self) -> &[WaitingPod] {
        self.waiting.pods()
    }

    /// Says that `plugin` has nothing more against a pod that waits at Permit.
    pub fn allow_waiting_pod(&mut self, pod: &PodKey, plugin: &str) {
        let plugin = plugin.into();
        self.waiting_decisions.push(WaitingDecision::Allow { pod: pod.clone(), plugin });
    }

    /// Says that a pod that waits at Permit must not be bound. It is tried again after an event that may
    /// help against `plugin`; after any, where no profile has a plugin of that name.
    pub fn reject_waiting_pod(
        &mut self,
        pod: &PodKey,
        plugin: &str,
        reason: impl Into<plimsoll_framework::Reason>,
    ) {
        let (plugin, reason) = (plugin.into(), reason.into());
        self.waiting_decisions.push(WaitingDecision::Reject { pod: pod.clone(), plugin, reason });
    }
}
