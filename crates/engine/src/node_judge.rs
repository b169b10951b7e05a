//! What every filter says of a node, each asked by itself.
//!
//! A decision stops at the first filter that rejects a node. Who wants to know what would have to change asks all of them.

mod prepared;
mod verdicts;

use std::sync::Arc;

use plimsoll_api::{Node, PodKey};
use plimsoll_framework::{
    Candidates, CycleState, NodeDryRun, NominatedPods, PodChange, PodInfo, Point, Prepared,
    Rejection, Row, Verdict, View,
};

use self::prepared::Judging;
pub(crate) use self::prepared::{ChangedPod, ClusterChanges, PreparedFilters};
use self::verdicts::Column;
pub use self::verdicts::Verdicts;
use crate::cache::{Cache, Moment};
use crate::profile::Profile;
use crate::scheduler::Scheduler;

/// The filters of a profile, prepared for one pod and the present state of the cluster.
pub struct NodeJudge<'a> {
    pod: PodInfo,
    cache: &'a Cache,
    view: View<'a>,
    nominated: &'a NominatedPods,
    /// The names of the filters in the order of Filter; then those that only look at PreFilter.
    names: Vec<&'static str>,
    /// The same filters.
    filters: Vec<Prepared>,
    /// What each of them says of the nodes, as far as it is known.
    columns: Vec<Option<Arc<Column>>>,
    /// Whether each of them looks at the pod and one node at a time.
    are_local: Vec<bool>,
    /// Where that is remembered.
    memory: Option<Memory<'a>>,
}

/// Where a judge remembers what filters say.
struct Memory<'a> {
    all: &'a mut PreparedFilters,
    moment: Moment,
    profile: &'a Profile,
    /// The plugins of the filters.
    plugins: Vec<usize>,
}

impl std::fmt::Debug for NodeJudge<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeJudge").field("pod", &self.pod.key).finish_non_exhaustive()
    }
}

impl Scheduler {
    /// Prepares the filters of the pod's profile for it. `changes` are those since an earlier state, if there were no others.
    pub(crate) fn judge(
        &mut self,
        pod: PodInfo,
        changes: Option<&ClusterChanges>,
    ) -> NodeJudge<'_> {
        let profile = self.profiles.get(&pod.scheduler_name);
        let profile = profile.expect("only pods of our profiles are judged");
        let all = &mut self.prepared_filters;
        let prepared = prepared(profile, (&self.cache, changes), &pod, all);
        let plugins = prepared.iter().map(|one| one.plugin).collect();
        let moment = self.cache.moment();
        let memory = Some(Memory { all, moment, profile, plugins });
        NodeJudge::of(pod, (&self.cache, &self.nominated), (profile, prepared), memory)
    }

    /// The same without anything that was remembered.
    pub(crate) fn judge_from_scratch(&self, pod: PodInfo) -> NodeJudge<'_> {
        let (profile, known) = (self.profile_of(&pod), &mut PreparedFilters::default());
        let prepared = prepared(profile, (&self.cache, None), &pod, known);
        NodeJudge::of(pod, (&self.cache, &self.nominated), (profile, prepared), None)
    }
}

/// The filters of a profile, prepared for a pod: those in the order of Filter, then those that only look at PreFilter.
fn prepared(
    profile: &Profile,
    state: (&Cache, Option<&ClusterChanges>),
    pod: &PodInfo,
    known: &mut PreparedFilters,
) -> Vec<Judging> {
    let mut shared = CycleState::new();
    let mut filters = Vec::new();
    // PreFilter comes first, since filters may share what they learn there.
    let mut at_pre_filter: Vec<Judging> = Vec::new();
    for (index, _) in profile.indices(Point::PreFilter) {
        at_pre_filter.extend(known.prepare(state, (profile, index), pod, &mut shared));
    }
    for (index, _) in profile.indices(Point::Filter) {
        let at = at_pre_filter.iter().position(|known| known.plugin == index);
        filters.extend(match at {
            Some(at) => Some(at_pre_filter.swap_remove(at)),
            None => known.prepare(state, (profile, index), pod, &mut shared),
        });
    }
    // These cannot reject a single node, but they can reject all of them.
    let judges = |one: &Judging| {
        one.filter.rejection().is_some() || one.filter.candidates() != Candidates::All
    };
    filters.extend(at_pre_filter.into_iter().filter(judges));
    filters
}

impl<'a> NodeJudge<'a> {
    fn of(
        pod: PodInfo,
        (cache, nominated): (&'a Cache, &'a NominatedPods),
        (profile, prepared): (&Profile, Vec<Judging>),
        memory: Option<Memory<'a>>,
    ) -> Self {
        let names = prepared.iter().map(|one| profile.get(one.plugin).name).collect();
        let is_local = |one: &Judging| {
            profile.get(one.plugin).points.filter_is_local && !profile.shares_filter_state
        };
        let are_local = prepared.iter().map(is_local).collect();
        let (filters, columns) = prepared.into_iter().map(|one| (one.filter, one.column)).unzip();
        let view = cache.view();
        NodeJudge { pod, cache, view, nominated, names, filters, columns, are_local, memory }
    }

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
    pub fn verdicts(&mut self) -> Verdicts {
        let nodes = self.view.nodes;
        let columns = (0..self.filters.len()).map(|at| self.column(at)).collect();
        let mut verdicts = Verdicts::new(self.names.clone(), columns, nodes);
        if !self.nominated.is_empty() {
            for row in nodes.rows() {
                for (at, why) in self.rejections_with_nominated(row) {
                    verdicts.reject(row, at, why.code);
                }
            }
        }
        verdicts
    }

    /// Whether some node would be feasible if only those filters were asked that look at one node at a time. What they say of a
    /// node stays as it is, whatever changes elsewhere.
    pub fn some_node_may_become_feasible(&mut self) -> bool {
        let local = (0..self.filters.len()).filter(|at| self.are_local[*at]);
        let local: Vec<usize> = local.collect();
        let columns = local.iter().map(|at| self.column(*at)).collect();
        let names = local.iter().map(|at| self.names[*at]).collect();
        let verdicts = Verdicts::new(names, columns, self.view.nodes);
        verdicts.feasible().next().is_some()
    }

    /// The same for the node in `row`, if it were `changed`, with only those of its pods that it `keeps`.
    pub fn may_become_feasible_if(
        &self,
        row: Row,
        changed: Node,
        keeps: impl Fn(&PodInfo) -> bool,
    ) -> bool {
        let rejections = self.rejections_if(row, changed, keeps);
        let mut local = self.names.iter().zip(&self.are_local).filter(|(_, is_local)| **is_local);
        !local.any(|(name, _)| rejections.iter().any(|(by, _)| by == name))
    }

    /// What the filter at `at` says of the nodes.
    fn column(&mut self, at: usize) -> Arc<Column> {
        if let Some(known) = &self.columns[at] {
            return known.clone();
        }
        let column = Arc::new(Column::of(&self.filters[at], &self.pod, self.view.nodes));
        if let Some(Memory { all, moment, profile, plugins }) = &mut self.memory {
            all.learn(*moment, (profile, plugins[at]), &self.pod, &column);
        }
        self.columns[at] = Some(column.clone());
        column
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
        self.cache.row(node)
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
