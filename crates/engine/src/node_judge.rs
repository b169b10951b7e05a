//! What every filter says of a node, each asked by itself.
//!
//! A decision stops at the first filter that rejects a node. Who wants to know what would have to change asks all of them.

use plimsoll_api::{Node, PodKey};
use plimsoll_framework::{
    Candidates, Code, Columns, CycleState, NodeDryRun, NominatedPods, PodChange, PodInfo, Point,
    Prepared, Rejection, Row, Update, Verdict, View,
};

use crate::cache::Cache;
use crate::profile::Profile;
use crate::scheduler::Scheduler;
use crate::signature::parts_are_alike;

/// The filters of a profile, prepared for one pod and the present state of the cluster.
pub struct NodeJudge<'a> {
    pod: PodInfo,
    view: View<'a>,
    nominated: &'a NominatedPods,
    /// The names of the filters in the order of Filter; then those that only look at PreFilter.
    names: Vec<&'static str>,
    /// The same filters.
    filters: Vec<Prepared>,
}

/// Which filters reject which nodes.
///
/// It is a table of bits: the time and memory for it do not depend on how many filters reject a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdicts {
    filters: Vec<&'static str>,
    /// The nodes. Their indices may have gaps, where nodes have gone.
    rows: Vec<Row>,
    n_words: usize,
    /// For each index of a node, the filters that reject it.
    rejected: Vec<u64>,
    /// Those of them which say that evicting pods cannot help.
    unresolvable: Vec<u64>,
}

impl std::fmt::Debug for NodeJudge<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeJudge").field("pod", &self.pod.key).finish_non_exhaustive()
    }
}

/// Filters that were prepared for the present state of the cluster. Whoever changes a pod in one respect asks again, and most
/// filters do not read it.
#[derive(Debug, Default)]
pub(crate) struct PreparedFilters(Vec<KnownFilter>);

/// A filter that was prepared for a pod.
#[derive(Debug)]
struct KnownFilter {
    /// The [revision](Cache::revision) of the cluster.
    revision: u64,
    profile: usize,
    plugin: usize,
    pod: PodInfo,
    filter: Prepared,
}

/// At most so many prepared filters are remembered, the last ones.
const MOST_KNOWN: usize = 16;

/// The pods that came to nodes or left them since a state of the cluster in which nothing else was different.
#[derive(Clone, Debug)]
pub(crate) struct PodChanges {
    /// The [revision](Cache::revision) of that state.
    pub(crate) since: u64,
    pub(crate) pods: Vec<ChangedPod>,
}

/// A pod that came to a node or left it.
#[derive(Clone, Debug)]
pub(crate) enum ChangedPod {
    /// It came.
    Added(PodInfo, Row),
    /// It left.
    Removed(PodInfo, Row),
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
}

impl PreparedFilters {
    /// Forgets what was prepared after this revision: it was rolled back, and its number will be used again.
    pub(crate) fn forget_after(&mut self, revision: u64) {
        self.0.retain(|known| known.revision <= revision);
    }

    /// Prepares a filter for a pod, unless it was prepared for a pod that is equal in what the plugin reads, here or in a
    /// state from which only pods have changed.
    fn prepare(
        &mut self,
        (cache, changes): (&Cache, Option<&PodChanges>),
        (profile, plugin): (&Profile, usize),
        pod: &PodInfo,
        shared: &mut CycleState,
    ) -> Option<Prepared> {
        let of_profile = profile.get(plugin);
        let point = of_profile.points.filter.as_ref()?;
        let revision = cache.revision();
        let find = |revision: u64| {
            let is_meant = |known: &&KnownFilter| {
                (known.revision, known.profile, known.plugin) == (revision, profile.index, plugin)
                    && parts_are_alike(of_profile.reads(), &known.pod, pod)
            };
            self.0.iter().find(is_meant).map(|known| known.filter.clone())
        };
        if let Some(known) = find(revision) {
            return Some(known);
        }
        if let Some(changes) = changes
            && let Some(mut known) = find(changes.since)
            && changes.pods.iter().all(|one| one.update(&mut known, cache.view().nodes))
        {
            return Some(known);
        }
        let filter = point.prepare(pod, shared, &cache.view());
        // What follows pods has looked at the pods on nodes, which takes time.
        if filter.follows() && !profile.shares_filter_state {
            if MOST_KNOWN <= self.0.len() {
                self.0.remove(0);
            }
            let (profile, pod, known) = (profile.index, pod.clone(), filter.clone());
            self.0.push(KnownFilter { revision, profile, plugin, pod, filter: known });
        }
        Some(filter)
    }
}

impl Scheduler {
    /// Prepares the filters of the pod's profile for it. `changes` are those since an earlier state, if there were no others.
    pub(crate) fn judge(&mut self, pod: PodInfo, changes: Option<&PodChanges>) -> NodeJudge<'_> {
        let profile = self.profiles.get(&pod.scheduler_name);
        let profile = profile.expect("only pods of our profiles are judged");
        let state = (&self.cache, changes);
        let (names, filters) = prepared(profile, state, &pod, &mut self.prepared_filters);
        let view = self.cache.view();
        NodeJudge { pod, view, nominated: &self.nominated, names, filters }
    }

    /// The same without anything that was remembered.
    pub(crate) fn judge_from_scratch(&self, pod: PodInfo) -> NodeJudge<'_> {
        let (profile, known) = (self.profile_of(&pod), &mut PreparedFilters::default());
        let (names, filters) = prepared(profile, (&self.cache, None), &pod, known);
        let view = self.cache.view();
        NodeJudge { pod, view, nominated: &self.nominated, names, filters }
    }
}

/// The filters of a profile, prepared for a pod, with their names.
fn prepared(
    profile: &Profile,
    state: (&Cache, Option<&PodChanges>),
    pod: &PodInfo,
    known: &mut PreparedFilters,
) -> (Vec<&'static str>, Vec<Prepared>) {
    let mut shared = CycleState::new();
    let (mut names, mut filters) = (Vec::new(), Vec::new());
    // PreFilter comes first, since filters may share what they learn there.
    let mut at_pre_filter = Vec::new();
    for (index, _) in profile.indices(Point::PreFilter) {
        let filter = known.prepare(state, (profile, index), pod, &mut shared);
        at_pre_filter.extend(filter.map(|filter| (index, filter)));
    }
    for (index, _) in profile.indices(Point::Filter) {
        let at = at_pre_filter.iter().position(|(known, _)| *known == index);
        let filter = match at {
            Some(at) => Some(at_pre_filter.swap_remove(at).1),
            None => known.prepare(state, (profile, index), pod, &mut shared),
        };
        if let Some(filter) = filter {
            filters.push(filter);
            names.push(profile.get(index).name);
        }
    }
    for (index, filter) in at_pre_filter {
        // It cannot reject a single node, but it can reject all of them.
        if filter.rejection().is_some() || filter.candidates() != Candidates::All {
            names.push(profile.get(index).name);
            filters.push(filter);
        }
    }
    (names, filters)
}

impl<'a> NodeJudge<'a> {
    /// The pod.
    pub fn pod(&self) -> &PodInfo {
        &self.pod
    }

    /// The cluster on which it is judged.
    pub fn view(&self) -> View<'a> {
        self.view
    }

    /// The pods that are nominated to a node and go before the pod: the node must have room for them, too.
    pub fn nominated_ahead(&self, row: Row) -> Vec<PodInfo> {
        self.nominated.ahead_of(&self.pod, self.view.nodes.name_of(row))
    }

    /// Asks all filters about all nodes. A node must have room for the pods that are nominated to it, too, if they go
    /// before the pod.
    pub fn verdicts(&self) -> Verdicts {
        let nodes = self.view.nodes;
        let n_words = self.names.len().div_ceil(64).max(1);
        let rows: Vec<Row> = nodes.rows().collect();
        let n_indices = rows.last().map_or(0, |last| last.index() + 1);
        let blank = vec![0; n_words * n_indices];
        let mut verdicts = Verdicts {
            filters: self.names.clone(),
            rows: rows.clone(),
            n_words,
            rejected: blank.clone(),
            unresolvable: blank,
        };
        for (at, filter) in self.filters.iter().enumerate() {
            if let Some(why) = filter.rejection() {
                for row in &rows {
                    verdicts.reject(row.index(), at, why.code);
                }
                continue;
            }
            if let Candidates::Only(names) = filter.candidates() {
                let others = rows.iter().filter(|row| !names.contains(nodes.name_of(**row)));
                others.for_each(|row| {
                    verdicts.reject(row.index(), at, Code::UnschedulableAndUnresolvable);
                });
            }
            if !filter.skips() {
                filter.judge(&self.pod, nodes, &rows, &mut |row, verdict| {
                    if let Verdict::Fail(why) = verdict {
                        verdicts.reject(row.index(), at, why.code);
                    }
                });
            }
        }
        if !self.nominated.is_empty() {
            for &row in &rows {
                for (at, why) in self.rejections_with_nominated(row) {
                    verdicts.reject(row.index(), at, why.code);
                }
            }
        }
        verdicts
    }

    /// Why each filter that rejects the node does so, in the order of the profile; empty if it is feasible. `None` if there
    /// is no such node.
    pub fn rejections_on(&self, node: &str) -> Option<Vec<(&'static str, Rejection)>> {
        let row = self.row(node)?;
        let mut rejections = Vec::new();
        for (at, filter) in self.filters.iter().enumerate() {
            if let Some(why) = self.rejection_by(self.names[at], filter, row) {
                rejections.push((at, why));
            }
        }
        for (at, why) in self.rejections_with_nominated(row) {
            if rejections.iter().all(|(other, _)| *other != at) {
                rejections.push((at, why));
            }
        }
        rejections.sort_by_key(|(at, _)| *at);
        Some(rejections.into_iter().map(|(at, why)| (self.names[at], why)).collect())
    }

    /// The fewest important pods, among those that `may_go`, without which the node would be feasible; `None` if it would
    /// not be without all of them. As when victims of a preemption are selected, the pods come back one by one, in the order
    /// of `importance`, as long as the node remains feasible.
    pub fn room_on<O: Ord>(
        &self,
        node: &str,
        may_go: impl Fn(&PodInfo) -> bool,
        importance: impl Fn(&PodInfo) -> O,
    ) -> Option<Vec<PodKey>> {
        let row = self.row(node)?;
        if self.filters.iter().any(|filter| filter.rejection().is_some()) {
            return None;
        }
        let ahead = self.nominated.ahead_of(&self.pod, self.view.nodes.name_of(row));
        let scratch = self.view.nodes.scratch(row);
        let mut dry_run = NodeDryRun::new(&self.pod, &self.filters, ahead, scratch);
        let mut gone: Vec<PodInfo> = dry_run.pods().filter(|pod| may_go(pod)).cloned().collect();
        for pod in &gone {
            dry_run.remove(&pod.key);
        }
        if !dry_run.verdict().passes() {
            return None;
        }
        gone.sort_by_cached_key(|pod| std::cmp::Reverse(importance(pod)));
        gone.retain(|pod| {
            dry_run.add(pod);
            let is_needed = !dry_run.verdict().passes();
            if is_needed {
                dry_run.remove(&pod.key);
            }
            is_needed
        });
        Some(gone.iter().map(|pod| pod.key.clone()).collect())
    }

    /// Why each filter would reject the node if it were `changed`, with only those of its pods that it `keeps`; empty if it
    /// would be feasible. What filters have learnt from the rest of the cluster stays as it is: only a decision in a
    /// [transaction](crate::Transaction) is exact.
    pub fn rejections_if(
        &self,
        row: Row,
        changed: Node,
        keeps: impl Fn(&PodInfo) -> bool,
    ) -> Vec<(&'static str, Rejection)> {
        let (mut scratch, only) = (self.view.nodes.scratch(row), Row::from_index(0));
        let gone: Vec<_> =
            scratch.pods_on(only).iter().filter(|pod| !keeps(pod)).cloned().collect();
        let mut filters = self.filters.clone();
        for pod in &gone {
            scratch.displace(only, &pod.key);
            for filter in &mut filters {
                filter.update(PodChange::Removed(pod), &scratch, only);
            }
        }
        scratch.set(only, changed);
        let named = self.names.iter().zip(&filters);
        let judged = named.filter_map(|(&name, filter)| {
            if let Some(why) = filter.rejection() {
                return Some((name, why.clone()));
            }
            match filter.judge_one(&self.pod, &scratch, only) {
                Verdict::Pass => None,
                Verdict::Fail(why) => Some((name, why)),
            }
        });
        judged.collect()
    }

    fn row(&self, node: &str) -> Option<Row> {
        let nodes = self.view.nodes;
        nodes.rows().find(|&row| nodes.name_of(row) == node)
    }

    fn rejection_by(&self, name: &str, filter: &Prepared, row: Row) -> Option<Rejection> {
        let nodes = self.view.nodes;
        if let Some(why) = filter.rejection() {
            return Some(why.clone());
        }
        if let Candidates::Only(names) = filter.candidates()
            && !names.contains(nodes.name_of(row))
        {
            return Some(Rejection::unresolvable(format!(
                "node(s) didn't satisfy plugin(s) [{name}]"
            )));
        }
        match filter.judge_one(&self.pod, nodes, row) {
            Verdict::Pass => None,
            Verdict::Fail(why) => Some(why),
        }
    }

    /// The rejections of a node with the pods nominated to it that go before the pod.
    fn rejections_with_nominated(&self, row: Row) -> Vec<(usize, Rejection)> {
        let nodes = self.view.nodes;
        let ahead = self.nominated.ahead_of(&self.pod, nodes.name_of(row));
        if ahead.is_empty() {
            return Vec::new();
        }
        let (mut scratch, only) = (nodes.scratch(row), Row::from_index(0));
        let mut filters = self.filters.clone();
        for other in &ahead {
            scratch.place(only, other);
            for filter in &mut filters {
                filter.update(PodChange::Added(other), &scratch, only);
            }
        }
        let judged = filters.iter().enumerate().filter_map(|(at, filter)| {
            match filter.judge_one(&self.pod, &scratch, only) {
                Verdict::Pass => None,
                Verdict::Fail(why) => Some((at, why)),
            }
        });
        judged.collect()
    }
}

impl Verdicts {
    fn reject(&mut self, node: usize, filter: usize, code: Code) {
        let word = node * self.n_words + filter / 64;
        let bit = 1 << (filter % 64);
        self.rejected[word] |= bit;
        if !matches!(code, Code::Unschedulable) {
            self.unresolvable[word] |= bit;
        }
    }

    fn words<'w>(&self, of: &'w [u64], row: Row) -> &'w [u64] {
        &of[row.index() * self.n_words..][..self.n_words]
    }

    /// The feasible nodes, ascending.
    pub fn feasible(&self) -> impl Iterator<Item = Row> + '_ {
        self.rows().filter(|&row| self.words(&self.rejected, row).iter().all(|word| *word == 0))
    }

    /// All nodes.
    pub fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        self.rows.iter().copied()
    }

    /// How many filters reject the node.
    pub fn count(&self, row: Row) -> u32 {
        self.words(&self.rejected, row).iter().map(|word| word.count_ones()).sum()
    }

    /// Whether evicting pods from the node might make it feasible.
    pub fn is_resolvable(&self, row: Row) -> bool {
        self.words(&self.unresolvable, row).iter().all(|word| *word == 0)
    }

    /// The filters that reject the node, in the order of the profile.
    pub fn rejected_by(&self, row: Row) -> impl Iterator<Item = &'static str> + '_ {
        let words = self.words(&self.rejected, row);
        let is_set = move |at: usize| words[at / 64] & (1 << (at % 64)) != 0;
        self.filters.iter().enumerate().filter(move |(at, _)| is_set(*at)).map(|(_, name)| *name)
    }

    /// The filters that reject at least one node, in the order of the profile.
    pub fn rejectors(&self) -> Vec<&'static str> {
        let mut any = vec![0; self.n_words];
        for words in self.rejected.chunks(self.n_words) {
            any.iter_mut().zip(words).for_each(|(any, word)| *any |= word);
        }
        let is_set = |at: usize| any[at / 64] & (1 << (at % 64)) != 0;
        self.filters
            .iter()
            .enumerate()
            .filter(|(at, _)| is_set(*at))
            .map(|(_, name)| *name)
            .collect()
    }

    /// Whether some node is rejected by no filter both here and in `other`, which was made with the same nodes and filters.
    /// Two changes of a pod can make it fit together only if this holds, unless one undoes what the other does.
    pub fn may_fit_with(&self, other: &Verdicts) -> bool {
        if (&self.rows, &self.filters) != (&other.rows, &other.filters) {
            return true;
        }
        self.rows.iter().any(|&row| {
            let (one, other) = (self.words(&self.rejected, row), other.words(&other.rejected, row));
            one.iter().zip(other).all(|(a, b)| a & b == 0)
        })
    }
}
