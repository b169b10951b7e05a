//! How many members of a group fit on each of its placements, counted without placing them.

use plimsoll_framework::points::PlacementScorePoint;
use plimsoll_framework::{GroupPlacement, Point, Row};

use super::trial::Purpose;
use super::{GroupCycle, GroupNode};
use crate::scheduler::{Detail, Scheduler};
use crate::unit::{Member, Snapshot};

impl Scheduler {
    /// For how many members of a PodGroup there is room on each of its placements. `None` if that cannot be counted: members
    /// differ, or one on a node matters to others by more than what it requests, or more is wanted than which placement is the
    /// best.
    pub(super) fn room_on(
        &mut self,
        group: &GroupCycle,
        node: &GroupNode,
        placements: &[GroupPlacement],
        purpose: Purpose,
    ) -> Option<Vec<usize>> {
        let members = &group.pods[node.members.clone()];
        let first = members.first()?;
        let is_plain = node.is_leaf()
            && purpose == Purpose::Cycle
            && self.options.detail <= Detail::Choice
            && self.given.is_empty()
            && members.iter().all(|member| self.extenders.to_ask(member).is_none());
        if !is_plain {
            return None;
        }
        self.refresh_memo();
        let profile = self.profile_of(first);
        let sample = self.sample(profile);
        let leaves_some_out =
            |rows: &[Row]| sample.order(rows.len()).is_some_and(|order| order.limit < rows.len());
        let reserves = profile.at(Point::Reserve).any(|(plugin, _)| {
            let point = plugin.points.reserve.as_ref();
            point.is_some_and(|point| members.iter().any(|member| point.applies(member)))
        });
        let looks_at_nodes = profile.at(Point::PlacementScore).any(|(plugin, _)| {
            plugin.points.placement_score.as_ref().is_some_and(PlacementScorePoint::looks_at_nodes)
        });
        if reserves
            || looks_at_nodes
            || profile.shares_filter_state
            || placements.iter().any(|placement| leaves_some_out(&placement.rows))
        {
            return None;
        }
        let profile = self.profiles.get(&first.scheduler_name)?;
        let members: Vec<Member<'_>> = members.iter().map(|pod| Member { profile, pod }).collect();
        let on = Snapshot::of(self.cache.view(), &self.nominated);
        let room = self.memo.as_mut()?.room_for(&members, on)?;
        let room_on = |one: &GroupPlacement| room.on(&one.rows, members.len());
        let room: Vec<usize> = placements.iter().map(room_on).collect();
        // Without room for a single member there is no trial that could be saved.
        room.iter().any(|&room| 0 < room).then_some(room)
    }
}
