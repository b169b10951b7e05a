//! What filters have said before, for pods and states of the cluster in which they say the same.
//!
//! Whoever changes a pod in one respect, or one node, asks again, and most filters do not read that.

use std::sync::Arc;

use plimsoll_framework::{Columns, CycleState, PodChange, PodInfo, Prepared, Row, Update, View};

use super::verdicts::Column;
use crate::cache::{Cache, Moment};
use crate::memo::Budgets;
use crate::profile::Profile;
use crate::profiles::Profiles;
use crate::signature::parts_are_alike;

/// Filters that were prepared for the present state of the cluster, with what they say of the nodes.
#[derive(Debug)]
pub(crate) struct PreparedFilters {
    known: Vec<KnownFilter>,
    /// How often something was asked for.
    n_uses: u64,
    /// The most that they may take, in bytes, beyond the one that was prepared last.
    most_bytes: usize,
}

impl Default for PreparedFilters {
    fn default() -> Self {
        PreparedFilters::within(Budgets::default().prepared_filters)
    }
}

/// A filter that was prepared for a pod.
#[derive(Debug)]
struct KnownFilter {
    /// The state of the cluster, and the time, for which it was prepared.
    moment: Moment,
    profile: usize,
    plugin: usize,
    pod: PodInfo,
    filter: Prepared,
    /// What it says, once it was asked.
    column: Option<Arc<Column>>,
    /// When it was last of use.
    used: u64,
    /// Its approximate size in bytes.
    bytes: usize,
}

/// What a filter knows about each node if it looks at more than one at a time, and what is known of each node that it was asked
/// about, in bytes.
const BYTES_PER_NODE: usize = 64;

/// At most so many prepared filters are remembered, the last ones that were of use. A search tries a pod with a few dozen
/// changes, and each of them with a few more.
const MOST_KNOWN: usize = 64;

/// What has changed since a state of the cluster, if everything else is as it was.
#[derive(Clone, Debug)]
pub(crate) struct ClusterChanges {
    /// The [revision](Cache::revision) of that state.
    pub(crate) since: u64,
    /// The pods that came to nodes or left them.
    pub(crate) pods: Vec<ChangedPod>,
    /// The nodes that came or were changed.
    pub(crate) nodes: Vec<Row>,
}

/// A pod that came to a node or left it.
#[derive(Clone, Debug)]
pub(crate) enum ChangedPod {
    /// It came.
    Added(PodInfo, Row),
    /// It left.
    Removed(PodInfo, Row),
}

/// A filter that is prepared for a pod, with what it says of the nodes if that is known.
pub(super) struct Judging {
    pub(super) plugin: usize,
    pub(super) filter: Prepared,
    pub(super) column: Option<Arc<Column>>,
}

impl ChangedPod {
    /// Tells a filter of it, and returns whether the filter is then as if it were prepared anew.
    fn update(&self, filter: &mut Prepared, nodes: &Columns) -> bool {
        let update = match self {
            ChangedPod::Added(pod, row) => filter.update(PodChange::Added(pod), nodes, *row),
            ChangedPod::Removed(pod, row) => filter.update(PodChange::Removed(pod), nodes, *row),
        };
        matches!(update, Update::Exact)
    }

    fn row(&self) -> Row {
        let (ChangedPod::Added(_, row) | ChangedPod::Removed(_, row)) = self;
        *row
    }
}

impl ClusterChanges {
    /// The rows in which something has changed.
    fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = self.pods.iter().map(ChangedPod::row).collect();
        rows.extend(&self.nodes);
        rows.sort_unstable();
        rows.dedup();
        rows
    }
}

impl PreparedFilters {
    /// None yet. They may take so many bytes.
    pub(crate) fn within(most_bytes: usize) -> Self {
        PreparedFilters { known: Vec::new(), n_uses: 0, most_bytes }
    }

    /// What they take, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.known.iter().map(|known| known.bytes).sum()
    }

    /// Forgets what was prepared after this revision: it was rolled back, and its number will be used again.
    pub(crate) fn forget_after(&mut self, revision: u64) {
        self.known.retain(|known| known.moment.revision <= revision);
    }

    /// What is remembered of the present state and differs from what filters say that are prepared anew.
    pub(crate) fn differences(&self, cache: &Cache, profiles: &Profiles) -> Vec<String> {
        let mut differences = Vec::new();
        for known in &self.known {
            let revision = known.moment.revision;
            if cache.revision() < revision {
                differences.push(format!("a filter is of revision {revision}, to come"));
            }
            let mut profiles = profiles.iter();
            let profile = profiles.find(|profile| profile.index == known.profile);
            let Some(profile) = profile.filter(|_| cache.moment() == known.moment) else {
                continue;
            };
            let plugin = profile.get(known.plugin);
            let (Some(column), Some(point)) = (&known.column, &plugin.points.filter) else {
                continue;
            };
            let anew = point.prepare(&known.pod, &mut CycleState::new(), &cache.view());
            if **column != Column::of(&anew, &known.pod, cache.view().nodes) {
                differences.push(format!("what {} says of {}", plugin.name, known.pod.key));
            }
        }
        differences
    }

    /// Prepares a filter for a pod, unless it was prepared for a pod that is equal in what the plugin reads, here or in a
    /// state from which little has changed. `None` if the plugin has no filter.
    pub(super) fn prepare(
        &mut self,
        (cache, changes): (&Cache, Option<&ClusterChanges>),
        (profile, plugin): (&Profile, usize),
        pod: &PodInfo,
        shared: &mut CycleState,
    ) -> Option<Judging> {
        let of_profile = profile.get(plugin);
        let point = of_profile.points.filter.as_ref()?;
        let moment = cache.moment();
        if let Some(at) = self.find(moment, (profile, plugin), pod) {
            let known = &self.known[at];
            let (filter, column) = (known.filter.clone(), known.column.clone());
            return Some(Judging { plugin, filter, column });
        }
        if let Some(changes) = changes
            && let Some(known) = self.after(changes, (profile, plugin), pod, &cache.view())
        {
            return Some(known);
        }
        let filter = point.prepare(pod, shared, &cache.view());
        // What plugins share says more than they read.
        if !profile.shares_filter_state {
            self.remember(KnownFilter {
                moment,
                profile: profile.index,
                plugin,
                pod: pod.clone(),
                filter: filter.clone(),
                column: None,
                used: self.n_uses,
                bytes: size_of::<KnownFilter>()
                    + pod.bytes()
                    + cache.view().nodes.len() * BYTES_PER_NODE,
            });
        }
        Some(Judging { plugin, filter, column: None })
    }

    /// Remembers what a filter says of the nodes.
    pub(super) fn learn(
        &mut self,
        moment: Moment,
        filter: (&Profile, usize),
        pod: &PodInfo,
        column: &Arc<Column>,
    ) {
        if let Some(at) = self.find(moment, filter, pod) {
            self.known[at].column = Some(column.clone());
        }
    }

    /// The filter of a plugin as it was prepared for a pod that is equal in what it reads.
    fn find(
        &mut self,
        moment: Moment,
        (profile, plugin): (&Profile, usize),
        pod: &PodInfo,
    ) -> Option<usize> {
        let reads = profile.get(plugin).reads();
        let at = self.known.iter().position(|known| {
            (known.moment, known.profile, known.plugin) == (moment, profile.index, plugin)
                && parts_are_alike(reads, &known.pod, pod)
        })?;
        self.n_uses += 1;
        self.known[at].used = self.n_uses;
        Some(at)
    }

    /// A filter that was prepared before `changes`, as it would be prepared after them; `None` if that is not known.
    fn after(
        &mut self,
        changes: &ClusterChanges,
        (profile, plugin): (&Profile, usize),
        pod: &PodInfo,
        cluster: &View<'_>,
    ) -> Option<Judging> {
        let moment = Moment { revision: changes.since, now: cluster.stores.now };
        let at = self.find(moment, (profile, plugin), pod)?;
        let nodes = cluster.nodes;
        let KnownFilter { filter, column, .. } = &self.known[at];
        let mut filter = filter.clone();
        if profile.get(plugin).points.filter_is_local {
            // It looks at the pod and one node at a time.
            let again = |column: &Arc<Column>| {
                Arc::new(column.judged_again(&filter, pod, nodes, &changes.rows()))
            };
            let column = column.as_ref().filter(|column| !column.errs()).map(again);
            return Some(Judging { plugin, filter, column });
        }
        let follows = filter.follows() && changes.nodes.is_empty();
        (follows && changes.pods.iter().all(|one| one.update(&mut filter, nodes)))
            .then_some(Judging { plugin, filter, column: None })
    }

    fn remember(&mut self, filter: KnownFilter) {
        while MOST_KNOWN <= self.known.len()
            || !self.known.is_empty() && self.most_bytes < self.bytes() + filter.bytes
        {
            let oldest = self.known.iter().enumerate().min_by_key(|(_, known)| known.used);
            let Some((at, _)) = oldest else { break };
            self.known.swap_remove(at);
        }
        self.known.push(filter);
    }
}
