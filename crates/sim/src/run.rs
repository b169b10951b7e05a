//! The loop around the engine in virtual time.

use std::collections::BTreeMap;

use plimsoll_api::PodKey;
use plimsoll_engine::{
    Decision, Effect, Event, GroupDecision, MemberDecision, MemberResult, Next, Observation,
    Outcome, Scheduler, Write,
};
use plimsoll_framework::Time;
use plimsoll_framework::pod_groups::group_of;
use rand::Rng;

use crate::auditor::{Auditor, Extent, ObservedGangs, Violation};
use crate::cluster::InitialCluster;
use crate::liveness;
use crate::profile_rules::ProfileRules;
use crate::simulated_cluster::SimulatedCluster;
use crate::transactions;
use crate::volumes::ClaimBinding;

/// So often a pod waits at Permit in vain, or fails with an error, while nothing changes in the cluster, until the simulation
/// gives up. A group of pods that cannot all be placed may be tried forever: whoever leaves its node makes room for another,
/// which waits for the first one. So may pods that take turns on a node to wait for volumes that never come. In a cluster this
/// goes on until something changes. Here time would pass without end, or not at all.
const MOST_VAIN_WAITS: u32 = 20;
/// So many steps without a decision, while no time passes, are a fault: each carries out all that there is to do.
const ENDLESS: u32 = 100_000;

/// A running simulation.
#[derive(Debug)]
pub struct Simulation {
    scheduler: Scheduler,
    world: SimulatedCluster,
    now: Time,
    auditor: Option<Auditor>,
    /// The writes of the scheduler, if they are kept.
    written: Option<Vec<(Time, Effect)>>,
    /// The claim bindings of pods in their last attempts.
    claims: BTreeMap<PodKey, Vec<ClaimBinding>>,
    /// Whether all pending pods are audited before each step.
    audits_pending: bool,
    /// Whether what was started is finished before another pod is decided.
    binds_in_turn: bool,
    /// Whether the scheduler has got answers since it was last asked to go on.
    is_answered: bool,
    /// The decisions about groups that were not taken yet.
    groups: Vec<GroupDecision>,
    vain_waits: VainWaits,
    /// Which pods another profile decides.
    rules: Option<ProfileRules>,
}

/// The pods that have waited at Permit in vain, or failed with errors, since the last change of the cluster.
#[derive(Debug, Default)]
struct VainWaits {
    /// How often each had done so in all, the first time after that change.
    first: BTreeMap<PodKey, u32>,
    /// How many errors each has had since, or its group: pods of a group may take turns.
    errors: BTreeMap<PodKey, u32>,
    /// Whether no pod is tried any more until the cluster changes.
    has_given_up: bool,
}

impl Simulation {
    /// A simulation whose scheduler has observed `cluster` but not started to work.
    pub fn new(scheduler: Scheduler, cluster: InitialCluster) -> Self {
        Self::within(SimulatedCluster::default(), scheduler, cluster)
    }

    /// The same with a given world.
    pub fn within(world: SimulatedCluster, scheduler: Scheduler, cluster: InitialCluster) -> Self {
        Self::begin(world, scheduler, cluster, (None, None))
    }

    /// The same with rules that let other profiles decide some pods.
    pub fn with_rules(
        world: SimulatedCluster,
        scheduler: Scheduler,
        cluster: InitialCluster,
        rules: ProfileRules,
    ) -> Self {
        Self::begin(world, scheduler, cluster, (None, Some(rules)))
    }

    /// The same with an auditor, which checks what `extent` says from the beginning. The scheduler must
    /// keep [decisions](plimsoll_engine::Options::detail).
    pub fn audited(
        world: SimulatedCluster,
        scheduler: Scheduler,
        cluster: InitialCluster,
        extent: Extent,
    ) -> Self {
        let auditor = Auditor::new(&scheduler, extent);
        Self::begin(world, scheduler, cluster, (Some(auditor), None))
    }

    /// The same with an auditor that also checks gangs of Coscheduling.
    pub(crate) fn audited_with_gangs(
        world: SimulatedCluster,
        scheduler: Scheduler,
        cluster: InitialCluster,
        (extent, gangs): (Extent, ObservedGangs),
    ) -> Self {
        let auditor = Auditor::new(&scheduler, extent).with_gangs(gangs);
        Self::begin(world, scheduler, cluster, (Some(auditor), None))
    }

    fn begin(
        world: SimulatedCluster,
        scheduler: Scheduler,
        cluster: InitialCluster,
        (auditor, rules): (Option<Auditor>, Option<ProfileRules>),
    ) -> Self {
        let now = cluster.begins();
        let written = auditor.is_some().then(Vec::new);
        let claims = BTreeMap::new();
        let mut simulation = Simulation {
            scheduler,
            world,
            now,
            auditor,
            written,
            claims,
            audits_pending: false,
            binds_in_turn: false,
            is_answered: false,
            groups: Vec::new(),
            vain_waits: VainWaits::default(),
            rules,
        };
        simulation.tell_all(cluster);
        simulation
    }

    fn tell_all(&mut self, mut cluster: InitialCluster) {
        for (kind, key, manifest) in std::mem::take(&mut cluster.manifests) {
            self.world.objects.set(kind, key, manifest);
        }
        for template in cluster.claim_templates() {
            self.world.add_claim_template(template);
        }
        for event in cluster.into_events() {
            self.happens(event);
        }
    }

    /// Applies an event now.
    pub fn happens(&mut self, event: Event) {
        self.cluster_changes();
        self.world.happens(self.now, &event);
        self.tell(event);
    }

    /// Runs the scheduler until it has decided something. `None` once nothing can change any more:
    /// every pod that is left waits for something that will not happen in this cluster, or has waited at Permit in vain so
    /// often that it would do so forever. Pods that wait there then are given the time that they have left. A simulation in which
    /// no time passes any more ends, too.
    pub fn advance(&mut self) -> Option<Vec<Decision>> {
        self.advance_until(None)
    }

    /// The same, but time does not advance beyond `until`.
    pub fn advance_until(&mut self, until: Option<Time>) -> Option<Vec<Decision>> {
        let (mut since, mut n_steps) = (self.now, 0);
        loop {
            n_steps = if self.now == since { n_steps + 1 } else { 0 };
            since = self.now;
            if ENDLESS < n_steps {
                if let Some(auditor) = &mut self.auditor {
                    let what = "the scheduler and the cluster answer one another without end";
                    auditor.violated(self.now, what.to_owned());
                }
                return None;
            }
            if self.vain_waits.has_given_up {
                match self.run_out(until) {
                    Some(decisions) if decisions.is_empty() => continue,
                    ended => return ended,
                }
            }
            if self.audits_pending {
                self.audit_pending();
            }
            let mut effects = Vec::new();
            if self.binds_in_turn && std::mem::take(&mut self.is_answered) {
                self.scheduler.wind_up(self.now, &mut effects);
                if !effects.is_empty() {
                    self.audit_effects(&effects);
                    self.note_claims(&[], &effects);
                    self.answer(effects);
                    continue;
                }
            }
            let next = self.scheduler.step(self.now, &mut effects);
            let decisions = self.scheduler.take_decisions();
            let groups = self.scheduler.take_group_decisions();
            self.audit_decisions(&decisions);
            // What became of earlier attempts is told before the decision about a group.
            self.audit_groups(&groups);
            self.audit_effects(&effects);
            self.note_claims(&decisions, &effects);
            self.note_vain_waits(&decisions);
            self.note_starts(&groups);
            // The world answers, so the scheduler's next time is no longer valid.
            let answered = !effects.is_empty();
            self.answer(effects);
            if !decisions.is_empty() || !groups.is_empty() {
                self.groups.extend(groups);
                return Some(decisions);
            }
            if !answered && next != Next::Again {
                // The rest of the cluster acts only when the scheduler is idle: a decision takes no
                // time.
                if !self.let_happen() {
                    let wake = self.wake(next);
                    self.rest(wake.is_none());
                    let wake = wake?;
                    if until.is_some_and(|until| until < wake) {
                        return None;
                    }
                    self.now = wake;
                    self.let_happen();
                }
            }
        }
    }

    /// Carries out writes, and tells the scheduler of the results.
    fn answer(&mut self, effects: Vec<Effect>) {
        self.is_answered |= !effects.is_empty();
        for effect in effects {
            let events = self.world.perform(self.now, effect);
            if events.iter().any(moves_a_pod) {
                self.cluster_changes();
            }
            self.tell_of(events);
        }
    }

    /// Lets pods that wait at Permit wait until their time is over, without trying another. Returns the decisions about them;
    /// none if the cluster has changed, so that pods can be tried again. `None` once no pod waits.
    fn run_out(&mut self, until: Option<Time>) -> Option<Vec<Decision>> {
        while self.vain_waits.has_given_up {
            let mut effects = Vec::new();
            self.scheduler.wind_up(self.now, &mut effects);
            let decisions = self.scheduler.take_decisions();
            self.audit_decisions(&decisions);
            self.audit_effects(&effects);
            let answered = !effects.is_empty();
            self.answer(effects);
            if !decisions.is_empty() {
                return Some(decisions);
            }
            if answered || self.let_happen() {
                continue;
            }
            let waiting = self.scheduler.waiting_pods().iter().flat_map(|pod| &pod.pending);
            let over = waiting.map(|(_, over)| *over).chain(self.world.next()).min()?;
            if until.is_some_and(|until| until < over) {
                return None;
            }
            self.now = over;
        }
        Some(Vec::new())
    }

    /// Something has changed in the cluster: pods that were tried in vain may fit.
    fn cluster_changes(&mut self) {
        self.vain_waits = VainWaits::default();
    }

    fn note_vain_waits(&mut self, decisions: &[Decision]) {
        for decision in decisions {
            let waits = self.scheduler.vain_waits(&decision.pod);
            if 0 < waits {
                let before = *self.vain_waits.first.entry(decision.pod.clone()).or_insert(waits);
                self.vain_waits.has_given_up |= MOST_VAIN_WAITS <= waits - before.min(waits);
            }
            if let Outcome::Error { .. } = decision.outcome {
                let pod = self.world.pod(&decision.pod);
                let group = pod.and_then(group_of);
                let unit = group.unwrap_or_else(|| decision.pod.clone());
                let errors = self.vain_waits.errors.entry(unit).or_default();
                *errors += 1;
                self.vain_waits.has_given_up |= MOST_VAIN_WAITS <= *errors;
            }
        }
    }

    fn audit_pending(&mut self) {
        let pending: Vec<_> = self.scheduler.pending().map(|info| info.pod.key.clone()).collect();
        for pod in pending {
            self.scheduler.audit_pod(&pod);
        }
    }

    /// Applies everything that is due now, and returns whether anything was.
    fn let_happen(&mut self) -> bool {
        let mut any = false;
        while let Some(events) = self.world.take_due(self.now) {
            any = true;
            self.cluster_changes();
            self.tell_of(events);
        }
        any
    }

    /// When there is something to do again. A settled scheduler waits only for the world.
    fn wake(&self, next: Next) -> Option<Time> {
        let own = match next {
            Next::At(time) if !self.scheduler.is_settled() => Some(time),
            Next::At(_) | Next::Idle | Next::Again => None,
        };
        own.into_iter().chain(self.world.next()).min()
    }

    fn tell_of(&mut self, events: Vec<Event>) {
        for event in events {
            self.tell(event);
        }
    }

    fn tell(&mut self, event: Event) {
        let event = match &mut self.rules {
            Some(rules) => rules.route(event),
            None => event,
        };
        if let Some(auditor) = &mut self.auditor {
            auditor.observe(&event);
        }
        self.scheduler.observe(self.now, event);
    }

    fn audit_decisions(&mut self, decisions: &[Decision]) {
        let Some(auditor) = &mut self.auditor else { return };
        for decision in decisions {
            auditor.decided(self.now, decision);
        }
    }

    fn audit_effects(&mut self, effects: &[Effect]) {
        if let Some(auditor) = &mut self.auditor {
            for effect in effects {
                auditor.wrote(self.now, effect);
            }
        }
        if let Some(written) = &mut self.written {
            written.extend(effects.iter().map(|effect| (self.now, effect.clone())));
        }
    }

    fn audit_groups(&mut self, groups: &[GroupDecision]) {
        let Some(auditor) = &mut self.auditor else { return };
        for group in groups {
            auditor.decided_group(self.now, group);
        }
    }

    /// Notes which pods of groups have a node now, in the order in which they came. They are bound in another order: those that have
    /// waited for the last one are bound after it.
    fn note_starts(&mut self, groups: &[GroupDecision]) {
        for group in groups {
            let is_placed =
                |member: &&MemberDecision| matches!(member.result, MemberResult::Scheduled { .. });
            let mut placed: Vec<_> = group.pods.iter().filter(is_placed).collect();
            placed.sort_by_cached_key(|member| self.scheduler.arrival(&member.pod));
            for member in placed {
                self.world.chosen(self.now, &member.pod);
            }
        }
    }

    fn note_claims(&mut self, decisions: &[Decision], effects: &[Effect]) {
        for decision in decisions {
            self.claims.remove(&decision.pod);
        }
        for effect in effects {
            if let Write::Object(write) = &effect.write
                && let Some(binding) = ClaimBinding::of(write)
            {
                self.claims.entry(effect.pod.key.clone()).or_default().push(binding);
            }
        }
    }

    /// Called when nothing is left to do at the present time, or at all.
    fn rest(&mut self, is_end: bool) {
        let Some(auditor) = &mut self.auditor else { return };
        auditor.rests(self.now);
        auditor.keeps_all(self.now, &self.scheduler.pods().map(|pod| pod.key.clone()).collect());
        if is_end && self.scheduler.waiting_pods().is_empty() {
            auditor.ends(self.now);
        }
        // A pod that is being bound wakes others only when it is observed on its node.
        if !self.scheduler.is_settled() || auditor.awaits() {
            return;
        }
        for (pod, node) in liveness::sleepers(&self.scheduler) {
            auditor.sleeps(self.now, &pod, &node);
        }
        for group in liveness::sleeping_groups(&mut self.scheduler, self.now) {
            auditor.group_sleeps(self.now, &group);
        }
        let gangs = auditor.pending_gangs();
        for gang in liveness::sleeping_gangs(&mut self.scheduler, self.now, gangs) {
            auditor.group_sleeps(self.now, &gang);
        }
    }

    /// The decisions about groups of pods since the last call. If [`advance`](Self::advance) returns after one, it returns no
    /// others.
    pub fn take_group_decisions(&mut self) -> Vec<GroupDecision> {
        std::mem::take(&mut self.groups)
    }

    /// The scheduler in its present state.
    pub fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    /// The scheduler, to ask it something. What it is told here the rest of the cluster does not know.
    pub fn scheduler_mut(&mut self) -> &mut Scheduler {
        &mut self.scheduler
    }

    /// The scheduler in its present state. The rest of the cluster is not simulated any more.
    pub fn into_scheduler(self) -> Scheduler {
        self.scheduler
    }

    /// The claim bindings that a pod needed in its last attempt.
    pub fn claims_of(&self, pod: &PodKey) -> &[ClaimBinding] {
        self.claims.get(pod).map_or(&[], Vec::as_slice)
    }

    /// The rest of the cluster in its present state.
    pub fn world(&self) -> &SimulatedCluster {
        &self.world
    }

    /// The rest of the cluster, to change its behaviour or to plan events.
    pub fn world_mut(&mut self) -> &mut SimulatedCluster {
        &mut self.world
    }

    /// Drops all derived data of the scheduler: see [`Scheduler::forget_derived`].
    pub fn forget_derived(&mut self) {
        self.scheduler.forget_derived();
    }

    /// From now on, decides every pending pod by every decider before each step, and compares their
    /// decisions: see [`Scheduler::audit_pod`].
    pub fn audit_pending_pods(&mut self) {
        self.audits_pending = true;
    }

    /// From now on, a pod is bound as far as the cluster answers at once before the next pod is decided. Otherwise a pod
    /// may be decided while what another one needs is written; such a pod may have to wait for a claim on devices.
    pub fn bind_in_turn(&mut self) {
        self.binds_in_turn = true;
    }

    /// Makes random changes in a transaction of the scheduler, and rolls them back. The rest of the simulation is not
    /// affected. Returns how decisions from memory within the transaction differ from those from scratch, and what of the
    /// [state](Scheduler::state) is not as before.
    pub fn try_random_transaction(&mut self, rng: &mut impl Rng) -> Vec<String> {
        transactions::try_random(&mut self.scheduler, self.now, rng)
    }

    /// The same, but the transaction is committed. The rest of the simulation knows nothing of it, so that only the scheduler
    /// can be used afterwards. Returns the changes as they would be observed, and how decisions differ.
    pub fn commit_random_transaction(&mut self, rng: &mut impl Rng) -> (Vec<Event>, Vec<String>) {
        transactions::commit_random(&mut self.scheduler, self.now, rng)
    }

    /// Lets everything happen that is due now.
    pub fn catch_up(&mut self) {
        self.let_happen();
    }

    /// The present moment.
    pub fn now(&self) -> Time {
        self.now
    }

    /// What audits of decisions have found.
    pub fn decisions_audit(&self) -> &plimsoll_engine::Audit {
        self.scheduler.audit()
    }

    /// What the scheduler has written since the last call, in an audited simulation.
    pub fn take_written(&mut self) -> Vec<(Time, Effect)> {
        self.written.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// What the auditor has found.
    pub fn violations(&self) -> &[Violation] {
        self.auditor.as_ref().map_or(&[], Auditor::violations)
    }
}

/// Whether a pod came to a node, left it, or is gone.
fn moves_a_pod(event: &Event) -> bool {
    match event {
        Event::Pod(Observation::Is(pod)) => pod.node_name.is_some(),
        Event::Pod(Observation::Gone(_)) => true,
        _ => false,
    }
}

/// Runs a simulation to its end and passes every decision to `each`, in order.
pub fn simulate(
    scheduler: Scheduler,
    cluster: InitialCluster,
    mut each: impl FnMut(&Decision),
) -> Scheduler {
    let mut simulation = Simulation::new(scheduler, cluster);
    while let Some(decisions) = simulation.advance() {
        decisions.iter().for_each(&mut each);
    }
    simulation.scheduler
}
