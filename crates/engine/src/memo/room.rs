//! How many equal pods fit on some of the nodes, counted without placing them.
//!
//! A pod takes from its node what it requests. If that is all that matters to an equal pod, each node has room for a number of
//! them, and it makes no difference which of them gets which node.

use plimsoll_api::Resources;
use plimsoll_framework::{Columns, Needs, Neighbour, Row};
use smallvec::SmallVec;

use super::Memo;
use super::choose::Chooser;
use super::decide::{RankedBy, Recognised};
use super::profile_memo::SignatureCaches;
use super::sampled::CandidateOfGroup;
use super::scan;
use super::signatures::SignatureId;
use crate::unit::{Member, Snapshot};

/// The room for equal pods.
pub(crate) struct Room<'m> {
    chooser: Chooser<'m>,
    candidate_of: CandidateOfGroup,
    needs: SmallVec<[Needs; 2]>,
    /// What a pod takes.
    takes: &'m Resources,
    nodes: &'m Columns,
}

impl Recognised {
    /// The signature and the caches, if nothing else judges the member.
    fn only_cached(&self) -> Option<(SignatureId, SignatureCaches)> {
        match self {
            Recognised::Cached(signature, caches, None) => Some((*signature, *caches)),
            Recognised::Cached(_, _, Some(_)) | Recognised::Decided(_) => None,
        }
    }
}

impl Memo {
    /// The room for members, which all have the same profile. `None` if they are not all equal, or if one on a node matters to
    /// others by more than what it requests. [`Memo::follow`] must have been called after the last change.
    pub(crate) fn room_for<'m>(
        &'m mut self,
        members: &[Member<'m>],
        on: Snapshot<'m>,
    ) -> Option<Room<'m>> {
        let &first = members.first()?;
        if !on.nominated.is_empty() {
            return None;
        }
        let mut signature = None;
        for &member in members {
            let (own, _) = self.recognise(member, on)?.only_cached()?;
            if *signature.get_or_insert(own) != own {
                return None;
            }
        }
        // Recognising another member may have dropped caches.
        let known = self.recognise(first, on)?.only_cached()?;
        let RankedBy { with, .. } = self.bring_up_for(first, known, on)?;
        let needs = scan::needs_of(first.profile, first.pod, on.view.nodes)?;
        let node_set = self.node_set.as_ref().expect("it was built when changes were followed");
        let (caches, cluster) = ((&self.rankings, &self.counts), node_set.with(on.view));
        let chooser = Chooser::of(caches, with, cluster)?;
        let counted_as = Neighbour::from(&**first.pod);
        if chooser.domain_counts.are_moved_by(counted_as).unwrap_or(true) {
            return None;
        }
        let candidate_of = CandidateOfGroup::new(&chooser, &chooser.feasible_now());
        let (takes, nodes) = (&first.pod.requests, on.view.nodes);
        Some(Room { chooser, candidate_of, needs, takes, nodes })
    }
}

impl Room<'_> {
    /// How many of the pods fit on the nodes in `rows` together, at most `most`.
    pub(crate) fn on(&self, rows: &[Row], most: usize) -> usize {
        let mut n = 0_usize;
        for &row in rows {
            n = most.min(n.saturating_add(self.on_node(row)));
            if n == most {
                break;
            }
        }
        n
    }

    fn on_node(&self, row: Row) -> usize {
        let index = self.chooser.cluster.name_order.index(row);
        if self.candidate_of.look(&self.chooser, index).is_none() {
            return 0;
        }
        let times = self.needs.iter().map(|needs| needs.times_met(self.nodes, row, self.takes));
        times.min().unwrap_or(usize::MAX)
    }
}
