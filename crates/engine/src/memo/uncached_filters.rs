//! Pods to which an *uncached filter* applies: one whose verdicts depend on more than the signature and the
//! counts. These are pods with volumes.
//!
//! For all other plugins such a pod is like a pod without volumes. So it is decided by a [scan](super::scan),
//! in which the uncached filters judge each node that the others pass.

use plimsoll_framework::{
    Candidates, CycleState, NominatedPods, PodInfo, Point, Prepared, Row, View,
};

use super::Memo;
use super::decide::Want;
use super::node_ranking::{self, RankingPlugins};
use super::profile_memo::ProfileMemo;
use super::signatures::SignatureId;
use crate::cycle::{Cycle, CycleResult};
use crate::profile::Profile;
use crate::sample::SampleOrder;

impl Memo {
    /// The best nodes for a pod to which uncached filters apply, as in [`Memo::scan`], and how many nodes
    /// were judged. `None` if the pod must be decided from scratch, which includes that no node is feasible.
    pub(super) fn decide_uncached(
        &mut self,
        profile: &Profile,
        signature: SignatureId,
        pod: &PodInfo,
        view: View<'_>,
        nominated: &NominatedPods,
        (want, order): (Want, Option<SampleOrder<'_>>),
    ) -> Option<(Vec<Row>, usize)> {
        let of_profile = self.profiles.get(&profile.scheduler_name)?;
        if !nominated.is_empty() || !of_profile.can_scan {
            return None;
        }
        // The reasons are found only from scratch, so a scan would be wasted.
        if self.no_node_found.remove(&(profile.scheduler_name.clone(), signature)) {
            return None;
        }
        let uncached = of_profile.prepare_uncached_filters(profile, pod, &view)?;
        let caches = match self.caches(profile, signature) {
            Some(caches) => caches,
            None if names_nodes(profile, pod, &view) => return None,
            None => self.learn(profile, signature, pod, view)?,
        };
        let best = self.scan(profile, (signature, caches), pod, &uncached, view, (want, order));
        if best.is_none() {
            self.note_no_node_found(profile, signature);
        }
        best
    }

    /// Records that a scan found no node: most likely there is none for the next pod of this signature.
    fn note_no_node_found(&mut self, profile: &Profile, signature: SignatureId) {
        if MOST_WITHOUT_NODE <= self.no_node_found.len() {
            self.no_node_found.clear();
        }
        self.no_node_found.insert((profile.scheduler_name.clone(), signature));
    }

    /// Records the result of a decision from scratch.
    pub(crate) fn note_uncached(
        &mut self,
        profile: &Profile,
        pod: &PodInfo,
        cycle: &Cycle,
        view: &View<'_>,
    ) {
        let Some(of_profile) = self.profiles.get_mut(&profile.scheduler_name) else { return };
        if of_profile.has_uncached_filter(profile, pod)
            && !matches!(cycle.result, CycleResult::Found { .. })
            && let Some(signature) = of_profile.signature(profile, pod, view)
        {
            self.note_no_node_found(profile, signature);
        }
    }
}

/// The most signatures that are recorded; beyond that all are forgotten.
const MOST_WITHOUT_NODE: usize = 1 << 12;

impl ProfileMemo {
    /// The uncached filters that apply to a pod, in the order of the profile; `None` if one of them rejects
    /// the pod for all nodes or limits the nodes.
    fn prepare_uncached_filters(
        &self,
        profile: &Profile,
        pod: &PodInfo,
        view: &View<'_>,
    ) -> Option<Vec<Prepared>> {
        let mut shared = CycleState::new();
        let mut uncached = Vec::new();
        for (index, _) in profile.indices(Point::PreFilter) {
            if !self.uncached.contains(&index) {
                continue;
            }
            let Some(filter) = &profile.get(index).points.filter else { continue };
            let prepared = filter.prepare(pod, &mut shared, view);
            if prepared.rejection().is_some() || prepared.candidates() != Candidates::All {
                return None;
            }
            if !prepared.skips() {
                uncached.push((self.uncached.iter().position(|&other| other == index), prepared));
            }
        }
        uncached.sort_by_key(|&(place, _)| place);
        Some(uncached.into_iter().map(|(_, prepared)| prepared).collect())
    }

    /// Whether an uncached filter applies to a pod.
    pub(super) fn has_uncached_filter(&self, profile: &Profile, pod: &PodInfo) -> bool {
        self.uncached.iter().any(|&index| {
            let filter = &profile.get(index).points.filter;
            filter.as_ref().is_some_and(|filter| filter.applies(pod))
        })
    }
}

/// Whether the pod names the few nodes on which it may run.
fn names_nodes(profile: &Profile, pod: &PodInfo, view: &View<'_>) -> bool {
    let (_, filters) = node_ranking::filters(profile, pod, RankingPlugins::All, view);
    filters.iter().any(|filter| filter.candidates() != Candidates::All)
}
