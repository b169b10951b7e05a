//! An auditor that checks everything that the scheduler decides and writes.
//!
//! It shares no code with the engine and the plugins. It knows only the scheduler's input, as values of
//! the api crate, and is deliberately slow and simple. It therefore also finds errors that the engine
//! and its reference have in common because both use the same plugins.

mod budgets;
mod claims;
mod coscheduling;
mod decisions;
mod devices;
mod feasible;
mod groups;
mod pods;
mod ports;
mod scores;
mod spread;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use plimsoll_api::{
    AnyObject, CsiNode, CsiNodeDriver, DeviceClass, HostPort, KindRef, Labels, Namespace, Node,
    ObjectKey, PersistentVolume, PersistentVolumeClaim, Pod, PodKey, PodPhase, PreemptionPolicy,
    ReplicaSet, ReplicationController, ResourceClaim, ResourceSlice, Service, StatefulSet, Str,
};
use plimsoll_engine::{Decision, Effect, EffectId, Event, Observation, Outcome, Scheduler, Write};
use plimsoll_framework::{Nomination, Time};

use self::budgets::ObservedBudgets;
pub(crate) use self::coscheduling::ObservedGangs;
use self::devices::ObservedDevices;
use self::groups::ObservedGroups;

/// A violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// When it was found.
    pub at: Time,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {}: {}", self.at, self.what)
    }
}

/// What an auditor checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extent {
    /// Whether placements and evictions are allowed, in any profile.
    #[default]
    Placements,
    /// Also which nodes are the best, whether none is feasible, and whether preemption could make room.
    /// Only for the default profile, and only if volumes and nominations do not matter.
    Decisions,
}

/// The scheduler's input, and its decisions and writes.
#[derive(Debug, Default)]
pub struct Auditor {
    known: ObservedCluster,
    extent: Extent,
    /// Gangs by a label, if a plugin decides them.
    gangs: Option<ObservedGangs>,
    /// The scheduler names of the profiles.
    schedulers: BTreeSet<String>,
    /// Evictions that the scheduler has requested.
    evictions: BTreeSet<EffectId>,
    /// Nodes that are overcommitted because of something other than the scheduler.
    spoiled: BTreeSet<Str>,
    violations: Vec<Violation>,
    /// Pods that wait for a change, with the scheduler's last message about them.
    waiting: BTreeMap<PodKey, String>,
    /// Groups of which was reported that they sleep.
    asleep: BTreeSet<ObjectKey>,
    /// Pods of which was reported that they are lost.
    lost: BTreeSet<PodKey>,
    /// How often nodes and slices of devices have changed.
    n_changes: u64,
    /// For each pod, how often they had changed when a node was chosen for it last, and that node.
    decided_after: BTreeMap<PodKey, (u64, Str)>,
    /// The time of the last decision, write or rest.
    now: Time,
}

/// The cluster according to the scheduler's input.
#[derive(Debug, Default)]
pub(crate) struct ObservedCluster {
    /// The plugins that filter in every profile; only their rules are checked.
    pub(crate) filters: BTreeSet<&'static str>,
    pub(crate) nodes: BTreeMap<Str, Node>,
    pub(crate) pods: BTreeMap<PodKey, Pod>,
    pub(crate) namespaces: BTreeMap<Str, Labels>,
    pub(crate) volumes: BTreeMap<Str, PersistentVolume>,
    pub(crate) claims: BTreeMap<ObjectKey, PersistentVolumeClaim>,
    pub(crate) groups: ObservedGroups,
    budgets: ObservedBudgets,
    devices: ObservedDevices,
    /// For each node, how many volumes of each driver it can attach.
    pub(crate) limits: BTreeMap<Str, BTreeMap<Str, usize>>,
    /// The pods for which a node was chosen but that were not observed there yet, in their state at the
    /// decision, each with that node's name. They count in this state until they are observed.
    pub(crate) chosen: BTreeMap<PodKey, (Pod, Str)>,
    /// Pods for which preemption made room and that have no node yet.
    pub(crate) cleared: BTreeSet<PodKey>,
    /// Whether an eviction was refused: such a victim is not chosen again for a while.
    pub(crate) are_spared: bool,
    /// How many Services and controllers were observed.
    pub(crate) n_selecting: usize,
    /// Ports that several pods have used at once on a node, if some pod still uses them.
    pub(crate) shared_ports: BTreeSet<(Str, HostPort)>,
}

impl ObservedCluster {
    /// Whether these plugins all filter.
    fn filter(&self, plugins: &[&str]) -> bool {
        plugins.iter().all(|plugin| self.filters.contains(plugin))
    }

    /// The node that a pod is on, or that was chosen for it.
    pub(crate) fn place<'a>(&'a self, pod: &'a Pod) -> Option<&'a Str> {
        pod.node_name.as_ref().or_else(|| self.chosen.get(&pod.key).map(|(_, node)| node))
    }

    /// The pods on nodes, each with its node's name.
    pub(crate) fn placed(&self) -> impl Iterator<Item = (&Pod, &Str)> {
        let seen = self.pods.values().filter_map(|pod| Some((pod, pod.node_name.as_ref()?)));
        seen.chain(self.chosen.values().map(|(pod, node)| (pod, node)))
    }

    /// The pods on a node.
    pub(crate) fn pods_on<'a>(&'a self, node: &'a str) -> impl Iterator<Item = &'a Pod> {
        self.placed().filter(move |(_, on)| *on == node).map(|(pod, _)| pod)
    }
}

impl Auditor {
    /// An auditor of a scheduler with this extent.
    pub(crate) fn new(scheduler: &Scheduler, extent: Extent) -> Self {
        let groups = ObservedGroups { gates: scheduler.group_gates(), ..ObservedGroups::default() };
        let filters = scheduler.filters();
        let known = ObservedCluster { filters, groups, ..ObservedCluster::default() };
        let schedulers = scheduler.profile_names().into_iter().collect();
        Auditor { known, extent, schedulers, ..Auditor::default() }
    }

    /// Records an input of the scheduler.
    pub(crate) fn observe(&mut self, event: &Event) {
        match event {
            Event::Pod(seen) => match seen {
                Observation::Is(pod) if pod.phase == PodPhase::Ended => self.forget(&pod.key),
                Observation::Is(pod) => self.pod_is(pod),
                Observation::Gone(key) => self.forget(key),
            },
            Event::Node(seen) => match seen.as_ref() {
                Observation::Is(node) => {
                    self.n_changes += 1;
                    self.known.nodes.insert(node.name.clone(), node.clone());
                    self.spoil(&node.name);
                }
                Observation::Gone(name) => {
                    self.known.nodes.remove(name);
                }
            },
            Event::Object(seen) => self.object(seen),
            Event::Done(id, Err(_)) => self.known.are_spared |= self.evictions.contains(id),
            Event::Done(..) | Event::Extended(..) => {}
        }
    }

    fn object(&mut self, seen: &Observation<AnyObject, (KindRef, ObjectKey)>) {
        self.known.groups.observe(seen);
        self.known.budgets.observe(seen);
        if let Some(gangs) = &mut self.gangs {
            gangs.observe(seen);
        }
        match seen {
            Observation::Is(object) => {
                if let Some(volume) = object.get::<PersistentVolume>() {
                    self.known.volumes.insert(volume.name.clone(), volume.clone());
                } else if let Some(claim) = object.get::<PersistentVolumeClaim>() {
                    self.known.claims.insert(claim.key.clone(), claim.clone());
                } else if let Some(claim) = object.get::<ResourceClaim>() {
                    self.claim_is(claim);
                } else if let Some(slice) = object.get::<ResourceSlice>() {
                    self.n_changes += 1;
                    self.known.devices.slices.insert(slice.name.clone(), slice.clone());
                } else if let Some(class) = object.get::<DeviceClass>() {
                    self.known.devices.class_is(class);
                } else if let Some(node) = object.get::<CsiNode>() {
                    let limit = |one: &CsiNodeDriver| {
                        Some((one.name.clone(), usize::try_from(one.limit?).unwrap_or(0)))
                    };
                    let limits = node.drivers.iter().filter_map(limit).collect();
                    self.known.limits.insert(node.name.clone(), limits);
                } else if let Some(namespace) = object.get::<Namespace>() {
                    let labels = namespace.labels.clone();
                    self.known.namespaces.insert(namespace.name.clone(), labels);
                } else if selects(object.kind()) {
                    self.known.n_selecting += 1;
                }
            }
            Observation::Gone((kind, key)) => {
                if kind.is::<PersistentVolume>() {
                    self.known.volumes.remove(&key.name);
                } else if kind.is::<PersistentVolumeClaim>() {
                    self.known.claims.remove(key);
                } else if kind.is::<ResourceClaim>() {
                    self.known.devices.claims.remove(key);
                } else if kind.is::<ResourceSlice>() {
                    self.n_changes += 1;
                    self.known.devices.slices.remove(&key.name);
                } else if kind.is::<Namespace>() {
                    self.known.namespaces.remove(&key.name);
                } else if selects(*kind) {
                    self.known.n_selecting += 1;
                }
            }
        }
    }

    /// Checks a claim that has got devices.
    fn claim_is(&mut self, claim: &ResourceClaim) {
        let before = self.known.devices.claims.insert(claim.key.clone(), claim.clone());
        if let Err(why) = Self::is_for_groups(claim) {
            self.violated(self.now, format!("{} is wrong: {why}", claim.key));
        }
        let had_devices = before.is_none_or(|before| before.allocation.is_some());
        if had_devices || claim.allocation.is_none() {
            return;
        }
        let devices = &self.known.devices;
        let mut checked = devices.are_exclusive(claim);
        let namespace = &claim.key.namespace;
        let decided =
            |name: &Str| self.decided_after.get(&PodKey::new(namespace.clone(), name.clone()));
        // Of a claim of a group, some pod of it that was decided last counts.
        let of_group = |name: &Str| {
            let members = self.known.pods.values().filter(|pod| {
                pod.key.namespace == *namespace && pod.scheduling_group.as_ref() == Some(name)
            });
            members.filter_map(|pod| decided(&pod.key.name)).max_by_key(|(after, _)| *after)
        };
        let decided = claim.reserved_for.first().and_then(|one| match one.is_group() {
            true => of_group(&one.name),
            false => decided(&one.name),
        });
        // What has changed since is not the scheduler's fault.
        if let Some((_, node)) = decided.filter(|(after, _)| *after == self.n_changes) {
            checked = checked.and_then(|()| devices.suffice(claim));
            let is_one_pod = claim.reserved_for.first().is_some_and(|one| !one.is_group());
            if let Some(node) = self.known.nodes.get(node).filter(|_| is_one_pod) {
                checked = checked.and_then(|()| ObservedDevices::reach(claim, node));
            }
        }
        if let Err(why) = checked {
            self.violated(self.now, format!("{} got devices, but {why}", claim.key));
        }
    }

    fn forget(&mut self, pod: &PodKey) {
        self.known.pods.remove(pod);
        self.known.chosen.remove(pod);
        self.known.cleared.remove(pod);
        self.known.prune_ports();
    }

    fn pod_is(&mut self, pod: &Pod) {
        let before = self.known.pods.insert(pod.key.clone(), pod.clone());
        let Some(node) = &pod.node_name else { return };
        self.known.cleared.remove(&pod.key);
        let chosen = self.known.chosen.remove(&pod.key).map(|(_, node)| node);
        self.known.note_ports(node);
        let was_there = before.and_then(|pod| pod.node_name).or(chosen);
        if was_there.as_ref() != Some(node) {
            self.spoil(node);
        }
    }

    /// Records that something other than the scheduler has changed a node or its pods: the scheduler is
    /// not responsible if the node is overcommitted now.
    fn spoil(&mut self, node: &Str) {
        if self.known.overfull(node).is_some() {
            self.spoiled.insert(node.clone());
        }
    }

    /// Checks a decision of the scheduler.
    pub(crate) fn decided(&mut self, now: Time, decision: &Decision) {
        self.now = now;
        let key = &decision.pod;
        if let Err(why) = self.had_to_be(key, &decision.outcome) {
            self.violated(now, format!("{key} was decided otherwise than it had to be: {why}"));
        }
        match &decision.outcome {
            Outcome::Scheduled { node, .. } => {
                self.known.cleared.remove(key);
                if let Err(why) = self.chosen(key, node) {
                    self.violated(now, format!("{key} was placed on {node}, but {why}"));
                }
                self.decided_after.insert(key.clone(), (self.n_changes, node.clone()));
                if let Some(pod) = self.known.pods.get(key).cloned() {
                    self.known.chosen.insert(key.clone(), (pod, node.clone()));
                }
                self.note_gang(key);
            }
            Outcome::Unschedulable { nomination, message, .. } => {
                self.known.chosen.remove(key);
                self.waiting.insert(key.clone(), message.clone());
                if let Some(nomination) = nomination {
                    if let Err(why) = self.nominated(key, nomination) {
                        let node = &nomination.node;
                        self.violated(now, format!("{key} was nominated to {node}, but {why}"));
                    }
                    self.known.cleared.insert(key.clone());
                }
            }
            Outcome::Error { .. } => {
                self.known.chosen.remove(key);
            }
        }
    }

    /// Checks that no other decision about a pod was possible.
    fn had_to_be(&self, key: &PodKey, outcome: &Outcome) -> Result<(), String> {
        let known = &self.known;
        let is_reckoned = |pod: &&Pod| known.is_reckoned(pod) && self.gang_of(pod).is_none();
        let Some(pod) = known.pods.get(key).filter(is_reckoned) else {
            return Ok(());
        };
        match outcome {
            _ if self.extent == Extent::Placements => Ok(()),
            Outcome::Scheduled { best, .. } => known.are_best(pod, best),
            Outcome::Unschedulable { nomination, .. } => {
                known.has_nowhere_to_go(pod)?;
                match nomination {
                    Some(nomination) => {
                        known.is_frugal(pod, nomination)?;
                        known.breaks_no_budget_in_vain(pod, nomination)
                    }
                    None => known.has_no_victims(pod),
                }
            }
            Outcome::Error { .. } => Ok(()),
        }
    }

    /// Whether a pod may be placed on a node.
    fn chosen(&self, key: &PodKey, node: &Str) -> Result<(), String> {
        let pod = self.known.pods.get(key).ok_or("there is no such pod")?;
        if let Some(on) = self.known.place(pod) {
            return Err(format!("it is on {on} already"));
        }
        if pod.is_terminating() {
            return Err("it is being deleted".to_owned());
        }
        if !pod.scheduling_gates.is_empty() {
            return Err("a gate keeps it out".to_owned());
        }
        self.known.feasible(pod, node, &BTreeSet::new())
    }

    /// Checks a nomination of a pod.
    fn nominated(&self, key: &PodKey, nomination: &Nomination) -> Result<(), String> {
        let pod = self.known.pods.get(key).ok_or("there is no such pod")?;
        let victims: BTreeSet<PodKey> = nomination.victims.iter().cloned().collect();
        self.known.are_as_harmful_as_said(&victims, nomination.broken_budgets)?;
        for victim in &victims {
            self.victim(pod, victim, false)?;
            let on = self.known.pods.get(victim).and_then(|victim| self.known.place(victim));
            let pod = self.known.pods.get(victim);
            let leaves = pod.is_some_and(|pod| self.known.groups.leaves_with_others(pod));
            if on != Some(&nomination.node) && !leaves {
                return Err(format!("its victim {victim} is not there"));
            }
        }
        // Of a group that leaves as a whole, those that are going already are not evicted again.
        let victims = &victims | &self.known.going_with(&victims);
        // kube-scheduler subtracts terminating pods from counts in which they are not included. That
        // may evict pods in vain, but places no pod wrongly. The same holds for pods that an empty
        // selector does not count.
        let mut there = self.known.pods_on(&nomination.node);
        let is_off_count = pod.spread.iter().any(|one| one.selector.is_everything());
        if is_off_count
            || there.any(|other| other.is_terminating() && other.priority < pod.priority)
        {
            return Ok(());
        }
        self.known.feasible(pod, &nomination.node, &victims)
    }

    /// Whether a pod may be evicted for another, or for the group of that.
    fn victim(&self, pod: &Pod, victim: &PodKey, for_group: bool) -> Result<(), String> {
        if pod.preemption_policy == PreemptionPolicy::Never {
            return Err("it must not evict any".to_owned());
        }
        let Some(victim) = self.known.pods.get(victim) else {
            return Err(format!("its victim {victim} is not there"));
        };
        let its = self.known.groups.priority_of_preemptor(pod, for_group);
        let other = self.known.groups.priority_of_victim(victim, for_group);
        if its <= other {
            return Err(format!(
                "priority {other} of its victim {} is not below {its}",
                victim.key
            ));
        }
        Ok(())
    }

    /// Checks a write of the scheduler.
    pub(crate) fn wrote(&mut self, now: Time, effect: &Effect) {
        self.now = now;
        let key = &effect.pod.key;
        match &effect.write {
            Write::Bind(binding)
                if self.known.chosen.get(key).map(|(_, node)| node) != Some(&binding.node) =>
            {
                let node = &binding.node;
                self.violated(now, format!("{key} is bound to {node}, which was not chosen"));
            }
            Write::Bind(binding) => {
                let pod = self.known.pods.get(key);
                let node = &binding.node;
                let decided_after = self.decided_after.get(key).map(|(after, _)| *after);
                let has_changed = decided_after != Some(self.n_changes);
                let is_ready = |pod| {
                    // While a pod waits for devices, its node may move away from its volumes.
                    let waited = has_changed && self.known.devices.are_claimed_by(pod);
                    if !waited {
                        self.known.is_mountable(pod, node)?;
                    }
                    if self.known.filter(&["DynamicResources"]) {
                        self.known.has_claimed(pod)?;
                    }
                    self.may_be_bound(pod)
                };
                if let Some(Err(why)) = pod.map(is_ready) {
                    let why: String = why;
                    self.violated(now, format!("{key} is bound to {node}, but {why}"));
                }
            }
            Write::Evict(eviction) => {
                self.evictions.insert(effect.id);
                let pod = self.known.pods.get(key).ok_or_else(|| "it is gone".to_owned());
                if let Err(why) =
                    pod.and_then(|pod| self.victim(pod, &eviction.victim.key, eviction.for_group))
                {
                    let victim = &eviction.victim.key;
                    self.violated(now, format!("{victim} is evicted for {key}, but {why}"));
                }
            }
            _ => {}
        }
    }

    /// Whether some pod is being bound.
    pub(crate) fn awaits(&self) -> bool {
        !self.known.chosen.is_empty()
    }

    /// Reports that a pod waits for a change although `node` is feasible; once for each attempt. A pod of a gang may have to
    /// wait for others.
    pub(crate) fn sleeps(&mut self, now: Time, pod: &PodKey, node: &str) {
        if self.may_wait_for_others(pod) {
            return;
        }
        if let Some(message) = self.waiting.remove(pod) {
            let what = format!("{pod} sleeps, but {node} would take it; it was told {message:?}");
            self.violated(now, what);
        }
    }

    /// Checks that the scheduler knows all pods: `known` are those that it does.
    pub(crate) fn keeps_all(&mut self, now: Time, known: &BTreeSet<PodKey>) {
        let is_ours = |pod: &Pod| {
            // What waits while it is being deleted is of no interest to it.
            let is_tried =
                !pod.is_terminating() && self.schedulers.contains(pod.scheduler_name.as_str());
            pod.node_name.is_some() || is_tried
        };
        let ours = self.known.pods.values().filter(|pod| is_ours(pod)).map(|pod| &pod.key);
        let is_lost = |pod: &&PodKey| !known.contains(*pod) && !self.lost.contains(*pod);
        let lost: Vec<PodKey> = ours.filter(is_lost).cloned().collect();
        for pod in lost {
            self.violated(now, format!("{pod} is lost: the scheduler does not know it"));
            self.lost.insert(pod);
        }
    }

    /// Checks, when nothing can happen any more, that no pod is still on its way to its node.
    pub(crate) fn ends(&mut self, now: Time) {
        let chosen = self.known.chosen.iter();
        let stuck: Vec<String> =
            chosen.map(|(pod, (_, node))| format!("{pod} never came to {node}")).collect();
        for what in stuck {
            self.violated(now, what);
        }
    }

    /// Checks the nodes when the scheduler has nothing more to do at the present time.
    pub(crate) fn rests(&mut self, now: Time) {
        self.now = now;
        self.audit_waits();
        let nodes: Vec<Str> = self.known.nodes.keys().cloned().collect();
        for node in nodes {
            match self.known.overfull(&node) {
                None => {
                    self.spoiled.remove(&node);
                }
                // Reported once, and not again until it is resolved.
                Some(why) if self.spoiled.insert(node.clone()) => {
                    self.violated(now, format!("on node {node}, {why}"));
                }
                Some(_) => {}
            }
        }
    }

    /// Reports another violation.
    pub(crate) fn violated(&mut self, at: Time, what: String) {
        self.violations.push(Violation { at, what });
    }

    /// All violations so far.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }
}

/// Whether objects of a kind select pods that are spread by default.
fn selects(kind: KindRef) -> bool {
    kind.is::<Service>()
        || kind.is::<ReplicationController>()
        || kind.is::<ReplicaSet>()
        || kind.is::<StatefulSet>()
}
