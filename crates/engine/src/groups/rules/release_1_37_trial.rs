//! The trial of a tree of groups under the rules of 1.37: each group on its placements, each member on the cluster with those before
//! it. As in PodGroupSchedulingAlgorithm.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_api::Str;
use plimsoll_framework::{
    CycleState, GroupMisfit, GroupPlacement, PlacementFeasibility, PlacementProgress,
    PodGroupState, PodInfo, Row, Time,
};

use super::on_placement::{OnPlacement, feasible_of};
use crate::binding::Unbound;
use crate::cycle;
use crate::filters::Filters;
use crate::groups::decision::PlacementDecision;
use crate::groups::placements::is_needless;
use crate::groups::trial::{MemberChoice, MemberTrial, Permits, Placed, Purpose};
use crate::groups::{GroupCycle, GroupNode, NO_PLACEMENTS};
use crate::metrics::{CycleMeter, Lap};
use crate::scheduler::Scheduler;
use crate::unit::Snapshot;

const NOBODY: &str = "no pods were schedulable";

/// The status of a group in its cycle.
#[derive(Clone, Debug)]
pub(in crate::groups) enum NodeStatus {
    /// It fits.
    Success,
    /// It does not fit.
    Unschedulable(Misfit),
    /// It could not be judged.
    Error(String),
}

/// Why a group does not fit.
#[derive(Clone, Debug, Default)]
pub(in crate::groups) struct Misfit {
    pub(in crate::groups) text: String,
    /// The plugins that say so: an event that helps them may help the group.
    pub(super) rejectors: BTreeSet<&'static str>,
}

/// What a trial came to for one group of the tree.
pub(in crate::groups) struct NodeResult {
    pub(in crate::groups) status: NodeStatus,
    /// What it came to for each member, in their order; none for a group of groups.
    pub(in crate::groups) members: Vec<MemberTrial>,
    /// What members are told that were not tried.
    pub(in crate::groups) untried: NodeStatus,
    /// Whether some pod of it got a node.
    any_scheduled: bool,
    pub(in crate::groups) placements: Vec<PlacementDecision>,
    pub(in crate::groups) placement: Option<Str>,
}

/// What a trial came to for groups of the tree, by their numbers. A group that was not tried has no result.
pub(in crate::groups) type Results = BTreeMap<usize, NodeResult>;

/// A trial of a tree.
#[derive(Clone, Copy)]
pub(super) struct TreeTrial<'a> {
    pub(super) now: Time,
    pub(super) group: &'a GroupCycle,
    pub(super) purpose: Purpose,
}

/// The end of a trial of equal members.
struct CountedEnd {
    progress: PlacementProgress,
    n_tried: usize,
    n_fitting: usize,
}

/// A member with its node.
pub(in crate::groups) struct Assigned {
    /// Its place among the members.
    pub(in crate::groups) member: usize,
    pub(in crate::groups) row: Row,
    /// What plugins shared in its cycle.
    pub(in crate::groups) shared: CycleState,
}

impl NodeResult {
    fn new(node: &GroupNode, status: NodeStatus) -> Self {
        let n_members = if node.is_leaf() { node.members.len() } else { 0 };
        NodeResult {
            untried: status.clone(),
            status,
            members: (0..n_members).map(|_| MemberTrial::Untried).collect(),
            any_scheduled: false,
            placements: Vec::new(),
            placement: None,
        }
    }

    fn unschedulable(node: &GroupNode, text: &str) -> Self {
        let misfit = Misfit { text: text.to_owned(), rejectors: BTreeSet::new() };
        NodeResult::new(node, NodeStatus::Unschedulable(misfit))
    }

    pub(super) fn is_success(&self) -> bool {
        matches!(self.status, NodeStatus::Success)
    }

    fn is_error(&self) -> bool {
        matches!(self.status, NodeStatus::Error(_))
    }

    /// Says that it fits on none of `n` placements.
    fn fits_on_none_of(&mut self, n: usize) {
        if let NodeStatus::Unschedulable(misfit) = &mut self.status {
            let first = std::mem::take(&mut misfit.text);
            misfit.text =
                format!("0/{n} placements are available, first placement status: {first}");
        }
    }

    /// Adds what a plugin says to the status.
    pub(in crate::groups) fn append(&mut self, says: &str) {
        if let NodeStatus::Unschedulable(misfit) = &mut self.status
            && !says.is_empty()
        {
            misfit.text = format!("{}, {says}", misfit.text);
        }
    }
}

impl Scheduler {
    /// Tries the whole tree, and takes everything back.
    pub(super) fn try_tree(&mut self, trial: TreeTrial<'_>) -> Results {
        let (results, placed) = self.try_whole_tree(trial);
        self.take_all_back(trial.now, placed);
        results
    }

    /// The same, but if all members fit, they stay on their nodes where they may.
    pub(super) fn try_tree_to_stay(&mut self, trial: TreeTrial<'_>) -> Results {
        let (mut results, placed) = self.try_whole_tree(trial);
        let fits = results[&trial.group.root.number].is_success() && !self.awaits_extenders();
        if !fits || !self.may_stay(&trial.group.attempts, &placed) {
            self.take_all_back(trial.now, placed);
            return results;
        }
        let mut staying = self.stay(trial.group.root.leaves(), placed);
        for node in trial.group.root.all() {
            let own = results.get_mut(&node.number).expect("all groups with members were tried");
            for member in &mut own.members {
                if let MemberTrial::Fits { stays, .. } = member {
                    *stays = staying.next();
                }
            }
        }
        results
    }

    /// Tries the whole tree. Returns the members that are on nodes then.
    fn try_whole_tree(&mut self, trial: TreeTrial<'_>) -> (Results, Vec<Placed>) {
        let root = &trial.group.root;
        let mut placed = Vec::new();
        let mut results = self.try_node(trial, root, None, &mut placed);
        let of_root = results.get_mut(&root.number).expect("the root was tried");
        if of_root.is_success() && !of_root.any_scheduled {
            of_root.status = NodeResult::unschedulable(root, NOBODY).status;
        }
        (results, placed)
    }

    /// Tries the group of a dry run, and returns which node each member gets.
    pub(in crate::groups) fn assign_group(
        &mut self,
        now: Time,
        group: &GroupCycle,
    ) -> Result<Vec<Assigned>, GroupMisfit> {
        let mut results = self.try_tree(TreeTrial { now, group, purpose: Purpose::DryRun });
        match &results[&group.root.number].status {
            NodeStatus::Success => {}
            NodeStatus::Unschedulable(misfit) => {
                return Err(GroupMisfit::Unschedulable(misfit.text.clone().into()));
            }
            NodeStatus::Error(error) => return Err(GroupMisfit::Error(error.clone().into())),
        }
        complete(&group.root, &NodeStatus::Success, &mut results);
        Ok(assigned(&group.root, &results))
    }

    /// Whether a pod passes all filters on a node, on the cluster as it is.
    pub(in crate::groups) fn passes_on(&self, pod: &PodInfo, row: Row) -> bool {
        let view = self.cache.view();
        let (mut shared, mut meter) = (CycleState::new(), CycleMeter::default());
        let profile = self.profile_of(pod);
        let filters = Filters::prepare(profile, pod, &mut shared, &view, &mut meter);
        filters.is_ok_and(|filters| filters.pass(pod, Snapshot::of(view, &self.nominated), row))
    }

    /// Tries one group of the tree on each of its placements among the nodes `within`, and takes the best. Its members stay
    /// on their nodes if it fits: they are added to `placed`.
    fn try_node(
        &mut self,
        trial: TreeTrial<'_>,
        node: &GroupNode,
        within: Option<&[Row]>,
        placed: &mut Vec<Placed>,
    ) -> Results {
        if !self.options.gates.groups.topology_aware {
            return self.try_level(trial, node, within, placed);
        }
        let all = within.map_or_else(|| self.cache.view().nodes.rows().collect(), <[Row]>::to_vec);
        let first = &trial.group.pods[0];
        match self.placements_of(first, &trial.group.in_cycle(node), &all) {
            Err(error) => of(node, NodeResult::new(node, NodeStatus::Error(error))),
            Ok(None) => {
                self.count_generated(trial, 1);
                let lap = self.counts.start();
                let mut results = self.try_level(trial, node, within, placed);
                let own = results.get_mut(&node.number).expect("it was tried");
                self.count_evaluated(trial, own, lap);
                own.fits_on_none_of(1);
                own.untried = own.status.clone();
                results
            }
            Ok(Some(placements)) if placements.is_empty() => {
                of(node, NodeResult::unschedulable(node, NO_PLACEMENTS))
            }
            Ok(Some(placements)) => self.try_placements(trial, node, placements, placed),
        }
    }

    fn try_placements(
        &mut self,
        trial: TreeTrial<'_>,
        node: &GroupNode,
        placements: Vec<GroupPlacement>,
        placed: &mut Vec<Placed>,
    ) -> Results {
        let members = &trial.group.attempts[node.members.clone()];
        let named = |placement| self.placement_decision(placement, members);
        let mut decisions: Vec<_> = placements.iter().map(named).collect();
        self.count_generated(trial, placements.len());
        let room = self.room_on(trial.group, node, &placements, trial.purpose);
        let is_audited = room.is_some() && self.audit.is_due();
        // What is left to chance on one placement does not depend on the trials before it.
        let rng = self.rng.clone();
        let (mut tried, mut fits) = (Vec::<OnPlacement<Results>>::new(), false);
        for (at, placement) in placements.into_iter().enumerate() {
            if is_needless(&placement, tried.last().map(|last| &last.placement), fits) {
                break;
            }
            let room = room.as_ref().map(|room| room[at]);
            let counted = room.filter(|_| !is_audited);
            let on = counted.and_then(|room| self.count_on(trial, node, &placement, room));
            let on = on.map_or_else(
                || {
                    self.rng = rng.clone();
                    self.try_on(trial, node, placement, room)
                },
                Ok,
            );
            match on {
                Ok(on) => {
                    fits |= on.fits;
                    tried.push(on);
                }
                Err(mut results) => {
                    let own = results.get_mut(&node.number).expect("it was tried");
                    own.placements = decisions;
                    return results;
                }
            }
        }
        decisions.truncate(tried.len());
        let feasible = feasible_of(&tried);
        let (first, in_cycle) = (&trial.group.pods[0], trial.group.in_cycle(node));
        let chosen = match self.best_placement(first, &in_cycle, &feasible, &mut decisions) {
            Ok(chosen) => chosen,
            Err(error) => return of(node, NodeResult::new(node, NodeStatus::Error(error))),
        };
        let n_tried = tried.len();
        let OnPlacement { placement, result, .. } = tried.swap_remove(chosen.unwrap_or(0));
        let (mut results, again) = match result {
            Some((results, rng)) => {
                self.rng = rng;
                let again = chosen.map(|_| self.place_again(trial, node, &results, placed));
                (results, again.unwrap_or(Ok(())))
            }
            None => (self.place_counted(trial, node, &placement.rows, placed), Ok(())),
        };
        let own = results.get_mut(&node.number).expect("it was tried");
        own.placements = decisions;
        match (chosen, again) {
            (None, _) => {
                own.fits_on_none_of(n_tried);
                own.untried = own.status.clone();
            }
            (Some(_), Ok(())) => own.placement = Some(placement.name),
            (Some(_), Err(error)) => {
                let status = NodeStatus::Error(format!("failed to assume the subtree: {error}"));
                return of(node, NodeResult::new(node, status));
            }
        }
        results
    }

    /// Tries a group on one placement, and takes it back. `room` is for how many members there is room, if that was counted. If
    /// it could not be judged, what came of it is the error.
    fn try_on(
        &mut self,
        trial: TreeTrial<'_>,
        node: &GroupNode,
        placement: GroupPlacement,
        room: Option<usize>,
    ) -> Result<OnPlacement<Results>, Results> {
        let (mut on_trial, lap) = (Vec::new(), self.counts.start());
        let results = self.try_level(trial, node, Some(&placement.rows), &mut on_trial);
        self.take_all_back(trial.now, on_trial);
        let own = &results[&node.number];
        self.count_evaluated(trial, own, lap);
        if own.is_error() {
            return Err(results);
        }
        if let Some(room) = room {
            let got = own.members.iter().filter(|one| matches!(one, MemberTrial::Fits { .. }));
            let (room, got) = (self.progress_in(trial, node, room).n_fitting, got.count());
            let first = &trial.group.pods[node.members.start].key;
            if !self.audit.compare_room(first, &placement.name, room, got) {
                self.forget_derived();
            }
        }
        let member = |one: Assigned| (trial.group.pods[one.member].clone(), one.row);
        let members = assigned(node, &results).into_iter().map(member).collect();
        let fits = own.is_success();
        Ok(OnPlacement { placement, fits, members, result: Some((results, self.rng.clone())) })
    }

    /// The same for a group of equal members, of which there is room for so many. `None` if it cannot be judged.
    fn count_on(
        &mut self,
        trial: TreeTrial<'_>,
        node: &GroupNode,
        placement: &GroupPlacement,
        room: usize,
    ) -> Option<OnPlacement<Results>> {
        let lap = self.counts.start();
        let end = self.progress_in(trial, node, room);
        let result = NodeResult::new(node, self.feasible(trial, node, end.progress));
        if result.is_error() {
            return None;
        }
        self.count_evaluated(trial, &result, lap);
        self.count_judged(end.n_tried * placement.rows.len());
        let fits = result.is_success();
        let proposed = trial.group.pods[node.members.clone()].iter().take(end.n_fitting);
        let members = proposed.filter(|_| fits).map(|pod| (pod.clone(), placement.rows[0]));
        let members = members.collect();
        Some(OnPlacement { placement: placement.clone(), fits, members, result: None })
    }

    /// Places a group on a placement where its members were counted. The nodes that are judged for that are counted already.
    fn place_counted(
        &mut self,
        trial: TreeTrial<'_>,
        node: &GroupNode,
        rows: &[Row],
        placed: &mut Vec<Placed>,
    ) -> Results {
        let next_start = self.next_start;
        let results = self.try_level(trial, node, Some(rows), placed);
        self.next_start = next_start;
        results
    }

    /// How a trial of equal members ends if there is room for so many.
    fn progress_in(&self, trial: TreeTrial<'_>, node: &GroupNode, room: usize) -> CountedEnd {
        let mut progress = self.begin(node);
        let (mut n_tried, mut n_fitting) = (0, 0);
        while 0 < progress.remaining && self.may_still_fit(trial, node, progress) {
            n_tried += 1;
            progress.remaining -= 1;
            if n_fitting < room {
                n_fitting += 1;
                progress.scheduled += 1;
            }
        }
        CountedEnd { progress, n_tried, n_fitting }
    }

    /// How far a PodGroup is before its first member is tried.
    fn begin(&self, node: &GroupNode) -> PlacementProgress {
        let groups = &self.cache.view().stores.groups;
        PlacementProgress {
            scheduled: groups.get(node.group.key()).map_or(0, PodGroupState::n_placed),
            remaining: node.members.len(),
        }
    }

    /// Counts placements of a group that has its turn, or is tried without its victims.
    fn count_generated(&mut self, trial: TreeTrial<'_>, n_placements: usize) {
        if trial.purpose != Purpose::Question {
            let profile = self.profile_of(&trial.group.pods[0]).index;
            self.counts.groups.generated(profile, n_placements);
        }
    }

    /// Counts a trial on one placement that began at `lap`. As in schedule_one_podgroup.go: an error is no verdict.
    fn count_evaluated(&mut self, trial: TreeTrial<'_>, result: &NodeResult, lap: Lap) {
        if trial.purpose != Purpose::Question && !result.is_error() {
            let profile = self.profile_of(&trial.group.pods[0]).index;
            self.counts.placement_evaluated(profile, result.is_success(), lap);
        }
    }

    /// Places the members of a group again where they were placed on trial.
    fn place_again(
        &mut self,
        trial: TreeTrial<'_>,
        node: &GroupNode,
        results: &Results,
        placed: &mut Vec<Placed>,
    ) -> Result<(), String> {
        let mut again = Vec::new();
        for one in assigned(node, results) {
            let attempt = &trial.group.attempts[one.member];
            let on = (one.row, one.shared);
            let reserved =
                self.place_on_trial(trial.now, attempt, on, Permits::Unasked, &mut again);
            if let Err(why) = reserved {
                self.take_all_back(trial.now, again);
                return Err(match why {
                    Unbound::Rejected { why, .. } | Unbound::TooLate(why) => why.to_string(),
                    Unbound::Error(error) => error,
                });
            }
        }
        placed.extend(again);
        Ok(())
    }

    /// Tries one group of the tree on the nodes `within`. If it does not fit, everything is taken back.
    fn try_level(
        &mut self,
        trial: TreeTrial<'_>,
        node: &GroupNode,
        within: Option<&[Row]>,
        placed: &mut Vec<Placed>,
    ) -> Results {
        let within = within.filter(|rows| rows.len() < self.cache.view().nodes.len());
        let (mut results, mut own) = (Results::new(), Vec::new());
        let result = match node.is_leaf() {
            true => self.try_members(trial, node, within, &mut own),
            false => self.try_children(trial, node, within, (&mut results, &mut own)),
        };
        if result.is_success() {
            placed.extend(own);
        } else {
            self.take_all_back(trial.now, own);
        }
        results.insert(node.number, result);
        results
    }

    /// Tries the pods of a group, each on the cluster with those before it.
    fn try_members(
        &mut self,
        trial: TreeTrial<'_>,
        node: &GroupNode,
        within: Option<&[Row]>,
        placed: &mut Vec<Placed>,
    ) -> NodeResult {
        let mut progress = self.begin(node);
        let mut result = NodeResult::new(node, NodeStatus::Success);
        let mut any = false;
        for member in node.members.clone() {
            if !self.may_still_fit(trial, node, progress) {
                break;
            }
            let tried = self.try_member(trial, member, within, placed);
            progress.remaining -= 1;
            let fits = matches!(tried, MemberTrial::Fits { .. });
            progress.scheduled += usize::from(fits);
            if let MemberTrial::Error(error) = &tried {
                let text = format!("failed to schedule other pod from a pod group: {error}");
                result.status = NodeStatus::Error(text);
            }
            result.members[member - node.members.start] = tried;
            any |= fits;
            if result.is_error() {
                break;
            }
        }
        self.judged(trial, node, (result, any), progress)
    }

    /// Tries one pod, and places it if it fits.
    fn try_member(
        &mut self,
        trial: TreeTrial<'_>,
        member: usize,
        within: Option<&[Row]>,
        placed: &mut Vec<Placed>,
    ) -> MemberTrial {
        let attempt = &trial.group.attempts[member];
        let (choice, cycle) = self.decide_on_trial(attempt, trial.purpose, within, false);
        let row = match choice {
            MemberChoice::Node(row) => row,
            MemberChoice::Nowhere(failure) => return MemberTrial::Unfit { failure, cycle },
            MemberChoice::Error(error) => return MemberTrial::Error(error),
        };
        let on = (row, cycle.shared.clone());
        match self.place_on_trial(trial.now, attempt, on, Permits::Unasked, placed) {
            Ok(_) => MemberTrial::Fits { row, cycle, stays: None },
            Err(Unbound::Rejected { plugin, why }) => {
                let failure = Box::new(cycle::rejected_on_its_node(plugin, &why));
                MemberTrial::Unfit { failure, cycle }
            }
            Err(Unbound::TooLate(why)) => MemberTrial::Error(why.to_string()),
            Err(Unbound::Error(error)) => MemberTrial::Error(error),
        }
    }

    /// Tries the groups of a group, each on the cluster with those before it. One that does not fit is left out if the count
    /// allows it.
    fn try_children(
        &mut self,
        trial: TreeTrial<'_>,
        node: &GroupNode,
        within: Option<&[Row]>,
        (results, placed): (&mut Results, &mut Vec<Placed>),
    ) -> NodeResult {
        let mut progress = PlacementProgress { scheduled: 0, remaining: node.children.len() };
        let mut result = NodeResult::new(node, NodeStatus::Success);
        let mut any = false;
        for child in &node.children {
            if !self.may_still_fit(trial, node, progress) {
                break;
            }
            results.append(&mut self.try_node(trial, child, within, placed));
            let of_child = &results[&child.number];
            if let NodeStatus::Error(error) = &of_child.status {
                let text =
                    format!("composite pod group evaluation failed due to child error: {error}");
                result.status = NodeStatus::Error(text);
                break;
            }
            any |= of_child.any_scheduled;
            progress.remaining -= 1;
            progress.scheduled += usize::from(of_child.is_success());
        }
        self.judged(trial, node, (result, any), progress)
    }

    /// The result once nothing more is tried. `any` says whether some pod got a node.
    fn judged(
        &self,
        trial: TreeTrial<'_>,
        node: &GroupNode,
        (mut result, any): (NodeResult, bool),
        progress: PlacementProgress,
    ) -> NodeResult {
        if !result.is_error() {
            result.status = self.feasible(trial, node, progress);
        }
        result.untried = result.status.clone();
        result.any_scheduled = any && result.is_success();
        result
    }

    /// Whether no PlacementFeasible plugin says that the group does not fit, whatever remains.
    fn may_still_fit(
        &self,
        trial: TreeTrial<'_>,
        node: &GroupNode,
        progress: PlacementProgress,
    ) -> bool {
        let in_cycle = trial.group.in_cycle(node);
        let mut points = self.profile_of(&trial.group.pods[0]).plugins().iter();
        points.all(|plugin| {
            let point = plugin.points.placement_feasible.as_ref();
            point.is_none_or(|point| point.may_still_fit(&in_cycle, progress))
        })
    }

    /// Asks the PlacementFeasible plugins for the status if nothing more fits.
    fn feasible(
        &self,
        trial: TreeTrial<'_>,
        node: &GroupNode,
        progress: PlacementProgress,
    ) -> NodeStatus {
        let in_cycle = trial.group.in_cycle(node);
        let mut status = NodeStatus::Success;
        for plugin in self.profile_of(&trial.group.pods[0]).plugins() {
            let Some(point) = &plugin.points.placement_feasible else { continue };
            let misfit = |text: String| {
                let rejectors = BTreeSet::from([plugin.name]);
                NodeStatus::Unschedulable(Misfit { text, rejectors })
            };
            match point.placement_feasible(&in_cycle, progress) {
                PlacementFeasibility::Feasible => {}
                PlacementFeasibility::NotYet(why) => {
                    if matches!(status, NodeStatus::Success) {
                        status = misfit(why.to_string());
                    }
                }
                PlacementFeasibility::Infeasible(why) => return misfit(why.to_string()),
                PlacementFeasibility::Error(why) => {
                    let text = format!(
                        "failed to evaluate placement feasibility: running PlacementFeasible plugin {:?}: {why}",
                        plugin.name
                    );
                    return NodeStatus::Error(text);
                }
            }
        }
        status
    }
}

/// The result of one group.
fn of(node: &GroupNode, result: NodeResult) -> Results {
    Results::from([(node.number, result)])
}

/// The members with nodes of the groups that fit, together with all groups above them.
pub(super) fn assigned(node: &GroupNode, results: &Results) -> Vec<Assigned> {
    let Some(own) = results.get(&node.number).filter(|own| own.is_success()) else {
        return Vec::new();
    };
    let members = own.members.iter().enumerate().filter_map(|(at, member)| match member {
        MemberTrial::Fits { row, cycle, .. } => Some(Assigned {
            member: node.members.start + at,
            row: *row,
            shared: cycle.shared.clone(),
        }),
        _ => None,
    });
    let mut all: Vec<Assigned> = members.collect();
    all.extend(node.children.iter().flat_map(|child| assigned(child, results)));
    all
}

/// Gives each group a result that has none: that of the group above it. A group does not fit if the group above it does not. As
/// in completeCompositePodGroupAlgorithmResultMap.
pub(super) fn complete(node: &GroupNode, above: &NodeStatus, results: &mut Results) {
    let own = results.entry(node.number).or_insert_with(|| NodeResult::new(node, above.clone()));
    let fails = !matches!(above, NodeStatus::Success);
    let errs = matches!(above, NodeStatus::Error(_));
    if (fails && own.is_success()) || (errs && !own.is_error()) {
        own.status = above.clone();
        own.untried = above.clone();
    }
    let status = own.status.clone();
    for child in &node.children {
        complete(child, &status, results);
    }
}
