//! The fold: takes in the events of a cluster, and compares each binding.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use plimsoll_api::{KindRef, Node, ObjectKey, Pod, PodKey, PodPhase, Str, Timestamp, Unscheduled};
use plimsoll_engine::{Event, Observation, QueuePlace, Scheduler};
use plimsoll_framework::Time;
use plimsoll_sim::Utilisation;

use crate::balance::Balance;
use crate::candidates::Candidates;
use crate::comparison::{compare, would_fit};
use crate::configurations::Differences;
use crate::disagreement::{Archive, Disagreement};
use crate::groups::{PendingGroup, gangs_in_part};
use crate::histogram::{Durations, Histogram};
use crate::own_cluster::OwnCluster;
use crate::report::{Agreement, Configuration, Report, StillPending};
use crate::tally::Tally;

/// At most this many events are processed at once, so that questions are answered meanwhile.
const MOST_AT_ONCE: usize = 100;
/// At most this many bindings are remembered as recent.
const MOST_RECENT: usize = 10_000;
/// With at least this many nodes, kube-scheduler scores only some of them unless it is told otherwise. As in
/// schedule_one.go, minFeasibleNodesToFind.
const SAMPLED_FROM: usize = 100;

/// How it compares.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The other scheduler may have decided pods in another order than that in which it bound them, if they were bound within
    /// this span. Every event waits this long before it is processed.
    pub window: Duration,
    /// At most this many disagreements are kept, the latest; the others are only counted.
    pub most_kept: usize,
    /// What else limits the comparison, in sentences for the report.
    pub limits: Vec<String>,
}

/// A configuration that judges.
#[derive(Debug)]
pub struct Judge {
    /// Its name in the report.
    pub name: String,
    /// The release whose decisions it makes.
    pub release: String,
    /// Decides by this configuration. It must judge all nodes, and must not have observed anything.
    pub scheduler: Scheduler,
}

/// Compares the choices of another scheduler with the decisions of one or two configurations.
#[derive(Debug)]
pub struct Shadow {
    settings: Settings,
    judges: Vec<(Judge, Tally)>,
    between: Option<Differences>,
    /// The cluster as our decisions would have made it.
    own: Option<OwnCluster>,
    /// The time of the last event that was processed.
    seen_until: Time,
    /// Events that were not processed yet, in the order of their arrival.
    arrived: VecDeque<Arrived>,
    /// Pods of the followed scheduler that have no node.
    pending: BTreeMap<PodKey, Waiting>,
    /// Pods that were bound within the last window, in order.
    recent: VecDeque<RecentBinding>,
    /// Pods whose bindings are yet to be processed, and were compared with those of their groups.
    compared: BTreeSet<PodKey>,
    /// On which nodes pending members of groups would be, by the index of the judge.
    foretold: BTreeMap<(usize, PodKey), Foretold>,
    /// The manifests of all objects, if events come with them.
    manifests: BTreeMap<(KindRef, ObjectKey), Box<str>>,
    next_order: u64,
    /// When the whole cluster was known.
    began: Option<Time>,
    not_seen_pending: u64,
    pending_times: Histogram,
    disagreements: VecDeque<Disagreement>,
    n_disagreements: u64,
}

#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) at: Time,
    pub(crate) event: Event,
    manifest: Option<Box<str>>,
}

/// A pending pod.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    /// The first pod that was seen has the lowest.
    order: u64,
    priority: i32,
    since: Time,
    /// What the other scheduler last said, if it found no node.
    told: Option<Unscheduled>,
}

impl Waiting {
    /// Where it stands in the queue. As in priority_sort.go: by priority, then by age.
    pub(crate) fn place(&self) -> (Reverse<i32>, u64) {
        (Reverse(self.priority), self.order)
    }
}

/// What was decided about a member of a group when the other scheduler said of another one that it fits nowhere.
#[derive(Debug)]
struct Foretold {
    /// It counts as long as this.
    until: Time,
    /// The best nodes; empty if the member would be pending, too.
    best: Vec<Str>,
}

#[derive(Clone, Debug)]
pub(crate) struct RecentBinding {
    at: Time,
    pub(crate) pod: PodKey,
    pub(crate) waiting: Waiting,
}

impl Shadow {
    /// Compares with the first of `judges`, and with the second if there is one. The pods of the scheduler names of the first
    /// one's profiles are compared.
    pub fn new(first: Judge, second: Option<Judge>, settings: Settings) -> Self {
        let between = second.is_some().then(Differences::default);
        let judges = std::iter::once(first).chain(second);
        Shadow {
            settings,
            judges: judges.map(|judge| (judge, Tally::default())).collect(),
            between,
            own: None,
            seen_until: Time::ZERO,
            arrived: VecDeque::new(),
            pending: BTreeMap::new(),
            recent: VecDeque::new(),
            compared: BTreeSet::new(),
            foretold: BTreeMap::new(),
            manifests: BTreeMap::new(),
            next_order: 0,
            began: None,
            not_seen_pending: 0,
            pending_times: Histogram::default(),
            disagreements: VecDeque::new(),
            n_disagreements: 0,
        }
    }

    /// Keeps the cluster, too, as this scheduler would have made it, which decides as the first judge does. It must not have
    /// observed anything.
    #[must_use]
    pub fn with_own_cluster(self, scheduler: Scheduler) -> Self {
        Shadow { own: Some(OwnCluster::new(scheduler)), ..self }
    }

    /// Takes in an event, with the manifest of the object if disagreements are archived.
    pub fn take(&mut self, now: Time, event: Event, manifest: Option<Box<str>>) {
        let arrived = Arrived { at: now, event, manifest };
        match self.began {
            // Nothing is compared before the whole cluster is known.
            None => self.apply(arrived),
            Some(_) => self.arrived.push_back(arrived),
        }
    }

    /// The whole cluster is known: from now on choices are compared.
    pub fn begin(&mut self, now: Time) {
        self.began.get_or_insert(now);
        self.seen_until = now;
        if let Some(own) = &mut self.own {
            own.begin();
        }
    }

    /// Processes the events whose window has passed, but no more than some at a time. Returns whether there are more.
    pub fn advance(&mut self, now: Time, archive: &mut dyn Archive) -> bool {
        for _ in 0..MOST_AT_ONCE {
            if !self.is_due(now) {
                // Nothing more comes of the time before.
                let window = i64::try_from(self.settings.window.as_millis()).unwrap_or(i64::MAX);
                self.place_ours_until(Time::from_millis(now.millis().saturating_sub(window)));
                return false;
            }
            self.process_next(archive);
        }
        self.is_due(now)
    }

    /// Places the pods of our own cluster that can be placed by what has been seen, and then those that can be placed at this
    /// time, if it is later.
    fn place_ours_until(&mut self, until: Time) {
        self.place_ours();
        if self.seen_until < until {
            self.seen_until = until;
            self.place_ours();
        }
    }

    fn place_ours(&mut self) {
        if let Some(own) = &mut self.own {
            own.place_pods(self.seen_until);
        }
    }

    fn is_due(&self, now: Time) -> bool {
        self.arrived.front().is_some_and(|first| first.at + self.settings.window <= now)
    }

    /// Processes all events.
    pub fn drain(&mut self, archive: &mut dyn Archive) {
        while !self.arrived.is_empty() {
            self.process_next(archive);
        }
        self.place_ours();
    }

    fn process_next(&mut self, archive: &mut dyn Archive) {
        let Some(next) = self.arrived.pop_front() else { return };
        // All that was seen at a time is known before anything is decided, so that the queue has its order.
        if self.seen_until < next.at {
            self.place_ours();
            self.seen_until = next.at;
        }
        if let Event::Pod(Observation::Is(pod)) = &next.event {
            let pod = pod.clone();
            match (&pod.node_name, self.pending.get(&pod.key)) {
                (Some(node), Some(_)) => self.bound(next.at, &pod, &node.clone(), archive),
                (Some(_), None) => self.count_unseen(&pod),
                (None, Some(_)) => self.says_unschedulable(next.at, &pod, archive),
                (None, None) => {}
            }
        }
        self.apply(next);
    }

    /// Counts a pod of the followed scheduler that is new and on a node already.
    fn count_unseen(&mut self, pod: &Pod) {
        let (judge, _) = &self.judges[0];
        let is_followed =
            judge.scheduler.profile_names().iter().any(|one| *one == pod.scheduler_name);
        let is_new = !judge.scheduler.knows_pod(&pod.key);
        self.not_seen_pending += u64::from(is_followed && is_new && pod.phase != PodPhase::Ended);
    }

    /// Compares the choice of a node for a pod.
    fn bound(&mut self, at: Time, pod: &Pod, node: &Str, archive: &mut dyn Archive) {
        let Some(waiting) = self.pending.get(&pod.key).cloned() else { return };
        // When a pod was made is known only to the second.
        let was_seen_new = self.began.is_some_and(|began| began < waiting.since);
        let since =
            if was_seen_new { waiting.since } else { created(pod).unwrap_or(waiting.since) };
        self.pending_times.add(millis(at.since(since)));
        self.forget_old_bindings(at);
        if !self.compared.remove(&pod.key) {
            match self.group_with(&pod.key) {
                None => self.compare_pod(at, (pod, node), &waiting, archive),
                Some(group) => self.compare_group(at, &group, (pod, node), &waiting, archive),
            }
        }
        self.recent.push_back(RecentBinding { at, pod: pod.key.clone(), waiting });
    }

    /// Compares the choice of a node for a pod by itself.
    fn compare_pod(
        &mut self,
        at: Time,
        (pod, node): (&Pod, &Str),
        waiting: &Waiting,
        archive: &mut dyn Archive,
    ) {
        let key = &pod.key;
        let until = at + self.settings.window;
        let Shadow { judges, arrived, pending, recent, .. } = self;
        let mut comparisons = Vec::new();
        for (judge, tally) in judges {
            let Some(subject) = pending_pod(&judge.scheduler, key) else { continue };
            let reorderings =
                || Candidates::of((arrived, until), pending, recent, key).reorderings(waiting);
            let comparison = compare(&mut judge.scheduler, at, (&subject, node), &reorderings);
            tally.add(&comparison);
            comparisons.push((judge.name.clone(), comparison));
        }
        if let (Some(between), [(_, first), (_, second)]) = (&mut self.between, &*comparisons) {
            between.add((key, &text(at)), (first, second), self.settings.most_kept);
        }
        for (configuration, comparison) in comparisons {
            if let Some(disagreement) = Disagreement::of(&comparison, node) {
                self.keep(at, pod, Disagreement { configuration, ..disagreement }, archive);
            }
        }
    }

    /// The group of a pending pod, if groups are decided as groups.
    fn group_with(&self, pod: &PodKey) -> Option<PendingGroup> {
        PendingGroup::of(&self.judges[0].0.scheduler, pod)
    }

    /// Compares the choices of nodes for the pending pods of a group that are bound within the window: of the pod that is bound
    /// first, and of those after it. Each is counted once.
    fn compare_group(
        &mut self,
        at: Time,
        group: &PendingGroup,
        (pod, node): (&Pod, &Str),
        waiting: &Waiting,
        archive: &mut dyn Archive,
    ) {
        let until = at + self.settings.window;
        let Shadow { judges, arrived, pending, recent, .. } = self;
        let candidates = || Candidates::of((arrived, until), pending, recent, &pod.key);
        let mut theirs = candidates().nodes_of(&group.pods);
        theirs.insert(pod.key.clone(), node.clone());
        let reorderings = || candidates().without(&group.pods).reorderings(waiting);
        let mut of_judges = Vec::new();
        for (judge, tally) in judges {
            let comparisons = group.compare(&mut judge.scheduler, at, &theirs, &reorderings);
            for comparison in comparisons.values() {
                tally.add(comparison);
            }
            of_judges.push((judge.name.clone(), comparisons));
        }
        if let (Some(between), [(_, first), (_, second)]) = (&mut self.between, &*of_judges) {
            for (key, first) in first {
                let Some(second) = second.get(key) else { continue };
                between.add((key, &text(at)), (first, second), self.settings.most_kept);
            }
        }
        for (configuration, comparisons) in of_judges {
            for (key, comparison) in comparisons {
                let Some(member) = pending_pod(&self.judges[0].0.scheduler, &key) else { continue };
                if let Some(disagreement) = Disagreement::of(&comparison, &theirs[&key]) {
                    let (configuration, group) = (configuration.clone(), Some(group.name()));
                    let disagreement = Disagreement { group, configuration, ..disagreement };
                    self.keep(at, &member, disagreement, archive);
                }
            }
        }
        self.compared.extend(theirs.into_keys().filter(|key| *key != pod.key));
    }

    /// Compares that the other scheduler finds no node for a pod, if it says so anew.
    fn says_unschedulable(&mut self, at: Time, pod: &Pod, archive: &mut dyn Archive) {
        let Some(waiting) = self.pending.get_mut(&pod.key) else { return };
        let told = pod.edition.unscheduled.as_deref().copied();
        if told.is_none() || told == waiting.told {
            return;
        }
        waiting.told = told;
        let waiting = waiting.clone();
        self.forget_old_bindings(at);
        let until = at + self.settings.window;
        let group = self.group_with(&pod.key);
        let Shadow { judges, arrived, pending, recent, foretold, .. } = self;
        let candidates = || Candidates::of((arrived, until), pending, recent, &pod.key);
        let mut fits = Vec::new();
        for (index, (judge, tally)) in judges.iter_mut().enumerate() {
            let info = judge.scheduler.queued_pod(&pod.key);
            // The API server itself says of a pod with gates that it is not scheduled.
            let info = info.filter(|info| !matches!(info.place, QueuePlace::Gated { .. }));
            let Some(subject) = info.map(|info| info.pod.seen().clone()) else { continue };
            let told = foretold.remove(&(index, pod.key.clone()));
            let told = told.filter(|told| group.is_some() && at <= told.until);
            let best = match (told, &group) {
                (Some(told), _) => Some(told.best),
                (None, None) => would_fit(&mut judge.scheduler, at, &subject, &|| {
                    candidates().reorderings(&waiting)
                }),
                (None, Some(group)) => {
                    let reorderings = || candidates().without(&group.pods).reorderings(&waiting);
                    let mut best = group.would_fit(&mut judge.scheduler, at, &reorderings);
                    let own = best.remove(&pod.key);
                    for (member, best) in best {
                        foretold.insert((index, member), Foretold { until, best });
                    }
                    own
                }
            };
            match best.filter(|best| !best.is_empty()) {
                Some(best) => {
                    tally.counts.pending_although_fits += 1;
                    fits.push((judge.name.clone(), best));
                }
                None => tally.counts.both_pending += 1,
            }
        }
        for (configuration, best) in fits {
            let group = group.as_ref().map(PendingGroup::name);
            let disagreement =
                Disagreement { group, configuration, ..Disagreement::pending(&best) };
            self.keep(at, pod, disagreement, archive);
        }
    }

    /// Forgets the bindings that are no longer recent.
    fn forget_old_bindings(&mut self, at: Time) {
        while self.recent.front().is_some_and(|first| first.at + self.settings.window < at)
            || MOST_RECENT <= self.recent.len()
        {
            self.recent.pop_front();
        }
    }

    /// Keeps a disagreement, and has the state archived.
    fn keep(&mut self, at: Time, pod: &Pod, disagreement: Disagreement, archive: &mut dyn Archive) {
        self.n_disagreements += 1;
        let mut disagreement = Disagreement {
            number: self.n_disagreements,
            pod: pod.key.to_string(),
            key: pod.key.clone(),
            at: text(at),
            resource_version: pod.edition.resource_version.clone(),
            ..disagreement
        };
        if !self.manifests.is_empty() {
            let mut manifests = self.manifests.values().map(|manifest| &**manifest);
            disagreement.reproduction = archive.keep(&disagreement, &mut manifests);
        }
        if self.disagreements.len() == self.settings.most_kept {
            self.disagreements.pop_front();
        }
        self.disagreements.push_back(disagreement);
    }

    /// Lets everybody see an event.
    fn apply(&mut self, arrived: Arrived) {
        let Arrived { at, event, manifest } = arrived;
        self.set_manifest(&event, manifest);
        let pod = match &event {
            Event::Pod(Observation::Is(pod)) => Some((pod.key.clone(), Some(pod.clone()))),
            Event::Pod(Observation::Gone(key)) => Some((key.clone(), None)),
            _ => None,
        };
        if let Some(own) = &mut self.own {
            own.observe(at, event.clone());
        }
        let (last, others) = self.judges.split_last_mut().expect("there is at least one judge");
        for (judge, _) in others {
            judge.scheduler.observe(at, event.clone());
        }
        last.0.scheduler.observe(at, event);
        if let Some((key, pod)) = pod {
            self.follow_pod(at, key, pod.as_deref());
        }
    }

    /// Updates which pods are pending.
    fn follow_pod(&mut self, at: Time, key: PodKey, pod: Option<&Pod>) {
        let is_pending = self.judges[0].0.scheduler.queued_pod(&key).is_some();
        let Some(pod) = pod.filter(|_| is_pending) else {
            self.pending.remove(&key);
            self.compared.remove(&key);
            for index in 0..self.judges.len() {
                self.foretold.remove(&(index, key.clone()));
            }
            return;
        };
        let next_order = &mut self.next_order;
        let waiting = self.pending.entry(key).or_insert_with(|| {
            *next_order += 1;
            Waiting { order: *next_order, priority: pod.priority, since: at, told: None }
        });
        waiting.priority = pod.priority;
        waiting.told = pod.edition.unscheduled.as_deref().copied();
    }

    fn set_manifest(&mut self, event: &Event, manifest: Option<Box<str>>) {
        let (key, exists) = match event {
            Event::Pod(Observation::Is(pod)) => {
                ((KindRef::of::<Pod>(), pod.key.clone()), pod.phase != PodPhase::Ended)
            }
            Event::Pod(Observation::Gone(key)) => ((KindRef::of::<Pod>(), key.clone()), false),
            Event::Node(node) => {
                let (name, exists) = match &**node {
                    Observation::Is(node) => (node.name.clone(), true),
                    Observation::Gone(name) => (name.clone(), false),
                };
                ((KindRef::of::<Node>(), ObjectKey::new("", name)), exists)
            }
            Event::Object(Observation::Is(object)) => ((object.kind(), object.key()), true),
            Event::Object(Observation::Gone(gone)) => (gone.clone(), false),
            Event::Done(..) | Event::Extended(..) => return,
        };
        match manifest.filter(|_| exists) {
            Some(manifest) => drop(self.manifests.insert(key, manifest)),
            None => drop(self.manifests.remove(&key)),
        }
    }

    /// The scheduler of the first configuration, to ask about the cluster as it is.
    pub fn first_scheduler(&mut self) -> &mut Scheduler {
        &mut self.judges[0].0.scheduler
    }

    /// The counts of the first configuration so far.
    pub fn agreement(&self) -> &Agreement {
        &self.judges[0].1.counts
    }

    /// The counts of each configuration so far, by its name.
    pub fn agreements(&self) -> impl Iterator<Item = (&str, &Agreement)> {
        self.judges.iter().map(|(judge, tally)| (judge.name.as_str(), &tally.counts))
    }

    /// How many disagreements there were so far, of all configurations.
    pub fn disagreements(&self) -> u64 {
        self.n_disagreements
    }

    /// How many pods were first seen on a node, so that they could not be compared.
    pub fn not_seen_pending(&self) -> u64 {
        self.not_seen_pending
    }

    /// How many events wait to be processed. Each waits for the window at least.
    pub fn waiting_events(&self) -> usize {
        self.arrived.len()
    }

    /// For how long the next event could have been processed.
    pub fn lag(&self, now: Time) -> Duration {
        let first = self.arrived.front();
        first.map_or(Duration::ZERO, |first| now.since(first.at + self.settings.window))
    }

    /// Everything that was found so far.
    pub fn report(&self, now: Time) -> Report {
        let (judge, tally) = &self.judges[0];
        let view = judge.scheduler.view();
        let configurations = self.judges.iter().map(|(judge, tally)| Configuration {
            name: judge.name.clone(),
            release: judge.release.clone(),
            pods: tally.counts.clone(),
            median_margin: tally.margins().map(|(median, _)| median),
            max_margin: tally.margins().map(|(_, max)| max),
            worse_by: tally.worse_by(),
            infeasible_by: tally.infeasible_by(),
        });
        let n_kept = u64::try_from(self.disagreements.len()).unwrap_or(u64::MAX);
        let balance = Balance::of(view);
        Report {
            scheduler_names: judge.scheduler.profile_names(),
            began: self.began.map(text),
            ended: text(now),
            seconds: self.began.map_or(0, |began| now.since(began).as_secs()),
            configurations: configurations.collect(),
            between_configurations: self.between.clone(),
            not_seen_pending: self.not_seen_pending,
            pending_time: Durations::of(&self.pending_times),
            still_pending: self.still_pending(),
            utilisation: Utilisation::of(view).shares(),
            limits: self.limits(&tally.counts, balance.nodes),
            balance,
            our_cluster: self.own.as_ref().map(OwnCluster::report),
            disagreements: self.disagreements.clone(),
            disagreements_dropped: self.n_disagreements - n_kept,
        }
    }

    fn still_pending(&self) -> StillPending {
        let scheduler = &self.judges[0].0.scheduler;
        let mut pending = StillPending::default();
        for (key, waiting) in &self.pending {
            let info = scheduler.queued_pod(key);
            let is_gated = info.is_some_and(|info| matches!(info.place, QueuePlace::Gated { .. }));
            pending.pods += 1;
            pending.gated += u64::from(is_gated);
            pending.said_unschedulable += u64::from(!is_gated && waiting.told.is_some());
        }
        if scheduler.schedules_groups() {
            pending.gangs_in_part = gangs_in_part(scheduler);
        }
        pending
    }

    /// How far the comparison can be trusted.
    fn limits(&self, counts: &Agreement, n_nodes: usize) -> Vec<String> {
        let window = self.settings.window.as_secs_f64();
        let mut limits = vec![
            format!(
                "each pod is decided on the state that was seen just before its binding; the other scheduler had decided \
                 earlier, on what it knew then. {} of {} agreements need bindings within {window} s to be in another order",
                counts.reordered,
                counts.agreed()
            ),
            "objects of different kinds are watched separately: their order among each other is that of their arrival"
                .to_owned(),
            match self.own {
                None => "utilisation and balance are those of the cluster as the other scheduler has placed the pods: what our \
                         decisions would have led to is not simulated",
                Some(_) => "in the cluster as our decisions would have made it, pods come and go when they do in the cluster that \
                            is followed: a pod that we would have started earlier does not end earlier, nothing is preempted or \
                            scaled otherwise, and volumes and devices are those that the other scheduler has chosen",
            }
            .to_owned(),
            match self.judges[0].0.scheduler.schedules_groups() {
                false => "members of a group of pods are decided one by one".to_owned(),
                true => format!(
                    "a group of pods is decided as a group on the state before its first binding, and compared with the bindings of \
                     its pods within {window} s; pods of Coscheduling are decided one by one"
                ),
            },
        ];
        if SAMPLED_FROM <= n_nodes {
            limits.push(format!(
                "all {n_nodes} nodes are scored here; kube-scheduler scores only some of them unless \
                 percentageOfNodesToScore is 100, so a node that is worse may be the best of those that it has scored"
            ));
        }
        limits.extend(self.settings.limits.iter().cloned());
        limits
    }
}

/// A pending pod as it was last seen.
pub(crate) fn pending_pod(scheduler: &Scheduler, key: &PodKey) -> Option<Arc<Pod>> {
    Some(scheduler.queued_pod(key)?.pod.seen().clone())
}

/// When a pod was made.
pub(crate) fn created(pod: &Pod) -> Option<Time> {
    pod.created.map(|created| Time::from_millis(created.as_millisecond()))
}

pub(crate) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// A time in RFC 3339.
fn text(time: Time) -> String {
    Timestamp::from_millisecond(time.millis())
        .map_or_else(|_| String::new(), |time| time.to_string())
}
