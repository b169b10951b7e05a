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
        let late = of_profile.late_filters(profile, pod, &view)?;
        let known = match self.known(profile, class) {
            Some(known) => known,
            None if names_nodes(profile, pod, &view) => return None,
            None => self.learn(profile, class, pod, view)?,
        };
        self.scan(profile, (class, known), pod, &late, view, want)
    }
}

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
