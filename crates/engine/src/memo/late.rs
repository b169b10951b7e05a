//! Pods about which some filter has to ask every node, since what it says can neither be counted nor be
//! remembered by kind: those with volumes.
//!
//! All that other plugins say is known as for pods without volumes. So such a pod is decided by a
//! [scan](super::scan), in which those filters judge each node that the others leave.

use plimsoll_framework::{
    Candidates, CycleState, NominatedPods, PodInfo, Point, Prepared, Row, View,
};

use super::kinds::Kind;
use super::profile_memo::ProfileMemo;
use super::shape::{self, MadeBy};
use super::{Memo, Want};
use crate::cycle::{Cycle, CycleResult};
use crate::profile::Profile;
use crate::scheduler::Scans;

impl Memo {
    /// The best nodes for a pod about which late filters have something to say, as [`Memo::scan`] has them.
    /// `None` if that takes a decision from scratch, as it does where no node is feasible.
    pub(super) fn decide_late(
        &mut self,
        profile: &Profile,
        class: Kind,
        pod: &PodInfo,
        view: View<'_>,
        nominated: &NominatedPods,
        want: Want,
    ) -> Option<Vec<Row>> {
        let of_profile = self.profiles.get(&profile.scheduler_name)?;
        if !nominated.is_empty() || !of_profile.can_scan || self.scans == Scans::Never {
            return None;
        }
        // The reasons are only found from scratch, so that a scan would be made for nothing.
        if self.late_in_vain.remove(&(profile.scheduler_name.clone(), class)) {
            return None;
        }
        let late = of_profile.late_filters(profile, pod, &view)?;
        let known = match self.known(profile, class) {
            Some(known) => known,
            None if names_nodes(profile, pod, &view) => return None,
            None => self.learn(profile, class, pod, view)?,
        };
        let best = self.scan(profile, (class, known), pod, &late, view, want);
        if best.is_none() {
            self.note_late_in_vain(profile, class);
        }
        best
    }

    /// No node was found for a pod of a class about which late filters have something to say: most likely
    /// there is none for the next one.
    fn note_late_in_vain(&mut self, profile: &Profile, class: Kind) {
        if MOST_IN_VAIN <= self.late_in_vain.len() {
            self.late_in_vain.clear();
        }
        self.late_in_vain.insert((profile.scheduler_name.clone(), class));
    }

    /// A pod was decided from scratch.
    pub(crate) fn note_late(
        &mut self,
        profile: &Profile,
        pod: &PodInfo,
        cycle: &Cycle,
        view: &View<'_>,
    ) {
        let Some(of_profile) = self.profiles.get_mut(&profile.scheduler_name) else { return };
        if of_profile.has_late(profile, pod)
            && !matches!(cycle.result, CycleResult::Found { .. })
            && let Some(class) = of_profile.class(profile, pod, view)
        {
            self.note_late_in_vain(profile, class);
        }
    }
}

/// So many classes are remembered for which no node was found; beyond that all are forgotten.
const MOST_IN_VAIN: usize = 1 << 12;

impl ProfileMemo {
    /// The late filters that have something to say about a pod, in their order. `None` if one of them rejects
    /// it, or names its nodes.
    fn late_filters(
        &self,
        profile: &Profile,
        pod: &PodInfo,
        view: &View<'_>,
    ) -> Option<Vec<Prepared>> {
        let mut shared = CycleState::new();
        let mut late = Vec::new();
        for (index, _) in profile.indices(Point::PreFilter) {
            if !self.late.contains(&index) {
                continue;
            }
            let Some(filter) = &profile.get(index).points.filter else { continue };
            let prepared = filter.prepare(pod, &mut shared, view);
            if prepared.rejection().is_some() || prepared.candidates() != Candidates::All {
                return None;
            }
            if !prepared.skips() {
                late.push((self.late.iter().position(|&other| other == index), prepared));
            }
        }
        late.sort_by_key(|&(place, _)| place);
        Some(late.into_iter().map(|(_, prepared)| prepared).collect())
    }

    /// Whether a late filter has something to say about a pod.
    pub(super) fn has_late(&self, profile: &Profile, pod: &PodInfo) -> bool {
        self.late.iter().any(|&index| {
            let filter = &profile.get(index).points.filter;
            filter.as_ref().is_some_and(|filter| filter.applies(pod))
        })
    }
}

/// Whether the pod names the nodes on which it may be: they are few.
fn names_nodes(profile: &Profile, pod: &PodInfo, view: &View<'_>) -> bool {
    let (_, filters) = shape::filters(profile, pod, MadeBy::All, view);
    filters.iter().any(|filter| filter.candidates() != Candidates::All)
}
