//! The plugins of one scheduler name, with their order and weights.

use std::collections::BTreeSet;
use std::sync::Arc;

use plimsoll_api::{KindRef, Kinds, Node};
use plimsoll_framework::events::{self, Object};
use plimsoll_framework::metrics::Descriptor;
use plimsoll_framework::parts::{NodeReads, PodReads, StoreReads};
use plimsoll_framework::points::{FilterPoint, PostFilterPoint, PreEnqueuePoint};
use plimsoll_framework::{
    Action, Candidates, Change, ClusterEvent, CycleState, Entry, FeatureGates, GroupRules, Hint,
    MAX_NODE_SCORE, PodInfo, Point, Points, Prioritize, ProfileSpec, Registry, Release, Row, View,
};

use crate::cycle::{NO_NODE_REJECTOR, UNREADABLE_REJECTOR};
use crate::metrics::{EventLabel, Hints};
use crate::signature;

/// Why a profile could not be created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// A name that the registry does not know.
    #[error("profile {profile:?}: plugin {plugin:?} does not exist")]
    Unknown {
        /// The profile.
        profile: String,
        /// The name.
        plugin: String,
    },
    /// A plugin at a point that it does not implement.
    #[error("profile {profile:?}: plugin {plugin:?} does not extend {} plugin", point.as_str())]
    NotThere {
        /// The profile.
        profile: String,
        /// The plugin.
        plugin: String,
        /// The point.
        point: Point,
    },
    /// Args that do not parse.
    #[error("profile {profile:?}: {error}")]
    Args {
        /// The profile.
        profile: String,
        /// What is wrong.
        error: plimsoll_framework::ArgsError,
    },
    /// A plugin that is listed twice at a point.
    #[error("profile {profile:?}: plugin {plugin:?} already registered as \"{}Plugin\"", point.as_str())]
    Twice {
        /// The profile.
        profile: String,
        /// The plugin.
        plugin: String,
        /// The point.
        point: Point,
    },
    /// A profile of another release than the scheduler's.
    #[error(
        "profile {profile:?}: made for release {made_for}, in a scheduler of release {release}"
    )]
    Release {
        /// The profile.
        profile: String,
        /// Its release.
        made_for: Release,
        /// The release of the scheduler.
        release: Release,
    },
    /// No QueueSort plugin or several, no Bind plugin, or a sum of weights that is too large.
    #[error("profile {profile:?}: {message}")]
    Incomplete {
        /// The profile.
        profile: String,
        /// What is wrong.
        message: &'static str,
    },
    /// Two profiles with one scheduler name.
    #[error("duplicated profile with scheduler name {0:?}")]
    Duplicate(String),
}

/// A node came.
pub(crate) const NEW_NODE: ClusterEvent = ClusterEvent::of::<Node>(Action::ADD);
/// The taints of a node changed.
const TAINT: ClusterEvent = ClusterEvent::of::<Node>(Action::UPDATE_NODE_TAINT);

/// One plugin of a profile.
pub(crate) struct ProfilePlugin {
    pub(crate) name: &'static str,
    pub(crate) points: Points,
    events: Vec<ClusterEvent>,
    /// The parts of a pod that it reads when it judges.
    reads: PodReads,
    /// The stores that it reads in addition to pods and nodes.
    stores: StoreReads,
    /// The kinds of objects that it reads.
    kinds: BTreeSet<KindRef>,
}

/// The index of a plugin in its profile.
pub(crate) type PluginIndex = usize;

/// The plugins of one scheduler name.
pub struct Profile {
    /// Its index in what is counted by profile. Profiles that had the same scheduler name one after the other share it.
    pub(crate) index: usize,
    /// See [`Self::fingerprint`].
    fingerprint: u64,
    pub(crate) scheduler_name: String,
    /// The release of its plugins.
    pub(crate) release: Release,
    pub(crate) percentage_of_nodes_to_score: Option<u8>,
    pub(crate) run_all_filters: bool,
    plugins: Vec<ProfilePlugin>,
    /// Plugins with their weights, by point.
    order: [Vec<(PluginIndex, i64)>; Point::ALL.len()],
    /// The ranking that replaces the Score plugins.
    ranking: Option<Arc<dyn Prioritize>>,
    /// Whether plugins share what they learn at PreFilter.
    pub(crate) shares_filter_state: bool,
    /// By which rules groups of pods are decided.
    group_rules: GroupRules,
}

impl std::fmt::Debug for Profile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Profile")
            .field("scheduler_name", &self.scheduler_name)
            .finish_non_exhaustive()
    }
}

impl Profile {
    /// Creates every plugin that `spec` names.
    pub fn new(
        spec: &ProfileSpec,
        registry: &Registry,
        gates: &FeatureGates,
    ) -> Result<Self, ProfileError> {
        let mut profile = Profile {
            index: 0,
            fingerprint: fingerprint(spec, gates),
            scheduler_name: spec.scheduler_name.clone(),
            release: gates.release(),
            percentage_of_nodes_to_score: spec.percentage_of_nodes_to_score,
            run_all_filters: spec.run_all_filters,
            plugins: Vec::new(),
            order: Default::default(),
            ranking: None,
            shares_filter_state: false,
            group_rules: GroupRules::of(gates.release()),
        };
        for (&point, names) in &spec.points {
            for (name, weight) in names {
                let plugin = profile.plugin(name, point, spec, registry, gates)?;
                profile.order[point.index()].push((plugin, (*weight).max(1)));
            }
        }
        profile.check()?;
        let shares = |plugin: &ProfilePlugin| {
            plugin.points.filter.as_ref().is_some_and(FilterPoint::shares_state)
        };
        let is_shared = profile.at(Point::PreFilter).any(|(plugin, _)| shares(plugin));
        profile.shares_filter_state = is_shared;
        Ok(profile)
    }

    /// The profiles of all `specs`, in their order.
    pub fn all_of(
        specs: &[ProfileSpec],
        registry: &Registry,
        gates: &FeatureGates,
    ) -> Result<Vec<Self>, ProfileError> {
        specs.iter().map(|spec| Profile::new(spec, registry, gates)).collect()
    }

    /// A number that is the same for profiles that were made from equal specifications with equal feature gates, by this
    /// version of the program.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// The scheduler name of the pods that it places.
    pub fn scheduler_name(&self) -> &str {
        &self.scheduler_name
    }

    /// The metrics of its plugins.
    pub(crate) fn metrics(&self) -> impl Iterator<Item = &'static Descriptor> {
        self.plugins.iter().flat_map(|plugin| plugin.points.metrics.iter().copied())
    }

    /// The same profile with `ranking` instead of its Score plugins.
    #[must_use]
    pub fn ranked_by(mut self, ranking: Arc<dyn Prioritize>) -> Self {
        for point in [Point::PreScore, Point::Score] {
            self.order[point.index()].clear();
        }
        self.ranking = Some(ranking);
        self.fingerprint = self.fingerprint.rotate_left(1);
        self
    }

    fn plugin(
        &mut self,
        name: &str,
        point: Point,
        spec: &ProfileSpec,
        registry: &Registry,
        gates: &FeatureGates,
    ) -> Result<PluginIndex, ProfileError> {
        let profile = || spec.scheduler_name.clone();
        let plugin = || name.to_owned();
        let entry = registry
            .get(name)
            .ok_or_else(|| ProfileError::Unknown { profile: profile(), plugin: plugin() })?;
        if !entry.points().contains(&point) {
            return Err(ProfileError::NotThere { profile: profile(), plugin: plugin(), point });
        }
        if let Some(known) = self.plugins.iter().position(|known| known.name == name) {
            return Ok(known);
        }
        let points = entry
            .make(spec.args.get(name), gates)
            .map_err(|error| ProfileError::Args { profile: profile(), error })?;
        let events = registered_events(&points, entry);
        let at_post_filter = points.post_filter.as_ref().map(PostFilterPoint::reads);
        self.plugins.push(ProfilePlugin {
            name: entry.name(),
            events,
            reads: entry.reads().pod,
            stores: entry.reads().cluster.stores | at_post_filter.unwrap_or_default(),
            kinds: entry.kinds() - &points.unread,
            points,
        });
        Ok(self.plugins.len() - 1)
    }

    fn check(&self) -> Result<(), ProfileError> {
        let incomplete = |message| {
            Err(ProfileError::Incomplete { profile: self.scheduler_name.clone(), message })
        };
        if self.at(Point::QueueSort).count() != 1 {
            return incomplete("exactly one queue sort plugin must be enabled");
        }
        for point in Point::ALL {
            let mut seen = BTreeSet::new();
            let mut plugins = self.indices(point);
            if let Some((twice, _)) = plugins.find(|(index, _)| !seen.insert(*index)) {
                let plugin = self.get(twice).name.to_owned();
                return Err(ProfileError::Twice {
                    profile: self.scheduler_name.clone(),
                    plugin,
                    point,
                });
            }
        }
        let total = self.at(Point::Score).try_fold(0_i64, |total, (_, weight)| {
            weight.checked_mul(MAX_NODE_SCORE).and_then(|most| total.checked_add(most))
        });
        if total.is_none() {
            return incomplete("total score of Score plugins could overflow");
        }
        if self.at(Point::Bind).count() == 0 {
            return incomplete("at least one bind plugin must be enabled");
        }
        Ok(())
    }

    /// Whether PostFilter plugins are asked about a pod for which there is no node. Since 1.37 pods of groups do not evict by
    /// themselves.
    pub(crate) fn asks_post_filter(&self, pod: &PodInfo) -> bool {
        self.group_rules < GroupRules::V1_37 || pod.scheduling_group.is_none()
    }

    /// The ranking that replaces the Score plugins, if any.
    pub(crate) fn ranking(&self) -> Option<&dyn Prioritize> {
        self.ranking.as_deref()
    }

    /// The highest score of one plugin or rule, before its weight.
    pub(crate) fn most_points(&self) -> i64 {
        self.ranking().map_or(MAX_NODE_SCORE, Prioritize::most)
    }

    /// The stores that its plugins read in addition to pods and nodes. A ranking may read everything.
    pub(crate) fn stores(&self) -> StoreReads {
        if self.ranking.is_some() {
            return StoreReads::all();
        }
        self.plugins.iter().fold(StoreReads::empty(), |all, plugin| all | plugin.stores)
    }

    /// The kinds of objects, beside pods and nodes, that its plugins read.
    pub(crate) fn kinds(&self) -> BTreeSet<KindRef> {
        let all = match self.stores() == StoreReads::all() {
            true => Kinds::built_in().iter().collect(),
            false => BTreeSet::new(),
        };
        let read = self.plugins.iter().fold(BTreeSet::new(), |all, plugin| &all | &plugin.kinds);
        let is_unread = |kind: &KindRef| {
            !read.contains(kind) && self.plugins.iter().any(|one| one.points.unread.contains(kind))
        };
        (&all | &read).into_iter().filter(|kind| !is_unread(kind)).collect()
    }

    /// Whether anything ranks nodes.
    pub(crate) fn scores(&self) -> bool {
        self.ranking.is_some() || self.indices(Point::Score).next().is_some()
    }

    /// The plugins at `point` in order, with their weights.
    pub(crate) fn at(&self, point: Point) -> impl Iterator<Item = (&ProfilePlugin, i64)> {
        self.indices(point).map(|(index, weight)| (&self.plugins[index], weight))
    }

    /// The indices of the plugins at `point` in order, with their weights.
    pub(crate) fn indices(&self, point: Point) -> impl Iterator<Item = (PluginIndex, i64)> {
        self.order[point.index()].iter().copied()
    }

    /// All plugins.
    pub(crate) fn plugins(&self) -> &[ProfilePlugin] {
        &self.plugins
    }

    /// The plugin at `index`.
    pub(crate) fn get(&self, index: PluginIndex) -> &ProfilePlugin {
        &self.plugins[index]
    }

    /// Whether `change` may help a pod that `rejectors` rejected, and if so because of which of them.
    pub(crate) fn hint<'r>(
        &self,
        rejectors: &'r BTreeSet<&'static str>,
        pod: &PodInfo,
        change: &Change<'_>,
        hints: &mut Hints,
    ) -> Vec<&'r &'static str> {
        rejectors.iter().filter(|name| self.helps(name, pod, change, hints)).collect()
    }

    /// Whether `change` may help a pod that `rejector` rejected.
    pub(crate) fn helps(
        &self,
        rejector: &str,
        pod: &PodInfo,
        change: &Change<'_>,
        hints: &mut Hints,
    ) -> bool {
        match self.named(rejector) {
            Some(plugin) => plugin.is_worth(pod, change, hints),
            // If there was no node, only a new node helps.
            None if rejector == NO_NODE_REJECTOR => NEW_NODE.covers(change.event),
            None if rejector == UNREADABLE_REJECTOR => {
                matches!(change.object, Object::Itself { .. })
            }
            // As in scheduling_queue.go: for a rejector without registered events, such as an extender,
            // every event counts.
            None => true,
        }
    }

    /// The plugin named `name`.
    pub(crate) fn named(&self, name: &str) -> Option<&ProfilePlugin> {
        self.plugins.iter().find(|plugin| plugin.name == name)
    }
}

/// FNV-1a of everything that a profile is made of.
fn fingerprint(spec: &ProfileSpec, gates: &FeatureGates) -> u64 {
    let text = format!("{spec:?} {gates:?}");
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The events that may help a pod that the plugin rejected: its own, or those derived from its parts.
/// A plugin that reads nothing at a point that rejects, such as Permit, hears of everything.
fn registered_events(points: &Points, entry: &Entry) -> Vec<ClusterEvent> {
    if let Some(requeue) = &points.requeue {
        return requeue.events().to_vec();
    }
    if points.filter.is_some() || points.pre_enqueue.is_some() {
        let of_gate = points.pre_enqueue.as_ref().map(PreEnqueuePoint::reads);
        let mut reads_all = points.reads.union(of_gate.unwrap_or_default());
        reads_all.pod |= entry.reads().pod;
        let kinds: Vec<KindRef> = points.waits_for.iter().copied().collect();
        return events::derived(reads_all, &kinds);
    }
    let kinds: BTreeSet<KindRef> =
        Kinds::built_in().iter().chain(entry.kinds().iter().copied()).collect();
    let wake = kinds.into_iter().filter(|kind| kind.wakes_pods());
    wake.map(|kind| ClusterEvent::new(kind, Action::all())).collect()
}

impl ProfilePlugin {
    /// Whether `event` may help some pod that the plugin rejected.
    pub(crate) fn hears(&self, event: ClusterEvent) -> bool {
        self.covers(event) || self.hears_of_taint(event)
    }

    /// Whether its hints, and its answers at PreEnqueue, are the same for all pods of a signature. Its own
    /// hint reads what the plugin reads when it judges; nothing is known about a plugin that never
    /// judges.
    pub(crate) fn has_one_answer_for_a_signature(&self) -> bool {
        let own = signature::OWN_PARTS.union(PodReads::SHARED);
        !self.reads.intersects(own) && (self.points.requeue.is_none() || !self.reads.is_empty())
    }

    /// The parts of a pod that it reads when it judges.
    pub(crate) fn reads(&self) -> PodReads {
        self.reads
    }

    /// Whether its answers depend on the volumes of the pod.
    pub(crate) fn reads_volumes(&self) -> bool {
        self.reads.contains(PodReads::VOLUMES)
    }

    /// Evaluates its hint for a pod. The time is measured if it is registered for the change.
    fn is_worth(&self, pod: &PodInfo, change: &Change<'_>, hints: &mut Hints) -> bool {
        if !self.hears(change.event) {
            return false;
        }
        let lap = hints.start();
        let worth = self.hint(pod, change) == Hint::Queue;
        hints.said(self.name, EventLabel::of(change), worth, lap);
        worth
    }

    /// The events that may help a pod that it rejected.
    pub(crate) fn events(&self) -> &[ClusterEvent] {
        &self.events
    }

    fn covers(&self, event: ClusterEvent) -> bool {
        self.events.iter().any(|own| own.covers(event))
    }

    fn hint(&self, pod: &PodInfo, change: &Change<'_>) -> Hint {
        if self.hears_of_taint(change.event) {
            return Hint::Queue;
        }
        if !self.covers(change.event) {
            return Hint::Skip;
        }
        if let Some(requeue) = &self.points.requeue {
            return requeue.hint(pod, change);
        }
        let row = match change.object {
            Object::Node { after, .. } => after,
            Object::Assigned { .. } if !self.is_touched_by_assigned(change.event) => {
                return Hint::Skip;
            }
            // An unknown node has no resources to offer, whatever is removed from it.
            Object::Assigned { row: None, .. } if self.points.filter_is_local => {
                return Hint::Skip;
            }
            Object::Assigned { row, .. } => row,
            Object::Itself { .. } | Object::Other(_) => None,
        };
        match row {
            Some(row) if self.points.filter_is_local => self.judge_emptied(pod, row, &change.view),
            _ => Hint::Queue,
        }
    }

    /// As in scheduler.go, buildQueueingHintMap: a plugin that registers for new nodes but not for
    /// changes of taints is also registered for these.
    fn hears_of_taint(&self, event: ClusterEvent) -> bool {
        TAINT.covers(event) && self.covers(NEW_NODE) && !self.covers(TAINT)
    }

    /// Whether a change of another pod can matter: it frees something, or the plugin reads all pods.
    fn is_touched_by_assigned(&self, event: ClusterEvent) -> bool {
        event.action.intersects(Action::DELETE | Action::UPDATE_POD_SCALE_DOWN)
            || self.points.reads.cluster.nodes.intersects(NodeReads::PODS)
    }

    /// Runs the filter on this node, first as it is and then without the pods that could be preempted.
    /// Removing these is the first step of preemption, so a pod that preemption could help is woken.
    fn judge_emptied(&self, pod: &PodInfo, row: Row, view: &View<'_>) -> Hint {
        let Some(filter) = &self.points.filter else { return Hint::Queue };
        let prepared = filter.prepare(pod, &mut CycleState::new(), view);
        if let Candidates::Only(names) = prepared.candidates()
            && !names.contains(view.nodes.name_of(row))
        {
            return Hint::Skip;
        }
        if prepared.judge_one(pod, view.nodes, row).passes() {
            return Hint::Queue;
        }
        let all = view.nodes.pods_on(row).iter();
        let preemptible: Vec<_> = all.filter(|other| other.priority < pod.priority).collect();
        if preemptible.is_empty() {
            return Hint::Skip;
        }
        let mut scratch = view.nodes.scratch(row);
        let only = Row::from_index(0);
        for other in preemptible {
            scratch.displace(only, &other.key);
        }
        if prepared.judge_one(pod, &scratch, only).passes() { Hint::Queue } else { Hint::Skip }
    }
}
