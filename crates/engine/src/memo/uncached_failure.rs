//! Why pods to which [uncached filters](super::uncached_filters) apply fit nowhere.
//!
//! Most nodes are rejected by other filters, for which the reasons and the preemption candidates are
//! remembered. The uncached filters are asked about the other nodes only.

use plimsoll_framework::points::PostFilterPoint;
use plimsoll_framework::{
    Code, CycleState, PodInfo, Point, PostFilterAnswer, Prepared, Rejection, Row, View,
};

use super::counted_values::CountedValues;
use super::diagnosis_cache::OnlyFromScratch;
use super::name_index_set::NameIndex;
use super::node_diagnosis::{NodeDiagnosis, NominatedNodeRejection};
use super::node_ranking::{ClusterView, NodeRanking};
use super::preemption::{CandidateCache, CandidateSearch};
use super::uncached_filters::UncachedFilters;
use super::{FastMap, Memo};
use crate::cycle::{AttemptFailure, Cycle, PostFilterRun};
use crate::diagnosis::{self, FitErrorCause};
use crate::filters::{Filters, PreFilterStop};
use crate::metrics::CycleMeter;
use crate::profile::Profile;
use crate::unit::Member;

/// The reasons of the nodes that only uncached filters reject.
#[derive(Default)]
struct UncachedRejections {
    of: FastMap<NameIndex, (&'static str, Rejection)>,
    counted: CountedValues<(&'static str, Rejection)>,
}

impl Memo {
    /// Why a pod fits nowhere that an uncached filter rejects for all nodes. As in [`crate::cycle`], the
    /// filters are prepared until one of them rejects the pod.
    pub(super) fn rejected_by_uncached(
        &mut self,
        Member { profile, pod }: Member<'_>,
        view: View<'_>,
    ) -> Option<Cycle> {
        let (mut shared, mut meter) = (CycleState::new(), CycleMeter::default());
        let prepared = Filters::prepare(profile, pod, &mut shared, &view, &mut meter);
        let Err(PreFilterStop::Rejected(stopped)) = prepared else { return None };
        let (failure, filters) = *stopped;
        let code = failure.pre_filter.as_ref().map(|(_, why)| why.code);
        // If evictions could help, each node needs a dry run.
        let code = code.filter(|&code| code != Code::Unschedulable)?;
        let cluster = self.node_set.as_ref()?.with(view);
        let looked = filters.looked(profile);
        let failure = ask_post_filters(profile, failure, |name, point| {
            if let Some(answer) = point.without_nodes(pod, looked.contains(name)) {
                return Some(answer);
            }
            let by_node = point.by_node()?;
            let nominated = nominated_node(pod, cluster);
            let nominated = nominated.map(|row| (row, code));
            by_node.without_dry_run(pod, nominated, &view).or_else(|| {
                let mut candidates = CandidateCache::default();
                let mut search =
                    CandidateSearch::new(by_node, pod, &[], &[], None, &mut candidates, cluster);
                by_node.choose(pod, &mut search)
            })
        });
        Some(Cycle::failed(failure?, view.nodes.len()))
    }

    /// Why a pod fits nowhere, after no node has passed a ranking, counts and `uncached` filters. `None` if
    /// this can only be found from scratch.
    pub(super) fn uncached_failure(
        &mut self,
        Member { profile, .. }: Member<'_>,
        (ranking, domain_counts): (usize, usize),
        uncached: &mut UncachedFilters,
        own: Option<&NominatedNodeRejection>,
        view: View<'_>,
    ) -> Option<AttemptFailure> {
        let node_set = self.node_set.as_ref()?;
        let cluster = node_set.with(view);
        let (counts, _) = self.domain_counts[domain_counts].as_ref()?;
        let (one, _) = self.rankings[ranking].as_mut()?;
        if counts.judge_nodes() || profile.run_all_filters || !one.judges_all_nodes() {
            return None;
        }
        // The first filter that rejects a node gives the reason.
        if !come_first(profile, one, uncached) {
            return None;
        }
        let key = (ranking, uncached.pod.priority);
        let diagnosis = self.diagnoses.node_diagnosis(key, one, node_set, cluster);
        let rejections = UncachedRejections::of(diagnosis, uncached, own, cluster);
        let failure = rejections.and_then(|rejections| {
            rejections.failure(profile, (uncached, one, diagnosis), own, cluster)
        });
        let bytes = diagnosis.bytes();
        self.diagnoses.note_bytes(key, bytes);
        failure
    }
}

/// Whether all filters of a ranking come before the uncached ones.
fn come_first(profile: &Profile, ranking: &NodeRanking, uncached: &UncachedFilters) -> bool {
    let first = uncached.all.first().map_or(usize::MAX, |one| one.place);
    let mut from_there = profile.at(Point::Filter).skip(first);
    !from_there.any(|(plugin, _)| ranking.plugins().any(|name| name == plugin.name))
}

/// The row of the node in the status of a pod.
fn nominated_node(pod: &PodInfo, cluster: ClusterView<'_>) -> Option<Row> {
    let index = cluster.name_order.find(pod.nominated_node.as_ref()?)?;
    Some(cluster.name_order.row(index))
}

/// Adds the answers of the PostFilter plugins to a failure. `ask` returns `None` if the answer can only be
/// found from scratch.
fn ask_post_filters(
    profile: &Profile,
    failure: AttemptFailure,
    mut ask: impl FnMut(&'static str, &PostFilterPoint) -> Option<PostFilterAnswer>,
) -> Option<AttemptFailure> {
    // Its duration is measured as a phase of the decision.
    let meter = &mut CycleMeter::default();
    let ask = |name: &'static str, point: &PostFilterPoint| ask(name, point).ok_or(OnlyFromScratch);
    PostFilterRun::new(failure).go_on(profile, meter, ask).ok()
}

impl UncachedRejections {
    /// Asks the uncached filters about the nodes that pass all others. `None` if one cannot be judged.
    fn of(
        diagnosis: &NodeDiagnosis,
        uncached: &mut UncachedFilters,
        own: Option<&NominatedNodeRejection>,
        cluster: ClusterView<'_>,
    ) -> Option<Self> {
        let mut rejections = UncachedRejections::default();
        for index in diagnosis.passing() {
            if own.is_some_and(|own| own.index == index) {
                continue;
            }
            let (at, why) = uncached.rejection(cluster.name_order.row(index), cluster)?;
            if why.code == Code::Error {
                return None;
            }
            let reason = (uncached.all[at].plugin, why);
            rejections.counted.add(reason.clone());
            rejections.of.insert(index, reason);
        }
        // With nominated pods a node is judged twice. If only the second time another filter rejects it, an
        // uncached filter may have rejected it before.
        let with_nominated = cluster.nominations.rows();
        let rejected =
            with_nominated.filter(|&row| !diagnosis.passes(cluster.name_order.index(row)));
        for row in rejected {
            if uncached.reject_with_nominated(row, cluster) {
                return None;
            }
        }
        Some(rejections)
    }

    fn failure(
        &self,
        profile: &Profile,
        (uncached, ranking, diagnosis): (&UncachedFilters, &NodeRanking, &mut NodeDiagnosis),
        own: Option<&NominatedNodeRejection>,
        cluster: ClusterView<'_>,
    ) -> Option<AttemptFailure> {
        let pod = &uncached.pod;
        let mut failure = AttemptFailure::default();
        let mut rejections = Vec::new();
        let others = own.map(|own| (own.plugin, &own.why, 1)).into_iter();
        let uncounted = self.counted.iter(None).map(|((plugin, why), n)| (*plugin, why, n));
        for (plugin, why, n) in diagnosis.counted(own).chain(others).chain(uncounted) {
            if why.code == Code::Error {
                return None;
            }
            failure.blame(plugin, why.code);
            rejections.push((why, n));
        }
        let cause = FitErrorCause::Counted(&rejections);
        failure.message = diagnosis::fit_error(cluster.name_order.len(), &cause);
        let nominated = nominated_node(pod, cluster).map(|row| {
            let index = cluster.name_order.index(row);
            let code = match own.filter(|own| own.index == index) {
                Some(own) => own.why.code,
                None => {
                    self.of.get(&index).map_or_else(|| diagnosis.code(index), |(_, why)| why.code)
                }
            };
            (row, code)
        });
        ask_post_filters(profile, failure, |name, point| {
            let mut filters = profile.at(Point::PreFilter).chain(profile.at(Point::Filter));
            let has_looked =
                filters.any(|(filter, _)| filter.name == name && filter.points.filter.is_some());
            if let Some(answer) = point.without_nodes(pod, has_looked) {
                return Some(answer);
            }
            let by_node = point.by_node()?;
            if let Some(answer) = by_node.without_dry_run(pod, nominated, &cluster.view) {
                return Some(answer);
            }
            let mut only: Vec<Row> =
                self.of.keys().map(|&index| cluster.name_order.row(index)).collect();
            only.sort_unstable();
            let places = self.places(diagnosis, own, cluster);
            let filters: Vec<Prepared> = match places.is_empty() {
                true => Vec::new(),
                false => ranking.prepared.iter().chain(uncached.prepared()).cloned().collect(),
            };
            let own = own.map(|own| cluster.name_order.row(own.index));
            let candidates = diagnosis.candidates(name, by_node);
            let mut search =
                CandidateSearch::new(by_node, pod, &filters, &places, own, candidates, cluster)
                    .with_uncached_filters(&only);
            by_node.choose(pod, &mut search)
        })
    }

    /// The rows of the nodes on which evictions could help, ascending.
    fn places(
        &self,
        diagnosis: &mut NodeDiagnosis,
        own: Option<&NominatedNodeRejection>,
        cluster: ClusterView<'_>,
    ) -> Vec<Row> {
        let mut places = diagnosis.places(cluster).to_vec();
        let own_row = own.map(|own| cluster.name_order.row(own.index));
        places.retain(|&row| Some(row) != own_row);
        let could_help = |why: &Rejection| why.code == Code::Unschedulable;
        places.extend(own_row.filter(|_| own.is_some_and(|own| could_help(&own.why))));
        let uncached = self.of.iter().filter(|(_, (_, why))| could_help(why));
        places.extend(uncached.map(|(&index, _)| cluster.name_order.row(index)));
        places.sort_unstable();
        places
    }
}
