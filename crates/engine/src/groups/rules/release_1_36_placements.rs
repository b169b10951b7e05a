//! The placements of a group under the rules of 1.36. As in schedule_one_podgroup.go of 1.36, podGroupSchedulingPlacementAlgorithm.

use plimsoll_framework::{GroupPlacement, PodInfo, Point, PostFilterAnswer, Time};

use super::on_placement::{OnPlacement, feasible_of};
use super::release_1_36::{GroupOutcome, Trial, TrialResult, UNSCHEDULABLE, none_of};
use crate::effect::Effect;
use crate::groups::GroupCycle;
use crate::groups::placements::is_needless;
use crate::groups::trial::Purpose;
use crate::scheduler::Scheduler;

impl Scheduler {
    /// Tries all placements, and chooses the best of those on which the group fits.
    pub(super) fn choose_placement(
        &mut self,
        now: Time,
        group: &GroupCycle,
        placements: Vec<GroupPlacement>,
        (purpose, mut effects): (Purpose, Option<&mut Vec<Effect>>),
    ) -> GroupOutcome {
        let (mut tried, mut is_found) = (Vec::<OnPlacement<Trial>>::new(), false);
        let widest = placements.last().map_or(0, |last| last.level);
        let of = |placement| self.placement_decision(placement, &group.attempts);
        let mut decisions: Vec<_> = placements.iter().map(of).collect();
        let room = self.room_as_1_36(group, &placements, (purpose, effects.is_some()));
        let is_audited = room.is_some() && self.audit.is_due();
        // What is left to chance on one placement does not depend on the trials before it.
        let rng = self.rng.clone();
        // What Permit says of members that get a node: the same on each placement, where they are counted.
        let mut permits: Vec<bool> = Vec::new();
        for (at, placement) in placements.into_iter().enumerate() {
            if is_needless(&placement, tried.last().map(|last| &last.placement), is_found) {
                break;
            }
            let room = room.as_ref().map(|room| room[at]);
            let known = room.filter(|room| !is_audited && *room <= permits.len());
            let on = if let Some(room) = known {
                let fits = room.checked_sub(1).is_some_and(|last| permits[last]);
                self.count_on_as_1_36(group, placement, (room, fits))
            } else {
                self.rng = rng.clone();
                // Nobody is evicted for a domain that is only preferred.
                let effects = effects.as_deref_mut().filter(|_| placement.level == widest);
                let audited = room.filter(|_| is_audited);
                match self.try_on_as_1_36(now, group, (placement, audited), (purpose, effects)) {
                    Ok((on, of_members)) => {
                        if permits.len() < of_members.len() {
                            permits = of_members;
                        }
                        on
                    }
                    Err(outcome) => {
                        return GroupOutcome { placements: decisions, ..*outcome };
                    }
                }
            };
            is_found |= on.fits;
            tried.push(on);
        }
        decisions.truncate(tried.len());
        let feasible = feasible_of(&tried);
        let (first, in_cycle) = (&group.pods[0], group.in_cycle(&group.root));
        let chosen = match self.best_placement(first, &in_cycle, &feasible, &mut decisions) {
            Ok(chosen) => chosen,
            Err(error) => {
                let trial = Trial::untried(group, TrialResult::Error(error.clone()));
                return GroupOutcome { placements: decisions, ..GroupOutcome::of(trial, error) };
            }
        };
        let n_tried = tried.len();
        let OnPlacement { placement, result, .. } = tried.swap_remove(chosen.unwrap_or(0));
        let trial = if let Some((trial, after)) = result {
            self.rng = after;
            trial
        } else {
            // The nodes that are judged for that are counted already.
            let next_start = self.next_start;
            self.rng = rng;
            let effects = effects.filter(|_| placement.level == widest);
            let on = (purpose, effects);
            let trial = self.try_group_to_stay(now, group, Some(&placement.rows), on);
            self.next_start = next_start;
            trial
        };
        match chosen {
            None => {
                GroupOutcome { placements: decisions, ..GroupOutcome::of(trial, none_of(n_tried)) }
            }
            Some(_) => GroupOutcome {
                placements: decisions,
                placement: Some(placement.name),
                ..GroupOutcome::of(trial, UNSCHEDULABLE.to_owned())
            },
        }
    }

    /// Tries all members on a placement, and takes them back. Returns also what Permit said of those that got a node. `audited` is
    /// for how many there should be room. If the group could not be judged, what came of it is the error.
    fn try_on_as_1_36(
        &mut self,
        now: Time,
        group: &GroupCycle,
        (placement, audited): (GroupPlacement, Option<usize>),
        on: (Purpose, Option<&mut Vec<Effect>>),
    ) -> Result<(OnPlacement<Trial>, Vec<bool>), Box<GroupOutcome>> {
        let mut trial = self.try_group(now, group, Some(&placement.rows), on);
        if let TrialResult::Error(error) = &trial.result {
            let error = error.clone();
            return Err(Box::new(GroupOutcome::of(trial, error)));
        }
        if let Some(room) = audited {
            let (first, got) = (&group.pods[0].key, trial.proposed.len());
            if !self.audit.compare_room(first, &placement.name, room, got) {
                self.forget_derived();
            }
        }
        let permits = std::mem::take(&mut trial.permits);
        let (fits, members) = (trial.fits(), trial.proposed.clone());
        let result = Some((trial, self.rng.clone()));
        Ok((OnPlacement { placement, fits, members, result }, permits))
    }

    /// For how many members there is room on each placement, at most for all. `None` if that cannot be counted, or if it does not
    /// say which of them fit: Permit may say something else on another node, or a member may make room for itself.
    fn room_as_1_36(
        &mut self,
        group: &GroupCycle,
        placements: &[GroupPlacement],
        (purpose, asks_post_filter): (Purpose, bool),
    ) -> Option<Vec<usize>> {
        let profile = self.profile_of(&group.pods[0]);
        let looks = profile.at(Point::Permit).any(|(plugin, _)| {
            let point = plugin.points.permit.as_ref();
            point.is_some_and(|point| point.looks_at_node() || point.looks_at_pods())
        });
        if looks || (asks_post_filter && !self.nobody_makes_room(&group.pods)) {
            return None;
        }
        self.room_on(group, &group.root, placements, purpose)
    }

    /// Whether the PostFilter plugins say of each of these pods that no room can be made for it, wherever it was rejected.
    fn nobody_makes_room(&self, pods: &[PodInfo]) -> bool {
        let view = self.cache.view();
        pods.iter().all(|pod| {
            let profile = self.profile_of(pod);
            profile.at(Point::PostFilter).all(|(plugin, _)| {
                let Some(point) = &plugin.points.post_filter else { return true };
                let mut filters = profile.at(Point::PreFilter).chain(profile.at(Point::Filter));
                let has_looked = filters.any(|(filter, _)| {
                    filter.name == plugin.name && filter.points.filter.is_some()
                });
                let answer = point.without_nodes(pod, has_looked);
                let answer = answer.or_else(|| point.without_rejections(pod, &view));
                let answer =
                    answer.or_else(|| point.by_node_on(&view)?.without_dry_run(pod, None, &view));
                matches!(answer, Some(PostFilterAnswer::Unschedulable(_)))
            })
        })
    }

    /// What a placement comes to on which so many equal members fit.
    fn count_on_as_1_36(
        &mut self,
        group: &GroupCycle,
        placement: GroupPlacement,
        (room, fits): (usize, bool),
    ) -> OnPlacement<Trial> {
        self.count_judged(group.pods.len() * placement.rows.len());
        let members = group.pods.iter().take(room).filter(|_| fits);
        let members = members.map(|pod| (pod.clone(), placement.rows[0])).collect();
        OnPlacement { placement, fits, members, result: None }
    }
}
